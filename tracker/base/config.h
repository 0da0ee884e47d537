/* SPDX-License-Identifier: MIT */
/*
 * config.h - the user's settings: KEDGE_* by the table tracker/base/options.def, read once.
 *
 *     environment ─► config_read ─► struct config ─► config_word / config_text / config_key
 *                        └─► one line per bad value (with the accepted form)
 *                            and per unknown KEDGE_* (with the nearest name)
 *
 * The caller passes the environment; nothing here reads the process's own. A bad value never stops
 * the program: its default is used. Values are copied, since the program may change its environment
 * later. Variables of other software (RANK, NVTX_...) are read with config_env.
 *
 * `kedge env` reads its own environment by the same rules and prints the same lines.
 *
 * Does not print (the caller passes a function that does) and does not act. Under AT_SECURE the
 * caller does not call this at all (R51). config_read is pure except for its arguments;
 * life.c reads the process's own config under its once. Memory: the struct.
 * Rules: R43 R51 R53.
 */
#ifndef KEDGE_TRACKER_CONFIG_H
#define KEDGE_TRACKER_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum config_id {
#define OPTION(id, name, kind, def, form, help) CONFIG_##id,
#include "tracker/base/options.def"
    CONFIG_COUNT,
    CONFIG_ROWS = CONFIG_COUNT /* and the keys */
#define OPTION_KEY(id, key, kind, def, form, help) \
    +1 /* NOLINT(bugprone-macro-parentheses): a sum's next part */
#include "tracker/base/options.def"
};

enum {
    CONFIG_LINE = 512,      /* bytes of a warning; longer ones are truncated */
    CONFIG_TEXT_MAX = 4096, /* longest value, the NUL included */
    CONFIG_WORD_MAX = 63,   /* characters of a word that can be compared */
};

/* One value, of a variable or of a key inside one. */
struct config_value {
    bool set; /* set by the environment, and valid */
    /* SIZE, COUNT, MS; ENUM: index of the word, or a bit per word where several are allowed */
    uint64_t number;
    const char *text; /* PATH, TEXT: the value, "" if unset. ENUM: the word */
};

struct config {
    struct config_value value[CONFIG_ROWS]; /* of the variables, then of the keys */
    char arena[2 * CONFIG_TEXT_MAX];
    size_t used;
};

/* Called with one finished line, without prefix or newline. */
typedef void (*config_warn)(void *data, const char *line);

/* Fills *ret_config from `env` (NULL-terminated "NAME=value" strings; NULL = empty). warn may be
 * NULL. */
void config_read(struct config *ret_config, char *const *env, config_warn warn, void *data);

/* The index of the chosen word in the row's form, e.g. 0 for "pool" of "pool|track|off". */
unsigned config_word(const struct config *config, enum config_id id);
const char *config_text(const struct config *config, enum config_id id);
bool config_is_set(const struct config *config, enum config_id id);

/* A key of a variable, NULL if there is no such row. */
const struct config_value *config_key(
        const struct config *config, enum config_id id, const char *key);

/* The name of a variable, "KEDGE_MODE". */
const char *config_name(enum config_id id);

/* The variable by which `kedge run` passes its run to the library: RUN, or RUN+ if it may replace
 * an old capture of the same name. Not a user setting, so it is not in options.def. */
#define CONFIG_RUN "_KEDGE_RUN"

/* Set by `kedge run` where a framework is to keep its cache: the library does not advise against. */
#define CONFIG_CACHED "_KEDGE_CACHED"

/* The launcher's rank, decimal digits (tracker/base/ranks.def); NULL = none. Points into `env`. */
const char *config_rank(char *const *env);

/* The value of another variable, NULL = unset. Points into `env`. */
const char *config_env(char *const *env, const char *name);

/* "64", "64M", "64MiB"; K, M, G or T. 0, -EINVAL for an invalid size, or -ERANGE. */
int config_size(const char *text, uint64_t *ret_size);

/* The edit distance: characters to change, remove or insert to turn one text into the other;
 * UINT32_MAX if `b` is too long. */
unsigned config_distance(const char *a, const char *b);

#endif
