/* SPDX-License-Identifier: MIT */
#include "tests/bench/models/models.h"

#include <string.h>

#include "tools/replay/whatif.h"

static const struct whatif_policy models_more[] = {
        {"paddle", "Paddle's auto-growth best fit, chunk size 0", &peer_paddle, 0, false, false},
        {"rmm", "RMM's pool, doubling from nothing", &peer_rmm, 0, false, false},
        {"async", "cudaMallocAsync, as far as it is documented", &peer_async, 0, false, false},
};

void models_add(void)
{
    static struct whatif_policy all[WHATIF_POLICY_MAX];

    memcpy(all, whatif_policies, whatif_policy_count * sizeof(*all));
    memcpy(all + whatif_policy_count, models_more, sizeof(models_more));
    whatif_policies = all;
    whatif_policy_count += sizeof(models_more) / sizeof(*models_more);
}
