/* SPDX-License-Identifier: MIT */
#include "preload/anchors/source.h"

#include "alloc/base/lock.h"
#include "preload/base/guard.h"
#include "preload/driver/life.h"
#include "preload/hints/hints_run.h"
#include "preload/request/dispatch.h"
#include "tracker/base/config.h"
#include "tracker/where/anchor.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

atomic_bool source_nccl_states;

/* The words of KEDGE_ANCHORS are in the order of the bits; "none" comes last and has no bit. */
static unsigned sources(const struct config *config)
{
    const struct config_value *log = config_key(config, CONFIG_ANCHORS, "log");
    const struct config_value *kernel = config_key(config, CONFIG_ANCHORS, "kernel");
    const struct config_value *python = config_key(config, CONFIG_ANCHORS, "python");
    unsigned wanted = config_word(config, CONFIG_ANCHORS);

    if (log && log->set)
        wanted |= SOURCE_LOG;
    if (python && python->set)
        wanted = python->number ? wanted | SOURCE_PYTHON : wanted & ~(unsigned)SOURCE_PYTHON;
    wanted &= ~(unsigned)SOURCE_KERNELS;
    return kernel && kernel->set ? wanted | SOURCE_KERNELS : wanted;
}

bool source_wants(enum source source)
{
    static atomic_uint known; /* and KNOWN: the configuration does not change once it is read */
    enum {
        KNOWN = 1 << 30
    };
    unsigned wanted = atomic_load_explicit(&known, memory_order_relaxed);

    if (!life_is_wanted())
        return false;
    if (!wanted) {
        wanted = sources(life_config()) | KNOWN;
        atomic_store_explicit(&known, wanted, memory_order_relaxed);
    }
    return wanted & source;
}

int source_python_level(const struct config *config)
{
    enum {
        STEPS = 1 /* index in "off|steps|modules" */
    };
    const struct config_value *key = config_key(config, CONFIG_ANCHORS, "python");

    if (!(sources(config) & SOURCE_PYTHON))
        return 0;
    return key && key->set && key->number == STEPS ? 1 : 2;
}

/* ---- around the tracker --------------------------------------------------------------------- */

struct visit {
    int error;
    int cancel;
};

/*
 * False inside kedge: no event of the program, or a signal handler that interrupted kedge, perhaps
 * while it holds a lock.
 */
static bool source_begin(struct visit *visit)
{
    if (guard_depth() > 0 || lock_is_held())
        return false;
    visit->error = errno;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &visit->cancel);
    guard_push();
    return true;
}

enum reach {
    REACH_ALL,     /* the capture and hints */
    REACH_HANDLER, /* the same, but the caller may be a signal handler */
    REACH_CAPTURE, /* the capture alone: a label */
};

/* `r` is the result of anchor_*. */
static void source_finish(
        const struct visit *visit, int r, const struct edge *edge, enum reach reach)
{
    int unused;

    guard_pop();
    if (r == 0 && life_begin_edge()) {
        if (reach == REACH_CAPTURE)
            dispatch_label(edge);
        else
            dispatch_edge(edge, reach == REACH_ALL);
        life_leave();
    }
    (void)pthread_setcancelstate(visit->cancel, &unused);
    errno = visit->error;
}

/* ---- statements of the program ------------------------------------------------------------- */

static const char *named(const char *name)
{
    return name && *name ? name : "(unnamed)";
}

static void source_say(const char *domain, const char *name,
        int (*how)(const char *, const char *, struct edge *), enum reach reach)
{
    struct visit visit;
    struct edge edge;

    if (source_begin(&visit))
        source_finish(&visit, how(domain, named(name), &edge), &edge, reach);
}

void source_push(const char *domain, const char *name)
{
    source_say(domain, name, anchor_push, REACH_ALL);
}

void source_pop(const char *domain)
{
    struct visit visit;
    struct edge edge;

    if (source_begin(&visit))
        source_finish(&visit, anchor_pop(domain, &edge), &edge, REACH_ALL);
}

void source_mark(const char *domain, const char *name)
{
    source_say(domain, name, anchor_mark, REACH_ALL);
}

void source_label(const char *domain, const char *name)
{
    source_say(domain, name, anchor_mark, REACH_CAPTURE);
}

bool source_event(enum edge_kind kind, struct edge *ret_event)
{
    struct anchor_place place;

    if (!hints_run_waits(kind) || lock_is_held() || !life_begin_edge())
        return false;
    anchor_here(&place);
    life_leave();
    *ret_event = (struct edge){
            .kind = kind, .anchor = place.anchor, .instance = place.instance, .path = place.path};
    return true;
}

uint64_t source_start(const char *domain, const char *name)
{
    struct edge edge = {.anchor = 0};
    struct visit visit;
    int r;

    if (!source_begin(&visit))
        return 0;
    r = anchor_start(domain, named(name), &edge);
    source_finish(&visit, r, &edge, REACH_ALL);
    return r == 0 ? edge.anchor : 0;
}

void source_end(uint64_t id)
{
    struct visit visit;
    struct edge edge;

    if (id && id <= UINT32_MAX && source_begin(&visit))
        source_finish(&visit, anchor_end((uint32_t)id, &edge), &edge, REACH_ALL);
}

/* ---- groups --------------------------------------------------------------------------------- */

static const char *source_copied(char text[ANCHOR_NAME_MAX + 1], const char *name, size_t length)
{
    if (!name)
        return NULL;
    if (length > ANCHOR_NAME_MAX)
        length = ANCHOR_NAME_MAX;
    memcpy(text, name, length);
    text[length] = '\0';
    return text;
}

static void say_group(uint32_t group, const char *name,
        int (*how)(uint32_t, const char *, struct edge *), enum reach reach)
{
    struct visit visit;
    struct edge edge;

    if (source_begin(&visit))
        source_finish(&visit, how(group, name, &edge), &edge, reach);
}

void source_enter_group(uint32_t group, const char *name, size_t length)
{
    char text[ANCHOR_NAME_MAX + 1];

    source_leave_group(group, NULL, 0);
    say_group(group, named(source_copied(text, name, length)), anchor_push_group, REACH_HANDLER);
}

void source_leave_group(uint32_t group, const char *name, size_t length)
{
    char text[ANCHOR_NAME_MAX + 1];

    say_group(group, source_copied(text, name, length), anchor_pop_group, REACH_HANDLER);
}

/* ---- Python --------------------------------------------------------------------------------- */

void source_enter_python(const char *name)
{
    say_group(ANCHOR_GROUP_PYTHON, named(name), anchor_push_group, REACH_ALL);
}

void source_enter_step(const char *name)
{
    say_group(ANCHOR_GROUP_PYTHON, named(name), anchor_push_outermost, REACH_ALL);
}

void source_leave_python(const char *name)
{
    say_group(ANCHOR_GROUP_PYTHON, named(name), anchor_pop_group, REACH_ALL);
}
