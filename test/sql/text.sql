-- IDs as texts: there and back, and what is refused.
\pset format unaligned
\pset tuples_only
\set SHOW_CONTEXT never

-- 0, 2^53 - 1, the ID in Discord's documentation, the largest bigint
SELECT id, snowflake_encode(id, 'base32') AS base32,
	snowflake_encode(id, 'base58') AS base58,
	snowflake_encode(id, 'base62') AS base62
FROM (VALUES (0), (9007199254740991), (175928847299117063), (9223372036854775807)) v(id);

-- there and back
SELECT bool_and(snowflake_parse(snowflake_encode(id, format), format) = id)
FROM (VALUES (0), (9223372036854775807)) v(id), (VALUES ('base32'), ('base58'), ('base62')) f(format);

-- there is no negative ID, and no other format
SELECT snowflake_encode(-1, 'base32');
SELECT snowflake_encode(1, 'BASE32');
SELECT snowflake_parse('1', '');
SELECT snowflake_parse('1', repeat('x', 1000));
SELECT snowflake_encode(NULL, 'base32'), snowflake_encode(1, NULL),
	snowflake_parse(NULL, 'base32'), snowflake_parse('1', NULL);

-- a bad character
SELECT snowflake_parse('04W8ZRTE4210U', 'base32');
SELECT snowflake_parse('NQm6nKp8l', 'base58');
SELECT snowflake_parse('12 ', 'base62');
-- a number beyond bigint
SELECT snowflake_parse('8000000000000', 'base32');
SELECT snowflake_parse('NQm6nKp8qFD', 'base58');
SELECT snowflake_parse(repeat('z', 1000), 'base62');

-- SQLSTATEs
DO $$
DECLARE
	c text;
BEGIN
	FOREACH c IN ARRAY ARRAY['encode(-1, ''base32'')', 'encode(1, ''base64'')',
		'parse(''1'', ''base64'')', 'parse(''U'', ''base32'')', 'parse('''', ''base58'')',
		'parse(''01'', ''base62'')', 'parse(''0'', ''base32'')', 'parse(''8000000000000'', ''base32'')',
		'parse(''zzzzzzzzzzz'', ''base58'')']
	LOOP
		BEGIN
			EXECUTE 'SELECT snowflake_' || c;
			RAISE 'not refused: %', c;
		EXCEPTION WHEN data_exception THEN
			RAISE NOTICE '% for %', SQLSTATE, c;
		END;
	END LOOP;
END $$;

-- immutable: an index and a generated column may use them
CREATE TABLE links (id bigint PRIMARY KEY,
	slug text COLLATE "C" GENERATED ALWAYS AS (snowflake_encode(id, 'base58')) STORED UNIQUE);
INSERT INTO links VALUES (175928847299117063) RETURNING *;
SELECT id FROM links WHERE slug = 'QgmVVkniES';
SELECT id FROM links WHERE id = snowflake_parse('QgmVVkniES', 'base58');
DROP TABLE links;

-- no ID of the layout for browsers is above 2^53 - 1
SELECT snowflake_max_id(lasts_until - interval '1 ms', name), bits, lasts_until AT TIME ZONE 'UTC' AS ends
FROM snowflake_layouts() WHERE name = 'javascript' AND NOT configured;
