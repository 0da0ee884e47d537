/* SPDX-License-Identifier: MIT */
/* covers: symbols.c symcache.c */
#include "tests/check.h"

#include "tools/base/filename.h"
#include "tools/symbols/symbols.h"
#include "tools/symbols/symcache.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdlib.h>
#include <unistd.h>

/* The address of the call, as a capture has it: one byte before the return address. */
static __attribute__((noinline)) uintptr_t caller(void)
{
    return (uintptr_t)__builtin_return_address(0) - 1;
}

/* Inlined into its caller, so that one machine frame is two lines. */
static inline __attribute__((always_inline)) uintptr_t inner_place(int *line)
{
    *line = __LINE__ + 1;
    uintptr_t at = caller();
    __asm__ volatile("" ::: "memory"); /* no tail call */
    return at;
}

static __attribute__((noinline)) uintptr_t outer_place(int *inner_line, int *call_line)
{
    *call_line = __LINE__ + 1;
    uintptr_t at = inner_place(inner_line);
    __asm__ volatile("" ::: "memory");
    return at;
}

static int find_base(struct dl_phdr_info *info, size_t size, void *base)
{
    (void)size;
    *(uintptr_t *)base = info->dlpi_addr; /* the program comes first */
    return 1;
}

static uintptr_t load_bias(void)
{
    uintptr_t base = 0;
    (void)dl_iterate_phdr(find_base, &base);
    return base;
}

/* The build-id of this program, from its own note. */
static int find_note(struct dl_phdr_info *info, size_t size, void *out)
{
    struct trace_module *module = out;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        const unsigned char *at = (const unsigned char *)(info->dlpi_addr + header->p_vaddr);
        const unsigned char *end = at + header->p_memsz;
        while (header->p_type == PT_NOTE && at + sizeof(ElfW(Nhdr)) <= end) {
            ElfW(Nhdr) note;
            memcpy(&note, at, sizeof(note));
            at += sizeof(note);
            size_t name = (note.n_namesz + 3u) & ~3u;
            if (note.n_type == 3 && note.n_namesz == 4 && memcmp(at, "GNU", 4) == 0) {
                module->build_id_length = (uint8_t)note.n_descsz;
                memcpy(module->build_id, at + name, note.n_descsz);
                return 1;
            }
            at += name + ((note.n_descsz + 3u) & ~3u);
        }
    }
    return 1;
}

static char *own_path(void)
{
    return realpath("/proc/self/exe", NULL);
}

/* A trace with one stack of one frame at `address` of `module`. */
static struct trace *trace_of(struct trace_module module, uint64_t offset)
{
    struct trace *trace = trace_new();
    uint32_t number = trace_add_module(trace, &module);
    struct trace_frame frame = {number, offset};
    (void)trace_add_stack(trace, &frame, 1, false);
    return trace;
}

TEST(inlined_calls_are_lines_of_their_own)
{
    int inner_line;
    int call_line;
    uintptr_t at = outer_place(&inner_line, &call_line);
    struct trace_module module = {.path = own_path(), .is_program = true};
    (void)dl_iterate_phdr(find_note, &module);
    struct trace *trace = trace_of(module, at - load_bias());
    struct symbols *symbols = symbols_new(trace);
    size_t count;
    const struct symbols_line *lines = symbols_stack(symbols, 1, &count);

    REQUIRE_EQ(count, 2);
    CHECK_STR_EQ(lines[0].function, "inner_place");
    CHECK_STR_EQ(lines[1].function, "outer_place");
    CHECK_STR_EQ(filename_of(lines[0].file), "symbols_test.c");
    CHECK_EQ(lines[0].line, (unsigned)inner_line);
    CHECK_EQ(lines[1].line, (unsigned)call_line);
    char want[64];
    (void)snprintf(want, sizeof(want), "inner_place symbols_test.c:%d", inner_line);
    CHECK_STR_EQ(symbols_site(symbols, 1), want);
    CHECK_STR_EQ(symbols_owner(symbols, 1), module.path);
    CHECK(symbols_trouble(symbols, 0) == NULL);
    symbols_free(symbols);
    trace_free(trace);
    free(module.path);
}

TEST(another_build_gets_no_names_but_a_note)
{
    struct trace_module module = {
            .path = own_path(), .is_program = true, .build_id = {1, 2, 3}, .build_id_length = 20};
    struct trace *trace = trace_of(module, 0x1234);
    struct symbols *symbols = symbols_new(trace);
    size_t count;
    const struct symbols_line *lines = symbols_stack(symbols, 1, &count);
    REQUIRE_EQ(count, 1);
    CHECK_STR_EQ(lines[0].function, "symbols_test+0x1234");
    CHECK(lines[0].file == NULL);
    REQUIRE(symbols_trouble(symbols, 0) != NULL);
    CHECK(strstr(symbols_trouble(symbols, 0), "rebuilt since the capture") != NULL);
    CHECK(symbols_trouble(symbols, 1) == NULL);
    symbols_free(symbols);
    trace_free(trace);
    free(module.path);
}

static char *own_bytes(size_t *ret_size)
{
    char *path = own_path();
    FILE *file = fopen(path, "rb");
    char *bytes;

    REQUIRE(file && fseek(file, 0, SEEK_END) == 0);
    *ret_size = (size_t)ftell(file);
    rewind(file);
    bytes = malloc(*ret_size);
    REQUIRE(bytes && fread(bytes, 1, *ret_size, file) == *ret_size);
    (void)fclose(file);
    free(path);
    return bytes;
}

/* Says of .debug_info that it is compressed, by a method that nobody knows yet. */
static void compress_anew(char *bytes)
{
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)(void *)bytes;
    Elf64_Shdr *sections = (Elf64_Shdr *)(void *)(bytes + head->e_shoff);
    const char *names = bytes + sections[head->e_shstrndx].sh_offset;
    bool is_there = false;

    for (unsigned i = 0; i < head->e_shnum; i++) {
        if (strcmp(names + sections[i].sh_name, ".debug_info") != 0)
            continue;
        Elf64_Chdr change = {.ch_type = 0x5eed, .ch_size = sections[i].sh_size, .ch_addralign = 1};
        memcpy(bytes + sections[i].sh_offset, &change, sizeof(change));
        sections[i].sh_flags |= SHF_COMPRESSED;
        is_there = true;
    }
    REQUIRE(is_there);
}

TEST(debug_information_that_is_packed_in_a_newer_way_is_told)
{
    char path[] = "/tmp/kedge-symbols-XXXXXX";
    int fd = mkstemp(path);
    size_t size;
    char *bytes = own_bytes(&size);
    struct trace_module module = {.path = path, .is_program = true};
    uintptr_t at = (uintptr_t)&own_bytes;

    compress_anew(bytes);
    REQUIRE(fd >= 0 && write(fd, bytes, size) == (ssize_t)size && close(fd) == 0);
    (void)dl_iterate_phdr(find_note, &module);
    struct trace *trace = trace_of(module, at - load_bias() + 2);
    struct symbols *symbols = symbols_new(trace);
    size_t count;
    const struct symbols_line *lines = symbols_stack(symbols, 1, &count);
    REQUIRE_EQ(count, 1);
    CHECK_STR_EQ(lines[0].function, "own_bytes+0x2");
    CHECK(lines[0].file == NULL);
    REQUIRE(symbols_trouble(symbols, 0) != NULL);
    CHECK(strstr(symbols_trouble(symbols, 0), path) != NULL);
    CHECK(strstr(symbols_trouble(symbols, 0), "its frames have no lines") != NULL);
    CHECK(symbols_trouble(symbols, 1) == NULL);
    symbols_free(symbols);
    trace_free(trace);
    free(bytes);
    (void)unlink(path);
}

TEST(a_missing_file_gives_module_and_address)
{
    struct trace_module module = {.path = (char[]){"/nowhere/libx.so"}, .is_program = true};
    struct trace *trace = trace_of(module, 0x40);
    struct symbols *symbols = symbols_new(trace);
    CHECK_STR_EQ(symbols_site(symbols, 1), "libx.so+0x40 libx.so");
    CHECK(strstr(symbols_trouble(symbols, 0), "/nowhere/libx.so") != NULL);
    symbols_free(symbols);
    trace_free(trace);
}

TEST(without_line_numbers_the_symbol_and_its_distance_are_given)
{
    void *library = dlopen(PLAIN_LIBRARY, RTLD_NOW); /* built without debug information */
    REQUIRE(library != NULL);
    void *function = dlsym(library, "cudaGetDeviceCount");
    Dl_info info;
    struct link_map *map = NULL;
    REQUIRE(function && dladdr1(function, &info, (void **)&map, RTLD_DL_LINKMAP));
    struct trace_module module = {.path = realpath(info.dli_fname, NULL)};
    struct trace *trace = trace_of(module, (uintptr_t)function + 3 - map->l_addr);
    struct symbols *symbols = symbols_new(trace);
    size_t count;
    const struct symbols_line *lines = symbols_stack(symbols, 1, &count);
    REQUIRE_EQ(count, 1);
    CHECK(lines[0].file == NULL);
    CHECK_STR_EQ(lines[0].function, "cudaGetDeviceCount+0x3");
    CHECK(!lines[0].is_ours);
    symbols_free(symbols);
    trace_free(trace);
    free(module.path);
}

TEST(code_in_no_module_and_no_stack_at_all_have_words_too)
{
    struct trace *trace = trace_new();
    struct trace_frame frame = {TRACE_NONE, 0x7f00};
    uint32_t stack = trace_add_stack(trace, &frame, 1, false);
    struct symbols *symbols = symbols_new(trace);
    CHECK_STR_EQ(symbols_site(symbols, stack), "?+0x7f00 ");
    CHECK_STR_EQ(symbols_site(symbols, 0), "(no stack)");
    CHECK_STR_EQ(symbols_owner(symbols, 0), "");
    symbols_free(symbols);
    trace_free(trace);
}

TEST(the_site_is_the_innermost_frame_of_the_program)
{
    struct trace *trace = trace_new();
    struct trace_module cuda = {.path = (char[]){"/x/libcudart.so"}};
    struct trace_module mine = {.path = (char[]){"/x/app"}, .is_program = true};
    uint32_t a = trace_add_module(trace, &cuda);
    uint32_t b = trace_add_module(trace, &mine);
    struct trace_frame frames[] = {{a, 1}, {b, 2}, {b, 3}};
    uint32_t stack = trace_add_stack(trace, frames, 3, false);
    struct symbols *symbols = symbols_new(trace);
    CHECK_STR_EQ(symbols_site(symbols, stack), "app+0x2 app");
    CHECK_STR_EQ(symbols_owner(symbols, stack), "/x/app");
    symbols_free(symbols);
    trace_free(trace);
}

TEST(names_of_a_bundle_stay_with_their_module)
{
    /* Old captures know nothing of a module without a build-id but its path. */
    static const char text[] = "kedge-symbols\t1\n"
                               "m\t-\t0\t/lib/a.so\t\nf\t10\nl\tof_a\ta.c\t1\n"
                               "m\t-\t0\t/lib/b.so\t\nf\t10\nl\tof_b\tb.c\t2\n"
                               "m\t-\t7\t/lib/c.so\t\nf\t10\nl\tof_c\tc.c\t3\n"
                               "m\t-\t7\t/lib/d.so\t\nf\t10\nl\tof_d\td.c\t4\n"
                               "m\t0102\t0\t/lib/e.so\t\nf\t10\nl\tof_e\te.c\t5\n"
                               "m\t0102\t0\t/lib/again/e.so\t\nf\t10\nl\tof_e\te.c\t5\n";
    static const struct {
        const char *path;
        uint64_t identity;
        uint8_t build_id_length;
        const char *function;
    } wanted[] = {{"/lib/a.so", 0, 0, "of_a"}, {"/lib/b.so", 0, 0, "of_b"},
            {"/lib/c.so", 7, 0, "of_c"}, {"/lib/d.so", 7, 0, "of_d"}, {"/lib/e.so", 0, 2, "of_e"},
            {"/lib/moved/e.so", 0, 2, "of_e"}};
    char *why = NULL;
    struct symcache *cache = symcache_read(text, sizeof(text) - 1, &why);
    const struct dwarfnames_line *lines = NULL;
    const char *note;
    uint32_t number;
    size_t count;

    REQUIRE(cache != NULL);
    for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++) {
        struct trace_module module = {.path = (char *)(uintptr_t)wanted[i].path,
                .identity = wanted[i].identity,
                .build_id = {1, 2},
                .build_id_length = wanted[i].build_id_length};
        REQUIRE(symcache_has_module(cache, &module, &number, &note));
        REQUIRE(symcache_find(cache, number, 0x10, &lines, &count));
        REQUIRE_EQ(count, 1);
        CHECK_STR_EQ(lines[0].function, wanted[i].function);
    }
    struct trace_module other = {.path = (char *)(uintptr_t) "/lib/a.so", .identity = 1};
    CHECK(!symcache_has_module(cache, &other, &number, &note));
    symcache_free(cache);
}
