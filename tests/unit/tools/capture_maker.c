/* SPDX-License-Identifier: MIT */
/*
 * capture_maker - writes captures as a small trainer would have left them, for tests of the commands.
 *
 *     capture_maker FORM FILE [RANK]     (of another rank than 0: FILE.RANK)
 *
 * 20 anchors SOT_CALL_0..19, each with four tensors: an unused input (late in bad), an unused output (late in bad, every other
 * anchor), one that is freed in time and one that is kept. The bad forms also make a harmless small pair per anchor.
 *
 *     good  bad        the two runs
 *     shadow live      bad with hints, in that mode, one rule per late site
 *     poison           the same; all inputs but the first are freed then, and the first of those was written
 *     touched          bad in trap, and a call touched a released range
 *     oom              bad, and the 15th anchor runs out of memory and the process ends without a word
 *     agg              bad, without events
 *     unsaid unsaid-bad    the two runs of a program that states no anchor
 *     numbered             bad, with a running number in the names of its anchors
 *     leak                 good, and every other anchor keeps a tensor of 6 MiB that good never asks for
 *     used                 bad, with uses: each tensor once, when it is made, but the outputs never
 *     short                good, which ends after 3 anchors
 *     empty                no anchor and no allocation
 *     many                 4,096 anchors, each with a call site of its own and four blocks, of which one is kept
 *     many-used            the same, with uses
 *     killed           bad, and the process is killed in the middle
 *     held             no anchor; a hint holds blocks of 64, 1 and 1 MiB, and lets the first one go
 *     held-killed held-ring    the same, killed at the end, and in a ring that has lost that the first one was held
 *     sync             good, by cudaMalloc; sync-mapped: with KEDGE_POOL=sync=mapped, sync-shown: and a block was exported,
 *                      sync-long: and asks for 80 TiB more, bit by bit
 *     evict            no anchor; an evict hint's three blocks of 128 MiB, of which two fit, in eight steps: two of warm-up, five by the
 *                      plan, one that has not ended; three more blocks that stay, and three calls that are not made
 *     evict-long       the same in 240 steps
 *     evict-shadow     the same on paper, without those
 *     evict-try        a run of `kedge verify` with the file of KEDGE_HINTS, whose first hint evicts; evict-none: and nothing goes out,
 *                      evict-short: calls are not made, evict-fault: in trap the device fails
 *     lost             bad, in a ring that has lost all of it; then the second block of the run is freed, and one more is made
 *     odd              names of any bytes, ranges that overlap, a handle that has no address, two devices, a block of the sync API
 *     evict-lru        an evict hint for which no order is learnt, so that all is one step
 */
#include "tracker/capture/capstate.h"
#include "tracker/capture/capture.h"
#include "tracker/capture/uses.h"
#include "tracker/hints/hintfile.h"
#include "tracker/where/anchor.h"
#include "tracker/where/where.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ANCHORS 20
#define MB      (UINT64_C(1) << 20)

static uint64_t seq;
static uint64_t next_ptr = 0x7f0000000000;
static uint64_t held;
static enum hint_mode mode;
static bool bad, touched, oom, elsewhere, killed, agg, unsaid, numbered, leak, used, holds, ring,
        evicts, lru, is_long, many, syncs, odd, lost;
static struct hintfile *tried; /* evict-try and the like */
static int anchors = ANCHORS;

struct tensor {
    devptr_t ptr;
    uint64_t size;
    int rule;
};

static void hint(enum format_hint_what what, const struct tensor *t, const struct edge *edge)
{
    (void)capture_hint(&(struct capture_hint_info){
            .what = what,
            .mode = mode,
            .rule = t->rule,
            .ptr = t->ptr,
            .size = t->size,
            .seq = ++seq,
            .stack = what == FORMAT_HINT_VIOLATION ? where_stack() : 0,
            .device = 0,
            .edge = edge,
    });
}

static __attribute__((noinline)) struct tensor allocate(uint64_t size, int rule)
{
    struct tensor t = {.ptr = next_ptr, .size = size, .rule = mode ? rule : -1};
    struct tag tag;

    (void)where_am_i(NULL, size, 0, &tag);
    next_ptr += (size + 511) & ~(uint64_t)511;
    (void)capture_alloc(&(struct capture_alloc_info){.tag = &tag,
            .ptr = t.ptr,
            .seq = ++seq,
            .stream = syncs ? 0 : 1,
            .api = syncs ? API_SYNC : API_STREAM,
            .rule = t.rule});
    held += size;
    (void)capture_reserved(0, 1, held, held, ++seq);
    if (t.rule >= 0)
        hint(FORMAT_HINT_PLANNED, &t, NULL);
    if (rule != 1)
        uses_of_stretch(t.ptr, 1, USE_SURE, &(uint64_t){0}); /* nothing where uses are off */
    return t;
}

/* In poison all is clean, but for the first block of the first rule. */
static void look_at_poison(const struct tensor *t)
{
    static bool is_written;
    struct tensor rest = {t->ptr + 4096, t->size - 4096, t->rule};

    if (mode != HINT_POISON || t->rule < 0)
        return;
    if (t->rule == 0 && !is_written) {
        is_written = true;
        hint(FORMAT_HINT_LATE_WRITE, &rest, NULL);
    } else {
        hint(FORMAT_HINT_CLEAN, t, NULL);
    }
}

static void release(const struct tensor *t)
{
    (void)capture_free(&(struct capture_free_info){.ptr = t->ptr,
            .seq = ++seq,
            .stream = syncs ? 0 : 1,
            .device = -1,
            .api = syncs ? API_SYNC : API_STREAM});
    look_at_poison(t);
}

/* Each in a function of its own, so that each is a site of its own. */
static __attribute__((noinline)) struct tensor unused_input(uint64_t size)
{
    struct tensor t = allocate(size, 0);
    __asm__ volatile("" ::: "memory"); /* no tail call: the frame must stay */
    return t;
}

static __attribute__((noinline)) struct tensor unused_output(uint64_t size)
{
    struct tensor t = allocate(size, 1);
    __asm__ volatile("" ::: "memory");
    return t;
}

static __attribute__((noinline)) struct tensor other_tensor(uint64_t size)
{
    struct tensor t = allocate(size, -1);
    __asm__ volatile("" ::: "memory");
    return t;
}

/* Two functions that call each other as the bits of `way` say: each way is a stack of its own. */
static struct tensor turn(unsigned way, unsigned turns, uint64_t size);

static __attribute__((noinline)) struct tensor left(unsigned way, unsigned turns, uint64_t size)
{
    struct tensor t = turn(way, turns, size);
    __asm__ volatile("" ::: "memory");
    return t;
}

static __attribute__((noinline)) struct tensor right(unsigned way, unsigned turns, uint64_t size)
{
    struct tensor t = turn(way, turns, size);
    __asm__ volatile("" ::: "memory");
    return t;
}

static struct tensor turn(unsigned way, unsigned turns, uint64_t size)
{
    if (turns == 0)
        return other_tensor(size);
    return way & 1 ? left(way >> 1, turns - 1, size) : right(way >> 1, turns - 1, size);
}

static __attribute__((noinline)) void late_kernel(const struct tensor *t)
{
    hint(FORMAT_HINT_VIOLATION, t, NULL);
    __asm__ volatile("" ::: "memory");
}

/* What the hints do at an anchor's exit. */
static void due(const struct tensor *t, const struct edge *edge)
{
    if (t->rule < 0)
        return;
    if (mode == HINT_SHADOW) {
        hint(FORMAT_HINT_WOULD_RELEASE, t, edge);
        return;
    }
    hint(FORMAT_HINT_DEAD, t, edge);
    hint(FORMAT_HINT_UNMAPPED, t, edge);
    if (mode == HINT_LIVE) {
        held -= t->size;
        (void)capture_reserved(0, 1, held, held, ++seq);
    }
}

static void run_out_of_memory(void)
{
    struct tag tag;
    (void)where_am_i(NULL, 64 * MB, 0, &tag);
    (void)capture_oom(
            &(struct capture_oom_info){.tag = &tag,
                    .seq = ++seq,
                    .free_bytes = 3 * MB,
                    .total_bytes = UINT64_C(80) << 30,
                    .call = "cuMemAllocAsync",
                    .flags = FORMAT_OOM_STREAM | FORMAT_OOM_HEAPS,
                    .heaps = {.held = 400 * MB,
                            .live = 150 * MB,
                            .used = 160 * MB,
                            .held_high = 400 * MB,
                            .live_high = 300 * MB,
                            .free = 240 * MB,
                            .largest_free = 48 * MB,
                            .remappable = 96 * MB,
                            .remappable_waiting = 32 * MB,
                            .waiting = 8 * MB},
                    .free_elsewhere = elsewhere ? 200 * MB : 100 * MB,
                    .ladder = {.trimmed_bytes = 2 * MB, .waits = 3, .trims = 1, .attempts = 2},
                    .result = 2},
            NULL);
    _exit(1);
}

static void one_anchor(int number)
{
    char name[32];
    struct edge edge;
    bool output_late = bad && number % 2 == 0;

    (void)snprintf(name, sizeof(name), numbered ? "SOT_CALL at %d" : "SOT_CALL_%d", number);
    if (!unsaid) {
        (void)anchor_push(NULL, name, &edge);
        (void)capture_edge(&edge, ++seq);
    }
    struct tensor input = unused_input((uint64_t)(2 + number % 3) * MB);
    if (bad) {
        struct tensor small = other_tensor(4096);
        release(&small);
    }
    struct tensor in_time = other_tensor(16 * MB);
    struct tensor output = unused_output(8 * MB);
    (void)other_tensor(MB);
    if (leak && number % 2 == 0)
        (void)other_tensor(6 * MB);
    release(&in_time);
    if (!bad)
        release(&input);
    if (number % 2 == 0 && !output_late)
        release(&output);
    if (oom && number == 15)
        run_out_of_memory();
    if (killed && number == 15)
        (void)raise(SIGKILL);
    if (unsaid)
        return;
    (void)anchor_pop(NULL, &edge);
    (void)capture_edge(&edge, ++seq);
    if (bad && mode) {
        due(&input, &edge);
        if (output_late)
            due(&output, &edge);
    }
    if (mode == HINT_POISON && number > 0)
        release(&input);
    if (touched && number == 3)
        late_kernel(&input);
}

static void ask_long(void)
{
    for (int i = 0; i < 20; i++) {
        struct tensor t = other_tensor(UINT64_C(4) << 40);
        release(&t);
    }
}

#define TURNS 12

static void ask_everywhere(void)
{
    for (unsigned way = 0; way < 1u << TURNS; way++) {
        char name[32];
        struct edge edge;
        struct tensor brief[3];

        (void)snprintf(name, sizeof(name), "layer %u", way);
        (void)anchor_push(NULL, name, &edge);
        (void)capture_edge(&edge, ++seq);
        for (unsigned i = 0; i < 3; i++)
            brief[i] = turn(way, TURNS, (1 + way % 7) * 4096);
        (void)turn(way, TURNS, (1 + way % 5) * 512);
        for (unsigned i = 0; i < 3; i++)
            release(&brief[i]);
        (void)anchor_pop(NULL, &edge);
        (void)capture_edge(&edge, ++seq);
    }
}

/* With `between` so many other events after the first block's free. */
static void hold(int between)
{
    struct tensor large = {next_ptr, 64 * MB, 0};
    struct tensor small = {next_ptr + large.size, MB, 0};

    hint(FORMAT_HINT_HELD, &large, NULL);
    for (int i = 0; i < between; i++)
        hint(FORMAT_HINT_PLANNED, &small, NULL);
    hint(FORMAT_HINT_HELD, &small, NULL);
    hint(FORMAT_HINT_HELD, &small, NULL);
    hint(FORMAT_HINT_LET_GO, &large, NULL);
}

static void enter(const char *name)
{
    struct edge edge;

    (void)anchor_push(NULL, name, &edge);
    (void)capture_edge(&edge, ++seq);
}

static void leave(void)
{
    struct edge edge;

    (void)anchor_pop(NULL, &edge);
    (void)capture_edge(&edge, ++seq);
}

static uint32_t start(const char *name)
{
    struct edge edge;

    (void)anchor_start(NULL, name, &edge);
    (void)capture_edge(&edge, ++seq);
    return edge.anchor;
}

static void end(uint32_t anchor)
{
    struct edge edge;

    (void)anchor_end(anchor, &edge);
    (void)capture_edge(&edge, ++seq);
}

static __attribute__((noinline)) void place(
        devptr_t ptr, uint64_t size, enum memclass memclass, int device)
{
    struct tag tag;

    (void)where_am_i(NULL, size, device, &tag);
    (void)capture_alloc(&(struct capture_alloc_info){.tag = &tag,
            .ptr = ptr,
            .seq = ++seq,
            .api = API_SYNC,
            .memclass = memclass,
            .native = memclass != MEMCLASS_POOLED,
            .rule = -1});
    __asm__ volatile("" ::: "memory");
}

static void be_odd(void)
{
    const devptr_t handle = ((uint64_t)MEMCLASS_VMM + 1) << 56 | 0x1234;
    struct tensor gone = {.ptr = handle};

    enter("a;b \"c\" \\d/ \033[31m\xff\xfe caf\xc3\xa9, 'x' <y>&");
    (void)other_tensor(MB);
    place(handle, 3 * MB, MEMCLASS_VMM, 0);
    release(&gone);
    place(handle, 5 * MB, MEMCLASS_VMM, 0);
    uint32_t left = start("left");
    uint32_t right = start("right");
    (void)other_tensor(2 * MB);
    end(left);
    place(0x7e0000000000, 7 * MB + 13, MEMCLASS_POOLED, 1);
    end(right);
    leave();
    place(0x7e0000700200, 11, MEMCLASS_POOLED, 1);
}

/* The ring takes the newest of these only. */
static void lose(void)
{
    struct tensor second = {.ptr = UINT64_C(0x7f0000000000) + 32 * MB};
    struct tensor none = {.ptr = 1, .size = MB, .rule = -1};

    for (int i = 0; i < 1 << 17; i++)
        hint(FORMAT_HINT_PLANNED, &none, NULL);
    release(&second);
    (void)other_tensor(3 * MB);
}

/* Step by step: MiB in and out, dropped, late calls, stall in ms. */
static const struct {
    unsigned in, out, dropped, late, stall_ms;
} steps[] = {
        {384, 128, 0, 3, 40},
        {256, 256, 0, 2, 35},
        {384, 384, 0, 1, 20},
        {256, 256, 0, 0, 3},
        {256, 256, 0, 0, 2},
        {256, 128, 128, 0, 1},
        {256, 255, 0, 0, 4},
        {128, 0, 0, 0, 0},
};

static unsigned evict_steps(void)
{
    return lru ? 1 : is_long ? 240 : 8;
}

/* Those of a long run behind the first seven are as the sixth. */
static void tell_step(unsigned step)
{
    bool is_planned = step >= 2 && !lru;
    unsigned at = step < 7 ? step : step == evict_steps() - 1 ? 7 : 5;
    bool is_last = step == evict_steps() - 1;
    bool is_paper = mode == HINT_SHADOW;
    struct capture_evict info = {
            .what = {
                    .step = step,
                    .cap = (step < 2 && !lru ? 288 : 256) * MB,
                    .bytes = 384 * MB,
                    .units = 3,
                    .in_bytes_high = (step < 2 && !lru ? 272 : 256) * MB,
                    .moved_in = steps[at].in * MB,
                    .moved_out = steps[at].out * MB,
                    .count_in = steps[at].in / 128,
                    .count_out = steps[at].out / 128,
                    .dropped = steps[at].dropped * MB,
                    .late = steps[at].late,
                    .uses = 5,
                    .looks = 7,
                    .bound = is_planned ? 250 * MB : 0,
                    .layout_ns = 10000,
                    .evict_ns = is_paper ? 0 : (uint64_t)steps[at].in * 100000,
                    .stall_ns = is_paper ? 0 : (uint64_t)steps[at].stall_ms * 1000000,
                    .state_bytes = {128 * MB, 127 * MB, MB, 2 * MB, 126 * MB},
                    .flags = (is_planned ? FORMAT_EVICT_PLANNED : 0)
                            | (step > 2 && is_planned ? FORMAT_EVICT_REPLAYED : 0)
                            | (is_paper ? FORMAT_EVICT_PAPER : 0)
                            | (is_last ? FORMAT_EVICT_RUNNING : 0),
            }};

    (void)capture_evict(&info);
}

static void stays(const struct tensor *t, enum format_kept_why why)
{
    (void)capture_evict_kept(0, t->ptr, t->size, 0, why, seq);
}

static void evict(void)
{
    struct tensor shown, named;
    struct edge edge;

    for (unsigned i = 0; i < 3; i++)
        (void)unused_output(128 * MB);
    named = unused_input(2 * MB);
    stays(&named, FORMAT_KEPT_GRAPH);
    for (unsigned i = 0; i < 2; i++) {
        shown = other_tensor(MB);
        stays(&shown, FORMAT_KEPT_POINTER);
    }
    release(&shown); /* what is told of it does not go with it */
    for (unsigned i = 0; i < evict_steps(); i++)
        tell_step(i);
    if (lru || mode == HINT_SHADOW)
        return;
    (void)anchor_push(NULL, "step", &edge);
    for (unsigned i = 0; i < 3; i++)
        (void)capture_evict_short(0, 0, (512 + i) * MB, 254 * MB, 256 * MB);
    (void)anchor_pop(NULL, &edge);
}

/* Three units and two steps, in the mode of the run; one block stays in. */
static void try_evict(const char *form)
{
    bool is_out = strcmp(form, "evict-none") != 0;
    struct tensor kept;

    for (unsigned i = 0; i < 3; i++)
        (void)unused_input(128 * MB);
    kept = unused_input(2 * MB);
    stays(&kept, FORMAT_KEPT_GRAPH);
    for (unsigned step = 0; step < 3; step++) {
        struct capture_evict info = {.what = {.step = step,
                                             .moved_in = is_out ? 2 * 128 * MB : 0,
                                             .moved_out = is_out ? 3 * 128 * MB : 0,
                                             .count_in = is_out ? 2 : 0,
                                             .count_out = is_out ? 3 : 0,
                                             .flags = step == 2 ? FORMAT_EVICT_RUNNING : 0}};

        (void)capture_evict(&info);
    }
    if (strcmp(form, "evict-short") == 0)
        (void)capture_evict_short(0, 0, 512 * MB, 254 * MB, 256 * MB);
    if (strcmp(form, "evict-fault") != 0 || mode != HINT_TRAP)
        return;
    (void)capture_note(1, "sticky device error");
    _exit(1);
}

/* As the library has it from the environment: hints that evict act in a trial. */
static bool take_hints(void)
{
    const char *word = getenv("KEDGE_HINTS_MODE");
    struct hintfile_error error;

    mode = word && strcmp(word, "trap") == 0 ? HINT_TRAP : HINT_POISON;
    return hintfile_read(getenv("KEDGE_HINTS"), &tried, &error) == 0;
}

static void describe_moves(void)
{
    const struct format_def_moves moves = {.count = 3,
            .bytes = 6 * MB,
            .ns = 1500000,
            .ready = 7,
            .lazy = 2,
            .create_ns = 193000,
            .map_ns = 1450,
            .access_ns = 36000,
            .unmap_ns = 25600};

    (void)capture_setting("KEDGE_POOL", "reserve=1G,sync=mapped");
    (void)capture_moves(&moves);
}

static void describe_tried(void)
{
    (void)capture_hints("hints.yaml", tried->hash, mode, (uint32_t)tried->rule_count);
    for (uint32_t i = 0; i < tried->rule_count; i++) {
        struct rule rule = tried->rule[i];

        rule.mode = mode;
        (void)capture_rule(i, &rule);
    }
}

static bool is_try(const char *form)
{
    static const char *const forms[] = {"evict-try", "evict-none", "evict-short", "evict-fault"};
    bool is_one = false;

    for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++)
        is_one = is_one || strcmp(form, forms[i]) == 0;
    return is_one;
}

static void set_form(const char *form)
{
    leak = strcmp(form, "leak") == 0;
    if (strcmp(form, "short") == 0)
        anchors = 3;
    holds = strncmp(form, "held", 4) == 0;
    evicts = strncmp(form, "evict", 5) == 0;
    lru = strcmp(form, "evict-lru") == 0;
    many = strncmp(form, "many", 4) == 0;
    is_long = strcmp(form, "evict-long") == 0;
    odd = strcmp(form, "odd") == 0;
    lost = strcmp(form, "lost") == 0;
    if (holds || evicts || many || odd || strcmp(form, "empty") == 0)
        anchors = 0;
    syncs = strncmp(form, "sync", 4) == 0;
    bad = strcmp(form, "good") != 0 && strcmp(form, "unsaid") != 0 && !leak && !syncs
            && anchors == ANCHORS;
    unsaid = strncmp(form, "unsaid", 6) == 0;
    numbered = strcmp(form, "numbered") == 0;
    if (strcmp(form, "shadow") == 0 || strcmp(form, "evict-shadow") == 0)
        mode = HINT_SHADOW;
    else if (holds || evicts || strcmp(form, "live") == 0)
        mode = HINT_LIVE;
    if (strcmp(form, "poison") == 0)
        mode = HINT_POISON;
    touched = strcmp(form, "touched") == 0;
    if (touched)
        mode = HINT_TRAP;
    elsewhere = strcmp(form, "elsewhere") == 0;
    oom = elsewhere || strcmp(form, "oom") == 0;
    killed = strcmp(form, "killed") == 0 || strcmp(form, "held-killed") == 0;
    ring = lost || strcmp(form, "held-ring") == 0;
    agg = strcmp(form, "agg") == 0;
    used = strstr(form, "used") != NULL;
}

static void describe(const char *form)
{
    static const struct rule rules[] = {
            {.id = "input", .action = ACTION_RELEASE}, {.id = "output", .action = ACTION_RELEASE}};
    static const char *const unhooked[] = {"cuMemAlloc", "cuMemFree", "cuMemAllocHost",
            "cuMemAllocPitch", "cuMemGetInfo", "cuMemGetAddressRange", "cuArrayCreate",
            "cuArray3DCreate", "cuMemHostGetDevicePointer", "cuLaunchGrid"};

    (void)capture_setting("mode", "pool");
    (void)capture_device(0, "Test device", UINT64_C(80) << 30, 13000);
    (void)capture_coverage("cuMemAllocAsync", "cuGetProcAddress", 1);
    for (size_t i = 0; i < sizeof(unhooked) / sizeof(*unhooked); i++)
        (void)capture_coverage(unhooked[i], "unhooked", 1);
    (void)capture_setting("stacks_cut", "123456789");
    (void)capture_setting("ran.program", "capture_maker");
    if (strcmp(form, "sync-mapped") == 0)
        describe_moves();
    if (strcmp(form, "sync-shown") == 0)
        (void)capture_coverage("cuIpcGetMemHandle", "called", 1);
    (void)capture_note(0, "made by a test");
    if (!mode)
        return;
    if (tried) {
        describe_tried();
        return;
    }
    (void)capture_hints("hints.yaml", 1234, mode, 2);
    for (unsigned i = 0; i < 2; i++) {
        struct rule rule = rules[i];
        rule.mode = mode;
        if (holds)
            rule.action = ACTION_HOLD;
        if (evicts)
            rule.action = ACTION_EVICT;
        (void)capture_rule(i, &rule);
    }
}

/* Each block that is live is held by a list and, every other one, by a graph. */
static void walk_objects(enum format_walk_why why)
{
    static const char *const texts[] = {
            "tensor\nkept[*]", "saved for backward\nkept[*]\ngraph of local 'loss' of step"};
    struct capture_block live[64];
    struct format_def_walk what = {.why = (uint32_t)why, .objects = 12, .spent_ns = 3000000};
    uint32_t walk = capture_walk_begin();
    uint32_t count = capture_live(-1, live, 64, &what.bytes);

    what.count = count;
    for (uint32_t i = 0; i < count && i < 64; i++)
        (void)capture_held(walk, &live[i], 1, texts[i % 2], strlen(texts[i % 2]));
    (void)capture_walk(walk, &what);
}

static void *open_library(const char *file, int flags)
{
    return dlopen(file, flags);
}

static void *find_symbol(void *handle, const char *symbol)
{
    return dlsym(handle, symbol);
}

int main(int argc, char **argv)
{
    struct where_opts where = {.unwind = {.mode = UNWIND_AUTO, .ops = {open_library, find_symbol}}};

    if (argc != 3 && argc != 4)
        return 2;
    set_form(argv[1]);
    if (is_try(argv[1]) && !take_hints())
        return 1;
    (void)unlink(argv[2]);
    if (where_init(&where) != 0)
        return 1;
    struct capture_opts opts = {.file = argv[2],
            .rank = argv[3],
            .program = where_program(),
            .trace = agg   ? FORMAT_TRACE_AGG
                    : ring ? FORMAT_TRACE_RING
                           : FORMAT_TRACE_FULL,
            .ring_bytes = 1 << 20};
    uses_init(used);
    if (capture_init(&opts) != 0 || capstate_open() != 0)
        return 1;
    describe(argv[1]);
    if (anchors)
        (void)other_tensor(32 * MB); /* the strided input, outside of every anchor */
    for (int i = 0; i < anchors; i++)
        one_anchor(i);
    if (strcmp(argv[1], "sync-long") == 0)
        ask_long();
    if (holds)
        hold(ring ? 1 << 18 : 0);
    if (many)
        ask_everywhere();
    if (odd)
        be_odd();
    if (lost)
        lose();
    if (tried)
        try_evict(argv[1]);
    else if (evicts)
        evict();
    if (holds && killed)
        (void)raise(SIGKILL);
    if (strcmp(argv[1], "walked") == 0)
        walk_objects(FORMAT_WALK_END);
    if (strcmp(argv[1], "grown") == 0)
        walk_objects(FORMAT_WALK_GROWN);
    capture_state(FORMAT_STATE_CLEAN, FORMAT_EXIT_KNOWN);
    return 0;
}
