// Reads a JSON array of manifests, and prints what is wrong with them, or "N valid".
//
//	node validate.mjs DIRECTORY <manifests.json
//
// The schemas are those of the npm packages kubernetes-models and
// @kubernetes-models/cloudnative-pg in DIRECTORY. The schemas check values, but they
// accept unknown fields, such as a misspelt name, which the API server would drop.
// TypeScript finds those, since it checks the manifests against the packages' types.
import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

const modules = `${process.argv[2]}/node_modules`;
const manifests = JSON.parse(readFileSync(0, 'utf8'));
const wrong = [];

function package_of(manifest) {
  const prefix = manifest.apiVersion.startsWith('postgresql.cnpg.io/') ?
    '@kubernetes-models/cloudnative-pg' : 'kubernetes-models';
  return `${prefix}/${manifest.apiVersion}`;
}

for (const manifest of manifests) {
  const url = pathToFileURL(`${modules}/${package_of(manifest)}/index.js`);
  try {
    new (await import(url))[manifest.kind](manifest).validate();
  } catch (error) {
    wrong.push(`${manifest.kind}: ${error.message}`);
  }
}

// each manifest as a constant of its type, in a file that is not there
const { default: ts } = await import(pathToFileURL(`${modules}/typescript/lib/typescript.js`));
const options = {
  noEmit: true, strict: true, skipLibCheck: true, types: [],
  target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.NodeNext,
};
const host = ts.createCompilerHost(options);
const name = `${process.argv[2]}/manifests.mts`;
const text = manifests.map((manifest, i) =>
  `import type { I${manifest.kind} as T${i} } from '${package_of(manifest)}';\n` +
  `export const m${i}: T${i} = ${JSON.stringify(manifest, null, 1)};\n`).join('');
const { fileExists, getSourceFile } = host;
host.fileExists = (file) => file === name || fileExists(file);
host.getSourceFile = (file, version) => file === name ?
  ts.createSourceFile(file, text, version) : getSourceFile(file, version);
for (const said of ts.getPreEmitDiagnostics(ts.createProgram([name], options, host))) {
  const line = said.file?.text.slice(said.file.getLineStarts()[
    said.file.getLineAndCharacterOfPosition(said.start).line]).split('\n')[0];
  wrong.push(`${line}: ${ts.flattenDiagnosticMessageText(said.messageText, ' ')}`);
}

console.log(wrong.length ? wrong.join('\n') : `${manifests.length} valid`);
process.exitCode = wrong.length ? 1 : 0;
