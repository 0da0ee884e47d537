/* SPDX-License-Identifier: MIT */
/*
 * exporter.h - a capture in the formats of other tools.
 *
 *     capture ─ load ─┬─► export_moment: blocks live at one moment ─► folded · pprof
 *                     └─► events, blocks, anchors ─────────► perfetto · memory_viz · csv · sqlite
 *
 * Each format is one export_<format>.c with one function, and one row of the table in cmd_export.c,
 * which reads the options, opens the output and reports what was written. Formats write without
 * buffering: they keep only the numbers of names and blocks, never the output.
 *
 * Names in a capture come from the program that was watched: each format escapes them, or replaces
 * characters that it cannot hold.
 * Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_EXPORTER_H
#define KEDGE_TOOLS_EXPORTER_H

#include <stdio.h>

#include "tools/load/load.h"
#include "tools/symbols/symbols.h"
#include "tools/trace/model.h"

enum export_at {
    EXPORT_PEAK,
    EXPORT_END,
    EXPORT_OOM, /* the last failed allocation */
};

/* Live memory of one stack, anchor path and device. */
struct export_row {
    const char *name; /* NULL: it has a stack; else a name in place of one */
    const char *path; /* of the anchor, "" = none */
    uint32_t stack;
    int device;
    uint64_t bytes, count; /* count 0: unknown */
};

/* The memory live at a moment. */
struct export_moment {
    const char *title;       /* "live at the peak" */
    struct export_row *rows; /* by stack, then path, then device */
    size_t row_count, row_room;
    struct trace_sum sum; /* of the rows */
    uint64_t time_ns;     /* since the start of the capture; 0 = unknown */
    bool is_partial;      /* some memory live then is in no row */
};

/* The input of a format's writer, and its results. */
struct export_job {
    const struct load *load;
    struct symbols *symbols;
    struct export_moment moment;  /* for formats that show one */
    struct model_figures figures; /* of the whole run */
    bool is_partial;              /* events are missing */
    uint32_t first;               /* event index: the trace of memory_viz begins here */
    uint64_t min_size;            /* memory_viz: smaller blocks are left out; 0 = none */
    FILE *out;
    const char *path;             /* of the file, for formats that open it themselves */
    struct trace_sum left_out;    /* blocks that the format cannot have; counted by the writer */
    uint64_t event_count;         /* number written, for formats with events */
    struct symbols_line stand_in; /* used by export_moment_lines */
};

enum export_shape {
    EXPORT_MOMENT, /* one moment: --at */
    EXPORT_RUN,    /* the events of the run */
};

struct export_format {
    const char *name, *extension;
    const char *summary; /* a description, with its readers */
    enum export_shape shape;
    bool is_binary;  /* not for a terminal */
    bool is_file;    /* written only to a file of its own: job->path, not job->out */
    bool has_limits; /* accepts --last, --steps and --min-size */
    /* CMD_DONE, or CMD_BAD after one line on stderr. The caller checks `out` for errors. */
    int (*write)(struct export_job *job);
};

/*
 * Fills job->moment. If events are missing, the writer's sums by place replace them at the peak,
 * and the record of the failure at an OOM. False: the run did not run out of memory. Call
 * export_moment_done in any case.
 */
bool export_moment_find(struct export_job *job, enum export_at at);
void export_moment_done(struct export_moment *moment);

/* The number of rows from `row` on with its stack, and their sum. */
size_t export_moment_stack(
        const struct export_moment *moment, size_t row, struct trace_sum *ret_sum);

/* The calls of a row, innermost first; at least one. Valid until the next call. */
const struct symbols_line *export_moment_lines(
        struct export_job *job, const struct export_row *row, size_t *ret_count);

/* The first recorded event: earlier ones were added for blocks from before the record. */
uint32_t exporter_first_event(const struct trace *trace);

/* The stream of an event, as in hint files if the capture has that; 0 = the legacy one, or none. */
uint64_t exporter_stream(const struct trace *trace, const struct trace_event *event);

/* The capture's record of each thread of the trace, by number; NULL: none. The caller frees it. */
const struct read_thread **exporter_threads(const struct load *load);

int export_folded(struct export_job *job);
int export_pprof(struct export_job *job);
int export_perfetto(struct export_job *job);
int export_memory_viz(struct export_job *job);
int export_csv(struct export_job *job);
int export_sqlite(struct export_job *job);

#endif
