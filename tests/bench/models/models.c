/* SPDX-License-Identifier: MIT */
#include "tests/bench/models/models.h"

#include <string.h>

#include "alloc/heap/pool_types.h"
#include "tools/replay/whatif.h"

static const struct whatif_policy models_more[] = {
        {"torch-split", "PyTorch: blocks of 128 MiB are not cut, old ones go", &peer_split, 0,
                false, false},
        {"paddle", "Paddle's auto-growth best fit, chunk size 0", &peer_paddle, 0, false, false},
        {"paddle-vmm", "Paddle's VMM allocator v2 on a roomy device", &peer_paddle_vmm, 0, false,
                false},
        {"paddle-vmm-full", "the same, compacting before it grows", &peer_paddle_vmm_full, 0, false,
                false},
        {"rmm", "RMM's pool, doubling from nothing", &peer_rmm, 0, false, false},
        {"async", "cudaMallocAsync, as far as it is documented", &peer_async, 0, false, false},
        {"gmlake", "GMLake's stitching, its defaults", &peer_gmlake, 0, false, false},
        {"stalloc", "STAlloc's plan: all lifetimes are known", &peer_stalloc, 0, false, false},
        {"kedge-lazy", "kedge's pool with remap=lazy", NULL, POOL_REMAP_LAZY, false, false},
        {"kedge-never", "kedge's pool, which moves nothing", NULL, POOL_REMAP_NEVER, false, false},
};

void models_add(void)
{
    static struct whatif_policy all[WHATIF_POLICY_MAX];

    memcpy(all, whatif_policies, whatif_policy_count * sizeof(*all));
    memcpy(all + whatif_policy_count, models_more, sizeof(models_more));
    whatif_policies = all;
    whatif_policy_count += sizeof(models_more) / sizeof(*models_more);
}
