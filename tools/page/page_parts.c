/* SPDX-License-Identifier: MIT */
#include "tools/page/page_parts.h"

#include <stdlib.h>

const char *page_moment_key(enum page_moment moment)
{
    static const char *const keys[PAGE_MOMENTS] = {
            [PAGE_PEAK] = "peak", [PAGE_FAILURE] = "failure", [PAGE_END] = "end"};

    return keys[moment];
}

bool page_has(const struct page *page, enum page_moment moment)
{
    return page->moment[moment] != TRACE_NEVER || (page->by_places && moment != PAGE_FAILURE);
}

void page_json_sum(struct json *json, const char *key, struct trace_sum sum)
{
    json_begin(json, key, '[');
    json_known(json, NULL, sum.bytes);
    json_known(json, NULL, sum.count);
    json_end(json, ']');
}

void page_json_anchor(struct page *page, const char *key, uint32_t anchor)
{
    const struct trace *trace = page->report->load.trace;
    char *name = anchor ? figures_anchor_text(&trace->anchors[anchor]) : NULL;

    json_text(&page->json, key, name);
    free(name);
}

uint64_t page_step_of(const struct page *page, uint32_t event)
{
    const struct stepview *steps = &page->report->stated;

    for (size_t i = 0; i < steps->row_count; i++)
        if (event >= steps->rows[i].first && event < steps->rows[i].behind)
            return i;
    return UINT64_MAX;
}
