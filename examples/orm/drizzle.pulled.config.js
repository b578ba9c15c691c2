// The configuration of drizzle-kit for the schema that "pull" read from the database.
'use strict';

module.exports = {
	...require('./drizzle.config.js'),
	schema: './out/pulled/schema.ts',
	out: './out/pulled',
};
