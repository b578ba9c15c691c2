-- The install script of snowflake 1.0.

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION snowflake" to load this file. \quit

--
-- pgEdge's extension has a library of this name, too
--
DO $$
BEGIN
	CREATE FUNCTION snowflake_is_ours(count integer) RETURNS SETOF bigint
	AS 'MODULE_PATHNAME', 'snowflake_nextval_batch' LANGUAGE C;
	DROP FUNCTION snowflake_is_ours(integer);
EXCEPTION WHEN undefined_function THEN
	RAISE EXCEPTION USING
		ERRCODE = 'object_not_in_prerequisite_state',
		MESSAGE = 'library "snowflake" is not that of this extension',
		DETAIL = pg_catalog.concat('It may be that of pgEdge''s, which has the same name: ', SQLERRM, '.'),
		HINT = 'Remove pgEdge''s files, install those of this extension again, and restart the server. To migrate from pgEdge''s, drop the defaults that call snowflake.nextval(), and DROP EXTENSION snowflake, before that.';
END
$$;

--
-- What has to survive: each sequence holds one number, written by the library
-- through WAL, and follows the database into standbys, dumps and copies.
-- Everybody may read them, or pg_dump by a database's owner would fail.
--
-- They have a schema of their own, where GRANT ... ON ALL SEQUENCES IN SCHEMA
-- of the application's does not reach them.  Their increment is such that
-- nextval() fails on each, also on one that holds 0; setval(), which a restore
-- calls, does not ask for it.
--
CREATE SCHEMA snowflake_state;
COMMENT ON SCHEMA snowflake_state IS
'What guards the IDs of this database: the mark, and the layouts it was filled with';
CREATE SEQUENCE snowflake_state.snowflake_mark
	MINVALUE 0 START 0 MAXVALUE 9223372036854775806
	INCREMENT 9223372036854775807;
CREATE SEQUENCE snowflake_state.snowflake_recorded_layout
	MINVALUE 0 START 0 MAXVALUE 9223372036854775806
	INCREMENT 9223372036854775807;
CREATE SEQUENCE snowflake_state.snowflake_recorded_epoch
	MINVALUE 0 START 0 MAXVALUE 9223372036854775806
	INCREMENT 9223372036854775807;
CREATE SEQUENCE snowflake_state.snowflake_recorded_shard_layout
	MINVALUE 0 START 0 MAXVALUE 9223372036854775806
	INCREMENT 9223372036854775807;
CREATE SEQUENCE snowflake_state.snowflake_recorded_shard_epoch
	MINVALUE 0 START 0 MAXVALUE 9223372036854775806
	INCREMENT 9223372036854775807;

COMMENT ON SEQUENCE snowflake_state.snowflake_mark IS
'Every ID in this database has a timestamp below this, in Unix milliseconds';
COMMENT ON SEQUENCE snowflake_state.snowflake_recorded_layout IS
'Code of the layout that this database was filled with';
COMMENT ON SEQUENCE snowflake_state.snowflake_recorded_epoch IS
'Epoch of that layout, in Unix milliseconds';
COMMENT ON SEQUENCE snowflake_state.snowflake_recorded_shard_layout IS
'Code of the layout that this database was filled with, for shards';
COMMENT ON SEQUENCE snowflake_state.snowflake_recorded_shard_epoch IS
'Epoch of that layout, in Unix milliseconds';

REVOKE ALL ON SCHEMA snowflake_state FROM PUBLIC;
GRANT USAGE ON SCHEMA snowflake_state TO PUBLIC;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA snowflake_state FROM PUBLIC;
GRANT SELECT ON ALL SEQUENCES IN SCHEMA snowflake_state TO PUBLIC;

SELECT pg_catalog.pg_extension_config_dump('snowflake_state.snowflake_mark', '');
SELECT pg_catalog.pg_extension_config_dump('snowflake_state.snowflake_recorded_layout', '');
SELECT pg_catalog.pg_extension_config_dump('snowflake_state.snowflake_recorded_epoch', '');
SELECT pg_catalog.pg_extension_config_dump('snowflake_state.snowflake_recorded_shard_layout', '');
SELECT pg_catalog.pg_extension_config_dump('snowflake_state.snowflake_recorded_shard_epoch', '');

--
-- Making IDs. pgEdge's library has functions of its own that are called
-- snowflake_nextval and snowflake_currval in C: should it take the place of ours,
-- neither may be called for the other.
--
CREATE FUNCTION snowflake_nextval() RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_next_id' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION snowflake_nextval() IS
'the next ID of this node';

CREATE FUNCTION snowflake_nextval_batch(count integer) RETURNS SETOF bigint
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL RESTRICTED
ROWS 1000;
COMMENT ON FUNCTION snowflake_nextval_batch(integer) IS
'the next IDs of this node, ascending';

CREATE FUNCTION snowflake_shard_nextval(shard integer) RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL RESTRICTED;
COMMENT ON FUNCTION snowflake_shard_nextval(integer) IS
'the next ID of a shard';

CREATE FUNCTION snowflake_shard_nextval_batch(shard integer, count integer)
RETURNS SETOF bigint
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL RESTRICTED
ROWS 1000;
COMMENT ON FUNCTION snowflake_shard_nextval_batch(integer, integer) IS
'the next IDs of a shard, ascending';

CREATE FUNCTION snowflake_currval() RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_last_id' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION snowflake_currval() IS
'the last ID that this session made';

CREATE FUNCTION snowflake_ready() RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION snowflake_ready() IS
'true, or the error that keeps this server from making IDs';

--
-- Reading IDs: with the configured layout stable, since that may change at a
-- restart; with an explicit one immutable
--
CREATE FUNCTION snowflake_decode(id bigint,
	OUT created_at timestamptz, OUT datacenter_id integer,
	OUT worker_id integer, OUT process_id integer, OUT node_id integer,
	OUT shard_id integer, OUT sequence integer)
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_decode(bigint) IS
'what an ID of the configured layout says';

CREATE FUNCTION snowflake_decode(id bigint, layout text,
	OUT created_at timestamptz, OUT datacenter_id integer,
	OUT worker_id integer, OUT process_id integer, OUT node_id integer,
	OUT shard_id integer, OUT sequence integer)
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_decode(bigint, text) IS
'what an ID of this layout says';

CREATE FUNCTION snowflake_timestamp(id bigint) RETURNS timestamptz
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_timestamp(bigint) IS
'when an ID of the configured layout was made';

CREATE FUNCTION snowflake_timestamp(id bigint, layout text) RETURNS timestamptz
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_timestamp(bigint, text) IS
'when an ID of this layout was made';

CREATE FUNCTION snowflake_node(id bigint) RETURNS integer
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_node(bigint) IS
'the node that made an ID of the configured layout';

CREATE FUNCTION snowflake_node(id bigint, layout text) RETURNS integer
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_node(bigint, text) IS
'the node that made an ID of this layout';

CREATE FUNCTION snowflake_shard(id bigint) RETURNS integer
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_shard(bigint) IS
'the shard of an ID of the configured layout';

CREATE FUNCTION snowflake_shard(id bigint, layout text) RETURNS integer
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_shard(bigint, text) IS
'the shard of an ID of this layout';

CREATE FUNCTION snowflake_sequence(id bigint) RETURNS integer
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_sequence(bigint) IS
'the sequence within its tick of an ID of the configured layout';

CREATE FUNCTION snowflake_sequence(id bigint, layout text) RETURNS integer
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_sequence(bigint, text) IS
'the sequence within its tick of an ID of this layout';

CREATE FUNCTION snowflake_min_id("time" timestamptz) RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_min_id(timestamptz) IS
'the first ID of the configured layout in the tick that holds this time';

CREATE FUNCTION snowflake_min_id("time" timestamptz, layout text) RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_min_id(timestamptz, text) IS
'the first ID of this layout in the tick that holds this time';

CREATE FUNCTION snowflake_max_id("time" timestamptz) RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_max_id(timestamptz) IS
'the last ID of the configured layout in the tick that holds this time';

CREATE FUNCTION snowflake_max_id("time" timestamptz, layout text) RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_max_id(timestamptz, text) IS
'the last ID of this layout in the tick that holds this time';

-- What conditions on snowflake_timestamp() are planned with.  Stable even with
-- a layout: a date depends on the time zone.
CREATE FUNCTION snowflake_id_from("time" "any") RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_id_from("any") IS
'the first ID that is not before this time, NULL if there is none';

CREATE FUNCTION snowflake_id_from("time" "any", layout text) RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_id_from("any", text) IS
'the first ID that is not before this time, NULL if there is none';

CREATE FUNCTION snowflake_id_after("time" "any") RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_id_after("any") IS
'the first ID after this time, NULL if there is none';

CREATE FUNCTION snowflake_id_after("time" "any", layout text) RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_id_after("any", text) IS
'the first ID after this time, NULL if there is none';

CREATE FUNCTION snowflake_id_before("time" "any") RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_id_before("any") IS
'the last ID before this time, NULL if there is none';

CREATE FUNCTION snowflake_id_before("time" "any", layout text) RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_id_before("any", text) IS
'the last ID before this time, NULL if there is none';

CREATE FUNCTION snowflake_id_until("time" "any") RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_id_until("any") IS
'the last ID that is not after this time, NULL if there is none';

CREATE FUNCTION snowflake_id_until("time" "any", layout text) RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_id_until("any", text) IS
'the last ID that is not after this time, NULL if there is none';

CREATE FUNCTION snowflake_id_at_support(internal) RETURNS internal
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_id_at_support(internal) IS
'planner support for snowflake_id_at';

CREATE FUNCTION snowflake_id_at(id bigint, "time" "any") RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE
SUPPORT snowflake_id_at_support;
COMMENT ON FUNCTION snowflake_id_at(bigint, "any") IS
'whether an ID was made in the tick that begins at this time';

CREATE FUNCTION snowflake_id_at(id bigint, "time" "any", layout text) RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE
SUPPORT snowflake_id_at_support;
COMMENT ON FUNCTION snowflake_id_at(bigint, "any", text) IS
'whether an ID was made in the tick that begins at this time';

CREATE FUNCTION snowflake_layouts(
	OUT name text, OUT configured boolean, OUT layout text, OUT bits integer,
	OUT epoch timestamptz, OUT tick_ms integer, OUT ids_per_tick integer,
	OUT nodes bigint, OUT shards bigint, OUT lasts_until timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE ROWS 10;
COMMENT ON FUNCTION snowflake_layouts() IS
'presets, and the configured layouts';

CREATE FUNCTION snowflake_inspect(id bigint,
	OUT layout text, OUT configured boolean, OUT plausible boolean,
	OUT created_at timestamptz, OUT datacenter_id integer,
	OUT worker_id integer, OUT process_id integer, OUT node_id integer,
	OUT shard_id integer, OUT sequence integer)
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE ROWS 10;
COMMENT ON FUNCTION snowflake_inspect(bigint) IS
'how an ID reads in every known layout, plausible readings first';

--
-- IDs as texts: formats are base32, base58 and base62
--
CREATE FUNCTION snowflake_encode(id bigint, format text) RETURNS text
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_encode(bigint, text) IS
'an ID as a text in this format';

CREATE FUNCTION snowflake_parse("text" text, format text) RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_parse(text, text) IS
'the ID of a text in this format';

--
-- Partitions
--
CREATE FUNCTION snowflake_create_partitions(parent regclass, step interval,
	"from" timestamptz, until timestamptz, layout text DEFAULT NULL)
RETURNS SETOF regclass
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
ROWS 10;
COMMENT ON FUNCTION snowflake_create_partitions(regclass, interval, timestamptz, timestamptz, text) IS
'make the missing partitions for the calendar steps that hold these times';

CREATE FUNCTION snowflake_partitions(parent regclass,
	layout text DEFAULT NULL,
	OUT partition regclass, OUT from_time timestamptz,
	OUT until_time timestamptz, OUT from_id bigint, OUT until_id bigint,
	OUT is_default boolean, OUT estimated_rows bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C STABLE CALLED ON NULL INPUT PARALLEL SAFE
ROWS 100;
COMMENT ON FUNCTION snowflake_partitions(regclass, text) IS
'the partitions of a table, with their times and estimated rows';

--
-- Keys that become Snowflake keys.  The settings are those under which the
-- server writes definitions so that they mean the same wherever they are read.
--
CREATE FUNCTION snowflake_convert(relation regclass,
	"column" name DEFAULT 'id', shard integer DEFAULT NULL,
	dry_run boolean DEFAULT true,
	OUT step integer, OUT statement text, OUT locks text, OUT note text)
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
ROWS 10
SET check_function_bodies = off
SET default_tablespace = ''
SET datestyle = 'ISO'
SET intervalstyle = 'postgres'
SET extra_float_digits = 1;
COMMENT ON FUNCTION snowflake_convert(regclass, name, integer, boolean) IS
'the statements that make the key of a table a Snowflake key; run if dry_run is false';

CREATE FUNCTION snowflake_revert(relation regclass,
	"column" name DEFAULT 'id', identity text DEFAULT NULL,
	restart bigint DEFAULT NULL, dry_run boolean DEFAULT true,
	OUT step integer, OUT statement text, OUT locks text, OUT note text)
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
ROWS 10;
COMMENT ON FUNCTION snowflake_revert(regclass, name, text, bigint, boolean) IS
'the statements that give a key back its sequence, or an identity; run if dry_run is false';

--
-- Feeds: restricted, since a plan's workers would each ask for themselves, and
-- get different answers
--
CREATE FUNCTION snowflake_horizon() RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION snowflake_horizon() IS
'no row with an ID of this node below it will appear any more';

CREATE FUNCTION snowflake_shard_horizon(shard integer) RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C STABLE CALLED ON NULL INPUT PARALLEL RESTRICTED;
COMMENT ON FUNCTION snowflake_shard_horizon(integer) IS
'no row with an ID of this shard below it will appear any more';

CREATE FUNCTION snowflake_horizon_holders(
	OUT pid integer, OUT gid text, OUT database oid, OUT since timestamptz,
	OUT lowest_id bigint, OUT lowest_shard_id bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 10;
COMMENT ON FUNCTION snowflake_horizon_holders() IS
'the transactions that hold horizons back: running, or prepared';

CREATE VIEW snowflake_horizon_holders AS
	SELECT * FROM snowflake_horizon_holders();
COMMENT ON VIEW snowflake_horizon_holders IS
'the transactions that hold horizons back: running, or prepared';
REVOKE ALL ON snowflake_horizon_holders FROM PUBLIC;
GRANT SELECT ON snowflake_horizon_holders TO PUBLIC;

--
-- Statistics, of all databases of this server together.  Times of waiting are
-- in milliseconds, as in the server's own views.
--
CREATE FUNCTION snowflake_stat_get(
	OUT node_ids bigint, OUT node_batches bigint,
	OUT shard_ids bigint, OUT shard_batches bigint,
	OUT swap_retries bigint,
	OUT sequence_waits bigint, OUT sequence_wait_time double precision,
	OUT clock_waits bigint, OUT clock_wait_time double precision,
	OUT mark_waits bigint, OUT mark_wait_time double precision,
	OUT lease_waits bigint, OUT lease_wait_time double precision,
	OUT mark_extensions bigint, OUT mark_extension_time double precision,
	OUT clock_steps_back bigint, OUT clock_steps_forward bigint,
	OUT refused_clock bigint, OUT refused_lease bigint,
	OUT refused_configuration bigint, OUT refused_read_only bigint,
	OUT refused_end bigint,
	OUT max_drift double precision,
	OUT max_clock_step_back double precision,
	OUT max_clock_step_forward double precision,
	OUT last_clock_step timestamptz,
	OUT drift double precision, OUT mark timestamptz,
	OUT last_timestamp timestamptz, OUT layout_end timestamptz,
	OUT shard_layout_end timestamptz, OUT stats_reset timestamptz)
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION snowflake_stat_get() IS
'what this server has counted since stats_reset: see pg_stat_snowflake';

CREATE FUNCTION snowflake_stat_reset() RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION snowflake_stat_reset() IS
'let what pg_stat_snowflake counts begin at zero';
REVOKE ALL ON FUNCTION snowflake_stat_reset() FROM PUBLIC;

--
-- Leases of node ids.  A database with this extension can be the registry of
-- other servers, which needs nothing preloaded.  Bodies are parsed here and
-- now, so that they do not follow anybody's search_path.  What they use of
-- pg_catalog is qualified: the script's own search_path has the extension's
-- schema, where somebody else may have put an operator that fits better.
--
CREATE FUNCTION snowflake_lease(
	OUT registry text, OUT state text, OUT node_id bigint,
	OUT until timestamptz, OUT next_renewal timestamptz,
	OUT problem text, OUT remedy text, OUT pid integer)
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION snowflake_lease() IS
'the node id that this server has, and until when';

CREATE FUNCTION snowflake_clock(
	OUT wall_clock timestamptz, OUT synchronized boolean,
	OUT max_error interval, OUT estimated_error interval,
	OUT registry_offset interval)
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION snowflake_clock() IS
'the wall clock, and what the kernel and the registry say of it';

CREATE FUNCTION snowflake_shard_lease(
	OUT registry text, OUT state text, OUT shards text,
	OUT until timestamptz, OUT next_renewal timestamptz,
	OUT problem text, OUT remedy text, OUT pid integer)
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION snowflake_shard_lease() IS
'the shards that this server may issue for, and until when';

CREATE VIEW pg_stat_snowflake AS
	SELECT s.*, l.node_id, l.state AS node_state, l.until AS lease_until,
		l.problem AS lease_problem
	FROM snowflake_stat_get() s, snowflake_lease() l;
COMMENT ON VIEW pg_stat_snowflake IS
'one row: what this server has counted since stats_reset, and what is so now';
REVOKE ALL ON pg_stat_snowflake FROM PUBLIC;
GRANT SELECT ON pg_stat_snowflake TO PUBLIC;

-- reads tables with the rights of who calls it
CREATE FUNCTION snowflake_status(OUT check_name text, OUT status text,
	OUT found text, OUT remedy text)
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE
ROWS 20;
COMMENT ON FUNCTION snowflake_status() IS
'one row per check of this server and database: what was found, and what to do';

CREATE FUNCTION snowflake_registry_layout(layout text,
	OUT text text, OUT epoch_ms bigint, OUT tick_ms integer)
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_registry_layout(text) IS
'a layout as a registry keeps it';

-- Which life of which server this is: a registry in any other may have lost
-- writes.  Neither is to be had during recovery.
CREATE FUNCTION snowflake_registry_place(OUT system_identifier bigint,
	OUT timeline text)
LANGUAGE SQL VOLATILE CALLED ON NULL INPUT PARALLEL SAFE
BEGIN ATOMIC
	SELECT c.system_identifier,
		pg_catalog.substr(pg_catalog.pg_walfile_name(
			pg_catalog.pg_current_wal_insert_lsn()), 1, 8)
	FROM pg_catalog.pg_control_system() c;
END;
COMMENT ON FUNCTION snowflake_registry_place() IS
'which server this is, and its timeline';

-- The registry: one row, or none before snowflake_registry_init().  A worker's
-- role may update the column id, which cannot change: that is what locking the
-- row asks for.
CREATE TABLE snowflake_registry (
	id integer PRIMARY KEY DEFAULT 1 CHECK (id OPERATOR(pg_catalog.=) 1),
	generation bigint NOT NULL,
	floor bigint NOT NULL,
	layout text NOT NULL,
	epoch_ms bigint NOT NULL,
	tick_ms integer NOT NULL,
	system_identifier bigint NOT NULL,
	timeline text NOT NULL
);
COMMENT ON TABLE snowflake_registry IS
'What all servers that lease node ids here agree on';

-- A slot for each node id that was ever leased; see src/registry.h.
CREATE TABLE snowflake_registry_slot (
	node bigint PRIMARY KEY,
	version bigint NOT NULL,
	epoch bigint NOT NULL,
	owner bigint NOT NULL,
	server bigint NOT NULL,
	write_id bigint NOT NULL,
	until bigint NOT NULL,
	offset_ms bigint NOT NULL,
	released boolean NOT NULL,
	host text NOT NULL,
	process integer NOT NULL,
	since_ms bigint NOT NULL,
	address inet,
	present bigint NOT NULL,
	present_until timestamptz NOT NULL
);
COMMENT ON TABLE snowflake_registry_slot IS
'Who holds which node id, and from when on it may be leased again';

-- Which ranges of shards are whose, as workers write it; one row, or none
-- before anybody had one.
CREATE TABLE snowflake_registry_shards (
	id integer PRIMARY KEY DEFAULT 1 CHECK (id OPERATOR(pg_catalog.=) 1),
	version bigint NOT NULL,
	shards text NOT NULL
);
COMMENT ON TABLE snowflake_registry_shards IS
'Who may issue for which shards';

-- What is the same in all rows, and may be long, is in the first one.  Each row
-- is looked for by its key, so that the planner knows that there is one.
CREATE FUNCTION snowflake_registry_read(
	OUT clock_ms bigint, OUT in_place boolean,
	OUT generation bigint, OUT floor bigint, OUT layout text,
	OUT shards text, OUT shards_version bigint,
	OUT node bigint, OUT version bigint, OUT epoch bigint, OUT owner bigint,
	OUT server bigint, OUT write_id bigint, OUT until bigint,
	OUT offset_ms bigint, OUT released boolean, OUT host text,
	OUT process integer, OUT since_ms bigint, OUT address text,
	OUT present bigint)
RETURNS SETOF record
LANGUAGE SQL VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
BEGIN ATOMIC
	SELECT pg_catalog.floor(extract(epoch FROM pg_catalog.clock_timestamp())
			OPERATOR(pg_catalog.*) 1000)::bigint,
		(r.system_identifier, r.timeline)
			OPERATOR(pg_catalog.=) (p.system_identifier, p.timeline),
		r.generation, r.floor, r.layout,
		CASE WHEN pg_catalog.row_number() OVER (ORDER BY s.node)
			OPERATOR(pg_catalog.=) 1 THEN h.shards END,
		h.version,
		s.node, s.version, s.epoch, s.owner, s.server, s.write_id, s.until,
		s.offset_ms, s.released, s.host, s.process, s.since_ms,
		pg_catalog.host(s.address),
		CASE WHEN s.present_until OPERATOR(pg_catalog.>) pg_catalog.clock_timestamp()
			THEN s.present ELSE 0 END
	FROM snowflake_registry_place() p
		LEFT JOIN snowflake_registry r ON r.id OPERATOR(pg_catalog.=) 1
		LEFT JOIN snowflake_registry_shards h ON h.id OPERATOR(pg_catalog.=) 1
		LEFT JOIN snowflake_registry_slot s ON true
	ORDER BY s.node;
END;
COMMENT ON FUNCTION snowflake_registry_read() IS
'for workers: the registry, with one row for each slot';

-- One compare-and-swap.  Who changes the registry waits for it, and the other
-- way round.  ttl_ms: be present for as long, 0: leave presence alone, -1: end
-- it.  Without a holder the slot keeps the address of the last one.  written is
-- the new version, NULL if a condition did not hold.
CREATE FUNCTION snowflake_registry_write(in_generation bigint, slot bigint,
	expected bigint, claims bigint, holder bigint, machine bigint,
	new_write_id bigint, new_until bigint, ahead_ms bigint, given_back boolean,
	hostname text, postmaster integer, claimed_ms bigint, displaced bigint,
	ttl_ms bigint,
	OUT written bigint, OUT clock_ms bigint)
LANGUAGE SQL VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
BEGIN ATOMIC
	WITH locked AS MATERIALIZED (
		SELECT 1
		FROM snowflake_registry r
		WHERE r.generation OPERATOR(pg_catalog.=) in_generation
			AND (r.system_identifier, r.timeline) OPERATOR(pg_catalog.=)
				(SELECT p.system_identifier, p.timeline
				FROM snowflake_registry_place() p)
		FOR SHARE
	), made AS (
		INSERT INTO snowflake_registry_slot AS s
		SELECT slot, 1, claims, holder, machine, new_write_id, new_until,
			ahead_ms, given_back, hostname, postmaster, claimed_ms,
			pg_catalog.inet_client_addr(), holder,
			pg_catalog.clock_timestamp() OPERATOR(pg_catalog.+)
				(ttl_ms OPERATOR(pg_catalog.*) interval '1 ms')
		FROM locked
		WHERE expected OPERATOR(pg_catalog.=) 0
		ON CONFLICT DO NOTHING
		RETURNING s.version
	), changed AS (
		UPDATE snowflake_registry_slot s
		SET version = s.version OPERATOR(pg_catalog.+) 1, epoch = claims,
			owner = holder, server = machine, write_id = new_write_id, until = new_until,
			offset_ms = ahead_ms, released = given_back, host = hostname,
			process = postmaster, since_ms = claimed_ms,
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
COMMENT ON FUNCTION snowflake_registry_write(bigint, bigint, bigint, bigint, bigint, bigint, bigint, bigint, bigint, boolean, text, integer, bigint, bigint, bigint) IS
'for workers: claim, extend or give back a slot';

CREATE FUNCTION snowflake_registry_keep(slot bigint, holder bigint,
	ttl_ms bigint, OUT kept boolean, OUT clock_ms bigint)
LANGUAGE SQL VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
BEGIN ATOMIC
	WITH changed AS (
		UPDATE snowflake_registry_slot s
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
COMMENT ON FUNCTION snowflake_registry_keep(bigint, bigint, bigint) IS
'for workers: stay present';

CREATE FUNCTION snowflake_registry_write_shards(in_generation bigint,
	expected bigint, new_shards text,
	OUT written bigint, OUT clock_ms bigint)
LANGUAGE SQL VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
BEGIN ATOMIC
	WITH locked AS MATERIALIZED (
		SELECT 1
		FROM snowflake_registry r
		WHERE r.generation OPERATOR(pg_catalog.=) in_generation
			AND (r.system_identifier, r.timeline) OPERATOR(pg_catalog.=)
				(SELECT p.system_identifier, p.timeline
				FROM snowflake_registry_place() p)
		FOR SHARE
	), made AS (
		INSERT INTO snowflake_registry_shards AS h (version, shards)
		SELECT 1, new_shards
		FROM locked
		WHERE expected OPERATOR(pg_catalog.=) 0
		ON CONFLICT DO NOTHING
		RETURNING h.version
	), changed AS (
		UPDATE snowflake_registry_shards h
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
COMMENT ON FUNCTION snowflake_registry_write_shards(bigint, bigint, text) IS
'for workers: say who may issue for which shards';

CREATE FUNCTION snowflake_registry_begin(new_generation bigint,
	new_floor bigint, new_layout text, new_epoch_ms bigint,
	new_tick_ms integer, OUT written bigint, OUT clock_ms bigint)
LANGUAGE SQL VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
BEGIN ATOMIC
	WITH made AS (
		INSERT INTO snowflake_registry AS r
		SELECT 1, new_generation, new_floor, new_layout, new_epoch_ms,
			new_tick_ms, p.system_identifier, p.timeline
		FROM snowflake_registry_place() p
		ON CONFLICT DO NOTHING
		RETURNING r.id
	)
	SELECT (SELECT m.id::bigint FROM made m),
		pg_catalog.floor(extract(epoch FROM pg_catalog.clock_timestamp())
			OPERATOR(pg_catalog.*) 1000)::bigint;
END;
COMMENT ON FUNCTION snowflake_registry_begin(bigint, bigint, text, bigint, integer) IS
'for workers: make this database a registry, if it is none';

-- In any place: this is where it goes on.
CREATE FUNCTION snowflake_registry_renew(in_generation bigint,
	new_generation bigint, new_floor bigint,
	OUT written bigint, OUT clock_ms bigint)
LANGUAGE SQL VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
BEGIN ATOMIC
	WITH changed AS (
		UPDATE snowflake_registry r
		SET generation = new_generation,
			floor = greatest(r.floor, new_floor,
				(SELECT pg_catalog.max(s.until) FROM snowflake_registry_slot s)),
			system_identifier = p.system_identifier, timeline = p.timeline
		FROM snowflake_registry_place() p
		WHERE r.generation OPERATOR(pg_catalog.=) in_generation
		RETURNING r.id
	)
	SELECT (SELECT c.id::bigint FROM changed c),
		pg_catalog.floor(extract(epoch FROM pg_catalog.clock_timestamp())
			OPERATOR(pg_catalog.*) 1000)::bigint;
END;
COMMENT ON FUNCTION snowflake_registry_renew(bigint, bigint, bigint) IS
'for workers: after a loss of data, another generation and floor';

-- What administrators call: it is done in the registry that snowflake.registry
-- names, or else by these functions here.  They give nobody more than he may do
-- with the tables, so everybody may call them.
--
CREATE FUNCTION snowflake_registry_init_here(layout text)
RETURNS boolean
LANGUAGE SQL VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
BEGIN ATOMIC
	SELECT pg_catalog.count(b.written) OPERATOR(pg_catalog.>) 0
	FROM snowflake_registry_layout(layout) l,
		snowflake_registry_begin(
			('x' OPERATOR(pg_catalog.||) pg_catalog.right(pg_catalog.replace(
				pg_catalog.gen_random_uuid()::text, '-', ''), 16))::bit(64)::bigint,
			greatest(0, pg_catalog.ceil(
				(extract(epoch FROM pg_catalog.clock_timestamp())
					OPERATOR(pg_catalog.*) 1000 OPERATOR(pg_catalog.-) l.epoch_ms)
				OPERATOR(pg_catalog./) l.tick_ms))::bigint,
			l.text, l.epoch_ms, l.tick_ms) b
	WHERE l.text IS NOT NULL;
END;
COMMENT ON FUNCTION snowflake_registry_init_here(text) IS
'snowflake_registry_init() where this database is the registry';

CREATE FUNCTION snowflake_registry_recover_here(largest_reserve interval,
	largest_offset interval)
RETURNS timestamptz
LANGUAGE SQL VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
BEGIN ATOMIC
	UPDATE snowflake_registry r
	SET generation = ('x' OPERATOR(pg_catalog.||) pg_catalog.right(pg_catalog.replace(
			pg_catalog.gen_random_uuid()::text, '-', ''), 16))::bit(64)::bigint,
		floor = greatest(r.floor,
			(SELECT pg_catalog.max(s.until) FROM snowflake_registry_slot s),
			pg_catalog.ceil(
				(extract(epoch FROM pg_catalog.clock_timestamp()
						OPERATOR(pg_catalog.+) largest_reserve
						OPERATOR(pg_catalog.+) largest_offset)
					OPERATOR(pg_catalog.*) 1000 OPERATOR(pg_catalog.-) r.epoch_ms)
				OPERATOR(pg_catalog./) r.tick_ms)::bigint),
		system_identifier = p.system_identifier, timeline = p.timeline
	FROM snowflake_registry_place() p
	RETURNING pg_catalog.to_timestamp(
		(r.epoch_ms OPERATOR(pg_catalog.+) (r.floor OPERATOR(pg_catalog.*) r.tick_ms))
			OPERATOR(pg_catalog./) 1000.0);
END;
COMMENT ON FUNCTION snowflake_registry_recover_here(interval, interval) IS
'snowflake_registry_recover() where this database is the registry';

CREATE FUNCTION snowflake_registry_slots_here(
	OUT slot bigint, OUT host text, OUT address inet, OUT process integer,
	OUT holder text, OUT since timestamptz, OUT until timestamptz, OUT present boolean,
	OUT released boolean, OUT clock_offset interval)
RETURNS SETOF record
LANGUAGE SQL VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
BEGIN ATOMIC
	SELECT s.node, s.host, s.address, s.process,
		pg_catalog.to_hex(s.owner),
		pg_catalog.to_timestamp(s.since_ms OPERATOR(pg_catalog./) 1000.0),
		pg_catalog.to_timestamp(
			(r.epoch_ms OPERATOR(pg_catalog.+) (s.until OPERATOR(pg_catalog.*) r.tick_ms))
				OPERATOR(pg_catalog./) 1000.0),
		s.present OPERATOR(pg_catalog.<>) 0
			AND s.present_until OPERATOR(pg_catalog.>) pg_catalog.clock_timestamp(),
		s.released, s.offset_ms OPERATOR(pg_catalog.*) interval '1 ms'
	FROM snowflake_registry_slot s
		JOIN snowflake_registry r ON r.id OPERATOR(pg_catalog.=) 1
	ORDER BY s.node;
END;
COMMENT ON FUNCTION snowflake_registry_slots_here() IS
'snowflake_registry_slots() where this database is the registry';

-- The holder, should it live, finds that the record is not its own any more.
CREATE FUNCTION snowflake_registry_release_here(slot bigint)
RETURNS boolean
LANGUAGE SQL VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
BEGIN ATOMIC
	WITH changed AS (
		UPDATE snowflake_registry_slot s
		SET version = s.version OPERATOR(pg_catalog.+) 1, owner = 0,
			released = true, present = 0,
			write_id = ('x' OPERATOR(pg_catalog.||) pg_catalog.right(pg_catalog.replace(
				pg_catalog.gen_random_uuid()::text, '-', ''), 16))::bit(64)::bigint
		WHERE s.node OPERATOR(pg_catalog.=) slot
			AND NOT (s.released AND s.present OPERATOR(pg_catalog.=) 0)
		RETURNING s.node
	)
	SELECT EXISTS (SELECT FROM changed);
END;
COMMENT ON FUNCTION snowflake_registry_release_here(bigint) IS
'snowflake_registry_release() where this database is the registry';

CREATE FUNCTION snowflake_registry_init(layout text DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION snowflake_registry_init(text) IS
'make a registry that has lost no data one for servers with this layout; false if it is one';

CREATE FUNCTION snowflake_registry_recover(
	largest_reserve interval DEFAULT '90 s',
	largest_offset interval DEFAULT '5 s')
RETURNS timestamptz
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION snowflake_registry_recover(interval, interval) IS
'after a loss of data: let nobody claim a slot before what any server may have reserved';

CREATE FUNCTION snowflake_registry_slots(
	OUT slot bigint, OUT host text, OUT address inet, OUT process integer,
	OUT holder text, OUT since timestamptz, OUT until timestamptz,
	OUT present boolean, OUT released boolean, OUT clock_offset interval)
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION snowflake_registry_slots() IS
'who holds which node id of the registry';

CREATE FUNCTION snowflake_registry_release(slot bigint) RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION snowflake_registry_release(bigint) IS
'free the slot of a holder that is gone; false if nobody held it';

REVOKE ALL ON FUNCTION snowflake_registry_read(),
	snowflake_registry_write(bigint, bigint, bigint, bigint, bigint, bigint, bigint, bigint, bigint, boolean, text, integer, bigint, bigint, bigint),
	snowflake_registry_keep(bigint, bigint, bigint),
	snowflake_registry_write_shards(bigint, bigint, text),
	snowflake_registry_begin(bigint, bigint, text, bigint, integer),
	snowflake_registry_renew(bigint, bigint, bigint),
	snowflake_registry_init(text),
	snowflake_registry_recover(interval, interval),
	snowflake_registry_slots(), snowflake_registry_release(bigint)
FROM PUBLIC;

--
-- Administration
--
CREATE FUNCTION snowflake_advance(id bigint, force boolean DEFAULT false,
	layout text DEFAULT NULL) RETURNS timestamptz
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION snowflake_advance(bigint, boolean, text) IS
'never issue at or below this ID again';

CREATE FUNCTION snowflake_accept_clock() RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION snowflake_accept_clock() IS
'take the present wall clock for right after it has jumped';

CREATE FUNCTION snowflake_accept_configuration() RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION snowflake_accept_configuration() IS
'record the configured epochs and layouts in place of others';

CREATE FUNCTION snowflake_accept_copy() RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION snowflake_accept_copy() IS
'no other server has this data any more';

REVOKE ALL ON FUNCTION snowflake_advance(bigint, boolean, text),
	snowflake_accept_clock(), snowflake_accept_configuration(),
	snowflake_accept_copy() FROM PUBLIC;

-- reads the table with the rights of who calls it
CREATE FUNCTION snowflake_twins(relation regclass,
	"column" name DEFAULT 'id', max_rows integer DEFAULT 100,
	OUT id bigint, OUT created_at timestamptz, OUT reason text)
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL RESTRICTED
ROWS 10;
COMMENT ON FUNCTION snowflake_twins(regclass, name, integer) IS
'IDs in a table that carry the node of this server, and that it cannot have issued';

--
-- ALTER DEFAULT PRIVILEGES of whoever creates the extension means objects of the
-- application, and not what guards the IDs: there only this script says who may
-- do what.
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
				AND e.extname OPERATOR(pg_catalog.=) 'snowflake'
		), guard AS (
			SELECT pg_catalog.format('SCHEMA %s', objid::pg_catalog.regnamespace) AS name,
				nspowner AS owner, nspacl AS acl
			FROM member, pg_catalog.pg_namespace n
			WHERE classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_namespace'::pg_catalog.regclass
				AND n.oid OPERATOR(pg_catalog.=) objid
			UNION ALL
			SELECT pg_catalog.format('TABLE %s', objid::pg_catalog.regclass), relowner, relacl
			FROM member, pg_catalog.pg_class c
			WHERE classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass
				AND c.oid OPERATOR(pg_catalog.=) objid
				AND relkind OPERATOR(pg_catalog.=) ANY ('{r,S}'::pg_catalog."char"[])
			UNION ALL
			SELECT pg_catalog.format('FUNCTION %s', objid::pg_catalog.regprocedure), proowner, proacl
			FROM member, pg_catalog.pg_proc p
			WHERE classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass
				AND p.oid OPERATOR(pg_catalog.=) objid
				AND proname OPERATOR(pg_catalog.=) ANY ('{
					snowflake_accept_clock, snowflake_accept_configuration,
					snowflake_accept_copy, snowflake_advance, snowflake_stat_reset,
					snowflake_registry_begin, snowflake_registry_init,
					snowflake_registry_keep, snowflake_registry_read,
					snowflake_registry_recover, snowflake_registry_release,
					snowflake_registry_renew, snowflake_registry_slots,
					snowflake_registry_write, snowflake_registry_write_shards
				}'::pg_catalog.name[])
		)
		SELECT pg_catalog.format('%s FROM %s', name, grantee::pg_catalog.regrole)
		FROM guard, LATERAL pg_catalog.aclexplode(acl)
		WHERE grantee OPERATOR(pg_catalog.<>) owner
			AND grantee OPERATOR(pg_catalog.<>) 0::pg_catalog.oid
	LOOP
		EXECUTE pg_catalog.concat('REVOKE ALL ON ', given);
	END LOOP;
END
$$;

--
-- Where the extension is created again while the server runs, the new mark
-- begins above the old one.  The search_path is that of CREATE EXTENSION.
--
CREATE FUNCTION snowflake_initialize() RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION snowflake_initialize() IS
'part of the install script';
SELECT snowflake_initialize();
DROP FUNCTION snowflake_initialize();
