/* SPDX-License-Identifier: MIT */
/* covers: nvtx.c nvtx_chain.c */
/* Another NVTX tool, by the functions that it takes: who makes the handles, which of its functions are called, and for which libraries. */
#include "preload/anchors/nvtx_chain.h"
#include "preload/base/msg.h"
#include "preload/driver/resolve.h"
#include "tests/check.h"
#include "tests/preload/child.h"

enum {
    ELSEWHERE = 7, /* a module that kedge has nothing of */
};

/* ---- a library with NVTX inside ------------------------------------------------------------- */

static nvtx_fn core[NVTX_SLOTS], core2[NVTX_SLOTS], elsewhere[2];
static nvtx_fn *core_table[NVTX_SLOTS + 1], *core2_table[NVTX_SLOTS], *elsewhere_table[2];

static int module_table(int module, nvtx_fn ***ret_table, unsigned *ret_size)
{
    *ret_table = module == NVTX_MODULE_CORE ? core_table
            : module == NVTX_MODULE_CORE2   ? core2_table
                                            : elsewhere_table;
    *ret_size = module == NVTX_MODULE_CORE ? NVTX_SLOTS + 1
            : module == NVTX_MODULE_CORE2  ? NVTX_SLOTS
                                           : 2;
    return module == 3 ? 0 : 1;
}

static const void *get_table(uint32_t id)
{
    static const struct nvtx_callbacks callbacks = {sizeof callbacks, module_table};

    return id == NVTX_ETID_CALLBACKS ? (const void *)&callbacks : (const void *)core;
}

/* ---- the tool ------------------------------------------------------------------------------- */

/* What it takes. */
static struct {
    int module;
    unsigned id;
    bool declines;
} tool;
static unsigned warned, shown; /* shown: the size of its module's table */

static void function(void)
{
}

static nvtx_get_table kept;

static int init(nvtx_get_table get)
{
    const struct nvtx_callbacks *callbacks = get(NVTX_ETID_CALLBACKS);
    nvtx_fn **table;
    unsigned size;

    kept = get;
    CHECK(get(2) == (const void *)core); /* what else there is is the library's own */
    CHECK(!callbacks->module_table(3, &table, &size));
    if (tool.module) {
        REQUIRE(callbacks->module_table(tool.module, &table, &size) == 1);
        shown = size;
        REQUIRE(tool.id < size && table[tool.id]);
        *table[tool.id] = function;
    }
    return !tool.declines;
}

static void *find(void *library, const char *name)
{
    CHECK(library != NULL);
    CHECK_STR_EQ(name, "InitializeInjectionNvtx2");
    return (void *)init;
}

void *(*resolve_real_dlsym(void))(void *, const char *)
{
    return find;
}

void msg_warn(const char *format, ...)
{
    (void)format;
    warned++;
}

static void start(void)
{
    for (unsigned i = 0; i < NVTX_SLOTS; i++) {
        core_table[i] = &core[i];
        core2_table[i] = &core2[i];
    }
    elsewhere_table[0] = &elsewhere[0];
    nvtx_chain_set("libc.so.6"); /* a library that is there */
}

/* ---- tests ---------------------------------------------------------------------------------- */

/* Those whose argument may be a handle: all of CORE2, and of CORE the mark, the start and the push with attributes. */
static const struct taken {
    int module;
    unsigned id;
    bool declines;
    bool makes_handles;
} taken[] = {
        {0, 0, false, true}, /* it may take them later */
        {NVTX_MODULE_CORE, 0, false, false}, {NVTX_MODULE_CORE, 1, false, true},
        {NVTX_MODULE_CORE, 2, false, false}, {NVTX_MODULE_CORE, 4, false, true},
        {NVTX_MODULE_CORE, 5, false, false}, {NVTX_MODULE_CORE, 8, false, true},
        {NVTX_MODULE_CORE, 9, false, false}, {NVTX_MODULE_CORE, NVTX_SLOTS - 1, false, false},
        {NVTX_MODULE_CORE2, 0, false, true}, {NVTX_MODULE_CORE2, NVTX_SLOTS - 1, false, true},
        {ELSEWHERE, 0, false, true}, {NVTX_MODULE_CORE, 1, true, false}, /* it declines */
};
static const struct taken *now;

static void take(void)
{
    start();
    CHECK(!nvtx_chain_makes_handles());
    CHECK(!nvtx_chain_next(NVTX_MODULE_CORE, 1));
    tool.module = now->module;
    tool.id = now->id;
    tool.declines = now->declines;
    CHECK(nvtx_chain_open(get_table));
    CHECK(nvtx_chain_is_open());
    CHECK(!kept(NVTX_ETID_CALLBACKS)); /* it is asked no library by then */
    CHECK_EQ(shown, !now->module ? 0u : now->module == ELSEWHERE ? 2u : (unsigned)NVTX_SLOTS);
    CHECK_EQ(nvtx_chain_makes_handles(), now->makes_handles);
    for (int module = NVTX_MODULE_CORE; module <= NVTX_MODULE_CORE2; module += 4)
        for (unsigned id = 0; id < NVTX_SLOTS; id++)
            CHECK_EQ(nvtx_chain_next(module, id) == function,
                    !now->declines && module == now->module && id == now->id);
    CHECK_EQ(elsewhere[0] == function, now->module == ELSEWHERE);
    CHECK(!core[1] && !core2[0]); /* the library is kedge's to fill */
}

TEST(a_tool_makes_the_handles_if_one_of_its_functions_takes_them)
{
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        now = &taken[i];
        CHECK_EQ(run_child(take), 0);
    }
}

/* The functions that are called are those for the first: of a library that it fills otherwise the tool has all to itself. */
TEST(a_library_that_the_tool_fills_otherwise_is_its_own)
{
    start();
    tool.module = NVTX_MODULE_CORE;
    tool.id = 2;
    CHECK(nvtx_chain_open(get_table));
    CHECK(nvtx_chain_open(get_table));
    CHECK_EQ(warned, 0);
    tool.id = 3;
    CHECK(!nvtx_chain_open(get_table));
    CHECK_EQ(warned, 1);
    CHECK(core[3] == function);
    CHECK(nvtx_chain_next(NVTX_MODULE_CORE, 2) == function);
    CHECK(!nvtx_chain_next(NVTX_MODULE_CORE, 3));
    tool.declines = true;
    CHECK(!nvtx_chain_open(get_table));
    CHECK_EQ(warned, 2);
}

TEST(a_handle_stands_for_its_text_and_a_range_for_one_anchor_once)
{
    static const char text[] = "text";
    static const char handles[2];

    nvtx_chain_name(&handles[0], text);
    CHECK(nvtx_chain_text(&handles[0]) == text);
    CHECK(nvtx_chain_text(&handles[0]) == text);
    CHECK(!nvtx_chain_text(&handles[1]));
    nvtx_chain_range(5, 50);
    nvtx_chain_range(6, 60);
    nvtx_chain_range(6, 61); /* the same id again */
    CHECK_EQ(nvtx_chain_anchor(5), 50);
    CHECK_EQ(nvtx_chain_anchor(5), 0);
    CHECK_EQ(nvtx_chain_anchor(6), 61);
    CHECK_EQ(nvtx_chain_anchor(7), 0);
}
