/* SPDX-License-Identifier: MIT */
#include "tests/sim/base/sim_faults.h"
#include "tests/sim/driver/sim_context.h"
#include "tests/sim/driver/sim_device.h"
#include "tests/sim/graph/sim_capture.h"
#include "tests/sim/graph/sim_graph.h"
#include "tests/sim/graph/sim_graphmem.h"
#include "tests/sim/memory/sim_ipc.h"
#include "tests/sim/memory/sim_pool_parts.h"
#include "tests/sim/memory/sim_poolset.h"
#include "tests/sim/memory/sim_va.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CHUNK_LEAST ((uint64_t)32 << 20)

static struct CUmemPoolHandle_st *pools;

void sim_pool_link(struct CUmemPoolHandle_st *pool)
{
    pool->next = pools;
    pools = pool;
}

/* ---- what the ledger asks ---- */

bool sim_pool_is_freed(const struct sim_piece *piece)
{
    return !piece->used && (!piece->token || piece->token->done);
}

bool sim_pool_piece_is_live(const struct sim_piece *piece)
{
    return piece->used;
}

bool sim_pool_piece_may_touch(const struct sim_piece *piece, int device, bool write)
{
    if (sim_pool_is_freed(piece))
        return false;
    if (!piece->pool)
        return piece->device == device || sim_context_is_peer(device, piece->device);
    return ((write ? piece->pool->writable : piece->pool->readable) >> device) & 1;
}

unsigned sim_pool_handle_types(const struct sim_piece *piece)
{
    return piece->pool ? (unsigned)piece->pool->props.handleTypes : 0;
}

bool sim_pool_is_hosts(const struct sim_piece *piece)
{
    return piece->pool && piece->pool->host;
}

CUmemoryPool sim_pool_of(const struct sim_piece *piece)
{
    return piece->pool;
}

/* ---- pieces ---- */

void sim_pool_token_put(struct sim_token *token)
{
    if (token && --token->references == 0) {
        sim_clock_clear(&token->known);
        free(token);
    }
}

void sim_pool_register(struct sim_piece *piece)
{
    piece->block = sim_ledger_add((struct sim_block){.addr = piece->addr,
            .size = piece->size,
            .kind = piece->pool ? SIM_BLOCK_ORDERED : SIM_BLOCK_GRAPH,
            .device = piece->device,
            .piece = piece});
}

static void piece_resize(struct sim_piece *piece, uint64_t size)
{
    sim_ledger_remove(piece->block);
    piece->size = size;
    sim_pool_register(piece);
}

static struct sim_piece *piece_after(struct sim_piece *piece, uint64_t size)
{
    struct sim_piece *made = sim_new(sizeof(*made));

    *made = *piece;
    made->addr = piece->addr + piece->size;
    made->size = size;
    made->prev = piece;
    if (made->next)
        made->next->prev = made;
    piece->next = made;
    if (made->token)
        made->token->references++;
    sim_pool_register(made);
    return made;
}

static void piece_join_next(struct sim_piece *piece)
{
    struct sim_piece *next = piece->next;

    piece->next = next->next;
    if (piece->next)
        piece->next->prev = piece;
    sim_ledger_remove(next->block);
    sim_pool_token_put(next->token);
    piece_resize(piece, piece->size + next->size);
    free(next);
}

/* Free neighbours become one if nothing is left to wait for. */
static void pool_join(struct CUmemPoolHandle_st *pool)
{
    for (struct sim_chunk *chunk = pool->chunks; chunk; chunk = chunk->next)
        for (struct sim_piece *piece = chunk->pieces; piece; piece = piece->next)
            while (piece->next && sim_pool_is_freed(piece) && sim_pool_is_freed(piece->next))
                piece_join_next(piece);
}

/* The host's memory is not the device's. */
static int hold(const struct CUmemPoolHandle_st *pool, uint64_t bytes)
{
    return pool->host ? 0 : sim_device_hold(pool->device, bytes);
}

static void drop(const struct CUmemPoolHandle_st *pool, uint64_t bytes)
{
    if (!pool->host)
        sim_device_drop(pool->device, bytes);
}

static void chunk_close(struct CUmemPoolHandle_st *pool, struct sim_chunk **link)
{
    struct sim_chunk *chunk = *link;

    *link = chunk->next;
    while (chunk->pieces) {
        struct sim_piece *piece = chunk->pieces;
        chunk->pieces = piece->next;
        sim_ledger_remove(piece->block);
        sim_pool_token_put(piece->token);
        free(piece);
    }
    sim_va_drop(chunk->addr, chunk->size);
    sim_va_give(chunk->addr, chunk->size);
    drop(pool, chunk->size);
    sim_file_close(&chunk->file);
    pool->reserved -= chunk->size;
    free(chunk);
}

/* Gives free chunks back until no more than `keep` bytes are reserved. */
void sim_pool_trim(struct CUmemPoolHandle_st *pool, uint64_t keep)
{
    struct sim_chunk **link = &pool->chunks;

    pool_join(pool);
    while (*link && pool->reserved > keep) {
        struct sim_chunk *chunk = *link;
        if (sim_pool_is_freed(chunk->pieces) && chunk->pieces->size == chunk->size
                && pool->reserved - chunk->size >= keep)
            chunk_close(pool, link);
        else
            link = &chunk->next;
    }
}

void sim_pool_put(struct CUmemPoolHandle_st *pool)
{
    struct CUmemPoolHandle_st **link = &pools;

    if (!pool->destroyed)
        return;
    sim_pool_trim(pool, 0);
    if (pool->chunks)
        return;
    while (*link != pool)
        link = &(*link)->next;
    *link = pool->next;
    free(pool);
}

void sim_pool_synchronized(void)
{
    for (struct CUmemPoolHandle_st *pool = pools, *next; pool; pool = next) {
        next = pool->next;
        if (pool->destroyed)
            sim_pool_put(pool);
        else if (pool->reserved > pool->threshold)
            sim_pool_trim(pool, pool->threshold);
    }
}

/* ---- allocation ---- */

enum reuse {
    REUSE_ORDERED,   /* same stream, behind an event, or done */
    REUSE_WITH_WAIT, /* any free piece: the stream is made to wait */
};

static bool may_reuse(const struct CUmemPoolHandle_st *pool, const struct sim_piece *piece,
        const struct sim_queue *queue, const struct sim_clock *known, enum reuse how)
{
    const struct sim_token *token = piece->token;

    if (piece->used)
        return false;
    if (!token || token->queue == queue)
        return true;
    if (token->done && pool->reuse[CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC])
        return true;
    if (pool->reuse[CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES]
            && sim_clock_at(known, token->queue) >= token->number)
        return true;
    return how == REUSE_WITH_WAIT && pool->reuse[CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES];
}

static struct sim_piece *best_fit(struct CUmemPoolHandle_st *pool, uint64_t size,
        const struct sim_queue *queue, const struct sim_clock *known, enum reuse how)
{
    struct sim_piece *best = NULL;

    for (struct sim_chunk *chunk = pool->chunks; chunk; chunk = chunk->next)
        for (struct sim_piece *piece = chunk->pieces; piece; piece = piece->next)
            if (piece->size >= size && (!best || piece->size < best->size)
                    && may_reuse(pool, piece, queue, known, how))
                best = piece;
    return best;
}

/* Pages for a chunk: a file's if other processes may want to map them. */
static bool back(const struct CUmemPoolHandle_st *pool, uint64_t addr, uint64_t bytes, int *ret_fd)
{
    int fd;

    *ret_fd = -1;
    if (!pool->props.handleTypes)
        return sim_va_back(addr, bytes) == 0;
    fd = memfd_create("simcuda-pool", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) || sim_va_map(addr, bytes, fd, 0)
            || sim_va_protect(addr, bytes, PROT_READ | PROT_WRITE)) {
        if (fd >= 0)
            close(fd);
        return false;
    }
    *ret_fd = fd;
    return true;
}

static struct sim_piece *grow(struct CUmemPoolHandle_st *pool, uint64_t size)
{
    struct sim_chunk *chunk;
    int fd;
    uint64_t bytes = size < CHUNK_LEAST ? CHUNK_LEAST : sim_round(size, SIM_GRANULE);
    uint64_t addr;

    if (pool->props.maxSize && pool->reserved + bytes > pool->props.maxSize)
        return NULL;
    if (hold(pool, bytes)) {
        bytes = sim_round(size, SIM_GRANULE);
        if (hold(pool, bytes))
            return NULL;
    }
    addr = sim_va_take(bytes, SIM_GRANULE);
    if (!addr || !back(pool, addr, bytes, &fd)) {
        if (addr)
            sim_va_give(addr, bytes);
        drop(pool, bytes);
        return NULL;
    }
    chunk = sim_new(sizeof(*chunk));
    *chunk = (struct sim_chunk){
            .addr = addr, .size = bytes, .file = sim_file_of(fd), .next = pool->chunks};
    pool->chunks = chunk;
    chunk->pieces = sim_new(sizeof(*chunk->pieces));
    *chunk->pieces = (struct sim_piece){
            .pool = pool, .chunk = chunk, .addr = addr, .size = bytes, .device = pool->device};
    sim_pool_register(chunk->pieces);
    pool->reserved += bytes;
    if (pool->reserved_high < pool->reserved)
        pool->reserved_high = pool->reserved;
    return chunk->pieces;
}

static CUresult run_nothing(struct sim_op *op)
{
    (void)op;
    return CUDA_SUCCESS;
}

/* Makes the stream wait for the free of the piece. */
static int wait_for(struct CUstream_st *stream, const struct sim_token *token)
{
    struct sim_clock after = {0};
    struct sim_op *op;
    int r;

    if (token->done)
        return 0;
    op = sim_op_new("wait for a freed piece", 0);
    op->run = run_nothing;
    sim_clock_set(&after, token->queue, token->number);
    r = sim_stream_submit_after(stream, op, &after, &token->known);
    sim_clock_clear(&after);
    sim_stats.stream_waits++;
    return r;
}

static void take(struct sim_piece *piece, uint64_t size)
{
    struct CUmemPoolHandle_st *pool = piece->pool;

    if (piece->size > size) {
        uint64_t rest = piece->size - size;
        piece_resize(piece, size);
        (void)piece_after(piece, rest);
    } else {
        piece_resize(piece, size); /* a new life has a new buffer id */
    }
    sim_pool_token_put(piece->token);
    piece->token = NULL;
    piece->used = true;
    pool->used += size;
    if (pool->used_high < pool->used)
        pool->used_high = pool->used;
}

static struct sim_piece *find_piece(
        struct CUmemPoolHandle_st *pool, uint64_t size, struct CUstream_st *stream)
{
    struct sim_clock known = {0};
    struct sim_piece *piece;

    sim_queue_next_clock(stream->queue, &known);
    pool_join(pool);
    piece = best_fit(pool, size, stream->queue, &known, REUSE_ORDERED);
    if (!piece)
        piece = grow(pool, size);
    if (!piece)
        piece = best_fit(pool, size, stream->queue, &known, REUSE_WITH_WAIT);
    if (!piece) {
        for (struct CUmemPoolHandle_st *other = pools; other; other = other->next)
            if (other->device == pool->device && other->host == pool->host)
                sim_pool_trim(other, 0);
        piece = grow(pool, size);
    }
    sim_clock_clear(&known);
    return piece;
}

static int alloc(struct CUmemPoolHandle_st *pool, size_t size, struct CUstream_st *stream,
        CUdeviceptr *ret_ptr)
{
    struct sim_piece *piece;
    int r = 0;

    if (!ret_ptr || size == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (pool->imported)
        return CUDA_ERROR_INVALID_VALUE; /* the reference: only pointers are imported from it */
    if (size > (size_t)1 << 44)          /* RMM's tests ask for 1 PiB */
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (stream->capture)
        return pool->host ? sim_capture_refuse(stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
                          : sim_graph_capture_alloc(stream, pool->device, size, ret_ptr);
    if (sim_stream_is_legacy(stream)) {
        r = sim_capture_implicit(stream->ctx);
        if (r)
            return r;
    }
    size = (size_t)sim_round(size, SIM_ALIGN);
    piece = find_piece(pool, size, stream);
    if (!piece)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (piece->token && piece->token->queue != stream->queue)
        r = wait_for(stream, piece->token);
    if (r == 0) /* an operation of the stream: what comes behind it comes behind all that it waits for */
        r = sim_stream_submit(stream, sim_stream_make_nothing("cuMemAllocAsync"));
    if (r)
        return r;
    take(piece, size);
    *ret_ptr = piece->addr;
    return 0;
}

static int alloc_current(struct CUstream_st *stream, size_t size, CUdeviceptr *ret_ptr)
{
    CUmemoryPool pool;
    pool = sim_poolset_current(stream->ctx->device);
    return alloc(pool, size, stream, ret_ptr);
}

static int alloc_from(
        CUmemoryPool pool, struct CUstream_st *stream, size_t size, CUdeviceptr *ret_ptr)
{
    if (!sim_handle_is(pool, SIM_KIND_POOL))
        return CUDA_ERROR_INVALID_VALUE;
    return alloc(pool, size, stream, ret_ptr);
}

SIM_STREAM_CALL(cuMemAllocAsync, SIM_NEED_CONTEXT,
        (CUdeviceptr * ret_ptr, size_t size, CUstream handle),
        (r = alloc_current(stream, size, ret_ptr),
                sim_note(&call, " size=%zu ptr=0x%llx%s", size, r ? 0 : *ret_ptr,
                        stream->capture ? " captured" : ""),
                sim_gives(&call, r ? 0 : *ret_ptr, size), r))
SIM_STREAM_CALL(cuMemAllocFromPoolAsync, SIM_NEED_CONTEXT,
        (CUdeviceptr * ret_ptr, size_t size, CUmemoryPool pool, CUstream handle),
        (r = alloc_from(pool, stream, size, ret_ptr),
                sim_note(&call, " size=%zu ptr=0x%llx%s", size, r ? 0 : *ret_ptr,
                        stream->capture ? " captured" : ""),
                sim_gives(&call, r ? 0 : *ret_ptr, size), r))

/* ---- free ---- */

struct freeing {
    struct sim_token *token;
    uint64_t addr, size;
};

/* The bytes of a piece go back to the host; whoever gets them next finds zeros. */
static void forget(const struct sim_piece *piece)
{
    sim_va_forget(piece->addr, piece->size);
}

/* What was freed may have been cut and partly given out again on the same stream since. */
static CUresult run_free(struct sim_op *op)
{
    const struct freeing *freeing = (const struct freeing *)op->payload;

    freeing->token->done = true;
    sim_faults_freed();
    for (uint64_t at = freeing->addr; at < freeing->addr + freeing->size;) {
        const struct sim_block *block = sim_ledger_find(at);
        if (!block)
            break;
        struct sim_piece *piece = block->piece;
        at = block->addr + block->size;
        if (!piece || piece->used || piece->token != freeing->token)
            continue;
        forget(piece);
        if (piece->orphan)
            sim_graphmem_close(piece);
    }
    return CUDA_SUCCESS;
}

static void drop_free(struct sim_op *op)
{
    struct freeing *freeing = (struct freeing *)op->payload;

    freeing->token->done = true; /* also when a dead context's work was thrown away */
    sim_pool_token_put(freeing->token);
}

/* The operation that a free is, and its token: one reference each for the operation and the piece. */
static struct sim_op *make_free(const struct sim_piece *piece, struct sim_token **ret_token)
{
    struct sim_op *op = sim_op_new("cuMemFreeAsync", sizeof(struct freeing));
    struct sim_token *token = sim_new(sizeof(*token));

    token->references = 2;
    *(struct freeing *)op->payload = (struct freeing){token, piece->addr, piece->size};
    op->run = run_free;
    op->drop = drop_free;
    op->runs_when_broken = true;
    *ret_token = token;
    return op;
}

/* The operation is the last one on the queue now. */
static void freed_on(struct sim_piece *piece, struct sim_token *token, struct sim_queue *queue)
{
    token->queue = queue;
    token->number = queue->submitted;
    sim_clock_merge(&token->known, &queue->clock);
    sim_pool_token_put(piece->token);
    piece->token = token;
    piece->used = false;
    if (piece->pool)
        piece->pool->used -= piece->size;
    else
        sim_graphmem_unuse(piece);
}

int sim_pool_free_ordered(struct sim_piece *piece, struct CUstream_st *stream)
{
    struct sim_token *token;
    int r = sim_stream_submit(stream, make_free(piece, &token));

    if (r)
        sim_pool_token_put(token);
    else
        freed_on(piece, token, stream->queue);
    return r;
}

void sim_pool_free_on(struct sim_piece *piece, struct sim_queue *queue,
        const struct sim_clock *after, const struct sim_clock *known)
{
    struct sim_token *token;

    sim_queue_submit(queue, make_free(piece, &token), after, known);
    freed_on(piece, token, queue);
}

/* A pointer of another process's pool: unmapped in the order of the stream. */
struct importing {
    uint64_t addr, id;
};

static CUresult run_free_imported(struct sim_op *op)
{
    const struct importing *importing = (const struct importing *)op->payload;
    struct sim_block *block = sim_ledger_find(importing->addr);

    if (block && block->id == importing->id)
        sim_ipc_release(block);
    return CUDA_SUCCESS;
}

static int free_imported(struct CUstream_st *stream, const struct sim_block *block)
{
    struct importing importing = {block->addr, block->id};
    struct sim_op *op = sim_op_new("cuMemFreeAsync", sizeof(importing));

    memcpy(op->payload, &importing, sizeof(importing));
    op->run = run_free_imported;
    op->runs_when_broken = true;
    return sim_stream_submit(stream, op);
}

static int free_async(struct CUstream_st *stream, CUdeviceptr ptr)
{
    struct sim_block *block = stream->capture ? sim_ledger_find(ptr) : sim_ledger_live(ptr);

    if (ptr == 0)
        return 0;
    if (block && block->addr == ptr && block->from_pool && !stream->capture)
        return free_imported(stream, block);
    if (!block || block->addr != ptr || !block->piece)
        return CUDA_ERROR_INVALID_VALUE;
    if (stream->capture)
        return sim_graphmem_has(block->piece) ? sim_graph_capture_free(stream, ptr)
                                              : CUDA_ERROR_INVALID_VALUE;
    return sim_pool_free_ordered(block->piece, stream);
}

SIM_STREAM_CALL(cuMemFreeAsync, SIM_NEED_CONTEXT, (CUdeviceptr ptr, CUstream handle),
        (sim_note(&call, " ptr=0x%llx", ptr), free_async(stream, ptr)))

int sim_pool_free_now(struct sim_piece *piece)
{
    struct CUmemPoolHandle_st *pool = piece->pool;

    piece->used = false;
    sim_faults_freed();
    forget(piece);
    if (pool) {
        pool->used -= piece->size;
        sim_pool_put(pool);
        return 0;
    }
    sim_graphmem_unuse(piece);
    if (piece->orphan)
        sim_graphmem_close(piece);
    return 0;
}
