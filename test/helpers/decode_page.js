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
const firstRow = () => texts('#first tr').find((text) => text.startsWith('your layout'))?.slice('your layout'.length) ?? 'refused';

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
	type({ layout: '', id: '5' });
	const presetsOf = texts('#readings h3').join();

	check('while a layout is typed, the presets stay', ['t', 'timestamp:41 nod', 'snow', 'timestamp:41 node:10 sequence:12 epoch:20'].filter((layout) => {
		type({ layout });
		return texts('#readings h3').join() !== presetsOf || $('layout-error').textContent === '' || document.querySelectorAll('#first tr').length !== presets.size + 1;
	}));
	type({ layout: 'snowflake', time: given.time });

	// Return what differs: the ID that is read from a text, or the note on it.
	const read = ([text, id, note]) => {
		type({ id: text });
		const digits = [...document.querySelector('#readings article')?.querySelectorAll('code') ?? []].map((code) => code.textContent).join('');
		const found = digits === '' ? 'refused' : String(BigInt(`0b${digits}`));

		return found === id && note.test($('id-note').textContent) ? [] : [`${text}: ${found}, ${$('id-note').textContent}`];
	};

	check('an ID may be pasted with what stands around it', [
		"'383124667101089792'", '"383124667101089792"', '\u201c383124667101089792\u201d', '`383124667101089792`', '383124667101089792,', ' \t383124667101089792 ;',
		'(383124667101089792)', '[383124667101089792]', "'383124667101089792'::bigint", '383124667101089792n', '383,124,667,101,089,792',
		'383 124 667 101 089 792', '383.124.667.101.089.792', '383_124_667_101_089_792', '383\u202f124\u202f667\u202f101\u202f089\u202f792',
	].flatMap((text) => read([text, '383124667101089792', /^$/])));
	check('of several, the first is shown, and that is said', [
		["'383124667101089792', '5'", '383124667101089792', /^This is the first of 2 words\.$/],
		['5 6 7', '5', /^This is the first of 3 words\.$/], ['1,2', '1', /first of 2/],
	].flatMap(read));
	// all digits are a decimal number, and most texts in base58 also one in base62
	const encoded = given.encoded.filter(([, text]) => !/^\d+$/.test(text));

	check(`${encoded.length} texts of snowflake_encode()`, encoded.flatMap(([format, text, id]) => [text,
		...format === 'base32' ? [text.toLowerCase(), text.replaceAll('0', 'o').replaceAll('1', 'L')] : []].flatMap((spelled) => {
		const shown = read([spelled, id, new RegExp(`^Read in ${format}: ${id}\\.`)]);

		return format === 'base58' && $('id-note').textContent.endsWith(`In base58 it would be ${id}.`) ? [] : shown;
	})));
	check('a number that JavaScript prints after rounding is said to be one, and no other', [
		[String(383124667101089792), '383124667101089800', /its last digits are lost/], ['383124667101089792', '383124667101089792', /^$/],
		['383124667101089793', '383124667101089793', /^$/], ['9007199254740992', '9007199254740992', /its last digits/], ['9007199254740991', '9007199254740991', /^$/],
	].flatMap(read));
	type({ layout: '' });
	check(`a field's name and number stand on one line, ${innerWidth} pixels wide`, innerWidth > 640 ? [] : ['snowflake', 'discord', 'sonyflake'].flatMap((layout) => {
		type({ layout, id: '383124667101089792' });
		return [...document.querySelectorAll('#readings > article li span')]
			.filter((span) => span.getClientRects().length !== 1 || span.getBoundingClientRect().height > 30 || span.getBoundingClientRect().right > innerWidth)
			.map((span) => `${layout}: ${span.textContent}`);
	}));
	check('... on a phone, one field below the other', innerWidth > 640 ? [] : [...document.querySelectorAll('#readings > article:first-child li')]
		.filter((li, n, all) => n > 0 && li.getBoundingClientRect().top < all[n - 1].getBoundingClientRect().bottom).map((li) => li.textContent));
	type({ layout: '' });
	check('what is no ID or no time is refused, at its field, and the old result goes', ['id', 'time'].flatMap((field) =>
		['', '-1', '9223372036854775808', '3.8e17', '99999999999x', '2026-02-30', '2026-01-01 24:00', '...'].filter((value) => {
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
