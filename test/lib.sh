# What the scripts here share. Sourced, not run.
#
# A fresh machine has neither make nor pg_config: what is missing is installed
# with apt, which needs root. Servers run as the user "postgres", out of a
# scratch directory that goes away with the script.

set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

die() {
	printf '%s\n' "$*" >&2
	exit 1
}

need_root() {
	[ "$(id -u)" = 0 ] ||
		die "$0 installs packages and the extension: run it as root, or with sudo."
}

# Install the packages that are missing. No service is started by that.
install_packages() {
	local missing=() package policy=/usr/sbin/policy-rc.d made=0
	local options=(-o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)

	for package in "$@"; do
		dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null |
			grep -qx installed || missing+=("$package")
	done
	[ ${#missing[@]} -gt 0 ] || return 0
	command -v apt-get >/dev/null ||
		die "These packages are missing, and there is no apt-get to install them: ${missing[*]}"
	echo "installing: ${missing[*]}"
	if [ ! -e $policy ]; then
		printf '#!/bin/sh\nexit 101\n' >$policy
		chmod +x $policy
		made=1
	fi
	if ! { apt-get "${options[@]}" install -y --no-install-recommends "${missing[@]}" ||
		{ apt-get "${options[@]}" update &&
			apt-get "${options[@]}" install -y --no-install-recommends "${missing[@]}"; }; } \
		</dev/null >"$scratch/apt.log" 2>&1; then
		tail -n 20 "$scratch/apt.log" >&2
		[ $made = 0 ] || rm -f $policy
		die "apt-get could not install: ${missing[*]}"
	fi
	[ $made = 0 ] || rm -f $policy
}

# Set "mirror" to where this machine's own packages come from, and "keyring" to
# what they are signed with.
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

# A directory that "postgres" may write, removed at the end.
make_scratch() {
	scratch=$(mktemp -d /tmp/snowflake.XXXXXX)
	chmod 755 "$scratch"
	trap 'cleanup' EXIT
}

# Scripts with more to clean up define their own.
cleanup() {
	rm -rf "$scratch"
}

# Find the server of PG_CONFIG, or of Debian's packages; install what is needed
# to build for it, and the packages given.
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
	id postgres >/dev/null 2>&1 || useradd --system --shell /bin/sh postgres
	chown postgres "$scratch"
}

as_postgres() {
	(cd "$scratch" && runuser -u postgres -- "$@")
}

# Build in a copy, so that the checkout stays as it is, and install.
build_and_install() {
	mkdir -p "$scratch/build"
	tar -C "$root" --exclude=./.git --exclude='*.o' --exclude='*.so' \
		--exclude='*.bc' --exclude=node_modules \
		--exclude=./examples/orm/out -cf - . | tar -C "$scratch/build" -xf -
	chown -R postgres "$scratch/build"
	as_postgres make -s -j2 -C build PG_CONFIG="$PG_CONFIG" "$@" \
		>"$scratch/make.log" 2>&1 ||
		{ cat "$scratch/make.log" >&2; die "the build failed"; }
	make -s -C "$scratch/build" PG_CONFIG="$PG_CONFIG" "$@" install \
		>"$scratch/make.log" 2>&1 ||
		{ cat "$scratch/make.log" >&2; die "the installation failed"; }
}
