/* SPDX-License-Identifier: MIT */
/*
 * swapstory.h - stories (story.h) with a clock and uses: what the tools plan eviction by.
 *
 *     struct swapstory s = swapstory_begin();
 *     uint32_t x = swapstory_alloc(&s, SITE, 128 * MIB);
 *     swapstory_enter(&s, "step");
 *     swapstory_use(&s, x);
 *     ... s.story.trace ...
 *
 * Each line takes a millisecond. All blocks are watched: their uses are known, and none is unseen.
 */
#ifndef KEDGE_TESTS_UNIT_SWAPSTORY_H
#define KEDGE_TESTS_UNIT_SWAPSTORY_H

#include "tests/unit/tools/story.h"

#define SWAPSTORY_NS UINT64_C(1000000)

struct swapstory {
    struct story story;
    uint64_t now_ns;
};

static inline struct swapstory swapstory_begin(void)
{
    return (struct swapstory){.story = story_begin()};
}

static inline void swapstory_end(struct swapstory *s)
{
    story_end(&s->story);
}

/* The last event happened now. */
static inline void swapstory_tick(struct swapstory *s)
{
    struct trace *trace = s->story.trace;

    s->now_ns += SWAPSTORY_NS;
    trace->events[trace->event_count - 1].time_ns = s->now_ns;
}

static inline uint32_t swapstory_alloc(struct swapstory *s, uint64_t site, uint64_t size)
{
    uint32_t block = story_alloc(&s->story, site, size);
    struct trace_block *made = &s->story.trace->blocks[block];

    swapstory_tick(s);
    made->born_ns = s->now_ns;
    made->use_flags = FORMAT_USE_WATCHED;
    return block;
}

static inline void swapstory_free(struct swapstory *s, uint32_t block)
{
    story_free(&s->story, block);
    swapstory_tick(s);
    s->story.trace->blocks[block].died_ns = s->now_ns;
}

static inline void swapstory_enter(struct swapstory *s, const char *name)
{
    (void)story_enter(&s->story, name);
    swapstory_tick(s);
}

static inline void swapstory_exit(struct swapstory *s)
{
    story_exit(&s->story);
    swapstory_tick(s);
}

/* One call uses them all. */
static inline void swapstory_use_all(struct swapstory *s, const uint32_t *blocks, size_t count)
{
    s->now_ns += SWAPSTORY_NS;
    for (size_t i = 0; i < count; i++) {
        struct trace_uses uses = trace_uses(s->story.trace, &s->story.trace->blocks[blocks[i]]);

        trace_add_use(s->story.trace, blocks[i], s->now_ns, s->story.thread, false);
        if (uses.count++ == 0)
            uses.first = s->now_ns;
        else if (s->now_ns - uses.last > uses.gap)
            uses.gap = (uses.gap_end = s->now_ns) - uses.last;
        uses.last = s->now_ns;
        trace_set_uses(s->story.trace, blocks[i], &uses);
    }
}

static inline void swapstory_use(struct swapstory *s, uint32_t block)
{
    swapstory_use_all(s, &block, 1);
}

#endif
