/* SPDX-License-Identifier: MIT */
/* covers: argcheck.c */
/* Which ranges each kind of copy is looked at for, in which order, and that the first that stops it is the last. */
#include "preload/base/msg.h"
#include "preload/caller/coverage.h"
#include "preload/driver/contexts.h"
#include "preload/driver/resolve.h"
#include "preload/hints/argcheck.h"
#include "preload/hints/evict_in.h"
#include "preload/hints/hints_run.h"
#include "preload/hints/pins.h"
#include "tests/check.h"

#include <stdarg.h>

void *resolve_real[SLOT_COUNT];
struct hints_run hints_run;
static char looked[512]; /* "w 1000+64" for each range, "data 1000 2000+64" for bytes of the host */
static devptr_t released = UINT64_MAX;

static void look(const char *format, ...)
{
    size_t used = strlen(looked);
    va_list args;

    va_start(args, format);
    (void)vsnprintf(looked + used, sizeof looked - used, format, args);
    va_end(args);
}

/* As for a captured call, so that it is seen how each range is looked at. */
bool pins_collect(struct pins *pins, devptr_t lo, uint64_t len, enum touch how, const char *call)
{
    (void)pins;
    CHECK_STR_EQ(call, "call");
    look("%c %lu+%lu ", "*rwpi"[how], (unsigned long)lo, (unsigned long)len);
    return released - lo < len;
}

bool evict_in_data_slowly(devptr_t dst, const void *src, uint64_t size)
{
    look("data %lu %lu+%lu ", (unsigned long)dst, (unsigned long)(uintptr_t)src,
            (unsigned long)size);
    return false;
}

/* ---- nothing of the rest is asked: there is no pool, no hint, and uses are not recorded ----- */

#define NEVER(result, params, value) \
    result params                    \
    {                                \
        REQUIRE(false);              \
        return value;                \
    }
/* clang-format off */
NEVER(bool, evict_in_all(void), false)
NEVER(bool, evict_in_name(devptr_t ptr __attribute__((unused)), uint64_t size __attribute__((unused)),
        bool is_written __attribute__((unused))), false)
NEVER(int, context_here(struct context *ret_context __attribute__((unused))), 0)
NEVER(bool, context_of_handle(CUcontext handle __attribute__((unused)),
        struct context *ret_context __attribute__((unused))), false)
NEVER(bool, context_of_generation(uint64_t generation __attribute__((unused)),
        struct context *ret_context __attribute__((unused))), false)
NEVER(void, context_note(CUcontext handle __attribute__((unused))), )
NEVER(void, coverage_look(void), )
struct pool *session_pool;
NEVER(uint64_t, session_seq(void), 0)
NEVER(void, session_report(int r __attribute__((unused))), )
NEVER(void, msg_warn(const char *format __attribute__((unused)), ...), )
NEVER(void, pins_unseen(struct pins *pins __attribute__((unused))), )
NEVER(void, pins_untold(struct pins *pins __attribute__((unused))), )
NEVER(bool, resolve_has(enum resolve_slot slot __attribute__((unused))), false)
NEVER(void, hints_run_fall_back(void), )
/* clang-format on */

static void start(void)
{
    static struct pins pins;
    static struct evict_in bring;

    guard_thread.pins = &pins;
    guard_thread.bring = &bring;
}

static void are_looked_at(const char *ranges)
{
    CHECK_STR_EQ(looked, ranges);
    looked[0] = '\0';
}

TEST(a_batch_of_copies_is_looked_at_up_to_the_first_that_stops_it)
{
    const CUdeviceptr dsts[] = {1000, 2000, 3000, 4000}, srcs[] = {5000, 6000, 7000, 8000};
    const size_t sizes[] = {10, 20, 30, 40};

    start();
    CHECK(!argcheck_copies(dsts, srcs, sizes, 3, "call"));
    are_looked_at("w 1000+10 r 5000+10 data 1000 5000+10 w 2000+20 r 6000+20 data 2000 6000+20 "
                  "w 3000+30 r 7000+30 data 3000 7000+30 ");
    released = 2019;
    CHECK(argcheck_copies(dsts, srcs, sizes, 3, "call"));
    are_looked_at("w 1000+10 r 5000+10 data 1000 5000+10 w 2000+20 ");
    released = 6000;
    CHECK(argcheck_copies(dsts, srcs, sizes, 3, "call"));
    are_looked_at("w 1000+10 r 5000+10 data 1000 5000+10 w 2000+20 r 6000+20 ");
    CHECK(!argcheck_copies(NULL, srcs, sizes, 3, "call"));
    CHECK(!argcheck_copies(dsts, NULL, sizes, 3, "call"));
    CHECK(!argcheck_copies(dsts, srcs, NULL, 3, "call"));
    CHECK(!argcheck_copies(dsts, srcs, sizes, 0, "call"));
    are_looked_at("");
}

static CUfabricCpyOperand operand(unsigned type, CUdeviceptr ptr)
{
    CUfabricCpyOperand made = {.type = type};

    made.op.ptr.ptr = ptr;
    return made;
}

/* An offset in an endpoint is no address. */
TEST(copies_over_a_fabric_are_looked_at_where_they_have_addresses)
{
    const unsigned pointer = CU_FABRIC_COPY_OPERAND_TYPE_POINTER, offset = pointer + 1;
    const CUDA_FABRIC_COPY_BATCH_OP ops[] = {
            {.dst = operand(pointer, 1000), .src = operand(pointer, 2000), .size = 10},
            {.dst = operand(offset, 3000), .src = operand(pointer, 4000), .size = 20},
            {.dst = operand(pointer, 5000), .src = operand(offset, 6000), .size = 30},
            {.dst = operand(offset, 7000), .src = operand(offset, 8000), .size = 40},
    };

    start();
    CHECK(!argcheck_fabric(ops, 3, "call"));
    are_looked_at("w 1000+10 r 2000+10 data 1000 2000+10 r 4000+20 w 5000+30 ");
    CHECK(!argcheck_fabric(ops + 3, 1, "call"));
    CHECK(!argcheck_fabric(NULL, 4, "call"));
    are_looked_at("");
    released = 4005;
    CHECK(argcheck_fabric(ops, 4, "call"));
    are_looked_at("w 1000+10 r 2000+10 data 1000 2000+10 r 4000+20 ");
    released = 5000;
    CHECK(argcheck_fabric(ops, 4, "call"));
    are_looked_at("w 1000+10 r 2000+10 data 1000 2000+10 r 4000+20 w 5000+30 ");
}

TEST(an_extent_is_from_the_first_byte_to_the_last)
{
    static const struct {
        size_t pitch, plane_rows, width, height, depth;
        uint64_t bytes;
    } cases[] = {{0, 0, 10, 1, 1, 10}, {16, 0, 10, 1, 1, 10}, {16, 0, 10, 3, 1, 42},
            {0, 0, 10, 3, 1, 30}, {16, 0, 10, 3, 2, 90}, {16, 5, 10, 3, 2, 122},
            {0, 5, 10, 3, 3, 130}, {16, 5, 0, 3, 2, 0}, {16, 5, 10, 0, 2, 0}, {16, 5, 10, 3, 0, 0}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK_EQ(argcheck_extent(cases[i].pitch, cases[i].plane_rows, cases[i].width,
                         cases[i].height, cases[i].depth),
                cases[i].bytes);
}

#define HOST(at)   .type = CU_MEMORYTYPE_HOST, .host = (const void *)(uintptr_t)(at)
#define DEVICE(at) .type = CU_MEMORYTYPE_DEVICE, .device = (at)
#define ARRAY      .type = CU_MEMORYTYPE_ARRAY, .device = 77

/* Where the destination has gaps between its rows, it is not replaced: a pointer, no write. */
TEST(both_sides_of_a_copy_in_three_dimensions_are_looked_at)
{
    static const struct {
        struct argcheck_side src, dst;
        CUextent3D size;
        const char *looked;
    } cases[] = {
            {{DEVICE(1000)}, {DEVICE(2000)}, {10, 1, 1}, "r 1000+10 w 2000+10 "},
            {{DEVICE(1000), .pitch = 16}, {DEVICE(2000), .pitch = 10}, {10, 3, 1},
                    "r 1000+42 w 2000+30 "},
            {{DEVICE(1000), .pitch = 10}, {DEVICE(2000), .pitch = 16}, {10, 3, 1},
                    "r 1000+30 * 2000+42 "},
            {{DEVICE(1000), .pitch = 16, .plane_rows = 5},
                    {DEVICE(2000), .pitch = 10, .plane_rows = 3}, {10, 3, 2},
                    "r 1000+122 w 2000+60 "},
            {{DEVICE(1000)}, {DEVICE(2000), .plane_rows = 4}, {10, 3, 2}, "r 1000+60 * 2000+70 "},
            {{DEVICE(1000), .x = 1, .y = 2, .z = 3, .pitch = 16, .plane_rows = 5},
                    {DEVICE(2000), .x = 3, .y = 2, .z = 1}, {10, 4, 2}, "r 1273+138 w 2063+80 "},
            {{ARRAY}, {DEVICE(2000)}, {10, 3, 1}, "w 2000+30 "},
            {{DEVICE(1000)}, {ARRAY}, {10, 3, 1}, "r 1000+30 "},
            /* what comes from the host may have addresses in it; of rows with gaps the first */
            {{HOST(1000)}, {DEVICE(2000)}, {10, 3, 2}, "r 1000+60 w 2000+60 data 2000 1000+60 "},
            {{HOST(1000), .pitch = 16}, {DEVICE(2000)}, {10, 3, 2},
                    "r 1000+90 w 2000+60 data 2000 1000+10 "},
            {{HOST(1000), .x = 4, .y = 1, .pitch = 16},
                    {DEVICE(2000), .x = 2, .z = 1, .pitch = 32, .plane_rows = 8}, {10, 2, 1},
                    "r 1020+26 * 2258+42 data 2258 1020+10 "},
            {{HOST(1000)}, {HOST(2000)}, {10, 1, 1}, "r 1000+10 w 2000+10 "},
            {{HOST(1000)}, {ARRAY}, {10, 1, 1}, "r 1000+10 "},
            {{DEVICE(1000)}, {HOST(2000)}, {10, 1, 1}, "r 1000+10 w 2000+10 "},
    };

    start();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK(!argcheck_sides(cases[i].src, cases[i].dst, cases[i].size, "call"));
        are_looked_at(cases[i].looked);
    }
    released = 1000;
    CHECK(argcheck_sides(cases[8].src, cases[8].dst, cases[8].size, "call"));
    are_looked_at("r 1000+60 ");
    released = 2059;
    CHECK(argcheck_sides(cases[8].src, cases[8].dst, cases[8].size, "call"));
    are_looked_at("r 1000+60 w 2000+60 ");
}
