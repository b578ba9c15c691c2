/*-------------------------------------------------------------------------
 *
 * lease_loss.c
 *	  Behaviour while the registry has lost data (registry_age.h).
 *
 * The registry may give to others what this server holds, and the other way
 * round.  So the server claims, extends and releases nothing until an
 * administrator has recovered the registry; until then it only reads, again
 * and again.  An acknowledged right lasts until it expires, but not under
 * another generation whose floor is below its until: there another server may
 * begin earlier.
 *
 *-------------------------------------------------------------------------
 */
#include "lease/lease.h"

#include <stdio.h>

#define RECOVER_S	90			/* default argument of
								 * snowflake_registry_recover() */

/*
 * Return true if another server has claimed our slot since, or an
 * administrator has freed it.  If several claims are lost, their number does
 * not tell that, but the time does.  In doubt, stop.
 */
static bool
is_claimed_since(const SfLease *lease, const SfRegistry *registry)
{
	const SfSlotRecord *record = sf_slot_record_find(registry,
													 lease->record.node);

	return record != NULL && record->owner != lease->record.owner &&
		((registry->generation == lease->generation &&
		  record->epoch >= lease->record.epoch) ||
		 record->since_ms > lease->record.since_ms);
}

/*
 * Return how many seconds a recovery must reserve: the default, and at least
 * what this server knows of.
 */
static int64_t
reserve_s(const SfLease *lease, SfMoment now)
{
	int64_t		reserve = lease->config.reserve_ms;
	int64_t		promised = sf_age_promised_ms(lease->config.age) - now.wall_ms;
	int64_t		known = sf_age_reserve_ms(lease->config.age, now.wall_ms);

	if (reserve < promised)
		reserve = promised;
	if (reserve < known)
		reserve = known;
	return reserve <= RECOVER_S * 1000 ? RECOVER_S : (reserve + 999) / 1000;
}

static void
report_loss(SfLease *lease, SfMoment now, SfLoss loss)
{
	static const char *const problems[] = {
		[SF_LOSS_ALL] = "The registry has lost its data: it is empty, and this server has leased from it.",
		[SF_LOSS_SOME] = "The registry has lost data: it is older than when this server last asked it.",
		[SF_LOSS_SUPERSEDED] = "The registry is an old one, from before its last recovery.",
		[SF_LOSS_FLOOR] = "The registry has lost data: it would give away what it has confirmed to this server."
	};
	const SfLeaseConfig *config = &lease->config;
	char		remedy[SF_REMEDY_SIZE];
	int			reserve = (int) reserve_s(lease, now);
	char		argument[20] = "";

	if (reserve > RECOVER_S || loss == SF_LOSS_ALL)
		snprintf(argument, sizeof(argument), "'%d s'", reserve);
	if (loss == SF_LOSS_SUPERSEDED)
		snprintf(remedy, sizeof(remedy),
				 "Stop the old registry, so that servers reach the one that was recovered. If that one is gone, %s(%s);",
				 config->recover, argument);
	else if (loss == SF_LOSS_ALL)
		snprintf(remedy, sizeof(remedy),
				 "If snowflake.registry names the right one, and no copy of its data is left, %s(%s)%s In place of %d s give the largest snowflake.lease_reserve of all servers.",
				 config->recreate, argument, config->recreated, reserve);
	else if (loss == SF_LOSS_FLOOR)
		snprintf(remedy, sizeof(remedy),
				 "If snowflake.registry names the right one, %s(%s);",
				 config->recover, argument);
	else
		snprintf(remedy, sizeof(remedy),
				 "When snowflake.registry names the right one, with the newest copy of its data that is left, %s(%s);",
				 config->recover, argument);
	sf_lease_set_behind(lease, now, problems[loss], remedy);
}

/*
 * Check a reading for lost data.  If there is a loss, do nothing but read
 * again.  Stop using the right only if the registry has since given the slot
 * to another server, or another generation gives it away below our until.
 */
SfLoss
sf_lease_find_loss(SfLease *lease, SfMoment now,
				   const SfRegistry *registry)
{
	SfLoss		loss = sf_age_read(lease->config.age, registry);

	lease->loss = loss;
	if (loss == SF_LOSS_NONE)
		return SF_LOSS_NONE;
	lease->unsure = lease->state == SF_LEASE_HELD;
	if (lease->state == SF_LEASE_RELEASING)
		lease->state = SF_LEASE_ENDED;	/* the slot expires by itself */
	if (lease->right.valid && loss == SF_LOSS_FLOOR)
		sf_lease_fence(lease, now, "the registry is another one, which may give it to another server.");
	else if (lease->right.valid && is_claimed_since(lease, registry))
		sf_lease_fence(lease, now, "the registry has lost data, and has given it to another server.");
	report_loss(lease, now, loss);
	return loss;
}

/*
 * Return the result of the request.  If a registry that has lost data
 * acknowledges a write, return a conflict: do not rely on it, and read again.
 */
SfResult
sf_lease_result(SfLease *lease, const SfAnswer *answer)
{
	const SfAsk *ask = &lease->ask;
	SfSlotRecord record = ask->record;

	if (answer->result != SF_RESULT_DONE || ask->kind == SF_ASK_READ ||
		ask->kind == SF_ASK_KEEPALIVE)
		return answer->result;
	record.version = answer->version;
	return sf_age_write(lease->config.age, ask->generation, &record,
						answer->registry_version) ?
		SF_RESULT_DONE : SF_RESULT_CONFLICT;
}
