/* SPDX-License-Identifier: MIT */
/*
 * A cubin is an ELF file whose function symbols with the mark of an entry are kernels. The parameters of the kernel in
 * section N are in the section of type .nv.info whose sh_info is N, as a list of attributes:
 *
 *     u8 form, u8 attribute, then: form 4: u16 size and so many bytes; others: u16 value
 *     0x17  a parameter: u32 index, u16 ordinal, u16 offset, u32 bits: size from bit 18 on, kind of pointee 8..11
 *     0x45  the same for sizes that need more: u32 index, u16 ordinal, u16 offset, u16 size, u16 bits
 *
 * The kind is 5 where the compiler says that the parameter is a pointer; most say nothing (0).
 */
#include "tests/sim/kernel/sim_image.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#define MACHINE_CUDA     190
#define SECTION_INFO     0x70000000U /* .nv.info and .nv.info.<kernel> */
#define SYMBOL_IS_ENTRY  0x10        /* in st_other */
#define FORM_SIZED       4
#define ATTRIBUTE_PARAM  0x17
#define ATTRIBUTE_PARAM2 0x45
#define POINTEE_GENERIC  5
#define PARAMS_MOST      1024U

struct cubin {
    const unsigned char *data;
    size_t size;
    const Elf64_Shdr *sections;
    unsigned count;
};

static bool is_inside(const struct cubin *c, uint64_t offset, uint64_t size)
{
    return offset <= c->size && size <= c->size - offset;
}

/* Byte by byte up to where it can be no cubin: what is behind a wrong header need not be there. */
static bool open_cubin(struct cubin *c)
{
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)(const void *)c->data;

    if (c->size < sizeof(*header) || memcmp(c->data, ELFMAG, SELFMAG) != 0
            || c->data[EI_CLASS] != ELFCLASS64 || c->data[EI_DATA] != ELFDATA2LSB
            || header->e_machine != MACHINE_CUDA || header->e_shentsize != sizeof(Elf64_Shdr))
        return false;
    c->count = header->e_shnum;
    if (header->e_shoff % _Alignof(Elf64_Shdr) != 0
            || !is_inside(c, header->e_shoff, (uint64_t)c->count * sizeof(Elf64_Shdr)))
        return false;
    c->sections = (const Elf64_Shdr *)(const void *)(c->data + header->e_shoff);
    return true;
}

/* ---- parameters ---- */

static uint16_t word16(const unsigned char *at)
{
    uint16_t word;

    memcpy(&word, at, sizeof(word));
    return word;
}

static void read_param(
        const unsigned char *at, bool is_second_form, struct sim_param *params, unsigned *count)
{
    unsigned ordinal = word16(at + 4);
    uint32_t bits;

    if (ordinal >= PARAMS_MOST)
        return;
    memcpy(&bits, at + 8, sizeof(bits));
    params[ordinal] = (struct sim_param){.offset = word16(at + 6),
            .size = is_second_form ? bits & 0xffff : bits >> 18,
            .is_pointer = (is_second_form ? bits >> 24 & 15 : bits >> 8 & 15) == POINTEE_GENERIC};
    if (*count <= ordinal)
        *count = ordinal + 1;
}

static unsigned read_params(
        const struct cubin *c, const Elf64_Shdr *info, struct sim_param params[PARAMS_MOST])
{
    const unsigned char *at, *end;
    unsigned count = 0;

    if (!is_inside(c, info->sh_offset, info->sh_size))
        return 0;
    at = c->data + info->sh_offset;
    end = at + info->sh_size;
    while (end - at >= 4) {
        unsigned form = at[0], attribute = at[1], size = form == FORM_SIZED ? word16(at + 2) : 0;

        at += 4;
        if (size > (size_t)(end - at))
            break;
        if (size >= 12 && (attribute == ATTRIBUTE_PARAM || attribute == ATTRIBUTE_PARAM2))
            read_param(at, attribute == ATTRIBUTE_PARAM2, params, &count);
        at += size;
    }
    return count;
}

/* ---- kernels ---- */

/* The section of parameters of the code in section `code`, or NULL: it has none. */
static const Elf64_Shdr *find_info(const struct cubin *c, unsigned code)
{
    for (unsigned i = 0; i < c->count; i++)
        if (c->sections[i].sh_type == SECTION_INFO && c->sections[i].sh_info == code && code)
            return &c->sections[i];
    return NULL;
}

static void read_symbols(struct sim_image *image, const struct cubin *c, const Elf64_Shdr *table)
{
    const Elf64_Sym *symbols = (const Elf64_Sym *)(const void *)(c->data + table->sh_offset);
    const Elf64_Shdr *strings = &c->sections[table->sh_link];
    struct sim_param *params = sim_new(PARAMS_MOST * sizeof(*params));

    for (size_t i = 0; i < table->sh_size / sizeof(*symbols); i++) {
        const Elf64_Sym *s = &symbols[i];
        const Elf64_Shdr *info;
        const char *name;
        size_t length;

        if (ELF64_ST_TYPE(s->st_info) != STT_FUNC || !(s->st_other & SYMBOL_IS_ENTRY)
                || s->st_name >= strings->sh_size)
            continue;
        name = (const char *)c->data + strings->sh_offset + s->st_name;
        length = strnlen(name, strings->sh_size - s->st_name);
        info = find_info(c, s->st_shndx);
        sim_image_add(image, name, length, params, info ? read_params(c, info, params) : 0);
    }
    free(params);
}

bool sim_cubin_read(struct sim_image *image, const unsigned char *data, size_t size)
{
    struct cubin c = {.data = data, .size = size};

    if (!open_cubin(&c))
        return false;
    for (unsigned i = 0; i < c.count; i++) {
        const Elf64_Shdr *table = &c.sections[i];

        if (table->sh_type != SHT_SYMTAB || table->sh_link >= c.count
                || table->sh_offset % _Alignof(Elf64_Sym)
                || !is_inside(&c, table->sh_offset, table->sh_size)
                || !is_inside(&c, c.sections[table->sh_link].sh_offset,
                        c.sections[table->sh_link].sh_size))
            continue;
        read_symbols(image, &c, table);
    }
    return true;
}
