/* SPDX-License-Identifier: MIT */
/*
 * page_parts.h - data shared by the files that gather the page's data.
 *
 * A page shows up to three moments: the maximum of live memory, the last failed allocation, and the
 * end. For each stack it has the bytes live then; stacks of one way through the program (title.h)
 * are one call site. For the failure these are all bytes of its device, for the others the window's
 * allocations.
 *
 * If events are missing and the window is the whole run, the writer's own sums by place replace
 * them: then the peak is each device's own, and a failure has the data of its record.
 *
 * Threads: none. Memory: vec.h.
 * Prefixes: page_.
 */
#ifndef KEDGE_TOOLS_PAGE_PARTS_H
#define KEDGE_TOOLS_PAGE_PARTS_H

#include "tools/load/frames.h"
#include "tools/report/report.h"

/* Limits of the page's own data; further call sites are summed up as others. */
#define PAGE_STACKS   20000u /* that have titles */
#define PAGE_SITES    300u
#define PAGE_NODES    4000u /* of the flame graph */
#define PAGE_REGIONS  128u
#define PAGE_CELLS    4096u
#define PAGE_KEEPERS  50u
#define PAGE_BARS     400u  /* of anchors */
#define PAGE_STEPS    4096u /* of the timeline */
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
    uint32_t stack; /* a stack of the site; for the others: 0 */
    struct page_sums sums;
    uint64_t most; /* most live at one time; UINT64_MAX = unknown */
};

struct page_sites {
    struct page_site *list; /* most at the peak first; the last entry is the sum of all others */
    size_t count, room;
    uint32_t *of_stack; /* per stack of the trace: its index */
};

struct page {
    const struct report *report;
    struct json json;
    bool by_places;
    /*
     * event index: the blocks live just before it; TRACE_NEVER: no such moment, or its blocks are
     * unknown
     */
    uint32_t moment[PAGE_MOMENTS];
    int failed_device;        /* of PAGE_FAILURE */
    struct page_sums *stacks; /* per stack of the trace */
    struct page_sites sites;
    struct frames frames;
};

/* "peak", "failure", "end": keys of the JSON. */
const char *page_moment_key(enum page_moment moment);

/* Whether the moment has data. */
bool page_has(const struct page *page, enum page_moment moment);

/* Bytes and count as an array of two. */
void page_json_sum(struct json *json, const char *key, struct trace_sum sum);

/* An anchor's name as in reports; 0 prints null. */
void page_json_anchor(struct page *page, const char *key, uint32_t anchor);

/* Fills `stacks` and `sites` (page_sites.c); page_sites_done frees both. */
void page_sites_find(struct page *page);
void page_sites_done(struct page *page);

/* The number of the step that contains an event; UINT64_MAX: none. */
uint64_t page_step_of(const struct page *page, uint32_t event);

/* "call_sites", "held_by_site", "timeline", "flame", "map": keys without rows in report_json.c. */
void page_sites_json(struct page *page);
void page_held_json(struct page *page);
void page_timeline_json(struct page *page);
void page_flame_json(struct page *page);
void page_map_json(struct page *page);

#endif
