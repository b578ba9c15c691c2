// Snowflake keys with node-postgres, the driver "pg". PGHOST and the like name the
// server.
'use strict';

const { Client } = require('pg');

async function main() {
	const client = new Client();
	await client.connect();
	await client.query(`
		CREATE TABLE orders (
			id bigint PRIMARY KEY DEFAULT snowflake_nextval(),
			item text NOT NULL
		);
		CREATE TABLE order_lines (
			id bigint PRIMARY KEY DEFAULT snowflake_nextval(),
			order_id bigint NOT NULL REFERENCES orders,
			note text NOT NULL
		)`);

	// one row: its key comes back as a string, which JSON keeps as it is. Do not
	// convert the string to a Number, unless the layout is "javascript".
	const inserted = await client.query(
		'INSERT INTO orders (item) VALUES ($1) RETURNING id', ['book']);
	const { id } = inserted.rows[0];
	console.log('inserted', id);

	// rows that refer to it
	const { rows: lines } = await client.query(`
		INSERT INTO order_lines (order_id, note) SELECT $1::bigint, unnest($2::text[])
		RETURNING id, order_id AS "orderId"`, [id, ['wrap it', 'quickly']]);
	for (const line of lines)
		console.log('line', line.id, 'of', line.orderId);
	console.log('json', JSON.stringify({ id, lines }));

	// many rows: in one statement the order of the keys is that of the rows
	const items = Array.from({ length: 1000 }, (_, n) => `item ${n}`);
	const bulk = await client.query(
		'INSERT INTO orders (item) SELECT unnest($1::text[]) RETURNING id', [items]);
	console.log('bulk', ...bulk.rows.map((row) => row.id));

	// page by page: each page begins after the last key of the page before
	for (let last = '0', page; ; last = page.at(-1).id) {
		page = (await client.query(
			'SELECT id, item FROM orders WHERE id > $1 ORDER BY id LIMIT 300',
			[last])).rows;
		if (page.length === 0)
			break;
		console.log('page', ...page.map((row) => row.id));
	}
	await client.end();
}

main().catch((e) => {
	console.error(e);
	process.exit(1);
});
