/* SPDX-License-Identifier: MIT */
/*
 * held_text.h - the texts of held*.py and history.py, ended by NUL; made by embed.cmake. Read-only
 * data.
 */
#ifndef KEDGE_PRELOAD_HELD_TEXT_H
#define KEDGE_PRELOAD_HELD_TEXT_H

extern const unsigned char held_text[];
extern const unsigned char history_text[];

#endif
