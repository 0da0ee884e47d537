/* SPDX-License-Identifier: MIT */
#include "tests/trainers/pipeline.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    POLL_US = 1000,
    WAIT_S = 120,   /* for rank 0 to tell */
    PATIENCE_S = 5, /* between the polite signal and the other one */
    PATH_MOST = 4096,
};

/* Of a file that rank 0 writes; a launcher's job names it otherwise. */
static const char store_variable[] = "PIPELINE_STORE";

/* ---- which rank ---- */

static bool number_from(const char *variable, int *ret_number)
{
    const char *word = getenv(variable);
    char *end;
    long n = word ? strtol(word, &end, 10) : -1;

    if (!word || end == word || *end != '\0' || n < 0 || n > PIPELINE_STAGES_MOST)
        return false;
    *ret_number = (int)n;
    return true;
}

bool pipeline_ranks_known(int *ret_rank, int *ret_ranks)
{
    static const char *const names[][2] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
            {"PMI_RANK", "PMI_SIZE"}, {"SLURM_PROCID", "SLURM_NTASKS"}, {"RANK", "WORLD_SIZE"}};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (number_from(names[i][0], ret_rank) && number_from(names[i][1], ret_ranks)
                && *ret_rank < *ret_ranks)
            return true;
    return false;
}

/* ---- what rank 0 tells ---- */

static const char *temporary_folder(void)
{
    const char *folder = getenv("TMPDIR");

    return folder ? folder : "/tmp";
}

/* A path that was cut would be another file's. */
__attribute__((format(printf, 2, 3))) static void make_path(
        char ret_path[static PATH_MOST], const char *format, ...)
{
    va_list args;
    int length;

    va_start(args, format);
    length = vsnprintf(ret_path, PATH_MOST, format, args);
    va_end(args);
    if (length < 0 || length >= PATH_MOST)
        trainer_fail(1, "the path of the file through which ranks find each other is too long");
}

static void store_path(char ret_path[static PATH_MOST])
{
    static const char *const jobs[] = {"PMIX_NAMESPACE", "SLURM_JOB_ID", "TORCHELASTIC_RUN_ID"};
    const char *store = getenv(store_variable), *job = NULL;

    for (size_t i = 0; i < sizeof(jobs) / sizeof(jobs[0]) && !job; i++)
        job = getenv(jobs[i]);
    if (store)
        make_path(ret_path, "%s", store);
    else
        make_path(ret_path, "%s/pipeline-%u-%s", temporary_folder(), (unsigned)getuid(),
                job ? job : "job");
}

static void write_store(const char *path, const void *ids, size_t bytes)
{
    char made[PATH_MOST];
    int fd;

    make_path(made, "%s.new", path);
    (void)unlink(made);
    fd = open(made, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, ids, bytes) != (ssize_t)bytes || close(fd) != 0
            || rename(made, path) != 0)
        trainer_fail(1, "cannot write the file through which ranks find each other");
}

static bool read_store(const char *path, void *ids, size_t bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool whole;

    if (fd < 0)
        return false;
    whole = read(fd, ids, bytes) == (ssize_t)bytes;
    (void)close(fd);
    return whole;
}

void pipeline_ranks_tell(int rank, void *ids, size_t bytes)
{
    char path[PATH_MOST];

    store_path(path);
    if (rank == 0) {
        write_store(path, ids, bytes);
        return;
    }
    for (int i = 0; i < WAIT_S * 1000000 / POLL_US; i++) {
        if (read_store(path, ids, bytes))
            return;
        (void)usleep(POLL_US);
    }
    trainer_fail(1, "rank 0 did not say how to find the others");
}

void pipeline_ranks_told(int rank)
{
    char path[PATH_MOST];

    store_path(path);
    if (rank != 0)
        return;
    (void)unlink(path);
    if (getenv(store_variable)) /* in a folder of its own */
        (void)rmdir(dirname(path));
}

/* ---- ranks of our own ---- */

static volatile sig_atomic_t stop_signal;

static void on_signal(int number)
{
    stop_signal = number;
}

static pid_t start_rank(char **argv, int rank, int ranks, const char *store)
{
    pid_t parent = getpid(), pid;
    char number[16];

    (void)fflush(NULL);
    pid = fork();
    if (pid != 0)
        return pid;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* no rank outlives the program that was started */
    if (getppid() != parent)
        _exit(1);
    (void)snprintf(number, sizeof(number), "%d", rank);
    (void)setenv("RANK", number, 1);
    (void)snprintf(number, sizeof(number), "%d", ranks);
    (void)setenv("WORLD_SIZE", number, 1);
    (void)setenv(store_variable, store, 1);
    (void)execv("/proc/self/exe", argv);
    _exit(127);
}

static void stop_all(const pid_t *pids, int ranks, int number)
{
    for (int i = 0; i < ranks; i++)
        if (pids[i] > 0)
            (void)kill(pids[i], number);
}

/* One rank that has ended: its number and status; -1 when none does within a moment, or all have. */
static int ended_rank(pid_t *pids, int ranks, int *ret_status)
{
    int how;
    pid_t pid = waitpid(-1, &how, WNOHANG);

    for (int i = 0; i < ranks; i++)
        if (pid > 0 && pids[i] == pid) {
            pids[i] = 0;
            *ret_status = WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
            return i;
        }
    if (pid == 0)
        (void)usleep(POLL_US);
    return -1;
}

static bool any_runs(const pid_t *pids, int ranks)
{
    for (int i = 0; i < ranks; i++)
        if (pids[i] > 0)
            return true;
    return false;
}

/* The status of the first that does not end well, or 0. */
static int wait_for_all(pid_t *pids, int ranks)
{
    time_t stopped = 0;
    int first = 0;

    while (any_runs(pids, ranks)) {
        int status = 0;
        int rank = ended_rank(pids, ranks, &status);

        if (rank < 0 && stop_signal && first == 0)
            first = 128 + stop_signal;
        if (rank >= 0 && status != 0 && first == 0) {
            first = status;
            (void)fprintf(stderr,
                    "pipeline: stage %d of %d ended with status %d; the others are stopped\n", rank,
                    ranks, status);
        }
        if (first != 0 && stopped == 0) {
            stopped = time(NULL);
            stop_all(pids, ranks, SIGTERM);
        } else if (first != 0 && time(NULL) > stopped + PATIENCE_S) {
            stop_all(pids, ranks, SIGKILL);
        }
    }
    return first;
}

int pipeline_ranks_fork(char **argv, int ranks)
{
    char folder[PATH_MOST], store[PATH_MOST];
    const struct sigaction action = {.sa_handler = on_signal};
    pid_t pids[PIPELINE_STAGES_MOST] = {0};
    int status;

    make_path(folder, "%s/pipeline-XXXXXX", temporary_folder());
    if (!mkdtemp(folder))
        trainer_fail(1, "cannot make a temporary folder");
    make_path(store, "%s/ids", folder);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGHUP, &action, NULL);
    for (int i = 0; i < ranks; i++) {
        pids[i] = start_rank(argv, i, ranks, store);
        if (pids[i] < 0)
            stop_signal = SIGTERM;
    }
    status = wait_for_all(pids, ranks);
    (void)unlink(store);
    (void)rmdir(folder);
    return status;
}
