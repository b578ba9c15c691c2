// Snowflake keys with Drizzle. The server is named by PGHOST and the like.
'use strict';

const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const { asc, eq, gt } = require('drizzle-orm');
const { drizzle } = require('drizzle-orm/node-postgres');
const { migrate } = require('drizzle-orm/node-postgres/migrator');
const { Pool } = require('pg');
const { orders, orderLines } = require('./schema.js');

process.chdir(__dirname);

function kit(...args) {
	return execFileSync('node_modules/.bin/drizzle-kit', args,
		{ encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] });
}

// There is no difference between the tables and a schema.
function compare(...options) {
	const pushed = kit('push', ...options);

	if (!pushed.includes('No changes detected'))
		throw new Error(`the tables are others: ${pushed}`);
}

// A key is a BigInt, exact, of which JSON.stringify makes an error: write it as a
// string.
function json(value) {
	return JSON.stringify(value, (_, v) => typeof v === 'bigint' ? String(v) : v);
}

async function main() {
	const db = drizzle({ client: new Pool() });

	// the tables, by a migration that is made of schema.js
	kit('generate');
	await migrate(db, { migrationsFolder: 'out/drizzle' });
	compare();

	// Nor is there one to the schema that is read from the database. But in that
	// the keys are numbers, and must be made BigInts by hand.
	kit('pull', '--config', 'drizzle.pulled.config.js');
	const pulled = fs.readFileSync('out/pulled/schema.ts', 'utf8');
	fs.writeFileSync('out/pulled/schema.ts',
		pulled.replaceAll('mode: "number"', 'mode: "bigint"'));
	compare('--config', 'drizzle.pulled.config.js');

	// one row, with others that refer to it
	const order = await db.transaction(async (tx) => {
		const [{ id }] = await tx.insert(orders).values({ item: 'book' }).returning();

		await tx.insert(orderLines).values([
			{ orderId: id, note: 'wrap it' }, { orderId: id, note: 'quickly' }]);
		return id;
	});
	console.log(`inserted ${order}`);

	// By a join, and not by db.query and "with": those read through JSON, in which
	// keys become other numbers.
	const rows = await db.select().from(orders)
		.innerJoin(orderLines, eq(orderLines.orderId, orders.id))
		.where(eq(orders.id, order)).orderBy(asc(orderLines.id));
	const lines = rows.map((row) => row.order_lines);
	for (const line of lines)
		console.log(`line ${line.id} of ${line.orderId}`);
	console.log(`json ${json({ ...rows[0].orders, lines })}`);

	// many rows: in one statement the order of the keys is that of the rows
	const items = Array.from({ length: 1000 }, (_, n) => ({ item: `item ${n}` }));
	const bulk = await db.insert(orders).values(items).returning({ id: orders.id });
	console.log(`bulk ${bulk.map((row) => row.id).join(' ')}`);

	// page by page: a key is the cursor, of any page but the first
	for (let last = 0n, page; ; last = page.at(-1).id) {
		page = await db.select().from(orders).where(gt(orders.id, last))
			.orderBy(asc(orders.id)).limit(300);
		if (page.length === 0)
			break;
		console.log(`page ${page.map((row) => row.id).join(' ')}`);
	}
	await db.$client.end();
}

main().catch((e) => {
	console.error(e);
	process.exit(1);
});
