/* SPDX-License-Identifier: MIT */
#include "tools/failon.h"

#include <inttypes.h>
#include <string.h>

#include "tools/load.h"
#include "tracker/config.h"

static const struct {
    const char *name;
    char sign;
    uint64_t limit;
} conditions[FAILON_COUNT] = {
        [FAILON_LATE] = {"late", '>', 0},
        [FAILON_EXTRA] = {"extra", '>', 0},
        [FAILON_REMAINING] = {"remaining", '>', 0},
        [FAILON_PAIRS] = {"pairs", '<', 50},
};

/* ---- what is asked for ---------------------------------------------------------------------- */

static bool parse_limit(enum failon_condition which, const char *text, uint64_t *ret_limit)
{
    if (which != FAILON_PAIRS && strcmp(text, "any") == 0) {
        *ret_limit = FAILON_ANY;
        return true;
    }
    if (which != FAILON_REMAINING && text[strspn(text, "0123456789")] != '\0')
        return false;
    return config_size(text, ret_limit) == 0 && (which != FAILON_PAIRS || *ret_limit <= 100);
}

/* One condition, of `length` bytes. */
static bool parse_condition(const char *text, size_t length, struct failon *failon)
{
    char limit[32];

    for (unsigned i = 0; i < FAILON_COUNT; i++) {
        size_t name = strlen(conditions[i].name);

        if (length <= name + 1 || length - name - 1 >= sizeof(limit)
                || memcmp(text, conditions[i].name, name) != 0 || text[name] != conditions[i].sign)
            continue;
        memcpy(limit, text + name + 1, length - name - 1);
        limit[length - name - 1] = '\0';
        return parse_limit((enum failon_condition)i, limit, &failon->limit[i]);
    }
    return false;
}

bool failon_parse(const char *text, struct failon *ret_failon)
{
    for (unsigned i = 0; i < FAILON_COUNT; i++)
        ret_failon->limit[i] = conditions[i].limit;
    if (strcmp(text, "default") == 0)
        return true;
    for (;;) {
        size_t length = strcspn(text, ",");

        if (!parse_condition(text, length, ret_failon))
            return false;
        if (text[length] == '\0')
            return true;
        text += length + 1;
    }
}

/* ---- the answers ---------------------------------------------------------------------------- */

static uint64_t percent(uint64_t part, uint64_t all)
{
    return all ? part * 100 / all : 0;
}

/* Of the run that has more of them. */
static uint64_t paired_percent(const struct compare *compare)
{
    uint64_t most = compare->all.count > compare->all_good.count ? compare->all.count
                                                                 : compare->all_good.count;

    return percent(compare->paired.count, most);
}

static void count_values(const struct compare *c, uint64_t *ret_value)
{
    ret_value[FAILON_LATE] = c->late_count + c->never_count;
    ret_value[FAILON_EXTRA] = c->extra_remaining.count;
    ret_value[FAILON_REMAINING] = c->remaining.bytes > c->remaining_good.bytes
            ? c->remaining.bytes - c->remaining_good.bytes
            : 0;
    ret_value[FAILON_PAIRS] = paired_percent(c);
}

void failon_judge(const struct failon *failon, const struct failon_runs *runs,
        struct failon_result *ret_result)
{
    static const struct claim_range unknown = {0, UINT64_MAX};
    const struct compare *c = runs->compare;
    struct failon_result result = {0};

    count_values(c, result.value);
    for (unsigned i = 0; i < FAILON_COUNT; i++)
        result.range[i] = (struct claim_range){result.value[i], result.value[i]};
    bool has_pairs = result.value[FAILON_PAIRS] >= failon->limit[FAILON_PAIRS];
    bool can_pair = !runs->lacks && has_pairs;
    if (runs->lacks || percent(c->looked.count, c->all.count) < failon->limit[FAILON_PAIRS])
        result.range[FAILON_LATE].high = UINT64_MAX; /* what was found is late all the same */
    if (!can_pair || !runs->bad_ended)
        result.range[FAILON_EXTRA] = unknown;
    if (!can_pair || !runs->bad_ended || !runs->good_ended)
        result.range[FAILON_REMAINING] = unknown;
    for (unsigned i = 0; i < FAILON_PAIRS; i++)
        result.answer[i] = claim_holds(result.range[i], CLAIM_LESS_EQUAL, failon->limit[i]);
    result.answer[FAILON_PAIRS] = has_pairs ? CLAIM_YES : CLAIM_UNKNOWN;
    *ret_result = result;
}

enum claim_answer failon_answer(const struct failon_result *result)
{
    enum claim_answer answer = CLAIM_YES;

    for (unsigned i = 0; i < FAILON_COUNT; i++)
        answer = claim_both(answer, result->answer[i]);
    return answer;
}

/* ---- how they are said ---------------------------------------------------------------------- */

const char *failon_why(enum failon_condition which, const struct failon *failon,
        const struct failon_runs *runs, const struct failon_result *result)
{
    if (runs->lacks)
        return runs->lacks;
    if (which == FAILON_LATE)
        return "not known where so little could be looked at";
    if (result->value[FAILON_PAIRS] < failon->limit[FAILON_PAIRS])
        return "not known where so few allocations have a partner";
    return runs->bad_ended ? "not known: the good run was cut off before its end"
                           : "not known: the bad run was cut off before its end";
}

static void print_no(
        FILE *out, enum failon_condition which, const struct compare *compare, uint64_t value)
{
    if (which == FAILON_LATE)
        (void)fprintf(out, "%" PRIu64 " free%s late or never (%s)", value,
                value == 1 ? " comes" : "s come",
                render_bytes(compare->late_bytes + compare->never_bytes).text);
    else if (which == FAILON_EXTRA)
        (void)fprintf(out, "%" PRIu64 " allocation%s that only bad makes (%s) %s live at the end",
                value, render_s(value), render_bytes(compare->extra_remaining.bytes).text,
                value == 1 ? "is" : "are");
    else
        (void)fprintf(out, "%s more remain at the end than in good", render_bytes(value).text);
}

void failon_print(FILE *out, const struct failon *failon, const struct failon_runs *runs,
        const struct failon_result *result)
{
    for (unsigned i = 0; i < FAILON_COUNT; i++) {
        if (result->answer[i] == CLAIM_YES)
            continue;
        (void)fprintf(out, "kedge diff: --fail-on %s%c%" PRIu64 ": ", conditions[i].name,
                conditions[i].sign, failon->limit[i]);
        if (result->answer[i] == CLAIM_NO)
            print_no(out, (enum failon_condition)i, runs->compare, result->value[i]);
        else if (i == FAILON_PAIRS)
            (void)fprintf(out,
                    "not known: %" PRIu64 " %% of the allocations have a partner in the other run",
                    result->value[i]);
        else
            (void)fputs(failon_why((enum failon_condition)i, failon, runs, result), out);
        (void)fputc('\n', out);
    }
}

void failon_json(struct json *json, const struct failon *failon, const struct failon_result *result)
{
    if (!failon) {
        json_text(json, "fail_on", NULL);
        return;
    }
    json_begin(json, "fail_on", '[');
    for (unsigned i = 0; i < FAILON_COUNT; i++) {
        json_begin(json, NULL, '{');
        json_text(json, "condition", conditions[i].name);
        json_known(json, "limit", failon->limit[i]); /* FAILON_ANY is null */
        json_uint(json, "value", result->value[i]);
        json_text(json, "answer", claim_answer_text(result->answer[i]));
        json_end(json, '}');
    }
    json_end(json, ']');
}
