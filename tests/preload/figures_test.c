/* SPDX-License-Identifier: MIT */
/* covers: device_stats.c hooks_query.c hooks_recorded.c */
/*
 * cuMemGetInfo and the attributes of pools after any sequence of calls (R22, R78, R84): programs from seeds (figures_world.h),
 * each in a process of its own. $TEST_SEEDS: how many per form (200); $TEST_SEED: only this one.
 */
#include "tests/preload/figures_world.h"

#undef MB
#include "tests/preload/hints_kit.h"

#include "tests/preload/child.h"

#include <sys/mman.h>

static struct world_form form;
static uint64_t seed;
static const char *const *settings; /* of KEDGE_POOL, or the device, in turn; NULL at the end */

static const char *const plain[] = {"", "placement=export-safe", "chunk=16M", "budget=32M",
        "trim=eager", "granularity=4M", "remap=eager", "remap=never,budget=16M", NULL};

static const char *setting_of(uint64_t number)
{
    size_t count = 0;

    while (settings[count])
        count++;
    return settings[number % count];
}

static void one_program(void)
{
    const char *setting = setting_of(seed);
    char text[32];

    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)seed);
    REQUIRE(setenv("SIMCUDA_SEED", text, 1) == 0);
    REQUIRE(setenv("SIMCUDA_SCHED",
                    seed % 3 == 0           ? "eager"
                            : seed % 3 == 1 ? "lazy"
                                            : "random",
                    1)
            == 0);
    form.granule = 2 << 20;
    if (strcmp(setting, "granularity=4M") == 0) {
        form.granule = 4 << 20;
        REQUIRE(setenv("SIMCUDA_GRANULARITY", "4M", 1) == 0);
    } else if (*setting) {
        REQUIRE(setenv("KEDGE_POOL", setting, 1) == 0);
    }
    REQUIRE(setenv("SIMCUDA_MEMORY", seed % 4 == 3 ? "80M" : "512M", 1) == 0);
    form.whole = strstr(setting, "export-safe") != NULL;
    world_run(seed, &form);
}

static void many_programs(void)
{
    const char *only = getenv("TEST_SEED");
    const char *wish = getenv("TEST_SEEDS");
    uint64_t count = wish ? strtoull(wish, NULL, 10) : 200;
    unsigned wrong = 0;

    world_floors = mmap(NULL, FLOOR_COUNT * sizeof *world_floors, PROT_READ | PROT_WRITE,
            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(world_floors != MAP_FAILED);
    for (seed = only ? strtoull(only, NULL, 10) : 1; seed <= count || only; seed++) {
        wrong += run_child(one_program) != 0;
        if (only || wrong >= 3)
            break;
    }
    CHECK_EQ(wrong, 0);
    for (int i = 0; i < FLOOR_COUNT && !only; i++) {
        bool left_out = (i == FLOOR_FAILED && !form.fails) || (i == FLOOR_HINTED && !form.hinted)
                || (i == FLOOR_TOLD_HAD && form.native) || (i == FLOOR_EXACT_USED && form.native)
                || (i == FLOOR_WAITED && (form.native || form.fails || form.keeps))
                || (i == FLOOR_TRIMMED && (form.native || form.fails));

        printf("%s %llu\n", world_floor_name[i], (unsigned long long)world_floors[i]);
        if (!left_out)
            CHECK_GE(world_floors[i], count / 20);
    }
}

TEST(r22_r78_figures_hold_after_any_sequence)
{
    settings = plain;
    many_programs();
}

TEST(r22_r78_figures_hold_where_nothing_goes_back_by_itself)
{
    static const char *const never[] = {"trim=never", NULL};

    settings = never;
    form.keeps = true;
    many_programs();
}

TEST(the_device_itself_keeps_to_the_bounds)
{
    REQUIRE(setenv("KEDGE_MODE", "off", 1) == 0);
    form.native = true;
    settings = plain;
    many_programs();
}

TEST(r22_r78_figures_hold_when_calls_fail)
{
    form.fails = true;
    settings = plain;
    many_programs();
}

static void with_hints(const char *mode, bool live)
{
    kit_hint(mode, mode);
    if (live)
        kit_allow_live();
    REQUIRE(setenv("KEDGE_TRACE", "off", 1) == 0);
    form.hinted = true;
    settings = plain;
    many_programs();
    kit_clean_up();
}

TEST(r78_r84_figures_are_the_same_when_hints_act)
{
    with_hints("live", true);
}

TEST(r78_r84_figures_are_the_same_when_hints_watch)
{
    with_hints("shadow", false);
}
