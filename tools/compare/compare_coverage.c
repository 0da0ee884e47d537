/* SPDX-License-Identifier: MIT */
#include "tools/compare/compare_coverage.h"

#include <inttypes.h>
#include <stdlib.h>

#include "tools/base/vec.h"
#include "tools/load/figures.h"

bool compare_coverage_is_little(const struct compare *compare)
{
    return compare->looked.count * 2 < compare->all.count;
}

bool compare_coverage_is_unknown(const struct compare *compare)
{
    return compare_coverage_is_little(compare) && compare->late_count == 0;
}

/* A reason why blocks were not compared, with advice. */
struct reason {
    uint64_t count;
    const char *why, *advice;
};

#define STATE_STEPS                                                                               \
    "state where a step begins and ends: 'kedge run' does it for PyTorch; else NVTX ranges, the " \
    "marks of kedge.h or lines of "                                                               \
    "output (KEDGE_ANCHORS=log=...), see kedge-run(1)"

/* The reason of most blocks. */
static struct reason main_reason(const struct compare *compare)
{
    const struct reason reasons[] = {
            {compare->outside.count, "lie in no anchor", STATE_STEPS},
            {compare->lone_bad.count, "lie in anchors that the good run never entered",
                    "record both runs with the same anchors and as many steps"},
            {compare->unfinished.count, "lie in anchors that the run never left",
                    "record a run that gets to the end of a step: on a larger device, or of a "
                    "smaller batch"},
            {compare->unpaired.count, "have no partner in the good run, by place and size",
                    "record both runs with the same build, the same input and the same sizes"},
            {compare->unjudged.count, "may have been used unseen",
                    "compare with a run that frees in time (--good, --bad)"},
    };
    struct reason most = reasons[0];

    for (size_t i = 1; i < sizeof(reasons) / sizeof(reasons[0]); i++)
        if (reasons[i].count > most.count)
            most = reasons[i];
    return most;
}

/* Names the anchors if they are the reason. The caller frees it. */
static char *make_advice(
        const struct compare *compare, const struct trace *good, const struct trace *bad)
{
    struct reason reason = main_reason(compare);
    char *lone = vec_text("");

    if (reason.count == compare->lone_bad.count && compare->lone_bad_anchor != TRACE_NONE) {
        const char *theirs = compare->lone_good_anchor != TRACE_NONE && good
                ? good->anchors[compare->lone_good_anchor].path
                : NULL;
        free(lone);
        lone = vec_format(" (the bad run's first: %s%s%s)",
                bad->anchors[compare->lone_bad_anchor].path, theirs ? "; the good run's: " : "",
                theirs ? theirs : "");
    }
    char *text = vec_format(
            "%" PRIu64 " of them %s%s: %s", reason.count, reason.why, lone, reason.advice);
    free(lone);
    return text;
}

void compare_coverage_print(
        FILE *out, const struct compare *compare, const struct trace *good, const struct trace *bad)
{
    if (!compare_coverage_is_little(compare))
        return;
    (void)fputs("note: ", out);
    if (compare->looked.count)
        (void)fprintf(out, "only %" PRIu64 " (%s)", compare->looked.count,
                render_bytes(compare->looked.bytes).text);
    else
        (void)fputs("none", out);
    (void)fprintf(out, " of %" PRIu64 " allocation%s%s (%s) %s looked at: %s\n", compare->all.count,
            render_s(compare->all.count), good ? " of the bad run" : "",
            render_bytes(compare->all.bytes).text, compare->looked.count == 1 ? "was" : "were",
            good ? "the others have no partner in an anchor that both runs have"
                 : "the others lie in no anchor, or their uses are not known");
    char *advice = make_advice(compare, good, bad);
    (void)fputs("note: ", out);
    render_text(out, advice);
    (void)fputc('\n', out);
    free(advice);
}

void compare_coverage_json(struct json *json, const struct compare *compare,
        const struct trace *good, const struct trace *bad)
{
    char *advice = compare_coverage_is_little(compare) ? make_advice(compare, good, bad) : NULL;

    figures_json_sum(json, "allocated", &compare->all);
    figures_json_sum(json, "looked_at", &compare->looked);
    json_begin(json, "passed_over", '{');
    figures_json_sum(json, "outside", &compare->outside);
    figures_json_sum(json, "lone_anchors", &compare->lone_bad);
    figures_json_sum(json, "unfinished", &compare->unfinished);
    figures_json_sum(json, "unpaired", &compare->unpaired);
    figures_json_sum(json, "unjudged", &compare->unjudged);
    json_end(json, '}');
    json_text(json, "advice", advice);
    free(advice);
}
