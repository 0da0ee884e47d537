/* SPDX-License-Identifier: MIT */
/*
 * NVTX 2: a library, libnvToolsExt, whose functions a program links or looks up (older PyTorch,
 * Paddle). The exports make the real call and then record the event, unless the library has already
 * reported it: some versions read NVTX_INJECTION64_PATH like NVTX 3 and call nvtx.c themselves,
 * which counts its calls (nvtx_calls).
 *
 * Results are the library's. Without a tool it returns no handles and no ids; then the program gets
 * ours, which the library ignores. nvtx_chain.c's table keeps the names of real ids and handles.
 */
#include "preload/anchors/nvtx.h"
#include "preload/anchors/nvtx_chain.h"
#include "preload/anchors/source.h"
#include "preload/base/exports.h"

#include <string.h>

enum {
    NO_TRACKING = -2,
};

#define TEXT(handle)     nvtx_chain_text(handle)
#define NAME(attributes) nvtx_name(attributes, nvtx_chain_text)

#pragma GCC visibility push(default)
#define EVENT(kind, result, name, module, id, params, ...) result name params;
#include "preload/base/nvtx_events.def"
#pragma GCC visibility pop

#define EVENT(kind, result, name, ...) static struct export export_of_##name;
#include "preload/base/nvtx_events.def"

static struct export_library library = {.base = "libnvToolsExt.so"};

#define FIND(name)                     \
    ((__typeof__(&(name)))export_real( \
            &library, &export_of_##name, #name, (void *)(name), __builtin_return_address(0)))

void *export_nvtx(void *handle, const char *name)
{
#define EVENT(kind, result, call, ...) \
    if (strcmp(name, #call) == 0)      \
        return export_take(&library, &export_of_##call, handle, name, (void *)(call));
#include "preload/base/nvtx_events.def"
    return NULL;
}

/* Whether the event has not been reported since `before`. */
static bool is_untold(uint64_t before)
{
    return nvtx_calls == before && source_wants(SOURCE_NVTX);
}

static uint64_t export_nvtx_started(
        uint64_t before, uint64_t id, const char *domain, const char *name)
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
    /* The library's type has no const; it is never written through. */
    handle = handle ? handle : (void *)(uintptr_t)name;
    nvtx_chain_name(handle, name);
    return handle;
}

/* NOLINTBEGIN(bugprone-macro-parentheses): parameter lists cannot be put in parentheses */
/* clang-format off */
#define MARK(name, module, nth, params, args, domain, said)    \
    void name params                                           \
    {                                                          \
        __typeof__(&(name)) real = FIND(name);                 \
        uint64_t before = nvtx_calls;                          \
        if (real)                                              \
            real args;                                         \
        if (is_untold(before))                                 \
            source_mark(domain, said);                         \
    }
#define START(name, module, nth, params, args, domain, said)   \
    uint64_t name params                                       \
    {                                                          \
        __typeof__(&(name)) real = FIND(name);                 \
        uint64_t before = nvtx_calls;                          \
        uint64_t id = real ? real args : 0;                    \
        return export_nvtx_started(before, id, domain, said);              \
    }
#define END(name, module, nth, params, args, domain, said)     \
    void name params                                           \
    {                                                          \
        __typeof__(&(name)) real = FIND(name);                 \
        uint64_t before = nvtx_calls;                          \
        if (real)                                              \
            real args;                                         \
        if (is_untold(before))                                 \
            source_end(nvtx_chain_anchor(id));                 \
    }
#define LEVEL(name, params, args, tell)                        \
    int name params                                            \
    {                                                          \
        __typeof__(&(name)) real = FIND(name);                 \
        uint64_t before = nvtx_calls;                          \
        int level = real ? real args : NO_TRACKING;            \
        if (is_untold(before))                                 \
            tell;                                              \
        return level;                                          \
    }
#define PUSH(name, module, nth, params, args, domain, said)    \
    LEVEL(name, params, args, source_push(domain, said))
#define POP(name, module, nth, params, args, domain, said)     \
    LEVEL(name, params, args, source_pop(domain))
#define STRING(name, module, nth, params, args, domain, said)  \
    void *name params                                          \
    {                                                          \
        __typeof__(&(name)) real = FIND(name);                 \
        uint64_t before = nvtx_calls;                          \
        void *handle = real ? real args : NULL;                \
        return handled(before, handle, said);                  \
    }
#define DOMAIN(...) STRING(__VA_ARGS__)
/* clang-format on */
/* NOLINTEND(bugprone-macro-parentheses) */

#define EVENT(kind, result, ...) kind(__VA_ARGS__)
#include "preload/base/nvtx_events.def"
