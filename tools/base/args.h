/* SPDX-License-Identifier: MIT */
/*
 * args.h - command line options as one array for each command.
 *
 * Parsing, --help and the test that compares --help with the man page all read that array. Options
 * are `--name VALUE` or `--name=VALUE`, a few have a letter; they may come before and after the
 * positional words and end at `--`. A command with a tail (`run -- CMD...`) also stops at its first
 * positional word, so that the options of CMD stay CMD's.
 *
 *     struct my_args { const char *from; bool json; };
 *     static const struct args_option options[] = {
 *         {"from", "ANCHOR", "begin at the first enter of ANCHOR", ARGS_TEXT, offsetof(struct my_args, from)}, ...
 *
 * Does not know the meaning of an option. Threads: none.
 */
#ifndef KEDGE_TOOLS_ARGS_H
#define KEDGE_TOOLS_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum args_kind {
    ARGS_FLAG,   /* bool */
    ARGS_TEXT,   /* const char * */
    ARGS_PAIR,   /* const char *[2]: two words, never after '=' */
    ARGS_OUTPUT, /* the same: a file that is written */
    ARGS_UINT,   /* uint64_t */
    ARGS_SIZE,   /* uint64_t, in the form of config_size */
};

struct args_option {
    const char *name;  /* "output"; "output|o" with a letter (-o FILE) */
    const char *value; /* the value's name in --help; NULL for flags */
    const char *help;
    enum args_kind kind;
    size_t offset; /* of the field in the command's struct */
};

struct args_spec {
    const char *command; /* "kedge report", for messages */
    const struct args_option *options;
    size_t option_count;
    bool tail; /* stop at the first positional word */
    /* a former option, with its hyphens, and the command to use instead; NULL: none */
    const char *gone, *instead;
};

enum args_result {
    ARGS_OK,
    ARGS_HELP, /* --help was given */
    ARGS_BAD,  /* one line was printed on stderr */
};

/* Fills `fields`; the remaining words, in order, go to words[0..*ret_count), with room for argc. */
enum args_result args_parse(const struct args_spec *spec, int argc, char **argv, void *fields,
        char **words, int *ret_count);

/* The "options:" part of a --help text; --help itself is the last line. */
void args_print_options(FILE *out, const struct args_option *options, size_t count);

/* The length of the option's own name, without the letter. */
size_t args_name_length(const struct args_option *option);

/* Its letter; '\0' if it has none. */
char args_letter(const struct args_option *option);

/* Whether its value names a file, by the word that --help has for the value. */
bool args_takes_file(const struct args_option *option);

/*
 * The number of `value` among the words that an option takes, which end with NULL; NULL as a value
 * is the first. -1 after one line on stderr: "kedge top: --sort name: live, peak or rate".
 */
int args_choose(
        const char *command, const char *option, const char *value, const char *const *words);

/* Names, one in each row of an array: `first` is the address of the first row's `const char *`. */
struct args_names {
    const void *first;
    size_t stride, count;
};

#define ARGS_NAMES(rows_, member_, count_) \
    ((struct args_names){&(rows_)->member_, sizeof(*(rows_)), (count_)})
#define ARGS_WORDS(words_, count_) ((struct args_names){(words_), sizeof(*(words_)), (count_)})

/* The name of row `i`. */
const char *args_name(struct args_names names, size_t i);

/* The number of the first row with this name; their count if there is none. */
size_t args_find(struct args_names names, const char *word);

/* The name nearest to `word`, NULL if none is near. For "did you mean". */
const char *args_nearest(struct args_names names, const char *word);

#endif
