-- Give the portable functions bodies that call the library. Each function stays the same
-- object, so defaults, views, indexes, privileges and comments stay as they are. The
-- functions are closed, and the library's mark is above their IDs: doc/portable.md says
-- how. As the owner of the functions, in psql or any client:
--
--	SET search_path = ids;				-- the schema that holds the functions
--	SET portable.above = 1795700000123;	-- what portable-library.sql has printed
--	\i portable-to-extension.sql
--
-- A call that is under way in an old body finds the functions closed, or takes a
-- position of the tick that was open before, below the mark.
DO $portable$
DECLARE
	path pg_catalog.text := pg_catalog.current_setting('search_path');
	home pg_catalog.text := pg_catalog.quote_ident(pg_catalog.current_schema());
	state pg_catalog.text := pg_catalog.quote_ident(pg_catalog.concat(pg_catalog.current_schema(), '_portable_state'));
	library pg_catalog.text;
	node pg_catalog.int4;
	needed pg_catalog.int8;
	above pg_catalog.int8;
	item record;
	statement pg_catalog.text;
BEGIN
	PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
	SELECT quote_ident(nspname) INTO library
	FROM pg_extension e JOIN pg_namespace n ON n.oid = extnamespace WHERE extname = 'snowflake';
	-- pg_tle has one schema for the state
	state := CASE WHEN to_regnamespace(state) IS NULL THEN 'snowflake_portable_state' ELSE state END;
	-- before anything of theirs is called
	IF NOT EXISTS (SELECT FROM pg_class c, pg_proc p WHERE c.oid = to_regclass(state || '.snowflake_config') AND p.oid = to_regprocedure(home || '.snowflake_portable_kinds()')
			AND relowner = to_regrole(quote_ident(current_user)) AND proowner = relowner) THEN
		RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = format('%s does not own portable functions in the schema %s', current_user, coalesce(home, 'of the search_path')),
			HINT = 'Connect as their owner, and name their schema, as in: SET search_path = ids;';
	ELSIF library IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = '55000', MESSAGE = 'this database does not have the extension',
			HINT = format('SELECT %s.snowflake_close(); and have a superuser run sql/portable-library.sql with the number that it returns.', home);
	END IF;
	EXECUTE format('SELECT bool_and(is_closed) AS closed FROM %s.snowflake_portable_kinds()', home) INTO item;
	IF item.closed IS NOT TRUE THEN
		RAISE EXCEPTION USING ERRCODE = '55000', MESSAGE = 'the portable functions are not closed',
			HINT = format('SELECT %s.snowflake_close(); and have a superuser run sql/portable-library.sql with the number that it returns.', home);
	END IF;
	EXECUTE format('SELECT %s.snowflake_close(), (SELECT node FROM %s.snowflake_config)', home, state) INTO needed, node;
	-- by its OID: only the owner of the database may name the mark
	SELECT CASE WHEN current_setting('portable.above', true) <> '' THEN least(current_setting('portable.above')::bigint, coalesce(pg_sequence_last_value(c.oid::regclass), 0)) END
	INTO above FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE nspname = 'snowflake_state' AND relname = 'snowflake_mark';
	IF above >= needed IS NOT TRUE THEN
		RAISE EXCEPTION USING ERRCODE = '55000', MESSAGE = 'the library does not begin above the IDs of the portable functions',
			HINT = format('Have a superuser run: psql -v last=%s -f sql/portable-library.sql. Then SET portable.above = to the number that this prints.', needed);
	END IF;
	FOR item IN EXECUTE format('SELECT name, l.layout AS has, CASE name WHEN ''node'' THEN c.layout ELSE c.shard_layout END AS had
		FROM %s.snowflake_layouts() l, %s.snowflake_config c WHERE l.configured', library, state)
	LOOP
		IF item.has <> item.had THEN
			RAISE EXCEPTION USING ERRCODE = '55000', MESSAGE = format('the layout of the %s''s IDs is another one', item.name),
				DETAIL = format('The server has "%s", and the portable functions "%s".', item.has, item.had),
				HINT = format('As a superuser: ALTER SYSTEM SET snowflake.%slayout = ''%s''; and restart the server.',
					CASE item.name WHEN 'node' THEN '' ELSE 'shard_' END, item.had);
		END IF;
	END LOOP;
	IF node::text <> current_setting('snowflake.node_id') THEN
		RAISE WARNING 'snowflake.node_id is "%", and the portable functions had %', current_setting('snowflake.node_id'), node
			USING HINT = 'No other server may have that node id.';
	END IF;

	-- members of an extension, which pg_tle has made, would be dumped without bodies; the
	-- types of tables and arrays, members since 18, leave with what they depend on
	FOR item IN
		SELECT quote_ident(extname) AS extension, i.type, i.identity
		FROM pg_depend t JOIN pg_extension e ON e.oid = t.refobjid JOIN pg_depend d ON d.refclassid = t.refclassid AND d.refobjid = e.oid AND d.deptype = 'e',
			pg_identify_object(d.classid, d.objid, 0) i
		WHERE t.objid = to_regclass(state || '.snowflake_config') AND t.refclassid = 'pg_extension'::regclass AND t.deptype = 'e'
			AND NOT EXISTS (SELECT FROM pg_depend i WHERE (i.classid, i.objid) = (d.classid, d.objid) AND i.deptype = 'i')
	LOOP
		EXECUTE format('ALTER EXTENSION %s DROP %s %s', item.extension, item.type, item.identity);
		statement := format('DROP EXTENSION %s', item.extension);
	END LOOP;
	IF statement IS NOT NULL THEN
		EXECUTE statement;
	END IF;
	FOR statement IN
		SELECT format('CREATE OR REPLACE FUNCTION %s.%I(%s) RETURNS %s', home, p.proname, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid))
			|| CASE WHEN l.oid IS NULL THEN ' LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION USING ERRCODE = ''55000'', '
				'MESSAGE = ''the library has the node id and the shards'', HINT = ''Set snowflake.node_id and snowflake.shards.''; END$$'
			ELSE format(' LANGUAGE sql %s %s PARALLEL %s%s AS %L',
				CASE l.provolatile WHEN 'i' THEN 'IMMUTABLE' WHEN 's' THEN 'STABLE' ELSE 'VOLATILE' END,
				CASE WHEN l.proisstrict THEN 'STRICT' ELSE 'CALLED ON NULL INPUT' END,
				CASE l.proparallel WHEN 's' THEN 'SAFE' WHEN 'r' THEN 'RESTRICTED' ELSE 'UNSAFE' END,
				CASE WHEN l.proretset THEN format(' ROWS %s', l.prorows) END,
				format('SELECT %s%s.%I(%s)', CASE WHEN l.proretset OR l.prorettype = 'record'::regtype THEN '* FROM ' END, library, l.proname,
					(SELECT string_agg(format('$%s', n), ', ') FROM generate_series(1, l.pronargs) n))) END
		FROM pg_proc p LEFT JOIN (pg_proc l JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = l.oid AND d.deptype = 'e'
			AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'snowflake')) ON l.proname = p.proname AND l.proargtypes = p.proargtypes
		WHERE p.pronamespace = to_regnamespace(home) AND (l.oid IS NOT NULL OR p.proname ~ '^snowflake_set_(node|shards)$')
	LOOP
		RAISE NOTICE '%', statement;
		EXECUTE statement;
	END LOOP;
	PERFORM set_config('search_path', path, true);
END
$portable$;
