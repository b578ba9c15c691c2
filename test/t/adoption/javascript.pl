# IDs in a browser, as doc/applications.md describes them, with Node.js and its driver
# for PostgreSQL (test/helpers/browser.js). The test uses the layout for browsers, and
# also the default layout, to show where JavaScript's numbers fail. Then headless Chromium
# tries examples/decode/index.html (test/helpers/decode_page.js).
#
# takes: 10 s
# needs: nodejs pg_driver
# part page: chromium
use SnowflakeTest;
use JSON::PP;

my $node = new_server('node');

foreach my $layout ('javascript', 'snowflake')
{
	$node->append_conf('postgresql.conf', "snowflake.layout = '$layout'");
	$node->start;
	query($node, "CREATE DATABASE $layout");
	query($node, 'CREATE EXTENSION snowflake; CREATE TABLE ids (id bigint PRIMARY KEY);
		INSERT INTO ids SELECT snowflake_nextval_batch(1000)', database => $layout);

	local $ENV{PGHOST} = $node->host;
	local $ENV{PGPORT} = $node->port;
	local $ENV{PGDATABASE} = $layout;
	local $ENV{PGUSER} = query($node, 'SELECT current_user');
	my ($out, $err) = ('', '');
	my $ended = IPC::Run::run(
		[ 'node', "$root/test/helpers/browser.js", $layout ],
		'>', \$out, '2>', \$err);

	take_over($layout, $ended, $out, $err);
	$node->stop;
}

# Report the checks that a script has printed.
sub take_over
{
	my ($name, $ended, $out, $err) = @_;

	foreach my $line (split /\n/, $out)
	{
		ok($1 eq 'ok', $2) if $line =~ /^(ok|not ok) - (.*)/;
		diag($1) if $line =~ /^# (.*)/;
	}
	ok($ended && $out =~ /^done$/m, "$name: the script came to its end")
	  or diag($err);
	diag($err) if $out =~ /^not ok/m;
	return;
}

# ---- the page that shows the fields of an ID ----

# Return what the script on the page compares with: the vectors, and what the extension
# says of their IDs, and of the texts that the fuzzer of layouts begins with.
sub given
{
	my %given = %{ decode_json(slurp_file("$root/examples/vectors.json")) };
	my @texts = grep { utf8::decode($_) && /^[^\0\n]*$/ && !/^(node|shard|\s*)$/ }
	  map { slurp_file($_) } glob "'$root'/test/fuzz/corpus/layout/*";
	my $ids = join ',', map { "'$_->{id}'" } @{ $given{vectors} };

	query($node, q{
		CREATE FUNCTION first_id(text, timestamptz) RETURNS text LANGUAGE plpgsql AS $$
		BEGIN
			RETURN snowflake_min_id($2, $1);
		EXCEPTION
			WHEN invalid_parameter_value THEN RETURN 'refused';
			WHEN datetime_field_overflow THEN RETURN 'none';
		END $$}, database => 'snowflake');
	$given{time} = '2026-01-01 12:34:56.789';
	$given{plausible} = decode_json(query($node, "SELECT json_object_agg(id, names)
		FROM unnest(ARRAY[$ids]::bigint[]) id, LATERAL (
			SELECT coalesce(string_agg(name, ' ' ORDER BY name COLLATE \"C\"), '') AS names
			FROM snowflake_inspect(id), replace(layout,
				'timestamp:41 node:10 sequence:12 epoch:1970-01-01', 'from 1970') name
			WHERE plausible AND NOT configured) i", database => 'snowflake'));
	$given{encoded} = decode_json(query($node, "SELECT json_agg(json_build_array(f, snowflake_encode(id, f), id::text))
		FROM unnest(ARRAY[$ids]::bigint[]) id, unnest('{base32,base58,base62}'::text[]) f", database => 'snowflake'));
	$given{texts} = decode_json(query($node, 'SELECT json_agg(json_build_array(t, first_id(t, '
			  . "'$given{time}+00'))) FROM unnest(ARRAY[" . join(',', map { quote($_) } @texts)
			  . ']) t', database => 'snowflake'));
	return \%given;
}

sub quote
{
	my ($text) = @_;

	utf8::encode($text);
	return 'E' . q{'} . $text =~ s/(['\\])/\\$1/gr . q{'};
}

if (part('page'))
{
	my $dir = PostgreSQL::Test::Utils::tempdir;
	my $page = slurp_file("$root/examples/decode/index.html");
	my $script = slurp_file("$root/test/helpers/decode_page.js");

	$node->start;
	my $given = JSON::PP->new->ascii->encode(given()) =~ s{</}{<\\/}gr;
	$node->stop;
	$page =~ s{(?=</body>)}{<script>const given = $given;\n$script</script>} or die 'the page has no end';
	append_to_file("$dir/index.html", $page);
	# on a desk, and on a phone: Chromium has no narrower window than 500 pixels, but frames
	foreach my $width (1200, 360)
	{
		append_to_file("$dir/frame$width.html", qq(<iframe width="$width" height="800" src="index.html#id=5&amp;layout=discord"></iframe>
			<script>onload = () => document.body.replaceChildren(frames[0].document.querySelector('pre'));</script>));
		my $url = "file://$dir/frame$width.html" =~ s{([^\w:/.-])}{sprintf '%%%02X', ord $1}ger;
		my ($out, $err) = ('', '');
		my $ended = IPC::Run::run(
			[
				qw(chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --dump-dom --allow-file-access-from-files),
				"--user-data-dir=$dir/profile$width", $url
			],
			'>', \$out, '2>', \$err,
			IPC::Run::timeout(5 * $PostgreSQL::Test::Utils::timeout_default));
		take_over("page, $width", $ended, $out, $err);
		like($out, qr/, $width pixels wide$/m, '... in a window of that width');
	}
}

done_testing();
