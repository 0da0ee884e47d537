/* SPDX-License-Identifier: MIT */
/*
 * graphnodes.h - the graph that a node belongs to, and the graph that another graph is part of.
 *
 * A call that sets a node's parameters names only the node; the memory in them is pinned for the
 * node's graph. So nodes are noted when the program gets them: it adds them, captures them with
 * pins, or asks the driver for them (cuGraphGetNodes, cuGraphNodeFindInClone ...). The graph of a
 * child node, and the body of a conditional one, is part of the graph around it, and ends with it.
 *
 * Threads: any. No driver call. A lock inside. Memory: meta.h, given back with the graph; without
 * memory for a node it stays unknown. Rules: R80.
 */
#ifndef KEDGE_PRELOAD_GRAPHNODES_H
#define KEDGE_PRELOAD_GRAPHNODES_H

#include <stdint.h>

/* The outermost graph around this one, which may be itself. */
uint64_t graphnodes_owner(uint64_t graph);

/* A node of this graph, or of a graph inside it. */
void graphnodes_note(uint64_t graph, uint64_t node);

/* The outermost graph around the node; 0 = not known. */
uint64_t graphnodes_graph(uint64_t node);

/* Makes `inner` a part of `graph`, with its nodes. */
void graphnodes_embed(uint64_t graph, uint64_t inner);

/* Removes a node that has ended. Below: a graph, with all its parts. */
void graphnodes_node_gone(uint64_t node);
void graphnodes_gone(uint64_t graph);

#endif
