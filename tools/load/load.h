/* SPDX-License-Identifier: MIT */
/*
 * load.h - loads a capture file as a trace.
 *
 * Translates the file's records (tracker/reader/read.h) into blocks and anchor instances (trace.h),
 * in the order of the sequence numbers, and collects the events of each hint.
 *
 * If a bounded event log has lost its beginning, carried.h finds the blocks that lived then;
 * without such a block one empty event replaces them. Figures of a window that begins before
 * `complete_from` are incomplete.
 *
 * A bundle (bundle.h) is loaded like a capture, and contains names.
 *
 * Prints one line on stderr when a file cannot be used. Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_LOAD_H
#define KEDGE_TOOLS_LOAD_H

#include "tools/trace/trace.h"
#include "tracker/reader/read.h"

struct rowtrace;

/* The text of load_lacks for a capture without a log, or whose bounded log lost its beginning. */
#define LOAD_LACKS "events are missing in the capture (KEDGE_TRACE=full keeps all)"

/* Events of one hint in the run. Counts are of blocks (touches: of calls). */
struct load_hint {
    const char *id;
    enum hint_mode mode;
    enum action action;
    struct trace_sum sums[FORMAT_HINT_COUNT]; /* of the recorded events of each kind */
    uint64_t limbo_max_ns;                    /* longest time between dead and unmapped */
    /* of the first late touch or violation; else of the last new place that carried the address */
    uint32_t touch_stack;
    uint32_t touched_block;              /* the block that it touched, TRACE_NONE */
    uint32_t written_block;              /* of the first late write, TRACE_NONE */
    uint64_t written_at;                 /* the first byte of it that was changed */
    const struct hintwords_drift *drift; /* the first one, NULL */
};

/* A holder of memory when an allocation failed. */
struct load_holder {
    uint64_t bytes, count;
    uint32_t stack;
};

/* A failed allocation, from the event log, the records of reasons (area E), or both. */
struct load_oom {
    uint64_t number, seq;                         /* number 0: no record says which */
    uint64_t requested, free_bytes, largest_free; /* UINT64_MAX = unknown */
    uint64_t live; /* bytes live at that moment; UINT64_MAX = the log has lost them */
    uint32_t stack, anchor;
    uint32_t at; /* event index, TRACE_NEVER: only the record is left */
    int device, result;
    const struct read_oom *why; /* NULL: no record is kept of it */
    struct load_holder holder[FORMAT_OOM_HOLDERS];
    unsigned holder_count;
};

/* Memory that is not this process's device memory: no figure counts it, the report lists it. */
struct load_other {
    enum memclass memclass;
    uint64_t address, size;
    uint32_t stack;
    uint32_t born, died; /* event indices; died TRACE_NEVER: live at the end */
};

/* Bytes that hints hold after the program's free, from an event on. */
struct load_hold {
    uint32_t at;
    uint64_t bytes;
};

/* A place of area C, with its stack's number in the trace. */
struct load_place {
    uint32_t stack;
    const struct read_place *what;
};

struct load {
    char *path;
    struct read_capture *capture;
    struct trace *trace;
    struct symcache *names;         /* of a bundle, NULL = none */
    struct bundle_modules *modules; /* the same */
    struct load_hint *hints;
    size_t hint_count;
    uint64_t held, held_most; /* that hints hold after their free: at the log's end; at most */
    struct load_hold *holds;  /* each change of `held` */
    size_t held_count, held_room;
    struct load_oom *ooms;
    size_t oom_count, oom_room;
    struct load_other *others;
    size_t other_count, other_room;
    struct load_place *places; /* most at the high-water mark first */
    size_t place_count;
    uint32_t *kept_stacks; /* stacks of the capture's `kept`, by their numbers in the trace */
    uint32_t *held_stacks; /* likewise of its `held` */
    uint32_t *threads;     /* the capture's number of each thread of the trace */
    size_t thread_count, thread_room;
    uint64_t failed_count;  /* failed requests in the log */
    uint32_t complete_from; /* event index: none is missing from here on; TRACE_NEVER: no events */
};

/*
 * Sums over the run, for printing: UINT64_MAX if events are missing. Released is storage that was
 * released (live); would is storage that shadow only recorded, and that trap and poison treated as
 * released; late are uses after a release, however they were detected.
 */
struct trace_sum load_sum(
        const struct load *load, const struct load_hint *hint, enum format_hint_what what);
struct trace_sum load_released(const struct load *load, const struct load_hint *hint);
struct trace_sum load_would(const struct load *load, const struct load_hint *hint);
uint64_t load_late(const struct load *load, const struct load_hint *hint);

/* Instances in which a hint matched other blocks than it expects; 1 if their events are missing. */
uint64_t load_drifts(const struct load_hint *hint);

/* Blocks that a hint in poison was to fill, and whose content was not checked afterwards. */
uint64_t load_unlooked(const struct load_hint *hint);

/* Calls that touched storage that a hint had released, or would have. */
uint64_t load_touches(const struct load_hint *hint);

/* Returns 0, or an exit code of the tool (2) after one line on stderr. */
int load_open(const char *path, struct load *ret_load);
void load_close(struct load *load); /* {0} is allowed */

/*
 * The same from a csv of allocations or a log of RMM (rowtrace.h): no capture, no anchors, no
 * stacks; the number of a row, from 1, is its seq. load_close frees it.
 */
int load_csv(const char *path, struct load *ret_load);

/* The trace alone. With `sync` the streams are dropped: all requests come through the sync API. */
struct trace *load_rowtrace(const struct rowtrace *steps, bool sync);

/* Whether the file's first line is text with a comma; load_csv reports errors in it. */
bool load_is_csv(const char *path);

/* The same from an open capture, which it takes over. `path` is only a name. */
void load_capture(const char *path, struct read_capture *capture, struct load *ret_load);

/*
 * Whether the capture is damaged (read_is_damaged), which load_open has printed; prints one more
 * line for a caller that would decide by it.
 */
bool load_refuses(const char *who, const struct load *load);

/* Whether kedge import made the capture (settings imported_from, imported_file). */
bool load_is_imported(const struct read_capture *capture);

/* The text for a command whose events are not in the log, with the setting that keeps them. */
const char *load_lacks(const struct read_capture *capture);

/*
 * The most bytes that the driver itself served, as requested: the sum of the peaks of its classes,
 * which may be at different moments. The bytes that the driver holds for them are unknown, so
 * `reserved`, which the pool holds, is incomplete if this is above 0.
 */
uint64_t load_native_peak(const struct format_class classes[FORMAT_CLASSES_MAX]);

/* Whether such a record lacks the bytes held from the driver. Their figures are 0 then. */
bool load_lacks_reserved(const struct load *load);

/* Whether the program exited, so that live blocks were never freed. */
bool load_has_ended(const struct load *load);

#endif
