/* SPDX-License-Identifier: MIT */
/*
 * sim_binary.h - makes the forms of device code that the simulated device reads: cubins, fat binaries, nvcc's wrapper.
 *
 * Written from what the forms are (sim_cubin.c, sim_fatbin.c say it), with structures of its own, so that a mistake
 * there is not repeated here.
 */
#ifndef KEDGE_TESTS_UNIT_SIM_BINARY_H
#define KEDGE_TESTS_UNIT_SIM_BINARY_H

#include "tests/check.h"

#include <elf.h>
#include <lz4.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#define BINARY_MOST ((size_t)1 << 20)

/* Bytes that grow; offsets stay. */
struct binary {
    unsigned char *bytes;
    size_t size;
};

static inline size_t binary_add(struct binary *b, const void *bytes, size_t size)
{
    size_t at = b->size;

    if (!b->bytes)
        b->bytes = calloc(1, BINARY_MOST);
    REQUIRE(b->bytes && size <= BINARY_MOST - at);
    if (size)
        memcpy(b->bytes + at, bytes, size);
    b->size += size;
    return at;
}

static inline void binary_align(struct binary *b, size_t unit)
{
    static const unsigned char zeros[64];

    (void)binary_add(b, zeros, (unit - b->size % unit) % unit);
}

static inline void binary_free(struct binary *b)
{
    free(b->bytes);
    *b = (struct binary){0};
}

struct binary_param {
    unsigned offset, size;
};

struct binary_kernel {
    const char *name;
    const struct binary_param *params;
    unsigned count;
    bool is_function;    /* no kernel: a function that kernels call */
    bool in_second_form; /* sizes of 16 bits, as larger parameters need */
    bool is_backwards;   /* the last parameter is described first */
};

static inline void binary_add_param(
        struct binary *b, const struct binary_kernel *k, unsigned ordinal)
{
    const struct binary_param *p = &k->params[ordinal];
    uint8_t head[] = {4, k->in_second_form ? 0x45 : 0x17};
    uint16_t words[] = {12, 0, 0, (uint16_t)ordinal, (uint16_t)p->offset};
    uint32_t bits = k->in_second_form ? p->size : (uint32_t)p->size << 18 | 0x1f000;

    (void)binary_add(b, head, sizeof(head));
    (void)binary_add(b, words, sizeof(words));
    (void)binary_add(b, &bits, sizeof(bits));
}

/* An ELF file for the device: names, symbols, and for each kernel its code (nothing) and its parameters. */
static inline struct binary binary_cubin(const struct binary_kernel *kernels, unsigned count)
{
    struct binary b = {0}, names = {0}, symbols = {0};
    Elf64_Ehdr header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, 1, 0x33, 7},
            .e_type = ET_EXEC,
            .e_machine = 190,
            .e_version = 1,
            .e_ehsize = sizeof(header),
            .e_shentsize = sizeof(Elf64_Shdr),
            .e_shnum = (Elf64_Half)(3 + 2 * count)};
    Elf64_Shdr *sections = calloc(header.e_shnum, sizeof(*sections));
    Elf64_Sym symbol = {0};

    REQUIRE(sections != NULL);
    (void)binary_add(&names, "", 1);
    (void)binary_add(&symbols, &symbol, sizeof(symbol));
    (void)binary_add(&b, &header, sizeof(header));
    for (unsigned i = 0; i < count; i++) {
        const struct binary_kernel *k = &kernels[i];
        /* Something that is no parameter: form 3, form 4 of another kind. */
        static const uint8_t others[] = {3, 0x1b, 0xff, 0, 4, 0x0a, 8, 0, 1, 0, 0, 0, 0, 0, 0, 0};
        Elf64_Shdr *code = &sections[3 + 2 * i], *info = code + 1;

        binary_align(&b, 8);
        *code = (Elf64_Shdr){.sh_type = SHT_PROGBITS, .sh_offset = b.size};
        *info = (Elf64_Shdr){.sh_type = 0x70000000, .sh_offset = b.size, .sh_info = 3 + 2 * i};
        (void)binary_add(&b, others, sizeof(others));
        for (unsigned p = 0; p < k->count; p++)
            binary_add_param(&b, k, k->is_backwards ? k->count - 1 - p : p);
        info->sh_size = b.size - info->sh_offset;
        symbol =
                (Elf64_Sym){.st_name = (Elf64_Word)binary_add(&names, k->name, strlen(k->name) + 1),
                        .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
                        .st_other = k->is_function ? 0 : 0x10,
                        .st_shndx = (Elf64_Half)(3 + 2 * i)};
        (void)binary_add(&symbols, &symbol, sizeof(symbol));
    }
    binary_align(&b, 8);
    sections[1] = (Elf64_Shdr){.sh_type = SHT_STRTAB,
            .sh_size = names.size,
            .sh_offset = binary_add(&b, names.bytes, names.size)};
    binary_align(&b, 8);
    sections[2] = (Elf64_Shdr){.sh_type = SHT_SYMTAB,
            .sh_size = symbols.size,
            .sh_link = 1,
            .sh_entsize = sizeof(symbol),
            .sh_offset = binary_add(&b, symbols.bytes, symbols.size)};
    binary_align(&b, 8);
    header.e_shoff = binary_add(&b, sections, header.e_shnum * sizeof(*sections));
    memcpy(b.bytes, &header, sizeof(header));
    free(sections);
    binary_free(&names);
    binary_free(&symbols);
    return b;
}

enum binary_packing {
    BINARY_PLAIN,
    BINARY_LZ4,
    BINARY_ZSTD
};

/* Appends one entry of a fat binary; kind 1 is PTX, 2 a cubin. */
static inline void binary_add_entry(struct binary *fatbin, unsigned kind, unsigned arch,
        const void *code, size_t size, enum binary_packing packing)
{
    unsigned char head[64] = {0}, *packed = calloc(1, BINARY_MOST);
    uint32_t head_size = sizeof(head), packed_size = (uint32_t)size;
    uint64_t padded, flags = 0x11, unpacked = packing == BINARY_PLAIN ? 0 : size;
    uint16_t kind16 = (uint16_t)kind;

    REQUIRE(packed != NULL);
    if (packing == BINARY_LZ4) {
        packed_size =
                (uint32_t)LZ4_compress_default(code, (char *)packed, (int)size, (int)BINARY_MOST);
        flags |= 0x2000;
    } else if (packing == BINARY_ZSTD) {
        packed_size = (uint32_t)ZSTD_compress(packed, BINARY_MOST, code, size, 3);
        flags |= 0x8000;
    } else {
        memcpy(packed, code, size);
    }
    padded = (packed_size + 7U) & ~7U;
    memcpy(head, &kind16, 2);
    memcpy(head + 4, &head_size, 4);
    memcpy(head + 8, &padded, 8);
    memcpy(head + 16, &packed_size, 4);
    memcpy(head + 28, &arch, 4);
    memcpy(head + 40, &flags, 8);
    memcpy(head + 56, &unpacked, 8);
    (void)binary_add(fatbin, head, sizeof(head));
    (void)binary_add(fatbin, packed, padded);
    free(packed);
}

/* Begins a fat binary; binary_end_fatbin writes its size. */
static inline struct binary binary_fatbin(void)
{
    struct binary b = {0};
    uint32_t magic = 0xba55ed50;
    uint16_t words[] = {1, 16};
    uint64_t size = 0;

    (void)binary_add(&b, &magic, sizeof(magic));
    (void)binary_add(&b, words, sizeof(words));
    (void)binary_add(&b, &size, sizeof(size));
    return b;
}

static inline void binary_end_fatbin(struct binary *b)
{
    uint64_t size = b->size - 16;

    memcpy(b->bytes + 8, &size, sizeof(size));
}

/* What nvcc's host code registers. */
struct binary_wrapper {
    uint32_t magic, version;
    const void *data;
    const void *more;
};

static inline struct binary_wrapper binary_wrap(const struct binary *fatbin)
{
    return (struct binary_wrapper){0x466243b1, 1, fatbin->bytes, NULL};
}

#endif
