import java.io.Serializable;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.*;
import javax.transaction.Synchronization;
import org.hibernate.HibernateException;
import org.hibernate.Session;
import org.hibernate.engine.SessionImplementor;
import org.hibernate.id.IdentifierGenerator;

/**
 * Gives an entity its key before the insert, so that Hibernate can send the
 * inserts in JDBC batches. If an INSERT made the key, Hibernate could not.
 * Takes as many keys at once as a JDBC batch has rows.
 *
 * A transaction uses only keys that it has taken itself, and drops the others
 * at its end: snowflake_horizon() covers only such keys. So each session has
 * keys of its own. One thread at a time uses a session; many use the map.
 */
public class Snowflakes implements IdentifierGenerator {
	static final Map<SessionImplementor, Deque<Long>> taken =
			Collections.synchronizedMap(new WeakHashMap<>());

	@Override
	public Serializable generate(SessionImplementor session, Object entity) {
		Deque<Long> keys = taken.get(session);

		if (keys == null) {
			((Session) session).getTransaction().registerSynchronization(new AtEnd(session));
			taken.put(session, keys = new ArrayDeque<>());
		}
		if (keys.isEmpty())
			take(session, keys);
		return keys.remove();
	}

	static void take(SessionImplementor session, Deque<Long> keys) {
		int count = session.getFactory().getSettings().getJdbcBatchSize();
		String select = "SELECT snowflake_nextval_batch(?)";

		try (PreparedStatement s = session.connection().prepareStatement(select)) {
			s.setInt(1, Math.max(count, 1));
			ResultSet rows = s.executeQuery();
			while (rows.next())
				keys.add(rows.getLong(1));
		} catch (SQLException e) {
			throw new HibernateException("could not take keys", e);
		}
	}

	record AtEnd(SessionImplementor session) implements Synchronization {
		public void beforeCompletion() {
		}

		public void afterCompletion(int status) {
			taken.remove(session);
		}
	}
}
