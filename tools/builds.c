/* SPDX-License-Identifier: MIT */
#include "tools/builds.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/symbols.h"
#include "tools/vec.h"

#define DIGITS 8 /* bytes of a build-id that are shown */

static bool is_same_build(const struct trace_module *a, const struct trace_module *b)
{
    if (a->build_id_length == 0 && b->build_id_length == 0)
        return a->identity == b->identity;
    return a->build_id_length == b->build_id_length
            && memcmp(a->build_id, b->build_id, a->build_id_length) == 0;
}

/* Is there anything by which its build can be told? */
static bool is_known(const struct trace_module *module)
{
    return module->is_program && *module->path
            && (module->build_id_length > 0 || module->identity != 0);
}

static bool is_same_name(const struct trace_module *a, const struct trace_module *b)
{
    return strcmp(symbols_base_name(a->path), symbols_base_name(b->path)) == 0;
}

static void name_build(const struct trace_module *module, char text[static 20])
{
    if (module->build_id_length == 0)
        (void)snprintf(text, 20, "%016" PRIx64, module->identity);
    for (unsigned i = 0; i < module->build_id_length && i < DIGITS; i++)
        (void)snprintf(text + 2 * (size_t)i, 3, "%02x", module->build_id[i]);
}

/* A module of that name in the other run, unless one of them is the same build. */
static const struct trace_module *find_other(
        const struct trace *trace, const struct trace_module *module)
{
    const struct trace_module *other = NULL;

    for (size_t i = 0; i < trace->module_count; i++) {
        const struct trace_module *at = &trace->modules[i];
        if (!is_known(at) || !is_same_name(at, module))
            continue;
        if (is_same_build(at, module))
            return NULL;
        other = at;
    }
    return other;
}

static int by_path(const void *left, const void *right)
{
    const struct builds_change *a = left;
    const struct builds_change *b = right;

    return strcmp(a->path, b->path);
}

static bool is_told(const struct builds_change *changes, size_t count, const char *path)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(changes[i].path, path) == 0)
            return true;
    return false;
}

struct builds_change *builds_compare(
        const struct trace *first, const struct trace *second, size_t *ret_count)
{
    struct builds_change *changes = NULL;
    size_t count = 0;
    size_t room = 0;

    for (size_t i = 0; i < second->module_count; i++) {
        const struct trace_module *module = &second->modules[i];
        struct builds_change change = {.path = module->path};
        const struct trace_module *other = is_known(module) ? find_other(first, module) : NULL;
        if (!other || is_told(changes, count, module->path))
            continue;
        name_build(other, change.first);
        name_build(module, change.second);
        VEC_PUSH(changes, count, room) = change;
    }
    VEC_SORT(changes, count, by_path);
    *ret_count = count;
    return changes;
}

void builds_print(FILE *out, const struct trace *good, const struct trace *bad)
{
    size_t count;
    struct builds_change *changes = builds_compare(good, bad, &count);

    for (size_t i = 0; i < count; i++) {
        (void)fputs("note: ", out);
        render_text(out, changes[i].path);
        (void)fprintf(out,
                " is another build in bad (%s) than in good (%s): what it asks for has other "
                "places, is paired by size alone, and hints for the one do not match the other\n",
                changes[i].second, changes[i].first);
    }
    free(changes);
}

void builds_json(struct json *json, const struct trace *good, const struct trace *bad)
{
    size_t count;
    struct builds_change *changes = builds_compare(good, bad, &count);

    json_begin(json, "rebuilt", '[');
    for (size_t i = 0; i < count; i++) {
        json_begin(json, NULL, '{');
        json_text(json, "path", changes[i].path);
        json_text(json, "good", changes[i].first);
        json_text(json, "bad", changes[i].second);
        json_end(json, '}');
    }
    json_end(json, ']');
    free(changes);
}
