-- IDs as texts: there and back, the order, and what is refused.
\pset format unaligned
\pset tuples_only
\set SHOW_CONTEXT never

-- 0, 2^53 - 1, the ID in Discord's documentation, the largest bigint
SELECT id, snowflake_encode(id, 'base32') AS base32,
	snowflake_encode(id, 'base58') AS base58,
	snowflake_encode(id, 'base62') AS base62
FROM (VALUES (0), (9007199254740991), (175928847299117063), (9223372036854775807)) v(id);

-- exactly inverse: IDs of any magnitude, powers of the bases, and their
-- neighbours
CREATE TEMP TABLE ids AS
SELECT DISTINCT id::bigint AS id
FROM (SELECT (power(b::numeric, e)::numeric + d) AS id
		FROM (VALUES (2), (10), (32), (58), (62)) v(b), generate_series(0, 63) e,
			generate_series(-2, 2) d
		UNION ALL
		SELECT hashint8extended(i, 0) >> (i % 64)::integer FROM generate_series(1::bigint, 20000) i
		UNION ALL
		SELECT 9223372036854775807 - i FROM generate_series(0, 1000) i) s
WHERE id BETWEEN 0 AND 9223372036854775807;
SELECT format, count(*) > 10000 AS many, count(DISTINCT t) = count(*) AS distinct_texts,
	bool_and(snowflake_parse(t, format) = id) AS back,
	max(length(t)) AS longest, min(length(t)) AS shortest
FROM (SELECT f.format, id, snowflake_encode(id, f.format) AS t
	FROM ids, (VALUES ('base32'), ('base58'), ('base62')) f(format)) s
GROUP BY format ORDER BY format;

-- base32 sorts like the number, whatever its size
SELECT count(*) > 10000 AS many, bool_and(by_text = by_number) AS sorted FROM (
	SELECT row_number() OVER (ORDER BY snowflake_encode(id, 'base32') COLLATE "C") AS by_text,
		row_number() OVER (ORDER BY id) AS by_number FROM ids) s;

-- base32 is read in either case, I and L as 1, O as 0
SELECT t, snowflake_parse(t, 'base32'), snowflake_encode(snowflake_parse(t, 'base32'), 'base32')
FROM (VALUES ('04W8ZRTE42107'), ('04w8zrte42107'), ('O4w8zRTe42Io7'), ('o4w8zrte42LO7'),
	('o4w8zrte42lo7')) v(t);

-- there is no negative ID, and no other format
SELECT snowflake_encode(-1, 'base32');
SELECT snowflake_encode(-9223372036854775808, 'base62');
SELECT snowflake_encode(1, 'BASE32');
SELECT snowflake_parse('1', '');
SELECT snowflake_parse('1', repeat('x', 1000));
SELECT snowflake_encode(NULL, 'base32'), snowflake_encode(1, NULL),
	snowflake_parse(NULL, 'base32'), snowflake_parse('1', NULL);

-- a bad character
SELECT snowflake_parse('04W8ZRTE4210U', 'base32');
SELECT snowflake_parse('04W8-ZRTE-42107', 'base32');
SELECT snowflake_parse('NQm6nKp8l', 'base58');
SELECT snowflake_parse('12 ', 'base62');
SELECT snowflake_parse('-1', 'base62');
-- a number beyond bigint
SELECT snowflake_parse('8000000000000', 'base32');
SELECT snowflake_parse('NQm6nKp8qFD', 'base58');
SELECT snowflake_parse('AzL8n0Y58m8', 'base62');
SELECT snowflake_parse(repeat('z', 1000), 'base62');
-- a wrong length
SELECT snowflake_parse('04W8ZRTE4210', 'base32');
SELECT snowflake_parse('04W8ZRTE421070', 'base32');
SELECT snowflake_parse('0AzL8n0Y58m7', 'base62');
SELECT snowflake_parse('11', 'base58');
-- an empty text
SELECT snowflake_parse('', 'base32');
SELECT snowflake_parse('', 'base58');
SELECT snowflake_parse('', 'base62');

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
