#!/usr/bin/env php
<?php
// Snowflake keys with Laravel's Eloquent. PGHOST and the like name the server.

// Debian's Laravel 8 is older than Debian's PHP, which warns of that.
error_reporting(E_ALL & ~E_DEPRECATED);
require 'Illuminate/Database/autoload.php';

use Illuminate\Database\Capsule\Manager as DB;
use Illuminate\Database\Eloquent\Model;
use Illuminate\Database\Schema\Blueprint;

// In a Laravel application, config/database.php does this.
$db = new DB;
$db->addConnection([
    'driver' => 'pgsql', 'host' => getenv('PGHOST'), 'port' => getenv('PGPORT'),
    'database' => getenv('PGDATABASE'), 'username' => getenv('PGUSER')]);
$db->setAsGlobal();
$db->bootEloquent();

// In a project, migrations do this. With id() Laravel would make a bigserial. DB::raw()
// makes the default an SQL expression, and not a text.
DB::schema()->create('orders', function (Blueprint $table) {
    $table->bigInteger('id')->primary()->default(DB::raw('snowflake_generate()'));
    $table->text('item');
});
DB::schema()->create('order_lines', function (Blueprint $table) {
    $table->bigInteger('id')->primary()->default(DB::raw('snowflake_generate()'));
    $table->foreignId('order_id')->constrained();
    $table->text('note');
});

// $incrementing stays true, so Laravel reads the key of a new row from the database.
class Order extends Model
{
    public $timestamps = false;
    protected $guarded = [];

    public function lines()
    {
        return $this->hasMany(OrderLine::class);
    }
}

class OrderLine extends Model
{
    public $timestamps = false;
    protected $guarded = [];
}

// one row, and rows that refer to it; its key comes back as an int, which is exact
$order = DB::connection()->transaction(function () {
    $order = Order::create(['item' => 'book']);
    $order->lines()->createMany([['note' => 'wrap it'], ['note' => 'quickly']]);
    return $order;
});
echo "inserted $order->id\n";
foreach ($order->lines()->orderBy('id')->get() as $line) {
    echo "line $line->id of $line->order_id\n";
}

// many rows: insert() does not return keys, so take the keys first. Take them in the
// transaction that inserts, or snowflake_horizon() does not cover the rows.
$keys = DB::connection()->transaction(function () {
    $keys = array_column(
        DB::select('SELECT snowflake_nextval_batch(?) AS id', [1000]), 'id');
    Order::insert(array_map(
        fn ($key, $n) => ['id' => $key, 'item' => "item $n"], $keys, array_keys($keys)));
    return $keys;
});
echo 'bulk ', implode(' ', $keys), "\n";

// page by page, by the key; chunkById() reads in this way, too
$last = 0;
while (count($page = Order::where('id', '>', $last)->orderBy('id')->limit(300)->pluck('id'))) {
    echo 'page ', $page->implode(' '), "\n";
    $last = $page->last();
}
