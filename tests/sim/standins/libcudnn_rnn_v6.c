/* SPDX-License-Identifier: MIT */
/*
 * libcudnn: recurrent networks by the functions that cuDNN 9 has no more. The input's size is in the
 * descriptors of data, of which those that are not extended get one for each step. Sizes and layouts
 * are taken to be those of the newer functions: pytorch#2895 has its sizes from these.
 */
#include "libcudnn.h"

#if STANDIN_MAJOR < 9

typedef struct descriptor *const *steps_of;

int cudnnSetRNNDescriptor_v8(struct descriptor *d, int algorithm, int cell, int bias, int direction,
        int input_mode, int type, int precision, int math, int32_t input, int32_t hidden,
        int32_t projection, int32_t layers, const struct descriptor *dropout, uint32_t flags);
int cudnnGetRNNWeightSpaceSize(struct handle *h, const struct descriptor *r, size_t *ret_bytes);
int cudnnGetRNNTempSpaceSizes(struct handle *h, const struct descriptor *r, int training,
        const struct descriptor *x, size_t *ret_work, size_t *ret_reserve);

enum {
    TRAINING = 1,    /* cudnnForwardMode_t */
    DOUBLE_BIAS = 2, /* cudnnRNNBiasMode_t */
};

BODY(cudnnSetRNNDescriptor_v6, struct handle *h, struct descriptor *d, int hidden, int layers,
        const struct descriptor *dropout, int input_mode, int direction, int cell, int algorithm,
        int type)
{
    return cudnnSetRNNDescriptor_v8(d, algorithm, cell, DOUBLE_BIAS, direction, input_mode, type,
            type, 0, 0, hidden, hidden, layers, dropout, 0);
}

NOTHING(cudnnSetRNNPaddingMode)

/* ---- sizes ---- */

static struct descriptor with_input(const struct descriptor *r, const struct descriptor *x)
{
    struct descriptor d = *r;

    d.sizes[INPUT] = x->sizes[1];
    return d;
}

static struct descriptor data_of(int count, steps_of x)
{
    struct descriptor d = {.type = x[0]->type, .sizes = {count, x[0]->sizes[0], x[0]->sizes[1], 0}};

    for (int i = 0; i < count; i++)
        d.sizes[VECTORS] += x[i]->sizes[0];
    return d;
}

BODY(cudnnGetRNNParamsSize, struct handle *h, const struct descriptor *r,
        const struct descriptor *x, size_t *ret_bytes, int type)
{
    struct descriptor d = with_input(r, x);

    return cudnnGetRNNWeightSpaceSize(h, &d, ret_bytes);
}

BODY(cudnnGetRNNWorkspaceSize, struct handle *h, const struct descriptor *r, int count, steps_of x,
        size_t *ret_bytes)
{
    struct descriptor d = with_input(r, x[0]), data = data_of(count, x);

    return cudnnGetRNNTempSpaceSizes(h, &d, TRAINING, &data, ret_bytes, NULL);
}

BODY(cudnnGetRNNTrainingReserveSize, struct handle *h, const struct descriptor *r, int count,
        steps_of x, size_t *ret_bytes)
{
    struct descriptor d = with_input(r, x[0]), data = data_of(count, x);
    size_t work;

    return cudnnGetRNNTempSpaceSizes(h, &d, TRAINING, &data, &work, ret_bytes);
}

/* ---- passes ---- */

BODY(cudnnRNNForwardTrainingEx, struct handle *h, const struct descriptor *r,
        const struct descriptor *x, const void *px, const struct descriptor *dhx, const void *hx,
        const struct descriptor *dcx, const void *cx, const struct descriptor *w, const void *pw,
        const struct descriptor *y, void *py, const struct descriptor *dhy, void *hy,
        const struct descriptor *dcy, void *cy, const void *k, const void *pk, const void *c,
        void *pc, const void *i, void *pi, const void *q, void *pq, void *work, size_t work_bytes,
        void *reserve, size_t reserve_bytes)
{
    struct operand reads[] = {{px, dnn_bytes_of_data(x)}, {pw, dnn_extent(w)}, dnn_state(hx, dhx),
            dnn_state(cx, dcx)};
    struct operand outs[] = {{work, work_bytes}, {reserve, reserve_bytes},
            {py, dnn_bytes_of_data(y)}, dnn_state(hy, dhy), dnn_state(cy, dcy)};

    return standin_write(h->stream, "cudnnRNNForward", outs, 5, reads, 4) ? EXECUTION_FAILED
                                                                          : SUCCESS;
}

BODY(cudnnRNNForwardInferenceEx, struct handle *h, const struct descriptor *r,
        const struct descriptor *x, const void *px, const struct descriptor *dhx, const void *hx,
        const struct descriptor *dcx, const void *cx, const struct descriptor *w, const void *pw,
        const struct descriptor *y, void *py, const struct descriptor *dhy, void *hy,
        const struct descriptor *dcy, void *cy, const void *k, const void *pk, const void *c,
        void *pc, const void *i, void *pi, const void *q, void *pq, void *work, size_t work_bytes)
{
    return cudnnRNNForwardTrainingEx(h, r, x, px, dhx, hx, dcx, cx, w, pw, y, py, dhy, hy, dcy, cy,
            k, pk, c, pc, i, pi, q, pq, work, work_bytes, NULL, 0);
}

BODY(cudnnRNNForwardTraining, struct handle *h, const struct descriptor *r, int count, steps_of xs,
        const void *px, const struct descriptor *dhx, const void *hx, const struct descriptor *dcx,
        const void *cx, const struct descriptor *w, const void *pw, steps_of ys, void *py,
        const struct descriptor *dhy, void *hy, const struct descriptor *dcy, void *cy, void *work,
        size_t work_bytes, void *reserve, size_t reserve_bytes)
{
    struct descriptor x = data_of(count, xs), y = data_of(count, ys);

    return cudnnRNNForwardTrainingEx(h, r, &x, px, dhx, hx, dcx, cx, w, pw, &y, py, dhy, hy, dcy,
            cy, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, work, work_bytes, reserve,
            reserve_bytes);
}

BODY(cudnnRNNForwardInference, struct handle *h, const struct descriptor *r, int count, steps_of xs,
        const void *px, const struct descriptor *dhx, const void *hx, const struct descriptor *dcx,
        const void *cx, const struct descriptor *w, const void *pw, steps_of ys, void *py,
        const struct descriptor *dhy, void *hy, const struct descriptor *dcy, void *cy, void *work,
        size_t work_bytes)
{
    return cudnnRNNForwardTraining(h, r, count, xs, px, dhx, hx, dcx, cx, w, pw, ys, py, dhy, hy,
            dcy, cy, work, work_bytes, NULL, 0);
}

BODY(cudnnRNNBackwardDataEx, struct handle *h, const struct descriptor *r,
        const struct descriptor *y, const void *py, const struct descriptor *dy, const void *pdy,
        const void *c, const void *pc, const struct descriptor *ddhy, const void *dhy,
        const struct descriptor *ddcy, const void *dcy, const struct descriptor *w, const void *pw,
        const struct descriptor *dhx, const void *hx, const struct descriptor *dcx, const void *cx,
        const struct descriptor *dx, void *pdx, const struct descriptor *ddhx, void *pdhx,
        const struct descriptor *ddcx, void *pdcx, const void *k, void *pk, void *work,
        size_t work_bytes, void *reserve, size_t reserve_bytes)
{
    struct operand reads[] = {{py, dnn_bytes_of_data(y)}, {pdy, dnn_bytes_of_data(dy)},
            {pw, dnn_extent(w)}, {reserve, reserve_bytes}, dnn_state(hx, dhx), dnn_state(dhy, ddhy),
            dnn_state(cx, dcx), dnn_state(dcy, ddcy)};
    struct operand outs[] = {{work, work_bytes}, {pdx, dnn_bytes_of_data(dx)},
            dnn_state(pdhx, ddhx), dnn_state(pdcx, ddcx), {reserve, reserve_bytes}};

    return standin_write(h->stream, "cudnnRNNBackwardData", outs, 5, reads, 8) ? EXECUTION_FAILED
                                                                               : SUCCESS;
}

BODY(cudnnRNNBackwardData, struct handle *h, const struct descriptor *r, int count, steps_of ys,
        const void *py, steps_of dys, const void *pdy, const struct descriptor *ddhy,
        const void *dhy, const struct descriptor *ddcy, const void *dcy, const struct descriptor *w,
        const void *pw, const struct descriptor *dhx, const void *hx, const struct descriptor *dcx,
        const void *cx, steps_of dxs, void *pdx, const struct descriptor *ddhx, void *pdhx,
        const struct descriptor *ddcx, void *pdcx, void *work, size_t work_bytes, void *reserve,
        size_t reserve_bytes)
{
    struct descriptor y = data_of(count, ys), dy = data_of(count, dys), dx = data_of(count, dxs);

    return cudnnRNNBackwardDataEx(h, r, &y, py, &dy, pdy, NULL, NULL, ddhy, dhy, ddcy, dcy, w, pw,
            dhx, hx, dcx, cx, &dx, pdx, ddhx, pdhx, ddcx, pdcx, NULL, NULL, work, work_bytes,
            reserve, reserve_bytes);
}

/* The workspace and the reserve are as the pass for the data has left them. */
BODY(cudnnRNNBackwardWeightsEx, struct handle *h, const struct descriptor *r,
        const struct descriptor *x, const void *px, const struct descriptor *dhx, const void *hx,
        const struct descriptor *y, const void *py, const void *work, size_t work_bytes,
        const struct descriptor *dw, void *pdw, const void *reserve, size_t reserve_bytes)
{
    struct operand reads[] = {{px, dnn_bytes_of_data(x)}, {py, dnn_bytes_of_data(y)},
            {work, work_bytes}, {reserve, reserve_bytes}, dnn_state(hx, dhx),
            {pdw, dnn_extent(dw)}};

    return standin_write(h->stream, "cudnnRNNBackwardWeights", &reads[5], 1, reads, 6)
            ? EXECUTION_FAILED
            : SUCCESS;
}

BODY(cudnnRNNBackwardWeights, struct handle *h, const struct descriptor *r, int count, steps_of xs,
        const void *px, const struct descriptor *dhx, const void *hx, steps_of ys, const void *py,
        const void *work, size_t work_bytes, const struct descriptor *dw, void *pdw,
        const void *reserve, size_t reserve_bytes)
{
    struct descriptor x = data_of(count, xs), y = data_of(count, ys);

    return cudnnRNNBackwardWeightsEx(
            h, r, &x, px, dhx, hx, &y, py, work, work_bytes, dw, pdw, reserve, reserve_bytes);
}

#endif
