/* SPDX-License-Identifier: MIT */
/*
 * unsize FILE: sets the sizes of a library's exported functions in its dynamic symbol table to 0,
 * after linking.
 *
 * A program that is linked with a library whose variables are named like our functions has copies
 * of them (R_*_COPY), which the loader fills from the first symbol of the name: ours. The loader
 * copies as many bytes as the symbol's size, and warns on stderr that the size differs from the one
 * the program was linked with. For a function of size 0 it copies nothing and prints nothing;
 * variables.c then copies the variable that was meant. Nothing else reads these sizes: debuggers
 * and profilers use .symtab.
 */
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

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
        (void)fprintf(stderr, "unsize: %s: %m\n", argc == 2 ? argv[1] : "one FILE");
        return 1;
    }
    if (memcmp(image, ELFMAG, SELFMAG) != 0 || image[EI_CLASS] != ELFCLASS64
            || unsize(image) == 0) {
        (void)fprintf(stderr, "unsize: %s: no library with exported functions\n", argv[1]);
        return 1;
    }
    return munmap(image, (size_t)status.st_size) == 0 ? 0 : 1;
}
