/* SPDX-License-Identifier: MIT */
#include "tools/commands/cmd.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/base/filename.h"
#include "tools/base/keytable.h"
#include "tools/base/vec.h"
#include "tools/load/figures.h"
#include "tools/output/outfile.h"
#include "tools/symbols/bundle.h"
#include "tools/symbols/dwarfnames.h"
#include "tools/symbols/symfile.h"
#include "tools/trace/stacks.h"

struct fields {
    const char *output;
    bool modules, json;
};

static const struct args_option options[] = {
        {"output|o", "FILE", "where to write it (default CAPTURE.tar.zst)", CMD_OUTPUT(output)},
        {"modules", NULL, "also pack the files that the names come from", CMD_FLAG(modules)},
        {"json", NULL, "machine-readable output", CMD_FLAG(json)},
};

/* A frame of the capture; each is listed once. */
struct place {
    uint32_t module;
    uint64_t offset;
};

struct job {
    const struct fields *fields;
    char *output;
    struct load load;
    struct trace *all; /* every module of the capture, by the capture's own number minus 1 */
    struct symbols *symbols;
    struct place *places; /* by module */
    size_t place_count, place_room;
    char *text; /* of the names */
    size_t text_length;
    struct bundle_file *files;
    size_t file_count, file_room;
    uint64_t modules, named, bytes;
};

/* ── modules and frames ── */

static void cmd_bundle_add_modules(struct job *job)
{
    const struct read_capture *capture = job->load.capture;

    job->all = trace_new();
    job->all->names = job->load.trace->names;
    for (size_t i = 1; i < capture->module_count; i++)
        (void)stacks_add_module(job->all, &capture->module[i]);
}

static const struct vec_key by_module[] = {
        VEC_UP(struct place, module), VEC_UP(struct place, offset)};

/* Adds every frame, of any stack: later versions may ask for any of them. */
static void add_all_places(struct job *job)
{
    const struct read_capture *capture = job->load.capture;
    struct keytable seen = {0};
    struct read_frame frame;

    for (uint32_t stack = 1; stack <= read_stack_count(capture); stack++) {
        if (read_stack(capture, stack, &frame, 1) != 1 || !frame.module)
            continue;
        struct key key = {frame.module_number, frame.offset, 0};
        if (keytable_find(&seen, key))
            continue;
        (void)keytable_at(&seen, key, 1);
        VEC_PUSH(job->places, job->place_count, job->place_room) =
                (struct place){frame.module_number - 1, frame.offset};
    }
    keytable_done(&seen);
    VEC_SORT_BY(job->places, job->place_count, by_module);
}

/* ── names ── */

static void write_place(struct job *job, FILE *out, const struct place *place)
{
    struct dwarfnames_line *lines;
    size_t count = symbols_names(
            job->symbols, &(struct trace_frame){place->module, place->offset}, &lines);

    symcache_write_frame(out, place->offset);
    for (size_t i = 0; i < count; i++)
        symcache_write_line(out, &lines[i]);
    job->named += count != 0;
    free(lines);
}

static int cmd_bundle_write_names(struct job *job)
{
    FILE *out = open_memstream(&job->text, &job->text_length);
    uint32_t module = TRACE_NONE;

    if (!out)
        vec_out_of_memory();
    symcache_write_head(out);
    progress_begin("naming");
    for (size_t i = 0; i < job->place_count; i++) {
        if (job->places[i].module != module) {
            module = job->places[i].module;
            job->modules++;
            symcache_write_module(
                    out, &job->all->modules[module], symbols_module_trouble(job->symbols, module));
        }
        write_place(job, out, &job->places[i]);
        if ((i & 0xff) == 0)
            progress_step(i, job->place_count);
    }
    progress_end();
    return fclose(out) == 0 ? CMD_DONE : CMD_BAD;
}

/* ── files ── */

/*
 * Adds a file under `name`, which it takes over, and by which readers look it up; NULL: no reader
 * does, and two libraries may have one name.
 */
static void pack_file(struct job *job, const char *path, char *name)
{
    for (size_t i = 0; path && i < job->file_count; i++)
        if (strcmp(job->files[i].path, path) == 0
                || (name && strcmp(job->files[i].name, name) == 0)) /* one build at two paths */
            path = NULL;
    if (!path) {
        free(name);
        return;
    }
    if (!name)
        name = vec_format("%zu-%s", job->file_count + 1, filename_of(path));
    VEC_PUSH(job->files, job->file_count, job->file_room) =
            (struct bundle_file){.path = vec_text(path), .name = name};
}

static void pack_files(struct job *job)
{
    uint32_t module = TRACE_NONE;

    for (size_t i = 0; i < job->place_count; i++) {
        if (job->places[i].module == module)
            continue;
        module = job->places[i].module;
        const struct trace_module *captured = &job->all->modules[module];
        const struct symfile *file = symbols_file(job->symbols, module);
        const char *main_path;
        const char *debug_path;
        symfile_paths(file, &main_path, &debug_path);
        pack_file(job, main_path, symfile_packed_name(captured, false));
        pack_file(job, debug_path, symfile_packed_name(captured, true));
    }
}

/* ── the bundle ── */

static void cmd_bundle_say_text(const struct job *job)
{
    render_print(stdout, "%s: %s, names for %" PRIu64 " of %zu frames in %" PRIu64 " module%s",
            job->output, render_bytes(job->bytes).text, job->named, job->place_count, job->modules,
            render_s(job->modules));
    if (job->file_count)
        printf(", %zu file%s", job->file_count, render_s(job->file_count));
    putchar('\n');
    figures_print_trouble(stdout, job->symbols);
}

static void cmd_bundle_say_json(const struct job *job)
{
    struct json json = json_open(stdout);

    json_text(&json, "bundle", job->output);
    json_uint(&json, "bytes", job->bytes);
    json_uint(&json, "modules", job->modules);
    json_uint(&json, "frames", job->place_count);
    json_uint(&json, "named_frames", job->named);
    json_begin(&json, "files", '[');
    for (size_t i = 0; i < job->file_count; i++)
        json_text(&json, NULL, job->files[i].path);
    json_end(&json, ']');
    figures_json_trouble(&json, job->symbols);
    json_end(&json, '}');
}

static int write_bundle(struct job *job)
{
    char *about = vec_format("kedge-bundle 1\n\n"
                             "A capture of kedge " KEDGE_VERSION
                             " with the names of its frames. `kedge report` and the other\n"
                             "commands read this archive, or the folder it was unpacked to, as "
                             "they read the capture.\n");
    struct bundle_parts parts = {.capture = job->load.path,
            .about = about,
            .symbols = job->text,
            .symbols_length = job->text_length,
            .files = job->files,
            .file_count = job->file_count};
    struct outfile file;
    char *why = NULL;
    int r = outfile_open("kedge bundle", job->output, OUTFILE_BUNDLE, &file);

    if (r == 0) {
        bool is_whole = bundle_write(file.fd, &parts, &job->bytes, &why) == 0;
        if (!is_whole)
            (void)fprintf(stderr, "kedge bundle: %s: %s\n", job->output, why);
        r = outfile_done(&file, is_whole);
        r = is_whole ? r : -1;
    }
    free(why);
    free(about);
    return r == 0 ? CMD_DONE : CMD_BAD;
}

static void cmd_bundle_drop(struct job *job)
{
    for (size_t i = 0; i < job->file_count; i++) {
        free(job->files[i].path);
        free(job->files[i].name);
    }
    symbols_free(job->symbols);
    trace_free(job->all);
    free(job->files);
    free(job->places);
    free(job->text);
    free(job->output);
    load_close(&job->load);
}

static int bundle_command(const void *parsed, char **words)
{
    struct job job = {.fields = parsed};
    int r;

    if (bundle_is(words[0])) {
        (void)fprintf(stderr, "kedge bundle: %s is a bundle already\n", words[0]);
        return CMD_BAD;
    }
    job.output =
            job.fields->output ? vec_text(job.fields->output) : vec_format("%s.tar.zst", words[0]);
    r = outfile_look("kedge bundle", job.output, OUTFILE_BUNDLE) < 0 ? CMD_BAD : CMD_DONE;
    if (r == CMD_DONE)
        r = load_open(words[0], &job.load);
    if (r != CMD_DONE) {
        free(job.output);
        return r;
    }
    cmd_bundle_add_modules(&job);
    add_all_places(&job);
    job.symbols = symbols_new(job.all);
    r = cmd_bundle_write_names(&job);
    if (job.fields->modules)
        pack_files(&job);
    if (r == CMD_DONE)
        r = write_bundle(&job);
    if (r == CMD_DONE && job.fields->json)
        cmd_bundle_say_json(&job);
    else if (r == CMD_DONE)
        cmd_bundle_say_text(&job);
    cmd_bundle_drop(&job);
    return r;
}

const struct cmd cmd_bundle = {
        .name = "bundle",
        .usage = "bundle CAPTURE [options]",
        .summary = "Packs a capture with the names of its frames, to be read on another machine.",
        CMD_OPTIONS(options, struct fields),
        .writes = OUTFILE_BUNDLE,
        .words_min = 1,
        .words_max = 1,
        .run = bundle_command,
};
