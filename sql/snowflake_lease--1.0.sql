-- The install script of snowflake_lease 1.0.

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION snowflake_lease" to load this file. \quit

--
-- What this server has leased.  The function is one of the core: it works without a
-- registry, too.
--
CREATE FUNCTION snowflake_lease(
	OUT state text, OUT node_id bigint,
	OUT until timestamptz, OUT next_renewal timestamptz,
	OUT problem text, OUT remedy text, OUT registry text, OUT pid integer)
AS '$libdir/snowflake', 'snowflake_lease' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION snowflake_lease() IS
'which node id this server has, and until when';

--
-- The registry, of whatever kind
--
CREATE FUNCTION snowflake_registry_init(layout text DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION snowflake_registry_init(text) IS
'make a registry for servers with this layout, if none has been lost; false if there is one';

CREATE FUNCTION snowflake_registry_recover(
	largest_reserve interval DEFAULT '90 s',
	largest_offset interval DEFAULT '5 s')
RETURNS timestamptz
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION snowflake_registry_recover(interval, interval) IS
'after a loss of data: let no server claim a node id before the time that any server may have reserved';

CREATE FUNCTION snowflake_registry_slots(
	OUT slot bigint, OUT host text, OUT address inet, OUT process integer,
	OUT holder text, OUT since timestamptz, OUT until timestamptz,
	OUT present boolean, OUT released boolean, OUT clock_offset interval)
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION snowflake_registry_slots() IS
'which server holds which node id of the registry';

CREATE FUNCTION snowflake_registry_release(slot bigint) RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION snowflake_registry_release(bigint) IS
'free the node id of a server that is gone; false if no server held it';

REVOKE ALL ON FUNCTION snowflake_registry_init(text),
	snowflake_registry_recover(interval, interval),
	snowflake_registry_slots(),
	snowflake_registry_release(bigint)
FROM PUBLIC;

--
-- ALTER DEFAULT PRIVILEGES of whoever creates the extension means functions of the
-- application.
--
DO $$
DECLARE
	given pg_catalog.text;
BEGIN
	FOR given IN
		SELECT pg_catalog.format('FUNCTION %s FROM %s', p.oid::pg_catalog.regprocedure,
			grantee::pg_catalog.regrole)
		FROM pg_catalog.pg_depend d, pg_catalog.pg_extension e, pg_catalog.pg_proc p,
			LATERAL pg_catalog.aclexplode(proacl)
		WHERE d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass
			AND d.refobjid OPERATOR(pg_catalog.=) e.oid
			AND e.extname OPERATOR(pg_catalog.=) 'snowflake_lease'
			AND d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass
			AND p.oid OPERATOR(pg_catalog.=) d.objid
			AND proname OPERATOR(pg_catalog.<>) 'snowflake_lease'
			AND grantee OPERATOR(pg_catalog.<>) proowner
			AND grantee OPERATOR(pg_catalog.<>) 0::pg_catalog.oid
	LOOP
		EXECUTE pg_catalog.concat('REVOKE ALL ON ', given);
	END LOOP;
END
$$;
GRANT EXECUTE ON FUNCTION snowflake_lease() TO PUBLIC;
