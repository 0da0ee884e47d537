/* SPDX-License-Identifier: MIT */
#include "tools/load/captures.h"

#include <assert.h>
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/load/load.h"

#include "tools/base/vec.h"
#include "tracker/capture/capold.h"
#include "tracker/format/formatsum.h"
#include "tracker/reader/read.h"

/* Whether an entry of a folder was made from the name, up to a slash. A file may end with .N. */
static bool is_made_of(const char *name, const char *entry)
{
    if (*name == '/')
        return *entry == '\0';
    if (*name == '\0')
        return *entry == '\0'
                || (*entry == '.' && entry[1 + strspn(entry + 1, "0123456789.")] == '\0');
    if (*name != '%' || name[1] == '\0' || name[1] == '%')
        return *name == *entry && is_made_of(name + (*name == '%' && name[1] ? 2 : 1), entry + 1);
    for (size_t used = 1; entry[used - 1]; used++) {
        if (name[1] == 'p' && !isdigit((unsigned char)entry[used - 1]))
            return false;
        if (is_made_of(name + 2, entry + used))
            return true;
    }
    return false;
}

char *captures_quote(const char *path)
{
    char *quoted = vec_new(2 * strlen(path) + 1, 1);
    size_t n = 0;

    for (; *path; path++) {
        quoted[n++] = *path;
        if (*path == '%')
            quoted[n++] = '%';
    }
    return quoted;
}

char *captures_folder(const char *name, const char **ret_rest)
{
    char *folder = vec_new(strlen(name) + 1, 1);
    size_t length = 0, n = 0;

    *ret_rest = name;
    for (; *name && (*name != '%' || name[1] == '%'); name++) {
        folder[n++] = *name;
        if (*name == '/') {
            length = n;
            *ret_rest = name + 1;
        }
        name += *name == '%';
    }
    folder[length] = '\0';
    return folder;
}

/* The first bytes of a file: their number, 0 if it is not regular, -1 if it cannot be read. */
static ssize_t read_start(const char *path, void *bytes, size_t count)
{
    /* O_NONBLOCK: the open of a pipe must not wait for a writer */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat about;

    if (fd < 0)
        return -1;
    bool is_file = fstat(fd, &about) == 0 && S_ISREG(about.st_mode);
    ssize_t n = is_file ? read(fd, bytes, count) : 0;
    (void)close(fd);
    return n;
}

bool captures_read_header(const char *path, struct format_header *ret_header)
{
    return read_start(path, ret_header, sizeof(*ret_header)) == (ssize_t)sizeof(*ret_header)
            && memcmp(ret_header->magic, FORMAT_MAGIC, sizeof(ret_header->magic)) == 0
            && ret_header->version == FORMAT_VERSION;
}

/* All captures of that name in a folder, which ends with a slash or is "". */
static void each_below(const char *folder, const char *name,
        void (*each)(void *self, const char *path), void *self)
{
    const char *slash = strchr(name, '/');
    /* processed once the folder is closed, since descriptors may be few */
    struct vec_texts paths = {0};
    DIR *entries = opendir(*folder ? folder : ".");
    const struct dirent *entry;

    while (entries && (entry = readdir(entries)) != NULL) {
        bool is_dots = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
        if ((is_dots && *name == '%') || !is_made_of(name, entry->d_name))
            continue;
        (void)vec_add_text(&paths, vec_format("%s%s%s", folder, entry->d_name, slash ? "/" : ""));
    }
    if (entries)
        (void)closedir(entries);
    for (size_t i = 0; i < paths.count; i++) {
        if (slash)
            each_below(paths.at[i], slash + strspn(slash, "/"), each, self);
        else
            each(self, paths.at[i]);
    }
    vec_free_texts(&paths);
}

void captures_each(const char *name, void (*each)(void *self, const char *path), void *self)
{
    const char *rest;
    char *folder = captures_folder(name, &rest);

    each_below(folder, rest, each, self);
    free(folder);
}

struct search {
    struct captures *found;
    const char *run;
};

static void captures_add_capture(void *self, const char *path)
{
    const struct search *search = self;
    struct captures *found = search->found;
    struct format_header header;

    if (!captures_read_header(path, &header)
            || strncmp(header.run, search->run, sizeof(header.run)) != 0)
        return;
    struct captures_file *file = &VEC_PUSH(found->file, found->count, found->room);
    *file = (struct captures_file){.path = vec_text(path),
            .pid = header.pid,
            .peak_live = header.total.peak_bytes,
            .peak_reserved = header.total.peak_reserved_bytes,
            .native_peak = load_native_peak(header.memclass),
            .peak_with_hints = header.total.hinted_freed_count ? header.total.peak_hinted_bytes
                                                               : header.total.peak_bytes,
            .oom_count = header.oom_count,
            .is_late = header.counted_late > 0 && header.trace != FORMAT_TRACE_AGG
                    && header.lost.events_recycled == 0};
    memcpy(file->rank, header.rank, sizeof(file->rank) - 1);
}

static void captures_write(const char *path, const void *bytes, size_t count, off_t at)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);

    if (fd < 0)
        return;
    (void)!pwrite(fd, bytes, count, at);
    (void)close(fd);
}

void captures_ended_by(const char *path, uint32_t pid, int number)
{
    struct format_header header;
    uint32_t state[2] = {FORMAT_STATE_SIGNAL, (uint32_t)number};

    static_assert(offsetof(struct format_header, state_detail)
                    == offsetof(struct format_header, state) + sizeof(uint32_t),
            "written as one");
    if (capold_look(path, &header) == CAPOLD_ENDED && header.pid == pid
            && (header.state == FORMAT_STATE_OPEN || header.state == FORMAT_STATE_OOM))
        captures_write(path, state, sizeof(state), offsetof(struct format_header, state));
}

/* Writes the checksums of a finished capture into the file; not if it is damaged already. */
static void captures_put_seal(const char *path, struct format_header *header)
{
    struct read_capture *capture;

    if (read_open_parts(path, READ_LIVE | READ_PLACES, &capture, NULL) != 0)
        return;
    bool is_damaged = read_is_damaged(capture);
    header->loose_sum = capture->loose_sum;
    read_close(capture);
    if (is_damaged)
        return;
    header->seal = formatsum_seal(header);
    const uint64_t words[2] = {header->seal, header->loose_sum};
    static_assert(offsetof(struct format_header, loose_sum)
                    == offsetof(struct format_header, seal) + sizeof(words[0]),
            "written as one");
    captures_write(path, words, sizeof(words), offsetof(struct format_header, seal));
}

void captures_seal(const char *path)
{
    struct format_header header;

    if (capold_look(path, &header) == CAPOLD_ENDED && header.version == FORMAT_VERSION
            && header.loose_sum == 0)
        captures_put_seal(path, &header);
}

void captures_find(const char *name, const char *run, struct captures *ret)
{
    *ret = (struct captures){0};
    captures_each(name, captures_add_capture, &(struct search){ret, run});
    VEC_SORT(ret->file, ret->count, vec_by_text);
}

static void add_any(void *self, const char *path)
{
    struct captures *found = self;
    char magic[sizeof(FORMAT_MAGIC) - 1];
    struct stat about;

    if (stat(path, &about) == 0 && !S_ISREG(about.st_mode))
        return; /* the open fails, for example of a socket */
    ssize_t n = read_start(path, magic, sizeof(magic));
    if (n < 0 || (n == (ssize_t)sizeof(magic) && memcmp(magic, FORMAT_MAGIC, sizeof(magic)) == 0))
        VEC_PUSH(found->file, found->count, found->room) =
                (struct captures_file){.path = vec_text(path)};
}

void captures_find_any(const char *folder, struct captures *ret)
{
    char *quoted = captures_quote(folder);
    char *any = vec_format("%s/%%h", quoted);

    *ret = (struct captures){0};
    captures_each(any, add_any, ret);
    VEC_SORT(ret->file, ret->count, vec_by_text);
    free(any);
    free(quoted);
}

void captures_done(struct captures *captures)
{
    for (size_t i = 0; i < captures->count; i++)
        free(captures->file[i].path);
    free(captures->file);
}

struct captures_file *captures_main(const struct captures *captures, uint32_t pid)
{
    struct captures_file *most = NULL;

    for (size_t i = 0; i < captures->count; i++) {
        struct captures_file *file = &captures->file[i];
        if (file->pid == pid)
            return file;
        if (!most || file->peak_live > most->peak_live)
            most = file;
    }
    return most;
}
