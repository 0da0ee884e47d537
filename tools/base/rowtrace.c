/* SPDX-License-Identifier: MIT */
#include "tools/base/rowtrace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/base/keytable.h"
#include "tools/base/rowread.h"
#include "tools/base/vec.h"

struct reader {
    struct rowtrace *steps;
    struct keytable live;    /* id -> block, UINT32_MAX once freed */
    struct keytable streams; /* number -> index */
    uint64_t bytes;          /* live now */
    bool is_rmm;
};

/* The fields of a row. */
struct line {
    uint64_t id, size, stream, time_us;
    const char *id_at, *size_at;
    bool is_free, is_before, is_failure;
};

#define NO_BLOCK UINT32_MAX

static uint32_t stream_index(struct reader *reader, uint64_t stream)
{
    struct rowtrace *steps = reader->steps;
    uint32_t index = keytable_number(&reader->streams, (struct key){stream, 0, 0});

    if (index == steps->stream_count)
        VEC_PUSH(steps->streams, steps->stream_count, steps->stream_room) = stream;
    return index;
}

static int add_alloc(struct reader *reader, struct rowread *row, const struct line *line)
{
    struct rowtrace *steps = reader->steps;
    uint32_t *known = keytable_at(&reader->live, (struct key){line->id, 0, 0}, NO_BLOCK);

    if (*known != NO_BLOCK)
        return rowread_fault(row, "this is allocated already");
    row->field = line->size_at;
    if (line->size == 0)
        return rowread_fault(row, "size 0");
    if (reader->bytes + line->size < line->size)
        return rowread_fault(row, "sizes add up to more than 64 bits hold");
    uint32_t stream = stream_index(reader, line->stream);
    *known = (uint32_t)steps->block_count;
    VEC_PUSH(steps->rows, steps->row_count, steps->row_room) =
            (struct rowtrace_row){.time_us = line->time_us, .block = *known, .stream = stream};
    VEC_PUSH(steps->blocks, steps->block_count, steps->block_room) =
            (struct rowtrace_block){.id = line->id, .size = line->size, .stream = stream};
    steps->alloc_count++;
    steps->before_count += line->is_before;
    reader->bytes += line->size;
    if (reader->bytes > steps->peak_bytes)
        steps->peak_bytes = reader->bytes;
    return 0;
}

static int add_free(struct reader *reader, struct rowread *row, const struct line *line)
{
    struct rowtrace *steps = reader->steps;
    uint32_t *known = keytable_find(&reader->live, (struct key){line->id, 0, 0});

    if (!known || *known == NO_BLOCK)
        return rowread_fault(row, "this is not allocated");
    row->field = line->size_at;
    if (steps->blocks[*known].size != line->size)
        return rowread_fault(row, "freed with another size than it was allocated with");
    uint32_t stream = stream_index(reader, line->stream);
    VEC_PUSH(steps->rows, steps->row_count, steps->row_room) = (struct rowtrace_row){
            .time_us = line->time_us, .block = *known, .stream = stream, .is_free = true};
    *known = NO_BLOCK;
    reader->bytes -= line->size;
    return 0;
}

static int read_csv_row(struct rowread *row, struct line *ret_line)
{
    const char *op;
    size_t length;

    if (!rowread_text(row, &op, &length) || length != 1 || (*op != 'a' && *op != 'f'))
        return rowread_fault(row, "op must be a or f");
    ret_line->is_free = *op == 'f';
    ret_line->id_at = row->at;
    bool is_number = rowread_uint(row, 10, &ret_line->id);
    ret_line->size_at = row->at;
    if (!is_number || !rowread_uint(row, 10, &ret_line->size)
            || !rowread_uint(row, 10, &ret_line->stream))
        return rowread_fault(row, "id, size and stream must be numbers");
    ret_line->is_before = *row->at == '-';
    const char *last = row->at;
    row->at += ret_line->is_before;
    is_number = rowread_uint(row, 10, &ret_line->time_us);
    row->field = last;
    if (!is_number || !rowread_is_end(row))
        return rowread_fault(row, "time_us must be a number, and the last column");
    if (ret_line->is_before)
        ret_line->time_us = 0;
    return 0;
}

static bool rowtrace_is_word(const char *text, size_t length, const char *word)
{
    return strlen(word) == length && strncmp(text, word, length) == 0;
}

/* A failure: its pointer may be missing, and the other fields too. */
static int read_failure(struct rowread *row, struct line *ret_line)
{
    const char *pointer;
    size_t length;

    ret_line->is_failure = true;
    if (!rowread_text(row, &pointer, &length) || !rowread_uint(row, 10, &ret_line->size))
        ret_line->size = 0;
    else if (!rowread_uint(row, 16, &ret_line->stream))
        ret_line->stream = 0;
    return 0;
}

static int read_rmm_row(struct rowread *row, struct line *ret_line)
{
    const char *text = "";
    size_t length = 0;

    for (int i = 0; i < 3; i++) {
        if (!rowread_text(row, &text, &length))
            return rowread_fault(row, "Thread, Time and Action must be there");
    }
    if (rowtrace_is_word(text, length, "allocate failure"))
        return read_failure(row, ret_line);
    ret_line->is_free = rowtrace_is_word(text, length, "free");
    if (!ret_line->is_free && !rowtrace_is_word(text, length, "allocate"))
        return rowread_fault(row, "Action must be allocate, free or allocate failure");
    ret_line->id_at = row->at;
    if (!rowread_uint(row, 16, &ret_line->id))
        return rowread_fault(row, "Pointer must be a hexadecimal number");
    ret_line->size_at = row->at;
    if (!rowread_uint(row, 10, &ret_line->size))
        return rowread_fault(row, "Size must be a number");
    if (!rowread_uint(row, 16, &ret_line->stream) || !rowread_is_end(row))
        return rowread_fault(row, "Stream must be a hexadecimal number, and the last column");
    return 0;
}

static void add_failure(struct reader *reader, const struct line *line)
{
    struct rowtrace *steps = reader->steps;
    uint32_t stream = stream_index(reader, line->stream);

    VEC_PUSH(steps->failures, steps->failed_count, steps->failed_room) =
            (struct rowtrace_failure){steps->row_count, line->size, stream};
}

static int rowtrace_add_line(struct reader *reader, struct rowread *row, const struct line *line)
{
    if (line->is_failure) {
        add_failure(reader, line);
        return 0;
    }
    if (reader->is_rmm && line->size == 0)
        return 0;
    row->field = line->id_at;
    return line->is_free ? add_free(reader, row, line) : add_alloc(reader, row, line);
}

/* A log of RMM (`odd` is set) may have its first line anywhere, or none. */
static int read_row(void *context, struct rowread *row)
{
    struct reader *reader = context;
    struct line line = {.id_at = NULL};
    bool is_rmm_head = strcmp(row->text, ROWTRACE_RMM_HEAD) == 0;

    if (row->odd ? is_rmm_head : row->line == 1) {
        reader->is_rmm = is_rmm_head;
        if (!is_rmm_head && strcmp(row->text, ROWTRACE_HEAD) != 0)
            return rowread_fault(
                    row, "the first line must be " ROWTRACE_HEAD ", or " ROWTRACE_RMM_HEAD);
        return 0;
    }
    int r = reader->is_rmm ? read_rmm_row(row, &line) : read_csv_row(row, &line);

    return r < 0 ? r : rowtrace_add_line(reader, row, &line);
}

/* Part of a row of RMM: it begins with a number and a comma, or contains an action. */
static bool looks_like_row(const char *line)
{
    size_t digits = strspn(line, "0123456789");

    return (digits > 0 && line[digits] == ',') || strstr(line, ",allocate")
            || strstr(line, ",free,");
}

/* An invalid row; the first one is kept. */
static int rowtrace_pass_over(void *context, struct rowread *row)
{
    struct reader *reader = context;
    struct rowtrace *steps = reader->steps;

    if (row->is_cut)
        steps->is_cut = true;
    else if (!looks_like_row(row->text))
        steps->other_count++;
    else if (steps->odd_count++ == 0)
        (void)snprintf(steps->error, sizeof steps->error, "%s", row->error);
    return 0;
}

static int read_rows(FILE *in, struct rowread *row, struct reader *reader)
{
    int r = rowread_all(row, in, read_row, reader);

    if (r == 0 && reader->steps->alloc_count == 0
            && (!row->odd || reader->steps->failed_count == 0)) {
        row->line++;
        row->error = reader->steps->error;
        r = reader->steps->odd_count
                ? -EINVAL
                : rowread_fault(row,
                        reader->steps->other_count ? "no row of RMM is in it" : "no allocations");
    }
    keytable_done(&reader->live);
    keytable_done(&reader->streams);
    return r;
}

int rowtrace_read_stream(FILE *in, const char *name, struct rowtrace *ret_steps)
{
    struct reader reader = {.steps = ret_steps};
    struct rowread row = {.name = name, .error = ret_steps->error};

    *ret_steps = (struct rowtrace){0};
    return read_rows(in, &row, &reader);
}

int rowtrace_read_rmm(FILE *in, const char *name, struct rowtrace *ret_steps)
{
    char error[ROWREAD_ERROR_MAX] = "";
    struct reader reader = {.steps = ret_steps, .is_rmm = true};
    struct rowread row = {.name = name, .error = error, .odd = rowtrace_pass_over};
    int r;

    *ret_steps = (struct rowtrace){0};
    r = read_rows(in, &row, &reader);
    if (r < 0 && r != -EINVAL)
        (void)snprintf(ret_steps->error, sizeof ret_steps->error, "%s", error);
    return r;
}

bool rowtrace_is_rmm(const char *line)
{
    static const char *const actions[] = {"allocate", "free", "allocate failure"};
    size_t length = strcspn(line, "\r\n");
    const char *at = line;

    for (int i = 0; i < 2; i++) {
        at = memchr(at, ',', length - (size_t)(at - line));
        if (!at)
            return false;
        at++;
    }
    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++) {
        size_t word = strlen(actions[i]);

        if (strncmp(at, actions[i], word) == 0 && at[word] == ',')
            return true;
    }
    return false;
}

/* NULL with errno; EINVAL for a file that is not regular: it may never end, or never begin. */
static FILE *open_regular(const char *path)
{
    struct stat status;

    if (stat(path, &status) != 0)
        return NULL;
    errno = EINVAL;
    return S_ISREG(status.st_mode) ? fopen(path, "re") : NULL;
}

int rowtrace_read(const char *path, struct rowtrace *ret_steps)
{
    FILE *in = open_regular(path);
    int r;

    if (!in) {
        r = -errno;
        *ret_steps = (struct rowtrace){0};
        (void)snprintf(ret_steps->error, sizeof(ret_steps->error), "%s: %s", path,
                r == -EINVAL ? "not a regular file" : strerror(-r));
        return r;
    }
    r = rowtrace_read_stream(in, path, ret_steps);
    (void)fclose(in);
    return r;
}

void rowtrace_done(struct rowtrace *steps)
{
    free(steps->failures);
    free(steps->rows);
    free(steps->blocks);
    free(steps->streams);
    *steps = (struct rowtrace){0};
}
