-- Replace the portable functions of a database by the extension, in one
-- transaction; no table is written. The server must have the library preloaded,
-- with the same node id and layout. As a superuser, in psql or any client:
--
--	SET search_path = snowflake;	-- the schema that holds the functions
--	\i portable-to-extension.sql
--
-- What depends on a function (defaults, views, indexes, generated columns, and
-- SQL bodies) would go with it, so views and defaults are dropped and made again
-- as they were; whatever else depends on one is named, and nothing is changed.
-- PL/pgSQL bodies name functions by text, and find the new ones. None of the old
-- functions is called, since another role may own them.
DO $portable$
DECLARE
	path pg_catalog.text := pg_catalog.current_setting('search_path');
	home pg_catalog.text := pg_catalog.current_schema();
	config record;
	advance pg_catalog.text;
	wrong pg_catalog.text;		-- the rest is for what is kept
	dropped pg_catalog.text[] := '{}';
	views pg_catalog.int4 := 0;	-- made again before all else, the last one dropped first
	statement pg_catalog.text;
	item record;
BEGIN
	PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
	IF home IS NULL OR to_regclass(format('%I.snowflake_config', home)) IS NULL THEN
		RAISE EXCEPTION 'search_path does not begin with the schema of the portable functions'
			USING HINT = 'Run this, with that schema: SET search_path = public;';
	END IF;
	-- No ID is made from here to the end. This waits for the transactions that have
	-- made any; calls take the locks in this order, too.
	FOREACH statement IN ARRAY '{limit,position,shard_limit,shard_position,flush}'::text[] LOOP
		EXECUTE format('ALTER SEQUENCE %I.snowflake_%s OWNER TO %s', home, statement,
			(SELECT relowner::regrole FROM pg_class WHERE oid = format('%I.snowflake_%s', home, statement)::regclass));
	END LOOP;
	EXECUTE format('LOCK TABLE %I.snowflake_config IN ACCESS EXCLUSIVE MODE', home);
	SELECT string_agg(atttypid::regtype::text, ' ' ORDER BY attnum) INTO wrong FROM pg_class c JOIN pg_attribute a ON attrelid = c.oid
	WHERE c.oid = to_regclass(format('%I.snowflake_config', home)) AND relkind = 'r' AND attnum > 0;
	IF wrong IS DISTINCT FROM 'boolean integer text text text' THEN
		RAISE EXCEPTION 'snowflake_config is not that of the portable functions'
			USING HINT = E'See what replaced this table: \\d snowflake_config';
	END IF;
	EXECUTE format('SELECT * FROM %I.snowflake_config', home) INTO config;
	IF config.layout IS NULL AND config.shard_layout IS NULL THEN
		RAISE EXCEPTION 'neither a node id nor shards are set: there is nothing to carry over'
			USING HINT = 'Drop the functions, and CREATE EXTENSION snowflake.';
	ELSIF strpos(current_setting('shared_preload_libraries'), 'snowflake') = 0 THEN
		RAISE EXCEPTION USING ERRCODE = '55000', MESSAGE = 'the library is not preloaded',
			HINT = 'Add snowflake to shared_preload_libraries, and restart the server.';
	END IF;

	IF config.node::text IS DISTINCT FROM current_setting('snowflake.node_id', true) THEN
		RAISE WARNING 'snowflake.node_id is "%", and the portable functions had %', current_setting('snowflake.node_id', true), config.node
			USING HINT = 'No other server may have that node id.';
	END IF;

	CREATE TEMP TABLE snowflake_old ON COMMIT DROP AS
		SELECT 'pg_proc'::regclass AS classid, oid AS objid FROM pg_proc
		WHERE pronamespace = to_regnamespace(quote_ident(home)) AND proname ~
			'^snowflake_(portable_.*|decode|timestamp|node|shard|sequence|min_id|max_id|compose|layouts|encode|parse|nextval|nextval_batch|shard_nextval|shard_nextval_batch|set_node|set_shards|advance|status)$';
	-- keep: defaults and views, in pg_temp.snowflake_made
	CREATE TEMP TABLE snowflake_users ON COMMIT DROP AS
		WITH RECURSIVE users (classid, objid, depth) AS (
			SELECT d.classid, d.objid, 1 FROM pg_depend d, pg_temp.snowflake_old o
			WHERE d.refclassid = o.classid AND d.refobjid = o.objid AND d.deptype IN ('n', 'a')
				AND NOT EXISTS (SELECT FROM pg_temp.snowflake_old s WHERE s.classid = d.classid AND s.objid = d.objid)
			UNION
			-- views on views
			SELECT d.classid, d.objid, depth + 1
			FROM users u JOIN pg_rewrite r ON u.classid = 'pg_rewrite'::regclass AND r.oid = u.objid
				JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = r.ev_class
			WHERE d.deptype IN ('n', 'a') AND NOT (d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid) AND depth < 100
		)
		SELECT u.classid, u.objid, max(depth) AS depth, CASE WHEN u.classid = 'pg_rewrite'::regclass THEN ev_class END AS view
		FROM users u LEFT JOIN pg_rewrite r ON r.oid = u.objid GROUP BY 1, 2, 4;
	SELECT string_agg(pg_describe_object(u.classid, u.objid, 0), ', ') INTO wrong
	FROM pg_temp.snowflake_users u LEFT JOIN pg_attrdef f ON u.classid = 'pg_attrdef'::regclass AND f.oid = u.objid
		LEFT JOIN pg_attribute a ON a.attrelid = f.adrelid AND a.attnum = f.adnum
		LEFT JOIN pg_class c ON c.oid = u.view
	WHERE NOT coalesce(a.attgenerated = '', c.relkind = 'v'
		AND NOT EXISTS (SELECT FROM pg_attribute v WHERE v.attrelid = c.oid AND v.attacl IS NOT NULL), false);
	IF wrong IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '2BP01', MESSAGE = 'this script cannot keep all objects that depend on the functions',
			DETAIL = format('It keeps defaults, and views without triggers and column privileges. These are neither: %s.', wrong),
			HINT = 'Drop them, run this script, and make them again, in one transaction.';
	END IF;

	CREATE TEMP TABLE snowflake_made (n serial, statement text) ON COMMIT DROP;
	-- defaults, then views from the outermost one, to be made again from the innermost
	FOR item IN
		SELECT f.adrelid::regclass AS tab, a.attname, pg_get_expr(f.adbin, f.adrelid) AS expr
		FROM pg_temp.snowflake_users u JOIN pg_attrdef f ON u.classid = 'pg_attrdef'::regclass AND f.oid = u.objid
			JOIN pg_attribute a ON a.attrelid = f.adrelid AND a.attnum = f.adnum
	LOOP
		dropped := dropped || format('ALTER TABLE ONLY %s ALTER %I DROP DEFAULT', item.tab, item.attname);
		INSERT INTO pg_temp.snowflake_made (statement) VALUES (format('ALTER TABLE ONLY %s ALTER %I SET DEFAULT %s', item.tab, item.attname, item.expr));
	END LOOP;
	FOR item IN
		SELECT c.oid::regclass AS name, c.relowner::regrole AS owner, c.reloptions, c.relacl, pg_get_viewdef(c.oid) AS query,
			obj_description(c.oid, 'pg_class') AS comment
		FROM (SELECT view, max(depth) AS depth FROM pg_temp.snowflake_users WHERE view IS NOT NULL GROUP BY 1) u JOIN pg_class c ON c.oid = u.view
		ORDER BY depth DESC
	LOOP
		views := views - 1;
		dropped := dropped || format('DROP VIEW %s', item.name);
		statement := format('CREATE VIEW %s %s AS %s ALTER VIEW %1$s OWNER TO %4$s', item.name,
			(SELECT format('WITH (%s)', string_agg(o, ', ')) FROM unnest(item.reloptions) o HAVING count(*) > 0),
			item.query, item.owner);
		statement := statement || coalesce((SELECT string_agg(format('; GRANT %s ON %s TO %s', privilege_type, item.name,
			CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END) || CASE WHEN is_grantable THEN ' WITH GRANT OPTION' ELSE '' END, '')
			FROM aclexplode(item.relacl)), '');
		IF item.comment IS NOT NULL THEN
			statement := statement || format('; COMMENT ON VIEW %s IS %L', item.name, item.comment);
		END IF;
		INSERT INTO pg_temp.snowflake_made VALUES (views, statement);
	END LOOP;
	FOREACH statement IN ARRAY dropped LOOP
		RAISE NOTICE '%', statement;
		EXECUTE statement;
	END LOOP;
	-- keep: end

	-- the last ID of the tick of each last position: the later one, since one mark is for all
	SELECT format('SELECT %1$I.snowflake_advance(id, force => true, layout => layout) FROM (
			SELECT * FROM (VALUES %2$s) v (id, layout) ORDER BY %1$I.snowflake_timestamp(id, layout) DESC LIMIT 1) last',
		home, string_agg(format('(%s::bigint, %L::text)',
			(((p >> substring(layout FROM 'sequence:([0-9]+)')::integer) + 1) << (SELECT sum(bits[1]::integer)::integer
				FROM regexp_matches(layout, '(?:datacenter|worker|process|node|shard|sequence):([0-9]+)', 'g') bits)) - 1, layout), ', ')) INTO advance
	FROM (VALUES (pg_sequence_last_value(format('%I.snowflake_position', home)::regclass), config.layout),
		(pg_sequence_last_value(format('%I.snowflake_shard_position', home)::regclass), config.shard_layout)) v (p, layout)
	WHERE p IS NOT NULL HAVING count(*) > 0;
	-- as an extension of pg_tle, or one by one
	SELECT coalesce('DROP EXTENSION ' || max(quote_ident(extname)), concat('DROP FUNCTION ', string_agg(objid::regprocedure::text, ', '),
		format('; DROP TABLE %1$I.snowflake_config; DROP SEQUENCE %1$I.snowflake_position, %1$I.snowflake_limit,
			%1$I.snowflake_shard_position, %1$I.snowflake_shard_limit, %1$I.snowflake_flush;
		DROP TYPE %1$I.snowflake_portable_fields', home))) INTO statement
	FROM pg_temp.snowflake_old LEFT JOIN (pg_depend d JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND e.oid = d.refobjid AND d.deptype = 'e')
		USING (classid, objid);
	EXECUTE statement;
	EXECUTE format('CREATE EXTENSION snowflake SCHEMA %I', home);

	-- the layouts must be the same, spelled out by the library
	FOR item IN EXECUTE format('SELECT name, layout FROM %I.snowflake_layouts() WHERE configured', home) LOOP
		IF item.layout <> (CASE item.name WHEN 'node' THEN config.layout ELSE config.shard_layout END) THEN
			RAISE EXCEPTION USING ERRCODE = '55000', MESSAGE = format('the layout of the %s''s IDs is another one', item.name),
				DETAIL = format('The server has "%s", and the portable functions "%s".', item.layout,
					CASE item.name WHEN 'node' THEN config.layout ELSE config.shard_layout END),
				HINT = format('ALTER SYSTEM SET snowflake.%slayout = ''%s''; and restart the server.',
					CASE item.name WHEN 'node' THEN '' ELSE 'shard_' END,
					CASE item.name WHEN 'node' THEN config.layout ELSE config.shard_layout END);
		END IF;
	END LOOP;
	IF advance IS NOT NULL THEN
		EXECUTE advance;
	END IF;
	FOR statement IN SELECT m.statement FROM pg_temp.snowflake_made m ORDER BY n LOOP
		RAISE NOTICE '%', statement;
		EXECUTE statement;
	END LOOP;
	PERFORM set_config('search_path', path, true);
END
$portable$;
