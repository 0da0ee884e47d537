/* SPDX-License-Identifier: MIT */
#include "tracker/capture.h"

#include "alloc/lock.h"
#include "tracker/anchor.h"
#include "tracker/capdefs.h"
#include "tracker/capfile.h"
#include "tracker/caplive.h"
#include "tracker/caplog.h"
#include "tracker/capoom.h"
#include "tracker/counter.h"
#include "tracker/intern.h"
#include "tracker/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define RING_DEFAULT   (256u << 20)
#define RING_LEAST     (1u << 20)
#define PENDING_BYTES  65536u
#define OPEN_RANGES    512u
#define WAIT_STEP_NS   100000L
#define WAIT_STEPS_MAX 20000 /* two seconds for another thread that creates the file */

enum phase {
    PHASE_NEW,     /* nothing tried */
    PHASE_OPENING, /* one thread is at it */
    PHASE_OPEN,
    PHASE_NEVER, /* off, failed, or the child of a fork */
};

/* fixed by capture_init */
static struct {
    char file[CAPTURE_PATH_MAX];
    char rank[32];
    char program[96];
    enum format_trace trace;
    uint64_t ring_bytes;
} opts;

static struct capfile file; /* fixed when phase is PHASE_OPEN */
static _Atomic(struct format_header *)
        header_at; /* for capture_state, which may run in a signal handler */
static _Atomic int phase = PHASE_NEVER;
static _Atomic uint32_t notes, notes_lost;
static _Atomic bool is_degraded;
static uint64_t start_ns; /* fixed when phase is PHASE_OPEN */

static struct lock pending_lock = LOCK_INIT(LOCK_RANK_CAPTURE);
/* guarded by pending_lock: identity records from before the file was there */
static _Alignas(8) char pending[PENDING_BYTES];
static uint32_t pending_used;

static uint64_t now_ns(clockid_t clock)
{
    struct timespec time = {0};

    (void)clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static struct format_header *header_now(void)
{
    /* acquire: pairs with the store in open_file */
    return atomic_load_explicit(&header_at, memory_order_acquire);
}

/* Trouble is told once by whoever met it first; here it only leaves a mark. */
static int degraded(int r)
{
    if (r < 0)
        atomic_store_explicit(&is_degraded, true, memory_order_relaxed);
    return r;
}

/* ---- names ---- */

struct name {
    char *to;
    size_t size, used;
};

static bool name_add(struct name *name, const char *text)
{
    size_t length = strlen(text);

    if (name->used + length >= name->size)
        return false;
    memcpy(name->to + name->used, text, length + 1);
    name->used += length;
    return true;
}

/* -EINVAL for an unknown %x, -ENAMETOOLONG. */
static int expand(const char *pattern, const char *rank, char *ret_name, size_t size)
{
    struct name name = {ret_name, size, 0};
    char host[65] = "";
    char pid[16];
    bool fits = true;

    (void)gethostname(host, sizeof host - 1);
    (void)snprintf(pid, sizeof pid, "%d", (int)getpid());
    ret_name[0] = '\0';
    for (const char *at = pattern; *at && fits; at++) {
        char one[2] = {*at, '\0'};

        if (*at != '%') {
            fits = name_add(&name, one);
            continue;
        }
        switch (*++at) {
        case 'h':
            fits = name_add(&name, host[0] ? host : "host");
            break;
        case 'r':
            fits = name_add(&name, rank[0] ? rank : "0");
            break;
        case 'p':
            fits = name_add(&name, pid);
            break;
        case '%':
            fits = name_add(&name, "%");
            break;
        default:
            return -EINVAL;
        }
    }
    return fits ? 0 : -ENAMETOOLONG;
}

static bool is_rank(const char *rank)
{
    for (; *rank; rank++)
        if (*rank == '/' || *rank == '%' || *rank <= ' ')
            return false;
    return true;
}

int capture_init(const struct capture_opts *init_opts)
{
    const char *name =
            init_opts->file && init_opts->file[0] ? init_opts->file : CAPTURE_DEFAULT_NAME;
    const char *rank = init_opts->rank && is_rank(init_opts->rank) ? init_opts->rank : "";
    char expanded[CAPTURE_PATH_MAX];
    int r;

    if (init_opts->trace >= FORMAT_TRACE_COUNT || strlen(name) >= sizeof opts.file)
        return -EINVAL;
    r = expand(name, rank, expanded,
            sizeof expanded); /* a bad pattern is known now, not at the first allocation */
    if (r < 0)
        return r;
    memset(&opts, 0, sizeof opts);
    (void)snprintf(opts.file, sizeof opts.file, "%s", name);
    (void)snprintf(opts.rank, sizeof opts.rank, "%s", rank);
    (void)snprintf(
            opts.program, sizeof opts.program, "%s", init_opts->program ? init_opts->program : "");
    opts.trace = init_opts->trace;
    opts.ring_bytes = init_opts->ring_bytes ? init_opts->ring_bytes : RING_DEFAULT;
    if (opts.ring_bytes < RING_LEAST)
        opts.ring_bytes = RING_LEAST;
    atomic_store(&phase, opts.trace == FORMAT_TRACE_OFF ? PHASE_NEVER : PHASE_NEW);
    return 0;
}

/* ---- opening ---- */

static uint32_t read_whole(const char *path, char *to, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t used = 0;

    if (fd < 0)
        return 0;
    while (used < size) {
        ssize_t got = read(fd, to + used, size - used);

        if (got <= 0)
            break;
        used += (size_t)got;
    }
    (void)close(fd);
    return (uint32_t)used;
}

static void fill_header(struct format_header *header)
{
    ssize_t length = readlink("/proc/self/exe", header->exe, sizeof header->exe - 1);

    header->exe[length > 0 ? length : 0] = '\0';
    header->cmdline_bytes =
            read_whole("/proc/self/cmdline", header->cmdline, sizeof header->cmdline);
    (void)gethostname(header->host, sizeof header->host - 1);
    (void)snprintf(header->rank, sizeof header->rank, "%s", opts.rank);
    (void)snprintf(header->program, sizeof header->program, "%s", opts.program);
    header->trace = (uint32_t)opts.trace;
    header->pid = (uint32_t)getpid();
    header->ppid = (uint32_t)getppid();
    header->start_real_ns = now_ns(CLOCK_REALTIME);
    header->start_mono_ns = start_ns;
    header->state = FORMAT_STATE_OPEN;
    header->class_count = MEMCLASS_COUNT;
    memcpy(header->magic, FORMAT_MAGIC, sizeof header->magic);
}

static int create_file(void)
{
    char name[CAPTURE_PATH_MAX];
    char other[CAPTURE_PATH_MAX + 16];
    int r = expand(opts.file, opts.rank, name, sizeof name);

    if (r < 0)
        return r;
    r = capfile_create(&file, name);
    if (r != -EEXIST)
        return r;
    (void)snprintf(other, sizeof other, "%s.%d", name, (int)getpid());
    return capfile_create(&file, other);
}

static int put_edge(const struct edge *edge, uint64_t seq, uint64_t time_ns, bool before_start)
{
    struct format_event event = {
            .head = FORMAT_EVENT_EDGE | 0xffff0000u,
            .seq = seq,
            .time_ns = time_ns,
    };

    event.u.edge.kind = (uint32_t)edge->kind;
    event.u.edge.anchor = edge->anchor;
    event.u.edge.path = intern_number(edge->path);
    event.u.edge.instance = edge->instance;
    event.u.edge.before_start = before_start;
    (void)degraded(capdefs_sync(event.u.edge.path, 0));
    return degraded(caplog_append(&event));
}

static bool has_log(void)
{
    return opts.trace == FORMAT_TRACE_RING || opts.trace == FORMAT_TRACE_FULL;
}

/* fixed when phase is PHASE_OPEN: the ranges whose enter edges were written by write_open_ranges */
static struct edge open_range[OPEN_RANGES];
static size_t open_range_count;
static uint32_t open_range_newest;

static void write_open_ranges(void)
{
    size_t count = anchor_open_ranges(open_range, OPEN_RANGES);

    open_range_count = count < OPEN_RANGES ? count : OPEN_RANGES;
    for (size_t i = 0; has_log() && i < open_range_count; i++) {
        if (open_range[i].anchor > open_range_newest)
            open_range_newest = open_range[i].anchor;
        (void)put_edge(&open_range[i], 0, 0, true);
    }
}

/* A thread that entered a range while another one opened the file: its edge is in there already. */
static bool is_written(const struct edge *edge)
{
    if (edge->kind != EDGE_ENTER || edge->anchor > open_range_newest)
        return false;
    for (size_t i = 0; i < open_range_count; i++)
        if (open_range[i].anchor == edge->anchor)
            return true;
    return false;
}

/* Identity records from before, one by one: capdefs_put may make system calls. */
static void write_pending(void)
{
    for (uint32_t at = 0;;) {
        _Alignas(8) char record[sizeof(struct format_def_module) + INTERN_STRING_BYTES_MAX + 8];
        struct format_def *def = (struct format_def *)(void *)record;
        uint32_t head = 0;

        lock_take(&pending_lock);
        if (at >= pending_used) {
            /* release: whoever sees PHASE_OPEN sees the file */
            atomic_store_explicit(&phase, PHASE_OPEN, memory_order_release);
            lock_drop(&pending_lock);
            return;
        }
        memcpy(def, pending + at, sizeof *def);
        memcpy(record, pending + at, def->bytes);
        lock_drop(&pending_lock);

        at += def->bytes;
        head = def->bytes - (def->length + 7) / 8 * 8;
        (void)degraded(capdefs_sync(UINT32_MAX, 0));
        (void)degraded(capdefs_put(def, head, record + head, def->length));
    }
}

static int open_file(void)
{
    uint64_t chunks = opts.ring_bytes / FORMAT_CHUNK_BYTES;
    int r;

    start_ns = now_ns(CLOCK_MONOTONIC);
    r = create_file();
    if (r < 0) {
        file.path[0] = '\0';
        atomic_store_explicit(&phase, PHASE_NEVER, memory_order_release);
        return r;
    }
    fill_header(file.header);
    capdefs_init(&file);
    caplive_init(&file);
    capoom_init(&file);
    caplog_init(&file, opts.trace == FORMAT_TRACE_RING ? (uint32_t)chunks : 0);
    atomic_store_explicit(&header_at, file.header, memory_order_release);
    write_open_ranges();
    write_pending();
    return 0;
}

int capture_open(void)
{
    int expected = PHASE_NEW;
    struct timespec step = {0, WAIT_STEP_NS};

    if (atomic_compare_exchange_strong(&phase, &expected, PHASE_OPENING)) {
        int cancel = capfile_begin();
        int r = degraded(open_file());

        capfile_end(cancel);
        return r;
    }
    for (int i = 0; expected == PHASE_OPENING && i < WAIT_STEPS_MAX; i++) {
        (void)nanosleep(&step, NULL);
        expected = atomic_load_explicit(&phase, memory_order_acquire);
    }
    /* Stuck in a file system that hangs: wait once, not at every allocation. If it ends after all, the file is used. */
    if (expected == PHASE_OPENING)
        (void)atomic_compare_exchange_strong(&phase, &expected, PHASE_NEVER);
    return 0;
}

/* The header if there is a file to write to; opens it at the first use if `opens`. */
static struct format_header *begin(bool opens, int *ret_error)
{
    int now = atomic_load_explicit(&phase, memory_order_acquire);

    *ret_error = 0;
    if (__builtin_expect(now == PHASE_OPEN, 1))
        return file.header;
    if (now == PHASE_NEVER || (now == PHASE_NEW && !opens))
        return NULL;
    *ret_error = capture_open();
    now = atomic_load_explicit(&phase, memory_order_acquire);
    return now == PHASE_OPEN ? file.header : NULL;
}

const char *capture_path(void)
{
    return atomic_load_explicit(&phase, memory_order_acquire) == PHASE_OPEN ? file.path : "";
}

/* ---- totals ---- */

static struct format_totals *device_totals(struct format_header *header, int device)
{
    return device >= 0 && device < (int)FORMAT_DEVICES_MAX ? &header->device[device] : NULL;
}

static void total_alloc(struct format_totals *totals, uint64_t size)
{
    if (!totals)
        return;
    counter_add(&totals->allocated_bytes, size);
    counter_add(&totals->allocated_count, 1);
    counter_lift(&totals->live_bytes, &totals->peak_bytes, size);
    counter_lift(&totals->live_hinted_bytes, &totals->peak_hinted_bytes, size);
}

static void total_free(struct format_totals *totals, uint64_t size, uint64_t hinted)
{
    if (!totals)
        return;
    counter_add(&totals->freed_bytes, size);
    counter_add(&totals->freed_count, 1);
    counter_add(&totals->live_bytes, 0 - size);
    counter_add(&totals->live_hinted_bytes, 0 - (size - hinted));
}

static void total_release(struct format_totals *totals, uint64_t size)
{
    if (!totals)
        return;
    counter_add(&totals->hinted_freed_bytes, size);
    counter_add(&totals->hinted_freed_count, 1);
    counter_add(&totals->live_hinted_bytes, 0 - size);
}

/* ---- classes ---- */

/* What a class holds natively, one by one: what the driver keeps in pools of its own is looked up instead. */
static bool is_native_class(enum memclass memclass)
{
    return memclass == MEMCLASS_DRIVER || memclass == MEMCLASS_PITCHED || memclass == MEMCLASS_VMM
            || memclass == MEMCLASS_ARRAY || memclass == MEMCLASS_ARRAY_GUESS;
}

static void native_moved(
        struct format_header *header, enum memclass memclass, int device, uint64_t by)
{
    if (is_native_class(memclass) && device >= 0 && device < (int)FORMAT_DEVICES_MAX)
        counter_add(&header->look[device].native_live, by);
}

static void block_born(
        struct format_header *header, enum memclass memclass, int device, uint64_t size)
{
    struct format_class *of = &header->memclass[memclass % FORMAT_CLASSES_MAX];

    counter_add(&of->allocated_bytes, size);
    counter_add(&of->allocated_count, 1);
    counter_add(&of->live_count, 1);
    counter_lift(&of->live_bytes, &of->peak_bytes, size);
    native_moved(header, memclass, device, size);
    if (memclass >= MEMCLASS_DEVICE_END)
        return;
    total_alloc(&header->total, size);
    total_alloc(device_totals(header, device), size);
}

static void block_died(struct format_header *header, const struct caplive_change *change)
{
    struct format_class *of = &header->memclass[change->gone_class % FORMAT_CLASSES_MAX];

    counter_add(&of->live_count, UINT64_MAX);
    counter_add(&of->live_bytes, 0 - change->gone_size);
    native_moved(header, change->gone_class, change->gone_device, 0 - change->gone_size);
    if (change->gone_class >= MEMCLASS_DEVICE_END)
        return;
    total_free(&header->total, change->gone_size, change->gone_hinted);
    total_free(device_totals(header, change->gone_device), change->gone_size, change->gone_hinted);
}

int capture_look(const struct capture_look_info *info)
{
    struct format_header *header;
    struct format_look *look;
    int r;

    header = begin(true, &r);
    if (!header || info->device < 0 || info->device >= (int)FORMAT_DEVICES_MAX)
        return r;
    look = &header->look[info->device];
    /* Two threads may look at once: each figure is one of theirs, and the next look puts it right. */
    __atomic_store_n(&look->free_bytes, info->free_bytes, __ATOMIC_RELAXED);
    __atomic_store_n(&look->total_bytes, info->total_bytes, __ATOMIC_RELAXED);
    __atomic_store_n(&look->held_bytes, info->held_bytes, __ATOMIC_RELAXED);
    __atomic_store_n(&look->native_bytes, __atomic_load_n(&look->native_live, __ATOMIC_RELAXED),
            __ATOMIC_RELAXED);
    __atomic_store_n(&look->graph_reserved, info->graph_reserved, __ATOMIC_RELAXED);
    counter_raise(&look->graph_high, info->graph_high);
    counter_add(&look->looks, 1);
    return r;
}

int capture_plan(const struct format_plan *plan)
{
    struct format_header *header;
    const uint64_t *from = &plan->blocks;
    uint64_t *to;
    int r;

    header = begin(true, &r);
    if (!header)
        return r;
    to = &header->plan.blocks;
    /* Of two threads the later one is right in the end; the figures rise, and are read one by one. */
    for (size_t i = 0; i < sizeof *plan / sizeof *from; i++)
        counter_raise(&to[i], from[i]);
    return r;
}

/* ---- events ---- */

static uint64_t take_seq(struct format_header *header, uint64_t seq)
{
    if (seq == 0)
        return __atomic_load_n(&header->last_seq, __ATOMIC_RELAXED);
    counter_raise(&header->last_seq, seq);
    return seq;
}

static uint32_t make_head(enum format_event_kind kind, unsigned flags, int device)
{
    return (uint32_t)kind | (uint32_t)(flags & 0xffu) << 8 | (uint32_t)(uint16_t)device << 16;
}

static uint64_t event_time(void)
{
    return now_ns(CLOCK_MONOTONIC) - start_ns;
}

/* The name of a thread goes into the file before its first event does. */
static void announce_thread(void)
{
    struct thread *thread = thread_self();
    struct format_def_thread def = {.def.kind = FORMAT_DEF_THREAD};
    char name[THREAD_NAME_MAX + 1] = "";

    if (!thread || thread->is_announced)
        return;
    thread->is_announced = true;
    (void)prctl(PR_GET_NAME, name, 0, 0, 0);
    def.def.id = thread->number;
    def.tid = thread->tid;
    def.name = intern_string(name, strnlen(name, THREAD_NAME_MAX));
    (void)degraded(capdefs_sync(def.name, 0));
    (void)degraded(capdefs_put(&def.def, sizeof def, NULL, 0));
}

static int put_event(struct format_event *event, uint32_t string, uint32_t stack)
{
    int r = capdefs_sync(string, stack);

    if (has_log()) {
        int r2;

        announce_thread();
        r2 = caplog_append(event);
        r = r < 0 ? r : r2;
    }
    return degraded(r);
}

static unsigned alloc_flags(const struct capture_alloc_info *info)
{
    return (info->entrance == ENTRANCE_STREAM ? FORMAT_ALLOC_STREAM : 0)
            | (info->native ? FORMAT_ALLOC_NATIVE : 0) | (info->rule >= 0 ? FORMAT_ALLOC_HINTED : 0)
            | (info->stream_capture ? FORMAT_ALLOC_CAPTURE : 0)
            | (unsigned)info->memclass << FORMAT_ALLOC_CLASS_SHIFT;
}

static uint32_t tag_path(const struct tag *tag)
{
    return tag->anchor && tag->path ? intern_number(tag->path) : 0;
}

static void count_alloc(struct format_header *header, const struct capture_alloc_info *info,
        const struct caplive_change *change)
{
    /* The earlier tenant's end first, or the peak would count both. */
    if (change->is_implied) {
        block_died(header, change);
        counter_add(&header->lost.implied_frees, 1);
    }
    if (change->is_new)
        block_born(header, info->memclass, info->tag->device, info->tag->size);
    if (change->is_over) {
        block_died(header, change);
        counter_add(&header->lost.unknown_frees, UINT64_MAX);
    }
}

int capture_alloc(const struct capture_alloc_info *info)
{
    const struct tag *tag = info->tag;
    struct caplive_change change;
    struct format_header *header;
    int r, r2;

    header = begin(true, &r);
    if (!header)
        return r;
    struct format_event event = {.seq = take_seq(header, info->seq), .time_ns = event_time()};
    struct format_live slot = {
            .state = event.seq << 1 | 1,
            .addr = info->ptr,
            .size = tag->size,
            .stream = info->stream,
            .time_ns = event.time_ns,
            .stack = tag->stack,
            .path = tag_path(tag),
            .instance = tag->instance,
            .nth = tag->nth,
            .device = (int16_t)tag->device,
            .flags = (uint8_t)alloc_flags(info),
            .rule = info->rule,
    };

    event.head = make_head(
            info->memclass < MEMCLASS_DEVICE_END ? FORMAT_EVENT_ALLOC : FORMAT_EVENT_OTHER_ALLOC,
            slot.flags, tag->device);
    event.u.alloc.addr = slot.addr;
    event.u.alloc.size = slot.size;
    event.u.alloc.stream = slot.stream;
    event.u.alloc.stack = slot.stack;
    event.u.alloc.path = slot.path;
    event.u.alloc.instance = slot.instance;
    event.u.alloc.nth = slot.nth;
    r2 = put_event(&event, slot.path, slot.stack);
    r = r < 0 ? r : r2;
    r2 = degraded(caplive_alloc(&slot, &change));
    r = r < 0 ? r : r2;
    count_alloc(header, info, &change);
    if (r2 < 0 || caplive_dropped() > 0)
        __atomic_store_n(&header->lost.live_dropped, caplive_dropped(), __ATOMIC_RELAXED);
    return r;
}

int capture_free(const struct capture_free_info *info)
{
    struct caplive_change change;
    struct anchor_place place;
    struct format_header *header;
    int device = info->device;
    int r;

    header = begin(false, &r);
    if (!header)
        return r;
    struct format_event event = {.seq = take_seq(header, info->seq), .time_ns = event_time()};

    if (caplive_free(info->ptr, event.seq, &change) == 0) {
        block_died(header, &change);
        device = change.gone_device;
    } else if (change.is_counted) {
        counter_add(&header->lost.implied_frees, UINT64_MAX); /* it was only late */
    } else {
        counter_add(&header->lost.unknown_frees, 1);
    }
    anchor_here(&place);
    event.head = make_head(
            change.gone_class < MEMCLASS_DEVICE_END ? FORMAT_EVENT_FREE : FORMAT_EVENT_OTHER_FREE,
            (info->entrance == ENTRANCE_STREAM ? FORMAT_ALLOC_STREAM : 0)
                    | (info->native ? FORMAT_ALLOC_NATIVE : 0)
                    | (unsigned)change.gone_class << FORMAT_ALLOC_CLASS_SHIFT,
            device);
    event.u.free.addr = info->ptr;
    event.u.free.size = info->size ? info->size : change.gone_size;
    event.u.free.stream = info->stream;
    event.u.free.stack = info->stack;
    event.u.free.path = place.anchor ? intern_number(place.path) : 0;
    event.u.free.instance = place.instance;
    return put_event(&event, event.u.free.path, info->stack);
}

int capture_edge(const struct edge *edge, uint64_t seq)
{
    struct format_header *header;
    int r;

    header = begin(false, &r);
    if (!header || !has_log() || is_written(edge))
        return r;
    announce_thread();
    return put_edge(edge, take_seq(header, seq), event_time(), false);
}

int capture_hint(const struct capture_hint_info *info)
{
    bool releases = info->what == FORMAT_HINT_DEAD && info->mode == HINT_LIVE;
    bool is_first = false;
    struct format_header *header;
    uint64_t size = 0;
    int device = -1;
    int r;

    header = begin(false, &r);
    if (!header)
        return r;
    struct format_event event = {.seq = take_seq(header, info->seq), .time_ns = event_time()};

    caplive_hint(info->ptr, (unsigned)info->what, info->rule, releases, &size, &is_first, &device);
    if (is_first) {
        total_release(&header->total, size);
        total_release(device_totals(header, device), size);
    }
    event.head = make_head(FORMAT_EVENT_HINT, 0, info->device >= 0 ? info->device : device);
    event.u.hint.addr = info->ptr;
    event.u.hint.size = info->size ? info->size : size;
    event.u.hint.rule = info->rule;
    event.u.hint.what = (uint32_t)info->what;
    event.u.hint.stack = info->stack;
    event.u.hint.path = info->edge ? intern_number(info->edge->path) : 0;
    event.u.hint.instance = info->edge ? info->edge->instance : 0;
    event.u.hint.mode = (uint16_t)info->mode;
    event.u.hint.result = (uint16_t)info->result;
    return put_event(&event, event.u.hint.path, info->stack);
}

static uint64_t native_on(const struct format_header *header, int device)
{
    if (device < 0 || device >= (int)FORMAT_DEVICES_MAX)
        return 0;
    return __atomic_load_n(&header->look[device].native_live, __ATOMIC_RELAXED);
}

/* The record of area E; the event stands beside it in the log. */
static int put_oom(struct format_header *header, const struct capture_oom_info *info,
        const struct format_event *event, struct format_oom_holder *ret_top)
{
    const struct tag *tag = info->tag;
    struct format_oom record = {
            .state = __atomic_add_fetch(&header->oom_count, 1, __ATOMIC_RELAXED) << 1 | 1,
            .seq = event->seq,
            .time_ns = event->time_ns,
            .requested = tag->size,
            .stream = info->stream,
            .stack = tag->stack,
            .path = event->u.oom.path,
            .instance = tag->instance,
            .call = info->call ? intern_string(info->call, strlen(info->call)) : 0,
            .device = tag->device,
            .result = (uint32_t)info->result,
            .flags = info->flags,
            .free_bytes = info->free_bytes,
            .total_bytes = info->total_bytes,
            .native_bytes = native_on(header, tag->device),
            .heaps = info->heaps,
            .ladder = info->ladder,
    };

    capoom_holders(&record,
            __atomic_load_n(&header->total.allocated_count, __ATOMIC_RELAXED)
                    + __atomic_load_n(&header->total.freed_count, __ATOMIC_RELAXED));
    *ret_top = record.holder[0];
    (void)degraded(capdefs_sync(record.path, tag->stack));
    (void)degraded(capdefs_sync(record.call, 0));
    return degraded(capoom_put(&record));
}

int capture_oom(const struct capture_oom_info *info, struct format_oom_holder *ret_top)
{
    const struct tag *tag = info->tag;
    struct format_oom_holder top = {0};
    struct format_header *header;
    int r, r2;

    if (ret_top)
        *ret_top = top;
    header = begin(true, &r);
    if (!header)
        return r;
    struct format_event event = {
            .head = make_head(FORMAT_EVENT_OOM, 0, tag->device),
            .seq = take_seq(header, info->seq),
            .time_ns = event_time(),
    };

    capture_state(FORMAT_STATE_OOM, 0);
    event.u.oom.size = tag->size;
    event.u.oom.free_bytes = info->free_bytes;
    event.u.oom.largest_free =
            info->flags & FORMAT_OOM_HEAPS ? info->heaps.largest_free : UINT64_MAX;
    event.u.oom.stack = tag->stack;
    event.u.oom.path = tag_path(tag);
    event.u.oom.instance = tag->instance;
    event.u.oom.result = (uint32_t)info->result;
    r2 = put_oom(header, info, &event, &top);
    if (ret_top)
        *ret_top = top;
    r = r < 0 ? r : r2;
    r2 = put_event(&event, event.u.oom.path, tag->stack);
    return r < 0 ? r : r2;
}

/* ---- reserved bytes ---- */

static struct lock heap_lock = LOCK_INIT(LOCK_RANK_CAPTURE);
/* guarded by heap_lock: */
static struct {
    uint64_t heap, seq, bytes;
    int device;
} heaps[FORMAT_HEAPS_MAX];
static uint32_t heap_count;

static uint64_t reserved_on_locked(int device, bool any)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < heap_count; i++)
        if (any || heaps[i].device == device)
            bytes += heaps[i].bytes;
    return bytes;
}

static void set_reserved_locked(struct format_header *header, int device)
{
    struct format_totals *totals = device_totals(header, device);
    uint64_t all = reserved_on_locked(device, true);

    __atomic_store_n(&header->total.reserved_bytes, all, __ATOMIC_RELAXED);
    counter_raise(&header->total.peak_reserved_bytes, all);
    if (totals) {
        uint64_t here = reserved_on_locked(device, false);

        __atomic_store_n(&totals->reserved_bytes, here, __ATOMIC_RELAXED);
        counter_raise(&totals->peak_reserved_bytes, here);
    }
}

int capture_reserved(int device, uint64_t heap, uint64_t bytes, uint64_t seq)
{
    struct format_header *header;
    uint32_t i;
    int r;

    header = begin(true, &r);
    if (!header)
        return r;
    struct format_event event = {
            .head = make_head(FORMAT_EVENT_RESERVED, 0, device),
            .seq = take_seq(header, seq),
            .time_ns = event_time(),
    };

    event.u.reserved.heap = heap;
    event.u.reserved.bytes = bytes;
    lock_take(&heap_lock);
    for (i = 0; i < heap_count && (heaps[i].heap != heap || heaps[i].device != device); i++)
        ;
    if (i == heap_count && heap_count < FORMAT_HEAPS_MAX) {
        heaps[i].heap = heap;
        heaps[i].device = device;
        heaps[i].seq = 0;
        heaps[i].bytes = 0;
        heap_count++;
    }
    if (i < heap_count && heaps[i].seq <= event.seq) {
        heaps[i].seq = event.seq;
        heaps[i].bytes = bytes;
        set_reserved_locked(header, device);
    }
    lock_drop(&heap_lock);
    if (i == FORMAT_HEAPS_MAX)
        r = -ENOBUFS;
    return put_event(&event, 0, 0) < 0 ? -EIO : degraded(r);
}

/* ---- identity ---- */

/* Into the file, or kept until there is one. */
static int put_identity(struct format_def *def, size_t bytes, const char *text, size_t length)
{
    size_t total = bytes + (length + 7) / 8 * 8;
    bool is_kept = false;
    int now;

    lock_take(&pending_lock);
    now = atomic_load_explicit(&phase, memory_order_acquire);
    if ((now == PHASE_NEW || now == PHASE_OPENING) && pending_used + total <= PENDING_BYTES) {
        def->bytes = (uint32_t)total;
        def->length = (uint32_t)length;
        memcpy(pending + pending_used, def, bytes);
        if (length > 0)
            memcpy(pending + pending_used + bytes, text, length);
        pending_used += (uint32_t)total;
        is_kept = true;
    }
    lock_drop(&pending_lock);
    if (is_kept || now == PHASE_NEVER)
        return 0;
    if (now != PHASE_OPEN)
        return -ENOBUFS;
    (void)degraded(capdefs_sync(UINT32_MAX, 0));
    return degraded(capdefs_put(def, bytes, text, length));
}

static uint32_t intern_word(const char *text)
{
    return text ? intern_string(text, strlen(text)) : 0;
}

static bool is_recording(void)
{
    return atomic_load_explicit(&phase, memory_order_acquire) != PHASE_NEVER;
}

int capture_setting(const char *name, const char *value)
{
    struct format_def_pair def = {.def.kind = FORMAT_DEF_SETTING};

    if (!is_recording())
        return 0;
    def.name = intern_word(name);
    def.value = intern_word(value);
    return put_identity(&def.def, sizeof def, NULL, 0);
}

int capture_device(int device, const char *name, uint64_t total_bytes, uint32_t driver_version)
{
    struct format_def_device def = {.def = {.kind = FORMAT_DEF_DEVICE, .id = (uint32_t)device}};

    if (!is_recording())
        return 0;
    def.total_bytes = total_bytes;
    def.name = intern_word(name);
    def.driver_version = driver_version;
    return put_identity(&def.def, sizeof def, NULL, 0);
}

int capture_hints(const char *path, uint64_t hash, enum hint_mode mode, uint32_t rules)
{
    struct format_def_hints def = {.def.kind = FORMAT_DEF_HINTS};

    if (!is_recording())
        return 0;
    def.hash = hash;
    def.path = intern_word(path);
    def.mode = (uint32_t)mode;
    def.rules = rules;
    return put_identity(&def.def, sizeof def, NULL, 0);
}

int capture_rule(uint32_t index, const struct rule *rule)
{
    struct format_def_rule def = {.def = {.kind = FORMAT_DEF_RULE, .id = index}};

    if (!is_recording())
        return 0;
    def.name = intern_word(rule->id);
    def.action = (uint32_t)rule->action;
    def.mode = (uint32_t)rule->mode;
    def.line = rule->line;
    return put_identity(&def.def, sizeof def, NULL, 0);
}

int capture_note(unsigned severity, const char *text)
{
    struct format_def def = {.kind = FORMAT_DEF_NOTE, .id = severity};
    size_t length = strnlen(text, INTERN_STRING_BYTES_MAX);

    if (!is_recording())
        return 0;
    if (atomic_fetch_add_explicit(&notes, 1, memory_order_relaxed) >= CAPTURE_NOTES_MAX) {
        atomic_fetch_add_explicit(&notes_lost, 1, memory_order_relaxed);
        return 0;
    }
    return put_identity(&def, sizeof def, text, length);
}

int capture_coverage(const char *hook, const char *route, uint64_t count)
{
    struct format_def_coverage def = {.def.kind = FORMAT_DEF_COVERAGE};

    if (!is_recording())
        return 0;
    def.hook = intern_word(hook);
    def.route = intern_word(route);
    def.count = count;
    return put_identity(&def.def, sizeof def, NULL, 0);
}

/* ---- state ---- */

void capture_state(enum format_state state, uint32_t detail)
{
    struct format_header *header = header_now();

    if (!header)
        return;
    if (state == FORMAT_STATE_CLEAN
            && __atomic_load_n(&header->state, __ATOMIC_RELAXED) == FORMAT_STATE_SIGNAL)
        return;
    __atomic_store_n(&header->state_detail, detail, __ATOMIC_RELAXED);
    __atomic_store_n(&header->state, (uint32_t)state, __ATOMIC_RELEASE);
}

void capture_stats(struct capture_stats *ret_stats)
{
    struct format_header *header = header_now();

    *ret_stats = (struct capture_stats){
            .is_open = atomic_load_explicit(&phase, memory_order_acquire) == PHASE_OPEN,
            .is_degraded = atomic_load_explicit(&is_degraded, memory_order_relaxed),
    };
    if (!header)
        return;
    ret_stats->lost = (struct format_lost){
            .events_recycled = __atomic_load_n(&header->lost.events_recycled, __ATOMIC_RELAXED),
            .events_dropped = __atomic_load_n(&header->lost.events_dropped, __ATOMIC_RELAXED),
            .live_dropped = caplive_dropped(),
            .defs_dropped =
                    capdefs_dropped() + atomic_load_explicit(&notes_lost, memory_order_relaxed),
            .unknown_frees = __atomic_load_n(&header->lost.unknown_frees, __ATOMIC_RELAXED),
            .implied_frees = __atomic_load_n(&header->lost.implied_frees, __ATOMIC_RELAXED),
            .recycled_seq = __atomic_load_n(&header->lost.recycled_seq, __ATOMIC_RELAXED),
    };
    ret_stats->file_bytes = __atomic_load_n(&header->file_bytes, __ATOMIC_RELAXED);
}

void capture_fork_child(void)
{
    int now = atomic_load(&phase);

    /* The mapping is shared with the parent: from here on nothing may be stored into it. */
    if (now == PHASE_OPEN || now == PHASE_OPENING)
        atomic_store(&phase, PHASE_NEVER);
    atomic_store(&header_at, NULL);
    caplog_fork_child();
    lock_init(&pending_lock, LOCK_RANK_CAPTURE);
    lock_init(&heap_lock, LOCK_RANK_CAPTURE);
}
