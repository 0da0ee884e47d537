/* SPDX-License-Identifier: MIT */
/* The backend of sot_exec.h that computes on host memory. */
#include "tests/trainers/kernels_host.h"
#include "tests/trainers/sot_exec.h"

#include <errno.h>
#include <string.h>

struct sot_host {
    const struct sot_graph *graph;
    unsigned char *batch;
    uint64_t *slots;
    bool failed; /* no memory: what follows is skipped */
};

static void host_mark(void *self, int index)
{
    (void)self;
    (void)index;
}

static void host_alloc(void *self, struct sot_tensor *t)
{
    struct sot_host *h = self;

    t->host = h->failed ? NULL : host_tensor_new(t->bytes);
    h->failed |= !t->host;
}

static void host_contiguous_copy(void *self, struct sot_tensor *t)
{
    struct sot_host *h = self;

    host_alloc(self, t);
    if (!h->failed)
        host_copy_strided(t->host, h->batch + t->var->offset, t->bytes / t->var->row_bytes,
                t->var->row_bytes, 2 * t->var->row_bytes);
}

static void host_release(void *self, struct sot_tensor *t)
{
    (void)self;
    host_tensor_free(t->host, t->bytes);
    t->host = NULL;
}

static void host_backend_fill(void *self, struct sot_tensor *t, uint32_t seed)
{
    struct sot_host *h = self;

    if (!h->failed)
        host_fill(t->host, t->bytes, seed);
}

static void host_backend_mix(
        void *self, struct sot_tensor *dst, struct sot_tensor *src, uint64_t bytes)
{
    struct sot_host *h = self;

    if (!h->failed)
        host_mix(dst->host, src->host, bytes);
}

static void host_backend_sum(void *self, int slot, struct sot_tensor *t, uint64_t bytes)
{
    struct sot_host *h = self;

    if (!h->failed)
        host_sum(&h->slots[slot], t->host, bytes);
}

static void host_touch(void *self, int slot, struct sot_tensor *t)
{
    host_backend_sum(self, slot, t, t->bytes);
}

int sot_host_run(const struct sot_graph *graph, const struct sot_form *form, enum sot_takes takes,
        bool touch, uint64_t *ret_slots)
{
    struct sot_host h = {.graph = graph, .slots = ret_slots};
    struct sot_backend b = {
            .self = &h,
            .takes = takes,
            .enter = host_mark,
            .leave = host_mark,
            .contiguous_copy = host_contiguous_copy,
            .alloc_output = host_alloc,
            .alloc_temp = host_alloc,
            .alloc_scratch = host_alloc,
            .release = host_release,
            .fill = host_backend_fill,
            .mix = host_backend_mix,
            .sum = host_backend_sum,
            .touch = touch ? host_touch : NULL,
    };
    int r;

    memset(ret_slots, 0, (size_t)SOT_SLOTS(graph) * sizeof(*ret_slots));
    h.batch = host_tensor_new(graph->batch_bytes);
    if (!h.batch)
        return -ENOMEM;
    host_fill(h.batch, graph->batch_bytes, SOT_BATCH_SEED);
    r = sot_exec_run(graph, form, &b);
    host_tensor_free(h.batch, graph->batch_bytes);
    return h.failed ? -ENOMEM : r;
}
