/* SPDX-License-Identifier: MIT */
/*
 * libcudnn: recurrent networks.
 *
 * The weights lie as NVIDIA's reference of cudnnGetRNNWeightParams tells: the matrices of all layers, and
 * behind them the biases. It gives no formula for the sizes that cudnnGetRNNTempSpaceSizes returns. Those
 * here fit what cuDNN was seen to return for four layers of 320 over 123 inputs in pytorch#2895 (P100): a
 * reserve of 736000000 (LSTM) and 864000000 (GRU), a workspace of 17730560 and 13169920. With 25000
 * steps times sequences the reserve of a step is, of a layer, five times (LSTM: gates and cell) or six
 * times (GRU) the hidden state, and the outputs between layers; with 50 sequences the workspace is the
 * matrices, and 22 or 16 times the hidden state of a step for each layer. That issue tells the sizes, not
 * the 50. Of one gate (RNN) and of a mask for dropout between layers nothing is published: taken alike.
 */
#include "libcudnn.h"

#include <stdlib.h>

CREATE(cudnnCreateRNNDescriptor)
DESTROY(cudnnDestroyRNNDescriptor)
CREATE(cudnnCreateRNNDataDescriptor)
DESTROY(cudnnDestroyRNNDataDescriptor)

enum {
    LSTM = 2,
    GRU = 3
};
enum {
    PACKED = 1 /* cudnnRNNDataLayout_t */
};

BODY(cudnnSetRNNDescriptor_v8, struct descriptor *d, int algorithm, int cell, int bias,
        int direction, int input_mode, int type, int precision, int math, int32_t input,
        int32_t hidden, int32_t projection, int32_t layers, const struct descriptor *dropout,
        uint32_t flags)
{
    *d = (struct descriptor){.type = type,
            .sizes = {cell,
                    bias == 0           ? 0
                            : bias == 2 ? 2
                                        : 1,
                    direction ? 2 : 1, input, hidden, projection, layers,
                    dropout && dropout->count}};
    return SUCCESS;
}

BODY(cudnnSetRNNDataDescriptor, struct descriptor *d, int type, int layout, int steps, int batch,
        int vector, const int *lengths, void *fill)
{
    int vectors = steps * batch;

    if (layout == PACKED) {
        vectors = 0;
        for (int i = 0; i < batch; i++)
            vectors += lengths[i];
    }
    *d = (struct descriptor){.type = type, .sizes = {steps, batch, vector, vectors}};
    return SUCCESS;
}

uint64_t dnn_bytes_of_data(const struct descriptor *x)
{
    return (uint64_t)x->sizes[VECTORS] * (uint64_t)x->sizes[VECTOR] * dnn_bytes_of_type(x->type);
}

/* ---- weights ---- */

static size_t gates(const struct descriptor *r)
{
    return r->sizes[CELL] == LSTM ? 4 : r->sizes[CELL] == GRU ? 3 : 1;
}

static size_t hidden(const struct descriptor *r)
{
    return (size_t)r->sizes[HIDDEN];
}

static bool has_projection(const struct descriptor *r)
{
    return r->sizes[PROJECTION] > 0 && r->sizes[PROJECTION] != r->sizes[HIDDEN];
}

/* What a step hands to the next one, and to the layer above. */
static size_t out(const struct descriptor *r)
{
    return has_projection(r) ? (size_t)r->sizes[PROJECTION] : hidden(r);
}

static size_t in(const struct descriptor *r, size_t pseudo)
{
    size_t directions = (size_t)r->sizes[DIRECTIONS];

    return pseudo < directions ? (size_t)r->sizes[INPUT] : out(r) * directions;
}

static size_t pseudo_layers(const struct descriptor *r)
{
    return (size_t)(r->sizes[LAYERS] * r->sizes[DIRECTIONS]);
}

/* Elements of the matrices below a layer. */
static size_t matrices(const struct descriptor *r, size_t below)
{
    size_t all = 0;

    for (size_t p = 0; p < below; p++)
        all += gates(r) * hidden(r) * (in(r, p) + out(r))
                + (has_projection(r) ? out(r) * hidden(r) : 0);
    return all;
}

BODY(cudnnGetRNNWeightSpaceSize, struct handle *h, const struct descriptor *r, size_t *ret_bytes)
{
    size_t all = pseudo_layers(r);

    *ret_bytes = (matrices(r, all) + all * gates(r) * hidden(r) * (size_t)r->sizes[BIASES])
            * dnn_bytes_of_type(r->type);
    return SUCCESS;
}

BODY(cudnnGetRNNWeightParams, struct handle *h, const struct descriptor *r, int32_t pseudo,
        size_t bytes, const void *space, int32_t linear, struct descriptor *m, void **ret_m,
        struct descriptor *b, void **ret_b)
{
    size_t element = dnn_bytes_of_type(r->type), layer = (size_t)pseudo, id = (size_t)linear;
    size_t n = gates(r), from_below = n * hidden(r) * in(r, layer), columns = in(r, layer);
    size_t rows = hidden(r), at = matrices(r, layer);
    char *start = (char *)(uintptr_t)space;

    if (id == 2 * n) { /* the projection */
        rows = out(r);
        columns = hidden(r);
        at += from_below + n * hidden(r) * out(r);
    } else if (id >= n) {
        columns = out(r);
        at += from_below + (id - n) * hidden(r) * out(r);
    } else {
        at += id * hidden(r) * columns;
    }
    if (m && ret_m) {
        *ret_m = start + at * element;
        (void)dnn_set_packed(m, r->type, 3, (int[]){1, (int)rows, (int)columns});
    }
    at = matrices(r, pseudo_layers(r)) + (layer * (size_t)r->sizes[BIASES] * n + id) * hidden(r);
    if (b && ret_b) {
        *ret_b = id < (size_t)r->sizes[BIASES] * n ? start + at * element : NULL;
        (void)dnn_set_packed(b, r->type, 3, (int[]){1, (int)hidden(r), 1});
    }
    return SUCCESS;
}

/* ---- sizes ---- */

BODY(cudnnGetRNNTempSpaceSizes, struct handle *h, const struct descriptor *r, int training,
        const struct descriptor *x, size_t *ret_work, size_t *ret_reserve)
{
    size_t layers = (size_t)r->sizes[LAYERS], width = hidden(r) * (size_t)r->sizes[DIRECTIONS];
    size_t kept = r->sizes[CELL] == LSTM ? 5 : r->sizes[CELL] == GRU ? 6 : 1;
    size_t element = dnn_bytes_of_type(r->type);
    size_t between = (layers - 1) * (r->sizes[MASKED] ? 2 : 1);

    *ret_work = (matrices(r, pseudo_layers(r))
                        + layers * width * (size_t)x->sizes[SEQUENCES] * (6 * gates(r) - 2))
            * element;
    if (ret_reserve)
        *ret_reserve = training
                ? (size_t)x->sizes[VECTORS] * width * (layers * kept + between) * element
                : 0;
    return SUCCESS;
}

/* ---- passes ---- */

static int status(int error)
{
    return error ? EXECUTION_FAILED : SUCCESS;
}

struct operand dnn_state(const void *at, const struct descriptor *d)
{
    return (struct operand){at, at ? dnn_extent(d) : 0};
}

BODY(cudnnRNNForward, struct handle *h, const struct descriptor *r, int training,
        const int32_t *lengths, const struct descriptor *x, const void *px,
        const struct descriptor *y, void *py, const struct descriptor *dh, const void *hx, void *hy,
        const struct descriptor *dc, const void *cx, void *cy, size_t weight_bytes,
        const void *weights, size_t work_bytes, void *work, size_t reserve_bytes, void *reserve)
{
    struct operand reads[] = {{px, dnn_bytes_of_data(x)}, {weights, weight_bytes},
            dnn_state(hx, dh), dnn_state(cx, dc)};
    struct operand outs[] = {{work, work_bytes}, {reserve, reserve_bytes},
            {py, dnn_bytes_of_data(y)}, dnn_state(hy, dh), dnn_state(cy, dc)};

    return status(standin_write(h->stream, "cudnnRNNForward", outs, 5, reads, 4));
}

BODY(cudnnRNNBackwardData_v8, struct handle *h, const struct descriptor *r, const int32_t *lengths,
        const struct descriptor *y, const void *py, const void *dy, const struct descriptor *x,
        void *dx, const struct descriptor *dh, const void *hx, const void *dhy, void *dhx,
        const struct descriptor *dc, const void *cx, const void *dcy, void *dcx,
        size_t weight_bytes, const void *weights, size_t work_bytes, void *work,
        size_t reserve_bytes, void *reserve)
{
    struct operand reads[] = {{py, dnn_bytes_of_data(y)}, {dy, dnn_bytes_of_data(y)},
            {weights, weight_bytes}, {reserve, reserve_bytes}, dnn_state(hx, dh),
            dnn_state(dhy, dh), dnn_state(cx, dc), dnn_state(dcy, dc)};
    struct operand outs[] = {{work, work_bytes}, {dx, dnn_bytes_of_data(x)}, dnn_state(dhx, dh),
            dnn_state(dcx, dc), {reserve, reserve_bytes}};

    return status(standin_write(h->stream, "cudnnRNNBackwardData", outs, 5, reads, 8));
}

BODY(cudnnRNNBackwardWeights_v8, struct handle *h, const struct descriptor *r, int adds,
        const int32_t *lengths, const struct descriptor *x, const void *px,
        const struct descriptor *dh, const void *hx, const struct descriptor *y, const void *py,
        size_t weight_bytes, void *dw, size_t work_bytes, void *work, size_t reserve_bytes,
        void *reserve)
{
    struct operand reads[] = {{px, dnn_bytes_of_data(x)}, {py, dnn_bytes_of_data(y)},
            {reserve, reserve_bytes}, dnn_state(hx, dh), {dw, weight_bytes}};
    struct operand outs[] = {{work, work_bytes}, {dw, weight_bytes}};

    return status(standin_write(h->stream, "cudnnRNNBackwardWeights", outs, 2, reads, 5));
}

/* ---- dropout between layers ---- */

/* A generator of 48 bytes (cuRAND's XORWOW) for each of the 2048 threads of 20 multiprocessors: an assumption. */
enum {
    STATE_BYTES = 48 * 2048 * 20
};

BODY(cudnnDropoutGetStatesSize, struct handle *h, size_t *ret_bytes)
{
    *ret_bytes = STATE_BYTES;
    return SUCCESS;
}

static int set_dropout(struct descriptor *d, float rate)
{
    d->count = rate > 0;
    return SUCCESS;
}

BODY(cudnnSetDropoutDescriptor, struct descriptor *d, struct handle *h, float rate, void *states,
        size_t bytes, unsigned long long seed)
{
    int error = standin_compute(h->stream, standin_seed("dropout", (int64_t[]){(int64_t)seed}, 1),
            states, bytes, false, NULL, 0);

    return error ? EXECUTION_FAILED : set_dropout(d, rate);
}

BODY(cudnnRestoreDropoutDescriptor, struct descriptor *d, struct handle *h, float rate,
        void *states, size_t bytes, unsigned long long seed)
{
    return set_dropout(d, rate);
}

BODY(cudnnGetTensorNdDescriptor, const struct descriptor *d, int most, int *ret_type,
        int *ret_count, int *ret_sizes, int *ret_strides)
{
    *ret_type = d->type;
    *ret_count = d->count;
    for (int i = 0; i < d->count && i < most; i++) {
        ret_sizes[i] = d->sizes[i];
        ret_strides[i] = d->strides[i];
    }
    return SUCCESS;
}

BODY(cudnnGetFilterNdDescriptor, const struct descriptor *d, int most, int *ret_type,
        int *ret_format, int *ret_count, int *ret_sizes)
{
    *ret_type = d->type;
    *ret_format = d->format;
    *ret_count = d->count;
    for (int i = 0; i < d->count && i < most; i++)
        ret_sizes[i] = d->sizes[i];
    return SUCCESS;
}
