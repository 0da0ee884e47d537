/* SPDX-License-Identifier: MIT */
/*
 * optionword.h - puts a number into a command line: what `kedge estimate --find NAME=LOW..HIGH` varies.
 *
 * Replaced is, wherever it stands, {NAME} in a word, else the value of NAME=, -NAME= or --NAME=,
 * else the word behind -NAME or --NAME. Nothing is added to a command that has none of these: a
 * program that ignores what it does not know would seem to fit with every number.
 *
 * Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_OPTIONWORD_H
#define KEDGE_TOOLS_OPTIONWORD_H

#include <stdint.h>

struct optionword {
    char name[64];
    uint64_t low, high;
};

/* Of "batch=1..512"; 0, or an exit code after one line on stderr. */
int optionword_read(const char *who, const char *text, struct optionword *ret_option);

/* The command with this number, which ends with NULL, for optionword_free; NULL: it has no such word. */
char **optionword_put(const struct optionword *option, char *const *words, uint64_t number);
void optionword_free(char **words);

#endif
