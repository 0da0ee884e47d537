/* SPDX-License-Identifier: MIT */
#include "tools/commands/cmd.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/base/render.h"
#include "tools/load/captures.h"
#include "tools/page/page.h"
#include "tools/ranks/ranksprint.h"

#define RUNS_ON_PAGE 8 /* whose timelines a page has */

struct fields {
    const char *by, *html;
    uint64_t top;
    bool json;
};

static const struct args_option options[] = {
        {"by", "anchor", "each anchor's figures over the ranks, in a table", CMD_TEXT(by)},
        {"top", "N", "how many call sites or anchors to list (default 10)", CMD_UINT(top)},
        {"html", "FILE", "write the comparison as one HTML page to FILE (- = standard output)",
                CMD_OUTPUT(html)},
        {"json", NULL, "machine-readable output", CMD_FLAG(json)},
};

/* Captures without a summary in a folder, whose path ends with a slash. */
struct unread {
    char *folder;
    size_t count;
};

struct ranks {
    struct ranksum_book book;
    struct ranksum *sums;
    size_t count, room;
    struct unread *unread;
    size_t unread_count, unread_room;
};

/* 0, or an exit code after one line on stderr. */
static int cmd_ranks_add_capture(struct ranks *ranks, const char *path)
{
    struct ranksum sum;
    int r = ranksum_open(path, &ranks->book, &sum);

    if (r == CMD_DONE)
        VEC_PUSH(ranks->sums, ranks->count, ranks->room) = sum;
    return r;
}

/*
 * Adds all captures of a folder; prints one line for each that cannot be used. 0, or an exit code
 * after one line on stderr.
 */
static int add_folder(struct ranks *ranks, const char *path)
{
    struct captures found;
    size_t length = strlen(path);
    size_t unread = 0;
    int r = CMD_DONE;

    captures_find_any(path, &found);
    if (found.count == 0) {
        (void)fprintf(stderr, "kedge ranks: %s: no captures in this folder\n", path);
        r = CMD_BAD;
    }
    progress_begin_all("reading captures");
    for (size_t i = 0; i < found.count; i++) {
        unread += cmd_ranks_add_capture(ranks, found.file[i].path) != CMD_DONE;
        progress_step_all(i, found.count);
    }
    progress_end_all();
    if (unread)
        VEC_PUSH(ranks->unread, ranks->unread_count, ranks->unread_room) = (struct unread){
                vec_format("%s%s", path, length && path[length - 1] == '/' ? "" : "/"), unread};
    captures_done(&found);
    return r;
}

static int cmd_ranks_add_word(struct ranks *ranks, const char *word)
{
    struct stat about;

    if (stat(word, &about) == 0 && S_ISDIR(about.st_mode))
        return add_folder(ranks, word);
    return cmd_ranks_add_capture(ranks, word);
}

static bool is_same_folder(const struct ranksum *a, const struct ranksum *b)
{
    return a->folder_length == b->folder_length && memcmp(a->path, b->path, a->folder_length) == 0;
}

static size_t unread_of(const struct ranks *ranks, const struct ranksum *sum)
{
    size_t count = 0;

    for (size_t i = 0; i < ranks->unread_count; i++)
        if (strlen(ranks->unread[i].folder) == sum->folder_length
                && memcmp(ranks->unread[i].folder, sum->path, sum->folder_length) == 0)
            count += ranks->unread[i].count;
    return count;
}

/* Groups captures into jobs, one for each folder; the caller frees the array and its contents. */
static struct rankjob *list_jobs(const struct ranks *ranks, size_t *ret_count)
{
    struct rankjob *jobs = NULL;
    size_t count = 0;
    size_t room = 0;

    for (size_t i = 0, end; i < ranks->count; i = end) {
        struct rankjob job;
        for (end = i + 1; end < ranks->count && is_same_folder(&ranks->sums[i], &ranks->sums[end]);
                end++)
            ;
        rankjob_compare(
                &ranks->sums[i], end - i, unread_of(ranks, &ranks->sums[i]), &ranks->book, &job);
        VEC_PUSH(jobs, count, room) = job;
    }
    *ret_count = count;
    return jobs;
}

/* ---- the page ---- */

struct ranks_page {
    const struct ranksprint *print;
    const struct ranksum *runs[RUNS_ON_PAGE];
    size_t count;
};

static void ranks_page_add(struct ranks_page *page, const struct ranksum *sum)
{
    for (size_t i = 0; i < page->count; i++)
        if (page->runs[i] == sum)
            return;
    if (sum && sum->is_complete && page->count < RUNS_ON_PAGE)
        page->runs[page->count++] = sum;
}

/* The worst and the median rank of each job, then the others in their order. */
static void ranks_page_choose(struct ranks_page *page)
{
    for (size_t i = 0; i < page->print->job_count; i++) {
        ranks_page_add(page, page->print->jobs[i].worst);
        ranks_page_add(page, page->print->jobs[i].peak.middle);
    }
    for (size_t i = 0; i < page->print->job_count; i++)
        for (size_t k = 0; k < page->print->jobs[i].count; k++)
            ranks_page_add(page, &page->print->jobs[i].sums[k]);
}

static void ranks_page_keys(void *context, struct json *json)
{
    const struct ranks_page *page = context;

    ranksprint_json_keys(json, page->print);
}

static int ranks_page_open(void *context, size_t at, struct report *ret)
{
    const struct ranks_page *page = context;

    *ret = (struct report){.path = page->runs[at]->path, .top = page->print->top};
    int r = load_open(ret->path, &ret->load);
    if (r != CMD_DONE)
        return r;
    ret->window = model_whole(ret->load.trace);
    ret->symbols = symbols_new(ret->load.trace);
    return CMD_DONE;
}

static void ranks_page_close(void *context, struct report *report)
{
    (void)context;
    symbols_free(report->symbols);
    load_close(&report->load);
}

static int ranks_write_page(const struct ranksprint *print, const char *path)
{
    struct ranks_page page = {.print = print};

    ranks_page_choose(&page);
    const struct page_runs runs = {.lead = {"kedge ranks", "ranks", &page, ranks_page_keys},
            .count = page.count,
            .open = ranks_page_open,
            .close = ranks_page_close};
    int r = page_write_runs(&runs, path);
    if (r == CMD_DONE && strcmp(path, "-") != 0)
        render_print(stdout, "written to %s\n", path);
    return r;
}

static int cmd_ranks_compare_and_print(struct ranks *ranks, const struct fields *fields)
{
    int r = CMD_DONE;
    struct ranksprint print = {.book = &ranks->book,
            .by_anchor = fields->by != NULL,
            .top = fields->top ? fields->top : 10};

    VEC_SORT(ranks->sums, ranks->count, ranksum_by_rank);
    struct rankjob *jobs = list_jobs(ranks, &print.job_count);
    print.jobs = jobs;
    print.symbols = symbols_new(ranks->book.sites.trace);
    if (fields->html)
        r = ranks_write_page(&print, fields->html);
    else if (fields->json)
        ranksprint_json(&print);
    else
        ranksprint_text(&print);
    symbols_free(print.symbols);
    for (size_t i = 0; i < print.job_count; i++)
        rankjob_done(&jobs[i]);
    free(jobs);
    return r;
}

static void free_ranks(struct ranks *ranks)
{
    for (size_t i = 0; i < ranks->count; i++)
        ranksum_done(&ranks->sums[i]);
    free(ranks->sums);
    for (size_t i = 0; i < ranks->unread_count; i++)
        free(ranks->unread[i].folder);
    free(ranks->unread);
    ranksum_book_done(&ranks->book);
}

static int ranks_command(const void *parsed, char **words)
{
    const struct fields *fields = parsed;
    struct ranks ranks = {.book = ranksum_book_new()};
    int r = CMD_DONE;

    if (fields->by && strcmp(fields->by, "anchor") != 0) {
        (void)fprintf(stderr, "kedge ranks: --by %s: only --by anchor exists\n", fields->by);
        r = CMD_BAD;
    }
    if (fields->html && fields->json) {
        (void)fputs("kedge ranks: --html has everything on one page: not with --json\n", stderr);
        r = CMD_BAD;
    }
    for (size_t i = 0; words[i] && r == CMD_DONE; i++)
        r = cmd_ranks_add_word(&ranks, words[i]);
    if (r == CMD_DONE && ranks.count)
        r = cmd_ranks_compare_and_print(&ranks, fields);
    if (r == CMD_DONE && ranks.unread_count)
        r = CMD_BAD;
    free_ranks(&ranks);
    return r;
}

const struct cmd cmd_ranks = {
        .name = "ranks",
        .usage = "ranks CAPTURE|FOLDER... [options]",
        .summary =
                "Which rank of a job stands out, and by what; the peaks of all ranks in one table.",
        CMD_OPTIONS(options, struct fields),
        .writes = OUTFILE_PRIVATE,
        .pages = true,
        .words_min = 1,
        .words_max = -1,
        .run = ranks_command,
};
