// Snowflake keys with Prisma. PGHOST and the like name the server.
'use strict';

const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const { PrismaPg } = require('@prisma/adapter-pg');

process.chdir(__dirname);

function prisma(...args) {
	return execFileSync('node_modules/.bin/prisma', args, {
		encoding: 'utf8',
		env: { ...process.env, CHECKPOINT_DISABLE: '1' },	// do not look for a newer version
		stdio: ['ignore', 'pipe', 'inherit'],
	});
}

// Make the tables, by a migration. "migrate dev" writes such a file, too, but needs a
// second database.
fs.mkdirSync('out/migrations/1_orders', { recursive: true });
fs.writeFileSync('out/migrations/1_orders/migration.sql', prisma(
	'migrate', 'diff', '--from-empty', '--to-schema-datamodel', 'schema.prisma', '--script'));
prisma('migrate', 'deploy');

// Check that nothing is lost: the tables do not differ from schema.prisma, and
// introspection does not change that file.
const pushed = prisma('db', 'push', '--skip-generate');
if (!pushed.includes('already in sync'))
	throw new Error(`the tables are others: ${pushed}`);
fs.copyFileSync('schema.prisma', 'out/pulled.prisma');
prisma('db', 'pull', '--schema', 'out/pulled.prisma');
const pulled = fs.readFileSync('out/pulled.prisma', 'utf8');
if (pulled !== fs.readFileSync('schema.prisma', 'utf8'))
	throw new Error(`another schema was pulled: ${pulled}`);

prisma('generate');
const { PrismaClient } = require('./out/client');

// A key is a BigInt, which is exact. JSON.stringify refuses a BigInt: write the key as
// a string.
function json(value) {
	return JSON.stringify(value, (_, v) => typeof v === 'bigint' ? String(v) : v);
}

async function main() {
	const client = new PrismaClient({ adapter: new PrismaPg({}) });

	// one row, and rows that refer to it
	const order = await client.order.create({
		data: {
			item: 'book',
			lines: { create: [{ note: 'wrap it' }, { note: 'quickly' }] },
		},
		include: { lines: { orderBy: { id: 'asc' } } },
	});
	console.log(`inserted ${order.id}`);
	for (const line of order.lines)
		console.log(`line ${line.id} of ${line.orderId}`);
	console.log(`json ${json(order)}`);

	// many rows: in one statement the order of the keys is that of the rows
	const items = Array.from({ length: 1000 }, (_, n) => ({ item: `item ${n}` }));
	const bulk = await client.order.createManyAndReturn({ data: items });
	console.log(`bulk ${bulk.map((row) => row.id).join(' ')}`);

	// page by page: each page begins after the last key of the page before
	for (let last = 0n, page; ; last = page.at(-1).id) {
		page = await client.order.findMany(
			{ where: { id: { gt: last } }, orderBy: { id: 'asc' }, take: 300 });
		if (page.length === 0)
			break;
		console.log(`page ${page.map((row) => row.id).join(' ')}`);
	}
	await client.$disconnect();
}

main().catch((e) => {
	console.error(e);
	process.exit(1);
});
