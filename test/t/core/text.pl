# IDs as texts, on servers with several encodings. The layout for browsers until its
# end: no ID is above 2^53 - 1, and the last ID is exactly that.
#
# takes: 15 s
use SnowflakeTest;
use Time::HiRes qw(time);

my $largest = (1 << 53) - 1;

# a server that does not preload the library
my $plain = PostgreSQL::Test::Cluster->new('plain');
$plain->init;
$plain->start;

# characters of several bytes: the message counts positions in characters, never cuts
# one, and can be converted to the client's encoding
foreach my $encoding ('UTF8', 'EUC_JP', 'SQL_ASCII')
{
	my $db = lc $encoding;

	query($plain, qq{CREATE DATABASE $db ENCODING '$encoding' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0});
	query($plain, 'CREATE EXTENSION snowflake', database => $db);
	is(query($plain, q{
		SELECT string_agg(snowflake_encode(id, f) || ' ' || (snowflake_parse(snowflake_encode(id, f), f) = id), ', ' ORDER BY f)
		FROM (VALUES (175928847299117063)) v(id), unnest('{base32,base58,base62}'::text[]) f}, database => $db),
		'04W86BB0G4007 true, QgmVVkniES true, Czks0tP37X true',
		"$encoding: there and back, with nothing preloaded");
	my $client = $encoding eq 'SQL_ASCII' ? '' : q{SET client_encoding = 'UTF8';};
	foreach my $format ('base32', 'base58', 'base62')
	{
		refused($plain, "$client SELECT snowflake_parse('A2日' || repeat('本', 10), '$format')",
			'22P02', qr/invalid ID in $format: "A2日本.*DETAIL:  Character 3 is not a digit/s,
			"$encoding, $format: the third character", database => $db);
	}
	refused($plain, "$client SELECT snowflake_parse('04W86BB0G4007日本', 'base32')",
		'22P02', qr/"04W86BB0G4007日本".*DETAIL:  Character 14 is one too many/s,
		"$encoding: one too many", database => $db);
	refused($plain, "$client SELECT snowflake_encode(1, '日本')",
		'22023', qr/there is no format "日本"/, "$encoding: no format", database => $db);

	# the message is cut where the text gets long, at every place within a character
	is(query($plain, qq{
		SET client_encoding = '$encoding';
		CREATE FUNCTION pg_temp.message(text) RETURNS text LANGUAGE plpgsql AS \$\$
		BEGIN
			RETURN 'taken: ' || snowflake_parse(\$1, 'base62');
		EXCEPTION WHEN invalid_text_representation THEN
			RETURN SQLERRM;
		END \$\$;
		SELECT count(*), min(octet_length(m)) >= 62, max(octet_length(m)) <= 64,
			bool_and(m LIKE 'invalid ID in base62: "' || repeat('A', n) || chr(97 + n) || '%"')
		FROM (SELECT n, pg_temp.message(repeat('A', n) || chr(97 + n) ||
				repeat(convert_from('\\x} . ($encoding eq 'EUC_JP' ? 'c6fc' : 'e697a5') . qq{', '$encoding'), 300000)) AS m
			FROM generate_series(0, 5) n) s}, database => $db),
		'6|t|t|t', "$encoding: long texts are shown in part") if $encoding ne 'SQL_ASCII';
}
$plain->stop;

# The layout ends with the last millisecond whose IDs have 53 bits. The test takes all
# IDs of the last tick on the last node, one by one, in ticks borrowed ahead of the
# clock. The last one must be the largest integer that JavaScript represents exactly.
my $end = (1704067200000 + (1 << 41)) / 1000;
my $node = new_server('browser', "snowflake.layout = 'javascript'",
	"snowflake.node_id = '127'", 'snowflake.max_clock_drift = 1s');
start_with_clock($node, $end - time() - 60);
query($node, 'CREATE EXTENSION snowflake');
query($node, 'CREATE TABLE made (n bigserial, id bigint PRIMARY KEY)');
query($node, 'INSERT INTO made (id) VALUES (snowflake_nextval())');
# 0.95 s before the end, which is less than the drift; the clock stands still there
set_clock($node, '2093-09-06 15:47:34.602');
query($node, qq{
	DO \$\$
	DECLARE
		ids bigint[];
	BEGIN
		ids := ARRAY[snowflake_nextval()];
		BEGIN
			FOR i IN 1 .. 100000 LOOP
				ids := ids || snowflake_nextval();
			END LOOP;
		EXCEPTION WHEN sequence_generator_limit_exceeded THEN
			NULL;
		END;
		INSERT INTO made (id) SELECT unnest(ids);
	END \$\$});
is(query($node, 'SELECT id FROM made ORDER BY n DESC LIMIT 1'), $largest,
	'the last ID of the layout for browsers is 2^53 - 1');
is( query($node, q{
	SELECT max(id), count(*) FILTER (WHERE id > 9007199254740991),
		count(*) FILTER (WHERE snowflake_sequence(id) = 31) > 100
	FROM made}), "$largest|0|t", 'and none is beyond');
refused($node, "SELECT $_", '2200H', qr/layout has reached its last timestamp/,
	"$_: refused from there on")
  foreach 'snowflake_nextval()', 'snowflake_nextval_batch(1)', 'snowflake_ready()';
$node->stop;

done_testing();
