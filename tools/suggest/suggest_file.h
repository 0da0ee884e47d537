/* SPDX-License-Identifier: MIT */
/*
 * suggest_file.h - a new hint file: its program, the names of its hints, and its output.
 *
 * Shared by the modes of `kedge suggest`, which find hints each in its own way. Threads: none.
 * Memory: vec.h, hintfile_free.
 */
#ifndef KEDGE_TOOLS_SUGGEST_FILE_H
#define KEDGE_TOOLS_SUGGEST_FILE_H

#include "tools/base/keytable.h"
#include "tools/symbols/sitekey.h"
#include "tracker/hints/hintfile.h"
#include "tracker/reader/read.h"

/* An empty file for the program of this capture, in shadow. The caller frees it (hintfile_free). */
struct hintfile *suggest_file_file(const struct read_capture *capture, uint64_t min_size);

/* "unused_input" -> "unused-input"; the second one becomes "unused-input-2". */
void suggest_file_id(const char *word, struct keytable *used, char ret_id[static RULE_ID_MAX]);

/*
 * Names a hint that picks by a Python function of the program by that function and its first line,
 * whichever frame was innermost. A hint that picks by a library's function is named by the line of
 * the program that called it.
 */
void suggest_file_name(const struct sitekey *key, char **io_title, char **io_word);

/* The modules of a hint's native sites, so that a rebuilt one puts the hints into shadow. */
void suggest_file_builds(struct hintfile *file, const struct trace *trace, uint32_t stack_number);

/* 0, or -errno after one line on stderr. */
int suggest_file_save(const struct hintfile *file, const char *path);

#endif
