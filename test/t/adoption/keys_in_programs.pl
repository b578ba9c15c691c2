# What programs make of keys, as doc/applications.md says under "Keys in JSON" and
# "lastInsertId()". In JSON a key is a string with the line of the page, and without that a
# number, or an error. Each such line must be that of a program here.
#
# takes: 20 s
# part js: nodejs
# part go: golang-go
# part java: default-jdk-headless libjackson2-databind-java
# part drf: python3-django python3-djangorestframework
# part php: php-cli php-pgsql php-doctrine-dbal
use SnowflakeTest;

my $dir = PostgreSQL::Test::Utils::tempdir;
my $jars = join ':', map { "/usr/share/java/$_.jar" } qw(jackson-core jackson-databind jackson-annotations);
my %command = (
	js => 'node',
	go => "env GO111MODULE=off GOFLAGS= GOCACHE='$dir/go' /usr/bin/go run",
	java => "javac -d '$dir' -cp '$jars' '$dir/use_java.java' && java -XX:-UsePerfData -cp '$dir:$jars' JsonKeys #",
	drf => '/usr/bin/python3',
	php => '/usr/bin/php');
my %ending = (drf => 'py');

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

# The lines of the page's table.
my ($table) = slurp_file("$root/doc/applications.md") =~ /^### Keys in JSON\n(.*?)^### /ms;
my $code = join "\n", values %source;
my @lines = map { s/^ +| +$//gr } map { /(`+)(.+?)\1/g } $table =~ /^\|[^|]*\|([^|]*)\|[^|]*\|$/mg;
@lines = grep { !/^`+$/ } @lines;
is_deeply([ grep { index($code, $_) < 0 } @lines ], [], @lines . ' lines of the page are those of the programs');
cmp_ok(scalar @lines, '>=', 6, 'all that the page has');

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
