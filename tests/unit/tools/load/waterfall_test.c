/* SPDX-License-Identifier: MIT */
/* covers: waterfall.c */
/* Parts of a device's memory: whatever the figures are, they add up to all of it. */
#include "tests/check.h"

#include "tests/unit/tools/story.h"
#include "tools/load/waterfall.h"
#include "tracker/reader/read.h"

#define MB UINT64_C(0x100000)

/* A run of one device, and what is known of it. */
struct scene {
    struct story story;
    struct read_capture capture;
    struct load load;
    struct symbols *symbols;
};

static void begin(struct scene *scene)
{
    *scene = (struct scene){.story = story_begin()};
}

static void look(struct scene *scene, struct format_look look, struct format_inside inside)
{
    scene->capture.look[0] = look;
    scene->capture.look[0].looks = 1;
    scene->capture.inside[0] = inside;
    scene->load.capture = &scene->capture;
    scene->load.trace = scene->story.trace;
    scene->symbols = symbols_new(scene->story.trace);
}

static void end(struct scene *scene)
{
    symbols_free(scene->symbols);
    story_end(&scene->story);
}

static uint64_t sum(const struct waterfall *waterfall)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < waterfall->count; i++)
        bytes += waterfall->rows[i].bytes;
    return bytes;
}

/* Bytes of all rows of a part; UINT64_MAX: there is none. */
static uint64_t part(const struct waterfall *waterfall, enum waterfall_part part)
{
    uint64_t bytes = 0;
    bool any = false;

    for (size_t i = 0; i < waterfall->count; i++) {
        if (waterfall->rows[i].part != part)
            continue;
        bytes += waterfall->rows[i].bytes;
        any = true;
    }
    return any ? bytes : UINT64_MAX;
}

TEST(a_device_that_nobody_looked_at_has_no_parts)
{
    struct scene scene;
    struct waterfall waterfall;

    begin(&scene);
    look(&scene, (struct format_look){0}, (struct format_inside){0});
    scene.capture.look[0].looks = 0;
    CHECK(!waterfall_of_look(&scene.load, scene.symbols, 0, &waterfall));
    CHECK_EQ(waterfall.count, 0);
    end(&scene);
}

TEST(parts_are_those_of_the_look)
{
    struct scene scene;
    struct waterfall waterfall;
    uint32_t block;

    begin(&scene);
    (void)story_alloc(&scene.story, 1, 7 * MB - 100);
    block = story_alloc(&scene.story, 2, 30 * MB);
    (void)story_alloc(&scene.story, 3, 99 * MB); /* after the look */
    scene.story.trace->blocks[block].memclass = MEMCLASS_DRIVER;
    scene.story.trace->blocks[2].memclass = MEMCLASS_DRIVER;
    for (size_t i = 0; i < 3; i++)
        scene.story.trace->events[i].seq = 10 * (i + 1);
    look(&scene,
            (struct format_look){.total_bytes = 1000 * MB,
                    .free_bytes = 600 * MB,
                    .held_bytes = 200 * MB,
                    .graph_reserved = 20 * MB,
                    .native_bytes = 32 * MB},
            (struct format_inside){.seq = 20, .time_ns = 1, .live = 7 * MB - 100, .used = 7 * MB});
    REQUIRE(waterfall_of_look(&scene.load, scene.symbols, 0, &waterfall));
    CHECK_EQ(sum(&waterfall), 1000 * MB);
    CHECK(!waterfall.is_short);
    CHECK_EQ(part(&waterfall, WATERFALL_REQUESTED), 7 * MB - 100);
    CHECK_EQ(part(&waterfall, WATERFALL_ROUNDING), 100);
    CHECK_EQ(part(&waterfall, WATERFALL_POOL_FREE), 193 * MB);
    CHECK_EQ(part(&waterfall, WATERFALL_GRAPHS), 20 * MB);
    CHECK_EQ(part(&waterfall, WATERFALL_LIBRARY), 32 * MB);
    CHECK_EQ(part(&waterfall, WATERFALL_OUTSIDE), (400 - 200 - 20 - 32) * MB);
    CHECK_EQ(part(&waterfall, WATERFALL_FREE), 600 * MB);
    /* the events know of 30 MiB of the 32 */
    REQUIRE_EQ(waterfall.rows[1].part, WATERFALL_LIBRARY);
    CHECK_EQ(waterfall.rows[1].bytes, 30 * MB);
    CHECK(waterfall_is_told_apart(&waterfall.rows[1]));
    CHECK(waterfall.rows[2].name == NULL && !waterfall_is_told_apart(&waterfall.rows[2]));
    CHECK(!waterfall_is_told_apart(&waterfall.rows[0]));
    waterfall_done(&waterfall);
    end(&scene);
}

/* A capture of a writer that did not look into the pool. */
TEST(a_pool_that_nobody_looked_into_is_one_part)
{
    struct scene scene;
    struct waterfall waterfall;

    begin(&scene);
    look(&scene,
            (struct format_look){
                    .total_bytes = 100 * MB, .free_bytes = 60 * MB, .held_bytes = 30 * MB},
            (struct format_inside){0});
    REQUIRE(waterfall_of_look(&scene.load, scene.symbols, 0, &waterfall));
    CHECK_EQ(sum(&waterfall), 100 * MB);
    CHECK_EQ(part(&waterfall, WATERFALL_POOL), 30 * MB);
    CHECK_EQ(part(&waterfall, WATERFALL_REQUESTED), UINT64_MAX);
    waterfall_done(&waterfall);
    end(&scene);
}

/* Storage that a hint released is nobody's, though the program has not freed it. */
TEST(what_a_hint_released_is_not_there)
{
    struct scene scene;
    struct waterfall waterfall;

    begin(&scene);
    look(&scene, (struct format_look){.total_bytes = 100 * MB, .held_bytes = 30 * MB},
            (struct format_inside){
                    .seq = 1, .time_ns = 1, .live = 40 * MB, .used = 40 * MB, .dead = 15 * MB});
    REQUIRE(waterfall_of_look(&scene.load, scene.symbols, 0, &waterfall));
    CHECK_EQ(sum(&waterfall), 100 * MB);
    CHECK_EQ(part(&waterfall, WATERFALL_REQUESTED), 25 * MB);
    CHECK_EQ(part(&waterfall, WATERFALL_POOL_FREE), 5 * MB);
    CHECK(!waterfall.is_short);
    waterfall_done(&waterfall);
    end(&scene);
}

static uint64_t any_bytes(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (uint64_t)(*seed >> 16) << (*seed >> 8 & 15);
}

TEST(figures_that_do_not_fit_together_add_up_all_the_same)
{
    uint32_t seed = 3;
    unsigned short_ones = 0;

    for (unsigned round = 0; round < 500; round++) {
        struct scene scene;
        struct waterfall waterfall;
        struct format_look what = {.total_bytes = any_bytes(&seed),
                .free_bytes = any_bytes(&seed),
                .held_bytes = any_bytes(&seed),
                .graph_reserved = any_bytes(&seed),
                .native_bytes = any_bytes(&seed)};

        begin(&scene);
        for (unsigned i = 0; i < 6; i++) {
            uint32_t block = story_alloc(&scene.story, i + 1, any_bytes(&seed));
            scene.story.trace->blocks[block].memclass = i % 2 ? MEMCLASS_VMM : MEMCLASS_POOLED;
        }
        look(&scene, what,
                (struct format_inside){.seq = 9,
                        .time_ns = round % 4,
                        .live = any_bytes(&seed),
                        .used = any_bytes(&seed),
                        .dead = any_bytes(&seed)});
        REQUIRE(waterfall_of_look(&scene.load, scene.symbols, 0, &waterfall));
        CHECK_EQ(sum(&waterfall), what.total_bytes);
        short_ones += waterfall.is_short;
        waterfall_done(&waterfall);
        end(&scene);
    }
    CHECK(short_ones > 0 && short_ones < 500);
}

TEST(an_allocation_that_failed_has_the_parts_of_its_moment)
{
    static struct read_oom why;
    struct load_oom oom = {.at = 1, .why = &why};
    struct scene scene;
    struct waterfall waterfall;

    begin(&scene);
    uint32_t block = story_alloc(&scene.story, 1, 5 * MB);
    scene.story.trace->blocks[block].memclass = MEMCLASS_DRIVER;
    look(&scene, (struct format_look){0}, (struct format_inside){0});
    why.what = (struct format_oom){.free_bytes = 10 * MB,
            .total_bytes = UINT64_MAX,
            .flags = FORMAT_OOM_HEAPS,
            .native_bytes = 4 * MB};
    why.what.heaps = (struct format_oom_heaps){.held = 60 * MB, .live = 50 * MB, .used = 51 * MB};
    CHECK(!waterfall_of_oom(&scene.load, scene.symbols, &oom, &waterfall));
    why.what.total_bytes = 80 * MB;
    REQUIRE(waterfall_of_oom(&scene.load, scene.symbols, &oom, &waterfall));
    CHECK_EQ(sum(&waterfall), 80 * MB);
    CHECK_EQ(part(&waterfall, WATERFALL_REQUESTED), 50 * MB);
    CHECK_EQ(part(&waterfall, WATERFALL_ROUNDING), MB);
    CHECK_EQ(part(&waterfall, WATERFALL_POOL_FREE), 9 * MB);
    CHECK_EQ(part(&waterfall, WATERFALL_OUTSIDE), 6 * MB);
    CHECK(waterfall.rows[1].part == WATERFALL_LIBRARY && waterfall.rows[1].name);
    waterfall_done(&waterfall);
    scene.load.complete_from = 1; /* who had it is not known */
    REQUIRE(waterfall_of_oom(&scene.load, scene.symbols, &oom, &waterfall));
    CHECK_EQ(part(&waterfall, WATERFALL_LIBRARY), 4 * MB);
    CHECK(waterfall.rows[1].part == WATERFALL_LIBRARY && !waterfall.rows[1].name);
    waterfall_done(&waterfall);
    scene.load.complete_from = 0;
    why.what.flags = FORMAT_OOM_NATIVE; /* kedge serves none: what stands of heaps is nothing */
    REQUIRE(waterfall_of_oom(&scene.load, scene.symbols, &oom, &waterfall));
    CHECK_EQ(sum(&waterfall), 80 * MB);
    CHECK_EQ(part(&waterfall, WATERFALL_REQUESTED), UINT64_MAX);
    CHECK_EQ(part(&waterfall, WATERFALL_POOL_FREE), UINT64_MAX);
    CHECK_EQ(part(&waterfall, WATERFALL_FREE), 10 * MB);
    waterfall_done(&waterfall);
    end(&scene);
}
