/* SPDX-License-Identifier: MIT */
#include "preload/planned.h"

#include "preload/msg.h"
#include "tracker/capture.h"
#include "tracker/planfile.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* fixed by planned_start; stays, since the pool looks into it */
static const struct planfile *file;

/* Why the pool does not take it, in words. */
static void say_refused(const char *path, const struct planfile *refused, uint64_t quantum, int r)
{
    if (r == -EOPNOTSUPP)
        msg_warn("%s: a plan of the sync entrance is not followed: what is freed there waits for "
                 "the device before it can be used again",
                path);
    else if (refused->quantum != quantum)
        msg_warn("%s: made for sizes in multiples of %" PRIu64 " bytes, here they are of %" PRIu64
                 "; the plan is not followed",
                path, refused->quantum, quantum);
    else
        msg_warn("%s: %s, the plan is not followed", path, strerrordesc_np(-r));
}

void planned_start(const struct config *config, struct pool *pool, uint64_t quantum)
{
    const struct config_value *key = config_key(config, CONFIG_POOL, "plan");
    const char *path = key && key->set ? key->text : "";
    struct planfile_error error;
    struct planfile *fresh;
    struct pool_plan plan;
    int r;

    if (!*path)
        return;
    if (!pool) {
        msg_warn("KEDGE_POOL=plan= needs KEDGE_MODE=pool, the plan is not followed");
        return;
    }
    if (planfile_read(path, &fresh, &error) < 0) {
        msg_warn("%s, the plan is not followed", error.text);
        return;
    }
    plan = (struct pool_plan){.device = fresh->device,
            .entrance = fresh->entrance,
            .all_streams = fresh->all_streams,
            .quantum = fresh->quantum,
            .area = fresh->area,
            .block = fresh->block,
            .count = fresh->count};
    r = pool_set_plan(pool, &plan);
    if (r < 0) {
        say_refused(path, fresh, quantum, r);
        planfile_free(fresh);
        return;
    }
    file = fresh;
}

int planned_tell(struct pool *pool)
{
    struct pool_plan_stats stats;
    struct format_plan told;

    if (!file)
        return 0;
    pool_plan_stats(pool, &stats);
    told = (struct format_plan){
            .blocks = file->count,
            .area_bytes = file->area,
            .live_bytes = file->live,
            .steps = stats.steps,
            .matched = stats.matched,
            .placed = stats.placed,
            .fell_back = stats.fell_back,
            .unmatched = stats.unmatched,
            .skipped = stats.skipped,
            .resyncs = stats.resyncs,
    };
    return capture_plan(&told);
}
