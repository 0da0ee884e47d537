/* SPDX-License-Identifier: MIT */
#include "tools/commands/cmd.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tools/base/render.h"
#include "tools/base/vec.h"
#include "tracker/base/config.h"

struct fields {
    bool json;
};

static const struct args_option options[] = {
        {"json", NULL, "machine-readable output", CMD_FLAG(json)},
};

/* One row of tracker/base/options.def; a key row belongs to the variable before it. */
struct row {
    const char *name, *key, *initial, *form, *help;
};

static const struct row rows[] = {
#define OPTION(id_, name_, kind_, def_, form_, help_)    {name_, NULL, def_, form_, help_},
#define OPTION_KEY(id_, key_, kind_, def_, form_, help_) {NULL, key_, def_, form_, help_},
#include "tracker/base/options.def"
};

/* Adds a line that the library would warn with. */
static void take_line(void *data, const char *line)
{
    (void)vec_add_text(data, vec_text(line));
}

static void cmd_env_print_rows(void)
{
    for (size_t i = 0; i < CMD_COUNT(rows); i++) {
        const struct row *row = &rows[i];
        if (row->key) {
            printf("    %s=  (%s)%s%s: %s\n", row->key, row->form, *row->initial ? " default " : "",
                    row->initial, row->help);
            continue;
        }
        const char *value = getenv(row->name);
        render_print(stdout, "%s=%s", row->name, value ? value : row->initial);
        printf("%s\n    %s\n    %s\n", value && *value ? "" : "   (default)", row->form, row->help);
    }
}

static void print_form(struct json *json, const struct row *row)
{
    json_text(json, "default", row->initial);
    json_text(json, "form", row->form);
    json_text(json, "help", row->help);
}

static void env_print_json(const struct vec_texts *complaints)
{
    struct json json = json_open(stdout);

    json_begin(&json, "variables", '[');
    for (size_t i = 0; i < CMD_COUNT(rows);) {
        json_begin(&json, NULL, '{');
        json_text(&json, "name", rows[i].name);
        json_text(&json, "value", getenv(rows[i].name));
        print_form(&json, &rows[i]);
        json_begin(&json, "keys", '[');
        for (i++; i < CMD_COUNT(rows) && rows[i].key; i++) {
            json_begin(&json, NULL, '{');
            json_text(&json, "key", rows[i].key);
            print_form(&json, &rows[i]);
            json_end(&json, '}');
        }
        json_end(&json, ']');
        json_end(&json, '}');
    }
    json_end(&json, ']');
    json_begin(&json, "complaints", '[');
    for (size_t i = 0; i < complaints->count; i++)
        json_text(&json, NULL, complaints->at[i]);
    json_end(&json, ']');
    json_end(&json, '}');
}

static int env_command(const void *parsed, char **words)
{
    const struct fields *fields = parsed;
    struct vec_texts complaints = {0};
    struct config config;

    (void)words;
    config_read(&config, environ, take_line, &complaints);
    if (fields->json)
        env_print_json(&complaints);
    else
        cmd_env_print_rows();
    int r = complaints.count ? CMD_NO : CMD_DONE;
    for (size_t i = 0; i < complaints.count; i++)
        render_print(stderr, "kedge env: %s\n", complaints.at[i]);
    vec_free_texts(&complaints);
    return r;
}

const struct cmd cmd_env = {
        .name = "env",
        .usage = "env [options]",
        .summary =
                "Prints every KEDGE_* variable with its value here, its default and what it does, "
                "and checks the values.",
        CMD_OPTIONS(options, struct fields),
        .pages = true,
        .words_min = 0,
        .words_max = 0,
        .run = env_command,
};
