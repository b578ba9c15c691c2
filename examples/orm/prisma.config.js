// The configuration of Prisma's commands. With this file they run Prisma's engine in
// WebAssembly, which is in the package, with the driver "pg". Without this file they
// download the engine from Prisma's own host, and connect to DATABASE_URL.
'use strict';

const { defineConfig } = require('prisma/config');
const { PrismaPg } = require('@prisma/adapter-pg');
const { ColumnTypeEnum } = require('@prisma/driver-adapter-utils');

// The adapter needs it for "migrate dev"; Node.js has it from 19 on
globalThis.crypto ??= require('node:crypto').webcrypto;

const CHAR = 18, NAME = 19, TEXT = 25;

// The adapter of 6.19 does not know two types of the server's catalogs, "char" and
// "name": https://github.com/prisma/prisma/issues/27403
function withCatalogTypes(adapter) {
	const client = adapter.underlyingDriver();
	const query = client.query.bind(client);
	const queryRaw = adapter.queryRaw.bind(adapter);
	let isChar;

	client.query = async (...args) => {
		const result = await query(...args);
		const fields = result.fields ?? [];	// a script has several results

		isChar = fields.map((field) => field.dataTypeID === CHAR);
		for (const field of fields)
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

class CatalogAdapter extends PrismaPg {
	async connect() {
		return withCatalogTypes(await super.connect());
	}

	// "migrate dev" makes this database, and drops it at the end. The adapter of 6.19
	// drops the database before it closes its connections there, and fails.
	async connectToShadowDb() {
		const adapter = withCatalogTypes(await super.connectToShadowDb());
		const pool = adapter.underlyingDriver();
		const close = pool.end.bind(pool);
		const drop = adapter.dispose.bind(adapter);

		pool.end = async () => {};
		adapter.dispose = async () => {
			await close();
			await drop();
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
	adapter: async () => new CatalogAdapter({ allowExitOnIdle: true }),
});
