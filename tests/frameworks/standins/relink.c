/* SPDX-License-Identifier: MIT */
/*
 * relink.c - gives a library that carries the CUDA runtime inside the process's shared runtime instead.
 *
 * Paddle's, CuPy's and RMM's libraries are linked with the static CUDA runtime, which talks to NVIDIA's own driver and to no
 * other. When the loader has mapped such a library, before it relocates it and before its constructors run, the first bytes of
 * each function of that runtime become a jump to the function of the same name in libcudart.so, as if the library had been
 * linked with it. What that one does not have returns cudaErrorNotSupported. So nothing of the static runtime runs any more,
 * with kedge and without it alike.
 *
 *     LD_AUDIT=librelink.so LD_PRELOAD=libcudart.so.12 RELINK_TABLE=relink.table python3 script.py
 *
 * The table comes from relink.py. RELINK_LOG=1 tells on stderr what was done.
 * Threads: the loader calls la_objopen under its own lock. Memory: the table and the names of the runtime stay mapped.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum {
    NOT_SUPPORTED = 801, /* cudaErrorNotSupported */
    NAME_MOST = 128,
};

struct file {
    const char *bytes;
    size_t size;
};

/* The functions of the shared runtime: none before it is mapped. */
static struct {
    uintptr_t base;
    const Elf64_Sym *symbols;
    size_t count;
    const char *names;
} runtime;

static struct file table;

static bool file_map(const char *path, struct file *ret_file)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    void *bytes = MAP_FAILED;

    if (fd < 0)
        return false;
    if (fstat(fd, &status) == 0 && status.st_size > 0)
        bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    (void)close(fd);
    if (bytes == MAP_FAILED)
        return false;
    *ret_file = (struct file){bytes, (size_t)status.st_size};
    return true;
}

/* The dynamic symbols by the file's section headers; a runtime of the simulated device is a file of ours. */
static void find_runtime(const struct link_map *map)
{
    struct file file;
    const Elf64_Ehdr *head;
    const Elf64_Shdr *sections;

    if (!file_map(map->l_name, &file))
        return;
    head = (const void *)file.bytes;
    sections = (const void *)(file.bytes + head->e_shoff);
    for (unsigned i = 0; i < head->e_shnum; i++) {
        if (sections[i].sh_type != SHT_DYNSYM)
            continue;
        runtime.base = map->l_addr;
        runtime.symbols = (const void *)(file.bytes + sections[i].sh_offset);
        runtime.count = sections[i].sh_size / sizeof(Elf64_Sym);
        runtime.names = file.bytes + sections[sections[i].sh_link].sh_offset;
    }
}

static uintptr_t in_runtime(const char *name)
{
    for (size_t i = 0; i < runtime.count; i++) {
        const Elf64_Sym *symbol = &runtime.symbols[i];

        if (ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && symbol->st_shndx != SHN_UNDEF
                && strcmp(runtime.names + symbol->st_name, name) == 0)
            return runtime.base + symbol->st_value;
    }
    return 0;
}

static bool write_code(uintptr_t address, const unsigned char *code, size_t size)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t from = address & ~(page - 1);
    size_t length = ((address + size + page - 1) & ~(page - 1)) - from;

    if (mprotect((void *)from, length, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
        return false;
    memcpy((void *)address, code, size);
    return mprotect((void *)from, length, PROT_READ | PROT_EXEC) == 0;
}

/* movabs $target, %r11; jmp *%r11 */
static bool write_jump(uintptr_t address, uintptr_t target)
{
    unsigned char code[] = {0x49, 0xbb, 0, 0, 0, 0, 0, 0, 0, 0, 0x41, 0xff, 0xe3};

    memcpy(code + 2, &target, sizeof target);
    return write_code(address, code, sizeof code);
}

/* mov $801, %eax; ret */
static bool write_refusal(uintptr_t address)
{
    const uint32_t error = NOT_SUPPORTED;
    unsigned char code[] = {0xb8, 0, 0, 0, 0, 0xc3};

    memcpy(code + 1, &error, sizeof error);
    return write_code(address, code, sizeof code);
}

static bool is_logging(void)
{
    const char *value = getenv("RELINK_LOG");

    return value && *value == '1';
}

/* One library. `line` is behind its "= PATH" in the table. */
static void relink(const struct link_map *map, const char *line)
{
    const char *end = table.bytes + table.size;
    unsigned jumps = 0;
    unsigned refusals = 0;
    unsigned failures = 0;

    while (line < end && *line != '=') {
        char name[NAME_MOST];
        char *after;
        uintptr_t address = map->l_addr + strtoul(line, &after, 16);
        size_t length = strcspn(after + 1, "\n");
        uintptr_t target;

        (void)snprintf(name, sizeof name, "%.*s", (int)length, after + 1);
        line = after + 1 + length + 1;
        target = in_runtime(name);
        if (!(target ? write_jump(address, target) : write_refusal(address)))
            failures++;
        else if (target)
            jumps++;
        else
            refusals++;
        if (!target && is_logging())
            (void)fprintf(stderr, "relink: no %s in the shared runtime\n", name);
    }
    if (failures || is_logging())
        (void)fprintf(stderr,
                "relink: %s: %u functions lead to the shared runtime, %u refuse, %u failed\n",
                map->l_name, jumps, refusals, failures);
}

/* What the table says of a file: the line behind its path, or NULL. Its last line ends, so that each number is followed by more. */
static const char *find_lines(const char *path)
{
    size_t length = strlen(path);
    const char *at = table.bytes;
    const char *end = table.bytes + table.size;

    while (at && at < end) {
        if (*at == '=' && (size_t)(end - at) > length + 3 && strncmp(at + 2, path, length) == 0
                && at[2 + length] == '\n')
            return at + 2 + length + 1;
        at = memchr(at, '\n', (size_t)(end - at));
        at += at != NULL;
    }
    return NULL;
}

EXPORT unsigned la_version(unsigned version);
EXPORT unsigned la_version(unsigned version)
{
    const char *path = getenv("RELINK_TABLE");

    if (!path || !file_map(path, &table))
        (void)fprintf(stderr, "relink: RELINK_TABLE=%s cannot be read\n", path ? path : "");
    return version < LAV_CURRENT ? version : LAV_CURRENT;
}

/* The program's libraries are there, its constructors have not run. The runtime is nobody's in particular, as a static one is. */
EXPORT void la_preinit(uintptr_t *cookie);
EXPORT void la_preinit(uintptr_t *cookie)
{
    const char *name = getenv("RELINK_RUNTIME");
    char program[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);

    (void)cookie;
    program[length > 0 ? length : 0] = '\0';
    if (!strstr(program, "/python")) /* a shell, an env: nothing there will want it */
        return;
    if (!name || !dlmopen(LM_ID_BASE, name, RTLD_NOW | RTLD_LOCAL))
        (void)fprintf(stderr, "relink: RELINK_RUNTIME=%s cannot be opened\n", name ? name : "");
}

EXPORT unsigned la_objopen(struct link_map *map, Lmid_t space, uintptr_t *cookie);
EXPORT unsigned la_objopen(struct link_map *map, Lmid_t space, uintptr_t *cookie)
{
    const char *slash = strrchr(map->l_name, '/');
    char path[PATH_MAX];
    const char *lines;

    (void)cookie;
    if (space != LM_ID_BASE || !slash || !table.bytes)
        return 0;
    if (strncmp(slash, "/libcudart.so.", 14) == 0 && !runtime.count)
        find_runtime(map);
    else if (runtime.count && realpath(map->l_name, path) && (lines = find_lines(path)) != NULL)
        relink(map, lines);
    return 0;
}
