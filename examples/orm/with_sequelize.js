// Snowflake keys with Sequelize. PGHOST and the like name the server.
'use strict';

const { DataTypes, Op, Sequelize } = require('sequelize');

const sequelize = new Sequelize(process.env.PGDATABASE, process.env.PGUSER, process.env.PGPASSWORD, {
	dialect: 'postgres',
	host: process.env.PGHOST,
	port: process.env.PGPORT,
	logging: false,
});

// A key comes back as a string, which JSON keeps as it is. If the model names no primary
// key, Sequelize makes a serial.
function model(name, table, columns) {
	return sequelize.define(name, {
		id: {
			type: DataTypes.BIGINT,
			primaryKey: true,
			defaultValue: Sequelize.literal('snowflake_generate()'),
		},
		...columns,
	}, { tableName: table, timestamps: false });
}

const Order = model('order', 'orders', {
	item: { type: DataTypes.TEXT, allowNull: false },
});
const OrderLine = model('orderLine', 'order_lines', {
	note: { type: DataTypes.TEXT, allowNull: false },
});
const key = { name: 'orderId', field: 'order_id', allowNull: false };

Order.hasMany(OrderLine, { as: 'lines', foreignKey: key });
OrderLine.belongsTo(Order, { foreignKey: key });

async function main() {
	// In a project, migrations do this. "alter" keeps the default.
	await sequelize.sync();
	await sequelize.sync({ alter: true });

	// one row, and rows that refer to it
	const { id } = await Order.create(
		{ item: 'book', lines: [{ note: 'wrap it' }, { note: 'quickly' }] }, { include: 'lines' });
	const order = await Order.findByPk(id, { include: 'lines', order: [['lines', 'id']] });
	console.log(`inserted ${id}`);
	for (const line of order.lines)
		console.log(`line ${line.id} of ${line.orderId}`);
	console.log(`json ${JSON.stringify(order)}`);

	// many rows: in one statement the order of the keys is that of the rows
	const items = Array.from({ length: 1000 }, (_, n) => ({ item: `item ${n}` }));
	const bulk = await Order.bulkCreate(items, { returning: ['id'] });
	console.log(`bulk ${bulk.map((row) => row.id).join(' ')}`);

	// page by page: each page begins after the last key of the page before
	for (let last = '0', page; ; last = page.at(-1).id) {
		page = await Order.findAll({ where: { id: { [Op.gt]: last } }, order: ['id'], limit: 300 });
		if (page.length === 0)
			break;
		console.log(`page ${page.map((row) => row.id).join(' ')}`);
	}
	await sequelize.close();
}

main().catch((e) => {
	console.error(e);
	process.exit(1);
});
