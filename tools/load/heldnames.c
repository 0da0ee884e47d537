/* SPDX-License-Identifier: MIT */
#include "tools/load/heldnames.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/base/filename.h"
#include "tools/base/vec.h"
#include "tools/symbols/dwarfnames.h"
#include "tools/trace/stacks.h"

struct heldnames {
    const struct load *load;
    struct symbols *symbols;
    uint32_t *modules; /* the trace's number of one of the capture, plus 1; 0 = not there yet */
};

static bool heldnames_is_scan(const struct read_capture *capture, uint32_t number)
{
    for (size_t i = 0; i < capture->walk_count; i++)
        if (capture->walk[i].def.id == number)
            return (capture->walk[i].flags & FORMAT_WALK_SCAN) != 0;
    return false;
}

static uint32_t heldnames_module(struct heldnames *names, const struct read_frame *frame)
{
    uint32_t *number = &names->modules[frame->module_number];

    if (*number == 0)
        *number = stacks_add_module(names->load->trace, frame->module) + 1;
    return *number - 1;
}

/* "local 'x' in main m.c:7", "global 'cache' of libfoo.so foo.c:3"; of no variable "a word in main m.c:9". */
static void heldnames_print(
        uint64_t kind, const struct dwarfnames_line *line, const char *module, FILE *out)
{
    const char *function = strstr(line->function, " in ");
    bool is_stack = kind == FORMAT_FRAME_STACK;

    if (is_stack && !function)
        (void)fprintf(out, "a word in %s", line->function);
    else
        (void)fprintf(out, "%s '%.*s'%s%s%s",
                is_stack                           ? "local"
                        : kind == FORMAT_FRAME_TLS ? "thread-local"
                                                   : "global",
                (int)(function ? (size_t)(function - line->function) : strlen(line->function)),
                line->function, function ? function : "", is_stack ? "" : " of ",
                is_stack ? "" : module);
    if (line->file)
        (void)fprintf(out, " %s:%u", filename_of(line->file), line->line);
}

/* The name of the frame of a stack. */
static void heldnames_put(struct heldnames *names, uint32_t stack, FILE *out)
{
    const uint64_t address = (UINT64_C(1) << FORMAT_FRAME_WORD_SHIFT) - 1;
    struct dwarfnames_line *lines = NULL;
    struct read_frame frame;
    const char *module;

    if (read_stack(names->load->capture, stack, &frame, 1) != 1 || !frame.module) {
        (void)fputs("a word of an unknown file", out);
        return;
    }
    module = filename_of(frame.module->path);
    if (symbols_names(names->symbols,
                &(struct trace_frame){heldnames_module(names, &frame), frame.offset}, &lines)
            > 0)
        heldnames_print(frame.offset & FORMAT_FRAME_KIND, &lines[0], module, out);
    else
        (void)fprintf(out, "a word in %s+0x%" PRIx64, module, frame.offset & address);
    free(lines);
}

/* A line with its names; the caller frees it. */
static char *heldnames_line(struct heldnames *names, const char *at, size_t length)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    const char *end = at + length;

    if (!out)
        vec_out_of_memory();
    while (at < end) {
        char *behind = NULL;
        unsigned long stack = *at == '#' ? strtoul(at + 1, &behind, 10) : 0;

        if (stack == 0 || stack > UINT32_MAX) {
            (void)fputc(*at++, out);
            continue;
        }
        heldnames_put(names, (uint32_t)stack, out);
        at = behind;
    }
    (void)fclose(out);
    return text;
}

/* All lines of a row, each once; the caller frees it. */
static char *heldnames_text(struct heldnames *names, const char *at)
{
    struct vec_texts lines = {0};
    char *text = vec_text("");

    for (const char *end; *at; at = *end ? end + 1 : end) {
        end = strchrnul(at, '\n');
        (void)vec_add_once(&lines, heldnames_line(names, at, (size_t)(end - at)));
    }
    for (size_t i = 0; i < lines.count; i++) {
        char *longer = vec_format("%s%s%s", text, i ? "\n" : "", lines.at[i]);

        free(text);
        text = longer;
    }
    vec_free_texts(&lines);
    return text;
}

void heldnames_fill(const struct load *load, struct symbols *symbols)
{
    struct read_capture *capture = load->capture;
    struct heldnames names = {load, symbols, NULL};

    for (size_t i = 0; i < capture->held_count; i++) {
        struct read_held *row = &capture->held[i];
        char *text;

        if (!strchr(row->text, '#') || !heldnames_is_scan(capture, row->walk))
            continue;
        if (!names.modules)
            names.modules = vec_new(capture->module_count + 1, sizeof(*names.modules));
        text = heldnames_text(&names, row->text);
        free(row->text);
        row->text = text;
    }
    free(names.modules);
}
