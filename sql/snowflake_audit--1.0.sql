-- The install script of snowflake_audit 1.0.

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION snowflake_audit" to load this file. \quit

--
-- The schema is fixed in snowflake_audit.control, and CREATE EXTENSION makes it where
-- there is none.  The worker runs as a superuser, and whoever owns the schema could
-- put other objects under the names that it uses.  So refuse a schema of somebody
-- else's, and one that is not empty.
-- A schema that others may create in is not known to be empty, since they may not have
-- committed yet.  One of this transaction is: privileges by default are revoked below.
--
DO $$
BEGIN
	IF EXISTS (
		SELECT
		FROM pg_catalog.pg_namespace n
			JOIN pg_catalog.pg_roles o ON o.oid OPERATOR(pg_catalog.=) n.nspowner
		WHERE n.nspname OPERATOR(pg_catalog.=) 'snowflake_audit'
			AND (NOT o.rolsuper OR n.xmin OPERATOR(pg_catalog.<>) pg_catalog.pg_current_xact_id()::pg_catalog.xid
				AND EXISTS (
				SELECT
				FROM pg_catalog.aclexplode(n.nspacl) a
				WHERE a.grantee OPERATOR(pg_catalog.<>) n.nspowner
					AND a.privilege_type OPERATOR(pg_catalog.=) 'CREATE')
			OR EXISTS (
				SELECT
				FROM pg_catalog.pg_depend d
				WHERE d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_namespace'::pg_catalog.regclass
					AND d.refobjid OPERATOR(pg_catalog.=) n.oid
					AND d.classid OPERATOR(pg_catalog.<>) 'pg_catalog.pg_extension'::pg_catalog.regclass))
	) THEN
		RAISE EXCEPTION USING
			ERRCODE = 'object_not_in_prerequisite_state',
			MESSAGE = 'schema "snowflake_audit" exists, and is not an empty one where only its owner, a superuser, may create objects',
			HINT = 'Run: ALTER SCHEMA snowflake_audit RENAME TO snowflake_audit_before; and then CREATE EXTENSION snowflake_audit again.';
	END IF;
END
$$;

--
-- The log.  Its key is the first ID that the layout "snowflake" has for the time
-- at which the transaction ended: no call makes it, so the log needs neither a
-- node id nor a mark.  The worker makes a partition for each day.
--
CREATE TABLE snowflake_audit.log (
	key bigint NOT NULL,
	number bigint NOT NULL,
	dropped bigint,
	ended_at timestamptz NOT NULL,
	committed boolean,
	role name NOT NULL,
	application_name text NOT NULL,
	client_addr inet,
	pid integer NOT NULL,
	xid xid8,
	layout text,
	shard integer,
	first_id bigint NOT NULL,
	last_id bigint NOT NULL,
	ids bigint NOT NULL,
	PRIMARY KEY (key, number)
) PARTITION BY RANGE (key);
COMMENT ON TABLE snowflake_audit.log IS
'which transaction made which IDs: a row for each layout and each shard in which it made some';
CREATE INDEX log_ids ON snowflake_audit.log
	USING brin (first_id, last_id) WITH (autosummarize = on);

COMMENT ON COLUMN snowflake_audit.log.number IS
'grows from record to record';
COMMENT ON COLUMN snowflake_audit.log.dropped IS
'how many records were dropped just before this one; null: unknown, the server was started, or the database renamed or copied';
COMMENT ON COLUMN snowflake_audit.log.committed IS
'true: committed; false: rolled back; null: prepared, the end is not known';
COMMENT ON COLUMN snowflake_audit.log.layout IS
'null: snowflake.layout, or snowflake.shard_layout if there is a shard';

-- How far the worker has come: in the ring of this life, and in the numbers.
CREATE TABLE snowflake_audit.state (
	id integer PRIMARY KEY DEFAULT 1 CHECK (id OPERATOR(pg_catalog.=) 1),
	life bigint NOT NULL,
	position bigint NOT NULL,
	number bigint NOT NULL
);
COMMENT ON TABLE snowflake_audit.state IS
'how far the worker has written; always exactly one row';
INSERT INTO snowflake_audit.state (life, position, number) VALUES (0, 0, 0);

CREATE FUNCTION snowflake_audit.ring(start bigint, until bigint,
	OUT "position" bigint, OUT dropped bigint, OUT ended_at timestamptz,
	OUT committed boolean, OUT role oid, OUT application_name text,
	OUT client_addr inet, OUT pid integer, OUT xid xid8, OUT layout text,
	OUT shard integer, OUT first_id bigint, OUT last_id bigint, OUT ids bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'snowflake_audit_ring' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION snowflake_audit.ring(bigint, bigint) IS
'records of this database that are still in shared memory, written or not';

CREATE FUNCTION snowflake_audit.status(OUT database name, OUT pid integer,
	OUT written bigint, OUT waiting bigint, OUT ring_size integer,
	OUT dropped bigint, OUT problem text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'snowflake_audit_status' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 10;
COMMENT ON FUNCTION snowflake_audit.status() IS
'each audited database: its worker, and the records since the server was started';

--
-- What the worker calls.  The bodies are parsed here and now: so all that they name
-- is what has the name now.  A statement that names a function of the schema of
-- "snowflake" would run whatever the owner of that schema puts there later.
--

-- The key of a time, which a clock may have set outside of the layout's life.  The
-- planner puts it in its place, which it would not do if it were STRICT.
CREATE FUNCTION snowflake_audit.key_of(ended_at timestamptz)
RETURNS bigint
LANGUAGE SQL STABLE CALLED ON NULL INPUT PARALLEL SAFE
BEGIN ATOMIC
	SELECT snowflake_min_id(least(greatest($1, '2024-01-01 00:00Z'::timestamptz),
		'2093-01-01 00:00Z'::timestamptz), 'snowflake');
END;
COMMENT ON FUNCTION snowflake_audit.key_of(timestamptz) IS
'the key of the log for a time';

CREATE FUNCTION snowflake_audit.write(start bigint, until bigint, numbers bigint,
	unknown bigint)
RETURNS void
LANGUAGE SQL VOLATILE STRICT PARALLEL UNSAFE
BEGIN ATOMIC
	INSERT INTO snowflake_audit.log
	SELECT snowflake_audit.key_of(p.ended_at), p.position OPERATOR(pg_catalog.+) $3,
		CASE WHEN p.position OPERATOR(pg_catalog.<>) $4 THEN p.dropped END,
		p.ended_at, p.committed, pg_catalog.pg_get_userbyid(p.role), p.application_name,
		p.client_addr, p.pid, p.xid, p.layout, p.shard, p.first_id, p.last_id, p.ids
	FROM snowflake_audit.ring($1, $2) p;
END;
COMMENT ON FUNCTION snowflake_audit.write(bigint, bigint, bigint, bigint) IS
'for the worker: write records of the ring into the log';

CREATE FUNCTION snowflake_audit.reached()
RETURNS bigint[]
LANGUAGE SQL VOLATILE STRICT PARALLEL UNSAFE
BEGIN ATOMIC
	SELECT ARRAY[s.life, s.position, s.number] FROM snowflake_audit.state s FOR UPDATE;
END;
COMMENT ON FUNCTION snowflake_audit.reached() IS
'for the worker: how far the log has come';

CREATE FUNCTION snowflake_audit.advance(life bigint, until bigint, number bigint)
RETURNS void
LANGUAGE SQL VOLATILE STRICT PARALLEL UNSAFE
BEGIN ATOMIC
	UPDATE snowflake_audit.state SET life = $1, position = $2, number = $3;
END;
COMMENT ON FUNCTION snowflake_audit.advance(bigint, bigint, bigint) IS
'for the worker: say how far the log has come';

CREATE FUNCTION snowflake_audit.create_days(first timestamptz, last timestamptz)
RETURNS bigint
LANGUAGE SQL VOLATILE STRICT PARALLEL UNSAFE
BEGIN ATOMIC
	SELECT pg_catalog.count(*)
	FROM snowflake_create_partitions('snowflake_audit.log'::regclass, '1 day'::interval,
		snowflake_timestamp(snowflake_audit.key_of($1), 'snowflake'),
		snowflake_timestamp(snowflake_audit.key_of($2), 'snowflake') OPERATOR(pg_catalog.+) '1 ms'::interval,
		'snowflake');
END;
COMMENT ON FUNCTION snowflake_audit.create_days(timestamptz, timestamptz) IS
'for the worker: make the partitions of these days';

CREATE FUNCTION snowflake_audit.has_day(at timestamptz)
RETURNS boolean
LANGUAGE SQL STABLE STRICT PARALLEL UNSAFE
BEGIN ATOMIC
	SELECT EXISTS (
		SELECT
		FROM snowflake_partitions('snowflake_audit.log'::regclass, 'snowflake') p
		WHERE p.from_time OPERATOR(pg_catalog.<=)
				snowflake_timestamp(snowflake_audit.key_of($1), 'snowflake')
			AND p.until_time OPERATOR(pg_catalog.>)
				snowflake_timestamp(snowflake_audit.key_of($1), 'snowflake'));
END;
COMMENT ON FUNCTION snowflake_audit.has_day(timestamptz) IS
'for the worker: whether the day of a time has a partition';

CREATE FUNCTION snowflake_audit.days_before(oldest timestamptz)
RETURNS regclass[]
LANGUAGE SQL STABLE STRICT PARALLEL UNSAFE
BEGIN ATOMIC
	SELECT coalesce(pg_catalog.array_agg(d.partition ORDER BY d.until_time), '{}')
	FROM snowflake_partitions('snowflake_audit.log'::regclass, 'snowflake') d
	WHERE d.until_time OPERATOR(pg_catalog.<=) $1;
END;
COMMENT ON FUNCTION snowflake_audit.days_before(timestamptz) IS
'for the worker: the partitions of days that are over before a time';

--
-- Who made an ID: all records whose range holds it, or one row that says why there
-- is none.  Between the first and the last ID of a transaction others make some, so
-- more than one record can hold it: "exact" is true where there can be no other.
--
CREATE FUNCTION snowflake_audit.who(id bigint, OUT recorded boolean, OUT exact boolean,
	OUT reason text, OUT created_at timestamptz, OUT node_id integer,
	OUT ended_at timestamptz, OUT committed boolean, OUT role name,
	OUT application_name text, OUT client_addr inet, OUT pid integer,
	OUT xid xid8, OUT layout text, OUT shard integer,
	OUT first_id bigint, OUT last_id bigint, OUT ids bigint)
RETURNS SETOF record
LANGUAGE SQL VOLATILE STRICT PARALLEL RESTRICTED ROWS 1
SET jit = off
BEGIN ATOMIC
	WITH record AS (
		-- First the ring, while it has what this snapshot does not find in the log.  A
		-- record can be in both: it stays until another one takes its place.  The log
		-- has the name that the role had.
		SELECT DISTINCT ON (b.ended_at, b.pid, b.layout, b.shard, b.first_id) b.*
		FROM (
			SELECT false AS written, p.ended_at, p.committed,
				pg_catalog.pg_get_userbyid(p.role) AS role, p.application_name, p.client_addr,
				p.pid, p.xid, p.layout, p.shard, p.first_id, p.last_id, p.ids
			FROM snowflake_audit.ring(0::bigint, 9223372036854775807) p
			WHERE p.first_id OPERATOR(pg_catalog.<=) $1 AND p.last_id OPERATOR(pg_catalog.>=) $1
			UNION ALL
			SELECT true, l.ended_at, l.committed, l.role, l.application_name, l.client_addr,
				l.pid, l.xid, l.layout, l.shard, l.first_id, l.last_id, l.ids
			FROM snowflake_audit.log l
			WHERE l.first_id OPERATOR(pg_catalog.<=) $1 AND l.last_id OPERATOR(pg_catalog.>=) $1
		) b
		ORDER BY b.ended_at, b.pid, b.layout, b.shard, b.first_id, b.written DESC
	), made AS (
		SELECT r.*, r.first_id OPERATOR(pg_catalog.=) $1
				OR r.last_id OPERATOR(pg_catalog.=) $1 AS exact,
			CASE WHEN r.layout IS NOT NULL THEN snowflake_timestamp($1, r.layout)
				WHEN r.shard IS NOT NULL THEN snowflake_timestamp($1, 'shard')
				ELSE snowflake_timestamp($1) END AS created_at,
			CASE WHEN r.shard IS NOT NULL THEN NULL
				WHEN r.layout IS NULL THEN snowflake_node($1)
				ELSE snowflake_node($1, r.layout) END AS node_id
		FROM record r
		WHERE CASE WHEN r.shard IS NOT NULL THEN r.shard OPERATOR(pg_catalog.=)
				CASE WHEN r.layout IS NULL THEN snowflake_shard($1, 'shard')
					ELSE snowflake_shard($1, r.layout) END
			-- null: the layout has no node; no node has that number
			WHEN r.layout IS NULL THEN coalesce(snowflake_node($1), 2147483647) OPERATOR(pg_catalog.=)
				ANY (ARRAY[coalesce(snowflake_node(r.first_id), 2147483647), coalesce(snowflake_node(r.last_id), 2147483647)])
			ELSE coalesce(snowflake_node($1, r.layout), 2147483647) OPERATOR(pg_catalog.=)
				ANY (ARRAY[coalesce(snowflake_node(r.first_id, r.layout), 2147483647),
					coalesce(snowflake_node(r.last_id, r.layout), 2147483647)])
			END
	), reading AS (
		SELECT i.created_at, i.node_id
		FROM snowflake_inspect($1) WITH ORDINALITY AS
			i(layout, configured, plausible, created_at, datacenter_id, worker_id,
			process_id, node_id, shard_id, sequence, place)
		ORDER BY i.configured DESC, i.place LIMIT 1
	), log AS (
		SELECT snowflake_timestamp(pg_catalog.min(l.key), 'snowflake') AS begins,
			snowflake_timestamp(pg_catalog.max(l.key), 'snowflake') AS ends
		FROM snowflake_audit.log l
	), place AS (
		-- keys of the log for that time, and for an hour before and after it
		SELECT snowflake_min_id(least(greatest(g.created_at, log.begins), log.ends), 'snowflake') AS at,
			snowflake_min_id(least(greatest(g.created_at OPERATOR(pg_catalog.-) '1 hour'::interval, log.begins), log.ends), 'snowflake') AS from_key,
			snowflake_min_id(least(greatest(g.created_at OPERATOR(pg_catalog.+) '1 hour'::interval, log.begins), log.ends), 'snowflake') AS until_key
		FROM log CROSS JOIN reading g
		WHERE log.begins IS NOT NULL
	), gap AS (
		SELECT l.ended_at, l.dropped
		FROM snowflake_audit.log l, place, reading g
		WHERE l.key OPERATOR(pg_catalog.>=) place.at AND l.ended_at OPERATOR(pg_catalog.>=) g.created_at
			AND (l.dropped IS NULL OR l.dropped OPERATOR(pg_catalog.>) 0::bigint)
		ORDER BY l.key, l.number LIMIT 1
	), near AS (
		SELECT pg_catalog.bool_or(snowflake_node(l.first_id) OPERATOR(pg_catalog.=) g.node_id) AS same,
			pg_catalog.count(*) AS n
		FROM snowflake_audit.log l, place, reading g
		WHERE l.key OPERATOR(pg_catalog.>=) place.from_key AND l.key OPERATOR(pg_catalog.<=) place.until_key
			AND l.layout IS NULL AND l.shard IS NULL
	)
	SELECT true, e.exact, NULL::text, e.created_at, e.node_id, e.ended_at,
		e.committed, e.role, e.application_name, e.client_addr, e.pid, e.xid,
		e.layout, e.shard, e.first_id, e.last_id, e.ids
	FROM made e
	WHERE e.exact OR NOT EXISTS (
		-- IDs of two layouts can be equal
		SELECT
		FROM made o
		WHERE o.exact AND coalesce(o.layout, '') OPERATOR(pg_catalog.=) coalesce(e.layout, '')
			AND coalesce(o.shard, 2147483647) OPERATOR(pg_catalog.=) coalesce(e.shard, 2147483647))
	UNION ALL
	SELECT false, false, CASE
			WHEN log.begins IS NULL THEN 'the log is empty'
			WHEN g.created_at IS NULL THEN 'this is no ID of the configured layout'
			WHEN g.created_at OPERATOR(pg_catalog.<) log.begins THEN
				pg_catalog.format('read in the configured layout, it is older than the log, which begins at %s', log.begins)
			WHEN near.n OPERATOR(pg_catalog.>) 0::bigint AND NOT near.same THEN
				pg_catalog.concat(
					pg_catalog.format('node %s has no record within an hour of it: another server made it, or its transaction still runs', g.node_id),
					CASE WHEN gap.dropped IS NOT NULL THEN
						pg_catalog.format(', or its record is one of the %s that were dropped before %s', gap.dropped, gap.ended_at)
					WHEN gap.ended_at IS NOT NULL THEN
						pg_catalog.format(', or its record was lost: the server was started, or the database renamed or copied, before %s', gap.ended_at) END)
			WHEN gap.ended_at IS NOT NULL AND gap.dropped IS NULL THEN
				pg_catalog.format('its record may have been lost: the server was started, or the database renamed or copied, before %s', gap.ended_at)
			WHEN gap.ended_at IS NOT NULL THEN
				pg_catalog.format('its record may be one of the %s that were dropped before %s', gap.dropped, gap.ended_at)
			WHEN g.created_at OPERATOR(pg_catalog.>) log.ends THEN
				pg_catalog.format('the newest record is of %s: its transaction still runs, its record was dropped, or another database or server made it', log.ends)
			ELSE 'no record holds it: its transaction still runs, or another database or server made it'
		END, g.created_at, g.node_id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
		NULL, NULL, NULL, NULL
	FROM log CROSS JOIN near LEFT JOIN reading g ON true LEFT JOIN gap ON true
	WHERE NOT EXISTS (SELECT FROM made);
END;
COMMENT ON FUNCTION snowflake_audit.who(bigint) IS
'the transaction that made an ID, or why it is not known';

--
-- Superusers and members of pg_read_all_stats see roles and clients of others, and
-- nobody else, neither by default nor by ALTER DEFAULT PRIVILEGES of whoever creates
-- the extension, which means objects of the application.
--
DO $$
DECLARE
	given pg_catalog.text;
BEGIN
	FOR given IN
		WITH member AS (
			SELECT d.classid, d.objid
			FROM pg_catalog.pg_depend d, pg_catalog.pg_extension e
			WHERE d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass
				AND d.refobjid OPERATOR(pg_catalog.=) e.oid
				AND e.extname OPERATOR(pg_catalog.=) 'snowflake_audit'
		), own AS (
			SELECT pg_catalog.format('TABLE %s', objid::pg_catalog.regclass) AS name,
				relowner AS owner, relacl AS acl
			FROM member, pg_catalog.pg_class c
			WHERE classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass
				AND c.oid OPERATOR(pg_catalog.=) objid
			UNION ALL
			SELECT 'SCHEMA snowflake_audit', nspowner, nspacl
			FROM pg_catalog.pg_namespace
			WHERE nspname OPERATOR(pg_catalog.=) 'snowflake_audit'
			UNION ALL
			SELECT pg_catalog.format('FUNCTION %s', objid::pg_catalog.regprocedure), proowner,
				coalesce(proacl, pg_catalog.acldefault('f', proowner))
			FROM member, pg_catalog.pg_proc p
			WHERE classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass
				AND p.oid OPERATOR(pg_catalog.=) objid
		)
		SELECT pg_catalog.format('%s FROM %s', name, CASE
			WHEN grantee OPERATOR(pg_catalog.=) 0::pg_catalog.oid THEN 'PUBLIC'
			ELSE grantee::pg_catalog.regrole::pg_catalog.text END)
		FROM own, LATERAL pg_catalog.aclexplode(acl)
		WHERE grantee OPERATOR(pg_catalog.<>) owner
	LOOP
		EXECUTE pg_catalog.concat('REVOKE ALL ON ', given);
	END LOOP;
END
$$;
GRANT USAGE ON SCHEMA snowflake_audit TO pg_read_all_stats;
GRANT SELECT ON snowflake_audit.log TO pg_read_all_stats;
GRANT EXECUTE ON FUNCTION snowflake_audit.ring(bigint, bigint),
	snowflake_audit.status(), snowflake_audit.who(bigint) TO pg_read_all_stats;

--
-- Others may have made functions in the schema of "snowflake", which the names above
-- find first: whoever asks, and the worker, would run them.
--
DO $$
BEGIN
	IF EXISTS (
		SELECT
		FROM pg_catalog.pg_depend own, pg_catalog.pg_extension e, pg_catalog.pg_depend d
		WHERE e.extname OPERATOR(pg_catalog.=) 'snowflake_audit'
			AND own.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass
			AND own.refobjid OPERATOR(pg_catalog.=) e.oid
			AND d.classid OPERATOR(pg_catalog.=) own.classid
			AND d.objid OPERATOR(pg_catalog.=) own.objid
			AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass
			AND NOT EXISTS (
				SELECT
				FROM pg_catalog.pg_depend m, pg_catalog.pg_extension o
				WHERE m.classid OPERATOR(pg_catalog.=) d.refclassid
					AND m.objid OPERATOR(pg_catalog.=) d.refobjid
					AND m.deptype OPERATOR(pg_catalog.=) 'e'::pg_catalog."char"
					AND m.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass
					AND m.refobjid OPERATOR(pg_catalog.=) o.oid
					AND o.extname OPERATOR(pg_catalog.=) ANY ('{snowflake,snowflake_audit}'::pg_catalog.name[]))
	) THEN
		RAISE insufficient_privilege USING
			MESSAGE = 'a function of somebody else''s has the name of a function of snowflake, in its schema',
			HINT = E'Drop it, and then CREATE EXTENSION snowflake_audit again: \\df snowflake_* lists them.';
	END IF;
END
$$;
