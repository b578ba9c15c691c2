-- Make the sequence of a durable number anew, as the install script made it, with the
-- name in place of number_name.  A sequence of that name which was only taken out of the extension
-- comes back.  Its owner and privileges are those of the install script, whatever default
-- privileges say.
-- name: make_number
DO $make$
DECLARE
	kind pg_catalog."char";
	grantee pg_catalog.text;
BEGIN
	SELECT c.relkind INTO kind
	FROM pg_catalog.pg_class c
		JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
	WHERE n.nspname OPERATOR(pg_catalog.=) 'snowflake_state'
		AND c.relname OPERATOR(pg_catalog.=) 'number_name';
	IF kind IS NULL THEN
		CREATE SEQUENCE snowflake_state.number_name
			MINVALUE 0 START 0 MAXVALUE 9223372036854775806
			INCREMENT -9223372036854775807;
	ELSIF kind OPERATOR(pg_catalog.=) 'S'::pg_catalog."char" THEN
		ALTER SEQUENCE snowflake_state.number_name OWNER TO CURRENT_USER;
		ALTER EXTENSION snowflake ADD SEQUENCE snowflake_state.number_name;
	ELSE
		RAISE EXCEPTION USING
			ERRCODE = 'wrong_object_type',
			MESSAGE = 'number_name is not a sequence',
			HINT = 'Run as a superuser, and call again: ALTER TABLE snowflake_state.number_name RENAME TO number_name_old;';
	END IF;
	FOR grantee IN
		SELECT DISTINCT CASE WHEN a.grantee OPERATOR(pg_catalog.=) 0::pg_catalog.oid THEN 'PUBLIC'
			ELSE a.grantee::pg_catalog.regrole::pg_catalog.text END
		FROM pg_catalog.pg_class c, LATERAL pg_catalog.aclexplode(c.relacl) a
		WHERE c.oid OPERATOR(pg_catalog.=) 'snowflake_state.number_name'::pg_catalog.regclass
			AND a.grantee OPERATOR(pg_catalog.<>) c.relowner
	LOOP
		EXECUTE pg_catalog.concat('REVOKE ALL ON SEQUENCE snowflake_state.number_name FROM ', grantee, ' CASCADE');
	END LOOP;
	GRANT SELECT ON SEQUENCE snowflake_state.number_name TO PUBLIC;
	PERFORM pg_catalog.pg_extension_config_dump('snowflake_state.number_name'::pg_catalog.regclass, '');
END
$make$;
