/* SPDX-License-Identifier: MIT */
/*
 * page_text.h - the page's HTML, style and scripts, which the build packs from tools/page/
 * (embed.cmake).
 *
 * The data are between head and tail.
 */
#ifndef KEDGE_TOOLS_PAGE_TEXT_H
#define KEDGE_TOOLS_PAGE_TEXT_H

#include <stddef.h>

extern const unsigned char page_text_head[], page_text_tail[];
extern const size_t page_text_head_length, page_text_tail_length;

#endif
