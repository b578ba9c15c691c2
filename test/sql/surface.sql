-- The names that CREATE EXTENSION brings into the user's schema.
\pset format unaligned
\pset tuples_only
CREATE TEMP TABLE member AS
SELECT d.classid, d.objid FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid
WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e' AND extname = 'snowflake';
CREATE TEMP VIEW function AS
SELECT p.* FROM pg_proc p JOIN member ON classid = 'pg_proc'::regclass AND objid = p.oid;
-- at most 50 names
SELECT count(DISTINCT proname) <= 50 AS few FROM function WHERE pg_function_is_visible(oid);
-- no table, no sequence, one type
SELECT relkind, relname FROM pg_class c JOIN member ON classid = 'pg_class'::regclass AND objid = c.oid
WHERE pg_table_is_visible(c.oid) ORDER BY relname COLLATE "C";
SELECT typname FROM pg_type JOIN member ON classid = 'pg_type'::regclass AND objid = oid WHERE typrelid = 0 AND typelem = 0;
SELECT DISTINCT classid::regclass::text FROM member ORDER BY 1;
-- no name of an argument or a column that needs quotes
SELECT p.oid::regprocedure, name FROM function p, unnest(proargnames) name WHERE name NOT IN ('', quote_ident(name));
SELECT c.relname, attname FROM pg_attribute JOIN pg_class c ON c.oid = attrelid
	JOIN member ON classid = 'pg_class'::regclass AND objid = attrelid
WHERE attnum > 0 AND attname <> quote_ident(attname);
-- each has a comment
SELECT classid::regclass, coalesce(p.oid::regprocedure::text, objid::text) FROM member LEFT JOIN pg_proc p ON p.oid = objid
WHERE classid <> 'pg_type'::regclass AND obj_description(objid, classid::regclass::name) IS NULL;

-- Every right on the objects in this schema: none stops IDs or moves the mark.
CREATE ROLE snowflake_owner_of_all;
GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO snowflake_owner_of_all;
GRANT ALL ON ALL TABLES IN SCHEMA public TO snowflake_owner_of_all;
GRANT ALL ON SCHEMA public TO snowflake_owner_of_all;
SELECT snowflake_nextval() AS before \gset
SET ROLE snowflake_owner_of_all;
SELECT c.oid::regclass FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
WHERE nspname IN ('public', 'snowflake_state') AND relname ~ 'snowflake'
	AND (relkind = 'S' AND has_sequence_privilege(c.oid, 'USAGE, UPDATE')
		OR relkind IN ('r', 'p') AND has_table_privilege(c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER'));
SELECT setval('snowflake_state.snowflake_mark', 1);
SELECT nextval('snowflake_state.snowflake_mark');
ALTER SEQUENCE snowflake_state.snowflake_mark MAXVALUE 1;
DROP SEQUENCE snowflake_state.snowflake_mark;
SELECT snowflake_advance(:before);
SELECT snowflake_nextval() > :before AS goes_on;
RESET ROLE;
-- rights in the extension's own schema do harm, and the status shows them
GRANT USAGE ON SCHEMA snowflake_state TO snowflake_owner_of_all;
GRANT ALL ON ALL SEQUENCES IN SCHEMA snowflake_state TO snowflake_owner_of_all;
SELECT status, found FROM snowflake_status() WHERE check_name = 'privileges';
SET ROLE snowflake_owner_of_all;
SELECT nextval('snowflake_state.snowflake_mark');
RESET ROLE;
REVOKE USAGE, UPDATE ON ALL SEQUENCES IN SCHEMA snowflake_state FROM snowflake_owner_of_all;
REVOKE USAGE ON SCHEMA snowflake_state FROM snowflake_owner_of_all;
SELECT status FROM snowflake_status() WHERE check_name = 'privileges';
DROP OWNED BY snowflake_owner_of_all;
DROP ROLE snowflake_owner_of_all;
