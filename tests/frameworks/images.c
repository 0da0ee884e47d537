/* SPDX-License-Identifier: MIT */
/*
 * images - reads the device code of every library in the environments, as the simulated device does (tests/sim/kernel/sim_image.h).
 *
 *     images FOLDER        of environments; $KEDGE_FRAMEWORKS, where that is set, comes first
 *
 * A line for each library: fat binaries, kernels, and of the kernels with names in C++ those whose parameters are as many
 * as the name says. Two sources say the same then: the compiler's name, and what was read from the code.
 *
 * What must hold: the section is fat binaries from its beginning to its end, each of them is read, the parameters of each
 * kernel are known, and every name in C++ agrees. Exit 0: it does. 1: it does not, one line each. 77: no environment.
 * Names in C say nothing of parameters. Fat binaries without kernels are counted; why they have none was not looked into.
 */
#include "tests/sim/kernel/sim_guess.h"
#include "tests/sim/kernel/sim_image.h"

#include <elf.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    EXIT_SKIP = 77,
    COMPLAINTS_MOST = 5, /* lines for each library */
};

struct figures {
    uint64_t binaries, kernels, named, agreed, without_kernels;
    unsigned complaints;
};

static bool is_wrong;
static struct figures total;

/* ---- what the readers want of the device ---- */

struct sim_config sim_config = {.any_kernel = true};

void *sim_grow(void *old, size_t size)
{
    void *grown = old ? realloc(old, size) : calloc(1, size);

    if (!grown)
        abort();
    return grown;
}

void *sim_new(size_t size)
{
    return sim_grow(NULL, size);
}

const struct sim_kernel *sim_kernels_find(const char *name, size_t length)
{
    (void)name;
    (void)length;
    return NULL;
}

const struct sim_kernel *sim_other_kernel(
        const char *name, const struct sim_param *params, unsigned count, bool has_layout)
{
    static struct sim_kernel kernel;

    kernel = (struct sim_kernel){
            .name = name, .params = params, .params_count = count, .has_layout = has_layout};
    return &kernel;
}

/* ---- one fat binary ---- */

static void complain(struct figures *f, const char *path, const char *what, const char *which)
{
    is_wrong = true;
    if (f->complaints++ < COMPLAINTS_MOST)
        printf("WRONG %s: %s: %.200s\n", path, what, which);
}

/*
 * CUTLASS's kernels take one structure, the Params of their first template argument, and their names can be too deep for
 * the C++ library to demangle.
 */
static bool takes_params(const char *name)
{
    static const char end[] = "EvNT_6ParamsE";
    size_t length = strlen(name);

    return length > strlen(end) && strcmp(name + length - strlen(end), end) == 0;
}

static void check_kernel(struct figures *f, const char *path, const struct sim_kernel *kernel)
{
    struct sim_guess guess;

    f->kernels++;
    if (!kernel->has_layout)
        complain(f, path, "parameters are not known", kernel->name);
    if (strncmp(kernel->name, "_Z", 2) != 0)
        return;
    f->named++;
    sim_guess_make(kernel, &guess);
    free(guess.words);
    if (guess.has_types || (takes_params(kernel->name) && kernel->params_count == 1))
        f->agreed++;
    else
        complain(f, path, "not as many parameters as the name says", kernel->name);
}

static void check_binary(struct figures *f, const char *path, const void *data, size_t offset)
{
    struct sim_image *image;
    char where[64];

    (void)snprintf(where, sizeof(where), "at %zu of the section", offset);
    f->binaries++;
    if (sim_image_open(data, &image) != 0) {
        complain(f, path, "a fat binary was not read", where);
        return;
    }
    f->without_kernels += sim_image_count(image) == 0;
    for (unsigned i = 0; i < sim_image_count(image); i++)
        check_kernel(f, path, sim_image_at(image, i));
    sim_image_close(image);
}

/* ---- one library ---- */

static void check_section(
        struct figures *f, const char *path, const unsigned char *data, size_t size)
{
    for (size_t at = 0; at + 16 <= size;) {
        uint16_t header;
        uint64_t behind;

        if (!sim_fatbin_is(data + at)) { /* zeroes in front of the next one */
            uint64_t word;
            memcpy(&word, data + at, sizeof(word));
            if (word) {
                complain(f, path, "the section has something else", "");
                return;
            }
            at += sizeof(word);
            continue;
        }
        memcpy(&header, data + at + 6, sizeof(header));
        memcpy(&behind, data + at + 8, sizeof(behind));
        if (behind > size - at || header > size - at - behind) {
            complain(f, path, "a fat binary is larger than its section", "");
            return;
        }
        check_binary(f, path, data + at, at);
        at += header + behind;
    }
}

static void check_sections(const char *path, const unsigned char *data, size_t size)
{
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)(const void *)data;
    const Elf64_Shdr *sections;
    const char *names;
    struct figures f = {0};
    bool has_code = false;

    if (size < sizeof(*header) || memcmp(data, ELFMAG, SELFMAG) != 0
            || header->e_shentsize != sizeof(Elf64_Shdr) || header->e_shoff > size
            || (uint64_t)header->e_shnum * sizeof(Elf64_Shdr) > size - header->e_shoff
            || header->e_shstrndx >= header->e_shnum)
        return;
    sections = (const Elf64_Shdr *)(const void *)(data + header->e_shoff);
    names = (const char *)data + sections[header->e_shstrndx].sh_offset;
    for (unsigned i = 0; i < header->e_shnum; i++) {
        const char *name = names + sections[i].sh_name;
        if (strcmp(name, ".nv_fatbin") != 0 && strcmp(name, "__nv_relfatbin") != 0)
            continue;
        has_code = true;
        check_section(&f, path, data + sections[i].sh_offset, sections[i].sh_size);
    }
    if (!has_code)
        return;
    printf("%s: %llu fat binaries (%llu without kernels), %llu kernels, %llu of %llu as their "
           "names in C++ say\n",
            path, (unsigned long long)f.binaries, (unsigned long long)f.without_kernels,
            (unsigned long long)f.kernels, (unsigned long long)f.agreed,
            (unsigned long long)f.named);
    total.binaries += f.binaries;
    total.kernels += f.kernels;
    total.named += f.named;
    total.agreed += f.agreed;
}

static int check_file(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    const char *name = path + at->base, *suffix = strstr(name, ".so");
    unsigned char *data;
    int file;

    if (kind != FTW_F || !suffix || (suffix[3] != '\0' && suffix[3] != '.') || st->st_size == 0)
        return 0;
    file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 0;
    data = mmap(NULL, (size_t)st->st_size, PROT_READ, MAP_PRIVATE, file, 0);
    (void)close(file);
    if (data == MAP_FAILED)
        return 0;
    check_sections(path, data, (size_t)st->st_size);
    (void)fflush(stdout);
    (void)munmap(data, (size_t)st->st_size);
    return 0;
}

int main(int argc, char **argv)
{
    const char *folder = getenv("KEDGE_FRAMEWORKS");
    static char path[PATH_MAX];

    if (argc != 2) {
        (void)fputs("images FOLDER\n", stderr);
        return 2;
    }
    if (!folder || !*folder)
        folder = argv[1];
    sim_guess_prepare();
    /* the folder may be a link; what is in it is not followed */
    if (realpath(folder, path))
        folder = path;
    (void)nftw(folder, check_file, 32, FTW_PHYS);
    if (total.binaries == 0) {
        printf("SKIP: no library with device code in %s: tests/frameworks/setup makes "
               "environments\n",
                folder);
        return EXIT_SKIP;
    }
    printf("%llu fat binaries, %llu kernels, %llu of %llu as their names in C++ say\n",
            (unsigned long long)total.binaries, (unsigned long long)total.kernels,
            (unsigned long long)total.agreed, (unsigned long long)total.named);
    return is_wrong ? 1 : 0;
}
