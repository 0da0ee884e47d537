/* SPDX-License-Identifier: MIT */
/*
 * NVTX 2: a library, libnvToolsExt, whose functions a program is linked with or looks up (older PyTorch, Paddle). The exports make
 * the real call and then tell the story, unless the library has told it already: some look at NVTX_INJECTION64_PATH like NVTX 3
 * and come to nvtx.c by themselves, which counts its calls (nvtx_calls).
 *
 * Results are the library's. One without a tool gives no handles and no ids; then ours are given, and are nothing to it. What
 * a real id or handle stands for is kept in nvtx_chain.c's table.
 */
#include "preload/exports.h"
#include "preload/nvtx.h"
#include "preload/nvtx_chain.h"
#include "preload/source.h"

#include <stdatomic.h>
#include <string.h>

enum {
    NO_TRACKING = -2,
};

typedef const struct nvtx_attributes *attributes_ptr;

/* X(name, result, parameters, arguments) */
#define NVTX2_CALLS(X)                                                                        \
    X(nvtxMarkEx, void, (attributes_ptr what), (what))                                        \
    X(nvtxMarkA, void, (const char *name), (name))                                            \
    X(nvtxMarkW, void, (const wchar_t *name), (name))                                         \
    X(nvtxRangeStartEx, uint64_t, (attributes_ptr what), (what))                              \
    X(nvtxRangeStartA, uint64_t, (const char *name), (name))                                  \
    X(nvtxRangeStartW, uint64_t, (const wchar_t *name), (name))                               \
    X(nvtxRangeEnd, void, (uint64_t id), (id))                                                \
    X(nvtxRangePushEx, int, (attributes_ptr what), (what))                                    \
    X(nvtxRangePushA, int, (const char *name), (name))                                        \
    X(nvtxRangePushW, int, (const wchar_t *name), (name))                                     \
    X(nvtxRangePop, int, (void), ())                                                          \
    X(nvtxDomainMarkEx, void, (void *domain, attributes_ptr what), (domain, what))            \
    X(nvtxDomainRangeStartEx, uint64_t, (void *domain, attributes_ptr what), (domain, what))  \
    X(nvtxDomainRangeEnd, void, (void *domain, uint64_t id), (domain, id))                    \
    X(nvtxDomainRangePushEx, int, (void *domain, attributes_ptr what), (domain, what))        \
    X(nvtxDomainRangePop, int, (void *domain), (domain))                                      \
    X(nvtxDomainRegisterStringA, void *, (void *domain, const char *text), (domain, text))    \
    X(nvtxDomainRegisterStringW, void *, (void *domain, const wchar_t *text), (domain, text)) \
    X(nvtxDomainCreateA, void *, (const char *name), (name))                                  \
    X(nvtxDomainCreateW, void *, (const wchar_t *name), (name))

#pragma GCC visibility push(default)
#define DECLARE(name, result, params, args) result name params;
NVTX2_CALLS(DECLARE)
#undef DECLARE
#pragma GCC visibility pop

#define REAL_SLOT(name, result, params, args) static struct export export_of_##name;
NVTX2_CALLS(REAL_SLOT)
#undef REAL_SLOT

static struct export_library library = {.base = "libnvToolsExt.so"};

#define FIND(name)                     \
    ((__typeof__(&(name)))export_real( \
            &library, &export_of_##name, #name, (void *)(name), __builtin_return_address(0)))

static struct export *export_of(const char *name, void **ret_ours)
{
#define ROW(call, result, params, args) \
    if (strcmp(name, #call) == 0) {     \
        *ret_ours = (void *)(call);     \
        return &export_of_##call;       \
    }
    NVTX2_CALLS(ROW)
#undef ROW
    return NULL;
}

void *export_nvtx(void *handle, const char *name)
{
    void *ours = NULL;
    struct export *export = export_of(name, &ours);

    return export ? export_take(&library, export, handle, name, ours) : NULL;
}

/* Whether nobody has told it since `before`. */
static bool is_untold(uint64_t before)
{
    return nvtx_calls == before && source_wants(SOURCE_NVTX);
}

static uint64_t started(uint64_t before, uint64_t id, const char *domain, const char *name)
{
    uint64_t anchor;

    if (!is_untold(before))
        return id;
    anchor = source_start(domain, name);
    id = id ? id : anchor;
    if (id)
        nvtx_chain_range(id, anchor);
    return id;
}

static void *handled(uint64_t before, void *handle, const char *name)
{
    if (!is_untold(before) || !name)
        return handle;
    /* The library's type has no const; nobody writes to it. */
    handle = handle ? handle : (void *)(uintptr_t)name;
    nvtx_chain_name(handle, name);
    return handle;
}

/* NOLINTBEGIN(bugprone-macro-parentheses): a parameter cannot stand in parentheses of its own */
/* clang-format off */
#define MARK(name, params, args, domain, said)                 \
    void name params                                           \
    {                                                          \
        __typeof__(&(name)) real = FIND(name);                 \
        uint64_t before = nvtx_calls;                          \
        if (real)                                              \
            real args;                                         \
        if (is_untold(before))                                 \
            source_mark(domain, said);                          \
    }
#define START(name, params, args, domain, said)                \
    uint64_t name params                                       \
    {                                                          \
        __typeof__(&(name)) real = FIND(name);                 \
        uint64_t before = nvtx_calls;                          \
        uint64_t id = real ? real args : 0;                    \
        return started(before, id, domain, said);              \
    }
#define END(name, params, args)                                \
    void name params                                           \
    {                                                          \
        __typeof__(&(name)) real = FIND(name);                 \
        uint64_t before = nvtx_calls;                          \
        if (real)                                              \
            real args;                                         \
        if (is_untold(before))                                 \
            source_end(nvtx_chain_anchor(id));                  \
    }
#define PUSH(name, params, args, tell)                         \
    int name params                                            \
    {                                                          \
        __typeof__(&(name)) real = FIND(name);                 \
        uint64_t before = nvtx_calls;                          \
        int level = real ? real args : NO_TRACKING;            \
        if (is_untold(before))                                 \
            tell;                                              \
        return level;                                          \
    }
#define HANDLE(name, params, args, said)                       \
    void *name params                                          \
    {                                                          \
        __typeof__(&(name)) real = FIND(name);                 \
        uint64_t before = nvtx_calls;                          \
        void *handle = real ? real args : NULL;                \
        return handled(before, handle, said);                  \
    }
/* clang-format on */
/* NOLINTEND(bugprone-macro-parentheses) */

MARK(nvtxMarkEx, (attributes_ptr what), (what), NULL, nvtx_name(what, nvtx_chain_text))
MARK(nvtxMarkA, (const char *name), (name), NULL, name)
MARK(nvtxMarkW, (const wchar_t *name), (name), NULL, nvtx_narrow(name))
MARK(nvtxDomainMarkEx, (void *domain, attributes_ptr what), (domain, what), nvtx_chain_text(domain),
        nvtx_name(what, nvtx_chain_text))
START(nvtxRangeStartEx, (attributes_ptr what), (what), NULL, nvtx_name(what, nvtx_chain_text))
START(nvtxRangeStartA, (const char *name), (name), NULL, name)
START(nvtxRangeStartW, (const wchar_t *name), (name), NULL, nvtx_narrow(name))
START(nvtxDomainRangeStartEx, (void *domain, attributes_ptr what), (domain, what),
        nvtx_chain_text(domain), nvtx_name(what, nvtx_chain_text))
END(nvtxRangeEnd, (uint64_t id), (id))
END(nvtxDomainRangeEnd, (void *domain, uint64_t id), (domain, id))
PUSH(nvtxRangePushEx, (attributes_ptr what), (what),
        source_push(NULL, nvtx_name(what, nvtx_chain_text)))
PUSH(nvtxRangePushA, (const char *name), (name), source_push(NULL, name))
PUSH(nvtxRangePushW, (const wchar_t *name), (name), source_push(NULL, nvtx_narrow(name)))
PUSH(nvtxRangePop, (void), (), source_pop(NULL))
PUSH(nvtxDomainRangePushEx, (void *domain, attributes_ptr what), (domain, what),
        source_push(nvtx_chain_text(domain), nvtx_name(what, nvtx_chain_text)))
PUSH(nvtxDomainRangePop, (void *domain), (domain), source_pop(nvtx_chain_text(domain)))
HANDLE(nvtxDomainRegisterStringA, (void *domain, const char *text), (domain, text), nvtx_kept(text))
HANDLE(nvtxDomainRegisterStringW, (void *domain, const wchar_t *text), (domain, text),
        nvtx_narrow(text))
HANDLE(nvtxDomainCreateA, (const char *name), (name), nvtx_kept(name))
HANDLE(nvtxDomainCreateW, (const wchar_t *name), (name), nvtx_narrow(name))
