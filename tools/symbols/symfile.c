/* SPDX-License-Identifier: MIT */
#include "tools/symbols/symfile.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/base/vec.h"
#include "tools/symbols/buildid.h"
#include "tracker/reader/readbuild.h"

char *symfile_folders = (char[]){":.debug:/usr/lib/debug"};

/* The folder where debuginfod-find stores what it fetched; the caller frees it. NULL: none. */
static char *cache_folder(void)
{
    const char *own = getenv("DEBUGINFOD_CACHE_PATH");
    const char *xdg = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");

    if (own && *own)
        return vec_text(own);
    if (xdg && *xdg)
        return vec_format("%s/debuginfod_client", xdg);
    return home && *home ? vec_format("%s/.cache/debuginfod_client", home) : NULL;
}

/* libdw's own search, without the network: it uses the network only if DEBUGINFOD_URLS is set. */
static int find_by_libdw(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base,
        const char *file, const char *link, GElf_Word crc, char **ret_file)
{
    const char *urls = getenv("DEBUGINFOD_URLS");
    char *kept = urls ? vec_text(urls) : NULL;
    int fd;

    (void)unsetenv("DEBUGINFOD_URLS");
    fd = dwfl_standard_find_debuginfo(module, userdata, name, base, file, link, crc, ret_file);
    if (kept)
        (void)setenv("DEBUGINFOD_URLS", kept, 1);
    free(kept);
    return fd;
}

/* Frees the path, which may be NULL; libdw frees *ret_file. */
static int open_found(char *path, char **ret_file)
{
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;

    if (fd >= 0)
        *ret_file = strdup(path);
    free(path);
    return fd;
}

static int find_in_cache(Dwfl_Module *module, char **ret_file)
{
    char hex[BUILDID_TEXT_MAX];
    const unsigned char *bits;
    GElf_Addr address;
    int length = dwfl_module_build_id(module, &bits, &address);
    char *folder = length > 0 && (size_t)length <= BUILDID_TEXT_MAX / 2 ? cache_folder() : NULL;

    if (!folder)
        return -1;
    buildid_text(bits, (size_t)length, hex);
    char *path = vec_format("%s/%s/debuginfo", folder, hex);
    free(folder);
    return open_found(path, ret_file);
}

static int find_packed(const struct symfile *file, char **ret_file)
{
    return open_found(
            file->packed_debug ? bundle_module(file->packed, file->packed_debug) : NULL, ret_file);
}

static int find_debuginfo(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base,
        const char *file, const char *link, GElf_Word crc, char **ret_file)
{
    int fd = *userdata ? find_packed(*userdata, ret_file) : -1;

    if (fd < 0)
        fd = find_by_libdw(module, userdata, name, base, file, link, crc, ret_file);
    return fd >= 0 ? fd : find_in_cache(module, ret_file);
}

static bool symfile_is_same_build(
        Dwfl_Module *module, const char *path, const struct trace_module *captured)
{
    const unsigned char *bits;
    GElf_Addr address;
    size_t room = sizeof(captured->build_id);

    if (captured->build_id_length == 0) /* a module with text relocations has no identity either */
        return captured->identity == 0
                || readbuild_is_same(path, captured->path, captured->identity);
    int length = dwfl_module_build_id(module, &bits, &address);
    if (length <= 0)
        return false;
    size_t common = (size_t)length < room ? (size_t)length : room;
    return common == captured->build_id_length && memcmp(bits, captured->build_id, common) == 0;
}

void symfile_paths(const struct symfile *file, const char **ret_main, const char **ret_debug)
{
    *ret_main = NULL;
    *ret_debug = NULL;
    if (file->module)
        (void)dwfl_module_info(file->module, NULL, NULL, NULL, NULL, NULL, ret_main, ret_debug);
}

/*
 * Whether there is debug information that this libdw cannot decompress. libdw does not report that:
 * it behaves as if the file had none, or only the small sections that were not compressed. zlib
 * always works; the others are tried, in this handle alone.
 */
static bool is_packed_anew(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    Elf *elf = fd >= 0 ? elf_begin(fd, ELF_C_READ_MMAP, NULL) : NULL;
    Elf_Scn *section = NULL;
    bool is_so = false;
    size_t names;

    if (elf && elf_getshdrstrndx(elf, &names) == 0)
        while (!is_so && (section = elf_nextscn(elf, section)) != NULL) {
            GElf_Shdr head;
            GElf_Chdr packing;
            const char *name =
                    gelf_getshdr(section, &head) ? elf_strptr(elf, names, head.sh_name) : NULL;
            if (!name || strcmp(name, ".debug_info") != 0 || !(head.sh_flags & SHF_COMPRESSED))
                continue;
            is_so = !gelf_getchdr(section, &packing)
                    || (packing.ch_type != ELFCOMPRESS_ZLIB && elf_compress(section, 0, 0) < 0);
        }
    elf_end(elf);
    if (fd >= 0)
        (void)close(fd);
    return is_so;
}

/* NULL: there are lines, or there is no debug information. The caller frees it. */
static char *why_no_lines(const struct symfile *file, const struct trace_module *captured)
{
    const char *main_path;
    const char *debug_path;

    symfile_paths(file, &main_path, &debug_path);
    const char *path = debug_path ? debug_path : main_path;
    if (!path || !is_packed_anew(path))
        return NULL;
    return vec_format("%s: its debug information is packed in a way that this libdw does not know, "
                      "its frames have no lines",
            captured->path);
}

enum found {
    FOUND_NONE,  /* no such file */
    FOUND_OTHER, /* another build */
    FOUND_NO_ELF,
    FOUND_SAME,
};

static enum found try_file(
        struct symfile *file, const char *path, const struct trace_module *captured)
{
    static const Dwfl_Callbacks callbacks = {
            .find_elf = dwfl_build_id_find_elf,
            .find_debuginfo = find_debuginfo,
            .section_address = dwfl_offline_section_address,
            .debuginfo_path = &symfile_folders,
    };
    Dwfl_Module *module;
    struct stat status;

    if (access(path, R_OK) != 0 || stat(path, &status) != 0)
        return FOUND_NONE;
    if (!S_ISREG(status.st_mode))
        return FOUND_NO_ELF; /* libdw would wait for a writer of a pipe */
    file->dwfl = dwfl_begin(&callbacks);
    if (!file->dwfl)
        return FOUND_NONE;
    dwfl_report_begin(file->dwfl);
    module = dwfl_report_offline(file->dwfl, captured->path, path, -1);
    (void)dwfl_report_end(file->dwfl, NULL, NULL);
    if (module && symfile_is_same_build(module, path, captured)) {
        GElf_Addr bias;
        void **user = NULL;
        (void)dwfl_module_info(module, &user, NULL, NULL, NULL, NULL, NULL, NULL);
        *user = file;
        file->module = module;
        (void)dwfl_module_getdwarf(module, &bias); /* makes libdw look for the debug file now */
        file->why = why_no_lines(file, captured);
        return FOUND_SAME;
    }
    dwfl_end(file->dwfl);
    file->dwfl = NULL;
    return module ? FOUND_OTHER : FOUND_NO_ELF;
}

static bool try_and_free(struct symfile *file, char *path, const struct trace_module *captured)
{
    bool is_found = try_file(file, path, captured) == FOUND_SAME;

    free(path);
    return is_found;
}

/* The captured build itself, in any folder. */
static bool try_build_id(struct symfile *file, const struct trace_module *captured)
{
    char *folders = vec_text(symfile_folders);
    char *cache = cache_folder();
    char *rest = folders;
    char hex[BUILDID_TEXT_MAX];
    bool is_found = false;
    char *folder;

    buildid_text(captured->build_id, captured->build_id_length, hex);
    while (!is_found && captured->build_id_length > 1 && (folder = strsep(&rest, ":")) != NULL) {
        if (*folder == '+' || *folder == '-')
            folder++;
        if (*folder == '/')
            is_found = try_and_free(file, vec_format("%s/.build-id/%.2s/%s", folder, hex, hex + 2),
                               captured)
                    || try_and_free(file,
                            vec_format("%s/.build-id/%.2s/%s.debug", folder, hex, hex + 2),
                            captured);
    }
    if (!is_found && cache && captured->build_id_length > 0)
        is_found = try_and_free(file, vec_format("%s/%s/executable", cache, hex), captured)
                || try_and_free(file, vec_format("%s/%s/debuginfo", cache, hex), captured);
    free(cache);
    free(folders);
    return is_found;
}

char *symfile_packed_name(const struct trace_module *captured, bool is_debug)
{
    const char *slash = strrchr(captured->path, '/');
    const char *end = is_debug ? ".debug" : "";
    char hex[BUILDID_TEXT_MAX];

    buildid_text(captured->build_id, captured->build_id_length, hex);
    if (captured->build_id_length > 1)
        return vec_format(".build-id/%.2s/%s%s", hex, hex + 2, end);
    if (captured->build_id_length || !captured->identity || !slash)
        return NULL;
    return vec_format("identity/%016" PRIx64 "-%s%s", captured->identity, slash + 1, end);
}

/* From a bundle. Its debug file is useful, too, if the module itself is found elsewhere. */
static bool try_packed(struct symfile *file, const struct trace_module *captured)
{
    char *name = symfile_packed_name(captured, false);
    char *path = name ? bundle_module(file->packed, name) : NULL;

    if (name)
        file->packed_debug = symfile_packed_name(captured, true);
    free(name);
    return path && try_and_free(file, path, captured);
}

void symfile_open(const struct trace_module *captured, struct bundle_modules *packed,
        struct symfile *ret_file)
{
    static const char *const whys[] = {
            [FOUND_NONE] = "not readable on this machine, its frames have no names",
            [FOUND_OTHER] = "rebuilt since the capture, its frames have no names",
            [FOUND_NO_ELF] = "no ELF file, its frames have no names",
    };
    enum found found;

    *ret_file = (struct symfile){.packed = packed};
    if (captured->path[0] != '/')
        return; /* vdso, generated code */
    if (packed && try_packed(ret_file, captured))
        return;
    found = try_file(ret_file, captured->path, captured);
    if (found != FOUND_SAME && !try_build_id(ret_file, captured))
        ret_file->why = vec_format("%s: %s", captured->path, whys[found]);
}

void symfile_close(struct symfile *file)
{
    if (file->dwfl)
        dwfl_end(file->dwfl);
    free(file->why);
    free(file->packed_debug);
    *file = (struct symfile){0};
}
