# Django's loaddata and Rails' fixtures, in a table whose serial key was converted, as
# doc/migration.md says. They look for the sequence of a key that has none.
#
# takes: 8 s
# part django: python3-django python3-psycopg2
# part rails: ruby ruby-activerecord ruby-pg
use SnowflakeTest;

my ($generate) = slurp_file("$root/doc/migration.md")
  =~ /^### Fixtures\n.*?^ *```sql\n(.*?)^ *```\n/ms
  or die 'the page has no statement';
my $node = new_server('main');
my $dir = PostgreSQL::Test::Utils::tempdir();

$node->start;

# Return the lines that a program prints, which finds its server by these variables.
sub run_program
{
	my ($database, @command) = @_;
	my ($out, $err) = ('', '');

	local $ENV{PGHOST} = $node->host;
	local $ENV{PGPORT} = $node->port;
	local $ENV{PGDATABASE} = $database;
	local $ENV{PGUSER} = getpwuid($<);
	local $ENV{PYTHONPATH} = $dir;
	local $ENV{PYTHONDONTWRITEBYTECODE} = 1;
	ok(IPC::Run::run([@command], '>', \$out, '2>', \$err), "$database: the program runs") or diag($err);
	return $out;
}

# Make a table with one old row in a new database, and convert its key.
sub converted_table
{
	my ($database) = @_;

	query($node, "CREATE DATABASE $database");
	query($node, q{CREATE EXTENSION snowflake;
		CREATE TABLE orders (id serial PRIMARY KEY, item text NOT NULL);
		INSERT INTO orders (item) VALUES ('old');
		SELECT FROM snowflake_convert('orders', dry_run => false)}, database => $database);
	return;
}

# Return an expression that says whether a key is a Snowflake ID of now.
my $is_new = "snowflake_timestamp(id) BETWEEN now() - interval '1 hour' AND now() + interval '10 s'";

converted_table('django');
is(query($node, q{SELECT pg_get_serial_sequence('orders', 'id') IS NULL}, database => 'django'), 't', 'a converted key has no sequence');

if (part('django'))
{
	my $another = query($node, "SELECT snowflake_min_id('2025-03-30 01:00:00Z')", database => 'django');

	mkdir "$dir/shop" or die;
	append_to_file("$dir/shop/__init__.py", '');
	append_to_file("$dir/shop/models.py", <<'END');
from django.db import models

class Order(models.Model):
    id = models.BigAutoField(primary_key=True)
    item = models.TextField()

    class Meta:
        db_table = "orders"
END
	append_to_file("$dir/orders.json", qq([{"model": "shop.order", "pk": $another, "fields": {"item": "dumped"}},
		{"model": "shop.order", "pk": 7, "fields": {"item": "seventh"}},
		{"model": "shop.order", "fields": {"item": "without"}}]));
	append_to_file("$dir/load.py", <<'END');
import os
import sys
import django
from django.conf import settings
from django.core.management import call_command

settings.configure(INSTALLED_APPS=["shop"], DATABASES={"default": {
    "ENGINE": "django.db.backends.postgresql", "HOST": os.environ["PGHOST"],
    "PORT": os.environ["PGPORT"], "NAME": os.environ["PGDATABASE"],
    "USER": os.environ["PGUSER"]}})
django.setup()
from shop.models import Order

call_command("loaddata", sys.argv[1])
Order.objects.create(item="new")
END
	run_program('django', '/usr/bin/python3', "$dir/load.py", "$dir/orders.json");
	is(query($node, "SELECT string_agg(item, ' ' ORDER BY id), string_agg(item, ' ' ORDER BY id) FILTER (WHERE $is_new) FROM orders", database => 'django'),
		'old seventh dumped without new|without new', 'Django: rows keep their keys, and others get new IDs');
}

if (part('rails'))
{
	converted_table('rails');
	append_to_file("$dir/orders.yml", "named:\n  item: named\nwith_key:\n  id: 9\n  item: ninth\n");
	append_to_file("$dir/load.rb", <<'END');
require "active_record"
require "active_record/fixtures"

ActiveRecord::Base.establish_connection(
  adapter: "postgresql", host: ENV["PGHOST"], port: ENV["PGPORT"],
  database: ENV["PGDATABASE"], username: ENV["PGUSER"])

class Order < ActiveRecord::Base
end

def reset
  ActiveRecord::Base.connection.reset_pk_sequence!("orders")
  puts "reset"
rescue ActiveRecord::StatementInvalid => e
  puts e.message
end

reset
ActiveRecord::Base.connection.execute(ARGV[0])
ActiveRecord::Base.connection.schema_cache.clear!
reset
ActiveRecord::FixtureSet.create_fixtures(ARGV[1], "orders")
Order.create!(item: "new")
END
	my @printed = split /\n/, run_program('rails', '/usr/bin/ruby', "$dir/load.rb", $generate, $dir);
	like($printed[0], qr/relation "public" does not exist/, 'Rails: with the first name its call fails');
	is($printed[-1], 'reset', 'with the other name, it does not');
	is(query($node, "SELECT string_agg(item, ' ' ORDER BY id), string_agg(item, ' ' ORDER BY id) FILTER (WHERE $is_new),
			max(id) FILTER (WHERE item = 'named') < 1 << 30 FROM orders", database => 'rails'),
		'ninth named new|new|t', 'Rails: fixtures have their keys, and new rows are above');
}
$node->stop;
done_testing();
