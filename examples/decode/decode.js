// Print the fields of a Snowflake ID, without a database. The ID is a string or a BigInt:
// as a Number, an ID beyond 2^53 - 1 becomes another ID.
'use strict';

const usage = `Print the fields of a Snowflake ID, without a database.

usage: decode.js ID [FIELDS EPOCH_MS [TICK_MS]]
       decode.js -      reads lines "ID EPOCH_MS TICK_MS FIELDS"

FIELDS are names and widths in bits, from high to low. EPOCH_MS is the Unix time of
the first tick, and TICK_MS the length of a tick, both in milliseconds. The default is
the extension's own layout: "timestamp:41 node:10 sequence:12" 1704067200000 1`;

// Return the fields as Numbers; new Date(unix_ms) is the time. Example:
// decode('1541815603606036480', 'timestamp:41 datacenter:5 worker:5 sequence:12', 1288834974657)
function decode(id, fields, epochMs, tickMs = 1) {
	const widths = fields.split(' ').map((field) => field.split(':'));
	const said = {};
	let shift = widths.reduce((sum, [, bits]) => sum + Number(bits), 0);
	for (const [name, bits] of widths) {
		shift -= Number(bits);
		said[name] = Number(BigInt.asUintN(Number(bits), BigInt(id) >> BigInt(shift)));
		if (['datacenter', 'worker', 'process'].includes(name))	// parts of the node
			said.node = (said.node ?? 0) * 2 ** Number(bits) + said[name];
	}
	const { timestamp, ...others } = said;
	return { ...others, unix_ms: epochMs + timestamp * tickMs };
}

function show(said, separator) {
	return Object.keys(said).sort().map((name) => `${name}=${said[name]}`).join(separator);
}

function main(words) {
	if (words.length === 1 && words[0] === '-') {
		const lines = require('node:fs').readFileSync(0, 'utf8').trimEnd().split('\n');

		for (const line of lines) {
			const [id, epochMs, tickMs, ...fields] = line.split(' ');
			console.log(show(decode(id, fields.join(' '), Number(epochMs), Number(tickMs)), ' '));
		}
		return;
	}
	if (![1, 3, 4].includes(words.length) || !/^\d+$/.test(words[0]) ||
		BigInt(words[0]) >= 2n ** 63n)
		throw new SyntaxError();
	const [id, fields = 'timestamp:41 node:10 sequence:12', epochMs = 1704067200000, tickMs = 1] = words;
	const said = decode(id, fields, Number(epochMs), Number(tickMs));

	console.log(show(said, '\n'));
	console.log(`time=${new Date(said.unix_ms).toISOString()}`);
}

module.exports = { decode };

if (require.main === module) {
	try {
		main(process.argv.slice(2));
	} catch (error) {
		if (!(error instanceof SyntaxError || error instanceof RangeError))
			throw error;
		console.error(usage);
		process.exitCode = 1;
	}
}
