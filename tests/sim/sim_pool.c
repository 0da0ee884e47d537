/* SPDX-License-Identifier: MIT */
#include "tests/sim/sim_pool.h"

#include "tests/sim/sim_capture.h"
#include "tests/sim/sim_context.h"
#include "tests/sim/sim_device.h"
#include "tests/sim/sim_graph.h"
#include "tests/sim/sim_va.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK_LEAST ((uint64_t)32 << 20)

/* One free on a stream; shared by the pieces that the freed one was cut into. */
struct token {
    unsigned references;
    bool done;
    struct sim_queue *queue;
    uint64_t number;
    struct sim_clock known;
};

struct chunk {
    uint64_t addr, size;
    struct sim_piece *pieces; /* by address */
    struct chunk *next;
};

struct sim_piece {
    struct CUmemPoolHandle_st *pool; /* NULL: a graph's */
    struct chunk *chunk;
    uint64_t addr, size;
    bool used;
    struct token *token; /* of the free; NULL: free since the chunk was made */
    int device;
    bool orphan; /* a graph's whose graph is gone: closed by the free */
    struct sim_block *block;
    struct sim_piece *prev, *next;
};

struct CUmemPoolHandle_st {
    CUmemPoolProps props;
    int device;
    bool destroyed;
    bool reuse[4]; /* by attribute, 1 to 3 */
    uint64_t threshold;
    uint64_t reserved, reserved_high;
    uint64_t used, used_high;
    uint16_t readable, writable; /* one bit per device */
    struct chunk *chunks;
    struct CUmemPoolHandle_st *next;
};

static struct CUmemPoolHandle_st *pools;
static CUmemoryPool default_pools[SIMCUDA_MAX_DEVICES];
static CUmemoryPool current_pools[SIMCUDA_MAX_DEVICES];
static cuuint64_t graph_used[SIMCUDA_MAX_DEVICES], graph_used_high[SIMCUDA_MAX_DEVICES];
static cuuint64_t graph_reserved[SIMCUDA_MAX_DEVICES], graph_reserved_high[SIMCUDA_MAX_DEVICES];

/* ---- what the ledger asks ---- */

static bool is_freed(const struct sim_piece *piece)
{
    return !piece->used && (!piece->token || piece->token->done);
}

bool sim_pool_piece_is_live(const struct sim_piece *piece)
{
    return piece->used;
}

bool sim_pool_piece_may_touch(const struct sim_piece *piece, int device, bool write)
{
    if (is_freed(piece))
        return false;
    if (!piece->pool)
        return piece->device == device || sim_context_is_peer(device, piece->device);
    return ((write ? piece->pool->writable : piece->pool->readable) >> device) & 1;
}

unsigned sim_pool_handle_types(const struct sim_piece *piece)
{
    return piece->pool ? (unsigned)piece->pool->props.handleTypes : 0;
}

CUmemoryPool sim_pool_of(const struct sim_piece *piece)
{
    return piece->pool;
}

/* ---- pieces ---- */

static void token_put(struct token *token)
{
    if (token && --token->references == 0) {
        sim_clock_clear(&token->known);
        free(token);
    }
}

static void piece_register(struct sim_piece *piece)
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
    piece_register(piece);
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
    piece_register(made);
    return made;
}

static void piece_join_next(struct sim_piece *piece)
{
    struct sim_piece *next = piece->next;

    piece->next = next->next;
    if (piece->next)
        piece->next->prev = piece;
    sim_ledger_remove(next->block);
    token_put(next->token);
    piece_resize(piece, piece->size + next->size);
    free(next);
}

/* Free neighbours become one if nothing is left to wait for. */
static void pool_join(struct CUmemPoolHandle_st *pool)
{
    for (struct chunk *chunk = pool->chunks; chunk; chunk = chunk->next)
        for (struct sim_piece *piece = chunk->pieces; piece; piece = piece->next)
            while (piece->next && is_freed(piece) && is_freed(piece->next))
                piece_join_next(piece);
}

static void chunk_close(struct CUmemPoolHandle_st *pool, struct chunk **link)
{
    struct chunk *chunk = *link;

    *link = chunk->next;
    while (chunk->pieces) {
        struct sim_piece *piece = chunk->pieces;
        chunk->pieces = piece->next;
        sim_ledger_remove(piece->block);
        token_put(piece->token);
        free(piece);
    }
    sim_va_drop(chunk->addr, chunk->size);
    sim_va_give(chunk->addr, chunk->size);
    sim_device_drop(pool->device, chunk->size);
    pool->reserved -= chunk->size;
    free(chunk);
}

/* Gives free chunks back until no more than `keep` bytes are reserved. */
static void pool_trim(struct CUmemPoolHandle_st *pool, uint64_t keep)
{
    struct chunk **link = &pool->chunks;

    pool_join(pool);
    while (*link && pool->reserved > keep) {
        struct chunk *chunk = *link;
        if (is_freed(chunk->pieces) && chunk->pieces->size == chunk->size
                && pool->reserved - chunk->size >= keep)
            chunk_close(pool, link);
        else
            link = &chunk->next;
    }
}

static void pool_free_if_empty(struct CUmemPoolHandle_st *pool)
{
    struct CUmemPoolHandle_st **link = &pools;

    if (!pool->destroyed)
        return;
    pool_trim(pool, 0);
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
            pool_free_if_empty(pool);
        else if (pool->reserved > pool->threshold)
            pool_trim(pool, pool->threshold);
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
    const struct token *token = piece->token;

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

    for (struct chunk *chunk = pool->chunks; chunk; chunk = chunk->next)
        for (struct sim_piece *piece = chunk->pieces; piece; piece = piece->next)
            if (piece->size >= size && (!best || piece->size < best->size)
                    && may_reuse(pool, piece, queue, known, how))
                best = piece;
    return best;
}

static struct sim_piece *grow(struct CUmemPoolHandle_st *pool, uint64_t size)
{
    struct chunk *chunk;
    uint64_t bytes = size < CHUNK_LEAST ? CHUNK_LEAST : sim_round(size, SIM_GRANULE);
    uint64_t addr;

    if (pool->props.maxSize && pool->reserved + bytes > pool->props.maxSize)
        return NULL;
    if (sim_device_hold(pool->device, bytes)) {
        bytes = sim_round(size, SIM_GRANULE);
        if (sim_device_hold(pool->device, bytes))
            return NULL;
    }
    addr = sim_va_take(bytes, SIM_GRANULE);
    if (!addr || sim_va_back(addr, bytes)) {
        sim_device_drop(pool->device, bytes);
        return NULL;
    }
    chunk = sim_new(sizeof(*chunk));
    *chunk = (struct chunk){.addr = addr, .size = bytes, .next = pool->chunks};
    pool->chunks = chunk;
    chunk->pieces = sim_new(sizeof(*chunk->pieces));
    *chunk->pieces = (struct sim_piece){
            .pool = pool, .chunk = chunk, .addr = addr, .size = bytes, .device = pool->device};
    piece_register(chunk->pieces);
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
static int wait_for(struct CUstream_st *stream, const struct token *token)
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
    token_put(piece->token);
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
            if (other->device == pool->device)
                pool_trim(other, 0);
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

    if (!ret_ptr || size == 0 || size > (size_t)1 << 44)
        return CUDA_ERROR_INVALID_VALUE;
    if (stream->capture)
        return sim_graph_capture_alloc(stream, pool->device, size, ret_ptr);
    size = (size_t)sim_round(size, SIM_ALIGN);
    piece = find_piece(pool, size, stream);
    if (!piece)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (piece->token && piece->token->queue != stream->queue)
        r = wait_for(stream, piece->token);
    if (r)
        return r;
    take(piece, size);
    *ret_ptr = piece->addr;
    return 0;
}

static int current_pool(int device, CUmemoryPool *ret_pool);

static int alloc_current(struct CUstream_st *stream, size_t size, CUdeviceptr *ret_ptr)
{
    CUmemoryPool pool;
    int r = current_pool(stream->ctx->device, &pool);

    return r ? r : alloc(pool, size, stream, ret_ptr);
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
                sim_note(&call, " size=%zu ptr=0x%llx", size, r ? 0 : *ret_ptr), r))
SIM_STREAM_CALL(cuMemAllocFromPoolAsync, SIM_NEED_CONTEXT,
        (CUdeviceptr * ret_ptr, size_t size, CUmemoryPool pool, CUstream handle),
        (r = alloc_from(pool, stream, size, ret_ptr),
                sim_note(&call, " size=%zu ptr=0x%llx", size, r ? 0 : *ret_ptr), r))

/* ---- free ---- */

struct freeing {
    struct token *token;
    uint64_t addr, size;
};

/* The bytes of a piece go back to the host; whoever gets them next finds zeros. */
static void forget(const struct sim_piece *piece)
{
    sim_va_forget(piece->addr, piece->size);
}

static void graph_close(struct sim_piece *piece)
{
    uint64_t bytes = sim_round(piece->size, SIM_GRANULE);

    sim_va_drop(piece->addr, bytes);
    sim_va_give(piece->addr, bytes);
    sim_device_drop(piece->device, bytes);
    graph_reserved[piece->device] -= bytes;
    sim_ledger_remove(piece->block);
    token_put(piece->token);
    free(piece);
}

/* What was freed may have been cut and partly given out again on the same stream since. */
static CUresult run_free(struct sim_op *op)
{
    const struct freeing *freeing = (const struct freeing *)op->payload;

    freeing->token->done = true;
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
            graph_close(piece);
    }
    return CUDA_SUCCESS;
}

static void drop_free(struct sim_op *op)
{
    struct freeing *freeing = (struct freeing *)op->payload;

    freeing->token->done = true; /* also when a dead context's work was thrown away */
    token_put(freeing->token);
}

int sim_pool_free_ordered(struct sim_piece *piece, struct CUstream_st *stream)
{
    struct token *token = sim_new(sizeof(*token));
    struct CUmemPoolHandle_st *pool = piece->pool;
    struct sim_op *op = sim_op_new("cuMemFreeAsync", sizeof(struct freeing));
    int r;

    token->references = 2; /* the operation's and the piece's */
    *(struct freeing *)op->payload = (struct freeing){token, piece->addr, piece->size};
    op->run = run_free;
    op->drop = drop_free;
    op->runs_when_broken = true;
    r = sim_stream_submit(stream, op);
    if (r) {
        token_put(token);
        return r;
    }
    token->queue = stream->queue;
    token->number = stream->queue->submitted;
    sim_clock_merge(&token->known, &stream->queue->clock);
    token_put(piece->token);
    piece->token = token;
    piece->used = false;
    if (pool)
        pool->used -= piece->size;
    else
        graph_used[piece->device] -= piece->size;
    return 0;
}

static int free_async(struct CUstream_st *stream, CUdeviceptr ptr)
{
    struct sim_block *block = stream->capture ? sim_ledger_find(ptr) : sim_ledger_live(ptr);

    if (ptr == 0)
        return 0;
    if (!block || block->addr != ptr || !block->piece)
        return CUDA_ERROR_INVALID_VALUE;
    if (stream->capture)
        return sim_pool_is_graph(block->piece) ? sim_graph_capture_free(stream, ptr)
                                               : CUDA_ERROR_INVALID_VALUE;
    return sim_pool_free_ordered(block->piece, stream);
}

SIM_STREAM_CALL(cuMemFreeAsync, SIM_NEED_CONTEXT, (CUdeviceptr ptr, CUstream handle),
        (sim_note(&call, " ptr=0x%llx", ptr), free_async(stream, ptr)))

int sim_pool_free_now(struct sim_piece *piece)
{
    struct CUmemPoolHandle_st *pool = piece->pool;

    piece->used = false;
    forget(piece);
    if (pool) {
        pool->used -= piece->size;
        pool_free_if_empty(pool);
        return 0;
    }
    graph_used[piece->device] -= piece->size;
    if (piece->orphan)
        graph_close(piece);
    return 0;
}

/* ---- memory of graphs ---- */

int sim_pool_graph_open(int device, uint64_t size, struct sim_piece **ret_piece, uint64_t *ret_addr)
{
    uint64_t bytes = sim_round(size, SIM_GRANULE);
    struct sim_piece *piece;
    uint64_t addr;
    int r = sim_device_hold(device, bytes);

    if (r)
        return r;
    addr = sim_va_take(bytes, SIM_GRANULE);
    if (!addr || sim_va_back(addr, bytes)) {
        sim_device_drop(device, bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    piece = sim_new(sizeof(*piece));
    piece->addr = addr;
    piece->size = size;
    piece->device = device;
    piece_register(piece);
    graph_reserved[device] += bytes;
    if (graph_reserved_high[device] < graph_reserved[device])
        graph_reserved_high[device] = graph_reserved[device];
    *ret_piece = piece;
    *ret_addr = addr;
    return 0;
}

void sim_pool_graph_use(struct sim_piece *piece)
{
    token_put(piece->token);
    piece->token = NULL;
    if (piece->used)
        return;
    piece->used = true;
    graph_used[piece->device] += piece->size;
    if (graph_used_high[piece->device] < graph_used[piece->device])
        graph_used_high[piece->device] = graph_used[piece->device];
}

bool sim_pool_is_graph(const struct sim_piece *piece)
{
    return !piece->pool;
}

void sim_pool_graph_orphan(struct sim_piece *piece)
{
    piece->orphan = true;
    if (is_freed(piece))
        graph_close(piece);
}

static int graph_attribute(CUdevice device, CUgraphMem_attribute which, cuuint64_t **ret_figure)
{
    cuuint64_t *const figures[] = {
            [CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT] = graph_used,
            [CU_GRAPH_MEM_ATTR_USED_MEM_HIGH] = graph_used_high,
            [CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT] = graph_reserved,
            [CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH] = graph_reserved_high,
    };

    if (device < 0 || device >= sim_config.devices)
        return CUDA_ERROR_INVALID_DEVICE;
    if ((size_t)which >= sizeof(figures) / sizeof(figures[0]))
        return CUDA_ERROR_INVALID_VALUE;
    *ret_figure = &figures[which][device];
    return 0;
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute which, void *ret_value)
{
    struct sim_call call;
    cuuint64_t *figure;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = ret_value ? graph_attribute(device, which, &figure) : CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        memcpy(ret_value, figure, sizeof(*figure));
    return sim_leave(&call, r);
}

CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute which, void *value)
{
    struct sim_call call;
    cuuint64_t *figure, wanted;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = value ? graph_attribute(device, which, &figure) : CUDA_ERROR_INVALID_VALUE;
    if (r == 0) {
        memcpy(&wanted, value, sizeof(wanted));
        if (wanted || which == CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT
                || which == CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT)
            r = CUDA_ERROR_INVALID_VALUE; /* high marks are set back, nothing else */
        else
            *figure = which == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH ? graph_used[device]
                                                               : graph_reserved[device];
    }
    return sim_leave(&call, r);
}

/* Memory of living graphs keeps its pages, so there is nothing to trim; the device must exist. */
CUresult cuDeviceGraphMemTrim(CUdevice device)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0 && (device < 0 || device >= sim_config.devices))
        r = CUDA_ERROR_INVALID_DEVICE;
    return sim_leave(&call, r);
}

/* ---- pools as objects ---- */

static struct CUmemPoolHandle_st *pool_open(int device, const CUmemPoolProps *props)
{
    struct CUmemPoolHandle_st *pool = sim_new(sizeof(*pool));

    pool->props = *props;
    pool->device = device;
    for (int i = 1; i < 4; i++)
        pool->reuse[i] = true;
    pool->readable = pool->writable = (uint16_t)(1U << device);
    pool->next = pools;
    pools = pool;
    sim_handle_add(pool, SIM_KIND_POOL);
    return pool;
}

static CUmemoryPool default_pool(int device)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
            .location = {CU_MEM_LOCATION_TYPE_DEVICE, device}};

    if (!default_pools[device])
        default_pools[device] = pool_open(device, &props);
    return default_pools[device];
}

static int current_pool(int device, CUmemoryPool *ret_pool)
{
    if (!sim_handle_is(current_pools[device], SIM_KIND_POOL))
        current_pools[device] = default_pool(device);
    *ret_pool = current_pools[device];
    return 0;
}

static int create(CUmemoryPool *ret_pool, const CUmemPoolProps *props)
{
    if (!ret_pool || !props || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (props->location.type != CU_MEM_LOCATION_TYPE_DEVICE
            || props->handleTypes != CU_MEM_HANDLE_TYPE_NONE)
        return CUDA_ERROR_NOT_SUPPORTED; /* host pools and pools of several processes */
    if (props->location.id < 0 || props->location.id >= sim_config.devices)
        return CUDA_ERROR_INVALID_DEVICE;
    *ret_pool = pool_open(props->location.id, props);
    return 0;
}

CUresult cuMemPoolCreate(CUmemoryPool *ret_pool, const CUmemPoolProps *props)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = create(ret_pool, props);
    return sim_leave(&call, r);
}

/* Blocks that are still used keep the pool's memory until they are freed. */
static int destroy(CUmemoryPool pool)
{
    if (!sim_handle_is(pool, SIM_KIND_POOL))
        return CUDA_ERROR_INVALID_VALUE;
    for (int i = 0; i < sim_config.devices; i++)
        if (default_pools[i] == pool)
            return CUDA_ERROR_INVALID_VALUE;
    for (int i = 0; i < sim_config.devices; i++)
        if (current_pools[i] == pool)
            current_pools[i] = NULL; /* the default pool is current again */
    sim_handle_remove(pool);
    pool->destroyed = true;
    pool_free_if_empty(pool);
    return 0;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = destroy(pool);
    return sim_leave(&call, r);
}

static int usable(CUmemoryPool pool)
{
    return sim_handle_is(pool, SIM_KIND_POOL) ? 0 : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = usable(pool);
    if (r == 0)
        pool_trim(pool, keep);
    return sim_leave(&call, r);
}

static int set_attribute(CUmemoryPool pool, CUmemPool_attribute which, const void *value)
{
    int flag;
    cuuint64_t number;

    switch (which) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        memcpy(&flag, value, sizeof(flag));
        pool->reuse[which] = flag != 0;
        return 0;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        memcpy(&number, value, sizeof(number));
        pool->threshold = number;
        return 0;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        memcpy(&number, value, sizeof(number));
        if (number)
            return CUDA_ERROR_INVALID_VALUE;
        if (which == CU_MEMPOOL_ATTR_USED_MEM_HIGH)
            pool->used_high = pool->used;
        else
            pool->reserved_high = pool->reserved;
        return 0;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute which, void *value)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = value ? usable(pool) : CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        r = set_attribute(pool, which, value);
    return sim_leave(&call, r);
}

static int get_attribute(
        const struct CUmemPoolHandle_st *pool, CUmemPool_attribute which, void *out)
{
    const cuuint64_t numbers[] = {
            [CU_MEMPOOL_ATTR_RELEASE_THRESHOLD] = pool->threshold,
            [CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT] = pool->reserved,
            [CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH] = pool->reserved_high,
            [CU_MEMPOOL_ATTR_USED_MEM_CURRENT] = pool->used,
            [CU_MEMPOOL_ATTR_USED_MEM_HIGH] = pool->used_high,
    };

    if ((int)which < 1 || (size_t)which >= sizeof(numbers) / sizeof(numbers[0]))
        return CUDA_ERROR_INVALID_VALUE;
    if (which < CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) {
        int flag = pool->reuse[which];
        memcpy(out, &flag, sizeof(flag));
    } else {
        memcpy(out, &numbers[which], sizeof(numbers[which]));
    }
    return 0;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute which, void *ret_value)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = ret_value ? usable(pool) : CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        r = get_attribute(pool, which, ret_value);
    return sim_leave(&call, r);
}

static int set_access(CUmemoryPool pool, const CUmemAccessDesc *desc, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int device = desc[i].location.id;
        if (desc[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE)
            return CUDA_ERROR_NOT_SUPPORTED;
        if (device < 0 || device >= sim_config.devices)
            return CUDA_ERROR_INVALID_DEVICE;
        if (device == pool->device && desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
            return CUDA_ERROR_INVALID_VALUE;
    }
    for (size_t i = 0; i < count; i++) {
        unsigned bit = 1U << desc[i].location.id;
        bool read = desc[i].flags & CU_MEM_ACCESS_FLAGS_PROT_READ;
        bool write = desc[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        pool->readable = (uint16_t)(read ? pool->readable | bit : pool->readable & ~bit);
        pool->writable = (uint16_t)(write ? pool->writable | bit : pool->writable & ~bit);
    }
    return 0;
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *desc, size_t count)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = desc && count ? usable(pool) : CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        r = set_access(pool, desc, count);
    return sim_leave(&call, r);
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags *ret_flags, CUmemoryPool pool, CUmemLocation *where)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = ret_flags && where ? usable(pool) : CUDA_ERROR_INVALID_VALUE;
    if (r == 0
            && (where->type != CU_MEM_LOCATION_TYPE_DEVICE || where->id < 0
                    || where->id >= sim_config.devices))
        r = CUDA_ERROR_INVALID_DEVICE;
    if (r == 0)
        *ret_flags = (pool->writable >> where->id) & 1 ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                : (pool->readable >> where->id) & 1    ? CU_MEM_ACCESS_FLAGS_PROT_READ
                                                       : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return sim_leave(&call, r);
}

static int valid(CUdevice device)
{
    return device >= 0 && device < sim_config.devices ? 0 : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *ret_pool, CUdevice device)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = ret_pool ? valid(device) : CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        *ret_pool = default_pool(device);
    return sim_leave(&call, r);
}

CUresult cuDeviceGetMemPool(CUmemoryPool *ret_pool, CUdevice device)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = ret_pool ? valid(device) : CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        r = current_pool(device, ret_pool);
    return sim_leave(&call, r);
}

static int set_current(CUdevice device, CUmemoryPool pool)
{
    int r = valid(device);

    if (r == 0)
        r = usable(pool);
    if (r == 0 && pool->device != device)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        current_pools[device] = pool;
    return r;
}

CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = set_current(device, pool);
    return sim_leave(&call, r);
}

/* The forms of 13.0 name a location instead of a device; there are device pools only. */
static int located(const CUmemLocation *where, CUmemAllocationType type)
{
    if (!where || type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (where->type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_NOT_SUPPORTED;
    return valid(where->id);
}

CUresult cuMemGetDefaultMemPool(
        CUmemoryPool *ret_pool, CUmemLocation *where, CUmemAllocationType type)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = ret_pool ? located(where, type) : CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        *ret_pool = default_pool(where->id);
    return sim_leave(&call, r);
}

CUresult cuMemGetMemPool(CUmemoryPool *ret_pool, CUmemLocation *where, CUmemAllocationType type)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = ret_pool ? located(where, type) : CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        r = current_pool(where->id, ret_pool);
    return sim_leave(&call, r);
}

CUresult cuMemSetMemPool(CUmemLocation *where, CUmemAllocationType type, CUmemoryPool pool)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = located(where, type);
    if (r == 0)
        r = set_current(where->id, pool);
    return sim_leave(&call, r);
}

/* Pools of several processes are not made here, so there is none to export or import. */
CUresult cuMemPoolExportToShareableHandle(void *ret_handle, CUmemoryPool pool,
        CUmemAllocationHandleType type, unsigned long long flags)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    (void)type;
    (void)flags;
    if (r == 0)
        r = ret_handle ? usable(pool) : CUDA_ERROR_INVALID_VALUE;
    return sim_leave(&call, r ? r : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *ret_pool, void *os_handle,
        CUmemAllocationHandleType type, unsigned long long flags)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    (void)os_handle;
    (void)type;
    (void)flags;
    if (r == 0 && !ret_pool)
        r = CUDA_ERROR_INVALID_VALUE;
    return sim_leave(&call, r ? r : CUDA_ERROR_NOT_SUPPORTED);
}

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *ret_data, CUdeviceptr ptr)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0 && (!ret_data || !sim_ledger_live(ptr)))
        r = CUDA_ERROR_INVALID_VALUE;
    return sim_leave(&call, r ? r : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuMemPoolImportPointer(
        CUdeviceptr *ret_ptr, CUmemoryPool pool, CUmemPoolPtrExportData *data)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = ret_ptr && data ? usable(pool) : CUDA_ERROR_INVALID_VALUE;
    return sim_leave(&call, r ? r : CUDA_ERROR_INVALID_VALUE);
}
