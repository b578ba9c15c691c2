-- The install script of snowflake 1.0.

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION snowflake" to load this file. \quit

--
-- What has to survive: each sequence holds one number, written by the library
-- through WAL, and follows the database into standbys, dumps and copies.
-- Everybody may read them, or pg_dump by a database's owner would fail.
--
CREATE SEQUENCE snowflake_mark MINVALUE 0 START 0;
CREATE SEQUENCE snowflake_recorded_layout MINVALUE 0 START 0;
CREATE SEQUENCE snowflake_recorded_epoch MINVALUE 0 START 0;
CREATE SEQUENCE snowflake_recorded_shard_layout MINVALUE 0 START 0;
CREATE SEQUENCE snowflake_recorded_shard_epoch MINVALUE 0 START 0;

COMMENT ON SEQUENCE snowflake_mark IS
'Every ID in this database has a timestamp below this, in Unix milliseconds';
COMMENT ON SEQUENCE snowflake_recorded_layout IS
'Code of the layout that this database was filled with';
COMMENT ON SEQUENCE snowflake_recorded_epoch IS
'Epoch of that layout, in Unix milliseconds';
COMMENT ON SEQUENCE snowflake_recorded_shard_layout IS
'Code of the layout that this database was filled with, for shards';
COMMENT ON SEQUENCE snowflake_recorded_shard_epoch IS
'Epoch of that layout, in Unix milliseconds';

REVOKE ALL ON SEQUENCE snowflake_mark, snowflake_recorded_layout,
	snowflake_recorded_epoch, snowflake_recorded_shard_layout,
	snowflake_recorded_shard_epoch FROM PUBLIC;
GRANT SELECT ON SEQUENCE snowflake_mark, snowflake_recorded_layout,
	snowflake_recorded_epoch, snowflake_recorded_shard_layout,
	snowflake_recorded_shard_epoch TO PUBLIC;

SELECT pg_catalog.pg_extension_config_dump('snowflake_mark', '');
SELECT pg_catalog.pg_extension_config_dump('snowflake_recorded_layout', '');
SELECT pg_catalog.pg_extension_config_dump('snowflake_recorded_epoch', '');
SELECT pg_catalog.pg_extension_config_dump('snowflake_recorded_shard_layout', '');
SELECT pg_catalog.pg_extension_config_dump('snowflake_recorded_shard_epoch', '');

--
-- Making IDs
--
CREATE FUNCTION snowflake_nextval() RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
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
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
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

REVOKE ALL ON FUNCTION snowflake_advance(bigint, boolean, text),
	snowflake_accept_clock(), snowflake_accept_configuration() FROM PUBLIC;

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
