/* SPDX-License-Identifier: MIT */
#include "tools/output/ours.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/base/rowtrace.h"
#include "tools/base/vec.h"
#include "tools/symbols/bundle.h"
#include "tracker/format/format.h"

#define HEAD_BYTES ((size_t)1 << 16) /* the longest first line of folded stacks */
#define MARK_BYTES 2048
#define DIGITS     20 /* of OURS_NUMBER */

/* A file that begins with `head` and has `mark` in its first `within` bytes, or exactly at `at`. */
static const struct mark {
    const char *head;
    size_t head_length;
    const char *mark;
    size_t mark_length;
    size_t at, within;
} marks[] = {
#define TEXT(text_) (text_), sizeof(text_) - 1
        {TEXT("<!DOCTYPE html>"), TEXT("<title>kedge report</title>"), 0, MARK_BYTES},
        {TEXT("<?xml "), TEXT("<testsuite name=\"kedge check\" "), 0, 128},
        {TEXT("{"), TEXT("\"writer\": \"kedge "), 0, 256}, /* perfetto */
        {TEXT("kedge-receipt "), TEXT(""), 0, MARK_BYTES},
        {TEXT("\x1f\x8b\x08\x10"), TEXT(OURS_COMMENT), 10, 10 + sizeof(OURS_COMMENT) - 1},
        {TEXT("\x80\x04}("), TEXT("\x8c\x05kedge"), 4, 11},
        {"SQLite format 3", 16, TEXT("kedg"), 68, 72},
#undef TEXT
};

static bool has_mark(const struct mark *mark, const unsigned char *head, size_t length)
{
    size_t end = length < mark->within ? length : mark->within;

    return length >= mark->head_length && memcmp(head, mark->head, mark->head_length) == 0
            && end >= mark->at
            && memmem(head + mark->at, end - mark->at, mark->mark, mark->mark_length) != NULL;
}

/* OURS_NUMBER directly before `end`: a real size never needs all of its digits. */
static bool has_number(const unsigned char *head, const unsigned char *end)
{
    const unsigned char *at = end - DIGITS;

    if (end - head <= DIGITS || *at != '0')
        return false;
    while (at < end && *at >= '0' && *at <= '9')
        at++;
    return at == end;
}

static bool is_folded(const unsigned char *head, size_t length)
{
    const unsigned char *end = memchr(head, '\n', length);

    return end && has_number(head, end) && end[-DIGITS - 1] == ' ';
}

/* The number is the third field of the first row. A file without rows has no content to lose. */
static bool is_csv(const unsigned char *head, size_t length)
{
    static const char first[] = ROWTRACE_HEAD "\n";
    size_t begin = sizeof(first) - 1;
    const unsigned char *end = head + begin;

    if (length < begin || memcmp(head, first, begin) != 0)
        return false;
    if (length == begin)
        return true;
    for (int field = 0; end && field < 3; field++) {
        end += field > 0;
        end = memchr(end, ',', length - (size_t)(end - head));
    }
    return end && has_number(head, end) && end[-DIGITS - 1] == ',';
}

static enum ours ours_judge(const char *path, const unsigned char *head, size_t length)
{
    size_t magic = sizeof(FORMAT_MAGIC) - 1;

    if (length >= magic && memcmp(head, FORMAT_MAGIC, magic) == 0)
        return OURS_CAPTURE;
    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
        if (has_mark(&marks[i], head, length))
            return OURS_WRITTEN;
    if (is_folded(head, length) || is_csv(head, length))
        return OURS_WRITTEN;
    return bundle_begins(path) ? OURS_BUNDLE : OURS_NOT;
}

int ours_look(const char *path, enum ours *ret_what)
{
    unsigned char *head;
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    ssize_t length = 0;

    *ret_what = OURS_NOT;
    if (fd < 0)
        return -errno;
    head = vec_new(1, HEAD_BYTES);
    bool is_regular = fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
    if (is_regular)
        length = pread(fd, head, HEAD_BYTES, 0);
    int error = errno;
    (void)close(fd);
    if (is_regular && length > 0)
        *ret_what = ours_judge(path, head, (size_t)length);
    free(head);
    return length < 0 ? -error : 0;
}
