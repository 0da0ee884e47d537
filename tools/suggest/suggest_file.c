/* SPDX-License-Identifier: MIT */
#include "tools/suggest/suggest_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "alloc/base/wildcard.h"
#include "tools/base/filename.h"
#include "tools/base/render.h"
#include "tools/base/vec.h"
#include "tools/output/outfile.h"
#include "tools/symbols/buildid.h"
#include "tools/symbols/framekind.h"
#include "tools/symbols/symbols.h"
#include "tools/symbols/symfile.h"
#include "tracker/base/script.h"
#include "tracker/hints/hintwrite.h"

void suggest_file_id(const char *word, struct keytable *used, char ret_id[static RULE_ID_MAX])
{
    char name[RULE_ID_MAX - 12];
    size_t n = 0;

    for (const char *s = word; *s && n + 1 < sizeof(name); s++) {
        char c = *s;
        if (c >= 'A' && c <= 'Z')
            c = (char)(c - 'A' + 'a');
        if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))
            name[n++] = c;
        else if (n && name[n - 1] != '-')
            name[n++] = '-';
    }
    while (n && name[n - 1] == '-')
        n--;
    name[n] = '\0';
    if (n == 0)
        memcpy(name, "late", sizeof("late"));
    uint32_t *number = keytable_at(used, keytable_text(name), 0);
    (void)snprintf(ret_id, RULE_ID_MAX, "%s", name);
    if (++*number == 1)
        return;
    do {
        (void)snprintf(ret_id, RULE_ID_MAX, "%s-%" PRIu32, name, *number);
    } while (keytable_find(used, keytable_text(ret_id)) && ++*number);
    (void)keytable_at(used, keytable_text(ret_id), 1);
}

void suggest_file_name(const struct sitekey *key, char **io_title, char **io_word)
{
    const struct trace_pyframe *frame = key->frame;
    const char *dot = strrchr(frame->function, '.'); /* in Class.method */

    if (!framekind_is_program(frame->function, frame->file))
        return;
    free(*io_title);
    free(*io_word);
    *io_title = vec_format("%s %s:%u", frame->function, filename_of(frame->file), frame->line);
    *io_word = vec_text(dot && dot[1] ? dot + 1 : frame->function);
}

void suggest_file_builds(struct hintfile *file, const struct trace *trace, uint32_t stack_number)
{
    const struct trace_stack *stack = &trace->stacks[stack_number];

    for (uint32_t i = 0; i < stack->count && i < 8; i++) {
        uint32_t number = trace->frames[stack->first + i].module;
        if (number == TRACE_NONE || file->build_count == HINTFILE_BUILDS_MAX)
            continue;
        const struct trace_module *module = &trace->modules[number];
        const char *name = filename_of(module->path);
        bool known = module->build_id_length == 0 || strlen(name) >= sizeof(file->build[0].soname);
        for (size_t k = 0; k < file->build_count; k++)
            known = known || strcmp(file->build[k].soname, name) == 0;
        if (known)
            continue;
        struct hintfile_build *build = &file->build[file->build_count++];
        memcpy(build->soname, name, strlen(name) + 1);
        buildid_text(module->build_id, module->build_id_length, build->id);
    }
}

/* A glob for texts that contain the name; cut if it is too long. */
static void suggest_file_glob(const char *name, size_t length, char ret_glob[static RULE_GLOB_MAX])
{
    size_t n = 0;

    ret_glob[n++] = '*';
    for (size_t i = 0; i < length && n + 3 < RULE_GLOB_MAX; i++) {
        if (wildcard_is_special(name[i]))
            ret_glob[n++] = '\\';
        ret_glob[n++] = name[i];
    }
    ret_glob[n++] = '*';
    ret_glob[n] = '\0';
}

/* The part of the command line that names the program: an interpreter's script, else itself. */
static void make_argv_glob(const struct read_capture *capture, char ret_glob[static RULE_GLOB_MAX])
{
    struct script script = script_find(capture->argv, capture->argc);
    const char *name = script.text;
    size_t length = strlen(name);

    while (length > 1 && name[length - 1] == '/') /* the argument is a folder */
        length--;
    for (size_t i = length; script.kind != SCRIPT_CODE && i > 0; i--) {
        if (i < length && name[i - 1] == '/') {
            name += i;
            length -= i;
            break;
        }
    }
    if (length > 0)
        suggest_file_glob(name, length, ret_glob);
    else
        ret_glob[0] = '\0';
}

static char *today(void)
{
    time_t now = time(NULL);
    struct tm parts;
    char text[32] = "";

    if (gmtime_r(&now, &parts))
        (void)strftime(text, sizeof(text), "%Y-%m-%d", &parts);
    return vec_text(text);
}

struct hintfile *suggest_file_file(const struct read_capture *capture, uint64_t min_size)
{
    struct hintfile *file = vec_new(1, sizeof(*file));

    make_argv_glob(capture, file->argv);
    file->mode = HINT_SHADOW;
    file->min_size = min_size;
    file->made_by = vec_text("kedge suggest " KEDGE_VERSION);
    file->made_on = today();
    if (capture->rank && *capture->rank)
        file->predicted_rank = vec_text(capture->rank);
    return file;
}

int suggest_file_save(const struct hintfile *file, const char *path)
{
    size_t length;
    char *text;
    int r = hintwrite_text(file, &text, &length);

    if (r == -E2BIG || r == -EFBIG) {
        (void)fprintf(stderr,
                "kedge suggest: %zu hints are more than a hint file may hold (%u, or %s); narrow "
                "it "
                "down by --from, --to, --min-size\n",
                file->rule_count, HINTFILE_HINTS_MAX, render_bytes(HINTFILE_BYTES_MAX).text);
    } else if (r < 0) {
        (void)fprintf(
                stderr, "kedge suggest: the hints cannot be written down: %s\n", strerror(-r));
    } else {
        r = outfile_write("kedge suggest", path, OUTFILE_HINTS, text, length);
        free(text);
    }
    return r;
}
