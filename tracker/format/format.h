/* SPDX-License-Identifier: MIT */
/*
 * format.h - the bytes of a capture (*.kcap), shared by the writer (capture.c) and the reader
 * (read.c).
 *
 * FORMAT.md explains it in prose. Little-endian, every struct a multiple of 8 bytes and 8-byte
 * aligned, no pointers.
 *
 *     page 0..  HEADER    identity, state, totals, directory of extents
 *     extents   LIVE   A  slots, one per live allocation: readable after any crash
 *               DEFS   B  strings, modules, stack nodes, rules, notes ... appended, never changed
 *               PLACES C  figures of each (stack, Python stack, anchor path, device)
 *               EVENTS D  chunks of records, one writing thread at a time; records: eventcode.h
 *               OOM    E  slots, one per failed allocation: the first 16 and the newest 16
 *
 * The value that publishes: of a live slot and an OOM slot `state`, of a record its chunk's `used`,
 * of an extent its directory entry's `kind`; it is stored last. A process killed between two stores
 * leaves the old value there, and the reader skips unpublished records.
 */
#ifndef KEDGE_TRACKER_FORMAT_H
#define KEDGE_TRACKER_FORMAT_H

#include <stdint.h>

#define FORMAT_MAGIC            "KEDGECAP" /* 8 bytes, no NUL */
#define FORMAT_VERSION          4u         /* readers support only this one */
#define FORMAT_PAGE             4096u
#define FORMAT_EXTENTS_MAX      1024u
#define FORMAT_ASK_OFFSET       8128u  /* of struct format_ask, behind struct format_header */
#define FORMAT_DIRECTORY_OFFSET 8192u  /* the writer's value; readers use the header's */
#define FORMAT_HEADER_BYTES     32768u /* header and directory */
#define FORMAT_DEVICES_MAX      16u    /* totals of devices 0..15; others count only in `total` */
#define FORMAT_HEAPS_MAX        64u
#define FORMAT_CLASSES_MAX      16u
#define FORMAT_CHUNK_BYTES      65536u
#define FORMAT_DEFS_BLOCK       65536u /* definitions do not cross block boundaries */
#define FORMAT_CHUNK_ROOM       (FORMAT_CHUNK_BYTES - 64u) /* bytes for records */

enum format_state {
    FORMAT_STATE_OPEN = 1,   /* running, or killed */
    FORMAT_STATE_CLEAN = 2,  /* closed at the program's end; state_detail: FORMAT_EXIT_KNOWN */
    FORMAT_STATE_OOM = 3,    /* the last reported event was a failed allocation */
    FORMAT_STATE_SIGNAL = 4, /* a fatal signal, number in state_detail */
};

enum format_trace {
    FORMAT_TRACE_OFF,
    FORMAT_TRACE_AGG,  /* live table, totals, stacks; no events */
    FORMAT_TRACE_RING, /* the newest events, in a bounded number of chunks */
    FORMAT_TRACE_FULL, /* all events */
    FORMAT_TRACE_COUNT,
};

enum format_extent_kind {
    FORMAT_EXTENT_NONE,
    FORMAT_EXTENT_LIVE,
    FORMAT_EXTENT_DEFS,
    FORMAT_EXTENT_EVENTS,
    FORMAT_EXTENT_OOM,
    FORMAT_EXTENT_PLACES,
    FORMAT_EXTENT_RECORD, /* one struct format_record, and its bytes */
};

/* One directory entry. `kind` is stored last. */
struct format_extent {
    uint64_t offset; /* in the file, multiple of FORMAT_PAGE */
    uint64_t length; /* multiple of FORMAT_PAGE */
    uint32_t kind;
    uint32_t sum; /* stored together with `kind` */
};

/* Running figures of a device or of all. Bytes as the program requested them. */
struct format_totals {
    uint64_t allocated_bytes, allocated_count;
    uint64_t freed_bytes, freed_count; /* by the program */
    uint64_t live_bytes, peak_bytes;
    uint64_t hinted_freed_bytes,
            hinted_freed_count; /* storage that hints released while the program held the block */
    /* live bytes without storage that hints released */
    uint64_t live_hinted_bytes, peak_hinted_bytes;
    uint64_t reserved_bytes, peak_reserved_bytes; /* held from the driver */
};

/* Counts of losses, by reason. */
struct format_lost {
    uint64_t events_recycled; /* overwritten by newer events (ring) */
    uint64_t events_dropped;  /* no space, no chunk */
    /* allocations without a slot: in the totals, but not in the live table */
    uint64_t live_dropped;
    uint64_t defs_dropped;  /* strings, modules, nodes, notes without space */
    uint64_t unknown_frees; /* frees of unknown blocks */
    uint64_t implied_frees; /* allocations at a live address, without a free in between */
    uint64_t recycled_seq;  /* highest seq among the recycled events: later events are complete */
};

/* Running figures of a class of memory (enum memclass), over all devices. */
struct format_class {
    uint64_t allocated_bytes, allocated_count;
    uint64_t live_bytes, live_count, peak_bytes;
};

/* The driver's figures of a device at the last look. */
struct format_look {
    uint64_t looks; /* number of looks; 0 = the other fields are unset */
    uint64_t free_bytes, total_bytes;
    uint64_t held_bytes;     /* held by kedge's heaps at that time */
    uint64_t native_bytes;   /* live at that time in DRIVER, PITCHED, VMM and ARRAY, as requested */
    uint64_t graph_reserved; /* held by the driver's graph memory pool at that time, */
    uint64_t graph_high;     /* and its high mark */
    uint64_t native_live;    /* running value of native_bytes */
};

/* The pool's memory on a device at the last look. */
struct format_inside {
    uint64_t seq, time_ns; /* the highest seq at that time; time_ns 0 = unset */
    uint64_t live, used;   /* requested and not freed; the same with each block rounded to 512 */
    uint64_t dead;         /* part of `used` whose storage a hint has released or is releasing */
};

/* Calls with unknown arguments: any block live at the time may have been used. */
struct format_unseen {
    uint64_t is_on; /* uses are recorded in this run */
    uint64_t count, last_ns;
};

/* The high-water mark of a device. While live_bytes are above peak_bytes, the peak is now, and each
 * place's share is its live bytes. Otherwise the peak is `number`, and a place's share is at_peak_*
 * if its `peak` is that number, else its live bytes. */
struct format_high {
    uint64_t live_bytes, peak_bytes;
    uint64_t number;       /* of the last peak after which live bytes fell, 0 = none yet */
    uint64_t seq, time_ns; /* of the allocation that reached the peak */
};

/* In state_detail of a clean end: the lower eight bits are the exit status. Without this flag the
 * status is unknown. */
#define FORMAT_EXIT_KNOWN 0x100u

struct format_header {
    char magic[8];
    uint32_t version;
    uint32_t header_bytes; /* offset of the first extent, multiple of FORMAT_PAGE */
    uint32_t state;        /* enum format_state */
    uint32_t state_detail; /* signal number, or exit status with FORMAT_EXIT_KNOWN */
    uint32_t trace;        /* enum format_trace */
    uint32_t pid;
    uint32_t ppid;
    uint32_t extent_count; /* directory entries claimed; entries with kind 0 are unpublished */
    uint64_t start_real_ns;
    uint64_t start_mono_ns; /* origin of event times */
    uint64_t file_bytes;    /* claimed so far */
    uint64_t last_seq;      /* highest sequence number seen */
    uint64_t oom_count;
    struct format_lost lost;
    struct format_totals total;
    struct format_totals device[FORMAT_DEVICES_MAX];
    char exe[1024];
    char cmdline[2048]; /* arguments separated by NUL, truncated; cmdline_bytes of them */
    uint32_t cmdline_bytes;
    uint32_t directory_offset; /* of struct format_extent[FORMAT_EXTENTS_MAX] in the file */
    char host[64];
    char rank[32];
    char program[96];     /* where_program(), for receipts */
    uint32_t class_count; /* number of classes known to the writer */
    uint32_t spare;
    struct format_class memclass[FORMAT_CLASSES_MAX];
    struct format_look look[FORMAT_DEVICES_MAX];
    char run[24]; /* of `kedge run`, hexadecimal; "" = started without it */
    /* Live bytes on the heaps, each block rounded up to 512, without storage that hints released;
     * its peak, 0 = an earlier writer did not count it. */
    uint64_t stored_512_bytes, peak_stored_512_bytes;
    /* formatsum_seal, once all counting has ended; 0 = counting may go on, or an earlier writer
     * made none */
    uint64_t seal;
    /* formatsum_loose_* of records without sums of their own; 0 = not computed */
    uint64_t loose_sum;
    uint64_t spare_figure; /* 0 */
    /* Changes of live memory are counted in the order in which threads report them: the highest seq
     * among them, and the number of changes after one with a higher seq. If that is 0, the peaks
     * are those of the events in order of seq. */
    uint64_t counted_seq, counted_late;
    struct format_high high[FORMAT_DEVICES_MAX];
    uint64_t places_lost; /* allocations added to an "other" place, or to none */
    struct format_unseen unseen;
    uint64_t sum;                                    /* sum of the constant fields of the header */
    struct format_inside inside[FORMAT_DEVICES_MAX]; /* 0 from an earlier writer */
};

/*
 * What a tool asks of the process that writes the capture: a walk now (preload/held/asked.c). The
 * tool adds one to `asked` and wakes the futex there; the writer stores `answered` last and wakes
 * the one there. It is no part of the record: all 0 if nobody listens, and without a sum.
 */
enum format_ask_state {
    FORMAT_ASK_NONE,
    FORMAT_ASK_LISTENS,
    FORMAT_ASK_WAITS, /* for the interpreter's lock */
    FORMAT_ASK_WALKS,
};

enum format_ask_result {
    FORMAT_ASK_UNKNOWN,
    FORMAT_ASK_WALKED,    /* its number is in `walk` */
    FORMAT_ASK_NO_PYTHON, /* no interpreter with a framework that is known, */
    FORMAT_ASK_ENDED,     /* or no longer */
    FORMAT_ASK_FAILED,    /* no room for it, or a note in the capture has the reason */
    FORMAT_ASK_WITHDRAWN,
};

struct format_ask {
    uint32_t asked;     /* requests so far */
    uint32_t withdrawn; /* the one that the tool waits for no longer */
    uint32_t answered;  /* the last one that was answered */
    uint32_t state;     /* enum format_ask_state */
    uint32_t result;    /* enum format_ask_result, of the last answer */
    uint32_t walk;
};

_Static_assert(sizeof(struct format_header) <= FORMAT_ASK_OFFSET
                && FORMAT_ASK_OFFSET + sizeof(struct format_ask) <= FORMAT_DIRECTORY_OFFSET,
        "between the header and the directory");

/* `stream` of allocations, frees and failures: in the lower bits the program's handle, which is an
 * address, and above it struct tag's stream number (0 = unknown). Both together identify a stream:
 * a handle may be reused for another one. */
#define FORMAT_STREAM_NUMBER_SHIFT 48u

static inline uint64_t format_stream(uint64_t handle, uint16_t number)
{
    return (handle & ((UINT64_C(1) << FORMAT_STREAM_NUMBER_SHIFT) - 1))
            | (uint64_t)number << FORMAT_STREAM_NUMBER_SHIFT;
}

static inline uint16_t format_stream_number(uint64_t stream)
{
    return (uint16_t)(stream >> FORMAT_STREAM_NUMBER_SHIFT);
}

/* Flags of allocations (live slot, alloc and free events). */
#define FORMAT_ALLOC_STREAM 0x01u /* stream-ordered API */
#define FORMAT_ALLOC_NATIVE \
    0x02u /* made by the driver itself: forwarded, bypassed or served after a failure of kedge */
#define FORMAT_ALLOC_HINTED  0x04u /* a rule matched; see the hint record */
#define FORMAT_ALLOC_CAPTURE 0x08u /* allocated while its stream was being captured */
/* The upper four bits: enum memclass. 0 with FORMAT_ALLOC_NATIVE is MEMCLASS_DRIVER. */
#define FORMAT_ALLOC_CLASS_SHIFT 4u

/* When an allocation was used, as far as uses are seen: ns since start_mono_ns, 0 = no use seen. */
struct format_uses {
    uint64_t first_use, last_use;
    uint64_t longest_gap; /* between two successive uses */
    uint64_t gap_end;     /* the use that ended it */
};

/* The reliability of these figures. */
/* uses were recorded; without this flag the figures mean nothing */
#define FORMAT_USE_WATCHED 0x01u
#define FORMAT_USE_MAY     0x02u /* some may not be uses: words inside larger parameters */
#define FORMAT_USE_UNSEEN  0x04u /* live while something with unknown arguments was launched */
#define FORMAT_USE_SHOWN \
    0x08u /* its address is known to unseen users: another process, a texture ... */
#define FORMAT_USE_LOST 0x10u /* its uses could not be recorded */
#define FORMAT_USE_DEAD_WRITE \
    0x20u /* a copy or set replaced all of it, and no use came after the previous write */
#define FORMAT_USE_FLAGS 0xffu
/* Above the flags, in a live slot: the number of the use that was the last copy or set into the
 * block, lower bits; 0 = none. */
#define FORMAT_USE_WROTE_SHIFT 8u

/* Area A. state: 0 = empty, else seq << 1 | 1. */
struct format_live {
    uint64_t state;
    uint64_t addr;
    uint64_t size;
    uint64_t stream;
    uint64_t time_ns;
    uint32_t stack;
    uint32_t path; /* anchor path as a string number */
    uint32_t instance;
    uint32_t nth;
    int16_t device;
    uint8_t flags;
    uint8_t hint; /* enum format_hint_what of the last hint record, 0 = none */
    int32_t rule; /* -1 = none */

    uint32_t pystack;
    /* FORMAT_USE_* except UNSEEN, which the header has for live blocks; FORMAT_USE_WROTE_SHIFT */
    uint32_t use_flags;
    struct format_uses uses; /* changed during the block's life, word by word */
    /* the longest gap's other end: stored together with gap_end; their difference should be
     * longest_gap */
    uint64_t gap_begin;
    uint64_t use_count;
    uint64_t sum; /* over the fields that stay constant during the block's life */
};

/* Area C: one place. state: 0 = empty, else number << 1 | 1, stored last and never changed; 128
 * bytes. */
#define FORMAT_PLACE_OTHER 0x01u /* the sum of everything without a place of its own */
#define FORMAT_PLACE_CHANGING \
    UINT64_C(0x474e49474e414843) /* a value that damage is unlikely to produce */

struct format_place {
    uint64_t state;
    uint32_t stack, pystack, path;
    int16_t device;
    uint16_t flags;
    uint64_t allocated_bytes, allocated_count;
    uint64_t live_bytes, live_count;
    uint64_t peak_bytes, peak_count; /* the highest live values here, each by itself */
    /* freed by their allocating thread before it made more than one other allocation */
    uint64_t temporary_bytes, temporary_count;
    uint64_t at_peak_bytes, at_peak_count; /* live here at the device's peak `peak` */
    uint64_t peak;                         /* stored after these two */
    uint64_t sum;
    /* FORMAT_PLACE_CHANGING while the figures change: the sum is outdated */
    uint64_t changing;
};

/* Area B: adjacent records, 8-byte aligned; `kind` 0 = end of this extent. `bytes` is the size of
 * the whole record. */
enum format_def_kind {
    FORMAT_DEF_NONE,
    FORMAT_DEF_STRING,  /* id; text bytes */
    FORMAT_DEF_MODULE,  /* id; struct format_def_module */
    FORMAT_DEF_NODE,    /* id; struct format_def_node */
    FORMAT_DEF_RULE,    /* id = index; struct format_def_rule */
    FORMAT_DEF_HINTS,   /* struct format_def_hints */
    FORMAT_DEF_SETTING, /* struct format_def_pair: name, value */
    FORMAT_DEF_NOTE,    /* id = severity; text bytes */
    FORMAT_DEF_DEVICE,  /* id = device; struct format_def_device */
    /* struct format_def_coverage; a later record of the same hook and route replaces it */
    FORMAT_DEF_COVERAGE,
    FORMAT_DEF_THREAD, /* id = thread number; struct format_def_thread */
    FORMAT_DEF_PYCODE, /* id; struct format_def_pycode; bytes of its line table */
    FORMAT_DEF_PYNODE, /* id; struct format_def_pynode */
    FORMAT_DEF_DRIFT,  /* id = index of the rule; struct format_def_drift */
    FORMAT_DEF_EVICT,  /* id = index of the rule; struct format_def_evict */
    FORMAT_DEF_KEPT,   /* id = index of the rule; struct format_def_kept */
    FORMAT_DEF_SHORT,  /* id = index of the rule; struct format_def_short */
    /* struct format_def_moves; a later record replaces it */
    FORMAT_DEF_MOVES,
    FORMAT_DEF_HELD,    /* id = number of its walk; struct format_def_held; text bytes */
    FORMAT_DEF_WALK,    /* id = number, from 1; struct format_def_walk; after its records */
    FORMAT_DEF_DATA,    /* id = enum format_data; struct format_def_data; text bytes */
    FORMAT_DEF_HELD_AT, /* id = number of its walk; struct format_def_held_at; text: u64 addresses */
    FORMAT_DEF_KIND_COUNT,
};

#define FORMAT_DEF_KIND_BITS 8u

struct format_def {
    uint32_t kind; /* stored last; in the file its upper 24 bits are the sum */
    uint32_t bytes;
    uint32_t id;
    uint32_t length; /* of the text after it, if any */
};

struct format_def_module {
    struct format_def def;
    uint64_t base, end, bias, hash;
    uint32_t path;
    uint8_t build_id_bytes, is_main, module_kind, spare;
    uint8_t build_id[32];
};

struct format_def_node {
    struct format_def def;
    uint32_t parent;
    uint32_t module;
    uint64_t offset;
};

struct format_def_rule {
    struct format_def def;
    uint32_t name; /* the rule's id as a string number */
    uint32_t action;
    uint32_t mode;
    uint32_t line;
};

struct format_def_hints {
    struct format_def def;
    uint64_t hash;
    uint32_t path;
    uint32_t mode;
    uint32_t rules;
    uint32_t spare;
};

/* The first instance of an anchor in which a rule's matches differed from its expectation. */
struct format_def_drift {
    struct format_def def;
    uint32_t path, instance; /* of the edge */
    uint64_t count, bytes;   /* its matches; count 0 = it could not be counted */
    uint64_t count_lo, count_hi, bytes_lo, bytes_hi; /* its expectation; hi 0 = none */
};

#define FORMAT_EVICT_STATES 5u /* free, compute, hold, hold after forward, hold after backward */

#define FORMAT_EVICT_PLANNED  0x01u /* the order of use was known */
#define FORMAT_EVICT_REPLAYED 0x02u /* everything followed the previous step's plan */
#define FORMAT_EVICT_PAPER    0x04u /* only decided: nothing was moved */
#define FORMAT_EVICT_RUNNING  0x08u /* the step had not ended: intermediate figures */

/* The figures of a managed set (an evict hint's blocks on a device) in a step. Bytes unless stated
 * otherwise. */
struct format_evict {
    uint64_t step;                /* 0 = before the first edge */
    uint64_t cap, bytes, units;   /* all blocks of the set: their bytes, their number */
    uint64_t in_bytes_high;       /* most bytes in at once */
    uint64_t moved_in, moved_out; /* copied */
    uint64_t count_in, count_out;
    uint64_t dropped;     /* evicted without a copy */
    uint64_t late;        /* calls that had to wait for blocks coming in */
    uint64_t uses, looks; /* counts */
    uint64_t bound;       /* no order of moves brings in fewer bytes in such a step; 0 = unknown */
    uint64_t layout_ns, evict_ns, stall_ns;    /* time spent deciding, moving, waiting */
    uint64_t state_bytes[FORMAT_EVICT_STATES]; /* at the end of the step */
    int32_t device;
    uint32_t flags; /* FORMAT_EVICT_* */
};

/* All of the first 1024 steps are written, then one in 2 of the next 1024, one in 4 of the next
 * 2048, and so on. */
#define FORMAT_EVICT_STEPS_ALL 1024u

struct format_def_evict {
    struct format_def def;
    uint64_t time_ns;
    struct format_evict what;
};

/* Why a block of a managed set is not evicted. */
enum format_kept_why {
    FORMAT_KEPT_NONE,
    FORMAT_KEPT_GRAPH,      /* a graph names it */
    FORMAT_KEPT_SHOWN,      /* exported to another process or library, which uses it unseen */
    FORMAT_KEPT_REGISTERED, /* registered with a communication library */
    FORMAT_KEPT_POINTER,    /* data copied to the device contains a pointer to it */
    FORMAT_KEPT_UNTOLD,     /* the driver does not reveal the parameters of a launch */
    FORMAT_KEPT_HINT,       /* a pin hint holds it */
    FORMAT_KEPT_HOST,       /* the host has no memory for its content */
    FORMAT_KEPT_DRIVER,     /* the driver refused to move it */
    FORMAT_KEPT_UNUSED,     /* no call has named it in the whole step whose order was learnt */
    FORMAT_KEPT_NEEDED,     /* a call named it after a hint had released it, and it was restored */
    FORMAT_KEPT_COUNT,
};

#define FORMAT_KEPT_MAX  4096u /* records of each kind that are written; others count as lost */
#define FORMAT_SHORT_MAX 256u

struct format_def_kept {
    struct format_def def;
    uint64_t addr, size;
    uint64_t seq; /* of the allocation, 0 = unknown */
    int32_t device;
    uint32_t why;                  /* enum format_kept_why */
    uint32_t stack, pystack, path; /* of the allocation */
    uint32_t spare;
};

/* A call that was not made: its blocks together do not fit under the cap. */
struct format_def_short {
    struct format_def def;
    uint64_t time_ns;
    uint64_t needed, room, cap;
    uint32_t path, instance; /* the program's anchor */
    int32_t device;
    uint32_t spare;
};

/* Why the objects of a Python program were walked, or the memory of another one was scanned, to find
 * what refers to its live blocks. */
enum format_walk_why {
    FORMAT_WALK_NONE,
    FORMAT_WALK_OOM,
    FORMAT_WALK_END,   /* of the interpreter */
    FORMAT_WALK_ASKED, /* `kedge held` */
    FORMAT_WALK_STEP,  /* an optimizer has stepped */
    FORMAT_WALK_GROWN, /* live memory has grown */
    FORMAT_WALK_COUNT,
};

#define FORMAT_WALKS_MAX    16384u /* of a process */
#define FORMAT_HELD_MAX     256u   /* records of a walk, */
#define FORMAT_HELD_ALL_MAX 65536u /* and of all */

#define FORMAT_WALK_CUT    0x01u /* it ended at its bound of time or memory */
#define FORMAT_WALK_BUSY   0x02u /* graphs were not read: a backward pass could run */
#define FORMAT_WALK_LACKS  0x04u /* graphs were not read: the framework lacks names for it */
#define FORMAT_WALK_BLOCKS 0x08u /* there were more blocks than it was given */
/* A scan of memory for addresses, not a walk; its objects are blocks of malloc. */
#define FORMAT_WALK_SCAN    0x10u
#define FORMAT_WALK_THREADS 0x20u /* the stacks of some threads were not read: they ran */
#define FORMAT_WALK_HEAP    0x40u /* the heap was not read: the malloc is not glibc's */
#define FORMAT_WALK_TLS     0x80u /* thread-local memory was not read: this glibc's is not known */
#define FORMAT_WALK_PARTS \
    0x100u /* of large blocks of malloc, or many files, only a part was read */

/* Where storages of a record of a walk lie: inside of blocks, as in segments of a framework's, or
 * at their beginning. */
#define FORMAT_HELD_AT_MAX     4096u      /* addresses of a record, */
#define FORMAT_HELD_AT_ALL_MAX (1u << 20) /* and of all */

struct format_def_held_at {
    struct format_def def;
    uint32_t row; /* of FORMAT_DEF_HELD, from 0: the how many-th of its walk */
    uint32_t spare;
};

/* Bits in the offset of a frame of a scan: a variable; one in thread-local memory; a word of the stack,
 * which lies so many words before the end of the frame. */
#define FORMAT_FRAME_DATA       (UINT64_C(1) << 62)
#define FORMAT_FRAME_TLS        (UINT64_C(2) << 62)
#define FORMAT_FRAME_STACK      (UINT64_C(3) << 62)
#define FORMAT_FRAME_KIND       (UINT64_C(3) << 62)
#define FORMAT_FRAME_WORD_SHIFT 48
#define FORMAT_FRAME_WORDS_MAX  0x3fffu

struct format_def_walk {
    struct format_def def;
    uint64_t time_ns, spent_ns;
    uint64_t failures;     /* failed allocations by then */
    uint64_t bytes, count; /* of all blocks live then on the device */
    uint64_t objects;      /* that were walked */
    uint32_t why;          /* enum format_walk_why */
    uint32_t flags;        /* FORMAT_WALK_* */
    int32_t device;        /* -1 = all */
    uint32_t spare;
};

/* Area F: what a framework has recorded of its own memory, in its own form. */
enum format_record_why {
    FORMAT_RECORD_NONE,
    FORMAT_RECORD_OOM,     /* an allocation failed */
    FORMAT_RECORD_CHANGED, /* the program begins a record of its own, which replaces it */
    FORMAT_RECORD_END,     /* the interpreter ends */
    FORMAT_RECORD_ASKED,   /* by `kedge held` */
    FORMAT_RECORD_COUNT,
};

#define FORMAT_RECORDS_MAX 12u /* of a process */

#define FORMAT_RECORD_CUT 0x01u /* older events are missing: there were more than the bound */
#define FORMAT_RECORD_OWN 0x02u /* by the program itself, with its own bounds */

struct format_record {
    uint64_t sum;   /* of the rest and the bytes, stored last; 0 = not complete */
    uint64_t bytes; /* after this struct: a snapshot of PyTorch, pickled */
    uint64_t time_ns;
    uint32_t why;                      /* enum format_record_why */
    uint32_t flags;                    /* FORMAT_RECORD_* */
    uint64_t bound;                    /* events that are kept of a device, 0 = unknown */
    uint64_t peak[FORMAT_DEVICES_MAX]; /* the most bytes of tensors, by the framework's own count */
};

/* Live blocks of one call site with the same holders. Text: a line with the kind of data, then a
 * line for each holder; of a scan "#12" in it stands for the name of the frame of stack 12. */
struct format_def_held {
    struct format_def def;
    uint64_t bytes, count;
    uint32_t stack, pystack; /* of the allocations */
};

/* What a framework's objects say of memory. */
enum format_data {
    FORMAT_DATA_NONE,
    FORMAT_DATA_PARAMETER,
    FORMAT_DATA_GRADIENT,
    FORMAT_DATA_STATE, /* an optimizer's */
    FORMAT_DATA_BUFFER,
    FORMAT_DATA_INPUT, /* of a call of an outermost module */
    /* no memory: */
    FORMAT_DATA_ROOT, /* `root` is a tree of modules, or an optimizer; text: its class */
    FORMAT_DATA_LOOK, /* a look at all of them has ended, after its records */
    FORMAT_DATA_COUNT,
};

#define FORMAT_DATA_MAX   131072u /* records of a process */
#define FORMAT_DATA_SLACK 511u    /* bytes by which an allocation may be larger than its storage */

#define FORMAT_DATA_CUT  0x01u /* LOOK: some objects were not looked at, or are not on record */
#define FORMAT_DATA_BUSY 0x02u /* LOOK: gradients were not read: a backward pass ran */
#define FORMAT_DATA_PART 0x04u /* LOOK: at one optimizer alone */

/* A storage of a tensor. Text: the tensor's name. */
struct format_def_data {
    struct format_def def;
    uint64_t seq;           /* of the allocation that it begins; 0: it lies inside another one */
    uint64_t address, size; /* LOOK: 0, the number of storages that were seen */
    uint64_t time_ns;
    uint32_t root;  /* number, from 1; 0 = none */
    uint32_t flags; /* FORMAT_DATA_* */
};

struct format_def_pair {
    struct format_def def;
    uint32_t name;
    uint32_t value;
};

struct format_def_device {
    struct format_def def;
    uint64_t total_bytes;
    uint32_t name;
    uint32_t driver_version; /* from cuDriverGetVersion, 13000 = 13.0 */
};

struct format_def_coverage {
    struct format_def def;
    uint64_t count;
    uint32_t hook;
    uint32_t route;
};

/* Storage that the pool has moved so far, and what that took. */
struct format_def_moves {
    struct format_def def;
    uint64_t count, bytes, ns;
    uint64_t time_ns;              /* the run's time by then */
    uint64_t ready, lazy, sparing; /* how often the pool chose each pace */
    uint64_t create_ns, map_ns;    /* the mean time of a call, 0 = there was none */
    uint64_t access_ns, unmap_ns;
};

struct format_def_thread {
    struct format_def def;
    uint32_t tid;
    uint32_t name;
};

/* The encoding of a code object's line table (pylines.h). */
enum format_pytable {
    FORMAT_PYTABLE_NONE,
    FORMAT_PYTABLE_LINETABLE = 2, /* CPython 3.10 */
    FORMAT_PYTABLE_LOCATIONS,     /* 3.11 and later */
    FORMAT_PYTABLE_NATIVE, /* not Python: a native function named by another tool (kedge import) */
    FORMAT_PYTABLE_COUNT,
};

#define FORMAT_PYLINES_MAX 49152u /* bytes of a line table that are kept */

/* A Python code object: the data of its frames for function, file and line. */
struct format_def_pycode {
    struct format_def def;
    uint32_t name, qualname, file; /* string numbers; qualname 0 before 3.11 */
    int32_t first_line;
    uint16_t table; /* enum format_pytable */
    uint16_t cut;   /* 1: the line table was longer than the bytes kept */
    uint32_t spare;
};

/* A frame of a Python stack: a tree like that of nodes, a stack is its leaf. */
struct format_def_pynode {
    struct format_def def;
    uint32_t parent;
    uint32_t code;
    int32_t lasti;  /* the instruction, in bytes from the code's first; negative: none yet */
    uint32_t entry; /* 1: called from C, so the native stack contains the interpreter's loop */
};

/* Flag in a Python stack number: the thread had no Python frames, the stack is another thread's
 * (tracker/python/pystack.h). */
#define FORMAT_PYSTACK_AMBIENT 0x80000000u

/* Area D. The first 64 bytes of each chunk. `number` 0 = unused. */
struct format_chunk {
    uint64_t number; /* rises with each use of a chunk */
    /* lower half: bytes of complete records after these 64 bytes, upper half: their sum; stored
     * after each record */
    uint64_t used;
    uint64_t spare_words[6];
};

enum format_event_kind {
    FORMAT_EVENT_NONE,
    FORMAT_EVENT_ALLOC,
    FORMAT_EVENT_FREE,
    FORMAT_EVENT_EDGE,
    FORMAT_EVENT_HINT,
    FORMAT_EVENT_RESERVED,
    FORMAT_EVENT_OOM,
    /* as ALLOC and FREE, for memory that is not device memory of this process */
    FORMAT_EVENT_OTHER_ALLOC,
    FORMAT_EVENT_OTHER_FREE,
    FORMAT_EVENT_CALL,   /* a call of a communication library, with its buffers */
    FORMAT_EVENT_LAUNCH, /* of a kernel: a call of this name without buffers */
    FORMAT_EVENT_USE, /* of a block by a call: uses of one thread at one time belong to one call */
    FORMAT_EVENT_KIND_COUNT,
};

#define FORMAT_CALL_BUFFERS 2u /* of one call */

/* Uses of smaller blocks have no events: a block that can be moved has a physical handle of its
 * own, so it is no smaller. */
#define FORMAT_USE_BYTES (UINT64_C(2) << 20)

/* An event of a hinted range. */
enum format_hint_what {
    FORMAT_HINT_NONE,
    FORMAT_HINT_PLANNED,       /* a rule matched an allocation */
    FORMAT_HINT_WOULD_RELEASE, /* shadow: the edge passed, the storage would have been released */
    FORMAT_HINT_DEAD,          /* marked dead, in limbo */
    FORMAT_HINT_UNMAPPED, /* live: storage released; trap: access removed; poison: being written */
    FORMAT_HINT_LATE_TOUCH, /* shadow, poison: used after the edge */
    FORMAT_HINT_VIOLATION,  /* trap, live: a call that names it was stopped */
    /* matched, not acted upon (small, pinned ...); without a rule: exported (R85, fitness of
     * sites) */
    FORMAT_HINT_SKIPPED,
    FORMAT_HINT_REFUSED, /* kedge or the driver failed to do it */
    /* the edge passed, and the rule's matches differed from its expectation; addr 0, size: sum of
     * the matches */
    FORMAT_HINT_DRIFT,
    /* a kernel got the address after the edge, which is not an error by itself */
    FORMAT_HINT_CARRIED,
    FORMAT_HINT_CLEAN, /* poison, after the free: nothing was written since the edge */
    /* poison, after the free: addr is the first written byte, size from there to the end */
    FORMAT_HINT_LATE_WRITE,
    FORMAT_HINT_WOULD_HOLD, /* shadow: freed; the storage would have been kept */
    FORMAT_HINT_HELD,       /* freed, and the storage is kept */
    FORMAT_HINT_LET_GO,     /* the event that it was held for came: it is free now */
    FORMAT_HINT_COUNT,
};

/* Area E: why an allocation failed. */
#define FORMAT_OOM_FIRST   16u /* records that are never overwritten, */
#define FORMAT_OOM_LAST    16u /* and records that the newest failures share in turn */
#define FORMAT_OOM_HOLDERS 16u

#define FORMAT_OOM_STREAM  0x01u /* stream-ordered API */
#define FORMAT_OOM_NATIVE  0x02u /* the driver refused last; else the pool's ladder */
#define FORMAT_OOM_CAPTURE 0x04u /* requested on a stream that was being captured */
#define FORMAT_OOM_HEAPS   0x08u /* `heaps` is set: kedge serves memory in this run */

/* kedge's heaps on the device, after every attempt. Bytes. */
struct format_oom_heaps {
    uint64_t held;       /* from the driver */
    uint64_t live, used; /* requested and not freed; the same with each block rounded to 512 */
    uint64_t held_high, live_high;
    uint64_t free, largest_free;
    uint64_t remappable;         /* whole handles that are free and whose work has completed, */
    uint64_t remappable_waiting; /* or not yet */
    uint64_t cached;             /* handles without a mapping */
    uint64_t waiting;            /* freed, waiting for a fence */
    uint64_t kept;               /* freed, but kept for graphs, captures or other pins */
    uint64_t limbo, husk;        /* released by a hint: in progress, complete */
};

/* The steps taken for the request. */
struct format_oom_ladder {
    uint64_t trimmed_bytes, moved_bytes;
    uint32_t waits, trims, attempts, spare;
};

/* The stacks that held most of the device's memory at that time. */
struct format_oom_holder {
    uint64_t bytes, count;
    uint32_t stack, pystack;
};

/* state: 0 = empty, else number << 1 | 1; numbers start at 1. */
struct format_oom {
    uint64_t state;
    uint64_t seq, time_ns; /* of the event in area D, if there is one */
    uint64_t requested;    /* 0 = the call has no size */
    uint64_t stream;
    uint32_t stack, path, instance;
    uint32_t call; /* the driver's entry point as a string number */
    int32_t device;
    uint32_t result; /* CUresult */
    uint32_t flags;
    uint32_t holder_count;
    uint64_t free_bytes, total_bytes; /* as the driver reports, all ones = not queried */
    uint64_t native_bytes;            /* live in classes that the driver itself serves */
    struct format_oom_heaps heaps;
    struct format_oom_ladder ladder;
    uint64_t other_bytes; /* live at stacks not among the holders */
    struct format_oom_holder holder[FORMAT_OOM_HOLDERS];
    uint32_t pystack; /* of the request */
    uint32_t spare32;
    /* part of heaps.free, in heaps that serve the other API: sync for a stream, and the reverse */
    uint64_t free_elsewhere;
    uint64_t hint_held; /* part of heaps.kept: freed, and held by hints */
    uint64_t spare[45];
    uint64_t sum;
};

_Static_assert(sizeof(struct format_oom) == 1024, "four OOM slots are a page");
_Static_assert(sizeof(struct format_live) == 128, "a live slot is two cache lines");
_Static_assert(sizeof(struct format_place) == 128, "a place is two cache lines");
_Static_assert(sizeof(struct format_chunk) + FORMAT_CHUNK_ROOM == FORMAT_CHUNK_BYTES, "a chunk");
_Static_assert(sizeof(struct format_extent) == 24, "directory entry");
_Static_assert(sizeof(struct format_header) % 8 == 0, "header");
_Static_assert(
        sizeof(struct format_header) <= FORMAT_DIRECTORY_OFFSET, "header and directory: 8 pages");

_Static_assert(FORMAT_DIRECTORY_OFFSET + sizeof(struct format_extent) * FORMAT_EXTENTS_MAX
                <= FORMAT_HEADER_BYTES,
        "directory");

#endif
