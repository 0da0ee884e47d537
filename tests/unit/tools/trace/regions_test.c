/* SPDX-License-Identifier: MIT */
/* covers: regions.c */
#include "tests/check.h"

#include "tests/unit/tools/story.h"
#include "tools/trace/regions.h"

#define BASE UINT64_C(0x7f0000000000)
#define KIB  UINT64_C(1024)
#define MIB  (KIB * KIB)

static uint32_t alloc_at(struct story *story, uint64_t offset, uint64_t size)
{
    struct trace_block birth = {.address = BASE + offset, .size = size, .rule = -1};

    return trace_add_alloc(story->trace, &birth);
}

static struct regions find(const struct story *story, size_t most, size_t cells)
{
    return regions_find(story->trace, (uint32_t)story->trace->event_count, most, cells);
}

TEST(blocks_near_each_other_are_one_region)
{
    struct story s = story_begin();
    story_free(&s, alloc_at(&s, 0, MIB)); /* freed: it was held for it once */
    (void)alloc_at(&s, 2 * MIB, MIB);     /* a gap of 1 MiB */
    (void)alloc_at(&s, 5 * MIB, MIB);     /* a gap of a granule */
    struct regions r = find(&s, 10, 100);

    REQUIRE_EQ(r.count, 2);
    CHECK_EQ(r.list[0].address, BASE);
    CHECK_EQ(r.list[0].bytes, 3 * MIB);
    CHECK_EQ(r.list[1].address, BASE + 5 * MIB);
    CHECK_EQ(r.list[1].bytes, MIB);
    CHECK_EQ(r.left_out, 0);
    regions_done(&r);
    story_end(&s);
}

TEST(cells_add_up_to_what_is_live)
{
    struct story s = story_begin();
    uint64_t live = 0;

    for (uint64_t i = 0; i < 300; i++) {
        uint32_t block = alloc_at(&s, i * 40 * KIB, 1000 + i * 97);
        if (i % 3 == 0)
            story_free(&s, block);
        else
            live += 1000 + i * 97;
    }
    for (size_t cells = 1; cells < 5000; cells = cells * 3 + 1) {
        struct regions r = find(&s, 10, cells);
        struct regions_cell *cell = calloc(r.cell_count, sizeof(*cell));
        uint64_t sum = 0;

        CHECK(r.cell_count <= cells);
        regions_fill(&r, (uint32_t)s.trace->event_count, cell, NULL, NULL);
        for (size_t i = 0; i < r.cell_count; i++) {
            CHECK(cell[i].live <= r.cell_bytes);
            CHECK_EQ(cell[i].live > 0, cell[i].largest != TRACE_NONE);
            CHECK_EQ(cell[i].live > 0, cell[i].blocks > 0);
            sum += cell[i].live;
        }
        CHECK_EQ(sum, live);
        free(cell);
        regions_done(&r);
    }
    story_end(&s);
}

TEST(the_smallest_regions_are_left_out_and_counted)
{
    struct story s = story_begin();
    for (uint64_t i = 0; i < 10; i++)
        (void)alloc_at(&s, i * 100 * MIB, (i + 1) * MIB);
    struct regions r = find(&s, 3, 1000);

    REQUIRE_EQ(r.count, 3);
    CHECK_EQ(r.list[0].bytes, 8 * MIB);
    CHECK_EQ(r.left_out, 7);
    CHECK_EQ(r.left_out_bytes, 28 * MIB);
    struct regions_cell *cells = calloc(r.cell_count, sizeof(*cells));
    uint64_t sum = 0;
    regions_fill(&r, (uint32_t)s.trace->event_count, cells, NULL, NULL);
    for (size_t i = 0; i < r.cell_count; i++)
        sum += cells[i].live;
    CHECK_EQ(sum, 27 * MIB);
    free(cells);
    regions_done(&r);
    story_end(&s);
}

TEST(a_block_keeps_what_is_free_in_its_granule)
{
    struct story s = story_begin();
    uint32_t keys[5] = {0, 1, 2, 1, 0};
    (void)alloc_at(&s, 0, 2 * MIB);               /* key 0: a whole granule */
    (void)alloc_at(&s, 2 * MIB, 512);             /* key 1: keeps nearly a granule, alone */
    (void)alloc_at(&s, 4 * MIB + MIB, 4 * MIB);   /* key 2: half of two, and a whole one between */
    (void)alloc_at(&s, 8 * MIB + MIB + KIB, KIB); /* key 1: beside a larger one of key 2 */
    uint32_t gone = alloc_at(&s, 10 * MIB, 512);
    story_free(&s, gone);
    struct regions r = find(&s, 10, 1000);
    struct regions_cell *cells = calloc(r.cell_count, sizeof(*cells));
    struct regions_keeper keepers[3] = {{0}};

    regions_fill(&r, (uint32_t)s.trace->event_count, cells, keys, keepers);
    CHECK_EQ(keepers[0].granules, 0);
    CHECK_EQ(keepers[1].granules, 1);
    CHECK_EQ(keepers[1].free, 2 * MIB - 512);
    CHECK_EQ(keepers[2].granules, 2);
    CHECK_EQ(keepers[2].free, 2 * MIB - KIB);
    free(cells);
    regions_done(&r);
    story_end(&s);
}

TEST(a_run_without_blocks_has_no_regions)
{
    struct story s = story_begin();
    struct regions r = find(&s, 10, 10);

    CHECK_EQ(r.count, 0);
    CHECK_EQ(r.cell_count, 0);
    regions_fill(&r, 0, NULL, NULL, NULL);
    regions_done(&r);
    story_end(&s);
}

TEST(a_block_of_all_addresses_is_cut_into_cells)
{
    struct story s = story_begin();
    struct trace_block birth = {.size = UINT64_MAX, .rule = -1};
    (void)trace_add_alloc(s.trace, &birth);
    birth.address = UINT64_MAX; /* and one that has no byte */
    (void)trace_add_alloc(s.trace, &birth);
    struct regions r = find(&s, 10, 16);
    struct regions_cell *cells = calloc(r.cell_count, sizeof(*cells));

    REQUIRE_EQ(r.count, 1);
    CHECK(r.cell_count <= 16);
    regions_fill(&r, (uint32_t)s.trace->event_count, cells, NULL, NULL);
    CHECK_EQ(cells[0].live, r.cell_bytes);
    CHECK_EQ(cells[0].blocks, 1);
    free(cells);
    regions_done(&r);
    story_end(&s);
}

TEST(a_block_at_the_last_address_ends_there)
{
    struct story s = story_begin();
    struct trace_block birth = {.address = UINT64_MAX - 4096, .size = UINT64_MAX, .rule = -1};
    (void)trace_add_alloc(s.trace, &birth);
    struct regions r = find(&s, 10, 16);
    struct regions_cell *cells = calloc(r.cell_count, sizeof(*cells));
    struct regions_keeper keeper = {0};

    REQUIRE_EQ(r.count, 1);
    CHECK_EQ(r.list[0].bytes, 4096);
    regions_fill(&r, (uint32_t)s.trace->event_count, cells, &(uint32_t){0}, &keeper);
    CHECK_EQ(keeper.granules, 1);
    free(cells);
    regions_done(&r);
    story_end(&s);
}
