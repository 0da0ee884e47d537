/* SPDX-License-Identifier: MIT */
/*
 * sim_ledger.h - what stands at which address, and whether a device may touch it.
 *
 * One ordered table of blocks that do not overlap: allocations, mappings, pinned host memory. An
 * address between two blocks belongs to nobody. Whether an operation may touch a range is asked
 * here when it *runs*, so that memory that was freed in the meantime is found out.
 *
 * Does not own addresses (sim_va.h) and does not count bytes (sim_device.h).
 * Threads: under the lock.
 */
#ifndef KEDGE_TESTS_SIM_SIM_LEDGER_H
#define KEDGE_TESTS_SIM_SIM_LEDGER_H

#include "tests/sim/base/sim_core.h"

enum sim_block_kind {
    SIM_BLOCK_PLAIN,    /* cuMemAlloc, cuMemAllocPitch */
    SIM_BLOCK_MANAGED,  /* cuMemAllocManaged */
    SIM_BLOCK_ORDERED,  /* a piece of a memory pool */
    SIM_BLOCK_GRAPH,    /* a graph's memory node */
    SIM_BLOCK_MAPPED,   /* cuMemMap */
    SIM_BLOCK_IMPORTED, /* cuIpcOpenMemHandle */
    SIM_BLOCK_HOST,     /* pinned or registered host memory */
    SIM_BLOCK_COUNT
};

struct sim_physical;
struct sim_piece;
struct sim_page;

/* What cuMemAdvise and cuMemPrefetchAsync said of 2 MiB of managed memory. */
struct sim_advice {
    bool read_mostly;
    CUmemLocation preferred, prefetched; /* type 0: nowhere */
    uint32_t accessed_by;                /* one bit per device, the highest: the host */
};

struct sim_block {
    /* fixed while it is in the table */
    uint64_t addr, size;
    enum sim_block_kind kind;
    int device;           /* ordinal; -1 host */
    struct CUctx_st *ctx; /* its owner; NULL: belongs to no context */
    uint64_t id;          /* CU_POINTER_ATTRIBUTE_BUFFER_ID: never used twice */
    uint64_t va_size;     /* addresses behind it, 0 if they belong to somebody else */
    bool registered;      /* host memory that was the program's before */
    /* as its kind needs it */
    struct sim_physical *physical;  /* MAPPED */
    struct sim_block *next_mapping; /* MAPPED: another address of the same physical memory */
    uint64_t physical_offset;
    struct sim_multicast *multicast; /* MAPPED: through such an object, NULL: not */
    uint64_t multicast_offset;
    struct sim_piece *piece; /* ORDERED, GRAPH: asked whether it is alive */
    uint16_t readable;       /* MAPPED: one bit per device */
    uint16_t writable;
    uint64_t shared_base;      /* IMPORTED: the exporter's block in this process */
    unsigned opened;           /* IMPORTED */
    bool from_pool;            /* IMPORTED: cuMemPoolImportPointer, freed as pool memory is */
    bool external;             /* IMPORTED: a buffer of external memory, freed by cuMemFree */
    struct sim_advice *advice; /* MANAGED: per 2 MiB; NULL: none was given */
    struct sim_page *pages;    /* MANAGED: per 2 MiB (sim_pages.h) */
    struct sim_block *next_managed;
    unsigned host_flags; /* HOST: as it was allocated or registered */
    bool sync_memops;    /* copies and sets that touch it have the host wait */
    struct sim_block *next_of_context, **link_of_context;
};

struct sim_block *sim_ledger_add(struct sim_block block);
void sim_ledger_remove(struct sim_block *block);

/* The block that contains `addr`, or NULL. */
struct sim_block *sim_ledger_find(uint64_t addr);

/* The same if it is one that stands: freed pieces of pools are none. */
struct sim_block *sim_ledger_live(uint64_t addr);

enum sim_side {
    SIM_SIDE_KERNEL, /* through the device's own page tables */
    SIM_SIDE_COPY    /* by a copy engine: reaches plain memory of every device */
};

/*
 * Whether an operation of `device` may touch [addr, addr + size). Host memory counts as accessible
 * to copies whatever it is, and to kernels if it is pinned. On failure *ret_bad is the first byte.
 */
bool sim_ledger_may(int device, enum sim_side side, uint64_t addr, uint64_t size, bool write,
        uint64_t *ret_bad);

/* "cuMemMap block of 4194304 at 0x... + 16", for messages. */
void sim_ledger_describe(uint64_t addr, char *ret_text, size_t size);

#endif
