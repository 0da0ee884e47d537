/* SPDX-License-Identifier: MIT */
#include "alloc/heap/outcome_queue.h"

#include "alloc/base/meta.h"

void outcome_queue_tell(struct pool *pool, const struct outcome *outcome)
{
    struct news *news = meta_get(sizeof(*news));

    if (!news)
        return;
    news->outcome = *outcome;
    if (pool->news_last)
        pool->news_last->next = news;
    else
        pool->news_first = news;
    pool->news_last = news;
    atomic_fetch_add_explicit(&pool->gate.news, 1, memory_order_relaxed);
}

bool outcome_queue_take(struct pool *pool, struct outcome *ret)
{
    struct news *news = pool->news_first;

    if (!news)
        return false;
    *ret = news->outcome;
    pool->news_first = news->next;
    if (!news->next)
        pool->news_last = NULL;
    atomic_fetch_sub_explicit(&pool->gate.news, 1, memory_order_relaxed);
    meta_put(news, sizeof(*news));
    return true;
}
