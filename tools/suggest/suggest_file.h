/* SPDX-License-Identifier: MIT */
/*
 * suggest_file.h - a new hint file: for which program it is, what its hints are called, and where it goes.
 *
 * For the ways of `kedge suggest`, which find hints each in its own way. Threads: none. Memory: vec.h, hintfile_free.
 */
#ifndef KEDGE_TOOLS_SUGGEST_FILE_H
#define KEDGE_TOOLS_SUGGEST_FILE_H

#include "tools/base/keytable.h"
#include "tools/symbols/sitekey.h"
#include "tracker/hints/hintfile.h"
#include "tracker/reader/read.h"

/* Without hints: for the program of this capture, in shadow. The caller frees it (hintfile_free). */
struct hintfile *suggest_file_file(const struct read_capture *capture, uint64_t min_size);

/* "unused_input" -> "unused-input", of which the second one is "unused-input-2". */
void suggest_file_id(const char *word, struct keytable *used, char ret_id[static RULE_ID_MAX]);

/*
 * A hint that picks by a Python function of the program is called by it and by the first of its lines, whoever was the innermost
 * there. One that picks by a function of a library is called by the line of the program that called it.
 */
void suggest_file_name(const struct sitekey *key, char **io_title, char **io_word);

/* The modules that the native sites of a hint name, so that a rebuilt one puts the hints to shadow. */
void suggest_file_builds(struct hintfile *file, const struct trace *trace, uint32_t stack_number);

/* 0, or -errno after one line on stderr. */
int suggest_file_save(const struct hintfile *file, const char *path);

#endif
