/* SPDX-License-Identifier: MIT */
#include "tracker/hints/receipt.h"

#include "tracker/base/ownfile.h"
#include "tracker/base/site.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RECEIPT_BYTES_MAX (2u << 20) /* a line for each of the maximum number of hints of a file */
#define RECEIPT_PATH_MAX  4200u
#define RECEIPT_FILE_MAX  (64u << 20) /* the largest script */
#define RECEIPT_HEAD      "kedge-receipt 2\nhints "

/* ---- writing -------------------------------------------------------------------------------- */

/* True for one line of text: no control characters. */
static bool receipt_is_value(const char *text)
{
    for (const char *at = text; *at; at++)
        if (*at < ' ' || *at > '~')
            return false;
    return text[0] != '\0';
}

static bool receipt_is_word(const char *text)
{
    return receipt_is_value(text) && !strchr(text, ' ');
}

static bool receipt_is_sound(const struct receipt *receipt)
{
    for (size_t i = 0; i < receipt->line_count; i++)
        if (!receipt_is_word(receipt->line[i].key) || !receipt_is_value(receipt->line[i].value))
            return false;
    return !receipt->date[0] || receipt_is_word(receipt->date);
}

int receipt_format(const struct receipt *receipt, char **ret_text)
{
    size_t length;
    FILE *out;

    if (!receipt_is_sound(receipt))
        return -EINVAL;
    out = open_memstream(ret_text, &length);
    if (!out)
        return -ENOMEM;
    (void)fprintf(out, RECEIPT_HEAD "%016" PRIx64 "\n", receipt->hints_hash);
    for (size_t i = 0; i < receipt->line_count; i++)
        (void)fprintf(out, "%s %s\n", receipt->line[i].key, receipt->line[i].value);
    (void)fprintf(out, "shadow clean %" PRIu32 "\npoison clean %" PRIu32 "\ntrap clean %" PRIu32,
            receipt->shadow_clean, receipt->poison_clean, receipt->trap_clean);
    (void)fprintf(out, "%s%s\n", receipt->date[0] ? " " : "", receipt->date);
    return fclose(out) == 0 ? 0 : -ENOMEM;
}

/* ---- reading -------------------------------------------------------------------------------- */

static int receipt_by_text(const void *one, const void *other)
{
    return strcmp(*(const char *const *)one, *(const char *const *)other);
}

static bool receipt_read_count(const char *value, uint32_t *ret_count, char *ret_date, size_t room)
{
    size_t digits;

    if (strncmp(value, "clean ", 6) != 0)
        return false;
    value += 6;
    digits = strspn(value, "0123456789");
    if (digits == 0 || digits > 9)
        return false;
    *ret_count = (uint32_t)strtoul(value, NULL, 10);
    if (value[digits] == '\0')
        return true;
    return ret_date && value[digits] == ' ' && receipt_is_word(value + digits + 1)
            && snprintf(ret_date, room, "%s", value + digits + 1) < (int)room;
}

/* Reads a line. `seen` has a bit for each key that may occur only once. */
static bool receipt_read_line(
        struct receipt *receipt, const char *key, const char *value, unsigned *io_seen)
{
    static const char *const once[] = {"shadow", "poison", "trap"};
    uint32_t *const counts[] = {
            &receipt->shadow_clean, &receipt->poison_clean, &receipt->trap_clean};

    if (!receipt_is_value(value))
        return false;
    for (unsigned i = 0; i < 3; i++) {
        if (strcmp(key, once[i]) != 0)
            continue;
        if (*io_seen & 1u << i)
            return false;
        *io_seen |= 1u << i;
        return receipt_read_count(
                value, counts[i], i == 2 ? receipt->date : NULL, sizeof receipt->date);
    }
    if (strcmp(key, "keep-meta") == 0) {
        receipt->keep_meta[receipt->keep_count++] = value;
        return receipt_is_word(value);
    }
    receipt->line[receipt->line_count++] = (struct receipt_line){key, value};
    return receipt_is_word(key);
}

/* Parses the output of receipt_format, followed by keep-meta lines: one pass, since there may be
 * many. Modifies the text. */
static bool receipt_parse(char *text, struct receipt *receipt)
{
    unsigned seen = 0;
    size_t digits;
    char *line, *end, *blank;

    if (strncmp(text, RECEIPT_HEAD, sizeof RECEIPT_HEAD - 1) != 0)
        return false;
    line = text + sizeof RECEIPT_HEAD - 1;
    digits = strspn(line, "0123456789abcdef");
    if (digits != 16 || line[16] != '\n')
        return false;
    receipt->hints_hash = strtoull(line, NULL, 16);
    for (line += 17; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        *end = '\0';
        blank = strchr(line, ' ');
        if (!blank)
            return false;
        *blank = '\0';
        if (!receipt_read_line(receipt, line, blank + 1, &seen))
            return false;
    }
    qsort(receipt->keep_meta, receipt->keep_count, sizeof(const char *), receipt_by_text);
    return *line == '\0' && seen == 7;
}

/* Allocates a line of each kind for every line of the text, and the text. */
static bool receipt_make_room(const char *text, size_t length, struct receipt *receipt)
{
    size_t lines = 1;
    char *at;

    for (const char *s = text; (s = strchr(s, '\n')) != NULL; s++)
        lines++;
    receipt->memory =
            malloc(lines * (sizeof(struct receipt_line) + sizeof(const char *)) + length + 1);
    if (!receipt->memory)
        return false;
    receipt->line = (struct receipt_line *)(void *)receipt->memory;
    receipt->keep_meta = (const char **)(void *)(receipt->line + lines);
    at = (char *)(void *)(receipt->keep_meta + lines);
    memcpy(at, text, length + 1);
    if (receipt_parse(at, receipt))
        return true;
    receipt_free(receipt);
    return false;
}

void receipt_free(struct receipt *receipt)
{
    free(receipt->memory);
    *receipt = (struct receipt){0};
}

enum receipt_verdict receipt_read(
        const char *hints_path, uint64_t hints_hash, struct receipt *ret_found)
{
    char path[RECEIPT_PATH_MAX];
    const char *what = "";
    char *text = NULL;
    size_t length = 0;
    bool is_good, is_old;
    int r;

    *ret_found = (struct receipt){0};
    r = snprintf(path, sizeof path, "%s.receipt", hints_path);
    if (r < 0 || r >= (int)sizeof path)
        return RECEIPT_UNREADABLE;
    r = ownfile_read(path, RECEIPT_BYTES_MAX, &text, &length, &what);
    if (r == -ENOENT)
        return RECEIPT_NONE;
    if (r < 0)
        return RECEIPT_UNREADABLE;
    is_old = strncmp(text, "kedge-receipt 1\n", 16) == 0;
    is_good = strlen(text) == length && receipt_make_room(text, length, ret_found);
    free(text);
    if (!is_good)
        return is_old ? RECEIPT_OLD : RECEIPT_UNREADABLE;
    if (ret_found->hints_hash != hints_hash)
        return RECEIPT_OTHER_HINTS;
    return ret_found->shadow_clean > 0 && ret_found->poison_clean > 0 && ret_found->trap_clean > 0
            ? RECEIPT_GOOD
            : RECEIPT_NOT_CLEAN;
}

/* ---- queries -------------------------------------------------------------------------------- */

const char *receipt_next(const struct receipt *receipt, const char *key, size_t *io_at)
{
    while (*io_at < receipt->line_count) {
        const struct receipt_line *line = &receipt->line[(*io_at)++];

        if (strcmp(line->key, key) == 0)
            return line->value;
    }
    return NULL;
}

bool receipt_says(const struct receipt *receipt, const char *key, const char *value)
{
    const char *said;
    size_t at = 0;

    while ((said = receipt_next(receipt, key, &at)) != NULL)
        if (strcmp(said, value) == 0)
            return true;
    return false;
}

bool receipt_keeps_meta(const struct receipt *receipt, const char *id)
{
    return receipt->keep_count > 0
            && bsearch(&id, receipt->keep_meta, receipt->keep_count, sizeof(const char *),
                    receipt_by_text);
}

const char *receipt_verdict_text(enum receipt_verdict verdict)
{
    static const char *const texts[RECEIPT_VERDICT_COUNT] = {
            [RECEIPT_GOOD] = "verified",
            [RECEIPT_NONE] = "no receipt",
            [RECEIPT_OTHER_HINTS] = "the hints were changed since they were verified",
            [RECEIPT_OTHER_RUN] = "the receipt is for another run",
            [RECEIPT_NOT_CLEAN] = "the receipt lacks a clean shadow, poison or trap run",
            [RECEIPT_UNREADABLE] = "the receipt is damaged or not the owner's",
            [RECEIPT_OLD] = "the receipt is an earlier kedge's and does not say enough",
    };

    return verdict < RECEIPT_VERDICT_COUNT ? texts[verdict] : "unknown";
}

/* ---- values --------------------------------------------------------------------------------- */

void receipt_escape(const char *text, char ret_value[static RECEIPT_VALUE_MAX])
{
    size_t used = 0;

    for (; *text && used + 5 < RECEIPT_VALUE_MAX; text++) {
        unsigned char c = (unsigned char)*text;

        if (c >= ' ' && c <= '~' && c != '\\')
            ret_value[used++] = (char)c;
        else
            used += (size_t)snprintf(ret_value + used, RECEIPT_VALUE_MAX - used, "\\x%02x", c);
    }
    ret_value[used] = '\0';
}

uint64_t receipt_hash_file(const char *path)
{
    size_t length;
    char *bytes = ownfile_any(path, RECEIPT_FILE_MAX, &length);
    uint64_t hash = bytes ? site_hash(bytes, length, 7) : 0;

    if (bytes && hash == 0)
        hash = 1;
    free(bytes);
    return hash;
}

static void receipt_hashed(
        uint64_t hash, const char *text, char ret_value[static RECEIPT_VALUE_MAX])
{
    char escaped[RECEIPT_VALUE_MAX];

    receipt_escape(text, escaped);
    (void)snprintf(ret_value, RECEIPT_VALUE_MAX, "%016" PRIx64 " %.*s", hash,
            (int)RECEIPT_VALUE_MAX - 18, escaped);
}

void receipt_file_value(const char *path, char ret_value[static RECEIPT_VALUE_MAX])
{
    receipt_hashed(receipt_hash_file(path), path, ret_value);
}

void receipt_build_value(uint64_t hash, const char *path, char ret_value[static RECEIPT_VALUE_MAX])
{
    const char *tail = path + strlen(path);

    /* the name, and its folder: many packages have an _C.so */
    for (int slashes = 0; tail > path && (tail[-1] != '/' || ++slashes < 2); tail--)
        ;
    receipt_hashed(hash, tail, ret_value);
}

bool receipt_version_value(const char *path, char ret_value[static RECEIPT_VALUE_MAX])
{
    static const char *const names[] = {"__version__", "version", "full_version"};
    char escaped[RECEIPT_VALUE_MAX];
    size_t length, version_bytes;
    char *text = ownfile_any(path, RECEIPT_FILE_MAX, &length);
    const char *at = NULL;

    for (unsigned i = 0; text && !at && i < sizeof names / sizeof *names; i++) {
        size_t name = strlen(names[i]);

        for (const char *line = text; line && !at; line = strchr(line, '\n')) {
            line += *line == '\n';
            if (strncmp(line, names[i], name) == 0)
                at = line + name + strspn(line + name, " \t=:str");
        }
    }
    version_bytes = at && (*at == '\'' || *at == '"') ? strcspn(at + 1, "'\" \n") : 0;
    if (version_bytes > 0) {
        receipt_escape(path, escaped);
        (void)snprintf(ret_value, RECEIPT_VALUE_MAX, "%.*s %.*s",
                (int)(version_bytes < 100 ? version_bytes : 100), at + 1,
                (int)RECEIPT_VALUE_MAX - 110, escaped);
    }
    free(text);
    return version_bytes > 0;
}
