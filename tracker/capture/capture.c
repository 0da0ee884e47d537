/* SPDX-License-Identifier: MIT */
#include "tracker/capture/capture.h"

#include "alloc/base/lock.h"
#include "tracker/base/ownfile.h"
#include "tracker/capture/capdefs.h"
#include "tracker/capture/capevents.h"
#include "tracker/capture/capfile.h"
#include "tracker/capture/caplive.h"
#include "tracker/capture/caplog.h"
#include "tracker/capture/capold.h"
#include "tracker/capture/capoom.h"
#include "tracker/capture/capplace.h"
#include "tracker/capture/caprecord.h"
#include "tracker/capture/capstate.h"
#include "tracker/capture/liveuse.h"
#include "tracker/stacks/intern.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define RING_DEFAULT  (256u << 20)
#define RING_MIN      (1u << 20)
#define PENDING_BYTES 65536u
#define NAMES_MAX     1000 /* NAME, NAME.PID, NAME.PID.2 ... */

/* fixed by capture_init */
static struct {
    char file[CAPTURE_PATH_MAX];
    char rank[32];
    char program[96];
    char run[24];
    bool replaces; /* it may replace an old capture of the same name */
    enum format_trace trace;
    uint64_t ring_bytes;
} opts;

static struct capfile file; /* fixed when the phase is CAPSTATE_OPEN */
static _Atomic uint32_t notes;

static struct lock pending_lock = LOCK_INIT(LOCK_RANK_CAPTURE);
/* guarded by pending_lock: identity records from before the file exists */
static _Alignas(8) char pending[PENDING_BYTES];
static uint32_t pending_used;

/* ---- names ---- */

/* The replacement of %x; NULL: unknown. */
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

/* ---- opening ---- */

static void fill_header(struct format_header *header)
{
    ssize_t length = readlink("/proc/self/exe", header->exe, sizeof header->exe - 1);

    header->exe[length > 0 ? length : 0] = '\0';
    header->cmdline_bytes =
            (uint32_t)ownfile_fill("/proc/self/cmdline", header->cmdline, sizeof header->cmdline);
    (void)gethostname(header->host, sizeof header->host - 1);
    (void)snprintf(header->rank, sizeof header->rank, "%s", opts.rank);
    (void)snprintf(header->program, sizeof header->program, "%s", opts.program);
    (void)snprintf(header->run, sizeof header->run, "%s", opts.run);
    header->trace = (uint32_t)opts.trace;
    header->pid = (uint32_t)getpid();
    header->ppid = (uint32_t)getppid();
    header->start_real_ns = capstate_clock(CLOCK_REALTIME);
    header->start_mono_ns = capstate_start();
    header->class_count = MEMCLASS_COUNT;
}

/* True if the pattern gives each process its own name. */
static bool has_pattern(const char *name)
{
    for (const char *at = strchr(name, '%'); at && at[1]; at = strchr(at + 2, '%'))
        if (at[1] != '%')
            return true;
    return false;
}

/* Header of a capture that has the name. Static, because it is larger than the stack that a small
 * thread has left. */
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
    /* In containers, and on hosts that share a directory, process numbers repeat. */
    for (int i = 2; r == -EEXIST && i <= NAMES_MAX; i++) {
        (void)snprintf(other, sizeof other, "%s.%d.%d", name, (int)getpid(), i);
        r = capfile_create(&file, other, fill_header);
    }
    return r;
}

/* Writes the pending identity records one by one: capdefs_put may make system calls. */
static void write_pending(void)
{
    for (uint32_t at = 0;;) {
        _Alignas(8) char record[sizeof(struct format_def_module) + INTERN_STRING_BYTES_MAX + 8];
        struct format_def *def = (struct format_def *)(void *)record;
        uint32_t head = 0;

        lock_take(&pending_lock);
        if (at >= pending_used) {
            capstate_opened();
            lock_drop(&pending_lock);
            return;
        }
        memcpy(def, pending + at, sizeof *def);
        memcpy(record, pending + at, def->bytes);
        lock_drop(&pending_lock);

        at += def->bytes;
        head = def->bytes - (def->length + 7) / 8 * 8;
        capstate_degraded(capdefs_sync(UINT32_MAX, 0));
        capstate_degraded(capdefs_put(def, head, record + head, def->length));
    }
}

static void (*tell_opened)(struct format_ask *ask); /* fixed before the start */

void capture_on_open(void (*opened)(struct format_ask *ask))
{
    tell_opened = opened;
}

static bool was_refused; /* fixed when the phase is CAPSTATE_NEVER */

static int open_file(void)
{
    uint64_t chunks = opts.ring_bytes / FORMAT_CHUNK_BYTES;
    int r = create_file();

    if (r < 0) {
        was_refused = true;
        capstate_never();
        return r;
    }
    capdefs_init(&file);
    caplive_init(&file);
    liveuse_open(&file.header->unseen);
    capoom_init(&file);
    caprecord_init(&file);
    capplace_init(&file);
    caplog_init(&file, opts.trace == FORMAT_TRACE_RING ? (uint32_t)chunks : 0);
    capstate_show(file.header);
    capevents_write_open_ranges();
    write_pending();
    if (tell_opened)
        tell_opened((struct format_ask *)(void *)((char *)file.header + FORMAT_ASK_OFFSET));
    return 0;
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
            sizeof expanded); /* a bad pattern is reported now, not at the first allocation */
    if (r < 0)
        return r;
    memset(&opts, 0, sizeof opts);
    (void)snprintf(opts.file, sizeof opts.file, "%s", name);
    (void)snprintf(opts.rank, sizeof opts.rank, "%s", rank);
    (void)snprintf(
            opts.program, sizeof opts.program, "%s", init_opts->program ? init_opts->program : "");
    keep_run(init_opts->run ? init_opts->run : "");
    opts.trace = init_opts->trace;
    opts.ring_bytes = init_opts->ring_bytes ? init_opts->ring_bytes : RING_DEFAULT;
    if (opts.ring_bytes < RING_MIN)
        opts.ring_bytes = RING_MIN;
    capstate_init(opts.trace != FORMAT_TRACE_OFF,
            opts.trace == FORMAT_TRACE_RING || opts.trace == FORMAT_TRACE_FULL, open_file);
    return 0;
}

const char *capture_path(void)
{
    enum capstate_phase now = capstate_phase();

    return now == CAPSTATE_OPEN || now == CAPSTATE_SEALED ? file.path : "";
}

const char *capture_refused(void)
{
    return capstate_phase() == CAPSTATE_NEVER && was_refused ? file.path : "";
}

/* ---- identity ---- */

/* Writes it to the file, or keeps it until there is one. */
static int put_identity(struct format_def *def, size_t bytes, const char *text, size_t length)
{
    size_t total = bytes + (length + 7) / 8 * 8;
    enum capstate_phase now;
    bool is_kept = false;

    lock_take(&pending_lock);
    now = capstate_unsealed();
    if (now < CAPSTATE_OPEN && pending_used + total <= PENDING_BYTES) {
        def->bytes = (uint32_t)total;
        def->length = (uint32_t)length;
        memcpy(pending + pending_used, def, bytes);
        if (length > 0)
            memcpy(pending + pending_used + bytes, text, length);
        pending_used += (uint32_t)total;
        is_kept = true;
    }
    lock_drop(&pending_lock);
    if (is_kept || now == CAPSTATE_NEVER)
        return 0;
    if (now != CAPSTATE_OPEN) {
        capdefs_lost();
        return -ENOBUFS;
    }
    capstate_degraded(capdefs_sync(UINT32_MAX, 0));
    capstate_degraded(capdefs_put(def, bytes, text, length));
    return capstate_trouble();
}

/* The number of a text; 0 where nothing is recorded. */
static uint32_t intern_word(const char *text)
{
    return text && capstate_phase() != CAPSTATE_NEVER ? intern_string(text, strlen(text)) : 0;
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

int capture_drift(uint32_t index, const struct hintwords_drift *drift)
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

int capture_moves(const struct format_def_moves *moves)
{
    struct format_def_moves def = *moves;

    def.def = (struct format_def){.kind = FORMAT_DEF_MOVES};
    def.time_ns = capstate_time();
    return put_identity(&def.def, sizeof def, NULL, 0);
}

/* ---- state ---- */

void capture_state(enum format_state state, uint32_t detail)
{
    capstate_set(state, detail);
}

bool capture_fault(const void *at)
{
    if (!capfile_fault(at))
        return false;
    capstate_lost();
    return true;
}

void capture_fork_child(void)
{
    capstate_fork_child();
    caplog_fork_child();
    capdefs_fork_child();
    lock_init(&pending_lock, LOCK_RANK_CAPTURE);
    capevents_fork_child();
}
