/* SPDX-License-Identifier: MIT */
#include "tools/page_parts.h"

#include <stdlib.h>

#include "tools/vec.h"
#include "tools/waterfall.h"

static void json_row(struct page *page, const struct waterfall_row *row)
{
    struct json *json = &page->json;
    char *text = report_waterfall_text(page->report, row);

    json_begin(json, NULL, '{');
    json_text(json, "part", waterfall_word(row->part));
    page_json_name(json, "name", row->name);
    page_json_name(json, "text", text);
    json_uint(json, "bytes", row->bytes);
    json_end(json, '}');
    free(text);
}

/* Libraries beyond the largest are one row. Gives back what there is. */
static void json_waterfall(struct page *page, const char *moment, struct waterfall *waterfall)
{
    struct json *json = &page->json;
    struct trace_sum others = {0};
    unsigned libraries = 0;

    json_begin(json, NULL, '{');
    json_text(json, "moment", moment);
    json_int(json, "device", waterfall->device);
    json_uint(json, "total_bytes", waterfall->total);
    json_known(json, "time_ns", waterfall->time_ns ? waterfall->time_ns : UINT64_MAX);
    json_bool(json, "short", waterfall->is_short);
    json_begin(json, "parts", '[');
    for (size_t i = 0; i < waterfall->count; i++) {
        const struct waterfall_row *row = &waterfall->rows[i];

        if (row->part == WATERFALL_LIBRARY && libraries++ >= PAGE_PARTS)
            trace_sum_add(&others, row->bytes);
        else
            json_row(page, row);
    }
    json_end(json, ']');
    page_json_sum(json, "other_libraries", others);
    json_end(json, '}');
    waterfall_done(waterfall);
}

void page_waterfall_json(struct page *page)
{
    const struct report *report = page->report;
    const struct load *load = &report->load;
    const struct load_oom *last = load->oom_count ? &load->ooms[load->oom_count - 1] : NULL;
    struct waterfall waterfall;

    json_begin(&page->json, "waterfalls", '[');
    if (last && waterfall_of_oom(load, report->symbols, last, &waterfall))
        json_waterfall(page, "failure", &waterfall);
    for (unsigned i = 0; i < FORMAT_DEVICES_MAX; i++)
        if (waterfall_of_look(load, report->symbols, i, &waterfall))
            json_waterfall(page, "look", &waterfall);
    json_end(&page->json, ']');
}
