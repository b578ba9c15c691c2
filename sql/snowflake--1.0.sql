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
		HINT = 'Remove pgEdge''s files, install those of this extension again, and restart the server. To migrate from pgEdge''s, first drop the defaults that call snowflake.nextval(), and DROP EXTENSION snowflake.';
END
$$;

--
-- What has to survive: each sequence holds one number, written by the library
-- through WAL, and follows the database into standbys, dumps and copies.
--
-- They have a schema of their own, where GRANT ... ON ALL SEQUENCES IN SCHEMA
-- of the application's does not reach them.  Parsing a statement locks the table
-- before any right on it is checked, so a role that can name one of them can stop
-- all IDs.  PUBLIC cannot.  The database's owner can, for pg_dump, and so can the
-- members of pg_read_all_data and pg_write_all_data.  To read one by its OID,
-- everybody has the right.  Their increment is such that nextval() moves none of
-- them: of one that was never written it returns the 0, and else it fails.  It is negative,
-- since tools that warn of sequences which end soon count a number as used otherwise.
-- setval(), which a restore calls, ignores the increment.
--
CREATE SCHEMA snowflake_state;
COMMENT ON SCHEMA snowflake_state IS
'What guards the IDs of this database';
CREATE SEQUENCE snowflake_state.snowflake_mark
	MINVALUE 0 START 0 MAXVALUE 9223372036854775806
	INCREMENT -9223372036854775807;
CREATE SEQUENCE snowflake_state.snowflake_recorded_layout
	MINVALUE 0 START 0 MAXVALUE 9223372036854775806
	INCREMENT -9223372036854775807;
CREATE SEQUENCE snowflake_state.snowflake_recorded_epoch
	MINVALUE 0 START 0 MAXVALUE 9223372036854775806
	INCREMENT -9223372036854775807;
CREATE SEQUENCE snowflake_state.snowflake_recorded_shard_layout
	MINVALUE 0 START 0 MAXVALUE 9223372036854775806
	INCREMENT -9223372036854775807;
CREATE SEQUENCE snowflake_state.snowflake_recorded_shard_epoch
	MINVALUE 0 START 0 MAXVALUE 9223372036854775806
	INCREMENT -9223372036854775807;

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
REVOKE ALL ON ALL SEQUENCES IN SCHEMA snowflake_state FROM PUBLIC;
GRANT SELECT ON ALL SEQUENCES IN SCHEMA snowflake_state TO PUBLIC;

SELECT pg_catalog.pg_extension_config_dump('snowflake_state.snowflake_mark', '');
SELECT pg_catalog.pg_extension_config_dump('snowflake_state.snowflake_recorded_layout', '');
SELECT pg_catalog.pg_extension_config_dump('snowflake_state.snowflake_recorded_epoch', '');
SELECT pg_catalog.pg_extension_config_dump('snowflake_state.snowflake_recorded_shard_layout', '');
SELECT pg_catalog.pg_extension_config_dump('snowflake_state.snowflake_recorded_shard_epoch', '');

--
-- Functions that nobody calls by hand.  Everybody may use their schema: where one
-- server sends parts of a plan to another as text, the text names some of them.
--
CREATE SCHEMA snowflake_internal;
COMMENT ON SCHEMA snowflake_internal IS
'Functions of the extension snowflake that nobody calls by hand';
REVOKE ALL ON SCHEMA snowflake_internal FROM PUBLIC;
GRANT USAGE ON SCHEMA snowflake_internal TO PUBLIC;

--
-- The type snowflake: a bigint that to_json() writes as a string, since that
-- function knows the server's own types only, and that has a hash function of its
-- own.  All else is the server's, so a column can change between the two types
-- without a rewrite.
--
CREATE TYPE snowflake;
CREATE FUNCTION snowflake_internal.snowflake_in(cstring) RETURNS snowflake
AS 'int8in' LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_internal.snowflake_in(cstring) IS
'I/O';
CREATE FUNCTION snowflake_internal.snowflake_out(snowflake) RETURNS cstring
AS 'int8out' LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_internal.snowflake_out(snowflake) IS
'I/O';
CREATE FUNCTION snowflake_internal.snowflake_recv(internal) RETURNS snowflake
AS 'int8recv' LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_internal.snowflake_recv(internal) IS
'I/O';
CREATE FUNCTION snowflake_internal.snowflake_send(snowflake) RETURNS bytea
AS 'int8send' LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_internal.snowflake_send(snowflake) IS
'I/O';
CREATE TYPE snowflake (
	INPUT = snowflake_internal.snowflake_in,
	OUTPUT = snowflake_internal.snowflake_out,
	RECEIVE = snowflake_internal.snowflake_recv,
	SEND = snowflake_internal.snowflake_send,
	LIKE = pg_catalog.int8, CATEGORY = 'N');
COMMENT ON TYPE snowflake IS
'a bigint that JSON has as a string, and whose hash uses all bits of an ID';

-- The casts of bigint.  Implicit are the one to bigint, by which everything takes the
-- type, and those from smaller integers, by which an expression of a key and a number
-- is a key.  A cast that is implicit from bigint to numeric or double precision is none
-- here: with two ways out of the type, sum(id) and abs(id) would be ambiguous.
CREATE CAST (snowflake AS bigint) WITHOUT FUNCTION AS IMPLICIT;
COMMENT ON CAST (snowflake AS bigint) IS
'for all that takes a bigint';
CREATE CAST (bigint AS snowflake) WITHOUT FUNCTION AS ASSIGNMENT;
COMMENT ON CAST (bigint AS snowflake) IS
'for what makes an ID';
DO $$
DECLARE
	statement pg_catalog.text;
BEGIN
	FOR statement IN
		SELECT s.statement
		FROM (VALUES
			('int4', 'int48', 'IMPLICIT', 'int84', 'ASSIGNMENT'),
			('int2', 'int28', 'IMPLICIT', 'int82', 'ASSIGNMENT'),
			('numeric', 'numeric_int8', 'ASSIGNMENT', 'int8_numeric', 'ASSIGNMENT'),
			('float8', 'dtoi8', 'ASSIGNMENT', 'i8tod', 'ASSIGNMENT'),
			('float4', 'ftoi8', 'ASSIGNMENT', 'i8tof', 'ASSIGNMENT'),
			('bit', 'bittoint8', NULL, 'bitfromint8', NULL),
			('jsonb', 'jsonb_int8', NULL, NULL, NULL)) AS t (type, from_code, from_when, to_code, to_when),
		LATERAL (VALUES
			('from_' OPERATOR(pg_catalog.||) type, 'pg_catalog.' OPERATOR(pg_catalog.||) type, '@extschema@.snowflake', '', from_code, from_when, type OPERATOR(pg_catalog.~) '^int'),
			('to_' OPERATOR(pg_catalog.||) type, '@extschema@.snowflake', 'pg_catalog.' OPERATOR(pg_catalog.||) type,
				CASE WHEN type OPERATOR(pg_catalog.=) 'bit' THEN ', pg_catalog.int4' ELSE '' END, to_code, to_when,
				type OPERATOR(pg_catalog.~) '^(numeric|float)')) AS c (name, source, target, more, code, context, safe),
		LATERAL (VALUES
			(1, pg_catalog.format('CREATE FUNCTION snowflake_internal.%I(%s%s) RETURNS %s AS %L LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE%s',
				name, source, more, target, code, CASE WHEN safe THEN ' LEAKPROOF' END)),
			(2, pg_catalog.format('COMMENT ON FUNCTION snowflake_internal.%I(%s%s) IS %L', name, source, more, 'cast of a key')),
			(3, pg_catalog.format('CREATE CAST (%1$s AS %2$s) WITH FUNCTION snowflake_internal.%3$I(%1$s%4$s) %5$s',
				source, target, name, more, 'AS ' OPERATOR(pg_catalog.||) context)),
			(4, pg_catalog.format('COMMENT ON CAST (%s AS %s) IS %L', source, target, 'as of bigint'))) AS s (step, statement)
		WHERE code IS NOT NULL
		ORDER BY name, step
	LOOP
		EXECUTE statement;
	END LOOP;
END
$$;

-- The hash: each type that an operator = has on either side, by the same function.
CREATE FUNCTION snowflake_internal.hash(snowflake) RETURNS integer
AS 'MODULE_PATHNAME', 'snowflake_hash8' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_internal.hash(snowflake) IS
'hash';
CREATE FUNCTION snowflake_internal.hash(bigint) RETURNS integer
AS 'MODULE_PATHNAME', 'snowflake_hash8' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_internal.hash(bigint) IS
'hash';
CREATE FUNCTION snowflake_internal.hash(integer) RETURNS integer
AS 'MODULE_PATHNAME', 'snowflake_hash4' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_internal.hash(integer) IS
'hash';
CREATE FUNCTION snowflake_internal.hash(smallint) RETURNS integer
AS 'MODULE_PATHNAME', 'snowflake_hash2' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_internal.hash(smallint) IS
'hash';
CREATE FUNCTION snowflake_internal.hash(id snowflake, seed bigint) RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_hash8_extended' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_internal.hash(snowflake, bigint) IS
'hash';
CREATE FUNCTION snowflake_internal.hash(id bigint, seed bigint) RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_hash8_extended' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_internal.hash(bigint, bigint) IS
'hash';
CREATE FUNCTION snowflake_internal.hash(id integer, seed bigint) RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_hash4_extended' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_internal.hash(integer, bigint) IS
'hash';
CREATE FUNCTION snowflake_internal.hash(id smallint, seed bigint) RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_hash2_extended' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_internal.hash(smallint, bigint) IS
'hash';

-- For frames of windows: RANGE BETWEEN ... PRECEDING.
CREATE FUNCTION snowflake_internal.in_range(val snowflake, base snowflake, delta bigint,
	sub boolean, less boolean)
RETURNS boolean
AS 'in_range_int8_int8' LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_internal.in_range(snowflake, snowflake, bigint, boolean, boolean) IS
'window RANGE support';

--
-- Operators with itself and with each integer type, on both sides.  They lie in
-- pg_catalog: the server prints one operator for a whole row, that of its first column,
-- as in (id, customer) > (5, 1), and a dump is restored with pg_catalog alone in the
-- search path.
--
-- Each operator class has a family of its own, to which the server's operators of two
-- integers belong, too.  So an index of the type serves conditions of bigint.  The
-- families of the server are left alone: pg_upgrade would lose what is added to them.
-- compare_support() tells the planner what bigint comparison one of the type is, where
-- that helps: beside a column of integers, and for an index of other extensions.
--
CREATE FUNCTION snowflake_internal.compare_support(internal) RETURNS internal
AS 'MODULE_PATHNAME', 'snowflake_compare_support' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_internal.compare_support(internal) IS
'planner support for comparisons of the type snowflake';

DO $$
DECLARE
	statement pg_catalog.text;
BEGIN
	FOR statement IN
		WITH pair AS (
			SELECT *, l OPERATOR(pg_catalog.||) ', ' OPERATOR(pg_catalog.||) r AS types,
				CASE WHEN ours THEN 'snowflake_internal.cmp' ELSE pg_catalog.concat('pg_catalog.btint', code, 'cmp') END AS cmp
			FROM (VALUES
				('@extschema@.snowflake', '@extschema@.snowflake', '8', true),
				('@extschema@.snowflake', 'pg_catalog.int8', '8', true),
				('@extschema@.snowflake', 'pg_catalog.int4', '84', true),
				('@extschema@.snowflake', 'pg_catalog.int2', '82', true),
				('pg_catalog.int8', '@extschema@.snowflake', '8', true),
				('pg_catalog.int4', '@extschema@.snowflake', '48', true),
				('pg_catalog.int2', '@extschema@.snowflake', '28', true),
				('pg_catalog.int8', 'pg_catalog.int8', '8', false),
				('pg_catalog.int8', 'pg_catalog.int4', '84', false),
				('pg_catalog.int8', 'pg_catalog.int2', '82', false),
				('pg_catalog.int4', 'pg_catalog.int8', '48', false),
				('pg_catalog.int4', 'pg_catalog.int4', '4', false),
				('pg_catalog.int4', 'pg_catalog.int2', '42', false),
				('pg_catalog.int2', 'pg_catalog.int8', '28', false),
				('pg_catalog.int2', 'pg_catalog.int4', '24', false),
				('pg_catalog.int2', 'pg_catalog.int2', '2', false)) AS p (l, r, code, ours)
		), op AS (
			SELECT p.*, o.*
			FROM pair p CROSS JOIN (VALUES
				(1, '<', 'lt', '>', '>=', 'scalarlt', '', 'less than'),
				(2, '<=', 'le', '>=', '>', 'scalarle', '', 'less than or equal'),
				(3, '=', 'eq', '=', '<>', 'eq', ', HASHES, MERGES', 'equal'),
				(4, '>=', 'ge', '<=', '<', 'scalarge', '', 'greater than or equal'),
				(5, '>', 'gt', '<', '<=', 'scalargt', '', 'greater than'),
				(NULL, '<>', 'ne', '<>', '=', 'neq', '', 'not equal')
				) AS o (strategy, name, function, commutator, negator, selectivity, more, comment)
		), member AS (
			SELECT pg_catalog.string_agg(pg_catalog.format('OPERATOR %s pg_catalog.%s (%s)', strategy, name, types), ', ') AS all,
				pg_catalog.string_agg(pg_catalog.format('OPERATOR 1 pg_catalog.= (%s)', types), ', ')
					FILTER (WHERE strategy OPERATOR(pg_catalog.=) 3) AS equal
			FROM op WHERE strategy IS NOT NULL
		)
		SELECT s.statement FROM (
			SELECT 1, pg_catalog.format('CREATE FUNCTION snowflake_internal.%s(%s) RETURNS pg_catalog.bool AS ''int%s%s'' LANGUAGE internal IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE%s',
				function, types, code, function, CASE WHEN strategy IS NOT NULL THEN ' SUPPORT snowflake_internal.compare_support' END) FROM op WHERE ours
			UNION ALL
			SELECT 1, pg_catalog.format('CREATE FUNCTION snowflake_internal.cmp(%s) RETURNS pg_catalog.int4 AS ''btint%scmp'' LANGUAGE internal IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE',
				types, code) FROM pair WHERE ours
			UNION ALL
			SELECT 2, pg_catalog.format('CREATE OPERATOR pg_catalog.%s (FUNCTION = snowflake_internal.%s, LEFTARG = %s, RIGHTARG = %s, COMMUTATOR = OPERATOR(pg_catalog.%s), NEGATOR = OPERATOR(pg_catalog.%s), RESTRICT = pg_catalog.%ssel, JOIN = pg_catalog.%7$sjoinsel%8$s)',
				name, function, l, r, commutator, negator, selectivity, more) FROM op WHERE ours
			UNION ALL
			SELECT 3, pg_catalog.format('COMMENT ON FUNCTION snowflake_internal.%s(%s) IS ''implementation of %s operator''',
				function, types, name) FROM op WHERE ours
			UNION ALL
			SELECT 3, pg_catalog.format('COMMENT ON FUNCTION snowflake_internal.cmp(%s) IS ''less-equal-greater''', types) FROM pair WHERE ours
			UNION ALL
			SELECT 3, pg_catalog.format('COMMENT ON OPERATOR pg_catalog.%s (%s) IS %L', name, types, comment) FROM op WHERE ours
			UNION ALL
			SELECT 4, pg_catalog.concat('CREATE OPERATOR CLASS @extschema@.snowflake_ops DEFAULT FOR TYPE @extschema@.snowflake USING btree AS ',
				(SELECT member.all FROM member), ', ',
				(SELECT pg_catalog.string_agg(pg_catalog.format('FUNCTION 1 (%1$s) %2$s(%1$s)', types, cmp), ', ') FROM pair), ',
				FUNCTION 2 pg_catalog.btint8sortsupport(internal),
				FUNCTION 2 (pg_catalog.int8, pg_catalog.int8) pg_catalog.btint8sortsupport(internal),
				FUNCTION 2 (pg_catalog.int4, pg_catalog.int4) pg_catalog.btint4sortsupport(internal),
				FUNCTION 2 (pg_catalog.int2, pg_catalog.int2) pg_catalog.btint2sortsupport(internal),
				FUNCTION 3 (@extschema@.snowflake, pg_catalog.int8) snowflake_internal.in_range(@extschema@.snowflake, @extschema@.snowflake, pg_catalog.int8, pg_catalog.bool, pg_catalog.bool),
				FUNCTION 4 pg_catalog.btequalimage(pg_catalog.oid)')
			UNION ALL
			SELECT 4, pg_catalog.concat('CREATE OPERATOR CLASS @extschema@.snowflake_minmax_ops DEFAULT FOR TYPE @extschema@.snowflake USING brin AS ',
				(SELECT member.all FROM member), ', ',
				(SELECT pg_catalog.string_agg(pg_catalog.format('FUNCTION %s (%s) pg_catalog.brin_minmax_%s', number, types, name), ', ')
					FROM pair CROSS JOIN (VALUES (1, 'opcinfo(internal)'), (2, 'add_value(internal, internal, internal, internal)'),
						(3, 'consistent(internal, internal, internal)'), (4, 'union(internal, internal, internal)')) AS n (number, name)
					WHERE l OPERATOR(pg_catalog.=) r), ',
				STORAGE pg_catalog.int8')
			UNION ALL
			SELECT 4, pg_catalog.concat('CREATE OPERATOR CLASS @extschema@.snowflake_ops DEFAULT FOR TYPE @extschema@.snowflake USING hash AS ',
				(SELECT member.equal FROM member), ', ',
				(SELECT pg_catalog.string_agg(pg_catalog.format('FUNCTION %1$s (%2$s, %2$s) snowflake_internal.hash(%2$s%3$s)', number, l, seed), ', ')
					FROM pair CROSS JOIN (VALUES (1, ''), (2, ', pg_catalog.int8')) AS n (number, seed)
					WHERE l OPERATOR(pg_catalog.=) r))) AS s (step, statement)
		ORDER BY s.step
	LOOP
		EXECUTE statement;
	END LOOP;
END
$$;

COMMENT ON OPERATOR CLASS snowflake_ops USING btree IS
'the order of IDs, among integers too';
COMMENT ON OPERATOR FAMILY snowflake_ops USING btree IS
'the order of IDs and of integers';
COMMENT ON OPERATOR CLASS snowflake_minmax_ops USING brin IS
'ranges of IDs';
COMMENT ON OPERATOR FAMILY snowflake_minmax_ops USING brin IS
'ranges of IDs and of integers';
COMMENT ON OPERATOR CLASS snowflake_ops USING hash IS
'a hash that uses all bits of an ID';
COMMENT ON OPERATOR FAMILY snowflake_ops USING hash IS
'a hash that uses all bits of an ID, also for integers that equal it';

CREATE FUNCTION snowflake_internal.smaller(snowflake, snowflake) RETURNS snowflake
AS 'int8smaller' LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_internal.smaller(snowflake, snowflake) IS
'smaller of two';
CREATE FUNCTION snowflake_internal.larger(snowflake, snowflake) RETURNS snowflake
AS 'int8larger' LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_internal.larger(snowflake, snowflake) IS
'larger of two';
CREATE AGGREGATE pg_catalog.min(snowflake) (
	SFUNC = snowflake_internal.smaller, STYPE = snowflake,
	COMBINEFUNC = snowflake_internal.smaller,
	SORTOP = OPERATOR(pg_catalog.<), PARALLEL = SAFE);
COMMENT ON AGGREGATE pg_catalog.min(snowflake) IS
'minimum value of all snowflake input values';
CREATE AGGREGATE pg_catalog.max(snowflake) (
	SFUNC = snowflake_internal.larger, STYPE = snowflake,
	COMBINEFUNC = snowflake_internal.larger,
	SORTOP = OPERATOR(pg_catalog.>), PARALLEL = SAFE);
COMMENT ON AGGREGATE pg_catalog.max(snowflake) IS
'maximum value of all snowflake input values';

--
-- Making IDs. pgEdge's library has functions of its own that are called
-- snowflake_nextval and snowflake_currval in C: should it take the place of ours,
-- neither may be called for the other.
--
CREATE FUNCTION snowflake_internal.copy_support(internal) RETURNS internal
AS 'MODULE_PATHNAME', 'snowflake_copy_support' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_internal.copy_support(internal) IS
'planner support for COPY';

CREATE FUNCTION snowflake_nextval() RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_next_id' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED
SUPPORT snowflake_internal.copy_support;
COMMENT ON FUNCTION snowflake_nextval() IS
'the next ID of this node';

CREATE FUNCTION snowflake_nextval(layout text) RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_nextval_layout' LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL RESTRICTED
SUPPORT snowflake_internal.copy_support;
COMMENT ON FUNCTION snowflake_nextval(text) IS
'the next ID of this node in this layout';

-- The same, for tools that take a default with "nextval" in it for a sequence's.
CREATE FUNCTION snowflake_generate() RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_next_id' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED
SUPPORT snowflake_internal.copy_support;
COMMENT ON FUNCTION snowflake_generate() IS
'the next ID of this node: another name of snowflake_nextval()';

CREATE FUNCTION snowflake_generate(layout text) RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_nextval_layout' LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL RESTRICTED
SUPPORT snowflake_internal.copy_support;
COMMENT ON FUNCTION snowflake_generate(text) IS
'the next ID of this node in this layout: another name of snowflake_nextval(layout)';

CREATE FUNCTION snowflake_nextval_batch(count integer) RETURNS SETOF bigint
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL RESTRICTED
ROWS 1000;
COMMENT ON FUNCTION snowflake_nextval_batch(integer) IS
'the next IDs of this node, ascending';

CREATE FUNCTION snowflake_nextval_batch(count integer, layout text) RETURNS SETOF bigint
AS 'MODULE_PATHNAME', 'snowflake_nextval_batch_layout' LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL RESTRICTED
ROWS 1000;
COMMENT ON FUNCTION snowflake_nextval_batch(integer, text) IS
'the next IDs of this node in this layout, ascending';

CREATE FUNCTION snowflake_shard_nextval(shard bigint) RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL RESTRICTED
SUPPORT snowflake_internal.copy_support;
COMMENT ON FUNCTION snowflake_shard_nextval(bigint) IS
'the next ID of a shard';

-- What COPY calls in their place; SQL cannot, for the type of the argument.
CREATE FUNCTION snowflake_internal.copy_nextval(internal) RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_next_id' LANGUAGE C STABLE CALLED ON NULL INPUT PARALLEL RESTRICTED;
COMMENT ON FUNCTION snowflake_internal.copy_nextval(internal) IS
'snowflake_nextval(), as COPY calls it';

CREATE FUNCTION snowflake_internal.copy_nextval(layout text, internal) RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_nextval_layout' LANGUAGE C STABLE CALLED ON NULL INPUT PARALLEL RESTRICTED;
COMMENT ON FUNCTION snowflake_internal.copy_nextval(text, internal) IS
'snowflake_nextval(layout), as COPY calls it';

CREATE FUNCTION snowflake_internal.copy_shard_nextval(shard bigint, internal) RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_shard_nextval' LANGUAGE C STABLE CALLED ON NULL INPUT PARALLEL RESTRICTED;
COMMENT ON FUNCTION snowflake_internal.copy_shard_nextval(bigint, internal) IS
'snowflake_shard_nextval(), as COPY calls it';

CREATE FUNCTION snowflake_shard_nextval_batch(shard bigint, count integer)
RETURNS SETOF bigint
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL RESTRICTED
ROWS 1000;
COMMENT ON FUNCTION snowflake_shard_nextval_batch(bigint, integer) IS
'the next IDs of a shard, ascending';

CREATE FUNCTION snowflake_currval() RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_last_id' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION snowflake_currval() IS
'the last ID that this session made';

CREATE FUNCTION snowflake_ready() RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION snowflake_ready() IS
'true, or the error that keeps this server from making IDs';

CREATE FUNCTION snowflake_ready(layout text) RETURNS boolean
AS 'MODULE_PATHNAME', 'snowflake_ready_layout' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION snowflake_ready(text) IS
'true, or the error that keeps this server from making IDs of this layout';

--
-- Reading IDs: with the configured layout stable, since that may change at a
-- restart; with an explicit one immutable.  'node' and 'shard' are names of
-- configured layouts: the support function makes such a call a stable one.
--
CREATE FUNCTION snowflake_internal.layout(name text) RETURNS text
AS 'MODULE_PATHNAME', 'snowflake_layout' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_internal.layout(text) IS
'the configured layout of this name, node or shard, spelled out';

CREATE FUNCTION snowflake_internal.layout_support(internal) RETURNS internal
AS 'MODULE_PATHNAME', 'snowflake_layout_support' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_internal.layout_support(internal) IS
'planner support for functions that take a layout';

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
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
SUPPORT snowflake_internal.layout_support;
COMMENT ON FUNCTION snowflake_decode(bigint, text) IS
'what an ID of this layout says';

CREATE FUNCTION snowflake_timestamp(id bigint) RETURNS timestamptz
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_timestamp(bigint) IS
'when an ID of the configured layout was made';

CREATE FUNCTION snowflake_timestamp(id bigint, layout text) RETURNS timestamptz
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
SUPPORT snowflake_internal.layout_support;
COMMENT ON FUNCTION snowflake_timestamp(bigint, text) IS
'when an ID of this layout was made';

CREATE FUNCTION snowflake_node(id bigint) RETURNS integer
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_node(bigint) IS
'the node that made an ID of the configured layout';

CREATE FUNCTION snowflake_node(id bigint, layout text) RETURNS integer
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
SUPPORT snowflake_internal.layout_support;
COMMENT ON FUNCTION snowflake_node(bigint, text) IS
'the node that made an ID of this layout';

CREATE FUNCTION snowflake_shard(id bigint) RETURNS integer
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_shard(bigint) IS
'the shard of an ID of the configured layout';

CREATE FUNCTION snowflake_shard(id bigint, layout text) RETURNS integer
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
SUPPORT snowflake_internal.layout_support;
COMMENT ON FUNCTION snowflake_shard(bigint, text) IS
'the shard of an ID of this layout';

CREATE FUNCTION snowflake_sequence(id bigint) RETURNS integer
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_sequence(bigint) IS
'the sequence within its tick of an ID of the configured layout';

CREATE FUNCTION snowflake_sequence(id bigint, layout text) RETURNS integer
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
SUPPORT snowflake_internal.layout_support;
COMMENT ON FUNCTION snowflake_sequence(bigint, text) IS
'the sequence within its tick of an ID of this layout';

CREATE FUNCTION snowflake_min_id(at timestamptz) RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_min_id(timestamptz) IS
'the first ID of the configured layout in the tick that holds this time';

CREATE FUNCTION snowflake_min_id(at timestamptz, layout text) RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
SUPPORT snowflake_internal.layout_support;
COMMENT ON FUNCTION snowflake_min_id(timestamptz, text) IS
'the first ID of this layout in the tick that holds this time';

CREATE FUNCTION snowflake_max_id(at timestamptz) RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_max_id(timestamptz) IS
'the last ID of the configured layout in the tick that holds this time';

CREATE FUNCTION snowflake_max_id(at timestamptz, layout text) RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
SUPPORT snowflake_internal.layout_support;
COMMENT ON FUNCTION snowflake_max_id(timestamptz, text) IS
'the last ID of this layout in the tick that holds this time';

CREATE FUNCTION snowflake_compose(created_at timestamptz, node integer,
	sequence integer DEFAULT 0) RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_compose(timestamptz, integer, integer) IS
'the ID of the configured layout with these fields';

CREATE FUNCTION snowflake_compose(created_at timestamptz, node integer,
	sequence integer, layout text, shard integer DEFAULT 0) RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
SUPPORT snowflake_internal.layout_support;
COMMENT ON FUNCTION snowflake_compose(timestamptz, integer, integer, text, integer) IS
'the ID of this layout with these fields';

-- What conditions on snowflake_timestamp() are planned with: see EXPLAIN.
-- Stable even with a layout: a date depends on the time zone.
CREATE FUNCTION snowflake_internal.bound(side text, at "any") RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_bound' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_internal.bound(text, "any") IS
'the first or last ID on this side (>=, >, <, <=) of a time, NULL if there is none';

CREATE FUNCTION snowflake_internal.bound(side text, at "any", layout text) RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_bound' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_internal.bound(text, "any", text) IS
'the first or last ID on this side (>=, >, <, <=) of a time, NULL if there is none';

CREATE FUNCTION snowflake_internal.is_at_support(internal) RETURNS internal
AS 'MODULE_PATHNAME', 'snowflake_is_at_support' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_internal.is_at_support(internal) IS
'planner support for is_at';

CREATE FUNCTION snowflake_internal.is_at(id bigint, at "any") RETURNS boolean
AS 'MODULE_PATHNAME', 'snowflake_is_at' LANGUAGE C STABLE STRICT PARALLEL SAFE
SUPPORT snowflake_internal.is_at_support;
COMMENT ON FUNCTION snowflake_internal.is_at(bigint, "any") IS
'whether an ID was made in the tick that begins at this time';

CREATE FUNCTION snowflake_internal.is_at(id bigint, at "any", layout text) RETURNS boolean
AS 'MODULE_PATHNAME', 'snowflake_is_at' LANGUAGE C STABLE STRICT PARALLEL SAFE
SUPPORT snowflake_internal.is_at_support;
COMMENT ON FUNCTION snowflake_internal.is_at(bigint, "any", text) IS
'whether an ID was made in the tick that begins at this time';

CREATE FUNCTION snowflake_layouts(
	OUT name text, OUT configured boolean, OUT layout text, OUT bits integer,
	OUT epoch timestamptz, OUT tick_ms integer, OUT ids_per_tick integer,
	OUT nodes bigint, OUT shards bigint, OUT lasts_until timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE ROWS 10;
COMMENT ON FUNCTION snowflake_layouts() IS
'presets, the configured layouts, and others in use';

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

CREATE FUNCTION snowflake_parse(encoded text, format text) RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_parse(text, text) IS
'the ID of a text in this format';

--
-- Partitions
--
CREATE FUNCTION snowflake_create_partitions(parent regclass, step interval,
	start timestamptz, until timestamptz, layout text DEFAULT NULL)
RETURNS SETOF regclass
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
ROWS 10;
COMMENT ON FUNCTION snowflake_create_partitions(regclass, interval, timestamptz, timestamptz, text) IS
'make the missing partitions for the calendar steps that hold these times';

CREATE FUNCTION snowflake_drop_partitions(parent regclass,
	before timestamptz, layout text DEFAULT NULL)
RETURNS SETOF text
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
ROWS 10;
COMMENT ON FUNCTION snowflake_drop_partitions(regclass, timestamptz, text) IS
'drop the partitions whose IDs were all made before this time, with their rows';

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
	key name DEFAULT 'id', shard integer DEFAULT NULL,
	dry_run boolean DEFAULT true, layout text DEFAULT NULL,
	type text DEFAULT 'bigint', function text DEFAULT 'snowflake_nextval',
	OUT step integer, OUT statement text, OUT locks text, OUT note text)
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
ROWS 10
SET check_function_bodies = off
SET default_tablespace = ''
SET datestyle = 'ISO'
SET intervalstyle = 'postgres'
SET extra_float_digits = 1;
COMMENT ON FUNCTION snowflake_convert(regclass, name, integer, boolean, text, text, text) IS
'the statements that make the key of a table a Snowflake key; run if dry_run is false';

CREATE FUNCTION snowflake_revert(relation regclass,
	key name DEFAULT 'id', identity text DEFAULT NULL,
	restart bigint DEFAULT NULL, dry_run boolean DEFAULT true,
	OUT step integer, OUT statement text, OUT locks text, OUT note text)
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
ROWS 10;
COMMENT ON FUNCTION snowflake_revert(regclass, name, text, bigint, boolean) IS
'the statements that give a key back its sequence, or an identity; run if dry_run is false';

-- without defaults, so that no function of another owner is a better match for a call
CREATE FUNCTION snowflake_renumber(relation regclass, key name, first bigint,
	last bigint, dry_run boolean,
	OUT step integer, OUT statement text, OUT locks text, OUT note text)
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
ROWS 10;
COMMENT ON FUNCTION snowflake_renumber(regclass, name, bigint, bigint, boolean) IS
'the statements that give rows new IDs, also where foreign keys refer to them; run if dry_run is false';

--
-- Feeds: restricted, since a plan's workers would each ask for themselves, and
-- get different answers
--
CREATE FUNCTION snowflake_horizon() RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION snowflake_horizon() IS
'the ID below which no row with an ID of this node will appear any more';

CREATE FUNCTION snowflake_horizon(layout text) RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_horizon_layout' LANGUAGE C STABLE CALLED ON NULL INPUT PARALLEL RESTRICTED;
COMMENT ON FUNCTION snowflake_horizon(text) IS
'the ID below which no row with an ID of this node in this layout will appear any more';

CREATE FUNCTION snowflake_shard_horizon(shard bigint) RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C STABLE CALLED ON NULL INPUT PARALLEL RESTRICTED;
COMMENT ON FUNCTION snowflake_shard_horizon(bigint) IS
'the ID below which no row with an ID of this shard will appear any more';

CREATE FUNCTION snowflake_internal.horizon_holders(
	OUT pid integer, OUT gid text, OUT database oid, OUT since timestamptz,
	OUT lowest_id bigint, OUT lowest_time timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'snowflake_horizon_holders' LANGUAGE C
VOLATILE STRICT PARALLEL RESTRICTED ROWS 10;
COMMENT ON FUNCTION snowflake_internal.horizon_holders() IS
'the transactions that hold horizons back: running, or prepared';

CREATE VIEW snowflake_horizon_holders AS
	SELECT * FROM snowflake_internal.horizon_holders();
COMMENT ON VIEW snowflake_horizon_holders IS
'the transactions that hold horizons back: running, or prepared';
REVOKE ALL ON snowflake_horizon_holders FROM PUBLIC;
GRANT SELECT ON snowflake_horizon_holders TO PUBLIC;

--
-- Feeds over several servers.  The table is not the extension's: pg_dump keeps no
-- publication of the extension's tables.
--
CREATE FUNCTION snowflake_create_feed() RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION snowflake_create_feed() IS
'make the table snowflake_feed, in which each server publishes its horizon';

CREATE FUNCTION snowflake_publish_horizon() RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION snowflake_publish_horizon() IS
'write the horizons of this server into snowflake_feed; the first call joins the feed';

CREATE FUNCTION snowflake_publish_horizon(layout text) RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_publish_horizon_layout' LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION snowflake_publish_horizon(text) IS
'write the horizon of this server in this layout into snowflake_feed';

CREATE FUNCTION snowflake_publish_shard_horizon() RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION snowflake_publish_shard_horizon() IS
'write the horizon of all shards of this server into snowflake_feed';

CREATE FUNCTION snowflake_leave_feed() RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION snowflake_leave_feed() IS
'take this server out of snowflake_feed, after its last ID';

CREATE FUNCTION snowflake_leave_feed(server bigint) RETURNS void
AS 'MODULE_PATHNAME', 'snowflake_leave_feed_server' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION snowflake_leave_feed(bigint) IS
'take another server out of snowflake_feed, which does not come back';

-- safe: all processes of a plan have one snapshot of the table
CREATE FUNCTION snowflake_feed_horizon() RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_feed_horizon() IS
'the ID below which no row of any server in snowflake_feed will appear any more';

CREATE FUNCTION snowflake_feed_horizon(layout text) RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_feed_horizon_layout' LANGUAGE C STABLE CALLED ON NULL INPUT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_feed_horizon(text) IS
'the ID below which no row with an ID of this layout, of any server in snowflake_feed, will appear any more';

CREATE FUNCTION snowflake_feed_shard_horizon() RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_feed_shard_horizon() IS
'the ID below which no row with an ID of a shard, of any server in snowflake_feed, will appear any more';

CREATE FUNCTION snowflake_internal.feed_servers(
	OUT server bigint, OUT name text, OUT node bigint, OUT layout text,
	OUT horizon bigint, OUT horizon_time timestamptz,
	OUT published timestamptz, OUT holds_back boolean)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'snowflake_feed_servers' LANGUAGE C
STABLE STRICT PARALLEL RESTRICTED ROWS 10;
COMMENT ON FUNCTION snowflake_internal.feed_servers() IS
'the rows of snowflake_feed';

CREATE VIEW snowflake_feed_servers AS
	SELECT * FROM snowflake_internal.feed_servers();
COMMENT ON VIEW snowflake_feed_servers IS
'the servers in snowflake_feed, with their horizons; needs SELECT on that table';
REVOKE ALL ON snowflake_feed_servers FROM PUBLIC;
GRANT SELECT ON snowflake_feed_servers TO PUBLIC;

--
-- Statistics, of all databases of this server together.  Times of waiting are
-- in milliseconds, as in the server's own views.
--
CREATE FUNCTION snowflake_internal.stat_get(
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
	OUT refused_end bigint, OUT refused_wait bigint,
	OUT max_drift double precision,
	OUT max_clock_step_back double precision,
	OUT max_clock_step_forward double precision,
	OUT last_clock_step timestamptz,
	OUT drift double precision, OUT mark timestamptz,
	OUT last_timestamp timestamptz, OUT layout_end timestamptz,
	OUT shard_layout_end timestamptz, OUT stats_reset timestamptz)
AS 'MODULE_PATHNAME', 'snowflake_stat_get' LANGUAGE C
VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION snowflake_internal.stat_get() IS
'what this server has counted since stats_reset: see pg_stat_snowflake';

CREATE FUNCTION snowflake_stat_reset() RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION snowflake_stat_reset() IS
'set the counts of pg_stat_snowflake to zero';
REVOKE ALL ON FUNCTION snowflake_stat_reset() FROM PUBLIC;

--
-- Leases of node ids.  What asks the registry is in a library of its own, which is
-- preloaded only with snowflake.registry.  The registry in PostgreSQL is the extension
-- snowflake_registry.
--
CREATE FUNCTION snowflake_lease(
	OUT state text, OUT node_id bigint,
	OUT until timestamptz, OUT next_renewal timestamptz,
	OUT problem text, OUT remedy text, OUT registry text, OUT pid integer)
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION snowflake_lease() IS
'which node id this server has, and until when';

-- A function that only administrators call has no default arguments.  In a schema in which
-- another role may create functions, an overload of that role would be called in place of
-- one whose defaults are needed.
CREATE FUNCTION snowflake_registry_init() RETURNS boolean
AS '$libdir/snowflake_lease' LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION snowflake_registry_init() IS
'make a registry for servers with the layout of this one, if none has been lost; false if there is one';

CREATE FUNCTION snowflake_registry_init(layout text) RETURNS boolean
AS '$libdir/snowflake_lease' LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION snowflake_registry_init(text) IS
'make a registry for servers with this layout, if none has been lost; false if there is one';

CREATE FUNCTION snowflake_registry_recover() RETURNS timestamptz
AS '$libdir/snowflake_lease' LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION snowflake_registry_recover() IS
'after a loss of data: let no server claim a node id before the time that a server with a reserve of 90 s may have reserved';

CREATE FUNCTION snowflake_registry_recover(largest_reserve interval)
RETURNS timestamptz
AS '$libdir/snowflake_lease' LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION snowflake_registry_recover(interval) IS
'after a loss of data: let no server claim a node id before the time that any server may have reserved';

CREATE FUNCTION snowflake_registry_recover(largest_reserve interval, largest_offset interval)
RETURNS timestamptz
AS '$libdir/snowflake_lease' LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION snowflake_registry_recover(interval, interval) IS
'after a loss of data, if clocks are further than 5 s apart: let no server claim a node id before the time that any server may have reserved';

CREATE FUNCTION snowflake_registry_recover(largest_reserve interval, largest_offset interval, former text)
RETURNS timestamptz
AS '$libdir/snowflake_lease' LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION snowflake_registry_recover(interval, interval, text) IS
'when no server leases from the former registry any more: let its servers lease from this one, and no server claim a node id before the time that any server may have reserved';

CREATE FUNCTION snowflake_registry_slots(
	OUT slot bigint, OUT host text, OUT address inet, OUT process integer,
	OUT holder text, OUT since timestamptz, OUT until timestamptz,
	OUT present boolean, OUT released boolean, OUT clock_offset interval)
RETURNS SETOF record
AS '$libdir/snowflake_lease' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION snowflake_registry_slots() IS
'which server holds which node id of the registry';

CREATE FUNCTION snowflake_registry_release(slot bigint) RETURNS boolean
AS '$libdir/snowflake_lease' LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION snowflake_registry_release(bigint) IS
'free the node id of a server that is gone; false if no server held it';

REVOKE ALL ON FUNCTION snowflake_registry_init(), snowflake_registry_init(text),
	snowflake_registry_recover(), snowflake_registry_recover(interval),
	snowflake_registry_recover(interval, interval),
	snowflake_registry_recover(interval, interval, text),
	snowflake_registry_slots(),
	snowflake_registry_release(bigint)
FROM PUBLIC;

CREATE FUNCTION snowflake_clock(
	OUT wall_clock timestamptz, OUT synchronized boolean,
	OUT max_error interval, OUT estimated_error interval,
	OUT registry_offset interval)
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION snowflake_clock() IS
'the wall clock, and what the kernel and the registry say of it';

CREATE VIEW pg_stat_snowflake AS
	SELECT s.*, l.node_id, l.state AS node_state, l.until AS lease_until,
		l.problem AS lease_problem
	FROM snowflake_internal.stat_get() s, @extschema@.snowflake_lease() l;
COMMENT ON VIEW pg_stat_snowflake IS
'one row: what this server has counted since stats_reset, and present values';
REVOKE ALL ON pg_stat_snowflake FROM PUBLIC;
GRANT SELECT ON pg_stat_snowflake TO PUBLIC;

CREATE FUNCTION snowflake_internal.stat_layouts(
	OUT layout text, OUT ids bigint, OUT last_timestamp timestamptz,
	OUT layout_end timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'snowflake_stat_layouts' LANGUAGE C
VOLATILE STRICT PARALLEL RESTRICTED ROWS 2;
COMMENT ON FUNCTION snowflake_internal.stat_layouts() IS
'one row for each layout in use: see pg_stat_snowflake_layouts';

CREATE VIEW pg_stat_snowflake_layouts AS
	SELECT * FROM snowflake_internal.stat_layouts();
COMMENT ON VIEW pg_stat_snowflake_layouts IS
'one row for each layout in which the node makes IDs';
REVOKE ALL ON pg_stat_snowflake_layouts FROM PUBLIC;
GRANT SELECT ON pg_stat_snowflake_layouts TO PUBLIC;

-- reads tables with the rights of who calls it
CREATE FUNCTION snowflake_status(OUT check_name text, OUT status text,
	OUT found text, OUT remedy text)
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE
ROWS 20;
COMMENT ON FUNCTION snowflake_status() IS
'one row per check of this server and database: what was found, and what to do';

--
-- Administration
--
CREATE FUNCTION snowflake_advance(id bigint) RETURNS timestamptz
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION snowflake_advance(bigint) IS
'never issue at or below this ID again';

CREATE FUNCTION snowflake_advance(id bigint, layout text) RETURNS timestamptz
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION snowflake_advance(bigint, text) IS
'never issue at or below this ID of this layout again';

CREATE FUNCTION snowflake_advance(id bigint, layout text, force boolean)
RETURNS timestamptz
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION snowflake_advance(bigint, text, boolean) IS
'never issue at or below this ID of this layout again, also if the ID lies far ahead, or above new IDs';

-- reads tables with the rights of who calls it
CREATE FUNCTION snowflake_recover(OUT object text, OUT found text, OUT remedy text)
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE
ROWS 10;
COMMENT ON FUNCTION snowflake_recover() IS
'make what guards the IDs anew where it is missing or damaged, above all IDs that are there';

-- reads tables with the rights of who calls it
CREATE FUNCTION snowflake_reset_mark(now timestamptz,
	OUT object text, OUT found text, OUT remedy text)
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
ROWS 10;
COMMENT ON FUNCTION snowflake_reset_mark(timestamptz) IS
'lower a mark that lies in the future to the present, which another machine''s clock tells';

CREATE FUNCTION snowflake_accept(what text) RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION snowflake_accept(text) IS
'say that the clock, the configuration, the copy or the node id is right';

REVOKE ALL ON FUNCTION snowflake_advance(bigint), snowflake_advance(bigint, text),
	snowflake_advance(bigint, text, boolean), snowflake_accept(text) FROM PUBLIC;
REVOKE ALL ON FUNCTION snowflake_recover(), snowflake_reset_mark(timestamptz)
FROM PUBLIC;

-- reads the table with the rights of who calls it
CREATE FUNCTION snowflake_node_conflicts(relation regclass,
	key name DEFAULT 'id', max_rows integer DEFAULT 100,
	OUT id bigint, OUT created_at timestamptz, OUT reason text)
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL RESTRICTED
ROWS 10;
COMMENT ON FUNCTION snowflake_node_conflicts(regclass, name, integer) IS
'IDs in a table that carry the node id of this server, but cannot come from it';

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
					snowflake_accept, snowflake_advance, snowflake_stat_reset,
					snowflake_recover, snowflake_reset_mark,
					snowflake_registry_init, snowflake_registry_recover,
					snowflake_registry_release, snowflake_registry_slots
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
GRANT USAGE ON SCHEMA snowflake_state TO pg_database_owner;

--
-- Let everybody execute what plans and public views call, also where default
-- privileges leave PUBLIC no function.
--
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA snowflake_internal TO PUBLIC;
GRANT EXECUTE ON FUNCTION snowflake_lease() TO PUBLIC;

--
-- Where the extension is created again while the server runs, the new mark
-- begins above the old one.
--
CREATE FUNCTION snowflake_internal.initialize() RETURNS void
AS 'MODULE_PATHNAME', 'snowflake_initialize' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION snowflake_internal.initialize() IS
'part of the install script';
SELECT snowflake_internal.initialize();
DROP FUNCTION snowflake_internal.initialize();
