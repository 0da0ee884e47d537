/* SPDX-License-Identifier: MIT */
/*
 * hinttree.h - the restricted YAML of hint files as a small tree. The only user of libyaml.
 *
 * Copies libyaml's event stream into nodes with their line and column; anything that the restricted
 * form forbids (aliases, anchors, tags, directives, a second document, keys that are no words, a
 * duplicate key, more than 6 levels, NUL bytes) ends the reading with its position. Nothing is
 * typed here: every scalar is a string.
 *
 *     map ─child─► key "a" ─next─► key "b"          list ─child─► item ─next─► item
 *                    └child─► value   └child─► value
 *
 * Memory is bounded by the file's size and HINTTREE_NODES_MAX. Uses malloc; recursive, as deep as
 * the tree. No state.
 */
#ifndef KEDGE_TRACKER_HINTTREE_H
#define KEDGE_TRACKER_HINTTREE_H

#include <stddef.h>
#include <stdint.h>

#define HINTTREE_NODES_MAX 1200000u /* the uses that `order` may have, plus the rest of the file */
#define HINTTREE_KEYS_MAX  256u     /* of one mapping */

enum hinttree_kind {
    HINTTREE_SCALAR,
    HINTTREE_LIST,
    HINTTREE_MAP,
    HINTTREE_KEY,
};

struct hinttree_node {
    enum hinttree_kind kind;
    uint32_t line, column;       /* from 1 */
    struct hinttree_node *child; /* list: first item; map: first key; key: its value */
    struct hinttree_node *next;
    size_t length;
    char text[]; /* scalar, key; "" for the others */
};

/* 0 with the outermost value, or -EINVAL with the position (line, column) in *ret_where and the
 * error in *ret_what (valid for good), or -ENOMEM. */
int hinttree_read(const void *bytes, size_t length, struct hinttree_node **ret_root,
        struct hinttree_node *ret_where, const char **ret_what);

/* Frees a node and everything below it. NULL is allowed. */
void hinttree_free(struct hinttree_node *root);

#endif
