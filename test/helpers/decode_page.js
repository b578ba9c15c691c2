// Try examples/decode/index.html, at the end of which test/t/adoption/javascript.pl puts
// this script. "given" has the vectors of examples/vectors.json, and what the extension
// says of the same IDs and of texts of layouts. Writes a line "ok - ..." or "not ok - ..."
// for each check in place of the page, and at the end "done".
'use strict';

const lines = [];

function check(name, wrong) {
	lines.push(`${wrong.length === 0 ? 'ok' : 'not ok'} - ${name}`, ...wrong.slice(0, 5).map((text) => `# ${text}`));
}

// Type into fields of the page, as a user does.
function type(values) {
	for (const [field, value] of Object.entries(values)) {
		$(field).value = value;
		$(field).dispatchEvent(new Event('input', { bubbles: true }));
	}
}

const texts = (selector) => [...document.querySelectorAll(selector)].map((element) => element.textContent);
const firstRow = () => document.querySelector('#first td')?.textContent ?? 'refused';

// Return what the page shows of the layout that was typed: fields, time and bits.
function shown() {
	const article = document.querySelector('#readings article');
	const said = Object.fromEntries([...article.querySelectorAll('li:not(.unused)')]
		.map((li) => /([a-z]+) (\d+)$/.exec(li.textContent).slice(1)));

	for (const span of article.querySelectorAll('[data-field]'))
		said[span.dataset.field] = span.textContent.replace(/^, [a-z]+ /, '');
	said.bits = [...article.querySelectorAll('code')].map((code) => code.textContent).join('');
	return said;
}

// Return the names of the fields in which the page and the vector differ.
function differences(vector) {
	const said = shown();
	const { unix_ms: ms, ...wanted } = vector.says;

	wanted.time = vector.time.replace('T', ' ').replace('Z', ' UTC');
	wanted.bits = BigInt(vector.id).toString(2).padStart(64, '0');
	return [...new Set([...Object.keys(said), ...Object.keys(wanted)])]
		.filter((name) => name !== 'timestamp' && said[name] !== String(wanted[name]))
		.map((name) => `${vector.layout}, ${vector.id}: ${name} is ${said[name]}, and not ${wanted[name]}`);
}

function main() {
	const textOf = Object.fromEntries(given.layouts.map(({ name, layout }) => [name, layout]));
	const firsts = given.vectors.filter(({ source }) => /^the first ID of the (first|last) tick$/.test(source));

	check('there are vectors, IDs and texts to try',
		[given.vectors, firsts, given.texts, Object.keys(given.plausible)].filter(({ length }) => length === 0));
	check('a link names an ID and a layout',
		$('id').value === '5' && shown().sequence === '5' && shown().process === '0' ? [] : [$('id').value]);
	check(`${given.vectors.length} vectors: the page shows their fields, times and bits`,
		given.vectors.flatMap((vector) => {
			type({ layout: textOf[vector.layout], id: vector.id });
			return differences(vector);
		}));
	check(`${firsts.length} vectors: the first ID of a time`, firsts.flatMap(({ layout, time, id }) => {
		type({ layout: textOf[layout], time });
		return firstRow() === id ? [] : [`${layout}, ${time}: ${firstRow()}, and not ${id}`];
	}));
	type({ layout: '' });
	check(`${Object.keys(given.plausible).length} IDs are plausible in the layouts of snowflake_inspect()`,
		Object.entries(given.plausible).flatMap(([id, names]) => {
			type({ id });
			const here = texts('#readings > article h3').map((text) => text.split(/ (?=timestamp)/)[0]).sort().join(' ');
			return here === names ? [] : [`${id}: ${here}, and not ${names}`];
		}));
	type({ time: given.time });
	check(`${given.texts.length} texts are layouts here if they are for the extension`,
		given.texts.flatMap(([text, first]) => {
			type({ layout: text });
			return firstRow() === first && (first !== 'refused' || $('layout-error').textContent !== '')
				? [] : [`"${text}": ${firstRow()}, and not ${first}`];
		}));
	type({ layout: '' });
	check('what is no ID or no time is refused, at its field, and the old result goes', ['id', 'time'].flatMap((field) =>
		['', '-1', '9223372036854775808', '1e3', '2026-02-30', '2026-01-01 24:00'].filter((value) => {
			type({ [field]: value });
			return $(`${field}-error`).textContent === '' || $(field).getAttribute('aria-invalid') !== 'true' ||
				$(field === 'id' ? 'readings' : 'first').childElementCount !== 0;
		})));
	type({ id: '1', time: '2026-01-01' });
	check('... and a right one is accepted again', texts('[role=alert]').filter(Boolean));
	check('each field has a label', [...document.querySelectorAll('input')]
		.filter((input) => input.labels.length !== 1).map(({ id }) => id));
}

try {
	main();
	lines.push('done');
} catch (error) {
	lines.push(`not ok - the page: ${error.stack}`);
}
document.body.replaceChildren(make('pre', {}, `\n${lines.join('\n')}\n`));
