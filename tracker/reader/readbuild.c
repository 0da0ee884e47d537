/* SPDX-License-Identifier: MIT */
#include "tracker/reader/readbuild.h"

#include "tracker/stacks/fingerprint.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEGMENTS_MAX 64u

struct file {
    int fd;
    ElfW(Phdr) segment[SEGMENTS_MAX];
    unsigned count;
};

static bool read_at(const struct file *file, uint64_t offset, void *to, size_t bytes)
{
    return offset <= INT64_MAX && pread(file->fd, to, bytes, (off_t)offset) == (ssize_t)bytes;
}

/* Converts an ELF address to its file offset, and reads there. */
static bool read_address(void *data, uint64_t address, void *to, size_t bytes)
{
    const struct file *file = data;

    for (unsigned i = 0; i < file->count; i++) {
        const ElfW(Phdr) *segment = &file->segment[i];

        if (segment->p_type == PT_LOAD && address >= segment->p_vaddr && bytes <= segment->p_filesz
                && address - segment->p_vaddr <= segment->p_filesz - bytes)
            return read_at(file, segment->p_offset + (address - segment->p_vaddr), to, bytes);
    }
    return false;
}

static bool read_segments(struct file *file)
{
    ElfW(Ehdr) header;

    if (!read_at(file, 0, &header, sizeof header) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0
            || header.e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32)
            || header.e_phentsize != sizeof file->segment[0] || header.e_phnum == 0
            || header.e_phnum > SEGMENTS_MAX)
        return false;
    file->count = header.e_phnum;
    return read_at(file, header.e_phoff, file->segment, file->count * sizeof file->segment[0]);
}

bool readbuild_is_same(const char *path, const char *captured_path, uint64_t identity)
{
    struct file file = {.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    struct fingerprint_source source = {
            .segment = file.segment, .read = read_address, .data = &file};
    struct stat status;
    bool is_same = false;

    if (file.fd < 0)
        return false;
    if (fstat(file.fd, &status) == 0 && S_ISREG(status.st_mode) && read_segments(&file)) {
        source.count = file.count;
        is_same = fingerprint_identity(captured_path, fingerprint_take(&source)) == identity;
    }
    (void)close(file.fd);
    return is_same;
}
