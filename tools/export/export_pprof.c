/* SPDX-License-Identifier: MIT */
#include "tools/export/exporter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "tools/base/cmdexit.h"
#include "tools/base/keytable.h"
#include "tools/base/vec.h"
#include "tools/export/export_names.h"
#include "tools/output/ours.h"
#include "tools/symbols/buildid.h"

/*
 * Source: pprof's profile.proto. Messages are (field << 3 | type) and the value: numbers in 7 bits
 * a byte (type 0), bytes after their length (type 2). A location, a function, a mapping and a
 * string are written at their first use; strings are numbered by their order.
 */

#define GZIP_WINDOW (15 + 16) /* zlib's largest window, with gzip's head and trailer */
#define OUT_BYTES   65536

enum profile_field {
    PROFILE_SAMPLE_TYPE = 1,
    PROFILE_SAMPLE = 2,
    PROFILE_MAPPING = 3,
    PROFILE_LOCATION = 4,
    PROFILE_FUNCTION = 5,
    PROFILE_STRING_TABLE = 6,
    PROFILE_TIME_NANOS = 9,
    PROFILE_COMMENT = 13,
    PROFILE_DEFAULT_SAMPLE_TYPE = 14,
};

/* A message that is being built. */
struct message {
    unsigned char *bytes;
    size_t length, room;
};

struct profile {
    struct export_job *job;
    z_stream stream;
    unsigned char compressed[OUT_BYTES];
    struct export_names strings;   /* and, as calls, locations */
    struct export_names functions; /* calls without their lines */
    struct keytable mappings;      /* module's path -> number */
    struct keytable modules;       /* module's path -> the first module of the trace with it */
};

/* ---- bytes ---- */

static void export_pprof_put_number(struct message *message, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        VEC_PUSH(message->bytes, message->length, message->room) =
                (unsigned char)(value & 0x7f) | 0x80;
    VEC_PUSH(message->bytes, message->length, message->room) = (unsigned char)value;
}

static void export_pprof_put_field(struct message *message, unsigned field, uint64_t value)
{
    export_pprof_put_number(message, (uint64_t)field << 3);
    export_pprof_put_number(message, value);
}

static void export_pprof_put_bytes(
        struct message *message, unsigned field, const void *bytes, size_t length)
{
    export_pprof_put_number(message, (uint64_t)field << 3 | 2);
    export_pprof_put_number(message, length);
    if (length == 0)
        return;
    message->bytes = vec_grow(message->bytes, message->length + length, 1, &message->room);
    memcpy(message->bytes + message->length, bytes, length);
    message->length += length;
}

/* Compresses bytes into the file; with `flush` Z_FINISH to its end. */
static void press(struct profile *profile, unsigned char *bytes, size_t length, int flush)
{
    profile->stream.next_in = bytes;
    profile->stream.avail_in = (uInt)length;
    do {
        profile->stream.next_out = profile->compressed;
        profile->stream.avail_out = OUT_BYTES;
        (void)deflate(&profile->stream, flush);
        (void)fwrite(
                profile->compressed, 1, OUT_BYTES - profile->stream.avail_out, profile->job->out);
    } while (profile->stream.avail_out == 0);
}

/* Writes a field of the profile itself, and frees the message. */
static void write_message(struct profile *profile, unsigned field, struct message *message)
{
    struct message head = {0};

    export_pprof_put_number(&head, (uint64_t)field << 3 | 2);
    export_pprof_put_number(&head, message->length);
    press(profile, head.bytes, head.length, Z_NO_FLUSH);
    press(profile, message->bytes, message->length, Z_NO_FLUSH);
    free(head.bytes);
    free(message->bytes);
    *message = (struct message){0};
}

static void write_number(struct profile *profile, unsigned field, uint64_t value)
{
    struct message message = {0};

    export_pprof_put_field(&message, field, value);
    press(profile, message.bytes, message.length, Z_NO_FLUSH);
    free(message.bytes);
}

/* ---- numbered objects ---- */

static uint64_t string_of(struct profile *profile, const char *text)
{
    bool is_new;
    uint32_t number = export_names_text(&profile->strings, text, &is_new);

    if (is_new) {
        char *clean = export_names_utf8(text);
        struct message message = {.length = strlen(clean)};
        message.bytes = (unsigned char *)clean;
        write_message(profile, PROFILE_STRING_TABLE, &message);
    }
    return number;
}

/* The caller frees it. */
static char *build_id_of(const struct profile *profile, const char *path)
{
    const struct trace_module *modules = profile->job->load->trace->modules;
    const uint32_t *number = keytable_find(&profile->modules, keytable_text(path));
    char *text = vec_new(BUILDID_TEXT_MAX, 1);

    if (number)
        buildid_text(modules[*number].build_id, modules[*number].build_id_length, text);
    return text;
}

/* 0: unknown. */
static uint64_t mapping_of(struct profile *profile, const char *path)
{
    bool is_new;

    if (!*path)
        return 0;
    uint64_t id =
            keytable_number_new(&profile->mappings, keytable_text(path), &is_new) + UINT64_C(1);
    if (!is_new)
        return id;
    char *build_id = build_id_of(profile, path);
    struct message message = {0};
    export_pprof_put_field(&message, 1, id);
    export_pprof_put_field(&message, 5, string_of(profile, path));
    export_pprof_put_field(&message, 6, string_of(profile, build_id));
    /* functions, files, lines, inlined calls: readers need not look anything up */
    for (unsigned has = 7; has <= 10; has++)
        export_pprof_put_field(&message, has, 1);
    write_message(profile, PROFILE_MAPPING, &message);
    free(build_id);
    return id;
}

static uint64_t export_pprof_function_of(struct profile *profile, const struct symbols_line *line)
{
    struct symbols_line function = *line;
    bool is_new;

    function.line = 0;
    uint64_t id = export_names_call(&profile->functions, &function, &is_new) + UINT64_C(1);
    if (is_new) {
        struct message message = {0};
        export_pprof_put_field(&message, 1, id);
        export_pprof_put_field(&message, 2, string_of(profile, line->function));
        export_pprof_put_field(&message, 3, string_of(profile, line->function));
        export_pprof_put_field(&message, 4, string_of(profile, symbols_line_file(line)));
        write_message(profile, PROFILE_FUNCTION, &message);
    }
    return id;
}

static uint64_t location_of(struct profile *profile, const struct symbols_line *line)
{
    bool is_new;
    uint64_t id = export_names_call(&profile->strings, line, &is_new) + UINT64_C(1);

    if (is_new) {
        uint64_t mapping = mapping_of(profile, line->module);
        struct message where = {0};
        struct message message = {0};

        export_pprof_put_field(&where, 1, export_pprof_function_of(profile, line));
        export_pprof_put_field(&where, 2, line->line);
        export_pprof_put_field(&message, 1, id);
        if (mapping)
            export_pprof_put_field(&message, 2, mapping);
        export_pprof_put_bytes(&message, 4, where.bytes, where.length);
        write_message(profile, PROFILE_LOCATION, &message);
        free(where.bytes);
    }
    return id;
}

/* ---- samples ---- */

/* Field 3 of a sample. As text, since readers drop numbers that are 0. */
static void put_label(
        struct profile *profile, struct message *sample, const char *key, const char *value)
{
    struct message label = {0};

    export_pprof_put_field(&label, 1, string_of(profile, key));
    export_pprof_put_field(&label, 2, string_of(profile, value));
    export_pprof_put_bytes(sample, 3, label.bytes, label.length);
    free(label.bytes);
}

static void export_pprof_write_sample(struct profile *profile, const struct export_row *row)
{
    struct message sample = {0}, locations = {0}, values = {0};
    char device[16];
    size_t count;
    const struct symbols_line *lines = export_moment_lines(profile->job, row, &count);

    for (size_t i = 0; i < count; i++)
        export_pprof_put_number(&locations, location_of(profile, &lines[i]));
    export_pprof_put_number(&values, row->count);
    export_pprof_put_number(&values, row->bytes);
    export_pprof_put_bytes(&sample, 1, locations.bytes, locations.length);
    export_pprof_put_bytes(&sample, 2, values.bytes, values.length);
    (void)snprintf(device, sizeof(device), "%d", row->device);
    if (*row->path)
        put_label(profile, &sample, "anchor", row->path);
    if (row->device >= 0)
        put_label(profile, &sample, "device", device);
    write_message(profile, PROFILE_SAMPLE, &sample);
    free(locations.bytes);
    free(values.bytes);
}

static void write_type(struct profile *profile, const char *type, const char *unit)
{
    struct message message = {0};

    export_pprof_put_field(&message, 1, string_of(profile, type));
    export_pprof_put_field(&message, 2, string_of(profile, unit));
    write_message(profile, PROFILE_SAMPLE_TYPE, &message);
}

static void export_pprof_write_about(struct profile *profile)
{
    const struct export_moment *moment = &profile->job->moment;
    const struct load *load = profile->job->load;
    char *about = vec_format("kedge " KEDGE_VERSION ", %s: %s%s", load->path, moment->title,
            moment->is_partial ? "; incomplete: memory that lived then is not in it" : "");

    write_type(profile, "inuse_objects", "count");
    write_type(profile, "inuse_space", "bytes");
    write_number(profile, PROFILE_DEFAULT_SAMPLE_TYPE, string_of(profile, "inuse_space"));
    write_number(profile, PROFILE_TIME_NANOS, load->capture->start_real_ns + moment->time_ns);
    write_number(profile, PROFILE_COMMENT, string_of(profile, about));
    free(about);
}

int export_pprof(struct export_job *job)
{
    static Bytef comment[] = OURS_COMMENT KEDGE_VERSION; /* zlib only reads it */
    gz_header head = {.os = 3 /* Unix */, .comment = comment};
    struct profile *profile = vec_new(1, sizeof(*profile));

    profile->job = job;
    for (uint32_t i = 0; i < job->load->trace->module_count; i++)
        (void)keytable_at(&profile->modules, keytable_text(job->load->trace->modules[i].path), i);
    if (deflateInit2(&profile->stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW, 8,
                Z_DEFAULT_STRATEGY)
                    != Z_OK
            || deflateSetHeader(&profile->stream, &head) != Z_OK)
        vec_out_of_memory();
    (void)string_of(profile, ""); /* number 0 is the empty string */
    export_pprof_write_about(profile);
    for (size_t i = 0; i < job->moment.row_count; i++)
        export_pprof_write_sample(profile, &job->moment.rows[i]);
    press(profile, NULL, 0, Z_FINISH);
    (void)deflateEnd(&profile->stream);
    export_names_done(&profile->strings);
    export_names_done(&profile->functions);
    keytable_done(&profile->mappings);
    keytable_done(&profile->modules);
    free(profile);
    return CMD_DONE;
}
