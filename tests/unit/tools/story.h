/* SPDX-License-Identifier: MIT */
/*
 * story.h - hand-made runs for tests of the tools, told line by line.
 *
 *     struct story s = story_begin();
 *     story_enter(&s, "SOT_CALL_0");
 *     uint32_t x = story_alloc(&s, SITE_A, 3538944);
 *     story_exit(&s);
 *     story_free(&s, x);
 *     ... s.trace ...
 *     story_end(&s);
 *
 * Addresses are handed out once; sites are any number but 0. Thread 0 unless story_thread says otherwise.
 */
#ifndef KEDGE_TESTS_UNIT_STORY_H
#define KEDGE_TESTS_UNIT_STORY_H

#include "tools/trace/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STORY_DEPTH 8

struct story {
    struct trace *trace;
    uint64_t next_address;
    uint32_t thread;
    uint32_t open[4][STORY_DEPTH];
    unsigned depth[4];
};

static inline struct story story_begin(void)
{
    return (struct story){.trace = trace_new(), .next_address = 0x1000};
}

static inline void story_end(struct story *story)
{
    trace_free(story->trace);
}

static inline void story_thread(struct story *story, uint32_t thread)
{
    story->thread = thread;
}

static inline uint32_t story_here(const struct story *story)
{
    unsigned depth = story->depth[story->thread];
    return depth ? story->open[story->thread][depth - 1] : 0;
}

/* Enters "name" inside whatever this thread has open. */
static inline uint32_t story_enter(struct story *story, const char *name)
{
    uint32_t outer = story_here(story);
    char path[256];

    (void)snprintf(path, sizeof(path), "%s%s%s", story->trace->anchors[outer].path,
            outer ? "/" : "", name);
    uint32_t anchor = trace_add_anchor(story->trace, path, TRACE_NONE);
    trace_add_edge(story->trace, TRACE_ENTER, anchor, story->thread);
    story->open[story->thread][story->depth[story->thread]++] = anchor;
    return anchor;
}

static inline void story_exit(struct story *story)
{
    uint32_t anchor = story->open[story->thread][--story->depth[story->thread]];
    trace_add_edge(story->trace, TRACE_EXIT, anchor, story->thread);
}

static inline uint32_t story_alloc(struct story *story, uint64_t site, uint64_t size)
{
    struct trace_block birth = {.address = story->next_address,
            .size = size,
            .site = site,
            .anchor = story_here(story),
            .nth = TRACE_COUNT_NTH,
            .thread = story->thread,
            .rule = -1};

    story->next_address += (size + 0xfff) & ~(uint64_t)0xfff;
    return trace_add_alloc(story->trace, &birth);
}

static inline void story_free(struct story *story, uint32_t block)
{
    (void)trace_add_free(story->trace, story->trace->blocks[block].address, story->thread);
}

static inline void story_release(
        struct story *story, uint32_t block, uint32_t anchor, enum hint_mode mode)
{
    (void)trace_add_release(story->trace, story->trace->blocks[block].address, anchor, 0, mode);
}

#endif
