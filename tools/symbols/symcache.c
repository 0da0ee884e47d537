/* SPDX-License-Identifier: MIT */
#include "tools/symbols/symcache.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/base/keytable.h"
#include "tools/base/vec.h"
#include "tools/symbols/buildid.h"
#include "tools/symbols/symfile.h"

#define FIELDS_MAX 5

struct module {
    const char *build_id; /* hexadecimal; "-": none */
    const char *path, *note;
};

struct frame {
    size_t first, count; /* lines */
};

struct symcache {
    char *text; /* the text that fields point into */
    struct module *modules;
    size_t module_count, module_room;
    uint32_t current; /* module of the frames that follow */
    struct frame *frames;
    size_t frame_count, frame_room;
    struct dwarfnames_line *lines;
    size_t line_count, line_room;
    struct keytable index;  /* (module, offset) -> frame */
    struct keytable builds; /* of path and build-id or identity -> module */
};

/* ---- reading ---- */

/* A character to escape, and the letter after the backslash. */
static const char escapes[][2] = {{'\t', 't'}, {'\n', 'n'}, {'\r', 'r'}, {'\\', '\\'}};

#define ESCAPE_COUNT (sizeof(escapes) / sizeof(escapes[0]))

/* Undoes the escapes in place; false: an invalid escape. */
static bool unescape(char *text)
{
    char *to = text;

    for (const char *at = text; *at; at++) {
        char found = *at;
        if (found == '\\') {
            size_t i = 0;
            at++;
            while (i < ESCAPE_COUNT && escapes[i][1] != *at)
                i++;
            if (i == ESCAPE_COUNT)
                return false;
            found = escapes[i][0];
        }
        *to++ = found;
    }
    *to = '\0';
    return true;
}

static unsigned split_fields(char *line, char *fields[static FIELDS_MAX])
{
    unsigned count = 0;
    char *field;

    while ((field = strsep(&line, "\t")) != NULL) {
        if (count == FIELDS_MAX || !unescape(field))
            return 0;
        fields[count++] = field;
    }
    return count;
}

static bool symcache_number_of(const char *text, int base, uint64_t *ret_number)
{
    char *end;

    errno = 0;
    if (!((*text >= '0' && *text <= '9') || (*text >= 'a' && *text <= 'f')))
        return false;
    *ret_number = strtoull(text, &end, base);
    return errno == 0 && *end == '\0';
}

static bool is_build_id(const char *text)
{
    size_t length = strlen(text);

    return strcmp(text, "-") == 0
            || (length > 0 && length % 2 == 0 && length < BUILDID_TEXT_MAX
                    && strspn(text, "0123456789abcdef") == length);
}

/* The build-id; without one the path and the identity of the code, which may be unknown. */
static struct key symcache_key_of(const char *build_id, uint64_t identity, const char *path)
{
    struct key key = keytable_text(build_id);

    if (strcmp(build_id, "-") == 0) {
        key = keytable_text(path);
        key.a ^= identity;
    }
    return key;
}

static bool add_module(struct symcache *cache, char *const *fields, unsigned count)
{
    uint64_t identity;

    if (count != 5 || !is_build_id(fields[1]) || !symcache_number_of(fields[2], 16, &identity))
        return false;
    cache->current =
            keytable_number(&cache->builds, symcache_key_of(fields[1], identity, fields[3]));
    if (cache->current == cache->module_count) /* else the same build, loaded once more */
        VEC_PUSH(cache->modules, cache->module_count, cache->module_room) =
                (struct module){.build_id = fields[1], .path = fields[3], .note = fields[4]};
    return true;
}

static bool add_frame(struct symcache *cache, char *const *fields, unsigned count)
{
    uint64_t offset;

    if (count != 2 || cache->module_count == 0 || !symcache_number_of(fields[1], 16, &offset))
        return false;
    *keytable_at(&cache->index, (struct key){cache->current, offset, 0}, 0) =
            (uint32_t)cache->frame_count;
    VEC_PUSH(cache->frames, cache->frame_count, cache->frame_room) =
            (struct frame){.first = cache->line_count};
    return true;
}

static bool symcache_add_line(struct symcache *cache, char *const *fields, unsigned count)
{
    uint64_t number;

    if (count != 4 || cache->frame_count == 0 || *fields[1] == '\0'
            || !symcache_number_of(fields[3], 10, &number) || number > UINT32_MAX)
        return false;
    cache->frames[cache->frame_count - 1].count++;
    VEC_PUSH(cache->lines, cache->line_count, cache->line_room) = (struct dwarfnames_line){
            .function = fields[1],
            .file = *fields[2] ? fields[2] : NULL,
            .line = (unsigned)number,
    };
    return true;
}

static bool symcache_add_row(struct symcache *cache, char *line, size_t number)
{
    char *fields[FIELDS_MAX];
    unsigned count = split_fields(line, fields);

    if (count == 0)
        return false;
    if (number == 1)
        return count == 2 && strcmp(fields[0], "kedge-symbols") == 0 && strcmp(fields[1], "1") == 0;
    if (strcmp(fields[0], "m") == 0)
        return add_module(cache, fields, count);
    if (strcmp(fields[0], "f") == 0)
        return add_frame(cache, fields, count);
    return strcmp(fields[0], "l") == 0 && symcache_add_line(cache, fields, count);
}

struct symcache *symcache_read(const char *text, size_t length, char **ret_why)
{
    struct symcache *cache = vec_new(1, sizeof(*cache));
    size_t number = 0;
    char *rest;

    cache->text = vec_new(length + 1, 1);
    if (length)
        memcpy(cache->text, text, length);
    rest = cache->text;
    if (length == 0 || memchr(text, '\0', length) || text[length - 1] != '\n') {
        *ret_why = vec_text("the names are cut off, or no text");
        symcache_free(cache);
        return NULL;
    }
    while (rest && *rest) {
        char *line = strsep(&rest, "\n");
        if (symcache_add_row(cache, line, ++number))
            continue;
        *ret_why = vec_format("line %zu of the names makes no sense", number);
        symcache_free(cache);
        return NULL;
    }
    return cache;
}

void symcache_free(struct symcache *cache)
{
    if (!cache)
        return;
    keytable_done(&cache->index);
    keytable_done(&cache->builds);
    free(cache->modules);
    free(cache->frames);
    free(cache->lines);
    free(cache->text);
    free(cache);
}

bool symcache_has_module(const struct symcache *cache, const struct trace_module *wanted,
        uint32_t *ret_number, const char **ret_note)
{
    char build_id[BUILDID_TEXT_MAX] = "-";

    if (wanted->build_id_length)
        buildid_text(wanted->build_id, wanted->build_id_length, build_id);
    const uint32_t *number = keytable_find(
            &cache->builds, symcache_key_of(build_id, wanted->identity, wanted->path));
    const struct module *module = number ? &cache->modules[*number] : NULL;
    if (!module || strcmp(module->build_id, build_id) != 0
            || (wanted->build_id_length == 0 && strcmp(module->path, wanted->path) != 0))
        return false;
    *ret_number = *number;
    *ret_note = module->note;
    return true;
}

bool symcache_find(const struct symcache *cache, uint32_t number, uint64_t offset,
        const struct dwarfnames_line **ret_lines, size_t *ret_count)
{
    const uint32_t *index = keytable_find(&cache->index, (struct key){number, offset, 0});

    if (!index)
        return false;
    *ret_lines = cache->lines ? cache->lines + cache->frames[*index].first : NULL;
    *ret_count = cache->frames[*index].count;
    return true;
}

/* ---- writing ---- */

static void write_text(FILE *out, const char *text)
{
    for (; *text; text++) {
        size_t i = 0;
        while (i < ESCAPE_COUNT && escapes[i][0] != *text)
            i++;
        if (i < ESCAPE_COUNT)
            (void)fprintf(out, "\\%c", escapes[i][1]);
        else
            (void)fputc(*text, out);
    }
}

void symcache_write_head(FILE *out)
{
    (void)fputs("kedge-symbols\t1\n", out);
}

void symcache_write_module(FILE *out, const struct trace_module *module, const char *note)
{
    char build_id[BUILDID_TEXT_MAX] = "-";

    if (module->build_id_length)
        buildid_text(module->build_id, module->build_id_length, build_id);
    (void)fprintf(out, "m\t%s\t%" PRIx64 "\t", build_id, module->identity);
    write_text(out, module->path);
    (void)fputc('\t', out);
    write_text(out, note);
    (void)fputc('\n', out);
}

void symcache_write_frame(FILE *out, uint64_t offset)
{
    (void)fprintf(out, "f\t%" PRIx64 "\n", offset);
}

void symcache_write_line(FILE *out, const struct dwarfnames_line *line)
{
    (void)fputs("l\t", out);
    write_text(out, line->function);
    (void)fputc('\t', out);
    if (line->file)
        write_text(out, line->file);
    (void)fprintf(out, "\t%u\n", line->line);
}
