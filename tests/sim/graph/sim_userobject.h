/* SPDX-License-Identifier: MIT */
/*
 * sim_userobject.h - user objects: counted references to something of the program's, held by graphs.
 *
 * A graph, its clones and its instances hold references; the last one that goes has the program's
 * destructor called. That happens at the end of some later driver call, in the thread that makes
 * it, with no lock held and as a host function: it may not call the driver. An instance that is
 * destroyed while a launch of it has not run holds its references until it has.
 *
 * Threads: under the lock, except sim_userobject_drain.
 */
#ifndef KEDGE_TESTS_SIM_SIM_USEROBJECT_H
#define KEDGE_TESTS_SIM_SIM_USEROBJECT_H

#include "tests/sim/stream/sim_queue.h"

struct sim_holding {
    CUuserObject object;
    unsigned count;
};

/* The references that one graph or instance holds. */
struct sim_holdings {
    struct sim_holding *at;
    unsigned count;
};

/* All that `from` holds, once each, is held by `to` as well. */
void sim_userobject_share(struct sim_holdings *to, const struct sim_holdings *from);

/* Gives all references back, once the points are done (NULL: at once). */
void sim_userobject_put(struct sim_holdings *holdings, const struct sim_clock *after);

/* Calls the destructors that are due. Without the lock. */
void sim_userobject_drain(void);

#endif
