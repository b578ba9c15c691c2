// Snowflake keys with TypeORM. PGHOST and the like name the server.
'use strict';

const { DataSource, EntitySchema, MoreThan } = require('typeorm');

// A key comes back as a string, which JSON keeps as it is. "generated" would make a
// serial. In TypeScript the same is
//	@PrimaryColumn({ type: 'bigint', default: () => 'snowflake_generate()' }) id: string
const id = { type: 'bigint', primary: true, default: () => 'snowflake_generate()' };

const Order = new EntitySchema({
	name: 'Order',
	tableName: 'orders',
	columns: { id, item: { type: 'text' } },
	relations: { lines: { type: 'one-to-many', target: 'OrderLine', inverseSide: 'order', cascade: true } },
});
const OrderLine = new EntitySchema({
	name: 'OrderLine',
	tableName: 'order_lines',
	columns: { id, orderId: { type: 'bigint', name: 'order_id' }, note: { type: 'text' } },
	relations: {
		order: { type: 'many-to-one', target: 'Order', inverseSide: 'lines', joinColumn: { name: 'order_id' } },
	},
});

const db = new DataSource({
	type: 'postgres',
	host: process.env.PGHOST,
	port: process.env.PGPORT,
	username: process.env.PGUSER,
	database: process.env.PGDATABASE,
	entities: [Order, OrderLine],
});

async function main() {
	await db.initialize();

	// Make the tables, and check that the schema does not change after that. In a project,
	// migrations do this.
	await db.synchronize();
	const { upQueries } = await db.driver.createSchemaBuilder().log();
	if (upQueries.length > 0)
		throw new Error(`the tables are others: ${upQueries[0].query}`);

	// one row, and rows that refer to it
	const orders = db.getRepository(Order);
	const { id } = await orders.save({ item: 'book', lines: [{ note: 'wrap it' }, { note: 'quickly' }] });
	const order = await orders.findOne({
		where: { id }, relations: { lines: true }, order: { lines: { id: 'ASC' } },
	});
	console.log(`inserted ${id}`);
	for (const line of order.lines)
		console.log(`line ${line.id} of ${line.orderId}`);
	console.log(`json ${JSON.stringify(order)}`);

	// many rows: in one statement the order of the keys is that of the rows
	const items = Array.from({ length: 1000 }, (_, n) => ({ item: `item ${n}` }));
	const bulk = await orders.insert(items);
	console.log(`bulk ${bulk.identifiers.map((row) => row.id).join(' ')}`);

	// page by page: each page begins after the last key of the page before
	for (let last = '0', page; ; last = page.at(-1).id) {
		page = await orders.find({ where: { id: MoreThan(last) }, order: { id: 'ASC' }, take: 300 });
		if (page.length === 0)
			break;
		console.log(`page ${page.map((row) => row.id).join(' ')}`);
	}
	await db.destroy();
}

main().catch((e) => {
	console.error(e);
	process.exit(1);
});
