/* SPDX-License-Identifier: MIT */
/*
 * page_parts.h - what the files that gather the page's data share.
 *
 * A page answers for up to three moments: when most was live, when an allocation failed for the last time, and the end. For each
 * stack it knows what was live there then; stacks of one way through the program (title.h) are one call site. Of the failure that
 * is all that its device had, of the others what was allocated in the window.
 *
 * Where events are missing and the window is the whole run, the writer's own sums by place stand for them: then the peak is each
 * device's own, and of a failure there is what its record holds.
 *
 * Threads: none. Memory: vec.h.
 * Prefixes: page_.
 */
#ifndef KEDGE_TOOLS_PAGE_PARTS_H
#define KEDGE_TOOLS_PAGE_PARTS_H

#include "tools/keytable.h"
#include "tools/report.h"

/* The limits of a page. What is beyond them is counted; call sites are in a sum of the others. */
#define PAGE_BINS      1000u
#define PAGE_TOP       7u     /* keys with a colour */
#define PAGE_STACKS    20000u /* that have titles */
#define PAGE_SITES     300u
#define PAGE_NODES     4000u /* of the flame graph */
#define PAGE_REGIONS   128u
#define PAGE_CELLS     4096u
#define PAGE_KEEPERS   50u
#define PAGE_ANCHORS   400u /* rows, and as many bars */
#define PAGE_STEPS     1000u
#define PAGE_LIBRARIES 100u
#define PAGE_HINTS     300u
#define PAGE_FAILURES  32u
#define PAGE_NOTES     100u
#define PAGE_PARTS     30u /* libraries of a waterfall */
#define PAGE_FINDINGS  200u
#define PAGE_SETS      16u  /* of eviction */
#define PAGE_MOVES     200u /* of one of them: the first and the last ones */
#define PAGE_TEXT      400u /* bytes of a name */

enum page_moment {
    PAGE_PEAK,
    PAGE_FAILURE,
    PAGE_END,
    PAGE_MOMENTS,
};

struct page_sums {
    struct trace_sum allocated;
    struct trace_sum at[PAGE_MOMENTS];
};

struct page_site {
    char *name;
    uint32_t stack; /* one that leads there; of the others: 0 */
    struct page_sums sums;
    uint64_t most; /* that was live there at one time; UINT64_MAX = not known */
};

struct page_sites {
    struct page_site *list; /* most at the peak first; the last one is all others together */
    size_t count, room;
    uint32_t *of_stack; /* per stack of the trace: its index */
};

struct page {
    const struct report *report;
    struct json json;
    bool by_places;
    /* event index: what is live just before it; TRACE_NEVER: there is no such moment, or it is not known what was */
    uint32_t moment[PAGE_MOMENTS];
    int failed_device;        /* of PAGE_FAILURE */
    struct page_sums *stacks; /* per stack of the trace */
    struct page_sites sites;
    struct keytable frames; /* of page_frame */
    struct page_frame_line {
        const struct symbols_line *line;
    } * frame;
    size_t frame_count, frame_room;
};

/* Text that is written piece by piece. */
struct page_draft {
    FILE *out;
    char *text;
    size_t length;
};

/* Begins a text, and ends it: from then on it is the caller's. Both leave where there is no memory (vec.h). */
void page_draft_begin(struct page_draft *draft);
void page_draft_end(struct page_draft *draft);

/* "peak", "failure", "end": keys of the JSON. */
const char *page_moment_key(enum page_moment moment);

/* Is anything known of this moment? */
bool page_has(const struct page *page, enum page_moment moment);

/* Bytes and count as an array of two. */
void page_json_sum(struct json *json, const char *key, struct trace_sum sum);

/* A name: printable, in UTF-8, and no longer than PAGE_TEXT. NULL prints null. */
void page_json_name(struct json *json, const char *key, const char *name);

/* An anchor as reports name it; 0 prints null. */
void page_json_anchor(struct page *page, const char *key, uint32_t anchor);

/* The number of a line of a stack in the page's table of frames; the table itself is "frames". */
uint32_t page_frame(struct page *page, const struct symbols_line *line);
void page_json_frames(struct page *page);

/* Numbers of the frames of a stack, innermost first. */
void page_json_stack(struct page *page, const char *key, uint32_t stack);

/* Fills `stacks` and `sites` (page_sites.c); page_sites_done gives both back. */
void page_sites_find(struct page *page);
void page_sites_done(struct page *page);

/* Which of the steps has an event, by number; UINT64_MAX: none. */
uint64_t page_step_of(const struct page *page, uint32_t event);

/* "sites", "timeline", "flame", "map", "waterfalls", "patterns", "eviction". */
void page_sites_json(struct page *page);
void page_timeline_json(struct page *page);
void page_flame_json(struct page *page);
void page_map_json(struct page *page);
void page_waterfall_json(struct page *page);
void page_patterns_json(struct page *page);
void page_evict_json(struct page *page);

/* All keys of the object behind `schema`, and its end. */
void page_data_json(struct page *page);

#endif
