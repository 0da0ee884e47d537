/* SPDX-License-Identifier: MIT */
#include "preload/quick.h"

#include "preload/bypass.h"
#include "preload/mempools.h"

atomic_uint quick_closed = QUICK_ASLEEP;
struct pool *quick_pool;

void quick_start(struct pool *pool, bool quiet)
{
    quick_pool = pool;
    if (!quiet)
        atomic_fetch_or(&quick_closed, QUICK_RECORDED);
    atomic_fetch_and(&quick_closed, ~(unsigned)QUICK_ASLEEP);
}

void quick_end(void)
{
    atomic_fetch_or(&quick_closed, QUICK_ENDED);
}

/* ---- what is learned ------------------------------------------------------------------------ */

void quick_learn(const void *caller, CUmemoryPool mempool, int device, uint64_t mempool_id)
{
    struct context_memo *memo = &context_memo;

    if (memo->epoch != atomic_load(&context_epoch))
        return;
    memo->left = QUICK_ROUNDS;
    if (*quick_caller(caller) != caller)
        *quick_caller(caller) = bypass_spares(caller) ? caller : NULL;
    if (!mempool_id || atomic_load_explicit(&quick_closed, memory_order_relaxed) != 0)
        return;
    memo->mempool = mempool;
    memo->device = device;
    /* Asked after the epoch: what has changed since it was looked up is seen here or there. */
    memo->mempool_id = mempool_is_still(mempool, device, mempool_id) ? mempool_id : 0;
}
