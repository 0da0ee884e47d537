/* SPDX-License-Identifier: MIT */
#include "preload/anchors/output.h"

#include "preload/anchors/source.h"
#include "preload/base/elfsym.h"
#include "preload/base/guard.h"
#include "preload/base/msg.h"
#include "preload/base/threadmem.h"
#include "preload/driver/life.h"
#include "tracker/base/config.h"
#include "tracker/where/loglines.h"

#include <link.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

atomic_bool output_watched;

/* Fixed by output_start. */
static struct loglines lines;
static bool is_wanted;

enum {
    DESCRIPTORS = 2, /* descriptors 1 and 2 */
    COMPLAINTS = 4,
};

static struct complaint {
    char pattern[64];
    const char *why;
} complaints[COMPLAINTS]; /* fixed by output_start */
static unsigned complaint_count;

/* A line without its end so far. */
struct piece {
    uint16_t used;
    bool is_lost; /* too long, or partly unknown: ignored until the line ends */
    char text[LOGLINES_LINE_MAX];
};

struct output_thread {
    /* set while the thread's text is processed: text of a signal handler is ignored */
    bool is_busy;
    struct piece piece[DESCRIPTORS];
};

static __thread struct output_thread *output_thread __attribute__((tls_model("initial-exec")));

/* ---- start ----------------------------------------------------------------------------------- */

static void add_pattern(const char *text, size_t length)
{
    char pattern[LOGLINES_TEXT_MAX + 1];
    const char *why = NULL;
    struct complaint *complaint = &complaints[complaint_count % COMPLAINTS];

    if (length > LOGLINES_TEXT_MAX)
        length = LOGLINES_TEXT_MAX; /* still too long, so it will be refused */
    memcpy(pattern, text, length);
    pattern[length] = '\0';
    if (loglines_add(&lines, pattern, &why) == 0 || complaint_count == COMPLAINTS)
        return;
    if (length >= sizeof complaint->pattern)
        length = sizeof complaint->pattern - 1;
    memcpy(complaint->pattern, text, length);
    complaint->why = why;
    complaint_count++;
}

static bool wants_dlopen;

static void look_for_dlopen(const char *name)
{
    wants_dlopen |= strcmp(name, "dlopen") == 0;
}

/*
 * Whether the program itself may open a driver. The first object in the loader's list is the
 * program.
 */
static bool may_open_libraries(void)
{
    const struct link_map *program = _r_debug.r_map;

    if (program)
        elfsym_each_wanted(program, look_for_dlopen);
    return !program || wants_dlopen;
}

void output_start(const struct config *config, bool uses_cuda)
{
    const struct config_value *log = config_key(config, CONFIG_ANCHORS, "log");
    const char *patterns = log && log->set ? log->text : LOGLINES_DEFAULT;

    if (!(log && log->set) && !(config_word(config, CONFIG_ANCHORS) & SOURCE_LOG))
        return;
    for (size_t n; *patterns; patterns += n + (patterns[n] == ',' ? 1 : 0)) {
        n = strcspn(patterns, ",");
        add_pattern(patterns, n);
    }
    is_wanted = lines.count > 0;
    if (is_wanted && (uses_cuda || may_open_libraries()))
        atomic_store(&output_watched, true);
}

void output_library_comes(void)
{
    if (is_wanted && !output_is_watched())
        atomic_store_explicit(&output_watched, true, memory_order_relaxed);
}

void output_complain(void)
{
    for (unsigned i = 0; i < complaint_count; i++)
        msg_warn("KEDGE_ANCHORS: log pattern '%s' is ignored: %s", complaints[i].pattern,
                complaints[i].why);
}

/* ---- lines ---------------------------------------------------------------------------------- */

/*
 * A signal handler on its alternate stack, which may have room only for what the program planned.
 */
static bool is_on_other_stack(void)
{
    stack_t stack;

    /*
     * By system call, not by name: a test checks that the library uses no signal functions. This
     * only asks.
     */
    return syscall(SYS_sigaltstack, NULL, &stack) == 0 && (stack.ss_flags & SS_ONSTACK);
}

/*
 * PyTorch's messages about features that are missing under a switch that `kedge run` sets (R94,
 * settings of users).
 */
static const struct lack {
    const char *words;
    const char *variable; /* variable that the switch sets; NULL = the message itself says so */
    const char *what;
} lacks[] = {
        {"cudaMallocAsync does not yet support", NULL,
                "PyTorch's backend:cudaMallocAsync, which kedge run selects,"},
        {"invalid device pointer: 0x", "PYTORCH_NO_CUDA_MEMORY_CACHING",
                "PyTorch without its cache, which kedge run --api sync selects,"},
};

static bool is_lack(const struct lack *lack, const char *line, size_t length)
{
    return memmem(line, length, lack->words, strlen(lack->words)) && life_is_wanted()
            && (!lack->variable || config_env(environ, lack->variable));
}

/* Prints advice once. */
static void look_for_lack(const char *line, size_t length)
{
    static atomic_bool is_told;

    for (size_t i = 0; i < sizeof lacks / sizeof *lacks; i++) {
        if (is_lack(&lacks[i], line, length) && !atomic_exchange(&is_told, true))
            msg_warn("%s lacks what this program asks for: use kedge run --api framework",
                    lacks[i].what);
    }
}

static void output_judge(const char *line, size_t length)
{
    struct loglines_word word;

    look_for_lack(line, length);
    for (uint32_t i = 0; i < lines.count; i++) {
        if (!loglines_match(&lines, i, line, length, &word))
            continue;
        if (is_on_other_stack())
            return;
        if (word.kind == LOGLINES_ENTER)
            source_enter_group(i, word.name, word.name_length);
        else
            source_leave_group(i, word.name, word.name_length);
    }
}

static void output_keep(struct piece *piece, const char *text, size_t length)
{
    if (piece->is_lost || length > sizeof piece->text - piece->used) {
        piece->is_lost = true;
        return;
    }
    memcpy(piece->text + piece->used, text, length);
    piece->used = (uint16_t)(piece->used + length);
}

/* The line ends here. */
static void output_finish(struct piece *piece, const char *text, size_t length)
{
    size_t used;

    if (piece->used == 0 && !piece->is_lost) { /* a whole line, in one place */
        if (length <= LOGLINES_LINE_MAX)
            output_judge(text, length);
        return;
    }
    output_keep(piece, text, length);
    used = piece->is_lost ? 0 : piece->used;
    piece->used = 0;
    piece->is_lost = false;
    output_judge(piece->text, used);
}

/* A line ends at `newline`, or at a return before it. */
static const char *line_end(const char *text, const char *newline, const char *end)
{
    const char *back = memchr(text, '\r', (size_t)((newline ? newline : end) - text));

    return back ? back : newline;
}

/* The pieces of a descriptor, busy until leave; NULL: nothing to do. */
static struct piece *output_enter(int fd)
{
    struct output_thread *self = output_thread;

    if (fd < 1 || fd > DESCRIPTORS || guard_depth() > 0)
        return NULL;
    if (!self)
        self = threadmem_make(&output_thread, sizeof *self);
    if (!self || self->is_busy)
        return NULL;
    self->is_busy = true;
    atomic_signal_fence(memory_order_seq_cst);
    return &self->piece[fd - 1];
}

static void output_leave(void)
{
    atomic_signal_fence(memory_order_seq_cst);
    output_thread->is_busy = false;
}

void output_seen(int fd, const char *text, size_t length)
{
    struct piece *piece = output_enter(fd);
    const char *end = text + length;
    const char *newline;

    if (!piece)
        return;
    newline = memchr(text, '\n', length); /* once, however many returns come before it */
    while (text < end) {
        const char *stop = line_end(text, newline, end);

        if (!stop) {
            output_keep(piece, text, (size_t)(end - text));
            break;
        }
        output_finish(piece, text, (size_t)(stop - text));
        text = stop + 1;
        if (stop == newline)
            newline = memchr(text, '\n', (size_t)(end - text));
    }
    output_leave();
}

void output_unseen(int fd, bool line_ended)
{
    struct piece *piece = output_enter(fd);

    if (!piece)
        return;
    piece->used = 0;
    piece->is_lost = !line_ended;
    output_leave();
}
