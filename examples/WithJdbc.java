// Snowflake keys with JDBC. The server is named by PGHOST and the like:
// java -cp /usr/share/java/postgresql.jar WithJdbc.java
import java.sql.*;
import java.util.*;

public class WithJdbc {
	static final String[] KEY = {"id"};

	static List<String> keys(ResultSet rows) throws SQLException {
		List<String> keys = new ArrayList<>();

		while (rows.next())
			keys.add(Long.toString(rows.getLong("id")));
		return keys;
	}

	static void run(Connection conn) throws SQLException {
		try (Statement s = conn.createStatement()) {
			s.execute("CREATE TABLE orders ("
					+ "id bigint PRIMARY KEY DEFAULT snowflake_nextval(),"
					+ "item text NOT NULL)");
		}

		String insert = "INSERT INTO orders (item) VALUES (?)";
		try (PreparedStatement s = conn.prepareStatement(insert, KEY)) {
			// one row: its key comes back as a long, which holds any
			s.setString(1, "book");
			s.executeUpdate();
			System.out.println("inserted " + keys(s.getGeneratedKeys()).get(0));

			// many rows: their keys come back in the order of the rows
			for (int n = 0; n < 1000; n++) {
				s.setString(1, "item " + n);
				s.addBatch();
			}
			s.executeBatch();
			System.out.println("bulk " + String.join(" ", keys(s.getGeneratedKeys())));
		}

		// page by page: a key is the cursor, of any page but the first
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
				+ env.get("PGPORT") + "/" + env.get("PGDATABASE");

		try (Connection conn = DriverManager.getConnection(url,
				env.get("PGUSER"), env.get("PGPASSWORD"))) {
			run(conn);
		}
	}
}
