# Functions that fetch and build servers and sources which Debian's own packages do
# not install. They are kept in the cache for the next run; remove a directory there
# to get a newer one. Sourced, after lib.sh, by the scripts that need one.

# Run a command that puts a server into the cache. All users may read the cache. One
# process makes the server; another one finds it there. Do not call this in a
# condition, where bash would go on after an error.
build_in_cache() {
	local lock

	set -e
	exec {lock}>"$cache/lock"
	flock "$lock"
	"$@"
}

# ---- sources ----

# Set "tarball" to the sources of a major, in the newest version that Debian offers;
# /etc/apt stays unchanged.
fetch_source() {
	local package=postgresql-$1 suite version options=()

	mkdir -p "$cache/apt/lists/partial" "$cache/apt/cache/archives/partial" "$cache/sources"
	cd "$cache/sources"
	tarball=$(find . -name "${package}_*.orig.tar.*" ! -name '*.asc' | sort -V | tail -n 1)
	[ -z "$tarball" ] || return 0
	find_mirror
	for suite in trixie sid; do
		echo "deb-src [signed-by=$keyring] $mirror $suite main"
	done >"$cache/apt/sources.list"
	options=(-o "Dir::Etc::sourcelist=$cache/apt/sources.list"
		-o Dir::Etc::sourceparts=/dev/null -o "Dir::State::lists=$cache/apt/lists"
		-o "Dir::Cache=$cache/apt/cache" -o Acquire::Check-Valid-Until=false
		-o Acquire::Retries=3 -o APT::Sandbox::User=root)
	apt-get "${options[@]}" update
	for version in $(apt-cache "${options[@]}" showsrc "$package" |
		sed -n 's/^Version: //p' | sort -rVu); do
		if apt-get "${options[@]}" source --download-only "$package=$version"; then
			tarball=$(find . -name "${package}_${version%-*}.orig.tar.*" ! -name '*.asc')
			[ -z "$tarball" ] || return 0
		fi
	done
	die "there is no source of $package in trixie or sid"
}

# ---- builds ----

# Return true if there is a build with these options. They are written last, so an
# interrupted build begins anew.
is_built() {
	local prefix=$1

	shift
	[ -e "$prefix/options" ] && [ "$(cat "$prefix/options")" = "$*" ]
}

# Build PREFIX.build into PREFIX, with the function that "builder" names, and with these
# arguments of configure or meson, and those for assertions, TAP tests and, from 17 on,
# injection points.
build_server() {
	local prefix=$1

	shift
	rm -rf "$prefix"
	cd "$prefix.build"
	"${builder:-build_with_make}" "$@"
	cd /
	rm -rf "$prefix.build"
	echo "$*" >"$prefix/options"
}

build_with_make() {
	local options=(--enable-cassert --enable-debug --enable-tap-tests --without-icu)

	! grep -q enable-injection-points configure || options+=(--enable-injection-points)
	./configure --prefix="$prefix" "${options[@]}" "$@"
	make -s -j"$(nproc)" world-bin
	make -s install-world-bin
	[ ! -d src/test/modules/injection_points ] ||
		make -s -C src/test/modules/injection_points install
}

build_with_meson() {
	# without what it would find here, as translations
	meson setup build --prefix="$prefix" -Dauto_features=disabled -Dcassert=true \
		-Dtap_tests=enabled -Dinjection_points=true "$@"
	ninja -C build
	ninja -C build install
	ninja -C build install-test-files
}

# Print the version of a source tree: 16.4, or 20devel.
version_of_tree() {
	local version

	version=$(sed -n 's/^AC_INIT(\[PostgreSQL\], \[\([^]]*\)\].*/\1/p' "$1/configure.ac" 2>/dev/null)
	[ -n "$version" ] || die "$1 has no sources of PostgreSQL: configure.ac does not say which version"
	[ ! -e "$1/src/include/pg_config.h" ] ||
		die "the sources in $1 have been configured: \"make distclean\" there first"
	echo "$version"
}

checksum_of_tree() {
	(cd "$1" && find . -path ./.git -prune -o \( -type f -o -type l \) -print0 | sort -z |
		xargs -0 sha256sum | sha256sum | cut -c 1-12)
}

# Build a source tree, which stays unchanged, into a directory of the cache.
build_tree_of() {
	local tree=$1 prefix=$2

	! is_built "$prefix" || return 0
	install_build_tools
	rm -rf "$prefix.build"
	mkdir "$prefix.build"
	tar -C "$tree" --exclude=./.git -cf - . | tar -C "$prefix.build" --no-same-owner -xf -
	build_server "$prefix"
}

# Install what builds need. 16 and sources from git contain no generated parser and
# scanner.
install_build_tools() {
	install_packages gcc libc6-dev make perl flex bison bzip2 xz-utils \
		libreadline-dev zlib1g-dev libipc-run-perl debian-archive-keyring
}

# Build a major of Debian's sources into a directory of the cache.
build_major() {
	local major=$1 prefix=$2 tarball

	shift 2
	! is_built "$prefix" "$@" || return 0
	install_build_tools
	fetch_source "$major"
	rm -rf "$prefix.build"
	mkdir "$prefix.build"
	tar -C "$prefix.build" --strip-components=1 -xf "$cache/sources/$tarball"
	build_server "$prefix" "$@"
}

# ---- packages, in a chroot ----

# Run a command in a chroot. Mounts and processes are in namespaces of their own, and
# always end with the command. Programs in there that make namespaces need a root
# directory that is a mount.
in_chroot() {
	unshare --mount --pid --fork --kill-child bash -c '
		set -e
		mount --bind "$1" "$1"
		mount -t proc proc "$1/proc"
		mount -t tmpfs tmpfs "$1/dev/shm"
		exec chroot "$@"' - "$@"
}

# Make a chroot of a suite, with these arguments of debootstrap; the caller adds
# packages, and then the file "complete".
make_chroot() {
	local dir=$1 suite=$2

	shift 2
	install_packages debootstrap debian-archive-keyring
	find_mirror
	rm -rf "$dir"
	unshare --mount debootstrap --variant=minbase "$@" "$suite" "$dir" "$mirror"
	printf '#!/bin/sh\nexit 101\n' >"$dir/usr/sbin/policy-rc.d"
	chmod +x "$dir/usr/sbin/policy-rc.d"
	echo 'APT::Install-Recommends "false"; Acquire::Check-Valid-Until "false"; Acquire::Retries "3";' \
		>"$dir/etc/apt/apt.conf.d/99snowflake"
}

# Run test/all with these arguments in a chroot, on a copy of the sources.
suite_in_chroot() {
	local dir=$1 pg_config=$2 copy=/root/snowflake status=0 lock

	shift 2
	# one at a time, because the build is kept
	exec {lock}>"$dir.lock"
	flock "$lock"
	rm -rf "$dir$copy"
	mkdir "$dir$copy"
	copy_sources "$dir$copy"
	cp -L /etc/resolv.conf "$dir/etc/resolv.conf"
	in_chroot "$dir" env PG_CONFIG="$pg_config" "$copy/test/all" "$@" || status=$?
	rm -rf "$dir$copy"
	exec {lock}>&-
	return $status
}
