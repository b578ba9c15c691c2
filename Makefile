# snowflake: bigint keys that are unique across servers and sort by time
#
#	make && sudo make install		for the server of pg_config in the PATH
#	make PG_CONFIG=/path/pg_config	for another
#	make V=1			shows the commands
#	make -f ../Makefile		from an empty directory: built there, with the
#					sources as they are (they may not be built themselves,
#					and their path has no blanks, at which make would split it)

ifneq ($(V),1)
.SILENT:
QUIETLY = -s --no-print-directory
endif

# The second one is the registry in PostgreSQL, in a database of its own.
EXTENSION = snowflake snowflake_registry
EXTVERSION = $(shell sed -n "s/^default_version *= *'\(.*\)'/\1/p" $(srcdir)/snowflake.control)

MODULE_big = snowflake
SOURCE_FILES = $(wildcard $(srcdir)/src/*.c $(srcdir)/src/*/*.c)
OBJS = $(sort $(patsubst $(srcdir)/%.c,%.o,$(SOURCE_FILES)))
DATA = $(addprefix sql/,$(notdir $(wildcard $(srcdir)/sql/*--*.sql)))

# pgEdge's extension of this name: where a database has it, in one of the
# versions that were released, ALTER EXTENSION ... UPDATE says so.
PGEDGE = 1.1 1.2 2.0 2.2 2.3 2.4 2.5.0 2.6.0
DATA_built = $(PGEDGE:%=snowflake--%--$(EXTVERSION).sql)

# SQL that C includes: see sql/embed.sed. It is in the directory of the build.
EMBEDDED = $(patsubst $(srcdir)/%,%.inc,$(wildcard $(srcdir)/src/*/*.sql))

# bitcode does not see PG_CFLAGS
PG_CPPFLAGS = -DSF_VERSION='"$(EXTVERSION)"' -I$(srcdir)/src -Isrc
PG_CFLAGS = -fvisibility=hidden

# A library that is loaded before ours may export the same names: call our own.
SHLIB_LINK = -Wl,-Bsymbolic-functions

# Places where tests can make a process die: see src/base/fault.h. Not for use.
ifdef FAULTS
PG_CPPFLAGS += -DSF_FAULTS
endif

# TICK_COUNTER=no leaves out the processor's counter: see src/base/clock.h.
ifeq ($(TICK_COUNTER),no)
PG_CPPFLAGS += -DSF_NO_TICK_COUNTER
endif

# What runs against any server that has the library preloaded and a node id, and
# what wants the settings in test/regress.conf.
REGRESS = layouts surface decode compose text times generation batches \
	privileges errors partitions feeds convert key_type remedies
REGRESS_SETTINGS = other_layouts shards copy settings renumber feed
REGRESS_OPTS = --inputdir=$(srcdir)/test
REGRESS_PREP = link-expected

EXTRA_CLEAN = $(EMBEDDED) results regression.diffs regression.out regress.conf $(wildcard $(foreach d,src src/*,$(d)/*.gcda $(d)/*.gcno))

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs 2>/dev/null)

# What needs no headers of a server, or installs them where there are none.
TOOLS = lint unit test quick long mutants versions coverage valgrind fuzz stress warnings \
	indent bits32 platforms vpath settings model soak package demo bench pictures \
	portable help dist

ifneq ($(wildcard $(PGXS)),)
# The bitcode is compiled by the clang of the server's own build.
ifneq ($(origin CLANG),command line)
CLANG := $(shell sed -n 's/^CLANG[ \t]*=[ \t]*//p' "$(dir $(PGXS))../Makefile.global")
endif
ifneq ($(and $(CLANG),$(filter-out command,$(firstword $(origin with_llvm)))),)
ifeq ($(shell $(CLANG) --version 2>/dev/null),)
$(info There is no $(CLANG) here: make leaves out the bitcode, which only JIT uses.)
override with_llvm = no
endif
endif
include $(PGXS)
else ifeq ($(filter-out $(TOOLS),$(or $(MAKECMDGOALS),all)),)
srcdir := $(patsubst %/,%,$(dir $(lastword $(MAKEFILE_LIST))))
else
$(error $(PG_CONFIG) finds no headers of a server: install them (on Debian: \
	"apt-get install postgresql-server-dev-all"), or run "make PG_CONFIG=/path/to/pg_config")
endif

# A build in another directory than the sources'. PGXS finds them by VPATH, which
# it sets even if they are here, and objects among them, too.
SOURCES := $(realpath $(srcdir))
ifneq ($(SOURCES),$(realpath .))
ELSEWHERE = yes
ifneq ($(wildcard $(SOURCES)/src/*.o $(SOURCES)/src/*/*.o $(SOURCES)/lease/*.o),)
$(error the sources have been built where they are: "make clean" there first)
endif
$(shell mkdir -p $(sort $(dir $(OBJS))))
endif

# pg_regress takes from the current directory what it expects.
link-expected:
	$(if $(ELSEWHERE),ln -sfn "$(SOURCES)/expected" expected)
.PHONY: link-expected

$(OBJS) $(OBJS:.o=.bc): $(wildcard $(srcdir)/src/*.h $(srcdir)/src/*/*.h) $(EMBEDDED) $(srcdir)/snowflake.control

$(EMBEDDED): %.inc: % sql/embed.sed
	sed -f $(srcdir)/sql/embed.sed $< >$@

$(DATA_built): sql/pgedge.sql
	cp $< $@

# The library that leases node ids, and the clients of registries, each of those that
# have what they need here.  They are no part of any plan, so nothing of them is compiled
# for JIT.
LIBPQ_INCLUDE := $(patsubst %/libpq-fe.h,%,$(firstword $(wildcard \
	$(includedir)/libpq-fe.h \
	$(shell pkg-config --variable=includedir libpq 2>/dev/null)/libpq-fe.h)))

HAVE_CURL := $(shell $(CC) $(CPPFLAGS) -E -x c -include curl/curl.h /dev/null \
	>/dev/null 2>&1 && echo yes)

# the library without threads, of which there need not be one beside the headers
HAVE_ZOOKEEPER := $(shell echo 'int main(void) {return 0;}' | $(CC) $(CPPFLAGS) \
	$(LDFLAGS) -o /dev/null -include zookeeper/zookeeper.h -x c - \
	-lzookeeper_st >/dev/null 2>&1 && echo yes)

REGISTRIES = $(if $(LIBPQ_INCLUDE),postgresql) $(if $(HAVE_CURL),etcd) \
	$(if $(HAVE_ZOOKEEPER),zookeeper)
LIBRARIES = lease $(REGISTRIES:%=lease/%)
RECURSE = +$(if $(ELSEWHERE),mkdir -p $* && )$(MAKE) $(QUIETLY) -C $* \
	PG_CONFIG="$(PG_CONFIG)" with_llvm=no LIBPQ_INCLUDE="$(LIBPQ_INCLUDE)" \
	$(if $(ELSEWHERE),-f "$(SOURCES)/$*/Makefile" VPATH="$(SOURCES)/$*")

all: $(LIBRARIES:%=all-%)
install: $(LIBRARIES:%=install-%)
uninstall: $(LIBRARIES:%=uninstall-%)
clean: $(LIBRARIES:%=clean-%)

$(LIBRARIES:%=all-%): all-%:
	$(RECURSE) all
$(LIBRARIES:%=install-%): install-%: all-%
	$(RECURSE) install
$(LIBRARIES:%=uninstall-%): uninstall-%:
	$(RECURSE) uninstall
$(LIBRARIES:%=clean-%): clean-%:
	$(RECURSE) clean
.PHONY: $(foreach l,$(LIBRARIES),all-$(l) install-$(l) uninstall-$(l) clean-$(l))

# ---- tests, and what else there is: "make help" lists it ----

OUTPUT ?= .
ARGS ?=

##@ as anybody
##: make		build for the server of PG_CONFIG; V=1 shows the commands	30 s
##: make install	install there	1 s
##: make installcheck	the regression tests, on a running server that has it preloaded	10 s
##: make lint	the rules that no compiler checks	10 s
lint:
	test/lint

##: make unit	what is pure, with sanitizers; needs no server	40 s
unit:
	test/unit/run

##: make regress	the regression tests, on a server of their own; not as root	15 s
# SNOWFLAKE_CONF: further settings of that server, in lines
regress:
	[ "$(OUTPUT)" -ef "$(srcdir)" ] || ln -sfn "$(SOURCES)/expected" "$(OUTPUT)/expected"
	cd "$(OUTPUT)" && printf '%s\n' "$$SNOWFLAKE_CONF" >regress.conf && \
		$(abspath $(top_builddir))/src/test/regress/pg_regress \
		--inputdir="$(SOURCES)/test" --outputdir=. \
		--temp-instance=./instance --bindir="$(bindir)" \
		--temp-config="$(SOURCES)/test/regress.conf" --temp-config=regress.conf \
		$(REGRESS) $(REGRESS_SETTINGS)

# Where there is no pg_config, and none was asked for, the scripts install a server.
TESTED = PG_CONFIG="$(if $(filter file,$(origin PG_CONFIG)),$(shell command -v $(PG_CONFIG)),$(PG_CONFIG))"

##@ as root, since packages may have to be installed
##: make test	the test suite: before each commit; ARGS='unit t/clock' for some of it	10 to 60 min
test:
	$(TESTED) test/all $(ARGS)

##: make quick	for a look: lint, unit, regress, a crash, a failover, a lease	1 min
quick:
	$(TESTED) test/all quick

##: make long	all that takes hours, going on where it was stopped; ARGS=--list shows it	6 h
long:
	test/long $(ARGS)

##: make mutants	each test still finds the fault that it is there for; ARGS=NAME	40 min
mutants:
	test/mutants/run $(ARGS)

##: make versions	the suite on 15, 17, 18 and 19; ARGS=musl on another build	60 min
versions:
	test/versions $(ARGS)

##: make coverage	the lines of src that no test runs	15 min
coverage:
	test/coverage

##: make valgrind	the unit tests in valgrind	4 min
valgrind:
	VALGRIND=1 test/unit/run

##: make fuzz	each parser gets random texts; SECONDS_EACH=600 for longer	1 min
fuzz:
	test/fuzz/run

##: make stress	threads at the counter, with ThreadSanitizer	30 s
stress:
	$(TESTED) test/unit/stress

##: make warnings	gcc and clang with -Wall -Wextra	2 min
warnings:
	$(TESTED) test/warnings

##: make indent	the C sources are as pgindent leaves them; ARGS=--fix makes them so	15 s
indent:
	test/indent $(ARGS)

##: make bits32	on 32 bits, in a chroot for i386	5 min
bits32:
	test/bits32 $(ARGS)

##: make platforms	cross compilers, and other processors in emulation; ARGS=s390x	40 min
platforms:
	test/platforms $(ARGS)

##: make vpath	a build in another directory than the sources'	2 min
vpath:
	$(TESTED) test/vpath

##: make settings	caches that are gone at any moment; wal_level = minimal	7 min
settings:
	$(TESTED) test/settings $(ARGS)

##: make model	the protocols, in all interleavings, with spin	4 min
model:
	test/model/run $(ARGS)

##: make soak	faults at random, for SECONDS; ARGS='nodes etcd feed' for other kinds	SECONDS
soak:
	test/soak $(or $(SECONDS),600) $(ARGS)

##: make package	the packages; the README on a bare Debian; docker/Dockerfile	4 min
package:
	test/package

##: make demo	starts a private server that has the extension, and shows it at work	1 min
demo:
	test/demo

##: make bench	the benchmark; QUICK=1 for a look	20 to 50 min
bench:
	bench/run

##: make pictures	those of the documentation, by gnuplot and Chromium	10 s
pictures:
	doc/pictures/make

##: make portable	the presets in sql/portable.sql	1 s
portable:
	sql/portable-make

help:
	@sed -n 's/^##@ \(.*\)/\n\1:/p; s/^##: //p' $(lastword $(filter %Makefile,$(MAKEFILE_LIST))) | \
		awk -F '\t+' 'NF == 3 { printf "  %-18s %-74s %s\n", $$1, $$2, $$3; next } { print }'

.PHONY: $(TOOLS) regress

##: make dist	the archive for PGXN, of the last commit	1 s
DISTVERSION = $(shell sed -n 's/^   "version": "\(.*\)",/\1/p' META.json)

dist:
	git archive --format=zip --prefix=snowflake-$(DISTVERSION)/ \
		-o snowflake-$(DISTVERSION).zip HEAD
