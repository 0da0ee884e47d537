/* SPDX-License-Identifier: MIT */
#include "tools/check/claim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/base/wildcard.h"
#include "tools/base/args.h"
#include "tools/base/vec.h"
#include "tracker/base/config.h"

static const struct claim_row rows[CLAIM_FIGURE_COUNT] = {
        [CLAIM_PEAK] = {"peak",
                "the most bytes that were live at one moment; of an anchor, while it was open",
                .is_bytes = true, .has_anchors = true},
        [CLAIM_PEAK_WITH_HINTS] = {"peak_with_hints",
                "the same where a block that a hint released counts as freed", .is_bytes = true},
        [CLAIM_PEAK_IF_LIVE] = {"peak_if_live",
                "the same if the hints in other modes than live had released, too",
                .is_bytes = true},
        [CLAIM_RESERVED] = {"reserved",
                "the most bytes that were held from the driver; of an anchor, while it was open",
                .is_bytes = true, .has_anchors = true},
        [CLAIM_ALLOCATED] = {"allocated", "the bytes of all allocations", .is_bytes = true,
                .has_anchors = true},
        [CLAIM_ALLOCATIONS] = {"allocations", "how many allocations there were",
                .has_anchors = true},
        [CLAIM_FREED] = {"freed", "the bytes that the program freed", .is_bytes = true,
                .has_anchors = true},
        [CLAIM_FREES] = {"frees", "how many blocks the program freed", .has_anchors = true},
        [CLAIM_REMAINING] = {"remaining",
                "the bytes that are live at the end; of an anchor, of its own at its exit",
                .is_bytes = true, .has_anchors = true, .is_final = true},
        [CLAIM_REMAINING_WITH_HINTS] = {"remaining_with_hints",
                "the same without what hints released", .is_bytes = true, .has_anchors = true,
                .is_final = true},
        [CLAIM_LEAKS] = {"leaks",
                "how many blocks are live at the end; of an anchor, of its own at its exit",
                .has_anchors = true, .is_final = true},
        [CLAIM_GROWTH] = {"growth",
                "how many bytes call sites gained that hold more and more from round to round",
                .is_bytes = true, .is_final = true},
        [CLAIM_HINT_RELEASES] = {"hint_releases", "how many blocks live hints released",
                .is_bytes = false},
        [CLAIM_DRIFTED_HINTS] = {"drifted_hints",
                "how many hints matched something else than they expect in some instance, of which "
                "they released nothing",
                .is_bytes = false},
        [CLAIM_MOVED_IN] = {"moved_in",
                "the bytes that evict hints copied to devices, on paper in shadow",
                .is_bytes = true},
        [CLAIM_MOVED_OUT] = {"moved_out", "the bytes that they copied to the host",
                .is_bytes = true},
        [CLAIM_LATE] = {"late", "how many blocks were freed later than in the run FILE, or never",
                .has_file = true},
        [CLAIM_EXTRA] = {"extra",
                "how many blocks are live at the end that the run FILE never allocated",
                .has_file = true, .is_final = true},
        [CLAIM_MORE_REMAINING] = {"more_remaining",
                "how many bytes more are live at the end than in the run FILE", .is_bytes = true,
                .has_file = true, .is_final = true},
};

static const char *const ops[CLAIM_OP_COUNT] = {
        [CLAIM_LESS] = "<",
        [CLAIM_LESS_EQUAL] = "<=",
        [CLAIM_EQUAL] = "==",
        [CLAIM_NOT_EQUAL] = "!=",
        [CLAIM_GREATER_EQUAL] = ">=",
        [CLAIM_GREATER] = ">",
};

const struct claim_row *claim_row(enum claim_figure figure)
{
    return &rows[figure];
}

const char *claim_op_text(enum claim_op op)
{
    return ops[op];
}

/* ---- parsing a claim ------------------------------------------------------------------------- */

struct parsing {
    const char *text, *at;
    struct claim *claim;
    struct claim_error *error;
};

__attribute__((format(printf, 3, 4))) static bool claim_refuse(
        const struct parsing *p, const char *at, const char *form, ...)
{
    va_list args;

    p->error->column = (unsigned)(at - p->text) + 1;
    va_start(args, form);
    (void)vsnprintf(p->error->text, sizeof(p->error->text), form, args);
    va_end(args);
    return false;
}

static void skip_blanks(struct parsing *p)
{
    p->at += strspn(p->at, " \t");
}

/* Skips the sign if it comes next. */
static bool skip_sign(struct parsing *p, const char *sign)
{
    skip_blanks(p);
    if (strncmp(p->at, sign, strlen(sign)) != 0)
        return false;
    p->at += strlen(sign);
    return true;
}

/* Length up to one of the `stops`; for a glob, one without a \ before it. */
static size_t name_length(const char *name, const char *stops, bool is_glob)
{
    size_t length = 0;

    while (name[length] && !strchr(stops, name[length]))
        length += is_glob && name[length] == '\\' && name[length + 1] ? 2 : 1;
    return length;
}

/* A name in double quotes, or plain up to `end`; skips `end`. */
static bool parse_name(
        struct parsing *p, const char *what, const char *end, bool is_glob, char **ret_name)
{
    bool is_quoted = skip_sign(p, "\"");
    const char *begin = p->at;
    size_t length = name_length(begin, is_quoted ? "\"" : end, is_glob);

    if (is_quoted && begin[length] == '\0')
        return claim_refuse(p, begin - 1, "the quote of the %s has no end", what);
    if (length == 0)
        return claim_refuse(p, begin, "the name of the %s is missing", what);
    p->at = begin + length + is_quoted;
    if (!skip_sign(p, end))
        return claim_refuse(p, p->at, "a '%s' is missing behind the %s", end, what);
    while (!is_quoted && length > 1 && strchr(" \t", begin[length - 1]))
        length--;
    *ret_name = vec_format("%.*s", (int)length, begin);
    if (is_glob && wildcard_is_cut(*ret_name))
        return claim_refuse(p, begin + length - 1, "the %s ends in a single \\", what);
    return true;
}

static bool refuse_figure(const struct parsing *p, const char *word)
{
    if (*word == '\0')
        return claim_refuse(p, p->at, "a figure is missing");
    const char *near = args_nearest(ARGS_NAMES(rows, name, CLAIM_FIGURE_COUNT), word);
    if (near)
        return claim_refuse(p, p->at, "unknown figure '%.40s'; did you mean '%s'?", word, near);
    return claim_refuse(p, p->at, "unknown figure '%.40s'; kedge check --help lists them", word);
}

static bool parse_figure(struct parsing *p)
{
    skip_blanks(p);
    char *word = vec_format("%.*s", (int)strcspn(p->at, " \t(<>=!"), p->at);
    size_t figure = args_find(ARGS_NAMES(rows, name, CLAIM_FIGURE_COUNT), word);
    bool is_known = figure < CLAIM_FIGURE_COUNT;
    if (!is_known)
        (void)refuse_figure(p, word);
    else if (p->claim->anchor && !rows[figure].has_anchors)
        is_known = claim_refuse(p, p->at, "'%s' is of the whole run, not of an anchor", word);
    p->claim->figure = (enum claim_figure)figure;
    p->at += strlen(word);
    free(word);
    return is_known;
}

static bool parse_file(struct parsing *p)
{
    const struct claim_row *row = &rows[p->claim->figure];
    bool has_file = skip_sign(p, "(");

    if (has_file && !row->has_file)
        return claim_refuse(p, p->at - 1, "'%s' takes no file", row->name);
    if (!has_file && row->has_file)
        return claim_refuse(
                p, p->at, "'%s' needs the capture to compare with: %s(FILE)", row->name, row->name);
    return !has_file || parse_name(p, "file", ")", false, &p->claim->file);
}

static bool parse_op(struct parsing *p)
{
    static const enum claim_op longest_first[] = {CLAIM_LESS_EQUAL, CLAIM_EQUAL, CLAIM_NOT_EQUAL,
            CLAIM_GREATER_EQUAL, CLAIM_LESS, CLAIM_GREATER};

    for (unsigned i = 0; i < CLAIM_OP_COUNT; i++) {
        p->claim->op = longest_first[i];
        if (skip_sign(p, ops[p->claim->op]))
            return true;
    }
    return claim_refuse(p, p->at,
            *p->at ? "< <= == != >= or > is missing"
                   : "< <= == != >= or > is missing (a shell needs quotes around an expression)");
}

static bool parse_limit(struct parsing *p)
{
    bool is_bytes = rows[p->claim->figure].is_bytes;

    skip_blanks(p);
    const char *begin = p->at;
    char *word = vec_text(begin);
    size_t length = strlen(word);
    while (length && strchr(" \t", word[length - 1]))
        word[--length] = '\0';
    bool is_plain = word[strspn(word, "0123456789")] == '\0';
    if (is_bytes && length > 1 && word[length - 1] == 'B'
            && strchr("KMGT0123456789", word[length - 2]))
        word[length - 1] = '\0'; /* also accepts GB for GiB, and plain bytes */
    bool is_limit = (is_bytes || is_plain) && config_size(word, &p->claim->limit) == 0;
    p->claim->is_bare = is_bytes && is_limit && is_plain && p->claim->limit > 0;
    if (length == 0)
        (void)claim_refuse(p, begin, "what to compare with is missing");
    else if (!is_limit)
        (void)claim_refuse(p, begin, "'%.40s' is not a %s", word,
                is_bytes ? "size (try 512M or 12GiB)" : "number");
    free(word);
    return is_limit;
}

bool claim_parse(const char *text, struct claim *ret_claim, struct claim_error *ret_error)
{
    struct claim claim = {0};
    struct parsing p = {text, text, &claim, ret_error};
    bool is_claim = true;

    if (skip_sign(&p, "anchor:"))
        is_claim = parse_name(&p, "anchor", ".", true, &claim.anchor);
    if (is_claim && parse_figure(&p) && parse_file(&p) && parse_op(&p) && parse_limit(&p)) {
        *ret_claim = claim;
        return true;
    }
    claim_done(&claim);
    return false;
}

void claim_done(struct claim *claim)
{
    free(claim->anchor);
    free(claim->file);
    *claim = (struct claim){0};
}

/* ---- the answers ---------------------------------------------------------------------------- */

static enum claim_answer opposite(enum claim_answer answer)
{
    return answer == CLAIM_UNKNOWN ? answer : answer == CLAIM_YES ? CLAIM_NO : CLAIM_YES;
}

/* Combines "yes if `yes`" and "no if `no`". */
static enum claim_answer claim_known(bool yes, bool no)
{
    return yes ? CLAIM_YES : no ? CLAIM_NO : CLAIM_UNKNOWN;
}

enum claim_answer claim_holds(struct claim_range range, enum claim_op op, uint64_t limit)
{
    switch (op) {
    case CLAIM_LESS:
        return claim_known(range.high < limit, range.low >= limit);
    case CLAIM_LESS_EQUAL:
        return claim_known(range.high <= limit, range.low > limit);
    case CLAIM_EQUAL:
        return claim_known(
                range.low == limit && range.high == limit, limit < range.low || limit > range.high);
    case CLAIM_NOT_EQUAL:
        return opposite(claim_holds(range, CLAIM_EQUAL, limit));
    case CLAIM_GREATER_EQUAL:
        return opposite(claim_holds(range, CLAIM_LESS, limit));
    case CLAIM_GREATER:
        return opposite(claim_holds(range, CLAIM_LESS_EQUAL, limit));
    case CLAIM_OP_COUNT:
        break;
    }
    return CLAIM_UNKNOWN;
}

enum claim_answer claim_both(enum claim_answer one, enum claim_answer other)
{
    if (one == CLAIM_NO || other == CLAIM_NO)
        return CLAIM_NO;
    return one == CLAIM_YES ? other : one;
}

const char *claim_answer_text(enum claim_answer answer)
{
    static const char *const texts[] = {"yes", "no", "unknown"};

    return texts[answer];
}
