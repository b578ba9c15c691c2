-- Operator classes of the type snowflake for GiST and GIN.
--
-- Run this as a superuser, in each database that has the type, after CREATE EXTENSION
-- btree_gist or btree_gin. Then new indexes on a column of the type serve conditions with
-- the type and with bigint, and an exclusion constraint may compare the column:
--
--	CREATE TABLE bookings (id snowflake, during tstzrange,
--		EXCLUDE USING gist (id WITH =, during WITH &&));
--
-- As with bigint, write WHERE id = 5::bigint: these indexes do not serve an integer.
--
-- Each class calls the functions of the class that the extension made for bigint. A class
-- is your own object, not one of the extension, so pg_dump and pg_upgrade keep it. (They
-- lose what you add to an operator family of an extension.) Running the script again
-- changes nothing. To remove the classes, first drop their indexes, then:
--
--	DROP OPERATOR FAMILY public.snowflake_ops USING gist;
--
-- PRIMARY KEY (id, during WITHOUT OVERLAPS) of PostgreSQL 18 also needs a function that
-- earlier majors do not have. If the class comes from one of these, then first:
--
--	ALTER EXTENSION btree_gist UPDATE;
--	ALTER OPERATOR FAMILY public.snowflake_ops USING gist
--		ADD FUNCTION 12 ("any", "any") public.gist_translate_cmptype_btree(integer);

BEGIN;
SET LOCAL search_path = pg_catalog, pg_temp;

DO $$
DECLARE
	statement text;
BEGIN
	FOR statement IN
		-- only a superuser can make a cast without a function, and an operator class
		WITH key AS (
			SELECT t.oid, e.extnamespace
			FROM pg_extension e JOIN pg_type t ON t.typnamespace = e.extnamespace
				JOIN pg_cast c ON c.castsource = t.oid AND c.castmethod = 'b' AND c.casttarget = 'int8'::regtype
			WHERE e.extname = 'snowflake' AND t.typname = 'snowflake'
		)
		SELECT format('CREATE OPERATOR CLASS %s.snowflake_ops DEFAULT FOR TYPE %s USING %I AS %s, %s, STORAGE %s',
			key.extnamespace::regnamespace, key.oid::regtype, a.amname, operators, functions,
			coalesce(nullif(c.opckeytype, 0), 'int8'::regtype)::regtype)
		FROM key, pg_opclass c JOIN pg_am a ON a.oid = c.opcmethod,
			-- each operator of bigint, and the same one of the type
			LATERAL (
				SELECT string_agg(DISTINCT format('OPERATOR %s %s.%s (%s, %s)%s', m.amopstrategy, o.oprnamespace::regnamespace,
					o.oprname, o.oprleft::regtype, o.oprright::regtype,
					(SELECT format(' FOR ORDER BY %s.%I', f.opfnamespace::regnamespace, f.opfname)
						FROM pg_opfamily f WHERE f.oid = m.amopsortfamily)), ', ') AS operators
				FROM pg_amop m JOIN pg_operator p ON p.oid = m.amopopr
					JOIN pg_operator o ON o.oprname = p.oprname AND o.oprnamespace = p.oprnamespace
						AND (o.oid = p.oid OR o.oprleft = key.oid
							AND (o.oprright = p.oprright OR o.oprright = key.oid AND p.oprright = 'int8'::regtype))
				WHERE m.amopfamily = c.opcfamily AND m.amoplefttype = 'int8'::regtype
			) o,
			LATERAL (
				SELECT string_agg(format('FUNCTION %s (%s) %s', p.amprocnum, types, p.amproc::regprocedure), ', ') AS functions
				FROM pg_amproc p, LATERAL (
					SELECT format('%s, %s', p.amproclefttype::regtype, p.amprocrighttype::regtype)
					UNION ALL
					SELECT format('%s, %1$s', key.oid::regtype)
					WHERE p.amproclefttype = 'int8'::regtype AND p.amprocrighttype = 'int8'::regtype) l (types)
				WHERE p.amprocfamily = c.opcfamily
			) f
		WHERE c.opcintype = 'int8'::regtype AND c.opcdefault AND a.amname IN ('gist', 'gin')
			AND NOT EXISTS (SELECT FROM pg_opclass WHERE opcmethod = a.oid AND opcintype = key.oid AND opcdefault)
	LOOP
		EXECUTE statement;
	END LOOP;
END
$$;

COMMIT;
