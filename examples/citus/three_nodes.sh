#!/bin/sh
#
# Start three PostgreSQL servers with Citus on this machine: a coordinator and two
# workers. Each of them makes Snowflake IDs. Run this script as the user that shall own
# the servers, not as root. First install Citus and this extension for the server of
# PG_CONFIG.
#
#	examples/citus/three_nodes.sh DIRECTORY
#
# The script makes the servers in that directory, starts them, and prints how to
# connect and how to stop them. They listen on sockets in DIRECTORY, which only their
# owner can use.
#
#	PG_CONFIG=/path/pg_config	another server than that of the PATH
#	PORT=6000			the ports 6000 to 6002 in place of 5440 to 5442

set -eu

[ $# = 1 ] || { echo "usage: $0 DIRECTORY" >&2; exit 2; }
mkdir -m 700 "$1"
directory=$(cd "$1" && pwd)
bin=$("${PG_CONFIG:-pg_config}" --bindir)
port=${PORT:-5440}

# Make and start the node with this name and number.
start() {
	"$bin/initdb" -D "$directory/$1" -A trust >/dev/null
	cat >>"$directory/$1/postgresql.conf" <<-CONF
		port = $((port + $2))
		listen_addresses = ''
		unix_socket_directories = '$directory'
		shared_preload_libraries = 'citus,snowflake'
		# each node has another node id, and the same layout
		snowflake.node_id = '$2'
		snowflake.layout = 'snowflake'
	CONF
	"$bin/pg_ctl" -D "$directory/$1" -l "$directory/$1.log" -w start >/dev/null ||
		{ tail "$directory/$1.log" >&2; exit 1; }
	sql $2 'CREATE EXTENSION citus; CREATE EXTENSION snowflake'
}

# Run statements on the node with this number.
sql() {
	"$bin/psql" -qX -h "$directory" -p $((port + $1)) -d postgres \
		-v ON_ERROR_STOP=1 -c "$2" >/dev/null
}

start coordinator 0
start worker1 1
start worker2 2
sql 0 "SELECT citus_set_coordinator_host('$directory', $port)"
sql 0 "SELECT citus_add_node('$directory', $((port + 1)))"
sql 0 "SELECT citus_add_node('$directory', $((port + 2)))"

cat <<END
Connect to the coordinator, or run the example:
	psql -h $directory -p $port -d postgres
	psql -h $directory -p $port -d postgres -f $(dirname "$0")/orders.sql
Stop the servers:
	for node in coordinator worker1 worker2; do
		$bin/pg_ctl -D $directory/\$node stop
	done
END
