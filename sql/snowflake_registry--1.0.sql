-- The install script of snowflake_registry 1.0.

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION snowflake_registry" to load this file. \quit

--
-- The schema is fixed in snowflake_registry.control, and CREATE EXTENSION makes it
-- where there is none.  Refuse one of somebody else's: its owner could drop the
-- registry, and a function there could be called in place of one of these.
-- A schema that others may create in is not known to be empty, since they may not have
-- committed yet.  One of this transaction is: privileges by default are revoked below.
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
			HINT = 'Run: ALTER SCHEMA snowflake_registry RENAME TO snowflake_registry_before; and then CREATE EXTENSION snowflake_registry again.';
	END IF;
END
$$;

--
-- A registry of node ids and shards, in the database that has this extension.
-- Its server needs nothing preloaded.  The bodies of SQL functions are parsed
-- here and now, so that they do not follow anybody's search_path.  All names are
-- qualified: one of this schema alone would be looked for in pg_catalog first.
--
CREATE FUNCTION snowflake_registry.layout(layout text, is_written boolean DEFAULT false,
	OUT text text, OUT epoch_ms bigint, OUT tick_ms integer)
AS 'MODULE_PATHNAME', 'snowflake_registry_layout' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_registry.layout(text, boolean) IS
'a layout as a registry keeps it';

-- Which data directory this is; 0 where nobody has ever made a number for it.
CREATE FUNCTION snowflake_registry.files(make boolean)
RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_registry_files' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION snowflake_registry.files(boolean) IS
'a number for this data directory, which no copy of it has';

-- Which life of which server this is, and which data directory: a registry in
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
'which server this is, its timeline, and its data directory';

-- The registry: one row, or none before init().  A slot's version is the position in WAL when it was written, so
-- that an older copy of the registry shows lower ones; version_offset is added
-- where rows were copied from a server whose positions are higher.  keep_days says
-- how long the history is kept; an administrator may change it at any time.
CREATE TABLE snowflake_registry.registry (
	id integer PRIMARY KEY DEFAULT 1 CHECK (id OPERATOR(pg_catalog.=) 1),
	generation bigint NOT NULL,
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
	version_offset bigint NOT NULL DEFAULT 0,
	keep_days integer NOT NULL DEFAULT 7 CHECK (keep_days OPERATOR(pg_catalog.>=) 0)
);
COMMENT ON TABLE snowflake_registry.registry IS
'What all servers that lease node ids here agree on';

-- A slot for each node id that was ever leased; see src/lease/registry.h.  What a
-- server writes about itself is limited, so that nothing it writes makes a call
-- for another slot fail: 140737488355328 is SF_END_OF_TICKS.
--
-- since_ms is the time of the claim as the holder's clock has it, which the holder
-- compares; began_ms is the same time here.  ended_ms is the time at which the
-- holder, or an administrator, gave the slot back.
CREATE TABLE snowflake_registry.slot (
	node bigint PRIMARY KEY CHECK (node OPERATOR(pg_catalog.>=) 0
		AND node OPERATOR(pg_catalog.<) 2147483648),
	version bigint NOT NULL,
	epoch bigint NOT NULL,
	owner bigint NOT NULL,
	server bigint NOT NULL,
	write_id bigint NOT NULL,
	until bigint NOT NULL CHECK (until OPERATOR(pg_catalog.>=) 0
		AND until OPERATOR(pg_catalog.<=) 140737488355328),
	offset_ms bigint NOT NULL CHECK (pg_catalog.abs(offset_ms)
		OPERATOR(pg_catalog.<=) 140737488355328),
	released boolean NOT NULL,
	host text NOT NULL CHECK (pg_catalog.octet_length(host) OPERATOR(pg_catalog.<) 64
		AND host OPERATOR(pg_catalog.!~) '[[:cntrl:]]'),
	process integer NOT NULL,
	since_ms bigint NOT NULL,
	address inet,
	present bigint NOT NULL,
	present_until timestamptz NOT NULL,
	reserve_ms bigint NOT NULL DEFAULT 0,
	ended_ms bigint NOT NULL DEFAULT 0,
	began_ms bigint NOT NULL DEFAULT 0
);
COMMENT ON TABLE snowflake_registry.slot IS
'Who holds which node id, and from when on it may be leased again';

-- Which ranges of shards are whose, as workers write it; one row, or none
-- before anybody had one.  A server reads no more lines than these (shard_map.h).
CREATE TABLE snowflake_registry.shards (
	id integer PRIMARY KEY DEFAULT 1 CHECK (id OPERATOR(pg_catalog.=) 1),
	version bigint NOT NULL,
	shards text NOT NULL CHECK (pg_catalog.octet_length(shards) OPERATOR(pg_catalog.<) 1000000
		AND pg_catalog.octet_length(shards) OPERATOR(pg_catalog.-)
			pg_catalog.octet_length(pg_catalog.replace(shards, E'\n', ''))
			OPERATOR(pg_catalog.<=) 1026)
);
COMMENT ON TABLE snowflake_registry.shards IS
'Who may issue for which shards';

-- The holders of slots that are gone.  version is that of the record which the next
-- holder replaced.  written_ms is the time of the row itself: it decides how long the
-- row is kept, since a server chooses its own until.
CREATE TABLE snowflake_registry.history (
	node bigint NOT NULL,
	version bigint NOT NULL,
	owner bigint NOT NULL,
	server bigint NOT NULL,
	host text NOT NULL,
	address inet,
	process integer,
	since_ms bigint,
	until_ms bigint NOT NULL,
	offset_ms bigint,
	ended_ms bigint NOT NULL,
	ended text NOT NULL,
	written_ms bigint NOT NULL
);
CREATE INDEX history_written_ms ON snowflake_registry.history (written_ms);
COMMENT ON TABLE snowflake_registry.history IS
'Who held which slots before, as many days as the table registry says';

-- Drop what is older than keep_days: few rows at a time, so that it is quick.  If
-- another claim drops them now, leave them to it.  A time in a variable of the
-- column's type lets the index find them: most often there is none.  A
-- SERIALIZABLE transaction drops none, since claims would then fail because of what
-- they read here and write into the history.
CREATE FUNCTION snowflake_registry.forget(days integer)
RETURNS void
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET lock_timeout TO '10ms'
AS $$
DECLARE
	first_ms bigint DEFAULT pg_catalog.floor(extract(epoch FROM pg_catalog.clock_timestamp())
		OPERATOR(pg_catalog.*) 1000)::bigint
		OPERATOR(pg_catalog.-) (days OPERATOR(pg_catalog.*) 86400000::bigint);
BEGIN
	IF pg_catalog.current_setting('transaction_isolation') OPERATOR(pg_catalog.=) 'serializable' THEN
		RETURN;
	END IF;
	DELETE FROM snowflake_registry.history h
	WHERE h.ctid OPERATOR(pg_catalog.=) ANY (ARRAY(
		SELECT o.ctid
		FROM snowflake_registry.history o
		WHERE o.written_ms OPERATOR(pg_catalog.<) first_ms
		ORDER BY o.written_ms
		LIMIT 100));
EXCEPTION WHEN OTHERS THEN
	RETURN;
END
$$;
COMMENT ON FUNCTION snowflake_registry.forget(integer) IS
'for workers: drop what the history need not keep any more';

-- Write who held a slot that is claimed now, in the transaction of the claim: so
-- each tenure is written once, by whoever replaces its record.  The claim must not
-- wait for this for long, nor fail with it: an error is dropped, and the row too.  Only
-- a caller can use up the stack: that claim fails, so that it does not hide the holder
-- that it replaces.
CREATE FUNCTION snowflake_registry.remember()
RETURNS trigger
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET lock_timeout TO '10ms'
AS $$
DECLARE
	registry snowflake_registry.registry;
	now_ms bigint DEFAULT pg_catalog.floor(extract(epoch FROM pg_catalog.clock_timestamp())
		OPERATOR(pg_catalog.*) 1000)::bigint;
	until_ms bigint;
BEGIN
	SELECT * INTO registry FROM snowflake_registry.registry;
	SELECT registry.epoch_ms OPERATOR(pg_catalog.+)
		(OLD.until OPERATOR(pg_catalog.*) registry.tick_ms) INTO until_ms;
	IF registry.keep_days OPERATOR(pg_catalog.>) 0 THEN
		INSERT INTO snowflake_registry.history
			(node, version, owner, server, host, address, process, since_ms,
			until_ms, offset_ms, ended_ms, ended, written_ms)
		VALUES (OLD.node, OLD.version, OLD.owner, OLD.server, OLD.host, OLD.address,
			OLD.process, OLD.began_ms, until_ms, OLD.offset_ms,
			CASE WHEN OLD.ended_ms OPERATOR(pg_catalog.<>) 0 THEN OLD.ended_ms
				ELSE least(until_ms, now_ms) END,
			CASE WHEN OLD.released AND OLD.owner OPERATOR(pg_catalog.<>) 0 THEN 'released'
				WHEN OLD.released OR OLD.present OPERATOR(pg_catalog.<>) 0
					AND OLD.present_until OPERATOR(pg_catalog.>) pg_catalog.clock_timestamp()
					THEN 'displaced'
				-- the server itself, before others may claim the slot
				WHEN OLD.server OPERATOR(pg_catalog.=) NEW.server
					AND until_ms OPERATOR(pg_catalog.>) now_ms THEN 'displaced'
				ELSE 'expired' END,
			now_ms);
	END IF;
	PERFORM snowflake_registry.forget(registry.keep_days);
	RETURN NULL;
EXCEPTION
	WHEN statement_too_complex THEN
		RAISE;
	WHEN OTHERS THEN
		RETURN NULL;
END
$$;
COMMENT ON FUNCTION snowflake_registry.remember() IS
'for workers: keep who held a slot that is claimed now';

CREATE TRIGGER remember AFTER UPDATE ON snowflake_registry.slot
FOR EACH ROW WHEN ((OLD.epoch, OLD.server, OLD.host, OLD.process)
	OPERATOR(pg_catalog.<>) (NEW.epoch, NEW.server, NEW.host, NEW.process))
EXECUTE FUNCTION snowflake_registry.remember();

-- What is the same in all rows, and may be long, is in the first one.  Each row
-- is looked for by its key, so that the planner knows that there is one.
CREATE FUNCTION snowflake_registry.read(
	OUT clock_ms bigint, OUT in_place boolean,
	OUT generation bigint, OUT floor bigint, OUT layout text,
	OUT shards text, OUT shards_version bigint,
	OUT node bigint, OUT version bigint, OUT epoch bigint, OUT owner bigint,
	OUT server bigint, OUT write_id bigint, OUT until bigint,
	OUT offset_ms bigint, OUT released boolean, OUT host text,
	OUT process integer, OUT since_ms bigint, OUT address text,
	OUT present bigint, OUT reserve_ms bigint)
RETURNS SETOF record
LANGUAGE SQL VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE SECURITY DEFINER
BEGIN ATOMIC
	SELECT pg_catalog.floor(extract(epoch FROM pg_catalog.clock_timestamp())
			OPERATOR(pg_catalog.*) 1000)::bigint,
		(r.system_identifier, r.timeline, r.files)
			OPERATOR(pg_catalog.=) (p.system_identifier, p.timeline, p.files),
		r.generation, r.floor, r.layout,
		CASE WHEN pg_catalog.row_number() OVER (ORDER BY s.node)
			OPERATOR(pg_catalog.=) 1 THEN h.shards END,
		h.version,
		s.node, s.version, s.epoch, s.owner, s.server, s.write_id, s.until,
		s.offset_ms, s.released, s.host, s.process, s.since_ms,
		pg_catalog.host(s.address),
		CASE WHEN s.present_until OPERATOR(pg_catalog.>) pg_catalog.clock_timestamp()
			THEN s.present ELSE 0 END,
		s.reserve_ms
	FROM snowflake_registry.place(false) p
		LEFT JOIN snowflake_registry.registry r ON r.id OPERATOR(pg_catalog.=) 1
		LEFT JOIN snowflake_registry.shards h ON h.id OPERATOR(pg_catalog.=) 1
		LEFT JOIN snowflake_registry.slot s ON true
	ORDER BY s.node;
END;
COMMENT ON FUNCTION snowflake_registry.read() IS
'for workers: the registry, with one row for each slot';

-- One compare-and-swap.  A recovery, which locks the row FOR UPDATE, waits for it,
-- and the other way round; an UPDATE of keep_days does not.  ttl_ms: be present for as long, 0: leave presence alone, -1: end
-- it.  Without a holder the slot keeps the address of the last one.  written is
-- the new version, NULL if a condition did not hold.
CREATE FUNCTION snowflake_registry.write(in_generation bigint, slot bigint,
	expected bigint, claims bigint, holder bigint, machine bigint,
	new_write_id bigint, new_until bigint, ahead_ms bigint, given_back boolean,
	hostname text, postmaster integer, claimed_ms bigint, displaced bigint,
	ttl_ms bigint, reserved_ms bigint,
	OUT written bigint, OUT clock_ms bigint)
LANGUAGE SQL VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE SECURITY DEFINER
BEGIN ATOMIC
	WITH locked AS MATERIALIZED (
		SELECT pg_catalog.pg_wal_lsn_diff(
				pg_catalog.pg_current_wal_insert_lsn(), '0/0')::bigint
				OPERATOR(pg_catalog.+) r.version_offset AS version,
			pg_catalog.floor(extract(epoch FROM pg_catalog.clock_timestamp())
				OPERATOR(pg_catalog.*) 1000)::bigint AS now_ms
		FROM snowflake_registry.registry r
		WHERE r.generation OPERATOR(pg_catalog.=) in_generation
			AND (r.system_identifier, r.timeline, r.files) OPERATOR(pg_catalog.=)
				(SELECT p.system_identifier, p.timeline, p.files
				FROM snowflake_registry.place(false) p)
		FOR KEY SHARE
	), made AS (
		INSERT INTO snowflake_registry.slot AS s
		SELECT slot, locked.version, claims, holder, machine, new_write_id, new_until,
			ahead_ms, given_back, hostname, postmaster, claimed_ms,
			pg_catalog.inet_client_addr(), holder,
			pg_catalog.clock_timestamp() OPERATOR(pg_catalog.+)
				(ttl_ms OPERATOR(pg_catalog.*) interval '1 ms'),
			reserved_ms, 0, locked.now_ms
		FROM locked
		WHERE expected OPERATOR(pg_catalog.=) 0
		ON CONFLICT DO NOTHING
		RETURNING s.version
	), changed AS (
		UPDATE snowflake_registry.slot s
		SET version = greatest(s.version OPERATOR(pg_catalog.+) 1, locked.version),
			epoch = claims, owner = holder, server = machine, write_id = new_write_id, until = new_until,
			offset_ms = ahead_ms, released = given_back, host = hostname,
			process = postmaster, since_ms = claimed_ms, reserve_ms = reserved_ms,
			began_ms = CASE WHEN (s.epoch, s.server, s.host, s.process)
				OPERATOR(pg_catalog.=) (claims, machine, hostname, postmaster)
				THEN s.began_ms
				ELSE locked.now_ms END,
			ended_ms = CASE WHEN given_back THEN locked.now_ms ELSE 0 END,
			address = CASE WHEN holder OPERATOR(pg_catalog.=) 0 THEN s.address
				ELSE pg_catalog.inet_client_addr() END,
			present = CASE WHEN ttl_ms OPERATOR(pg_catalog.<) 0 THEN 0
				WHEN ttl_ms OPERATOR(pg_catalog.>) 0 THEN holder
				ELSE s.present END,
			present_until = CASE WHEN ttl_ms OPERATOR(pg_catalog.>) 0
				THEN pg_catalog.clock_timestamp() OPERATOR(pg_catalog.+)
					(ttl_ms OPERATOR(pg_catalog.*) interval '1 ms')
				ELSE s.present_until END
		FROM locked
		WHERE s.node OPERATOR(pg_catalog.=) slot
			AND expected OPERATOR(pg_catalog.<>) 0
			AND s.version OPERATOR(pg_catalog.=) expected
			AND (s.present OPERATOR(pg_catalog.=) ANY (ARRAY[0, holder, displaced])
				OR s.present_until OPERATOR(pg_catalog.<=) pg_catalog.clock_timestamp())
		RETURNING s.version
	)
	SELECT (SELECT m.version FROM made m UNION ALL SELECT c.version FROM changed c),
		pg_catalog.floor(extract(epoch FROM pg_catalog.clock_timestamp())
			OPERATOR(pg_catalog.*) 1000)::bigint;
END;
COMMENT ON FUNCTION snowflake_registry.write(bigint, bigint, bigint, bigint, bigint, bigint, bigint, bigint, bigint, boolean, text, integer, bigint, bigint, bigint, bigint) IS
'for workers: claim, extend or give back a slot';

CREATE FUNCTION snowflake_registry.keep(slot bigint, holder bigint,
	ttl_ms bigint, OUT kept boolean, OUT clock_ms bigint)
LANGUAGE SQL VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE SECURITY DEFINER
BEGIN ATOMIC
	WITH changed AS (
		UPDATE snowflake_registry.slot s
		SET present_until = pg_catalog.clock_timestamp() OPERATOR(pg_catalog.+)
				(ttl_ms OPERATOR(pg_catalog.*) interval '1 ms')
		WHERE s.node OPERATOR(pg_catalog.=) slot
			AND s.present OPERATOR(pg_catalog.=) holder
			AND s.present_until OPERATOR(pg_catalog.>) pg_catalog.clock_timestamp()
		RETURNING s.node
	)
	SELECT EXISTS (SELECT FROM changed),
		pg_catalog.floor(extract(epoch FROM pg_catalog.clock_timestamp())
			OPERATOR(pg_catalog.*) 1000)::bigint;
END;
COMMENT ON FUNCTION snowflake_registry.keep(bigint, bigint, bigint) IS
'for workers: stay present';

CREATE FUNCTION snowflake_registry.write_shards(in_generation bigint,
	expected bigint, new_shards text,
	OUT written bigint, OUT clock_ms bigint)
LANGUAGE SQL VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE SECURITY DEFINER
BEGIN ATOMIC
	WITH locked AS MATERIALIZED (
		SELECT 1
		FROM snowflake_registry.registry r
		WHERE r.generation OPERATOR(pg_catalog.=) in_generation
			AND (r.system_identifier, r.timeline, r.files) OPERATOR(pg_catalog.=)
				(SELECT p.system_identifier, p.timeline, p.files
				FROM snowflake_registry.place(false) p)
		FOR KEY SHARE
	), made AS (
		INSERT INTO snowflake_registry.shards AS h (version, shards)
		SELECT 1, new_shards
		FROM locked
		WHERE expected OPERATOR(pg_catalog.=) 0
		ON CONFLICT DO NOTHING
		RETURNING h.version
	), changed AS (
		UPDATE snowflake_registry.shards h
		SET version = h.version OPERATOR(pg_catalog.+) 1, shards = new_shards
		FROM locked
		WHERE expected OPERATOR(pg_catalog.<>) 0
			AND h.version OPERATOR(pg_catalog.=) expected
		RETURNING h.version
	)
	SELECT (SELECT m.version FROM made m UNION ALL SELECT c.version FROM changed c),
		pg_catalog.floor(extract(epoch FROM pg_catalog.clock_timestamp())
			OPERATOR(pg_catalog.*) 1000)::bigint;
END;
COMMENT ON FUNCTION snowflake_registry.write_shards(bigint, bigint, text) IS
'for workers: say who may issue for which shards';

CREATE FUNCTION snowflake_registry.begin(new_generation bigint,
	new_floor bigint, new_layout text, new_epoch_ms bigint,
	new_tick_ms integer, OUT written bigint, OUT clock_ms bigint)
LANGUAGE SQL VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE SECURITY DEFINER
BEGIN ATOMIC
	WITH made AS (
		INSERT INTO snowflake_registry.registry AS r
		SELECT 1, new_generation, new_floor, new_layout, new_epoch_ms,
			new_tick_ms, p.system_identifier, p.timeline, p.files
		FROM snowflake_registry.place(true) p
		ON CONFLICT DO NOTHING
		RETURNING r.id
	)
	SELECT (SELECT m.id::bigint FROM made m),
		pg_catalog.floor(extract(epoch FROM pg_catalog.clock_timestamp())
			OPERATOR(pg_catalog.*) 1000)::bigint;
END;
COMMENT ON FUNCTION snowflake_registry.begin(bigint, bigint, text, bigint, integer) IS
'for workers: make this database a registry, if it is none';

-- In any place: this is where it goes on.  The row is locked first: workers hold
-- it while they write, and what follows sees what they have written meanwhile.
CREATE FUNCTION snowflake_registry.renew(in_generation bigint,
	new_generation bigint, new_floor bigint,
	OUT written bigint, OUT clock_ms bigint)
LANGUAGE SQL VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE SECURITY DEFINER
BEGIN ATOMIC
	SELECT r.id FROM snowflake_registry.registry r FOR UPDATE;
	WITH changed AS (
		UPDATE snowflake_registry.registry r
		SET generation = new_generation,
			floor = greatest(r.floor, new_floor,
				(SELECT pg_catalog.max(s.until) FROM snowflake_registry.slot s)),
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
		pg_catalog.floor(extract(epoch FROM pg_catalog.clock_timestamp())
			OPERATOR(pg_catalog.*) 1000)::bigint;
END;
COMMENT ON FUNCTION snowflake_registry.renew(bigint, bigint, bigint) IS
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
		snowflake_registry.begin(
			('x' OPERATOR(pg_catalog.||) pg_catalog.right(pg_catalog.replace(
				pg_catalog.gen_random_uuid()::text, '-', ''), 16))::bit(64)::bigint,
			greatest(0, pg_catalog.ceil(
				(extract(epoch FROM pg_catalog.clock_timestamp())
					OPERATOR(pg_catalog.*) 1000 OPERATOR(pg_catalog.-) l.epoch_ms)
				OPERATOR(pg_catalog./) l.tick_ms))::bigint,
			l.text, l.epoch_ms, l.tick_ms) b;
END
$$;
COMMENT ON FUNCTION snowflake_registry.init(text) IS
'make this database, which has lost no data, a registry for servers with this layout; false if it is one';

-- What is given as largest_reserve may be less than what the registry knows,
-- which counts up to 31 days, as the worker does.  The row is locked first: so
-- the time is read after what workers write meanwhile.
CREATE FUNCTION snowflake_registry.recover(largest_reserve interval DEFAULT '90 s',
	largest_offset interval DEFAULT '5 s')
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
	PERFORM r.id FROM snowflake_registry.registry r FOR UPDATE;
	UPDATE snowflake_registry.registry r
	SET generation = ('x' OPERATOR(pg_catalog.||) pg_catalog.right(pg_catalog.replace(
			pg_catalog.gen_random_uuid()::text, '-', ''), 16))::bit(64)::bigint,
		floor = greatest(r.floor,
			(SELECT pg_catalog.max(s.until) FROM snowflake_registry.slot s),
			pg_catalog.ceil(
				(extract(epoch FROM pg_catalog.clock_timestamp()
						OPERATOR(pg_catalog.+) greatest(largest_reserve,
							least(2678400000, greatest(0,
								(SELECT pg_catalog.max(s.reserve_ms)
								FROM snowflake_registry.slot s),
								(SELECT pg_catalog.max(reserves[1]::bigint)
								FROM snowflake_registry.shards h,
									pg_catalog.regexp_matches(h.shards,
										'^held [^ ]+ until [0-9]+ reserve ([0-9]{1,15}) ',
										'gn') AS reserves)))
								OPERATOR(pg_catalog.*) interval '1 ms')
						OPERATOR(pg_catalog.+) largest_offset)
					OPERATOR(pg_catalog.*) 1000 OPERATOR(pg_catalog.-) r.epoch_ms)
				OPERATOR(pg_catalog./) r.tick_ms)::bigint),
		system_identifier = p.system_identifier, timeline = p.timeline,
		files = p.files,
		version_offset = greatest(0,
			(SELECT pg_catalog.max(s.version) FROM snowflake_registry.slot s)
			OPERATOR(pg_catalog.-) pg_catalog.pg_wal_lsn_diff(
				pg_catalog.pg_current_wal_insert_lsn(), '0/0')::bigint)
	FROM snowflake_registry.place(true) p
	RETURNING pg_catalog.to_timestamp(least(9224318015999,
		(r.epoch_ms OPERATOR(pg_catalog.+) (r.floor OPERATOR(pg_catalog.*) r.tick_ms))
			OPERATOR(pg_catalog./) 1000.0))
	INTO recovered;
	IF recovered IS NULL THEN
		RAISE EXCEPTION USING
			ERRCODE = 'object_not_in_prerequisite_state',
			MESSAGE = 'this database has no data of a registry',
			HINT = 'In one transaction, run: SELECT snowflake_registry.init(LAYOUT), with the servers'' snowflake.layout in quotes; and then this call again.';
	END IF;
	RETURN recovered;
END
$$;
COMMENT ON FUNCTION snowflake_registry.recover(interval, interval) IS
'after a loss of data: let no server claim a slot before the time that any server may have reserved';

CREATE FUNCTION snowflake_registry.slots(
	OUT slot bigint, OUT host text, OUT address inet, OUT process integer,
	OUT holder text, OUT since timestamptz, OUT until timestamptz, OUT present boolean,
	OUT released boolean, OUT clock_offset interval)
RETURNS SETOF record
LANGUAGE SQL VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE SECURITY DEFINER
BEGIN ATOMIC
	SELECT s.node, s.host, s.address, s.process,
		pg_catalog.to_hex(s.owner),
		pg_catalog.to_timestamp(s.began_ms OPERATOR(pg_catalog./) 1000.0),
		pg_catalog.to_timestamp(least(9224318015999,
			(r.epoch_ms OPERATOR(pg_catalog.+) (s.until OPERATOR(pg_catalog.*) r.tick_ms))
				OPERATOR(pg_catalog./) 1000.0)),
		s.present OPERATOR(pg_catalog.<>) 0
			AND s.present_until OPERATOR(pg_catalog.>) pg_catalog.clock_timestamp(),
		s.released, s.offset_ms OPERATOR(pg_catalog.*) interval '1 ms'
	FROM snowflake_registry.slot s
		JOIN snowflake_registry.registry r ON r.id OPERATOR(pg_catalog.=) 1
	ORDER BY s.node;
END;
COMMENT ON FUNCTION snowflake_registry.slots() IS
'which server holds which node id';

-- For one slot or all, and for one time or all.  A holder that has not ended, or
-- whose slot nobody has claimed since, is still in its record.
CREATE FUNCTION snowflake_registry.history(
	INOUT slot bigint DEFAULT NULL, at timestamptz DEFAULT NULL,
	OUT host text, OUT address inet, OUT process integer,
	OUT since timestamptz, OUT until timestamptz, OUT ended_at timestamptz,
	OUT ended text)
RETURNS SETOF record
LANGUAGE SQL VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE SECURITY DEFINER
BEGIN ATOMIC
	WITH tenure AS (
		SELECT h.node, h.host, h.address, h.process, h.since_ms, h.until_ms,
			h.ended_ms, h.ended
		FROM snowflake_registry.history h
		UNION ALL
		SELECT s.node, s.host, s.address, s.process, s.began_ms,
			r.epoch_ms OPERATOR(pg_catalog.+) (s.until OPERATOR(pg_catalog.*) r.tick_ms),
			CASE WHEN s.ended_ms OPERATOR(pg_catalog.<>) 0 THEN s.ended_ms END,
			CASE WHEN s.released AND s.owner OPERATOR(pg_catalog.<>) 0 THEN 'released'
				WHEN s.released THEN 'displaced' END
		FROM snowflake_registry.slot s
			JOIN snowflake_registry.registry r ON r.id OPERATOR(pg_catalog.=) 1
	), timed AS (
		SELECT t.*,
			pg_catalog.to_timestamp(t.since_ms OPERATOR(pg_catalog./) 1000.0) AS since,
			pg_catalog.to_timestamp(least(9224318015999,
				t.until_ms OPERATOR(pg_catalog./) 1000.0)) AS ends,
			pg_catalog.to_timestamp(t.ended_ms OPERATOR(pg_catalog./) 1000.0) AS ended_at
		FROM tenure t
	)
	SELECT t.node, t.host, t.address, t.process, t.since, t.ends,
		CASE WHEN t.ended IS NULL AND t.ends OPERATOR(pg_catalog.<=) pg_catalog.clock_timestamp()
			THEN t.ends ELSE t.ended_at END,
		CASE WHEN t.ended IS NULL AND t.ends OPERATOR(pg_catalog.<=) pg_catalog.clock_timestamp()
			THEN 'expired' ELSE t.ended END
	FROM timed t
	WHERE (history.slot IS NULL OR t.node OPERATOR(pg_catalog.=) history.slot)
		AND (at IS NULL OR (t.since IS NULL OR t.since OPERATOR(pg_catalog.<=) at)
			AND coalesce(t.ended_at, t.ends) OPERATOR(pg_catalog.>) at)
	ORDER BY t.node, t.since;
END;
COMMENT ON FUNCTION snowflake_registry.history(bigint, timestamptz) IS
'which server held which node id, and why it has it no more';

-- The holder, should it live, finds that the record is not its own any more.
CREATE FUNCTION snowflake_registry.release(slot bigint)
RETURNS boolean
LANGUAGE SQL VOLATILE STRICT PARALLEL UNSAFE SECURITY DEFINER
BEGIN ATOMIC
	WITH changed AS (
		UPDATE snowflake_registry.slot s
		SET version = s.version OPERATOR(pg_catalog.+) 1, owner = 0,
			released = true, present = 0,
			ended_ms = CASE WHEN s.released THEN s.ended_ms
				ELSE pg_catalog.floor(extract(epoch FROM pg_catalog.clock_timestamp())
					OPERATOR(pg_catalog.*) 1000)::bigint END,
			write_id = ('x' OPERATOR(pg_catalog.||) pg_catalog.right(pg_catalog.replace(
				pg_catalog.gen_random_uuid()::text, '-', ''), 16))::bit(64)::bigint
		WHERE s.node OPERATOR(pg_catalog.=) slot
			AND NOT (s.released AND s.present OPERATOR(pg_catalog.=) 0)
		RETURNING s.node
	)
	SELECT EXISTS (SELECT FROM changed);
END;
COMMENT ON FUNCTION snowflake_registry.release(bigint) IS
'free the slot of a holder that is gone; false if nobody held it';

-- A role that leases may call a few functions, and has no right on a table: so it
-- can neither lock a table, nor change or delete the history.  These functions are
-- SECURITY DEFINER.  All names in them are resolved when they are created, or with a
-- search_path of their own, and they run no statement that a caller gives.
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
	EXECUTE pg_catalog.format('GRANT USAGE ON SCHEMA snowflake_registry TO %s', role);
	EXECUTE pg_catalog.format('GRANT EXECUTE ON FUNCTION'
		' snowflake_registry.read, snowflake_registry.write, snowflake_registry.keep,'
		' snowflake_registry.write_shards, snowflake_registry.history TO %s', role);
	IF administer THEN
		EXECUTE pg_catalog.format('GRANT SELECT, UPDATE (keep_days)'
			' ON snowflake_registry.registry TO %s', role);
		EXECUTE pg_catalog.format('GRANT EXECUTE ON FUNCTION'
			' snowflake_registry.begin, snowflake_registry.renew,'
			' snowflake_registry.init, snowflake_registry.recover,'
			' snowflake_registry.slots, snowflake_registry.release TO %s', role);
	END IF;
END
$$;
COMMENT ON FUNCTION snowflake_registry.grant(regrole, boolean) IS
'let the servers that log in with this role lease; with administer, also make, recover and look after the registry';

--
-- Nothing of it is for PUBLIC, nor for those whom ALTER DEFAULT PRIVILEGES of
-- whoever creates the extension names: it means objects of the application.  The
-- schema was empty, so all that it holds is the extension's.
--
REVOKE ALL ON SCHEMA snowflake_registry FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA snowflake_registry FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA snowflake_registry FROM PUBLIC;

DO $$
DECLARE
	grantee pg_catalog.regrole;
BEGIN
	FOR grantee IN
		WITH own AS (
			SELECT nspowner AS owner, nspacl AS acl
			FROM pg_catalog.pg_namespace
			WHERE oid OPERATOR(pg_catalog.=) 'snowflake_registry'::pg_catalog.regnamespace
			UNION ALL
			SELECT relowner, relacl
			FROM pg_catalog.pg_class
			WHERE relnamespace OPERATOR(pg_catalog.=) 'snowflake_registry'::pg_catalog.regnamespace
			UNION ALL
			SELECT proowner, proacl
			FROM pg_catalog.pg_proc
			WHERE pronamespace OPERATOR(pg_catalog.=) 'snowflake_registry'::pg_catalog.regnamespace
		)
		SELECT DISTINCT a.grantee
		FROM own, LATERAL pg_catalog.aclexplode(own.acl) a
		WHERE a.grantee OPERATOR(pg_catalog.<>) own.owner
			AND a.grantee OPERATOR(pg_catalog.<>) 0::pg_catalog.oid
	LOOP
		EXECUTE pg_catalog.concat('REVOKE ALL ON SCHEMA snowflake_registry FROM ', grantee);
		EXECUTE pg_catalog.concat('REVOKE ALL ON ALL TABLES IN SCHEMA snowflake_registry FROM ', grantee);
		EXECUTE pg_catalog.concat('REVOKE ALL ON ALL FUNCTIONS IN SCHEMA snowflake_registry FROM ', grantee);
	END LOOP;
END
$$;
