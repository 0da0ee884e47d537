/* SPDX-License-Identifier: MIT */
#include "tracker/hintfile.h"

#include "tracker/hinttree.h"
#include "tracker/ownfile.h"
#include "tracker/site.h"
#include "tracker/wildcard.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is being read, and where trouble is told. */
struct reading {
    struct hintfile *file;
    struct rule *rule; /* of the hint that is being read, NULL outside of all hints */
    struct hintfile_words *words;
    struct hintfile_error *error;
    const char *name;
};

__attribute__((format(printf, 3, 4))) static int refuse(
        const struct reading *reading, const struct hinttree_node *node, const char *text, ...)
{
    struct hintfile_error *error = reading->error;
    va_list args;
    int used;

    if (!error)
        return -EINVAL;
    error->line = node->line;
    error->column = node->column;
    used = snprintf(error->text, sizeof error->text, "%.300s:%u:%u: ", reading->name, node->line,
            node->column);
    if (used < 0 || (size_t)used >= sizeof error->text)
        return -EINVAL;
    va_start(args, text);
    (void)vsnprintf(error->text + used, sizeof error->text - (size_t)used, text, args);
    va_end(args);
    return -EINVAL;
}

static int no_memory(const struct reading *reading)
{
    if (reading->error)
        (void)snprintf(reading->error->text, sizeof reading->error->text, "%.300s: no memory",
                reading->name);
    return -ENOMEM;
}

/* ---- typed scalars ---- */

typedef int (*take_fn)(struct reading *reading, const struct hinttree_node *value);

/* A key of a mapping: how it is taken, or that it is known but not built yet (take NULL). */
struct key {
    const char *name;
    take_fn take;
};

static int take_map(struct reading *reading, const struct hinttree_node *map, const char *what,
        const struct key *keys, size_t key_count)
{
    if (map->kind != HINTTREE_MAP)
        return refuse(reading, map, "%s must be a mapping", what);
    for (const struct hinttree_node *key = map->child; key; key = key->next) {
        size_t i = 0;
        int r;

        while (i < key_count && strcmp(keys[i].name, key->text) != 0)
            i++;
        if (i == key_count)
            return refuse(reading, key, "unknown key '%.60s' in %s", key->text, what);
        if (!keys[i].take)
            return refuse(reading, key, "'%s' in %s is not supported yet", key->text, what);
        r = keys[i].take(reading, key->child);
        if (r < 0)
            return r;
    }
    return 0;
}

static const struct hinttree_node *find_key(const struct hinttree_node *map, const char *name)
{
    for (const struct hinttree_node *key = map->child; key; key = key->next)
        if (strcmp(key->text, name) == 0)
            return key;
    return NULL;
}

static int take_text(struct reading *reading, const struct hinttree_node *value, char *to,
        size_t size, const char *what)
{
    if (value->kind != HINTTREE_SCALAR && value->kind != HINTTREE_KEY)
        return refuse(reading, value, "%s must be one word or text", what);
    if (value->length >= size)
        return refuse(reading, value, "%s is longer than %zu bytes", what, size - 1);
    memcpy(to, value->text, value->length + 1);
    return 0;
}

static int take_long_text(
        struct reading *reading, const struct hinttree_node *value, char **to, const char *what)
{
    if (value->kind != HINTTREE_SCALAR)
        return refuse(reading, value, "%s must be text", what);
    if (value->length > HINTFILE_TEXT_MAX)
        return refuse(reading, value, "%s is longer than %u bytes", what, HINTFILE_TEXT_MAX);
    *to = strdup(value->text);
    return *to ? 0 : no_memory(reading);
}

/* Digits only; moves *at behind them. false = none, or too large. */
static bool scan_number(const char **at, uint64_t *ret_value)
{
    const char *from = *at;
    uint64_t value = 0;

    for (; **at >= '0' && **at <= '9'; (*at)++) {
        unsigned digit = (unsigned)(**at - '0');

        if (value > (UINT64_MAX - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *ret_value = value;
    return *at > from;
}

static uint64_t scan_unit(const char **at)
{
    static const struct {
        const char *name;
        uint64_t bytes;
    } units[] = {
            {"KiB", UINT64_C(1) << 10},
            {"MiB", UINT64_C(1) << 20},
            {"GiB", UINT64_C(1) << 30},
            {"MB", 1000000u},
            {"GB", 1000000000u},
    };

    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        size_t length = strlen(units[i].name);

        if (strncmp(*at, units[i].name, length) == 0) {
            *at += length;
            return units[i].bytes;
        }
    }
    return 0;
}

/* The digits behind the point, as a part of `unit`. */
static uint64_t scan_fraction(const char **at, uint64_t *ret_scale)
{
    uint64_t value = 0;
    uint64_t scale = 1;

    for (; **at >= '0' && **at <= '9'; (*at)++) {
        if (scale >= 1000000000u)
            continue; /* finer than a byte of a GiB */
        value = value * 10 + (uint64_t)(**at - '0');
        scale *= 10;
    }
    *ret_scale = scale;
    return value;
}

/* integer | number unit. false = neither, or too large. */
static bool scan_size(const char **at, uint64_t *ret_bytes)
{
    uint64_t whole, unit, part = 0, scale = 1;
    bool has_point = false;

    if (!scan_number(at, &whole))
        return false;
    if ((*at)[0] == '.' && (*at)[1] >= '0' && (*at)[1] <= '9') {
        (*at)++;
        has_point = true;
        part = scan_fraction(at, &scale);
    }
    unit = scan_unit(at);
    if (unit == 0) {
        *ret_bytes = whole;
        return !has_point; /* half bytes do not exist */
    }
    if (whole > UINT64_MAX / unit - 1)
        return false;
    *ret_bytes = whole * unit + part * unit / scale; /* part * unit < 1e9 * 2^30 */
    return true;
}

static int take_size(
        struct reading *reading, const struct hinttree_node *value, uint64_t *to, const char *what)
{
    const char *at = value->text;

    if (value->kind != HINTTREE_SCALAR || !scan_size(&at, to) || *at != '\0')
        return refuse(reading, value,
                "%s must be a size: a number of bytes, or a number with KiB, MiB, GiB, MB or GB",
                what);
    return 0;
}

static int take_word(struct reading *reading, const struct hinttree_node *value,
        const char *const *words, const char *const *later, const char *what, unsigned *ret_word)
{
    if (value->kind == HINTTREE_SCALAR) {
        for (unsigned i = 0; words[i]; i++)
            if (strcmp(words[i], value->text) == 0) {
                *ret_word = i;
                return 0;
            }
        for (unsigned i = 0; later && later[i]; i++)
            if (strcmp(later[i], value->text) == 0)
                return refuse(reading, value, "%s: %s is not supported yet", what, value->text);
    }
    return refuse(reading, value, "%s must be %s%s%s%s%s", what, words[0], words[1] ? ", " : "",
            words[1] ? words[1] : "", words[1] && words[2] ? " or " : "",
            words[1] && words[2] ? words[2] : "");
}

/* Of the hint, else of all that say nothing else. */
static int take_mode(struct reading *reading, const struct hinttree_node *value)
{
    static const char *const words[] = {"shadow", "trap", "live", NULL};
    static const char *const later[] = {"poison", NULL};
    static const enum hint_mode modes[] = {HINT_SHADOW, HINT_TRAP, HINT_LIVE};
    unsigned word = 0;
    int r = take_word(reading, value, words, later, "mode", &word);

    if (r == 0)
        *(reading->rule ? &reading->rule->mode : &reading->file->mode) = modes[word];
    return r;
}

/* Likewise. */
static int take_min_size(struct reading *reading, const struct hinttree_node *value)
{
    return take_size(reading, value,
            reading->rule ? &reading->rule->min_size : &reading->file->min_size, "min-size");
}

/* Keys whose only built value is the default: the word is checked, nothing is kept. */
static int take_wait(struct reading *reading, const struct hinttree_node *value)
{
    static const char *const words[] = {"all-streams", NULL};
    static const char *const later[] = {"touched", "event-only", NULL};
    unsigned word;

    return take_word(reading, value, words, later, "wait", &word);
}

static int take_on_touch(struct reading *reading, const struct hinttree_node *value)
{
    static const char *const words[] = {"fail", NULL};
    static const char *const later[] = {"restore", "ignore", NULL};
    unsigned word;

    return take_word(reading, value, words, later, "on-touch", &word);
}

static int take_backend(struct reading *reading, const struct hinttree_node *value)
{
    static const char *const words[] = {"unmap", NULL};
    static const char *const later[] = {"alias", "managed", NULL};
    unsigned word;

    return take_word(reading, value, words, later, "backend", &word);
}

/* ---- pick ---- */

static int take_site(struct reading *reading, const struct hinttree_node *item, uint64_t *to)
{
    uint64_t value = 0;
    size_t i;

    if (item->kind != HINTTREE_SCALAR || item->length < 2 || item->text[1] != ':')
        return refuse(reading, item, "a site is c: and 16 hex digits");
    if (item->text[0] == 's' || item->text[0] == 'p')
        return refuse(reading, item, "%c: sites are not supported yet", item->text[0]);
    for (i = 2; i < 18; i++) {
        const char c = item->text[i < item->length ? i : item->length]; /* its NUL behind the end */

        if (c >= '0' && c <= '9')
            value = value << 4 | (uint64_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            value = value << 4 | (uint64_t)(c - 'a' + 10);
        else
            break;
    }
    if (item->text[0] != 'c' || i != 18 || item->length != 18)
        return refuse(reading, item, "a site is c: and 16 hex digits");
    if (value == 0)
        return refuse(reading, item, "site 0 means unknown and matches nothing");
    *to = value;
    return 0;
}

static int take_pick_site(struct reading *reading, const struct hinttree_node *value)
{
    struct rule *rule = reading->rule;

    if (value->kind != HINTTREE_LIST || !value->child)
        return refuse(reading, value, "site must be a list of site keys");
    for (const struct hinttree_node *item = value->child; item; item = item->next) {
        int r;

        if (rule->pick.site_count == RULE_SITES_MAX)
            return refuse(reading, item, "more than %d sites in one hint", RULE_SITES_MAX);
        r = take_site(reading, item, &rule->pick.site[rule->pick.site_count]);
        if (r < 0)
            return r;
        rule->pick.site_count++;
    }
    return 0;
}

/* size | "lo..hi" | ">=n" */
static int take_pick_size(struct reading *reading, const struct hinttree_node *value)
{
    struct rule *rule = reading->rule;
    const char *at = value->text;
    uint64_t low = 0;
    uint64_t high = UINT64_MAX;
    bool fits = value->kind == HINTTREE_SCALAR;

    if (fits && strncmp(at, ">=", 2) == 0) {
        at += 2;
        fits = scan_size(&at, &low);
    } else if (fits && scan_size(&at, &low)) {
        high = low;
        if (strncmp(at, "..", 2) == 0) {
            at += 2;
            fits = scan_size(&at, &high);
        }
    } else {
        fits = false;
    }
    if (!fits || *at != '\0')
        return refuse(reading, value, "size must be a size, \"low..high\" or \">=size\"");
    if (low > high)
        return refuse(reading, value, "the range of sizes is empty");
    rule->pick.size_lo = low;
    rule->pick.size_hi = high;
    return 0;
}

/* int | "a..b" | all */
static int take_pick_nth(struct reading *reading, const struct hinttree_node *value)
{
    struct rule *rule = reading->rule;
    const char *at = value->text;
    uint64_t low = 0;
    uint64_t high = UINT32_MAX;
    bool fits = value->kind == HINTTREE_SCALAR;

    if (fits && strcmp(at, "all") != 0) {
        fits = scan_number(&at, &low);
        high = low;
        if (fits && strncmp(at, "..", 2) == 0) {
            at += 2;
            fits = scan_number(&at, &high);
        }
        /* UINT32_MAX is the count of an allocation that could not be counted. */
        fits = fits && *at == '\0' && low < UINT32_MAX && high < UINT32_MAX;
    }
    if (!fits)
        return refuse(reading, value, "nth must be a number, \"a..b\" or all");
    if (low > high)
        return refuse(reading, value, "the range of nth is empty");
    rule->pick.nth_lo = (uint32_t)low;
    rule->pick.nth_hi = (uint32_t)high;
    return 0;
}

static int take_pick_inside(struct reading *reading, const struct hinttree_node *value)
{
    struct rule *rule = reading->rule;

    return take_text(reading, value, rule->pick.inside, sizeof rule->pick.inside, "inside");
}

static int take_pick_device(struct reading *reading, const struct hinttree_node *value)
{
    struct rule *rule = reading->rule;
    const char *at = value->text;
    uint64_t device = 0;

    if (value->kind != HINTTREE_SCALAR || !scan_number(&at, &device) || *at != '\0'
            || device > INT16_MAX)
        return refuse(reading, value, "device must be a device number");
    rule->pick.device = (int)device;
    return 0;
}

static int take_pick(struct reading *reading, const struct hinttree_node *value)
{
    static const struct key keys[] = {
            {"site", take_pick_site},
            {"size", take_pick_size},
            {"inside", take_pick_inside},
            {"nth", take_pick_nth},
            {"device", take_pick_device},
            {"used-by", NULL},
            {"stream", NULL},
            {"thread", NULL},
    };
    const struct rule_pick *pick = &reading->rule->pick;
    int r = take_map(reading, value, "pick", keys, sizeof keys / sizeof keys[0]);

    /* `size: ">=0"` and `inside: ""` name nothing either. */
    if (r == 0 && pick->site_count == 0 && pick->size_lo == 0 && pick->size_hi == UINT64_MAX
            && pick->inside[0] == '\0')
        return refuse(reading, value,
                "pick names no site, size or anchor: it would match every allocation");
    return r;
}

/* ---- when, expect ---- */

static int take_when_anchor(struct reading *reading, const struct hinttree_node *value)
{
    struct rule *rule = reading->rule;
    int r = take_text(reading, value, rule->when.anchor, sizeof rule->when.anchor, "anchor");

    if (r == 0 && rule->when.anchor[0] == '\0')
        return refuse(reading, value, "anchor is empty");
    return r;
}

static int take_when_edge(struct reading *reading, const struct hinttree_node *value)
{
    static const char *const words[] = {"enter", "exit", NULL};
    static const enum edge_kind edges[] = {EDGE_ENTER, EDGE_EXIT};
    struct rule *rule = reading->rule;
    unsigned word = 0;
    int r = take_word(reading, value, words, NULL, "edge", &word);

    if (r == 0)
        rule->when.kind = edges[word];
    return r;
}

static int take_when(struct reading *reading, const struct hinttree_node *value)
{
    static const struct key keys[] = {
            {"anchor", take_when_anchor},
            {"edge", take_when_edge},
            {"event", NULL},
            {"count", NULL},
            {"from", NULL},
            {"launch", NULL},
            {"free-of", NULL},
    };
    int r = take_map(reading, value, "when", keys, sizeof keys / sizeof keys[0]);

    if (r == 0 && (!find_key(value, "anchor") || !find_key(value, "edge")))
        return refuse(reading, value, "when needs anchor and edge");
    return r;
}

static int take_expect_count(struct reading *reading, const struct hinttree_node *value)
{
    const char *at = value->text;

    if (value->kind == HINTTREE_SCALAR && scan_number(&at, &reading->rule->expect_count)) {
        if (*at == '\0')
            return 0;
        if (strncmp(at, "..", 2) == 0)
            return refuse(reading, value, "a range in per-step is not supported yet");
    }
    return refuse(reading, value, "per-step must be a number");
}

static int take_expect_bytes(struct reading *reading, const struct hinttree_node *value)
{

    return take_size(reading, value, &reading->rule->expect_bytes, "bytes");
}

static int take_expect_saves(struct reading *reading, const struct hinttree_node *value)
{

    return take_size(reading, value, &reading->words->saves, "saves");
}

static int take_expect(struct reading *reading, const struct hinttree_node *value)
{
    static const struct key keys[] = {
            {"per-step", take_expect_count},
            {"bytes", take_expect_bytes},
            {"saves", take_expect_saves},
    };

    return take_map(reading, value, "expect", keys, sizeof keys / sizeof keys[0]);
}

/* ---- one hint ---- */

bool hintfile_is_id(const char *text)
{
    return text[0] != '\0'
            && strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")
            == strlen(text);
}

static int take_id(struct reading *reading, const struct hinttree_node *value)
{
    int r = take_text(reading, value, reading->rule->id, sizeof reading->rule->id, "id");

    if (r == 0 && !hintfile_is_id(reading->rule->id))
        return refuse(reading, value, "an id is letters, digits, '-', '_' and '.'");
    return r;
}

static int take_do(struct reading *reading, const struct hinttree_node *value)
{
    static const char *const words[] = {"release", NULL};
    static const char *const later[] = {
            "keep-meta", "hold", "evict", "restore", "pin", "ignore", NULL};
    unsigned word;
    int r = take_word(reading, value, words, later, "do", &word);

    if (r == 0)
        reading->rule->action = ACTION_RELEASE;
    return r;
}

static int take_proof(struct reading *reading, const struct hinttree_node *value)
{
    return take_long_text(reading, value, &reading->words->proof, "proof");
}

static int take_note(struct reading *reading, const struct hinttree_node *value)
{
    return take_long_text(reading, value, &reading->words->note, "note");
}

static const struct key hint_keys[] = {
        {"id", take_id},
        {"do", take_do},
        {"pick", take_pick},
        {"when", take_when},
        {"expect", take_expect},
        {"mode", take_mode},
        {"min-size", take_min_size},
        {"wait", take_wait},
        {"on-touch", take_on_touch},
        {"backend", take_backend},
        {"proof", take_proof},
        {"note", take_note},
        {"else", NULL},
        {"canary", NULL},
        {"needs", NULL},
        {"cap", NULL},
        {"order", NULL},
        {"victim", NULL},
        {"cyclic", NULL},
        {"prefetch", NULL},
        {"backing", NULL},
        {"restore", NULL},
        {"clean", NULL},
        {"warmup-cap", NULL},
        {"sync-limit", NULL},
        {"host-budget", NULL},
};

static int take_hint(struct reading *reading, const struct hinttree_node *item)
{
    static const char *const needed[] = {"id", "do", "pick", "when"};
    struct hintfile *file = reading->file;
    int r;

    reading->rule = &file->rule[file->rule_count];
    reading->words = &file->words[file->rule_count];
    *reading->rule = (struct rule){
            .mode = file->mode,
            .min_size = file->min_size,
            .line = item->line,
            .column = item->column,
            .pick = {.size_hi = UINT64_MAX, .nth_hi = UINT32_MAX, .device = -1},
    };
    file->rule_count++; /* its words are freed from here on */
    r = take_map(reading, item, "hint", hint_keys, sizeof hint_keys / sizeof hint_keys[0]);
    reading->rule = NULL;
    for (size_t i = 0; r == 0 && i < sizeof needed / sizeof needed[0]; i++)
        if (!find_key(item, needed[i]))
            return refuse(reading, item, "a hint needs '%s'", needed[i]);
    return r;
}

static int by_id(const void *left, const void *right)
{
    const struct rule *const *a = left;
    const struct rule *const *b = right;
    int order = strcmp((*a)->id, (*b)->id);

    return order ? order : ((*a)->line > (*b)->line) - ((*a)->line < (*b)->line);
}

/* Ids name hints in reports, receipts and violations: each only once. */
static int check_ids(struct reading *reading)
{
    struct hintfile *file = reading->file;
    const struct rule **order = calloc(file->rule_count + 1, sizeof(const struct rule *));
    int r = 0;

    if (!order)
        return no_memory(reading);
    for (size_t i = 0; i < file->rule_count; i++)
        order[i] = &file->rule[i];
    qsort(order, file->rule_count, sizeof(const struct rule *), by_id);
    for (size_t i = 1; r == 0 && i < file->rule_count; i++) {
        struct hinttree_node at = {.line = order[i]->line, .column = order[i]->column};

        if (strcmp(order[i - 1]->id, order[i]->id) == 0)
            r = refuse(reading, &at, "the id '%s' is used twice (first on line %u)", order[i]->id,
                    order[i - 1]->line);
    }
    free(order);
    return r;
}

static int take_hints(struct reading *reading, const struct hinttree_node *value)
{
    struct hintfile *file = reading->file;
    size_t count = 0;

    if (value->kind != HINTTREE_LIST || !value->child)
        return refuse(reading, value, "hints must be a list of at least one hint");
    for (const struct hinttree_node *item = value->child; item; item = item->next)
        if (++count > HINTFILE_HINTS_MAX)
            return refuse(reading, item, "more than %u hints", HINTFILE_HINTS_MAX);
    file->rule = calloc(count, sizeof *file->rule);
    file->words = calloc(count, sizeof *file->words);
    if (!file->rule || !file->words)
        return no_memory(reading);
    for (const struct hinttree_node *item = value->child; item; item = item->next) {
        int r = take_hint(reading, item);

        if (r < 0)
            return r;
    }
    return check_ids(reading);
}

/* ---- the file ---- */

static int take_version(struct reading *reading, const struct hinttree_node *value)
{
    if (value->kind != HINTTREE_SCALAR || strcmp(value->text, "1") != 0)
        return refuse(reading, value, "version '%.20s' is not one that this kedge reads (1)",
                value->text ? value->text : "");
    return 0;
}

static int take_made_by(struct reading *reading, const struct hinttree_node *value)
{
    return take_long_text(reading, value, &reading->file->made_by, "by");
}

static int take_made_on(struct reading *reading, const struct hinttree_node *value)
{
    return take_long_text(reading, value, &reading->file->made_on, "on");
}

static int take_made_from(struct reading *reading, const struct hinttree_node *value)
{
    struct hintfile *file = reading->file;
    size_t count = 0;

    if (value->kind != HINTTREE_LIST)
        return refuse(reading, value, "from must be a list of files");
    for (const struct hinttree_node *item = value->child; item; item = item->next)
        count++;
    file->made_from = calloc(count + 1, sizeof *file->made_from);
    if (!file->made_from)
        return no_memory(reading);
    for (const struct hinttree_node *item = value->child; item; item = item->next) {
        int r = take_long_text(reading, item, &file->made_from[file->made_from_count], "from");

        if (r < 0)
            return r;
        file->made_from_count++;
    }
    return 0;
}

static int take_made(struct reading *reading, const struct hinttree_node *value)
{
    static const struct key keys[] = {
            {"by", take_made_by},
            {"from", take_made_from},
            {"on", take_made_on},
    };

    return take_map(reading, value, "made", keys, sizeof keys / sizeof keys[0]);
}

static int take_argv(struct reading *reading, const struct hinttree_node *value)
{
    return take_text(reading, value, reading->file->argv, sizeof reading->file->argv, "argv");
}

static int take_rank(struct reading *reading, const struct hinttree_node *value)
{
    return take_text(reading, value, reading->file->rank, sizeof reading->file->rank, "rank");
}

static bool is_hex(const char *text)
{
    return text[0] != '\0' && strspn(text, "0123456789abcdef") == strlen(text);
}

static int take_build(struct reading *reading, const struct hinttree_node *value)
{
    struct hintfile *file = reading->file;

    if (value->kind != HINTTREE_MAP)
        return refuse(reading, value, "build must be a mapping of file name to build-id");
    for (const struct hinttree_node *key = value->child; key; key = key->next) {
        struct hintfile_build *build = &file->build[file->build_count];
        int r;

        if (file->build_count == HINTFILE_BUILDS_MAX)
            return refuse(reading, key, "more than %u modules in build", HINTFILE_BUILDS_MAX);
        r = take_text(reading, key, build->soname, sizeof build->soname, "a file name");
        if (r == 0)
            r = take_text(reading, key->child, build->id, sizeof build->id, "a build-id");
        if (r < 0)
            return r;
        if (!is_hex(build->id))
            return refuse(reading, key->child, "a build-id is hex digits, lower case");
        file->build_count++;
    }
    return 0;
}

static int take_mismatch(struct reading *reading, const struct hinttree_node *value)
{
    static const char *const words[] = {"shadow", "refuse", NULL};
    unsigned word = 0;
    int r = take_word(reading, value, words, NULL, "on-mismatch", &word);

    if (r == 0)
        reading->file->on_mismatch = word ? HINTFILE_MISMATCH_REFUSE : HINTFILE_MISMATCH_SHADOW;
    return r;
}

static int take_program(struct reading *reading, const struct hinttree_node *value)
{
    static const struct key keys[] = {
            {"argv", take_argv},
            {"rank", take_rank},
            {"build", take_build},
            {"on-mismatch", take_mismatch},
    };

    return take_map(reading, value, "program", keys, sizeof keys / sizeof keys[0]);
}

static int take_defaults(struct reading *reading, const struct hinttree_node *value)
{
    static const struct key keys[] = {
            {"mode", take_mode},
            {"min-size", take_min_size},
            {"wait", take_wait},
            {"on-touch", take_on_touch},
            {"backend", take_backend},
            {"host-budget", NULL},
            {"sync-limit", NULL},
            {"canary", NULL},
    };

    return take_map(reading, value, "defaults", keys, sizeof keys / sizeof keys[0]);
}

/* Already taken, before the hints that need them. */
static int take_nothing(struct reading *reading, const struct hinttree_node *value)
{
    (void)reading;
    (void)value;
    return 0;
}

static int take_file(struct reading *reading, const struct hinttree_node *root)
{
    static const struct key keys[] = {
            {"kedge-hints", take_nothing},
            {"made", take_made},
            {"program", take_program},
            {"defaults", take_nothing},
            {"hints", take_hints},
            {"events", NULL},
            {"needs", NULL},
    };
    const struct hinttree_node *key;
    int r = 0;

    if (root->kind != HINTTREE_MAP)
        return refuse(reading, root, "a hint file is a mapping that begins with kedge-hints: 1");
    key = find_key(root, "kedge-hints");
    if (!key)
        return refuse(reading, root, "no kedge-hints: 1 in it");
    r = take_version(reading, key->child);
    key = find_key(root, "defaults");
    if (r == 0 && key)
        r = take_defaults(reading, key->child);
    if (r == 0)
        r = take_map(reading, root, "the file", keys, sizeof keys / sizeof keys[0]);
    if (r == 0 && !find_key(root, "hints"))
        r = refuse(reading, root, "no hints in it");
    return r;
}

uint64_t hintfile_hash(const void *bytes, size_t length)
{
    uint64_t hash = site_hash(bytes, length, 6);

    return hash ? hash : 1;
}

int hintfile_read_bytes(const void *bytes, size_t length, const char *name,
        struct hintfile **ret_file, struct hintfile_error *ret_error)
{
    struct reading reading = {.error = ret_error, .name = name};
    struct hinttree *tree = NULL;
    struct hinttree_node where = {0};
    const char *what = "";
    int r;

    if (ret_error)
        *ret_error = (struct hintfile_error){{0}, 0, 0};
    if (length > HINTFILE_BYTES_MAX) {
        if (ret_error)
            (void)snprintf(ret_error->text, sizeof ret_error->text, "%.300s: larger than %u bytes",
                    name, HINTFILE_BYTES_MAX);
        return -EFBIG;
    }
    reading.file = calloc(1, sizeof *reading.file);
    if (!reading.file)
        return no_memory(&reading);
    reading.file->mode = HINT_SHADOW;
    reading.file->min_size = HINTFILE_MIN_SIZE;
    r = hinttree_read(bytes, length, &tree, &where, &what);
    if (r == -ENOMEM)
        r = no_memory(&reading);
    else if (r < 0)
        r = refuse(&reading, &where, "%s", what);
    else
        r = take_file(&reading, hinttree_root(tree));
    hinttree_free(tree);
    if (r < 0) {
        hintfile_free(reading.file);
        return r;
    }
    reading.file->hash = hintfile_hash(bytes, length);
    *ret_file = reading.file;
    return 0;
}

int hintfile_read(const char *path, struct hintfile **ret_file, struct hintfile_error *ret_error)
{
    char *bytes = NULL;
    const char *what = "";
    size_t length = 0;
    int r;

    if (ret_error)
        *ret_error = (struct hintfile_error){{0}, 0, 0};
    r = ownfile_read(path, HINTFILE_BYTES_MAX, &bytes, &length, &what);
    if (r < 0) {
        if (ret_error)
            (void)snprintf(ret_error->text, sizeof ret_error->text, "%.300s: %s", path, what);
        return r;
    }
    r = hintfile_read_bytes(bytes, length, path, ret_file, ret_error);
    free(bytes);
    return r;
}

void hintfile_free(struct hintfile *file)
{
    if (!file)
        return;
    for (size_t i = 0; file->words && i < file->rule_count; i++) {
        free(file->words[i].proof);
        free(file->words[i].note);
        free(file->words[i].comment);
    }
    for (size_t i = 0; i < file->made_from_count; i++)
        free(file->made_from[i]);
    free(file->made_from);
    free(file->made_by);
    free(file->made_on);
    free(file->comment);
    free(file->rule);
    free(file->words);
    free(file);
}

bool hintfile_glob(const char *glob, const char *text)
{
    return glob[0] == '\0' || wildcard_match(glob, text);
}

bool hintfile_fits(const struct hintfile *file, const char *argv, const char *rank)
{
    return hintfile_glob(file->argv, argv) && hintfile_glob(file->rank, rank);
}
