-- The install script of snowflake_audit 1.0.

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION snowflake_audit" to load this file. \quit

--
-- The log.  Its key is the first ID that the layout "snowflake" has for the time
-- at which the transaction ended: no call makes it, so the log needs neither a
-- node id nor a mark.  The worker makes a partition for each day.
--
CREATE TABLE snowflake_audit_log (
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
COMMENT ON TABLE snowflake_audit_log IS
'which transaction made which IDs: one row for each of its layouts and shards';
CREATE INDEX snowflake_audit_log_ids ON snowflake_audit_log
	USING brin (first_id, last_id) WITH (autosummarize = on);

COMMENT ON COLUMN snowflake_audit_log.number IS
'grows from record to record';
COMMENT ON COLUMN snowflake_audit_log.dropped IS
'how many records were dropped just before this one; null: unknown, the server was started';
COMMENT ON COLUMN snowflake_audit_log.committed IS
'null: prepared, for COMMIT PREPARED or ROLLBACK PREPARED';
COMMENT ON COLUMN snowflake_audit_log.layout IS
'null: snowflake.layout, or snowflake.shard_layout if there is a shard';

-- How far the worker has come: in the ring of this life, and in the numbers.
CREATE TABLE snowflake_audit_state (
	life bigint NOT NULL,
	position bigint NOT NULL,
	number bigint NOT NULL
);
COMMENT ON TABLE snowflake_audit_state IS
'how far the log has come; one row';
INSERT INTO snowflake_audit_state VALUES (0, 0, 0);

CREATE FUNCTION snowflake_audit_pending(start bigint, until bigint,
	OUT "position" bigint, OUT dropped bigint, OUT ended_at timestamptz,
	OUT committed boolean, OUT role oid, OUT application_name text,
	OUT client_addr inet, OUT pid integer, OUT xid xid8, OUT layout text,
	OUT shard integer, OUT first_id bigint, OUT last_id bigint, OUT ids bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION snowflake_audit_pending(bigint, bigint) IS
'records of this database that are not in the log yet';

CREATE FUNCTION snowflake_audit_status(OUT database name, OUT pid integer,
	OUT written bigint, OUT waiting bigint, OUT ring_size integer,
	OUT dropped bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 10;
COMMENT ON FUNCTION snowflake_audit_status() IS
'each audited database: its worker, and the records since the server was started';

--
-- Who made an ID: all records whose range holds it, or one row that says why there
-- is none.  Between the first and the last ID of a transaction others make some, so
-- more than one record can hold it: "exact" is true where there can be no other.
--
CREATE FUNCTION snowflake_who(id bigint, OUT recorded boolean, OUT exact boolean,
	OUT reason text, OUT created_at timestamptz, OUT node_id integer,
	OUT ended_at timestamptz, OUT committed boolean, OUT role name,
	OUT application_name text, OUT client_addr inet, OUT pid integer,
	OUT xid xid8, OUT layout text, OUT shard integer,
	OUT first_id bigint, OUT last_id bigint, OUT ids bigint)
RETURNS SETOF record
LANGUAGE SQL VOLATILE STRICT PARALLEL RESTRICTED ROWS 1
BEGIN ATOMIC
	WITH record AS (
		SELECT l.ended_at, l.committed, l.role, l.application_name, l.client_addr,
			l.pid, l.xid, l.layout, l.shard, l.first_id, l.last_id, l.ids
		FROM snowflake_audit_log l
		WHERE l.first_id OPERATOR(pg_catalog.<=) $1 AND l.last_id OPERATOR(pg_catalog.>=) $1
		-- a record can be in both, between the worker's commit and its release
		UNION
		SELECT p.ended_at, p.committed, pg_catalog.pg_get_userbyid(p.role),
			p.application_name, p.client_addr, p.pid, p.xid, p.layout, p.shard,
			p.first_id, p.last_id, p.ids
		FROM snowflake_audit_pending(0::bigint, 9223372036854775807) p
		WHERE p.first_id OPERATOR(pg_catalog.<=) $1 AND p.last_id OPERATOR(pg_catalog.>=) $1
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
			WHEN r.layout IS NULL THEN snowflake_node($1) OPERATOR(pg_catalog.=)
				ANY (ARRAY[snowflake_node(r.first_id), snowflake_node(r.last_id)])
			ELSE snowflake_node($1, r.layout) OPERATOR(pg_catalog.=)
				ANY (ARRAY[snowflake_node(r.first_id, r.layout), snowflake_node(r.last_id, r.layout)])
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
		FROM snowflake_audit_log l
	), place AS (
		-- keys of the log for that time, and for an hour before and after it
		SELECT snowflake_min_id(least(greatest(g.created_at, log.begins), log.ends), 'snowflake') AS at,
			snowflake_min_id(least(greatest(g.created_at OPERATOR(pg_catalog.-) '1 hour'::interval, log.begins), log.ends), 'snowflake') AS from_key,
			snowflake_min_id(least(greatest(g.created_at OPERATOR(pg_catalog.+) '1 hour'::interval, log.begins), log.ends), 'snowflake') AS until_key
		FROM log CROSS JOIN reading g
		WHERE log.begins IS NOT NULL
	), gap AS (
		SELECT l.ended_at, l.dropped
		FROM snowflake_audit_log l, place, reading g
		WHERE l.key OPERATOR(pg_catalog.>=) place.at AND l.ended_at OPERATOR(pg_catalog.>=) g.created_at
			AND (l.dropped IS NULL OR l.dropped OPERATOR(pg_catalog.>) 0::bigint)
		ORDER BY l.key, l.number LIMIT 1
	), near AS (
		SELECT pg_catalog.bool_or(snowflake_node(l.first_id) OPERATOR(pg_catalog.=) g.node_id) AS same,
			pg_catalog.count(*) AS n
		FROM snowflake_audit_log l, place, reading g
		WHERE l.key OPERATOR(pg_catalog.>=) place.from_key AND l.key OPERATOR(pg_catalog.<=) place.until_key
			AND l.layout IS NULL AND l.shard IS NULL
	)
	SELECT true, e.exact, NULL::text, e.created_at, e.node_id, e.ended_at,
		e.committed, e.role, e.application_name, e.client_addr, e.pid, e.xid,
		e.layout, e.shard, e.first_id, e.last_id, e.ids
	FROM made e
	WHERE e.exact OR NOT EXISTS (SELECT FROM made o WHERE o.exact)
	UNION ALL
	SELECT false, false, CASE
			WHEN log.begins IS NULL THEN 'the log is empty'
			WHEN g.created_at IS NULL THEN 'this is no ID of the configured layout'
			WHEN g.created_at OPERATOR(pg_catalog.<) log.begins THEN
				pg_catalog.format('it is older than the log, which begins at %s', log.begins)
			WHEN near.n OPERATOR(pg_catalog.>) 0::bigint AND NOT near.same THEN
				pg_catalog.format('another server made it: node %s has no record in that hour', g.node_id)
			WHEN gap.ended_at IS NOT NULL AND gap.dropped IS NULL THEN
				pg_catalog.format('its record may have been lost: the server was started before %s', gap.ended_at)
			WHEN gap.ended_at IS NOT NULL THEN
				pg_catalog.format('its record may be one of the %s that were dropped before %s', gap.dropped, gap.ended_at)
			WHEN g.created_at OPERATOR(pg_catalog.>) log.ends THEN
				pg_catalog.format('it is newer than the log, which ends at %s', log.ends)
			ELSE 'no record holds it: its transaction still runs, or another server made it'
		END, g.created_at, g.node_id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
		NULL, NULL, NULL, NULL
	FROM log CROSS JOIN near LEFT JOIN reading g ON true LEFT JOIN gap ON true
	WHERE NOT EXISTS (SELECT FROM made);
END;
COMMENT ON FUNCTION snowflake_who(bigint) IS
'the transaction that made an ID, or why it is not known';

--
-- Superusers and members of pg_read_all_stats see roles and clients of others, and
-- nobody else: ALTER DEFAULT PRIVILEGES of whoever creates the extension means
-- objects of the application.
--
REVOKE ALL ON FUNCTION snowflake_audit_pending(bigint, bigint),
	snowflake_audit_status(), snowflake_who(bigint) FROM PUBLIC;
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
			SELECT pg_catalog.format('FUNCTION %s', objid::pg_catalog.regprocedure), proowner, proacl
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
GRANT SELECT ON snowflake_audit_log TO pg_read_all_stats;
GRANT EXECUTE ON FUNCTION snowflake_audit_pending(bigint, bigint),
	snowflake_audit_status(), snowflake_who(bigint) TO pg_read_all_stats;

--
-- Others may have made functions in this schema before, which the names above find
-- first: whoever asks would run them.
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
					AND m.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass
					AND m.refobjid OPERATOR(pg_catalog.=) o.oid
					AND o.extname OPERATOR(pg_catalog.=) ANY ('{snowflake,snowflake_audit}'::pg_catalog.name[]))
	) THEN
		RAISE insufficient_privilege USING
			MESSAGE = 'a function in the schema of snowflake_audit has the name of one of snowflake',
			HINT = 'Choose a schema in which nobody else may create functions.';
	END IF;
END
$$;
