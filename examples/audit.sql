-- Who made which IDs: the lines SF601 in the seven files of the server's csvlog. See
-- doc/audit.md. Run as a superuser, in the database that is to answer:
--
--	psql -d app -f examples/audit.sql

\set ON_ERROR_STOP on
BEGIN;

CREATE EXTENSION IF NOT EXISTS file_fdw;
CREATE SCHEMA audit;
CREATE SERVER snowflake_audit FOREIGN DATA WRAPPER file_fdw;

-- The columns of the csvlog of PostgreSQL 15 to 19.
CREATE TABLE audit.file (
	log_time timestamptz,
	user_name text,
	database_name text,
	process_id integer,
	connection_from text,
	session_id text,
	session_line_num bigint,
	command_tag text,
	session_start_time timestamptz,
	virtual_transaction_id text,
	transaction_id bigint,
	error_severity text,
	sql_state_code text,
	message text,
	detail text,
	hint text,
	internal_query text,
	internal_query_pos integer,
	context text,
	query text,
	query_pos integer,
	location text,
	application_name text,
	backend_type text,
	leader_pid integer,
	query_id bigint
);

-- A foreign table for each day of the week. A file that is not there yet is empty. Bytes
-- that are not UTF-8, as in the line of a failed login, are left out: UTF-16 has none.
DO $$
DECLARE
	weekday text;
	path text;
BEGIN
	IF current_setting('log_filename') !~ '%a' THEN
		RAISE EXCEPTION 'log_filename is "%"', current_setting('log_filename')
			USING HINT = 'Set log_filename = ''postgresql-%a.log'' in postgresql.conf, and reload.';
	END IF;
	FOREACH weekday IN ARRAY ARRAY['Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun'] LOOP
		path := concat(current_setting('log_directory'), '/',
			regexp_replace(replace(current_setting('log_filename'), '%a', weekday), '\.log$', ''), '.csv');
		path := concat('''', replace(path, '''', '''\'''''), '''');
		EXECUTE format('CREATE FOREIGN TABLE audit.%I () INHERITS (audit.file)
			SERVER snowflake_audit OPTIONS (format ''csv'', encoding ''UTF8'', program %L)',
			lower(weekday), format('[ ! -e %1$s ] || { [ -r %1$s ] && command -v iconv >/dev/null && { iconv -c -f UTF-8 -t UTF-16LE %1$s | iconv -f UTF-16LE -t UTF-8; }; }', path));
	END LOOP;
END $$;

-- The last day with this number, where Monday is 1.
CREATE FUNCTION audit.last_day(isodow integer)
RETURNS date
LANGUAGE sql STABLE
RETURN (now() AT TIME ZONE current_setting('log_timezone'))::date
	- (extract(isodow FROM now() AT TIME ZONE current_setting('log_timezone'))::integer - isodow + 7) % 7;

-- A row for each line. A condition on "day" reads the files of these days only. No
-- client can forge a line: a statement runs in a transaction, and only these lines are
-- written outside of any (virtual_transaction_id).
CREATE VIEW audit.lines AS
SELECT f.day, f.log_time AS ended_at, r."end" AS outcome, r.ids, r.first AS first_id,
	r.last AS last_id, r.layout, r.shard, r.role, r.database, r.application, r.client,
	f.process_id AS pid, r.xid::text::xid8 AS xid
FROM (
	SELECT audit.last_day(1) AS day, * FROM audit.mon UNION ALL
	SELECT audit.last_day(2), * FROM audit.tue UNION ALL
	SELECT audit.last_day(3), * FROM audit.wed UNION ALL
	SELECT audit.last_day(4), * FROM audit.thu UNION ALL
	SELECT audit.last_day(5), * FROM audit.fri UNION ALL
	SELECT audit.last_day(6), * FROM audit.sat UNION ALL
	SELECT audit.last_day(7), * FROM audit.sun
) f
	CROSS JOIN LATERAL jsonb_to_record(
		CASE WHEN f.sql_state_code = 'SF601' AND f.virtual_transaction_id LIKE '%/0'
		THEN substr(f.message, length('snowflake SF601: ') + 1)::jsonb END
	) AS r ("end" text, ids bigint, first bigint, last bigint, layout text, shard integer,
		role text, database text, application text, client text, xid numeric)
-- after a stop for days, a file still has the lines of the week before
WHERE f.sql_state_code = 'SF601'
	AND (f.log_time AT TIME ZONE current_setting('log_timezone'))::date > f.day - 7
	AND r."end" IS NOT NULL;

-- How many IDs of one maker a tick of this layout has room for, and how long it is.
CREATE FUNCTION audit.tick(at timestamptz, layout text, OUT room integer, OUT length interval)
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT snowflake_sequence(m, layout) + 1,
		snowflake_timestamp(m + 1, layout) - snowflake_timestamp(m, layout)
	FROM snowflake_max_id(at, layout) m;
END;

-- Whether nobody else made IDs between the first and the last one of a line.
CREATE FUNCTION audit.is_gapless(first bigint, last bigint, ids bigint, layout text)
RETURNS boolean
LANGUAGE sql STABLE
RETURN ids <= 2 OR (
	SELECT ids = b.sequence - a.sequence + 1 + t.room
		* round(extract(epoch FROM b.created_at - a.created_at) / extract(epoch FROM t.length))
	FROM snowflake_decode(first, layout) a, snowflake_decode(last, layout) b,
		audit.tick(a.created_at, layout) t);

-- The IDs of a line: all of them, or those two if there is a gap.
CREATE FUNCTION audit.ids_of(first bigint, last bigint, ids bigint, layout text)
RETURNS SETOF bigint
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT first WHERE ids > 0
	UNION ALL
	SELECT snowflake_compose(a.created_at + (a.sequence + i) / t.room * t.length,
		coalesce(a.node_id, a.shard_id, 0), ((a.sequence + i) % t.room)::integer, layout,
		CASE WHEN a.node_id IS NULL THEN 0 ELSE coalesce(a.shard_id, 0) END)
	FROM snowflake_decode(first, layout) a, audit.tick(a.created_at, layout) t,
		generate_series(1, ids - 2) i
	WHERE audit.is_gapless(first, last, ids, layout)
	UNION ALL
	SELECT last WHERE ids > 1;
END;

-- A row for each ID that is known for certain.
CREATE VIEW audit.ids AS
SELECT i.id, d.datacenter_id, d.worker_id, d.node_id, d.shard_id, d.sequence,
	d.created_at AS generated_at, l.role AS caller, l.day, l.ended_at, l.outcome,
	l.database, l.application, l.client, l.pid, l.xid, l.layout, l.ids
FROM audit.lines l
	CROSS JOIN LATERAL audit.ids_of(l.first_id, l.last_id, l.ids, l.layout) AS i (id)
	CROSS JOIN LATERAL snowflake_decode(i.id, l.layout) d;

-- Who made an ID? "exact" is false where the ID lies between the first and the last ID
-- of several transactions. If you know since when, fewer files are read.
CREATE FUNCTION audit.who(id bigint, since date DEFAULT '-infinity')
RETURNS TABLE (exact boolean, generated_at timestamptz, node_id integer, caller text,
	database text, application text, client text, pid integer, xid xid8, outcome text,
	ended_at timestamptz, layout text, shard integer, first_id bigint, last_id bigint, ids bigint)
LANGUAGE sql STABLE
BEGIN ATOMIC
	WITH made AS (
		SELECT l.*, d.created_at, d.node_id,
			who.id IN (l.first_id, l.last_id)
				OR audit.is_gapless(l.first_id, l.last_id, l.ids, l.layout) AS exact
		FROM audit.lines l
			CROSS JOIN LATERAL snowflake_decode(who.id, l.layout) d
			CROSS JOIN LATERAL snowflake_decode(l.first_id, l.layout) f
		WHERE l.day >= who.since AND who.id BETWEEN l.first_id AND l.last_id
			AND d.node_id IS NOT DISTINCT FROM f.node_id
			AND d.shard_id IS NOT DISTINCT FROM f.shard_id
	)
	SELECT m.exact, m.created_at, m.node_id, m.role, m.database, m.application, m.client,
		m.pid, m.xid, m.outcome, m.ended_at, m.layout, m.shard, m.first_id, m.last_id, m.ids
	FROM made m
	WHERE m.exact OR NOT EXISTS (SELECT FROM made e WHERE e.exact AND e.layout = m.layout);
END;

COMMIT;
