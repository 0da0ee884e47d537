/* SPDX-License-Identifier: MIT */
/*
 * graphnodes.h - to which graph a node belongs, and inside of which graph another one lies.
 *
 * A call that sets a node anew names the node alone; what it names is pinned for the node's graph. So nodes are noted as the
 * program gets them: added by it, captured with pins, or told by the driver (cuGraphGetNodes, cuGraphNodeFindInClone ...). The
 * graph of a child node, and the body of a conditional one, is a part of the graph around it, and ends with that.
 *
 * Threads: any. No driver call. A lock inside. Memory: meta.h, given back with the graph; a node for which there is none is not
 * known. Rules: R80.
 */
#ifndef KEDGE_PRELOAD_GRAPHNODES_H
#define KEDGE_PRELOAD_GRAPHNODES_H

#include <stdint.h>

/* The outermost graph around this one, which may be itself. */
uint64_t graphnodes_owner(uint64_t graph);

/* A node of this graph, or of one inside of it. */
void graphnodes_note(uint64_t graph, uint64_t node);

/* The outermost graph around the node; 0 = not known. */
uint64_t graphnodes_graph(uint64_t node);

/* `inner` is a part of `graph` from now on, with what is noted of it. */
void graphnodes_embed(uint64_t graph, uint64_t inner);

/* A node is gone; a graph is, with all that is in it. */
void graphnodes_node_gone(uint64_t node);
void graphnodes_gone(uint64_t graph);

#endif
