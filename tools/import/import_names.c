/* SPDX-License-Identifier: MIT */
#include "tools/import/import_names.h"

#include <string.h>

#define TEXT_MAX 4096u

uint32_t import_names_text(struct import_names *names, const char *text, size_t length)
{
    char copy[TEXT_MAX + 1];
    struct format_def def = {.kind = FORMAT_DEF_STRING};
    bool is_new;

    length = length ? strnlen(text, length < TEXT_MAX ? length : TEXT_MAX) : 0;
    if (length == 0)
        return 0;
    memcpy(copy, text, length);
    copy[length] = '\0';
    def.id = keytable_number_new(&names->texts, keytable_text(copy), &is_new) + 1;
    if (is_new)
        (void)capmake_def(names->make, &def, sizeof def, copy, length);
    return def.id;
}

static uint32_t import_names_text_of(struct import_names *names, const struct import_text *text)
{
    return import_names_text(names, text->at, text->length);
}

/* One code object a line: other tools give the line of a frame, not the lines of its function. */
static uint32_t import_names_code_of(struct import_names *names, const struct import_frame *frame)
{
    struct format_def_pycode def = {
            .def = {.kind = FORMAT_DEF_PYCODE},
            .name = import_names_text_of(names, &frame->function),
            .file = import_names_text_of(names, &frame->file),
            .first_line = (int32_t)(frame->line & INT32_MAX),
            .table = frame->is_native ? FORMAT_PYTABLE_NATIVE : FORMAT_PYTABLE_NONE,
    };
    struct key key = {(uint64_t)def.name << 32 | def.file, (uint32_t)def.first_line, def.table};
    bool is_new;

    def.def.id = keytable_number_new(&names->codes, key, &is_new) + 1;
    if (is_new)
        (void)capmake_def(names->make, &def.def, sizeof def, NULL, 0);
    return def.def.id;
}

uint32_t import_names_stack(
        struct import_names *names, uint32_t outer, const struct import_frame *frame)
{
    /* before the first instruction: the line is the code's first one */
    struct format_def_pynode def = {.def = {.kind = FORMAT_DEF_PYNODE},
            .parent = outer,
            .code = import_names_code_of(names, frame),
            .lasti = -1};
    bool is_new;

    def.def.id = keytable_number_new(&names->nodes, (struct key){outer, def.code, 0}, &is_new) + 1;
    if (is_new)
        (void)capmake_def(names->make, &def.def, sizeof def, NULL, 0);
    return def.def.id;
}

uint32_t import_names_thread(struct import_names *names, uint64_t id)
{
    struct format_def_thread def = {.def = {.kind = FORMAT_DEF_THREAD}, .tid = (uint32_t)id};
    bool is_new;

    def.def.id = keytable_number_new(&names->threads, (struct key){id, 0, 0}, &is_new) + 1;
    if (is_new)
        (void)capmake_def(names->make, &def.def, sizeof def, NULL, 0);
    return def.def.id;
}

void import_names_setting(struct import_names *names, const char *name, const char *value)
{
    struct format_def_pair def = {.def = {.kind = FORMAT_DEF_SETTING},
            .name = import_names_text(names, name, strlen(name)),
            .value = import_names_text(names, value, strlen(value))};

    (void)capmake_def(names->make, &def.def, sizeof def, NULL, 0);
}

void import_names_done(struct import_names *names)
{
    keytable_done(&names->texts);
    keytable_done(&names->codes);
    keytable_done(&names->nodes);
    keytable_done(&names->threads);
}
