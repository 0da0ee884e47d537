/* SPDX-License-Identifier: MIT */
#include "tools/symbols/bundle.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/base/vec.h"

#define FOLDER        "kedge-bundle"
#define ABOUT_NAME    FOLDER "/about"
#define SYMBOLS_NAME  FOLDER "/symbols"
#define CAPTURE_NAME  FOLDER "/capture.kcap"
#define MODULES_NAME  FOLDER "/modules/"
#define BLOCK_BYTES   4096u
#define READ_BYTES    (1u << 16)
#define UNPACKED_BASE (UINT64_C(64) << 20)
#define UNPACKED_RATE UINT64_C(1024)
#define LENGTH_MAX    (UINT64_C(64) << 30) /* limit for the capture, holes included */
#define ENTRIES_MAX   10000u

/* ---- is it one? ---- */

bool bundle_is(const char *path)
{
    unsigned char head[262] = {0};
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t got;

    if (fd < 0)
        return false;
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
        (void)close(fd);
        return S_ISDIR(status.st_mode);
    }
    got = read(fd, head, sizeof(head));
    (void)close(fd);
    return (got >= 4 && memcmp(head, "\x28\xb5\x2f\xfd", 4) == 0) /* zstd */
            || (got >= 2 && memcmp(head, "\x1f\x8b", 2) == 0)     /* gzip */
            /* tar without compression */
            || (got == sizeof(head) && memcmp(head + 257, "ustar", 5) == 0);
}

/* ---- reading ---- */

struct module_file {
    char *name; /* under modules/ */
    int fd;
};

struct bundle_modules {
    char *path;
    bool is_folder, is_unpacked;
    struct module_file *files;
    size_t count, room;
    char *why;
};

struct unpack {
    struct archive *archive;
    struct bundle_modules *modules; /* NULL: all but these are wanted, else only these */
    uint64_t most, left;        /* bytes that may (still) be unpacked, apart from empty blocks */
    int capture_fd, symbols_fd; /* -1: not found */
    bool is_ours;               /* the file "about" was found */
    char *why;
};

static int give_up(struct unpack *unpack, char *why)
{
    free(unpack->why);
    unpack->why = why;
    return -1;
}

static int too_much(struct unpack *unpack)
{
    return give_up(unpack, vec_text("not a bundle: more in it than its length allows"));
}

static int archive_fault(struct unpack *unpack)
{
    const char *text = archive_error_string(unpack->archive);

    return give_up(unpack, vec_format("not a whole bundle: %s", text ? text : "cut off"));
}

static int nameless_file(void)
{
    const char *folder = getenv("TMPDIR");
    int fd = open(folder && *folder ? folder : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

    return fd >= 0 ? fd : memfd_create("kedge-capture", MFD_CLOEXEC);
}

/* Zeroes are skipped as holes: captures are mostly empty. */
static int write_blocks(struct unpack *unpack, int fd, const char *from, size_t bytes, off_t at)
{
    static const char zeroes[BLOCK_BYTES];

    while (bytes > 0) {
        size_t now = bytes < BLOCK_BYTES ? bytes : BLOCK_BYTES;
        if (memcmp(from, zeroes, now) != 0) {
            if (now > unpack->left)
                return too_much(unpack);
            unpack->left -= now;
            if (pwrite(fd, from, now, at) != (ssize_t)now)
                return give_up(unpack, vec_format("cannot unpack: %s", strerror(errno)));
        }
        from += now;
        bytes -= now;
        at += (off_t)now;
    }
    return 0;
}

static int unpack_file(struct unpack *unpack, int fd)
{
    const void *from;
    size_t bytes;
    la_int64_t at = 0;
    off_t end = 0;
    int r;

    if (fd < 0)
        return give_up(unpack, vec_format("no place to unpack: %s", strerror(errno)));
    while ((r = archive_read_data_block(unpack->archive, &from, &bytes, &at)) == ARCHIVE_OK) {
        if (at < 0 || (uint64_t)at + bytes > LENGTH_MAX)
            return too_much(unpack);
        if (write_blocks(unpack, fd, from, bytes, (off_t)at) < 0)
            return -1;
        if (end < (off_t)at + (off_t)bytes)
            end = (off_t)at + (off_t)bytes;
    }
    if (r != ARCHIVE_EOF)
        return archive_fault(unpack);
    if (ftruncate(fd, end) != 0)
        return give_up(unpack, vec_format("cannot unpack: %s", strerror(errno)));
    return 0;
}

static int unpack_once(struct unpack *unpack, int *io_fd)
{
    if (*io_fd >= 0)
        return give_up(unpack, vec_text("not a bundle: a part of it is there twice"));
    *io_fd = nameless_file();
    return unpack_file(unpack, *io_fd);
}

/* The name of a file in the archive, NULL: an unknown file. */
static const char *bundle_name_of(struct archive_entry *entry)
{
    const char *name = archive_entry_pathname(entry);

    if (!name || archive_entry_filetype(entry) != AE_IFREG)
        return NULL;
    return strncmp(name, "./", 2) == 0 ? name + 2 : name;
}

/* Unpacks the file only to skip it. */
static int bundle_pass_over(struct unpack *unpack, struct archive_entry *entry)
{
    if (archive_entry_size(entry) < 0 || (uint64_t)archive_entry_size(entry) > unpack->left)
        return too_much(unpack);
    unpack->left -= (uint64_t)archive_entry_size(entry);
    return 0;
}

static int unpack_entry(struct unpack *unpack, struct archive_entry *entry)
{
    const char *name = bundle_name_of(entry);

    if (!name)
        return 0;
    if (strcmp(name, ABOUT_NAME) == 0)
        unpack->is_ours = true;
    if (strcmp(name, CAPTURE_NAME) == 0)
        return unpack_once(unpack, &unpack->capture_fd);
    if (strcmp(name, SYMBOLS_NAME) == 0)
        return unpack_once(unpack, &unpack->symbols_fd);
    return bundle_pass_over(unpack, entry);
}

static int unpack_module(struct unpack *unpack, struct archive_entry *entry)
{
    struct bundle_modules *modules = unpack->modules;
    const char *name = bundle_name_of(entry);

    if (!name)
        return 0;
    if (strncmp(name, MODULES_NAME, strlen(MODULES_NAME)) != 0)
        return bundle_pass_over(unpack, entry);
    VEC_PUSH(modules->files, modules->count, modules->room) = (struct module_file){
            .name = vec_text(name + strlen(MODULES_NAME)), .fd = nameless_file()};
    return unpack_file(unpack, modules->files[modules->count - 1].fd);
}

static int unpack_all(struct unpack *unpack)
{
    struct archive_entry *entry;
    int r = 0;

    for (unsigned i = 0; r == 0; i++) {
        int got = archive_read_next_header(unpack->archive, &entry);
        if (got == ARCHIVE_EOF)
            break;
        if (got != ARCHIVE_OK && got != ARCHIVE_WARN)
            return archive_fault(unpack);
        if (i == ENTRIES_MAX)
            return give_up(unpack, vec_text("not a bundle: too many files in it"));
        r = unpack->modules ? unpack_module(unpack, entry) : unpack_entry(unpack, entry);
    }
    if (r == 0 && !unpack->modules && (!unpack->is_ours || unpack->capture_fd < 0))
        return give_up(unpack, vec_text("not a bundle of kedge"));
    return r;
}

static struct archive *new_reader(void)
{
    struct archive *archive = archive_read_new();

    if (!archive)
        vec_out_of_memory();
    (void)archive_read_support_filter_zstd(archive);
    (void)archive_read_support_filter_gzip(archive);
    (void)archive_read_support_format_tar(archive);
    return archive;
}

bool bundle_begins(const char *path)
{
    struct stat status;
    struct archive *archive;
    struct archive_entry *entry;
    const char *name = NULL;

    if (!bundle_is(path) || stat(path, &status) != 0 || !S_ISREG(status.st_mode))
        return false;
    archive = new_reader();
    if (archive_read_open_filename(archive, path, READ_BYTES) == ARCHIVE_OK
            && archive_read_next_header(archive, &entry) == ARCHIVE_OK)
        name = bundle_name_of(entry);
    bool is_ours = name && strcmp(name, ABOUT_NAME) == 0;
    (void)archive_read_free(archive);
    return is_ours;
}

/* From an archive. */
static int open_archive(struct unpack *unpack, const char *path)
{
    struct stat status;
    int r;

    if (stat(path, &status) != 0)
        return give_up(unpack, vec_text(strerror(errno)));
    unpack->most = unpack->left = UNPACKED_BASE + (uint64_t)status.st_size * UNPACKED_RATE;
    unpack->archive = new_reader();
    r = archive_read_open_filename(unpack->archive, path, READ_BYTES) == ARCHIVE_OK
            ? unpack_all(unpack)
            : archive_fault(unpack);
    (void)archive_read_free(unpack->archive);
    return r;
}

static int open_in(const char *folder, const char *name)
{
    char *path = vec_format("%s/%s", folder, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    free(path);
    return fd;
}

/* From the folder that tar makes of one. */
static int open_folder(struct unpack *unpack, const char *path)
{
    unpack->most = UINT64_MAX;
    unpack->capture_fd = open_in(path, "capture.kcap");
    unpack->symbols_fd = open_in(path, "symbols");
    return unpack->capture_fd < 0
            ? give_up(unpack, vec_text("a folder without a capture.kcap in it"))
            : 0;
}

/* *ret_names NULL: there are none, and the files of this machine are used. */
static int read_names(struct unpack *unpack, struct symcache **ret_names)
{
    struct stat status;
    char *why = NULL;

    *ret_names = NULL;
    if (unpack->symbols_fd < 0 || fstat(unpack->symbols_fd, &status) != 0
            || !S_ISREG(status.st_mode))
        return 0;
    if ((uint64_t)status.st_size > unpack->most)
        return too_much(unpack);
    char *text = vec_new((size_t)status.st_size + 1, 1);
    FILE *in = fdopen(unpack->symbols_fd, "r");
    if (!in)
        vec_out_of_memory();
    *ret_names = symcache_read(text, fread(text, 1, (size_t)status.st_size, in), &why);
    (void)fclose(in);
    unpack->symbols_fd = -1;
    free(text);
    return *ret_names ? 0 : give_up(unpack, why);
}

static int read_parts(
        struct unpack *unpack, struct read_capture **ret_capture, struct symcache **ret_names)
{
    struct read_error error = {.text = ""};
    struct symcache *names;
    int r = read_names(unpack, &names);

    if (r < 0)
        return r;
    char *file = vec_format("/proc/self/fd/%d", unpack->capture_fd);
    r = read_begin(file, ret_capture, &error);
    free(file);
    if (r < 0) {
        symcache_free(names);
        return give_up(unpack, vec_text(*error.text ? error.text : strerror(-r)));
    }
    *ret_names = names;
    return 0;
}

static bool bundle_is_folder(const char *path)
{
    struct stat status;

    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

int bundle_open(const char *path, struct read_capture **ret_capture, struct symcache **ret_names,
        char **ret_why)
{
    struct unpack unpack = {.capture_fd = -1, .symbols_fd = -1};
    int r = bundle_is_folder(path) ? open_folder(&unpack, path) : open_archive(&unpack, path);

    if (r == 0)
        r = read_parts(&unpack, ret_capture, ret_names);
    if (unpack.capture_fd >= 0)
        (void)close(unpack.capture_fd);
    if (unpack.symbols_fd >= 0)
        (void)close(unpack.symbols_fd);
    *ret_why = unpack.why;
    return r;
}

/* ---- modules ---- */

struct bundle_modules *bundle_modules_new(const char *path)
{
    struct bundle_modules *modules = vec_new(1, sizeof(*modules));

    modules->path = vec_text(path);
    modules->is_folder = bundle_is_folder(path);
    return modules;
}

void bundle_modules_free(struct bundle_modules *modules)
{
    if (!modules)
        return;
    for (size_t i = 0; i < modules->count; i++) {
        free(modules->files[i].name);
        if (modules->files[i].fd >= 0)
            (void)close(modules->files[i].fd);
    }
    free(modules->files);
    free(modules->path);
    free(modules->why);
    free(modules);
}

static void unpack_modules(struct bundle_modules *modules)
{
    struct unpack unpack = {.capture_fd = -1, .modules = modules};

    modules->is_unpacked = true;
    if (open_archive(&unpack, modules->path) < 0)
        modules->why = vec_format("%s: its modules: %s", modules->path, unpack.why);
    free(unpack.why);
}

char *bundle_module(struct bundle_modules *modules, const char *name)
{
    if (modules->is_folder) {
        char *path = vec_format("%s/modules/%s", modules->path, name);
        if (access(path, R_OK) == 0)
            return path;
        free(path);
        return NULL;
    }
    if (!modules->is_unpacked)
        unpack_modules(modules);
    for (size_t i = 0; i < modules->count; i++)
        if (modules->files[i].fd >= 0 && strcmp(modules->files[i].name, name) == 0)
            return vec_format("/proc/self/fd/%d", modules->files[i].fd);
    return NULL;
}

const char *bundle_modules_why(const struct bundle_modules *modules)
{
    return modules->why;
}

/* ---- writing ---- */

struct pack {
    struct archive *archive;
    time_t time;
    uint64_t bytes; /* of the archive */
    char *why;
};

static bool pack_fault(struct pack *pack)
{
    int error = archive_errno(pack->archive);
    const char *text = error > 0 ? strerror(error) : archive_error_string(pack->archive);

    free(pack->why);
    pack->why = vec_text(text ? text : "cannot be written");
    return false;
}

static bool begin_entry(struct pack *pack, const char *name, uint64_t bytes)
{
    struct archive_entry *entry = archive_entry_new();
    int r;

    archive_entry_set_pathname(entry, name);
    archive_entry_set_size(entry, (la_int64_t)bytes);
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_perm(entry, 0644);
    archive_entry_set_mtime(entry, pack->time, 0);
    r = archive_write_header(pack->archive, entry);
    archive_entry_free(entry);
    return r == ARCHIVE_OK || pack_fault(pack);
}

static bool add_text(struct pack *pack, const char *name, const char *text, size_t length)
{
    return begin_entry(pack, name, length)
            && (archive_write_data(pack->archive, text, length) == (la_ssize_t)length
                    || pack_fault(pack));
}

static bool copy_file(struct pack *pack, int fd, uint64_t left)
{
    static char piece[1u << 16];

    while (left > 0) {
        size_t want = left < sizeof(piece) ? (size_t)left : sizeof(piece);
        ssize_t got = read(fd, piece, want);
        if (got < 0 && errno != EINTR) {
            pack->why = vec_text(strerror(errno));
            return false;
        }
        if (got == 0) /* the file became shorter meanwhile: libarchive pads with zeroes */
            return true;
        if (got > 0 && archive_write_data(pack->archive, piece, (size_t)got) != got)
            return pack_fault(pack);
        left -= got > 0 ? (uint64_t)got : 0;
    }
    return true;
}

static bool add_file(struct pack *pack, const char *name, const char *path)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool is_fine;

    if (fd < 0 || fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
        pack->why = vec_format("%s: %s", path, fd < 0 ? strerror(errno) : "no regular file");
        if (fd >= 0)
            (void)close(fd);
        return false;
    }
    is_fine = begin_entry(pack, name, (uint64_t)status.st_size)
            && copy_file(pack, fd, (uint64_t)status.st_size);
    (void)close(fd);
    return is_fine;
}

static bool add_parts(struct pack *pack, const struct bundle_parts *parts)
{
    bool is_fine = add_text(pack, ABOUT_NAME, parts->about, strlen(parts->about))
            && add_text(pack, SYMBOLS_NAME, parts->symbols, parts->symbols_length)
            && add_file(pack, CAPTURE_NAME, parts->capture);

    for (size_t i = 0; is_fine && i < parts->file_count; i++) {
        char *name = vec_format(FOLDER "/modules/%s", parts->files[i].name);
        is_fine = add_file(pack, name, parts->files[i].path);
        free(name);
    }
    return is_fine;
}

static bool write_archive(struct pack *pack, int fd, const struct bundle_parts *parts)
{
    bool is_fine;

    pack->archive = archive_write_new();
    if (!pack->archive)
        vec_out_of_memory();
    if (archive_write_add_filter_zstd(pack->archive) != ARCHIVE_OK)
        (void)archive_write_add_filter_gzip(pack->archive); /* this libarchive lacks zstd */
    (void)archive_write_set_format_pax_restricted(pack->archive);
    is_fine = archive_write_open_fd(pack->archive, fd) == ARCHIVE_OK || pack_fault(pack);
    is_fine = is_fine && add_parts(pack, parts);
    if (is_fine && archive_write_close(pack->archive) != ARCHIVE_OK)
        is_fine = pack_fault(pack);
    pack->bytes = (uint64_t)archive_filter_bytes(pack->archive, -1);
    (void)archive_write_free(pack->archive);
    return is_fine;
}

int bundle_write(int fd, const struct bundle_parts *parts, uint64_t *ret_bytes, char **ret_why)
{
    struct stat status;
    struct pack pack = {.time = stat(parts->capture, &status) == 0 ? status.st_mtime : 0};
    bool is_whole = write_archive(&pack, fd, parts);

    *ret_bytes = pack.bytes;
    *ret_why = pack.why;
    return is_whole ? 0 : -1;
}
