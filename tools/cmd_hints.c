/* SPDX-License-Identifier: MIT */
#include "tools/cmd.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/figures.h"
#include "tracker/hintfile.h"

struct fields {
    bool json;
};

static const struct args_option options[] = {
        {"json", NULL, "machine-readable output", ARGS_FLAG, offsetof(struct fields, json)},
};

/* What the grammar allows and a reviewer would still ask about; NULL = nothing. */
static const char *doubt(const struct rule *rule)
{
    const struct rule_pick *pick = &rule->pick;

    if (pick->site_count == 0 && pick->inside[0] == '\0')
        return "matches allocations of any site anywhere";
    if (pick->size_hi < rule->min_size)
        return "matches nothing: its sizes are below min-size";
    if (!rule_expects(rule))
        return "has no expect: verify cannot tell whether it still matches what it did";
    return NULL;
}

/* As it is written in the file. */
static void json_sites(
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

static void hints_print_json(const char *path, const struct hintfile *file, const char *error)
{
    struct json json = {.out = stdout};

    json_begin(&json, NULL, '{');
    json_text(&json, "file", path);
    json_bool(&json, "valid", file != NULL);
    json_text(&json, "error", error);
    json_begin(&json, "hints", '[');
    for (size_t i = 0; file && i < file->rule_count; i++) {
        json_begin(&json, NULL, '{');
        json_text(&json, "id", file->rule[i].id);
        json_uint(&json, "line", file->rule[i].line);
        json_sites(&json, &file->rule[i].pick, &file->words[i]);
        figures_json_expect(&json, &file->rule[i]);
        json_text(&json, "doubt", doubt(&file->rule[i]));
        json_end(&json, '}');
    }
    json_end(&json, ']');
    json_end(&json, '}');
}

static void hints_print_text(const char *path, const struct hintfile *file)
{
    printf("%s: %zu hint%s\n", path, file->rule_count, render_s(file->rule_count));
    for (size_t i = 0; i < file->rule_count; i++) {
        const char *text = doubt(&file->rule[i]);
        if (text)
            printf("%s:%" PRIu32 ": %s %s\n", path, file->rule[i].line, file->rule[i].id, text);
    }
}

static int lint(const struct fields *fields, const char *path)
{
    struct hintfile_error error = {.text = ""};
    struct hintfile *file = NULL;
    int r = hintfile_read(path, &file, &error);

    if (r < 0) {
        const char *text = *error.text ? error.text : strerror(-r);
        if (fields->json)
            hints_print_json(path, NULL, text);
        else
            (void)fprintf(stderr, "kedge hints: %s%s%s\n", error.line ? "" : path,
                    error.line ? "" : ": ", text);
        /* A file with a fault is an answer; a file that cannot be read is none. */
        return r == -EINVAL || r == -EPERM || r == -EFBIG ? CMD_NO : CMD_BAD;
    }
    if (fields->json)
        hints_print_json(path, file, NULL);
    else
        hints_print_text(path, file);
    hintfile_free(file);
    return CMD_DONE;
}

static int hints_command(const void *parsed, char **words)
{
    if (strcmp(words[0], "lint") == 0)
        return lint(parsed, words[1]);
    (void)fprintf(stderr, "usage: kedge %s\n", cmd_hints.usage);
    return CMD_BAD;
}

const struct cmd cmd_hints = {
        .name = "hints",
        .usage = "hints lint FILE [options]",
        .summary = "Checks a hint file: prints file:line:column of the first fault, or what a "
                   "reviewer would ask.",
        CMD_OPTIONS(options, struct fields),
        .words_min = 2,
        .words_max = 2,
        .run = hints_command,
};
