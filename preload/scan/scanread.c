/* SPDX-License-Identifier: MIT */
#include "preload/scan/scanread.h"

#include "tracker/stacks/modules.h"

#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define SCANREAD_TLS_MAX (UINT64_C(1) << 20)

/* Bits of a head, as in glibc's malloc since 2.3. */
enum {
    HEAD_BEFORE_IN_USE = 1,
    HEAD_MAPPED = 2,
    HEAD_BITS = 7,
    HEAD_LEAST = 32, /* bytes of the smallest block with its head */
};

/* ---- reading -------------------------------------------------------------------------------- */

size_t scanread_some(void *to, uint64_t from, size_t bytes)
{
    /* NOLINTNEXTLINE(performance-no-int-to-ptr) */
    struct iovec there = {(void *)from, bytes};
    struct iovec here = {to, bytes};
    long got = syscall(SYS_process_vm_readv, getpid(), &here, 1L, &there, 1L, 0L);

    return got > 0 ? (size_t)got : 0;
}

uint64_t scanread_word(uint64_t from)
{
    uint64_t word;

    return scanread_some(&word, from, sizeof word) == sizeof word ? word : 0;
}

const uint64_t *scanread_page(struct scanread *read, uint64_t number)
{
    struct scanread_page *page = &read->page[number % SCANREAD_PAGES];

    if (page->number != number) {
        page->number = number;
        page->is_there = scanread_some(page->word, number * SCANREAD_PAGE, sizeof page->word)
                == sizeof page->word;
    }
    return page->is_there ? page->word : NULL;
}

/* The aligned word at `from`, by pages. */
static bool scanread_paged(struct scanread *read, uint64_t from, uint64_t *ret_word)
{
    const uint64_t *page = scanread_page(read, from / SCANREAD_PAGE);

    if (page)
        *ret_word = page[from % SCANREAD_PAGE / sizeof *page];
    return page;
}

bool scanread_works(void)
{
    uint64_t word = 1;

    return scanread_word((uintptr_t)&word) == 1;
}

size_t scanread_file(const char *path, char *to, size_t room)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t length = 0;
    ssize_t got = fd >= 0 ? 1 : 0;

    while (got > 0 && length < room - 1) {
        got = read(fd, to + length, room - 1 - length);
        length += got > 0 ? (size_t)got : 0;
    }
    if (fd >= 0)
        (void)close(fd);
    to[length] = '\0';
    return length;
}

/* ---- maps ----------------------------------------------------------------------------------- */

/* "low-high rw-p offset device inode" of a line, without a file behind it. */
static bool scanread_take_map(const char *line, struct scanread_map *ret_map)
{
    char *at;

    ret_map->low = strtoull(line, &at, 16);
    if (*at != '-')
        return false;
    ret_map->high = strtoull(at + 1, &at, 16);
    if (strncmp(at, " rw-p ", 6) != 0)
        return false;
    (void)strtoull(at + 6, &at, 16); /* offset */
    at = *at == ' ' ? strchr(at + 1, ' ') : NULL;
    return at && strtoull(at, NULL, 10) == 0;
}

static void scanread_add_map(struct scanread *read, const char *line)
{
    struct scanread_map map;

    if (!scanread_take_map(line, &map))
        return;
    if (read->maps == SCANREAD_MAPS_MAX)
        read->is_cut = true;
    else
        read->map[read->maps++] = map;
}

static void scanread_all_maps(struct scanread *ret_read)
{
    char text[4096], line[128]; /* a longer line is that of a file */
    size_t length = 0;
    ssize_t got = 1;
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);

    while (fd >= 0 && (got = read(fd, text, sizeof text)) > 0)
        for (ssize_t i = 0; i < got; i++) {
            if (text[i] != '\n') {
                if (length < sizeof line - 1)
                    line[length++] = text[i];
                continue;
            }
            line[length] = '\0';
            length = 0;
            scanread_add_map(ret_read, line);
        }
    if (fd >= 0)
        (void)close(fd);
}

const struct scanread_map *scanread_map_of(const struct scanread *read, uint64_t address)
{
    uint32_t low = 0;
    uint32_t high = read->maps;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (read->map[middle].high <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < read->maps && read->map[low].low <= address ? &read->map[low] : NULL;
}

/* ---- objects -------------------------------------------------------------------------------- */

/* Keeps them by address: nearly sorted, some hundreds, and qsort may call malloc. */
static void scanread_insert(struct scanread *read, const struct scanread_object *object)
{
    uint32_t at = read->objects++;

    for (; at > 0 && read->object[at - 1].low > object->low; at--)
        read->object[at] = read->object[at - 1];
    read->object[at] = *object;
}

static void scanread_add_segment(
        struct scanread *read, const struct dl_phdr_info *info, const ElfW(Phdr) * segment)
{
    uint64_t low = info->dlpi_addr + segment->p_vaddr;

    if (segment->p_type == PT_LOAD && (segment->p_flags & (PF_X | PF_W)))
        scanread_insert(read,
                &(struct scanread_object){.low = low,
                        .high = low + segment->p_memsz,
                        .bias = info->dlpi_addr,
                        .is_code = (segment->p_flags & PF_X) != 0});
    else if (segment->p_type == PT_TLS)
        read->tls[read->tlses++] = (struct scanread_tls){.bytes = segment->p_memsz,
                .place = low,
                .number = info->dlpi_tls_modid,
                .here = (uintptr_t)info->dlpi_tls_data};
}

/* Under the loader's lock: copies only. */
static int scanread_add_object(struct dl_phdr_info *info, size_t size, void *data)
{
    struct scanread *read = data;

    (void)size; /* the last member is there since glibc 2.4 */
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        read->is_cut = read->objects == SCANREAD_OBJECTS_MAX || read->tlses == SCANREAD_OBJECTS_MAX;
        if (read->is_cut)
            return 1;
        scanread_add_segment(read, info, &info->dlpi_phdr[i]);
    }
    return 0;
}

const struct scanread_object *scanread_code_of(const struct scanread *read, uint64_t address)
{
    uint32_t low = 0;
    uint32_t high = read->objects;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (read->object[middle].high <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < read->objects && read->object[low].is_code && read->object[low].low <= address
            ? &read->object[low]
            : NULL;
}

/* A call has 5 bytes and begins with e8, or ff and a register or an address. */
bool scanread_is_return(const struct scanread *read, uint64_t word)
{
    static const uint8_t others[] = {2, 3, 4, 6, 7};
    uint8_t code[8];

    if (!scanread_code_of(read, word)
            || scanread_some(code, word - sizeof code, sizeof code) != sizeof code)
        return false;
    if (code[3] == 0xe8)
        return true;
    for (size_t i = 0; i < sizeof others; i++) {
        const uint8_t *call = code + sizeof code - others[i];

        if (call[0] == 0xff && (call[1] >> 3 & 7) == 2)
            return true;
    }
    return false;
}

/* The number and kind of the file that is loaded at an address; what has gone is left alone. */
static uint32_t scanread_module(uint64_t address, enum intern_module_kind *ret_kind)
{
    uint32_t module = modules_at(address);
    const struct intern_module *of = module ? intern_module_at(module) : NULL;

    *ret_kind = of ? of->kind : INTERN_MODULE_LIBC;
    return module;
}

uint64_t scanread_own_data(void)
{
    uint64_t data;

    __asm__("mov %%fs:0, %0" : "=r"(data));
    return data;
}

void scanread_begin(struct scanread *ret_read)
{
    enum intern_module_kind kind;
    uint64_t data = scanread_own_data();

    (void)dl_iterate_phdr(scanread_add_object, ret_read);
    for (uint32_t i = 0; i < ret_read->objects; i++) {
        struct scanread_object *object = &ret_read->object[i];

        object->module = scanread_module(object->low, &object->kind);
    }
    for (uint32_t i = 0; i < ret_read->tlses; i++) {
        struct scanread_tls *tls = &ret_read->tls[i];

        tls->module = scanread_module(tls->place, &tls->kind);
        if (tls->here < data && data - tls->here < SCANREAD_TLS_MAX
                && data - tls->here > ret_read->tls_bytes)
            ret_read->tls_bytes = data - tls->here;
    }
    scanread_all_maps(ret_read);
    (void)scanread_module((uintptr_t)&malloc, &kind);
    ret_read->has_malloc = kind == INTERN_MODULE_LIBC;
}

/* ---- malloc --------------------------------------------------------------------------------- */

static bool scanread_chunk_at(
        struct scanread *read, uint64_t address, uint64_t *ret_address, uint64_t *ret_size)
{
    const struct scanread_map *map = scanread_map_of(read, address);
    uint64_t before, head, size, next; /* before: bytes before a mapped block */

    if (!map || address < map->low + 16 || !scanread_paged(read, address - 16, &before)
            || !scanread_paged(read, address - 8, &head))
        return false;
    size = head & ~(uint64_t)HEAD_BITS;
    if (size < HEAD_LEAST || size % 16 != 0 || size > map->high - address + 16)
        return false;
    *ret_address = address;
    if (head & HEAD_MAPPED) {
        *ret_size = size - 16;
        return before < SCANREAD_PAGE && (address - 16 - before) % SCANREAD_PAGE == 0
                && (size + before) % SCANREAD_PAGE == 0;
    }
    if (size > map->high - address || !scanread_paged(read, address + size - 8, &next))
        return false;
    *ret_size = size - 8;
    return (next & HEAD_BEFORE_IN_USE) && !(next & HEAD_MAPPED)
            && (next & ~(uint64_t)HEAD_BITS) >= 16 && next >> 48 == 0;
}

bool scanread_chunk(struct scanread *read, uint64_t word, uint64_t *ret_address, uint64_t *ret_size)
{
    if (!read->has_malloc || word % 8 != 0)
        return false;
    return scanread_chunk_at(read, word & ~(uint64_t)15, ret_address, ret_size);
}
