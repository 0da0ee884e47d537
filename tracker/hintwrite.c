/* SPDX-License-Identifier: MIT */
#include "tracker/hintfile.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A text that grows; after a failure everything else is a no-op. */
struct out {
    char *text;
    size_t used, size;
    int r;
};

static bool have_room(struct out *out, size_t more)
{
    size_t size = out->size ? out->size : 1024;
    char *text;

    if (out->r < 0)
        return false;
    while (size - out->used <= more)
        size *= 2;
    if (size == out->size)
        return true;
    text = realloc(out->text, size);
    if (!text) {
        out->r = -ENOMEM;
        return false;
    }
    out->text = text;
    out->size = size;
    return true;
}

__attribute__((format(printf, 2, 3))) static void put(struct out *out, const char *format, ...)
{
    va_list args;
    int length;

    va_start(args, format);
    length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length < 0 || !have_room(out, (size_t)length))
        return;
    va_start(args, format);
    (void)vsnprintf(out->text + out->used, out->size - out->used, format, args);
    va_end(args);
    out->used += (size_t)length;
}

/* Length of the sequence that a first byte announces, and its bits of the code. 0 = none may begin so. */
static size_t sequence_length(unsigned char first, uint32_t *ret_bits)
{
    if (first >= 0xc2 && first < 0xe0) {
        *ret_bits = first & 31u;
        return 2;
    }
    if (first >= 0xe0 && first < 0xf0) {
        *ret_bits = first & 15u;
        return 3;
    }
    if (first >= 0xf0 && first < 0xf5) {
        *ret_bits = first & 7u;
        return 4;
    }
    return 0;
}

/* C1 controls, surrogates, line separators, byte order marks and non-characters are no plain YAML. */
static bool is_printable_code(uint32_t code)
{
    return code >= 0xa0 && (code < 0xd800 || code >= 0xe000) && code != 0x2028 && code != 0x2029
            && code != 0xfeff && (code < 0xfff0 || code >= 0x10000) && code <= 0x10ffff;
}

/* How many bytes of valid UTF-8 that YAML may print begin here; 0 = none. */
static size_t printable_length(const unsigned char *at)
{
    uint32_t code = 0;
    size_t length;

    if (at[0] >= 0x20 && at[0] < 0x7f)
        return 1;
    length = sequence_length(at[0], &code);
    for (size_t i = 1; i < length; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0; /* its NUL ends it here, too */
        code = code << 6 | (at[i] & 63u);
    }
    if ((length == 3 && code < 0x800) || (length == 4 && code < 0x10000))
        return 0; /* longer than it need be */
    return is_printable_code(code) ? length : 0;
}

/* In double quotes. What cannot be shown: escaped if it is a control character, else `?` in a glob. */
static void put_quoted(struct out *out, const char *text, bool is_glob)
{
    const unsigned char *at = (const unsigned char *)text;

    put(out, "\"");
    while (*at) {
        size_t length = printable_length(at);

        if (*at == '"' || *at == '\\')
            put(out, "\\%c", *at);
        else if (length > 0)
            put(out, "%.*s", (int)length, (const char *)at);
        else if (*at < 0x20 || *at == 0x7f)
            put(out, "\\x%02x", *at);
        else
            put(out, is_glob ? "?" : "\\x%02x", *at);
        at += length ? length : 1;
    }
    put(out, "\"");
}

static void put_comment(struct out *out, const char *indent, const char *text)
{
    if (!text)
        return;
    while (*text) {
        size_t length = strcspn(text, "\r\n");

        put(out, "%s#", indent);
        if (length > 0)
            put(out, " ");
        for (size_t i = 0; i < length; i++)
            put(out, "%c", text[i] >= 0x20 && text[i] < 0x7f ? text[i] : '?');
        put(out, "\n");
        text += length;
        while (*text == '\r' || *text == '\n')
            text++;
    }
}

static const char *mode_word(enum hint_mode mode)
{
    return mode == HINT_LIVE ? "live" : mode == HINT_TRAP ? "trap" : "shadow";
}

static void put_made(struct out *out, const struct hintfile *file)
{
    const char *comma = "";

    if (!file->made_by && !file->made_on && file->made_from_count == 0)
        return;
    put(out, "made: {");
    if (file->made_by) {
        put(out, "by: ");
        put_quoted(out, file->made_by, false);
        comma = ", ";
    }
    if (file->made_from_count > 0) {
        put(out, "%sfrom: [", comma);
        for (size_t i = 0; i < file->made_from_count; i++) {
            put(out, i ? ", " : "");
            put_quoted(out, file->made_from[i], false);
        }
        put(out, "]");
        comma = ", ";
    }
    if (file->made_on) {
        put(out, "%son: ", comma);
        put_quoted(out, file->made_on, false);
    }
    put(out, "}\n");
}

static void put_program(struct out *out, const struct hintfile *file)
{
    if (!file->argv[0] && !file->rank[0] && file->build_count == 0
            && file->on_mismatch == HINTFILE_MISMATCH_SHADOW)
        return;
    put(out, "program:\n");
    if (file->argv[0]) {
        put(out, "  argv: ");
        put_quoted(out, file->argv, true);
        put(out, "\n");
    }
    if (file->rank[0]) {
        put(out, "  rank: ");
        put_quoted(out, file->rank, true);
        put(out, "\n");
    }
    if (file->build_count > 0)
        put(out, "  build:\n");
    for (size_t i = 0; i < file->build_count; i++) {
        put(out, "    ");
        put_quoted(out, file->build[i].soname, false);
        put(out, ": \"%s\"\n", file->build[i].id);
    }
    put(out, "  on-mismatch: %s\n",
            file->on_mismatch == HINTFILE_MISMATCH_REFUSE ? "refuse" : "shadow");
}

static void put_pick(struct out *out, const struct rule_pick *pick)
{
    const char *comma = "";

    put(out, "    pick: {");
    if (pick->site_count > 0) {
        put(out, "site: [");
        for (uint32_t i = 0; i < pick->site_count; i++)
            put(out, "%s\"c:%016" PRIx64 "\"", i ? ", " : "", pick->site[i]);
        put(out, "]");
        comma = ", ";
    }
    if (pick->size_lo == pick->size_hi)
        put(out, "%ssize: %" PRIu64, comma, pick->size_lo);
    else if (pick->size_hi != UINT64_MAX)
        put(out, "%ssize: \"%" PRIu64 "..%" PRIu64 "\"", comma, pick->size_lo, pick->size_hi);
    else if (pick->size_lo > 0)
        put(out, "%ssize: \">=%" PRIu64 "\"", comma, pick->size_lo);
    if (pick->size_lo > 0 || pick->size_hi != UINT64_MAX)
        comma = ", ";
    if (pick->inside[0]) {
        put(out, "%sinside: ", comma);
        put_quoted(out, pick->inside, true);
        comma = ", ";
    }
    if (pick->nth_hi == UINT32_MAX)
        put(out, "%snth: all", comma);
    else if (pick->nth_lo == pick->nth_hi)
        put(out, "%snth: %u", comma, pick->nth_lo);
    else
        put(out, "%snth: \"%u..%u\"", comma, pick->nth_lo, pick->nth_hi);
    if (pick->device >= 0)
        put(out, ", device: %d", pick->device);
    put(out, "}\n");
}

static void put_expect(struct out *out, const struct rule *rule, uint64_t saves)
{
    const char *comma = "";

    if (rule->expect_count == 0 && rule->expect_bytes == 0 && saves == 0)
        return;
    put(out, "    expect: {");
    if (rule->expect_count) {
        put(out, "per-step: %" PRIu64, rule->expect_count);
        comma = ", ";
    }
    if (rule->expect_bytes) {
        put(out, "%sbytes: %" PRIu64, comma, rule->expect_bytes);
        comma = ", ";
    }
    if (saves)
        put(out, "%ssaves: %" PRIu64, comma, saves);
    put(out, "}\n");
}

static void put_text(struct out *out, const char *key, const char *text)
{
    if (!text)
        return;
    put(out, "    %s: ", key);
    put_quoted(out, text, false);
    put(out, "\n");
}

static void put_hint(struct out *out, const struct hintfile *file, const struct rule *rule,
        const struct hintfile_words *words)
{
    put_comment(out, "  ", words ? words->comment : NULL);
    put(out, "  - id: ");
    put_quoted(out, rule->id, false);
    put(out, "\n    do: release\n");
    put_pick(out, &rule->pick);
    put(out, "    when: {anchor: ");
    put_quoted(out, rule->when.anchor, true);
    put(out, ", edge: %s}\n", rule->when.kind == EDGE_ENTER ? "enter" : "exit");
    if (rule->mode != file->mode)
        put(out, "    mode: %s\n", mode_word(rule->mode));
    if (rule->min_size != file->min_size)
        put(out, "    min-size: %" PRIu64 "\n", rule->min_size);
    put_expect(out, rule, words ? words->saves : 0);
    if (words) {
        put_text(out, "proof", words->proof);
        put_text(out, "note", words->note);
    }
}

static bool is_mode(enum hint_mode mode)
{
    return mode == HINT_SHADOW || mode == HINT_TRAP || mode == HINT_LIVE;
}

static bool is_id(const char *id)
{
    return id[0] != '\0'
            && strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")
            == strlen(id);
}

static bool is_writable(const struct rule *rule)
{
    const struct rule_pick *pick = &rule->pick;

    /* NaN-like ranges are empty, "nth: all" has no lower end, and a pick must name something. */
    return rule->action == ACTION_RELEASE && is_mode(rule->mode) && is_id(rule->id)
            && rule->when.anchor[0] && rule->when.kind != EDGE_MARK
            && pick->site_count <= RULE_SITES_MAX && pick->size_lo <= pick->size_hi
            && pick->nth_lo <= pick->nth_hi && (pick->nth_hi != UINT32_MAX || pick->nth_lo == 0)
            && (pick->site_count > 0 || pick->size_lo > 0 || pick->size_hi != UINT64_MAX
                    || pick->inside[0]);
}

int hintfile_write(const struct hintfile *file, char **ret_text, size_t *ret_length)
{
    struct out out = {0};

    if (file->rule_count == 0 || file->rule_count > HINTFILE_HINTS_MAX || !is_mode(file->mode))
        return -EINVAL;
    for (size_t i = 0; i < file->rule_count; i++)
        if (!is_writable(&file->rule[i]))
            return -EINVAL;
    put(&out, "kedge-hints: %d\n", HINTFILE_VERSION);
    put_comment(&out, "", file->comment);
    put_made(&out, file);
    put_program(&out, file);
    put(&out, "defaults: {mode: %s, min-size: %" PRIu64 "}\n", mode_word(file->mode),
            file->min_size);
    put(&out, "hints:\n");
    for (size_t i = 0; i < file->rule_count; i++)
        put_hint(&out, file, &file->rule[i], file->words ? &file->words[i] : NULL);
    if (out.r < 0) {
        free(out.text);
        return out.r;
    }
    *ret_text = out.text;
    *ret_length = out.used;
    return 0;
}
