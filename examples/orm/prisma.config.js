// The configuration of Prisma's commands. With this file they run Prisma's engine in
// WebAssembly, which is in the package, with the driver "pg". Without this file they
// download the engine from Prisma's own host, and connect to DATABASE_URL.
'use strict';

const { defineConfig } = require('prisma/config');
const { PrismaPg } = require('@prisma/adapter-pg');
const { ColumnTypeEnum } = require('@prisma/driver-adapter-utils');

const CHAR = 18, NAME = 19, TEXT = 25;

// The adapter of 6.19 does not know two types of the server's catalogs, "char" and
// "name": https://github.com/prisma/prisma/issues/27403
class CatalogueAdapter extends PrismaPg {
	async connect() {
		const adapter = await super.connect();
		const client = adapter.underlyingDriver();
		const query = client.query.bind(client);
		const queryRaw = adapter.queryRaw.bind(adapter);
		let isChar;

		client.query = async (...args) => {
			const result = await query(...args);

			isChar = result.fields.map((field) => field.dataTypeID === CHAR);
			for (const field of result.fields)
				if (field.dataTypeID === CHAR || field.dataTypeID === NAME)
					field.dataTypeID = TEXT;
			return result;
		};
		adapter.queryRaw = async (sql) => {
			const result = await queryRaw(sql);

			result.columnTypes = result.columnTypes.map(
				(type, n) => isChar[n] ? ColumnTypeEnum.Character : type);
			return result;
		};
		return adapter;
	}
}

process.env.DATABASE_URL ??= 'postgresql://';	// schema.prisma requires it

module.exports = defineConfig({
	schema: 'schema.prisma',
	migrations: { path: 'out/migrations' },
	experimental: { adapter: true },
	engine: 'js',
	adapter: async () => new CatalogueAdapter({ allowExitOnIdle: true }),
});
