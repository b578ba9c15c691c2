// What a Snowflake ID says, without a database. The ID is a string or a BigInt:
// a Number beyond 2^53 - 1 is another ID already.
'use strict';

// decode('1541815603606036480', 'timestamp:41 datacenter:5 worker:5 sequence:12',
// 1288834974657): an object of Numbers; new Date(unix_ms) is the time.
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

module.exports = { decode };

// For the test: lines "ID epoch_ms tick_ms fields" are answered.
if (require.main === module) {
	const lines = require('node:fs').readFileSync(0, 'utf8').trimEnd().split('\n');

	for (const line of lines) {
		const [id, epochMs, tickMs, ...fields] = line.split(' ');
		const said = decode(id, fields.join(' '), Number(epochMs), Number(tickMs));

		console.log(Object.keys(said).sort().map((name) => `${name}=${said[name]}`).join(' '));
	}
}
