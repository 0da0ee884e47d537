/* SPDX-License-Identifier: MIT */
#include "preload/nvtx.h"

#include "preload/guard.h"
#include "preload/kedge.h"
#include "preload/nvtx_chain.h"
#include "preload/resolve.h"
#include "preload/source.h"
#include "tracker/anchor.h"
#include "tracker/config.h"
#include "tracker/intern.h"
#include "tracker/utf8.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

__thread uint64_t nvtx_calls __attribute__((tls_model("initial-exec")));

/* ---- the public interface of NVTX 3, as far as it is spoken here ---------------------------- */

enum {
    MESSAGE_ASCII = 1,
    MESSAGE_UNICODE = 2,
    MESSAGE_REGISTERED = 3,
    NO_TRACKING = -2, /* what a push returns without a tool */
};

/* ---- names ---------------------------------------------------------------------------------- */

/* Inside kedge, for signal handlers' sake (source.h). */
static const char *kept_text(const char *text, size_t length)
{
    const char *text_kept;

    guard_push();
    text_kept = intern_text(intern_string(text, length));
    guard_pop();
    return text_kept;
}

/* The interned UTF-8 form of a wide string, NULL for NULL. */
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

/* ---- handles: without another tool, an interned name is its own handle ------------------------ */

static const char *text_of(const void *handle)
{
    return handle && nvtx_chain_is_set() ? nvtx_chain_text(handle) : handle;
}

/*
 * What stands for a name of ours: with a tool behind us what it made, which may be nothing, since it will be given that again
 * and may take it for its own.
 */
static const void *handle_for(const char *name, const void *theirs)
{
    const void *handle = nvtx_chain_is_open() ? theirs : name;

    if (nvtx_chain_is_set() && handle)
        nvtx_chain_name(handle, name);
    return handle;
}

/* In an id of ours where the tool gave none: it must not be taken for one of the tool's. */
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

/* Returns what the tool is told of it: nothing, where that is what it gave. */
static uint64_t ended_id(uint64_t id)
{
    uint64_t anchor = nvtx_chain_is_set() ? nvtx_chain_anchor(id) : id;

    source_end(anchor);
    return anchor && id == (anchor | NOT_THEIRS) ? 0 : id;
}

/* ---- names ---------------------------------------------------------------------------------- */

/* The name of an event; one without text is still a range that will be closed. */
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

/* ---- events: the story's first, then the tool's, with the program's arguments ---------------- */

/* X(function, ids in the module, what it takes, how to hand it on, its name) */
#define NVTX_NAMES(X)                                                            \
    X(ex, 0, const struct nvtx_attributes *what, what, nvtx_name(what, text_of)) \
    X(a, 1, const char *what, what, what)                                        \
    X(w, 2, const wchar_t *what, what, nvtx_narrow(what))

/* NOLINTBEGIN(bugprone-macro-parentheses): a parameter cannot stand in parentheses of its own */
#define NEXT(type, module, id) ((type)nvtx_chain_next(NVTX_MODULE_##module, id))
#define PLAIN(form, nth, param, arg, name)                                   \
    static void mark_##form(param)                                           \
    {                                                                        \
        nvtx_calls++;                                                        \
        void (*next)(param) = NEXT(void (*)(param), CORE, 1 + (nth));        \
        source_mark(NULL, name);                                             \
        if (next)                                                            \
            next(arg);                                                       \
    }                                                                        \
    static uint64_t start_##form(param)                                      \
    {                                                                        \
        nvtx_calls++;                                                        \
        uint64_t (*next)(param) = NEXT(uint64_t(*)(param), CORE, 4 + (nth)); \
        uint64_t anchor = source_start(NULL, name);                          \
        return started_id(anchor, next ? next(arg) : 0);                     \
    }                                                                        \
    static int push_##form(param)                                            \
    {                                                                        \
        nvtx_calls++;                                                        \
        int (*next)(param) = NEXT(int (*)(param), CORE, 8 + (nth));          \
        source_push(NULL, name);                                             \
        return next ? next(arg) : NO_TRACKING;                               \
    }
NVTX_NAMES(PLAIN)
/* NOLINTEND(bugprone-macro-parentheses) */

static void range_end(uint64_t id)
{
    nvtx_calls++;
    void (*next)(uint64_t) = NEXT(void (*)(uint64_t), CORE, 7);

    id = ended_id(id);
    if (next)
        next(id);
}

static int pop_plain(void)
{
    nvtx_calls++;
    int (*next)(void) = NEXT(int (*)(void), CORE, 11);

    source_pop(NULL);
    return next ? next() : NO_TRACKING;
}

typedef const struct nvtx_attributes *attributes_ptr;

static void domain_mark_ex(const void *domain, attributes_ptr what)
{
    nvtx_calls++;
    void (*next)(const void *, attributes_ptr) =
            NEXT(void (*)(const void *, attributes_ptr), CORE2, 1);

    source_mark(text_of(domain), nvtx_name(what, text_of));
    if (next)
        next(domain, what);
}

static uint64_t domain_start_ex(const void *domain, attributes_ptr what)
{
    nvtx_calls++;
    uint64_t (*next)(const void *, attributes_ptr) =
            NEXT(uint64_t(*)(const void *, attributes_ptr), CORE2, 2);
    uint64_t anchor = source_start(text_of(domain), nvtx_name(what, text_of));

    return started_id(anchor, next ? next(domain, what) : 0);
}

static void domain_end(const void *domain, uint64_t id)
{
    nvtx_calls++;
    void (*next)(const void *, uint64_t) = NEXT(void (*)(const void *, uint64_t), CORE2, 3);

    id = ended_id(id);
    if (next)
        next(domain, id);
}

static int domain_push_ex(const void *domain, attributes_ptr what)
{
    nvtx_calls++;
    int (*next)(const void *, attributes_ptr) =
            NEXT(int (*)(const void *, attributes_ptr), CORE2, 4);

    source_push(text_of(domain), nvtx_name(what, text_of));
    return next ? next(domain, what) : NO_TRACKING;
}

static int domain_pop(const void *domain)
{
    nvtx_calls++;
    int (*next)(const void *) = NEXT(int (*)(const void *), CORE2, 5);

    source_pop(text_of(domain));
    return next ? next(domain) : NO_TRACKING;
}

static const void *domain_string_a(const void *domain, const char *text)
{
    nvtx_calls++;
    const void *(*next)(const void *, const char *) =
            NEXT(const void *(*)(const void *, const char *), CORE2, 10);

    return handle_for(nvtx_kept(text), next ? next(domain, text) : NULL);
}

static const void *domain_string_w(const void *domain, const wchar_t *text)
{
    nvtx_calls++;
    const void *(*next)(const void *, const wchar_t *) =
            NEXT(const void *(*)(const void *, const wchar_t *), CORE2, 11);

    return handle_for(nvtx_narrow(text), next ? next(domain, text) : NULL);
}

/* NCCL's ranges are its calls. */
static const char *note_nccl(const char *name)
{
    if (name && strcmp(name, "NCCL") == 0)
        atomic_store_explicit(&source_nccl_states, true, memory_order_relaxed);
    return name;
}

static const void *domain_create_a(const char *name)
{
    nvtx_calls++;
    const void *(*next)(const char *) = NEXT(const void *(*)(const char *), CORE2, 12);

    return handle_for(note_nccl(nvtx_kept(name)), next ? next(name) : NULL);
}

static const void *domain_create_w(const wchar_t *name)
{
    nvtx_calls++;
    const void *(*next)(const wchar_t *) = NEXT(const void *(*)(const wchar_t *), CORE2, 13);

    return handle_for(note_nccl(nvtx_narrow(name)), next ? next(name) : NULL);
}

/* ---- injection ------------------------------------------------------------------------------ */

/* Numbers are NVTX's callback ids. */
static const nvtx_fn core[NVTX_SLOTS] = {
        [1] = (nvtx_fn)mark_ex,
        [2] = (nvtx_fn)mark_a,
        [3] = (nvtx_fn)mark_w,
        [4] = (nvtx_fn)start_ex,
        [5] = (nvtx_fn)start_a,
        [6] = (nvtx_fn)start_w,
        [7] = (nvtx_fn)range_end,
        [8] = (nvtx_fn)push_ex,
        [9] = (nvtx_fn)push_a,
        [10] = (nvtx_fn)push_w,
        [11] = (nvtx_fn)pop_plain,
};

static const nvtx_fn core2[NVTX_SLOTS] = {
        [1] = (nvtx_fn)domain_mark_ex,
        [2] = (nvtx_fn)domain_start_ex,
        [3] = (nvtx_fn)domain_end,
        [4] = (nvtx_fn)domain_push_ex,
        [5] = (nvtx_fn)domain_pop,
        [10] = (nvtx_fn)domain_string_a,
        [11] = (nvtx_fn)domain_string_w,
        [12] = (nvtx_fn)domain_create_a,
        [13] = (nvtx_fn)domain_create_w,
};

/* An older library has a shorter table. What we have no function for is another tool's. */
static void fill_table(
        const struct nvtx_callbacks *callbacks, int module, const nvtx_fn ours[NVTX_SLOTS])
{
    nvtx_fn **table = NULL;
    unsigned size = 0;

    if (!callbacks->module_table(module, &table, &size) || !table)
        return;
    for (unsigned id = 0; id < size && id < NVTX_SLOTS; id++) {
        nvtx_fn fn = ours[id] ? ours[id] : nvtx_chain_next(module, id);

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
    fill_table(callbacks, NVTX_MODULE_CORE, core);
    fill_table(callbacks, NVTX_MODULE_CORE2, core2);
    return 1;
}

/* Programs that this one starts find the tool here. */
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
