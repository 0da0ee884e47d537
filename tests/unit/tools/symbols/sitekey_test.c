/* SPDX-License-Identifier: MIT */
/* covers: sitekey.c */
/* By which call sites a block can be picked, and that a prediction picks by them as the run does. */
#include "tools/symbols/sitekey.h"

#include "tests/check.h"
#include "tests/unit/tools/story.h"
#include "tools/replay/predict.h"
#include "tracker/hints/pysite.h"

#define SITE UINT64_C(0x1234)

static const struct trace_pyframe frames[] = {
        {.function = "empty", .file = "/net/base.py", .line = 10},
        {.function = "Block.forward.<locals>.<lambda>", .file = "/net/model.py", .line = 20},
        {.function = "Block.forward", .file = "/net/model.py", .line = 22},
        {.function = "Block.forward", .file = "/net/model.py", .line = 25}, /* calls itself */
        {.function = "odd:name", .file = "/net/model.py", .line = 30},
        {.function = "at::empty", .file = "Empty.cpp", .line = 3, .is_native = true},
        {.function = "<module>", .file = "train.py", .line = 0},
};

enum {
    FRAMES = sizeof frames / sizeof frames[0]
};

/* A block whose Python stack are `count` of the frames from `first` on. */
static uint32_t alloc_at(struct story *s, uint32_t first, uint32_t count, bool ambient)
{
    uint32_t block = story_alloc(s, SITE, 8 << 20);
    uint32_t stack = trace_add_stack(s->trace, NULL, 0, false);

    trace_set_python(s->trace, stack, &frames[first], count, ambient);
    s->trace->blocks[block].stack = stack;
    return block;
}

TEST(the_keys_of_a_block_are_its_native_site_and_its_python_frames)
{
    static const char *const texts[] = {
            NULL,
            "p:base.py:empty",
            "p:base.py:empty:10",
            "p:model.py:Block.forward.<locals>.<lambda>",
            "p:model.py:Block.forward.<locals>.<lambda>:20",
            "p:model.py:Block.forward",
            "p:model.py:Block.forward:22",
            "p:model.py:Block.forward:25",
            "p:train.py:<module>",
    };
    struct story s = story_begin();
    uint32_t block = alloc_at(&s, 0, FRAMES, false);
    struct sitekey keys[SITEKEY_MAX];
    size_t count = sitekey_list(s.trace, &s.trace->blocks[block], keys);

    REQUIRE_EQ(count, sizeof texts / sizeof texts[0]);
    CHECK_EQ(keys[0].key, SITE);
    for (size_t i = 0; i < count; i++) {
        char *text = sitekey_text(&keys[i]);
        uint64_t read = 0;

        CHECK_EQ(!text, !texts[i]);
        if (text && texts[i]) {
            CHECK_STR_EQ(text, texts[i]);
            CHECK(pysite_read(text, &read) == NULL);
            CHECK_EQ(read, keys[i].key);
        }
        free(text);
    }
    story_end(&s);
}

TEST(a_stack_of_another_thread_and_no_stack_name_no_python_call_site)
{
    struct story s = story_begin();
    uint32_t ambient = alloc_at(&s, 0, FRAMES, true);
    uint32_t bare = story_alloc(&s, 0, 8 << 20);
    struct sitekey keys[SITEKEY_MAX];

    REQUIRE_EQ(sitekey_list(s.trace, &s.trace->blocks[ambient], keys), 1);
    CHECK(keys[0].frame == NULL);
    CHECK_EQ(sitekey_list(s.trace, &s.trace->blocks[bare], keys), 0);
    story_end(&s);
}

/* Each key of a block as the only site of a hint. */
TEST(a_prediction_picks_by_each_key_that_a_block_has)
{
    struct story s = story_begin();
    uint32_t deep = alloc_at(&s, 0, FRAMES, false);
    uint32_t shallow = alloc_at(&s, FRAMES - 1, 1, false); /* <module> alone */
    uint32_t ambient = alloc_at(&s, 0, FRAMES, true);
    struct sitekey keys[SITEKEY_MAX];
    size_t count = sitekey_list(s.trace, &s.trace->blocks[deep], keys);

    for (size_t i = 0; i < count; i++) {
        struct rule rule = {.action = ACTION_RELEASE,
                .mode = HINT_SHADOW,
                .pick = {.size_hi = UINT64_MAX, .nth_hi = UINT32_MAX, .device = -1},
                .when = {.anchor = "x", .kind = EDGE_EXIT}};
        struct predict_match matches[3];

        sitekey_pick(&keys[i], &rule.pick);
        REQUIRE_EQ(predict_matches(s.trace, &rule, 1, matches), 0);
        CHECK_EQ(matches[deep].rule, 0);
        CHECK_EQ(matches[shallow].rule, i == 0 || i == count - 1 ? 0 : TRACE_NONE);
        CHECK_EQ(matches[ambient].rule, i == 0 ? 0 : TRACE_NONE);
    }
    story_end(&s);
}

TEST(a_hint_by_a_python_call_site_lowers_the_predicted_reserve)
{
    struct story s = story_begin();
    struct rule rule = {.action = ACTION_RELEASE,
            .mode = HINT_SHADOW,
            .pick = {.site = {pysite_key("model.py", "Block.forward", 25)},
                    .site_count = 1,
                    .python = 1,
                    .size_hi = UINT64_MAX,
                    .nth_hi = UINT32_MAX,
                    .device = -1},
            .when = {.anchor = "x", .kind = EDGE_EXIT}};
    uint64_t without = 0, with = 0;

    for (int i = 0; i < 4; i++) {
        (void)story_enter(&s, "x");
        (void)alloc_at(&s, 0, FRAMES, false);
        story_exit(&s);
    }
    REQUIRE_EQ(predict_reserved(s.trace, NULL, 0, &without), 0);
    REQUIRE_EQ(predict_reserved(s.trace, &rule, 1, &with), 0);
    CHECK_GE(without, 4 * (8 << 20));
    CHECK_LE(with, 2 * (8 << 20));
    story_end(&s);
}
