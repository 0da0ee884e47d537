/* SPDX-License-Identifier: MIT */
#include "tools/page/page_parts.h"

#include <inttypes.h>
#include <stdlib.h>

#include "tools/base/vec.h"
#include "tools/trace/regions.h"

static uint32_t *sites_of_blocks(const struct page *page)
{
    const struct trace *trace = page->report->load.trace;
    uint32_t *sites = vec_new(trace->block_count, sizeof(*sites));

    for (size_t i = 0; i < trace->block_count; i++)
        sites[i] = page->sites.of_stack[trace->blocks[i].stack];
    return sites;
}

static void json_regions(struct json *json, const struct regions *regions)
{
    json_uint(json, "granule_bytes", REGIONS_GRANULE);
    json_uint(json, "cell_bytes", regions->cell_bytes);
    json_uint(json, "left_out", regions->left_out);
    json_uint(json, "left_out_bytes", regions->left_out_bytes);
    json_begin(json, "regions", '[');
    for (size_t i = 0; i < regions->count; i++) {
        const struct region *region = &regions->list[i];
        char *address = vec_format("0x%" PRIx64, region->address);

        json_begin(json, NULL, '[');
        json_text(json, NULL, address);
        json_uint(json, NULL, region->bytes);
        json_uint(json, NULL, region->cells);
        json_end(json, ']');
        free(address);
    }
    json_end(json, ']');
}

struct kept {
    struct regions_keeper sum;
    uint32_t site;
};

static const struct vec_key most_kept_first[] = {
        VEC_DOWN(struct kept, sum.free), VEC_UP(struct kept, site)};

/* Per site: partly live granules in which it has the largest block, and the free bytes in them. */
static void json_keepers(struct page *page, const struct regions_keeper *keepers)
{
    struct json *json = &page->json;
    struct kept *kept = vec_new(page->sites.count, sizeof(*kept));

    for (size_t i = 0; i < page->sites.count; i++)
        kept[i] = (struct kept){keepers[i], (uint32_t)i};
    VEC_SORT_BY(kept, page->sites.count, most_kept_first);
    json_begin(json, "kept", '[');
    for (size_t i = 0; i < page->sites.count && i < PAGE_KEEPERS && kept[i].sum.granules; i++) {
        json_begin(json, NULL, '[');
        json_uint(json, NULL, kept[i].site);
        json_uint(json, NULL, kept[i].sum.granules);
        json_uint(json, NULL, kept[i].sum.free);
        json_end(json, ']');
    }
    json_end(json, ']');
    free(kept);
}

/*
 * Per cell: its live bytes, its number of blocks, the site of the largest of them and that block's
 * size.
 */
static void json_cells(struct page *page, const struct regions *regions,
        const struct regions_cell *cells, const uint32_t *sites)
{
    const struct trace *trace = page->report->load.trace;
    struct json *json = &page->json;

    json_begin(json, "cells", '[');
    for (size_t i = 0; i < regions->cell_count; i++) {
        const struct regions_cell *cell = &cells[i];

        json_begin(json, NULL, '[');
        if (cell->live) {
            json_uint(json, NULL, cell->live);
            json_uint(json, NULL, cell->blocks);
            json_uint(json, NULL, sites[cell->largest]);
            json_uint(json, NULL, trace->blocks[cell->largest].size);
        }
        json_end(json, ']');
    }
    json_end(json, ']');
}

static void json_moment(struct page *page, const struct regions *regions, enum page_moment moment,
        const uint32_t *sites)
{
    struct regions_cell *cells = vec_new(regions->cell_count, sizeof(*cells));
    struct regions_keeper *keepers = vec_new(page->sites.count, sizeof(*keepers));

    regions_fill(regions, page->moment[moment], cells, sites, keepers);
    json_begin(&page->json, page_moment_key(moment), '{');
    json_keepers(page, keepers);
    json_cells(page, regions, cells, sites);
    json_end(&page->json, '}');
    free(keepers);
    free(cells);
}

void page_map_json(struct page *page)
{
    const struct report *report = page->report;
    struct regions regions =
            regions_find(report->load.trace, report->window.last, PAGE_REGIONS, PAGE_CELLS);
    uint32_t *sites = sites_of_blocks(page);

    json_begin(&page->json, "map", '{');
    json_regions(&page->json, &regions);
    json_begin(&page->json, "moments", '{');
    for (unsigned i = 0; i < PAGE_MOMENTS; i++)
        if (page->moment[i] != TRACE_NEVER)
            json_moment(page, &regions, (enum page_moment)i, sites);
    json_end(&page->json, '}');
    json_end(&page->json, '}');
    free(sites);
    regions_done(&regions);
}
