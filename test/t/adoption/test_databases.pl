# The databases that tools make for tests: Django's and Rails' test databases, and Prisma's
# shadow database. The tools connect as a role that may create databases and is no
# superuser. Each tool fails while template1 lacks the extension, and succeeds after the
# command in doc/applications.md, "Test and shadow databases". The blocks of that section
# run as the page has them, and the settings in it are those of the tools here.
#
# takes: 60 s
# part django: python3-django python3-psycopg2
# part django5: django5
# part rails: ruby ruby-activerecord ruby-pg
# part prisma: nodejs pg_driver orm_packages
use strict;
use warnings FATAL => 'all';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SnowflakeTest;

my $root = "$FindBin::RealBin/../../..";
my ($page) = slurp_file("$root/doc/applications.md") =~ /^## Test and shadow databases\n(.*?)^## /ms
  or die 'the page has no such section';
my ($in_template1, $in_another) = $page =~ /^```sh\n(.*?)^```/msg;
my ($in_schema) = $page =~ /^```sql\n(.*?)^```/ms;

my $node = new_server('main', "listen_addresses = '127.0.0.1'");
$node->start;
my $superuser = query($node, 'SELECT current_user');
local @ENV{qw(PGHOST PGPORT)} = ('127.0.0.1', $node->port);

# Rails asks for UTF-8, so template1 must have that encoding, which initdb takes from the
# environment.
query($node, q{ALTER DATABASE template1 IS_TEMPLATE false});
query($node, q{DROP DATABASE template1});
query($node, q{CREATE DATABASE template1 TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C' IS_TEMPLATE true});
query($node, 'CREATE ROLE app LOGIN CREATEDB');

# Write files into a new directory, and return it.
sub project
{
	my (%files) = @_;
	my $dir = PostgreSQL::Test::Utils::tempdir();

	foreach my $name (sort keys %files)
	{
		system_or_bail('mkdir', '-p', "$dir/$1") if $name =~ m{(.*)/};
		append_to_file("$dir/$name", $files{$name});
	}
	return $dir;
}

# Run a block of the page as the superuser.
sub run_block
{
	my ($block, $name) = @_;
	my ($out, $err) = ('', '');
	local $ENV{PGUSER} = $superuser;

	ok(IPC::Run::run([ 'sh', '-ec', $block ], '>', \$out, '2>', \$err), $name) or diag("$out$err");
}

# Run a tool's command as the application's role. Return true if it succeeds, and what it
# prints.
sub run_tool
{
	my ($dir, $command) = @_;
	my $out = '';
	local $ENV{PGUSER} = 'app';
	my $ended = IPC::Run::run([ 'sh', '-c', "cd '$dir' && $command" ], '<', \'', '>&', \$out,
		IPC::Run::timeout(2 * $PostgreSQL::Test::Utils::timeout_default));

	return ($ended, $out);
}

sub works
{
	my ($dir, $command, $pattern, $name) = @_;
	my ($ended, $out) = run_tool($dir, $command);

	ok($ended && $out =~ $pattern, $name) or diag($out);
}

sub fails
{
	my ($dir, $command, $pattern, $name) = @_;
	my ($ended, $out) = run_tool($dir, $command);

	ok(!$ended && $out =~ $pattern, $name) or diag($out);
}

# ---- the projects ----

my %key = (
	django => 'models.BigIntegerField(primary_key=True, default=snowflake)',
	django5 => 'models.BigIntegerField(primary_key=True, db_default=Func(function="snowflake_nextval"))');

# Return a Django project. Its test makes keys, also in two tables that join others.
sub django
{
	my ($name) = @_;
	my $dir = project(
		'manage.py' => q{
import sys
from django.core.management import execute_from_command_line
execute_from_command_line(sys.argv)
},
		'settings.py' => q{
import os
SECRET_KEY = "secret"
INSTALLED_APPS = ["shop"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASES = {"default": {
    "ENGINE": "django.db.backends.postgresql", "HOST": os.environ["PGHOST"],
    "PORT": os.environ["PGPORT"], "NAME": os.environ["PGDATABASE"], "USER": "app"}}
if "TEMPLATE" in os.environ:
    DATABASES["default"]["TEST"] = {"TEMPLATE": "snowflake_template"}
},
		'shop/__init__.py' => '',
		'shop/migrations/__init__.py' => '',
		'shop/models.py' => qq{
from django.db import connection, models
from django.db.models import Func

def snowflake():
    with connection.cursor() as cursor:
        cursor.execute("SELECT snowflake_nextval()")
        return cursor.fetchone()[0]

class Tag(models.Model):
    id = $key{$name}

class Order(models.Model):
    id = $key{$name}
    tags = models.ManyToManyField(Tag, through="OrderTag")
    labels = models.ManyToManyField(Tag, related_name="+")

class OrderTag(models.Model):
    id = $key{$name}
    order = models.ForeignKey(Order, models.CASCADE)
    tag = models.ForeignKey(Tag, models.CASCADE)
},
		'shop/tests.py' => q{
from django.test import TestCase
from shop.models import Order, OrderTag, Tag

class Keys(TestCase):
    def test_join_tables(self):
        order, tags = Order.objects.create(), [Tag.objects.create() for n in range(3)]
        order.tags.add(*tags)
        order.labels.add(*tags)
        keys = [key for model in (Order, Tag, OrderTag) for key in model.objects.values_list("pk", flat=True)]
        assert len(set(keys)) == 7 and min(keys) > 10**17, keys
        assert set(order.tags.all()) == set(tags)
        labels = Order.labels.through.objects.values_list("pk", flat=True)
        assert set(labels) == {1, 2, 3}, labels
});

	query($node, "CREATE DATABASE $name OWNER app");
	works($dir, '/usr/bin/python3 manage.py makemigrations', qr/Create model OrderTag/, "$name: it writes migrations");
	return $dir;
}

# Add a migration before the others that creates the extension.
sub django_creates_extension
{
	my ($dir) = @_;
	my $initial = "$dir/shop/migrations/0001_initial.py";
	my $migration = slurp_file($initial);

	append_to_file("$dir/shop/migrations/0000_extension.py", q{
from django.contrib.postgres.operations import CreateExtension
from django.db import migrations

class Migration(migrations.Migration):
    operations = [CreateExtension("snowflake")]
});
	$migration =~ s/dependencies = \[/dependencies = [("shop", "0000_extension"), / or die $migration;
	unlink $initial;
	append_to_file($initial, $migration);
}

# Return a project with the tasks of Rails.
sub rails
{
	return project(
		'db/schema.rb' => q{
ActiveRecord::Schema.define(version: 1) do
  enable_extension "plpgsql"
  enable_extension "snowflake"
  create_table "orders", id: :bigint, default: -> { "snowflake_generate()" }, force: :cascade do |t|
    t.text "item", null: false
  end
end
},
		'database.yml' => q{
development: &default
  adapter: postgresql
  host: <%= ENV["PGHOST"] %>
  port: <%= ENV["PGPORT"] %>
  username: app
  database: rails_development
  <%= "template: snowflake_template" if ENV["TEMPLATE"] %>
test:
  <<: *default
  database: rails_test
},
		Rakefile => q{
ENV["RAILS_ENV"] = "development"
require "active_record"
require "erb"
require "yaml"

tasks = ActiveRecord::Tasks::DatabaseTasks
tasks.root = __dir__
tasks.db_dir = "db"
tasks.env = "development"
tasks.migrations_paths = ["db/migrate"]
tasks.database_configuration = YAML.load(ERB.new(File.read("database.yml")).result, aliases: true)
task :environment do
  ActiveRecord::Base.configurations = tasks.database_configuration
  ActiveRecord::Base.establish_connection :development
end
load "active_record/railties/databases.rake"
});
}

# Return a project with the files of examples/orm, for this default of keys. The commands
# of Prisma set timers of 10 s and 60 s, and would not end before, so no such timer keeps
# them alive.
sub prisma
{
	my ($default) = @_;
	my $schema = slurp_file("$root/examples/orm/schema.prisma");

	$schema =~ s/snowflake_nextval/$default/g;
	my $dir = project(
		'schema.prisma' => $schema,
		'prisma.config.js' => slurp_file("$root/examples/orm/prisma.config.js"),
		'no_timer.js' => q{
const set = setTimeout;

globalThis.setTimeout = Object.assign((f, ms, ...args) => {
	const timer = set(f, ms, ...args);

	return ms < 10000 ? timer : timer.unref();
}, set);
});
	symlink "$root/examples/orm/node_modules", "$dir/node_modules" or die $!;
	return $dir;
}

# Return Prisma's command in a terminal, without which "migrate dev" refuses to run.
sub migrate
{
	return "NODE_OPTIONS=--require=./no_timer.js script -qec 'node_modules/.bin/prisma migrate @_' /dev/null";
}

# Write another migration.
sub next_migration
{
	my ($dir, $column) = @_;
	my $schema = slurp_file("$dir/schema.prisma");

	$schema =~ s/^(  item  String\n)/$1  $column String?\n/m or die $schema;
	unlink "$dir/schema.prisma";
	append_to_file("$dir/schema.prisma", $schema);
	return migrate("dev --name $column");
}

# ---- without the extension in template1 ----

my $no_function = qr/function (?:ids\.)?snowflake_nextval\(\) does not exist/;
my $not_permitted = qr/permission denied to create extension "snowflake"/;
my $in_sync = qr/Your database is now in sync with your schema/;
my @django = grep { part($_) } qw(django django5);
my %dir;
my $django_test = '/usr/bin/python3 manage.py test --noinput';
my $rails_test = 'rake db:create db:schema:load db:test:prepare';
local @ENV{qw(CHECKPOINT_DISABLE DJANGO_SETTINGS_MODULE)} = ('1', 'settings');

# Call this for a version of Django, which has a database of its name.
sub with_python
{
	my ($name, $check, @arguments) = @_;
	local $ENV{PGDATABASE} = $name;
	local $ENV{PYTHONPATH} = $name eq 'django5' ? $ENV{SNOWFLAKE_DJANGO5} : $ENV{PYTHONPATH} // '';

	return $check->(@arguments);
}

foreach my $name (@django)
{
	$dir{$name} = with_python($name, \&django, $name);
	with_python($name, \&fails, $dir{$name}, $django_test, $no_function, "$name: its tests fail");
	django_creates_extension($dir{$name});
	with_python($name, \&fails, $dir{$name}, $django_test, $not_permitted,
		"$name: a migration may not create the extension");
}
if (part('rails'))
{
	$dir{rails} = rails();
	fails($dir{rails}, $rails_test, $not_permitted, 'rails: db:schema:load fails');
}
if (part('prisma'))
{
	query($node, 'CREATE DATABASE prisma OWNER app');
	query($node, 'CREATE EXTENSION snowflake', database => 'prisma');
	local $ENV{PGDATABASE} = 'prisma';

	$dir{prisma} = prisma('snowflake_nextval');
	works($dir{prisma}, migrate('dev --name first'), $in_sync,
		'prisma: the first migration needs nothing in the shadow database');
	fails($dir{prisma}, next_migration($dir{prisma}, 'second'), $no_function, 'prisma: the second one does');
}

# ---- with it ----

run_block($in_template1, 'the extension is created in template1');
foreach my $name (@django)
{
	with_python($name, \&works, $dir{$name}, $django_test, qr/^OK$/m, "$name: its tests run");
}
if (part('rails'))
{
	works($dir{rails}, "rake db:drop && $rails_test", qr/Created database 'rails_test'/, 'rails: it loads the schema');
	like(query($node, q{INSERT INTO orders (item) VALUES ('book') RETURNING id}, database => $_), qr/^\d{18}$/,
		"rails: rows in $_ have keys") foreach ('rails_development', 'rails_test');
}
if (part('prisma'))
{
	local $ENV{PGDATABASE} = 'prisma';

	works($dir{prisma}, migrate('dev --name second'), $in_sync, 'prisma: it makes the second migration');
}

# ---- what a copy of template1 has ----

query($node, 'SET ROLE app; CREATE DATABASE copy');
is(query($node, 'SET ROLE app; CREATE EXTENSION IF NOT EXISTS snowflake; SELECT 1', database => 'copy'), '1',
	'a role that may not create the extension may say IF NOT EXISTS');
refused($node, 'SET ROLE app; CREATE EXTENSION snowflake', '42710', qr/extension "snowflake" already exists/,
	'without that it fails', database => 'copy');
is(query($node, 'SELECT count(last_value) FROM pg_sequences WHERE sequencename ~ $$^snowflake_recorded$$', database => 'copy'),
	'0', 'template1 gives no copy a layout');
my $id = query($node, 'SET ROLE app; CREATE SCHEMA app; CREATE TABLE app.orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval());
	INSERT INTO app.orders DEFAULT VALUES RETURNING id', database => 'copy');

# a dump that creates its database does not copy template1
my $dump = $node->basedir . '/copy.sql';
$node->command_ok([ 'pg_dump', '-U', 'app', '--create', '-f', $dump, 'copy' ], 'its owner dumps it');
like(slurp_file($dump), qr/^CREATE DATABASE copy WITH TEMPLATE = template0 .*^CREATE EXTENSION IF NOT EXISTS snowflake /ms,
	'the dump names template0, and creates the extension');
query($node, 'DROP DATABASE copy');
$node->command_ok([ 'psql', '-XqAt', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('postgres'), '-f', $dump ],
	'a superuser restores it');
cmp_ok(query($node, 'SET ROLE app; INSERT INTO app.orders DEFAULT VALUES RETURNING id', database => 'copy'), '>', $id,
	'and its IDs go on');

# ---- another template ----

query($node, 'DROP EXTENSION snowflake', database => 'template1');
run_block($in_another, 'the extension is created in another template');
{
	local $ENV{TEMPLATE} = 1;
	foreach my $name (@django)
	{
		with_python($name, \&works, $dir{$name}, $django_test, qr/^OK$/m, "$name: its tests run, with the other template");
		like($page, qr/`\Q$1\E`/, "$name: the page says how")
		  if slurp_file("$dir{$name}/settings.py") =~ /^ +(DATABASES\["default"\]\["TEST"\].*)/m;
	}
	if (part('rails'))
	{
		works($dir{rails}, "rake db:drop && $rails_test", qr/Created database 'rails_test'/, 'rails: it loads the schema');
		like($page, qr/`$1`/, 'rails: the page says how')
		  if slurp_file("$dir{rails}/database.yml") =~ /"(template: .*?)"/;
	}
}

# ---- Prisma's reset ----

if (part('prisma'))
{
	local $ENV{PGDATABASE} = 'prisma';
	my $has = q{SELECT count(*) FROM pg_extension WHERE extname = 'snowflake'};

	fails($dir{prisma}, migrate('reset --force'), $no_function, 'prisma: a reset fails');
	is(query($node, $has, database => 'prisma'), '0', 'prisma: since it has dropped the extension');

	query($node, 'DROP DATABASE prisma');
	query($node, 'CREATE DATABASE prisma OWNER app');
	query($node, $in_schema, database => 'prisma');
	my $default = 'ids.snowflake_nextval';
	my $dir = prisma($default);
	works($dir, migrate('dev --name first'), $in_sync, 'prisma: with the extension in a schema of its own it makes a migration');
	works($dir, migrate('reset --force'), qr/Database reset successful/, 'prisma: a reset succeeds');
	is(query($node, $has, database => 'prisma'), '1', 'prisma: it keeps the extension');
	like(query($node, q{INSERT INTO orders (item) VALUES ('book') RETURNING id}, database => 'prisma'), qr/^\d{18}$/,
		'prisma: rows have keys');
	like($page, qr/`dbgenerated\("\Q$default\E\(\)"\)`/, 'prisma: the page has the default');
}

# ---- IDs in template1 ----

query($node, 'CREATE EXTENSION snowflake; SELECT snowflake_nextval()', database => 'template1');
$node->append_conf('postgresql.conf', q{snowflake.layout = 'javascript'});
$node->restart;
query($node, 'CREATE DATABASE late');
refused($node, 'SELECT snowflake_nextval()', '55000', qr/epoch or layout of this server differs/,
	'a copy of a template in which IDs were made keeps its layout', database => 'late');
query($node, 'CREATE DATABASE bare TEMPLATE template0');
like(query($node, 'CREATE EXTENSION snowflake; SELECT snowflake_nextval()', database => 'bare'), qr/^\d{15,16}$/,
	'another database has that of the server');
$node->stop;

done_testing();
