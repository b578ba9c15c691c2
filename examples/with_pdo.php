#!/usr/bin/env php
<?php
// Snowflake keys with PDO. PGHOST and the like name the server.

$pdo = new PDO('pgsql:');

$pdo->exec('
    CREATE TABLE orders (
        id bigint PRIMARY KEY DEFAULT snowflake_nextval(),
        item text NOT NULL
    );
    CREATE TABLE order_lines (
        id bigint PRIMARY KEY DEFAULT snowflake_nextval(),
        order_id bigint NOT NULL REFERENCES orders,
        note text NOT NULL
    )');

// Run a statement, and return its result.
function run($sql, ...$values)
{
    global $pdo;

    $statement = $pdo->prepare($sql);
    $statement->execute($values);
    return $statement;
}

// One row, and rows that refer to it. Its key comes back as an int, which is exact.
// lastInsertId() knows only sequences, so let the statement return the key. In JSON the
// key is a string, since JavaScript rounds large numbers.
$pdo->beginTransaction();
$id = run('INSERT INTO orders (item) VALUES (?) RETURNING id', 'book')->fetchColumn();
$lines = run('INSERT INTO order_lines (order_id, note) VALUES (?, ?), (?, ?) RETURNING id',
    $id, 'wrap it', $id, 'quickly')->fetchAll(PDO::FETCH_COLUMN);
$pdo->commit();
echo "inserted $id\n";
foreach ($lines as $line) {
    echo "line $line of $id\n";
}
echo 'json ', json_encode(['id' => (string) $id, 'lines' => array_map(
    fn ($line) => ['id' => (string) $line, 'orderId' => (string) $id], $lines)]), "\n";

// many rows: in one statement the order of the keys is that of the rows
$items = array_map(fn ($n) => "item $n", range(0, 999));
$bulk = run('INSERT INTO orders (item)
    SELECT value FROM json_array_elements_text(?) RETURNING id', json_encode($items));
echo 'bulk ', implode(' ', $bulk->fetchAll(PDO::FETCH_COLUMN)), "\n";

// page by page: each page begins after the last key of the page before
$last = 0;
while ($page = run('SELECT id FROM orders WHERE id > ? ORDER BY id LIMIT 300', $last)
        ->fetchAll(PDO::FETCH_COLUMN)) {
    echo 'page ', implode(' ', $page), "\n";
    $last = end($page);
}
