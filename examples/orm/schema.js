// The tables, for Drizzle and its kit.
'use strict';

const { sql } = require('drizzle-orm');
const { bigint, pgTable, text } = require('drizzle-orm/pg-core');

// a key; in mode "number" it would come back as another number
const key = () => bigint({ mode: 'bigint' })
	.primaryKey().default(sql`snowflake_nextval()`);

exports.orders = pgTable('orders', {
	id: key(),
	item: text().notNull(),
});

exports.orderLines = pgTable('order_lines', {
	id: key(),
	orderId: bigint('order_id', { mode: 'bigint' })
		.notNull().references(() => exports.orders.id),
	note: text().notNull(),
});
