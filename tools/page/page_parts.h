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

#include "tools/load/frames.h"
#include "tools/report/report.h"

/* The limits of what only a page has; call sites beyond them are in a sum of the others. */
#define PAGE_BINS     1000u
#define PAGE_TOP      7u     /* keys with a colour */
#define PAGE_STACKS   20000u /* that have titles */
#define PAGE_SITES    300u
#define PAGE_NODES    4000u /* of the flame graph */
#define PAGE_REGIONS  128u
#define PAGE_CELLS    4096u
#define PAGE_KEEPERS  50u
#define PAGE_BARS     400u /* of anchors */
#define PAGE_STEPS    1000u
#define PAGE_FAILURES 32u
#define PAGE_NOTES    100u
#define PAGE_TEXT     400u /* bytes of a text */

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
    struct frames frames;
};

/* "peak", "failure", "end": keys of the JSON. */
const char *page_moment_key(enum page_moment moment);

/* Is anything known of this moment? */
bool page_has(const struct page *page, enum page_moment moment);

/* Bytes and count as an array of two. */
void page_json_sum(struct json *json, const char *key, struct trace_sum sum);

/* An anchor as reports name it; 0 prints null. */
void page_json_anchor(struct page *page, const char *key, uint32_t anchor);

/* Fills `stacks` and `sites` (page_sites.c); page_sites_done gives both back. */
void page_sites_find(struct page *page);
void page_sites_done(struct page *page);

/* Which of the steps has an event, by number; UINT64_MAX: none. */
uint64_t page_step_of(const struct page *page, uint32_t event);

/* "call_sites", "timeline", "flame", "map": what report_json.c has no rows of. */
void page_sites_json(struct page *page);
void page_timeline_json(struct page *page);
void page_flame_json(struct page *page);
void page_map_json(struct page *page);

#endif
