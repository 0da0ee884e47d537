/* SPDX-License-Identifier: MIT */
/*
 * Two tools for one NVTX: the variable names another tool before kedge comes. Each event reaches both, the tool's results,
 * handles and ids are the program's.
 */
#include "tests/preload/told.h"

#include "tests/trainers/include/nvtx.h"

#include <dlfcn.h>

static char *tool_seen(void)
{
    void *tool = dlopen(TOOL_PATH, RTLD_LAZY | RTLD_NOLOAD); /* nobody else has loaded it */

    REQUIRE(tool);
    return dlsym(tool, "tool_seen");
}

static nvtxEventAttributes_t attributes(int type, const void *message)
{
    nvtxEventAttributes_t what;

    memset(&what, 0, sizeof what);
    what.version = NVTX_VERSION;
    what.size = sizeof what;
    what.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
    what.payload.ullValue = 42;
    what.messageType = type;
    what.message.ascii = message;
    return what;
}

TEST(both_tools_see_plain_ranges_and_the_results_are_the_others)
{
    nvtxRangeId_t first, second;

    told_begin();
    (void)told();
    CHECK_EQ(nvtxRangePushA("outer"), 0);
    CHECK_EQ(nvtxRangePushA("inner"), 1);
    CHECK_STR_EQ(told_path(), "outer/inner");
    CHECK_EQ(nvtxRangePop(), 1);
    CHECK_EQ(nvtxRangePop(), 0);
    nvtxMarkA("moment");
    first = nvtxRangeStartA("first");
    second = nvtxRangeStartA("second");
    CHECK_EQ(first, 1001);
    CHECK_EQ(second, 1002);
    CHECK_STR_EQ(told_path(), "second");
    nvtxRangeEnd(first);
    CHECK_STR_EQ(told_path(), "second");
    nvtxRangeEnd(second);
    nvtxRangeEnd(second); /* once too often */
    CHECK_STR_EQ(told_path(), "");
    CHECK_STR_EQ(told(),
            "+outer +outer/inner -outer/inner -outer !moment +first +second -first -second");
    CHECK_STR_EQ(tool_seen(),
            "push outer, push inner, pop -, pop -, mark moment, start first, "
            "start second, end another, end the last, end the last");
}

/* The tool has no function for the start, but one for the end: our id must not be one that it has given to another range. */
TEST(an_id_of_ours_is_none_of_the_tools)
{
    uint64_t (*start_wide)(const wchar_t *);
    nvtxRangeId_t ours;

    told_begin();
    (void)told();
    start_wide = (uint64_t(*)(const wchar_t *))nvtx_core(6);
    REQUIRE(start_wide);
    ours = start_wide(L"wide");
    CHECK_GT(ours, UINT32_MAX);
    nvtxRangeEnd(ours);
    nvtxRangeEnd(ours);
    CHECK_STR_EQ(told(), "+wide -wide");
    CHECK_STR_EQ(tool_seen(), "end nothing, end another");
}

TEST(both_tools_see_domains_and_registered_strings)
{
    nvtxDomainHandle_t domain;
    nvtxStringHandle_t string;
    nvtxEventAttributes_t what;

    told_begin();
    (void)told();
    domain = nvtxDomainCreateA("trainer");
    string = nvtxDomainRegisterStringA(domain, "forward");
    CHECK_EQ((uintptr_t)domain, 0x1000);
    what = attributes(NVTX_MESSAGE_TYPE_REGISTERED, string);
    CHECK_EQ(nvtxDomainRangePushEx(domain, &what), 70);
    CHECK_STR_EQ(told_path(), "trainer:forward");
    CHECK_EQ(nvtxDomainRangePop(domain), 69);
    what = attributes(NVTX_MESSAGE_TYPE_ASCII, "backward");
    CHECK_EQ(nvtxDomainRangePushEx(domain, &what), 70);
    CHECK_EQ(nvtxDomainRangePop(domain), 69);
    what = attributes(NVTX_MESSAGE_TYPE_ASCII, "nobody's business");
    nvtxDomainMarkEx(domain, &what); /* the tool has no function for this */
    nvtxDomainDestroy(domain);
    CHECK_STR_EQ(told(),
            "+trainer:forward -trainer:forward +trainer:backward -trainer:backward "
            "!trainer:nobody's business");
    CHECK_STR_EQ(tool_seen(),
            "domain trainer, trainer forward, trainer forward, pop of trainer, "
            "trainer backward, pop of trainer, no more trainer");
}

TEST(both_tools_see_every_library)
{
    void *library = dlopen(EMITTER_PATH, RTLD_NOW | RTLD_LOCAL);
    void (*emit)(const char *) = library ? (void (*)(const char *))dlsym(library, "emit") : NULL;

    REQUIRE(emit);
    told_begin();
    (void)told();
    (void)nvtxRangePushA("program's");
    emit("library's");
    (void)nvtxRangePop();
    CHECK_STR_EQ(told(), "+program's +program's/library's -program's/library's -program's");
    CHECK_STR_EQ(tool_seen(), "push program's, push library's, pop -, pop -");
}

/* What only the tool has a function for goes straight to it. */
TEST(what_kedge_does_not_know_is_the_tools)
{
    void (*name_category)(uint32_t, const char *);

    told_begin();
    name_category = (void (*)(uint32_t, const char *))nvtx_core(12);
    REQUIRE(name_category);
    name_category(7, "layers");
    CHECK_STR_EQ(tool_seen(), "category layers");
}

/* The tool cannot register wide strings: it must not be given a handle that is none of its own. */
TEST(what_the_tool_does_not_make_it_is_not_given)
{
    const void *(*register_wide)(nvtxDomainHandle_t, const wchar_t *);
    nvtxDomainHandle_t domain;
    nvtxEventAttributes_t what;

    told_begin();
    (void)told();
    domain = nvtxDomainCreateA("trainer");
    register_wide = (const void *(*)(nvtxDomainHandle_t, const wchar_t *))nvtx_core2(11);
    REQUIRE(register_wide);
    what = attributes(NVTX_MESSAGE_TYPE_REGISTERED, register_wide(domain, L"wide"));
    CHECK(what.message.registered == NULL); /* as without kedge */
    CHECK_EQ(nvtxDomainRangePushEx(domain, &what), 70);
    CHECK_EQ(nvtxDomainRangePop(domain), 69);
    CHECK_STR_EQ(told(), "+trainer:(unnamed) -trainer:(unnamed)");
    CHECK_STR_EQ(tool_seen(), "domain trainer, trainer -, pop of trainer");
}

static void names_of_handles(const char *is)
{
    nvtxDomainHandle_t domain;
    nvtxEventAttributes_t what;

    REQUIRE(setenv("NVTX_TOOL_IS", is, 1) == 0);
    told_begin();
    (void)told();
    domain = nvtxDomainCreateA("trainer");
    what = attributes(NVTX_MESSAGE_TYPE_REGISTERED, nvtxDomainRegisterStringA(domain, "forward"));
    (void)nvtxDomainRangePushEx(domain, &what);
    CHECK_STR_EQ(told_path(), "trainer:forward");
    (void)nvtxDomainRangePop(domain);
    (void)nvtxRangePushA("plain");
    (void)nvtxRangePop();
    CHECK_STR_EQ(told(), "+trainer:forward -trainer:forward +plain -plain");
}

/* A tool that is never given a handle: those of kedge do no harm. */
TEST(names_are_known_though_the_tool_declines)
{
    names_of_handles("declining");
    CHECK_STR_EQ(tool_seen(), "");
}

TEST(names_are_known_though_the_tool_knows_no_domains)
{
    names_of_handles("plain");
    CHECK_STR_EQ(tool_seen(), "push plain, pop -");
}
