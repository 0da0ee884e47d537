/* SPDX-License-Identifier: MIT */
/*
 * pins.h - who relies on which blocks for longer than a call (R80).
 *
 * The pool counts pins per block (alloc/heap/pin.h); here stands whose they are. An owner is a thing of the program's that
 * names addresses: a graph, an instance of one, a texture, a registration, a handle. A call that makes or changes an owner
 * collects the blocks first, so that no hint can release them meanwhile, and gives them to the owner when the driver has
 * said yes:
 *
 *     struct pins pins = PINS_NONE(kind);
 *     pins_collect(&pins, ptr, size, TOUCH_POINTER, __func__)    true: released storage, the call must not be made
 *     result = REAL(...)
 *     pins_settle(&pins, result == 0, OWNER, handle, part)
 *     ...
 *     pins_take(&pins, OWNER, handle) · REAL(destroy) · pins_end(&pins, result == 0, OWNER, handle)
 *
 * `part` is what may be replaced within an owner (a node of a graph), 0 = nothing that can be told apart. An owner without
 * an end (a tensor map, an IPC handle) keeps its pins for good: pins_keep.
 * Without a pool, or without memory, nothing is pinned; in the second case hints stop acting. While uses are recorded, what
 * is not a block of ours is noted for graphs all the same, without a pin.
 * Threads: any; a struct pins belongs to one thread. Makes no driver call. Memory: meta.h. Rules: R12 R24 R80.
 */
#ifndef KEDGE_PRELOAD_PINS_H
#define KEDGE_PRELOAD_PINS_H

#include "alloc/pool.h"
#include "preload/base/gate.h"
#include "preload/hints/argcheck.h"

#include <stdbool.h>
#include <stdint.h>

enum pins_owner {
    PINS_OF_GRAPH,
    PINS_OF_EXEC,
    PINS_OF_TEXTURE,
    PINS_OF_SURFACE,
    PINS_OF_HANDLE,    /* a physical handle that the program retained; one entry per reference */
    PINS_OF_MULTICAST, /* part: offset in the object */
    PINS_OF_ENDPOINT,  /* a logical endpoint, by its number + 1; part: offset in it */
    PINS_OF_NCCL,
    PINS_OF_CAPTURE, /* by number (gate.h): what is freed while it runs */
    PINS_OWNER_COUNT,
};

struct pins_entry;

/* What one call has collected. */
struct pins {
    struct pins_entry *first;
    enum pool_pin kind;
    bool registers;   /* with a library between ranks */
    bool frees;       /* the block: nothing will use it but graphs */
    CUresult refused; /* why the call must not be made, but for released storage */
};

#define PINS_NONE(how)                                                                            \
    (struct pins)                                                                                 \
    {                                                                                             \
        .first = NULL, .kind = (how), .registers = false, .frees = false, .refused = CUDA_SUCCESS \
    }

/*
 * Pins every block of the program's in the range. True: a hint that acts has released one of them, and the call must not be
 * made (told, as argcheck_range does). Without a call to name nothing is told and the answer is false. What a hint evicts comes in
 * first, if it is not pinned for a graph, and stays in; where it cannot, the answer is true, and pins->refused says why. That takes
 * place outside of reader sections, those of the caller too.
 */
bool pins_collect(struct pins *pins, devptr_t lo, uint64_t len, enum touch how, const char *call);

/* As collected, but what another owner has; for clones, instances, children. */
void pins_copy(struct pins *pins, enum pins_owner owner, uint64_t id);

/* What was collected is of other parts: those of a copy, which `map` names; 0 = cannot be told apart. */
void pins_map_parts(struct pins *pins, uint64_t (*map)(uint64_t part, void *arg), void *arg);

/* Id 0 is no owner: nothing stays. Part PINS_SAME_PARTS: as they were copied. */
#define PINS_SAME_PARTS UINT64_MAX
void pins_give(struct pins *pins, enum pins_owner owner, uint64_t id, uint64_t part);
void pins_undo(struct pins *pins);
void pins_keep(struct pins *pins);

/* After the call: the owner's if it was `made`, else nobody's. */
static inline void pins_settle(
        struct pins *pins, bool made, enum pins_owner owner, uint64_t id, uint64_t part)
{
    if (made)
        pins_give(pins, owner, id, part);
    else
        pins_undo(pins);
}

/*
 * The end of an owner: what it has is taken before the driver is asked (the handle may be another's right after), and undone
 * or given back afterwards.
 */
void pins_take(struct pins *pins, enum pins_owner owner, uint64_t id);

/* As pins_take: of the parts from `lo` up to but not `hi`, on this device (-1: any); the newest one only. */
void pins_take_parts(struct pins *pins, enum pins_owner owner, uint64_t id, uint64_t lo,
        uint64_t hi, int device);
void pins_take_one(struct pins *pins, enum pins_owner owner, uint64_t id);

/*
 * For uses (tracker/capture/uses.h). An owner's memory is used, all of it; a graph with a node whose memory nobody tells makes every
 * launch of it one that is not seen, and a captured graph that the driver does not name makes all launches such.
 * Takes a lock, and makes a list of each owner's blocks at its first use after a change.
 */
void pins_use(enum pins_owner owner, uint64_t id, uint64_t *moment);
void pins_unseen(struct pins *pins);
void pins_unknown_graph(void);

/*
 * For the work that is given to a device (reach.h). What was collected is of nodes that run on these devices, as bits; which stays so when a
 * node is set anew. All devices that an owner's nodes run on, or whose blocks they name: REACH_ALL where nobody has said it of any.
 */
void pins_runs_on(struct pins *pins, uint64_t devices);
uint64_t pins_devices(enum pins_owner owner, uint64_t id);

/*
 * For what may be out (evict_in.h). The call of guard_thread.bring, which is there, names all that the owner names. True as evict_in_name.
 * With a node whose memory nobody tells (pins_untold) it is evict_in_all.
 */
bool pins_bring(enum pins_owner owner, uint64_t id);
void pins_untold(struct pins *pins);

/*
 * A block that is freed while captures run, by a call without a stream: it belongs to them, and to their graphs from their ends
 * on, so it is not handed out before these and their instances are gone (R12).
 */
void pins_for_captures(devptr_t ptr);

/* A capture has ended, with this graph (0 = with none): what belonged to it is the graph's, or nobody's. True: the graph that it
 * recorded into is no more (graphmem_capture_ended). */
bool pins_capture_ended(const struct gate_capture *capture, uint64_t graph);

/* What the call comes to that has collected them. */
static inline CUresult pins_result(const struct pins *pins, CUresult result)
{
    return pins->refused != CUDA_SUCCESS ? pins->refused : result;
}

/*
 * What was collected is shared with somebody: the capture is told, once per block, so that no hint is suggested for its site;
 * with `ends_hints`, rules that expect an edge for it are off from now on, one line each (R85).
 */
void pins_shared(const struct pins *pins, const char *call, bool ends_hints);

/* What was taken is the owner's again; parts stay what they were. */
void pins_give_back(struct pins *pins, enum pins_owner owner, uint64_t id);

static inline void pins_end(struct pins *pins, bool ended, enum pins_owner owner, uint64_t id)
{
    if (ended)
        pins_undo(pins);
    else
        pins_give_back(pins, owner, id);
}

#endif
