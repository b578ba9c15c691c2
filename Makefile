# snowflake: bigint keys that are unique across servers and sort by time
#
#	make && sudo make install		for the server of pg_config in the PATH
#	make PG_CONFIG=/path/pg_config	for another

EXTENSION = snowflake
EXTVERSION = $(shell sed -n "s/^default_version *= *'\(.*\)'/\1/p" $(EXTENSION).control)

MODULE_big = snowflake
OBJS = $(patsubst %.c,%.o,$(sort $(wildcard src/*.c)))
DATA = $(wildcard sql/snowflake--*.sql)

# pgEdge's extension of this name: where a database has it, in one of the
# versions that were released, ALTER EXTENSION ... UPDATE says so.
PGEDGE = 1.1 1.2 2.0 2.2 2.3 2.4 2.5.0 2.6.0
DATA_built = $(PGEDGE:%=snowflake--%--$(EXTVERSION).sql)

PG_CPPFLAGS = -DSF_VERSION='"$(EXTVERSION)"'
PG_CFLAGS = -fvisibility=hidden

# Places where tests can make a process die: see src/fault.h. Not for use.
ifdef FAULTS
PG_CPPFLAGS += -DSF_FAULTS
endif

# What runs against any server that has the library preloaded and a node id;
# test/all runs the rest on servers of its own.
REGRESS = layouts decode text times generation batches privileges errors \
	partitions feeds convert
REGRESS_OPTS = --inputdir=test

EXTRA_CLEAN = results regression.diffs regression.out src/*.gcda src/*.gcno

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)

$(OBJS) $(OBJS:.o=.bc): $(wildcard src/*.h) snowflake.control

$(DATA_built): sql/pgedge.sql
	cp $< $@

# The libraries of registries, each of those that have what they need here.
# They are no part of any plan, so nothing of them is compiled for JIT.
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
RECURSE = +$(MAKE) -C registry/$* PG_CONFIG="$(PG_CONFIG)" with_llvm=no \
	LIBPQ_INCLUDE="$(LIBPQ_INCLUDE)"

all: $(REGISTRIES:%=all-%)
install: $(REGISTRIES:%=install-%)
uninstall: $(REGISTRIES:%=uninstall-%)
clean: $(REGISTRIES:%=clean-%)

$(REGISTRIES:%=all-%): all-%:
	$(RECURSE) all
$(REGISTRIES:%=install-%): install-%:
	$(RECURSE) install
$(REGISTRIES:%=uninstall-%): uninstall-%:
	$(RECURSE) uninstall
$(REGISTRIES:%=clean-%): clean-%:
	$(RECURSE) clean
.PHONY: $(foreach r,$(REGISTRIES),all-$(r) install-$(r) uninstall-$(r) clean-$(r))

.PHONY: demo test versions coverage lint unit valgrind fuzz stress warnings \
	mutants model soak bench pictures dist package

demo:
	test/demo

test:
	test/all

versions:
	test/versions

coverage:
	test/coverage

lint:
	test/lint

unit:
	test/unit/run

valgrind:
	VALGRIND=1 test/unit/run

fuzz:
	test/fuzz/run

stress:
	PG_CONFIG="$(PG_CONFIG)" test/unit/stress

warnings:
	PG_CONFIG="$(PG_CONFIG)" test/warnings

model:
	test/model/run

mutants:
	test/mutants/run

soak:
	test/soak $(SECONDS)

bench:
	bench/run

pictures:
	doc/pictures/make

# what is uploaded to PGXN: the last commit
DISTVERSION = $(shell sed -n 's/^   "version": "\(.*\)",/\1/p' META.json)

dist:
	git archive --format=zip --prefix=$(EXTENSION)-$(DISTVERSION)/ \
		-o $(EXTENSION)-$(DISTVERSION).zip HEAD

package:
	test/package
