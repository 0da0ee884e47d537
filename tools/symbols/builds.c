/* SPDX-License-Identifier: MIT */
#include "tools/symbols/builds.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/base/filename.h"
#include "tools/base/vec.h"
#include "tools/symbols/buildid.h"
#include "tools/symbols/symbols.h"
#include "tools/symbols/symfile.h"

/* One library's builds in the two runs. */
struct change {
    const char *path;                                   /* in the bad run; owned by the trace */
    char good[BUILDID_TEXT_MAX], bad[BUILDID_TEXT_MAX]; /* 16 digits, of build-id or fingerprint */
};

static bool builds_is_same_build(const struct trace_module *a, const struct trace_module *b)
{
    if (a->build_id_length == 0 && b->build_id_length == 0)
        return a->identity == b->identity;
    return a->build_id_length == b->build_id_length
            && memcmp(a->build_id, b->build_id, a->build_id_length) == 0;
}

/* Whether the module has anything that identifies its build. */
static bool builds_is_known(const struct trace_module *module)
{
    return module->is_program && *module->path
            && (module->build_id_length > 0 || module->identity != 0);
}

static void name_build(const struct trace_module *module, char text[static BUILDID_TEXT_MAX])
{
    if (module->build_id_length)
        buildid_text(module->build_id, module->build_id_length, text);
    else
        (void)snprintf(text, BUILDID_TEXT_MAX, "%016" PRIx64, module->identity);
    text[16] = '\0';
}

/* A module of that name in the other run, unless a module there is the same build. */
static const struct trace_module *builds_find_other(
        const struct trace *trace, const struct trace_module *module)
{
    const char *name = filename_of(module->path);
    const struct trace_module *other = NULL;

    for (size_t i = 0; i < trace->module_count; i++) {
        const struct trace_module *at = &trace->modules[i];
        if (!builds_is_known(at) || strcmp(filename_of(at->path), name) != 0)
            continue;
        if (builds_is_same_build(at, module))
            return NULL;
        other = at;
    }
    return other;
}

static bool builds_is_told(const struct change *changes, size_t count, const char *path)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(changes[i].path, path) == 0)
            return true;
    return false;
}

/* Sorted by path; the caller frees the array. */
static struct change *list_changes(
        const struct trace *good, const struct trace *bad, size_t *ret_count)
{
    struct change *changes = NULL;
    size_t count = 0;
    size_t room = 0;

    for (size_t i = 0; i < bad->module_count; i++) {
        const struct trace_module *module = &bad->modules[i];
        struct change change = {.path = module->path};
        const struct trace_module *other =
                builds_is_known(module) ? builds_find_other(good, module) : NULL;
        if (!other || builds_is_told(changes, count, module->path))
            continue;
        name_build(other, change.good);
        name_build(module, change.bad);
        VEC_PUSH(changes, count, room) = change;
    }
    VEC_SORT(changes, count, vec_by_text);
    *ret_count = count;
    return changes;
}

void builds_print_as(FILE *out, const struct trace *good, const struct trace *bad,
        const struct builds_words *words)
{
    size_t count;
    struct change *changes = list_changes(good, bad, &count);

    for (size_t i = 0; i < count; i++) {
        (void)fputs("note: ", out);
        render_text(out, changes[i].path);
        (void)fputs(" is another build in ", out);
        render_text(out, words->bad);
        (void)fprintf(out, " (%s) than in ", changes[i].bad);
        render_text(out, words->good);
        (void)fprintf(out, " (%s): %s\n", changes[i].good, words->consequence);
    }
    free(changes);
}

void builds_print(FILE *out, const struct trace *good, const struct trace *bad)
{
    builds_print_as(out, good, bad,
            &(struct builds_words){"good", "bad",
                    "what it asks for has other places, is paired by size alone, and hints for the "
                    "one do not match the other"});
}

void builds_json(struct json *json, const struct trace *good, const struct trace *bad)
{
    size_t count;
    struct change *changes = list_changes(good, bad, &count);

    json_begin(json, "rebuilt", '[');
    for (size_t i = 0; i < count; i++) {
        json_begin(json, NULL, '{');
        json_text(json, "path", changes[i].path);
        json_text(json, "good", changes[i].good);
        json_text(json, "bad", changes[i].bad);
        json_end(json, '}');
    }
    json_end(json, ']');
    free(changes);
}
