# Keys of the type snowflake in drivers and frameworks: what comes back, the lines that
# register the type, and what a tool reads from the catalogs, as the table in
# doc/applications.md says. Each program checks this in a database with one order and ten
# lines of it; KEY is the order's key. The code in the table must be that of a program.
# Then two plugins of logical decoding, and what they write of a key.
#
# takes: 45 s
# part psycopg: python3-psycopg
# part asyncpg: python3-asyncpg
# part sqlalchemy: python3-sqlalchemy python3-psycopg2
# part django: python3-django python3-psycopg2
# part django5: django5
# part laravel: php-cli php-pgsql php-illuminate-database
# part rails: ruby ruby-activerecord ruby-pg
# part pg: nodejs pg_driver
# part java: default-jdk-headless libpostgresql-jdbc-java libhibernate3-java libjavassist-java
# part orm: nodejs pg_driver orm_packages
# part pgx: golang-go golang-github-jackc-pgx-v4-dev
# part postgraphile4: postgraphile
# part postgraphile5: postgraphile
# part wal2json: wal2json
# part decoderbufs: decoderbufs
use strict;
use warnings FATAL => 'all';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SnowflakeTest;

my $root = "$FindBin::RealBin/../../..";
my $dir = PostgreSQL::Test::Utils::tempdir;
my $jars = join ':', map { "/usr/share/java/$_.jar" } qw(hibernate-core hibernate-commons-annotations
  geronimo-jpa_2.0_spec geronimo-jta-1.2-spec dom4j slf4j-api commons-collections3 antlr javassist postgresql);
my %command = (
	py => '/usr/bin/python3',
	php => '/usr/bin/php -d zend.assertions=1 -d assert.exception=1',
	rb => '/usr/bin/ruby',
	mjs => "cd '$root/examples/orm' && node",
	graphile => 'GRAPHILE_ENV=production $SNOWFLAKE_POSTGRAPHILE/run --input-type=module - <',
	go => "GO111MODULE=off GOFLAGS= GOPATH=/usr/share/gocode GOCACHE='$dir/go' /usr/bin/go run",
	java => "javac -d '$dir' -cp '$jars' '$dir/use_java.java' && java -ea -XX:-UsePerfData -cp '$dir:$jars'"
	  . ' -Dhibernate.dialect=org.hibernate.dialect.PostgreSQLDialect'
	  . ' -Dhibernate.connection.url="jdbc:postgresql://$PGHOST:$PGPORT/java?user=$PGUSER" KeyType #');
my %source;

# Return the beginning of an example, which connects.
sub head_of
{
	my ($example, $until) = @_;

	return slurp_file("$root/examples/$example") =~ /\A(.*?)^\Q$until\E/ms ? $1 : die "$example: no $until";
}

$source{psycopg} = [ py => <<'END' ];
import os
import psycopg

key = os.environ["KEY"]
find = "SELECT id, ARRAY[id] FROM orders WHERE id = %s AND id = %s AND id = ANY (%s)"
with psycopg.connect() as conn:
    assert conn.execute(find, [key, int(key), [int(key)]]).fetchall() == [(key, "{%s}" % key)]
    psycopg.types.TypeInfo.fetch(conn, "snowflake").register(conn)
    conn.adapters.register_loader("snowflake", psycopg.types.numeric.IntLoader)
    assert conn.execute(find, [key, int(key), [int(key)]]).fetchall() == [(int(key), [int(key)])]
END
$source{asyncpg} = [ py => <<'END' ];
import asyncio
import os
import asyncpg

async def main():
    key = int(os.environ["KEY"])
    find = "SELECT id, ARRAY[id] FROM orders WHERE id = $1 AND id = ANY ($2)"
    connection = await asyncpg.connect()
    assert tuple(await connection.fetchrow(find, str(key), [str(key)])) == (str(key), [str(key)])
    for refused in (key, [str(key)]), (str(key), [key]):
        try:
            await connection.fetchrow(find, *refused)
        except asyncpg.DataError:
            continue
        assert False
    await connection.set_builtin_type_codec("snowflake", codec_name="int8")
    assert tuple(await connection.fetchrow(find, key, [key])) == (key, [key])
    await connection.copy_records_to_table("orders", records=[(5, "copied")])
    assert await connection.fetchval("SELECT id FROM orders WHERE item = 'copied'") == 5

asyncio.run(main())
END
$source{sqlalchemy} = [ py => <<'END' ];
import os
import psycopg2
from sqlalchemy import BigInteger, Column, MetaData, Table, create_engine, select
from sqlalchemy.dialects import postgresql
from sqlalchemy.types import NullType

def read():
    with engine.connect() as connection:
        id = Table("orders", MetaData(), Column("id", BigInteger)).c.id
        return connection.scalar(select(id).where(id == int(key)))

def reflected():
    return type(Table("orders", MetaData(), autoload_with=engine).c.id.type)

key = os.environ["KEY"]
engine = create_engine("postgresql+psycopg2://", future=True)
cursor = engine.raw_connection().cursor()
assert (read(), reflected()) == (key, NullType)
cursor.execute("SELECT 'snowflake'::regtype::oid")
snowflake = psycopg2.extensions.new_type(cursor.fetchone(), "SNOWFLAKE", psycopg2.extensions.INTEGER)
psycopg2.extensions.register_type(snowflake)
postgresql.base.ischema_names["snowflake"] = BigInteger
assert (read(), reflected()) == (int(key), BigInteger)
END
$source{django5} = $source{django} = [ py => head_of('with_django.py', 'class Order(') . <<'END' ];
import io
from django.core.management import call_command

class Order(models.Model):
    id = models.BigIntegerField(primary_key=True)
    class Meta:
        app_label, db_table = "shop", "orders"

class SnowflakeField(models.BigIntegerField):
    def db_type(self, connection): return "snowflake"
    def from_db_value(self, value, expression, connection): return value and int(value)

class Note(models.Model):
    id = SnowflakeField(primary_key=True)
    reply_to = models.ForeignKey("self", models.CASCADE)
    class Meta:
        app_label, db_table = "shop", "notes"

key = os.environ["KEY"]
call_command("inspectdb", "orders", stdout=(inspected := io.StringIO()))
assert "id = models.TextField(primary_key=True)  # This field type is a guess." in inspected.getvalue()
assert [order.id for order in Order.objects.filter(id=int(key))] == [key]
with connection.schema_editor() as editor:
    editor.create_model(Note)
Note.objects.create(id=int(key), reply_to_id=int(key))
assert list(Note.objects.filter(reply_to=int(key)).values_list()) == [(int(key), int(key))]
END
$source{laravel} = [ php => head_of('with_laravel.php', '// In a project') . <<'END' ];
class Order extends Model {}
class OrderLine extends Model { protected $casts = ['order_id' => 'integer']; }
$key = getenv('KEY');
assert(DB::select('SELECT id FROM orders WHERE id = ? AND id = ?', [$key, (int) $key])[0]->id === $key);
assert(Order::find($key)->id === (int) $key && OrderLine::first()->order_id === (int) $key);
Illuminate\Database\Schema\Grammars\PostgresGrammar::macro('typeSnowflake', fn () => 'snowflake');
DB::schema()->create('notes', function (Blueprint $table) {
    $table->addColumn('snowflake', 'id')->primary()->default(DB::raw('snowflake_nextval()'));
});
assert(DB::select('INSERT INTO notes DEFAULT VALUES RETURNING pg_typeof(id) AS type')[0]->type === 'snowflake');
END
$source{rails} = [ rb => head_of('with_rails.rb', '# Without') . <<'END' ];
class Order < ActiveRecord::Base; end
class OrderLine < ActiveRecord::Base
  attribute :id, :big_integer
  attribute :order_id, :big_integer
end

key = ENV["KEY"]
ActiveRecord::SchemaDumper.dump(ActiveRecord::Base.connection, dump = StringIO.new)
raise dump.string unless dump.string.match?(/Could not dump table "orders".*\n.*Unknown type 'snowflake' for column 'id'/)
raise "not #{key}" unless [key, key.to_i].all? { |k| Order.find(k).id == key }
lines = OrderLine.where(order_id: key.to_i).to_a
raise "not #{key}" unless lines.size == 10 && lines.all? { |line| line.order_id == key.to_i && line.id.is_a?(Integer) }
END
$source{pg} = [ mjs => <<'END' ];
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';

const pg = createRequire(import.meta.url)('pg');
const key = process.env.KEY;
const client = new pg.Client();
const row = async () => (await client.query(`SELECT id, ARRAY[id], ARRAY[id]::bigint[] AS cast FROM orders
	WHERE id = $1 AND id = $2 AND id = ANY ($3)`, [key, BigInt(key), [key]])).rows[0];

await client.connect();
assert.deepEqual(await row(), { id: key, array: `{${key}}`, cast: [key] });
const { rows: [{ oid }] } = await client.query("SELECT 'snowflake'::regtype::oid");
pg.types.setTypeParser(oid, BigInt);
assert.strictEqual((await row()).id, BigInt(key));
await client.end();
END
$source{java} = [ java => <<'END' ];
import java.sql.*;
import java.util.concurrent.Callable;
import javax.persistence.*;

class KeyType {
	@Entity @Table(name = "orders")
	static class Order { @Id Long id; }
	@Entity @Table(name = "orders")
	static class TypedOrder { @Id @Column(columnDefinition = "snowflake") Long id; }

	static final Long key = Long.valueOf(System.getenv("KEY"));

	static Object read(String auto, Class<?> entity) {
		return new org.hibernate.cfg.Configuration().addAnnotatedClass(entity)
				.setProperty("hibernate.hbm2ddl.auto", auto).buildSessionFactory().openSession().get(entity, key);
	}

	static boolean fails(Callable<?> call, String message) {
		try {
			return call.call() == null && false;
		} catch (Exception e) {
			return e.getMessage().endsWith(message);
		}
	}

	public static void main(String[] args) throws SQLException {
		Connection conn = DriverManager.getConnection(System.getProperty("hibernate.connection.url"));
		PreparedStatement find = conn.prepareStatement("SELECT id FROM orders WHERE id = ?");
		find.setLong(1, key);
		ResultSet row = find.executeQuery();
		assert row.next() && row.getLong(1) == key && row.getString(1).equals(key.toString());
		assert row.getObject(1) instanceof org.postgresql.util.PGobject;
		assert fails(() -> row.getObject(1, Long.class), "Long from snowflake not supported");
		ResultSet column = conn.getMetaData().getColumns(null, null, "orders", "id");
		assert column.next() && column.getInt("DATA_TYPE") == Types.OTHER && column.getString("TYPE_NAME").equals("snowflake");
		assert ((Order) read("none", Order.class)).id.equals(key);
		assert fails(() -> read("validate", Order.class), "Found: snowflake, expected: int8");
		assert ((TypedOrder) read("validate", TypedOrder.class)).id.equals(key);
		System.exit(0);
	}
}
END
$source{orm} = [ mjs => <<'END' ];
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { createRequire } from 'node:module';

const need = createRequire(`${process.cwd()}/`);
const key = BigInt(process.env.KEY);

// Run a command; return what it prints, also if it fails.
function run(command) {
	return execFileSync('sh', ['-c', `node_modules/.bin/${command} 2>&1 || true`],
		{ encoding: 'utf8', env: { ...process.env, CHECKPOINT_DISABLE: '1' } });
}

// Check related rows, which are read as JSON.
function check({ id, lines }) {
	assert.deepEqual([id, lines[0].orderId, new Set(lines.map((line) => line.id)).size], [key, key, 10]);
}

const schema = fs.readFileSync('schema.prisma', 'utf8').replace('./out/client', './typed')
	.replace('engineType', 'previewFeatures = ["relationJoins"]\nengineType');
fs.writeFileSync('out/typed.prisma', schema.replace(/\nmodel .*/s, ''));
run('prisma db pull --schema out/typed.prisma');
assert.match(fs.readFileSync('out/typed.prisma', 'utf8'), / Unsupported\("snowflake"\) +@id /);
assert.match(run('prisma generate --schema out/typed.prisma'), /Each model must have at least one unique criteria/);
fs.writeFileSync('out/typed.prisma', schema);
run('prisma generate --schema out/typed.prisma');
const client = new (need('./out/typed').PrismaClient)({ adapter: new (need('@prisma/adapter-pg').PrismaPg)({}) });
check(await client.order.findUnique({ where: { id: key }, include: { lines: true } }));
await client.$disconnect();
assert.match(run('prisma db push --skip-generate'), /cast from `snowflake` to `BigInt`.*--accept-data-loss/s);

const config = '--config out/typed.config.js';
fs.writeFileSync('out/typed.config.js', `module.exports = {
	...require('../drizzle.config.js'), schema: './out/typed.tables.js', out: './out/typed.pulled' };`);
fs.writeFileSync('out/typed.tables.js', `
	const { relations } = require('drizzle-orm');
	const { customType } = require('drizzle-orm/pg-core');
	const snowflake = customType({ dataType: () => 'snowflake', fromDriver: BigInt, toDriver: String });
	${fs.readFileSync('schema.js', 'utf8').replace(/bigint\((.*?)\{ mode: 'bigint' \}\)/g, 'snowflake($1)')}
	const { orders, orderLines } = exports;
	exports.r1 = relations(orders, ({ many }) => ({ lines: many(orderLines) }));
	exports.r2 = relations(orderLines, ({ one }) => ({
		order: one(orders, { fields: [orderLines.orderId], references: [orders.id] }) }));`);
run(`drizzle-kit push ${config}`);
assert.match(run(`drizzle-kit push ${config}`), /No changes detected/);
const db = need('drizzle-orm/node-postgres').drizzle(
	{ client: new (need('pg').Pool)(), schema: need('./out/typed.tables.js') });
check(await db.query.orders.findFirst({ where: (orders, { eq }) => eq(orders.id, key), with: { lines: true } }));
run(`drizzle-kit pull ${config}`);
assert.match(fs.readFileSync('out/typed.pulled/schema.ts', 'utf8'), /id: unknown\("id"\)\.primaryKey\(\)\.notNull\(\)/);
run('drizzle-kit push');
assert.equal((await db.execute('SELECT pg_typeof(id) AS type FROM orders')).rows[0].type, 'bigint');
await db.$client.end();
END
$source{pgx} = [ go => <<'END' ];
package main

import (
	"context"
	"log"
	"os"
	"strconv"
	"strings"

	"github.com/jackc/pgtype"
	"github.com/jackc/pgx/v4"
)

func main() {
	ctx := context.Background()
	key, _ := strconv.ParseInt(os.Getenv("KEY"), 10, 64)
	conn, err := pgx.Connect(ctx, "")
	check := func(found interface{}) {
		if err != nil || found != interface{}(key) {
			log.Fatal(found, err)
		}
	}
	const find = "SELECT id FROM orders WHERE id = $1 AND id = ANY ($2)"
	var id int64
	var oid uint32
	var text string
	copy := func() error {
		_, err := conn.CopyFrom(ctx, pgx.Identifier{"orders"}, []string{"id", "item"},
			pgx.CopyFromRows([][]interface{}{{int64(5), "copied"}}))
		return err
	}

	check(key)
	err = conn.QueryRow(ctx, find, os.Getenv("KEY"), []int64{key}).Scan(&text)
	id, _ = strconv.ParseInt(text, 10, 64)
	check(id)
	err = conn.QueryRow(ctx, find, key, []int64{key}).Scan(&id)
	if err == nil || !strings.Contains(err.Error(), "cannot be scanned into *int64") || copy() == nil {
		log.Fatal(err)
	}
	err = conn.QueryRow(ctx, "SELECT 'snowflake'::regtype::oid").Scan(&oid)
	check(key)
	conn.ConnInfo().RegisterDataType(pgtype.DataType{Value: &pgtype.Int8{}, Name: "snowflake", OID: oid})
	id = 0
	err = conn.QueryRow(ctx, find, key, []int64{key}).Scan(&id)
	check(id)
	err = copy()
	check(key)
}
END

# Read 200 rows of two tables with PostGraphile, 25 at a time.
my $pages = <<'END';
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';

const need = (name) => createRequire(`${process.env.SNOWFLAKE_POSTGRAPHILE}/${version}/`)(name);
const pool = new (need('pg').Pool)();
for (const table of ['plain (id bigint', 'typed (id snowflake'])
	await pool.query(`CREATE TABLE ${table} PRIMARY KEY DEFAULT snowflake_nextval(), n integer)`);
await pool.query(`WITH made AS (INSERT INTO plain SELECT 384308787294507008 + n, n FROM generate_series(1, 200) n
	RETURNING *) INSERT INTO typed SELECT * FROM made`);

// Return how many different rows twelve pages have, at most, and the last key.
async function read(table, key) {
	const seen = new Set();
	for (let [page, cursor] = [0, null]; page < 12; page++) {
		const { data, errors } = await run(`query ($cursor: Cursor) { ${table}(first: 25, after: $cursor) {
			nodes { n ${key} } pageInfo { hasNextPage endCursor } } }`, { cursor });
		if (errors)
			return errors[0].message;
		const { nodes, pageInfo } = data[table];
		nodes.forEach((row) => seen.add(row.n));
		if (!pageInfo.hasNextPage)
			return [seen.size, nodes.at(-1)[key]];
		cursor = pageInfo.endCursor;
	}
	return [seen.size, 'more'];
}
END
$source{postgraphile4} = [ graphile => "const version = 4;\n$pages" . <<'END' ];
const { createPostGraphileSchema, withPostGraphileContext } = need('postgraphile');
const schema = await createPostGraphileSchema(pool, 'public');
const run = (query, variables) => withPostGraphileContext({ pgPool: pool },
	(context) => need('graphql').graphql(schema, query, null, context, variables));

assert.deepEqual(await read('allPlains', 'id'), [25, 'more']);
assert.deepEqual(await read('allTypeds', 'id'), [200, '384308787294507208']);
const { data } = await run('{ typedById(id: "384308787294507011") { n } }');
assert.equal(data.typedById.n, 3);
const update = 'mutation { updateTypedById(input: {id: "384308787294507011", typedPatch: {n: 0}}) { typed { id nodeId } } }';
assert.equal((await run(update)).data.updateTypedById.typed.id, '384308787294507011');
const exact = (text) => JSON.parse(text, (key, value, { source }) =>
	Number.isInteger(value) && !Number.isSafeInteger(value) ? source : value);
need('pg').types.setTypeParser(114, exact);
need('pg').types.setTypeParser(3802, exact);
assert.deepEqual(await read('allPlains', 'id'), [200, '384308787294507208']);
process.exit(0);
END
$source{postgraphile5} = [ graphile => "const version = 5;\n$pages" . <<'END' ];
const { makeSchema } = need('postgraphile');
const { PostGraphileAmberPreset } = need('postgraphile/presets/amber');
const { makePgService } = need('postgraphile/adaptors/pg');
const { TYPES } = need('postgraphile/@dataplan/pg');
const { grafast } = need('postgraphile/grafast');
const plugin = { name: 'snowflake', gather: { hooks: { pgCodecs_findPgCodec(info, event) {
	if (event.pgType.typname === 'snowflake') event.pgCodec = TYPES.bigint; } } } };
let run;

async function serve(plugins) {
	const { schema, resolvedPreset } = await makeSchema({ extends: [PostGraphileAmberPreset], plugins,
		pgServices: [makePgService({ pool, schemas: ['public'] })] });
	run = (source, variableValues) => grafast({ schema, source, variableValues, resolvedPreset, requestContext: {} });
}

await serve([]);
assert.deepEqual(await read('allPlains', 'rowId'), [200, '384308787294507208']);
assert.match(await read('allTypeds', 'rowId'), /Cannot query field "rowId"/);
assert.equal(await read('allTypeds', 'n'), "Cannot read properties of undefined (reading 'via')");
await serve([plugin]);
assert.deepEqual(await read('allTypeds', 'rowId'), [200, '384308787294507208']);
const { data } = await run('{ typedByRowId(rowId: "384308787294507011") { n } }');
assert.equal(data.typedByRowId.n, 3);
process.exit(0);
END

# The code in the page's table and the blocks below it.
my ($page) = slurp_file("$root/doc/applications.md") =~ /^### snowflake in drivers.*?\n(.*?)^## /ms;
my $code = join "\n", map { $_->[1] } values %source;
my @lines = (map({ split /\n/ } $page =~ /^```(?:python|js)\n(.*?)^```/msg),
	map { /`([^`]+)`/g } $page =~ /^\|[^|]*\|[^|]*\|([^|]*)\|/mg);
is_deeply([ grep { index($code, $_) < 0 } @lines ], [], @lines . ' lines of the page are those of the programs');

my $node = new_server('drivers', "listen_addresses = '127.0.0.1'", 'wal_level = logical');
$node->start;
foreach my $name (grep { part($_) } sort keys %source)
{
	my ($language, $program) = @{ $source{$name} };
	my ($file, $out) = ("$dir/use_$name.$language", '');

	append_to_file($file, $program);
	query($node, "CREATE DATABASE $name");
	# the order's key is odd, so no JavaScript number has it
	my $key = query($node, 'CREATE EXTENSION snowflake;
		CREATE TABLE orders (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), item text NOT NULL);
		CREATE TABLE order_lines (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(),
			order_id snowflake NOT NULL REFERENCES orders, note text NOT NULL);
		INSERT INTO orders (item) SELECT n FROM generate_series(1, 10) n;
		DELETE FROM orders WHERE id <> (SELECT max(id) FROM orders WHERE id % 2 = 1);
		INSERT INTO order_lines (order_id, note) SELECT id, n FROM orders, generate_series(1, 10) n;
		SELECT id FROM orders', database => $name);
	local @ENV{qw(KEY PGHOST PGPORT PGDATABASE PGUSER)} =
	  ($key, '127.0.0.1', $node->port, $name, query($node, 'SELECT current_user'));
	local $ENV{PYTHONPATH} = $ENV{SNOWFLAKE_DJANGO5} if $name eq 'django5';
	ok(IPC::Run::run([ 'sh', '-c', "$command{$language} '$file'" ], '>&', \$out,
			IPC::Run::timeout(5 * $PostgreSQL::Test::Utils::timeout_default)), "$name: it is as the page says")
	  or diag($out);
}

# ---- plugins of logical decoding ----

my @plugins = grep { part($_) } qw(wal2json decoderbufs);
my $key = 288230376151711745;

# return what the plugin writes of one row
sub change
{
	my ($plugin, $function, $column) = @_;

	return query($node, qq{
		SELECT FROM pg_create_logical_replication_slot('$plugin', '$plugin');
		INSERT INTO keys VALUES ($key, $key);
		SELECT string_agg($column, '') FROM $function('$plugin', NULL, NULL);
		DELETE FROM keys}, database => 'changes');
}

if (@plugins)
{
	if (query($node, "SELECT count(*) FROM pg_settings WHERE name = 'output_plugin_libraries'"))
	{
		$node->append_conf('postgresql.conf', 'output_plugin_libraries = ' . "'" . join(',', @plugins) . "'");
		$node->reload;
	}
	query($node, 'CREATE DATABASE changes');
	query($node, 'CREATE EXTENSION snowflake;
		CREATE TABLE keys (typed snowflake PRIMARY KEY, plain bigint)', database => 'changes');
}
like(change('wal2json', 'pg_logical_slot_get_changes', 'data'),
	qr/"columntypes":\["snowflake","bigint"\],"columnvalues":\["$key",$key\]/,
	'wal2json: a string, and of a bigint a number')
  if part('wal2json');
# in protobuf: field 9 is datum_bytes with its length, 4 is datum_int64
like(change('decoderbufs', 'pg_logical_slot_get_binary_changes', "encode(data, 'hex')"),
	qr/@{[ unpack 'H*', 'typed' ]}10.{6}@{[ unpack 'H*', 'J' . chr(length $key) . $key ]}.*@{[ unpack 'H*', 'plain' ]}101420/,
	'decoderbufs: text in datum_bytes, and of a bigint a number in datum_int64')
  if part('decoderbufs');

done_testing();
