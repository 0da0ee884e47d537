/* SPDX-License-Identifier: MIT */
/*
 * libcudnn: the CTC loss.
 *
 * The workspace holds the forward and the backward variables of Graves et al. (2006) in float: of each
 * step and sequence one for every label and for the blanks around them.
 */
#include "libcudnn.h"

#include <stdlib.h>

CREATE(cudnnCreateCTCLossDescriptor)
DESTROY(cudnnDestroyCTCLossDescriptor)
NOTHING(cudnnSetCTCLossDescriptor)
NOTHING(cudnnSetCTCLossDescriptorEx)

BODY(cudnnSetCTCLossDescriptor_v9, struct descriptor *d, int type, int normalization, int mode,
        int most_labels)
{
    d->sizes[0] = most_labels;
    return SUCCESS;
}

/* Sizes of `probs`: steps, sequences, labels. */
static size_t workspace(const struct descriptor *probs, size_t labels)
{
    return (size_t)probs->sizes[0] * (size_t)probs->sizes[1] * (2 * labels + 1) * 2 * sizeof(float);
}

BODY(cudnnGetCTCLossWorkspaceSize_v8, struct handle *h, int algorithm, const struct descriptor *d,
        const struct descriptor *probs, const struct descriptor *gradients, size_t *ret_bytes)
{
    *ret_bytes = workspace(probs, d->sizes[0] > 0 ? (size_t)d->sizes[0] : (size_t)probs->sizes[2]);
    return SUCCESS;
}

BODY(cudnnGetCTCLossWorkspaceSize, struct handle *h, const struct descriptor *probs,
        const struct descriptor *gradients, const int *labels, const int *label_lengths,
        const int *input_lengths, int algorithm, const struct descriptor *d, size_t *ret_bytes)
{
    int most = 0; /* the lengths are in the host's memory */

    for (int i = 0; i < probs->sizes[1]; i++)
        most = label_lengths[i] > most ? label_lengths[i] : most;
    *ret_bytes = workspace(probs, (size_t)most);
    return SUCCESS;
}

BODY(cudnnCTCLoss, struct handle *h, const struct descriptor *probs, const void *p,
        const int *labels, const int *label_lengths, const int *input_lengths, void *costs,
        const struct descriptor *gradients, void *g, int algorithm, const struct descriptor *d,
        void *work, size_t bytes)
{
    struct operand read = {p, dnn_extent(probs)};
    struct operand outs[] = {{work, bytes}, {costs, (uint64_t)probs->sizes[1] * sizeof(float)},
            {g, g ? dnn_extent(gradients) : 0}};

    return standin_write(h->stream, "cudnnCTCLoss", outs, 3, &read, 1) ? EXECUTION_FAILED : SUCCESS;
}

BODY(cudnnCTCLoss_v8, struct handle *h, int algorithm, const struct descriptor *d,
        const struct descriptor *probs, const void *p, const int *labels, const int *label_lengths,
        const int *input_lengths, void *costs, const struct descriptor *gradients, void *g,
        size_t bytes, void *work)
{
    return cudnnCTCLoss(h, probs, p, labels, label_lengths, input_lengths, costs, gradients, g,
            algorithm, d, work, bytes);
}
