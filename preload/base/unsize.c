/* SPDX-License-Identifier: MIT */
/*
 * unsize FILE: takes the sizes of a library's exported functions out of its dynamic symbols, when it has been linked.
 *
 * A program that is linked with a library whose variables are named like our functions has copies of them (R_*_COPY), which
 * the loader fills from the first symbol of the name: ours. It copies as many bytes as the symbol has, and says on stderr that the
 * size is another than the program was linked with. Of a function without a size it copies nothing and says nothing;
 * variables.c then copies what was meant. Nothing else reads these sizes: debuggers and profilers take .symtab.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static unsigned unsize(char *image)
{
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)image;
    const Elf64_Shdr *sections = (const Elf64_Shdr *)(image + header->e_shoff);
    unsigned changed = 0;

    for (unsigned i = 0; i < header->e_shnum; i++) {
        if (sections[i].sh_type != SHT_DYNSYM)
            continue;
        Elf64_Sym *symbols = (Elf64_Sym *)(image + sections[i].sh_offset);
        for (size_t s = 0; s < sections[i].sh_size / sizeof *symbols; s++) {
            if (symbols[s].st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbols[s].st_info) != STT_FUNC)
                continue;
            symbols[s].st_size = 0;
            changed++;
        }
    }
    return changed;
}

int main(int argc, char **argv)
{
    int fd = argc == 2 ? open(argv[1], O_RDWR) : -1;
    struct stat status;
    char *image = MAP_FAILED;

    if (fd >= 0 && fstat(fd, &status) == 0)
        image = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (image == MAP_FAILED) {
        (void)fprintf(stderr, "unsize: %s: %s\n", argc == 2 ? argv[1] : "one FILE",
                strerrordesc_np(errno));
        return 1;
    }
    if (memcmp(image, ELFMAG, SELFMAG) != 0 || image[EI_CLASS] != ELFCLASS64
            || unsize(image) == 0) {
        (void)fprintf(stderr, "unsize: %s: no library with exported functions\n", argv[1]);
        return 1;
    }
    return munmap(image, (size_t)status.st_size) == 0 ? 0 : 1;
}
