/* SPDX-License-Identifier: MIT */
#include "tracker/reader/readevent.h"

#include "tracker/format/eventcode.h"

/* An unknown class counts as the driver's. */
enum memclass readevent_class(unsigned flags)
{
    unsigned memclass = flags >> FORMAT_ALLOC_CLASS_SHIFT & (FORMAT_CLASSES_MAX - 1);

    if (memclass >= MEMCLASS_COUNT || (memclass == 0 && (flags & FORMAT_ALLOC_NATIVE)))
        return MEMCLASS_DRIVER;
    return (enum memclass)memclass;
}

unsigned readevent_plain_flags(unsigned flags)
{
    return flags & ((1u << FORMAT_ALLOC_CLASS_SHIFT) - 1);
}

static void readevent_set_place(
        struct read_event *to, uint32_t stack, uint32_t path, uint32_t instance)
{
    to->stack = stack;
    to->path_number = path;
    to->instance = instance;
}

static void readevent_set_alloc(struct read_event *to, const struct format_event *from)
{
    to->addr = from->u.alloc.addr;
    to->size = from->u.alloc.size;
    to->stream = from->u.alloc.stream;
    to->nth = from->u.alloc.nth;
    to->pystack = from->u.alloc.pystack;
    readevent_set_place(to, from->u.alloc.stack, from->u.alloc.path, from->u.alloc.instance);
}

static void readevent_set_free(struct read_event *to, const struct format_event *from)
{
    to->addr = from->u.free.addr;
    to->size = from->u.free.size;
    to->stream = from->u.free.stream;
    to->pystack = from->u.free.pystack;
    to->uses = from->u.free.uses;
    to->use_count = from->u.free.use_count;
    to->use_flags = from->u.free.use_flags;
    readevent_set_place(to, from->u.free.stack, from->u.free.path, from->u.free.instance);
}

static bool readevent_set_edge(struct read_event *to, const struct format_event *from)
{
    if (from->u.edge.kind >= EDGE_KIND_COUNT)
        return false;
    to->edge = (enum edge_kind)from->u.edge.kind;
    to->anchor = from->u.edge.anchor;
    to->before_start = from->u.edge.before_start != 0;
    readevent_set_place(to, 0, from->u.edge.path, from->u.edge.instance);
    return true;
}

static bool readevent_set_hint(struct read_event *to, const struct format_event *from)
{
    if (from->u.hint.what == FORMAT_HINT_NONE || from->u.hint.what >= FORMAT_HINT_COUNT
            || from->u.hint.mode >= HINT_MODE_COUNT)
        return false;
    to->addr = from->u.hint.addr;
    to->size = from->u.hint.size;
    to->rule = from->u.hint.rule;
    to->what = (enum format_hint_what)from->u.hint.what;
    to->mode = (enum hint_mode)from->u.hint.mode;
    to->result = (int)from->u.hint.result;
    to->pystack = from->u.hint.pystack;
    readevent_set_place(to, from->u.hint.stack, from->u.hint.path, from->u.hint.instance);
    return true;
}

static void readevent_set_oom(struct read_event *to, const struct format_event *from)
{
    to->size = from->u.oom.size;
    to->free_bytes = from->u.oom.free_bytes;
    to->largest_free = from->u.oom.largest_free;
    to->result = (int)from->u.oom.result;
    to->pystack = from->u.oom.pystack;
    readevent_set_place(to, from->u.oom.stack, from->u.oom.path, from->u.oom.instance);
}

static void readevent_set_call(struct read_event *to, const struct format_event *from)
{
    to->call = from->u.call.name;
    to->comm = from->u.call.comm;
    to->peer = from->u.call.peer;
    for (unsigned i = 0; i < FORMAT_CALL_BUFFERS; i++) {
        to->arg[i] = from->u.call.arg[i];
        to->arg_addr[i] = from->u.call.addr[i];
    }
    readevent_set_place(to, 0, from->u.call.path, from->u.call.instance);
}

bool readevent_decode(const struct format_event *from, struct read_event *to)
{
    *to = (struct read_event){
            .kind = (enum format_event_kind)(from->head & 0xff),
            .thread = from->thread,
            .seq = from->seq,
            .time_ns = from->time_ns,
            .device = (int16_t)(from->head >> 16),
            .flags = readevent_plain_flags(from->head >> 8 & 0xff),
            .path = "",
            .rule = -1,
    };
    switch (to->kind) {
    case FORMAT_EVENT_ALLOC:
    case FORMAT_EVENT_OTHER_ALLOC:
        to->memclass = readevent_class(from->head >> 8 & 0xff);
        readevent_set_alloc(to, from);
        return true;
    case FORMAT_EVENT_FREE:
    case FORMAT_EVENT_OTHER_FREE:
        to->memclass = readevent_class(from->head >> 8 & 0xff);
        readevent_set_free(to, from);
        return true;
    case FORMAT_EVENT_EDGE:
        return readevent_set_edge(to, from);
    case FORMAT_EVENT_HINT:
        return readevent_set_hint(to, from);
    case FORMAT_EVENT_RESERVED:
        to->heap = from->u.reserved.heap;
        to->size = from->u.reserved.bytes;
        return true;
    case FORMAT_EVENT_OOM:
        readevent_set_oom(to, from);
        return true;
    case FORMAT_EVENT_CALL:
    case FORMAT_EVENT_LAUNCH:
        readevent_set_call(to, from);
        return true;
    case FORMAT_EVENT_USE:
        to->block = from->u.use.block;
        to->use_flags = from->u.use.flags;
        return true;
    default:
        return false;
    }
}
