/* SPDX-License-Identifier: MIT */
#include "tests/sim/standins/audit_tls.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TUNABLE "glibc.rtld.optional_static_tls"

enum {
    TUNABLE_DEFAULT = 512,    /* glibc's */
    DYNAMIC_MOST = 256,       /* entries of a dynamic section; about 40 are usual */
    ROOM_MORE = 16384,        /* for what is opened later */
    ARGUMENTS_MOST = 1 << 21, /* bytes: the kernel's bound where a stack has 8 MiB */
};

static size_t needed;
static bool is_over;

/* Whether the part says that the object's thread-local memory has to be static. */
static bool is_static(int fd, const ElfW(Phdr) * part)
{
    ElfW(Dyn) entries[DYNAMIC_MOST];
    size_t size = part->p_filesz < sizeof entries ? part->p_filesz : sizeof entries;

    if (pread(fd, entries, size, (off_t)part->p_offset) != (ssize_t)size)
        return false;
    for (size_t i = 0; i < size / sizeof *entries; i++)
        if (entries[i].d_tag == DT_FLAGS)
            return (entries[i].d_un.d_val & DF_STATIC_TLS) != 0;
    return false;
}

/* The static thread-local memory of the file's object in bytes, with its alignment; 0: none. */
static size_t bytes_of(int fd)
{
    ElfW(Ehdr) head;
    ElfW(Phdr) part;
    size_t bytes = 0;
    bool wanted = false;

    if (pread(fd, &head, sizeof head, 0) != (ssize_t)sizeof head || head.e_phentsize != sizeof part)
        return 0;
    for (unsigned i = 0; i < head.e_phnum; i++) {
        if (pread(fd, &part, sizeof part, (off_t)(head.e_phoff + i * sizeof part))
                != (ssize_t)sizeof part)
            return 0;
        if (part.p_type == PT_TLS)
            bytes = part.p_memsz + part.p_align;
        else if (part.p_type == PT_DYNAMIC)
            wanted = is_static(fd, &part);
    }
    return wanted ? bytes : 0;
}

/* Of two values the last one counts. */
static size_t tunable(void)
{
    size_t value = TUNABLE_DEFAULT;

    for (const char *word = getenv("GLIBC_TUNABLES"); word && (word = strstr(word, TUNABLE "="));) {
        word += strlen(TUNABLE "=");
        value = strtoul(word, NULL, 0);
    }
    return value;
}

/* The kernel's own list of the process's arguments: the loader takes its own ones out. */
static char **arguments(void)
{
    static char *words[ARGUMENTS_MOST / 16];
    static char text[ARGUMENTS_MOST + 1];
    size_t length = 0;
    size_t count = 0;
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t got = 1;

    for (; fd >= 0 && got > 0 && length<ARGUMENTS_MOST; length += got> 0 ? (size_t)got : 0)
        got = read(fd, text + length, ARGUMENTS_MOST - length);
    if (fd >= 0)
        (void)close(fd);
    for (size_t at = 0; at < length; at += strlen(text + at) + 1) {
        if (count + 1 == sizeof words / sizeof *words)
            return NULL;
        words[count++] = text + at;
    }
    return count && length < ARGUMENTS_MOST ? words : NULL;
}

static void begin_anew(void)
{
    const char *old = getenv("GLIBC_TUNABLES");
    char **words = arguments();
    char *list = NULL;
    char program[4096];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program);

    is_over = true;
    if (words && length > 0 && length < (ssize_t)sizeof program
            && asprintf(&list, "%s%s" TUNABLE "=%zu", old ? old : "", old && *old ? ":" : "",
                       needed + ROOM_MORE)
                    > 0
            && setenv("GLIBC_TUNABLES", list, 1) == 0) {
        program[length] = '\0'; /* not /proc/self/exe: the process has the name of its file */
        (void)execv(program, words);
    }
    free(list);
}

void audit_tls_add(const char *file)
{
    int fd;

    if (is_over || !*file || (fd = open(file, O_RDONLY | O_CLOEXEC)) < 0)
        return;
    needed += bytes_of(fd);
    (void)close(fd);
    if (needed > tunable())
        begin_anew();
}

void audit_tls_end(void)
{
    is_over = true;
}
