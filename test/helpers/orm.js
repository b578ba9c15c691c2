// Check what doc/applications.md says that Prisma and Drizzle cannot do. Run by
// test/t/adoption/examples.pl after the example, in its database: the argument is
// its name, and PGDATABASE and similar variables name the place of its tables. In
// the database "public" the extension is in the schema of the tables. Prints a line
// "ok - ..." or "not ok - ..." for each check, and at the end "done".
'use strict';

const assert = require('node:assert');
const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const { createRequire } = require('node:module');
const path = require('node:path');

process.chdir(path.join(__dirname, '../../examples/orm'));
const need = createRequire(path.resolve('package.json'));

async function check(name, f) {
	try {
		await f();
		console.log(`ok - ${name}`);
	} catch (e) {
		console.log(`not ok - ${name}`);
		console.error(e.message);
	}
}

// Return the output of a command that fails; drizzle-kit ends with 0 even then.
function complaint(database, command, ...args) {
	try {
		return execFileSync('sh', ['-c', `"$0" "$@" 2>&1`, `node_modules/.bin/${command}`, ...args], {
			encoding: 'utf8',
			env: { ...process.env, PGDATABASE: database, CHECKPOINT_DISABLE: '1' },
			stdio: ['ignore', 'pipe', 'inherit'],
		});
	} catch (e) {
		return e.stdout;
	}
}

// Ten rows that one statement inserts. Their keys are consecutive, so most are no
// multiples of 64, and have no exact double.
const notes = Array.from({ length: 10 }, (_, n) => ({ note: String(n) }));

function fewerKeys(lines) {
	assert.strictEqual(lines.length, 10);
	assert(new Set(lines.map((line) => line.id)).size < 10);
}

const programs = {
	async drizzle() {
		const { relations } = need('drizzle-orm');
		const { drizzle } = need('drizzle-orm/node-postgres');
		const { Pool } = need('pg');
		const { orders, orderLines } = need('./schema.js');
		const db = drizzle({
			client: new Pool(),
			schema: {
				orders,
				orderLines,
				r1: relations(orders, ({ many }) => ({ lines: many(orderLines) })),
				r2: relations(orderLines, ({ one }) => ({
					order: one(orders, { fields: [orderLines.orderId], references: [orders.id] }),
				})),
			},
		});

		const [{ id }] = await db.insert(orders).values({ item: 'ten' }).returning();
		await db.insert(orderLines).values(notes.map((note) => ({ ...note, orderId: id })));
		await check('db.query gives one key to several related rows', async () => {
			const order = await db.query.orders.findFirst({
				where: (order, { eq }) => eq(order.id, id),
				with: { lines: true },
			});
			fewerKeys(order.lines);
		});
		await db.$client.end();
		await check('drizzle-kit pull writes keys as numbers', () => {
			fs.rmSync('out/pulled', { recursive: true });
			complaint(process.env.PGDATABASE, 'drizzle-kit', 'pull',
				'--config', 'drizzle.pulled.config.js');
			assert.match(fs.readFileSync('out/pulled/schema.ts', 'utf8'),
				/id: bigint\({ mode: "number" }\)/);
		});
		await check('drizzle-kit push finds nothing to drop', () => {
			assert.match(complaint(process.env.PGDATABASE, 'drizzle-kit', 'push'), /No changes detected/);
		});
		await check('without a filter it begins to drop the views, and is refused', () => {
			fs.writeFileSync('out/all.config.js', `module.exports = {
				...require('../drizzle.config.js'), tablesFilter: undefined,
			};`);
			assert.match(complaint(process.env.PGDATABASE, 'drizzle-kit', 'push', '--config', 'out/all.config.js'),
				/cannot drop view \w+ because extension snowflake requires it/);
		});
		await check('these are all that it would drop', () => {
			// with "strict" it prints the statements and asks, for which it needs a terminal
			const asked = complaint(process.env.PGDATABASE, 'drizzle-kit', 'push', '--strict', '--verbose',
				'--config', 'out/all.config.js');
			assert.deepStrictEqual(asked.match(/^(CREATE|ALTER|DROP) .*$/gm).sort(), [
				'DROP VIEW "public"."pg_stat_snowflake";',
				'DROP VIEW "public"."pg_stat_snowflake_layouts";',
				'DROP VIEW "public"."snowflake_feed_servers";',
				'DROP VIEW "public"."snowflake_horizon_holders";']);
		});
	},

	async prisma() {
		// a client in a directory of its own, with that feature
		const schema = fs.readFileSync('schema.prisma', 'utf8')
			.replace('"./out/client"', '"./joins"')
			.replace('engineType', 'previewFeatures = ["relationJoins"]\n  engineType');
		fs.writeFileSync('out/joins.prisma', schema);
		complaint(process.env.PGDATABASE, 'prisma', 'generate', '--schema', 'out/joins.prisma');

		const { PrismaPg } = need('@prisma/adapter-pg');
		const { PrismaClient } = need('./out/joins');
		const client = new PrismaClient({ adapter: new PrismaPg({}) });
		const { id } = await client.order.create(
			{ data: { item: 'ten', lines: { createMany: { data: notes } } } });
		const query = { where: { id }, include: { lines: true } };
		await check('relationJoins gives one key to several related rows', async () => {
			fewerKeys((await client.order.findFirst(query)).lines);
		});
		await check('the load strategy "query" does not', async () => {
			const order = await client.order.findFirst({ ...query, relationLoadStrategy: 'query' });
			assert.strictEqual(new Set(order.lines.map((line) => line.id)).size, 10);
		});
		await check('JSON.stringify refuses a key', async () => {
			const order = await client.order.findFirst();
			assert.throws(() => JSON.stringify(order), TypeError);
		});
		await client.$disconnect();
		await check('prisma db push finds nothing to drop', () => {
			assert.match(complaint(process.env.PGDATABASE, 'prisma', 'db', 'push', '--skip-generate'),
				/already in sync/);
		});
	},
};

programs[process.argv[2]]().then(() => console.log('done'));
