# Turn a file of SQL into one that C includes: each text that follows a line
# "-- name: lock_tables" becomes a macro, SQL_LOCK_TABLES, without comments. A line
# ":given" stands for the text of that name, as in psql, also if it is in another file.
#
#	sed -f sql/embed.sed src/convert/steps.sql >src/convert/steps.sql.inc

1 i\
/* made by sql/embed.sed */
# the end of the last macro
$ a\

s/^-- name: //
t define
/^[[:blank:]]*--/ d
/^[[:blank:]]*$/ d
/^[[:blank:]]*:[a-z_]*,\{0,1\}$/ {
	y/abcdefghijklmnopqrstuvwxyz/ABCDEFGHIJKLMNOPQRSTUVWXYZ/
	s/^[[:blank:]]*:\([A-Z_]*\)\(.*\)/	SQL_\1 "\2\\n" \\/
	b
}
s/[\\"]/\\&/g
s/.*/	"&\\n" \\/
b
:define
y/abcdefghijklmnopqrstuvwxyz/ABCDEFGHIJKLMNOPQRSTUVWXYZ/
s/.*/\
#define SQL_& \\/
