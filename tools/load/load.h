/* SPDX-License-Identifier: MIT */
/*
 * load.h - from a capture file to a trace.
 *
 * Translates what the file says (tracker/reader/read.h) into blocks and anchor instances (trace.h), in the order of the sequence
 * numbers, and collects per hint what happened to it.
 *
 * Where a bounded event log has lost its beginning, what lived then comes from carried.h, or where there is no such block one event
 * that says nothing; figures of a window that begins before `complete_from` are incomplete.
 *
 * A bundle (bundle.h) is as good as a capture, and brings names along.
 *
 * Prints one line on stderr when a file cannot be used. Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_LOAD_H
#define KEDGE_TOOLS_LOAD_H

#include "tools/trace/trace.h"
#include "tracker/reader/read.h"

struct steps;

/* What load_lacks says of a capture whose log is bounded and has lost its beginning, or that has no log. */
#define LOAD_LACKS "events are missing in the capture (KEDGE_TRACE=full keeps all)"

/* What happened to one hint in the run. Counts are of blocks (touches: of calls). */
struct load_hint {
    const char *id;
    enum hint_mode mode;
    enum action action;
    struct trace_sum sums[FORMAT_HINT_COUNT]; /* of the events of each kind that are on record */
    uint64_t limbo_max_ns;                    /* longest time between dead and unmapped */
    /* Of the first late touch or violation; while there is none, of the last new place that carried the address. */
    uint32_t touch_stack;
    uint32_t argcheck_block;             /* what it touched, TRACE_NONE */
    uint32_t written_block;              /* of the first late write, TRACE_NONE */
    uint64_t written_at;                 /* the first byte of it that was changed */
    const struct hintwords_drift *drift; /* the first one, NULL */
};

/* Who held memory when an allocation failed. */
struct load_holder {
    uint64_t bytes, count;
    uint32_t stack;
};

/* A failed allocation, of the event log, of the records of reasons (area E), or of both. */
struct load_oom {
    uint64_t number, seq;                         /* number 0: no record says which */
    uint64_t requested, free_bytes, largest_free; /* UINT64_MAX = not known */
    uint64_t live; /* bytes live when it happened; UINT64_MAX = the log has lost it */
    uint32_t stack, anchor;
    uint32_t at; /* event index, TRACE_NEVER: only the record is left */
    int device, result;
    const struct read_oom *why; /* NULL: not one of those that are kept */
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

/* What hints hold after the program's free, from an event on. */
struct load_hold {
    uint32_t at;
    uint64_t bytes;
};

/* A place of area C with its stack as the trace numbers it. */
struct load_place {
    uint32_t stack;
    const struct read_place *what;
};

struct load {
    char *path;
    struct read_capture *capture;
    struct trace *trace;
    struct symcache *names;         /* of a bundle, NULL = none */
    struct bundle_modules *modules; /* likewise */
    struct load_hint *hints;
    size_t hint_count;
    uint64_t held,
            held_most; /* bytes that hints hold after their free: at the log's end, and the most at one time */
    struct load_hold *holds; /* each change of `held` */
    size_t held_count, held_room;
    struct load_oom *ooms;
    size_t oom_count, oom_room;
    struct load_other *others;
    size_t other_count, other_room;
    struct load_place *places; /* most at the high-water mark first */
    size_t place_count;
    uint32_t *kept_stacks; /* of the capture's `kept`, as the trace numbers them */
    uint32_t *threads;     /* the capture's number of each thread of the trace */
    size_t thread_count, thread_room;
    uint64_t failed_count; /* rows of a log that ask for memory in vain */
    /* event index: from here on no event is missing; 0: none of the run is; TRACE_NEVER: none are there */
    uint32_t complete_from;
};

/*
 * What the run did, for whoever prints it: UINT64_MAX where events are missing. Released is storage that went (live), would what
 * shadow wrote down and trap and poison made as if it went; late are uses after a release, however they were seen.
 */
struct trace_sum load_sum(
        const struct load *load, const struct load_hint *hint, enum format_hint_what what);
struct trace_sum load_released(const struct load *load, const struct load_hint *hint);
struct trace_sum load_would(const struct load *load, const struct load_hint *hint);
uint64_t load_late(const struct load *load, const struct load_hint *hint);

/* In how many instances a hint matched something else than it expects; 1 where the events are not there to count. */
uint64_t load_drifts(const struct load_hint *hint);

/* Blocks that a hint in poison was to fill, and whose content nobody has looked at since. */
uint64_t load_unlooked(const struct load_hint *hint);

/* Calls that touched what a hint had released, or would have. */
uint64_t load_touches(const struct load_hint *hint);

/* Returns 0, or an exit code of the tool (2) after one line on stderr. */
int load_open(const char *path, struct load *ret_load);
void load_close(struct load *load); /* {0} too */

/*
 * The same from a csv of allocations or a log of RMM (steps.h): no capture, no anchors, no stacks; the number of a row, from 1, is its seq. With
 * `sync` the streams are dropped: everything comes through the sync API. load_close gives it back.
 */
int load_csv(const char *path, bool sync, struct load *ret_load);

/* The trace alone. */
struct trace *load_steps(const struct steps *steps, bool sync);

/* Is its first line text with a comma, right or wrong? load_csv says what is wrong with it. */
bool load_is_csv(const char *path);

/* The same from a capture that is open already; takes it over. `path` is only a name. */
void load_capture(const char *path, struct read_capture *capture, struct load *ret_load);

/* Is it damaged (read_is_damaged)? load_open has said so; for whoever would decide by the capture, after one line more on stderr. */
bool load_refuses(const char *who, const struct load *load);

/* Is it made of another tool's record (kedge import)? Its settings imported_from and imported_file say of which. */
bool load_is_imported(const struct read_capture *capture);

/* What is said wherever events that a command would need are not in the log; what keeps them, where that is known. */
const char *load_lacks(const struct read_capture *capture);

/*
 * The most that the driver itself served, as requested: the sum of the peaks of its classes, which need not be of one moment. What
 * the driver holds for it nobody is told, so `reserved`, which is what the pool holds, is not all where this is above 0.
 */
uint64_t load_native_peak(const struct format_class classes[FORMAT_CLASSES_MAX]);

/* Does such a record not say what was held from the driver? Figures of it are 0 then. */
bool load_lacks_reserved(const struct load *load);

/* Did the program exit, so that what is live was never freed? */
bool load_has_ended(const struct load *load);

#endif
