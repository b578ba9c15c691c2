// The tables, for Drizzle and drizzle-kit.
'use strict';

const { sql } = require('drizzle-orm');
const { bigint, pgTable, text } = require('drizzle-orm/pg-core');

// a key column; in mode "number" large keys would come back as other numbers
const key = () => bigint({ mode: 'bigint' })
	.primaryKey().default(sql`snowflake_generate()`);

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
