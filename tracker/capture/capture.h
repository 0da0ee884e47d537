/* SPDX-License-Identifier: MIT */
/*
 * capture.h - records the run in a file that stays readable after any crash.
 *
 * The file is mapped and shared: everything stored survives SIGKILL without any dump code. It holds
 * the live table itself (one slot per live allocation), so after `kill -9` a report is correct
 * within one operation in progress per thread (R47, readable after SIGKILL). FORMAT.md and format.h
 * describe the bytes.
 *
 *     capture_init ─► (nothing on disk) ─ capstate_open at the first allocation ─► file
 *                     file ─ capture_state ─► clean | signal
 *                          └ fork ─► child writes nothing
 *
 * Order does not matter: the pool numbers each operation under its lock, calls arrive here in any
 * order, and a slot is overwritten only by a higher number. All `seq` parameters are numbers of
 * that one counter; 0 = "after the newest one seen".
 *
 * Space is allocated before it is mapped, so that no store raises SIGBUS on a full disk. The call
 * that met an error returns -errno, once for all parts of the file; later calls return 0 and count
 * their losses (a full log continues as a ring).
 *
 * Does not unwind (where.h), symbolise, compress, print or malloc.
 * Threads: any; no global lock in the hot path: events go to the thread's own chunk, live slots are
 * in 64 shards with a lock each. The caller holds no kedge lock, since growth makes file system
 * calls.
 * Rules: R39 R47 R48 R50 R51 R52.
 */
#ifndef KEDGE_TRACKER_CAPTURE_H
#define KEDGE_TRACKER_CAPTURE_H

#include "alloc/base/rule.h"
#include "alloc/base/types.h"
#include "tracker/format/format.h"
#include "tracker/hints/hintwords.h"

#include <stdbool.h>
#include <stdint.h>

#define CAPTURE_DEFAULT_NAME "kedge-%h-%r-%p.kcap"
#define CAPTURE_PATH_MAX     4096u
#define CAPTURE_NOTES_MAX    256u /* further notes are only counted */

/* All strings are copied. */
struct capture_opts {
    /* pattern: %h host, %r rank ("0" without), %p pid, %% percent; NULL = default */
    const char *file;
    /* The launcher's rank (ranks.def); NULL = none. A name without a pattern goes to rank 0, and
     * other ranks append .RANK: otherwise chance would decide which process takes it. */
    const char *rank;
    /* CONFIG_RUN's value; NULL = none. With a "+" at its end this capture replaces an old one of
     * the same name that is of another run and whose process has ended (capold.h, R102). */
    const char *run;
    const char *program;     /* where_program(); NULL = "" */
    enum format_trace trace; /* FORMAT_TRACE_OFF: every call returns 0 and does nothing */
    uint64_t ring_bytes;     /* bound of the event log in ring mode; 0 = 256 MiB; at least 1 MiB */
};

/* The activity of an evict hint's blocks on a device in a step. */
struct capture_evict {
    int rule;
    struct format_evict what;
};

/* Facts about a successful allocation. */
struct capture_alloc_info {
    const struct tag *tag; /* from where_am_i */
    devptr_t ptr;
    uint64_t seq;
    uint64_t stream; /* as format.h has it, or 0 */
    enum api api;
    enum memclass memclass; /* memory not on a device of this process is recorded separately */
    bool native;            /* served by the driver itself, not from the pool */
    bool stream_capture;    /* while its stream was being captured */
    uint64_t context;       /* number of the context that it ends with, 0 = none, or unknown */
    int rule;               /* plan.rule, -1 = none */
};

/* Facts about a free. */
struct capture_free_info {
    devptr_t ptr;
    uint64_t seq;
    uint64_t size;                  /* 0 = look it up in the live table */
    uint64_t stream;                /* as format.h has it, or 0 */
    const struct format_uses *uses; /* NULL = take those of the live table */
    int device;                     /* -1 = that of the allocation */
    enum api api;
    bool native;
};

/* An event of a range that a rule names. */
struct capture_hint_info {
    enum format_hint_what what;
    enum hint_mode mode; /* in force; only DEAD in HINT_LIVE counts as freed by a hint */
    int rule;
    devptr_t ptr; /* start of the block */
    uint64_t size;
    uint64_t seq;
    uint32_t stack; /* of the access (where_stack), 0 = none */
    uint32_t pystack;
    int device;
    int result;              /* CUresult or errno of SKIPPED and REFUSED, 0 = none */
    const struct edge *edge; /* the anchor edge that caused it, NULL = none */
};

/* A call of a communication library, or a kernel launch, which only has a name; recorded before it
 * is forwarded. */
struct capture_call_info {
    bool is_launch;
    /* name of the function; neither it nor the names of its arguments are copied */
    const char *name;
    struct {
        const char *arg; /* as in the library's header, NULL = no such buffer */
        devptr_t ptr;
    } buffer[FORMAT_CALL_BUFFERS];
    uint64_t comm; /* handle */
    int peer;      /* rank in it, -1 = none */
    uint64_t seq;
};

/* An allocation that failed. */
struct capture_oom_info {
    const struct tag *tag; /* with size and device */
    uint64_t seq;
    uint64_t free_bytes, total_bytes; /* as the driver reports, UINT64_MAX = not queried */
    const char *call;                 /* the driver's entry point, NULL = unknown */
    uint64_t stream;                  /* as format.h has it, or 0 */
    uint32_t flags;                   /* FORMAT_OOM_* */
    struct format_oom_heaps heaps;    /* with FORMAT_OOM_HEAPS */
    uint64_t free_elsewhere;          /* part of heaps.free, in heaps of the other API */
    uint64_t hint_held;               /* part of heaps.kept, by hints */
    struct format_oom_ladder ladder;
    int result; /* the CUresult that the program gets */
};

/* The driver's figures of a device, and the bytes that kedge's heaps hold of it. */
struct capture_look_info {
    int device;
    uint64_t free_bytes, total_bytes;
    uint64_t held_bytes;
    uint64_t graph_reserved, graph_high; /* of the driver's graph memory pool, 0 = none */
    uint64_t live, used, dead;           /* of kedge's heaps, as in struct format_inside */
};

/* Stores the options; touches no file. 0, -EINVAL (bad pattern, unknown %x), -ENAMETOOLONG. */
int capture_init(const struct capture_opts *init_opts);

/* The file's name, "" while there is none. Valid for the process's life. */
const char *capture_path(void);

/* The name under which no file could be created, "" if one was, or none was tried. Valid for the
 * process's life. */
const char *capture_refused(void);

/* Each returns 0, or -errno of an error that no call has returned yet: the same errno is returned
 * once (see above). */
int capture_alloc(const struct capture_alloc_info *info);
int capture_free(const struct capture_free_info *info);
/* Ends all live blocks that were allocated with this `context`, as freed. */
int capture_context_gone(uint64_t context, uint64_t seq);
int capture_edge(const struct edge *edge, uint64_t seq);
int capture_hint(const struct capture_hint_info *info);
int capture_call(const struct capture_call_info *info);

/* The Python stack of the live block that begins at `ptr`, as in tag.pystack; 0 = none, or
 * unknown. */
uint32_t capture_pystack(devptr_t ptr);

/* Writes the event and, for the first 16 failures and the newest 16, a record of the reason (area
 * E), with the stacks that hold most now. *ret_top: the first of them; its bytes are 0 if there is
 * none. ret_top may be NULL. */
int capture_oom(const struct capture_oom_info *info, struct format_oom_holder *ret_top);

/* The block recorded under `key` is mapped at an address; size 0: no longer. Uses of that address
 * count for the block. Does nothing if there is none. */
void capture_mapped(uint64_t key, uint64_t addr, uint64_t size);

/* For uses.c: records a call that uses the block whose allocation had seq `block`. flags:
 * FORMAT_USE_MAY, or 0. */
void capture_use(uint64_t block, uint64_t time_ns, uint32_t flags);

/* `heap` (any number that names one) on `device` holds `bytes` from the driver now, cached handles
 * included. high: the most it ever held, 0 = unknown. If that was not recorded, because it came and
 * went within one call (a growth that failed half way), it gets an event of its own before the one
 * about `bytes`. */
int capture_reserved(int device, uint64_t heap, uint64_t bytes, uint64_t high, uint64_t seq);

/* The driver reported a device's figures. The newest report is kept, the others are counted. */
int capture_look(const struct capture_look_info *info);

/* Identity records. Kept in memory until the file is open (at most 64 KiB of them), and written
 * then. */
int capture_setting(
        const char *name, const char *value); /* "KEDGE_MODE" "pool"; also the values in effect */
int capture_device(int device, const char *name, uint64_t total_bytes, uint32_t driver_version);
int capture_hints(const char *path, uint64_t hash, enum hint_mode mode, uint32_t rules);
int capture_rule(uint32_t index, const struct rule *rule);
int capture_drift(uint32_t index, const struct hintwords_drift *drift); /* once per rule */

/* A step of a managed set has ended, or is still running at the end of the run
 * (FORMAT_EVICT_RUNNING). Of very many steps only some are written. */
int capture_evict(const struct capture_evict *info);
/* The live block at `ptr`, allocated as `seq`, is not evicted. Once for each block and reason. */
int capture_evict_kept(
        int rule, devptr_t ptr, uint64_t size, int device, enum format_kept_why why, uint64_t seq);
/* A call of this thread was not made: its blocks need `needed` bytes at once, and only `room` were
 * available under `cap`. */
int capture_evict_short(int rule, int device, uint64_t needed, uint64_t room, uint64_t cap);

/* A live block. */
struct capture_block {
    uint64_t addr, size;
    uint64_t stack, pystack; /* of its allocation */
};

/* Lists the live device memory that has an address, on a device (-1: on all), in no order: at most
 * `room` blocks. Returns how many there are, *ret_bytes: their bytes. */
uint32_t capture_live(int device, struct capture_block *to, uint32_t room, uint64_t *ret_bytes);

/* Bytes that are live on a device (-1: on all), and the most that were. Two loads; 0: there is no
 * file. */
uint64_t capture_live_bytes(int device, uint64_t *ret_peak);

/* The most that were live on all devices since it was asked for with `restart`; before the first
 * restart, since the capture began. 0: there is no file. */
uint64_t capture_recent_peak(bool restart);

/* A walk through the objects of a Python program (preload/held): its number, 0 = it cannot be
 * recorded, because there is no file, or there were FORMAT_WALKS_MAX or FORMAT_HELD_ALL_MAX records.
 * Its records come next (FORMAT_HELD_MAX, further ones are not written), then capture_walk. */
uint32_t capture_walk_begin(void);
int capture_held(uint32_t walk, const struct capture_block *sum, uint64_t count, const char *text,
        size_t length); /* sum->addr: the largest stack number in the text, 0 = none */
/* Right after capture_held: where storages that it counts lie. */
int capture_held_at(uint32_t walk, const uint64_t *addresses, size_t count);
int capture_walk(
        uint32_t walk, const struct format_def_walk *what); /* def, time, failures: filled in */

/* A look at the tensors that a framework's objects have (preload/kinds). Records of storages and
 * roots come first; what is on record already is not written again. capture_data_end ends the look.
 * Of a storage inside of an allocation that is no record of the look before: other tensors come to
 * its address, which nobody tells. All with the GIL of one interpreter, or one thread. capture_data
 * returns 1 if there is no room for more records (FORMAT_DATA_MAX), else 0 or -errno, once. */
int capture_data(enum format_data kind, uint32_t root, uint64_t addr, uint64_t size,
        const char *text, size_t length);
int capture_data_end(uint64_t storages, uint32_t flags);

/* `opened` runs once the file is there, in the thread that made it, before it goes on: with what
 * tools ask of this process. Before capture_init. */
struct format_ask;
void capture_on_open(void (*opened)(struct format_ask *ask));

/* What a framework has recorded of its own memory. `what` has why, flags, bound and peaks; at most
 * FORMAT_RECORDS_MAX are written, further ones are dropped. */
int capture_record(const struct format_record *what, const void *bytes, size_t length);

int capture_note(unsigned severity,
        const char *text); /* 0 fact, 1 warning, 2 something is missing from the capture */

/* Storage that the pool has moved; `moves` without its head and its time. */
int capture_moves(const struct format_def_moves *moves);

/* `hook` ("cuMemAlloc_v2") was resolved `count` times by `route` ("dlsym", "cuGetProcAddress",
 * "symbol") so far. */
int capture_coverage(const char *hook, const char *route, uint64_t count);

/* Sets the state of the run. A few stores: async-signal-safe, also before capture_init. CLEAN after
 * SIGNAL keeps SIGNAL. `detail` is the signal's number. CLEAN is for the program's end, not for a
 * signal handler: it sums up the header, a few thousand instructions, and takes a lock. */
void capture_state(enum format_state state, uint32_t detail);

/* A store at `at` has raised SIGBUS. True: it was into the capture, which is not written from here
 * on (the next capture_alloc returns -EIO); the store can be repeated. Async-signal-safe. */
bool capture_fault(const void *at);

/* In the child of a fork: detaches from the parent's file. If it was open, nothing is written any
 * more; else the child starts anew. */
void capture_fork_child(void);

#endif
