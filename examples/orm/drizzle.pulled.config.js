// For the commands of drizzle-kit on a schema that it has read from the database.
'use strict';

module.exports = {
	...require('./drizzle.config.js'),
	schema: './out/pulled/schema.ts',
	out: './out/pulled',
};
