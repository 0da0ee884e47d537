/* SPDX-License-Identifier: MIT */
#include "tools/commands/cmd.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/base/render.h"
#include "tools/base/vec.h"
#include "tools/export/exporter.h"
#include "tools/load/figures.h"
#include "tools/output/outfile.h"
#include "tools/steps/stepview.h"

struct fields {
    const char *to, *output, *at;
    uint64_t last, steps, min_size;
    bool json;
};

static const struct args_option options[] = {
        {"to", "FORMAT", "one of the formats below", CMD_TEXT(to)},
        {"output|o", "FILE",
                "where to write it; - is standard output (default: that, unless it is a terminal)",
                CMD_OUTPUT(output)},
        {"at", "MOMENT",
                "what folded and pprof show: what lived at the peak (default), at the "
                "end, or when memory ran out (oom)",
                CMD_TEXT(at)},
        {"last", "N", "of memory_viz: only the last N allocations and frees", CMD_UINT(last)},
        {"steps", "N", "of memory_viz: only the last N steps, stated or detected", CMD_UINT(steps)},
        {"min-size", "SIZE", "of memory_viz: without blocks smaller than SIZE", CMD_SIZE(min_size)},
        {"json", NULL, "machine-readable answer about what was written", CMD_FLAG(json)},
};

static const struct export_format formats[] = {
        {"folded", "folded", "a line for each stack: flamegraph.pl, inferno, speedscope",
                EXPORT_MOMENT, .write = export_folded},
        {"pprof", "pb.gz", "profile.proto, gzipped: pprof, speedscope", EXPORT_MOMENT,
                .is_binary = true, .write = export_pprof},
        {"perfetto", "trace.json", "Chrome trace JSON: ui.perfetto.dev, chrome://tracing",
                EXPORT_RUN, .write = export_perfetto},
        {"memory_viz", "pickle", "a snapshot as PyTorch writes it: pytorch.org/memory_viz",
                EXPORT_RUN, .is_binary = true, .has_limits = true, .write = export_memory_viz},
        {"csv", "csv", "allocations and frees: kedge whatif and import", EXPORT_RUN,
                .write = export_csv},
        {"sqlite", "db", "a database: sqlite3, pandas", EXPORT_RUN, .is_binary = true,
                .is_file = true, .write = export_sqlite},
};

struct task {
    const struct fields *fields;
    const struct export_format *format;
    enum export_at at;
    struct load load;
    struct export_job job;
    const char *output; /* as the user wrote it */
    uint64_t bytes;     /* of the output; UINT64_MAX = unknown */
};

/* ---- parsing ---- */

static int find_format(struct task *task)
{
    const char *to = task->fields->to;
    const struct args_names names = ARGS_NAMES(formats, name, CMD_COUNT(formats));

    if (!to) {
        (void)fputs("kedge export: --to FORMAT is missing; kedge export --help lists the formats\n",
                stderr);
        return CMD_BAD;
    }
    size_t found = args_find(names, to);
    if (found < CMD_COUNT(formats)) {
        task->format = &formats[found];
        return CMD_DONE;
    }
    if (strcmp(to, "speedscope") == 0) {
        (void)fputs(
                "kedge export: --to speedscope is gone; speedscope opens what --to pprof writes\n",
                stderr);
        return CMD_BAD;
    }
    const char *near = args_nearest(names, to);
    (void)fprintf(stderr, "kedge export: there is no format '%s'%s%s%s\n", to,
            near ? " (did you mean " : "", near ? near : "", near ? "?)" : "");
    return CMD_BAD;
}

static int find_moment(struct task *task)
{
    static const char *const words[] = {
            [EXPORT_PEAK] = "peak", [EXPORT_END] = "end", [EXPORT_OOM] = "oom", NULL};
    int at = args_choose("kedge export", "at", task->fields->at, words);

    task->at = (enum export_at)at;
    return at < 0 ? CMD_BAD : CMD_DONE;
}

/* Refuses options that the format would silently ignore. */
static int cmd_export_check_options(const struct task *task)
{
    const struct fields *fields = task->fields;
    const char *wrong = NULL;

    if (fields->at && task->format->shape != EXPORT_MOMENT)
        wrong = "--at is for folded and pprof";
    else if ((fields->last || fields->steps || fields->min_size) && !task->format->has_limits)
        wrong = "--last, --steps and --min-size are for memory_viz";
    else if (fields->last && fields->steps)
        wrong = "--last or --steps, not both";
    if (!wrong)
        return CMD_DONE;
    (void)fprintf(stderr, "kedge export: --to %s: %s\n", task->format->name, wrong);
    return CMD_BAD;
}

static int check_output(struct task *task)
{
    const struct export_format *format = task->format;
    bool is_terminal = isatty(STDOUT_FILENO);
    bool is_stdout = !task->fields->output || strcmp(task->fields->output, "-") == 0;
    const char *why = NULL;
    struct stat status;

    task->output = is_stdout ? "-" : task->fields->output;
    if (format->is_file
            && (is_stdout || (stat(task->output, &status) == 0 && !S_ISREG(status.st_mode))))
        why = "is written to a regular file";
    else if (is_stdout && is_terminal && format->is_binary)
        why = "is binary, which a terminal does not show";
    else if (!task->fields->output && is_terminal)
        why = "is not for reading; -o - prints it all the same";
    if (!why)
        return CMD_DONE;
    (void)fprintf(stderr, "kedge export: --to %s %s (-o FILE.%s)\n", format->name, why,
            format->extension);
    return CMD_BAD;
}

/* ---- the window ---- */

static uint32_t find_last(const struct trace *trace, uint64_t count)
{
    uint32_t at = (uint32_t)trace->event_count;
    uint32_t first = exporter_first_event(trace);

    while (count > 0 && at > first) {
        enum trace_kind kind = trace->events[--at].kind;
        count -= kind == TRACE_ALLOC || kind == TRACE_FREE;
    }
    return at;
}

static int cmd_export_find_steps(struct task *task)
{
    struct stepview view;
    uint64_t count = task->fields->steps;
    int r = CMD_DONE;

    stepview_find(&task->load, model_whole(task->load.trace), STEPVIEW_ANY, &view);
    if (view.row_count == 0) {
        (void)fprintf(stderr, "kedge export: --steps: %s: no steps: %s\n", task->load.path,
                view.period.reason);
        r = CMD_BAD;
    } else {
        task->job.first = view.rows[count < view.row_count ? view.row_count - count : 0].first;
    }
    stepview_done(&view);
    return r;
}

static int cmd_export_find_first(struct task *task)
{
    task->job.first = exporter_first_event(task->load.trace);
    if (task->fields->last)
        task->job.first = find_last(task->load.trace, task->fields->last);
    return task->fields->steps ? cmd_export_find_steps(task) : CMD_DONE;
}

static int cmd_export_find_all(struct task *task)
{
    struct export_job *job = &task->job;
    bool partial;

    *job = (struct export_job){.load = &task->load,
            .symbols = symbols_new(task->load.trace),
            .min_size = task->fields->min_size};
    figures_of(&task->load, model_whole(task->load.trace), &job->figures, &partial);
    job->is_partial = task->load.complete_from > 0;
    if (task->format->shape == EXPORT_MOMENT && !export_moment_find(job, task->at)) {
        (void)fprintf(stderr, "kedge export: --at oom: %s: this run did not run out of memory\n",
                task->load.path);
        return CMD_BAD;
    }
    return cmd_export_find_first(task);
}

/* ---- the output ---- */

static int write_stream(struct task *task, struct outfile *file)
{
    int fd = fcntl(file->fd, F_DUPFD_CLOEXEC, 0);
    FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
    struct stat status;

    if (!out) {
        (void)fprintf(stderr, "kedge export: %s: %s\n", task->output, strerror(errno));
        if (fd >= 0)
            (void)close(fd);
        return CMD_BAD;
    }
    task->job.out = out;
    int r = task->format->write(&task->job);
    errno = 0;
    bool is_whole = fflush(out) == 0 && !ferror(out);
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode))
        task->bytes = (uint64_t)status.st_size;
    if (r == CMD_DONE && !is_whole) {
        (void)fprintf(stderr, "kedge export: %s: the output is not whole: %s\n", task->output,
                strerror(errno ? errno : EIO));
        r = CMD_BAD;
    }
    (void)fclose(out);
    return r;
}

static int write_file(struct task *task, struct outfile *file)
{
    struct stat status;

    task->job.path = file->draft;
    int r = task->format->write(&task->job);
    if (stat(file->draft, &status) == 0)
        task->bytes = (uint64_t)status.st_size;
    return r;
}

static int write_output(struct task *task)
{
    struct outfile file;

    task->bytes = UINT64_MAX;
    if (outfile_open("kedge export", task->output, OUTFILE_PRIVATE, &file) < 0)
        return CMD_BAD;
    if (!isatty(file.fd)) /* on a terminal the output itself shows the progress */
        progress_begin("writing");
    int written = task->format->is_file ? write_file(task, &file) : write_stream(task, &file);
    progress_end();
    return outfile_done(&file, written == CMD_DONE) < 0 ? CMD_BAD : written;
}

/* ---- notes ---- */

static void say_notes(const struct task *task)
{
    const struct export_job *job = &task->job;
    bool is_moment = task->format->shape == EXPORT_MOMENT;

    if (is_moment && job->moment.is_partial)
        (void)fprintf(stderr, "kedge export: %s: incomplete: memory that was %s is missing\n",
                task->load.path, job->moment.title);
    if (!is_moment && job->is_partial)
        (void)fprintf(stderr, "kedge export: %s: incomplete: %s\n", task->load.path,
                load_lacks(task->load.capture));
    if (job->left_out.count)
        (void)fprintf(stderr, "kedge export: %" PRIu64 " block%s left out (%s)\n",
                job->left_out.count, render_s(job->left_out.count),
                render_bytes(job->left_out.bytes).text);
}

static void cmd_export_say_text(const struct task *task)
{
    const struct export_job *job = &task->job;

    if (strcmp(task->output, "-") == 0)
        return;
    render_print(stdout, "%s: %s, %s, ", task->output, task->format->name,
            render_bytes(task->bytes).text);
    if (task->format->shape == EXPORT_MOMENT)
        printf("%s %s\n", render_bytes(job->moment.sum.bytes).text, job->moment.title);
    else
        printf("%" PRIu64 " event%s, peak live %s\n", job->event_count, render_s(job->event_count),
                render_bytes(job->figures.peak_live).text);
}

static void cmd_export_say_json(const struct task *task)
{
    const struct export_job *job = &task->job;
    bool is_moment = task->format->shape == EXPORT_MOMENT;
    struct json json = json_open(stdout);

    json_text(&json, "format", task->format->name);
    json_text(&json, "output", task->output);
    json_known(&json, "output_bytes", task->bytes);
    json_bool(&json, "complete", is_moment ? !job->moment.is_partial : !job->is_partial);
    if (is_moment) {
        json_text(&json, "moment", job->moment.title);
        json_uint(&json, "live_bytes", job->moment.sum.bytes);
        json_uint(&json, "live_count", job->moment.sum.count);
    } else {
        json_uint(&json, "events", job->event_count);
    }
    json_uint(&json, "left_out_bytes", job->left_out.bytes);
    json_uint(&json, "left_out_count", job->left_out.count);
    json_uint(&json, "peak_live_bytes", job->figures.peak_live);
    json_uint(&json, "peak_reserved_bytes", job->figures.peak_reserved);
    figures_json_trouble(&json, job->symbols);
    json_end(&json, '}');
}

static void cmd_export_explain(void)
{
    puts("\nformats:");
    for (size_t i = 0; i < CMD_COUNT(formats); i++)
        printf("  %-11s %-15s %s\n", formats[i].name, formats[i].extension, formats[i].summary);
    puts("\nfolded and pprof show what lived at one moment (--at), the others the "
         "run.");
}

static int export_command(const void *parsed, char **words)
{
    struct task task = {.fields = parsed};

    if (find_format(&task) != CMD_DONE || find_moment(&task) != CMD_DONE
            || cmd_export_check_options(&task) != CMD_DONE || check_output(&task) != CMD_DONE
            || load_open(words[0], &task.load) != CMD_DONE)
        return CMD_BAD;
    progress_begin("adding up");
    int r = cmd_export_find_all(&task);
    progress_end();
    if (r == CMD_DONE)
        r = write_output(&task);
    if (r == CMD_DONE) {
        say_notes(&task);
        if (task.fields->json)
            cmd_export_say_json(&task);
        else
            cmd_export_say_text(&task);
    }
    export_moment_done(&task.job.moment);
    symbols_free(task.job.symbols);
    load_close(&task.load);
    return r;
}

const struct cmd cmd_export = {
        .name = "export",
        .usage = "export CAPTURE --to FORMAT [-o FILE] [options]",
        .summary = "Writes a capture in the format of another tool.",
        .explain = cmd_export_explain,
        CMD_OPTIONS(options, struct fields),
        .writes = OUTFILE_PRIVATE,
        .words_min = 1,
        .words_max = 1,
        .run = export_command,
};
