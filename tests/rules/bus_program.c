/* SPDX-License-Identifier: MIT */
/*
 * bus_program ACTION HANDLER END - what happens to the capture must not happen to the program.
 *
 * ACTION   cut, half, garbage, zeroes, replaced, removed, none: done to the file that KEDGE_CAPTURE names, if there is one
 * HANDLER  none, before, after (the first CUDA call), ignored: what the program does about SIGBUS
 * END      quiet; own: a fault of the program's own, in a file that it has cut; sent: SIGBUS by kill
 */
#include <cuda_runtime_api.h>

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    ROUNDS = 400,
    BLOCKS = 8,
    THREADS = 3,
    PAGE = 4096,
};

static sigjmp_buf back;
static volatile sig_atomic_t raised;
static char *own_fault;

static void on_bus(int number, siginfo_t *info, void *context)
{
    (void)context;
    raised =
            number == SIGBUS && (own_fault ? info->si_addr == own_fault : info->si_code == SI_USER);
    siglongjmp(back, 1);
}

static void set_handler(const char *handler)
{
    struct sigaction action = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO | SA_RESTART};
    struct sigaction now;

    (void)sigaddset(&action.sa_mask, SIGUSR2);
    if (strcmp(handler, "ignored") == 0 && signal(SIGBUS, SIG_IGN) != SIG_DFL)
        printf("not the default before\n");
    if (handler[0] == 'b' || handler[0] == 'a')
        (void)sigaction(SIGBUS, &action, NULL);
    (void)sigaction(SIGBUS, NULL, &now);
    printf("handler %s, flags %x, mask %d%d\n",
            now.sa_handler == SIG_DFL            ? "default"
                    : now.sa_handler == SIG_IGN  ? "ignored"
                    : now.sa_sigaction == on_bus ? "own"
                                                 : "another",
            (unsigned)now.sa_flags & 0xf00000ffu & ~0x04000000u, sigismember(&now.sa_mask, SIGUSR2),
            sigismember(&now.sa_mask, SIGUSR1));
}

static void *work(void *unused)
{
    void *block[BLOCKS];

    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < BLOCKS; i++)
            if (cudaMalloc(&block[i], (size_t)(1 + (round + i) % 50) << 12) != cudaSuccess)
                _exit(3);
        for (int i = 0; i < BLOCKS; i++)
            if (cudaFree(block[i]) != cudaSuccess)
                _exit(4);
    }
    return unused;
}

static void spoil(const char *action, const char *path)
{
    struct stat status;
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    char bytes[PAGE];

    if (fd < 0 || fstat(fd, &status))
        return; /* nobody writes a capture */
    if (strcmp(action, "cut") == 0 || strcmp(action, "half") == 0)
        (void)!ftruncate(fd, action[0] == 'c' ? 0 : status.st_size / 2 / PAGE * PAGE);
    if (strcmp(action, "removed") == 0)
        (void)unlink(path);
    if (strcmp(action, "replaced") == 0) {
        (void)!rename("other", path);
        (void)!truncate(path, 0);
    }
    for (off_t at = 0; (action[0] == 'g' || action[0] == 'z') && at < status.st_size; at += PAGE) {
        for (int i = 0; i < PAGE; i++)
            bytes[i] = action[0] == 'g' ? (char)rand() : 0;
        (void)!pwrite(fd, bytes, PAGE, at);
    }
    (void)close(fd);
}

static void fault(void)
{
    FILE *file = tmpfile();
    char *page;

    if (!file || ftruncate(fileno(file), PAGE))
        _exit(5);
    page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    if (page == MAP_FAILED || ftruncate(fileno(file), 0))
        _exit(5);
    own_fault = page + 8;
    *(volatile char *)own_fault = 1;
}

int main(int argc, char **argv)
{
    pthread_t thread[THREADS];

    if (argc != 4)
        return 2;
    if (strcmp(argv[2], "after") != 0)
        set_handler(argv[2]);
    work(NULL);
    if (strcmp(argv[2], "after") == 0)
        set_handler(argv[2]);
    spoil(argv[1], getenv("KEDGE_CAPTURE"));
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&thread[i], NULL, work, NULL) != 0)
            return 2;
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(thread[i], NULL);
    printf("worked\n");
    (void)fflush(stdout);
    if (sigsetjmp(back, 1) == 0) {
        if (strcmp(argv[3], "own") == 0)
            fault();
        if (strcmp(argv[3], "sent") == 0)
            (void)kill(getpid(), SIGBUS);
    }
    printf("raised %d\n", (int)raised);
    return 0;
}
