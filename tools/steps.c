/* SPDX-License-Identifier: MIT */
#include "tools/steps.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/keytable.h"
#include "tools/vec.h"

struct reader {
    struct steps *steps;
    const char *name;
    size_t line;
    struct keytable live;    /* id -> block, UINT32_MAX once freed */
    struct keytable streams; /* number -> index */
    uint64_t bytes;          /* live now */
};

#define NO_BLOCK UINT32_MAX

static int fault(struct reader *reader, const char *what)
{
    (void)snprintf(reader->steps->error, sizeof(reader->steps->error), "%s:%zu: %s", reader->name,
            reader->line, what);
    return -EINVAL;
}

/* A decimal number up to the next comma or the line's end; *io_at is moved behind it. */
static bool take_number(const char **io_at, bool may_be_negative, uint64_t *ret_value)
{
    const char *at = *io_at;
    char *end;

    if (may_be_negative && *at == '-')
        at++;
    if (*at < '0' || *at > '9')
        return false;
    errno = 0;
    *ret_value = strtoull(at, &end, 10);
    if (errno || (*end != ',' && *end != '\0'))
        return false;
    *io_at = *end == ',' ? end + 1 : end;
    return true;
}

static uint32_t stream_index(struct reader *reader, uint64_t stream)
{
    struct steps *steps = reader->steps;
    uint32_t next = (uint32_t)steps->stream_count;
    uint32_t index = *keytable_at(&reader->streams, (struct key){stream, 0, 0}, next);

    if (index == next)
        VEC_PUSH(steps->streams, steps->stream_count, steps->stream_room) = stream;
    return index;
}

static int add_alloc(
        struct reader *reader, uint64_t id, uint64_t size, uint64_t stream, bool before)
{
    struct steps *steps = reader->steps;
    uint32_t *known = keytable_at(&reader->live, (struct key){id, 0, 0}, NO_BLOCK);

    if (*known != NO_BLOCK)
        return fault(reader, "this id is allocated already");
    if (size == 0)
        return fault(reader, "size 0");
    if (reader->bytes + size < size)
        return fault(reader, "sizes add up to more than 64 bits hold");
    uint32_t index = stream_index(reader, stream);
    *known = (uint32_t)steps->block_count;
    VEC_PUSH(steps->rows, steps->row_count, steps->row_room) =
            (struct steps_row){.block = *known, .stream = index};
    VEC_PUSH(steps->blocks, steps->block_count, steps->block_room) =
            (struct steps_block){.id = id, .size = size, .stream = index};
    steps->alloc_count++;
    steps->before_count += before;
    reader->bytes += size;
    if (reader->bytes > steps->peak_bytes)
        steps->peak_bytes = reader->bytes;
    return 0;
}

static int add_free(struct reader *reader, uint64_t id, uint64_t size, uint64_t stream)
{
    struct steps *steps = reader->steps;
    uint32_t *known = keytable_find(&reader->live, (struct key){id, 0, 0});

    if (!known || *known == NO_BLOCK)
        return fault(reader, "this id is not allocated");
    if (steps->blocks[*known].size != size)
        return fault(reader, "freed with another size than it was allocated with");
    VEC_PUSH(steps->rows, steps->row_count, steps->row_room) = (struct steps_row){
            .block = *known, .stream = stream_index(reader, stream), .is_free = true};
    *known = NO_BLOCK;
    steps->free_count++;
    reader->bytes -= size;
    return 0;
}

static int read_line(struct reader *reader, const char *line)
{
    const char *at = line + 2;
    uint64_t id;
    uint64_t size;
    uint64_t stream;
    uint64_t time;

    if (reader->line == 1) {
        if (strcmp(line, "op,id,size,stream,time_us") != 0)
            return fault(reader, "the first line must be op,id,size,stream,time_us");
        return 0;
    }
    if ((*line != 'a' && *line != 'f') || line[1] != ',')
        return fault(reader, "op must be a or f");
    if (!take_number(&at, false, &id) || !take_number(&at, false, &size)
            || !take_number(&at, false, &stream))
        return fault(reader, "id, size and stream must be numbers");
    const char *time_at = at;
    if (!take_number(&at, true, &time) || *at)
        return fault(reader, "time_us must be a number, and the last column");
    if (*line == 'a')
        return add_alloc(reader, id, size, stream, *time_at == '-');
    return add_free(reader, id, size, stream);
}

int steps_read_stream(FILE *in, const char *name, struct steps *ret_steps)
{
    struct reader reader = {.steps = ret_steps, .name = name};
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    int r = 0;

    *ret_steps = (struct steps){0};
    while (r == 0 && (n = getline(&line, &room, in)) >= 0) {
        reader.line++;
        while (n > 0 && (line[n - 1] == '\n' || line[n - 1] == '\r'))
            line[--n] = '\0';
        if (strlen(line) != (size_t)n)
            r = fault(&reader, "a NUL byte");
        else if (n > 0)
            r = read_line(&reader, line);
    }
    if (r == 0 && ferror(in)) {
        (void)snprintf(ret_steps->error, sizeof(ret_steps->error), "%s: %s", name, strerror(EIO));
        r = -EIO;
    }
    if (r == 0 && ret_steps->alloc_count == 0) {
        reader.line++;
        r = fault(&reader, "no allocations");
    }
    free(line);
    keytable_done(&reader.live);
    keytable_done(&reader.streams);
    return r;
}

int steps_read(const char *path, struct steps *ret_steps)
{
    FILE *in = fopen(path, "re");
    int r;

    if (!in) {
        r = -errno;
        *ret_steps = (struct steps){0};
        (void)snprintf(ret_steps->error, sizeof(ret_steps->error), "%s: %s", path, strerror(-r));
        return r;
    }
    r = steps_read_stream(in, path, ret_steps);
    (void)fclose(in);
    return r;
}

void steps_done(struct steps *steps)
{
    free(steps->rows);
    free(steps->blocks);
    free(steps->streams);
    *steps = (struct steps){0};
}
