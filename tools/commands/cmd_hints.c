/* SPDX-License-Identifier: MIT */
#include "tools/commands/cmd.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/base/vec.h"
#include "tools/load/figures.h"
#include "tools/suggest/hintlint.h"
#include "tracker/base/ownfile.h"
#include "tracker/hints/hintfile.h"

struct fields {
    bool strict, json;
};

static const struct args_option options[] = {
        {"strict", NULL, "exit with 1 if there is a warning", CMD_FLAG(strict)},
        {"json", NULL, "machine-readable output", CMD_FLAG(json)},
};

/* One row of tracker/hints/hintkeys.def. */
struct row {
    const char *mapping, *key, *form, *initial, *help;
};

static const struct row rows[] = {
#define HINTKEY(map_, key_, form_, initial_, help_, ...) {#map_, key_, form_, initial_, help_},
#include "tracker/hints/hintkeys.def"
};

static bool cmd_hints_is_needed(const struct row *row)
{
    return strcmp(row->initial, "needed") == 0;
}

/* "pick.site"; a key of the file itself has no prefix. The caller frees it. */
static char *full_name(const struct row *row)
{
    char *name = vec_format("%s.%s", row->mapping, row->key);

    if (strcmp(row->mapping, "FILE") == 0)
        memmove(name, name + strlen("FILE."), strlen(row->key) + 1);
    for (char *s = name; *s; s++)
        *s = (char)tolower((unsigned char)*s);
    return name;
}

static void keys_print_text(void)
{
    for (size_t i = 0; i < CMD_COUNT(rows); i++) {
        const struct row *row = &rows[i];
        const char *before = cmd_hints_is_needed(row) ? "; " : *row->initial ? "; default " : "";
        char *name = full_name(row);

        printf("%s: %s%s%s\n    %s\n", name, row->form, before, row->initial, row->help);
        free(name);
    }
}

static void keys_print_json(void)
{
    struct json json = json_open(stdout);

    json_begin(&json, "keys", '[');
    for (size_t i = 0; i < CMD_COUNT(rows); i++) {
        const struct row *row = &rows[i];
        char *name = full_name(row);

        json_begin(&json, NULL, '{');
        json_text(&json, "key", name);
        json_text(&json, "form", row->form);
        json_bool(&json, "needed", cmd_hints_is_needed(row));
        json_text(
                &json, "default", *row->initial && !cmd_hints_is_needed(row) ? row->initial : NULL);
        json_text(&json, "help", row->help);
        json_end(&json, '}');
        free(name);
    }
    json_end(&json, ']');
    json_end(&json, '}');
}

/* Prints sites as the hint file has them. */
static void cmd_hints_json_sites(
        struct json *json, const struct rule_pick *pick, const struct hintfile_words *words)
{
    json_begin(json, "sites", '[');
    for (uint32_t i = 0; i < pick->site_count; i++) {
        char key[32];

        (void)snprintf(key, sizeof(key), "c:%016" PRIx64, pick->site[i]);
        json_text(json, NULL, words->site[i] ? words->site[i] : key);
    }
    json_end(json, ']');
}

static void cmd_hints_json_hints(struct json *json, const struct hintfile *file)
{
    json_begin(json, "hints", '[');
    for (size_t i = 0; file && i < file->rule_count; i++) {
        json_begin(json, NULL, '{');
        json_text(json, "id", file->rule[i].id);
        json_uint(json, "line", file->rule[i].line);
        cmd_hints_json_sites(json, &file->rule[i].pick, &file->words[i]);
        figures_json_expect(json, &file->rule[i]);
        json_end(json, '}');
    }
    json_end(json, ']');
}

static const char *cmd_hints_kind_of(const struct hintlint_remark *remark)
{
    return remark->is_note ? "note" : "warning";
}

static void hints_print_json(const char *path, const struct hintfile *file,
        const struct hintlint *lint, const char *error)
{
    struct json json = json_open(stdout);

    json_text(&json, "file", path);
    json_bool(&json, "valid", file != NULL);
    json_text(&json, "error", error);
    cmd_hints_json_hints(&json, file);
    json_begin(&json, "warnings", '[');
    for (size_t i = 0; i < lint->count; i++) {
        const struct hintlint_remark *remark = &lint->remarks[i];
        json_begin(&json, NULL, '{');
        json_text(&json, "kind", cmd_hints_kind_of(remark));
        json_uint(&json, "line", remark->line);
        json_uint(&json, "column", remark->column);
        json_text(&json, "hint", remark->hint);
        json_text(&json, "text", remark->text);
        json_end(&json, '}');
    }
    json_end(&json, ']');
    json_end(&json, '}');
}

static void hints_print_text(
        const char *path, const struct hintfile *file, const struct hintlint *lint)
{
    for (size_t i = 0; i < lint->count; i++) {
        const struct hintlint_remark *remark = &lint->remarks[i];
        render_print(stdout, "%s:%" PRIu32 ":%" PRIu32 ": %s: %s%s%s%s\n", path, remark->line,
                remark->column, cmd_hints_kind_of(remark), remark->hint ? "hint " : "",
                remark->hint ? remark->hint : "", remark->hint ? ": " : "", remark->text);
    }
    render_print(stdout, "%s: %zu hint%s, %zu warning%s\n", path, file->rule_count,
            render_s(file->rule_count), lint->warnings, render_s(lint->warnings));
}

/* *ret_bytes is malloc'd, NULL if the file could not be read. 0, or -errno with *ret_error. */
static int cmd_hints_read_file(const char *path, char **ret_bytes, size_t *ret_length,
        struct hintfile **ret_file, struct hintfile_error *ret_error)
{
    const char *what = "";
    int r = ownfile_read(path, HINTFILE_BYTES_MAX, ret_bytes, ret_length, &what);

    if (r < 0)
        (void)snprintf(ret_error->text, sizeof(ret_error->text), "%.300s: %s", path, what);
    return r < 0 ? r : hintfile_read_bytes(*ret_bytes, *ret_length, path, ret_file, ret_error);
}

static int check_file(const struct fields *fields, const char *path)
{
    struct hintfile_error error = {.text = ""};
    struct hintfile *file = NULL;
    struct hintlint lint = {0};
    char *bytes = NULL;
    size_t length = 0;
    int r = cmd_hints_read_file(path, &bytes, &length, &file, &error);

    if (r == 0)
        hintlint_hints(file, bytes, length, &lint);
    if (fields->json)
        hints_print_json(path, file, &lint, r < 0 ? error.text : NULL);
    else if (r == 0)
        hints_print_text(path, file, &lint);
    else
        render_print(stderr, "%s%s\n", error.line ? "" : "kedge hints: ", error.text);
    r = r < 0 ? CMD_BAD : fields->strict && lint.warnings ? CMD_NO : CMD_DONE;
    hintlint_done(&lint);
    hintfile_free(file);
    free(bytes);
    return r;
}

static int hints_command(const void *parsed, char **words)
{
    const struct fields *fields = parsed;

    if (strcmp(words[0], "keys") == 0 && !words[1]) {
        if (fields->json)
            keys_print_json();
        else
            keys_print_text();
        return CMD_DONE;
    }
    if (strcmp(words[0], "lint") == 0 && words[1])
        return check_file(fields, words[1]);
    (void)fprintf(stderr, "kedge hints: %s\nusage: kedge %s\n",
            strcmp(words[0], "lint") == 0           ? "lint: FILE is missing"
                    : strcmp(words[0], "keys") == 0 ? "keys: takes no word"
                                                    : "lint FILE, or keys",
            cmd_hints.usage);
    return CMD_BAD;
}

static const char *const subcommands[] = {"lint", "keys", NULL};

const struct cmd cmd_hints = {
        .name = "hints",
        .usage = "hints (lint FILE | keys) [options]",
        .summary = "Checks a hint file as the library does, and asks what a reviewer would ask; or "
                   "lists the keys of the format.",
        CMD_OPTIONS(options, struct fields),
        .words_min = 1,
        .words_max = 2,
        .subcommands = subcommands,
        .run = hints_command,
};
