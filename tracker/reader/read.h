/* SPDX-License-Identifier: MIT */
/*
 * read.h - a capture as data, for the tools.
 *
 * Reads any bytes: every offset, number and length is checked, work and memory are bounded by the
 * file's size. Reads the capture of a process that runs, was killed, or ended. Records not yet
 * published when the file is read are absent.
 *
 *     *.kcap ─ read_open_parts ─► identity · totals · live[] · event[] in seq order · strings,
 *                                 modules, stacks · rules
 *
 * Names nothing (tools/symbols) and draws no conclusions: numbers in it are the file's. Uses
 * malloc; not part of libkedge.so.
 * Threads: an open capture is read-only data.
 */
#ifndef KEDGE_TRACKER_READ_H
#define KEDGE_TRACKER_READ_H

#include "alloc/base/types.h"
#include "tracker/format/format.h"
#include "tracker/hints/hintwords.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define READ_FRAMES_MAX 128u /* greatest depth that read_stack writes */

/* Why a file was refused, in words, and at which offset. */
struct read_error {
    char text[256];
    uint64_t offset;
};

struct read_module {
    const char *path; /* "" = unknown */
    uint64_t base, end, bias, hash;
    uint8_t build_id[32];
    unsigned build_id_bytes;
    unsigned kind; /* enum intern_module_kind */
    bool is_main;
};

/* One frame; module NULL = code outside loaded objects. */
struct read_frame {
    const struct read_module *module;
    uint32_t module_number;
    uint64_t offset; /* ELF address, for addr2line */
};

/* One frame of a Python stack. */
struct read_pyframe {
    const char *name, *qualname, *file; /* qualname "" before 3.11 */
    const unsigned char *lines;         /* the line table, for pylines.h */
    size_t lines_bytes;
    enum format_pytable table;
    int32_t first_line, lasti;
    bool is_cut;   /* the line table was cut to the bytes kept */
    bool is_entry; /* called from C */
};

/* One live allocation; ordered by seq. */
struct read_live {
    uint64_t seq, addr, size, stream, time_ns;
    const char *path; /* anchor path, "" = none */
    uint32_t path_number, instance, nth, stack, pystack;
    int device;
    unsigned flags; /* FORMAT_ALLOC_*, without the memory class */
    enum memclass memclass;
    enum format_hint_what hint;
    int rule;
    struct format_uses uses;
    uint64_t use_count;
    unsigned use_flags; /* FORMAT_USE_*; without WATCHED its uses are unknown */
};

/* One event. The valid fields depend on `kind`; the others are 0. */
struct read_event {
    enum format_event_kind kind;
    uint32_t thread;
    uint64_t seq;
    uint64_t time_ns;
    int device;
    unsigned flags;
    enum memclass memclass; /* alloc */

    uint64_t addr, size,
            stream;       /* alloc, free, hint; oom: size = requested; reserved: size = held now */
    uint32_t stack;       /* alloc, free, oom; hint: of the access */
    uint32_t pystack;     /* alloc, free, oom, hint */
    uint32_t path_number; /* anchor path */
    uint32_t instance;
    const char *path;        /* never NULL */
    uint32_t nth;            /* alloc */
    struct format_uses uses; /* free: of the freed block, with the two below */
    uint64_t use_count;
    unsigned use_flags; /* use: FORMAT_USE_MAY */
    uint64_t block;     /* use: seq of its allocation */

    enum edge_kind edge;   /* edge */
    uint32_t anchor;       /* edge: instance id */
    bool before_start;     /* edge: the range was open when the capture began */
    uint64_t heap;         /* reserved */
    uint64_t free_bytes;   /* oom */
    uint64_t largest_free; /* oom */
    int result;            /* oom, hint */

    uint32_t call; /* launch: the kernel; call: the function and its buffers; strings, 0 = none */
    uint32_t arg[FORMAT_CALL_BUFFERS];
    uint64_t arg_addr[FORMAT_CALL_BUFFERS];
    uint64_t comm; /* call: the communicator's handle */
    int peer;      /* call: a rank in it, -1 = none */

    enum format_hint_what what; /* hint */
    enum hint_mode mode;        /* hint */
    int rule;                   /* hint, -1 = none */
};

/* Why an allocation failed. */
struct read_oom {
    uint64_t number;        /* from 1; missing numbers were overwritten by later ones */
    const char *call;       /* the driver's entry point, "" = unknown */
    const char *path;       /* anchor path, "" = none */
    struct format_oom what; /* with at most FORMAT_OOM_HOLDERS holders */
};

/* The allocations of one place: a stack, a Python stack, an anchor path, on a device. high_*: live
 * here at the device's peak (of a running process: at about that time). */
struct read_place {
    uint32_t stack, pystack, path_number;
    const char *path; /* never NULL */
    int device;
    bool is_other; /* the sum of everything without a place of its own: no stack, no path */
    uint64_t allocated_bytes, allocated_count;
    uint64_t live_bytes, live_count;
    uint64_t peak_bytes, peak_count; /* the highest live values here, each by itself */
    uint64_t temporary_bytes, temporary_count;
    uint64_t high_bytes, high_count;
};

/* The peak of live bytes on a device. */
struct read_high {
    uint64_t bytes; /* 0 = nothing was live */
    uint64_t seq, time_ns;
};

struct read_rule {
    const char *id;
    enum action action;
    enum hint_mode mode;
    uint32_t line;
    bool has_drifted;
    struct hintwords_drift drift; /* the first one */
};

/* The activity of a managed set in a step (format.h). Ordered by hint, device and step. */
struct read_evict {
    int rule;
    uint64_t time_ns;
    struct format_evict what;
};

/* A block of a managed set that is not evicted. */
struct read_kept {
    int rule, device;
    enum format_kept_why why; /* FORMAT_KEPT_NONE: an unknown reason */
    uint64_t addr, size, seq;
    uint32_t stack, pystack;
    const char *path; /* anchor path of the allocation, never NULL */
};

/* A call that was not made, since its blocks together did not fit under the cap. */
struct read_short {
    int rule, device;
    uint64_t time_ns, needed, room, cap;
    const char *path; /* anchor path of the call, never NULL */
    uint32_t instance;
};

/* Live blocks of one call site with the same holders, as a walk through the objects of a Python
 * program found them. */
struct read_held {
    uint32_t walk; /* number: the id of one of `walk`, or of one that was not completed */
    uint32_t stack, pystack;
    uint64_t bytes, count;
    char *text; /* a line with the kind of data, then a line for each holder */
};

/* Where storages lie that a record of a walk counts. */
struct read_held_at {
    uint32_t walk, row; /* the how many-th of `held` with this walk, from 0 */
    uint64_t *address;
    size_t count;
};

/* What a framework's objects say of a storage (format.h), in order of time. */
struct read_data {
    enum format_data kind;
    uint32_t root, flags;
    uint64_t seq, address, size, time_ns;
    char *text;
};

struct read_pair {
    const char *name;
    const char *value;
};

struct read_device {
    int device;
    const char *name;
    uint64_t total_bytes;
    uint32_t driver_version;
};

/* Storage that the pool moved; count 0 = none, or an earlier writer did not count. */
struct read_moves {
    uint64_t count, bytes, ns, time_ns;
    uint64_t ready, lazy, sparing; /* how often each pace was chosen (alloc/storage/pace.h) */
    uint64_t create_ns, map_ns, access_ns, unmap_ns; /* the mean time of a call */
};

struct read_coverage {
    const char *hook;
    const char *route;
    uint64_t count;
};

struct read_note {
    unsigned severity;
    char *text;
};

struct read_thread {
    uint32_t number;
    uint32_t tid;
    const char *name;
};

/* Areas that may be damaged; the capture has sums for all of them. */
enum read_area {
    READ_AREA_HEADER, /* and directory: extents outside the file */
    READ_AREA_LIVE,
    READ_AREA_DEFS,   /* blocks of definitions, whose rest was left out */
    READ_AREA_EVENTS, /* chunks */
    READ_AREA_FAILURES,
    READ_AREA_PLACES,
    READ_AREA_RECORD,
    READ_AREA_TOTALS, /* figures that contradict the records, in captures opened by read_begin */
    READ_AREA_COUNT,
};

/* The newest record that a framework made of its own memory. */
struct read_record {
    struct format_record what;
    unsigned char *bytes; /* what.bytes of them */
};

/* A whole capture; arrays belong to it. */
struct read_capture {
    enum format_state state;
    bool is_sealed; /* no process writes it any more, and the header has a sum of all its figures */
    uint32_t state_detail;
    enum format_trace trace;
    uint32_t pid, ppid;
    uint64_t start_real_ns;
    const char *exe, *host, *rank, *program;
    const char **argv; /* as far as the header had space for it; NULL-terminated */
    size_t argc;
    uint64_t oom_count, last_seq, file_bytes;

    struct format_totals total, device_total[FORMAT_DEVICES_MAX]; /* as the writer counted */
    uint64_t peak_stored_512; /* as in format_header; UINT64_MAX = not counted */
    struct format_lost lost;
    /* as in format_header: 0 = the peaks are those of the events in order */
    uint64_t counted_late;

    /* All events with a higher seq are there; 0 = all events of the run, UINT64_MAX = unknown for
     * each. */
    uint64_t complete_after_seq;
    /* nothing recycled, nothing dropped, nothing damaged, and the trace was full or ring */
    bool has_all_events;

    struct format_class class_total[FORMAT_CLASSES_MAX];
    struct format_look look[FORMAT_DEVICES_MAX];
    struct format_inside inside[FORMAT_DEVICES_MAX];
    struct format_unseen unseen;

    struct read_live *live;
    size_t live_count;
    struct read_live *other; /* live, but not device memory of this process */
    size_t other_count;
    struct read_event *event; /* by seq, then time; NULL after read_begin */
    size_t event_count;
    size_t kind_count[FORMAT_EVENT_KIND_COUNT]; /* events by kind */
    struct read_oom *oom;                       /* by number */
    size_t oom_record_count;
    struct read_place *place; /* most at the high-water mark first */
    size_t place_count;
    struct read_high high[FORMAT_DEVICES_MAX];
    uint64_t places_lost;       /* allocations in an "other" place, or in none */
    struct read_module *module; /* [0] is unused */
    size_t module_count;
    struct read_rule *rule; /* index = rule number */
    size_t rule_count;
    struct read_evict *evict;
    size_t evict_count;
    struct read_kept *kept;
    size_t kept_count;
    struct read_short *shorts;
    size_t short_count;
    struct read_held *held;
    size_t held_count;
    struct read_held_at *held_at;
    size_t held_at_count;
    struct format_def_walk *walk; /* as in the file, in order of time */
    size_t walk_count;
    struct read_data *data;
    size_t data_count;
    struct read_record record; /* of the framework's own; bytes NULL = none */
    struct read_pair *setting;
    size_t setting_count;
    struct read_device *device;
    size_t device_count;
    struct read_moves moves;
    struct read_coverage *coverage;
    size_t coverage_count;
    struct read_note *note;
    size_t note_count;
    struct read_thread *thread;
    size_t thread_count;

    uint64_t hints_hash; /* 0 = the run had no hints */
    const char *hints_path;
    enum hint_mode hints_mode;

    uint64_t loose_sum; /* formatsum_loose_* of the records read, to compare with the header */
    /* figures that differ by no more than operations in progress when the process was killed */
    uint64_t torn;
    uint64_t bad_records; /* invalid records that were left out */
    uint64_t damaged
            /* by area: parts that changed after they were written, and were left out */
            [READ_AREA_COUNT];
    struct read_private *private;
};

/* Reads a file, or only these parts of it, for repeated looks at a running process; the others read
 * as empty. Header and definitions are always read. 0, or -errno with *ret_error filled: -EBADMSG
 * (not a capture, or torn), -EPROTONOSUPPORT (unknown version), -ENOMEM, or an error of open or
 * read. ret_error may be NULL. READ_NEWEST is at most a few thousand events: of each chunk of the
 * log that is being written, among the last 4 GiB of the log; has_all_events is false. Its time
 * grows with the length of the log, by one read per 64 KiB. */
#define READ_LIVE     0x01u
#define READ_EVENTS   0x02u
#define READ_NEWEST   0x04u /* instead of READ_EVENTS */
#define READ_FAILURES 0x08u
#define READ_PLACES   0x10u
#define READ_RECORD   0x20u
#define READ_ALL      (READ_LIVE | READ_EVENTS | READ_FAILURES | READ_PLACES | READ_RECORD)

int read_open_parts(const char *path, unsigned parts, struct read_capture **ret_capture,
        struct read_error *ret_error);

/* Reads everything except `event`, and checks whether header, live table, places and events agree
 * (damaged, torn). Events are walked one after the other, and take no more memory than in the file.
 * An element of `event` takes twenty times as much. */
int read_begin(const char *path, struct read_capture **ret_capture, struct read_error *ret_error);

/* Walks the events in order from the first. read_walk_next: valid until the next call; NULL = the
 * end, or no memory: then there were fewer than event_count. With `is_last` the memory of passed
 * events is freed, and no other walk may follow. read_walk_new returns NULL without memory. The
 * walk must not outlive the capture. */
struct read_walk;
struct read_walk *read_walk_new(struct read_capture *capture, bool is_last);
const struct read_event *read_walk_next(struct read_walk *walk);
void read_walk_free(struct read_walk *walk);

/* Fills in `event`; false = no memory. */
bool read_list(struct read_capture *capture);

/* Reads everything from bytes in memory, which may be freed after the call. */
int read_open_bytes(const void *bytes, size_t length, struct read_capture **ret_capture,
        struct read_error *ret_error);

/* Was a part changed after it was written? Then no figure is reliable. */
bool read_is_damaged(const struct read_capture *capture);

/* The name of an area: "live allocations". */
const char *read_area_name(enum read_area area);

/* Frees the capture. NULL is allowed. */
void read_close(struct read_capture *capture);

/* The frames of a stack number, innermost first; returns their number. 0 for 0 and for numbers that
 * the file does not have. */
unsigned read_stack(const struct read_capture *capture, uint32_t stack,
        struct read_frame *ret_frames, unsigned max);

/* The largest stack number of the file. Each number from 1 is a stack, whose first frame is in no
 * stack of a smaller number. */
uint32_t read_stack_count(const struct read_capture *capture);

/* The same for the number of a Python stack. *ret_ambient: the thread had no Python frames, these
 * are another thread's. A stack of the writer's maximum depth may lack its outer frames. */
unsigned read_pystack(const struct read_capture *capture, uint32_t pystack,
        struct read_pyframe *ret_frames, unsigned max, bool *ret_ambient);

/* The site key of a stack, as tag.site in the run and `c:` in a hint file. 0 for no stack. */
uint64_t read_site(const struct read_capture *capture, uint32_t stack);

/* A string by its number, "" if there is none. */
const char *reader_string(const struct read_capture *capture, uint32_t number);

#endif
