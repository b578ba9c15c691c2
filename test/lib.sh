# Functions that the scripts share. Sourced, not run.
#
# A fresh machine has neither make nor pg_config: missing packages are installed with
# apt, which needs root. Servers run as the user "postgres", in a scratch directory
# that is removed at the script's end. That user may be unable to enter the checkout,
# which may be in root's home directory: so what runs as "postgres" is a copy, and
# begins in the scratch directory.

set -euo pipefail

# "postgres" reads what these scripts create
umask 022

# Whoever runs the tests may have any locale, or none: servers would be in its encoding.
unset LANGUAGE "${!LC_@}"
export LANG=C.UTF-8

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# Builds and downloads that are kept for the next run.
cache=$(realpath -ms "${SNOWFLAKE_CACHE:-/var/cache/snowflake-test}")

die() {
	printf '%s\n' "$*" >&2
	exit 1
}

need_root() {
	[ "$(id -u)" = 0 ] ||
		die "$0 installs packages and the extension: run it as root, or with sudo."
}

# Install missing packages. This starts no service.
install_packages() {
	local missing=() package policy=/usr/sbin/policy-rc.d lock

	for package in "$@"; do
		dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null |
			grep -qx installed || missing+=("$package")
	done
	[ ${#missing[@]} -gt 0 ] || return 0
	[ "$(id -u)" = 0 ] || die "These packages are missing; root can install them: ${missing[*]}"
	command -v apt-get >/dev/null ||
		die "These packages are missing, and there is no apt-get to install them: ${missing[*]}"
	echo "installing: ${missing[*]}"
	# one at a time: apt does not wait for its lock while lists are updated
	exec {lock}>/run/lock/snowflake-apt
	flock "$lock"
	# in a session of its own: the end of this run ends neither dpkg nor the removal
	# of the policy
	if ! setsid --wait bash -c '
		trap "" HUP INT TERM
		policy=$1 made="" status=0
		shift
		if [ ! -e "$policy" ]; then
			printf "#!/bin/sh\nexit 101\n" >"$policy"
			chmod +x "$policy"
			made=1
		fi
		install=(apt-get -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)
		"${install[@]}" install -y --no-install-recommends "$@" ||
			{ "${install[@]}" update && "${install[@]}" install -y --no-install-recommends "$@"; } ||
			status=1
		[ -z "$made" ] || rm -f "$policy"
		exit $status' - "$policy" "${missing[@]}" </dev/null >"$scratch/apt.log" 2>&1; then
		tail -n 20 "$scratch/apt.log" >&2
		die "apt-get could not install: ${missing[*]}"
	fi
	exec {lock}>&-
}

# Set "mirror" to the origin of this machine's packages, and "keyring" to the keys
# that sign them.
find_mirror() {
	local codename format='$(REPO_URI)'

	keyring=/usr/share/keyrings/debian-archive-keyring.gpg
	codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
	mirror=$(apt-get indextargets --format "$format" 'Created-By: Packages' \
		"Codename: $codename" | head -n 1)
	if [ -z "$mirror" ]; then
		apt-get update
		mirror=$(apt-get indextargets --format "$format" 'Created-By: Packages' \
			"Codename: $codename" | head -n 1)
	fi
	[ -n "$mirror" ] || die "apt knows no mirror of $codename"
}

# ---- children and directories that end with the script ----

# Run a command in a process group of its own, which ends with this script: the
# command would not notice a signal to the script alone. Bash also ignores INT in
# background commands, but not in a process group of their own.
run_child() {
	local status=0

	set -m
	(trap - EXIT && trap 'exit 143' TERM && "$@") </dev/null &
	child=$!
	set +m
	wait "$child" || status=$?
	child=
	return $status
}

# Do the same, and also write the output to a file.
run_logged() {
	run_child copy_output "$@"
}

# tee ends when all its writers have ended
copy_output() {
	local log=$1

	shift
	"$@" 2>&1 | (trap '' INT TERM && exec tee "$log")
	return "${PIPESTATUS[0]}"
}

# End the command of run_child, and wait for its clean-up.
end_child() {
	[ -n "${child:-}" ] || return 0
	kill -TERM -- "-$child" 2>/dev/null || true
	wait "$child" 2>/dev/null || true
	child=
}

# Create a directory that "postgres" may write, removed at the end. This script, and
# all its children, hold a lock beside it, which gets its name only once it is held.
make_scratch() {
	local lock

	sweep_scratch
	scratch=$(mktemp -d "${TMPDIR:-/tmp}/snowflake.XXXXXX")
	chmod 755 "$scratch"
	trap 'end_child; cleanup' EXIT
	exec {lock}>"$scratch/lock"
	flock "$lock"
	mv "$scratch/lock" "$scratch.lock"
}

# Remove the directories of killed runs: a lock that is free has no owner.
sweep_scratch() {
	local lock

	for lock in "${TMPDIR:-/tmp}"/snowflake.??????.lock; do
		# other users may write there, too
		[ -O "$lock" ] && [ ! -L "$lock" ] && [ ! -L "${lock%.lock}" ] || continue
		(
			flock -n 9 && [ /dev/fd/9 -ef "$lock" ] || exit 0
			scratch=${lock%.lock} mounted=1
			remove_scratch
		) 9<"$lock" 2>/dev/null || true
	done
}

# Mount the directory in memory if there is enough: writing files is most of the cost
# of a test's server.
mount_scratch() {
	local free

	free=$(sed -n 's/^MemAvailable: *\([0-9]*\) kB/\1/p' /proc/meminfo)
	if [ "${free:-0}" -gt 6000000 ] &&
		mount -t tmpfs -o size=75%,mode=755 snowflake "$scratch" 2>/dev/null; then
		mounted=1
	fi
}

# What cannot be removed is left to the next run, and fails nothing.
remove_scratch() {
	umount -l "$scratch/small" 2>/dev/null || true
	[ -z "${mounted:-}" ] || umount -l "$scratch" 2>/dev/null || true
	rm -rf --one-file-system "$scratch" && rm -f "$scratch.lock" || true
}

# Return true if this exit status, and the log of a script, say that something was not
# available, and nothing failed. Bash, too, ends with 2 where it cannot read a script,
# and ls where there is no such file: so the last line must say it.
is_left_out() {
	[ "$1" = 2 ] && tail -n 1 "$2" | grep -qaE '^LEFT OUT: |^[0-9]+ passed, 0 failed$'
}

# Scripts with more to clean up define their own function.
cleanup() {
	remove_scratch
}

# Find the server of PG_CONFIG, or of Debian's packages; install what its build
# needs, and the given packages.
prepare_server() {
	local major

	export DEBIAN_FRONTEND=noninteractive
	if [ -z "${PG_CONFIG:-}" ]; then
		install_packages postgresql make gcc libc6-dev "$@"
		major=$(ls /usr/lib/postgresql | sort -V | tail -n 1)
		install_packages "postgresql-server-dev-$major"
		PG_CONFIG=/usr/lib/postgresql/$major/bin/pg_config
	elif [ $# -gt 0 ]; then
		install_packages "$@"
	fi
	export PG_CONFIG
	bindir=$("$PG_CONFIG" --bindir)
	[ -x "$bindir/postgres" ] || die "There is no server in $bindir; PG_CONFIG chooses one."
	if [ "$(id -u)" = 0 ]; then
		id postgres >/dev/null 2>&1 || useradd --system --shell /bin/sh postgres
		chown postgres "$scratch"
	fi
	is_for_postgres "$scratch" ||
		die "The server's user, or make, cannot use $scratch: choose another TMPDIR, without blanks in its path."
}

# Run a command as "postgres", who may be unable to enter this script's current and home
# directories. Only root can; for other users, run it as they are.
as_postgres() {
	(cd "$scratch" && HOME=$scratch && export HOME && "${runuser[@]}" "$@")
}

runuser=()
[ "$(id -u)" != 0 ] || runuser=(runuser -u postgres --)

# Return true if "postgres" can build and run programs in this directory: make splits
# paths at blanks.
is_for_postgres() {
	[[ $1 != *[[:space:]]* ]] && as_postgres test -r "$1" -a -x "$1"
}

# Start a server with the settings in standard input, which PGHOST and PGPORT lead to.
start_server() {
	export PGHOST=$scratch PGPORT=54321
	as_postgres "$bindir/initdb" -D "$scratch/data" -A trust -N >/dev/null
	{
		cat
		echo "listen_addresses = ''"
		echo "unix_socket_directories = '$PGHOST'"
		echo 'unix_socket_permissions = 0700' # every role is trusted
		echo 'fsync = off'
	} >>"$scratch/data/postgresql.conf"
	as_postgres "$bindir/pg_ctl" -D "$scratch/data" -l "$scratch/data/log" -w start >/dev/null
}

# Stop it, if it runs.
stop_server() {
	[ ! -e "$scratch/data/postmaster.pid" ] ||
		as_postgres "$bindir/pg_ctl" -D "$scratch/data" -m immediate stop >/dev/null
}

# Build in a copy, which leaves the checkout unchanged, and install.
build_and_install() {
	mkdir -p "$scratch/build"
	copy_sources "$scratch/build"
	build_tree "$scratch/build" "$@"
}

# Copy the sources as they are, committed or not, without the products of builds. The
# copy's owner may change it, and all may read it, whatever the checkout's rights are.
copy_sources() {
	tar -C "$root" --mode=u+rwX,go+rX,go-w --exclude=./.git --exclude='*.o' --exclude='*.so' \
		--exclude='*.bc' --exclude='*.inc' --exclude='*.zip' --exclude=node_modules \
		--exclude='./snowflake--*.sql' \
		--exclude=./examples/orm/out -cf - . | tar -C "$1" --touch -xf -
}

# Run make and make install in a directory, with these arguments of make.
build_tree() {
	local tree=$1

	shift
	[ "$(id -u)" != 0 ] || chown -R postgres "$tree"
	as_postgres make -s -j2 -C "$tree" PG_CONFIG="$PG_CONFIG" "$@" \
		>"$scratch/make.log" 2>&1 ||
		{ cat "$scratch/make.log" >&2; die "the build failed"; }
	make -s -C "$tree" PG_CONFIG="$PG_CONFIG" "$@" install \
		>"$scratch/make.log" 2>&1 ||
		{ cat "$scratch/make.log" >&2; die "the installation failed"; }
}

# Update a kept tree: files that differ are copied, and files that are gone are
# removed, so that make builds only what has changed. During the update there are no
# sums, and without them the tree is made anew.
update_tree() {
	local tree=$1 new

	new=$(mktemp -d "$scratch/sources.XXXXXX")
	copy_sources "$new" || return
	# programs have "*" before their names
	(cd "$new" && find . -type f ! -perm /100 -print0 | xargs -0 sha256sum &&
		find . -type f -perm /100 -print0 | xargs -0 sha256sum -b) >"$new.sums"
	[ -e "$tree.sums" ] || rm -rf "$tree"
	mkdir -p "$tree"
	touch "$tree.sums"
	mv "$tree.sums" "$new.old"
	comm -13 <(cut -c 67- "$new.sums" | sort) <(cut -c 67- "$new.old" | sort) |
		(cd "$tree" && xargs -r -d '\n' rm -f) || return
	comm -23 <(sort "$new.sums") <(sort "$new.old") | cut -c 67- |
		(cd "$new" && tar -cf - -T -) | tar -C "$tree" -xf - || return
	mv "$new.sums" "$tree.sums"
	rm -rf "$new" "$new.old"
}

# Copy the server of a pg_config into a directory, as if that was "/": it finds its
# files relative to its programs. Programs are copied, everything else is linked; so
# installing there leaves the machine's own server unchanged. Call it again for
# packages that came later. Sets PG_CONFIG and bindir.
copy_server() {
	local from=$1 to=$2 dir

	for dir in $("$from" --bindir) $("$from" --pkglibdir) $("$from" --sharedir); do
		dir=$(realpath "$dir")
		[ -d "$to$dir" ] || mkdir -p "$to$dir"
		if [ "$dir" = "$(realpath "$("$from" --bindir)")" ]; then
			cp -rLn "$dir/." "$to$dir/"
		else
			cp -rsn "$dir/." "$to$dir/" 2>/dev/null || true
		fi
	done
	for dir in $("$from" --includedir) $("$from" --includedir-server) \
		$("$from" --libdir) $("$from" --localedir); do
		[ -d "$dir" ] && [ ! "$to$dir" -ef "$dir" ] || continue
		if [ -d "$to$dir" ]; then
			cp -rsn "$dir/." "$to$dir/" 2>/dev/null || true
		else
			mkdir -p "$(dirname "$to$dir")"
			ln -sfn "$dir" "$to$dir"
		fi
	done
	# Files of this extension in that server are not part of the copy: its index of
	# bitcode would be written through the link.
	find "$to$(realpath "$("$from" --pkglibdir)")" \
		"$to$(realpath "$("$from" --sharedir)")/extension" -type l \
		\( -name 'snowflake*' -o -path '*/bitcode/snowflake/*' \) -delete
	bindir=$to$(realpath "$("$from" --bindir)")
	PG_CONFIG=$bindir/pg_config
}
