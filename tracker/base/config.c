/* SPDX-License-Identifier: MIT */
#include "tracker/base/config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum config_kind {
    KIND_ENUM,
    KIND_PATH,
    KIND_SIZE,
    KIND_COUNT,
    KIND_MS,
    KIND_TEXT,
    KIND_SEVERAL,
    KIND_KEYS,
};

struct config_row {
    const char *name; /* of the variable or key */
    const char *def;
    const char *form;
    enum config_id id;
    enum config_kind kind;
};

/* The variables, then the keys. */
static const struct config_row rows[CONFIG_ROWS] = {
#define OPTION(id, name, kind, def, form, help) {name, def, form, CONFIG_##id, KIND_##kind},
#include "tracker/base/options.def"
#define OPTION_KEY(id, key, kind, def, form, help) {key, def, form, CONFIG_##id, KIND_##kind},
#include "tracker/base/options.def"
};

/* Where warnings go, and the config being read. */
struct reader {
    struct config *config;
    config_warn warn;
    void *data;
};

/* ---- one value ------------------------------------------------------------------------------ */

/* Length of the part of a form that lists words: "a|b, several with commas" has "a|b". */
static size_t words_length(const char *form)
{
    return strcspn(form, ", ");
}

static bool takes_several(const char *form)
{
    return strstr(form, "several with commas") != NULL;
}

/* Index of word [text, length) in form, -1 if absent. */
static int word_index(const char *form, const char *text, size_t length)
{
    const char *end = form + words_length(form);
    int index = 0;

    for (const char *word = form; word < end; index++) {
        size_t n = strcspn(word, "|, ");

        if (n == length && memcmp(word, text, n) == 0)
            return index;
        word += n + (word[n] == '|' ? 1 : 0);
        if (n == 0)
            break;
    }
    return -1;
}

static int parse_number(const char *text, uint64_t *ret_number)
{
    uint64_t value = 0;

    if (*text < '0' || *text > '9')
        return -EINVAL;
    for (; *text >= '0' && *text <= '9'; text++)
        if (__builtin_mul_overflow(value, 10, &value)
                || __builtin_add_overflow(value, (uint64_t)(*text - '0'), &value))
            return -ERANGE;
    if (*text)
        return -EINVAL;
    *ret_number = value;
    return 0;
}

/* A form with "LOW..HIGH" in it states bounds. */
static bool is_in_bounds(const char *form, uint64_t number)
{
    const char *dots = strstr(form, "..");
    const char *low = dots;

    if (!dots)
        return true;
    while (low > form && low[-1] >= '0' && low[-1] <= '9')
        low--;
    return number >= strtoull(low, NULL, 10) && number <= strtoull(dots + 2, NULL, 10);
}

int config_size(const char *text, uint64_t *ret_size)
{
    static const char units[] = "KMGTkmgt";
    char digits[32];
    size_t length = strspn(text, "0123456789");
    const char *unit = text[length] ? strchr(units, text[length]) : NULL;
    int shift = unit ? 10 * (int)((unit - units) % 4 + 1) : 0;
    uint64_t value;
    int r;

    if (length >= sizeof digits || (text[length] && !unit)
            || (unit && text[length + 1] && strcmp(text + length + 1, "iB") != 0))
        return -EINVAL;
    memcpy(digits, text, length);
    digits[length] = '\0';
    r = parse_number(digits, &value);
    if (r < 0 || value > UINT64_MAX >> shift)
        return r < 0 ? r : -ERANGE;
    *ret_size = value << shift;
    return 0;
}

/* Parses one word, or one more of several. */
static int parse_word(const struct config_row *row, const char *text, struct config_value *value)
{
    int index = word_index(row->form, text, strlen(text));

    if (index < 0)
        return -EINVAL;
    if (takes_several(row->form))
        value->number |= UINT64_C(1) << index;
    else
        value->number = (uint64_t)index;
    value->text = text;
    return 0;
}

/* `text` lives as long as the config. */
static int parse_value(const struct config_row *row, const char *text, struct config_value *value)
{
    int r;

    switch (row->kind) {
    case KIND_ENUM:
        return parse_word(row, text, value);
    case KIND_SIZE:
        return config_size(text, &value->number);
    case KIND_COUNT:
    case KIND_MS:
        r = parse_number(text, &value->number);
        return r == 0 && !is_in_bounds(row->form, value->number) ? -ERANGE : r;
    case KIND_PATH:
    case KIND_TEXT:
    case KIND_SEVERAL:
        value->text = text;
        return 0;
    case KIND_KEYS:
        return -EINVAL;
    }
    return -EINVAL;
}

/* ---- warnings ------------------------------------------------------------------------------- */

static void config_say(const struct reader *reader, const char *line)
{
    if (reader->warn)
        reader->warn(reader->data, line);
}

static void say_bad(const struct reader *reader, const struct config_row *row, const char *text)
{
    const char *name = rows[row->id].name;
    bool is_key = row->name != name;
    char line[CONFIG_LINE];

    (void)snprintf(line, sizeof line, "%s: bad value '%s' for %s%s: expected %s, using %s", name,
            text, is_key ? "key " : "it", is_key ? row->name : "", row->form,
            *row->def ? row->def : "the default");
    config_say(reader, line);
}

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
    unsigned m = a < b ? a : b;

    return m < c ? m : c;
}

unsigned config_distance(const char *a, const char *b)
{
    unsigned row[CONFIG_WORD_MAX + 1];
    size_t b_length = strlen(b);

    if (b_length > CONFIG_WORD_MAX)
        return UINT32_MAX;
    for (unsigned j = 0; j <= b_length; j++)
        row[j] = j;
    for (; *a; a++) {
        unsigned diagonal = row[0];

        row[0]++;
        for (size_t j = 0; j < b_length; j++) {
            unsigned above = row[j + 1];

            row[j + 1] = min3(above + 1, row[j] + 1, diagonal + (*a != b[j] ? 1u : 0u));
            diagonal = above;
        }
    }
    return row[b_length];
}

static void say_unknown(const struct reader *reader, const char *entry, size_t length)
{
    const char *nearest = rows[0].name;
    unsigned best = UINT32_MAX;
    char name[64];
    char line[CONFIG_LINE];

    length = length < sizeof name - 1 ? length : sizeof name - 1;
    memcpy(name, entry, length);
    name[length] = '\0';
    for (int i = 0; i < CONFIG_COUNT; i++) {
        unsigned d = config_distance(name, rows[i].name);

        if (d < best) {
            best = d;
            nearest = rows[i].name;
        }
    }
    (void)snprintf(
            line, sizeof line, "unknown variable %s is ignored; did you mean %s?", name, nearest);
    config_say(reader, line);
}

/* ---- a variable ----------------------------------------------------------------------------- */

static bool has_keys(enum config_id id)
{
    for (size_t i = CONFIG_COUNT; i < CONFIG_ROWS; i++)
        if (rows[i].id == id)
            return true;
    return false;
}

static void read_one(const struct reader *reader, const struct config_row *row,
        struct config_value *value, const char *text)
{
    struct config_value fresh = {.set = true, .text = ""};

    if (takes_several(row->form) && value->set)
        fresh.number = value->number;
    if (parse_value(row, text, &fresh) < 0)
        say_bad(reader, row, text);
    else
        *value = fresh;
}

/* Appends one more value of several to one text. False if there is no space. */
static bool config_join(struct config *config, struct config_value *value, const char *text)
{
    size_t before = strlen(value->text);
    size_t more = strlen(text);
    char *joined = config->arena + config->used;

    if (before + more + 2 > sizeof config->arena - config->used)
        return false;
    memcpy(joined, value->text, before);
    joined[before] = ',';
    memcpy(joined + before + 1, text, more + 1);
    config->used += before + more + 2;
    value->text = joined;
    return true;
}

static void config_read_key(const struct reader *reader, const struct config_row *row,
        struct config_value *value, const char *text)
{
    if (row->kind != KIND_SEVERAL || !value->set)
        read_one(reader, row, value, text);
    else if (!config_join(reader->config, value, text))
        say_bad(reader, row, "(too long)");
}

/* Reads one part of a value with keys: key=value, or the first word. */
static void config_read_part(const struct reader *reader, const struct config_row *row, char *part)
{
    char *equals = strchr(part, '=');

    if (!equals) {
        read_one(reader, row, &reader->config->value[row->id], part);
        return;
    }
    *equals = '\0';
    for (size_t i = CONFIG_COUNT; i < CONFIG_ROWS; i++) {
        if (rows[i].id != row->id || strcmp(rows[i].name, part) != 0)
            continue;
        config_read_key(reader, &rows[i], &reader->config->value[i], equals + 1);
        return;
    }
    say_bad(reader, row, part);
}

static void read_variable(
        const struct reader *reader, const struct config_row *row, const char *text)
{
    struct config *config = reader->config;
    size_t length = strlen(text);
    char *copy = config->arena + config->used;
    char *rest = NULL;

    if (length >= CONFIG_TEXT_MAX || length + 1 > sizeof config->arena - config->used) {
        say_bad(reader, row, "(too long)");
        return;
    }
    memcpy(copy, text, length + 1);
    config->used += length + 1;
    if (!has_keys(row->id) && !takes_several(row->form)) {
        read_one(reader, row, &config->value[row->id], copy);
        return;
    }
    for (char *part = strtok_r(copy, ",", &rest); part; part = strtok_r(NULL, ",", &rest))
        config_read_part(reader, row, part);
}

/* Defaults are parsed like any value, except "" = unset. */
static void set_default(const struct config_row *row, struct config_value *value)
{
    const char *part = row->def;

    *value = (struct config_value){.text = ""};
    if (row->kind == KIND_ENUM && takes_several(row->form)) {
        for (size_t n; *part; part += n + (part[n] == ',' ? 1 : 0)) {
            int index;

            n = strcspn(part, ",");
            index = word_index(row->form, part, n);
            if (index >= 0)
                value->number |= UINT64_C(1) << index;
        }
    } else if (*part)
        (void)parse_value(row, part, value);
}

static const struct config_row *config_row_of(const char *entry, size_t length)
{
    for (int i = 0; i < CONFIG_COUNT; i++)
        if (strlen(rows[i].name) == length && memcmp(rows[i].name, entry, length) == 0)
            return &rows[i];
    return NULL;
}

void config_read(struct config *ret_config, char *const *env, config_warn warn, void *data)
{
    struct reader reader = {ret_config, warn, data};

    ret_config->used = 0;
    for (size_t i = 0; i < CONFIG_ROWS; i++)
        set_default(&rows[i], &ret_config->value[i]);
    for (; env && *env; env++) {
        size_t length = strcspn(*env, "=");
        const struct config_row *row;

        if (strncmp(*env, "KEDGE_", 6) != 0 || (*env)[length] != '=')
            continue;
        row = config_row_of(*env, length);
        if (!row)
            say_unknown(&reader, *env, length);
        else if ((*env)[length + 1])
            read_variable(&reader, row, *env + length + 1);
    }
}

/* ---- queries -------------------------------------------------------------------------------- */

unsigned config_word(const struct config *config, enum config_id id)
{
    return (unsigned)config->value[id].number;
}

const char *config_text(const struct config *config, enum config_id id)
{
    return config->value[id].text;
}

bool config_is_set(const struct config *config, enum config_id id)
{
    return config->value[id].set;
}

const struct config_value *config_key(
        const struct config *config, enum config_id id, const char *key)
{
    for (size_t i = CONFIG_COUNT; i < CONFIG_ROWS; i++)
        if (rows[i].id == id && strcmp(rows[i].name, key) == 0)
            return &config->value[i];
    return NULL;
}

const char *config_name(enum config_id id)
{
    return rows[id].name;
}

const char *config_env(char *const *env, const char *name)
{
    size_t length = strlen(name);

    for (; env && *env; env++)
        if (strncmp(*env, name, length) == 0 && (*env)[length] == '=')
            return *env + length + 1;
    return NULL;
}

const char *config_rank(char *const *env)
{
    static const char *const names[] = {
#define RANK(name) name,
#include "tracker/base/ranks.def"
    };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *rank = config_env(env, names[i]);

        if (rank && *rank && rank[strspn(rank, "0123456789")] == '\0')
            return rank;
    }
    return NULL;
}
