// Snowflake keys with Drizzle. PGHOST and the like name the server.
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

// Check that the tables do not differ from a schema.
function compare(...options) {
	const pushed = kit('push', ...options);

	if (!pushed.includes('No changes detected'))
		throw new Error(`the tables are others: ${pushed}`);
}

// A key is a BigInt, which is exact. JSON.stringify refuses a BigInt: write the key as
// a string.
function json(value) {
	return JSON.stringify(value, (_, v) => typeof v === 'bigint' ? String(v) : v);
}

async function main() {
	const db = drizzle({ client: new Pool() });

	// make the tables, by a migration that drizzle-kit makes from schema.js
	kit('generate');
	await migrate(db, { migrationsFolder: 'out/drizzle' });
	compare();

	// The tables do not differ either from the schema that "pull" reads from the
	// database. But in that schema keys are numbers: make them BigInts by hand.
	kit('pull', '--config', 'drizzle.pulled.config.js');
	const pulled = fs.readFileSync('out/pulled/schema.ts', 'utf8');
	fs.writeFileSync('out/pulled/schema.ts',
		pulled.replaceAll('mode: "number"', 'mode: "bigint"'));
	compare('--config', 'drizzle.pulled.config.js');

	// one row, and rows that refer to it
	const order = await db.transaction(async (tx) => {
		const [{ id }] = await tx.insert(orders).values({ item: 'book' }).returning();

		await tx.insert(orderLines).values([
			{ orderId: id, note: 'wrap it' }, { orderId: id, note: 'quickly' }]);
		return id;
	});
	console.log(`inserted ${order}`);

	// Use a join. db.query with "with" reads through JSON, in which keys become other
	// numbers.
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

	// page by page: each page begins after the last key of the page before
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
