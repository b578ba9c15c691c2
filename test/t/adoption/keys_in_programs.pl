# What programs make of keys, as doc/applications.md says under "Keys in JSON",
# "lastInsertId()" and "Others that we tried". Each program shows what goes wrong without
# the line of the page, and the right value with it. Each such line must be that of a
# program here.
#
# takes: 40 s
# part js: nodejs
# part go: golang-go
# part java: default-jdk-headless libjackson2-databind-java
# part drf: python3-django python3-djangorestframework
# part php: php-cli php-pgsql php-doctrine-dbal
# part reviver: postgraphile npm_tools
# part knex: postgraphile npm_tools
# part mikroorm: postgraphile npm_tools
# part loopback: postgraphile npm_tools
# part peewee: python3-peewee python3-psycopg2
# part pandas: python3-pandas python3-sqlalchemy python3-psycopg2
# part alembic: python3-alembic python3-psycopg2
# part sequel: ruby ruby-sequel ruby-pg
use SnowflakeTest;

my $dir = PostgreSQL::Test::Utils::tempdir;
my $jars = join ':', map { "/usr/share/java/$_.jar" } qw(jackson-core jackson-databind jackson-annotations);
my %command = (
	js => 'node',
	go => "env GO111MODULE=off GOFLAGS= GOCACHE='$dir/go' /usr/bin/go run",
	java => "javac -d '$dir' -cp '$jars' '$dir/use_java.java' && java -XX:-UsePerfData -cp '$dir:$jars' JsonKeys #",
	php => '/usr/bin/php',
	sequel => '/usr/bin/ruby',
	(map { $_ => '/usr/bin/python3' } qw(drf peewee pandas alembic)),
	map { $_ => '$SNOWFLAKE_POSTGRAPHILE/run' } qw(reviver knex mikroorm loopback));
my %ending = (sequel => 'rb', (map { $_ => 'py' } qw(drf peewee pandas alembic)),
	map { $_ => 'mjs' } qw(reviver knex mikroorm loopback));

# Each program prints the key as JSON without the line of the page, and with it. The key is
# odd, so no JavaScript number has it.
my $key = '384308787294507009';
my $number = qq({"id":$key});
my $string = qq({"id":"$key"});
my (%source, %prints);

$source{js} = <<"END";
const order = { id: ${key}n };

try {
	console.log(JSON.stringify(order));
} catch (e) {
	console.log(e.message);
}
BigInt.prototype.toJSON = function () { return this.toString(); };
console.log(JSON.stringify(order));
console.log(JSON.parse('$number').id);
END
$prints{js} = [ 'Do not know how to serialize a BigInt', $string, '384308787294507000' ];

$source{go} = <<"END";
package main

import (
	"encoding/json"
	"fmt"
)

type Plain struct {
	ID int64 `json:"id"`
}

type Order struct {
	ID int64 `json:"id,string"`
}

func main() {
	var read Order
	plain, _ := json.Marshal(Plain{$key})
	order, _ := json.Marshal(Order{$key})
	fmt.Println(string(plain))
	fmt.Println(string(order))
	fmt.Println(json.Unmarshal(order, &read), read.ID)
}
END
$prints{go} = [ $number, $string, "<nil> $key" ];

$source{java} = <<"END";
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.annotation.JsonSerialize;
import com.fasterxml.jackson.databind.ser.std.ToStringSerializer;

class JsonKeys {
	static class Plain {
		public long id;
	}

	static class Order {
		\@JsonSerialize(using = ToStringSerializer.class) public long id;
	}

	public static void main(String[] args) throws Exception {
		ObjectMapper mapper = new ObjectMapper();
		Plain plain = new Plain();
		Order order = new Order();

		plain.id = order.id = ${key}L;
		System.out.println(mapper.writeValueAsString(plain));
		System.out.println(mapper.writeValueAsString(order));
		System.out.println(mapper.readValue(mapper.writeValueAsString(order), Order.class).id);
	}
}
END
$prints{java} = [ $number, $string, $key ];

$source{drf} = <<"END";
import django
from django.conf import settings
from django.db import models

settings.configure(INSTALLED_APPS=["rest_framework"], USE_TZ=True)
django.setup()
from rest_framework import serializers
from rest_framework.renderers import JSONRenderer


class Order(models.Model):
    id = models.BigIntegerField(primary_key=True)
    class Meta:
        app_label = "shop"

class OrderLine(models.Model):
    id = models.BigIntegerField(primary_key=True)
    order = models.ForeignKey(Order, models.CASCADE)
    class Meta:
        app_label = "shop"

class Plain(serializers.ModelSerializer):
    class Meta:
        model, fields = OrderLine, ["id", "order"]

class Strings(serializers.ModelSerializer):
    id = serializers.CharField(read_only=True)
    order = serializers.PrimaryKeyRelatedField(pk_field=serializers.CharField(), queryset=Order.objects.all())
    class Meta:
        model, fields = OrderLine, ["id", "order"]

line = OrderLine(id=$key, order_id=$key)
print(JSONRenderer().render(Plain(line).data).decode())
print(JSONRenderer().render(Strings(line).data).decode())
order = Strings().fields["order"]
order.queryset = type("Orders", (), {"get": lambda self, pk: Order(id=Order._meta.pk.to_python(pk))})()
print(order.to_internal_value("$key").id)
END
$prints{drf} = [ qq({"id":$key,"order":$key}), qq({"id":"$key","order":"$key"}), $key ];

# Also what lastInsertId() returns: an error, the number that a trigger made, and the
# remedies.
$source{php} = <<'END';
<?php
require 'Doctrine/DBAL/autoload.php';

use Doctrine\DBAL\DriverManager;

$id = (int) getenv('KEY');
echo json_encode(['id' => $id]), "\n";
echo json_encode(['id' => (string) $id]), "\n";

$insert = "INSERT INTO orders (item) VALUES ('book')";
foreach (['PDO', 'Doctrine'] as $name) {
    foreach (['orders', 'audited'] as $table) {
        if ($name == 'PDO') {
            $conn = new PDO('pgsql:');
            $conn->exec("INSERT INTO $table (item) VALUES ('book')");
        } else {
            $conn = DriverManager::getConnection(['driver' => 'pdo_pgsql', 'host' => getenv('PGHOST'),
                'port' => getenv('PGPORT'), 'dbname' => getenv('PGDATABASE'), 'user' => getenv('PGUSER')]);
            $conn->insert($table, ['item' => 'book']);
        }
        try {
            $id = $conn->lastInsertId();
        } catch (Exception $e) {
            $id = preg_replace('/.*SQLSTATE\[(\w+)\].*ERROR: +/s', '$1 ', $e->getMessage());
        }
        echo "$name $table ", $id, "\n";
        $read = fn ($sql) => $name == 'PDO' ? $conn->query($sql)->fetchColumn() : $conn->fetchOne($sql);
        echo $read('SELECT snowflake_currval() = max(id) FROM ' . $table) ? 'currval' : 'another', "\n";
        $returned = $read("INSERT INTO $table (item) VALUES ('book') RETURNING id");
        echo $returned === $read("SELECT max(id) FROM $table") ? 'returned' : 'another', "\n";
    }
}
END
my $no_lastval = '55000 lastval is not yet defined in this session';
$prints{php} = [
	$number, $string,
	map { ("$_ orders $no_lastval", qw(currval returned), "$_ audited " . ($_ eq 'PDO' ? 1 : 3), qw(currval returned)) }
	  qw(PDO Doctrine) ];

# Tools of npm, with the Node.js of PostGraphile 5.
my $npm = <<'END';
import { createRequire } from 'node:module';

const need = createRequire(`${process.env.SNOWFLAKE_NPM_TOOLS}/`);
const key = process.env.KEY;
END

# Rows that refer to an order, and jobs, as JSON that the database makes.
$source{reviver} = $npm . <<'END';
const pg = need('pg');
const { Kysely, PostgresDialect } = need('kysely');
const { jsonArrayFrom } = need('kysely/helpers/postgres');
const { drizzle } = need('drizzle-orm/node-postgres');
const { relations } = need('drizzle-orm');
const { pgTable, bigint } = need('drizzle-orm/pg-core');
const { Logger, makeWorkerUtils, runOnce } = need('graphile-worker');

const pool = new pg.Pool();
const utils = await makeWorkerUtils({ pgPool: pool });
const id = bigint({ mode: 'bigint' }).primaryKey();
const a = pgTable('a', { id });
const b = pgTable('b', { id, a: bigint({ mode: 'bigint' }) });
const r1 = relations(a, ({ many }) => ({ b: many(b) }));
const r2 = relations(b, ({ one }) => ({ of: one(a, { fields: [b.a], references: [a.id] }) }));

await utils.migrate();
await pool.query(`CREATE TABLE a (id bigint PRIMARY KEY);
	CREATE TABLE b (id bigint PRIMARY KEY, a bigint REFERENCES a, small integer DEFAULT 7);
	INSERT INTO a VALUES (${key}); INSERT INTO b SELECT ${key} + 2 * n, ${key} FROM generate_series(0, 1) n`);

async function read() {
	const [row] = await new Kysely({ dialect: new PostgresDialect({ pool }) }).selectFrom('a').select((from) => [jsonArrayFrom(
		from.selectFrom('b').select(['b.id', 'b.small']).whereRef('b.a', '=', 'a.id').orderBy('b.id')).as('b')]).execute();
	const jobs = [];

	console.log('Kysely', ...row.b.map((line) => line.id), typeof row.b[0].small);
	const order = await drizzle({ client: pool, schema: { a, b, r1, r2 } }).query.a.findFirst({ with: { b: true } });
	console.log('Drizzle', ...order.b.map((line) => String(line.id)).sort());
	await pool.query("SELECT graphile_worker.add_job('pack', json_build_object('id', id)) FROM b");
	await runOnce({ pgPool: pool, logger: new Logger(() => () => {}),
		taskList: { pack: async (payload) => { jobs.push(payload.id); } } });
	console.log('worker', ...jobs.sort());
	console.log('jsonb', ...(await pool.query('SELECT jsonb_agg(id ORDER BY id) AS ids FROM b')).rows[0].ids);
}

await read();
const exact = (text) => JSON.parse(text, (key, value, { source }) =>
	Number.isInteger(value) && !Number.isSafeInteger(value) ? source : value);
pg.types.setTypeParser(114, exact);    // json
pg.types.setTypeParser(3802, exact);   // jsonb
await read();
process.exit(0);
END
$prints{reviver} = [
	"Kysely 384308787294507000 384308787294507000 number", "Drizzle 384308787294507008 384308787294507008",
	"worker 384308787294507000 384308787294507000", "jsonb 384308787294507000 384308787294507000",
	"Kysely $key 384308787294507011 number", map { "$_ $key 384308787294507011" } qw(Drizzle worker jsonb) ];

$source{knex} = $npm . <<'END';
const knex = need('knex')({ client: 'pg', connection: {} });
const show = async () => console.log((await knex('knexed').columnInfo('id')).defaultValue);

await knex.schema.createTable('knexed', (t) => {
	t.bigInteger('id').primary().defaultTo(knex.raw('snowflake_generate()'));
	t.integer('n');
});
await show();
await knex.schema.alterTable('knexed', (t) => { t.bigInteger('id').alter({ alterNullable: false }); });
await show();
await knex.schema.alterTable('knexed', (t) => {
	t.bigInteger('id').defaultTo(knex.raw('snowflake_generate()')).alter({ alterNullable: false });
});
await show();
const made = await knex('knexed').insert([{ n: 1 }, { n: 2 }], ['id']);
console.log(BigInt(made[1].id) > BigInt(made[0].id) && typeof made[0].id);
await knex.destroy();
END
$prints{knex} = [ 'snowflake_generate()', 'null', 'snowflake_generate()', 'string' ];

$source{mikroorm} = $npm . <<'END';
const { MikroORM, EntitySchema } = need('@mikro-orm/postgresql');

const ids = [
	{ type: 'bigint', primary: true, autoincrement: false, defaultRaw: 'snowflake_nextval()' },
	{ type: 'bigint', primary: true, autoincrement: false, defaultRaw: 'snowflake_generate()' },
];

for (const id of ids) {
	const orm = await MikroORM.init({ dbName: process.env.PGDATABASE, host: process.env.PGHOST,
		port: Number(process.env.PGPORT), user: process.env.PGUSER, allowGlobalContext: true,
		entities: [new EntitySchema({ name: 'Mikro', tableName: 'mikro', properties: { id, item: { type: 'text' } } })] });
	await orm.em.getConnection().execute(`CREATE TABLE IF NOT EXISTS mikro (id bigint PRIMARY KEY, item text NOT NULL);
		ALTER TABLE mikro ALTER id SET DEFAULT ${id.defaultRaw}`);
	const migration = (await orm.schema.getUpdateSchemaSQL({ wrap: false, safe: true }))
		.split('\n').filter((line) => line.includes('mikro')).join(' ');
	console.log(migration);
	await orm.em.getConnection().execute('CREATE OR REPLACE VIEW of_mikro AS SELECT id FROM mikro');
	if (migration)
		await orm.em.getConnection().execute(migration).catch((error) => console.log(error.code, error.message.split(' - ').at(-1)));
	const made = [1, 2].map((n) => orm.em.create('Mikro', { item: String(n) }));
	await orm.em.flush();
	console.log(made[1].id - made[0].id > 0n && typeof made[0].id);
	await orm.close(true);
}
END
$prints{mikroorm} = [ 'alter table "mikro" alter column "id" type bigint using ("id"::bigint);',
	'0A000 cannot alter type of a column used by a view or rule', 'bigint', '', 'bigint' ];

$source{loopback} = $npm . <<'END';
const { juggler } = need('@loopback/repository');
const db = new juggler.DataSource({ name: 'db', connector: need('loopback-connector-postgresql'),
	host: process.env.PGHOST, port: process.env.PGPORT, user: process.env.PGUSER, database: process.env.PGDATABASE });
const properties = {
	number: { type: 'number', id: true, generated: true },
	string: { type: 'string', id: true, generated: true, useDefaultIdType: false, postgresql: { dataType: 'bigint' } },
};

await new Promise((done, failed) => db.connector.execute(
	`CREATE TABLE looped (id bigint PRIMARY KEY DEFAULT snowflake_generate(), item text); INSERT INTO looped VALUES (${key}, 'book')`,
	[], (error) => error ? failed(error) : done()));
for (const [name, id] of Object.entries(properties)) {
	const Order = db.createModel(`Looped_${name}`, { id, item: { type: 'string' } }, { postgresql: { table: 'looped' } });
	const [first] = await Order.find();
	console.log(name, first.id, (await Order.findById(first.id))?.item);
	if (name === 'string')
		console.log((await Order.findById((await Order.create({ item: 'lamp' })).id)).item);
}
process.exit(0);
END
$prints{loopback} = [ 'number 384308787294507000 undefined', "string $key book", 'lamp' ];

$source{peewee} = <<'END';
import os
import peewee

db = peewee.PostgresqlDatabase(os.environ["PGDATABASE"])
db.execute_sql("CREATE TABLE peewee (id bigint PRIMARY KEY DEFAULT snowflake_generate(), item text)")

class Plain(peewee.Model):
    id = peewee.BigIntegerField(primary_key=True)
    item = peewee.TextField()
    class Meta: database, table_name = db, "peewee"

class Order(peewee.Model):
    id = peewee.BigAutoField()
    item = peewee.TextField()
    class Meta: database, table_name = db, "peewee"

for model in Plain, Order:
    rows = [model(item=str(n)) for n in range(3)]
    try:
        model.bulk_create(rows)
        print(sorted(row.id for row in rows) == [row.id for row in Order.select().order_by(Order.id)])
    except peewee.IntegrityError as e:
        print(str(e).split("\n")[0])
        db.rollback()
END
$prints{peewee} = [ 'null value in column "id" of relation "peewee" violates not-null constraint', 'True' ];

$source{pandas} = <<'END';
import os
import pandas
from sqlalchemy import create_engine

engine = create_engine("postgresql+psycopg2://")
engine.execute(f"""CREATE TABLE nodes (id bigint PRIMARY KEY, parent bigint);
    INSERT INTO nodes SELECT {os.environ["KEY"]} + n, {os.environ["KEY"]} + nullif(n - 1, -1) FROM generate_series(0, 6) n""")
for columns in "id, parent", "id, parent::text":
    nodes = pandas.read_sql_query("SELECT " + columns + " FROM nodes", engine)
    print(nodes.id.nunique(), nodes.parent.nunique(), nodes.parent.dtype)
END
$prints{pandas} = [ '7 1 float64', '7 6 object' ];

$source{alembic} = <<'END';
import sqlalchemy
from alembic.autogenerate import produce_migrations, render_python_code
from alembic.migration import MigrationContext

engine = sqlalchemy.create_engine("postgresql+psycopg2://")
for name in "snowflake_nextval", "snowflake_generate":
    engine.execute(f"DROP TABLE IF EXISTS reflected; CREATE TABLE reflected (id bigint PRIMARY KEY DEFAULT {name}('javascript'))")
    tables = sqlalchemy.MetaData()
    table = sqlalchemy.Table("reflected", tables, autoload_with=engine)
    print("BIGSERIAL" in str(sqlalchemy.schema.CreateTable(table).compile(engine)))
    engine.execute("DROP TABLE reflected")
    tables.create_all(engine)
    print([key < 4 for key, in engine.execute("INSERT INTO reflected SELECT FROM generate_series(1, 3) RETURNING id")])
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"include_name": lambda name, kind, of: kind != "table" or name == "reflected"})
        print("autoincrement=True" in render_python_code(produce_migrations(context, sqlalchemy.MetaData()).downgrade_ops))
END
$prints{alembic} = [ 'True', '[True, True, True]', 'True', 'False', '[False, False, False]', 'False' ];

$source{sequel} = <<'END';
require 'sequel'

db = Sequel.connect(adapter: 'postgres', host: ENV['PGHOST'], port: ENV['PGPORT'], database: ENV['PGDATABASE'], user: ENV['PGUSER'])
%w(nextval generate).each do |name|
  db.run "CREATE TABLE by_#{name} (id bigint PRIMARY KEY DEFAULT snowflake_#{name}(), item text)"
  begin
    p db.reset_primary_key_sequence(:"by_#{name}")
  rescue Sequel::DatabaseError => e
    puts e.message.lines.first
  end
end
p db[:by_generate].insert(item: 'book') == db[:by_generate].max(:id)
END
$prints{sequel} = [ 'PG::InvalidName: ERROR:  invalid name syntax', 'nil', 'true' ];

# The lines of the page's tables, and its block.
my ($table) = slurp_file("$root/doc/applications.md") =~ /^### Keys in JSON\n(.*?)^### /ms;
my $code = join "\n", values %source;
my ($others) = slurp_file("$root/doc/applications.md") =~ /^### Others that we tried\n(.*?)^### /ms;
my @lines = map { s/^ +| +$//gr } map { /(`+)(.+?)\1/g } $table =~ /^\|[^|]*\|([^|]*)\|$/mg,
  $others =~ /^\|(?![^|]*(?:pgcopydb|pgpool|not run))[^|]*\|[^|]*\|([^|]*)\|$/mg;
@lines = (grep({ !/^`+$/ } @lines), map { split /\n/ } $table =~ /^```js\n(.*?)^```/msg);
is_deeply([ grep { index($code, $_) < 0 } @lines ], [], @lines . ' lines of the page are those of the programs');
cmp_ok(scalar @lines, '>=', 16, 'all that the page has');

my $node = start_server('main', "listen_addresses = '127.0.0.1'");
query($node, q{CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), item text NOT NULL);
	CREATE TABLE audited (LIKE orders INCLUDING ALL);
	CREATE TABLE audit (number bigserial PRIMARY KEY, item text);
	CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN INSERT INTO audit (item) VALUES (NEW.item); RETURN NEW; END $$;
	CREATE TRIGGER note AFTER INSERT ON audited FOR EACH ROW EXECUTE FUNCTION note()});
is(query($node, q{CREATE TABLE log (id bigint DEFAULT snowflake_nextval());
	CREATE FUNCTION log() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO log DEFAULT VALUES; RETURN NEW; END $$;
	CREATE TABLE logged (id bigint DEFAULT snowflake_nextval());
	CREATE TRIGGER log AFTER INSERT ON logged FOR EACH ROW EXECUTE FUNCTION log();
	INSERT INTO logged DEFAULT VALUES;
	SELECT snowflake_currval() = log.id AND log.id <> logged.id FROM log, logged}), 't',
	'snowflake_currval() returns an ID that a trigger made');
local @ENV{qw(KEY PGHOST PGPORT PGDATABASE PGUSER)} =
  ($key, '127.0.0.1', $node->port, 'postgres', query($node, 'SELECT current_user'));
foreach my $name (grep { part($_) } sort keys %source)
{
	my $file = "$dir/use_$name." . ($ending{$name} // $name);
	my ($out, $err) = ('', '');

	append_to_file($file, $source{$name});
	ok(IPC::Run::run([ 'sh', '-c', "$command{$name} '$file'" ], '<', \'', '>', \$out, '2>', \$err,
			IPC::Run::timeout(5 * $PostgreSQL::Test::Utils::timeout_default)), "$name: it ends well")
	  or diag($err);
	is_deeply([ split /\n/, $out ], $prints{$name}, "$name: it does what the page says");
}
$node->stop;

done_testing();
