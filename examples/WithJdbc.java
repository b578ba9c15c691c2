// Snowflake keys with JDBC. PGHOST and the like name the server. To run it:
// java -cp /usr/share/java/postgresql.jar WithJdbc.java
import java.sql.*;
import java.util.*;
import java.util.stream.IntStream;

public class WithJdbc {
	static final String[] KEY = {"id"};

	static List<String> keys(ResultSet rows) throws SQLException {
		List<String> keys = new ArrayList<>();

		while (rows.next())
			keys.add(Long.toString(rows.getLong("id")));
		return keys;
	}

	static String[] items(int from, int to) {
		return IntStream.range(from, to).mapToObj(n -> "item " + n).toArray(String[]::new);
	}

	static void run(Connection conn) throws SQLException {
		try (Statement s = conn.createStatement()) {
			s.execute("CREATE TABLE orders ("
					+ "id bigint PRIMARY KEY DEFAULT snowflake_nextval(),"
					+ "item text NOT NULL)");
			s.execute("CREATE TABLE order_lines ("
					+ "id bigint PRIMARY KEY DEFAULT snowflake_nextval(),"
					+ "order_id bigint NOT NULL REFERENCES orders,"
					+ "note text NOT NULL)");
		}

		// one row: its key comes back as a long, which holds any key
		long key;
		String insert = "INSERT INTO orders (item) VALUES (?)";
		try (PreparedStatement s = conn.prepareStatement(insert, KEY)) {
			s.setString(1, "book");
			s.executeUpdate();
			key = Long.parseLong(keys(s.getGeneratedKeys()).get(0));
			System.out.println("inserted " + key);
		}

		// rows that refer to it
		String lines = "INSERT INTO order_lines (order_id, note) SELECT ?, unnest(?::text[])";
		try (PreparedStatement s = conn.prepareStatement(lines, KEY)) {
			s.setLong(1, key);
			s.setArray(2, conn.createArrayOf("text", new String[] {"wrap it", "quickly"}));
			s.executeUpdate();
			for (String line : keys(s.getGeneratedKeys()))
				System.out.println("line " + line + " of " + key);
		}

		// many rows: in one statement the order of the keys is that of the rows
		String[] items = items(0, 500);
		String many = "INSERT INTO orders (item) SELECT unnest(?::text[])";
		try (PreparedStatement s = conn.prepareStatement(many, KEY)) {
			s.setArray(1, conn.createArrayOf("text", items));
			s.executeUpdate();
			System.out.println("bulk " + String.join(" ", keys(s.getGeneratedKeys())));
		}

		// a batch: if the driver has to return keys, it sends the batch row by row. So
		// take the keys first. Take them in the transaction that inserts, or
		// snowflake_horizon() does not cover the rows.
		conn.setAutoCommit(false);
		items = items(500, 1000);
		List<String> keys;
		try (PreparedStatement s = conn.prepareStatement("SELECT snowflake_nextval_batch(?) AS id")) {
			s.setInt(1, items.length);
			keys = keys(s.executeQuery());
		}
		String both = "INSERT INTO orders (id, item) VALUES (?, ?)";
		try (PreparedStatement s = conn.prepareStatement(both)) {
			for (int n = 0; n < items.length; n++) {
				s.setLong(1, Long.parseLong(keys.get(n)));
				s.setString(2, items[n]);
				s.addBatch();
			}
			s.executeBatch();
		}
		conn.commit();
		System.out.println("bulk " + String.join(" ", keys));

		// page by page: each page begins after the last key of the page before
		String select = "SELECT id, item FROM orders WHERE id > ? ORDER BY id LIMIT 300";
		try (PreparedStatement s = conn.prepareStatement(select)) {
			List<String> page = List.of("0");

			while (true) {
				s.setLong(1, Long.parseLong(page.get(page.size() - 1)));
				page = keys(s.executeQuery());
				if (page.isEmpty())
					break;
				System.out.println("page " + String.join(" ", page));
			}
		}
	}

	public static void main(String[] args) throws SQLException {
		Map<String, String> env = System.getenv();
		String url = "jdbc:postgresql://" + env.get("PGHOST") + ":"
				+ env.get("PGPORT") + "/" + env.get("PGDATABASE")
				+ "?reWriteBatchedInserts=true";	// batches in few statements

		try (Connection conn = DriverManager.getConnection(url,
				env.get("PGUSER"), env.get("PGPASSWORD"))) {
			run(conn);
		}
	}
}
