/* SPDX-License-Identifier: MIT */
#include "tracker/hints/hintwrite.h"

#include "alloc/base/wildcard.h"
#include "tracker/base/utf8.h"
#include "tracker/hints/pysite.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Writes a character within double quotes. Characters that YAML forbids are escaped, a byte that is
 * not UTF-8 becomes another character. Returns the number of bytes read. */
static size_t put_char(FILE *out, const unsigned char *at)
{
    uint32_t code;
    size_t length = utf8_length(at, &code);

    if (*at == '"' || *at == '\\')
        (void)fprintf(out, "\\%c", *at);
    else if (utf8_printable(at))
        (void)fprintf(out, "%.*s", (int)length, (const char *)at);
    else if (*at < 0x20 || *at == 0x7f)
        (void)fprintf(out, "\\x%02x", *at);
    else
        (void)fprintf(out, "\\U%08x", length ? code : *at);
    return length ? length : 1;
}

static void put_quoted(FILE *out, const char *text)
{
    (void)fputs("\"", out);
    for (const unsigned char *at = (const unsigned char *)text; *at;)
        at += put_char(out, at);
    (void)fputs("\"", out);
}

/* Writes a glob; a byte that is not UTF-8 is written as its number, which hintfile.c reads. */
static void put_glob(FILE *out, const char *glob)
{
    const unsigned char *at = (const unsigned char *)glob;

    (void)fputs("\"", out);
    while (*at) {
        bool is_escaped = *at == '\\' && at[1];
        uint32_t code;

        at += is_escaped;
        if (utf8_length(at, &code) == 0) {
            (void)fprintf(out, "\\\\x%02x", *at++);
            continue;
        }
        if (is_escaped && wildcard_is_special((char)*at))
            (void)fputs("\\\\", out);
        at += put_char(out, at);
    }
    (void)fputs("\"", out);
}

static void put_comment(FILE *out, const char *indent, const char *text)
{
    if (!text)
        return;
    while (*text) {
        size_t length = strcspn(text, "\r\n");

        (void)fprintf(out, "%s#", indent);
        if (length > 0)
            (void)fputs(" ", out);
        for (size_t i = 0; i < length; i++)
            (void)fprintf(out, "%c", text[i] >= 0x20 && text[i] < 0x7f ? text[i] : '?');
        (void)fputs("\n", out);
        text += length;
        while (*text == '\r' || *text == '\n')
            text++;
    }
}

/* Writes `before`: "text", unless the text is empty. */
static void hintwrite_put_text(FILE *out, const char *before, const char *text, bool is_glob)
{
    if (!text || (is_glob && !text[0]))
        return;
    (void)fprintf(out, "%s: ", before);
    (is_glob ? put_glob : put_quoted)(out, text);
    (void)fputs("\n", out);
}

/* Begins the next key of a mapping in braces. */
static void put_key(FILE *out, const char **io_comma, const char *key)
{
    (void)fprintf(out, "%s%s: ", *io_comma, key);
    *io_comma = ", ";
}

#define SIZE_TEXT_MAX 64

/* The exact size, in the largest unit for which three digits after the point suffice. */
static const char *format_size(uint64_t bytes, char ret_text[static SIZE_TEXT_MAX])
{
    static const char *const units[] = {"KiB", "MiB", "GiB"};
    int digits = 3;

    for (int i = 2; i >= 0; i--) {
        uint64_t unit = UINT64_C(1) << (10 * (i + 1)), part = bytes % unit * 1000 / unit;

        if (bytes < unit || bytes % unit * 1000 % unit != 0)
            continue;
        for (; digits > 1 && part % 10 == 0; digits--)
            part /= 10;
        if (part == 0)
            (void)snprintf(ret_text, SIZE_TEXT_MAX, "%" PRIu64 "%s", bytes / unit, units[i]);
        else
            (void)snprintf(ret_text, SIZE_TEXT_MAX, "%" PRIu64 ".%0*" PRIu64 "%s", bytes / unit,
                    digits, part, units[i]);
        return ret_text;
    }
    (void)snprintf(ret_text, SIZE_TEXT_MAX, "%" PRIu64, bytes);
    return ret_text;
}

static void put_range(
        FILE *out, const char **io_comma, const char *key, const struct rule_range *range)
{
    const char *quote = range->lo == range->hi ? "" : "\"";
    char text[HINTWORDS_RANGE_MAX];

    if (range->hi == 0)
        return;
    put_key(out, io_comma, key);
    (void)hintwords_range(range, text);
    (void)fprintf(out, "%s%s%s", quote, text, quote);
}

static void hintwrite_put_number(FILE *out, const char **io_comma, const char *key, uint64_t number)
{
    put_range(out, io_comma, key, &(struct rule_range){number, number});
}

/* Writes one size, a range, or ">=" for a range without an end. */
static void put_sizes(FILE *out, const char **io_comma, const char *key, uint64_t lo, uint64_t hi)
{
    char first[SIZE_TEXT_MAX], last[SIZE_TEXT_MAX];

    put_key(out, io_comma, key);
    (void)format_size(lo, first);
    if (lo == hi)
        (void)fputs(first, out);
    else if (hi == UINT64_MAX)
        (void)fprintf(out, "\">=%s\"", first);
    else
        (void)fprintf(out, "\"%s..%s\"", first, format_size(hi, last));
}

static void put_made(FILE *out, const struct hintfile *file)
{
    const char *comma = "";

    if (!file->made_by && !file->made_on && file->made_from_count == 0)
        return;
    (void)fputs("made: {", out);
    if (file->made_by) {
        put_key(out, &comma, "by");
        put_quoted(out, file->made_by);
    }
    if (file->made_from_count > 0) {
        put_key(out, &comma, "from");
        for (size_t i = 0; i < file->made_from_count; i++) {
            (void)fputs(i ? ", " : "[", out);
            put_quoted(out, file->made_from[i]);
        }
        (void)fputs("]", out);
    }
    if (file->made_on) {
        put_key(out, &comma, "on");
        put_quoted(out, file->made_on);
    }
    (void)fputs("}\n", out);
}

static void put_predicted(FILE *out, const struct hintfile *file)
{
    const char *comma = "";

    if (file->predicted_max == 0 && file->predicted_reserved == 0)
        return;
    (void)fputs("predicted: {", out);
    if (file->predicted_rank) {
        put_key(out, &comma, "rank");
        put_quoted(out, file->predicted_rank);
    }
    hintwrite_put_number(out, &comma, "max-bytes", file->predicted_max);
    hintwrite_put_number(out, &comma, "reserved-bytes", file->predicted_reserved);
    (void)fputs("}\n", out);
}

static void put_program(FILE *out, const struct hintfile *file)
{
    if (!file->argv[0] && !file->rank[0] && file->build_count == 0
            && file->on_mismatch == HINTFILE_MISMATCH_SHADOW)
        return;
    (void)fputs("program:\n", out);
    hintwrite_put_text(out, "  argv", file->argv, true);
    hintwrite_put_text(out, "  rank", file->rank, true);
    if (file->build_count > 0)
        (void)fputs("  build:\n", out);
    for (size_t i = 0; i < file->build_count; i++) {
        (void)fputs("    ", out);
        put_quoted(out, file->build[i].soname);
        (void)fprintf(out, ": \"%s\"\n", file->build[i].id);
    }
    (void)fprintf(out, "  on-mismatch: %s\n",
            file->on_mismatch == HINTFILE_MISMATCH_REFUSE ? "refuse" : "shadow");
}

static void put_sites(FILE *out, const struct rule_pick *pick, const struct hintfile_words *words)
{
    for (uint32_t i = 0; i < pick->site_count; i++) {
        (void)fputs(i ? ", " : "[", out);
        if (pick->python >> i & 1)
            put_quoted(out, words->site[i]);
        else
            (void)fprintf(out, "\"c:%016" PRIx64 "\"", pick->site[i]);
    }
    (void)fputs("]", out);
}

/* Writes a call in an anchor, into an open mapping. */
static void hintwrite_put_call(FILE *out, const char **io_comma, uint32_t call, const char *inside)
{
    put_key(out, io_comma, "call");
    (void)fputs(hintwords_calls[call].name, out);
    if (inside[0]) {
        put_key(out, io_comma, "inside");
        put_glob(out, inside);
    }
}

static void put_use(FILE *out, const char **io_comma, const struct rule_use *use)
{
    const char *comma = "";

    if (use->call == 0)
        return;
    put_key(out, io_comma, "used-by");
    (void)fputs("{", out);
    hintwrite_put_call(out, &comma, use->call, use->inside);
    put_key(out, &comma, "arg");
    (void)fprintf(out, "%s}", hintwords_calls[use->call].buffer[use->arg]);
}

static void put_pick(FILE *out, const struct rule_pick *pick, const struct hintfile_words *words)
{
    const char *comma = "";

    (void)fputs("    pick: {", out);
    if (pick->site_count > 0) {
        put_key(out, &comma, "site");
        put_sites(out, pick, words);
    }
    if (pick->size_lo > 0 || pick->size_hi != UINT64_MAX)
        put_sizes(out, &comma, "size", pick->size_lo, pick->size_hi);
    if (pick->inside[0]) {
        put_key(out, &comma, "inside");
        put_glob(out, pick->inside);
    }
    put_key(out, &comma, "nth");
    if (pick->nth_hi == UINT32_MAX)
        (void)fputs("all", out);
    else if (pick->nth_lo == pick->nth_hi)
        (void)fprintf(out, "%u", pick->nth_lo);
    else
        (void)fprintf(out, "\"%u..%u\"", pick->nth_lo, pick->nth_hi);
    if (pick->device >= 0)
        (void)fprintf(out, ", device: %d", pick->device);
    if (pick->stream)
        (void)fprintf(out, ", stream: %" PRIu32, pick->stream - 1);
    if (pick->thread == RULE_THREAD_MAIN)
        (void)fputs(", thread: main", out);
    if (pick->rank[0]) {
        put_key(out, &comma, "rank");
        put_glob(out, pick->rank);
    }
    put_use(out, &comma, &pick->use);
    (void)fputs("}\n", out);
}

static void put_anchor(FILE *out, const char *key, const struct rule_when *when)
{
    static const char *const edges[] = {"enter", "exit", "point"};

    (void)fprintf(out, "{%s: ", key);
    put_glob(out, when->anchor);
    (void)fprintf(out, ", edge: %s}", edges[when->kind <= EDGE_MARK ? when->kind : EDGE_MARK]);
}

static void hintwrite_put_event(FILE *out, const struct rule_when *when)
{
    static const char *const froms[] = {"alloc", "use", "free"};
    const char *comma = "";

    if (when->kind == EDGE_LAUNCH || when->kind == EDGE_FREE) {
        (void)fputs(when->kind == EDGE_FREE ? "{free-of: " : "{launch: ", out);
        (when->kind == EDGE_LAUNCH ? put_glob : put_quoted)(out, when->anchor);
    } else if (when->kind == EDGE_CALL) {
        (void)fputs("{event: {", out);
        hintwrite_put_call(out, &comma, when->call, when->anchor);
        (void)fputs("}", out);
    } else {
        (void)fputs("{event: ", out);
        put_anchor(out, "mark", when);
    }
    (void)fprintf(out, ", count: %" PRIu32 ", from: %s}", when->count, froms[when->from]);
}

static void put_when(FILE *out, const char *key, const struct rule_when *when)
{
    if (!rule_is_set(when))
        return;
    (void)fprintf(out, "    %s: ", key);
    if (when->count > 0)
        hintwrite_put_event(out, when);
    else
        put_anchor(out, "anchor", when);
    (void)fputs("\n", out);
}

static void put_expect(FILE *out, const struct rule *rule, uint64_t saves)
{
    const char *comma = "";

    if (!rule_expects(rule) && saves == 0)
        return;
    (void)fputs("    expect: {", out);
    put_range(out, &comma, "count", &rule->expect.count);
    if (rule->expect.bytes.hi)
        put_sizes(out, &comma, "bytes", rule->expect.bytes.lo, rule->expect.bytes.hi);
    hintwrite_put_number(out, &comma, "saves", saves);
    (void)fputs("}\n", out);
}

static const char *backend_word(enum rule_backend backend)
{
    return backend == RULE_ALIAS ? "alias" : "unmap";
}

/* Writes a line of a hint. */
static void put_line(FILE *out, const char *key, const char *value)
{
    (void)fprintf(out, "    %s: %s\n", key, value);
}

static void put_cap(FILE *out, const struct rule_evict *evict)
{
    char size[SIZE_TEXT_MAX];

    if (evict->cap == 0 && evict->cap_percent == 0)
        return;
    if (evict->cap > 0)
        (void)fprintf(out, "    cap: {device: %s", format_size(evict->cap, size));
    else
        (void)fprintf(out, "    cap: {device: %" PRIu32 "%%", evict->cap_percent);
    (void)fputs(evict->less_other ? ", less: non-managed}\n" : "}\n", out);
}

static void put_order(FILE *out, const struct rule_evict *evict)
{
    if (evict->order_count == 0)
        return;
    for (uint32_t i = 0; i < evict->order_count; i++)
        (void)fprintf(out, "%s%" PRIu32, i ? ", " : "    order: [", evict->order[i]);
    (void)fputs("]\n", out);
}

/* In the order of the enums. */
static const char *const victims[] = {"farthest-next-use", "lru", "fifo"};
static const char *const backings[] = {"host-pinned", "host-mmap", "managed"};
static const char *const policies[] = {"auto", "cpu", "cuda"};

#define WORDS(list_) (sizeof(list_) / sizeof *(list_))

/* Writes the values that differ from the defaults. */
static void put_evict(FILE *out, const struct hintfile *file, const struct rule_evict *evict)
{
    const struct rule_evict usual = RULE_EVICT_DEFAULT;
    char size[SIZE_TEXT_MAX];

    put_cap(out, evict);
    put_order(out, evict);
    if (evict->victim != usual.victim)
        put_line(out, "victim", victims[evict->victim]);
    if (evict->cyclic != usual.cyclic)
        put_line(out, "cyclic", evict->cyclic ? "yes" : "no");
    if (evict->prefetch != usual.prefetch)
        (void)fprintf(out, "    prefetch: %" PRIu32 "\n", evict->prefetch);
    if (evict->backing != usual.backing)
        put_line(out, "backing", backings[evict->backing]);
    if (evict->clean != usual.clean)
        put_line(out, "clean", evict->clean ? "yes" : "no");
    if (evict->warmup_percent != usual.warmup_percent)
        (void)fprintf(out, "    warmup-cap: %" PRIu32 "%%\n", evict->warmup_percent);
    if (evict->host_budget != file->host_budget)
        put_line(out, "host-budget", format_size(evict->host_budget, size));
    if (evict->policy != usual.policy)
        put_line(out, "policy", policies[evict->policy]);
}

static void put_instances(FILE *out, const char *before, uint32_t instances, const char *after)
{
    if (instances == UINT32_MAX)
        (void)fprintf(out, "%salways%s", before, after);
    else
        (void)fprintf(out, "%s%" PRIu32 "%s", before, instances, after);
}

/* Writes the keys of a release. */
static void put_release(FILE *out, const struct hintfile *file, const struct rule *rule,
        const struct hintfile_words *words)
{
    char size[SIZE_TEXT_MAX];

    if (rule->wait == RULE_WAIT_EVENT)
        put_line(out, "wait", "event");
    if (rule->canary != file->canary)
        (void)fprintf(out, "    canary: 1/%u\n", rule->canary > 1 ? rule->canary : 1);
    if (rule->keep_content != file->keep_content)
        put_instances(out, "    keep-content: ", rule->keep_content, "\n");
    if (rule->action == ACTION_RELEASE && rule->evict.host_budget != file->host_budget)
        put_line(out, "host-budget", format_size(rule->evict.host_budget, size));
    if (rule->backend != file->backend)
        put_line(out, "backend", backend_word(rule->backend));
    put_expect(out, rule, words->saves);
}

/* Writes `when`, and the keys that go with it. */
static void put_moment(FILE *out, const struct hintfile *file, const struct rule *rule,
        const struct hintfile_words *words)
{
    char size[SIZE_TEXT_MAX];

    put_when(out, "when", &rule->when);
    put_when(out, "else", &rule->otherwise);
    if (rule->mode != file->mode && rule->action != ACTION_RESTORE)
        put_line(out, "mode", hintwords_mode(rule->mode));
    if (rule->min_size != file->min_size && action_unmaps(rule->action))
        put_line(out, "min-size", format_size(rule->min_size, size));
    if (action_releases(rule->action))
        put_release(out, file, rule, words);
    else if (rule->action == ACTION_EVICT)
        put_evict(out, file, &rule->evict);
}

static void hintwrite_put_hint(FILE *out, const struct hintfile *file, const struct rule *rule,
        const struct hintfile_words *words)
{
    put_comment(out, "  ", words->comment);
    hintwrite_put_text(out, "  - id", rule->id, false);
    put_line(out, "do", hintwords_action(rule->action));
    if (rule->action == ACTION_RESTORE)
        hintwrite_put_text(out, "    of", file->rule[rule->of].id, false);
    else
        put_pick(out, &rule->pick, words);
    if (rule_waits(rule))
        put_moment(out, file, rule, words);
    hintwrite_put_text(out, "    proof", words->proof, false);
    hintwrite_put_text(out, "    note", words->note, false);
}

static bool is_mode(enum hint_mode mode)
{
    return mode > HINT_OFF && mode < HINT_MODE_COUNT;
}

/* Does each Python call site have its text? */
static bool is_spelled(const struct rule_pick *pick, const struct hintfile_words *words)
{
    for (uint32_t i = 0; i < RULE_SITES_MAX && i < pick->site_count; i++) {
        uint64_t key = 0;

        if ((pick->python >> i & 1) == 0)
            continue;
        if (!words->site[i] || strlen(words->site[i]) >= PYSITE_TEXT_MAX
                || pysite_read(words->site[i], &key) || key != pick->site[i])
            return false;
    }
    return true;
}

/* Can the grammar express it? */
static bool is_when(const struct rule *rule, const struct rule_when *when)
{
    bool moves = rule->action == ACTION_EVICT || rule->action == ACTION_RESTORE;

    if (wildcard_is_cut(when->anchor))
        return false;
    if (when->count == 0)
        return when->anchor[0] && (moves ? when->kind <= EDGE_MARK : when->kind < EDGE_MARK);
    return !moves && (when->from == RULE_FROM_FREE) == (rule->action == ACTION_HOLD)
            && (when->kind == EDGE_CALL ? when->call > 0 && when->call < APICALL_COUNT
                                        : when->anchor[0] != '\0');
}

static bool is_order(const struct rule_evict *evict)
{
    if (evict->order_count > HINTFILE_ORDER_MAX || (evict->order_count > 0 && !evict->order))
        return false;
    for (uint32_t i = 0; i < evict->order_count; i++)
        if (evict->order[i] >= HINTFILE_ORDER_MAX)
            return false;
    return true;
}

static bool is_cap(const struct rule_evict *evict)
{
    if (evict->cap == 0 && evict->cap_percent == 0)
        return evict->policy != RULE_POLICY_AUTO && !evict->less_other;
    return evict->cap == 0 ? evict->cap_percent <= 100 : evict->cap_percent == 0;
}

static bool is_evict(const struct hintfile *file, const struct rule *rule)
{
    const struct rule_evict *evict = &rule->evict;

    return is_cap(evict) && is_order(evict) && evict->warmup_percent > 0
            && evict->warmup_percent <= 100 && evict->prefetch <= HINTFILE_ORDER_MAX
            && (evict->host_budget > 0 || file->host_budget == 0) && evict->victim < WORDS(victims)
            && evict->backing < WORDS(backings) && evict->policy < WORDS(policies)
            && rule->pick.use.call == 0 && !rule_is_set(&rule->otherwise);
}

static bool is_restore(const struct hintfile *file, const struct rule *rule)
{
    return rule->of >= 0 && (size_t)rule->of < file->rule_count
            && file->rule[rule->of].action == ACTION_EVICT && !rule_is_set(&rule->otherwise);
}

static bool is_pick(const struct rule_pick *pick, const struct hintfile_words *words)
{
    /* NaN-like ranges are empty, "nth: all" has no lower end, and a pick must restrict
     * something. */
    return (pick->use.call == 0
                   || (pick->use.call < APICALL_COUNT && pick->use.arg < APICALL_BUFFERS
                           && hintwords_calls[pick->use.call].buffer[pick->use.arg][0]))
            && pick->site_count <= RULE_SITES_MAX && pick->size_lo <= pick->size_hi
            && pick->stream <= UINT16_MAX && pick->nth_lo <= pick->nth_hi
            && (pick->nth_hi != UINT32_MAX || pick->nth_lo == 0)
            && (pick->site_count > 0 || pick->size_lo > 0 || pick->size_hi != UINT64_MAX
                    || pick->inside[0])
            && !wildcard_is_cut(pick->inside) && !wildcard_is_cut(pick->rank)
            && !wildcard_is_cut(pick->use.inside) && is_spelled(pick, words);
}

static bool is_writable(
        const struct hintfile *file, const struct rule *rule, const struct hintfile_words *words)
{
    return *hintwords_action(rule->action) && is_mode(rule->mode) && hintwords_is_id(rule->id)
            && (!rule_waits(rule) || is_when(rule, &rule->when))
            && (!rule_is_set(&rule->otherwise) || is_when(rule, &rule->otherwise))
            && (rule->wait != RULE_WAIT_EVENT || (rule->when.kind == EDGE_CALL && words->proof))
            && rule->expect.count.lo <= rule->expect.count.hi
            && rule->expect.bytes.lo <= rule->expect.bytes.hi
            && (rule->action != ACTION_EVICT || is_evict(file, rule))
            && (rule->action == ACTION_RESTORE ? is_restore(file, rule)
                                               : is_pick(&rule->pick, words));
}

/* A hint's texts for people; never NULL. */
static const struct hintfile_words *hintwrite_words_of(const struct hintfile *file, size_t hint)
{
    static const struct hintfile_words none;

    return file->words ? &file->words[hint] : &none;
}

int hintwrite_text(const struct hintfile *file, char **ret_text, size_t *ret_length)
{
    char size[SIZE_TEXT_MAX];
    FILE *out;

    if (file->rule_count > HINTFILE_HINTS_MAX)
        return -E2BIG;
    if (file->rule_count == 0 || !is_mode(file->mode) || wildcard_is_cut(file->argv)
            || wildcard_is_cut(file->rank))
        return -EINVAL;
    for (size_t i = 0; i < file->rule_count; i++)
        if (!is_writable(file, &file->rule[i], hintwrite_words_of(file, i)))
            return -EINVAL;
    *ret_text = NULL;
    out = open_memstream(ret_text, ret_length);
    if (!out)
        return -ENOMEM;
    (void)fprintf(out, "kedge-hints: %d\n", HINTFILE_VERSION);
    put_comment(out, "", file->comment);
    put_made(out, file);
    put_predicted(out, file);
    put_program(out, file);
    (void)fprintf(out, "defaults: {mode: %s, min-size: %s", hintwords_mode(file->mode),
            format_size(file->min_size, size));
    if (file->canary > 1)
        (void)fprintf(out, ", canary: 1/%u", file->canary);
    if (file->backend != RULE_UNMAP)
        (void)fprintf(out, ", backend: %s", backend_word(file->backend));
    if (file->keep_content > 0)
        put_instances(out, ", keep-content: ", file->keep_content, "");
    if (file->host_budget > 0)
        (void)fprintf(out, ", host-budget: %s", format_size(file->host_budget, size));
    (void)fprintf(out, "%s}\n", file->fallback == HINTFILE_FALLBACK_YES ? ", fallback: yes" : "");
    (void)fputs("hints:\n", out);
    for (size_t i = 0; i < file->rule_count; i++)
        hintwrite_put_hint(out, file, &file->rule[i], hintwrite_words_of(file, i));
    int r = fclose(out) ? -ENOMEM : *ret_length > HINTFILE_BYTES_MAX ? -EFBIG : 0;
    if (r < 0) {
        free(*ret_text);
        *ret_text = NULL;
    }
    return r;
}
