/* SPDX-License-Identifier: MIT */
/*
 * What tests/mutation/probe puts before the first line of each source that it changes. Changed places stand side by side with the
 * original ones, and probe_is(n) chooses: one build serves all.
 *
 *     TEST_KEDGE_PROBE    number of the place that is changed; unset: none
 *     TEST_KEDGE_REACHED  file of PROBE_MAX bytes: byte n becomes 1 when place n is reached, in whichever process
 *
 * Nothing is included and no library added, so that a source means what it meant: the definitions are weak and hidden, one set for
 * each program and library.
 */
#ifndef TESTS_MUTATION_PROBE_SITE_H
#define TESTS_MUTATION_PROBE_SITE_H

#define PROBE_MAX  4096
#define PROBE_ONCE __attribute__((weak, visibility("hidden")))

extern char *getenv(const char *);
extern int open(const char *, int, ...);
extern int close(int);
extern void *mmap(void *, unsigned long, int, int, int, long);

PROBE_ONCE unsigned char probe_nowhere[PROBE_MAX];
PROBE_ONCE unsigned char *probe_reached;
PROBE_ONCE int probe_number;

/* Before main(), or at the first place reached if that is earlier. */
__attribute__((weak, visibility("hidden"), constructor)) void probe_begin(void)
{
    const char *digit = getenv("TEST_KEDGE_PROBE");
    const char *path = getenv("TEST_KEDGE_REACHED");
    int number = 0;

    if (probe_reached)
        return;
    while (digit && *digit >= '0' && *digit <= '9')
        number = number * 10 + (*digit++ - '0');
    probe_number = number;
    unsigned char *map = probe_nowhere;
    int fd = path ? open(path, 02000002) : -1; /* O_RDWR | O_CLOEXEC */
    if (fd >= 0) {
        void *got = mmap(0, PROBE_MAX, 3, 1, fd, 0); /* read and write, shared */
        if (got != (void *)-1)
            map = got;
        close(fd);
    }
    probe_reached = map;
}

static inline int probe_is(int number)
{
    if (!probe_reached)
        probe_begin();
    probe_reached[number] = 1;
    return probe_number == number;
}

#endif
