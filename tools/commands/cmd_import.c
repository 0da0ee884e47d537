/* SPDX-License-Identifier: MIT */
#include "tools/commands/cmd.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/base/render.h"
#include "tools/import/import.h"
#include "tools/import/import_capture.h"
#include "tools/load/load.h"
#include "tools/output/outfile.h"
#include "tools/symbols/bundle.h"
#include "tracker/format/format.h"

struct fields {
    const char *output, *from, *anchors, *rank;
    bool json;
};

static const struct args_option options[] = {
        {"output|o", "FILE", "the capture to write", CMD_OUTPUT(output)},
        {"from", "KIND", "paddle, torch, rmm or csv (default: what the file looks like)",
                CMD_TEXT(from)},
        {"anchors", "PATTERNS",
                "lines of a log that are anchors, as after KEDGE_ANCHORS=log= (default: START "
                "{}|END {})",
                CMD_TEXT(anchors)},
        {"rank", "N", "the rank of the process, for kedge ranks", CMD_TEXT(rank)},
        {"json", NULL, "machine-readable output", CMD_FLAG(json)},
};

/* The formats that can be read, and their readers. */
static const struct kind {
    const char *name, *tool;
    int (*read)(struct import_job *job);
} kinds[] = {
        {"paddle", IMPORT_PADDLE, import_paddle},
        {"torch", IMPORT_TORCH, import_torch},
        {"rmm", IMPORT_RMM, import_rmm},
        {"csv", IMPORT_ROWS, import_rows},
};

enum kind_number {
    KIND_PADDLE,
    KIND_TORCH,
    KIND_RMM,
    KIND_CSV,
};

/*
 * Detects the format. A file that is neither a pickle nor a csv is read as a log, whose reader
 * reports an error if it is none. NULL: it cannot be a log either.
 */
static const struct kind *cmd_import_look(struct import_job *job)
{
    unsigned char head[256] = "";
    size_t length = fread(head, 1, sizeof(head) - 1, job->in);
    bool is_rmm;
    bool is_sure;

    rewind(job->in);
    if (import_is_torch(head, length))
        return &kinds[KIND_TORCH];
    if (import_is_rows((const char *)head, &is_rmm))
        return &kinds[is_rmm ? KIND_RMM : KIND_CSV];
    job->what = import_what(head, length, &is_sure);
    return job->what && is_sure ? NULL : &kinds[KIND_PADDLE];
}

static const struct kind *kind_named(const char *word)
{
    const struct args_names names = ARGS_NAMES(kinds, name, CMD_COUNT(kinds));
    size_t found = args_find(names, word);

    if (found < CMD_COUNT(kinds))
        return &kinds[found];
    const char *near = args_nearest(names, word);
    (void)fprintf(stderr, "kedge import: --from %s: no such kind (%s%s%s)\n", word,
            near ? "did you mean " : "paddle, torch, rmm, csv", near ? near : "", near ? "?" : "");
    return NULL;
}

static int add_patterns(const char *text, struct loglines *patterns)
{
    const char *why = NULL;

    for (size_t length; *text; text += length + (text[length] == ',')) {
        char pattern[LOGLINES_TEXT_MAX + 1];

        length = strcspn(text, ",");
        (void)snprintf(pattern, sizeof(pattern), "%.*s",
                (int)(length < sizeof(pattern) ? length : sizeof(pattern)), text);
        if (loglines_add(patterns, pattern, &why) == 0)
            continue;
        (void)fprintf(stderr, "kedge import: --anchors '%s': %s\n", pattern, why);
        return CMD_BAD;
    }
    return CMD_DONE;
}

static void say_processes(const struct import_job *job)
{
    for (size_t i = 0; i < job->processes.count; i++) {
        const struct import_process *process = &job->processes.list[i];
        uint64_t peak, live;

        import_device_bytes(job->import, process->device, &peak, &live);
        render_print(stdout, "  device %d, %s: peak live %s, %s live at the end\n", process->device,
                process->name, render_bytes(peak).text, render_bytes(live).text);
    }
}

static void cmd_import_say_text(
        const struct kind *kind, const struct import_job *job, const struct import_counts *counts)
{
    printf("%s: %" PRIu64 " allocation%s, %" PRIu64 " free%s, %" PRIu64 " anchor%s, peak live %s\n",
            kind->tool, counts->allocs, render_s(counts->allocs), counts->frees,
            render_s(counts->frees), counts->anchors, render_s(counts->anchors),
            render_bytes(counts->peak_bytes).text);
    say_processes(job);
    if (counts->before)
        printf("%" PRIu64 " block%s lived before it begins\n", counts->before,
                render_s(counts->before));
    if (counts->shared)
        printf("%" PRIu64 " block%s lay at an address that was live elsewhere, on another device "
               "or in another process; all are counted\n",
                counts->shared, render_s(counts->shared));
    if (counts->failed)
        printf("%" PRIu64 " allocation%s failed\n", counts->failed, render_s(counts->failed));
    if (counts->bad)
        printf("%" PRIu64 " of its records make no sense and are left out; the capture says "
               "that it is incomplete\n",
                counts->bad);
}

static void json_processes(struct json *json, const struct import_job *job)
{
    json_begin(json, "processes", '[');
    for (size_t i = 0; i < job->processes.count; i++) {
        const struct import_process *process = &job->processes.list[i];
        uint64_t peak, live;

        import_device_bytes(job->import, process->device, &peak, &live);
        json_begin(json, NULL, '{');
        json_int(json, "device", process->device);
        json_text(json, "name", process->name);
        json_known(json, "peak_live_bytes", peak);
        json_known(json, "live_bytes", live);
        json_end(json, '}');
    }
    json_end(json, ']');
}

static void cmd_import_say_json(const struct fields *fields, const struct kind *kind,
        const struct import_job *job, const struct import_counts *counts)
{
    struct json json = json_open(stdout);

    json_text(&json, "from", kind->name);
    json_text(&json, "file", job->path);
    json_text(&json, "capture", fields->output);
    json_uint(&json, "allocated_count", counts->allocs);
    json_uint(&json, "freed_count", counts->frees);
    json_uint(&json, "before_count", counts->before);
    json_uint(&json, "anchor_count", counts->anchors);
    json_uint(&json, "oom_count", counts->failed);
    json_uint(&json, "live_bytes", counts->live_bytes);
    json_uint(&json, "peak_live_bytes", counts->peak_bytes);
    json_uint(&json, "left_out_count", counts->bad);
    json_processes(&json, job);
    json_end(&json, '}');
}

static int cannot(const char *path, int error)
{
    (void)fprintf(stderr, "kedge import: %s: %s\n", path, strerror(error));
    return CMD_BAD;
}

/* Empties the file and starts from the beginning. 0 or -errno. */
static int start_again(struct import_job *job, int fd)
{
    import_free_books(job->import);
    rewind(job->in);
    return ftruncate(fd, 0) == 0 ? 0 : -errno;
}

static int write_capture(
        const struct fields *fields, const struct kind *kind, struct import_job *job, int fd)
{
    struct import_counts counts;
    int error = 0;
    int r;

    progress_begin("importing");
    do {
        job->import = import_new(fd, kind->tool, job->path, fields->rank);
        r = kind->read(job);
    } while (r == IMPORT_AGAIN && (error = start_again(job, fd)) == 0);
    progress_end();
    if (error < 0)
        return cannot(fields->output, -error);
    if (r == CMD_DONE) {
        error = import_done(job->import, &counts);
        if (error < 0)
            r = cannot(fields->output, -error);
        else if (fields->json)
            cmd_import_say_json(fields, kind, job, &counts);
        else
            cmd_import_say_text(kind, job, &counts);
    }
    import_free_books(job->import);
    import_processes_done(&job->processes);
    return r;
}

static int import_to_file(
        const struct fields *fields, const struct kind *kind, struct import_job *job)
{
    struct outfile file;
    struct stat status;
    int r;

    if (outfile_open("kedge import", fields->output, OUTFILE_CAPTURE, &file) < 0)
        return CMD_BAD;
    if (fstat(file.fd, &status) != 0 || !S_ISREG(status.st_mode)) {
        (void)fprintf(stderr, "kedge import: %s: a capture can only be written to a file\n",
                fields->output);
        r = CMD_BAD;
    } else {
        r = write_capture(fields, kind, job, file.fd);
    }
    return outfile_done(&file, r == CMD_DONE) < 0 ? CMD_BAD : r;
}

static int import_stream(
        const struct fields *fields, const struct kind *kind, struct import_job *job)
{
    int r = add_patterns(fields->anchors ? fields->anchors : LOGLINES_DEFAULT, &job->patterns);

    const struct kind *looks = job->size || !kind ? cmd_import_look(job) : kind;

    if (!kind)
        kind = looks;
    if (r || kind)
        return r ? r : import_to_file(fields, kind, job);
    (void)fprintf(stderr, "kedge import: %s: %s\n", job->path, job->what);
    return CMD_BAD;
}

/* Whether the file begins like a capture, or is a bundle of one. */
static bool is_capture(const char *path)
{
    char head[sizeof FORMAT_MAGIC - 1] = "";
    struct stat status;
    FILE *in = stat(path, &status) == 0 && S_ISREG(status.st_mode) ? fopen(path, "re") : NULL;
    bool is_one = in && fread(head, sizeof head, 1, in) == 1
            && memcmp(head, FORMAT_MAGIC, sizeof head) == 0;

    if (in)
        (void)fclose(in);
    return is_one || (in && bundle_begins(path));
}

/* The tensors that PyTorch has recorded in a run, from its capture. */
static int import_of_capture(const struct fields *fields, const struct kind *kind, const char *path)
{
    struct load load;
    struct import_job job = {.path = path};
    struct import_edge *edges;
    int r;

    if (kind && kind != &kinds[KIND_TORCH]) {
        (void)fprintf(stderr, "kedge import: %s: it is a capture of kedge, and no %s\n", path,
                kind->tool);
        return CMD_BAD;
    }
    r = load_open(path, &load);
    if (r)
        return r;
    job.in = import_capture_record(path, load.capture);
    job.size = job.in ? load.capture->record.what.bytes : 0;
    edges = import_capture_edges(load.capture, load.trace, &job.edge_count);
    job.edges = edges;
    r = job.in ? import_to_file(fields, &kinds[KIND_TORCH], &job) : CMD_BAD;
    if (job.in)
        (void)fclose(job.in);
    free(edges);
    load_close(&load);
    return r;
}

static int import_command(const void *parsed, char **words)
{
    const struct fields *fields = parsed;
    struct import_job job = {.path = words[0]};
    const struct kind *kind = fields->from ? kind_named(fields->from) : NULL;
    struct stat status;
    int r = CMD_BAD;

    if (fields->from && !kind)
        return CMD_BAD;
    if (!fields->output) {
        (void)fprintf(stderr, "kedge import: -o FILE says where the capture goes\n");
        return CMD_BAD;
    }
    if (is_capture(job.path))
        return import_of_capture(fields, kind, job.path);
    job.in = fopen(job.path, "re");
    if (!job.in)
        return cannot(job.path, errno);
    if (fstat(fileno(job.in), &status) == 0 && S_ISREG(status.st_mode))
        job.size = (uint64_t)status.st_size;
    else if (!kind) {
        (void)fprintf(stderr,
                "kedge import: %s: it is no regular file, so --from has to say what comes\n",
                job.path);
        (void)fclose(job.in);
        return CMD_BAD;
    }
    r = import_stream(fields, kind, &job);
    (void)fclose(job.in);
    return r;
}

const struct cmd cmd_import = {
        .name = "import",
        .usage = "import FILE -o CAPTURE [options]",
        .summary =
                "Makes a capture of what another tool has recorded: a log of Paddle's allocator, "
                "a memory snapshot of PyTorch, a log of RMM or a csv of allocations; of a capture, "
                "the "
                "tensors that PyTorch recorded in it.",
        CMD_OPTIONS(options, struct fields),
        .writes = OUTFILE_CAPTURE,
        .words_min = 1,
        .words_max = 1,
        .run = import_command,
};
