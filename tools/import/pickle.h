/* SPDX-License-Identifier: MIT */
/*
 * pickle.h - reads a Python pickle as plain data, without executing code.
 *
 * A pickle is a program for a small stack machine. This machine knows the instructions of protocols
 * 2 to 5 that make numbers, texts, lists, tuples and dicts, which is what a memory snapshot of
 * PyTorch consists of. Others, above all those that name or call code (GLOBAL, REDUCE, BUILD ...),
 * are refused by name and with their place.
 *
 *     bytes ─ pickle_read ─► pickle->root ─ pickle_get(dict, "segments") ─► values
 *
 * Values may be shared, and a list may contain itself, so a caller that walks through them must
 * limit its depth. Texts point into the bytes, which must live as long as the values. Memory: 16
 * bytes for each value and each container; every one of them takes at least one byte of the pickle,
 * which has at most 4 GiB. Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_PICKLE_H
#define KEDGE_TOOLS_PICKLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum pickle_kind {
    PICKLE_NONE,
    PICKLE_BOOL,
    PICKLE_INT,
    PICKLE_REAL,
    PICKLE_TEXT, /* usually UTF-8, but not checked */
    PICKLE_BYTES,
    PICKLE_LIST, /* or tuple */
    PICKLE_DICT, /* key, value, key, value ... */
};

struct pickle_value {
    uint32_t kind;
    uint32_t length; /* of a text or bytes */
    union {
        int64_t number; /* also of a bool; an unsigned int of 64 bits as its bits */
        double real;
        const char *text; /* not ended by NUL */
        uint32_t list;    /* number of a container */
    } u;
};

struct pickle_list {
    struct pickle_value *at;
    uint32_t count, room;
};

struct pickle {
    struct pickle_value root;
    struct pickle_list *lists;
    size_t list_count, list_room;
};

/* The reason why a pickle was refused. */
struct pickle_error {
    size_t offset; /* byte */
    char text[128];
};

/* 0, or -EINVAL with *ret_error filled and nothing to free. */
int pickle_read(const unsigned char *bytes, size_t length, struct pickle *ret_pickle,
        struct pickle_error *ret_error);
void pickle_done(struct pickle *pickle);

/* The elements of a list or tuple (of a dict: keys and values in turns), else NULL and 0. */
const struct pickle_value *pickle_items(
        const struct pickle *pickle, const struct pickle_value *list, size_t *ret_count);

/* The value under a key of a dict, the last one of several; NULL: none, or it is no dict. */
const struct pickle_value *pickle_get(
        const struct pickle *pickle, const struct pickle_value *dict, const char *key);

/* Whether the value is this text. */
bool pickle_is(const struct pickle_value *value, const char *text);

#endif
