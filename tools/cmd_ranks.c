/* SPDX-License-Identifier: MIT */
#include "tools/cmd.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/captures.h"
#include "tools/report.h"
#include "tools/vec.h"
#include "tracker/hintfile.h"

struct fields {
    bool json;
};

static const struct args_option options[] = {
        {"json", NULL, "machine-readable output", ARGS_FLAG, offsetof(struct fields, json)},
};

/* Blocks that a hint matched: how many lived at one time, as the program frees them, and as the hint does. */
struct matched {
    char *id;
    enum hint_mode mode;
    uint64_t live, live_most;
    uint64_t kept, kept_most;
};

/* One capture. A figure is UINT64_MAX where events are missing, all are where it is damaged. */
struct row {
    char *path, *rank, *host, *end;
    size_t folder_length; /* of its path, with the slash; 0: no folder */
    uint32_t pid;
    bool is_clean, is_complete;
    enum hint_mode mode;
    uint64_t ooms;
    uint64_t peak_live, peak_with_hints, peak_held, peak_reserved;
    struct matched *hints, all;
    size_t hint_count; /* 0: no hints */
    bool holds;        /* one of them holds what the program frees */
};

struct ranks {
    struct row *rows;
    size_t count, room;
    int exit; /* CMD_BAD: captures of a folder have no row */
};

/* ---- captures ------------------------------------------------------------------------------- */

static void count_event(struct matched *matched, const struct trace_event *event, bool is_released)
{
    switch (event->kind) {
    case TRACE_ALLOC:
        if (++matched->live > matched->live_most)
            matched->live_most = matched->live;
        if (++matched->kept > matched->kept_most)
            matched->kept_most = matched->kept;
        break;
    case TRACE_RELEASE:
        matched->kept--;
        break;
    case TRACE_FREE:
        matched->live--;
        matched->kept -= !is_released;
        break;
    default:
        break;
    }
}

static void count_matched(const struct trace *trace, struct row *row)
{
    for (size_t i = 0; i < trace->event_count && row->hint_count; i++) {
        const struct trace_event *event = &trace->events[i];
        const struct trace_block *block =
                event->block == TRACE_NONE ? NULL : &trace->blocks[event->block];

        if (!block || block->rule < 0 || (size_t)block->rule >= row->hint_count)
            continue;
        count_event(&row->hints[block->rule], event, block->released != TRACE_NEVER);
        count_event(&row->all, event, block->released != TRACE_NEVER);
    }
}

/* What nobody knows where events are missing. */
static void forget(struct row *row)
{
    row->peak_with_hints = row->hint_count ? UINT64_MAX : row->peak_live;
    if (!row->is_complete)
        row->peak_live = row->peak_with_hints = row->peak_reserved = row->ooms = UINT64_MAX;
    row->all.live_most = row->all.kept_most = UINT64_MAX;
    for (size_t i = 0; i < row->hint_count; i++)
        row->hints[i].live_most = row->hints[i].kept_most = UINT64_MAX;
}

static struct row row_of(const struct load *load)
{
    const struct read_capture *capture = load->capture;
    const char *slash = strrchr(load->path, '/');
    struct model_figures figures;
    bool is_partial;
    struct row row = {.path = vec_text(load->path),
            .rank = vec_text(capture->rank),
            .host = vec_text(capture->host),
            .end = report_end_text(capture),
            .folder_length = slash ? (size_t)(slash + 1 - load->path) : 0,
            .pid = capture->pid,
            .is_clean = load_has_ended(load),
            .mode = capture->hints_mode,
            .ooms = capture->oom_count,
            .hints = vec_new(load->hint_count, sizeof(*row.hints)),
            .hint_count = load->hint_count};

    figures_of(load, model_whole(load->trace), &figures, &is_partial);
    row.is_complete = !is_partial;
    row.peak_live = figures.peak_live;
    row.peak_with_hints = figures.would.max;
    row.peak_held = load->held_most;
    row.peak_reserved = figures.peak_reserved;
    for (size_t i = 0; i < row.hint_count; i++) {
        row.hints[i].id = vec_text(load->hints[i].id);
        row.hints[i].mode = load->hints[i].mode;
        row.holds |= load->hints[i].action == ACTION_HOLD;
    }
    count_matched(load->trace, &row);
    if (load->complete_from != 0)
        forget(&row);
    if (!row.is_complete || (row.holds && (load->complete_from != 0 || !capture->has_all_events)))
        row.peak_held = UINT64_MAX;
    return row;
}

/* 0, or an exit code after one line. */
static int add_capture(struct ranks *ranks, const char *path)
{
    struct load load = {0};
    int r = load_open(path, &load);

    if (r == CMD_DONE)
        VEC_PUSH(ranks->rows, ranks->count, ranks->room) = row_of(&load);
    load_close(&load);
    return r;
}

/* All captures of a folder, each that cannot be used after one line; 0, or an exit code after one line. */
static int add_folder(struct ranks *ranks, const char *path)
{
    struct captures found;
    int r = CMD_DONE;

    captures_find_any(path, &found);
    if (found.count == 0) {
        (void)fprintf(stderr, "kedge ranks: %s: no captures in this folder\n", path);
        r = CMD_BAD;
    }
    for (size_t i = 0; i < found.count; i++)
        if (add_capture(ranks, found.file[i].path) != CMD_DONE)
            ranks->exit = CMD_BAD;
    captures_done(&found);
    return r;
}

static int add_word(struct ranks *ranks, const char *word)
{
    struct stat about;

    if (stat(word, &about) == 0 && S_ISDIR(about.st_mode))
        return add_folder(ranks, word);
    return add_capture(ranks, word);
}

/* By folder, then by rank as a number, then by name. */
static int by_rank(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    size_t length = x->folder_length < y->folder_length ? x->folder_length : y->folder_length;
    int r = memcmp(x->path, y->path, length);

    if (r == 0)
        r = (x->folder_length > y->folder_length) - (x->folder_length < y->folder_length);
    if (r == 0) {
        unsigned long long i = strtoull(x->rank, NULL, 10), j = strtoull(y->rank, NULL, 10);
        r = (i > j) - (i < j);
    }
    return r ? r : strcmp(x->path, y->path);
}

/* ---- the table ------------------------------------------------------------------------------ */

static void print_bytes(uint64_t bytes)
{
    printf("  %10s", bytes == UINT64_MAX ? "?" : render_bytes(bytes).text);
}

static void print_count(uint64_t count)
{
    if (count == UINT64_MAX)
        printf("  %6s", "?");
    else
        printf("  %6" PRIu64, count);
}

static void print_hinted(const struct row *row)
{
    if (row->hint_count == 0 && row->is_complete) {
        printf("  %10s  %6s  %6s", "-", "-", "-");
        return;
    }
    print_bytes(row->peak_with_hints);
    print_count(row->all.live_most);
    print_count(row->all.kept_most);
}

static void print_rank(const struct row *row, bool holds)
{
    bool is_plain = strcmp(row->end, "exited with status 0") == 0;
    const char *end = !row->is_complete ? "damaged" : is_plain ? "" : row->end;
    char *mode =
            row->hint_count ? vec_format(" (%s)", hintfile_mode_word(row->mode)) : vec_text("");
    char *last =
            vec_format("%s%s%s%s", row->path + row->folder_length, mode, *end ? ", " : "", end);
    const char *rank = *row->rank ? row->rank : "-";
    unsigned length = (unsigned)strlen(rank), pad = length < 4 ? 4 - length : 0;
    unsigned column = 56 + pad + length;

    printf("  %*s", (int)pad, "");
    render_text(stdout, rank);
    print_bytes(row->peak_live);
    print_hinted(row);
    if (holds) {
        column += 12;
        if (row->holds || !row->is_complete)
            print_bytes(row->peak_held);
        else
            printf("  %10s", "-");
    }
    print_bytes(row->peak_reserved);
    printf("  ");
    render_label(stdout, last, column, 8);
    free(mode);
    free(last);
}

/* Where the row before is of another one. */
static void print_folder(const struct row *row, const struct row *before)
{
    if (row->folder_length == (before ? before->folder_length : 0)
            && (!before || memcmp(row->path, before->path, row->folder_length) == 0))
        return;
    char *folder = vec_format("%.*s", (int)row->folder_length, row->path);
    render_label(stdout, folder, 0, 2);
    free(folder);
}

static void print_text(const struct ranks *ranks)
{
    struct render_ink ink = render_ink(stdout);
    bool holds = false;

    for (size_t i = 0; i < ranks->count; i++)
        holds |= ranks->rows[i].holds;
    printf("  %s%4s  %10s  %10s  %6s  %6s%s  %10s  %s%s\n", ink.bold, "rank", "peak live",
            "with hints", "hinted", "kept", holds ? "        held" : "", "reserved", "capture",
            ink.off);
    for (size_t i = 0; i < ranks->count; i++) {
        print_folder(&ranks->rows[i], i ? &ranks->rows[i - 1] : NULL);
        print_rank(&ranks->rows[i], holds);
    }
}

static void json_matched(struct json *json, const struct matched *matched)
{
    json_begin(json, NULL, '{');
    json_text(json, "id", matched->id);
    json_text(json, "mode", hintfile_mode_word(matched->mode));
    json_known(json, "live_most", matched->live_most);
    json_known(json, "live_most_with_hints", matched->kept_most);
    json_end(json, '}');
}

static void json_rank(struct json *json, const struct row *row)
{
    json_begin(json, NULL, '{');
    json_text(json, "rank", *row->rank ? row->rank : NULL);
    json_text(json, "capture", row->path);
    json_text(json, "host", row->host);
    json_uint(json, "pid", row->pid);
    json_text(json, "ended", row->end);
    json_bool(json, "clean", row->is_clean);
    json_bool(json, "complete", row->is_complete);
    json_known(json, "failed_allocations", row->ooms);
    json_known(json, "peak_live_bytes", row->peak_live);
    json_known(json, "peak_reserved_bytes", row->peak_reserved);
    json_known(json, "peak_with_hints_bytes", row->peak_with_hints);
    json_known(json, "peak_held_bytes", row->peak_held);
    json_text(json, "hints_mode", row->hint_count ? hintfile_mode_word(row->mode) : NULL);
    json_begin(json, "hints", '[');
    for (size_t i = 0; i < row->hint_count; i++)
        json_matched(json, &row->hints[i]);
    json_end(json, ']');
    json_end(json, '}');
}

static void print_json(const struct ranks *ranks)
{
    struct json json = json_open(stdout);

    json_begin(&json, "ranks", '[');
    for (size_t i = 0; i < ranks->count; i++)
        json_rank(&json, &ranks->rows[i]);
    json_end(&json, ']');
    json_end(&json, '}');
}

/* ---- the command ---------------------------------------------------------------------------- */

static void free_rows(struct ranks *ranks)
{
    for (size_t i = 0; i < ranks->count; i++) {
        struct row *row = &ranks->rows[i];
        for (size_t k = 0; k < row->hint_count; k++)
            free(row->hints[k].id);
        free(row->hints);
        free(row->path);
        free(row->rank);
        free(row->host);
        free(row->end);
    }
    free(ranks->rows);
}

static int ranks_command(const void *parsed, char **words)
{
    const struct fields *fields = parsed;
    struct ranks ranks = {0};
    int r = CMD_DONE;

    for (size_t i = 0; words[i] && r == CMD_DONE; i++)
        r = add_word(&ranks, words[i]);
    VEC_SORT(ranks.rows, ranks.count, by_rank);
    if (r == CMD_DONE && ranks.count && fields->json)
        print_json(&ranks);
    else if (r == CMD_DONE && ranks.count)
        print_text(&ranks);
    free_rows(&ranks);
    return r == CMD_DONE ? ranks.exit : r;
}

const struct cmd cmd_ranks = {
        .name = "ranks",
        .usage = "ranks CAPTURE|FOLDER... [options]",
        .summary = "The peaks of all ranks, in one table.",
        CMD_OPTIONS(options, struct fields),
        .words_min = 1,
        .words_max = -1,
        .run = ranks_command,
};
