/* SPDX-License-Identifier: MIT */
/*
 * sources.h - the memory of a run by library and kind, with the call sites that asked for most.
 *
 * A library is the file of the first frame outside of CUDA's own libraries, libc and kedge. All
 * memory counts: the pool's, and memory outside the pool (physical handles of NCCL, arrays, managed
 * and pinned memory, imports, graphs). Memory that is no device memory of this process has rows of
 * its own and is in no library's sum.
 *
 * Figures count the window's allocations, as in model.h. Each row has its own peak, so peaks do not
 * add up. `at_max` is the bytes of a row at the window's maximum, and does add up.
 *
 * `classes` has the same bytes by kind, of all libraries together.
 *
 * If events are missing and the window is the whole run, the writer's own sums by place (area C)
 * replace them: then device memory has no rows by kind, `at_max` is the share in each device's own
 * maximum, and peaks of more than one place are unknown.
 *
 * The rest of a device's memory is overhead: contexts, kernels, the driver's own pools and
 * rounding, and other processes. It is the device's own figure minus everything that is known:
 *
 *     overhead = total - free - held by kedge's heaps - native allocations - for graphs (last look)
 *
 * Managed memory is not subtracted, because it is not known how much of it is on the device.
 *
 * Prints nothing. Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_SOURCES_H
#define KEDGE_TOOLS_SOURCES_H

#include "tools/load/load.h"
#include "tools/symbols/symbols.h"
#include "tools/trace/model.h"

struct sources_figures {
    uint64_t allocated, allocated_count;
    uint64_t live, live_count; /* at the window's end */
    uint64_t peak;             /* UINT64_MAX = unknown */
    uint64_t at_max;           /* UINT64_MAX = unknown, for a class with `by_places` */
    uint64_t places;           /* number of area C's places in it */
};

/* A library's memory of one kind. */
struct sources_row {
    uint32_t library; /* index in `libraries` */
    enum memclass memclass;
    struct sources_figures figures;
};

struct sources_site {
    uint32_t library;
    const char *site;   /* "function file:line" */
    const char *pysite; /* of the Python function that called it, NULL = none */
    uint32_t stack;     /* a stack with this site */
    struct sources_figures figures;
};

struct sources_library {
    const char *name;               /* path; "(no stack)" for memory without one */
    struct sources_figures figures; /* device memory of this process */
};

struct sources {
    struct sources_library *libraries; /* largest at_max first */
    size_t library_count, library_room;
    struct sources_row *rows; /* by library, then class */
    size_t row_count, row_room;
    /* of memory outside the devices, too; with `by_places` as the writer counted them */
    struct sources_figures classes[MEMCLASS_COUNT];
    struct sources_site *sites; /* by library, then largest at_max first */
    size_t site_count, site_room;
    uint64_t without_stack, count; /* allocations */
    bool by_places;                /* from area C */
};

void sources_figure(const struct load *load, struct model_window window, struct symbols *symbols,
        struct sources *ret_sources);
void sources_done(struct sources *sources);

/* The name of the library that a stack asked through. */
const char *sources_library_of(struct symbols *symbols, uint32_t stack);

/* "pitched", for people; JSON has the same word. */
const char *sources_class_name(enum memclass memclass);

struct sources_overhead {
    bool is_known;
    uint64_t bytes;
    /*
     * the known parts exceed the device's memory in use: some memory is counted but not backed yet
     */
    bool is_short;
};

/* The remainder of a device's memory; unknown if kedge never looked. */
struct sources_overhead sources_overhead(const struct format_look *look);

#endif
