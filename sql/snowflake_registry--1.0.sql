-- The install script of snowflake_registry 1.0.

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION snowflake_registry" to load this file. \quit

--
-- The schema is fixed in snowflake_registry.control, and CREATE EXTENSION makes it
-- where there is none.  Refuse one of somebody else's: its owner could drop the
-- registry, and a function there could be called in place of one of these.
-- A schema in which other roles may create objects is not known to be empty, since these
-- roles may not have committed yet.  A schema that this transaction has made is empty, and
-- default privileges on it are revoked below.
--
DO $$
BEGIN
	IF EXISTS (
		SELECT
		FROM pg_catalog.pg_namespace n
			JOIN pg_catalog.pg_roles o ON o.oid OPERATOR(pg_catalog.=) n.nspowner
		WHERE n.nspname OPERATOR(pg_catalog.=) 'snowflake_registry'
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
			MESSAGE = 'schema "snowflake_registry" exists, and is not an empty one where only its owner, a superuser, may create objects',
			HINT = 'Run: ALTER SCHEMA snowflake_registry RENAME TO snowflake_registry_before; CREATE EXTENSION snowflake_registry;';
	END IF;
END
$$;

--
-- A registry of node ids, in the database that has this extension.
-- Its server needs nothing preloaded.  The bodies of SQL functions are parsed
-- here and now, so that they do not follow anybody's search_path.  All names are
-- qualified: one of this schema alone would be looked for in pg_catalog first.
--
CREATE FUNCTION snowflake_registry.layout(layout text, OUT text text, OUT epoch_ms bigint, OUT tick_ms integer)
AS 'MODULE_PATHNAME', 'snowflake_registry_layout' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_registry.layout(text) IS
'a layout as a registry keeps it';

-- Which data directory this is; 0 where nobody has ever made a number for it.
CREATE FUNCTION snowflake_registry.files(make boolean)
RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_registry_files' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION snowflake_registry.files(boolean) IS
'a number for this database, which no copy of it or of the data directory has';

-- Which life of which server this is, and which database: a registry in
-- any other may have lost writes.  The timeline is not to be had during
-- recovery.
CREATE FUNCTION snowflake_registry.place(make boolean,
	OUT system_identifier bigint, OUT timeline text, OUT files bigint)
LANGUAGE SQL VOLATILE CALLED ON NULL INPUT PARALLEL RESTRICTED SECURITY DEFINER
BEGIN ATOMIC
	SELECT c.system_identifier,
		pg_catalog.substr(pg_catalog.pg_walfile_name(
			pg_catalog.pg_current_wal_insert_lsn()), 1, 8),
		snowflake_registry.files(make)
	FROM pg_catalog.pg_control_system() c;
END;
COMMENT ON FUNCTION snowflake_registry.place(boolean) IS
'which server this is, its timeline, and its database in its data directory';

-- The time here, in Unix ms.
CREATE FUNCTION snowflake_registry.now_ms()
RETURNS bigint
LANGUAGE SQL VOLATILE CALLED ON NULL INPUT PARALLEL SAFE
BEGIN ATOMIC
	SELECT pg_catalog.floor(extract(epoch FROM pg_catalog.clock_timestamp())
		OPERATOR(pg_catalog.*) 1000)::bigint;
END;
COMMENT ON FUNCTION snowflake_registry.now_ms() IS
'the time of the registry, in Unix ms';

CREATE FUNCTION snowflake_registry.random_number()
RETURNS bigint
LANGUAGE SQL VOLATILE CALLED ON NULL INPUT PARALLEL SAFE
BEGIN ATOMIC
	SELECT ('x' OPERATOR(pg_catalog.||) pg_catalog.right(pg_catalog.replace(
		pg_catalog.gen_random_uuid()::text, '-', ''), 16))::bit(64)::bigint;
END;
COMMENT ON FUNCTION snowflake_registry.random_number() IS
'a random number, for a generation or a write';

-- The registry: one row, or none before init().  former has the generations that it
-- succeeds, in hexadecimal digits, the latest first (lease/registry_age.c).  A slot's version is the position in
-- WAL when it was written, so that an older copy of the registry shows lower ones;
-- version_offset is added where rows were copied from a server whose positions are
-- higher.
CREATE TABLE snowflake_registry.registry (
	id integer PRIMARY KEY DEFAULT 1 CHECK (id OPERATOR(pg_catalog.=) 1),
	generation bigint NOT NULL,
	former text NOT NULL CHECK (pg_catalog.octet_length(former) OPERATOR(pg_catalog.<) 544),
	floor bigint NOT NULL CHECK (floor OPERATOR(pg_catalog.>=) 0
		AND floor OPERATOR(pg_catalog.<=) 140737488355328),
	layout text NOT NULL CHECK (pg_catalog.octet_length(layout) OPERATOR(pg_catalog.<) 160),
	epoch_ms bigint NOT NULL CHECK (pg_catalog.abs(epoch_ms)
		OPERATOR(pg_catalog.<=) 140737488355328),
	tick_ms integer NOT NULL CHECK (tick_ms OPERATOR(pg_catalog.>=) 1
		AND tick_ms OPERATOR(pg_catalog.<=) 1000),
	system_identifier bigint NOT NULL,
	timeline text NOT NULL,
	files bigint NOT NULL,
	version_offset bigint NOT NULL DEFAULT 0
);
COMMENT ON TABLE snowflake_registry.registry IS
'What all servers that lease node ids here agree on';

-- The record of each slot (see lease/registry.h).  It is never dropped: the next holder
-- begins at its until.  What a server writes about itself is limited, so that nothing it
-- writes makes a call for another slot fail: 140737488355328 is SF_END_OF_TICKS.
-- present_until is by the clock of this server, and since_ms by that of the holder.
CREATE TABLE snowflake_registry.slot (
	slot bigint PRIMARY KEY CHECK (slot OPERATOR(pg_catalog.>=) 0
		AND slot OPERATOR(pg_catalog.<) 2147483648),
	host text NOT NULL CHECK (pg_catalog.octet_length(host) OPERATOR(pg_catalog.<) 64
		AND host OPERATOR(pg_catalog.!~) '[[:cntrl:]]'),
	address inet,
	process integer NOT NULL,
	released boolean NOT NULL DEFAULT false,
	version bigint NOT NULL,
	epoch bigint NOT NULL,
	owner bigint NOT NULL,
	server bigint NOT NULL,
	write_id bigint NOT NULL,
	until bigint NOT NULL CHECK (until OPERATOR(pg_catalog.>=) 0
		AND until OPERATOR(pg_catalog.<=) 140737488355328),
	offset_ms bigint NOT NULL CHECK (pg_catalog.abs(offset_ms)
		OPERATOR(pg_catalog.<=) 140737488355328),
	since_ms bigint NOT NULL,
	reserve_ms bigint NOT NULL DEFAULT 0,
	present bigint NOT NULL,
	present_until timestamptz NOT NULL
);
COMMENT ON TABLE snowflake_registry.slot IS
'Which server has, or had last, which node id';
COMMENT ON COLUMN snowflake_registry.slot.slot IS 'the node id';
COMMENT ON COLUMN snowflake_registry.slot.process IS 'of the postmaster';

-- What the library for registries calls, in a schema of its own, which is all that a
-- role that leases may use.  Parsing a statement locks a table before any right on it is
-- checked, so a role that may use the schema of the tables can lock them.
CREATE SCHEMA snowflake_servers;
COMMENT ON SCHEMA snowflake_servers IS
'Functions for servers that lease from the registry';

-- The registry's row is looked for by its key, so that the planner knows that there
-- is one.
CREATE FUNCTION snowflake_servers.read(
	OUT clock_ms bigint, OUT in_place boolean,
	OUT generation bigint, OUT floor bigint, OUT layout text,
	OUT node bigint, OUT version bigint, OUT epoch bigint, OUT owner bigint,
	OUT server bigint, OUT write_id bigint, OUT until bigint,
	OUT offset_ms bigint, OUT released boolean, OUT host text,
	OUT process integer, OUT since_ms bigint, OUT address text,
	OUT present bigint, OUT reserve_ms bigint, OUT former text)
RETURNS SETOF record
LANGUAGE SQL VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE SECURITY DEFINER
BEGIN ATOMIC
	SELECT snowflake_registry.now_ms(),
		(r.system_identifier, r.timeline, r.files)
			OPERATOR(pg_catalog.=) (p.system_identifier, p.timeline, p.files),
		r.generation, r.floor, r.layout,
		s.slot, s.version, s.epoch, s.owner, s.server, s.write_id, s.until,
		s.offset_ms, s.released, s.host, s.process, s.since_ms,
		pg_catalog.host(s.address),
		CASE WHEN s.present_until OPERATOR(pg_catalog.>) pg_catalog.clock_timestamp()
			THEN s.present ELSE 0 END,
		s.reserve_ms, r.former
	FROM snowflake_registry.place(false) p
		LEFT JOIN snowflake_registry.registry r ON r.id OPERATOR(pg_catalog.=) 1
		LEFT JOIN snowflake_registry.slot s ON true
	ORDER BY s.slot;
END;
COMMENT ON FUNCTION snowflake_servers.read() IS
'for workers: the registry, with one row for each slot';

-- One compare-and-swap.  A write and a recovery, which locks the registry's row FOR
-- UPDATE, wait for each other.  Then the lock on the slot's row lets no other write in.
-- Without a row, the primary key does that.
--
-- ttl_ms: be present for as long, 0: leave presence alone, -1: end it.  Without a holder
-- the slot keeps the address of the last one.  written is the new version, NULL if a
-- condition did not hold.
CREATE FUNCTION snowflake_servers.write(in_generation bigint, in_slot bigint,
	expected bigint, claims bigint, holder bigint, machine bigint,
	new_write_id bigint, new_until bigint, ahead_ms bigint, given_back boolean,
	hostname text, postmaster integer, claimed_ms bigint, displaced bigint,
	ttl_ms bigint, reserved_ms bigint,
	OUT written bigint, OUT clock_ms bigint)
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	registry snowflake_registry.registry;
	held snowflake_registry.slot;
	now timestamptz;
BEGIN
	SELECT r.* INTO registry
	FROM snowflake_registry.registry r
	WHERE r.generation OPERATOR(pg_catalog.=) in_generation
		AND (r.system_identifier, r.timeline, r.files) OPERATOR(pg_catalog.=)
			(SELECT p.system_identifier, p.timeline, p.files
			FROM snowflake_registry.place(false) p)
	FOR SHARE;
	IF FOUND THEN
		SELECT s.* INTO held
		FROM snowflake_registry.slot s
		WHERE s.slot OPERATOR(pg_catalog.=) in_slot
			AND s.version OPERATOR(pg_catalog.=) expected
			AND (s.present OPERATOR(pg_catalog.=) ANY (ARRAY[0, holder, displaced])
				OR s.present_until OPERATOR(pg_catalog.<=) pg_catalog.clock_timestamp())
		FOR UPDATE;
	END IF;
	SELECT pg_catalog.clock_timestamp(), snowflake_registry.now_ms()
	INTO now, clock_ms;
	IF registry.id IS NULL OR held.version IS NULL AND expected OPERATOR(pg_catalog.<>) 0 THEN
		RETURN;
	END IF;
	INSERT INTO snowflake_registry.slot AS s (slot, host, address, process, released,
		version, epoch, owner, server, write_id, until, offset_ms, since_ms, reserve_ms,
		present, present_until)
	VALUES (in_slot, hostname,
		CASE WHEN holder OPERATOR(pg_catalog.=) 0 THEN held.address
			ELSE pg_catalog.inet_client_addr() END,
		postmaster, given_back,
		greatest(held.version OPERATOR(pg_catalog.+) 1,
			pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_insert_lsn(), '0/0')::bigint
			OPERATOR(pg_catalog.+) registry.version_offset),
		claims, holder, machine, new_write_id, new_until, ahead_ms, claimed_ms, reserved_ms,
		CASE WHEN ttl_ms OPERATOR(pg_catalog.<) 0 THEN 0
			WHEN ttl_ms OPERATOR(pg_catalog.>) 0 THEN holder
			ELSE coalesce(held.present, 0) END,
		CASE WHEN ttl_ms OPERATOR(pg_catalog.>) 0
			THEN now OPERATOR(pg_catalog.+) (ttl_ms OPERATOR(pg_catalog.*) interval '1 ms')
			ELSE coalesce(held.present_until, now) END)
	ON CONFLICT (slot) DO UPDATE
	SET host = excluded.host, address = excluded.address, process = excluded.process,
		released = excluded.released, version = excluded.version, epoch = excluded.epoch,
		owner = excluded.owner, server = excluded.server, write_id = excluded.write_id,
		until = excluded.until, offset_ms = excluded.offset_ms,
		since_ms = excluded.since_ms, reserve_ms = excluded.reserve_ms,
		present = excluded.present, present_until = excluded.present_until
	WHERE s.version OPERATOR(pg_catalog.=) expected
	RETURNING s.version INTO written;
END
$$;
COMMENT ON FUNCTION snowflake_servers.write(bigint, bigint, bigint, bigint, bigint, bigint, bigint, bigint, bigint, boolean, text, integer, bigint, bigint, bigint, bigint) IS
'for workers: claim, extend or give back a slot';

CREATE FUNCTION snowflake_servers.keep(in_slot bigint, holder bigint,
	ttl_ms bigint, OUT kept boolean, OUT clock_ms bigint)
LANGUAGE SQL VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE SECURITY DEFINER
BEGIN ATOMIC
	WITH changed AS (
		UPDATE snowflake_registry.slot s
		SET present_until = pg_catalog.clock_timestamp() OPERATOR(pg_catalog.+)
			(ttl_ms OPERATOR(pg_catalog.*) interval '1 ms')
		WHERE s.slot OPERATOR(pg_catalog.=) in_slot
			AND s.present OPERATOR(pg_catalog.=) holder
			AND s.present_until OPERATOR(pg_catalog.>) pg_catalog.clock_timestamp()
		RETURNING s.slot
	)
	SELECT EXISTS (SELECT FROM changed), snowflake_registry.now_ms();
END;
COMMENT ON FUNCTION snowflake_servers.keep(bigint, bigint, bigint) IS
'for workers: stay present';

CREATE FUNCTION snowflake_servers.begin(new_generation bigint, new_former text,
	new_floor bigint, new_layout text, new_epoch_ms bigint,
	new_tick_ms integer, OUT written bigint, OUT clock_ms bigint)
LANGUAGE SQL VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE SECURITY DEFINER
BEGIN ATOMIC
	WITH made AS (
		INSERT INTO snowflake_registry.registry AS r
		SELECT 1, new_generation, new_former, new_floor, new_layout, new_epoch_ms,
			new_tick_ms, p.system_identifier, p.timeline, p.files
		FROM snowflake_registry.place(true) p
		ON CONFLICT DO NOTHING
		RETURNING r.id
	)
	SELECT (SELECT m.id::bigint FROM made m),
		snowflake_registry.now_ms();
END;
COMMENT ON FUNCTION snowflake_servers.begin(bigint, text, bigint, text, bigint, integer) IS
'for workers: make this database a registry, if it is none';

-- Works in any place, and the registry goes on in this one.  The row is locked first:
-- workers hold it while they write, and what follows sees what they have written.  The
-- until of a record counts for its slot alone.
CREATE FUNCTION snowflake_servers.renew(in_generation bigint,
	new_generation bigint, new_former text, new_floor bigint,
	OUT written bigint, OUT clock_ms bigint)
LANGUAGE SQL VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE SECURITY DEFINER
BEGIN ATOMIC
	SELECT r.id FROM snowflake_registry.registry r FOR UPDATE;
	WITH changed AS (
		UPDATE snowflake_registry.registry r
		SET generation = new_generation, former = new_former,
			floor = greatest(r.floor, new_floor),
			system_identifier = p.system_identifier, timeline = p.timeline,
			files = p.files,
			version_offset = greatest(0,
				(SELECT pg_catalog.max(s.version) FROM snowflake_registry.slot s)
				OPERATOR(pg_catalog.-) pg_catalog.pg_wal_lsn_diff(
					pg_catalog.pg_current_wal_insert_lsn(), '0/0')::bigint)
		FROM snowflake_registry.place(true) p
		WHERE r.generation OPERATOR(pg_catalog.=) in_generation
		RETURNING r.id
	)
	SELECT (SELECT c.id::bigint FROM changed c),
		snowflake_registry.now_ms();
END;
COMMENT ON FUNCTION snowflake_servers.renew(bigint, bigint, text, bigint) IS
'for workers: after a loss of data, let nobody claim anything before a time';

--
-- What administrators call in the registry's database.  From a server that leases
-- they call functions of the extension snowflake, such as
-- snowflake_registry_init(), which ask a registry of any kind.
--
CREATE FUNCTION snowflake_registry.init(layout text DEFAULT 'snowflake')
RETURNS boolean
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF layout IS NULL THEN
		RAISE EXCEPTION USING
			ERRCODE = 'null_value_not_allowed',
			MESSAGE = 'layout must not be null',
			HINT = 'Give the snowflake.layout of the servers, or leave it out for the default.';
	END IF;
	RETURN pg_catalog.count(b.written) OPERATOR(pg_catalog.>) 0
	FROM snowflake_registry.layout(layout) l,
		snowflake_servers.begin(
			snowflake_registry.random_number(), '',
			greatest(0, pg_catalog.ceil(
				(extract(epoch FROM pg_catalog.clock_timestamp())
					OPERATOR(pg_catalog.*) 1000 OPERATOR(pg_catalog.-) l.epoch_ms)
				OPERATOR(pg_catalog./) l.tick_ms))::bigint,
			l.text, l.epoch_ms, l.tick_ms) b;
END
$$;
COMMENT ON FUNCTION snowflake_registry.init(text) IS
'make this database, which has lost no data, a registry for servers with this layout; false if it is one';

-- Where a record says that its holder has reserved more than largest_reserve, the
-- record counts, up to 24 h, as in snowflake_registry_recover().  The row is locked
-- first: so the time is read after what workers write meanwhile.
CREATE FUNCTION snowflake_registry.recover(largest_reserve interval,
	largest_offset interval DEFAULT '5 s', former text DEFAULT NULL)
RETURNS timestamptz
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	recovered timestamptz;
BEGIN
	IF largest_reserve IS NULL OR largest_offset IS NULL
			OR least(largest_reserve, largest_offset)
				OPERATOR(pg_catalog.<) interval '0'
			OR greatest(largest_reserve, largest_offset)
				OPERATOR(pg_catalog.>) interval '31 days' THEN
		RAISE EXCEPTION USING
			ERRCODE = 'invalid_parameter_value',
			MESSAGE = 'largest_reserve and largest_offset must be from 0 to 31 days',
			HINT = 'Give the largest snowflake.lease_reserve of all servers, and how far clocks may be off.';
	END IF;
	IF former OPERATOR(pg_catalog.!~) '^[0-9a-f]{16}$' THEN
		RAISE EXCEPTION USING
			ERRCODE = 'invalid_parameter_value',
			MESSAGE = 'former must have 16 hexadecimal digits',
			HINT = 'On a server that has leased from the former registry, the column "remedy" of snowflake_lease() has the arguments.';
	END IF;
	PERFORM r.id FROM snowflake_registry.registry r FOR UPDATE;
	PERFORM snowflake_servers.renew(r.generation, snowflake_registry.random_number(),
		pg_catalog.left(pg_catalog.rtrim(pg_catalog.concat_ws(' ',
			pg_catalog.lpad(pg_catalog.to_hex(r.generation), 16, '0'), recover.former,
			r.former)), 543),
		pg_catalog.ceil(
			-- in UTC, where each day has 24 hours; what the name UTC means is a setting
			(extract(epoch FROM pg_catalog.timezone('0'::pg_catalog.interval, pg_catalog.clock_timestamp())
					OPERATOR(pg_catalog.+) greatest(largest_reserve,
						least(86400000, greatest(0,
							(SELECT pg_catalog.max(s.reserve_ms)
							FROM snowflake_registry.slot s)))
							OPERATOR(pg_catalog.*) interval '1 ms')
					OPERATOR(pg_catalog.+) largest_offset)
				OPERATOR(pg_catalog.*) 1000 OPERATOR(pg_catalog.-) r.epoch_ms)
			OPERATOR(pg_catalog./) r.tick_ms)::bigint)
	FROM snowflake_registry.registry r;
	SELECT pg_catalog.to_timestamp(least(9224318015999,
		(r.epoch_ms OPERATOR(pg_catalog.+) (r.floor OPERATOR(pg_catalog.*) r.tick_ms))
			OPERATOR(pg_catalog./) 1000.0))
	INTO recovered
	FROM snowflake_registry.registry r;
	IF recovered IS NULL THEN
		RAISE EXCEPTION USING
			ERRCODE = 'object_not_in_prerequisite_state',
			MESSAGE = 'this database has no data of a registry',
			HINT = pg_catalog.format('With the snowflake.layout of the servers, run: BEGIN; SELECT snowflake_registry.init(''LAYOUT''); SELECT snowflake_registry.recover(interval %L, interval %L, %L); COMMIT;',
				largest_reserve, largest_offset, former);
	END IF;
	RETURN recovered;
END
$$;
COMMENT ON FUNCTION snowflake_registry.recover(interval, interval, text) IS
'after a loss of data, or in place of the former registry, from which no server leases any more: let no server claim a slot before the time that any server may have reserved';

CREATE FUNCTION snowflake_registry.slots(
	OUT slot bigint, OUT host text, OUT address inet, OUT process integer,
	OUT holder text, OUT since timestamptz, OUT until timestamptz, OUT present boolean,
	OUT released boolean, OUT clock_offset interval)
RETURNS SETOF record
LANGUAGE SQL VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE SECURITY DEFINER
BEGIN ATOMIC
	SELECT s.slot, s.host, s.address, s.process, pg_catalog.to_hex(s.owner),
		CASE WHEN s.since_ms OPERATOR(pg_catalog.>) 0
			THEN pg_catalog.to_timestamp(least(9224318015999, s.since_ms OPERATOR(pg_catalog./) 1000.0)) END,
		pg_catalog.to_timestamp(least(9224318015999,
			(r.epoch_ms OPERATOR(pg_catalog.+) (s.until OPERATOR(pg_catalog.*) r.tick_ms))
				OPERATOR(pg_catalog./) 1000.0)),
		s.present OPERATOR(pg_catalog.<>) 0
			AND s.present_until OPERATOR(pg_catalog.>) pg_catalog.clock_timestamp(),
		s.released,
		s.offset_ms OPERATOR(pg_catalog.*) interval '1 ms'
	FROM snowflake_registry.slot s
		JOIN snowflake_registry.registry r ON r.id OPERATOR(pg_catalog.=) 1
	ORDER BY s.slot;
END;
COMMENT ON FUNCTION snowflake_registry.slots() IS
'which server holds which node id';

-- The holder, should it live, finds that the record is not its own any more.  If this waits
-- for the claim of another server, that one keeps the slot: after the wait s is the row as it
-- is then, and seen the row as it was before.
CREATE FUNCTION snowflake_registry.release(slot bigint)
RETURNS boolean
LANGUAGE SQL VOLATILE STRICT PARALLEL UNSAFE SECURITY DEFINER
BEGIN ATOMIC
	WITH changed AS (
		UPDATE snowflake_registry.slot s
		SET version = s.version OPERATOR(pg_catalog.+) 1, owner = 0, present = 0,
			released = true, write_id = snowflake_registry.random_number()
		FROM snowflake_registry.slot seen
		WHERE s.slot OPERATOR(pg_catalog.=) release.slot
			AND seen.slot OPERATOR(pg_catalog.=) release.slot
			AND s.epoch OPERATOR(pg_catalog.=) seen.epoch
			AND NOT (s.released AND s.present OPERATOR(pg_catalog.=) 0)
		RETURNING s.slot
	)
	SELECT EXISTS (SELECT FROM changed);
END;
COMMENT ON FUNCTION snowflake_registry.release(bigint) IS
'free the slot of a holder that is gone; false if nobody held it, or another server has just claimed it';

-- A role may call a few functions, and has no right on a table.  One that does not
-- administer cannot name a table either: so it can neither lock one, nor change or delete
-- what others wrote.  These functions are SECURITY DEFINER.  All names in them are resolved
-- when they are created, or with a search_path of their own, and they run no statement
-- that a caller gives.
--
-- A regrole is a role that exists, and never PUBLIC.  Whoever may not grant what is
-- granted here gets an error.
CREATE FUNCTION snowflake_registry.grant(role regrole,
	administer boolean DEFAULT false)
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	EXECUTE pg_catalog.format('GRANT USAGE ON SCHEMA snowflake_servers TO %s', role);
	EXECUTE pg_catalog.format('GRANT EXECUTE ON FUNCTION'
		' snowflake_servers.read, snowflake_servers.write, snowflake_servers.keep'
		' TO %s', role);
	IF administer THEN
		EXECUTE pg_catalog.format('GRANT USAGE ON SCHEMA snowflake_registry TO %s', role);
		EXECUTE pg_catalog.format('GRANT EXECUTE ON FUNCTION'
			' snowflake_servers.begin, snowflake_servers.renew,'
			' snowflake_registry.init, snowflake_registry.recover,'
			' snowflake_registry.slots, snowflake_registry.release TO %s', role);
	END IF;
END
$$;
COMMENT ON FUNCTION snowflake_registry.grant(regrole, boolean) IS
'let the servers that log in with this role lease; with administer, also make, recover and look after the registry';

--
-- PUBLIC gets nothing of it, nor do roles that ALTER DEFAULT PRIVILEGES of the creating
-- role names: that command means objects of the application.  The schemas were empty, so
-- all that they hold is the extension's.
--
REVOKE ALL ON SCHEMA snowflake_registry, snowflake_servers FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA snowflake_registry, snowflake_servers FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA snowflake_registry, snowflake_servers FROM PUBLIC;

DO $$
DECLARE
	grantee pg_catalog.regrole;
BEGIN
	FOR grantee IN
		WITH own AS (
			SELECT nspowner AS owner, nspacl AS acl
			FROM pg_catalog.pg_namespace
			WHERE oid OPERATOR(pg_catalog.=) ANY ('{snowflake_registry,snowflake_servers}'::pg_catalog.regnamespace[])
			UNION ALL
			SELECT relowner, relacl
			FROM pg_catalog.pg_class
			WHERE relnamespace OPERATOR(pg_catalog.=) ANY ('{snowflake_registry,snowflake_servers}'::pg_catalog.regnamespace[])
			UNION ALL
			SELECT proowner, proacl
			FROM pg_catalog.pg_proc
			WHERE pronamespace OPERATOR(pg_catalog.=) ANY ('{snowflake_registry,snowflake_servers}'::pg_catalog.regnamespace[])
		)
		SELECT DISTINCT a.grantee
		FROM own, LATERAL pg_catalog.aclexplode(own.acl) a
		WHERE a.grantee OPERATOR(pg_catalog.<>) own.owner
			AND a.grantee OPERATOR(pg_catalog.<>) 0::pg_catalog.oid
	LOOP
		EXECUTE pg_catalog.concat('REVOKE ALL ON SCHEMA snowflake_registry, snowflake_servers FROM ', grantee);
		EXECUTE pg_catalog.concat('REVOKE ALL ON ALL TABLES IN SCHEMA snowflake_registry, snowflake_servers FROM ', grantee);
		EXECUTE pg_catalog.concat('REVOKE ALL ON ALL FUNCTIONS IN SCHEMA snowflake_registry, snowflake_servers FROM ', grantee);
	END LOOP;
END
$$;
