/* SPDX-License-Identifier: MIT */
#include "tracker/hints/hintfile.h"

#include "alloc/base/wildcard.h"
#include "tracker/base/ownfile.h"
#include "tracker/base/site.h"
#include "tracker/hints/hinttree.h"
#include "tracker/hints/pysite.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEX_DIGITS "0123456789abcdef"

/* State of a read, and where errors go. */
struct reading {
    struct hintfile *file;
    struct rule *rule; /* of the current hint, NULL outside of hints */
    struct hintfile_words *words;
    struct rule_when *when;             /* its `when` or `else`, or an event */
    const struct hinttree_node *events; /* of the file, NULL = none */
    const struct key *key;              /* the key of the current value */
    struct hintfile_error *error;
    const char *name;
};

/* Reports an error of the whole file. */
static int hintfile_fail(struct hintfile_error *error, const char *name, int r, const char *what)
{
    if (error)
        (void)snprintf(error->text, sizeof error->text, "%.300s: %s", name, what);
    return r;
}

__attribute__((format(printf, 3, 4))) static int hintfile_refuse(
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
    return hintfile_fail(reading->error, reading->name, -ENOMEM, "no memory");
}

/* ---- keys ---- */

typedef int (*take_fn)(struct reading *reading, const struct hinttree_node *value);

enum owner {
    OWNER_NONE, /* the value is checked and dropped */
    OWNER_FILE,
    OWNER_RULE,
    OWNER_WHEN,
    OWNER_WORDS,
};

/* The mappings. */
enum map {
    IN_FILE,
    IN_MADE,
    IN_PREDICTED,
    IN_PROGRAM,
    IN_DEFAULTS,
    IN_HINT,
    IN_CAP,
    IN_PICK,
    IN_USE,
    IN_WHEN,
    IN_EVENT,
    IN_EXPECT,
};

/* A key of the mapping `in`: the function that reads its value (NULL: already read), and the field
 * that stores it. A row without a name: its `later` are known keys that are not supported yet. */
struct key {
    const char *name;
    take_fn take;
    enum map in;
    enum map map; /* take_map: the mapping of the value */
    enum owner owner;
    unsigned first;
    size_t at, room;
    const char *const *words; /* take_word: NULL-terminated; the first one means `first` */
    const char *const *later;
    unsigned with; /* of a hint: bits of the actions that allow it; 0 = all */
};

#define WITH(action_) (1u << ACTION_##action_)
#define WITH_RELEASE  (WITH(RELEASE) | WITH(KEEP_META))

#define FIELD(owner_, type, field)                         \
    .owner = (owner_), .at = offsetof(struct type, field), \
    .room = sizeof(((struct type *)NULL)->field)
#define OF_FILE(field)  FIELD(OWNER_FILE, hintfile, field)
#define OF_RULE(field)  FIELD(OWNER_RULE, rule, field)
#define OF_WHEN(field)  FIELD(OWNER_WHEN, rule_when, field)
#define OF_WORDS(field) FIELD(OWNER_WORDS, hintfile_words, field)
#define LIST(...)         \
    (const char *const[]) \
    {                     \
        __VA_ARGS__, NULL \
    }

static void *field_of(const struct reading *reading)
{
    void *const owners[] = {[OWNER_FILE] = reading->file,
            [OWNER_RULE] = reading->rule,
            [OWNER_WHEN] = reading->when,
            [OWNER_WORDS] = reading->words};

    return (char *)owners[reading->key->owner] + reading->key->at;
}

static const struct hinttree_node *find_key(const struct hinttree_node *map, const char *name)
{
    for (const struct hinttree_node *key = map->child; key; key = key->next)
        if (strcmp(key->text, name) == 0)
            return key;
    return NULL;
}

/* The index of a word in a list (NULL: empty), -1 if absent. */
static int find_word(const char *const *list, const char *word)
{
    for (int i = 0; list && list[i]; i++)
        if (strcmp(list[i], word) == 0)
            return i;
    return -1;
}

static const struct key *find_row(enum map in, const char *name);

static int take_map(struct reading *reading, const struct hinttree_node *map)
{
    const struct key *of = reading->key;

    if (map->kind != HINTTREE_MAP)
        return hintfile_refuse(reading, map, "%s must be a mapping", of->name);
    for (const struct hinttree_node *key = map->child; key; key = key->next) {
        const struct key *row = find_row(of->map, key->text);
        int r = 0;

        if (!row)
            return hintfile_refuse(reading, key, "unknown key '%.60s' in %s", key->text, of->name);
        if (!row->name)
            return hintfile_refuse(
                    reading, key, "'%s' in %s is not supported yet", key->text, of->name);
        reading->key = row;
        if (row->take)
            r = row->take(reading, key->child);
        if (r < 0)
            return r;
    }
    return 0;
}

static int hintfile_copy_text(struct reading *reading, const struct hinttree_node *value, char *to,
        size_t size, const char *what)
{
    if (value->kind != HINTTREE_SCALAR && value->kind != HINTTREE_KEY)
        return hintfile_refuse(reading, value, "%s must be one word or text", what);
    if (value->length >= size)
        return hintfile_refuse(reading, value, "%s is longer than %zu bytes", what, size - 1);
    memcpy(to, value->text, value->length + 1);
    return 0;
}

static int hintfile_take_text(struct reading *reading, const struct hinttree_node *value)
{
    const struct key *key = reading->key;

    return hintfile_copy_text(reading, value, field_of(reading), key->room, key->name);
}

/* The byte of \xHH in a glob; '\0' unless it is a byte that never occurs alone in UTF-8 text: only
 * those need a number. */
static char glob_byte(const char *digits)
{
    char text[3] = {digits[0]};
    unsigned long byte = 0;

    if (digits[0])
        text[1] = digits[1];
    if (strspn(text, "0123456789abcdefABCDEF") == 2)
        byte = strtoul(text, NULL, 16);
    if (byte < 0x80)
        byte = 0;
    return (char)byte;
}

/* Reads the next byte of a glob, with its escape, and moves past it. NULL, or the error. */
static const char *read_glob_byte(const char **io_at, char ret_bytes[static 3])
{
    const char *at = *io_at;
    bool is_escape = *at == '\\';
    bool is_number = is_escape && at[1] == 'x';
    char byte = *at;

    if (is_number)
        byte = glob_byte(at + 2);
    if (is_escape && at[1] == '\0')
        return "ends in a single \\ (one that stands for itself is written \\\\)";
    if (byte == '\0')
        return "has \\x without two hex digits from 80 to ff";
    ret_bytes[0] = byte;
    ret_bytes[1] = '\0';
    ret_bytes[2] = '\0';
    if (is_escape && !is_number)
        ret_bytes[1] = at[1];
    *io_at += is_number ? 4 : 1 + is_escape;
    return NULL;
}

static int take_glob(struct reading *reading, const struct hinttree_node *value)
{
    const struct key *key = reading->key;
    char *to = field_of(reading);
    size_t used = 0;

    if (value->kind != HINTTREE_SCALAR)
        return hintfile_refuse(reading, value, "%s must be one word or text", key->name);
    for (const char *at = value->text; *at;) {
        char bytes[3];
        const char *wrong = read_glob_byte(&at, bytes);

        if (wrong)
            return hintfile_refuse(reading, value, "%s %s", key->name, wrong);
        if (used + strlen(bytes) >= key->room)
            return hintfile_refuse(
                    reading, value, "%s is longer than %zu bytes", key->name, key->room - 1);
        memcpy(to + used, bytes, strlen(bytes));
        used += strlen(bytes);
    }
    to[used] = '\0';
    return 0;
}

static int keep_text(
        struct reading *reading, const struct hinttree_node *value, char **to, const char *what)
{
    if (value->kind != HINTTREE_SCALAR)
        return hintfile_refuse(reading, value, "%s must be text", what);
    if (value->length > HINTFILE_TEXT_MAX)
        return hintfile_refuse(
                reading, value, "%s is longer than %u bytes", what, HINTFILE_TEXT_MAX);
    *to = strdup(value->text);
    return *to ? 0 : no_memory(reading);
}

static int take_long_text(struct reading *reading, const struct hinttree_node *value)
{
    return keep_text(reading, value, field_of(reading), reading->key->name);
}

/* "a, b or c" */
static void list_words(const char *const *words, char *ret_text, size_t size)
{
    size_t used = 0;

    ret_text[0] = '\0';
    for (size_t i = 0; words[i] && used < size; i++)
        used += (size_t)snprintf(ret_text + used, size - used, "%s%s",
                i == 0                 ? ""
                        : words[i + 1] ? ", "
                                       : " or ",
                words[i]);
}

/* Reads an enum of consecutive values. */
static int take_word(struct reading *reading, const struct hinttree_node *value)
{
    const struct key *key = reading->key;
    const char *const *words = key->words;
    int word = find_word(words, value->text);
    unsigned number = key->first + (unsigned)word;
    char list[120];

    if (word < 0 && find_word(key->later, value->text) >= 0)
        return hintfile_refuse(
                reading, value, "%s: %s is not supported yet", key->name, value->text);
    if (word < 0) {
        list_words(words, list, sizeof list);
        return hintfile_refuse(reading, value, "%s must be %s", key->name, list);
    }
    if (key->owner != OWNER_NONE)
        memcpy(field_of(reading), &number, sizeof number);
    return 0;
}

/* Reads a bool: the first word is false. */
static int take_flag(struct reading *reading, const struct hinttree_node *value)
{
    const struct key *key = reading->key;
    int word = find_word(key->words, value->text);
    bool flag = word == 1;
    char list[120];

    list_words(key->words, list, sizeof list);
    if (word < 0)
        return hintfile_refuse(reading, value, "%s must be %s", key->name, list);
    memcpy(field_of(reading), &flag, sizeof flag);
    return 0;
}

/* ---- numbers: lists and maps have an empty text, which is no number ---- */

/* Digits only; moves *at past them. false = none, or too large. */
static bool scan_number(const char **at, uint64_t *ret_value)
{
    char *end;

    if (**at < '0' || **at > '9')
        return false;
    errno = 0;
    *ret_value = strtoull(*at, &end, 10);
    *at = end;
    return errno == 0;
}

/* The whole text: a number of low to high. */
static bool scan_whole(const char *text, uint64_t low, uint64_t high, uint64_t *ret_value)
{
    return scan_number(&text, ret_value) && *text == '\0' && *ret_value >= low
            && *ret_value <= high;
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

/* The digits after the point, as a fraction of *ret_scale. */
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
        return !has_point; /* no half bytes */
    }
    if (whole > UINT64_MAX / unit - 1)
        return false;
    *ret_bytes = whole * unit + part * unit / scale; /* part * unit < 1e9 * 2^30 */
    return true;
}

static int take_size(struct reading *reading, const struct hinttree_node *value)
{
    const char *at = value->text;

    if (!scan_size(&at, field_of(reading)) || *at != '\0')
        return hintfile_refuse(reading, value,
                "%s must be a size: a number of bytes, or a number with KiB, MiB, GiB, MB or GB",
                reading->key->name);
    return 0;
}

/* The whole text: one number, or "low..high". */
static bool scan_range(const char *at, bool (*scan)(const char **at, uint64_t *ret_value),
        uint64_t *ret_low, uint64_t *ret_high)
{
    if (!scan(&at, ret_low))
        return false;
    *ret_high = *ret_low;
    if (strncmp(at, "..", 2) == 0) {
        at += 2;
        if (!scan(&at, ret_high))
            return false;
    }
    return *at == '\0';
}

/* size | "lo..hi" | ">=n" */
static bool scan_sizes(const char *text, uint64_t *ret_lo, uint64_t *ret_hi)
{
    if (strncmp(text, ">=", 2) != 0)
        return scan_range(text, scan_size, ret_lo, ret_hi);
    text += 2;
    *ret_hi = UINT64_MAX;
    return scan_size(&text, ret_lo) && *text == '\0';
}

/* ---- pick ---- */

static int take_pysite(struct reading *reading, const struct hinttree_node *item)
{
    struct rule_pick *pick = &reading->rule->pick;
    const char *wrong = pysite_read(item->text, &pick->site[pick->site_count]);

    if (wrong)
        return hintfile_refuse(reading, item, "%s", wrong);
    if (item->length >= PYSITE_TEXT_MAX)
        return hintfile_refuse(
                reading, item, "a site is longer than %u bytes", PYSITE_TEXT_MAX - 1);
    pick->python |= 1u << pick->site_count;
    return keep_text(reading, item, &reading->words->site[pick->site_count], "a site");
}

static int take_site(struct reading *reading, const struct hinttree_node *item)
{
    uint64_t *to = &reading->rule->pick.site[reading->rule->pick.site_count];
    const char *text = item->text;

    if (strncmp(text, "p:", 2) == 0)
        return take_pysite(reading, item);
    if (strncmp(text, "s:", 2) == 0)
        return hintfile_refuse(reading, item, "s: sites are not supported yet");
    if (item->length != 18 || strncmp(text, "c:", 2) != 0 || strspn(text + 2, HEX_DIGITS) != 16)
        return hintfile_refuse(
                reading, item, "a site is c: and 16 hex digits, or p:FILE:QUALNAME[:LINE]");
    *to = strtoull(text + 2, NULL, 16);
    if (*to == 0)
        return hintfile_refuse(reading, item, "site 0 means unknown and matches nothing");
    return 0;
}

static int take_pick_site(struct reading *reading, const struct hinttree_node *value)
{
    struct rule *rule = reading->rule;

    if (value->kind != HINTTREE_LIST || !value->child)
        return hintfile_refuse(reading, value, "site must be a list of site keys");
    for (const struct hinttree_node *item = value->child; item; item = item->next) {
        int r;

        if (rule->pick.site_count == RULE_SITES_MAX)
            return hintfile_refuse(reading, item, "more than %d sites in one hint", RULE_SITES_MAX);
        r = take_site(reading, item);
        if (r < 0)
            return r;
        rule->pick.site_count++;
    }
    return 0;
}

static int take_pick_size(struct reading *reading, const struct hinttree_node *value)
{
    struct rule_pick *pick = &reading->rule->pick;

    if (!scan_sizes(value->text, &pick->size_lo, &pick->size_hi))
        return hintfile_refuse(reading, value, "size must be a size, \"low..high\" or \">=size\"");
    if (pick->size_lo > pick->size_hi)
        return hintfile_refuse(reading, value, "the range of sizes is empty");
    return 0;
}

/* int | "a..b" | all */
static int take_pick_nth(struct reading *reading, const struct hinttree_node *value)
{
    struct rule *rule = reading->rule;
    uint64_t low = 0;
    uint64_t high = 0;

    if (strcmp(value->text, "all") == 0)
        return 0;
    /* UINT32_MAX marks an allocation that could not be counted. */
    if (!scan_range(value->text, scan_number, &low, &high) || low >= UINT32_MAX
            || high >= UINT32_MAX)
        return hintfile_refuse(reading, value, "nth must be a number, \"a..b\" or all");
    if (low > high)
        return hintfile_refuse(reading, value, "the range of nth is empty");
    rule->pick.nth_lo = (uint32_t)low;
    rule->pick.nth_hi = (uint32_t)high;
    reading->words->nth_line = value->line;
    reading->words->nth_column = value->column;
    return 0;
}

/* 1/NUMBER */
static int take_canary(struct reading *reading, const struct hinttree_node *value)
{
    const char *at = value->text;
    uint64_t one = 0;
    uint64_t of = 0;
    uint32_t canary;

    if (!scan_number(&at, &one) || one != 1 || *at++ != '/' || !scan_whole(at, 1, INT32_MAX, &of))
        return hintfile_refuse(reading, value, "canary must be 1/NUMBER");
    canary = (uint32_t)of;
    memcpy(field_of(reading), &canary, sizeof canary);
    return 0;
}

static int take_pick_device(struct reading *reading, const struct hinttree_node *value)
{
    uint64_t device = 0;

    if (!scan_whole(value->text, 0, INT16_MAX, &device))
        return hintfile_refuse(reading, value, "device must be a device number");
    reading->rule->pick.device = (int)device;
    return 0;
}

static int take_pick_stream(struct reading *reading, const struct hinttree_node *value)
{
    uint64_t stream = 0;

    if (!scan_whole(value->text, 0, UINT16_MAX - 1, &stream))
        return hintfile_refuse(reading, value, "stream must be a stream number");
    reading->rule->pick.stream = (uint32_t)stream + 1;
    return 0;
}

static int take_call(struct reading *reading, const struct hinttree_node *value)
{
    uint32_t number = hintwords_find_call(value->text);
    char known[320] = "";

    for (size_t i = 1; i < APICALL_COUNT; i++)
        (void)snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s",
                i > 1 ? ", " : "", hintwords_calls[i].name);
    if (!number)
        return hintfile_refuse(
                reading, value, "unknown call '%.40s', known are %s", value->text, known);
    memcpy(field_of(reading), &number, sizeof number);
    return 0;
}

/* The call is valid. */
static int take_arg(
        const struct reading *reading, struct rule_use *use, const struct hinttree_node *value)
{
    const struct hintwords_call *call = &hintwords_calls[use->call];

    for (uint32_t i = 0; i < APICALL_BUFFERS && value->text[0]; i++)
        if (strcmp(call->buffer[i], value->text) == 0) {
            use->arg = i;
            return 0;
        }
    return hintfile_refuse(reading, value, "the buffers of %s are %s%s%s", call->name,
            call->buffer[0], call->buffer[1][0] ? " and " : "", call->buffer[1]);
}

static int take_use(struct reading *reading, const struct hinttree_node *value)
{
    struct rule_use *use = &reading->rule->pick.use;
    int r = take_map(reading, value);

    if (r == 0 && (!find_key(value, "call") || !find_key(value, "arg")))
        return hintfile_refuse(reading, value, "used-by needs call and arg");
    return r == 0 ? take_arg(reading, use, find_key(value, "arg")->child) : r;
}

static int take_pick(struct reading *reading, const struct hinttree_node *value)
{
    const struct rule_pick *pick = &reading->rule->pick;
    int r = take_map(reading, value);

    /* `size: ">=0"` and `inside: ""` restrict nothing either. */
    if (r == 0 && pick->site_count == 0 && pick->size_lo == 0 && pick->size_hi == UINT64_MAX
            && pick->inside[0] == '\0')
        return hintfile_refuse(reading, value,
                "pick names no site, size or anchor: it would match every allocation");
    return r;
}

/* ---- when, expect ---- */

static int take_when_anchor(struct reading *reading, const struct hinttree_node *value)
{
    int r = take_glob(reading, value);

    return r == 0 && value->length == 0
            ? hintfile_refuse(reading, value, "%s is empty", reading->key->name)
            : r;
}

/* {call, inside} or {mark, edge} */
static int take_event(struct reading *reading, const struct hinttree_node *value)
{
    static const struct key event = {.name = "event", .map = IN_EVENT};
    int r;

    reading->key = &event;
    r = take_map(reading, value);
    if (r < 0)
        return r;
    if (!find_key(value, "call") == !find_key(value, "mark"))
        return hintfile_refuse(reading, value, "an event needs call or mark");
    if (find_key(value, "call") ? find_key(value, "edge") : find_key(value, "inside"))
        return hintfile_refuse(reading, value, "inside is of a call, edge of a mark");
    if (find_key(value, "mark") && !find_key(value, "edge"))
        return hintfile_refuse(reading, value, "mark needs edge");
    if (find_key(value, "call"))
        reading->when->kind = EDGE_CALL;
    return 0;
}

/* An event that the file names, or one written here. */
static int take_when_event(struct reading *reading, const struct hinttree_node *value)
{
    const struct hinttree_node *named;

    reading->when->count = 1;
    if (value->kind != HINTTREE_SCALAR)
        return take_event(reading, value);
    named = reading->events ? find_key(reading->events, value->text) : NULL;
    return named ? take_event(reading, named->child)
                 : hintfile_refuse(reading, value, "events has no '%.60s'", value->text);
}

static int take_when_launch(struct reading *reading, const struct hinttree_node *value)
{
    reading->when->count = 1;
    reading->when->kind = EDGE_LAUNCH;
    return take_when_anchor(reading, value);
}

static int take_when_free(struct reading *reading, const struct hinttree_node *value)
{
    reading->when->count = 1;
    reading->when->kind = EDGE_FREE;
    return take_when_anchor(reading, value); /* find_freed resolves the hint */
}

static int take_when_count(struct reading *reading, const struct hinttree_node *value)
{
    uint64_t count;

    if (!scan_whole(value->text, 1, UINT32_MAX, &count))
        return hintfile_refuse(reading, value, "count must be a number from 1");
    reading->when->count = (uint32_t)count;
    return 0;
}

/* `count` and `from` may precede their event. */
static int check_when(const struct reading *reading, const struct hinttree_node *value)
{
    static const char *const triggers[] = {"anchor", "event", "launch", "free-of"};
    const char *name = reading->when == &reading->rule->when ? "when" : "else";
    size_t stated = 0;

    for (size_t i = 0; i < sizeof triggers / sizeof triggers[0]; i++)
        stated += find_key(value, triggers[i]) != NULL;
    if (stated != 1)
        return hintfile_refuse(
                reading, value, "%s needs one of anchor, event, launch and free-of", name);
    if (!find_key(value, "anchor") == (find_key(value, "edge") != NULL))
        return hintfile_refuse(reading, value, "%s needs anchor and edge", name);
    if (find_key(value, "anchor") && (find_key(value, "count") || find_key(value, "from")))
        return hintfile_refuse(reading, value, "count and from are of an event, not of an anchor");
    return 0;
}

static int take_when(struct reading *reading, const struct hinttree_node *value)
{
    const struct hinttree_node *count = find_key(value, "count");
    int r;

    reading->when = field_of(reading);
    r = take_map(reading, value);
    if (r == 0)
        r = check_when(reading, value);
    return r == 0 && count ? take_when_count(reading, count->child) : r;
}

/* Sets the default of `from`: the use that the pick names, if any. */
static int finish_when(struct reading *reading, const struct hinttree_node *item, const char *name)
{
    const struct hinttree_node *value = find_key(item, name);
    const struct hinttree_node *from = value ? find_key(value->child, "from") : NULL;
    bool is_used = reading->rule->pick.use.call > 0;
    bool is_hold = reading->rule->action == ACTION_HOLD;

    if (!value || reading->when->count == 0)
        return 0;
    if (!from)
        reading->when->from = is_hold ? RULE_FROM_FREE : is_used ? RULE_FROM_USE : RULE_FROM_ALLOC;
    else if (is_hold != (reading->when->from == RULE_FROM_FREE))
        return hintfile_refuse(reading, from->child,
                is_hold ? "a hold counts from the free" : "from free needs do: hold");
    else if (!is_hold && is_used != (reading->when->from == RULE_FROM_USE))
        return hintfile_refuse(reading, from->child,
                is_used ? "with used-by in pick it counts from the use"
                        : "from use needs used-by in pick");
    return 0;
}

/* An expectation of nothing would never be judged: only instances with a match are. */
static int check_range(const struct reading *reading, const struct hinttree_node *value,
        const struct rule_range *range)
{
    if (range->lo > range->hi)
        return hintfile_refuse(reading, value, "the range of %s is empty", reading->key->name);
    return range->hi ? 0 : hintfile_refuse(reading, value, "%s must not be 0", reading->key->name);
}

/* int | "lo..hi" */
static int take_count_range(struct reading *reading, const struct hinttree_node *value)
{
    struct rule_range *range = field_of(reading);

    if (!scan_range(value->text, scan_number, &range->lo, &range->hi))
        return hintfile_refuse(
                reading, value, "%s must be a number or \"low..high\"", reading->key->name);
    return check_range(reading, value, range);
}

static int take_size_range(struct reading *reading, const struct hinttree_node *value)
{
    struct rule_range *range = field_of(reading);

    if (!scan_sizes(value->text, &range->lo, &range->hi))
        return hintfile_refuse(reading, value, "%s must be a size, \"low..high\" or \">=size\"",
                reading->key->name);
    return check_range(reading, value, range);
}

/* ---- evict ---- */

/* 1% to 100%. false = none. */
static bool scan_percent(const char *text, uint32_t *ret_percent)
{
    uint64_t percent;

    if (!scan_number(&text, &percent) || strcmp(text, "%") != 0 || percent == 0 || percent > 100)
        return false;
    *ret_percent = (uint32_t)percent;
    return true;
}

static int take_cap(struct reading *reading, const struct hinttree_node *value)
{
    int r = take_map(reading, value);

    return r == 0 && !find_key(value, "device")
            ? hintfile_refuse(reading, value, "cap needs device")
            : r;
}

static int take_cap_device(struct reading *reading, const struct hinttree_node *value)
{
    struct rule_evict *evict = &reading->rule->evict;
    const char *at = value->text;

    if (scan_percent(at, &evict->cap_percent))
        return 0;
    return scan_size(&at, &evict->cap) && *at == '\0' && evict->cap > 0
            ? 0
            : hintfile_refuse(reading, value,
                    "device must be a size from 1, or a percentage from 1%% to 100%%");
}

static int take_warmup(struct reading *reading, const struct hinttree_node *value)
{
    return scan_percent(value->text, field_of(reading))
            ? 0
            : hintfile_refuse(reading, value, "%s must be a percentage from 1%% to 100%%",
                    reading->key->name);
}

/* 0 would mean no budget. */
static int take_budget(struct reading *reading, const struct hinttree_node *value)
{
    const uint64_t *budget = field_of(reading);
    int r = take_size(reading, value);

    return r == 0 && *budget == 0
            ? hintfile_refuse(reading, value, "%s must not be 0", reading->key->name)
            : r;
}

static int take_instances(struct reading *reading, const struct hinttree_node *value)
{
    uint64_t count = UINT32_MAX;
    uint32_t instances;

    if (strcmp(value->text, "always") != 0 && !scan_whole(value->text, 0, UINT32_MAX - 1, &count))
        return hintfile_refuse(
                reading, value, "%s must be a number of instances, or always", reading->key->name);
    instances = (uint32_t)count;
    memcpy(field_of(reading), &instances, sizeof instances);
    return 0;
}

static int take_prefetch(struct reading *reading, const struct hinttree_node *value)
{
    uint64_t calls;

    if (!scan_whole(value->text, 0, HINTFILE_ORDER_MAX, &calls))
        return hintfile_refuse(reading, value, "%s must be a number of calls, at most %u",
                reading->key->name, HINTFILE_ORDER_MAX);
    reading->rule->evict.prefetch = (uint32_t)calls;
    return 0;
}

static int take_use_of(
        const struct reading *reading, const struct hinttree_node *item, uint32_t *ret_block)
{
    uint64_t block;

    if (!scan_whole(item->text, 0, HINTFILE_ORDER_MAX - 1, &block))
        return hintfile_refuse(reading, item,
                "a block number is 0 for the first block, and below %u", HINTFILE_ORDER_MAX);
    *ret_block = (uint32_t)block;
    return 0;
}

/* learn, or a list. */
static int take_order(struct reading *reading, const struct hinttree_node *value)
{
    struct rule_evict *evict = &reading->rule->evict;
    uint32_t count = 0;
    int r = 0;

    if (strcmp(value->text, "learn") == 0)
        return 0;
    if (value->kind != HINTTREE_LIST || !value->child)
        return hintfile_refuse(reading, value, "order must be learn or a list of block numbers");
    for (const struct hinttree_node *item = value->child; item; item = item->next)
        if (++count > HINTFILE_ORDER_MAX)
            return hintfile_refuse(reading, item, "more than %u uses in order", HINTFILE_ORDER_MAX);
    reading->words->order = calloc(count, sizeof *reading->words->order);
    if (!reading->words->order)
        return no_memory(reading);
    evict->order = reading->words->order;
    for (const struct hinttree_node *item = value->child; r == 0 && item; item = item->next)
        r = take_use_of(reading, item, &reading->words->order[evict->order_count++]);
    return r;
}

/* ---- one hint ---- */

static int take_id(struct reading *reading, const struct hinttree_node *value)
{
    int r = hintfile_take_text(reading, value);

    if (r == 0 && !hintwords_is_id(reading->rule->id))
        return hintfile_refuse(reading, value, "an id is letters, digits, '-', '_' and '.'");
    return r;
}

static bool goes_with(const struct key *key, enum action action)
{
    return key->with == 0 || key->with >> action & 1;
}

/* Reports keys that are missing, or that have no effect with the hint's action. */
static int check_keys(const struct reading *reading, const struct hinttree_node *item)
{
    static const char *const needed[] = {"pick", "when", "of"};
    enum action action = reading->rule->action;

    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
        const struct key *row = find_row(IN_HINT, needed[i]);

        if (goes_with(row, action) && !find_key(item, needed[i]))
            return hintfile_refuse(reading, item, "a hint needs '%s'", needed[i]);
    }
    for (const struct hinttree_node *key = item->child; key; key = key->next)
        if (!goes_with(find_row(IN_HINT, key->text), action))
            return hintfile_refuse(reading, key, "'%s' says nothing with do: %s", key->text,
                    hintwords_action(action));
    return 0;
}

/* A block is passed to a call only after its allocation, which is when an action without a `when`,
 * or EVICT, is decided. */
static int check_use(const struct reading *reading, const struct hinttree_node *item)
{
    const struct rule *rule = reading->rule;

    if (rule->pick.use.call == 0 || action_releases(rule->action) || rule->action == ACTION_HOLD)
        return 0;
    return hintfile_refuse(reading, find_key(find_key(item, "pick")->child, "used-by"),
            "'used-by' says nothing with do: %s%s", hintwords_action(rule->action),
            rule->action == ACTION_EVICT ? ", whose blocks are placed when they are made" : "");
}

/* Steps begin and blocks come in only at edges of anchors; only these actions allow a point. */
static int check_edge(
        const struct reading *reading, const struct hinttree_node *item, const char *name)
{
    const struct hinttree_node *value = find_key(item, name);
    bool moves = reading->rule->action == ACTION_EVICT || reading->rule->action == ACTION_RESTORE;

    if (!value)
        return 0;
    if (moves && !find_key(value->child, "anchor"))
        return hintfile_refuse(reading, value->child, "with do: %s when needs anchor and edge",
                hintwords_action(reading->rule->action));
    if (!moves && reading->when->count == 0 && reading->when->kind == EDGE_MARK)
        return hintfile_refuse(
                reading, find_key(value->child, "edge")->child, "edge must be enter or exit");
    return 0;
}

static int check_cap(const struct reading *reading, const struct hinttree_node *item)
{
    const struct rule_evict *evict = &reading->rule->evict;

    return reading->rule->action == ACTION_EVICT && evict->policy == RULE_POLICY_AUTO
                    && !find_key(item, "cap")
            ? hintfile_refuse(
                    reading, item, "a hint that evicts needs 'cap', or policy: cpu or cuda")
            : 0;
}

/* Checks a release that waits for less than all streams. */
static int check_wait(const struct reading *reading, const struct hinttree_node *item)
{
    const struct hinttree_node *key = find_key(item, "wait");

    if (reading->rule->wait != RULE_WAIT_EVENT)
        return 0;
    if (reading->rule->when.kind != EDGE_CALL)
        return hintfile_refuse(
                reading, key->child, "wait: event needs the event of a call in when");
    return find_key(item, "proof")
            ? 0
            : hintfile_refuse(reading, key->child,
                    "wait: event needs proof: why nothing uses the memory once that call is done");
}

static int check_moments(struct reading *reading, const struct hinttree_node *item)
{
    static const char *const names[] = {"when", "else"};
    struct rule_when *const moments[] = {&reading->rule->when, &reading->rule->otherwise};
    int r = 0;

    for (size_t i = 0; r == 0 && i < sizeof names / sizeof names[0]; i++) {
        reading->when = moments[i];
        r = check_edge(reading, item, names[i]);
        if (r == 0)
            r = finish_when(reading, item, names[i]);
    }
    return r;
}

static int take_hint(struct reading *reading, const struct hinttree_node *item)
{
    static const struct key hint = {.name = "hint", .map = IN_HINT};
    static const char *const needed[] = {"id", "do"};
    struct hintfile *file = reading->file;
    int r;

    reading->rule = &file->rule[file->rule_count];
    reading->words = &file->words[file->rule_count];
    *reading->rule = (struct rule){
            .mode = file->mode,
            .min_size = file->min_size,
            .canary = file->canary,
            .keep_content = file->keep_content,
            .backend = file->backend,
            .line = item->line,
            .column = item->column,
            .pick = {.size_hi = UINT64_MAX, .nth_hi = UINT32_MAX, .device = -1},
            .evict = RULE_EVICT_DEFAULT,
    };
    reading->rule->evict.host_budget = file->host_budget;
    file->rule_count++; /* hintfile_free frees its words from here on */
    reading->key = &hint;
    r = take_map(reading, item);
    for (size_t i = 0; r == 0 && i < sizeof needed / sizeof needed[0]; i++)
        if (!find_key(item, needed[i]))
            return hintfile_refuse(reading, item, "a hint needs '%s'", needed[i]);
    if (r == 0)
        r = check_keys(reading, item);
    if (r == 0)
        r = check_moments(reading, item);
    if (r == 0)
        r = check_use(reading, item);
    if (r == 0)
        r = check_cap(reading, item);
    return r == 0 ? check_wait(reading, item) : r;
}

static int by_id(const void *left, const void *right)
{
    const struct rule *const *a = left;
    const struct rule *const *b = right;
    int order = strcmp((*a)->id, (*b)->id);

    return order ? order : ((*a)->line > (*b)->line) - ((*a)->line < (*b)->line);
}

/* Ids name hints in reports, receipts and violations: each must be unique. */
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
            r = hintfile_refuse(reading, &at, "the id '%s' is used twice (first on line %u)",
                    order[i]->id, order[i - 1]->line);
    }
    free(order);
    return r;
}

/* Finds the hint that `value` names, anywhere in the file. */
static int hintfile_find_hint(
        const struct reading *reading, const struct hinttree_node *value, int *ret_rule)
{
    const struct hintfile *file = reading->file;
    size_t i = 0;

    while (i < file->rule_count && strcmp(file->rule[i].id, value->text) != 0)
        i++;
    *ret_rule = (int)i;
    return i < file->rule_count
            ? 0
            : hintfile_refuse(reading, value, "there is no hint '%.60s'", value->text);
}

/* Resolves free-of. `item`: of the hint; `key`: when or else. */
static int find_freed(const struct reading *reading, const struct hinttree_node *item,
        const char *key, struct rule_when *when)
{
    const struct hinttree_node *value;
    enum action action;
    int r;

    if (when->kind != EDGE_FREE)
        return 0;
    value = find_key(find_key(item, key)->child, "free-of")->child;
    r = hintfile_find_hint(reading, value, &when->rule);
    if (r < 0)
        return r;
    action = reading->file->rule[when->rule].action;
    return action_releases(action) || action == ACTION_HOLD
            ? 0
            : hintfile_refuse(
                    reading, value, "hint '%s' follows no block to its free", value->text);
}

/* Resolves `of`. A restore has the mode of the hint that it restores. */
static int find_evicted(
        const struct reading *reading, const struct hinttree_node *item, struct rule *rule)
{
    const struct hinttree_node *value;
    int r;

    if (rule->action != ACTION_RESTORE)
        return 0;
    value = find_key(item, "of")->child;
    r = hintfile_find_hint(reading, value, &rule->of);
    if (r < 0)
        return r;
    if (reading->file->rule[rule->of].action != ACTION_EVICT)
        return hintfile_refuse(reading, value, "hint '%s' evicts nothing", value->text);
    rule->mode = reading->file->rule[rule->of].mode;
    return 0;
}

static int hintfile_find_named(const struct reading *reading, const struct hinttree_node *hints)
{
    struct rule *rule = reading->file->rule;
    int r = 0;

    for (const struct hinttree_node *item = hints->child; r == 0 && item; item = item->next) {
        r = find_freed(reading, item, "when", &rule->when);
        if (r == 0)
            r = find_freed(reading, item, "else", &rule->otherwise);
        if (r == 0)
            r = find_evicted(reading, item, rule);
        rule++;
    }
    return r;
}

static int hintfile_take_hints(struct reading *reading, const struct hinttree_node *value)
{
    struct hintfile *file = reading->file;
    size_t count = 0;
    int r;

    if (value->kind != HINTTREE_LIST || !value->child)
        return hintfile_refuse(reading, value, "hints must be a list of at least one hint");
    for (const struct hinttree_node *item = value->child; item; item = item->next)
        if (++count > HINTFILE_HINTS_MAX)
            return hintfile_refuse(reading, item, "more than %u hints", HINTFILE_HINTS_MAX);
    file->rule = calloc(count, sizeof *file->rule);
    file->words = calloc(count, sizeof *file->words);
    if (!file->rule || !file->words)
        return no_memory(reading);
    for (const struct hinttree_node *item = value->child; item; item = item->next) {
        r = take_hint(reading, item);
        if (r < 0)
            return r;
    }
    r = check_ids(reading);
    return r == 0 ? hintfile_find_named(reading, value) : r;
}

/* ---- the file ---- */

static int take_version(struct reading *reading, const struct hinttree_node *value)
{
    if (strcmp(value->text, "1") != 0)
        return hintfile_refuse(reading, value,
                "version '%.20s' is not one that this kedge reads (1)", value->text);
    return 0;
}

static int take_made_from(struct reading *reading, const struct hinttree_node *value)
{
    struct hintfile *file = reading->file;
    size_t count = 0;

    if (value->kind != HINTTREE_LIST)
        return hintfile_refuse(reading, value, "from must be a list of files");
    for (const struct hinttree_node *item = value->child; item; item = item->next)
        count++;
    file->made_from = calloc(count + 1, sizeof *file->made_from);
    if (!file->made_from)
        return no_memory(reading);
    for (const struct hinttree_node *item = value->child; item; item = item->next) {
        int r = keep_text(reading, item, &file->made_from[file->made_from_count], "from");

        if (r < 0)
            return r;
        file->made_from_count++;
    }
    return 0;
}

static int take_build(struct reading *reading, const struct hinttree_node *value)
{
    struct hintfile *file = reading->file;

    if (value->kind != HINTTREE_MAP)
        return hintfile_refuse(reading, value, "build must be a mapping of file name to build-id");
    for (const struct hinttree_node *key = value->child; key; key = key->next) {
        struct hintfile_build *build = &file->build[file->build_count];
        int r;

        if (file->build_count == HINTFILE_BUILDS_MAX)
            return hintfile_refuse(
                    reading, key, "more than %u modules in build", HINTFILE_BUILDS_MAX);
        r = hintfile_copy_text(reading, key, build->soname, sizeof build->soname, "a file name");
        if (r == 0)
            r = hintfile_copy_text(reading, key->child, build->id, sizeof build->id, "a build-id");
        if (r < 0)
            return r;
        if (build->id[0] == '\0' || build->id[strspn(build->id, HEX_DIGITS)] != '\0')
            return hintfile_refuse(reading, key->child, "a build-id is hex digits, lower case");
        file->build_count++;
    }
    return 0;
}

/* In the order of enum rule_backend; of enum hint_mode. */
#define BACKEND_WORDS .words = LIST("unmap", "alias"), .later = LIST("managed"), .first = RULE_UNMAP
#define MODE_WORDS    .words = LIST(HINTWORDS_MODES), .first = HINT_SHADOW
/* Only the default word is supported. */
#define WAIT_WORDS  .words = LIST("all-streams"), .later = LIST("touched", "event")
#define TOUCH_WORDS .words = LIST("fail"), .later = LIST("restore", "ignore")

/* Without the help texts. */
static const struct key keys[] = {
#define HINTKEY(map_, key_, form_, initial_, help_, ...) \
    {.in = IN_##map_, .name = key_, __VA_ARGS__},
#define HINTKEY_LATER(map_, ...) {.in = IN_##map_, .later = LIST(__VA_ARGS__)},
#include "tracker/hints/hintkeys.def"
};

/* NULL: no such key. */
static const struct key *find_row(enum map in, const char *name)
{
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (keys[i].in == in
                && (keys[i].name ? strcmp(keys[i].name, name) == 0
                                 : find_word(keys[i].later, name) >= 0))
            return &keys[i];
    return NULL;
}

/* Each is checked, even if no hint names it. */
static int take_events(struct reading *reading, const struct hinttree_node *value)
{
    struct rule_when event;
    int r = 0;

    if (value->kind != HINTTREE_MAP)
        return hintfile_refuse(reading, value, "events must be a mapping of name to event");
    for (const struct hinttree_node *key = value->child; r == 0 && key; key = key->next) {
        event = (struct rule_when){.count = 1};
        reading->when = &event;
        r = take_event(reading, key->child);
    }
    reading->events = value;
    return r;
}

static int take_file(struct reading *reading, const struct hinttree_node *root)
{
    static const struct key the_file = {.name = "the file", .map = IN_FILE};
    static const struct key defaults = {.name = "defaults", .map = IN_DEFAULTS};
    const struct hinttree_node *key;
    int r = 0;

    if (root->kind != HINTTREE_MAP)
        return hintfile_refuse(
                reading, root, "a hint file is a mapping that begins with kedge-hints: 1");
    key = find_key(root, "kedge-hints");
    if (!key)
        return hintfile_refuse(reading, root, "no kedge-hints: 1 in it");
    r = take_version(reading, key->child);
    key = find_key(root, "defaults");
    reading->key = &defaults;
    if (r == 0 && key)
        r = take_map(reading, key->child);
    key = find_key(root, "events");
    if (r == 0 && key)
        r = take_events(reading, key->child);
    reading->key = &the_file;
    if (r == 0)
        r = take_map(reading, root);
    if (r == 0 && !find_key(root, "hints"))
        r = hintfile_refuse(reading, root, "no hints in it");
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
    struct hinttree_node *root = NULL;
    struct hinttree_node where = {0};
    const char *what = "";
    int r;

    if (ret_error)
        *ret_error = (struct hintfile_error){{0}, 0, 0};
    if (length > HINTFILE_BYTES_MAX)
        return hintfile_fail(ret_error, name, -EFBIG, "is too large");
    reading.file = calloc(1, sizeof *reading.file);
    if (!reading.file)
        return no_memory(&reading);
    reading.file->mode = HINT_SHADOW;
    reading.file->min_size = HINTFILE_MIN_SIZE;
    r = hinttree_read(bytes, length, &root, &where, &what);
    if (r == 0)
        r = take_file(&reading, root);
    else
        r = r == -ENOMEM ? no_memory(&reading) : hintfile_refuse(&reading, &where, "%s", what);
    hinttree_free(root);
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
    if (r < 0)
        return hintfile_fail(ret_error, path, r, what);
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
        for (uint32_t s = 0; s < RULE_SITES_MAX; s++)
            free(file->words[i].site[s]);
        free(file->words[i].order);
    }
    for (size_t i = 0; i < file->made_from_count; i++)
        free(file->made_from[i]);
    free(file->made_from);
    free(file->made_by);
    free(file->made_on);
    free(file->predicted_rank);
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
