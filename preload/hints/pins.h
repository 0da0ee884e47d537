/* SPDX-License-Identifier: MIT */
/*
 * pins.h - objects of the program that rely on blocks for longer than a call (R80, pinned blocks).
 *
 * The pool counts pins per block (alloc/heap/pin.h); this module knows their owners. An owner is an
 * object of the program that names addresses: a graph, an instance of one, a texture, a
 * registration, a handle. A call that makes or changes an owner collects the blocks first, so that
 * no hint can release them meanwhile, and gives them to the owner when the driver has accepted the
 * call:
 *
 *     struct pins pins = PINS_NONE(kind);
 *     pins_collect(&pins, ptr, size, TOUCH_POINTER, __func__)   true: do not make the call
 *     result = REAL(...)
 *     pins_settle(&pins, result == 0, OWNER, handle, part)
 *     ...
 *     pins_take(&pins, OWNER, handle) · REAL(destroy) · pins_end(&pins, result == 0, OWNER, handle)
 *
 * `part` is a replaceable part of an owner (a node of a graph), 0 = the owner as a whole. An owner
 * without an end (a tensor map, an IPC handle) keeps its pins for good: pins_keep. Without a pool,
 * or without memory, nothing is pinned; in the second case hints stop acting. While uses are
 * recorded, memory outside kedge's blocks is noted for graphs too, without a pin.
 * Threads: any; a struct pins belongs to one thread. Makes no driver call. Memory: meta.h. Rules:
 * R12 R24 R80.
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
    PINS_OF_CAPTURE, /* by number (gate.h): blocks freed while it runs */
    PINS_OWNER_COUNT,
};

struct pins_entry;

/* The blocks that one call has collected. */
struct pins {
    struct pins_entry *first;
    enum pool_pin kind;
    bool registers;   /* the call registers memory with a library between ranks */
    bool frees;       /* the call frees the block: only graphs will use it */
    CUresult refused; /* reason why the call must not be made, apart from released storage */
};

#define PINS_NONE(how)                                                                            \
    (struct pins)                                                                                 \
    {                                                                                             \
        .first = NULL, .kind = (how), .registers = false, .frees = false, .refused = CUDA_SUCCESS \
    }

/*
 * Pins every block of the program in the range. True: a hint that acts has released one of them,
 * and the call must not be made (reported as argcheck_range does). Without a call to name nothing
 * is reported and the answer is false. An evicted block comes in first, unless it is pinned for a
 * graph, and stays in; if it cannot, the answer is true and pins->refused says why. Blocks come in
 * outside of reader sections, the caller's included.
 */
bool pins_collect(struct pins *pins, devptr_t lo, uint64_t len, enum touch how, const char *call);

/* Collects the blocks of another owner; for clones, instances, children. */
void pins_copy(struct pins *pins, enum pins_owner owner, uint64_t id);

/*
 * Replaces the parts of the collected blocks by those of a copy, which `map` returns; 0 = unknown
 * part.
 */
void pins_map_parts(struct pins *pins, uint64_t (*map)(uint64_t part, void *arg), void *arg);

/* Id 0 is no owner: nothing is kept. Part PINS_SAME_PARTS: keeps the parts that were copied. */
#define PINS_SAME_PARTS UINT64_MAX
void pins_give(struct pins *pins, enum pins_owner owner, uint64_t id, uint64_t part);
void pins_undo(struct pins *pins);
void pins_keep(struct pins *pins);

/* After the call: the pins become the owner's if it was `made`, else they are undone. */
static inline void pins_settle(
        struct pins *pins, bool made, enum pins_owner owner, uint64_t id, uint64_t part)
{
    if (made)
        pins_give(pins, owner, id, part);
    else
        pins_undo(pins);
}

/*
 * The end of an owner: its pins are taken before the driver is asked (its handle may be reused
 * right after), and are undone or given back afterwards.
 */
void pins_take(struct pins *pins, enum pins_owner owner, uint64_t id);

/*
 * pins_take for the parts from `lo` up to but not `hi`, on this device (-1: any). Below: for the
 * newest part only.
 */
void pins_take_parts(struct pins *pins, enum pins_owner owner, uint64_t id, uint64_t lo,
        uint64_t hi, int device);
void pins_take_one(struct pins *pins, enum pins_owner owner, uint64_t id);

/*
 * For uses (tracker/capture/uses.h): all memory of the owner is used. A graph with a node whose
 * memory is unknown makes each of its launches an unseen one; a captured graph that the driver does
 * not name makes all launches such. Takes a lock, and lists each owner's blocks at its first use
 * after a change.
 */
void pins_use(enum pins_owner owner, uint64_t id, uint64_t *moment);
void pins_unseen(struct pins *pins);
void pins_unknown_graph(void);

/*
 * For the work that a device gets (reach.h): the collected blocks belong to nodes that run on these
 * devices, as bits, also after a node's parameters change. Below: all devices that an owner's nodes
 * run on or whose blocks they name; REACH_ALL if it is unknown for all of them.
 */
void pins_runs_on(struct pins *pins, uint64_t devices);
uint64_t pins_devices(enum pins_owner owner, uint64_t id);

/*
 * For evicted blocks (evict_in.h): the call of guard_thread.bring, which must be set, names all
 * memory that the owner names. True as evict_in_name. With a node whose memory is unknown
 * (pins_untold) it is evict_in_all.
 */
bool pins_bring(enum pins_owner owner, uint64_t id);
void pins_untold(struct pins *pins);

/*
 * A block that is freed while captures run, by a call without a stream: it belongs to the captures
 * and, after their ends, to their graphs. It is not handed out before these and their instances
 * have ended (R12, frees during captures).
 */
void pins_for_captures(devptr_t ptr);

/*
 * A capture has ended, with this graph (0 = none): its pins go to the graph or are undone. True:
 * the graph that it recorded into does not exist any more (graphmem_capture_ended).
 */
bool pins_capture_ended(const struct gate_capture *capture, uint64_t graph);

/* The result for the program of the call that has collected them. */
static inline CUresult pins_result(const struct pins *pins, CUresult result)
{
    return pins->refused != CUDA_SUCCESS ? pins->refused : result;
}

/*
 * The collected blocks are shared: recorded in the capture, once per block, so that no hint is
 * suggested for the site. With `ends_hints`, rules that expect an edge for one are off from now on,
 * one line each (R85, fitness of hints).
 */
void pins_shared(const struct pins *pins, const char *call, bool ends_hints);

/* Gives the taken pins back to the owner; parts stay as they were. */
void pins_give_back(struct pins *pins, enum pins_owner owner, uint64_t id);

static inline void pins_end(struct pins *pins, bool ended, enum pins_owner owner, uint64_t id)
{
    if (ended)
        pins_undo(pins);
    else
        pins_give_back(pins, owner, id);
}

#endif
