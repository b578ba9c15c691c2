// The configuration of drizzle-kit.
'use strict';

const { defineConfig } = require('drizzle-kit');
const env = process.env;

module.exports = defineConfig({
	dialect: 'postgresql',
	schema: './schema.js',
	out: './out/drizzle',
	// without this line "push" would drop the extension's views, which the server refuses
	tablesFilter: ['!snowflake_*', '!pg_stat_snowflake*'],
	dbCredentials: {
		host: env.PGHOST,
		port: Number(env.PGPORT),
		user: env.PGUSER,
		password: env.PGPASSWORD,
		database: env.PGDATABASE,
		ssl: false,
	},
});
