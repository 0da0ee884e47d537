/* SPDX-License-Identifier: MIT */
/* covers: sources.c */
/* Who asked for memory: by library, kind and place, at the end and at the maximum. */
#include "tests/check.h"

#include "tools/report/sources.h"

#define MB (UINT64_C(1) << 20)

static struct trace *trace;
static struct load load;
static struct symbols *symbols;
static uint32_t by_app, by_nccl, by_nccl_elsewhere;

static uint32_t stack_in(uint32_t cuda, uint32_t module, uint64_t offset)
{
    struct trace_frame frames[] = {{cuda, 1}, {module, offset}};

    return trace_add_stack(trace, frames, 2, false);
}

static void begin(void)
{
    trace = trace_new();
    uint32_t cuda =
            trace_add_module(trace, &(struct trace_module){.path = (char[]){"/x/libcudart.so"}});
    uint32_t app = trace_add_module(
            trace, &(struct trace_module){.path = (char[]){"/x/app"}, .is_program = true});
    uint32_t nccl = trace_add_module(
            trace, &(struct trace_module){.path = (char[]){"/x/libnccl.so"}, .is_program = true});

    by_app = stack_in(cuda, app, 0x10);
    by_nccl = stack_in(cuda, nccl, 0x20);
    by_nccl_elsewhere = stack_in(cuda, nccl, 0x30);
    load = (struct load){.trace = trace};
    symbols = symbols_new(trace);
}

static void end(struct sources *sources)
{
    sources_done(sources);
    symbols_free(symbols);
    trace_free(trace);
    free(load.others);
}

static void take(uint64_t address, uint64_t size, uint32_t stack, enum memclass memclass)
{
    (void)trace_add_alloc(trace,
            &(struct trace_block){
                    .address = address, .size = size, .stack = stack, .memclass = memclass});
}

static struct sources figure(void)
{
    struct sources sources;

    sources_figure(&load, model_whole(trace), symbols, &sources);
    return sources;
}

static const struct sources_row *row(
        const struct sources *sources, const char *library, enum memclass memclass)
{
    for (size_t i = 0; i < sources->row_count; i++)
        if (sources->rows[i].memclass == memclass
                && strcmp(sources->libraries[sources->rows[i].library].name, library) == 0)
            return &sources->rows[i];
    return NULL;
}

/*
 * The maximum is 42 MB, when the library held 30 + 2 and the program 10. Its own most was before that.
 */
static void story(void)
{
    begin();
    take(0x1000, 20 * MB, by_app, MEMCLASS_POOLED);
    (void)trace_add_free(trace, 0x1000, 0);
    take(0x2000, 10 * MB, by_app, MEMCLASS_POOLED);
    take(0x3000, 30 * MB, by_nccl, MEMCLASS_VMM);
    take(0x4000, 2 * MB, by_nccl_elsewhere, MEMCLASS_POOLED);
    (void)trace_add_free(trace, 0x3000, 0);
    take(0x5000, 1 * MB, 0, MEMCLASS_ARRAY);
    trace_add_other(trace, 0);
    load.others = malloc(sizeof(*load.others));
    load.other_count = 1;
    load.others[0] = (struct load_other){.memclass = MEMCLASS_HOST,
            .size = 100 * MB,
            .stack = by_app,
            .born = (uint32_t)trace->event_count - 1,
            .died = TRACE_NEVER};
}

TEST(memory_belongs_to_the_first_library_outside_of_cudas)
{
    struct sources sources;

    story();
    sources = figure();
    REQUIRE_EQ(sources.library_count, 3);
    CHECK_STR_EQ(sources.libraries[0].name, "/x/libnccl.so"); /* it held most at the maximum */
    CHECK_STR_EQ(sources.libraries[1].name, "/x/app");
    CHECK_STR_EQ(sources.libraries[2].name, "(no stack)");
    CHECK_EQ(sources.libraries[0].figures.at_max, 32 * MB);
    CHECK_EQ(sources.libraries[1].figures.at_max, 10 * MB);
    CHECK_EQ(sources.libraries[2].figures.at_max, 0);
    CHECK_EQ(sources.libraries[1].figures.peak, 20 * MB);
    CHECK_EQ(sources.libraries[1].figures.allocated, 30 * MB);
    CHECK_EQ(sources.libraries[1].figures.allocated_count, 2);
    CHECK_EQ(sources.libraries[0].figures.live, 2 * MB);
    CHECK_EQ(sources.libraries[0].figures.live_count, 1);
    CHECK_EQ(sources.count, 6);
    CHECK_EQ(sources.without_stack, 1);
    end(&sources);
}

TEST(kinds_of_memory_stand_apart_and_host_memory_in_no_sum)
{
    struct sources sources;

    story();
    sources = figure();
    REQUIRE(row(&sources, "/x/libnccl.so", MEMCLASS_VMM));
    CHECK_EQ(row(&sources, "/x/libnccl.so", MEMCLASS_VMM)->figures.at_max, 30 * MB);
    CHECK_EQ(row(&sources, "/x/libnccl.so", MEMCLASS_VMM)->figures.live, 0);
    CHECK_EQ(row(&sources, "/x/libnccl.so", MEMCLASS_POOLED)->figures.live, 2 * MB);
    REQUIRE(row(&sources, "/x/app", MEMCLASS_HOST));
    CHECK_EQ(row(&sources, "/x/app", MEMCLASS_HOST)->figures.live, 100 * MB);
    CHECK_EQ(row(&sources, "/x/app", MEMCLASS_HOST)->figures.at_max, 0); /* it came later */
    CHECK(row(&sources, "/x/app", MEMCLASS_VMM) == NULL);
    CHECK_EQ(sources.libraries[1].figures.live, 10 * MB);
    end(&sources);
}

TEST(the_places_of_a_library_come_by_what_they_held)
{
    struct sources sources;

    story();
    sources = figure();
    REQUIRE_EQ(sources.site_count, 4);
    CHECK_STR_EQ(sources.sites[0].site, "libnccl.so+0x20 libnccl.so");
    CHECK_EQ(sources.sites[0].figures.at_max, 30 * MB);
    CHECK_STR_EQ(sources.sites[1].site, "libnccl.so+0x30 libnccl.so");
    CHECK_EQ(sources.sites[2].library, 1);
    CHECK_EQ(sources.sites[2].figures.peak, 110 * MB); /* of all kinds */
    end(&sources);
}

TEST(only_what_the_window_allocated_counts)
{
    struct sources sources;

    story();
    sources_figure(&load, (struct model_window){.first = 2, .last = 4}, symbols, &sources);
    CHECK_EQ(sources.count, 2);
    CHECK_EQ(sources.libraries[0].figures.at_max, 30 * MB);
    CHECK_EQ(sources.libraries[1].figures.at_max, 10 * MB);
    CHECK_EQ(sources.libraries[0].figures.live, 30 * MB); /* freed after the window */
    end(&sources);
}

TEST(nothing_at_all_is_nobody)
{
    struct sources sources;

    begin();
    sources = figure();
    CHECK_EQ(sources.library_count, 0);
    CHECK_EQ(sources.count, 0);
    end(&sources);
}
