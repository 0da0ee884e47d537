/* SPDX-License-Identifier: MIT */
/*
 * page_pack.h - long lists of numbers in a page: seven bits a byte, lowest first, all in base64.
 *
 * The scripts read them with tools/page/web/packed.js. Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_PAGE_PACK_H
#define KEDGE_TOOLS_PAGE_PACK_H

#include "tools/base/render.h"

/* {0} is empty. */
struct page_pack {
    unsigned char *bytes;
    size_t count, room;
};

void page_pack_uint(struct page_pack *pack, uint64_t value);

/* A difference: 0, -1, 1, -2 ... are 0, 1, 2, 3 ... */
void page_pack_difference(struct page_pack *pack, uint64_t value, uint64_t before);

/* A text with all numbers. */
void page_pack_json(struct json *json, const char *key, const struct page_pack *pack);
void page_pack_done(struct page_pack *pack);

#endif
