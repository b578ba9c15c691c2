/*-------------------------------------------------------------------------
 *
 * compat.h
 *	  Makes older majors look like the newest: the only home of PG_VERSION_NUM.
 *
 * Include it right after postgres.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_COMPAT_H
#define SF_COMPAT_H

#if PG_VERSION_NUM < 150000
#error "snowflake needs PostgreSQL 15 or newer"
#endif

/*
 * Export symbols.  From 16 on, the server builds extensions with hidden
 * symbols and marks the exported ones.  The Makefile hides them on all majors,
 * so mark them here too.
 */
#if PG_VERSION_NUM < 160000
#undef PGDLLEXPORT
#define PGDLLEXPORT __attribute__((visibility("default")))
#define SF_FUNCTION(name) \
	extern PGDLLEXPORT Datum name(PG_FUNCTION_ARGS); \
	PG_FUNCTION_INFO_V1(name)
#else
#define SF_FUNCTION(name) PG_FUNCTION_INFO_V1(name)
#endif

/* Macros for varlena that postgres.h had before 16. */
#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

/* Before 20 its name was pg_attribute_always_inline. */
#ifndef pg_always_inline
#define pg_always_inline pg_attribute_always_inline
#endif

/* The module's name and version, where the server can show them. */
#if PG_VERSION_NUM >= 180000
#define SF_MODULE_MAGIC(module) \
	PG_MODULE_MAGIC_EXT(.name = module, .version = SF_VERSION)
#else
#define SF_MODULE_MAGIC(module) PG_MODULE_MAGIC
#endif

/* Named wait events; before 17 all extensions share one. */
#include "utils/wait_event.h"
#if PG_VERSION_NUM >= 170000
static inline uint32
sf_wait_event(uint32 *cache, const char *name)
{
	if (*cache == 0)
		*cache = WaitEventExtensionNew(name);
	return *cache;
}
#else
#define sf_wait_event(cache, name) ((void) (cache), PG_WAIT_EXTENSION)
#endif

/* Before 17 the set belongs to a memory context.  Include resowner.h. */
#if PG_VERSION_NUM >= 170000
#define sf_create_wait_event_set(n) CreateWaitEventSet(CurrentResourceOwner, n)
#else
#define sf_create_wait_event_set(n) CreateWaitEventSet(CurrentMemoryContext, n)
#endif

/* True if this transaction made the relation or its file.  Include rel.h. */
#if PG_VERSION_NUM >= 160000
#define sf_relation_is_new(rel) \
	((rel)->rd_createSubid != InvalidSubTransactionId || \
	 (rel)->rd_firstRelfilelocatorSubid != InvalidSubTransactionId)
#else
#define sf_relation_is_new(rel) \
	((rel)->rd_createSubid != InvalidSubTransactionId || \
	 (rel)->rd_firstRelfilenodeSubid != InvalidSubTransactionId)
#endif

/* The hook that the planner calls for base relations; 19 shows all kinds. */
#if PG_VERSION_NUM >= 190000
#include "optimizer/pathnode.h"
#define sf_rel_hook			build_simple_rel_hook
typedef build_simple_rel_hook_type sf_rel_hook_type;
#define SF_REL_HOOK_HAS_RTE
#define SF_REL_HOOK_SEES(kind) true
#else
#include "optimizer/plancat.h"
#define sf_rel_hook			get_relation_info_hook
typedef get_relation_info_hook_type sf_rel_hook_type;
#define SF_REL_HOOK_SEES(kind) ((kind) == RTE_RELATION)
#endif

/*
 * True in the worker that copies a publisher's sequences, which exists from 19
 * on.  Include worker_internal.h.  Majors before that do not export the
 * functions used.
 */
#define SF_SYNCS_SEQUENCES	(PG_VERSION_NUM >= 190000)
#if SF_SYNCS_SEQUENCES
#define sf_syncs_sequences() \
	(MyLogicalRepWorker != NULL && am_sequencesync_worker())
#else
#define sf_syncs_sequences()	false
#endif

/*
 * The name of the memory context in which COPY FROM plans defaults; see
 * copy_default.c.  On unknown majors no context matches: COPY is slower, and
 * still correct.  Of 20 we have seen the development branch of August 2026.
 */
#if PG_VERSION_NUM < 210000
#define SF_COPY_CONTEXT		"COPY"
#else
#define SF_COPY_CONTEXT		""
#endif

/* A page that may be written around the kernel's cache, from 16 on. */
#if PG_VERSION_NUM < 160000
#define PGIOAlignedBlock	PGAlignedBlock
#endif

/* Bytes are unsigned in base64.h from 18 on. */
#if PG_VERSION_NUM >= 180000
typedef uint8 SfByte;
#else
typedef char SfByte;
#endif

/* Rights to all classes of objects have one function from 16 on. */
#if PG_VERSION_NUM >= 160000
#define sf_relation_ownercheck(relation, role) \
	object_ownercheck(RelationRelationId, relation, role)
#define sf_function_aclcheck(function, role, mode) \
	object_aclcheck(ProcedureRelationId, function, role, mode)
#define sf_schema_aclcheck(schema, role, mode) \
	object_aclcheck(NamespaceRelationId, schema, role, mode)
#else
#define sf_relation_ownercheck(relation, role) \
	pg_class_ownercheck(relation, role)
#define sf_function_aclcheck(function, role, mode) \
	pg_proc_aclcheck(function, role, mode)
#define sf_schema_aclcheck(schema, role, mode) \
	pg_namespace_aclcheck(schema, role, mode)
#endif

/* Whether SET ROLE is allowed is no longer membership alone from 16 on. */
#if PG_VERSION_NUM >= 160000
#define sf_may_become(member, role) member_can_set_role(member, role)
#else
#define sf_may_become(member, role) is_member_of_role(member, role)
#endif

/* Scans count for EXPLAIN from 18 on, and have flags from 19 on. */
#if PG_VERSION_NUM >= 190000
#define sf_index_beginscan(table, index, snapshot, nkeys) \
	index_beginscan(table, index, snapshot, NULL, nkeys, 0, SO_NONE)
#elif PG_VERSION_NUM >= 180000
#define sf_index_beginscan(table, index, snapshot, nkeys) \
	index_beginscan(table, index, snapshot, NULL, nkeys, 0)
#else
#define sf_index_beginscan(table, index, snapshot, nkeys) \
	index_beginscan(table, index, snapshot, nkeys, 0)
#endif

/* Number and transaction of this process.  Include proc.h. */
#if PG_VERSION_NUM >= 170000
#define sf_my_proc_number()		((int) MyProcNumber)
#define sf_my_lxid()			(MyProc->vxid.lxid)
#else
#define sf_my_proc_number()		(MyProc->pgprocno)
#define sf_my_lxid()			(MyProc->lxid)
#endif

/* Return all settings, and set *n to their number.  Include guc_tables.h. */
#if PG_VERSION_NUM >= 160000
#define sf_all_gucs(n)		get_guc_variables(n)
#else
#define sf_all_gucs(n)		(*(n) = GetNumConfigOptions(), get_guc_variables())
#endif

#endif							/* SF_COMPAT_H */
