-- Privileges.
\pset format unaligned
\pset tuples_only
CREATE ROLE snowflake_user;
SET ROLE snowflake_user;
-- every role may make and read IDs
SELECT snowflake_nextval() > 0 AS made;
SELECT count(*) FROM snowflake_nextval_batch(2);
SELECT snowflake_ready();
SELECT created_at IS NOT NULL AS read FROM snowflake_decode(snowflake_currval());
-- but neither read nor write the durable numbers, nor name them
SELECT last_value FROM snowflake_state.snowflake_mark;
PREPARE p AS DELETE FROM snowflake_state.snowflake_recorded_layout;
SELECT setval('snowflake_state.snowflake_mark', 1);
SELECT nextval('snowflake_state.snowflake_mark');
ALTER SEQUENCE snowflake_state.snowflake_mark RESTART;
DROP SEQUENCE snowflake_state.snowflake_mark;
-- nor call the administrator's functions
SELECT snowflake_advance(1);
SELECT snowflake_accept('clock');
SELECT snowflake_accept('configuration');
SET snowflake.node_id = '1';
SET snowflake.max_clock_drift = 1000;
SET snowflake.layout = 'twitter';
RESET ROLE;
-- no default arguments there, with which an overload would be called
SELECT p.oid::regprocedure FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid
	JOIN pg_proc p ON p.oid = d.objid
WHERE d.classid = 'pg_proc'::regclass AND d.refclassid = 'pg_extension'::regclass
	AND e.extname = 'snowflake' AND p.pronargdefaults > 0
	AND NOT has_function_privilege('public', p.oid, 'EXECUTE');
-- nor can an administrator change for one session what all sessions share
SET snowflake.node_id = '1';
-- a user without EXECUTE
REVOKE EXECUTE ON FUNCTION snowflake_nextval() FROM PUBLIC;
SET ROLE snowflake_user;
SELECT snowflake_nextval();
RESET ROLE;
GRANT EXECUTE ON FUNCTION snowflake_nextval() TO PUBLIC;
-- an administrator's function can be granted
GRANT EXECUTE ON FUNCTION snowflake_accept(text) TO snowflake_user;
SET ROLE snowflake_user;
SELECT snowflake_accept('clock');
RESET ROLE;
REVOKE EXECUTE ON FUNCTION snowflake_accept(text) FROM snowflake_user;
DROP ROLE snowflake_user;
-- with an empty search_path, and one that a user controls
CREATE SCHEMA hostile;
CREATE SEQUENCE hostile.snowflake_mark;
CREATE TEMP SEQUENCE snowflake_mark;
SET search_path = hostile, pg_temp;
SELECT public.snowflake_nextval() > 0 AS made;
SELECT is_called FROM hostile.snowflake_mark;
SET search_path = '';
SELECT public.snowflake_nextval() > 0 AS made;
RESET search_path;
DROP SCHEMA hostile CASCADE;
DROP SEQUENCE pg_temp.snowflake_mark;
