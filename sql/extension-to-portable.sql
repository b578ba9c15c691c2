-- Replace the extension of a database by the portable functions, in one
-- transaction; no table is written. As a superuser, in psql, beside portable.sql:
--
--	\i extension-to-portable.sql
--
-- They go into the schema of the extension, and belong to its owner, who could replace
-- them anyway. The IDs go on above the mark, with the node id and layouts of this
-- server's settings. Defaults and views are kept as in
-- portable-to-extension.sql; so is what is refused. What the extension has beyond
-- the portable functions is gone: doc/portable.md lists that.
\set ON_ERROR_STOP on
BEGIN;
DO $portable$
DECLARE
	home pg_catalog.text;
	wrong pg_catalog.text;
	dropped pg_catalog.text[] := '{}';
	views pg_catalog.int4 := 0;
	statement pg_catalog.text;
	item record;
	node pg_catalog.text := pg_catalog.current_setting('snowflake.node_id', true);
	shards pg_catalog.text := pg_catalog.current_setting('snowflake.shards', true);
BEGIN
	PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
	SELECT nspname INTO home FROM pg_extension e JOIN pg_namespace n ON n.oid = extnamespace WHERE extname = 'snowflake';
	IF home IS NULL THEN
		RAISE EXCEPTION 'this database does not have the extension'
			USING HINT = 'Connect to the database that has it.';
	ELSIF node !~ '^[0-9]+$' IS NOT FALSE AND coalesce(shards, '') = '' THEN
		RAISE EXCEPTION USING ERRCODE = '55000', MESSAGE = format('snowflake.node_id is "%s", which is not a number', node),
			HINT = 'ALTER SYSTEM SET snowflake.node_id to the number, and restart the server.';
	END IF;
	EXECUTE format('SELECT found, remedy FROM %I.snowflake_status() WHERE check_name = %L AND status = %L',
		home, 'recorded configuration', 'error') INTO wrong, statement;
	IF wrong IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '55000', MESSAGE = wrong, HINT = statement;
	END IF;
	-- from here on no session can extend the mark, and no ID lies above it
	SELECT format('ALTER SEQUENCE snowflake_state.snowflake_mark OWNER TO %s', relowner::regrole) INTO statement
	FROM pg_class WHERE oid = 'snowflake_state.snowflake_mark'::regclass;
	EXECUTE statement;
	CREATE TEMP TABLE snowflake_swap ON COMMIT DROP AS
		SELECT home, node, shards, (SELECT last_value FROM snowflake_state.snowflake_mark) AS mark,
			current_setting('snowflake.layout') AS layout, current_setting('snowflake.shard_layout') AS shard_layout;
	CREATE TEMP TABLE snowflake_old ON COMMIT DROP AS
		SELECT d.classid, d.objid FROM pg_depend d
		WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
			AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'snowflake');
	INSERT INTO pg_temp.snowflake_old
		SELECT 'pg_rewrite'::regclass, r.oid FROM pg_rewrite r JOIN pg_temp.snowflake_old o
			ON o.classid = 'pg_class'::regclass AND o.objid = r.ev_class;
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
	DROP EXTENSION snowflake;
	PERFORM set_config('search_path', quote_ident(home), true);
END
$portable$;
\ir portable.sql
DO $portable$
DECLARE
	swap record;
	statement pg_catalog.text;
BEGIN
	PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
	SELECT * INTO swap FROM pg_temp.snowflake_swap;
	IF swap.node ~ '^[0-9]+$' THEN
		EXECUTE format('SELECT %I.snowflake_set_node(%s, %L::text)', swap.home, swap.node, swap.layout);
		EXECUTE format('SELECT %1$I.snowflake_portable_raise(%2$L::regclass, %3$L::regclass, %1$I.snowflake_portable_node_layout(), %4$s::bigint)',
			swap.home, format('%I.snowflake_position', swap.home), format('%I.snowflake_limit', swap.home), swap.mark);
	END IF;
	IF swap.shards <> '' THEN
		EXECUTE format('SELECT %I.snowflake_set_shards(%L::text, %L::text)', swap.home, swap.shards, swap.shard_layout);
		EXECUTE format('SELECT %1$I.snowflake_portable_raise(%2$L::regclass, %3$L::regclass, %1$I.snowflake_portable_shard_layout(), %4$s::bigint)',
			swap.home, format('%I.snowflake_shard_position', swap.home), format('%I.snowflake_shard_limit', swap.home), swap.mark);
	END IF;
	FOR statement IN
		SELECT format('ALTER %s OWNER TO %s', o.name, nspowner::regrole) FROM pg_namespace n, LATERAL (
			SELECT format('FUNCTION %s', p.oid::regprocedure) FROM pg_proc p
			WHERE pronamespace = n.oid AND proowner = current_user::regrole AND proname ~
				'^snowflake_(portable_.*|decode|timestamp|node|shard|sequence|min_id|max_id|compose|layouts|encode|parse|nextval|nextval_batch|shard_nextval|shard_nextval_batch|set_node|set_shards|advance|status)$'
			UNION ALL
			SELECT format('%s %s', CASE relkind WHEN 'r' THEN 'TABLE' WHEN 'S' THEN 'SEQUENCE' ELSE 'TYPE' END, c.oid::regclass) FROM pg_class c
			WHERE relnamespace = n.oid AND relowner = current_user::regrole AND relkind IN ('r', 'S', 'c') AND
				relname ~ '^snowflake_(config|flush|(shard_)?(position|limit)|portable_fields)$') o (name)
		WHERE nspname = swap.home AND nspowner <> current_user::regrole
	LOOP
		EXECUTE statement;
	END LOOP;
	FOR statement IN SELECT m.statement FROM pg_temp.snowflake_made m ORDER BY n LOOP
		RAISE NOTICE '%', statement;
		EXECUTE statement;
	END LOOP;
END
$portable$;
COMMIT;
