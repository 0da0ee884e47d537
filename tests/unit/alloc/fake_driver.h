/* SPDX-License-Identifier: MIT */
/*
 * fake_driver.h - a struct driver without a device, for the tests of alloc/.
 *
 * Keeps the books that a driver keeps (segments, ranges, handles, mappings, bytes of the device) and refuses or notes what
 * a driver would refuse; runs streams as queues that only move when the test says so; knows for any two points whether one
 * is ordered before the other. It counts every call, fails the n-th on request, and notes a call that comes with one of
 * our locks held.
 *
 *     program ─fake_submit(stream, range)─► queue ─fake_step─► done: the range must be accessible now, else a fault
 *     pool ─stream_record─► fence = positions of the queues ─► passed when all queues are past them
 *
 * A handle has content: one word, which work on a stream writes or compares (fake_write, fake_check), and which goes to the host
 * and back; so has managed memory, whose bytes the device holds from the time at which its pages are prefetched, or used. Stream keys are 1 .. FAKE_STREAMS - 1; poison goes through stream 0. Each use of a range that poison has come to changes its first byte
 * there. Threads: any.
 */
#ifndef KEDGE_TESTS_UNIT_FAKE_DRIVER_H
#define KEDGE_TESTS_UNIT_FAKE_DRIVER_H

#include "alloc/pool.h"

#include <pthread.h>

#define FAKE_STREAMS   12
#define FAKE_QUEUES    (FAKE_STREAMS + 2) /* and one for content that goes each way */
#define FAKE_READERS   32
#define FAKE_PIECES    8192
#define FAKE_FENCES    65536
#define FAKE_SNAPSHOTS 4096
#define FAKE_CONTEXT   7   /* that managed memory of memory pools is in */
#define FAKE_FAILURE   719 /* what an injected failure returns unless told otherwise */

/* Positions of all streams' queues. */
struct fake_clock {
    uint64_t at[FAKE_QUEUES];
};

enum fake_piece_kind {
    FAKE_NOTHING,
    FAKE_PLAIN,
    FAKE_RANGE,
    FAKE_HANDLE,
    FAKE_MAPPING,
    FAKE_MANAGED,
};

struct fake_piece {
    enum fake_piece_kind kind;
    devptr_t base;
    uint64_t size;
    uint64_t owner;   /* PLAIN, MANAGED: context; MAPPING: handle */
    bool flag;        /* MAPPING: accessible; MANAGED: pages of it are on the device, */
    uint64_t there;   /* so many bytes of them */
    uint32_t maps;    /* HANDLE: so many mappings */
    uint64_t content; /* HANDLE, MANAGED */
    /* MAPPING: where poison has come to, and how many bytes of it are as it left them */
    devptr_t poisoned;
    uint64_t intact;
};

enum fake_work {
    FAKE_USE,
    FAKE_WRITE,
    FAKE_CHECK,
    FAKE_OUT,
    FAKE_IN,
    FAKE_PAGES_OUT,
    FAKE_PAGES_IN,
};

struct fake_item {
    devptr_t base;
    uint64_t size;
    uint64_t fence; /* not 0: a wait */
    bool poisons;   /* is no use, but puts poison there */
    bool looks;     /* is no use */
    enum fake_work work;
    uint64_t value; /* that is written, or must be there */
    uint64_t *host; /* where content goes, or comes from */
};

struct fake_stream {
    struct fake_item *items;
    uint64_t submitted, done, room;
    /* what of the other queues is ordered before whatever is submitted next */
    struct fake_clock before;
    bool gone;
};

struct fake_driver {
    struct driver driver; /* to be given to pool_new */
    pthread_mutex_t mutex;

    /* set by the test, before or between calls */
    uint64_t memory;       /* of the device */
    uint64_t skew;         /* added to the base of plain segments, to be misaligned */
    int fail_at;           /* the n-th call from now fails (1 = the next); 0 = none */
    bool fail_all;         /* and so do those after it */
    int fail_code;         /* with this */
    const char *fail_name; /* only calls of this name count; NULL = all */
    bool no_vmm;
    bool no_managed;
    bool no_runs; /* neighbouring mappings are not unmapped in one call */
    bool no_aliases; /* a handle that is mapped is not mapped again; such calls are counted in `refused` */
    uint64_t range_max;   /* the largest range that can be reserved, 0 = any */
    uint64_t granularity; /* what it says; handles of any multiple of 2 MiB are made all the same */
    bool capturing;   /* fence calls are forbidden; they are refused, and counted in `forbidden` */
    uint64_t slow;    /* so many waits time out before one goes on */
    bool hangs;       /* the device makes no progress by itself: waits time out */
    int query_result; /* what fence_query says if not 0 */
    const char *on_call; /* when the next call of this name is about to return, a context dies */
    struct pool *on_call_pool;
    uint64_t on_call_context;
    uint64_t freeze_at; /* the pool is frozen during this call */
    struct pool *freeze_pool;
    uint64_t after_freeze; /* calls that came afterwards */

    /* to be read by the test */
    uint64_t calls;
    uint64_t misuses;   /* what a driver would have refused */
    const char *misuse; /* the last one */
    uint64_t faults;    /* device work on what was not accessible */
    uint64_t forbidden;
    uint64_t refused;
    uint64_t aliases;                             /* maps of what is mapped */
    uint64_t locked;                              /* calls that came with a lock held */
    uint64_t held, held_high;                     /* bytes of the device */
    uint64_t segments, handles, ranges, mappings; /* that exist */
    uint64_t fences;                              /* recorded and not put */
    bool fired;                                   /* the failure has happened */
    uint64_t lost; /* calls that give something back and were made to fail: what they name stays */
    uint64_t waits, records, stream_records, stream_waits, creates, maps;
    uint64_t unmaps, unmap_calls; /* mappings that were undone, and calls for it */
    uint64_t poisons, poison_reads;
    uint64_t wrong;               /* contents that were not what the program had written */
    uint64_t outs, ins;           /* copies and prefetches, */
    uint64_t out_bytes, in_bytes; /* and their bytes */
    uint64_t managed;             /* pieces of managed memory that exist */
    uint64_t page_faults;         /* uses of what was not on the device */
    uint64_t host, host_high;     /* bytes of the host that are taken */
    uint64_t host_max;            /* set by the test: the host has no more, 0 = any */
    uint64_t time;                /* of the clock, in ns: each look takes 10 ms */
    uint64_t move_ns;             /* set by the test: what a move is said to take */

    /* inside */
    struct fake_piece pieces[FAKE_PIECES];
    int piece_top;                     /* those at or above were never used */
    int piece_free;                    /* those below are taken */
    int piece_found[FAKE_MANAGED + 1]; /* what was found last, by kind, */
    int piece_used;                    /* and by an access */
    struct fake_stream streams[FAKE_QUEUES];
    struct fake_clock fence_clocks[FAKE_FENCES];
    uint8_t fence_state[FAKE_FENCES];
    uint64_t next_fence, next_handle;
    devptr_t next_address;
    uint64_t readers[FAKE_READERS]; /* odd: inside a section */
    uint64_t snapshots[FAKE_SNAPSHOTS][FAKE_READERS];
    uint64_t next_snapshot;
};

/* On the heap (it is large); fake_free checks nothing by itself. */
struct fake_driver *fake_new(uint64_t memory);
void fake_free(struct fake_driver *fake);

/* The program submits work on a stream that uses a range (size 0: none). Returns its position. */
uint64_t fake_submit(struct fake_driver *fake, uint64_t stream, devptr_t base, uint64_t size);
/* The same of a block on a handle of its own: a word is written into it, or must be there. */
void fake_write(struct fake_driver *fake, uint64_t stream, devptr_t base, uint64_t value);
void fake_check(struct fake_driver *fake, uint64_t stream, devptr_t base, uint64_t value);
/* Positions now. */
struct fake_clock fake_clock(struct fake_driver *fake);
/* One item of one stream, if it is not blocked; false if there was none. */
bool fake_step(struct fake_driver *fake, uint64_t stream);
/* Everything that can run runs. */
void fake_drain(struct fake_driver *fake);
/* Is position `at` of stream `from` done, or ordered before whatever stream `to` is given next? `to` that is no stream: is
 * it done? */
bool fake_is_ordered(struct fake_driver *fake, uint64_t from, uint64_t at, uint64_t to);
/* Has the device done everything up to these positions? */
bool fake_is_done(struct fake_driver *fake, const struct fake_clock *clock);
/* Which byte of the device an address stands for, 0 = none: of mappings of one handle the same. */
uint64_t fake_storage(struct fake_driver *fake, devptr_t ptr);
/* Can the device use this range now? */
bool fake_is_accessible(struct fake_driver *fake, devptr_t base, uint64_t size);

/* In a range of addresses that was reserved, mapped or not. */
bool fake_is_reserved(struct fake_driver *fake, devptr_t ptr);

void fake_reader_enter(struct fake_driver *fake, unsigned reader);
void fake_reader_leave(struct fake_driver *fake, unsigned reader);

/* A context dies: its segments are gone. */
void fake_context_gone(struct fake_driver *fake, uint64_t context);

#endif
