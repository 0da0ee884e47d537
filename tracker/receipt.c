/* SPDX-License-Identifier: MIT */
#include "tracker/receipt.h"

#include "tracker/ownfile.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RECEIPT_BYTES_MAX (2u << 20) /* a line for each of the most hints of a file */
#define RECEIPT_PATH_MAX  4200u

/* A word of the receipt: no blanks, no control characters, so that a line is a line. */
static bool is_word(const char *text)
{
    for (const char *at = text; *at; at++)
        if (*at <= ' ' || *at > '~')
            return false;
    return text[0] != '\0';
}

int receipt_format(const struct receipt *receipt, char ret_text[static RECEIPT_TEXT_MAX])
{
    int length;

    if (!is_word(receipt->program) || (receipt->date[0] && !is_word(receipt->date)))
        return -EINVAL;
    length = snprintf(ret_text, RECEIPT_TEXT_MAX,
            "kedge-receipt 1\nhints %016" PRIx64 "\nprogram %s\nshadow clean %" PRIu32
            "\npoison clean %" PRIu32 "\ntrap clean %" PRIu32 "%s%s\n",
            receipt->hints_hash, receipt->program, receipt->shadow_clean, receipt->poison_clean,
            receipt->trap_clean, receipt->date[0] ? " " : "", receipt->date);
    return length < 0 || length >= RECEIPT_TEXT_MAX ? -EINVAL : 0;
}

static int by_text(const void *one, const void *other)
{
    return strcmp(*(const char *const *)one, *(const char *const *)other);
}

/* Nothing but lines `keep-meta WORD`: one pass over them, since there may be many. */
static bool take_keeps(const char *text, struct receipt *ret_receipt)
{
    size_t length = strlen(text);
    size_t lines = 0;
    char *line, *end;

    if (length == 0)
        return true;
    for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    ret_receipt->keep_meta = malloc(lines * sizeof(const char *) + length + 1);
    if (!ret_receipt->keep_meta)
        return false;
    line = memcpy(ret_receipt->keep_meta + lines, text, length + 1);
    for (; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        *end = '\0';
        if (strncmp(line, RECEIPT_KEEP_META, sizeof RECEIPT_KEEP_META - 1) != 0)
            return false;
        line += sizeof RECEIPT_KEEP_META - 1;
        if (!is_word(line))
            return false;
        ret_receipt->keep_meta[ret_receipt->keep_count++] = line;
    }
    qsort(ret_receipt->keep_meta, lines, sizeof(const char *), by_text);
    return *line == '\0';
}

bool receipt_keeps_meta(const struct receipt *receipt, const char *id)
{
    return receipt->keep_count > 0
            && bsearch(&id, receipt->keep_meta, receipt->keep_count, sizeof(const char *), by_text);
}

/* As receipt_format writes it, with or without a date. */
static bool parse(const char *text, struct receipt *ret_receipt)
{
    char hash[17], shadow[10], poison[10], trap[10];
    int used = 0, date = 0;

    if (sscanf(text,
                "kedge-receipt 1\nhints %16[0-9a-f]\nprogram %95[!-~]\nshadow clean %9[0-9]\n"
                "poison clean %9[0-9]\ntrap clean %9[0-9]%n",
                hash, ret_receipt->program, shadow, poison, trap, &used)
                    != 5
            || strlen(hash) != 16)
        return false;
    if (text[used] == ' ' && sscanf(text + used, " %31[!-~]%n", ret_receipt->date, &date) != 1)
        return false;
    ret_receipt->hints_hash = strtoull(hash, NULL, 16);
    ret_receipt->shadow_clean = (uint32_t)strtoul(shadow, NULL, 10);
    ret_receipt->poison_clean = (uint32_t)strtoul(poison, NULL, 10);
    ret_receipt->trap_clean = (uint32_t)strtoul(trap, NULL, 10);
    text += used + date;
    return *text == '\n' && take_keeps(text + 1, ret_receipt);
}

enum receipt_verdict receipt_check(
        const char *hints_path, uint64_t hints_hash, const char *program, struct receipt *ret_found)
{
    char path[RECEIPT_PATH_MAX];
    struct receipt found = {0};
    const char *what = "";
    char *text = NULL;
    size_t length = 0;
    bool is_good;
    int r;

    if (ret_found)
        *ret_found = found;
    r = snprintf(path, sizeof path, "%s.receipt", hints_path);
    if (r < 0 || r >= (int)sizeof path)
        return RECEIPT_UNREADABLE;
    r = ownfile_read(path, RECEIPT_BYTES_MAX, &text, &length, &what);
    if (r == -ENOENT)
        return RECEIPT_NONE;
    if (r < 0)
        return RECEIPT_UNREADABLE;
    is_good = strlen(text) == length && parse(text, &found);
    free(text);
    if (is_good && ret_found)
        *ret_found = found;
    else
        free(found.keep_meta);
    if (!is_good)
        return RECEIPT_UNREADABLE;
    if (found.hints_hash != hints_hash)
        return RECEIPT_OTHER_HINTS;
    if (strcmp(found.program, program) != 0)
        return RECEIPT_OTHER_PROGRAM;
    return found.shadow_clean > 0 && found.poison_clean > 0 && found.trap_clean > 0
            ? RECEIPT_GOOD
            : RECEIPT_NOT_CLEAN;
}

const char *receipt_verdict_text(enum receipt_verdict verdict)
{
    static const char *const texts[RECEIPT_VERDICT_COUNT] = {
            [RECEIPT_GOOD] = "verified",
            [RECEIPT_NONE] = "no receipt",
            [RECEIPT_OTHER_HINTS] = "the hints were changed since they were verified",
            [RECEIPT_OTHER_PROGRAM] = "the receipt is for another program or build",
            [RECEIPT_NOT_CLEAN] = "the receipt lacks a clean shadow, poison or trap run",
            [RECEIPT_UNREADABLE] = "the receipt is damaged or not the owner's",
    };

    return verdict < RECEIPT_VERDICT_COUNT ? texts[verdict] : "unknown";
}
