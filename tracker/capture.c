/* SPDX-License-Identifier: MIT */
#include "tracker/capshare.h"

#include "alloc/lock.h"
#include "tracker/anchor.h"
#include "tracker/capdefs.h"
#include "tracker/capfile.h"
#include "tracker/caplog.h"
#include "tracker/capold.h"
#include "tracker/capoom.h"
#include "tracker/capplace.h"
#include "tracker/counter.h"
#include "tracker/formatsum.h"
#include "tracker/intern.h"
#include "tracker/thread.h"
#include "tracker/uses.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define RING_DEFAULT   (256u << 20)
#define RING_MIN       (1u << 20)
#define PENDING_BYTES  65536u
#define OPEN_RANGES    512u
#define NAMES_MAX      1000 /* NAME, NAME.PID, NAME.PID.2 ... */
#define WAIT_STEP_NS   100000L
#define WAIT_STEPS_MAX 20000 /* two seconds for another thread that creates the file */

enum phase {
    PHASE_NEW,     /* nothing tried */
    PHASE_OPENING, /* one thread is at it */
    PHASE_LATE,    /* still, and nobody waits for it any more */
    PHASE_OPEN,
    PHASE_SEALED, /* open, and the header has its seal, which whoever writes on breaks first */
    PHASE_NEVER,  /* off, failed, or the child of a fork */
};

/* fixed by capture_init */
static struct {
    char file[CAPTURE_PATH_MAX];
    char rank[32];
    char program[96];
    char run[24];
    bool replaces; /* an old capture of the same name */
    enum format_trace trace;
    uint64_t ring_bytes;
} opts;

bool capture_logs;

static struct capfile file; /* fixed when phase is PHASE_OPEN */
static _Atomic(struct format_header *)
        header_at; /* for capture_state, which may run in a signal handler */
static _Atomic int phase = PHASE_NEVER;
static _Atomic uint32_t notes;
static _Atomic uint64_t missed; /* calls that found PHASE_LATE */
/* -errno: what went wrong last, and what no caller has been told yet (0 = nothing) */
static _Atomic int last_trouble, untold;
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

/* The phase, for whoever is about to write: then the file is open. */
static __attribute__((noinline, cold)) int capture_unseal(void)
{
    int now = PHASE_SEALED;

    __atomic_store_n(&file.header->seal, 0, __ATOMIC_SEQ_CST);
    (void)atomic_compare_exchange_strong(&phase, &now, PHASE_OPEN);
    return PHASE_OPEN;
}

static struct format_header *header_now(void)
{
    /* acquire: pairs with the store in open_file */
    return atomic_load_explicit(&header_at, memory_order_acquire);
}

int capture_keep_trouble(int r)
{
    if (atomic_exchange_explicit(&last_trouble, r, memory_order_relaxed) != r)
        atomic_store_explicit(&untold, r, memory_order_relaxed);
    return r;
}

int capture_trouble(void)
{
    if (__builtin_expect(atomic_load_explicit(&untold, memory_order_relaxed) == 0, 1))
        return 0;
    return atomic_exchange_explicit(&untold, 0, memory_order_relaxed);
}

/* ---- names ---- */

/* What stands for %x; NULL: nothing does. */
static const char *part_of(char x, const char *host, const char *rank, const char *pid)
{
    switch (x) {
    case 'h':
        return host[0] ? host : "host";
    case 'r':
        return rank[0] ? rank : "0";
    case 'p':
        return pid;
    case '%':
        return "%";
    default:
        return NULL;
    }
}

/* -EINVAL for an unknown %x, -ENAMETOOLONG. */
static int expand(const char *pattern, const char *rank, char *ret_name, size_t size)
{
    char host[65] = "";
    char pid[16];
    size_t used = 0;

    (void)gethostname(host, sizeof host - 1);
    (void)snprintf(pid, sizeof pid, "%d", (int)getpid());
    ret_name[0] = '\0';
    for (const char *at = pattern; *at; at++) {
        char one[2] = {*at, '\0'};
        const char *part = *at == '%' ? part_of(*++at, host, rank, pid) : one;
        int length;

        if (!part)
            return -EINVAL;
        length = snprintf(ret_name + used, size - used, "%s", part);
        if (length < 0 || (size_t)length >= size - used)
            return -ENAMETOOLONG;
        used += (size_t)length;
    }
    return 0;
}

static bool is_rank(const char *rank)
{
    for (; *rank; rank++)
        if (*rank == '/' || *rank == '%' || *rank <= ' ')
            return false;
    return true;
}

/* "RUN" or "RUN+". */
static void keep_run(const char *run)
{
    size_t length = strspn(run, "0123456789abcdef");

    if (length == 0 || length >= sizeof opts.run)
        return;
    memcpy(opts.run, run, length);
    opts.replaces = strcmp(run + length, "+") == 0;
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
    keep_run(init_opts->run ? init_opts->run : "");
    opts.trace = init_opts->trace;
    capture_logs = opts.trace == FORMAT_TRACE_RING || opts.trace == FORMAT_TRACE_FULL;
    atomic_store(&last_trouble, 0);
    atomic_store(&untold, 0);
    opts.ring_bytes = init_opts->ring_bytes ? init_opts->ring_bytes : RING_DEFAULT;
    if (opts.ring_bytes < RING_MIN)
        opts.ring_bytes = RING_MIN;
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
    (void)snprintf(header->run, sizeof header->run, "%s", opts.run);
    header->trace = (uint32_t)opts.trace;
    header->pid = (uint32_t)getpid();
    header->ppid = (uint32_t)getppid();
    header->start_real_ns = now_ns(CLOCK_REALTIME);
    header->start_mono_ns = start_ns;
    header->class_count = MEMCLASS_COUNT;
}

/* Whether processes get names of their own by themselves. */
static bool has_pattern(const char *name)
{
    for (const char *at = strchr(name, '%'); at && at[1]; at = strchr(at + 2, '%'))
        if (at[1] != '%')
            return true;
    return false;
}

/* Of a capture that is in the way. Static, for it is larger than what a thread with a small stack has left. */
static struct format_header old_header;

static int create_file(void)
{
    char name[CAPTURE_PATH_MAX];
    char other[CAPTURE_PATH_MAX + 32];
    int r = expand(opts.file, opts.rank, name, sizeof name);
    size_t length = r < 0 ? 0 : strlen(name);

    if (r < 0)
        return r;
    if (opts.rank[strspn(opts.rank, "0")] != '\0' && !has_pattern(opts.file))
        (void)snprintf(name + length, sizeof name - length, ".%s", opts.rank);
    r = capfile_create(&file, name, fill_header);
    if (r == -EEXIST && opts.replaces && !has_pattern(opts.file)
            && capold_remove(name, opts.run, &old_header) == 0)
        r = capfile_create(&file, name, fill_header);
    if (r == -EEXIST) {
        (void)snprintf(other, sizeof other, "%s.%d", name, (int)getpid());
        r = capfile_create(&file, other, fill_header);
    }
    /* In containers, and on hosts that share a directory, processes have the same numbers again and again. */
    for (int i = 2; r == -EEXIST && i <= NAMES_MAX; i++) {
        (void)snprintf(other, sizeof other, "%s.%d.%d", name, (int)getpid(), i);
        r = capfile_create(&file, other, fill_header);
    }
    return r;
}

uint64_t capture_time(void)
{
    return now_ns(CLOCK_MONOTONIC) - start_ns;
}

/* fixed when phase is PHASE_OPEN: the ranges whose enter edges were written by write_open_ranges */
static struct edge open_range[OPEN_RANGES];
static size_t open_range_count;
static uint32_t open_range_newest;

static void write_open_ranges(void)
{
    size_t count = anchor_open_ranges(open_range, OPEN_RANGES);

    open_range_count = count < OPEN_RANGES ? count : OPEN_RANGES;
    for (size_t i = 0; capture_has_log() && i < open_range_count; i++) {
        if (open_range[i].anchor > open_range_newest)
            open_range_newest = open_range[i].anchor;
        capture_put_edge(&open_range[i], 0, 0, true);
    }
}

bool capture_is_written(const struct edge *edge)
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
            counter_add(&file.header->lost.events_dropped, atomic_load(&missed));
            lock_drop(&pending_lock);
            return;
        }
        memcpy(def, pending + at, sizeof *def);
        memcpy(record, pending + at, def->bytes);
        lock_drop(&pending_lock);

        at += def->bytes;
        head = def->bytes - (def->length + 7) / 8 * 8;
        (void)capture_degraded(capdefs_sync(UINT32_MAX, 0));
        (void)capture_degraded(capdefs_put(def, head, record + head, def->length));
    }
}

static bool was_refused; /* fixed when phase is PHASE_NEVER */

static int open_file(void)
{
    uint64_t chunks = opts.ring_bytes / FORMAT_CHUNK_BYTES;
    int r;

    start_ns = now_ns(CLOCK_MONOTONIC);
    r = create_file();
    if (r < 0) {
        was_refused = true;
        atomic_store_explicit(&phase, PHASE_NEVER, memory_order_release);
        return r;
    }
    capdefs_init(&file);
    caplive_init(&file);
    uses_open(start_ns, &file.header->unseen);
    capoom_init(&file);
    capplace_init(&file);
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
    int cancel = capfile_begin();
    bool is_mine = atomic_compare_exchange_strong(&phase, &expected, PHASE_OPENING);

    if (is_mine)
        (void)capture_degraded(open_file());
    for (int i = 0; !is_mine && expected == PHASE_OPENING && i < WAIT_STEPS_MAX; i++) {
        (void)nanosleep(&step, NULL);
        expected = atomic_load_explicit(&phase, memory_order_acquire);
    }
    capfile_end(cancel);
    if (is_mine)
        return capture_trouble();
    /* Stuck in a file system that hangs: wait once, not at every allocation. If it ends after all, the file is used. */
    if (expected == PHASE_OPENING)
        (void)atomic_compare_exchange_strong(&phase, &expected, PHASE_LATE);
    return 0;
}

static _Atomic bool is_lost; /* the file, and nobody was told */

struct format_header *capture_begin(bool opens, int *ret_error)
{
    int now = atomic_load_explicit(&phase, memory_order_acquire);

    *ret_error = 0;
    if (__builtin_expect(now == PHASE_OPEN, 1))
        return file.header;
    if (now == PHASE_SEALED)
        now = capture_unseal();
    if (now == PHASE_NEVER || (now == PHASE_NEW && !opens)) {
        if (opens && atomic_load_explicit(&is_lost, memory_order_relaxed)
                && atomic_exchange(&is_lost, false))
            *ret_error = -EIO;
        return NULL;
    }
    if (now != PHASE_LATE) {
        *ret_error = capture_open();
        now = atomic_load_explicit(&phase, memory_order_acquire);
    }
    if (now == PHASE_LATE)
        atomic_fetch_add(&missed, 1);
    return now == PHASE_OPEN ? file.header : NULL;
}

const char *capture_path(void)
{
    int now = atomic_load_explicit(&phase, memory_order_acquire);

    return now == PHASE_OPEN || now == PHASE_SEALED ? file.path : "";
}

const char *capture_refused(void)
{
    bool is_never = atomic_load_explicit(&phase, memory_order_acquire) == PHASE_NEVER;

    return is_never && was_refused ? file.path : "";
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
    if (now == PHASE_SEALED)
        now = capture_unseal();
    if (now < PHASE_OPEN && pending_used + total <= PENDING_BYTES) {
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
    if (now != PHASE_OPEN) {
        capdefs_lost();
        return -ENOBUFS;
    }
    (void)capture_degraded(capdefs_sync(UINT32_MAX, 0));
    (void)capture_degraded(capdefs_put(def, bytes, text, length));
    return capture_trouble();
}

/* The number of a text; none where nothing is recorded. */
static uint32_t intern_word(const char *text)
{
    bool is_recording = atomic_load_explicit(&phase, memory_order_acquire) != PHASE_NEVER;

    return text && is_recording ? intern_string(text, strlen(text)) : 0;
}

int capture_setting(const char *name, const char *value)
{
    struct format_def_pair def = {
            .def.kind = FORMAT_DEF_SETTING,
            .name = intern_word(name),
            .value = intern_word(value),
    };

    return put_identity(&def.def, sizeof def, NULL, 0);
}

int capture_device(int device, const char *name, uint64_t total_bytes, uint32_t driver_version)
{
    struct format_def_device def = {
            .def = {.kind = FORMAT_DEF_DEVICE, .id = (uint32_t)device},
            .total_bytes = total_bytes,
            .name = intern_word(name),
            .driver_version = driver_version,
    };

    return put_identity(&def.def, sizeof def, NULL, 0);
}

int capture_hints(const char *path, uint64_t hash, enum hint_mode mode, uint32_t rules)
{
    struct format_def_hints def = {
            .def.kind = FORMAT_DEF_HINTS,
            .hash = hash,
            .path = intern_word(path),
            .mode = (uint32_t)mode,
            .rules = rules,
    };

    return put_identity(&def.def, sizeof def, NULL, 0);
}

int capture_rule(uint32_t index, const struct rule *rule)
{
    struct format_def_rule def = {
            .def = {.kind = FORMAT_DEF_RULE, .id = index},
            .name = intern_word(rule->id),
            .action = (uint32_t)rule->action,
            .mode = (uint32_t)rule->mode,
            .line = rule->line,
    };

    return put_identity(&def.def, sizeof def, NULL, 0);
}

int capture_drift(uint32_t index, const struct hintfile_drift *drift)
{
    struct format_def_drift def = {
            .def = {.kind = FORMAT_DEF_DRIFT, .id = index},
            .path = intern_word(drift->path),
            .instance = drift->instance,
            .count = drift->seen.count,
            .bytes = drift->seen.bytes,
            .count_lo = drift->expect.count.lo,
            .count_hi = drift->expect.count.hi,
            .bytes_lo = drift->expect.bytes.lo,
            .bytes_hi = drift->expect.bytes.hi,
    };

    return put_identity(&def.def, sizeof def, NULL, 0);
}

int capture_note(unsigned severity, const char *text)
{
    struct format_def def = {.kind = FORMAT_DEF_NOTE, .id = severity};

    if (atomic_fetch_add_explicit(&notes, 1, memory_order_relaxed) >= CAPTURE_NOTES_MAX) {
        capdefs_lost();
        return 0;
    }
    return put_identity(&def, sizeof def, text, strnlen(text, INTERN_STRING_BYTES_MAX));
}

int capture_coverage(const char *hook, const char *route, uint64_t count)
{
    struct format_def_coverage def = {
            .def.kind = FORMAT_DEF_COVERAGE,
            .count = count,
            .hook = intern_word(hook),
            .route = intern_word(route),
    };

    return put_identity(&def.def, sizeof def, NULL, 0);
}

/* ---- state ---- */

/*
 * Once the program is at its end. Where other threads have taken part, one may be in the middle of a change that the seal would
 * not have: then there is none, unless `kedge run` makes it when the process is gone. A thread that comes later finds the phase,
 * and a late one of two breaks what the other made.
 */
static void capture_seal(struct format_header *header)
{
    int now = PHASE_OPEN;

    if (!atomic_compare_exchange_strong(&phase, &now, PHASE_SEALED) && now != PHASE_SEALED)
        return;
    if (thread_living() <= 1)
        __atomic_store_n(&header->seal, formatsum_seal(header), __ATOMIC_SEQ_CST);
    if (atomic_load(&phase) != PHASE_SEALED)
        __atomic_store_n(&header->seal, 0, __ATOMIC_SEQ_CST);
}

void capture_state(enum format_state state, uint32_t detail)
{
    struct format_header *header = header_now();

    if (!header)
        return;
    __atomic_store_n(&header->seal, 0, __ATOMIC_SEQ_CST);
    capdefs_tell();
    if (state == FORMAT_STATE_CLEAN
            && __atomic_load_n(&header->state, __ATOMIC_RELAXED) == FORMAT_STATE_SIGNAL)
        return;
    __atomic_store_n(&header->state_detail, detail, __ATOMIC_RELAXED);
    __atomic_store_n(&header->state, (uint32_t)state, __ATOMIC_RELEASE);
    if (state == FORMAT_STATE_CLEAN)
        capture_seal(header);
}

bool capture_fault(const void *at)
{
    if (!capfile_fault(at))
        return false;
    atomic_store_explicit(&phase, PHASE_NEVER, memory_order_release);
    atomic_store(&is_lost, true);
    return true;
}

void capture_fork_child(void)
{
    int now = atomic_load(&phase);

    /* The mapping is shared with the parent: from here on nothing may be stored into it. */
    if (now != PHASE_NEW)
        atomic_store(&phase, PHASE_NEVER);
    atomic_store(&header_at, NULL);
    caplog_fork_child();
    capdefs_fork_child();
    lock_init(&pending_lock, LOCK_RANK_CAPTURE);
    capture_events_fork_child();
}
