/* SPDX-License-Identifier: MIT */
/*
 * trace.h - a capture in the form that the tools use: events in order, blocks, anchors, stacks.
 *
 * The commands ask about *blocks* (one allocation with its birth, its release by a hint, its free)
 * and *anchor instances* (one passage through a range, nested in another). A trace has them in
 * arrays indexed by small numbers.
 *
 *     capture file ─ load.h ─────┐
 *                                ├─► struct trace ─► model (figures) · compare · suggest_* (hints)
 *     unit tests ─ trace_add_* ──┘
 *
 * An event's index in `events` is its time: moments are compared by index. Block 0 and anchor 0 are
 * real entries; "none" is TRACE_NONE. Anchor 0 is the root: the whole process, never left.
 *
 * Threads: none. Memory: vec.h; trace_free frees all of it.
 */
#ifndef KEDGE_TOOLS_TRACE_H
#define KEDGE_TOOLS_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/base/types.h"
#include "tracker/format/format.h"

#define TRACE_NONE  UINT32_MAX
#define TRACE_NEVER UINT32_MAX /* an event index that never occurs */

/* nth of a birth that does not know it: counted by (anchor instance, site, size). */
#define TRACE_COUNT_NTH (UINT32_MAX - 1)

enum __attribute__((packed)) trace_kind {
    TRACE_ALLOC, /* block; trace_value: its size */
    TRACE_FREE,  /* likewise; block TRACE_NONE: the address has no block in the capture, value 0 */
    TRACE_ENTER, /* anchor */
    TRACE_EXIT,  /* anchor */
    TRACE_MARK,  /* anchor */
    TRACE_RELEASE,  /* block: a hint's storage release is due (trace_value: enum hint_mode) */
    TRACE_RESERVED, /* trace_value: bytes held from the driver from here on */
    TRACE_CALL,     /* trace_value: index in `calls` */
    TRACE_LAUNCH,   /* anchor; trace_value: index in `launches` */
    TRACE_OTHER,    /* counted elsewhere (touches, refusals) */
};

/* A run has tens of millions of these: 32 bytes. */
struct trace_event {
    /* The capture's number, or the row of a csv from 1; 0 = added for a block that lived before. */
    uint64_t seq;
    /* 0 = unknown; neighbouring events may be a little out of order in time. A csv begins at 0. */
    uint64_t time_ns;
    uint32_t block;
    uint32_t anchor;
    uint32_t number;      /* for trace_value and trace_stream */
    uint32_t thread : 23; /* small number, in order of appearance */
    bool by_stream : 1;   /* ALLOC, FREE: made by the stream API */
    enum trace_kind kind;
};
_Static_assert(sizeof(struct trace_event) == 32, "what a long run takes");

struct trace_frame {
    uint32_t module; /* TRACE_NONE: unknown module, offset is the address */
    uint64_t offset; /* of the call, in the module's file */
};

struct trace_module {
    char *path;
    uint8_t build_id[32];
    uint8_t build_id_length; /* 0 = unknown */
    uint64_t identity;       /* identifies the module without a build-id, 0 = unknown */
    bool is_program;         /* of the program or its libraries; false: CUDA, kedge, libc */
};

/* One frame of a Python stack. */
struct trace_pyframe {
    const char *function, *file; /* valid as long as the capture that they came from */
    unsigned line;               /* 0 = unknown */
    bool is_entry;               /* called from C: the interpreter's loop is in the native stack */
    /* no Python: a native function among the frames, as another tool named it (kedge import) */
    bool is_native;
    int32_t instruction; /* tells the calls of one line apart */
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

/* A call between ranks. */
struct trace_call {
    const char *name; /* of the function; valid as long as the capture, as are those of arguments */
    uint32_t number; /* index in tracker/hints/apicalls.def, 0 = not there; set by trace_add_call */
    uint32_t anchor;
    uint32_t at;   /* event index */
    uint64_t comm; /* handle */
    int peer;      /* rank in it, -1 = the call names none */
    struct trace_buffer {
        const char *arg; /* NULL: no such buffer */
        uint64_t address;
        /* the block live there then, TRACE_NONE if unknown; set by trace_place_calls */
        uint32_t block;
    } buffer[FORMAT_CALL_BUFFERS];
};

/* Times of a block's uses; 0 = never, or unknown (trace_block.use_flags). */
struct trace_uses {
    uint64_t first, last;
    uint64_t gap, gap_end; /* the longest time between two uses */
    uint64_t count;
};

/* A call uses a block; of one thread at one time it is one call. Only with uses=order. */
struct trace_use {
    uint64_t time_ns;
    uint32_t block, thread;
    uint32_t at; /* index of the next event */
    bool may;    /* perhaps no use: a word of a larger parameter */
};

/* There are millions of these: 88 bytes. */
struct trace_block {
    uint64_t address, size, site;
    uint64_t born_ns, died_ns; /* 0 = unknown; died_ns also of live blocks */
    uint32_t uses_at;          /* index of its trace_uses */
    uint32_t stack, anchor;    /* anchor 0 = outside all */
    uint32_t nth, thread;
    uint32_t born, died; /* event indices; died TRACE_NEVER: live at the end */
    uint32_t released;   /* event index of the edge at which a hint released it, TRACE_NEVER */
    int32_t rule;        /* the hint that matched it, -1 none */
    int16_t device;
    uint16_t stream_number;  /* as tag.stream */
    enum hint_mode mode : 8; /* of its release by a hint */
    enum memclass memclass : 8;
    uint8_t use_flags; /* FORMAT_USE_* of tracker/format/format.h: how complete its uses are */
    bool native;  /* allocated by the driver itself, not from the pool: no hint can act on it */
    bool stream;  /* by the stream API */
    bool is_main; /* by the process's first thread */
    /* exported, registered or described: no hint may act on its site (R85, fitness of hints) */
    bool shared;
};
_Static_assert(sizeof(struct trace_block) == 88, "what a long run takes");

/* Bytes held from the driver from an event on. */
struct trace_reserved {
    uint64_t all;       /* bytes of all devices */
    uint64_t on_device; /* of the device that changed */
    int device;         /* -1 = unknown */
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
    const char **launches;           /* names of kernels, valid as long as the capture */
    struct trace_use *uses;          /* in the order of the calls; not events */
    uint64_t *streams;               /* identities as in the capture */
    struct trace_reserved *reserved; /* for the events of that kind */
    unsigned char *used;             /* encoded trace_uses */
    uint64_t latest_use_ns;          /* the latest of all `last` of trace_uses */
    size_t event_count, block_count, anchor_count, stack_count, frame_count, pyframe_count,
            module_count, call_count, launch_count, use_count, stream_count, reserved_count,
            used_bytes;

    /* most live bytes as the run counted them; UINT64_MAX: no event is missing, their sum counts */
    uint64_t live_most;
    const char *rank;                      /* of the process, owned by load; NULL = none */
    const struct symcache *names;          /* names in the capture; NULL = none; owned by load */
    struct bundle_modules *modules_packed; /* files in the capture, likewise */

    /* used while building: */
    size_t event_room, block_room, anchor_room, stack_room, frame_room, pyframe_room, module_room,
            call_room, launch_room, use_room, stream_room, reserved_room, used_room;
    struct trace_index *index;
};

/* A number of blocks, and their bytes. */
struct trace_sum {
    uint64_t count, bytes;
};

/* Adds one block. */
void trace_sum_add(struct trace_sum *sum, uint64_t bytes);
void trace_sum_join(struct trace_sum *sum, struct trace_sum more);

struct trace *trace_new(void);
void trace_free(struct trace *trace);

/* Room for so many events and blocks, which then are not moved. More or fewer may be added. */
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

/* A new instance of `path`, not yet entered. TRACE_NONE: its number is counted per path. */
uint32_t trace_add_anchor(struct trace *trace, const char *path, uint32_t instance);

/* `birth` has everything but the times of birth, release and free. */
uint32_t trace_add_alloc(struct trace *trace, const struct trace_block *birth);

/* The block that dies, TRACE_NONE if none was known at this address. */
uint32_t trace_add_free(struct trace *trace, uint64_t address, uint32_t thread);

/* Live bytes for a sum of events: if some are missing, at most what the run counted (inorder.h). */
static inline uint64_t trace_live(const struct trace *trace, uint64_t sum)
{
    return sum < trace->live_most ? sum : trace->live_most;
}

/* Whether the event is the birth of a block, or the free of one that the capture has. */
static inline bool trace_is_of_block(const struct trace_event *event)
{
    return (event->kind == TRACE_ALLOC || event->kind == TRACE_FREE) && event->block != TRACE_NONE;
}

/* Whether captures have totals of this device. */
static inline bool trace_has_totals(int device)
{
    return (unsigned)device < FORMAT_DEVICES_MAX;
}

/* The additional value of an event, see enum trace_kind; 0 for other kinds. */
uint64_t trace_value(const struct trace *trace, const struct trace_event *event);

/* The identity of the stream of an alloc or a free, as in the capture. */
uint64_t trace_stream(const struct trace *trace, const struct trace_event *event);

/* The uses of a block: all 0 if it was never used, or nothing is known. */
struct trace_uses trace_uses(const struct trace *trace, const struct trace_block *block);
void trace_set_uses(struct trace *trace, uint32_t block, const struct trace_uses *uses);

/* The stream of the last event, an alloc or a free. */
void trace_set_stream(struct trace *trace, uint64_t stream, bool by_stream);

/* `thread` enters or leaves an anchor, whose parent is the innermost open range of its path. */
void trace_add_edge(struct trace *trace, enum trace_kind kind, uint32_t anchor, uint32_t thread);

/* The block live at `address` was released by hint `rule`: the last edge of `anchor` was due. */
void trace_add_release(
        struct trace *trace, uint64_t address, uint32_t anchor, int32_t rule, enum hint_mode mode);

/*
 * A call of `thread`; sets `at` and the blocks that begin at an address. trace_place_calls finds
 * those around an address, once, at the end.
 */
void trace_add_call(struct trace *trace, const struct trace_call *call, uint32_t thread);
void trace_place_calls(struct trace *trace);

/* `thread` launched a kernel of this name. */
void trace_add_launch(struct trace *trace, const char *name, uint32_t anchor, uint32_t thread);

/* A call of `thread` uses a block. */
void trace_add_use(
        struct trace *trace, uint32_t block, uint64_t time_ns, uint32_t thread, bool may);

/* `device` holds so many bytes in all its heaps from here on; -1: unknown device. */
void trace_add_reserved(struct trace *trace, int device, uint64_t bytes);

/* For an event of kind TRACE_RESERVED. */
const struct trace_reserved *trace_reserved_of(
        const struct trace *trace, const struct trace_event *event);
uint32_t trace_add_other(struct trace *trace, uint32_t thread); /* the event */

/* Whether any block came from the pool. */
bool trace_has_pool(const struct trace *trace);

/* Whether a pool could serve the block: the pool did or, in a run without one, the driver did. */
bool trace_is_served(const struct trace_block *block, bool has_pool);

/* The block that is live at `address` after the last event, TRACE_NONE if none is. */
uint32_t trace_find_live(const struct trace *trace, uint64_t address);

/* The youngest block that contains this byte, freed or not; TRACE_NONE. A linear search. */
uint32_t trace_find_last(const struct trace *trace, uint64_t address);

#endif
