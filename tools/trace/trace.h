/* SPDX-License-Identifier: MIT */
/*
 * trace.h - a capture as the tools think about it: events in order, blocks, anchors, stacks.
 *
 * The commands ask about *blocks* (one allocation with its birth, its release by a hint, its free) and *anchor instances* (one
 * passage through a range, nested in another). A trace has them in arrays indexed by small numbers.
 *
 *     capture file ─ load.h ─────┐
 *                                ├─► struct trace ─► model (figures) · compare (two runs) · mine (hints)
 *     unit tests ─ trace_add_* ──┘
 *
 * An event's index in `events` is its time: everything that compares moments compares indices. Block 0 and anchor 0 are real
 * entries; "none" is TRACE_NONE. Anchor 0 is the root: the whole process, never left.
 *
 * Threads: none. Memory: vec.h; trace_free gives all of it back.
 */
#ifndef KEDGE_TOOLS_TRACE_H
#define KEDGE_TOOLS_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/base/types.h"
#include "tracker/format/format.h"

#define TRACE_NONE  UINT32_MAX
#define TRACE_NEVER UINT32_MAX /* an event index that does not come */

/* nth of a birth that does not know it: trace_add_alloc counts those of one (anchor instance, site, size). */
#define TRACE_COUNT_NTH (UINT32_MAX - 1)

enum __attribute__((packed)) trace_kind {
    TRACE_ALLOC,    /* block; trace_value: its size */
    TRACE_FREE,     /* likewise; block TRACE_NONE: an address that is not in the capture, value 0 */
    TRACE_ENTER,    /* anchor */
    TRACE_EXIT,     /* anchor */
    TRACE_MARK,     /* anchor */
    TRACE_RELEASE,  /* block: a hint's storage release is due (trace_value: enum hint_mode) */
    TRACE_RESERVED, /* trace_value: bytes held from the driver from here on */
    TRACE_CALL,     /* trace_value: index in `calls` */
    TRACE_LAUNCH,   /* anchor; trace_value: index in `launches` */
    TRACE_OTHER,    /* counted elsewhere (touches, refusals) */
};

/* A run has tens of millions of these: 32 bytes. */
struct trace_event {
    /* As the capture numbered it, the rows of a csv from 1; 0 = it was made up from what lived before. */
    uint64_t seq;
    /* 0 = not known; of events side by side in time the later may be the earlier by a little. A csv begins at 0. */
    uint64_t time_ns;
    uint32_t block;
    uint32_t anchor;
    uint32_t number;      /* for trace_value and trace_stream */
    uint32_t thread : 23; /* small number, in order of appearance */
    bool by_stream : 1;   /* ALLOC, FREE: it was the stream API */
    enum trace_kind kind;
};
_Static_assert(sizeof(struct trace_event) == 32, "what a long run takes");

struct trace_frame {
    uint32_t module; /* TRACE_NONE: no module known, offset is the address */
    uint64_t offset; /* of the call, in the module's file */
};

struct trace_module {
    char *path;
    uint8_t build_id[32];
    uint8_t build_id_length; /* 0 = not known */
    uint64_t identity;       /* what it is known by without one, 0 = not known */
    bool is_program;         /* of the program or its libraries; false: CUDA, kedge, libc */
};

/* One frame of a Python stack. */
struct trace_pyframe {
    const char *function, *file; /* live as long as the capture that they came from */
    unsigned line;               /* 0 = not known */
    bool is_entry;               /* called from C: the interpreter's loop is in the native stack */
    bool is_native; /* no Python: a native function among them, as another tool named it (kedge import) */
};

struct trace_stack {
    uint32_t first, count;     /* in frames, innermost first */
    uint32_t pyfirst, pycount; /* in pyframes, innermost first */
    bool cut;                  /* deeper frames were not recorded */
    bool ambient;              /* the Python frames are those of another thread */
};

struct trace_anchor {
    char *path;           /* "outer/inner", literal; "" for the root */
    uint32_t instance;    /* 0 the first time this path was entered */
    uint32_t parent;      /* the instance that was open around it; TRACE_NONE for the root */
    uint32_t enter, exit; /* event indices; TRACE_NEVER: still open at the end */
};

/* A call between ranks, as it is made. */
struct trace_call {
    const char *name; /* of the function; lives as long as the capture, as those of arguments */
    uint32_t number;  /* in tracker/hints/apicalls.def, 0 = not there; trace_add_call */
    uint32_t anchor;
    uint32_t at;   /* event index */
    uint64_t comm; /* handle */
    int peer;      /* rank in it, -1 = the call names none */
    struct trace_buffer {
        const char *arg; /* NULL: no such buffer */
        uint64_t address;
        uint32_t block; /* live there then, TRACE_NONE if none is known; trace_place_calls */
    } buffer[FORMAT_CALL_BUFFERS];
};

/* When a block was used; 0 = never, or not known (trace_block.use_flags). */
struct trace_uses {
    uint64_t first, last;
    uint64_t gap, gap_end; /* the longest time between two uses */
    uint64_t count;
};

/* A call uses a block: of one thread at one time it is one call. Only where the run had the order of uses recorded. */
struct trace_use {
    uint64_t time_ns;
    uint32_t block, thread;
    uint32_t at; /* index of the next event */
    bool may;    /* perhaps it is none: a word of a larger parameter */
};

/* There are millions of these: 88 bytes. */
struct trace_block {
    uint64_t address, size, site;
    uint64_t born_ns, died_ns; /* 0 = not known, died_ns of what is live too */
    uint32_t uses_at;          /* trace_uses */
    uint32_t stack, anchor;    /* anchor 0 = outside all */
    uint32_t nth, thread;
    uint32_t born, died; /* event indices; died TRACE_NEVER: live at the end */
    uint32_t released;   /* event index of the edge at which a hint released it, TRACE_NEVER */
    int32_t rule;        /* the hint that matched it, -1 none */
    int16_t device;
    uint16_t stream_number;  /* as tag.stream */
    enum hint_mode mode : 8; /* of its release by a hint */
    enum memclass memclass : 8;
    uint8_t use_flags; /* FORMAT_USE_* of tracker/format/format.h: what its uses are worth */
    bool native;       /* made by the driver itself, not from the pool: no hint can act on it */
    bool stream;       /* by the stream API */
    bool is_main;      /* by the process's first thread */
    bool shared;       /* exported, registered or described: no hint may act on its site (R85) */
};
_Static_assert(sizeof(struct trace_block) == 88, "what a long run takes");

/* What is held from the driver from an event on. */
struct trace_reserved {
    uint64_t all;       /* bytes of all devices */
    uint64_t on_device; /* of the one that changed */
    int device;         /* -1 = not known which */
};

struct trace {
    struct trace_event *events;
    struct trace_block *blocks;
    struct trace_anchor *anchors;
    struct trace_stack *stacks; /* [0] is the empty stack */
    struct trace_frame *frames;
    struct trace_pyframe *pyframes;
    struct trace_module *modules;
    struct trace_call *calls;
    const char **launches;           /* names of kernels; they live as long as the capture */
    struct trace_use *uses;          /* in the order of the calls; no events */
    uint64_t *streams;               /* identities as the capture has them */
    struct trace_reserved *reserved; /* of the events of that kind */
    unsigned char *used;             /* of trace_uses */
    uint64_t latest_use_ns;          /* the latest of all `last` of trace_uses */
    size_t event_count, block_count, anchor_count, stack_count, frame_count, pyframe_count,
            module_count, call_count, launch_count, use_count, stream_count, reserved_count,
            used_bytes;

    /* No more than this lived at once, as the run has counted it; UINT64_MAX = what the events
     * say, since all are there. */
    uint64_t live_most;
    const char *rank;                      /* of the process, the load's; NULL = none */
    const struct symcache *names;          /* that came with the capture; NULL = none; the load's */
    struct bundle_modules *modules_packed; /* files that came with it, likewise */

    /* build time: */
    size_t event_room, block_room, anchor_room, stack_room, frame_room, pyframe_room, module_room,
            call_room, launch_room, use_room, stream_room, reserved_room, used_room;
    struct trace_index *index;
};

/* Blocks, and what they have together. */
struct trace_sum {
    uint64_t count, bytes;
};

/* One block more. */
void trace_sum_add(struct trace_sum *sum, uint64_t bytes);

struct trace *trace_new(void);
void trace_free(struct trace *trace);

/* Room for so many events and blocks, so that none is moved when they come. More may come, and fewer. */
void trace_reserve(struct trace *trace, size_t events, size_t blocks);

/* `module` is copied, its path too. */
uint32_t trace_add_module(struct trace *trace, const struct trace_module *module);
uint32_t trace_add_stack(
        struct trace *trace, const struct trace_frame *frames, uint32_t count, bool cut);

/* The Python frames of a stack, innermost first; once, for a stack that was just added. */
void trace_set_python(struct trace *trace, uint32_t stack, const struct trace_pyframe *frames,
        uint32_t count, bool ambient);

/* A hash of the Python frames of a stack, equal in every trace; 0 without any. */
uint64_t trace_python(const struct trace *trace, uint32_t number);

/* A new instance of `path`, not yet entered. The instance number is counted per path unless it is given (not TRACE_NONE). */
uint32_t trace_add_anchor(struct trace *trace, const char *path, uint32_t instance);

/* What it is when it is born: all but when it is born, released and freed. */
uint32_t trace_add_alloc(struct trace *trace, const struct trace_block *birth);

/* The block that dies, TRACE_NONE if none was known at this address. */
uint32_t trace_add_free(struct trace *trace, uint64_t address, uint32_t thread);

/* What lives, by the sum of events: where some are missing, no more than the run has counted
 * (inorder.h). */
static inline uint64_t trace_live(const struct trace *trace, uint64_t sum)
{
    return sum < trace->live_most ? sum : trace->live_most;
}

/* What an event says beside the others: see enum trace_kind; 0 for other kinds. */
uint64_t trace_value(const struct trace *trace, const struct trace_event *event);

/* The identity of the stream of an alloc or a free, as the capture says it. */
uint64_t trace_stream(const struct trace *trace, const struct trace_event *event);

/* When a block was used: all 0 where it never was, or nothing is known. */
struct trace_uses trace_uses(const struct trace *trace, const struct trace_block *block);
void trace_set_uses(struct trace *trace, uint32_t block, const struct trace_uses *uses);

/* The stream of the last event, an alloc or a free. */
void trace_set_stream(struct trace *trace, uint64_t stream, bool by_stream);

/* An anchor entered or left by `thread`; its parent is the innermost open range that its path continues. */
void trace_add_edge(struct trace *trace, enum trace_kind kind, uint32_t anchor, uint32_t thread);

/* The block live at `address` was released by hint `rule` because of the last edge (exit or mark) of `anchor`. */
uint32_t trace_add_release(
        struct trace *trace, uint64_t address, uint32_t anchor, int32_t rule, enum hint_mode mode);

/* A call of `thread`; `at` and blocks are found here, those of addresses inside of a block by trace_place_calls, once, at the end. */
void trace_add_call(struct trace *trace, const struct trace_call *call, uint32_t thread);
void trace_place_calls(struct trace *trace);

/* A kernel of this name was launched by `thread`. */
void trace_add_launch(struct trace *trace, const char *name, uint32_t anchor, uint32_t thread);

/* A call of `thread` uses a block. */
void trace_add_use(
        struct trace *trace, uint32_t block, uint64_t time_ns, uint32_t thread, bool may);

/* `device` holds so many bytes of all its heaps from here on; -1: it is not known which does. */
void trace_add_reserved(struct trace *trace, int device, uint64_t bytes);

/* Of an event of kind TRACE_RESERVED. */
const struct trace_reserved *trace_reserved_of(
        const struct trace *trace, const struct trace_event *event);
uint32_t trace_add_other(struct trace *trace, uint32_t thread); /* the event */

/* Did any block come from the pool? */
bool trace_has_pool(const struct trace *trace);

/* Could a pool serve it: was it served by the pool, or in a run without one by the driver itself? */
bool trace_is_served(const struct trace_block *block, bool has_pool);

/* The block that is live at `address` after the last event, TRACE_NONE if none is. */
uint32_t trace_find_live(const struct trace *trace, uint64_t address);

/* The youngest block that has this byte, freed or not; TRACE_NONE. Looks at one after the other. */
uint32_t trace_find_last(const struct trace *trace, uint64_t address);

#endif
