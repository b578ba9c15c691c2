# Functions that run TAP tests and regression tests, on a copy of the server and each
# in namespaces of its own. Sourced, after lib.sh and needs.sh, by test/all and
# test/mutants/run. Paths of tests are relative to test/.

# ---- the head of a test ----

# Print a line of a test's head. A repeated test is NAME#1, NAME#2 and so on.
head_line() {
	sed -n "/^#/!q; s/^# $2: *//p" "$root/test/${1%#*}"
}

# Print the parts of a test with needs of their own, as "part need need...".
parts_of() {
	sed -n '/^#/!q; s/^# part \([a-z0-9_]*\): */\1 /p' "$root/test/${1%#*}"
}

# Print the words of all "# needs:" and "# part" lines of these tests.
needs_of() {
	local name

	for name in "$@"; do
		[[ $name == t/* ]] || continue
		head_line "$name" needs
		parts_of "$name" | cut -d ' ' -f 2-
	done | xargs -n 1 | sort -u
}

# ---- needs ----

# Make a scratch directory in memory, with a copy of the server that prepare_server
# found. Takes the words of needs_of: packages that libraries of registries need for
# their build must be there first. Sets "isolate" if namespaces are available.
prepare_tests() {
	local dev

	mount_scratch
	chown postgres "$scratch"
	isolate=
	! unshare --mount --pid --net --ipc --fork --kill-child --mount-proc true 2>/dev/null ||
		isolate=1
	as_postgres mkdir "$scratch/ports"
	mkdir "$scratch/needs"
	if ! { mkdir -p "$cache/build" && is_for_postgres "$cache/build"; } 2>/dev/null; then
		echo "\"postgres\" cannot use $cache: nothing is kept for the next run"
		cache=$scratch/cache
		mkdir -p "$cache/build"
	fi
	dev=($(printf '%s\n' "$@" | grep -- '^lib.*-dev$'))
	[ ${#dev[@]} = 0 ] || (install_packages "${dev[@]}") >/dev/null 2>&1
	server_pg_config=$PG_CONFIG
	copy_server "$server_pg_config" "$scratch/server"
	find_perl_lib
	make_template
	major=$("$PG_CONFIG" --version | sed 's/^PostgreSQL \([0-9]*\).*/\1/')
	export PG_CONFIG server_pg_config perl_lib major scratch cache
}

# Make a data directory that PostgreSQL::Test copies for each server: quicker than initdb.
# Before 17 it knows no template, and finds a program initdb that copies it.
make_template() {
	export INITDB_TEMPLATE=$scratch/template
	(cd "$scratch" && as_postgres "$bindir/initdb" -D "$INITDB_TEMPLATE" -A trust -N) >/dev/null
	mkdir -p "$scratch/bin"
	cat >"$scratch/bin/initdb" <<-'END'
		#!/bin/sh
		[ "$1 $3 $4 $5 $#" = '-D -A trust -N 5' ] && exec cp -RPp "$INITDB_TEMPLATE" "$2"
		exec "$bindir/initdb" "$@"
	END
	chmod 755 "$scratch/bin/initdb"
	export bindir
}

# Find PostgreSQL::Test, which comes with the server's headers or with its client.
find_perl_lib() {
	perl_lib=$(dirname "$("$PG_CONFIG" --pgxs)")/../test/perl
	[ -f "$perl_lib/PostgreSQL/Test/Cluster.pm" ] ||
		die "PostgreSQL::Test is not beside $("$PG_CONFIG" --pgxs): install the package that has it (postgresql-server-dev-15, or postgresql-client-NN from 17 on)."
}

# Obtain everything that TAP tests need, each once: then there is a file NEED.done.
# If something is not available, a file of its name holds a line with the reason.
obtain_needs() {
	local need packages=()

	for need in "$@"; do
		is_package "$need" && packages+=("$need")
	done
	# all at once is quickest; if one is missing, one by one shows which
	if [ ${#packages[@]} -gt 0 ] && ! (install_packages "${packages[@]}") >/dev/null 2>&1; then
		for need in "${packages[@]}"; do
			(install_packages "$need") >/dev/null 2>&1 ||
				echo "there is no package $need" >"$scratch/needs/$need"
		done
	fi
	[ ${#packages[@]} = 0 ] || copy_server "$server_pg_config" "$scratch/server"
	for need in "${packages[@]}"; do
		touch "$scratch/needs/$need.done"
	done
	for need in "$@"; do
		is_package "$need" || obtain "$need"
		touch "$scratch/needs/$need.done"
	done
}

# Run a function of test/needs.sh, whose output is for the tests.
obtain() {
	local need=$1 why=$scratch/needs/$1 status

	(set -e; "need_$need") >"$scratch/needs/$need.env" 2>"$why"
	status=$?
	if [ $status = 0 ]; then
		rm -f "$why"
	elif [ $status != 1 ]; then
		cat "$why"
		exit 1
	elif [ ! -s "$why" ]; then
		echo "need_$need failed" >"$why"
	fi
}

is_package() {
	! declare -F "need_$1" >/dev/null
}

# Set "missing" to the first thing that a test needs and that is not available.
find_missing() {
	local need

	for need in "$@"; do
		if [ -s "$scratch/needs/$need" ]; then
			missing=$(tail -n 1 "$scratch/needs/$need")
			return 0
		fi
	done
	return 1
}

# ---- a build that is kept ----

# Hash what objects depend on besides sources and headers, and no rule of make names:
# if it changes, everything is built anew.
hash_of_build() {
	{
		"$server_pg_config"
		cat "$(dirname "$("$server_pg_config" --pgxs)")/../Makefile.global"
		find "$("$server_pg_config" --includedir-server)" -name '*.h' -print0 | sort -z | xargs -0 sha256sum
		gcc --version
		cd "$root" && cat Makefile lease/Makefile lease/*/Makefile test/helpers/*/Makefile && echo src/*.c src/*/*.c lease/*.c lease/*/*.c
	} 2>&1 | sha256sum
}

# Run make and make install for the tested server, in a tree of the cache, which only
# one run at a time may use.
build() {
	local name=$1 key

	shift
	name=$name-$(echo "$server_pg_config $root $* ${COPT:-}" | sha256sum | cut -c 1-12)
	exec {lock}>"$cache/build/$name.lock"
	# a build with flags of its own is not kept
	if [ -z "${COPT:-}" ] && flock -n "$lock"; then
		tree=$cache/build/$name
	else
		tree=$scratch/build.$name
	fi
	key=$(hash_of_build)
	[ "$(cat "$tree.key" 2>/dev/null)" = "$key" ] || rm -rf "$tree" "$tree.sums"
	update_tree "$tree" && echo "$key" >"$tree.key" || die "$tree cannot be written"
	build_tree "$tree" "$@"
}

# ---- running ----

# Run a command in the scratch directory, and in namespaces of its own if they are
# available.
isolated() {
	local cpu_file=$scratch/cpu.$BASHPID

	export cpu_file
	(
		cd "$scratch"
		[ -z "$isolate" ] || exec unshare --mount --pid --net --ipc --fork \
			--kill-child --mount-proc bash "$root/test/isolate" "$@"
		"$@"
	)
}

# Run the regression tests in a directory, which is created; it also gets their
# output. What follows runs the command, such as "timeout 60".
run_regress() {
	local dir=$1

	shift
	as_postgres mkdir -p "$dir"
	isolated "$@" runuser -u postgres -- make -s -C "$tree" regress PG_CONFIG="$PG_CONFIG" \
		OUTPUT="$dir"
}

# Set what a test and its parts need, by assignments; report which parts are left
# out.
use_needs() {
	local name=$1 need part needs parts=''

	for need in $(head_line "$name" needs); do
		[ ! -s "$scratch/needs/$need.env" ] || . "$scratch/needs/$need.env"
	done
	while read -r part needs; do
		if find_missing $needs; then
			echo "LEFT OUT: $name, $part: $missing"
			continue
		fi
		parts+=" $part"
		for need in $needs; do
			[ ! -s "$scratch/needs/$need.env" ] || . "$scratch/needs/$need.env"
		done
	done < <(parts_of "$name")
	export SNOWFLAKE_PARTS=$parts
}

# Print why a TAP test died, if it did: run_tap has run it in this directory.
why_died() {
	local text

	text=$(cat "$1"/tmp_check/log/regress_log_* 2>/dev/null | awk '
		/^error running SQL/ && sql == "" { sql = $0 }
		/^[^#].* at [^ ]+ line [0-9]+/ { last = $0 }
		# croak() with a text that ends in a newline
		/^ at [^ ]+ line [0-9]+/ { last = before $0 }
		{ before = $0 }
		END { print sql != "" ? sql : last }')
	[ -n "$text" ] && echo "$text"
}

# Print the first sign, in what a failed TAP test has written and in its servers' logs,
# of an ID that was there twice, or of a crash that was not meant. A check that looks
# for either has "twice" or "duplicate" in its name. Catalogs have no IDs, and where a
# constraint is named "meant", a test has made an ID twice itself.
find_evidence() {
	local text

	text=$(grep -ahE '^not ok .*([Tt]wice|[Dd]uplicate)|ID [0-9]+ is |[0-9] follows [0-9]+$|have both issued IDs|duplicate key value|was terminated by signal ([^9]|9[0-9])|TRAP: |AddressSanitizer|runtime error: ' "$@" 2>/dev/null |
		awk '!/unique constraint "(pg_|meant")/ && text == "" { text = $0 } END { print text }') || true
	[ -n "$text" ] && echo "$text"
}

# Run a TAP test in a directory, which is created. The interpreter follows: "prove
# -v", or "perl", whose lines come at once.
run_tap() {
	local name=${1%#*} dir=$2 pgxs

	shift 2
	pgxs=$(dirname "$("$PG_CONFIG" --pgxs)")
	as_postgres mkdir -p "$dir"
	isolated runuser -u postgres -- env HOME="$dir" PATH="$scratch/bin:$bindir:$PATH" PG_CONFIG="$PG_CONFIG" \
		PG_REGRESS="$pgxs/../test/regress/pg_regress" \
		PG_TEST_PORT_DIR="$scratch/ports" TESTDIR="$dir" \
		TESTDATADIR="$dir/tmp_check" TESTLOGDIR="$dir/tmp_check/log" \
		PG_TEST_TIMEOUT_DEFAULT="${PG_TEST_TIMEOUT_DEFAULT:-180}" \
		"$@" -I "$perl_lib" -I "$tree/test/perl" "$tree/test/$name"
}
