/* SPDX-License-Identifier: MIT */
#include "preload/nvtx.h"

#include "preload/conduct.h"
#include "preload/config.h"
#include "preload/guard.h"
#include "preload/kedge.h"
#include "preload/life.h"
#include "preload/resolve.h"
#include "tracker/anchor.h"
#include "tracker/intern.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

/* ---- the public interface of NVTX 3, as far as it is spoken here ---------------------------- */

enum {
    ETID_CALLBACKS = 1,
    MODULE_CORE = 1,
    MODULE_CORE2 = 5,
    MESSAGE_ASCII = 1,
    MESSAGE_UNICODE = 2,
    MESSAGE_REGISTERED = 3,
    NO_TRACKING = -2, /* what a push returns without a tool */
};

/* nvtxEventAttributes_t, version 2: `size` says how much of it the caller has. */
struct attributes {
    uint16_t version;
    uint16_t size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type;
    int32_t reserved;
    uint64_t payload;
    int32_t message_type;
    const void *message;
};

typedef void (*function)(void);

struct callbacks {
    size_t size;
    int (*module_table)(int module, function ***ret_table, unsigned *ret_size);
};

/* ---- names ---------------------------------------------------------------------------------- */

static size_t put_utf8(char *at, uint32_t c)
{
    if (c < 0x80) {
        at[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        at[0] = (char)(0xc0 | c >> 6);
        at[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        at[0] = (char)(0xe0 | c >> 12);
        at[1] = (char)(0x80 | (c >> 6 & 0x3f));
        at[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    at[0] = (char)(0xf0 | (c >> 18 & 7));
    at[1] = (char)(0x80 | (c >> 12 & 0x3f));
    at[2] = (char)(0x80 | (c >> 6 & 0x3f));
    at[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

/* The interned UTF-8 form of a wide string, NULL for NULL. */
static const char *narrow(const wchar_t *wide)
{
    char text[ANCHOR_NAME_MAX + 5];
    size_t used = 0;

    if (!wide)
        return NULL;
    for (; *wide && used <= ANCHOR_NAME_MAX; wide++)
        used += put_utf8(text + used, (uint32_t)*wide);
    return intern_text(intern_string(text, used));
}

static const char *interned(const char *text)
{
    return text ? intern_text(intern_string(text, strlen(text))) : NULL;
}

/* The name of an event; one without text is still a range that will be closed. */
static const char *name_of(const struct attributes *attributes)
{
    const char *name = NULL;

    if (!attributes || attributes->size < sizeof *attributes)
        return "(unnamed)";
    if (attributes->message_type == MESSAGE_ASCII || attributes->message_type == MESSAGE_REGISTERED)
        name = attributes->message; /* a registered string's handle is its interned text */
    else if (attributes->message_type == MESSAGE_UNICODE)
        name = narrow(attributes->message);
    return name && *name ? name : "(unnamed)";
}

/* ---- edges ---------------------------------------------------------------------------------- */

/* What happens inside kedge is no event of the program's. */
static bool is_outside(void)
{
    return guard_depth() == 0;
}

static void pass(int r, const struct edge *edge)
{
    if (r == 0 && life_begin_edge()) {
        conduct_edge(edge);
        life_leave();
    }
}

static void push(const char *domain, const char *name)
{
    struct edge edge;

    if (is_outside())
        pass(anchor_push(domain, name ? name : "(unnamed)", &edge), &edge);
}

static void pop(const char *domain)
{
    struct edge edge;

    if (is_outside())
        pass(anchor_pop(domain, &edge), &edge);
}

static void mark(const char *domain, const char *name)
{
    struct edge edge;

    if (is_outside())
        pass(anchor_mark(domain, name ? name : "(unnamed)", &edge), &edge);
}

static uint64_t start(const char *domain, const char *name)
{
    struct edge edge = {.anchor = 0};
    int r;

    if (!is_outside())
        return 0;
    r = anchor_start(domain, name ? name : "(unnamed)", &edge);
    pass(r, &edge);
    return r == 0 ? edge.anchor : 0;
}

static void end(uint64_t id)
{
    struct edge edge;

    if (id && id <= UINT32_MAX && is_outside())
        pass(anchor_end((uint32_t)id, &edge), &edge);
}

/* ---- module CORE ---------------------------------------------------------------------------- */

static void mark_ex(const struct attributes *attributes)
{
    mark(NULL, name_of(attributes));
}

static void mark_a(const char *name)
{
    mark(NULL, name);
}

static void mark_w(const wchar_t *name)
{
    mark(NULL, narrow(name));
}

static uint64_t start_ex(const struct attributes *attributes)
{
    return start(NULL, name_of(attributes));
}

static uint64_t start_a(const char *name)
{
    return start(NULL, name);
}

static uint64_t start_w(const wchar_t *name)
{
    return start(NULL, narrow(name));
}

static int push_ex(const struct attributes *attributes)
{
    push(NULL, name_of(attributes));
    return NO_TRACKING;
}

static int push_a(const char *name)
{
    push(NULL, name);
    return NO_TRACKING;
}

static int push_w(const wchar_t *name)
{
    push(NULL, narrow(name));
    return NO_TRACKING;
}

static int pop_plain(void)
{
    pop(NULL);
    return NO_TRACKING;
}

/* ---- module CORE2: a domain's handle is its interned name ----------------------------------- */

static void domain_mark_ex(const char *domain, const struct attributes *attributes)
{
    mark(domain, name_of(attributes));
}

static uint64_t domain_start_ex(const char *domain, const struct attributes *attributes)
{
    return start(domain, name_of(attributes));
}

static void domain_end(const char *domain, uint64_t id)
{
    (void)domain;
    end(id);
}

static int domain_push_ex(const char *domain, const struct attributes *attributes)
{
    push(domain, name_of(attributes));
    return NO_TRACKING;
}

static int domain_pop(const char *domain)
{
    pop(domain);
    return NO_TRACKING;
}

static const char *domain_string_a(const char *domain, const char *text)
{
    (void)domain;
    return interned(text);
}

static const char *domain_string_w(const char *domain, const wchar_t *text)
{
    (void)domain;
    return narrow(text);
}

static const char *domain_create_a(const char *name)
{
    return interned(name);
}

static const char *domain_create_w(const wchar_t *name)
{
    return narrow(name);
}

/* ---- injection ------------------------------------------------------------------------------ */

/* Numbers are NVTX's callback ids. */
struct entry {
    unsigned id;
    function fn;
};

static const struct entry core[] = {
        {1, (function)mark_ex},
        {2, (function)mark_a},
        {3, (function)mark_w},
        {4, (function)start_ex},
        {5, (function)start_a},
        {6, (function)start_w},
        {7, (function)end},
        {8, (function)push_ex},
        {9, (function)push_a},
        {10, (function)push_w},
        {11, (function)pop_plain},
};

static const struct entry core2[] = {
        {1, (function)domain_mark_ex},
        {2, (function)domain_start_ex},
        {3, (function)domain_end},
        {4, (function)domain_push_ex},
        {5, (function)domain_pop},
        {10, (function)domain_string_a},
        {11, (function)domain_string_w},
        {12, (function)domain_create_a},
        {13, (function)domain_create_w},
};

/* An older library has a shorter table. */
static void fill(
        const struct callbacks *callbacks, int module, const struct entry *entries, size_t n)
{
    function **table = NULL;
    unsigned size = 0;

    if (!callbacks->module_table(module, &table, &size) || !table)
        return;
    for (size_t i = 0; i < n; i++)
        if (entries[i].id < size && table[entries[i].id])
            *table[entries[i].id] = entries[i].fn;
}

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(
        const void *(*get_table)(uint32_t id));

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(
        const void *(*get_table)(uint32_t id))
{
    const struct callbacks *callbacks = get_table ? get_table(ETID_CALLBACKS) : NULL;

    if (!callbacks || callbacks->size < sizeof *callbacks || !life_is_wanted()
            || !(config_word(life_config(), CONFIG_ANCHORS) & 1))
        return 0;
    resolve_note_door(DOOR_InitializeInjectionNvtx2);
    fill(callbacks, MODULE_CORE, core, sizeof core / sizeof *core);
    fill(callbacks, MODULE_CORE2, core2, sizeof core2 / sizeof *core2);
    return 1;
}

static bool foreign;

void nvtx_offer(const char *path)
{
    const char *there = config_env("NVTX_INJECTION64_PATH");

    foreign = there && *there && strcmp(there, path) != 0;
    if (!there)
        /* NOLINTNEXTLINE(concurrency-mt-unsafe): in the constructor, before there are threads */
        (void)setenv("NVTX_INJECTION64_PATH", path, 0);
}

bool nvtx_is_foreign(void)
{
    return foreign;
}

/* ---- the program's own marks (kedge.h) ------------------------------------------------------ */

static bool marks_wanted(void)
{
    return life_is_wanted() && (config_word(life_config(), CONFIG_ANCHORS) & 2);
}

__attribute__((visibility("default"))) void kedge_push(const char *name)
{
    resolve_note_door(DOOR_kedge_push);
    if (marks_wanted())
        push(NULL, name);
}

__attribute__((visibility("default"))) void kedge_pop(void)
{
    resolve_note_door(DOOR_kedge_pop);
    if (marks_wanted())
        pop(NULL);
}

__attribute__((visibility("default"))) void kedge_mark(const char *name)
{
    resolve_note_door(DOOR_kedge_mark);
    if (marks_wanted())
        mark(NULL, name);
}
