# Functions for needs of TAP tests that are no Debian packages: for each word of a "#
# needs:" or "# part" line there is a function need_WORD. It prints assignments for
# the test. If the thing is not available, it returns 1, and its last line on
# standard error is the reason; any other status fails the run. Fetched files are
# kept in the cache for the next run. Sourced with test/tap.sh.

# These fetch what no package of this system offers, which may take minutes.
fetching=(django5 kubernetes_schemas pg_driver orm_packages postgraphile npm_tools)

# Build a library with fault points (src/base/fault.h), in a server of its own.
need_fault_points() {
	copy_server "$server_pg_config" "$scratch/server.faults"
	(build "$major-faults" FAULTS=1 with_llvm=no) >&2 || return 2
	printf '%s\n' "PG_CONFIG=$PG_CONFIG" "bindir=$bindir"
}

# Build the library that calls a registry's library as the worker does.
need_registry_driver() {
	as_postgres make -s -C "$tree/test/helpers/registry_driver" PG_CONFIG="$PG_CONFIG" \
		with_llvm=no >&2 || return 2
}

# Make a place for a small file system, which is soon full.
need_small_disk() {
	mkdir "$scratch/small"
	mount -t tmpfs -o size=64m,mode=777 tmpfs "$scratch/small" >&2 ||
		{ echo 'no file system can be mounted here' >&2 && return 1; }
	echo "export SNOWFLAKE_SMALL_DISK=$scratch/small"
}

need_server_16() {
	[ "$major" -ge 16 ] || { echo "it takes PostgreSQL 16, and this is $major" >&2 && return 1; }
}

need_server_17() {
	[ "$major" -ge 17 ] || { echo "it takes PostgreSQL 17, and this is $major" >&2 && return 1; }
}

# Debian 12's does not know newer servers.
need_pgbackrest() {
	[ "$major" -le 15 ] || { echo "pgBackRest 2.45 takes PostgreSQL 15 or older, and this is $major" >&2 && return 1; }
	install_packages pgbackrest >&2
}

need_server_19() {
	[ "$major" -ge 19 ] || { echo "it takes PostgreSQL 19, and this is $major" >&2 && return 1; }
}

# Find what belongs to this server: a file of it, or one of Debian's packages.
find_for_server() {
	local file=$1 package=$2 major

	[ ! -f "$file" ] || return 0
	if [[ $("$server_pg_config" --bindir) =~ ^/usr/lib/postgresql/([0-9]+)/bin$ ]]; then
		major=${BASH_REMATCH[1]}
		if (install_packages "postgresql-$major-$package") >&2; then
			copy_server "$server_pg_config" "$scratch/server"
			return
		fi
	fi
	echo "there is no $package for this server, installed or as a package" >&2
	return 1
}

# Find an installation of an earlier major that has the extension.
need_older_server() {
	[ -n "${OLD_PG_CONFIG:-}" ] ||
		{ echo 'OLD_PG_CONFIG does not say from which major' >&2 && return 1; }
	printf 'export OLD_PG_CONFIG=%q\n' "$(realpath -s "$OLD_PG_CONFIG")"
}

need_postgres_fdw() {
	[ -f "$("$server_pg_config" --sharedir)/extension/postgres_fdw.control" ] ||
		{ echo 'this server has no postgres_fdw' >&2 && return 1; }
}

need_btree_gist() {
	local pg_config

	for pg_config in "$server_pg_config" ${OLD_PG_CONFIG:+"$OLD_PG_CONFIG"}; do
		[ -f "$("$pg_config" --sharedir)/extension/btree_gist.control" ] &&
			[ -f "$("$pg_config" --sharedir)/extension/btree_gin.control" ] ||
			{ echo 'this server has no btree_gist and btree_gin' >&2 && return 1; }
	done
}

# Find pg_partman for this server: installed, or one of Debian's packages.
need_partman() {
	find_for_server "$("$server_pg_config" --sharedir)/extension/pg_partman.control" partman
}

need_pglogical() {
	find_for_server "$("$server_pg_config" --sharedir)/extension/pglogical.control" pglogical
}

need_wal2json() {
	find_for_server "$("$server_pg_config" --pkglibdir)/wal2json.so" wal2json
}

need_repmgr() {
	find_for_server "$("$server_pg_config" --pkglibdir)/repmgr.so" repmgr
}

need_decoderbufs() {
	find_for_server "$("$server_pg_config" --pkglibdir)/decoderbufs.so" decoderbufs
}

# Find Node.js and npm: Debian's, or others in the PATH.
need_nodejs() {
	command -v node >/dev/null || (install_packages nodejs) >&2
}

need_npm() {
	need_nodejs && { command -v npm >/dev/null || (install_packages npm) >&2; }
}

# Unpack the driver of Node.js for PostgreSQL: Debian's package can be installed only
# with Debian's Node.js.
need_pg_driver() {
	local packages=(node-pg node-split2) dir deb

	if [ ! -d "$cache/pg_driver" ]; then
		dir=$(mktemp -d "$scratch/pg_driver.XXXXXX")
		(cd "$dir" && { apt-get download "${packages[@]}" ||
			{ apt-get update && apt-get download "${packages[@]}"; }; }) >&2 ||
			{ echo "apt-get could not fetch: ${packages[*]}" >&2 && return 1; }
		for deb in "$dir"/*.deb; do
			dpkg-deb -x "$deb" "$dir/unpacked"
		done
		keep "$dir/unpacked" "$cache/pg_driver"
	fi
	echo "export NODE_PATH=$cache/pg_driver/usr/share/nodejs"
}

# Fetch Django 5.2, which Debian 12 does not have, with its needs. All of it is
# Python, unpacked from Debian's unstable.
need_django5() {
	local dir options deb

	if [ ! -d "$cache/django5" ]; then
		(install_packages python3 debian-archive-keyring) >&2
		find_mirror >&2
		dir=$(mktemp -d "$scratch/django.XXXXXX")
		mkdir -p "$dir/lists/partial" "$dir/cache/archives/partial" "$dir/unpacked"
		echo "deb [signed-by=$keyring] $mirror sid main" >"$dir/sources.list"
		options=(-o "Dir::Etc::sourcelist=$dir/sources.list" -o Dir::Etc::sourceparts=/dev/null
			-o "Dir::State::lists=$dir/lists" -o "Dir::Cache=$dir/cache"
			-o Acquire::Check-Valid-Until=false -o Acquire::Retries=3 -o APT::Sandbox::User=root)
		apt-get "${options[@]}" update >&2
		(cd "$dir" && apt-get "${options[@]}" download 'python3-django=3:5.2*' python3-asgiref \
			python3-sqlparse python3-psycopg python3-typing-extensions) >&2 ||
			{ echo 'Django 5.2 cannot be had as a package' >&2 && return 1; }
		for deb in "$dir"/*.deb; do
			dpkg-deb -x "$deb" "$dir/unpacked"
		done
		PYTHONPATH=$dir/unpacked/usr/lib/python3/dist-packages \
			/usr/bin/python3 -c 'import psycopg, django.db.models' >&2
		keep "$dir/unpacked" "$cache/django5"
	fi
	echo "export SNOWFLAKE_DJANGO5=$cache/django5/usr/lib/python3/dist-packages"
}

# Fetch the packages of examples/orm, in the versions of its lock file.
need_orm_packages() {
	local kept dir

	kept=$cache/orm-$(sha256sum <"$root/examples/orm/package-lock.json" | cut -c 1-16)
	if [ ! -d "$kept" ]; then
		need_npm || return 1
		dir=$(mktemp -d "$scratch/orm.XXXXXX")
		(cd "$dir" &&
			cp "$root"/examples/orm/{package.json,package-lock.json,.npmrc} . &&
			npm ci --no-audit --no-fund) >&2 ||
			{ echo 'npm cannot install the packages of examples/orm' >&2 && return 1; }
		keep "$dir" "$kept"
	fi
	ln -sfn "$kept/node_modules" "$tree/examples/orm/node_modules"
	as_postgres mkdir -p "$tree/examples/orm/out"
	echo "export SNOWFLAKE_ORM_OUT=$tree/examples/orm/out"
}

# Fetch PostGraphile 4 and 5, and a Node.js that is new enough for 5.
need_postgraphile() {
	local dir package

	if [ ! -d "$cache/postgraphile" ]; then
		need_npm || return 1
		dir=$(mktemp -d "$scratch/postgraphile.XXXXXX")
		for package in 4/postgraphile@4.14.1 5/postgraphile@5.1.5 \
			"node/$(node -p '`node-${process.platform}-${process.arch}`')@22.23.5"; do
			npm install --prefix "$dir/${package%%/*}" --ignore-scripts --no-audit --no-fund \
				"${package#*/}" >&2 ||
				{ echo "this cannot be had from npm: ${package#*/}" >&2 && return 1; }
		done
		ln -s "$(cd "$dir" && echo node/node_modules/node-*/bin/node)" "$dir/run"
		keep "$dir" "$cache/postgraphile"
	fi
	echo "export SNOWFLAKE_POSTGRAPHILE=$cache/postgraphile"
}

# Fetch tools of npm that no example shows.
need_npm_tools() {
	local packages=(pg@8.23.1 kysely@0.28.8 drizzle-orm@0.45.0 graphile-worker@0.16.6 knex@3.1.0
		@mikro-orm/core@6.6.16 @mikro-orm/knex@6.6.16 @mikro-orm/postgresql@6.6.16
		@loopback/repository@8.0.15 @loopback/core@7.0.15 loopback-connector-postgresql@9.0.3) dir

	if [ ! -d "$cache/npm_tools" ]; then
		need_npm || return 1
		dir=$(mktemp -d "$scratch/npm_tools.XXXXXX")
		npm install --prefix "$dir" --ignore-scripts --no-audit --no-fund -E \
			"${packages[@]}" >&2 ||
			{ echo "these cannot be had from npm: ${packages[*]}" >&2 && return 1; }
		keep "$dir" "$cache/npm_tools"
	fi
	echo "export SNOWFLAKE_NPM_TOOLS=$cache/npm_tools"
}

# Fetch Kubernetes' schemas.
need_kubernetes_schemas() {
	local packages=(kubernetes-models@5.1.0 @kubernetes-models/cloudnative-pg@2.0.0
		typescript@5.9.3) dir

	if [ ! -d "$cache/schemas" ]; then
		need_npm || return 1
		dir=$(mktemp -d "$scratch/schemas.XXXXXX")
		npm install --prefix "$dir" --ignore-scripts --no-audit --no-fund \
			"${packages[@]}" >&2 ||
			{ echo "these cannot be had from npm: ${packages[*]}" >&2 && return 1; }
		keep "$dir" "$cache/schemas"
	fi
	echo "export SNOWFLAKE_SCHEMAS=$cache/schemas"
}

# Put a directory into the cache, whole or not at all.
keep() {
	local new

	mkdir -p "$cache"
	chmod 755 "$1"
	new=$(mktemp -d "$2.new.XXXXXX")
	if ! { chmod 755 "$new" && cp -a "$1/." "$new"; }; then
		rm -rf "$new"
		return 1
	fi
	# another run may have been quicker
	mv -T "$new" "$2" 2>/dev/null || { rm -rf "$new" && [ -d "$2" ]; }
}
