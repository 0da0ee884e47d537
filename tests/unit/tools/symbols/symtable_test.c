/* SPDX-License-Identifier: MIT */
/* covers: symtable.c */
/* The answers of the sorted table, held against those of libdw, which reads the whole table for each address. */
#include "tests/check.h"

#include "tools/symbols/symtable.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <unistd.h>

/*
 * Symbols that lie in, over and beside each other; `here` begins a symbol of a kind and size at the place where it stands. None of it
 * is ever run.
 */
__asm__(".pushsection .text.symtable_test, \"ax\", @progbits\n"
        ".macro here name, binding, size\n"
        "    .\\binding \\name\n"
        "    .type \\name, @function\n"
        "    .size \\name, \\size\n"
        "\\name:\n"
        ".endm\n"
        "here st_outer, globl, 64\n"
        "    .fill 8, 1, 0x90\n"
        "here st_inner, globl, 16\n"
        "here st_inner_long, globl, 24\n"
        "here st_inner_weak, weak, 8\n"
        "    .fill 4, 1, 0x90\n"
        "here st_local_in_global, local, 4\n"
        "    .fill 60, 1, 0x90\n" /* 72: st_outer ended at 64 */
        "here st_local, local, 16\n"
        "    .fill 24, 1, 0x90\n"
        "st_label:\n" /* at 96, no symbol covers it */
        "    .fill 16, 1, 0x90\n"
        "here st_last, globl, 8\n"
        "    .fill 16, 1, 0x90\n"
        ".popsection\n");
extern char st_outer[];

struct file {
    Dwfl *dwfl;
    Dwfl_Module *module;
    struct symtable *table;
};

static struct file open_file(const char *path)
{
    static char nowhere[] = "";
    static char *folders = nowhere;
    static const Dwfl_Callbacks callbacks = {
            .find_elf = dwfl_build_id_find_elf,
            .find_debuginfo = dwfl_standard_find_debuginfo,
            .section_address = dwfl_offline_section_address,
            .debuginfo_path = &folders,
    };
    struct file file = {.dwfl = dwfl_begin(&callbacks)};

    dwfl_report_begin(file.dwfl);
    file.module = dwfl_report_offline(file.dwfl, "file", path, -1);
    (void)dwfl_report_end(file.dwfl, NULL, NULL);
    REQUIRE(file.module != NULL);
    file.table = symtable_new(file.module);
    return file;
}

static void close_file(struct file *file)
{
    symtable_free(file->table);
    dwfl_end(file->dwfl);
}

static bool is_as_libdw_says(const struct file *file, GElf_Addr address)
{
    GElf_Off expected_distance = 0;
    GElf_Sym symbol;
    uint64_t distance = 0;
    const char *name = symtable_find(file->table, address, &distance);
    const char *expected = dwfl_module_addrinfo(
            file->module, address, &expected_distance, &symbol, NULL, NULL, NULL);
    bool is_same = expected && name ? strcmp(expected, name) == 0 && distance == expected_distance
                                    : !expected && !name;

    if (!is_same)
        printf("0x%llx: %s+%llu, libdw: %s+%llu\n", (unsigned long long)address,
                name ? name : "none", (unsigned long long)distance, expected ? expected : "none",
                (unsigned long long)expected_distance);
    return is_same;
}

/* At the beginning, in the middle and at both sides of the end of so many symbols, spread over the table. Returns how many had another name. */
static size_t count_wrong(const struct file *file, int samples, size_t *ret_asked)
{
    int count = dwfl_module_getsymtab(file->module);
    int step = count / samples + 1;
    size_t wrong = 0;

    *ret_asked = 0;
    for (int i = 1; i < count; i += step) {
        GElf_Sym symbol;
        GElf_Addr at;

        if (!dwfl_module_getsym_info(file->module, i, &symbol, &at, NULL, NULL, NULL))
            continue;
        const GElf_Addr addresses[] = {at, at + symbol.st_size / 2, at + symbol.st_size - 1,
                at + symbol.st_size, at + symbol.st_size + 4};
        for (size_t k = 0; k < sizeof(addresses) / sizeof(*addresses); k++, ++*ret_asked)
            wrong += !is_as_libdw_says(file, addresses[k]);
    }
    return wrong;
}

static const char *own_path(void)
{
    static char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);

    REQUIRE(length > 0);
    path[length] = '\0';
    return path;
}

/* Where a loaded library's file is. */
static void path_of(const void *address, char ret_path[PATH_MAX])
{
    Dl_info info = {0};

    REQUIRE(dladdr(address, &info) != 0);
    REQUIRE(realpath(info.dli_fname, ret_path) != NULL);
}

TEST(each_symbol_of_this_program_and_of_libc_is_named_as_libdw_names_it)
{
    char libc[PATH_MAX];
    size_t asked;

    struct file own = open_file(own_path());
    CHECK_EQ(count_wrong(&own, 2000, &asked), 0);
    CHECK(asked > 500);
    close_file(&own);

    path_of((const void *)(uintptr_t)dlsym(RTLD_DEFAULT, "printf"), libc);
    struct file file = open_file(libc);
    CHECK_EQ(count_wrong(&file, 400, &asked), 0);
    CHECK(asked > 1000);
    close_file(&file);
}

static const char *name_at(const struct file *file, GElf_Addr address, uint64_t *ret_distance)
{
    const char *name = symtable_find(file->table, address, ret_distance);

    CHECK(is_as_libdw_says(file, address));
    return name ? name : "none";
}

/* The address of `st_outer` in libdw's address space. */
static GElf_Addr start_of_ours(const struct file *file)
{
    int count = dwfl_module_getsymtab(file->module);

    for (int i = 1; i < count; i++) {
        GElf_Sym symbol;
        GElf_Addr at;
        const char *name = dwfl_module_getsym_info(file->module, i, &symbol, &at, NULL, NULL, NULL);
        if (name && strcmp(name, "st_outer") == 0)
            return at;
    }
    return 0;
}

TEST(symbols_in_over_and_beside_each_other_are_told_apart)
{
    static const struct {
        unsigned at, distance;
        const char *name;
    } expected[] = {
            {0, 0, "st_outer"}, {7, 7, "st_outer"},
            {8, 0, "st_inner"},  /* global before weak, short before long */
            {12, 4, "st_inner"}, /* global before local */
            {24, 16, "st_inner_long"}, {31, 23, "st_inner_long"}, {32, 32, "st_outer"},
            {63, 63, "st_outer"}, {64, 0, "none"}, /* behind its end, no label there */
            {72, 0, "st_local"}, {87, 15, "st_local"}, {88, 0, "none"}, {96, 0, "st_label"},
            {111, 15, "st_label"}, {112, 0, "st_last"}, {119, 7, "st_last"},
            {120, 0, "none"}, /* the label lies before st_last, which ends behind it */
    };
    struct file own = open_file(own_path());
    GElf_Addr start = start_of_ours(&own);

    REQUIRE(start != 0);
    CHECK(st_outer[0] == (char)0x90);
    for (size_t i = 0; i < sizeof(expected) / sizeof(*expected); i++) {
        uint64_t distance = 0;
        CHECK_STR_EQ(name_at(&own, start + expected[i].at, &distance), expected[i].name);
        if (strcmp(expected[i].name, "none") != 0)
            CHECK_EQ(distance, expected[i].distance);
    }
    close_file(&own);
}

TEST(an_address_outside_of_the_file_has_no_symbol)
{
    uint64_t distance;
    struct file own = open_file(own_path());

    CHECK(symtable_find(own.table, 0, &distance) == NULL);
    CHECK(is_as_libdw_says(&own, UINT64_MAX));
    close_file(&own);
    symtable_free(NULL);
}
