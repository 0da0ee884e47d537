/* SPDX-License-Identifier: MIT */
#include "tests/sim/graph/sim_graphmem.h"

#include "tests/sim/driver/sim_device.h"
#include "tests/sim/memory/sim_pool_parts.h"
#include "tests/sim/memory/sim_va.h"

#include <stdlib.h>
#include <string.h>

static cuuint64_t graph_used[SIMCUDA_MAX_DEVICES], graph_used_high[SIMCUDA_MAX_DEVICES];
static cuuint64_t graph_reserved[SIMCUDA_MAX_DEVICES], graph_reserved_high[SIMCUDA_MAX_DEVICES];

static struct sim_piece *pieces; /* of all graphs */

static void take_back(struct sim_piece *piece)
{
    uint64_t bytes = sim_round(piece->size, SIM_GRANULE);

    if (!piece->backed)
        return;
    piece->backed = false;
    sim_va_drop(piece->addr, bytes);
    sim_device_drop(piece->device, bytes);
    graph_reserved[piece->device] -= bytes;
}

void sim_graphmem_close(struct sim_piece *piece)
{
    take_back(piece);
    sim_va_give(piece->addr, sim_round(piece->size, SIM_GRANULE));
    if (piece->prev)
        piece->prev->next = piece->next;
    else
        pieces = piece->next;
    if (piece->next)
        piece->next->prev = piece->prev;
    sim_ledger_remove(piece->block);
    sim_pool_token_put(piece->token);
    free(piece);
}

void sim_graphmem_unuse(const struct sim_piece *piece)
{
    graph_used[piece->device] -= piece->size;
}

int sim_graphmem_open(int device, uint64_t size, struct sim_piece **ret_piece, uint64_t *ret_addr)
{
    uint64_t addr = sim_va_take(sim_round(size, SIM_GRANULE), SIM_GRANULE);
    struct sim_piece *piece;

    if (!addr)
        return CUDA_ERROR_OUT_OF_MEMORY;
    piece = sim_new(sizeof(*piece));
    piece->addr = addr;
    piece->size = size;
    piece->device = device;
    piece->next = pieces;
    if (pieces)
        pieces->prev = piece;
    pieces = piece;
    sim_pool_register(piece);
    *ret_piece = piece;
    *ret_addr = addr;
    return 0;
}

int sim_graphmem_back(struct sim_piece *piece)
{
    uint64_t bytes = sim_round(piece->size, SIM_GRANULE);
    int device = piece->device;
    int r = piece->backed ? 0 : sim_device_hold(device, bytes);

    if (r || piece->backed)
        return r;
    if (sim_va_back(piece->addr, bytes)) {
        sim_device_drop(device, bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    piece->backed = true;
    graph_reserved[device] += bytes;
    if (graph_reserved_high[device] < graph_reserved[device])
        graph_reserved_high[device] = graph_reserved[device];
    return 0;
}

void sim_graphmem_use(struct sim_piece *piece)
{
    sim_pool_token_put(piece->token);
    piece->token = NULL;
    if (piece->used)
        return;
    piece->used = true;
    graph_used[piece->device] += piece->size;
    if (graph_used_high[piece->device] < graph_used[piece->device])
        graph_used_high[piece->device] = graph_used[piece->device];
}

bool sim_graphmem_has(const struct sim_piece *piece)
{
    return !piece->pool;
}

void sim_graphmem_orphan(struct sim_piece *piece)
{
    piece->orphan = true;
    if (sim_pool_is_freed(piece))
        sim_graphmem_close(piece);
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

/* What no launch uses now gets its bytes again at the next one. */
static void trim(CUdevice device)
{
    for (struct sim_piece *piece = pieces; piece; piece = piece->next)
        if (piece->device == device && sim_pool_is_freed(piece))
            take_back(piece);
}

CUresult cuDeviceGraphMemTrim(CUdevice device)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0 && (device < 0 || device >= sim_config.devices))
        r = CUDA_ERROR_INVALID_DEVICE;
    if (r == 0)
        trim(device);
    return sim_leave(&call, r);
}
