/* SPDX-License-Identifier: MIT */
#include "tools/estimate/trial.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tools/base/cmdexit.h"
#include "tools/base/echo.h"
#include "tools/base/vec.h"
#include "tools/run/spawn.h"
#include "tools/run/top_watch.h"
#include "tools/run/tree.h"

#define LOOK_NS 300000000 /* between two looks at the number of steps */

/* ---- the folder ------------------------------------------------------------------------------ */

static char *make_folder(const char *who)
{
    const char *base = getenv("TMPDIR");
    char *path = vec_format("%s/kedge-estimate-XXXXXX", base && *base ? base : "/tmp");

    if (mkdtemp(path))
        return path;
    (void)fprintf(stderr, "%s: %s: %s\n", who, path, strerror(errno));
    free(path);
    return NULL;
}

static void remove_folder(const char *path)
{
    DIR *folder = opendir(path);
    const struct dirent *entry;

    while (folder && (entry = readdir(folder)) != NULL)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            (void)unlinkat(dirfd(folder), entry->d_name, 0);
    if (folder)
        (void)closedir(folder);
    (void)rmdir(path);
}

/* ---- the environment ------------------------------------------------------------------------- */

static void put_number(struct launch *launch, const char *name, uint64_t value)
{
    char *text = vec_format("%" PRIu64, value);

    launch_add(launch, name, text);
    free(text);
}

static void put_unless_stated(struct launch *launch, const char *name, const char *value)
{
    if (!launch_value(launch, name))
        launch_add(launch, name, value);
}

/* PyTorch reads the old name first, and all versions know it. */
static void put_allocator(struct launch *launch, enum trial_allocator allocator)
{
    static const char *const settings[] = {[TRIAL_AS_STATED] = NULL,
            [TRIAL_EXPANDABLE] = "expandable_segments:True",
            [TRIAL_ASYNC] = "backend:cudaMallocAsync"};

    if (settings[allocator])
        launch_add(launch, "PYTORCH_CUDA_ALLOC_CONF", settings[allocator]);
}

static void put_device(
        struct launch *launch, const struct trial_request *request, const char *folder)
{
    put_number(launch, "SIMCUDA_MEMORY", request->memory);
    put_number(launch, "SIMCUDA_SHOWN",
            request->device->memory < request->memory ? request->device->memory : request->memory);
    put_number(launch, "SIMCUDA_SMS", request->device->sms);
    put_number(launch, "SIMCUDA_DEVICES", request->devices);
    launch_add(launch, "SIMCUDA_CAPABILITY", request->device->capability);
    launch_add(launch, "SIMCUDA_PEAKS", folder);
    put_allocator(launch, request->allocator);
    /* Frameworks that take most of a device at the start do not tell what they need. */
    put_unless_stated(launch, "XLA_PYTHON_CLIENT_PREALLOCATE", "false");
    put_unless_stated(launch, "TF_FORCE_GPU_ALLOW_GROWTH", "true");
}

/* ---- the steps of a program ------------------------------------------------------------------ */

/* Whether the newest event of the capture is in a step whose number is `steps` or more. */
static bool has_made(const char *path, uint64_t steps)
{
    struct top_watch watch = {0};
    bool answer = top_watch_open(path, NULL, &watch) == CMD_DONE && watch.anchor
            && strncmp(watch.anchor, "step", 4) == 0 && watch.anchor_instance >= steps;

    top_watch_close(&watch);
    return answer;
}

/* Asks the program to end: what kedge has started beside this process. What it leaves ends after it. */
static void end_program(pid_t kedge)
{
    DIR *processes = opendir("/proc");
    pid_t process;

    while ((process = tree_next(processes)) != 0)
        if (process != getpid() && tree_parent(process) == kedge)
            (void)kill(process, SIGTERM);
    if (processes)
        (void)closedir(processes);
}

/* Ends the program once one of its processes has made its steps; in a process of its own. */
static _Noreturn void watch_steps(
        uint64_t steps, const char *name, const char *run, const char *mark, pid_t kedge)
{
    const struct timespec pause = {0, LOOK_NS};
    bool is_over = false;

    while (!is_over) {
        struct captures captures;

        (void)nanosleep(&pause, NULL);
        captures_find(name, run, &captures);
        for (size_t i = 0; i < captures.count && !is_over; i++)
            is_over = has_made(captures.file[i].path, steps);
        if (is_over) {
            int fd = open(mark, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
            if (fd >= 0)
                (void)close(fd);
            end_program(kedge);
        }
        captures_done(&captures);
    }
    _exit(0);
}

/* ---- what was held --------------------------------------------------------------------------- */

static void add_peaks(struct trial *trial, const char *name)
{
    struct trial_process process = {.pid = (uint32_t)strtoul(name, NULL, 10)};
    char *path = vec_format("%s/%s", trial->folder, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd >= 0 && read(fd, process.peak, sizeof(process.peak)) == (ssize_t)sizeof(process.peak)) {
        for (size_t i = 0; i < trial->captures.count; i++)
            if (trial->captures.file[i].pid == process.pid)
                (void)memcpy(process.rank, trial->captures.file[i].rank, sizeof(process.rank));
        VEC_PUSH(trial->processes, trial->count, trial->room) = process;
    }
    if (fd >= 0)
        (void)close(fd);
    free(path);
    path = vec_format("%s/%s.reads", trial->folder, name);
    reads_add(&trial->reads, path);
    free(path);
}

static int by_rank(const void *a, const void *b)
{
    const struct trial_process *first = a, *second = b;
    long one = strtol(first->rank, NULL, 10), two = strtol(second->rank, NULL, 10);

    return one != two ? (one < two ? -1 : 1)
                      : (first->pid > second->pid) - (first->pid < second->pid);
}

/* Each file of digits in the folder is a process's. */
static void find_peaks(struct trial *trial)
{
    DIR *folder = opendir(trial->folder);
    const struct dirent *entry;

    while (folder && (entry = readdir(folder)) != NULL)
        if (entry->d_name[strspn(entry->d_name, "0123456789")] == '\0')
            add_peaks(trial, entry->d_name);
    if (folder)
        (void)closedir(folder);
    reads_sort(&trial->reads);
    vec_sort(trial->processes, trial->count, sizeof(*trial->processes), by_rank);
}

/* ---- the run --------------------------------------------------------------------------------- */

/* The program's output goes to stderr: standard output is the answer's. */
static int follow(const struct trial_request *request, struct launch *launch, const char *run,
        const char *name, struct trial *trial)
{
    char *mark = vec_format("%s/stopped", trial->folder);
    struct echo_text printed[ECHO_STREAMS] = {{0}};
    struct echo *echo = echo_begin(true);
    pid_t kedge = getpid();
    int r = CMD_CANNOT;

    if (!echo)
        (void)fprintf(stderr, "%s: %s\n", request->who, strerror(errno));
    tree_watch();
    if (echo && request->steps && fork() == 0) {
        tree_child(kedge);
        watch_steps(request->steps, name, run, mark, kedge);
    }
    if (echo) {
        r = spawn_wait(request->who, launch, echo, &trial->status);
        echo_end(echo, printed);
        for (size_t i = 0; i < ECHO_STREAMS; i++)
            free(printed[i].text);
    }
    trial->was_stopped = access(mark, F_OK) == 0;
    free(mark);
    return r;
}

int trial_run(const struct trial_request *request, struct trial *ret)
{
    char run[24], *name;
    struct launch launch;

    *ret = (struct trial){.folder = make_folder(request->who)};
    if (!ret->folder)
        return CMD_CANNOT;
    spawn_new_run(run, sizeof(run));
    char *quoted = captures_quote(ret->folder);
    name = request->capture ? vec_text(request->capture) : vec_format("%s/%%r-%%p.kcap", quoted);
    free(quoted);
    struct spawn_options options = {.sim = true,
            .run = run,
            .capture = name,
            .mode = "track",
            .api = "framework",
            .is_silent = true};
    int r = spawn_prepare(request->who, &options, request->words, &launch);
    if (r == CMD_DONE) {
        put_device(&launch, request, ret->folder);
        r = follow(request, &launch, run, name, ret);
        launch_done(&launch);
    }
    if (r == CMD_DONE) {
        captures_find(name, run, &ret->captures);
        for (size_t i = 0; i < ret->captures.count; i++)
            captures_seal(ret->captures.file[i].path);
        find_peaks(ret);
    }
    free(name);
    return r;
}

void trial_done(struct trial *trial)
{
    captures_done(&trial->captures);
    reads_done(&trial->reads);
    free(trial->processes);
    if (trial->folder)
        remove_folder(trial->folder);
    free(trial->folder);
    *trial = (struct trial){0};
}

struct trial_use trial_most(const struct trial *trial)
{
    struct trial_use most = {0};

    for (unsigned device = 0; device < TRIAL_DEVICES; device++) {
        struct trial_use use = {.device = device};

        for (size_t i = 0; i < trial->count; i++) {
            use.bytes += trial->processes[i].peak[device];
            use.processes += trial->processes[i].peak[device] > 0;
        }
        if (use.bytes > most.bytes)
            most = use;
    }
    return most;
}
