/* SPDX-License-Identifier: MIT */
#include "preload/anchors/nvtx.h"

#include "preload/anchors/nvtx_chain.h"
#include "preload/anchors/source.h"
#include "preload/base/guard.h"
#include "preload/base/kedge.h"
#include "preload/driver/resolve.h"
#include "tracker/base/config.h"
#include "tracker/base/utf8.h"
#include "tracker/stacks/intern.h"
#include "tracker/where/anchor.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

__thread uint64_t nvtx_calls __attribute__((tls_model("initial-exec")));

/* ---- the part of NVTX 3's public interface that kedge uses ---------------------------------- */

enum {
    MESSAGE_ASCII = 1,
    MESSAGE_UNICODE = 2,
    MESSAGE_REGISTERED = 3,
    NO_TRACKING = -2, /* returned by a push without a tool */
};

/* ---- names ---------------------------------------------------------------------------------- */

/* Inside kedge, so that a signal handler does not enter (source.h). */
static const char *kept_text(const char *text, size_t length)
{
    const char *text_kept;

    guard_push();
    text_kept = intern_text(intern_string(text, length));
    guard_pop();
    return text_kept;
}

const char *nvtx_narrow(const wchar_t *wide)
{
    char text[ANCHOR_NAME_MAX + 5];
    size_t used = 0;

    if (!wide)
        return NULL;
    for (; *wide && used <= ANCHOR_NAME_MAX; wide++)
        used += utf8_put((uint32_t)*wide, text + used);
    return kept_text(text, used);
}

const char *nvtx_kept(const char *text)
{
    return text ? kept_text(text, strlen(text)) : NULL;
}

/* ---- handles: without another tool, an interned name is its own handle ---------------------- */

static const char *nvtx_text_of(const void *handle)
{
    return handle && nvtx_chain_is_set() ? nvtx_chain_text(handle) : handle;
}

/*
 * The handle for a name of ours. With a tool behind us, the tool's handle, which may be NULL, since
 * the tool will get it back and may take it for its own.
 */
static void *handle_for(const char *name, void *theirs)
{
    /* never written through */
    void *handle = nvtx_chain_makes_handles() ? theirs : (void *)(uintptr_t)name;

    if (nvtx_chain_is_set() && handle)
        nvtx_chain_name(handle, name);
    return handle;
}

/* Marks an id of ours where the tool gave none: it must not be taken for one of the tool's. */
#define NOT_THEIRS (UINT64_C(1) << 63)

static uint64_t started_id(uint64_t anchor, uint64_t theirs)
{
    uint64_t id = theirs ? theirs : anchor;

    if (!theirs && anchor && nvtx_chain_is_open())
        id |= NOT_THEIRS;
    if (nvtx_chain_is_set() && id)
        nvtx_chain_range(id, anchor);
    return id;
}

/* Returns the id to pass to the tool: none if the tool gave none. */
static uint64_t ended_id(uint64_t id)
{
    uint64_t anchor = nvtx_chain_is_set() ? nvtx_chain_anchor(id) : id;

    source_end(anchor);
    return anchor && id == (anchor | NOT_THEIRS) ? 0 : id;
}

const char *nvtx_name(
        const struct nvtx_attributes *attributes, const char *(*text_of_handle)(const void *))
{
    const char *name = NULL;

    if (!attributes || attributes->size < sizeof *attributes)
        return "(unnamed)";
    if (attributes->message_type == MESSAGE_ASCII)
        name = attributes->message;
    else if (attributes->message_type == MESSAGE_REGISTERED)
        name = text_of_handle(attributes->message);
    else if (attributes->message_type == MESSAGE_UNICODE)
        name = nvtx_narrow(attributes->message);
    return name && *name ? name : "(unnamed)";
}

/* ---- events: recorded first, then passed to the tool with the program's arguments ------------ */

/* NCCL's ranges are its calls. */
static const char *note_nccl(const char *name)
{
    if (name && strcmp(name, "NCCL") == 0)
        atomic_store_explicit(&source_nccl_states, true, memory_order_relaxed);
    return name;
}

#define TEXT(handle)     nvtx_text_of(handle)
#define NAME(attributes) nvtx_name(attributes, nvtx_text_of)

/* NOLINTBEGIN(bugprone-macro-parentheses): parameter lists cannot be put in parentheses */
/* clang-format off */
#define NEXT(name, module, id) ((__typeof__(&on_##name))nvtx_chain_next(NVTX_MODULE_##module, id))
#define MARK(name, module, nth, params, args, domain, said)    \
    static void on_##name params                               \
    {                                                          \
        __typeof__(&on_##name) next = NEXT(name, module, nth); \
        nvtx_calls++;                                          \
        source_mark(domain, said);                             \
        if (next)                                              \
            next args;                                         \
    }
#define START(name, module, nth, params, args, domain, said)   \
    static uint64_t on_##name params                           \
    {                                                          \
        __typeof__(&on_##name) next = NEXT(name, module, nth); \
        uint64_t anchor;                                       \
        nvtx_calls++;                                          \
        anchor = source_start(domain, said);                   \
        return started_id(anchor, next ? next args : 0);       \
    }
#define END(name, module, nth, params, args, domain, said)     \
    static void on_##name params                               \
    {                                                          \
        __typeof__(&on_##name) next = NEXT(name, module, nth); \
        nvtx_calls++;                                          \
        id = ended_id(id);                                     \
        if (next)                                              \
            next args;                                         \
    }
#define LEVEL(name, module, nth, params, args, tell)           \
    static int on_##name params                                \
    {                                                          \
        __typeof__(&on_##name) next = NEXT(name, module, nth); \
        nvtx_calls++;                                          \
        tell;                                                  \
        return next ? next args : NO_TRACKING;                 \
    }
#define PUSH(name, module, nth, params, args, domain, said)    \
    LEVEL(name, module, nth, params, args, source_push(domain, said))
#define POP(name, module, nth, params, args, domain, said)     \
    LEVEL(name, module, nth, params, args, source_pop(domain))
#define STRING(name, module, nth, params, args, domain, said)  \
    static void *on_##name params                              \
    {                                                          \
        __typeof__(&on_##name) next = NEXT(name, module, nth); \
        nvtx_calls++;                                          \
        return handle_for(said, next ? next args : NULL);      \
    }
#define DOMAIN(name, module, nth, params, args, domain, said)  \
    STRING(name, module, nth, params, args, domain, note_nccl(said))
/* clang-format on */
/* NOLINTEND(bugprone-macro-parentheses) */

#define EVENT(kind, result, ...) kind(__VA_ARGS__)
#include "preload/base/nvtx_events.def"

/* ---- injection ------------------------------------------------------------------------------ */

/* By module and callback, as NVTX numbers them. */
static const nvtx_fn ours[][NVTX_SLOTS] = {
#define EVENT(kind, result, name, module, id, ...) [NVTX_MODULE_##module][id] = (nvtx_fn)on_##name,
#include "preload/base/nvtx_events.def"
};

/*
 * An older library has a shorter table. Callbacks that kedge has no function for go to another
 * tool.
 */
static void fill_table(const struct nvtx_callbacks *callbacks, int module)
{
    nvtx_fn **table = NULL;
    unsigned size = 0;

    if (!callbacks->module_table(module, &table, &size) || !table)
        return;
    for (unsigned id = 0; id < size && id < NVTX_SLOTS; id++) {
        nvtx_fn fn = ours[module][id] ? ours[module][id] : nvtx_chain_next(module, id);

        if (fn && table[id])
            *table[id] = fn;
    }
}

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(nvtx_get_table get_table);

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(nvtx_get_table get_table)
{
    const struct nvtx_callbacks *callbacks = get_table ? get_table(NVTX_ETID_CALLBACKS) : NULL;

    if (!callbacks || callbacks->size < sizeof *callbacks || !source_wants(SOURCE_NVTX))
        return 0;
    resolve_note_export(EXPORT_InitializeInjectionNvtx2);
    if (!nvtx_chain_open(get_table))
        return 1;
    fill_table(callbacks, NVTX_MODULE_CORE);
    fill_table(callbacks, NVTX_MODULE_CORE2);
    return 1;
}

/* A program started by this one finds the other tool in this variable. */
#define TOOL_VARIABLE "NVTX_INJECTION64_PATH_BEHIND_KEDGE"

void nvtx_offer(const char *path)
{
    const char *there = config_env(environ, "NVTX_INJECTION64_PATH");
    const char *behind = config_env(environ, TOOL_VARIABLE);

    if (there && *there && strcmp(there, path) != 0)
        behind = there;
    /* NOLINTBEGIN(concurrency-mt-unsafe): in the constructor, before there are threads */
    if (behind && *behind) {
        nvtx_chain_set(behind);
        (void)setenv(TOOL_VARIABLE, behind, 1);
    }
    if (!there || strcmp(there, path) != 0)
        (void)setenv("NVTX_INJECTION64_PATH", path, 1);
    /* NOLINTEND(concurrency-mt-unsafe) */
}

void nvtx_withdraw(const char *path)
{
    const char *there = config_env(environ, "NVTX_INJECTION64_PATH");
    const char *behind = config_env(environ, TOOL_VARIABLE);

    if (!there || strcmp(there, path) != 0)
        return;
    /* NOLINTBEGIN(concurrency-mt-unsafe): in the constructor, before there are threads */
    if (behind && *behind)
        (void)setenv("NVTX_INJECTION64_PATH", behind, 1);
    else
        (void)unsetenv("NVTX_INJECTION64_PATH");
    (void)unsetenv(TOOL_VARIABLE);
    /* NOLINTEND(concurrency-mt-unsafe) */
}

/* ---- the program's own marks (kedge.h) ------------------------------------------------------ */

__attribute__((visibility("default"))) void kedge_push(const char *name)
{
    resolve_note_export(EXPORT_kedge_push);
    if (source_wants(SOURCE_MARKS))
        source_push(NULL, name);
}

__attribute__((visibility("default"))) void kedge_pop(void)
{
    resolve_note_export(EXPORT_kedge_pop);
    if (source_wants(SOURCE_MARKS))
        source_pop(NULL);
}

__attribute__((visibility("default"))) void kedge_mark(const char *name)
{
    resolve_note_export(EXPORT_kedge_mark);
    if (source_wants(SOURCE_MARKS))
        source_mark(NULL, name);
}
