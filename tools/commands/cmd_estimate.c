/* SPDX-License-Identifier: MIT */
#include "tools/commands/cmd.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/base/render.h"
#include "tools/base/vec.h"
#include "tools/estimate/holding.h"
#include "tools/estimate/optionword.h"
#include "tools/estimate/search.h"
#include "tools/estimate/verdict.h"
#include "tools/page/page.h"
#include "tools/run/spawn.h"

#define WHO "kedge estimate"

struct fields {
    const char *device, *find, *allocator, *capture, *html;
    uint64_t devices, steps, top;
    bool json;
};

static const struct args_option options[] = {
        {"device", "DEVICE",
                "the device that it has to fit on: a name of the list below (default h100-80g), "
                "words, or a FILE of them",
                CMD_TEXT(device)},
        {"devices", "N",
                "how many such devices there are (default: as many as torchrun starts processes)",
                CMD_UINT(devices)},
        {"allocator", "WHICH",
                "PyTorch's: stated (default: what the environment says), expandable or async",
                CMD_TEXT(allocator)},
        {"find", "NAME=LOW..HIGH",
                "the largest number with which it fits, as value of the option NAME of the command",
                CMD_TEXT(find)},
        {"steps", "N", "end the program after N steps (default: it runs to its end)",
                CMD_UINT(steps)},
        {"capture", "FILE", "keep the capture of the run", CMD_TEXT(capture)},
        {"html", "FILE",
                "write the answer and the run as one HTML page to FILE (- = standard output)",
                CMD_OUTPUT(html)},
        {"top", "N", "how many lines of the program to list (default 10)", CMD_UINT(top)},
        {"json", NULL, "machine-readable output", CMD_FLAG(json)},
};

struct estimate {
    const struct fields *fields;
    const struct device *device;
    struct verdict verdict;
    struct holding holding;
};

/* ---- text ------------------------------------------------------------------------------------ */

/* One sentence: the answer. The caller frees it. */
static char *new_sentence(const struct device *device, const struct verdict *verdict)
{
    struct render_bytes most = render_bytes(verdict->most), memory = render_bytes(device->memory);
    char *end;

    switch (verdict->answer) {
    case VERDICT_FITS:
        return vec_format("fits on %s: it needs up to %s of %s, %s to spare", device->name,
                most.text, memory.text, render_bytes((uint64_t)verdict->spare).text);
    case VERDICT_CLOSE:
        return vec_format("fits on %s, but only just: up to %s of %s, and less once the program's "
                          "allocator gives back what it has cached",
                device->name, most.text, memory.text);
    case VERDICT_NOT:
        return vec_format("does not fit on %s: it needs %s to %s of %s", device->name,
                render_bytes(verdict->least).text, most.text, memory.text);
    case VERDICT_FAILED:
        break;
    }
    end = verdict_new_end(verdict);
    char *text = vec_format("not known: the program ended with %s", end);
    free(end);
    return text;
}

static void print_processes(const struct verdict *verdict)
{
    const struct trial *trial = &verdict->trial;

    if (trial->count < 2)
        return;
    puts("\nProcesses (what NCCL keeps for itself is not counted)");
    for (size_t i = 0; i < trial->count; i++) {
        const struct trial_process *process = &trial->processes[i];

        for (unsigned device = 0; device < TRIAL_DEVICES; device++)
            if (process->peak[device])
                printf("  %11s  device %u  %s%s process %" PRIu32 "\n",
                        render_bytes(process->peak[device]).text, device,
                        *process->rank ? "rank " : "", process->rank, process->pid);
    }
}

#define READS_SHOWN 5

/* What the estimate rests on and the device did not compute. */
static void print_reads(const struct reads *reads)
{
    size_t shown = 0;

    if (reads->sizes)
        puts("\nSizes of tensors that were read from values which the simulated device invents; "
             "what depends on them is not known:");
    for (size_t i = 0; i < reads->count && shown < READS_SHOWN && reads_is_size(&reads->places[i]);
            i++, shown++)
        render_print(stdout, "  %s at %s, %" PRIu64 " time%s\n", reads->places[i].operator_name,
                reads->places[i].place, reads->places[i].count, render_s(reads->places[i].count));
    for (size_t i = 0; i < reads->count; i++) {
        const struct reads_place *place = &reads->places[i];

        if (reads_is_size(place))
            continue;
        putchar('\n');
        render_print(stdout, "The program read other such values %" PRIu64 " time%s, most at %s\n",
                reads->others, render_s(reads->others), place->place);
        return;
    }
}

static void print_needs(const struct device *device, const struct verdict *verdict, uint64_t live)
{
    unsigned contexts = verdict->use.processes;

    printf("  %11s   from the device's memory, as the program's allocator asked for it",
            render_bytes(verdict->use.bytes).text);
    if (live != UINT64_MAX)
        printf("; %s of it in use at once", render_bytes(live).text);
    printf("\n  %11s to ", render_bytes(contexts * device->least).text);
    printf("%s   context, kernels and libraries of %u process%s: published figures, not "
           "simulated\n",
            render_bytes(contexts * device->most).text, contexts, contexts == 1 ? "" : "es");
}

/* ---- answers ---------------------------------------------------------------------------------- */

static void estimate_print_text(const struct estimate *estimate)
{
    const struct fields *fields = estimate->fields;
    const struct device *device = estimate->device;
    const struct verdict *verdict = &estimate->verdict;
    const struct holding *holding = &estimate->holding;
    struct render_ink ink = render_ink(stdout);
    char *sentence = new_sentence(device, verdict);
    bool is_good = verdict->answer == VERDICT_FITS;

    render_print(stdout, "%s%s%s\n", is_good ? ink.green : ink.red, sentence, ink.off);
    free(sentence);
    if (verdict->trial.count == 0) {
        puts("  no process asked for memory of a device");
        return;
    }
    print_needs(device, verdict, holding->is_open ? holding->answer.lines.peak : UINT64_MAX);
    print_processes(verdict);
    if (holding->is_open && holding->answer.lines.peak != UINT64_MAX) {
        report_lines_print(holding->inner, &holding->answer.lines);
        report_kinds_print_short(holding->inner);
    }
    print_reads(&verdict->trial.reads);
    if (fields->capture && !fields->html && holding->is_open) {
        char *word = render_word(holding->report.path);
        putchar('\n');
        render_print(stdout, "The run as a page: kedge report %s --html estimate.html\n", word);
        free(word);
    }
    if (verdict->trial.was_stopped)
        printf("\nThe program was ended after %" PRIu64 " steps\n", fields->steps);
}

static void estimate_json_processes(struct json *json, const struct trial *trial)
{
    json_begin(json, "processes", '[');
    for (size_t i = 0; i < trial->count; i++) {
        json_begin(json, NULL, '{');
        json_uint(json, "pid", trial->processes[i].pid);
        json_text(json, "rank", *trial->processes[i].rank ? trial->processes[i].rank : NULL);
        json_begin(json, "device_peaks", '[');
        for (unsigned device = 0; device < TRIAL_DEVICES; device++) {
            if (!trial->processes[i].peak[device])
                continue;
            json_begin(json, NULL, '{');
            json_uint(json, "device", device);
            json_uint(json, "bytes", trial->processes[i].peak[device]);
            json_end(json, '}');
        }
        json_end(json, ']');
        json_end(json, '}');
    }
    json_end(json, ']');
}

static void json_lines(struct json *json, const struct holding *holding, uint64_t most)
{
    const struct answer_lines *lines = &holding->answer.lines;

    json_begin(json, "lines", '[');
    for (size_t i = 0; holding->is_open && i < lines->count && i < most; i++) {
        json_begin(json, NULL, '{');
        json_text(json, "title", lines->list[i].title);
        json_uint(json, "bytes", lines->list[i].bytes);
        json_uint(json, "count", lines->list[i].blocks);
        json_end(json, '}');
    }
    json_end(json, ']');
}

static void json_reads(struct json *json, const struct reads *reads)
{
    json_begin(json, "values_not_computed", '[');
    for (size_t i = 0; i < reads->count; i++) {
        json_begin(json, NULL, '{');
        json_text(json, "size_of",
                reads_is_size(&reads->places[i]) ? reads->places[i].operator_name : NULL);
        json_text(json, "title", reads->places[i].place);
        json_uint(json, "count", reads->places[i].count);
        json_end(json, '}');
    }
    json_end(json, ']');
}

static const char *const answers[] = {[VERDICT_FITS] = "fits",
        [VERDICT_CLOSE] = "close",
        [VERDICT_NOT] = "does not fit",
        [VERDICT_FAILED] = "failed"};

static void json_verdict(
        struct json *json, const struct device *device, const struct verdict *verdict)
{
    char *summary = new_sentence(device, verdict);

    json_begin(json, "device", '{');
    json_text(json, "name", device->name);
    json_uint(json, "memory_bytes", device->memory);
    json_text(json, "capability", device->capability);
    json_uint(json, "multiprocessors", device->sms);
    json_text(json, "source", device->source);
    json_end(json, '}');
    json_text(json, "answer", answers[verdict->answer]);
    json_text(json, "summary", summary);
    free(summary);
    json_uint(json, "from_device_bytes", verdict->use.bytes);
    json_uint(json, "fullest_device", verdict->use.device);
    json_uint(json, "contexts", verdict->use.processes);
    json_uint(json, "context_least_bytes", device->least);
    json_uint(json, "context_most_bytes", device->most);
    json_uint(json, "need_least_bytes", verdict->least);
    json_uint(json, "need_most_bytes", verdict->most);
    json_bool(json, "was_stopped", verdict->trial.was_stopped);
}

static void estimate_json_keys(void *context, struct json *json)
{
    const struct estimate *estimate = context;
    const struct holding *holding = &estimate->holding;
    uint64_t live = holding->is_open ? holding->answer.lines.peak : UINT64_MAX;

    json_verdict(json, estimate->device, &estimate->verdict);
    json_known(json, "in_use_bytes", live);
    estimate_json_processes(json, &estimate->verdict.trial);
    json_lines(json, holding, estimate->fields->top ? estimate->fields->top : 10);
    json_reads(json, &estimate->verdict.trial.reads);
    if (holding->is_open)
        report_kinds_json(json, holding->inner);
}

static void print_json(struct estimate *estimate)
{
    struct json json = json_open(stdout);

    estimate_json_keys(estimate, &json);
    json_end(&json, '}');
}

/* ---- the page -------------------------------------------------------------------------------- */

/* The answer above the run of the process that took most. */
static int estimate_write_page(struct estimate *estimate)
{
    const struct page_lead lead = {WHO, "estimate", estimate, estimate_json_keys};
    const char *path = estimate->fields->html;

    if (!estimate->holding.is_open) {
        render_print(stderr, WHO ": --html %s: not written, since no run was recorded\n", path);
        return CMD_DONE;
    }
    int r = page_write(&estimate->holding.report, &lead, path);
    if (r == CMD_DONE && strcmp(path, "-") != 0 && !estimate->fields->json)
        render_print(stdout, "written to %s\n", path);
    return r;
}

/* ---- one run --------------------------------------------------------------------------------- */

static int exit_code(enum verdict_answer answer)
{
    return answer == VERDICT_FAILED ? CMD_BAD : answer == VERDICT_NOT ? CMD_NO : CMD_DONE;
}

static int estimate_once(const struct fields *fields, const struct trial_request *request)
{
    struct estimate estimate = {.fields = fields, .device = request->device};
    int r = verdict_find(*request, &estimate.verdict);

    if (r == CMD_DONE) {
        holding_open(&estimate.verdict, fields->top, &estimate.holding);
        if (fields->json)
            print_json(&estimate);
        else
            estimate_print_text(&estimate);
        if (fields->html)
            r = estimate_write_page(&estimate);
        holding_close(&estimate.holding);
        if (r == CMD_DONE)
            r = exit_code(estimate.verdict.answer);
    }
    verdict_done(&estimate.verdict);
    return r;
}

/* ---- --find ----------------------------------------------------------------------------------- */

/* One number: 0 and *ret_point, or an exit code after one line on stderr. */
static int try_number(struct trial_request request, const struct optionword *option,
        uint64_t number, struct search_point *ret_point)
{
    char **words = optionword_put(option, request.words, number);
    struct verdict verdict;

    if (!words) {
        render_print(stderr,
                WHO ": --find %s: the command has no word {%s}, %s=N, --%s=N or --%s N\n",
                option->name, option->name, option->name, option->name, option->name);
        return CMD_BAD;
    }
    request.words = words;
    request.capture = NULL;
    int r = verdict_find(request, &verdict);
    if (r == CMD_DONE) {
        char *sentence = new_sentence(request.device, &verdict);
        render_print(stderr, WHO ": %s=%" PRIu64 " %s\n", option->name, number, sentence);
        free(sentence);
        *ret_point = (struct search_point){.number = number,
                .need = verdict.most,
                .fits = verdict.answer == VERDICT_FITS || verdict.answer == VERDICT_CLOSE};
        if (verdict.answer == VERDICT_FAILED)
            r = CMD_BAD;
    }
    verdict_done(&verdict);
    optionword_free(words);
    return r;
}

/* Whether each number needed the same: then the program may not read it. */
static bool is_without_effect(const struct search *search)
{
    return search->has_before && search->best.need == search->first.need && !search->has_least;
}

static void estimate_print_found(const struct fields *fields, const struct device *device,
        const struct optionword *option, const struct search *search)
{
    if (fields->json) {
        struct json json = json_open(stdout);
        json_text(&json, "option", option->name);
        if (search->has_best)
            json_uint(&json, "largest", search->best.number);
        else
            json_text(&json, "largest", NULL);
        json_known(&json, "need_most_bytes", search->has_best ? search->best.need : UINT64_MAX);
        json_text(&json, "device", device->name);
        json_uint(&json, "memory_bytes", device->memory);
        json_uint(&json, "tries", search->tries);
        json_bool(&json, "without_effect", is_without_effect(search));
        json_end(&json, '}');
    } else if (search->has_best) {
        printf("%s=%" PRIu64 " is the largest from %" PRIu64 " to %" PRIu64
               " that fits on %s: it needs up to %s of %s\n",
                option->name, search->best.number, option->low, option->high, device->name,
                render_bytes(search->best.need).text, render_bytes(device->memory).text);
        if (is_without_effect(search))
            printf("It needed the same with each number that was tried: does the program read "
                   "%s?\n",
                    option->name);
    } else {
        printf("not even %s=%" PRIu64 " fits on %s: it needs up to %s of %s\n", option->name,
                option->low, device->name, render_bytes(search->least.need).text,
                render_bytes(device->memory).text);
    }
}

static int estimate_find(const struct fields *fields, const struct trial_request *request)
{
    struct optionword option;
    struct search search = {.room = request->device->memory};
    int r = optionword_read(WHO, fields->find, &option);

    search.low = option.low;
    search.high = option.high;
    for (uint64_t next; r == CMD_DONE && (next = search_next(&search)) != 0;) {
        struct search_point point;

        r = try_number(*request, &option, next, &point);
        if (r == CMD_DONE)
            search_tell(&search, point);
    }
    if (r == CMD_DONE) {
        estimate_print_found(fields, request->device, &option, &search);
        r = search.has_best ? CMD_DONE : CMD_NO;
    }
    return r;
}

/* ---- the command ------------------------------------------------------------------------------ */

/* How many processes torchrun starts on this machine, as its words say; 1 if they do not. */
static unsigned devices_of(char *const *words)
{
    static const char *const names[] = {"--nproc_per_node", "--nproc-per-node"};
    unsigned long count = 1;

    for (; *words; words++)
        for (size_t i = 0; i < CMD_COUNT(names); i++) {
            size_t length = strlen(names[i]);
            if (strncmp(*words, names[i], length) != 0)
                continue;
            const char *value = (*words)[length] == '=' ? *words + length + 1
                    : (*words)[length] == '\0'          ? words[1]
                                                        : NULL;
            if (value)
                count = strtoul(value, NULL, 10);
        }
    return count >= 1 && count <= TRIAL_DEVICES ? (unsigned)count : 1;
}

static int cmd_estimate_run(const void *parsed, char **words)
{
    static const char *const allocators[] = {"stated", "expandable", "async", NULL};
    const struct fields *fields = parsed;
    struct device device;
    struct trial_request request = {.who = WHO,
            .device = &device,
            .devices = fields->devices ? (unsigned)fields->devices : devices_of(words),
            .steps = fields->steps,
            .capture = fields->capture,
            .words = words};
    int allocator = args_choose(WHO, "allocator", fields->allocator, allocators);
    int r = allocator < 0 ? CMD_BAD : devices_find(WHO, fields->device, &device);

    if (r == CMD_DONE && fields->devices > TRIAL_DEVICES) {
        (void)fprintf(stderr, WHO ": --devices %" PRIu64 ": 1 to %d expected\n", fields->devices,
                TRIAL_DEVICES);
        r = CMD_BAD;
    }
    if (r == CMD_DONE && fields->find && fields->html) {
        (void)fputs(WHO ": --html is of one run: not with --find\n", stderr);
        r = CMD_BAD;
    }
    if (r == CMD_DONE)
        r = spawn_check(WHO, words[0]);
    if (r != CMD_DONE)
        return r;
    request.allocator = (enum trial_allocator)allocator;
    return fields->find ? estimate_find(fields, &request) : estimate_once(fields, &request);
}

static void explain(void)
{
    devices_print(stdout);
}

const struct cmd cmd_estimate = {
        .name = "estimate",
        .usage = "estimate [options] -- PROGRAM [ARGUMENT...]",
        .summary = "Tells whether a program fits on a device, without one.",
        .explain = explain,
        CMD_OPTIONS(options, struct fields),
        .writes = OUTFILE_PRIVATE,
        .words_min = 1,
        .words_max = -1,
        .tail = true,
        .run = cmd_estimate_run,
};
