/* SPDX-License-Identifier: MIT */
/*
 * config.h - what the user asked for: KEDGE_* by the table tracker/base/options.def, read once.
 *
 *     environment ─► config_read ─► struct config ─► config_word / config_number / config_text
 *                        └─► one line per bad value (names the accepted form) and per unknown KEDGE_* (names the nearest)
 *
 * Environments are passed in; nothing here asks for the process's own. A bad value never stops the program: its default is used.
 * Values are copied, since the program may change its environment later. Other people's variables (RANK, NVTX_...) are looked up
 * with config_env.
 *
 * `kedge env` reads its own environment by the same rules and says the same lines.
 *
 * Does not print (the caller passes a function that does) and does not act. Under AT_SECURE the caller does not come here
 * at all (R51). config_read is pure but for its arguments; the process's own config is read by life.c under its once.
 * Memory: the struct. Rules: R43 R51 R53.
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
    CONFIG_LINE = 512,      /* of a warning; longer ones are cut */
    CONFIG_TEXT_MAX = 4096, /* longest value, the NUL included */
    CONFIG_WORD_MAX = 63,   /* characters of a word that another one is compared with */
};

/* One value, of a variable or of a key inside one. */
struct config_value {
    bool set; /* by the environment, and understood */
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

/* Fills *ret_config from `env` (NULL-terminated "NAME=value" strings; NULL = nothing is set). warn may be NULL. */
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

/*
 * The variable in which `kedge run` tells the library which run it belongs to: RUN, or RUN+ where an old capture of the same name may
 * be replaced. Not one of the user's, so it is no row of options.def.
 */
#define CONFIG_RUN "_KEDGE_RUN"

/* The rank that a launcher gave, decimal digits (tracker/base/ranks.def); NULL = none. Points into `env`. */
const char *config_rank(char *const *env);

/* The value of another variable, NULL = unset. Points into `env`. */
const char *config_env(char *const *env, const char *name);

/* "64", "64M", "64MiB"; K, M, G or T. 0, -EINVAL for what is no size, or -ERANGE. */
int config_size(const char *text, uint64_t *ret_size);

/* How many characters are to be changed, left out or put in to make one of the other; UINT32_MAX where `b` is too long. */
unsigned config_distance(const char *a, const char *b);

#endif
