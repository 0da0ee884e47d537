/* SPDX-License-Identifier: MIT */
#include "tools/commands/cmd.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "alloc/hints/hint.h"
#include "tools/base/vec.h"
#include "tools/evict/swapsim.h"
#include "tools/load/captures.h"
#include "tools/load/figures.h"
#include "tools/output/outfile.h"
#include "tools/run/spawn.h"
#include "tools/run/tree.h"
#include "tools/suggest/hintlint.h"
#include "tools/suggest/turns.h"
#include "tools/verify/evidence.h"
#include "tools/verify/proof.h"
#include "tools/verify/sameout.h"
#include "tracker/hints/hintfile.h"
#include "tracker/hints/receipt.h"

struct fields {
    struct spawn_options spawn;
    const char *keep, *outputs;
    bool json;
};

static const struct args_option options[] = {
        {"hints", "FILE", "the hints to verify; the receipt is written beside them",
                CMD_TEXT(spawn.hints)},
        {"sim", NULL, "run on the simulated device", CMD_FLAG(spawn.sim)},
        {"api", "WHICH",
                "how frameworks allocate: stream (default), sync, or framework (as they are)",
                CMD_TEXT(spawn.api)},
        {"keep", "DIRECTORY", "make DIRECTORY and leave all captures there", CMD_TEXT(keep)},
        {"outputs", "WHICH",
                "same (default): the program has to print the same with and without hints; or any",
                CMD_TEXT(outputs)},
        {"json", NULL, "machine-readable output; the program's output goes to stderr",
                CMD_FLAG(json)},
};

/* The moves of an evict hint in a run. */
struct evicted {
    uint64_t steps;              /* steps begun, of the process that had most */
    uint64_t in, out, count_out; /* copied */
    uint64_t dropped;
};

/* The results of the runs for one hint, all processes together. */
struct verdict {
    uint64_t matched, matched_bytes;
    uint64_t due, due_bytes;  /* shadow: would have been released */
    uint64_t poisoned, clean; /* poison: overwritten or held; overwritten, and not written since */
    uint64_t unlooked;        /* poison: content that was not checked */
    uint64_t trapped;         /* trap: access was taken away */
    struct evicted evicted[HINT_MODE_COUNT]; /* by the mode of the run */
    struct trace_sum kept;                   /* blocks of it that never went out, in the trap run */
    bool keeps_meta; /* launches carry its address: keep-meta (R86, guard of hints) */
};

struct step {
    const char *name; /* the word of `mode` */
    enum hint_mode mode;
};

/* The outputs of the runs, compared with a run that releases nothing. */
struct outputs {
    struct sameout *same[ECHO_STREAMS];
    bool is_masked;     /* a second such run was compared */
    bool has_processes; /* several processes in one run: the order of their lines is random */
    char *difference;   /* the first one that counts, NULL = none */
};

struct verify {
    const struct fields *fields;
    struct hintfile *file;
    struct verdict *verdicts; /* per rule of the file */
    char *directory;
    char *program; /* identity, as the captures have it */
    char *failure; /* the first error found, NULL = none yet */
    const char *failed_hint;
    struct step step;          /* the current one */
    int status;                /* its program's status, as waitpid returns it */
    size_t capture_count;      /* captures of the step */
    bool is_damaged;           /* one of them is damaged: nothing is decided */
    bool is_faulted;           /* one of them notes that the device failed */
    char *against;             /* evidence of a process against all hints, NULL = none */
    struct evidence_ends ends; /* of the run without hints */
    struct proof proof;        /* what ran in all of the runs, and where */
    struct echo_text printed[ECHO_STREAMS];
    struct outputs outputs;
    off_t input; /* offset of standard input, so that each run reads the same; -1 = cannot seek */
};

__attribute__((format(printf, 3, 4))) static void cmd_verify_fail(
        struct verify *verify, const char *hint, const char *format, ...)
{
    va_list args;

    if (verify->failure) /* the first error is reported */
        return;
    va_start(args, format);
    verify->failure = vec_vformat(format, args);
    va_end(args);
    verify->failed_hint = hint;
}

static char *status_text(int status)
{
    if (WIFSIGNALED(status))
        return vec_format(
                "was ended by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    return vec_format("ended with exit code %d", WEXITSTATUS(status));
}

/*
 * A kernel that gets the address may read released memory, which only the device sees. The program
 * then fails.
 */
static void judge_carried(struct verify *verify, const struct load *load,
        const struct load_hint *hint, const char *id)
{
    struct symbols *symbols;
    char *text;

    if (verify->step.mode == HINT_SHADOW || verify->status == 0
            || hint->sums[FORMAT_HINT_CARRIED].count == 0)
        return;
    symbols = symbols_new(load->trace);
    (void)fprintf(stderr,
            "kedge verify: %s: hint %s: kernels were given its address after the release\n",
            verify->step.name, hint->id);
    figures_print_touch(stderr, symbols, load->trace, hint);
    symbols_free(symbols);
    text = status_text(verify->status);
    cmd_verify_fail(verify, id, "%s: the program %s, and kernels were given the address",
            verify->step.name, text);
    free(text);
}

static void judge_written(struct verify *verify, const struct load *load,
        const struct load_hint *hint, const char *id)
{
    struct symbols *symbols;
    char *before;

    if (hint->sums[FORMAT_HINT_LATE_WRITE].count == 0)
        return;
    symbols = symbols_new(load->trace);
    before = vec_format("kedge verify: %s: ", verify->step.name);
    figures_print_written(stderr, before, symbols, load->trace, hint);
    free(before);
    symbols_free(symbols);
    cmd_verify_fail(
            verify, id, "%s: its storage is written after the release was due", verify->step.name);
}

static void judge_hint(struct verify *verify, const struct load *load, size_t index)
{
    const char *step = verify->step.name;
    const struct load_hint *hint = &load->hints[index];
    const char *id = verify->file->rule[index].id;
    uint64_t touches = load_touches(hint);
    uint64_t refused = hint->sums[FORMAT_HINT_REFUSED].count;

    if (load_drifts(hint)) {
        char text[512] = "matched something else than it expects";

        if (hint->drift)
            hintwords_tell_drift(hint->drift, text, sizeof(text));
        cmd_verify_fail(verify, id, "%s: %s", step, text);
    }
    if (touches) {
        struct symbols *symbols = symbols_new(load->trace);
        (void)fprintf(stderr, "kedge verify: %s: hint %s: %" PRIu64 " uses after the release\n",
                step, hint->id, touches);
        figures_print_touch(stderr, symbols, load->trace, hint);
        symbols_free(symbols);
        cmd_verify_fail(verify, id, "%s: its storage is used after the release was due", step);
    }
    judge_written(verify, load, hint, id);
    judge_carried(verify, load, hint, id);
    if (refused)
        cmd_verify_fail(verify, id, "%s: %" PRIu64 " releases could not be made", step, refused);
}

static void cmd_verify_add_hint(struct verify *verify, size_t index, const struct load_hint *hint)
{
    struct verdict *verdict = &verify->verdicts[index];
    const struct trace_sum *sums = hint->sums;

    if (verify->step.mode == HINT_SHADOW) {
        verdict->matched += sums[FORMAT_HINT_PLANNED].count;
        verdict->matched_bytes += sums[FORMAT_HINT_PLANNED].bytes;
        verdict->due += sums[FORMAT_HINT_WOULD_RELEASE].count + sums[FORMAT_HINT_HELD].count;
        verdict->due_bytes += sums[FORMAT_HINT_WOULD_RELEASE].bytes + sums[FORMAT_HINT_HELD].bytes;
        verdict->keeps_meta |=
                hint->action == ACTION_RELEASE && sums[FORMAT_HINT_CARRIED].count > 0;
    } else if (verify->step.mode == HINT_POISON) {
        verdict->poisoned += sums[FORMAT_HINT_DEAD].count + sums[FORMAT_HINT_HELD].count;
        verdict->clean += sums[FORMAT_HINT_CLEAN].count;
        verdict->unlooked += load_unlooked(hint);
    } else {
        verdict->trapped += sums[FORMAT_HINT_DEAD].count + sums[FORMAT_HINT_HELD].count;
    }
}

/*
 * In a trial, hints that hold and hints that evict act: without them the program may be wrong or
 * not fit.
 */
static enum hint_mode mode_in(enum hint_mode mode, const struct rule *rule)
{
    if (mode == HINT_SHADOW && rule->action == ACTION_HOLD)
        return HINT_TRAP;
    return mode == HINT_SHADOW && rule->action == ACTION_EVICT ? HINT_POISON : mode;
}

/* A restore counts for the hint whose blocks it brings in. */
static const struct rule *leader_of(const struct hintfile *file, size_t rule)
{
    return &file->rule[file->rule[rule].action == ACTION_RESTORE ? (size_t)file->rule[rule].of
                                                                 : rule];
}

static bool evicts(const struct rule *rule)
{
    return rule->action == ACTION_EVICT && rule->mode != HINT_OFF;
}

/*
 * The order of several threads' requests is random, so a run cannot prove an nth of theirs. A hint
 * that evicts may match any of these blocks.
 */
static void judge_turns(struct verify *verify, const struct load *load)
{
    const struct trace *trace = load->trace;
    struct keytable turns = {0};

    turns_find(&turns, trace, NULL);
    for (size_t i = 0; i < trace->block_count && keytable_count(&turns) > 0; i++) {
        const struct trace_block *block = &trace->blocks[i];
        const struct hintfile_words *words;

        if (block->rule < 0 || !turns_has(&turns, block))
            continue;
        words = &verify->file->words[block->rule];
        if (words->nth_line == 0 || evicts(&verify->file->rule[block->rule]))
            continue;
        cmd_verify_fail(verify, verify->file->rule[block->rule].id,
                "%s: %s:%" PRIu32 ":%" PRIu32
                ": nth counts what several threads ask for in one instance of %s: their "
                "order is chance",
                verify->step.name, verify->fields->spawn.hints, words->nth_line, words->nth_column,
                block->anchor ? trace->anchors[block->anchor].path : "the run");
        break;
    }
    keytable_done(&turns);
}

static void add_evicted(struct verify *verify, const struct read_capture *capture)
{
    for (size_t i = 0; i < capture->evict_count; i++) {
        const struct format_evict *what = &capture->evict[i].what;
        struct evicted *evicted =
                &verify->verdicts[capture->evict[i].rule].evicted[verify->step.mode];

        evicted->steps = max_of(evicted->steps, what->step);
        evicted->in += what->moved_in;
        evicted->out += what->moved_out;
        evicted->count_out += what->count_out;
        evicted->dropped += what->dropped;
    }
    for (size_t i = 0; i < capture->kept_count && verify->step.mode == HINT_TRAP; i++)
        trace_sum_add(&verify->verdicts[capture->kept[i].rule].kept, capture->kept[i].size);
}

/* Judges calls whose blocks did not fit under the cap together. */
static void judge_shorts(struct verify *verify, const struct read_capture *capture)
{
    const struct read_short *most = NULL;

    for (size_t i = 0; i < capture->short_count; i++)
        if (!most || capture->shorts[i].needed > most->needed)
            most = &capture->shorts[i];
    if (!most)
        return;
    cmd_verify_fail(verify, verify->file->rule[most->rule].id,
            "%s: a call%s%s needed %s at once under the cap, and %s could be had",
            verify->step.name, *most->path ? " in " : "", most->path,
            render_bytes(most->needed).text, render_bytes(most->room).text);
}

/* Was this file in force in this run, in this mode? */
static bool check_force(struct verify *verify, const struct load *load)
{
    const struct read_capture *capture = load->capture;

    if (capture->hints_hash != verify->file->hash || load->hint_count != verify->file->rule_count) {
        cmd_verify_fail(verify, NULL,
                "%s: the hints were not in force (program.argv or rank does not fit?)",
                verify->step.name);
        return false;
    }
    for (size_t i = 0; i < load->hint_count; i++) {
        const struct rule *rule = leader_of(verify->file, i);
        enum hint_mode wanted = mode_in(verify->step.mode, rule);
        enum hint_mode mode = hint_is_for(rule, capture->rank) ? wanted : HINT_OFF;

        if (rule->mode != HINT_OFF && load->hints[i].mode != mode) {
            cmd_verify_fail(verify, verify->file->rule[i].id,
                    "was not in force as it has to be in the %s run", verify->step.name);
            return false;
        }
    }
    return true;
}

static void check_program(struct verify *verify, const struct load *load)
{
    const char *program = load->capture->program;

    if (!verify->program)
        verify->program = vec_text(program);
    else if (strcmp(verify->program, program) != 0)
        cmd_verify_fail(verify, NULL, "the runs were of different programs, no receipt fits both");
}

/* Judges one capture of a step: each process of the program wrote one. */
static void judge_capture(void *self, const char *path)
{
    struct verify *verify = self;
    struct load load;

    if (load_open(path, &load) != 0) {
        cmd_verify_fail(verify, NULL, "%s: its capture cannot be read", verify->step.name);
        return;
    }
    verify->capture_count++;
    if (load_refuses("kedge verify", &load)) {
        verify->is_damaged = true;
        load_close(&load);
        return;
    }
    verify->is_faulted |= evidence_is_fault(load.capture);
    if (verify->step.mode == HINT_OFF)
        evidence_learn(&verify->ends, load.capture);
    if (!verify->against)
        verify->against = evidence_against(&load, &verify->ends);
    check_program(verify, &load);
    proof_add(&verify->proof, &load, (unsigned)verify->step.mode);
    if (verify->step.mode != HINT_OFF && check_force(verify, &load)) {
        for (size_t i = 0; i < load.hint_count; i++) {
            cmd_verify_add_hint(verify, i, &load.hints[i]);
            judge_hint(verify, &load, i);
        }
        judge_turns(verify, &load);
        add_evicted(verify, load.capture);
        judge_shorts(verify, load.capture);
    }
    load_close(&load);
}

/*
 * Is this the status of shells, `env` and launchers for a program that does not exist or cannot be
 * run?
 */
static bool is_not_started(const struct verify *verify)
{
    int status = WIFEXITED(verify->status) ? WEXITSTATUS(verify->status) : 0;

    return verify->capture_count == 0 && (status == 126 || status == 127);
}

static bool has_evict(const struct verify *verify)
{
    return swapsim_has_evict(verify->file->rule, verify->file->rule_count);
}

/* "a, b" of the hints that evict; NULL: none does. */
static char *evicting_text(const struct verify *verify)
{
    char *text = NULL;

    for (size_t i = 0; i < verify->file->rule_count; i++) {
        const struct rule *rule = &verify->file->rule[i];
        char *more;

        if (!evicts(rule))
            continue;
        more = vec_format("%s%s%s", text ? text : "", text ? ", " : "", rule->id);
        free(text);
        text = more;
    }
    return text;
}

/* A device fault names no block: every block that was out is suspect. */
static void fail_ended(struct verify *verify)
{
    char *how = status_text(verify->status);
    char *evicting = evicting_text(verify);
    const char *why = verify->is_faulted ? "the device has faulted: memory was used"
                                         : "if the device has faulted, memory was used";

    if (evicting)
        cmd_verify_fail(verify, NULL,
                "%s: the program %s; %s that no call names, while it was out (evict hints in "
                "force: %s)",
                verify->step.name, how, why, evicting);
    else
        cmd_verify_fail(verify, NULL, "%s: the program %s", verify->step.name, how);
    free(evicting);
    free(how);
}

/*
 * Does the run that releases nothing need hints? The program may be wrong without hints that hold,
 * or not fit without hints that evict.
 */
static bool needs_hints(const struct verify *verify)
{
    bool needs = has_evict(verify);

    for (size_t i = 0; i < verify->file->rule_count; i++)
        needs |= verify->file->rule[i].action == ACTION_HOLD;
    return needs;
}

static void drop_printed(struct verify *verify)
{
    for (int i = 0; i < ECHO_STREAMS; i++) {
        free(verify->printed[i].text);
        verify->printed[i] = (struct echo_text){0};
    }
}

/* Runs the program once, to its end: its status and output. 0 or an exit code. */
static int run_program(struct verify *verify, const struct spawn_options *how, char **words)
{
    struct launch launch;
    struct echo *echo;
    int r = spawn_prepare("kedge verify", how, words, &launch);

    if (r)
        return r;
    drop_printed(verify);
    if (verify->input >= 0)
        (void)lseek(STDIN_FILENO, verify->input, SEEK_SET);
    echo = echo_begin(verify->fields->json);
    if (echo) {
        r = spawn_wait("kedge verify", &launch, echo, &verify->status);
        echo_end(echo, verify->printed);
    } else {
        (void)fprintf(stderr, "kedge verify: %s\n", strerror(errno));
        r = CMD_CANNOT;
    }
    launch_done(&launch);
    return r;
}

/* Judges how the step's program ended. */
static int judge_end(struct verify *verify)
{
    if (tree_signal()) /* a signal came meanwhile */
        return 128 + tree_signal();
    if (verify->is_damaged)
        return CMD_BAD;
    if (is_not_started(verify)) {
        (void)fprintf(stderr,
                "kedge verify: %s: the program ended with exit code %d and left no capture: it "
                "could not be started\n",
                verify->step.name, WEXITSTATUS(verify->status));
        return CMD_BAD;
    }
    if (verify->status != 0)
        fail_ended(verify);
    if (verify->capture_count == 0)
        cmd_verify_fail(verify, NULL,
                "%s: no capture: the program did not use CUDA, or kedge was not in it",
                verify->step.name);
    if (verify->against)
        cmd_verify_fail(verify, NULL, "%s: %s", verify->step.name, verify->against);
    return CMD_DONE;
}

static int run_step(struct verify *verify, const struct step *step, char **words)
{
    struct spawn_options how = verify->fields->spawn;
    char *folder = captures_quote(verify->directory);
    char *capture = vec_format("%s/%s.kcap", folder, step->name);
    int r;

    how.hints_mode = step->mode == HINT_SHADOW ? "trial" : hintwords_mode(step->mode);
    how.capture = capture;
    how.trace = has_evict(verify) ? "full,uses=order" : "full"; /* for kedge check */
    how.mode = "pool";
    (void)fprintf(stderr, "kedge verify: %s run\n", step->name);
    verify->step = *step;
    r = run_program(verify, &how, words);
    if (r == 0) {
        verify->capture_count = 0;
        free(verify->against);
        verify->against = NULL;
        captures_each(capture, judge_capture, verify);
        if (!verify->against)
            verify->against = evidence_in_lines(
                    verify->printed[ECHO_ERR].text, verify->printed[ECHO_ERR].length);
        verify->outputs.has_processes |= verify->capture_count > 1;
    }
    free(capture);
    free(folder);
    return r ? r : judge_end(verify);
}

/* ---- the program's output ------------------------------------------------------------------- */

/* The first difference from the run that releases nothing, NULL = none. */
static char *cmd_verify_find_difference(
        const struct verify *verify, const struct echo_text *printed)
{
    static const char *const streams[] = {"standard output", "standard error"};

    for (int i = 0; i < ECHO_STREAMS; i++) {
        char *what = sameout_differs(verify->outputs.same[i], printed[i].text, printed[i].length,
                verify->outputs.has_processes);
        char *text = what ? vec_format("%s: %s", streams[i], what) : NULL;

        free(what);
        if (text)
            return text;
    }
    return NULL;
}

/* Repeats the run that releases nothing: differences between the two do not depend on hints. */
static int mask_outputs(struct verify *verify, char **words)
{
    struct step again = {"second", needs_hints(verify) ? HINT_SHADOW : HINT_OFF};
    struct echo_text printed[ECHO_STREAMS];
    struct verdict *verdicts = verify->verdicts;
    int r;

    memcpy(printed, verify->printed, sizeof(printed));
    memset(verify->printed, 0, sizeof(verify->printed));
    verify->verdicts = vec_new(
            verify->file->rule_count, sizeof(*verdicts)); /* the first run is counted already */
    r = run_step(verify, &again, words);
    free(verify->verdicts);
    verify->verdicts = verdicts;
    for (int i = 0; i < ECHO_STREAMS; i++)
        sameout_mask(verify->outputs.same[i], verify->printed[i].text, verify->printed[i].length);
    verify->outputs.is_masked = true;
    drop_printed(verify);
    memcpy(verify->printed, printed, sizeof(printed));
    return r;
}

/* Compares the output after a successful run. The runs continue: a later one may find the error. */
static int judge_outputs(struct verify *verify, char **words)
{
    const char *step = verify->step.name; /* a second run without releases is another one */
    char *difference;
    int r = CMD_DONE;

    if (verify->failure || verify->outputs.difference)
        return CMD_DONE;
    if (!verify->outputs.same[0]) {
        for (int i = 0; i < ECHO_STREAMS; i++)
            verify->outputs.same[i] =
                    sameout_new(verify->printed[i].text, verify->printed[i].length);
        return CMD_DONE;
    }
    difference = cmd_verify_find_difference(verify, verify->printed);
    if (difference && !verify->outputs.is_masked) {
        r = mask_outputs(verify, words);
        free(difference);
        difference = r ? NULL : cmd_verify_find_difference(verify, verify->printed);
    }
    if (difference) {
        bool is_any = verify->fields->outputs && strcmp(verify->fields->outputs, "any") == 0;

        render_print(stderr, "kedge verify: %s: %s%s\n", step, difference,
                is_any ? "; not held against the hints" : "");
        if (!is_any)
            verify->outputs.difference =
                    vec_format("%s: the program prints something else than without releases: %s "
                               "(--outputs any does not compare)",
                            step, difference);
    }
    free(difference);
    return r;
}

/* `wait: event` waits for one stream: the proof is the only evidence for the others. */
static void check_proofs(struct verify *verify)
{
    for (size_t i = 0; i < verify->file->rule_count; i++) {
        const struct rule *rule = &verify->file->rule[i];

        if (rule->wait == RULE_WAIT_EVENT && !hintlint_is_proof(verify->file->words[i].proof))
            cmd_verify_fail(verify, rule->id,
                    "its proof is still to be answered, and wait: event relies on it");
    }
}

/*
 * After the shadow run: does each hint match any block? The run itself has judged the matches of
 * each instance.
 */
static void check_matches(struct verify *verify)
{
    for (size_t i = 0; i < verify->file->rule_count; i++) {
        const struct rule *rule = &verify->file->rule[i];
        if (verify->verdicts[i].matched == 0 && rule->mode != HINT_OFF
                && rule->action != ACTION_RESTORE)
            cmd_verify_fail(verify, rule->id, "matched nothing");
    }
}

/*
 * After a run that acts: a hint that would have released a block must have overwritten it, or
 * removed access to it.
 */
static void check_acted(struct verify *verify)
{
    for (size_t i = 0; i < verify->file->rule_count; i++) {
        const struct rule *rule = &verify->file->rule[i];
        const struct verdict *v = &verify->verdicts[i];
        const struct evicted *evicted = &v->evicted[verify->step.mode];
        bool is_idle = v->due && (verify->step.mode == HINT_POISON ? v->poisoned : v->trapped) == 0;

        /* In trap every block goes out that the call does not name. */
        if (evicts(rule) && verify->step.mode == HINT_TRAP)
            is_idle = evicted->count_out == 0 && evicted->dropped == 0;
        if (is_idle)
            cmd_verify_fail(verify, rule->id, "did nothing in the %s run: nothing is proved",
                    verify->step.name);
    }
}

/* The lines of the receipt for hints that keep meta, "" = none. */
static char *keep_meta_lines(const struct verify *verify)
{
    char *lines = NULL;
    size_t length;
    FILE *out = open_memstream(&lines, &length);

    if (!out)
        vec_out_of_memory();
    for (size_t i = 0; i < verify->file->rule_count; i++)
        if (verify->verdicts[i].keeps_meta)
            (void)fprintf(out, RECEIPT_KEEP_META "%s\n", verify->file->rule[i].id);
    (void)fclose(out);
    return lines;
}

/* `trap_clean` 0: for the trap run, which needs to know the hints that keep meta. */
static int write_receipt(struct verify *verify, uint32_t trap_clean)
{
    struct receipt receipt = {.hints_hash = verify->file->hash,
            .shadow_clean = 1,
            .poison_clean = 1,
            .trap_clean = trap_clean,
            .line = verify->proof.line,
            .line_count = verify->proof.count};
    char *lines = keep_meta_lines(verify);
    char *path = vec_format("%s.receipt", verify->fields->spawn.hints);
    char *text = NULL;
    time_t now = time(NULL);
    struct tm parts;

    if (gmtime_r(&now, &parts))
        (void)strftime(receipt.date, sizeof(receipt.date), "%Y-%m-%dT%H:%M:%SZ", &parts);
    int r = receipt_format(&receipt, &text);
    if (r < 0) {
        (void)fprintf(stderr, "kedge verify: %s: %s\n", path, strerror(-r));
    } else {
        char *all = vec_format("%s%s", text, lines);

        r = outfile_write("kedge verify", path, OUTFILE_FOR_RUNS, all, strlen(all));
        free(all);
    }
    free(text);
    free(lines);
    free(path);
    return r < 0 ? CMD_BAD : CMD_DONE;
}

/* Removes an earlier receipt: it must not let live act on hints that the trial has just refuted. */
static int withdraw_receipt(const struct verify *verify)
{
    char *path = vec_format("%s.receipt", verify->fields->spawn.hints);

    if (access(path, F_OK) == 0 && unlink(path) != 0)
        (void)fprintf(stderr, "kedge verify: %s: %s: this receipt is still in force\n", path,
                strerror(errno));
    free(path);
    return CMD_NO;
}

static void json_evicted(struct json *json, const struct verdict *v)
{
    const struct evicted *trial = &v->evicted[HINT_SHADOW];
    const struct evicted *trap = &v->evicted[HINT_TRAP];

    json_uint(json, "step_count", trial->steps);
    json_uint(json, "moved_in_bytes", trial->in);
    json_uint(json, "moved_out_bytes", trial->out);
    json_uint(json, "trap_moved_in_bytes", trap->in);
    json_uint(json, "trap_moved_out_bytes", trap->out);
    json_uint(json, "kept_count", v->kept.count);
    json_uint(json, "kept_bytes", v->kept.bytes);
}

static void verify_print_json(const struct verify *verify, bool verified)
{
    struct json json = json_open(stdout);

    json_bool(&json, "verified", verified);
    json_text(&json, "failed_hint", verify->failed_hint);
    json_text(&json, "reason", verify->failure);
    json_text(&json, "program", verify->program);
    json_begin(&json, "hints", '[');
    for (size_t i = 0; i < verify->file->rule_count; i++) {
        const struct rule *rule = &verify->file->rule[i];
        const struct verdict *v = &verify->verdicts[i];
        json_begin(&json, NULL, '{');
        json_text(&json, "id", rule->id);
        json_uint(&json, "matched_count", v->matched);
        json_uint(&json, "matched_bytes", v->matched_bytes);
        figures_json_expect(&json, rule);
        json_uint(&json, "due_count", v->due);
        json_uint(&json, "due_bytes", v->due_bytes);
        json_uint(&json, "poisoned_count", v->poisoned);
        json_uint(&json, "unchanged_count", v->clean);
        json_uint(&json, "trapped_count", v->trapped);
        json_bool(&json, "keeps_meta", v->keeps_meta);
        if (evicts(rule))
            json_evicted(&json, v);
        json_end(&json, '}');
    }
    json_end(&json, ']');
    json_end(&json, '}');
}

/* "20 releases, 300.00 MiB"; NULL: no release or hold was due, and a hint evicts. */
static char *due_text(const struct verify *verify, bool has_evict)
{
    uint64_t holds = 0;
    uint64_t count = 0;
    uint64_t bytes = 0;
    const char *what = "release";

    for (size_t i = 0; i < verify->file->rule_count; i++) {
        if (verify->file->rule[i].action == ACTION_HOLD)
            holds += verify->verdicts[i].due;
        count += verify->verdicts[i].due;
        bytes += verify->verdicts[i].due_bytes;
    }
    if (count == 0 && has_evict)
        return NULL;
    if (holds > 0)
        what = holds == count ? "hold" : "releases or hold";
    return vec_format(
            "%" PRIu64 " %s%s, %s", count, what, render_s(count), render_bytes(bytes).text);
}

/* Prints the moves of each evict hint, whatever the answer. */
static bool print_evicted(const struct verify *verify)
{
    bool has_evict = false;

    for (size_t i = 0; i < verify->file->rule_count; i++) {
        const struct verdict *v = &verify->verdicts[i];
        const struct evicted *trial = &v->evicted[HINT_SHADOW];
        const struct evicted *trap = &v->evicted[HINT_TRAP];

        if (!evicts(&verify->file->rule[i]))
            continue;
        has_evict = true;
        printf("kedge verify: hint %s: %" PRIu64 " block%s, %" PRIu64 " step%s: %s moved in, %s "
               "out; in trap %s in, %s out\n",
                verify->file->rule[i].id, v->matched, render_s(v->matched), trial->steps,
                render_s(trial->steps), render_bytes(trial->in).text, render_bytes(trial->out).text,
                render_bytes(trap->in).text, render_bytes(trap->out).text);
        if (v->kept.count)
            printf("kedge verify: hint %s: %" PRIu64 " block%s (%s) stayed in (kedge report --view "
                   "eviction)\n",
                    verify->file->rule[i].id, v->kept.count, render_s(v->kept.count),
                    render_bytes(v->kept.bytes).text);
    }
    return has_evict;
}

static void print_unlooked(const struct verify *verify)
{
    for (size_t i = 0; i < verify->file->rule_count; i++)
        if (verify->verdicts[i].unlooked)
            printf("kedge verify: hint %s: %" PRIu64 " of %" PRIu64
                   " blocks were not checked for late writes\n",
                    verify->file->rule[i].id, verify->verdicts[i].unlooked,
                    verify->verdicts[i].poisoned);
}

static void verify_print_text(const struct verify *verify, bool verified)
{
    (void)fflush(stderr);
    print_unlooked(verify);
    char *due = due_text(verify, print_evicted(verify));

    if (verified) {
        printf("kedge verify: %zu hint%s verified, %s%sreceipt: %s.receipt\n",
                verify->file->rule_count, render_s(verify->file->rule_count), due ? due : "",
                due ? "; " : "", verify->fields->spawn.hints);
    } else { /* the failure may contain the name of the program's anchor */
        render_print(stdout, "kedge verify: not verified: %s%s%s%s\n",
                verify->failed_hint ? "hint " : "", verify->failed_hint ? verify->failed_hint : "",
                verify->failed_hint ? ": " : "", verify->failure);
    }
    free(due);
}

/*
 * The trap run allows addresses that the shadow run has seen inside larger parameters: if a kernel
 * reads through one, the device faults.
 */
static int prepare_trap(struct verify *verify)
{
    size_t count = 0;

    for (size_t i = 0; i < verify->file->rule_count; i++) {
        if (!verify->verdicts[i].keeps_meta)
            continue;
        (void)fprintf(stderr,
                "kedge verify: hint %s: launches carry its address inside a larger parameter; it "
                "is keep-meta by the receipt\n",
                verify->file->rule[i].id);
        count++;
    }
    return count ? write_receipt(verify, 0) : CMD_DONE;
}

static int run_one(struct verify *verify, const struct step *step, char **words)
{
    int r = step->mode == HINT_TRAP ? prepare_trap(verify) : CMD_DONE;

    if (r == CMD_DONE)
        r = run_step(verify, step, words);
    if (r)
        return r;
    if (step->mode == HINT_SHADOW)
        check_matches(verify);
    else if (step->mode != HINT_OFF)
        check_acted(verify);
    return judge_outputs(verify, words);
}

static int run_steps(struct verify *verify, char **words)
{
    static const struct step steps[] = {{"plain", HINT_OFF}, {"shadow", HINT_SHADOW},
            {"poison", HINT_POISON}, {"trap", HINT_TRAP}};
    int r;

    check_proofs(verify);
    for (size_t i = needs_hints(verify) ? 1 : 0;
            i < sizeof(steps) / sizeof(*steps) && !verify->failure; i++) {
        r = run_one(verify, &steps[i], words);
        if (r)
            return r;
    }
    if (verify->outputs.difference)
        cmd_verify_fail(verify, NULL, "%s", verify->outputs.difference);
    proof_end(&verify->proof, 1U << HINT_SHADOW | 1U << HINT_POISON | 1U << HINT_TRAP);
    if (verify->proof.lacks)
        cmd_verify_fail(verify, NULL, "%s", verify->proof.lacks);
    r = verify->failure ? withdraw_receipt(verify) : write_receipt(verify, 1);
    if (verify->fields->json && r != CMD_BAD)
        verify_print_json(verify, r == CMD_DONE);
    else if (r != CMD_BAD)
        verify_print_text(verify, r == CMD_DONE);
    return r;
}

static void remove_directory(const char *path)
{
    DIR *directory = opendir(path);
    const struct dirent *entry;

    while (directory && (entry = readdir(directory)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        (void)unlinkat(dirfd(directory), entry->d_name, 0);
    }
    if (directory)
        (void)closedir(directory);
    (void)rmdir(path);
}

/*
 * Makes a new directory, so that these runs wrote every file in it. NULL after one line on stderr.
 */
static char *make_directory(const char *keep)
{
    if (keep) {
        if (mkdir(keep, 0777) == 0)
            return vec_text(keep);
        (void)fprintf(stderr, "kedge verify: %s: %s\n", keep, strerror(errno));
        return NULL;
    }
    const char *base = getenv("TMPDIR");
    char *path = vec_format("%s/kedge-verify-XXXXXX", base && *base ? base : "/tmp");

    if (mkdtemp(path))
        return path;
    (void)fprintf(stderr, "kedge verify: %s: %s\n", path, strerror(errno));
    free(path);
    return NULL;
}

static int open_hints(const struct fields *fields, struct hintfile **ret_file)
{
    static const char *const words[] = {"same", "any", NULL};
    struct hintfile_error error = {.text = ""};

    if (!fields->spawn.hints) {
        (void)fprintf(stderr, "kedge verify: --hints FILE is missing\nusage: kedge %s\n",
                cmd_verify.usage);
        return CMD_BAD;
    }
    if (args_choose("kedge verify", "outputs", fields->outputs, words) < 0)
        return CMD_BAD;
    int r = hintfile_read(fields->spawn.hints, ret_file, &error);
    if (r == 0)
        return CMD_DONE;
    render_print(stderr, "kedge verify: %s\n", *error.text ? error.text : strerror(-r));
    return CMD_BAD;
}

/* Can the receipt be written? Checked before any run, which can take hours. */
static bool may_write_receipt(const struct verify *verify)
{
    char *path = vec_format("%s.receipt", verify->fields->spawn.hints);
    bool may = outfile_look("kedge verify", path, OUTFILE_FOR_RUNS) == 0;

    free(path);
    return may;
}

static int verify_command(const void *parsed, char **words)
{
    struct verify verify = {.fields = parsed};
    int r = open_hints(verify.fields, &verify.file);

    if (r != CMD_DONE)
        return r;
    if (!may_write_receipt(&verify) || spawn_check("kedge verify", words[0]) != 0) {
        hintfile_free(verify.file);
        return CMD_BAD;
    }
    tree_watch(); /* removes the folder whatever ends the process */
    verify.input = lseek(STDIN_FILENO, 0, SEEK_CUR);
    verify.directory = make_directory(verify.fields->keep);
    if (!verify.directory) {
        hintfile_free(verify.file);
        return CMD_CANNOT;
    }
    verify.verdicts = vec_new(verify.file->rule_count, sizeof(*verify.verdicts));
    r = run_steps(&verify, words);
    if (!verify.fields->keep)
        remove_directory(verify.directory);
    drop_printed(&verify);
    for (int i = 0; i < ECHO_STREAMS; i++)
        sameout_free(verify.outputs.same[i]);
    free(verify.outputs.difference);
    free(verify.directory);
    free(verify.verdicts);
    free(verify.program);
    free(verify.against);
    proof_free(&verify.proof);
    free(verify.failure);
    hintfile_free(verify.file);
    return r;
}

const struct cmd cmd_verify = {
        .name = "verify",
        .usage = "verify --hints FILE [options] -- PROGRAM [ARGUMENT...]",
        .summary = "Runs a program with hints in the modes shadow, poison and trap, and writes the "
                   "receipt that mode live needs.",
        CMD_OPTIONS(options, struct fields),
        .gone = "--entrance",
        .instead = "--api",
        .writes = OUTFILE_FOR_RUNS,
        .words_min = 1,
        .words_max = -1,
        .tail = true,
        .run = verify_command,
};
