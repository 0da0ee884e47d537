/* SPDX-License-Identifier: MIT */
/* covers: linked.c */
/* In which of the loaded objects an address lies, and whether that is code: by the headers that an object has. */
#include "preload/base/linked.h"
#include "tests/check.h"

#include <link.h>

/* Two objects; behind the headers of each stand others that are not its. */
static const ElfW(Phdr) headers[2][4] = {
        {{.p_type = PT_LOAD, .p_vaddr = 0x100, .p_memsz = 0x100, .p_flags = PF_R | PF_X},
                {.p_type = PT_GNU_RELRO,
                        .p_vaddr = 0x200,
                        .p_memsz = 0x100,
                        .p_flags = PF_R | PF_X},
                {.p_type = PT_LOAD, .p_vaddr = 0x300, .p_memsz = 0x100, .p_flags = PF_R | PF_W},
                {.p_type = PT_LOAD, .p_vaddr = 0x400, .p_memsz = 0x100, .p_flags = PF_X}},
        {{.p_type = PT_LOAD, .p_vaddr = 0, .p_memsz = 0x10, .p_flags = PF_X},
                {.p_type = PT_LOAD, .p_vaddr = 0x10, .p_memsz = 0x10, .p_flags = PF_X}},
};
static const struct dl_phdr_info objects[] = {
        {.dlpi_addr = 0x10000,
                .dlpi_name = "/lib/libone.so.1",
                .dlpi_phdr = headers[0],
                .dlpi_phnum = 3},
        {.dlpi_addr = 0x20000, .dlpi_name = NULL, .dlpi_phdr = headers[1], .dlpi_phnum = 1},
};

int __wrap_dl_iterate_phdr(
        int (*callback)(struct dl_phdr_info *info, size_t size, void *data), void *data);

int __wrap_dl_iterate_phdr(
        int (*callback)(struct dl_phdr_info *info, size_t size, void *data), void *data)
{
    int r = 0;

    for (unsigned i = 0; i < 2 && r == 0; i++) {
        struct dl_phdr_info info = objects[i];

        r = callback(&info, sizeof info, data);
    }
    return r;
}

static const struct {
    uintptr_t address;
    bool is_code, is_in_one;
} cases[] = {
        {0x100ff, false, false},
        {0x10100, true, true},
        {0x101ff, true, true},
        {0x10200, false, false}, /* no segment */
        {0x10300, false, true},
        {0x103ff, false, true},
        {0x10400, false, false}, /* behind the last header */
        {0x20000, true, false},
        {0x2000f, true, false},
        {0x20010, false, false},
        {0, false, false},
};

TEST(an_address_is_code_in_a_segment_of_its_object_that_is)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const void *address = (const void *)cases[i].address;

        CHECK_EQ(linked_is_code(address), cases[i].is_code);
        CHECK_EQ(linked_is_in(address, "libone.so"), cases[i].is_in_one);
        CHECK(!linked_is_in(address, "libon.so"));
        CHECK(!linked_is_in(address, "/lib"));
    }
}

/* Parts of an object have types, too: what lies in one may lie in another as well. */
TEST(an_address_is_in_the_part_of_its_type)
{
    CHECK(linked_segment(&objects[0], PT_GNU_RELRO, 0x101ff) == NULL);
    CHECK(linked_segment(&objects[0], PT_GNU_RELRO, 0x10200) == &headers[0][1]);
    CHECK(linked_segment(&objects[0], PT_GNU_RELRO, 0x102ff) == &headers[0][1]);
    CHECK(linked_segment(&objects[0], PT_GNU_RELRO, 0x10300) == NULL);
    CHECK(linked_segment(&objects[0], PT_LOAD, 0x10200) == NULL);
    CHECK(linked_segment(&objects[1], PT_GNU_RELRO, 0x20000) == NULL);
    CHECK(linked_segment(&objects[1], PT_LOAD, 0x20010) == NULL); /* behind the last header */
}

TEST(an_address_in_no_object_is_linked_with_nothing)
{
    struct linked linked = linked_for((const void *)(uintptr_t)0x10400, "printf");

    CHECK(!linked.own && !linked.users && !linked.calls);
    CHECK(!linked.is_program && !linked.is_earlier);
    CHECK(!linked_in("libone.so", "printf")); /* the loader has no record of it */
}
