/* SPDX-License-Identifier: MIT */
/*
 * oracle.c - random legal programs against the simulated device, one process for each seed.
 *
 *     oracle [--late] [--free-running] [--anchors] [--uncaptured] [--dense] FIRST COUNT
 *
 * Runs the seeds FIRST .. FIRST+COUNT-1, each in a child that knows nothing of the others, until one of them fails; prints
 * what they have exercised. The seed also decides how the device schedules, unless SIMCUDA_SCHED and its kin say it.
 *
 *     --late          also does what CUDA leaves open and kedge promises: work of other contexts pending on a block that
 *                     is freed, cuMemFree of stream-ordered blocks in use, cuMemFreeAsync of others. Not legal natively.
 *     --free-running  the actors do not take turns: seeds are not repeatable any more
 *     --anchors       blocks that are not used after a range "P" has ended
 *     --uncaptured    no captures, beside which nothing could come back to the device
 *     --dense         few streams and blocks, every word of the driver (dense.h)
 *     --hasty         a seed that hangs is given up after 5 seconds instead of 20
 *     --verbose       says what is born, freed and ended
 *
 * Exit status: 0; 1 stale data; 2 wrong use; 3 a driver call failed; 77 no simulated device; 86 the oracle; 99 a seed that
 * hangs without computing; 128 + n a signal. The command that repeats a failing seed is printed.
 */
#include "tests/oracle/dense.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    PATIENCE = 60, /* seconds for a seed */
    DENSE_PATIENCE = 20,
    HASTY_PATIENCE = 5,
    HANGS = 99,
};

extern char **environ;

/* ---- one seed ------------------------------------------------------------------------------- */

static void *act(void *data)
{
    struct actor *actor = data;

    actor_enter(actor);
    actor_open(actor);
    if (world.free_running) { /* the others may begin */
        (void)pthread_mutex_lock(&world.lock);
        world.turn = actor->number + 1;
        (void)pthread_cond_broadcast(&world.turn_changed);
        while (world.turn < world.actors_count)
            (void)pthread_cond_wait(&world.turn_changed, &world.lock);
        (void)pthread_mutex_unlock(&world.lock);
        actor->figures.free_running++;
    } else {
        actor_turn(actor);
    }
    for (int i = 0; i < world.steps; i++) {
        actor_act(actor);
        if (actor_chance(actor, 30))
            actor_turn(actor);
    }
    actor_meet(actor);
    actor_close(actor);
    actor_leave(actor);
    return NULL;
}

/* A container may refuse it to the program, and so to every library in it. */
static void refuse_readv(void)
{
    struct sock_filter filter[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof(filter) / sizeof(*filter), filter};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0)
        (void)prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static void set_device(uint64_t seed)
{
    static const char *const schedules[] = {"random", "lazy", "random", "eager"};
    char text[32];

    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)seed);
    (void)setenv("SIMCUDA_SEED", text, 0);
    (void)setenv("SIMCUDA_SCHED", schedules[seed % 4], 0);
    (void)setenv("SIMCUDA_LAG", seed % 3 ? "0" : seed % 2 ? "6" : "40", 0);
    (void)setenv("SIMCUDA_DEVICES", "2", 0);
    if (world.dense && seed % 2)
        (void)setenv("SIMCUDA_STREAM_IDS", "context", 0);
    if (world.dense)
        (void)setenv("SIMCUDA_MEMORY", seed % 3 && !scene_of(seed) ? "4096M" : "512M", 0);
    else
        (void)setenv("SIMCUDA_MEMORY", seed % 5 || world.late ? "512M" : "160M", 0);
}

static void add_figures(struct seed_figures *to, const struct seed_figures *from)
{
#define ADD(name) to->name += from->name;
    SEED_FIGURES(ADD)
    SEED_DEVICE_FIGURES(ADD)
#undef ADD
}

static void device_figures(struct seed_figures *figures)
{
    struct simcuda_stats stats = {.size = sizeof(stats)};

    if (cu.stats(&stats) != 0)
        return;
#define TAKE(name) figures->name = stats.name;
    SEED_DEVICE_FIGURES(TAKE)
#undef TAKE
}

/* What nobody fetched from the letter box. */
static void empty_letters(void)
{
    for (int i = 0; i < SEED_LETTERS; i++)
        if (world.letters[i].kind != BLOCK_NONE) {
            block_host_wait(&world.letters[i]);
            block_free_plain(&world.actors[0], &world.letters[i]);
        }
}

static void finish_seed(struct seed_figures *figures)
{
    device_figures(figures);
    if (figures->faults || (!world.dense && figures->captures_invalidated)) {
        (void)fprintf(stderr, "seed %llu: faults %llu, captures invalidated %llu\n",
                (unsigned long long)world.seed, (unsigned long long)figures->faults,
                (unsigned long long)figures->captures_invalidated);
        exit(3);
    }
}

static void run_seed(struct seed_figures *figures)
{
    struct actor *actors = world.actors;

    if (!world_find_driver()) {
        (void)fprintf(stderr, "SKIP: no simulated device under LD_LIBRARY_PATH\n");
        exit(77);
    }
    if (world.dense) {
        dense_run(figures);
        figures->dense_seeds++;
        finish_seed(figures);
        return;
    }
    world.actors_count = 2 + (int)(world.seed % 2);
    world.acting = world.actors_count;
    world.steps = 60 + (int)(world.seed * 7 % 60);
    world.first.primary = world.first.shared = true;
    DO(cuInit(0));
    home_open(NULL, &world.first);
    for (int i = 0; i < world.actors_count; i++) {
        actors[i].number = i;
        if (pthread_create(&actors[i].thread, NULL, act, &actors[i]) != 0)
            exit(2);
    }
    for (int i = 0; i < world.actors_count; i++) {
        (void)pthread_join(actors[i].thread, NULL);
        add_figures(figures, &actors[i].figures);
    }
    home_current(&world.first);
    empty_letters();
    actor_check_slots(&world.first);
    finish_seed(figures);
}

/* ---- many ----------------------------------------------------------------------------------- */

static void say_how(uint64_t seed, int status, char **argv)
{
    (void)printf(
            "seed %llu ended with status %d; to repeat it:\n   ", (unsigned long long)seed, status);
    for (char **at = environ; *at; at++)
        if (!strncmp(*at, "KEDGE_", 6) || !strncmp(*at, "SIMCUDA_", 8) || !strncmp(*at, "LD_", 3)
                || !strncmp(*at, "TEST_KEDGE_", 11))
            (void)printf(" %s", *at);
    for (; **argv && strspn(*argv, "0123456789") != strlen(*argv); argv++)
        (void)printf(" %s", *argv);
    (void)printf(" %llu 1\n", (unsigned long long)seed);
}

static unsigned patience(void)
{
    if (world.hasty)
        return HASTY_PATIENCE;
    return world.dense ? DENSE_PATIENCE : PATIENCE;
}

/* A seed that computes still has not hung: the machine is busy. It gets as long again, a few times. */
static void patience_ends(int signal_number)
{
    static double before;
    static int times;
    struct timespec now;
    double used;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    used = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
    if (used - before < 0.5 || ++times > 5) {
        (void)signal(signal_number, SIG_DFL);
        (void)raise(signal_number);
        return;
    }
    before = used;
    (void)alarm(patience());
}

static int child(uint64_t seed, struct seed_figures *figures)
{
    int ends[2], status;
    pid_t pid;

    (void)fflush(NULL);
    if (pipe(ends) != 0 || (pid = fork()) < 0)
        return 2;
    if (pid == 0) {
        struct seed_figures mine = {0};

        (void)close(ends[0]);
        (void)signal(SIGALRM, patience_ends);
        (void)alarm(patience());
        set_device(seed);
        if (world.uncaptured && seed % 2)
            refuse_readv();
        world.seed = seed;
        run_seed(&mine);
        (void)!write(ends[1], &mine, sizeof(mine));
        exit(0);
    }
    (void)close(ends[1]);
    struct seed_figures theirs = {0};
    if (read(ends[0], &theirs, sizeof(theirs)) == sizeof(theirs))
        add_figures(figures, &theirs);
    (void)close(ends[0]);
    if (waitpid(pid, &status, 0) != pid)
        return 2;
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    return WTERMSIG(status) == SIGALRM ? HANGS : 128 + WTERMSIG(status);
}

static void print_figures(const struct seed_figures *figures)
{
#define PRINT(name) (void)printf("%s %llu\n", #name, (unsigned long long)figures->name);
    SEED_FIGURES(PRINT)
    SEED_DEVICE_FIGURES(PRINT)
#undef PRINT
}

int main(int argc, char **argv)
{
    struct seed_figures figures = {0};
    uint64_t first, count;
    int at = 1;

    for (; at < argc && argv[at][0] == '-'; at++) {
        world.late |= strcmp(argv[at], "--late") == 0;
        world.free_running |= strcmp(argv[at], "--free-running") == 0;
        world.anchors |= strcmp(argv[at], "--anchors") == 0;
        world.uncaptured |= strcmp(argv[at], "--uncaptured") == 0;
        world.dense |= strcmp(argv[at], "--dense") == 0;
        world.verbose |= strcmp(argv[at], "--verbose") == 0;
        world.hasty |= strcmp(argv[at], "--hasty") == 0;
    }
    if (argc - at != 2) {
        (void)fprintf(stderr,
                "usage: oracle [--late] [--free-running] [--anchors] [--uncaptured] [--dense] "
                "FIRST COUNT\n");
        return 2;
    }
    first = strtoull(argv[at], NULL, 10);
    count = strtoull(argv[at + 1], NULL, 10);
    for (uint64_t seed = first; seed < first + count; seed++) {
        int status = child(seed, &figures);

        if (status != 0) {
            if (status != 77)
                say_how(seed, status, argv);
            return status;
        }
    }
    (void)printf("seeds %llu\n", (unsigned long long)count);
    print_figures(&figures);
    return 0;
}
