/* SPDX-License-Identifier: MIT */
#include "tools/evict/cap_hint.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/base/cmdexit.h"
#include "tools/base/filename.h"
#include "tools/base/vec.h"
#include "tools/evict/cap_fit.h"
#include "tools/load/figures.h"
#include "tools/replay/predict.h"
#include "tools/suggest/suggest_file.h"
#include "tools/symbols/title.h"

struct cap_hint {
    const struct cap_hint_job *job;
    const struct trace *trace;
    struct stated_steps steps;
    struct cap_fit fit;
    struct symbols *symbols;
    char **titles; /* of the picks */
};

static const struct {
    const char *key, *why;
} stays[CAP_SITES_CLASSES] = {
        [CAP_SITES_SMALL] = {"small", "smaller than a physical handle, 2 MiB (--min-size)"},
        [CAP_SITES_DRIVER] = {"driver", "made by the driver itself, not the pool's"},
        [CAP_SITES_UNPLACED] = {"no_stack", "no stack was recorded"},
        [CAP_SITES_SHARED] = {"shared",
                "shared by their site (exports, registrations, descriptors)"},
        [CAP_SITES_UNSEEN] = {"unseen",
                "not all their uses may have been seen (kedge report --view patterns)"},
        [CAP_SITES_UNUSED] = {"unused", "no call was seen to use them in a whole step"},
};

static double cap_hint_ms_of(uint64_t ns)
{
    return (double)ns / 1e6;
}

/* "about 1.4 times as long (at 24.00 GiB/s)" */
static char *slow_text(const struct cap_hint *c)
{
    double times = cap_fit_slowdown(&c->fit.step);

    if (times == 0)
        return vec_text("how long it takes is not known (no times in the capture)");
    return vec_format(
            "about %.1f times as long (at %s/s)", times, render_bytes(c->job->bandwidth).text);
}

/* ---- refusals ---- */

static const char *anchor_at(const struct trace *trace, uint32_t at)
{
    const char *path = "";

    for (uint32_t i = 0; i < at && i < trace->event_count; i++)
        if (trace->events[i].kind == TRACE_ENTER)
            path = trace->anchors[trace->events[i].anchor].path;
    return path;
}

static char *call_text(const struct cap_hint *c)
{
    const char *path = anchor_at(c->trace, c->fit.at);

    return vec_format("a call%s%s needs %s of them at once, and beside the %s that stay there is "
                      "room for %s",
            *path ? " in " : "", path, render_bytes(c->fit.needed).text,
            render_bytes(c->fit.other).text, render_bytes(c->fit.room).text);
}

/* " (1.00 GiB: no stack was recorded; ...)": why blocks must stay; "" if there are none. */
static char *stays_text(const struct cap_fit *fit)
{
    char *text = vec_text("");

    for (unsigned i = CAP_SITES_SMALL; i < CAP_SITES_CLASSES; i++) {
        if (!fit->left[i].count)
            continue;
        char *longer = vec_format("%s%s%s: %s", text, *text ? "; " : " (",
                render_bytes(fit->left[i].bytes).text, stays[i].why);
        free(text);
        text = longer;
    }
    char *whole = vec_format("%s%s", text, *text ? ")" : "");
    free(text);
    return whole;
}

static char *no_text(const struct cap_hint *c)
{
    const struct cap_fit *fit = &c->fit;
    struct render_bytes size = render_bytes(c->job->size);

    switch (fit->answer) {
    case CAP_FIT_FITS:
        return vec_format("it fits into %s: no more than %s were held", size.text,
                render_bytes(fit->before).text);
    case CAP_FIT_CALL:
        return call_text(c);
    case CAP_FIT_OTHER: {
        char *why = stays_text(fit);
        char *text = vec_format(
                "it does not fit into %s: %s have to stay, and no more than %s of the %s "
                "that were held could go out%s",
                size.text, render_bytes(fit->other).text,
                render_bytes(fit->before - min_of(fit->other, fit->before)).text,
                render_bytes(fit->before).text, why);
        free(why);
        return text;
    }
    case CAP_FIT_FEW_STEPS:
        return vec_format(
                "the program states %zu step%s (%s) in this run: %d at least tell what is moved "
                "in each",
                c->steps.count, render_s(c->steps.count), c->steps.family, CAP_FIT_STEPS_MIN);
    case CAP_FIT_MIXED_STEPS:
        return vec_format("no hint can name the begin of the steps (%s) and nothing else: they "
                          "have to be ranges of one name",
                c->steps.family);
    case CAP_FIT_NOTHING:
    case CAP_FIT_FOUND:
        break;
    }
    return vec_format("it does not fit into %s, and of the %s that were held nothing may go out",
            size.text, render_bytes(fit->before).text);
}

static void print_stays(const struct cap_fit *fit, FILE *out)
{
    for (unsigned i = CAP_SITES_SMALL; i < CAP_SITES_CLASSES; i++)
        if (fit->left[i].count)
            (void)fprintf(out, "  not managed: %" PRIu64 " block%s, %s: %s\n", fit->left[i].count,
                    render_s(fit->left[i].count), render_bytes(fit->left[i].bytes).text,
                    stays[i].why);
    if (fit->mixed.count)
        (void)fprintf(out, "  not managed: %" PRIu64 " block%s, %s: it fits without them\n",
                fit->mixed.count, render_s(fit->mixed.count), render_bytes(fit->mixed.bytes).text);
}

/* Whether the answer is "no", rather than missing. */
static int cap_hint_code_of(enum cap_fit_answer answer)
{
    if (answer == CAP_FIT_FOUND)
        return CMD_DONE;
    return answer == CAP_FIT_FEW_STEPS || answer == CAP_FIT_MIXED_STEPS ? CMD_BAD : CMD_NO;
}

static void say_no(const struct cap_hint *c)
{
    char *why = no_text(c);

    (void)fputs("kedge suggest: no hint to write: ", stderr);
    render_text(stderr, why);
    (void)fputc('\n', stderr);
    free(why);
}

/* ---- the file ---- */

static void name_hint(struct cap_hint *c)
{
    struct cap_fit *fit = &c->fit;
    char **words = title_words(c->symbols, TITLE_STACKS(fit->picks), fit->pick_count);
    struct keytable used = {0};

    c->titles = title_rows(c->symbols, TITLE_STACKS(fit->picks), fit->pick_count);
    for (size_t i = 0; i < fit->pick_count; i++)
        if (fit->picks[i].key.frame)
            suggest_file_name(&fit->picks[i].key, &c->titles[i], &words[i]);
    suggest_file_id(words[0], &used, fit->rule.id);
    keytable_done(&used);
    title_done(words, fit->pick_count);
}

static char *cap_hint_make_comment(const struct cap_hint *c)
{
    const struct cap_fit *fit = &c->fit;
    const struct cap_fit_step *step = &fit->step;
    char **ways = title_ways(c->symbols, TITLE_STACKS(fit->picks), fit->pick_count);
    char *slow = slow_text(c);
    char *text = vec_format(
            "%s%s\n%" PRIu64 " blocks, %s, on a device that holds %s: all else takes %s of it\n"
            "predicted of each step: %s in, %s out (no order of moves brings in less than %s), %s\n"
            "the first of them: %s",
            c->titles[0], fit->pick_count > 1 ? ", and others" : "", fit->managed.count,
            render_bytes(fit->managed.bytes).text, render_bytes(c->job->size).text,
            render_bytes(fit->other).text, render_bytes(step->moved_in).text,
            render_bytes(step->moved_out).text, render_bytes(step->bound).text, slow, ways[0]);

    free(slow);
    title_done(ways, fit->pick_count);
    return text;
}

static struct hintfile *cap_hint_make_file(const struct cap_hint *c)
{
    const struct load *load = c->job->load;
    struct hintfile *file = suggest_file_file(load->capture, c->job->min_size);
    const struct cap_fit *fit = &c->fit;

    file->predicted_reserved = fit->reserved;
    if (predict_max(c->trace, &fit->rule, 1, &file->predicted_max) != 0)
        file->predicted_max = 0;
    file->made_from = vec_new(1, sizeof(*file->made_from));
    file->made_from[file->made_from_count++] = vec_text(filename_of(load->path));
    file->rule = vec_new(1, sizeof(*file->rule));
    file->words = vec_new(1, sizeof(*file->words));
    file->rule[file->rule_count++] = fit->rule;
    file->words[0].comment = cap_hint_make_comment(c);
    for (size_t i = 0; i < fit->pick_count; i++) {
        file->words[0].site[i] = sitekey_text(&fit->picks[i].key);
        if (!fit->picks[i].key.frame)
            suggest_file_builds(file, c->trace, fit->picks[i].stack);
    }
    return file;
}

/* ---- what is printed ---- */

static void print_found(const struct cap_hint *c)
{
    const struct cap_fit *fit = &c->fit;
    const struct cap_fit_step *step = &fit->step;
    char *slow = slow_text(c);

    printf("%-28s %6" PRIu64 "  %11s  under a cap of %s\n", fit->rule.id, fit->managed.count,
            render_bytes(fit->managed.bytes).text, render_bytes(fit->rule.evict.cap).text);
    for (size_t i = 0; i < fit->pick_count; i++) {
        printf("    ");
        render_label(stdout, c->titles[i], 4, 4);
    }
    printf("  all else on the device: %s at most\n", render_bytes(fit->other).text);
    printf("  steps: %s; in each %s in, %s out; no order of moves brings in less than %s\n",
            c->steps.family, render_bytes(step->moved_in).text, render_bytes(step->moved_out).text,
            render_bytes(step->bound).text);
    printf("  %s: %.3f ms as recorded, and %.3f ms of waiting for copies\n", slow,
            cap_hint_ms_of(step->recorded_ns), cap_hint_ms_of(step->waited_ns));
    printf("  host memory for what is out: %s\n", render_bytes(fit->host).text);
    print_stays(fit, stdout);
    printf("Peak reserved: %s, predicted with the hint %s\n", render_bytes(fit->before).text,
            render_bytes(fit->reserved).text);
    free(slow);
    if (!c->job->output || strcmp(c->job->output, "-") == 0)
        return;
    char *word = render_word(c->job->output);
    printf("written to %s, mode shadow; next: kedge verify --hints %s -- PROGRAM...\n",
            c->job->output, word);
    free(word);
}

static void json_picks(struct json *json, const struct cap_hint *c)
{
    json_begin(json, "picks", '[');
    for (size_t i = 0; i < c->fit.pick_count; i++) {
        const struct cap_sites_pick *pick = &c->fit.picks[i];
        char *key = sitekey_text(&pick->key);

        if (!key)
            key = vec_format("c:%016" PRIx64, pick->key.key);
        json_begin(json, NULL, '{');
        json_text(json, "title", c->titles[i]);
        json_text(json, "key", key);
        json_text(json, "site", symbols_site(c->symbols, pick->stack));
        json_text(json, "python_site", symbols_pysite(c->symbols, pick->stack));
        json_uint(json, "count", pick->sum.count);
        json_uint(json, "bytes", pick->sum.bytes);
        json_end(json, '}');
        free(key);
    }
    json_end(json, ']');
}

static void cap_hint_json_step(struct json *json, const struct cap_fit_step *step)
{
    json_begin(json, "step", '{');
    json_uint(json, "moved_in_bytes", step->moved_in);
    json_uint(json, "moved_out_bytes", step->moved_out);
    json_uint(json, "in_at_least_bytes", step->bound);
    json_real(json, "recorded_ms", cap_hint_ms_of(step->recorded_ns));
    json_real(json, "waited_ms", cap_hint_ms_of(step->waited_ns));
    json_real(json, "times_as_long", cap_fit_slowdown(step));
    json_end(json, '}');
}

static void json_found(struct json *json, const struct cap_hint *c)
{
    const struct rule *rule = &c->fit.rule;

    json_text(json, "id", rule->id);
    json_text(json, "when", rule->when.anchor);
    json_uint(json, "size_min", rule->pick.size_lo);
    json_uint(json, "size_max", rule->pick.size_hi);
    json_uint(json, "cap_bytes", rule->evict.cap);
    json_uint(json, "predicted_peak_reserved_bytes", c->fit.reserved);
    json_uint(json, "host_bytes", c->fit.host);
    figures_json_sum(json, "managed", &c->fit.managed);
    cap_hint_json_step(json, &c->fit.step);
    json_picks(json, c);
}

static void cap_hint_print_json(const struct cap_hint *c)
{
    static const char *const answers[] = {
            "found", "fits", "few_steps", "mixed_steps", "nothing", "other", "call"};
    const struct cap_fit *fit = &c->fit;
    struct json json = json_open(stdout);
    bool is_call = fit->answer == CAP_FIT_CALL;

    json_text(&json, "answer", answers[fit->answer]);
    json_text(&json, "output", fit->answer == CAP_FIT_FOUND ? c->job->output : NULL);
    json_text(&json, "made_from", c->job->load->path);
    json_uint(&json, "size_bytes", c->job->size);
    json_uint(&json, "bandwidth", c->job->bandwidth);
    json_uint(&json, "peak_reserved_bytes", fit->before);
    json_uint(&json, "other_bytes", fit->other);
    json_known(&json, "needed_bytes", is_call ? fit->needed : UINT64_MAX);
    json_known(&json, "room_bytes", is_call ? fit->room : UINT64_MAX);
    json_text(&json, "steps", c->steps.family);
    json_begin(&json, "not_managed", '{');
    for (unsigned i = CAP_SITES_SMALL; i < CAP_SITES_CLASSES; i++)
        figures_json_sum(&json, stays[i].key, &fit->left[i]);
    figures_json_sum(&json, "not_needed", &fit->mixed);
    json_end(&json, '}');
    if (fit->answer == CAP_FIT_FOUND)
        json_found(&json, c);
    json_end(&json, '}');
}

/* ---- the command ---- */

static int cap_hint_save(const struct cap_hint *c)
{
    struct hintfile *file = cap_hint_make_file(c);
    int r = suggest_file_save(file, c->job->output);

    hintfile_free(file);
    return r < 0 ? CMD_BAD : CMD_DONE;
}

static int cap_hint_tell(struct cap_hint *c)
{
    int r = cap_hint_code_of(c->fit.answer);

    if (c->fit.answer == CAP_FIT_FOUND) {
        c->symbols = symbols_new(c->trace);
        name_hint(c);
        if (c->job->output && cap_hint_save(c) != CMD_DONE)
            r = CMD_BAD;
    } else {
        say_no(c);
    }
    if (c->job->json && r != CMD_BAD)
        cap_hint_print_json(c);
    else if (r == CMD_DONE)
        print_found(c);
    if (c->symbols) {
        title_done(c->titles, c->fit.pick_count);
        symbols_free(c->symbols);
    }
    return r;
}

/* Why this run cannot give an answer; NULL: it can. */
static const char *cap_hint_trouble_of(const struct cap_hint *c)
{
    if (c->job->load->complete_from > 0)
        return load_lacks(c->job->load->capture);
    if (c->trace->use_count == 0)
        return "the capture has no order of uses (kedge run --trace full,uses=order --capture FILE "
               "-- PROGRAM records it)";
    if (!c->steps.family)
        return "the program states no steps (ranges of NVTX, or KEDGE_ANCHORS): what goes "
               "out when is planned by them";
    return NULL;
}

static int find_and_tell(struct cap_hint *c)
{
    struct cap_fit_job job = {.trace = c->trace,
            .steps = &c->steps,
            .size = c->job->size,
            .min_size = c->job->min_size,
            .bandwidth = c->job->bandwidth};

    progress_begin("looking for what may go out");
    int r = cap_fit_find(&job, &c->fit);
    progress_end();
    if (r < 0)
        (void)fprintf(stderr, "kedge suggest: %s\n", strerror(-r));
    r = r < 0 ? CMD_BAD : cap_hint_tell(c);
    cap_fit_done(&c->fit);
    return r;
}

int cap_hint_suggest(const struct cap_hint_job *job)
{
    struct cap_hint c = {.job = job, .trace = job->load->trace};
    const char *trouble;
    int r = CMD_BAD;

    if (load_refuses("kedge suggest", job->load))
        return CMD_BAD;
    stated_steps_find_by_uses(c.trace, &c.steps);
    trouble = cap_hint_trouble_of(&c);
    if (trouble)
        (void)fprintf(stderr, "kedge suggest: %s: %s\n", job->load->path, trouble);
    else
        r = find_and_tell(&c);
    stated_steps_done(&c.steps);
    return r;
}
