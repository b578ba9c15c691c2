// Snowflake keys with Hibernate 3.6, which Debian has. PGHOST and the like name the
// server. examples/README.md has the class path.
import java.util.*;
import java.util.function.Function;
import java.util.stream.*;
import javax.persistence.*;
import org.hibernate.Session;
import org.hibernate.SessionFactory;
import org.hibernate.annotations.GenericGenerator;
import org.hibernate.cfg.Configuration;

public class WithHibernate {
	// the default in the database is for clients other than Hibernate
	@MappedSuperclass
	static abstract class Keyed {
		@Id
		@GeneratedValue(generator = "snowflake")
		@GenericGenerator(name = "snowflake", strategy = "Snowflakes")
		@Column(columnDefinition = "bigint DEFAULT snowflake_nextval()")
		Long id;
	}

	@Entity
	@Table(name = "orders")
	static class Purchase extends Keyed {
		@Column(nullable = false)
		String item;

		@OneToMany(mappedBy = "purchase", cascade = CascadeType.ALL)
		List<Line> lines = new ArrayList<>();

		Purchase() {
		}

		Purchase(String item, String... notes) {
			this.item = item;
			for (String note : notes)
				lines.add(new Line(this, note));
		}
	}

	@Entity
	@Table(name = "order_lines")
	static class Line extends Keyed {
		@ManyToOne(optional = false)
		@JoinColumn(name = "order_id", columnDefinition = "bigint")	// else it gets id's default, too
		Purchase purchase;

		@Column(nullable = false)
		String note;

		Line() {
		}

		Line(Purchase purchase, String note) {
			this.purchase = purchase;
			this.note = note;
		}
	}

	static SessionFactory connect() {
		Map<String, String> env = System.getenv();
		String url = "jdbc:postgresql://" + env.get("PGHOST") + ":"
				+ env.get("PGPORT") + "/" + env.get("PGDATABASE")
				+ "?reWriteBatchedInserts=true";	// batches in few statements

		return new Configuration()
				.addAnnotatedClass(Purchase.class)
				.addAnnotatedClass(Line.class)
				.setProperty("hibernate.connection.driver_class", "org.postgresql.Driver")
				.setProperty("hibernate.connection.url", url)
				.setProperty("hibernate.connection.username", env.get("PGUSER"))
				.setProperty("hibernate.connection.password", env.getOrDefault("PGPASSWORD", ""))
				.setProperty("hibernate.dialect", "org.hibernate.dialect.PostgreSQLDialect")
				.setProperty("hibernate.hbm2ddl.auto", "update")
				.setProperty("hibernate.jdbc.batch_size", "50")
				.setProperty("hibernate.order_inserts", "true")	// the rows of a table together
				.buildSessionFactory();
	}

	static <T> T inTransaction(Session session, Function<Session, T> work) {
		session.beginTransaction();
		T result = work.apply(session);
		session.getTransaction().commit();
		return result;
	}

	static <T> T inSession(SessionFactory factory, Function<Session, T> work) {
		Session session = factory.openSession();

		try {
			return work.apply(session);
		} finally {
			session.close();
		}
	}

	static String keys(List<Purchase> orders) {
		return orders.stream().map(order -> order.id.toString()).collect(Collectors.joining(" "));
	}

	static List<Purchase> save(Session session, int from, int to) {
		List<Purchase> orders = IntStream.range(from, to)
				.mapToObj(n -> new Purchase("item " + n)).toList();

		orders.forEach(session::persist);
		return orders;
	}

	@SuppressWarnings("unchecked")
	static List<Purchase> page(Session session, long last) {
		return session.createQuery("from WithHibernate$Purchase p where p.id > :last order by p.id")
				.setLong("last", last).setMaxResults(300).list();
	}

	public static void main(String[] args) {
		SessionFactory factory = connect();

		// one row, and rows that refer to it, one of them in a transaction of its own.
		// The keys are Longs, which hold any key.
		Purchase order = inSession(factory, session -> {
			Purchase one = new Purchase("book", "wrap it");

			inTransaction(session, s -> s.save(one));
			inTransaction(session, s -> one.lines.add(new Line(one, "quickly")));
			return one;
		});
		System.out.println("inserted " + order.id);
		for (Line line : order.lines)
			System.out.println("line " + line.id + " of " + line.purchase.id);

		// many rows, by several threads: 20 batches of 50 rows
		List<Purchase> orders = IntStream.range(0, 4).parallel().boxed()
				.flatMap(n -> inSession(factory, session -> inTransaction(session, s ->
						save(s, n * 250, n * 250 + 250))).stream())
				.toList();
		System.out.println("bulk " + keys(orders));

		// page by page: each page begins after the last key of the page before
		for (long last = 0; ; ) {
			long after = last;
			List<Purchase> page = inSession(factory, s -> page(s, after));

			if (page.isEmpty())
				break;
			System.out.println("page " + keys(page));
			last = page.get(page.size() - 1).id;
		}
		factory.close();
	}
}
