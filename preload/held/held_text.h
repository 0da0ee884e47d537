/* SPDX-License-Identifier: MIT */
/*
 * held_text.h - the text of held.py, ended by NUL; made by embed.cmake. Read-only data.
 */
#ifndef KEDGE_PRELOAD_HELD_TEXT_H
#define KEDGE_PRELOAD_HELD_TEXT_H

extern const unsigned char held_text[];

#endif
