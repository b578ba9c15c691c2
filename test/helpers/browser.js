// Try the ways of doc/applications.md to give IDs to a browser, with Node.js and the
// driver "pg". Run by test/t/adoption/javascript.pl, which names the server in
// PGHOST, PGPORT and PGDATABASE, and the layout as the argument. Prints a line "ok -
// ..." or "not ok - ..." for each check, and at the end "done".
'use strict';

const assert = require('node:assert');
const pg = require('pg');

const INT8 = 20;
const layout = process.argv[2];

function check(name, f) {
	try {
		f();
		console.log(`ok - ${name}`);
	} catch (e) {
		console.log(`not ok - ${name}`);
		console.error(e.message);
	}
}

// Return a value as a browser gets it, by JSON.
function sent(value) {
	return JSON.parse(JSON.stringify(value));
}

async function connect(types) {
	const client = new pg.Client({ types });

	await client.connect();
	return client;
}

// Make the driver return numbers for bigint, instead of texts.
function withNumbers() {
	return {
		getTypeParser: (oid, format) =>
			oid === INT8 ? Number : pg.types.getTypeParser(oid, format),
	};
}

function ascending(texts) {
	return texts.every((t, n) => n === 0 || texts[n - 1] < t);
}

async function rows(client) {
	const sql = `SELECT id, id::text AS decimal,
			snowflake_encode(id, 'base32') AS base32
		FROM ids ORDER BY id`;

	return (await client.query(sql)).rows;
}

// Return true if the database finds the row by the value that the browser sends
// back.
async function found(client, condition, value) {
	const sql = `SELECT id::text AS id FROM ids WHERE ${condition}`;
	const result = await client.query(sql, [value]);

	return result.rows.map((row) => row.id);
}

// Check that the number that a client makes of an ID is exact for this layout, or
// not.
function checkNumbers(numbers, exact) {
	const safe = numbers.filter((row) => Number.isSafeInteger(row.id));
	const same = numbers.filter((row) => String(sent(row).id) === row.decimal);

	check(`${layout}: as numbers ${exact ? 'all' : 'none'} of the IDs are safe`, () => {
		assert.ok(numbers.every((row) => typeof row.id === 'number'));
		assert.strictEqual(safe.length, exact ? numbers.length : 0);
	});
	if (exact)
		check(`${layout}: as numbers they survive JSON`, () =>
			assert.strictEqual(same.length, numbers.length));
	else
		check(`${layout}: as numbers some are others, and two are one`, () => {
			assert.ok(same.length < numbers.length);
			assert.ok(new Set(numbers.map((row) => row.id)).size < numbers.length);
		});
}

async function main() {
	const exact = layout === 'javascript';
	const client = await connect();
	const numbersClient = await connect(withNumbers());
	const texts = await rows(client);
	const numbers = await rows(numbersClient);

	// an odd ID, which a number beyond 2^53 cannot be
	const i = texts.findIndex((row) => BigInt(row.decimal) % 2n === 1n);
	const one = texts[i];

	check(`${layout}: there are IDs`, () => assert.strictEqual(texts.length, 1000));

	// the first way
	checkNumbers(numbers, exact);
	const byNumber = await found(client, 'id = $1', sent(numbers[i]).id);
	check(`${layout}: a row is ${exact ? '' : 'not '}found by its number`, () =>
		exact ? assert.deepStrictEqual(byNumber, [one.decimal])
			: assert.notDeepStrictEqual(byNumber, [one.decimal]));
	const setting = pg.types.getTypeParser(INT8);
	pg.types.setTypeParser(INT8, Number);
	const global = await connect();
	const globally = await rows(global);
	pg.types.setTypeParser(INT8, setting);
	check(`${layout}: setTypeParser does so for all clients`, () =>
		assert.deepStrictEqual(globally, numbers));

	// the second way
	check(`${layout}: the driver gives bigint as text, as id::text does`, () => {
		assert.ok(texts.every((row) => typeof row.id === 'string'));
		assert.ok(texts.every((row) => row.id === row.decimal));
	});
	check(`${layout}: id::text survives JSON, and BigInt knows it`, () =>
		assert.ok(texts.every((row) => sent(row).decimal === row.decimal &&
			String(BigInt(row.decimal)) === row.decimal)));
	const byText = await found(client, 'id = $1', sent(one).decimal);
	check(`${layout}: a row is found by id::text`, () =>
		assert.deepStrictEqual(byText, [one.decimal]));

	// the third way
	check(`${layout}: base32 survives JSON, and all differ`, () => {
		assert.ok(texts.every((row) => /^[0-9A-HJKMNP-TV-Z]{13}$/.test(sent(row).base32)));
		assert.strictEqual(new Set(texts.map((row) => row.base32)).size, texts.length);
	});
	check(`${layout}: base32 sorts in JavaScript as the numbers in the database`, () => {
		const base32 = texts.map((row) => row.base32);

		assert.ok(ascending(base32));
		assert.deepStrictEqual([...base32].reverse().sort(), base32);
	});
	const parse = "id = snowflake_parse($1, 'base32')";
	const byBase32 = await found(client, parse, sent(one).base32);
	const byLower = await found(client, parse, sent(one).base32.toLowerCase());
	check(`${layout}: a row is found by base32, in either case`, () => {
		assert.deepStrictEqual(byBase32, [one.decimal]);
		assert.deepStrictEqual(byLower, [one.decimal]);
	});

	// a bigint in JSON made by the database is a number for the browser
	const json = (await client.query('SELECT json_agg(id ORDER BY id)::text AS j FROM ids')).rows[0].j;
	check(`${layout}: JSON of the database holds ${exact ? 'exact' : 'broken'} numbers`, () => {
		const same = JSON.parse(json).every((n, at) => String(n) === texts[at].decimal);

		assert.strictEqual(same, exact);
	});

	// id::text of different lengths sorts 1, 2, 10 in the wrong order
	const mixed = (await client.query(`SELECT id::text AS decimal,
			snowflake_encode(id, 'base32') AS base32
		FROM (VALUES (9), (10), (999999999999), (1000000000000), (9007199254740991)) v(id)
		ORDER BY id`)).rows;
	check(`${layout}: of unequal lengths base32 sorts, and decimal texts do not`, () => {
		assert.ok(ascending(mixed.map((row) => row.base32)));
		assert.ok(!ascending(mixed.map((row) => row.decimal)));
	});

	await Promise.all([client.end(), numbersClient.end(), global.end()]);
	console.log('done');
}

main().catch((e) => {
	console.log(`not ok - ${layout}: ${e.message}`);
	// end at once: open connections would keep the process alive
	process.exit(1);
});
