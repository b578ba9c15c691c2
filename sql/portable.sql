-- IDs of snowflake for a server that loads no library. Run this in a database, as
-- whoever shall own the functions:
--
--	CREATE SCHEMA snowflake;
--	SET search_path = snowflake;
--	\i portable.sql
--	SELECT snowflake_set_node(1);	-- another number on each server
--
-- Run it again, with what follows it, to replace the functions by those of another
-- version. They keep what depends on them, their privileges and their comments.
DO $portable$
DECLARE
	path pg_catalog.text := pg_catalog.current_setting('search_path');
	target pg_catalog.text := pg_catalog.quote_ident(pg_catalog.current_schema()::pg_catalog.text);
	state pg_catalog.text := pg_catalog.quote_ident(pg_catalog.concat(pg_catalog.current_schema()::pg_catalog.text, '_portable_state'));
BEGIN
	IF (target OPERATOR(pg_catalog.~) '[''$%]') IS NOT FALSE THEN
		RAISE EXCEPTION USING MESSAGE = 'search_path begins with no schema for the functions',
			HINT = 'CREATE SCHEMA snowflake; SET search_path = snowflake;';
	END IF;
	IF pg_catalog.octet_length(pg_catalog.current_schema()::pg_catalog.text) OPERATOR(pg_catalog.>) 48 THEN
		RAISE EXCEPTION USING MESSAGE = 'the name of the schema is too long',
			HINT = 'Use one of at most 48 bytes: a second schema has its name, and after that _portable_state.';
	END IF;
	PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
	EXECUTE pg_catalog.replace(pg_catalog.replace($sql$
-- The portable functions: the IDs of snowflake where no library can be loaded.
-- doc/portable.md says what is promised. sql/portable-make writes the presets, and
-- makes an extension of pg_tle from this text.
--
-- Functions that are called once for each row or ID qualify every name and
-- operator, since SET search_path costs more than they do. All others have it.
--
-- Arguments of a call of these functions have the types of its parameters: who
-- may create functions in this schema could write one whose parameters fit
-- better. A text with a backslash is an E'...': standard_conforming_strings would
-- read others in two ways.

-- Functions that are there already keep their privileges and comments.
SELECT pg_catalog.set_config('portable.there', (SELECT pg_catalog.concat_ws(' ', '-', pg_catalog.string_agg(p.oid::pg_catalog.text, ' '))
	FROM pg_catalog.pg_proc p WHERE p.pronamespace OPERATOR(pg_catalog.=) pg_catalog.to_regnamespace('@extschema@')
		AND p.proname OPERATOR(pg_catalog.~) '^snowflake_'), true);

-- ---- the state ----

DO $do$
DECLARE
	given text;
BEGIN
	IF to_regnamespace('@state@') IS NULL THEN
		IF NOT has_database_privilege(current_database(), 'CREATE') THEN
			RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = 'permission denied to create the schema @state@',
				DETAIL = 'The functions keep there what only their owner may lock.',
				HINT = format('As the owner of the database: GRANT CREATE ON DATABASE %I TO %I;', current_database(), current_user);
		END IF;
		CREATE SCHEMA @state@;
		COMMENT ON SCHEMA @state@ IS 'what guards the IDs of the portable functions';
	ELSIF EXISTS (SELECT FROM pg_namespace WHERE oid = to_regnamespace('@state@') AND pg_get_userbyid(nspowner) <> current_user) THEN
		RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = 'another role owns the schema @state@',
			HINT = 'Connect as the owner of the functions. If there are none, install them in a schema of another name.';
	END IF;
	IF to_regtype('@extschema@.snowflake_portable_fields') IS NULL THEN
		-- A layout as numbers. The arrays have one element for each kind of field, in
		-- the order timestamp, datacenter, worker, process, node, shard, sequence.
		-- Ticks count from the epoch.
		CREATE TYPE @extschema@.snowflake_portable_fields AS (
			layout text,				-- spelled out
			epoch_ms bigint,
			tick_ms integer,
			bits integer,				-- of the whole ID
			low_bits integer,			-- below the timestamp
			node_bits integer,
			sequence_bits integer,
			last_tick bigint,			-- the last one that the layout has room for
			from_tick bigint,			-- timestamptz begins here,
			until_tick bigint,			-- and ends before this
			width integer[],
			shift integer[],
			mask bigint[],
			place integer[]				-- of the field in the node's number
		);
	ELSIF EXISTS (SELECT FROM pg_type WHERE oid = to_regtype('@extschema@.snowflake_portable_fields') AND pg_get_userbyid(typowner) <> current_user) THEN
		RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = 'another role owns the type @extschema@.snowflake_portable_fields',
			HINT = 'Use a schema in which no other role may create anything.';
	END IF;
	-- what is there guards IDs, also if the functions are made anew
	IF to_regclass('@state@.snowflake_config') IS NOT NULL THEN
		RETURN;
	END IF;

	-- One row, which the owner writes by snowflake_set_node() and
	-- snowflake_set_shards(). It is not there before, so that a dump restores into what
	-- CREATE EXTENSION makes. Opening a tick locks this table.
	CREATE TABLE @state@.snowflake_config (
		only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
		node integer,
		layout text,
		shards text,
		shard_layout text
	);

	-- The last position taken: tick << bits of the sequence | sequence.
	CREATE SEQUENCE @state@.snowflake_position MINVALUE 0 START 0 MAXVALUE 9223372036854775806;
	CREATE SEQUENCE @state@.snowflake_shard_position MINVALUE 0 START 0 MAXVALUE 9223372036854775806;
	-- The tick after the open one; one below its MAXVALUE while the functions are closed.
	-- By the increment nextval() cannot move it, and tools that warn of sequences which end
	-- soon, such as check_postgres, count down from the MAXVALUE.
	CREATE SEQUENCE @state@.snowflake_limit
		MINVALUE 0 START 0 MAXVALUE 9223372036854775806 INCREMENT -9223372036854775807;
	CREATE SEQUENCE @state@.snowflake_shard_limit
		MINVALUE 0 START 0 MAXVALUE 9223372036854775806 INCREMENT -9223372036854775807;
	-- Always 0. What writes it has WAL, which its commit flushes.
	CREATE SEQUENCE @state@.snowflake_flush
		MINVALUE 0 START 0 MAXVALUE 9223372036854775806 INCREMENT -9223372036854775807;
	COMMENT ON TABLE @state@.snowflake_config IS 'node id, shards and layouts: see snowflake_set_node()';
	COMMENT ON SEQUENCE @state@.snowflake_position IS 'the last position of the node: never lower it';
	COMMENT ON SEQUENCE @state@.snowflake_shard_position IS 'the last position of all shards: never lower it';
	COMMENT ON SEQUENCE @state@.snowflake_limit IS 'the tick after the node''s open one: never lower it';
	COMMENT ON SEQUENCE @state@.snowflake_shard_limit IS 'the tick after the open one of all shards: never lower it';

	-- Parsing a statement locks a table before any right on it is checked, so a role that
	-- can name what lies here could stop all IDs. Only the database's owner may use the
	-- schema, since pg_dump must. ALTER DEFAULT PRIVILEGES means other objects.
	FOR given IN
		SELECT format('TABLE %s FROM %s', c.oid::regclass, grantee::regrole)
		FROM pg_class c, aclexplode(relacl)
		WHERE relnamespace = to_regnamespace('@state@') AND grantee <> relowner AND grantee <> 0
		UNION ALL
		SELECT format('SCHEMA %s FROM %s', n.oid::regnamespace, CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END)
		FROM pg_namespace n, aclexplode(nspacl)
		WHERE n.oid = to_regnamespace('@state@') AND grantee <> nspowner
	LOOP
		EXECUTE concat('REVOKE ALL ON ', given);
	END LOOP;
	IF to_regrole('pg_database_owner') IS NOT NULL THEN
		GRANT USAGE ON SCHEMA @state@ TO pg_database_owner;
	END IF;
	REVOKE ALL ON @state@.snowflake_config, @state@.snowflake_flush, @state@.snowflake_position, @state@.snowflake_limit,
		@state@.snowflake_shard_position, @state@.snowflake_shard_limit FROM PUBLIC;
	GRANT SELECT ON @state@.snowflake_config, @state@.snowflake_flush, @state@.snowflake_position, @state@.snowflake_limit,
		@state@.snowflake_shard_position, @state@.snowflake_shard_limit TO PUBLIC;
END $do$;

-- ---- layouts ----

CREATE OR REPLACE FUNCTION @extschema@.snowflake_portable_presets(OUT name text, OUT layout text)
RETURNS SETOF record
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE ROWS 10 AS $$
	VALUES
		('snowflake', 'timestamp:41 node:10 sequence:12 epoch:2024-01-01'),
		('twitter', 'timestamp:41 datacenter:5 worker:5 sequence:12 epoch:1288834974657'),
		('discord', 'timestamp:42 worker:5 process:5 sequence:12 epoch:2015-01-01'),
		('instagram', 'timestamp:41 shard:13 sequence:10 epoch:1314220021721'),
		('mastodon', 'timestamp:48 sequence:16 epoch:1970-01-01'),
		('javascript', 'timestamp:41 node:7 sequence:5 epoch:2024-01-01'),
		('sonyflake', 'timestamp:39 sequence:8 node:16 tick:10ms epoch:2014-09-01'),
		('pgedge', 'timestamp:41 node:10 sequence:12 epoch:2023-01-01')
$$;

-- Parse an epoch: its Unix milliseconds, -1 if out of range, NULL if it is none.
CREATE OR REPLACE FUNCTION @extschema@.snowflake_portable_epoch(word text) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	part text[];
	month date;
BEGIN
	IF word COLLATE "C" ~ '^[0-9]{1,15}$' THEN
		RETURN CASE WHEN word::bigint <= 7258118399999 THEN word::bigint ELSE -1 END;
	END IF;
	part := regexp_match(word COLLATE "C", '^([0-9]{4})-([0-9]{2})-([0-9]{2})'
		'(?:[Zz]|[Tt]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:[.]([0-9]{1,3}))?)?(?:[Zz]|[+]00(?::00)?)?)?$');
	IF part IS NULL OR part[1] = '0000' OR NOT part[2]::integer BETWEEN 1 AND 12 OR
		NOT part[3]::integer BETWEEN 1 AND 31 OR part[4] > '23' OR part[5] > '59' OR part[6] > '59' THEN
		RETURN NULL;
	END IF;
	month := make_date(part[1]::integer, part[2]::integer, 1);
	IF part[1]::integer < 1970 THEN
		RETURN -1;
	ELSIF month + part[3]::integer - 1 >= month + interval '1 month' THEN
		RETURN NULL;
	ELSIF part[1]::integer > 2199 THEN
		RETURN -1;
	END IF;
	RETURN (month - date '1970-01-01' + part[3]::bigint - 1) * 86400000 +
		coalesce(part[4]::integer * 3600000 + part[5]::integer * 60000, 0) +
		coalesce(part[6]::integer * 1000, 0) + coalesce(rpad(part[7], 3, '0')::integer, 0);
END $$;

-- Parse a layout's text. SQLSTATE 22023 if it is none.
CREATE OR REPLACE FUNCTION @extschema@.snowflake_portable_layout(layout text)
RETURNS @extschema@.snowflake_portable_fields
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	kinds CONSTANT text[] := '{timestamp,datacenter,worker,process,node,shard,sequence}';
	most CONSTANT integer[] := '{48,31,31,31,31,31,16}';
	words text[] := regexp_split_to_array(btrim(layout, E' \t\r\n'), E'[ \t\r\n]+');
	word text;
	value text;
	number text[];
	preset text;
	kind integer;
	epoch_tick bigint;
	node_bits integer := 0;
	reason text;
	f @extschema@.snowflake_portable_fields;
BEGIN
	f.epoch_ms := 1704067200000;
	f.tick_ms := 1;
	f.width := '{0,0,0,0,0,0,0}';
	f.shift := f.width;
	f.place := f.width;
	SELECT p.layout INTO preset FROM @extschema@.snowflake_portable_presets() p WHERE p.name = words[1];
	IF preset IS NOT NULL THEN
		words := string_to_array(preset, ' ') || words[2:];
	ELSIF words[1] = '' THEN
		reason := 'A layout must not be empty: name a preset, or fields such as "timestamp:41 node:10 sequence:12".';
	END IF;

	FOREACH word IN ARRAY words LOOP
		EXIT WHEN reason IS NOT NULL;
		value := CASE WHEN strpos(word, ':') > 0 THEN substr(word, strpos(word, ':') + 1) ELSE '' END;
		kind := array_position(kinds, split_part(word, ':', 1));
		IF split_part(word, ':', 1) = 'epoch' THEN
			f.epoch_ms := @extschema@.snowflake_portable_epoch(value);
			reason := CASE
				WHEN f.epoch_ms IS NULL THEN format('"%s" is neither an ISO 8601 time in UTC, such as 2024-01-01 or 2024-01-01T12:00:00.000Z, nor Unix milliseconds.', left(value, 40))
				WHEN f.epoch_ms < 0 THEN 'The epoch must be between 1970-01-01 and 2199-12-31.'
				WHEN f.epoch_ms BETWEEN 1 AND 99999999999 AND strpos(value, '-') = 0 THEN
					format('An epoch that is an integer is in milliseconds since 1970: 0, or at least 100000000000 (in 1973). %s is too small for that.', left(value, 40))
				END;
		ELSIF split_part(word, ':', 1) = 'tick' THEN
			number := regexp_match(value COLLATE "C", '^([0-9]{1,6})(ms|s)$');
			f.tick_ms := number[1]::integer * CASE number[2] WHEN 's' THEN 1000 ELSE 1 END;
			IF f.tick_ms BETWEEN 1 AND 1000 IS NOT TRUE THEN
				reason := format('The tick must be between 1ms and 1000ms, with its unit; it is "%s".', left(value, 40));
			END IF;
		ELSIF kind IS NULL THEN
			reason := format('"%s" is neither a preset nor a field; fields are timestamp, datacenter, worker, process, node, shard and sequence; tick and epoch may follow.', left(word, 40));
		ELSIF f.width[kind] > 0 THEN
			reason := format('The field "%s" is there twice.', kinds[kind]);
		ELSIF kind > 1 AND f.width[1] = 0 THEN
			reason := 'A layout must begin with the field "timestamp".';
		ELSIF value COLLATE "C" !~ '^[0-9]{1,6}$' OR NOT value::integer BETWEEN 1 AND most[kind] THEN
			reason := format('The width of "%s" must be between 1 and %s bits; it is "%s".', kinds[kind], most[kind], left(value, 40));
		ELSE
			FOR i IN 1 .. 7 LOOP
				IF f.width[i] > 0 THEN
					f.shift[i] := f.shift[i] + value::integer;
				END IF;
			END LOOP;
			f.width[kind] := value::integer;
		END IF;
	END LOOP;

	IF reason IS NULL THEN
		f.bits := (SELECT sum(w) FROM unnest(f.width) w);
		f.node_bits := f.width[2] + f.width[3] + f.width[4] + f.width[5];
		reason := CASE
			WHEN f.width[1] = 0 THEN 'A layout must begin with the field "timestamp".'
			WHEN f.width[7] = 0 THEN 'A layout must have the field "sequence".'
			WHEN f.bits > 64 THEN 'The widths of all fields together must be at most 64 bits.'
			WHEN f.width[5] > 0 AND f.node_bits > f.width[5] THEN 'The field "node" is the whole node number, and stands without "datacenter", "worker" and "process".'
			WHEN f.node_bits > 31 THEN 'The node number must be at most 31 bits wide.'
			WHEN f.epoch_ms % f.tick_ms <> 0 THEN 'The epoch must be a multiple of the tick.'
			END;
	END IF;
	IF reason IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22023',
			MESSAGE = format('invalid layout: "%s"', left(layout, 200)), DETAIL = reason,
			HINT = 'See the presets: SELECT * FROM @extschema@.snowflake_layouts();';
	END IF;

	f.low_bits := f.bits - f.width[1];
	f.sequence_bits := f.width[7];
	f.mask := (SELECT array_agg((1::bigint << w) - 1 ORDER BY n) FROM unnest(f.width) WITH ORDINALITY u(w, n));
	FOR kind IN SELECT k FROM generate_series(2, 5) k WHERE f.width[k] > 0 ORDER BY f.shift[k] LOOP
		f.place[kind] := node_bits;
		node_bits := node_bits + f.width[kind];
	END LOOP;
	epoch_tick := f.epoch_ms / f.tick_ms;
	-- no tick reaches 2^47, and no ID is negative
	f.last_tick := least((1::bigint << f.width[1] - (f.bits = 64)::integer) - 1,
		(1::bigint << 47) - 1 - epoch_tick);
	f.from_tick := -210866803200000 / f.tick_ms - epoch_tick;
	f.until_tick := (9224318016000000 + f.tick_ms - 1) / f.tick_ms - epoch_tick;
	f.layout := concat(
		(SELECT string_agg(concat(kinds[k], ':', f.width[k], ' '), '' ORDER BY f.shift[k] DESC)
			FROM generate_series(1, 7) k WHERE f.width[k] > 0),
		CASE WHEN f.tick_ms <> 1 THEN concat('tick:', f.tick_ms, 'ms ') END,
		'epoch:', to_char(timestamp '1970-01-01' + f.epoch_ms / 86400000 * interval '1 day' + f.epoch_ms % 86400000 * interval '1 ms',
			CASE WHEN f.epoch_ms % 86400000 = 0 THEN 'YYYY-MM-DD' ELSE 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"' END));
	RETURN f;
END $$;

-- What is configured: the node, the shards, or both.
CREATE OR REPLACE FUNCTION @extschema@.snowflake_portable_kinds(OUT f @extschema@.snowflake_portable_fields,
	OUT positions regclass, OUT limits regclass, OUT is_closed boolean)
RETURNS SETOF record
LANGUAGE sql VOLATILE ROWS 2
SET search_path = pg_catalog, pg_temp AS $$
	SELECT @extschema@.snowflake_portable_layout(k.layout), k.positions, k.limits,
		coalesce(pg_sequence_last_value(k.limits) >= 9223372036854775805, false)
	FROM @state@.snowflake_config c, LATERAL (VALUES
		(c.layout, '@state@.snowflake_position'::regclass, '@state@.snowflake_limit'::regclass),
		(c.shard_layout, '@state@.snowflake_shard_position'::regclass, '@state@.snowflake_shard_limit'::regclass)) k (layout, positions, limits)
	WHERE k.layout IS NOT NULL
$$;

-- ---- reading IDs ----

-- Throw SQLSTATE 55000, with the remedy.
CREATE OR REPLACE FUNCTION @extschema@.snowflake_portable_unset(shards boolean) RETURNS @extschema@.snowflake_portable_fields
LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
	IF shards THEN
		RAISE EXCEPTION USING ERRCODE = '55000', MESSAGE = 'the shards are not set',
			HINT = 'As the owner of the functions: SELECT @extschema@.snowflake_set_shards(''0-4095''); with other shards on each server.';
	END IF;
	RAISE EXCEPTION USING ERRCODE = '55000', MESSAGE = 'the node id is not set',
		HINT = 'As the owner of the functions: SELECT @extschema@.snowflake_set_node(1); with another number on each server.';
END $$;

-- snowflake_set_node() and snowflake_set_shards() replace these two by
-- constants, so that reading an ID reads no table.
CREATE OR REPLACE FUNCTION @extschema@.snowflake_portable_node_layout() RETURNS @extschema@.snowflake_portable_fields
LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
	RETURN @extschema@.snowflake_portable_unset(false);
END $$;
CREATE OR REPLACE FUNCTION @extschema@.snowflake_portable_shard_layout() RETURNS @extschema@.snowflake_portable_fields
LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
	RETURN @extschema@.snowflake_portable_unset(true);
END $$;

-- The time at which a tick begins. Not strict, as the following ones, so that
-- the planner inlines them.
CREATE OR REPLACE FUNCTION @extschema@.snowflake_portable_time(ms bigint) RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
	SELECT pg_catalog.timezone('0'::pg_catalog.interval, ('1970-01-01'::pg_catalog.date
		OPERATOR(pg_catalog.+) (ms OPERATOR(pg_catalog./) 86400000)::pg_catalog.int4)
		OPERATOR(pg_catalog.+) ('1 ms'::pg_catalog.interval
			OPERATOR(pg_catalog.*) (ms OPERATOR(pg_catalog.%) 86400000)::pg_catalog.float8))
$$;
CREATE OR REPLACE FUNCTION @extschema@.snowflake_portable_tick_time(tick bigint, f @extschema@.snowflake_portable_fields)
RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
	SELECT CASE
		WHEN tick OPERATOR(pg_catalog.>=) (f).until_tick THEN 'infinity'::pg_catalog.timestamptz
		WHEN tick OPERATOR(pg_catalog.<) (f).from_tick THEN '-infinity'::pg_catalog.timestamptz
		ELSE @extschema@.snowflake_portable_time((f).epoch_ms
			OPERATOR(pg_catalog.+) (tick OPERATOR(pg_catalog.*) (f).tick_ms))
	END
$$;
CREATE OR REPLACE FUNCTION @extschema@.snowflake_portable_field(id bigint, kind integer, f @extschema@.snowflake_portable_fields)
RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
	SELECT CASE WHEN ((f).width)[kind] OPERATOR(pg_catalog.>) 0 THEN
		((id OPERATOR(pg_catalog.>>) ((f).shift)[kind]) OPERATOR(pg_catalog.&) ((f).mask)[kind])::pg_catalog.int4
	END
$$;
CREATE OR REPLACE FUNCTION @extschema@.snowflake_portable_node(id bigint, f @extschema@.snowflake_portable_fields)
RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
	SELECT CASE WHEN (f).node_bits OPERATOR(pg_catalog.>) 0 THEN (
		(((id OPERATOR(pg_catalog.>>) ((f).shift)[2]) OPERATOR(pg_catalog.&) ((f).mask)[2]) OPERATOR(pg_catalog.<<) ((f).place)[2])
		OPERATOR(pg_catalog.|) (((id OPERATOR(pg_catalog.>>) ((f).shift)[3]) OPERATOR(pg_catalog.&) ((f).mask)[3]) OPERATOR(pg_catalog.<<) ((f).place)[3])
		OPERATOR(pg_catalog.|) (((id OPERATOR(pg_catalog.>>) ((f).shift)[4]) OPERATOR(pg_catalog.&) ((f).mask)[4]) OPERATOR(pg_catalog.<<) ((f).place)[4])
		OPERATOR(pg_catalog.|) ((id OPERATOR(pg_catalog.>>) ((f).shift)[5]) OPERATOR(pg_catalog.&) ((f).mask)[5]))::pg_catalog.int4
	END
$$;

CREATE OR REPLACE FUNCTION @extschema@.snowflake_timestamp(id bigint, layout text) RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
	SELECT @extschema@.snowflake_portable_tick_time(
		id OPERATOR(pg_catalog.>>) (@extschema@.snowflake_portable_layout(layout)).low_bits,
		@extschema@.snowflake_portable_layout(layout))
$$;
CREATE OR REPLACE FUNCTION @extschema@.snowflake_timestamp(id bigint) RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE AS $$
	SELECT @extschema@.snowflake_portable_tick_time(
		id OPERATOR(pg_catalog.>>) (@extschema@.snowflake_portable_node_layout()).low_bits,
		@extschema@.snowflake_portable_node_layout())
$$;
CREATE OR REPLACE FUNCTION @extschema@.snowflake_node(id bigint, layout text) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
	SELECT @extschema@.snowflake_portable_node(id, @extschema@.snowflake_portable_layout(layout))
$$;
CREATE OR REPLACE FUNCTION @extschema@.snowflake_node(id bigint) RETURNS integer
LANGUAGE sql STABLE PARALLEL SAFE AS $$
	SELECT @extschema@.snowflake_portable_node(id, @extschema@.snowflake_portable_node_layout())
$$;
CREATE OR REPLACE FUNCTION @extschema@.snowflake_shard(id bigint, layout text) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
	SELECT @extschema@.snowflake_portable_field(id, 6, @extschema@.snowflake_portable_layout(layout))
$$;
CREATE OR REPLACE FUNCTION @extschema@.snowflake_shard(id bigint) RETURNS integer
LANGUAGE sql STABLE PARALLEL SAFE AS $$
	SELECT @extschema@.snowflake_portable_field(id, 6, @extschema@.snowflake_portable_node_layout())
$$;
CREATE OR REPLACE FUNCTION @extschema@.snowflake_sequence(id bigint, layout text) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
	SELECT @extschema@.snowflake_portable_field(id, 7, @extschema@.snowflake_portable_layout(layout))
$$;
CREATE OR REPLACE FUNCTION @extschema@.snowflake_sequence(id bigint) RETURNS integer
LANGUAGE sql STABLE PARALLEL SAFE AS $$
	SELECT @extschema@.snowflake_portable_field(id, 7, @extschema@.snowflake_portable_node_layout())
$$;

-- Throw SQLSTATE 22003 unless this layout can have made this ID.
CREATE OR REPLACE FUNCTION @extschema@.snowflake_portable_require_fit(id bigint, f @extschema@.snowflake_portable_fields) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	IF id < 0 THEN
		RAISE EXCEPTION USING ERRCODE = '22003', MESSAGE = format('ID %s is negative', id),
			DETAIL = 'No layout makes such IDs.',
			HINT = 'Use an ID that a layout has made; only snowflake_timestamp() and the functions for one field take any bigint.';
	ELSIF f.bits < 63 AND id >> f.bits <> 0 THEN
		RAISE EXCEPTION USING ERRCODE = '22003', MESSAGE = format('ID %s does not fit the layout', id),
			DETAIL = format('The layout "%s" has %s bits.', f.layout, f.bits),
			HINT = 'Name the layout that the ID was made with: SELECT * FROM @extschema@.snowflake_layouts();';
	END IF;
END $$;

CREATE OR REPLACE FUNCTION @extschema@.snowflake_portable_decode(id bigint, f @extschema@.snowflake_portable_fields,
	OUT created_at timestamptz, OUT datacenter_id integer,
	OUT worker_id integer, OUT process_id integer, OUT node_id integer,
	OUT shard_id integer, OUT sequence integer)
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	PERFORM @extschema@.snowflake_portable_require_fit(id, f);
	created_at := @extschema@.snowflake_portable_tick_time(id >> f.low_bits, f);
	datacenter_id := @extschema@.snowflake_portable_field(id, 2, f);
	worker_id := @extschema@.snowflake_portable_field(id, 3, f);
	process_id := @extschema@.snowflake_portable_field(id, 4, f);
	node_id := @extschema@.snowflake_portable_node(id, f);
	shard_id := @extschema@.snowflake_portable_field(id, 6, f);
	sequence := @extschema@.snowflake_portable_field(id, 7, f);
END $$;
CREATE OR REPLACE FUNCTION @extschema@.snowflake_decode(id bigint, layout text,
	OUT created_at timestamptz, OUT datacenter_id integer,
	OUT worker_id integer, OUT process_id integer, OUT node_id integer,
	OUT shard_id integer, OUT sequence integer)
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
	SELECT * FROM @extschema@.snowflake_portable_decode(id, @extschema@.snowflake_portable_layout(layout))
$$;
CREATE OR REPLACE FUNCTION @extschema@.snowflake_decode(id bigint,
	OUT created_at timestamptz, OUT datacenter_id integer,
	OUT worker_id integer, OUT process_id integer, OUT node_id integer,
	OUT shard_id integer, OUT sequence integer)
LANGUAGE sql STABLE STRICT PARALLEL SAFE AS $$
	SELECT * FROM @extschema@.snowflake_portable_decode(id, @extschema@.snowflake_portable_node_layout())
$$;

-- Return the tick of a time. SQLSTATE 22008 outside of the layout's life.
CREATE OR REPLACE FUNCTION @extschema@.snowflake_portable_tick(at timestamptz, f @extschema@.snowflake_portable_fields, hint text)
RETURNS bigint
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	utc timestamp := timezone('0'::interval, at);
	tick bigint;
BEGIN
	IF isfinite(at) THEN
		-- exact in float8, since each part is small
		tick := (utc::date - date '1970-01-01') * 86400000::bigint + date_part('hour', utc)::bigint * 3600000 +
			date_part('minute', utc)::bigint * 60000 + floor(date_part('milliseconds', utc))::bigint - f.epoch_ms;
		-- round down, also before the epoch
		tick := (tick - (tick % f.tick_ms + f.tick_ms) % f.tick_ms) / f.tick_ms;
	END IF;
	IF tick BETWEEN 0 AND f.last_tick IS NOT TRUE THEN
		RAISE EXCEPTION USING ERRCODE = '22008', MESSAGE = 'timestamp is out of the layout''s range',
			DETAIL = format('The layout''s IDs lie from %s up to, not including, %s.',
				@extschema@.snowflake_portable_tick_time(0::bigint, f), @extschema@.snowflake_portable_tick_time(f.last_tick + 1, f)),
			HINT = hint;
	END IF;
	RETURN tick;
END $$;

-- The first ID of a tick, and the last one.
CREATE OR REPLACE FUNCTION @extschema@.snowflake_portable_bound(at timestamptz, last boolean, f @extschema@.snowflake_portable_fields)
RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
	SELECT (@extschema@.snowflake_portable_tick(at, f, 'Leave the bound out, or use one within that range.'::pg_catalog.text)
		OPERATOR(pg_catalog.<<) (f).low_bits)
		OPERATOR(pg_catalog.|) CASE WHEN last THEN OPERATOR(pg_catalog.~) ((-1)::pg_catalog.int8 OPERATOR(pg_catalog.<<) (f).low_bits) ELSE 0 END
$$;
CREATE OR REPLACE FUNCTION @extschema@.snowflake_min_id(at timestamptz, layout text) RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
	SELECT @extschema@.snowflake_portable_bound(at, false, @extschema@.snowflake_portable_layout(layout))
$$;
CREATE OR REPLACE FUNCTION @extschema@.snowflake_min_id(at timestamptz) RETURNS bigint
LANGUAGE sql STABLE STRICT PARALLEL SAFE AS $$
	SELECT @extschema@.snowflake_portable_bound(at, false, @extschema@.snowflake_portable_node_layout())
$$;
CREATE OR REPLACE FUNCTION @extschema@.snowflake_max_id(at timestamptz, layout text) RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
	SELECT @extschema@.snowflake_portable_bound(at, true, @extschema@.snowflake_portable_layout(layout))
$$;
CREATE OR REPLACE FUNCTION @extschema@.snowflake_max_id(at timestamptz) RETURNS bigint
LANGUAGE sql STABLE STRICT PARALLEL SAFE AS $$
	SELECT @extschema@.snowflake_portable_bound(at, true, @extschema@.snowflake_portable_node_layout())
$$;

-- Throw SQLSTATE 22003 unless a number fits its field.
CREATE OR REPLACE FUNCTION @extschema@.snowflake_portable_require_field(name text, width integer, value integer, layout text) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	IF value < 0 OR value >= 1::bigint << width THEN
		RAISE EXCEPTION USING ERRCODE = '22003',
			MESSAGE = format('%s %s is out of range 0 to %s', name, value, (1::bigint << width) - 1),
			DETAIL = format('The layout is "%s".', layout),
			HINT = CASE width WHEN 0 THEN 'Use 0, or a layout that has this field.'
				ELSE 'Use a number in that range, or a layout with more bits for this field.' END;
	END IF;
	RETURN value;
END $$;

-- Spread a node's number over the fields that hold it.
CREATE OR REPLACE FUNCTION @extschema@.snowflake_portable_place_node(node bigint, f @extschema@.snowflake_portable_fields) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
	SELECT bit_or((node >> f.place[k] & f.mask[k]) << f.shift[k]) FROM generate_series(2, 5) k
$$;

CREATE OR REPLACE FUNCTION @extschema@.snowflake_portable_compose(created_at timestamptz, node integer,
	sequence integer, f @extschema@.snowflake_portable_fields, shard integer) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	id bigint := @extschema@.snowflake_portable_tick(created_at, f,
		'Use a time within that range, or a layout with another epoch.'::text) << f.low_bits;
	shard_is_node boolean := f.node_bits = 0 AND f.width[6] > 0;
BEGIN
	-- all of these operators have one precedence
	IF shard_is_node THEN
		id := id | (@extschema@.snowflake_portable_require_field('shard'::text, f.width[6], node, f.layout) << f.shift[6]);
	ELSE
		id := id | @extschema@.snowflake_portable_place_node(
			@extschema@.snowflake_portable_require_field('node'::text, f.node_bits, node, f.layout), f);
	END IF;
	RETURN id | (@extschema@.snowflake_portable_require_field('sequence'::text, f.width[7], sequence, f.layout) << f.shift[7]) |
		(@extschema@.snowflake_portable_require_field('shard'::text,
			CASE WHEN shard_is_node THEN 0 ELSE f.width[6] END, shard, f.layout) << f.shift[6]);
END $$;
CREATE OR REPLACE FUNCTION @extschema@.snowflake_compose(created_at timestamptz, node integer,
	sequence integer, layout text, shard integer DEFAULT 0) RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
	SELECT @extschema@.snowflake_portable_compose(created_at, node, sequence, @extschema@.snowflake_portable_layout(layout), shard)
$$;
CREATE OR REPLACE FUNCTION @extschema@.snowflake_compose(created_at timestamptz, node integer,
	sequence integer DEFAULT 0) RETURNS bigint
LANGUAGE sql STABLE STRICT PARALLEL SAFE AS $$
	SELECT @extschema@.snowflake_portable_compose(created_at, node, sequence, @extschema@.snowflake_portable_node_layout(), 0)
$$;

CREATE OR REPLACE FUNCTION @extschema@.snowflake_layouts(
	OUT name text, OUT configured boolean, OUT layout text, OUT bits integer,
	OUT epoch timestamptz, OUT tick_ms integer, OUT ids_per_tick integer,
	OUT nodes bigint, OUT shards bigint, OUT lasts_until timestamptz)
RETURNS SETOF record
LANGUAGE sql STABLE STRICT PARALLEL SAFE ROWS 10 SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
	SELECT l.name, l.configured, f.layout, f.bits, @extschema@.snowflake_portable_time(f.epoch_ms),
		f.tick_ms, 1 << f.sequence_bits,
		CASE WHEN f.node_bits > 0 THEN 1::bigint << f.node_bits END,
		CASE WHEN f.width[6] > 0 THEN 1::bigint << f.width[6] END,
		@extschema@.snowflake_portable_tick_time(f.last_tick + 1, f)
	FROM (
		SELECT 1 AS part, 'node', true, c.layout FROM @state@.snowflake_config c
		UNION ALL SELECT 2, 'shard', true, c.shard_layout FROM @state@.snowflake_config c
		UNION ALL SELECT 3, p.name, false, p.layout FROM @extschema@.snowflake_portable_presets() p
	) l (part, name, configured, layout), @extschema@.snowflake_portable_layout(l.layout) f
	WHERE l.layout IS NOT NULL
$$;

-- ---- IDs as texts ----

-- Return the digits of a format. SQLSTATE 22023 if there is none of this name.
CREATE OR REPLACE FUNCTION @extschema@.snowflake_portable_digits(format text) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	digits text := CASE format
		WHEN 'base32' THEN '0123456789ABCDEFGHJKMNPQRSTVWXYZ'
		WHEN 'base58' THEN '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz'
		WHEN 'base62' THEN '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz' END;
BEGIN
	IF digits IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('there is no format "%s"', left(format, 40)),
			HINT = 'Formats are base32, base58 and base62.';
	END IF;
	RETURN digits;
END $$;

CREATE OR REPLACE FUNCTION @extschema@.snowflake_encode(id bigint, format text) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	digits text := @extschema@.snowflake_portable_digits(format);
	base integer := length(digits);
	rest bigint := id;
	encoded text := '';
BEGIN
	IF id < 0 THEN
		RAISE EXCEPTION USING ERRCODE = '22003', MESSAGE = format('ID %s is negative', id),
			DETAIL = 'No layout makes such IDs, and they have no text form.',
			HINT = 'Use an ID that a layout has made.';
	END IF;
	LOOP
		encoded := substr(digits, (rest % base)::integer + 1, 1) || encoded;
		rest := rest / base;
		EXIT WHEN rest = 0;
	END LOOP;
	RETURN CASE base WHEN 32 THEN lpad(encoded, 13, '0') ELSE encoded END;
END $$;

CREATE OR REPLACE FUNCTION @extschema@.snowflake_parse(encoded text, format text) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	digits text := @extschema@.snowflake_portable_digits(format);
	base integer := length(digits);
	len integer := length(encoded);
	canonical text := encoded;
	good integer;				-- digits at the front
	id numeric := 0;
	reason text;
BEGIN
	IF base = 32 THEN
		canonical := translate(encoded, 'abcdefghijklmnopqrstuvwxyzILO', 'ABCDEFGH1JK1MN0PQRSTUVWXYZ110');
	END IF;
	good := len - length(ltrim(canonical, digits));
	IF len = 0 THEN
		reason := 'Character 1 is missing: the text is empty.';
	ELSIF base <> 32 AND len > 1 AND left(encoded, 1) = left(digits, 1) THEN
		reason := format('Character 1 is a leading zero, which no text in %s has.', format);
	ELSIF base = 32 AND good >= 13 AND len > 13 THEN
		reason := 'Character 14 is one too many: a text in base32 has 13.';
	ELSIF good < len THEN
		reason := format('Character %s is not a digit of %s.', good + 1, format);
	ELSIF base = 32 AND len < 13 THEN
		reason := format('Character %s is missing: a text in base32 has 13.', len + 1);
	ELSE
		-- none with more digits is an ID: substr() of a long text reads it from its start
		canonical := left(canonical, 13);
		FOR i IN 1 .. length(canonical) LOOP
			id := id * base + strpos(digits, substr(canonical, i, 1)) - 1;
		END LOOP;
	END IF;
	IF reason IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22P02',
			MESSAGE = format('invalid ID in %s: "%s"', format, left(encoded, 40)), DETAIL = reason,
			HINT = CASE base WHEN 32 THEN 'The digits are 0 to 9 and the letters except U, in either case; I and L count as 1, and O as 0.'
				WHEN 58 THEN 'The digits are 1 to 9, A to Z except I and O, and a to z except l; the digit 1 counts as zero.'
				ELSE 'The digits are 0 to 9, A to Z and a to z; upper and lower case differ.' END;
	ELSIF id > 9223372036854775807 THEN
		RAISE EXCEPTION USING ERRCODE = '22003',
			MESSAGE = format('ID in %s is out of range: "%s"', format, left(encoded, 40)),
			DETAIL = 'The number exceeds 9223372036854775807.',
			HINT = format('The largest ID in %s is %s.', format, @extschema@.snowflake_encode(9223372036854775807, format));
	END IF;
	RETURN id;
END $$;

-- ---- making IDs ----

-- Throw SQLSTATE 22023 unless a layout is one for IDs of this kind.
CREATE OR REPLACE FUNCTION @extschema@.snowflake_portable_require_kind(f @extschema@.snowflake_portable_fields, shards boolean) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	IF shards AND (f.width[6] NOT BETWEEN 1 AND 16 OR f.node_bits > 0) THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'the layout is not one for shards',
			DETAIL = 'The layout of the shards'' IDs must have the field "shard", of at most 16 bits, and none for a node.',
			HINT = 'Leave it out, or use one with a shard.';
	ELSIF NOT shards AND f.width[6] > 0 THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'a layout with the field "shard" makes no IDs of the node',
			HINT = 'Set it by snowflake_set_shards(), and call snowflake_shard_nextval().';
	END IF;
END $$;

-- Return a layout that a caller has named. SQLSTATE 22004, 22023. Those who make IDs
-- name it by a constant, so this is done once for each plan.
CREATE OR REPLACE FUNCTION @extschema@.snowflake_portable_named(layout text, tick_ms integer)
RETURNS @extschema@.snowflake_portable_fields
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	f @extschema@.snowflake_portable_fields := @extschema@.snowflake_portable_layout(layout);
BEGIN
	IF layout IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22004', MESSAGE = 'layout must not be null',
			HINT = 'Name a layout, or leave it out for the configured one.';
	END IF;
	PERFORM @extschema@.snowflake_portable_require_kind(f, false);
	IF 1 << f.sequence_bits < (f.tick_ms + tick_ms - 1) / tick_ms THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'the layout has too few IDs in a tick',
			DETAIL = format('The layout "%s" has %s IDs in %s ms, and must have at least one for each tick of the configured layout, of %s ms.',
				f.layout, 1 << f.sequence_bits, f.tick_ms, tick_ms),
			HINT = 'Use a layout with a longer sequence or a shorter tick.';
	END IF;
	RETURN f;
END $$;

-- Return the bits of a node's number in the IDs of a layout. SQLSTATE 55000 if it
-- does not fit.
CREATE OR REPLACE FUNCTION @extschema@.snowflake_portable_node_bits(node integer, f @extschema@.snowflake_portable_fields) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	IF node >= 1::bigint << f.node_bits THEN
		RAISE EXCEPTION USING ERRCODE = '55000', MESSAGE = format('node id %s does not fit the layout "%s"', node, f.layout),
			DETAIL = CASE f.node_bits WHEN 0 THEN 'The layout has no field for a node, so only the server with node id 0 may make its IDs.'
				ELSE format('The layout has room for node ids 0 to %s.', (1::bigint << f.node_bits) - 1) END,
			HINT = 'Name a layout with room for it, or give this server a smaller node id.';
	END IF;
	RETURN @extschema@.snowflake_portable_place_node(node::bigint, f);
END $$;

-- Throw the reason for which a layout has no ID of a tick.
CREATE OR REPLACE FUNCTION @extschema@.snowflake_portable_beyond(tick bigint, f @extschema@.snowflake_portable_fields) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	IF tick < 0 THEN
		RAISE EXCEPTION USING ERRCODE = '58000', MESSAGE = 'wall clock is before the layout''s epoch',
			DETAIL = format('The layout is "%s".', f.layout), HINT = 'Correct the server''s clock.';
	END IF;
	RAISE EXCEPTION USING ERRCODE = '2200H', MESSAGE = 'layout has reached its last timestamp',
		DETAIL = format('The layout is "%s".', f.layout), HINT = 'Check the server''s clock.';
END $$;

-- Called without the lock, when no position could be had for a tick: sleep, or
-- throw the reason. Returns the ms for which this call has slept so far.
CREATE OR REPLACE FUNCTION @extschema@.snowflake_portable_wait(limits regclass, f @extschema@.snowflake_portable_fields,
	tick bigint, now bigint, slept bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp SET client_min_messages = error AS $$
DECLARE
	drift integer := ceil(5.0 / f.tick_ms) * f.tick_ms;
	ahead bigint := (tick - now) * f.tick_ms;
	is_shard boolean := f.width[6] > 0;
	current @extschema@.snowflake_portable_fields;
BEGIN
	IF pg_sequence_last_value(limits) >= 9223372036854775805 THEN
		RAISE EXCEPTION USING ERRCODE = '55000', MESSAGE = 'the portable functions are closed',
			DETAIL = 'They are being exchanged for the library, or have been exchanged while this call ran.',
			HINT = 'Call again. If their owner has given up the exchange, and the library has made no ID here: SELECT @extschema@.snowflake_open(@extschema@.snowflake_close());';
	END IF;
	IF is_shard THEN
		current := @extschema@.snowflake_portable_shard_layout();
	ELSE
		current := @extschema@.snowflake_portable_node_layout();
	END IF;
	IF current.layout <> f.layout THEN
		RAISE EXCEPTION USING ERRCODE = '55000', MESSAGE = 'the layout was changed meanwhile', HINT = 'Call again.';
	ELSIF now < 0 OR tick > f.last_tick THEN
		PERFORM @extschema@.snowflake_portable_beyond(CASE WHEN now < 0 THEN now ELSE tick END, f);
	ELSIF pg_sequence_last_value(limits) IS NULL THEN
		-- The first ID: from here on the layout stays; an error frees the lock. The
		-- functions are of now, and a row may be of an old snapshot. A dump of the schema
		-- alone has the functions, which are another database's. It has neither the row, which
		-- replication may bring, nor the position, which a call that is rolled back may begin.
		BEGIN
			LOCK TABLE @state@.snowflake_config IN EXCLUSIVE MODE;
			IF pg_sequence_last_value(CASE WHEN is_shard THEN '@state@.snowflake_shard_position'::regclass ELSE '@state@.snowflake_position' END) IS NULL
				OR NOT EXISTS (SELECT FROM @state@.snowflake_config c
					WHERE CASE WHEN is_shard THEN c.shard_layout ELSE c.layout END IS NOT NULL) THEN
				PERFORM @extschema@.snowflake_portable_unset(is_shard);
			END IF;
			IF is_shard THEN
				current := @extschema@.snowflake_portable_shard_layout();
			ELSE
				current := @extschema@.snowflake_portable_node_layout();
			END IF;
			IF current.layout <> f.layout THEN
				RAISE EXCEPTION USING ERRCODE = '55000', MESSAGE = 'the layout was changed meanwhile', HINT = 'Call again.';
			ELSIF pg_sequence_last_value(limits) IS NULL THEN
				PERFORM setval(limits, 0);
			END IF;
			RAISE SQLSTATE 'SNF00';
		EXCEPTION WHEN SQLSTATE 'SNF00' THEN
			RETURN slept;
		END;
	ELSIF ahead - drift > 3000 OR (slept > 4000 AND ahead - drift > f.tick_ms) THEN
		RAISE EXCEPTION USING ERRCODE = '58000',
			MESSAGE = format('wall clock is %s behind the next ID''s timestamp', ahead * interval '1 ms'),
			DETAIL = format('%s ms are allowed, and 3000 ms of waiting.', drift),
			HINT = format('Correct the server''s clock. IDs resume when the clock reaches %s.',
				@extschema@.snowflake_portable_time(f.epoch_ms + tick * f.tick_ms - drift));
	END IF;
	ahead := greatest(1, least(100, ahead - drift));
	PERFORM pg_sleep(ahead / 1000.0);
	RETURN slept + ahead;
END $$;

-- Write the functions that make IDs, with the layout as constants, so that a
-- call reads no table.
--
-- At any time one tick is open: the one before snowflake_limit. A call that finds
-- the open tick in time takes a position by nextval(), and no lock. It may return the
-- position only if that lies below the limit that it has read before.
--
-- Otherwise a call opens a tick, under a lock on snowflake_config: that of the clock,
-- or the limit itself if that is later. It sets first the position, and then the
-- limit, which only rises. So setval() may lower a position that others take
-- meanwhile, but never to one that was below any limit: no call has returned those.
--
-- snowflake_close() puts the limit where no clock comes to, under that lock. From then on
-- no tick is opened, also by a call that has begun before: such a call may still take a
-- position of the open tick, below the limit that it has read. The position's tick is the
-- open one or a later one, so all IDs are below the end of that tick, now and later.
-- snowflake_open() alone makes the limit lower again, to above that tick. A call that has
-- read the limit of the closed functions has taken no position by it.
--
-- The block ends by raising an error of its own, whose rollback frees the lock;
-- setval() has been written to the WAL by then, and no rollback takes it back.
-- Whatever else ends the block, a cancel or the end of the session, frees the lock
-- too. A table is locked, in a schema that only its owner may use: anybody may take an
-- advisory lock, or lock what one can name, and would stop all IDs by that. And no
-- message is sent in the block:
-- a client that does not read would keep the lock.
--
-- The WAL of a position may be another transaction's, as nextval() writes it for 32 at
-- a time. So a transaction that has written nothing yet writes snowflake_flush.
--
-- All layouts of the node share its one position. A call that names a layout takes a
-- position, and computes the ID from it, such that no two positions give the same ID:
--
-- Say that a position has the sequence number s in a tick that begins at "ms" (since
-- 1970) and lasts t ms, and that the named layout has ticks of u ms with 2^b IDs each.
-- At most K = u / t (rounded up) of our ticks begin within one tick of that layout. Our
-- tick has the index k = (ms % u) / t (rounded down) among these: a number from 0 to
-- K - 1, and no two ticks have the same one, since they begin at least t apart. Each of
-- the K indexes has room for 2^b / K IDs (rounded down). Only positions with s < room are
-- used. The ID has the tick ms / u, and the sequence number k * room + s.
--
-- From an ID's tick and sequence number follow k and s, and from these the position. So
-- no two positions give one ID, and a later position gives a later ID. This needs our
-- layout to stay as it is: it is fixed by the first ID, of whatever layout.
--
-- A call that finds no room in the open tick opens the next one, as if it were full.
CREATE OR REPLACE FUNCTION @extschema@.snowflake_portable_write(f @extschema@.snowflake_portable_fields,
	node integer, checks text) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp AS $write$
DECLARE
	kind text := CASE WHEN node IS NULL THEN 'shard_' ELSE '' END;
	shard text := CASE WHEN node IS NULL THEN 'shard bigint' END;
	maker_layout text := CASE WHEN node IS NULL THEN 'snowflake_portable_shard_layout' ELSE 'snowflake_portable_node_layout' END;
	named text := format('@extschema@.snowflake_portable_named(layout, %s)', f.tick_ms);
	maker text := CASE WHEN node IS NULL THEN format('(shard::pg_catalog.int8 OPERATOR(pg_catalog.<<) %s)', f.shift[6])
		ELSE @extschema@.snowflake_portable_place_node(node::bigint, f)::text END;
	-- IDs of the configured layout, and the node's IDs of "f", a layout that the caller has named
	ours text[] := ARRAY[
		['{declare}', ''],
		['{skip}', '1'],
		['{usable}', '({p} OPERATOR(pg_catalog.>>) {bits}) OPERATOR(pg_catalog.<) ends'],
		['{most}', '((least(now OPERATOR(pg_catalog.+) {drift}, {last}) OPERATOR(pg_catalog.-) tick) OPERATOR(pg_catalog.+) 1) OPERATOR(pg_catalog.<<) {bits}'],
		['{id}', format('((({p} OPERATOR(pg_catalog.>>) {bits}) OPERATOR(pg_catalog.<<) %s) OPERATOR(pg_catalog.|) (({p} OPERATOR(pg_catalog.&) {mask}) OPERATOR(pg_catalog.<<) %s)) OPERATOR(pg_catalog.|) %s',
			f.low_bits, f.shift[7], maker)]];
	theirs text[] := ARRAY[
		['{declare}', $f$	room pg_catalog.int8 NOT NULL := least((1::pg_catalog.int8 OPERATOR(pg_catalog.<<) f.sequence_bits)
		OPERATOR(pg_catalog./) ((f.tick_ms OPERATOR(pg_catalog.+) {less}) OPERATOR(pg_catalog./) {tick}), {mask} OPERATOR(pg_catalog.+) 1);
$f$],
		['{skip}', '(({mask} OPERATOR(pg_catalog.-) room) OPERATOR(pg_catalog.+) 2)'],
		['{usable}', '(({p} OPERATOR(pg_catalog.>>) {bits}) OPERATOR(pg_catalog.<) ends) AND (({p} OPERATOR(pg_catalog.&) {mask}) OPERATOR(pg_catalog.<) room)'],
		['{most}', 'room'],
		['{id}', $f$CASE WHEN ({at} OPERATOR(pg_catalog.>=) 0) AND ({at} OPERATOR(pg_catalog.<=) f.last_tick) THEN (({at} OPERATOR(pg_catalog.<<) f.low_bits)
				OPERATOR(pg_catalog.|) ((((({ms} OPERATOR(pg_catalog.%) f.tick_ms) OPERATOR(pg_catalog./) {tick}) OPERATOR(pg_catalog.*) room) OPERATOR(pg_catalog.+) ({p} OPERATOR(pg_catalog.&) {mask})) OPERATOR(pg_catalog.<<) f.shift[7]))
				OPERATOR(pg_catalog.|) maker ELSE @extschema@.snowflake_portable_beyond({at}, f) END$f$],
		['{at}', '(({ms} OPERATOR(pg_catalog./) f.tick_ms) OPERATOR(pg_catalog.-) (f.epoch_ms OPERATOR(pg_catalog./) f.tick_ms))'],
		['{ms}', format('((({p} OPERATOR(pg_catalog.>>) {bits}) OPERATOR(pg_catalog.*) {tick}) OPERATOR(pg_catalog.+) %s::pg_catalog.int8)', f.epoch_ms)]];
	blocks text[] := ARRAY[
		['{open}', $f$			quiet := pg_catalog.set_config('client_min_messages', 'error', true);
			LOCK TABLE @state@.snowflake_config IN EXCLUSIVE MODE;
			now := {clock};
			ends := pg_catalog.pg_sequence_last_value({limits});
			-- of the next ID: the open one if that has any left
			tick := greatest(least((pg_catalog.pg_sequence_last_value({positions}) OPERATOR(pg_catalog.+) {skip}) OPERATOR(pg_catalog.>>) {bits}, ends),
				ends OPERATOR(pg_catalog.-) 1, now, 0);
			IF ends IS NULL OR (tick OPERATOR(pg_catalog.>) least(now OPERATOR(pg_catalog.+) {drift}, {last}))
				OR ((@extschema@.{layout}()).layout OPERATOR(pg_catalog.<>) {spelled}) THEN
				RAISE SQLSTATE 'SNF01';
			ELSIF tick OPERATOR(pg_catalog.<) ends THEN
				-- somebody else has opened it meanwhile
				RAISE SQLSTATE 'SNF02';
			END IF;
$f$],
		['{wait}', $f$			WHEN SQLSTATE 'SNF01' THEN
				slept := @extschema@.snowflake_portable_wait({limits}, {fields}, tick, now, slept);
			WHEN SQLSTATE 'SNF02' THEN
				NULL;
		END;
	END LOOP;
END $body$
$f$],
		['{in time}', '(ends OPERATOR(pg_catalog.>) now) AND (ends OPERATOR(pg_catalog.<=) (now OPERATOR(pg_catalog.+) {drift} OPERATOR(pg_catalog.+) 1))'],
		['{flush}', $f$IF pg_catalog.pg_current_xact_id_if_assigned() IS NULL THEN
					n := pg_catalog.setval('@state@.snowflake_flush'::pg_catalog.regclass, 0);
				END IF;$f$]];
	words text[] := ARRAY[
		-- the clock's tick, rounded down, counted from the epoch
		['{clock}', format('((pg_catalog.date_part(''epoch'', pg_catalog.clock_timestamp()) OPERATOR(pg_catalog.*) %s) OPERATOR(pg_catalog.-) %s)::pg_catalog.int8',
			1000.0 / f.tick_ms, f.epoch_ms / f.tick_ms + 0.5)],
		['{positions}', format('''@state@.snowflake_%sposition''::pg_catalog.regclass', kind)],
		['{limits}', format('''@state@.snowflake_%slimit''::pg_catalog.regclass', kind)],
		['{fields}', format('%L::@extschema@.snowflake_portable_fields', f)],
		['{layout}', maker_layout],
		['{spelled}', quote_literal(f.layout)],
		['{bits}', f.sequence_bits::text],
		['{mask}', f.mask[7]::text],
		['{tick}', f.tick_ms::text],
		['{less}', (f.tick_ms - 1)::text],
		['{drift}', ceil(5.0 / f.tick_ms)::text],
		['{last}', f.last_tick::text]];
	word text[];
	one text := $f$ RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER AS $body$
DECLARE
{declare}	now pg_catalog.int8;
	ends pg_catalog.int8;
	p pg_catalog.int8;
	tick pg_catalog.int8;
	n pg_catalog.int8;
	slept pg_catalog.int8 := 0;
	quiet pg_catalog.text;
BEGIN
$f$ || checks || $f$	LOOP
		now := {clock};
		ends := pg_catalog.pg_sequence_last_value({limits});
		IF {in time} THEN
			p := pg_catalog.nextval({positions});
			IF {usable} THEN
				{flush}
				RETURN {id};
			END IF;
		END IF;
		BEGIN
{open}			p := pg_catalog.setval({positions}, tick OPERATOR(pg_catalog.<<) {bits});
			ends := pg_catalog.setval({limits}, tick OPERATOR(pg_catalog.+) 1);
			RAISE SQLSTATE 'SNF00';
		EXCEPTION
			WHEN SQLSTATE 'SNF00' THEN
				RETURN {id};
{wait}$f$;
	many text := $f$ RETURNS SETOF bigint ROWS 1000
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER AS $body$
DECLARE
{declare}	now pg_catalog.int8;
	ends pg_catalog.int8;
	p pg_catalog.int8;
	tick pg_catalog.int8;
	n pg_catalog.int8;
	slept pg_catalog.int8 := 0;
	quiet pg_catalog.text;
	rest pg_catalog.int8 := count;
BEGIN
$f$ || checks || $f$	IF count IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22004', MESSAGE = 'count must not be null', HINT = 'Give a number, for instance by COALESCE().';
	ELSIF (count OPERATOR(pg_catalog.<) 1) OR (count OPERATOR(pg_catalog.>) 10000000) THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = pg_catalog.concat('count ', count, ' is out of range'), HINT = 'A batch has 1 to 10000000 IDs. Call again for more.';
	END IF;
	WHILE rest OPERATOR(pg_catalog.>) 0 LOOP
		now := {clock};
		ends := pg_catalog.pg_sequence_last_value({limits});
		IF {in time} THEN
			-- as many as the open tick seems to have left
			n := least(rest, ((ends OPERATOR(pg_catalog.<<) {bits}) OPERATOR(pg_catalog.-) {skip}) OPERATOR(pg_catalog.-) pg_catalog.pg_sequence_last_value({positions}));
			RETURN QUERY SELECT {id} FROM (SELECT pg_catalog.nextval({positions}) FROM pg_catalog.generate_series(1::pg_catalog.int8, n)) g (i)
				WHERE {usable};
			GET DIAGNOSTICS n = ROW_COUNT;
			IF n OPERATOR(pg_catalog.>) 0 THEN
				rest := rest OPERATOR(pg_catalog.-) n;
				slept := 0;
				{flush}
				CONTINUE;
			END IF;
		END IF;
		BEGIN
{open}			-- as many as the ticks up to the last permitted one have, or as there is room for
			p := tick OPERATOR(pg_catalog.<<) {bits};
			n := least(rest, {most});
			tick := pg_catalog.setval({positions}, (p OPERATOR(pg_catalog.+) n) OPERATOR(pg_catalog.-) 1) OPERATOR(pg_catalog.>>) {bits};
			ends := pg_catalog.setval({limits}, tick OPERATOR(pg_catalog.+) 1);
			RAISE SQLSTATE 'SNF00';
		EXCEPTION
			WHEN SQLSTATE 'SNF00' THEN
				rest := rest OPERATOR(pg_catalog.-) n;
				slept := 0;
				RETURN QUERY SELECT {id} FROM pg_catalog.generate_series(p, (p OPERATOR(pg_catalog.+) n) OPERATOR(pg_catalog.-) 1) g (i);
{wait}$f$;
	one_named text := one;
	many_named text := replace(many, '{declare}', format(E'\tf @extschema@.snowflake_portable_fields := %s;\n\tmaker pg_catalog.int8 := @extschema@.snowflake_portable_node_bits(%s, f);\n{declare}', named, node));
BEGIN
	FOREACH word SLICE 1 IN ARRAY blocks || ours || words LOOP
		one := replace(one, word[1], word[2]);
		many := replace(many, word[1], word[2]);
	END LOOP;
	FOREACH word SLICE 1 IN ARRAY blocks || theirs || words LOOP
		one_named := replace(one_named, word[1], word[2]);
		many_named := replace(many_named, word[1], word[2]);
	END LOOP;
	EXECUTE format('CREATE OR REPLACE FUNCTION @extschema@.snowflake_%snextval(%s)', kind, shard) || replace(one, '{p}', 'p');
	EXECUTE format('CREATE OR REPLACE FUNCTION @extschema@.snowflake_%snextval_batch(%s)', kind,
		concat_ws(', ', shard, 'count integer')) || replace(many, '{p}', 'g.i');
	IF node IS NOT NULL THEN
		EXECUTE 'CREATE OR REPLACE FUNCTION @extschema@.snowflake_nextval_batch(count integer, layout text)' || replace(many_named, '{p}', 'g.i');
		-- the planner inlines what is called, and computes the arguments
		EXECUTE 'CREATE OR REPLACE FUNCTION @extschema@.snowflake_portable_next(f @extschema@.snowflake_portable_fields, maker bigint)' || replace(one_named, '{p}', 'p');
		EXECUTE format('CREATE OR REPLACE FUNCTION @extschema@.snowflake_nextval(layout text) RETURNS bigint LANGUAGE sql VOLATILE AS %L',
			format('SELECT @extschema@.snowflake_portable_next(%1$s, @extschema@.snowflake_portable_node_bits(%2$s, %1$s))', named, node));
	END IF;

	-- and the layout, for all who read IDs without naming one
	EXECUTE format('CREATE OR REPLACE FUNCTION @extschema@.%I() RETURNS @extschema@.snowflake_portable_fields LANGUAGE sql STABLE PARALLEL SAFE AS %L',
		maker_layout, format('SELECT %L::@extschema@.snowflake_portable_fields', f));
END $write$;

-- Return a layout that may be configured now: another one is refused once there
-- are IDs. SQLSTATE 55000, 22023.
CREATE OR REPLACE FUNCTION @extschema@.snowflake_portable_choose(limits regclass, configured text, wanted text, preset text)
RETURNS @extschema@.snowflake_portable_fields
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	f @extschema@.snowflake_portable_fields := @extschema@.snowflake_portable_layout(coalesce(wanted, configured, preset));
BEGIN
	LOCK TABLE @state@.snowflake_config IN EXCLUSIVE MODE;
	-- after the exchange, whose end a call may have waited for, bodies call the library
	IF pg_sequence_last_value(limits) >= 9223372036854775805 THEN
		RAISE EXCEPTION USING ERRCODE = '55000', MESSAGE = 'the portable functions are closed',
			HINT = 'Go on with the exchange. If it is over, this is set in postgresql.conf: snowflake.node_id, snowflake.shards.';
	END IF;
	IF f.layout IS DISTINCT FROM configured AND pg_sequence_last_value(limits) IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '55000', MESSAGE = 'the layout cannot be changed, since there are IDs of another one',
			DETAIL = format('The layout of the IDs is "%s".', configured),
			HINT = 'Leave the layout out here; snowflake_nextval(layout) makes IDs of the node in another one. Only where no table has IDs, drop the functions and install them again.';
	END IF;
	RETURN f;
END $$;

CREATE OR REPLACE FUNCTION @extschema@.snowflake_set_node(node integer, layout text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	f @extschema@.snowflake_portable_fields := @extschema@.snowflake_portable_choose('@state@.snowflake_limit'::regclass,
		(SELECT c.layout FROM @state@.snowflake_config c), layout, 'snowflake'::text);
BEGIN
	PERFORM @extschema@.snowflake_portable_require_kind(f, false);
	IF node BETWEEN 0 AND (1::bigint << f.node_bits) - 1 IS NOT TRUE THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('node id %s is out of range', coalesce(node::text, 'NULL')),
			HINT = format('The layout has room for 0 to %s.', (1::bigint << f.node_bits) - 1);
	END IF;
	INSERT INTO @state@.snowflake_config (node, layout) VALUES (snowflake_set_node.node, f.layout)
	ON CONFLICT (only_row) DO UPDATE SET node = excluded.node, layout = excluded.layout;
	PERFORM setval('@state@.snowflake_position', 0) WHERE pg_sequence_last_value('@state@.snowflake_position') IS NULL;
	PERFORM @extschema@.snowflake_portable_write(f, node, ''::text);
END $$;

CREATE OR REPLACE FUNCTION @extschema@.snowflake_set_shards(shards text, layout text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	f @extschema@.snowflake_portable_fields := @extschema@.snowflake_portable_choose('@state@.snowflake_shard_limit'::regclass,
		(SELECT c.shard_layout FROM @state@.snowflake_config c), layout, 'instagram'::text);
	part text;
	range text[];
	mine text[];
BEGIN
	PERFORM @extschema@.snowflake_portable_require_kind(f, true);
	FOREACH part IN ARRAY string_to_array(coalesce(shards, 'NULL'), ',') LOOP
		range := regexp_match(part COLLATE "C", '^ *([0-9]{1,5}) *(?:- *([0-9]{1,5}) *)?$');
		range[2] := coalesce(range[2], range[1]);
		IF range[1]::integer <= range[2]::integer AND range[2]::integer <= f.mask[6] IS NOT TRUE THEN
			RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('invalid shards: "%s"', part),
				HINT = format('List numbers and ranges from 0 to %s, such as 0-4095,5000.', f.mask[6]);
		END IF;
		mine := mine || format('((shard OPERATOR(pg_catalog.<) %s) OR (shard OPERATOR(pg_catalog.>) %s))',
			range[1]::integer, range[2]::integer);
	END LOOP;
	INSERT INTO @state@.snowflake_config (shards, shard_layout) VALUES (snowflake_set_shards.shards, f.layout)
	ON CONFLICT (only_row) DO UPDATE SET shards = excluded.shards, shard_layout = excluded.shard_layout;
	PERFORM setval('@state@.snowflake_shard_position', 0) WHERE pg_sequence_last_value('@state@.snowflake_shard_position') IS NULL;
	PERFORM @extschema@.snowflake_portable_write(f, NULL::integer, format($f$	IF shard IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22004', MESSAGE = 'shard must not be null', HINT = 'Give a number, for instance by COALESCE().';
	ELSIF (shard OPERATOR(pg_catalog.<) 0) OR (shard OPERATOR(pg_catalog.>) %1$s) THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = pg_catalog.concat('shard ', shard, ' is out of range'),
			DETAIL = 'The layout has room for shards 0 to %1$s.', HINT = 'Use a shard in that range, or a shard layout with more bits for the shard.';
	ELSIF %2$s THEN
		RAISE EXCEPTION USING ERRCODE = '55000', MESSAGE = pg_catalog.concat('this server may not issue IDs for shard ', shard),
			HINT = 'If no other server has the shard, have the owner of the functions add it by snowflake_set_shards().';
	END IF;
$f$, f.mask[6], array_to_string(mine, ' AND ')));
END $$;

-- Before that, making an ID says what is missing.
DO $do$
DECLARE
	missing text;
BEGIN
	FOREACH missing IN ARRAY ARRAY[
		'snowflake_nextval() RETURNS bigint$snowflake_portable_node_layout',
		'snowflake_nextval(layout text) RETURNS bigint$snowflake_portable_node_layout',
		'snowflake_nextval_batch(count integer) RETURNS SETOF bigint$snowflake_portable_node_layout',
		'snowflake_nextval_batch(count integer, layout text) RETURNS SETOF bigint$snowflake_portable_node_layout',
		'snowflake_shard_nextval(shard bigint) RETURNS bigint$snowflake_portable_shard_layout',
		'snowflake_shard_nextval_batch(shard bigint, count integer) RETURNS SETOF bigint$snowflake_portable_shard_layout',
		'snowflake_portable_next(f @extschema@.snowflake_portable_fields, maker bigint) RETURNS bigint$snowflake_portable_node_layout']
	LOOP
		EXECUTE format('CREATE OR REPLACE FUNCTION @extschema@.%s LANGUAGE plpgsql AS %L', split_part(missing, '$', 1),
			format('BEGIN PERFORM @extschema@.%s(); RAISE EXCEPTION USING ERRCODE = ''55000'', MESSAGE = ''the layout was changed meanwhile'', HINT = ''Call again.''; END',
				split_part(missing, '$', 2)));
	END LOOP;
END $do$;

-- The same, for tools that take a default with "nextval" in it for a sequence's.
CREATE OR REPLACE FUNCTION @extschema@.snowflake_generate() RETURNS bigint LANGUAGE sql VOLATILE AS
	'SELECT @extschema@.snowflake_nextval()';
CREATE OR REPLACE FUNCTION @extschema@.snowflake_generate(layout text) RETURNS bigint LANGUAGE sql VOLATILE AS
	'SELECT @extschema@.snowflake_nextval(layout)';

-- ---- administration ----

-- Issue no position before a time any more. In a layout with longer ticks, no tick that
-- ends at or before this time gets an ID any more, either. Opens closed functions.
CREATE OR REPLACE FUNCTION @extschema@.snowflake_portable_raise(ms bigint) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	kind record;
	tick bigint;
BEGIN
	LOCK TABLE @state@.snowflake_config IN EXCLUSIVE MODE;
	FOR kind IN SELECT * FROM @extschema@.snowflake_portable_kinds() LOOP
		IF pg_sequence_last_value(kind.positions) IS NULL THEN
			PERFORM @extschema@.snowflake_portable_unset((kind.f).width[6] > 0);
		END IF;
		-- the first tick that begins at or after it, and after that of the position
		tick := greatest((ms + (kind.f).tick_ms - 1) / (kind.f).tick_ms - (kind.f).epoch_ms / (kind.f).tick_ms,
			(pg_sequence_last_value(kind.positions) >> (kind.f).sequence_bits) + 1, 0);
		IF tick > 0 THEN
			PERFORM setval(kind.positions, (tick << (kind.f).sequence_bits) - 1);
		END IF;
		IF tick > 0 OR kind.is_closed THEN
			PERFORM setval(kind.limits, tick);
		END IF;
	END LOOP;
END $$;

-- Make no ID from here on. Return a time, in Unix ms, that all IDs are below. This can be
-- called again, and returns the same.
CREATE OR REPLACE FUNCTION @extschema@.snowflake_close() RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	LOCK TABLE @state@.snowflake_config IN EXCLUSIVE MODE;
	IF NOT EXISTS (SELECT FROM @extschema@.snowflake_portable_kinds() k) THEN
		PERFORM @extschema@.snowflake_portable_unset(false);
	END IF;
	PERFORM setval(k.limits, 9223372036854775805) FROM @extschema@.snowflake_portable_kinds() k;
	RETURN (SELECT coalesce(max((k.f).epoch_ms + ((pg_sequence_last_value(k.positions) >> (k.f).sequence_bits) + 1) * (k.f).tick_ms), 1)
		FROM @extschema@.snowflake_portable_kinds() k);
END $$;

-- Make IDs again, above this time, in Unix ms, and above those that were made here.
CREATE OR REPLACE FUNCTION @extschema@.snowflake_open(above bigint) RETURNS timestamptz
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	IF above BETWEEN 0 AND 7258118399999 IS NOT TRUE THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('%s is not a time in Unix milliseconds', coalesce(above::text, 'NULL')),
			HINT = 'Give the mark of the library, or what snowflake_close() returns.';
	END IF;
	PERFORM @extschema@.snowflake_portable_raise(above);
	RETURN @extschema@.snowflake_portable_time(above);
END $$;

CREATE OR REPLACE FUNCTION @extschema@.snowflake_advance(id bigint, layout text, force boolean) RETURNS timestamptz
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	of_id @extschema@.snowflake_portable_fields;
	ours @extschema@.snowflake_portable_fields;
	configured @state@.snowflake_config;
	is_used boolean;			-- by a column whose default names the layout
	which text;
	until bigint;
	now bigint := floor(date_part('epoch', clock_timestamp()) * 1000);
	at bigint;
BEGIN
	IF id IS NULL OR force IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22004', MESSAGE = 'id and force must not be null',
			HINT = 'The largest ID of an empty table is null: then nothing needs to be done.';
	END IF;
	SELECT * INTO configured FROM @state@.snowflake_config;
	IF configured.layout IS NULL AND configured.shard_layout IS NULL THEN
		PERFORM @extschema@.snowflake_portable_unset(false);
	ELSIF EXISTS (SELECT FROM @extschema@.snowflake_portable_kinds() k WHERE k.is_closed) THEN
		RAISE EXCEPTION USING ERRCODE = '55000', MESSAGE = 'the portable functions are closed',
			HINT = 'Call this after snowflake_open().';
	END IF;
	IF layout IS NULL THEN
		of_id := @extschema@.snowflake_portable_node_layout();
	ELSE
		of_id := @extschema@.snowflake_portable_layout(layout);
	END IF;
	PERFORM @extschema@.snowflake_portable_require_fit(id, of_id);
	is_used := EXISTS (SELECT FROM pg_depend d JOIN pg_attrdef f ON d.classid = 'pg_attrdef'::regclass AND f.oid = d.objid
		WHERE d.refclassid = 'pg_proc'::regclass AND d.refobjid IN ('@extschema@.snowflake_nextval(text)'::regprocedure, '@extschema@.snowflake_generate(text)'::regprocedure)
			AND substring(pg_get_expr(f.adbin, f.adrelid) FROM 'snowflake_(?:nextval|generate)"?[(](?:"?layout"? => )?''([^'']*)''') IN
				(SELECT n FROM (VALUES (snowflake_advance.layout), (of_id.layout)) v (n)
				UNION ALL SELECT p.name FROM @extschema@.snowflake_portable_presets() p WHERE (@extschema@.snowflake_portable_layout(p.layout)).layout = of_id.layout));
	-- the end of its tick
	until := of_id.epoch_ms + ((id >> of_id.low_bits) + 1) * of_id.tick_ms;
	FOREACH which IN ARRAY array_remove(ARRAY[configured.layout, configured.shard_layout], NULL) LOOP
		ours := @extschema@.snowflake_portable_layout(which);
		IF until >= ours.epoch_ms + (ours.last_tick + 1) * ours.tick_ms THEN
			RAISE EXCEPTION USING ERRCODE = '22003', MESSAGE = 'no ID would be left to issue',
				DETAIL = format('The ID lies at %s.', @extschema@.snowflake_portable_time(until)),
				HINT = 'Check the ID. If it is one of another layout, name that: snowflake_advance(id, layout => ...).';
		END IF;
		at := greatest(until, now) / ours.tick_ms - ours.epoch_ms / ours.tick_ms;
		IF NOT force AND NOT is_used AND (of_id.width[6] > 0) = (ours.width[6] > 0) AND (at < 0 OR (at << ours.low_bits) <= id) THEN
			RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'IDs of the configured layout would not be above this ID',
				DETAIL = format('The configured layout is "%s".', ours.layout),
				HINT = 'In the default of the column, name the layout that the ID was made with: snowflake_nextval(layout). If old and new IDs never share a column, call snowflake_advance(id, layout => ..., force => true).';
		END IF;
	END LOOP;
	IF until > now + 86400000 AND NOT force THEN
		RAISE EXCEPTION USING ERRCODE = '22008', MESSAGE = 'ID lies more than a day ahead of the wall clock',
			DETAIL = format('Its time is %s; this database would make no IDs until then.', @extschema@.snowflake_portable_time(until)),
			HINT = 'Check the ID. If it is one of another layout, name that. If the ID is right, call snowflake_advance(id, NULL, true).';
	END IF;
	PERFORM @extschema@.snowflake_portable_raise(until);
	RETURN @extschema@.snowflake_portable_time(until);
END $$;

CREATE OR REPLACE FUNCTION @extschema@.snowflake_advance(id bigint) RETURNS timestamptz
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp AS $$ SELECT @extschema@.snowflake_advance(id, NULL::text, false) $$;

CREATE OR REPLACE FUNCTION @extschema@.snowflake_advance(id bigint, layout text) RETURNS timestamptz
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp AS $$ SELECT @extschema@.snowflake_advance(id, layout, false) $$;

CREATE OR REPLACE FUNCTION @extschema@.snowflake_status(OUT check_name text, OUT status text,
	OUT found text, OUT remedy text)
RETURNS SETOF record
LANGUAGE sql VOLATILE STRICT ROWS 10 SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
	WITH last AS (
		SELECT f.layout AS spelled,
			-- not so after a new version was installed, or where replication has brought the row
			CASE WHEN (SELECT p.prosecdef FROM pg_proc p WHERE p.oid = '@extschema@.snowflake_nextval()'::regprocedure)
				AND pg_sequence_last_value('@state@.snowflake_position') IS NOT NULL THEN c.node END AS node,
			-- what a new version lacks
			CASE WHEN pg_sequence_last_value('@state@.snowflake_position') IS NOT NULL THEN c.node END AS was_node,
			CASE WHEN pg_sequence_last_value('@state@.snowflake_shard_position') IS NOT NULL THEN c.shards END AS was_shards,
			c.shards IS NOT NULL AND NOT ((SELECT p.prosecdef FROM pg_proc p WHERE p.oid = '@extschema@.snowflake_shard_nextval(bigint)'::regprocedure)
				AND pg_sequence_last_value('@state@.snowflake_shard_position') IS NOT NULL) AS lacks_shards, f.tick_ms, f.epoch_ms + (f.last_tick + 1) * f.tick_ms AS ends_ms,
			greatest(f.epoch_ms + (pg_sequence_last_value('@state@.snowflake_position') >> f.sequence_bits) * f.tick_ms,
				g.epoch_ms + (pg_sequence_last_value('@state@.snowflake_shard_position') >> g.sequence_bits) * g.tick_ms)
				- floor(date_part('epoch', clock_timestamp()) * 1000)::bigint AS ahead_ms
		FROM (VALUES (1)) always LEFT JOIN @state@.snowflake_config c ON true
			LEFT JOIN @extschema@.snowflake_portable_layout(c.layout) f ON true
			LEFT JOIN @extschema@.snowflake_portable_layout(c.shard_layout) g ON true
	), given AS (
		SELECT c.relowner AS owner, format('TABLE %s', c.oid::regclass) AS name, a.grantee, a.privilege_type AS privilege
		FROM pg_class c, aclexplode(c.relacl) a
		WHERE c.relnamespace = to_regnamespace('@state@') AND a.privilege_type <> 'SELECT'
		UNION ALL
		SELECT c.relowner, format('SCHEMA %s', n.oid::regnamespace), a.grantee, a.privilege_type
		FROM pg_class c, pg_namespace n, aclexplode(coalesce(n.nspacl, acldefault('n', n.nspowner))) a
		WHERE c.oid = '@state@.snowflake_config'::regclass AND (n.oid = c.relnamespace
			OR n.oid = to_regnamespace('@extschema@') AND a.privilege_type = 'CREATE')
	), may AS (
		SELECT CASE WHEN grantee = 0 THEN 'PUBLIC' ELSE grantee::regrole::text END AS role, privilege, name
		FROM given LEFT JOIN pg_roles r ON r.oid = CASE WHEN grantee = to_regrole('pg_database_owner')
			THEN (SELECT datdba FROM pg_database WHERE datname = current_database()) ELSE grantee END
		WHERE r.oid IS DISTINCT FROM owner AND r.rolsuper IS NOT TRUE
			AND NOT (privilege = 'USAGE' AND name LIKE 'SCHEMA %' AND grantee IS NOT DISTINCT FROM to_regrole('pg_database_owner'))
	), checks (check_name, status, found, remedy) AS (
		SELECT 'node id', CASE WHEN node IS NULL OR lacks_shards THEN 'error' ELSE 'ok' END,
			CASE WHEN node IS NULL THEN 'the node id is not set' WHEN lacks_shards THEN 'the shards are not set'
				ELSE format('%s, in the layout "%s"', node, spelled) END,
			'As the owner of the functions: ' || CASE
				WHEN node IS NULL THEN coalesce(format('SELECT %s.snowflake_set_node(%s);', '@extschema@', was_node), 'SELECT @extschema@.snowflake_set_node(1); with another number on each server.')
				WHEN lacks_shards THEN coalesce(format('SELECT %s.snowflake_set_shards(%L);', '@extschema@', was_shards), 'SELECT @extschema@.snowflake_set_shards(''0-4095''); with other shards on each server.') END
		FROM last
		UNION ALL SELECT 'drift', CASE WHEN ahead_ms > 3000 + coalesce(tick_ms, 1000) THEN 'error' ELSE 'ok' END,
			CASE WHEN ahead_ms > 3000 + coalesce(tick_ms, 1000) THEN format('the last ID is %s ahead of the wall clock', ahead_ms * interval '1 ms')
				ELSE 'the last ID is not ahead of the wall clock by more than the drift' END,
			CASE WHEN ahead_ms > 3000 + coalesce(tick_ms, 1000) THEN 'Correct the server''s clock, or wait. If that takes too long, install the functions in a second schema, with a node id that was never used, and let the defaults of the columns call these.' END
		FROM last
		UNION ALL SELECT 'layout end', CASE WHEN ends_ms < date_part('epoch', clock_timestamp()) * 1000 + 31536000000 THEN 'warning' ELSE 'ok' END,
			coalesce('the layout lasts until ' || @extschema@.snowflake_portable_time(ends_ms), 'there is no layout yet'),
			CASE WHEN ends_ms < date_part('epoch', clock_timestamp()) * 1000 + 31536000000 THEN 'Plan a move to a layout with more bits for the timestamp.' END
		FROM last
		UNION ALL SELECT 'privileges', CASE WHEN count(*) = 0 THEN 'ok' ELSE 'warning' END,
			CASE WHEN count(*) = 0 THEN 'only the owner of the functions may write the state, or create anything beside them'
				ELSE string_agg(format('%s may %s on %s', role, privilege, name), '; ' ORDER BY name, role, privilege) END,
			CASE WHEN count(*) > 0 THEN 'Revoke these privileges: such a role can make IDs repeat, stop all of them, or have a function of its own called. Grant USAGE on the schema alone.' END
		FROM may
		UNION ALL SELECT 'library', CASE WHEN count(*) = 0 THEN 'ok' ELSE 'error' END,
			CASE WHEN count(*) = 0 THEN 'the portable functions need no library' ELSE 'the functions are closed, to be exchanged for the library' END,
			CASE WHEN count(*) > 0 THEN 'Go on with the exchange. Or give it up, if the library has made no ID here: SELECT @extschema@.snowflake_open(@extschema@.snowflake_close());' END
		FROM @extschema@.snowflake_portable_kinds() k WHERE k.is_closed
	)
	SELECT 'summary', CASE max(CASE c.status WHEN 'error' THEN 2 WHEN 'warning' THEN 1 ELSE 0 END)
			WHEN 2 THEN 'error' WHEN 1 THEN 'warning' ELSE 'ok' END,
		format('%s of %s checks need attention', count(c.remedy), count(*)),
		CASE WHEN count(c.remedy) > 0 THEN 'Do what the rows below say.' END
	FROM checks c
	UNION ALL SELECT * FROM (SELECT * FROM checks c ORDER BY c.remedy IS NULL) s
$$;

-- ---- who may do what ----

-- Everybody may make and read IDs.
DO $do$
DECLARE
	given text;
BEGIN
	FOR given IN
		SELECT format('%s FROM %s', p.oid::regprocedure, CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END)
		FROM pg_proc p, aclexplode(coalesce(proacl, acldefault('f', proowner)))
		WHERE pronamespace = to_regnamespace('@extschema@') AND grantee <> proowner
			AND proname ~ '^snowflake_(portable_(wait|write|choose|raise)|set_node|set_shards|advance|close|open)$'
			AND p.oid::text <> ALL (string_to_array(current_setting('portable.there'), ' '))
	LOOP
		EXECUTE concat('REVOKE ALL ON FUNCTION ', given);
	END LOOP;
	IF current_setting('portable.there') <> '-' THEN
		RETURN;
	END IF;
	COMMENT ON FUNCTION @extschema@.snowflake_nextval() IS 'the next ID of this node';
	COMMENT ON FUNCTION @extschema@.snowflake_nextval(text) IS 'the next ID of this node in this layout';
	COMMENT ON FUNCTION @extschema@.snowflake_set_node(integer, text) IS 'set the node id of this database, and the layout before the first ID';
	COMMENT ON FUNCTION @extschema@.snowflake_set_shards(text, text) IS 'set the shards of this database, such as 0-4095,5000';
	COMMENT ON FUNCTION @extschema@.snowflake_advance(bigint) IS 'never issue at or below this ID again';
	COMMENT ON FUNCTION @extschema@.snowflake_advance(bigint, text) IS 'never issue at or below this ID of this layout again';
	COMMENT ON FUNCTION @extschema@.snowflake_advance(bigint, text, boolean) IS 'never issue at or below this ID of this layout again, also if the ID lies far ahead, or above new IDs';
	COMMENT ON FUNCTION @extschema@.snowflake_close() IS 'make no ID any more, and return a time that all are below';
	COMMENT ON FUNCTION @extschema@.snowflake_open(bigint) IS 'make IDs again, above this time';
	COMMENT ON FUNCTION @extschema@.snowflake_status() IS 'one row per check: what was found, and what to do';
END $do$;
$sql$, '@extschema@', target), '@state@', state);
	IF EXISTS (SELECT FROM (SELECT relname, relowner, relnamespace FROM pg_class
			UNION ALL SELECT proname, proowner, pronamespace FROM pg_proc) o (name, owner, schema)
		WHERE name ~ '^snowflake_' AND schema IN (to_regnamespace(target), to_regnamespace(state)) AND pg_get_userbyid(owner) <> current_user) THEN
		RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = format('another role owns objects of the schema %s whose names begin with "snowflake_"', target),
			HINT = 'Connect as the owner of the functions, or use a schema in which no other role may create anything.';
	END IF;
	PERFORM pg_catalog.set_config('search_path', path, true);
END
$portable$;
