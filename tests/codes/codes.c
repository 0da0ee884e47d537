/* SPDX-License-Identifier: MIT */
/*
 * codes PROFILE [options] FIRST LAST [REFERENCE]: runs the programs of seeds FIRST to LAST, each in a child, lines on stdout.
 *
 *     --front driver|runtime   which interface the program speaks
 *     --steps N                ops per program (40)
 *     --own                    each program once per call of it, with that call made to fail
 *     --internal CODE          each program once per n, with the n-th driver call that is not its own made to fail
 *     REFERENCE                lines of the same run without kedge
 */
#include "tests/codes/codes.h"

#include "tests/sim/base/simcuda.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    CALLS_MAX = 2000, /* of one program */
    SECONDS = 30,     /* that one may take */
    EXIT_NOT_REACHED = 3,
    EXIT_STOPPED = 4,
};

struct codes_api codes_api;
struct codes_state state;
__thread int codes_here = -1;

struct options {
    enum profile profile;
    bool runtime;
    bool own;
    uint32_t steps;
    bool internal;
    CUresult code;
    const char *reference;
};

static struct options options = {.steps = 40};

/* ---- the simulated device's own functions ---- */

static __typeof__(&simcuda_fail_next) fail_next;
static __typeof__(&simcuda_fail_clear) fail_clear;
static __typeof__(&simcuda_set_call_hook) set_call_hook;

/* Driver calls that somebody else makes: those that are not the one the program is about. */
static atomic_uint internal_calls;
static uint32_t internal_fails; /* the number of the one that fails, 0 = none */
static char internal_name[64];
static __thread const char *own_call; /* what this thread is about to call, NULL = nothing */

void codes_own(const char *name)
{
    own_call = name;
}

static void on_call(const char *name)
{
    if (own_call && strcmp(own_call, name) == 0) {
        own_call = NULL;
        return;
    }
    if (atomic_fetch_add(&internal_calls, 1) + 1 != internal_fails)
        return;
    (void)snprintf(internal_name, sizeof internal_name, "%s", name);
    fail_next(name, 1, options.code);
}

/* ---- chance ---- */

static uint64_t chance_state;

uint32_t chance(uint32_t below)
{
    uint64_t x = chance_state += UINT64_C(0x9e3779b97f4a7c15);

    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)((x ^ (x >> 31)) >> 32) % below;
}

/* ---- the journal ---- */

static struct {
    uint32_t number;
    uint32_t fail_at; /* this call of the program's own fails, 0 = none */
    CUresult fail_code;
    int *reference; /* codes by number, from 1; NULL = this run is one */
    uint32_t known; /* how many */
    enum rule rule;
    bool spared;
    bool differed;      /* by a rule */
    bool spared_before; /* the call before this one */
    bool injected;
    bool unfired; /* the failure that was to be has not happened */
    char name[64];
    char words[200];
} journal;

static const char *const rule_names[RULE_COUNT] = {"none", "R2", "R9", "R21", "R23", "R38"};

void journal_say(const char *format, ...)
{
    size_t used = strlen(journal.words);
    va_list args;

    va_start(args, format);
    (void)vsnprintf(journal.words + used, sizeof journal.words - used, format, args);
    va_end(args);
}

void journal_allow(enum rule rule)
{
    journal.rule = rule;
}

bool journal_spared(void)
{
    return journal.spared;
}

/* What takes memory of the device (R31). */
static bool is_alloc(const char *name)
{
    static const char *const names[] = {"cuMemAlloc", "cudaMalloc", "cuMemCreate", "cuArrayCreate",
            "cuModuleLoadData", "cuGraphInstantiate", "cuGraphAddMemAllocNode", "cuMemHostAlloc"};
    bool found = false;

    for (size_t i = 0; i < sizeof names / sizeof *names && !found; i++)
        found = strncmp(name, names[i], strlen(names[i])) == 0;
    return found;
}

static bool is_free(const char *name)
{
    return strncmp(name, "cuMemFree", 9) == 0 || strncmp(name, "cudaFree", 8) == 0;
}

bool journal_takes_error(void)
{
    return is_alloc(journal.name) || is_free(journal.name);
}

static bool is_sticky(int code)
{
    return code == CUDA_ERROR_ILLEGAL_ADDRESS;
}

void journal_before(const char *name)
{
    journal.number++;
    journal.injected = journal.number == journal.fail_at;
    (void)snprintf(journal.name, sizeof journal.name, "%s", name);
    own_call = journal.name;
    if (journal.injected)
        fail_next(name, 1, journal.fail_code);
}

/* The rule by which the driver's refusal `want` may be a success here. */
static const char *rule_of(int want)
{
    /* a free beside a capture waits by a free of kedge's own (R75), which met the failure then */
    if (journal.unfired || (journal.injected && journal.rule == RULE_R2))
        return "served";
    if (journal.spared_before && strcmp(journal.name, "cudaGetLastError") == 0)
        return "after";
    if (want == CUDA_ERROR_OUT_OF_MEMORY) /* every hooked call is tried once more (R81) */
        return "oom";
    if (is_sticky(want) && (is_alloc(journal.name) || is_free(journal.name)))
        return "R34";
    return journal.rule != RULE_NONE ? rule_names[journal.rule] : NULL;
}

static void look_at_reference(CUresult got, CUresult *ret_effective, const char **ret_rule)
{
    int want;

    *ret_effective = got;
    *ret_rule = NULL;
    journal.spared_before = journal.spared || journal.differed;
    journal.spared = journal.differed = false;
    if (!journal.reference || journal.number > journal.known)
        return;
    want = journal.reference[journal.number];
    if (want == (int)got)
        return;
    if (want == CUDA_SUCCESS && got == CUDA_ERROR_OUT_OF_MEMORY && is_alloc(journal.name)) {
        /* What comes next depends on a block that is not there. compare.py counts how often this happens. */
        printf("STOPPED R74\n");
        (void)fflush(stdout);
        _exit(EXIT_STOPPED);
    }
    *ret_rule = rule_of(want);
    if (!*ret_rule)
        return;
    journal.spared = got == CUDA_SUCCESS;
    journal.differed = true;
    *ret_effective = (CUresult)want;
}

/* What the refusal of the reference did beside refusing. */
static void catch_up(const char *rule)
{
    if (strcmp(rule, "R2") == 0)
        QUIET(cuMemFree_v2,
                unknown_address()); /* a call that spoils a capture, as the free would have */
    if (strcmp(rule, "R34") == 0)
        QUIET(cuCtxSynchronize); /* shows the error that the free did not see */
}

CUresult journal_after(CUresult got)
{
    CUresult effective;
    const char *rule;

    own_call = NULL;
    if (journal.injected)
        journal.unfired = fail_clear() == 0;
    look_at_reference(got, &effective, &rule);
    printf("%u %d %s%s%s%s\n", journal.number, (int)got, journal.name, journal.words,
            rule ? " spared:" : "", rule ? rule : "");
    if (rule && got != effective)
        catch_up(rule);
    journal.words[0] = '\0';
    journal.rule = RULE_NONE;
    journal.unfired = false;
    return effective;
}

void journal_answer(const char *format, ...)
{
    va_list args;

    printf("%u = ", journal.number);
    va_start(args, format);
    (void)vprintf(format, args);
    va_end(args);
    (void)putchar('\n');
}

CUresult journal_late(const char *name, enum rule rule, CUresult got)
{
    CUresult effective;
    const char *allowed;

    journal.number++;
    journal.injected = journal.unfired = false;
    journal.rule = rule;
    (void)snprintf(journal.name, sizeof journal.name, "%s", name);
    look_at_reference(got, &effective, &allowed);
    printf("%u %d %s late%s%s\n", journal.number, (int)got, name, allowed ? " spared:" : "",
            allowed ? allowed : "");
    journal.rule = RULE_NONE;
    return effective;
}

/* ---- the reference ---- */

/* The codes of one program: the lines behind its header. */
static void read_reference(uint32_t seed, uint32_t variant)
{
    FILE *file = options.reference ? fopen(options.reference, "re") : NULL;
    char line[400], header[64];
    bool mine = false;

    if (!file)
        return;
    journal.reference = calloc(CALLS_MAX + 1, sizeof *journal.reference);
    (void)snprintf(header, sizeof header, "SEED %u %u\n", seed, variant);
    while (journal.reference && fgets(line, sizeof line, file)) {
        unsigned number;
        int code;

        if (strncmp(line, "SEED ", 5) == 0) {
            if (mine)
                break;
            mine = strcmp(line, header) == 0;
        } else if (mine && sscanf(line, "%u %d", &number, &code) == 2 && number <= CALLS_MAX) {
            journal.reference[number] = code;
            journal.known = number;
        }
    }
    (void)fclose(file);
}

/* ---- the helper thread ---- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    void (*op)(void);
    bool started;
} helper = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL, false};

static void *helper_main(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&helper.lock);
    for (;;) {
        while (!helper.op)
            pthread_cond_wait(&helper.changed, &helper.lock);
        helper.op();
        helper.op = NULL;
        pthread_cond_broadcast(&helper.changed);
    }
    return NULL;
}

void elsewhere(void (*op)(void))
{
    pthread_t thread;

    if (!helper.started && pthread_create(&thread, NULL, helper_main, NULL) != 0)
        exit(99);
    helper.started = true;
    pthread_mutex_lock(&helper.lock);
    helper.op = op;
    pthread_cond_broadcast(&helper.changed);
    while (helper.op)
        pthread_cond_wait(&helper.changed, &helper.lock);
    pthread_mutex_unlock(&helper.lock);
}

/* ---- one program ---- */

static void find_driver(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

    if (!driver)
        exit(99);
#define CODES_API(symbol) *(void **)&codes_api.symbol = dlsym(driver, #symbol);
#include "tests/codes/codes_api.def"
    *(void **)&fail_next = dlsym(driver, "simcuda_fail_next");
    *(void **)&fail_clear = dlsym(driver, "simcuda_fail_clear");
    *(void **)&set_call_hook = dlsym(driver, "simcuda_set_call_hook");
    if (!codes_api.cuInit || !fail_next || !fail_clear || !set_call_hook)
        exit(99);
    set_call_hook(on_call);
}

static const struct op *pick(void)
{
    static const struct {
        const struct op *ops;
        const unsigned *count;
    } all[] = {{memory_ops, &memory_ops_count}, {async_ops, &async_ops_count},
            {stream_ops, &stream_ops_count}, {context_ops, &context_ops_count}};
    unsigned total = 0;
    unsigned at;

    for (unsigned i = 0; i < 4; i++)
        for (unsigned k = 0; k < *all[i].count; k++)
            total += all[i].ops[k].weight[options.profile];
    at = chance(total);
    for (unsigned i = 0; i < 4; i++)
        for (unsigned k = 0; k < *all[i].count; k++) {
            unsigned weight = all[i].ops[k].weight[options.profile];

            if (at < weight)
                return &all[i].ops[k];
            at -= weight;
        }
    return &memory_ops[0];
}

/* The op that runs next, in whichever thread. */
static const struct op *next_op;

static void run_op(void)
{
    CUcontext current = NULL;

    codes_here = -1; /* another thread may have destroyed it */
    codes_own("cuCtxGetCurrent");
    if (codes_api.cuCtxGetCurrent(&current) == CUDA_SUCCESS)
        for (int i = 0; i < CONTEXTS; i++)
            if (current && state.contexts[i].alive && state.contexts[i].handle == current)
                codes_here = i;
    next_op->run();
}

static void driver_program(void)
{
    uint32_t breaks = options.profile == PROFILE_STICKY ? chance(options.steps) : UINT32_MAX;

    codes_begin();
    for (state.step = 0; state.step < options.steps; state.step++) {
        next_op = pick();
        if (state.step == breaks)
            break_device();
        if (one_in(6))
            elsewhere(run_op);
        else
            run_op();
    }
    codes_end();
}

/* The device of this program, by its seed: it must not have been asked for anything yet. */
static void set_device(uint32_t seed)
{
    static const char *const schedules[] = {"eager", "eager", "lazy", "random"};
    bool broken = options.profile == PROFILE_STICKY;
    const char *schedule = schedules[broken ? 0 : seed % 4];
    char text[24];

    (void)snprintf(text, sizeof text, "%u", seed);
    (void)setenv("SIMCUDA_SEED", text, 1);
    (void)setenv("SIMCUDA_SCHED", schedule, 1);
    (void)setenv("SIMCUDA_MEMORY", options.profile == PROFILE_TIGHT ? "96M" : "1G", 1);
    (void)setenv("SIMCUDA_DEVICES", broken || options.profile == PROFILE_TIGHT ? "1" : "2", 1);
    state.one_context = broken || options.profile == PROFILE_TIGHT;
    state.leaky = options.own || options.profile != PROFILE_PLAIN;
    state.lazy = strcmp(schedule, "eager") != 0;
}

static void set_failure(uint32_t variant)
{
    /* Neither sticky ones, which are the device's end, nor the driver's: those are programs of their own. */
    static const CUresult codes[] = {CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_OUT_OF_MEMORY,
            CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_UNKNOWN,
            CUDA_ERROR_NOT_PERMITTED, CUDA_ERROR_INVALID_CONTEXT};

    if (options.own) {
        journal.fail_at = variant;
        journal.fail_code = codes[variant % (sizeof codes / sizeof *codes)];
    }
    internal_fails = options.internal ? variant : 0;
}

/* In a child. The status says whether the failure that was asked for was reached. */
static int run_program(uint32_t seed, uint32_t variant)
{
    bool reached;

    alarm(SECONDS);
    set_device(seed);
    set_failure(variant);
    read_reference(seed, options.internal ? 0 : variant);
    chance_state = (uint64_t)seed * 1000003 + (uint64_t)options.profile;
    find_driver();
    if (options.runtime)
        runtime_program(options.steps);
    else
        driver_program();
    reached = (!options.own || journal.number >= variant)
            && (!options.internal || atomic_load(&internal_calls) >= variant);
    if (internal_name[0])
        printf("FAILED %s\n", internal_name);
    return reached ? 0 : EXIT_NOT_REACHED;
}

/* false: there are no more variants of this program. */
static bool in_child(uint32_t seed, uint32_t variant)
{
    int status;
    pid_t child;

    printf("SEED %u %u\n", seed, variant);
    (void)fflush(stdout);
    child = fork();
    if (child == 0) {
        int r = run_program(seed, variant);

        (void)fflush(stdout);
        _exit(r);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        exit(99);
    if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_NOT_REACHED)
        return false;
    if (!WIFEXITED(status) || (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != EXIT_STOPPED))
        printf("DIED %s %d\n", WIFEXITED(status) ? "status" : "signal",
                WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    return options.own || options.internal;
}

static bool read_options(int argc, char **argv, int *ret_first)
{
    static const char *const profiles[PROFILE_COUNT] = {"plain", "capture", "tight", "sticky"};
    int i = 2;

    if (argc < 2)
        return false;
    while (options.profile < PROFILE_COUNT && strcmp(argv[1], profiles[options.profile]) != 0)
        options.profile++;
    for (; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
        if (strcmp(argv[i], "--own") == 0) {
            options.own = true;
            continue;
        }
        if (i + 1 == argc)
            return false;
        if (strcmp(argv[i], "--front") == 0)
            options.runtime = strcmp(argv[i + 1], "runtime") == 0;
        else if (strcmp(argv[i], "--steps") == 0)
            options.steps = (uint32_t)strtoul(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--internal") == 0)
            options.internal = (options.code = (CUresult)atoi(argv[i + 1])) != CUDA_SUCCESS;
        else
            return false;
        i++;
    }
    *ret_first = i;
    return options.profile < PROFILE_COUNT && argc - i >= 2;
}

int main(int argc, char **argv)
{
    int at;

    if (!read_options(argc, argv, &at)) {
        (void)fprintf(stderr,
                "usage: codes plain|capture|tight|sticky [--front driver|runtime] "
                "[--steps N] [--own] [--internal CODE] FIRST LAST [REFERENCE]\n");
        return 2;
    }
    options.reference = argc > at + 2 ? argv[at + 2] : NULL;
    for (uint32_t seed = (uint32_t)strtoul(argv[at], NULL, 10);
            seed <= (uint32_t)strtoul(argv[at + 1], NULL, 10); seed++) {
        uint32_t variant = options.own || options.internal ? 1 : 0;

        while (in_child(seed, variant) && variant < CALLS_MAX)
            variant++;
    }
    return 0;
}
