/* SPDX-License-Identifier: MIT */
/*
 * datakind.h - what each block is: parameters, gradients, optimizer state, activations ...
 *
 * Known from the run are the storages that a framework's objects named (struct read_data). The rest
 * follows from where in the training loop a block was made and freed, in this order:
 *
 *     named          a module, an optimizer or a call had it when kedge looked
 *     graph pools    memory of CUDA graphs
 *     workspaces     cuBLAS's, by the function of PyTorch that asks for them (framekind.h)
 *     communication  asked for by a library or a file of communication between ranks
 *     temporary      freed in the phase that made it; outside of phases, before the next one begins
 *     as its equals  blocks of its call site, phase and size that were live at a look at everything
 *                    all had names of one kind; else those of its call site and phase
 *     inputs         made while a loader was asked for data
 *     activations    made in a step ahead of its backward pass, and live when that begins, or when
 *                    an allocation of this forward fails; not kept beyond the next step
 *     by walks       a parameter, gradient, state or buffer when kedge walked for holders, or kept by
 *                    graphs alone (activations); of what no walk met the kind that all others of its
 *                    call site, phase and size had that were unknown and live at one, as above
 *     unknown        the others
 *
 * Names of functions are read for the stacks of what would be temporary, activations or unknown.
 *
 * Threads: none. Memory: vec.h; valid as long as the load.
 */
#ifndef KEDGE_TOOLS_DATAKIND_H
#define KEDGE_TOOLS_DATAKIND_H

#include "tools/base/vec.h"
#include "tools/load/load.h"

enum __attribute__((packed)) datakind {
    DATAKIND_PARAMETERS,
    DATAKIND_GRADIENTS,
    DATAKIND_STATE,
    DATAKIND_ACTIVATIONS,
    DATAKIND_INPUTS,
    DATAKIND_BUFFERS,
    DATAKIND_COMMUNICATION,
    DATAKIND_GRAPHS,
    DATAKIND_WORKSPACES,
    DATAKIND_TEMPORARY,
    DATAKIND_UNKNOWN,
    DATAKIND_COUNT,
};

/* "optimizer state", and as a JSON key: "optimizer_state". */
const char *datakind_name(enum datakind kind);

struct datakinds {
    enum datakind *of; /* by block; NULL: no object of a framework was looked at */
    uint32_t *name;    /* by block: index in `names`, TRACE_NONE */
    uint32_t *more;    /* by block: how many further names it has */
    struct vec_texts names;
    size_t looks;
    bool is_cut;  /* some objects were not looked at, or their names are not on record */
    bool is_busy; /* a look could not read gradients */
};

struct datakinds datakind_find(const struct load *load);
void datakind_done(struct datakinds *kinds);

/* The name of a block, as "exp_avg of head.weight, and 2 more"; NULL: it has none. Caller frees. */
char *datakind_new_text(const struct datakinds *kinds, uint32_t block);

#endif
