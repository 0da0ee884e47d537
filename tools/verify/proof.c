/* SPDX-License-Identifier: MIT */
#include "tools/verify/proof.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/base/vec.h"
#include "tools/run/framework.h"

#define PROOF_SETTING "ran." /* as RAN_SETTING of tracker/stacks/ran.h */

static void proof_lacks(struct proof *proof, char *what)
{
    if (proof->lacks)
        free(what);
    else
        proof->lacks = what;
}

static void proof_add_line(struct proof *proof, unsigned run, const char *key, const char *value)
{
    size_t i = 0;

    while (i < proof->count
            && (strcmp(proof->line[i].key, key) != 0 || strcmp(proof->line[i].value, value) != 0))
        i++;
    if (i == proof->count) {
        VEC_PUSH(proof->line, proof->count, proof->room) =
                (struct receipt_line){vec_text(key), vec_text(value)};
        VEC_PUSH(proof->runs, proof->run_count, proof->run_room) = 0;
    }
    proof->runs[i] |= 1U << run;
}

/* ---- a process's own settings ---------------------------------------------------------- */

/* "HASH PATH", "module NAME", "code", "input". */
static void proof_look_at_script(struct proof *proof, const char *value)
{
    const char *path = strchr(value, ' ');

    if (strcmp(value, "input") == 0)
        proof_lacks(proof,
                vec_text("the script came through standard input: a receipt cannot say which it "
                         "was"));
    else if (strncmp(value, "0000000000000000 ", 17) == 0)
        proof_lacks(proof,
                vec_format(
                        "the script%s cannot be read as a file: a receipt cannot say which it was",
                        path));
    for (size_t i = 0; i < proof->count && path; i++) {
        const struct receipt_line *line = &proof->line[i];
        const char *other = strchr(line->value, ' ');

        if (strcmp(line->key, "script") == 0 && other && strcmp(other, path) == 0
                && strcmp(line->value, value) != 0)
            proof_lacks(proof, vec_format("the script%s was changed meanwhile", path));
    }
}

static void proof_add_settings(
        struct proof *proof, const struct read_capture *capture, unsigned run)
{
    bool is_told = false;

    for (size_t i = 0; i < capture->setting_count; i++) {
        const struct read_pair *pair = &capture->setting[i];
        const char *key = pair->name + sizeof(PROOF_SETTING) - 1;

        if (strncmp(pair->name, PROOF_SETTING, sizeof(PROOF_SETTING) - 1) != 0)
            continue;
        is_told = true;
        if (strcmp(key, "script") == 0)
            proof_look_at_script(proof, pair->value);
        proof_add_line(proof, run, strncmp(key, "gpu", 3) == 0 ? "device" : key, pair->value);
    }
    if (!is_told)
        proof_lacks(proof, vec_format("process %" PRIu32 " does not say what it is", capture->pid));
}

static const char *proof_directory(const struct read_capture *capture)
{
    for (size_t i = 0; i < capture->setting_count; i++)
        if (strcmp(capture->setting[i].name, "directory") == 0)
            return capture->setting[i].value;
    return "";
}

/* ---- Python --------------------------------------------------------------------------------- */

static bool proof_has_file(const char *folder, const char *name)
{
    char *path = vec_format("%s/%s", folder, name);
    bool is_there = access(path, R_OK) == 0;

    free(path);
    return is_there;
}

/* The version of the outermost package that a file belongs to. */
static void proof_add_version(struct proof *proof, const char *file, unsigned run)
{
    static const char *const names[] = {"version.py", "_version.py", "__init__.py"};
    char *folder = vec_text(file);
    char *top = NULL;
    char value[RECEIPT_VALUE_MAX];
    char *slash;

    while ((slash = strrchr(folder, '/')) != NULL && slash > folder) {
        *slash = '\0';
        if (!proof_has_file(folder, "__init__.py"))
            break;
        free(top);
        top = vec_text(folder);
    }
    for (size_t i = 0; top && i < sizeof(names) / sizeof(*names); i++) {
        char *path = vec_format("%s/%s", top, names[i]);
        bool has = receipt_version_value(path, value);

        free(path);
        if (has) {
            proof_add_line(proof, run, "version", value);
            break;
        }
    }
    free(top);
    free(folder);
}

/* The program's own modules may allocate nothing and still use memory. */
static void proof_add_own(struct proof *proof, const struct read_capture *capture, unsigned run)
{
    char **command = vec_new(capture->argc + 1, sizeof(char *));
    char value[RECEIPT_VALUE_MAX];
    struct vec_texts files;

    for (size_t i = 0; i < capture->argc; i++)
        command[i] = vec_text(capture->argv[i]);
    files = framework_files(
            command, getenv("PATH"), getenv("PYTHONPATH"), proof_directory(capture));
    for (size_t i = 0; i < files.count; i++) {
        receipt_file_value(files.at[i], value);
        proof_add_line(proof, run, "file", value);
    }
    vec_free_texts(&files);
    for (size_t i = 0; i < capture->argc; i++)
        free(command[i]);
    free((void *)command);
}

static void proof_add_files(struct proof *proof, const struct load *load, unsigned run)
{
    const char *directory = proof_directory(load->capture);
    struct vec_texts seen = {0};
    char value[RECEIPT_VALUE_MAX];

    for (size_t i = 0; i < load->trace->pyframe_count; i++) {
        const struct trace_pyframe *frame = &load->trace->pyframes[i];
        char *path;

        if (frame->is_native || !frame->file || !*frame->file || *frame->file == '<')
            continue;
        path = *frame->file == '/' || !*directory ? vec_text(frame->file)
                                                  : vec_format("%s/%s", directory, frame->file);
        if (!vec_add_once(&seen, path))
            continue;
        path = seen.at[seen.count - 1];
        receipt_file_value(path, value);
        proof_add_line(proof, run, "file", value);
        proof_add_version(proof, path, run);
    }
    vec_free_texts(&seen);
}

/* ---- libraries ------------------------------------------------------------------------------ */

/* The libraries of the capture's frames, without CUDA's and kedge's own. */
static void proof_add_builds(struct proof *proof, const struct load *load, unsigned run)
{
    const struct trace *trace = load->trace;
    const struct read_capture *capture = load->capture;
    bool *is_used = vec_new(trace->module_count + 1, sizeof(*is_used));
    char value[RECEIPT_VALUE_MAX];

    for (size_t i = 0; i < trace->frame_count; i++)
        if (trace->frames[i].module != TRACE_NONE)
            is_used[trace->frames[i].module] = true;
    for (size_t i = 0; i < trace->module_count; i++) {
        for (size_t k = 1; is_used[i] && k < capture->module_count; k++) {
            const struct read_module *module = &capture->module[k];

            if (module->is_main || !*module->path || module->kind != 0
                    || strcmp(module->path, trace->modules[i].path) != 0)
                continue;
            receipt_build_value(module->hash, module->path, value);
            proof_add_line(proof, run, "build", value);
        }
    }
    free(is_used);
}

void proof_add(struct proof *proof, const struct load *load, unsigned run)
{
    proof_add_settings(proof, load->capture, run);
    proof_add_files(proof, load, run);
    proof_add_own(proof, load->capture, run);
    proof_add_builds(proof, load, run);
}

void proof_end(struct proof *proof, unsigned runs)
{
    for (size_t i = 0; i < proof->count; i++) {
        const struct receipt_line *line = &proof->line[i];
        bool is_command = strcmp(line->key, "command") == 0;

        if ((is_command || strcmp(line->key, "rank") == 0) && (proof->runs[i] & runs) != runs)
            proof_lacks(proof,
                    vec_format("%s %s was not in all runs: a receipt cannot say what was tried",
                            line->key, is_command ? strchr(line->value, ' ') + 1 : line->value));
    }
}

void proof_free(struct proof *proof)
{
    for (size_t i = 0; i < proof->count; i++) {
        free((char *)(size_t)proof->line[i].key);
        free((char *)(size_t)proof->line[i].value);
    }
    free(proof->line);
    free(proof->runs);
    free(proof->lacks);
    *proof = (struct proof){0};
}
