/* SPDX-License-Identifier: MIT */
#include "tools/commands/cmd.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/answer/answer.h"
#include "tools/base/vec.h"
#include "tools/check/measure.h"
#include "tools/evict/evict_check.h"
#include "tools/evict/swapsim.h"
#include "tools/output/outfile.h"
#include "tools/replay/predict.h"
#include "tools/report/report.h"
#include "tracker/hints/hintfile.h"

struct fields {
    const char *from, *to, *predicted, *junit;
    uint64_t pairs;
    bool tensors, json;
};

static const struct args_option options[] = {
        {"from", "ANCHOR", "compare with FILE from the first enter of ANCHOR", CMD_TEXT(from)},
        {"to", "ANCHOR", "compare with FILE up to the last exit of ANCHOR", CMD_TEXT(to)},
        {"pairs", "PERCENT",
                "with fewer allocations in common the comparison with FILE is not known (default "
                "50)",
                CMD_UINT(pairs)},
        {"predicted", "HINTS",
                "also: has the run, made with these hints, the peaks that suggest predicted?",
                CMD_TEXT(predicted)},
        {"tensors", NULL,
                "of a run under PyTorch's own allocator ask about the tensors in its segments",
                CMD_FLAG(tensors)},
        {"junit", "FILE", "write the results as JUnit XML, too (- is standard output)",
                CMD_OUTPUT(junit)},
        {"json", NULL, "machine-readable output", CMD_FLAG(json)},
};

#define TEXT_WIDTH 37 /* of the expressions; longer ones get a line of their own */
#define GRANULE    (UINT64_C(2) << 20)

enum {
    STEPS_SHOWN = 8, /* of the steps that were not as predicted */
};

struct row {
    char *text;
    struct claim claim;
    bool is_known; /* the result is known, and need not be measured */
    struct measure_result result;
};

struct check {
    const struct fields *fields;
    struct load load;
    struct row *rows;
    size_t row_count, row_room;
    bool is_reserved_left_out;  /* of the predictions */
    const char *moved_left_out; /* the reason; NULL = it is compared, or no move was predicted */
    struct answer answer;       /* if an expression does not hold */
    struct tensors_of {
        bool has_ended, is_whole; /* its record of tensors has the run's end; and all before it */
        uint64_t peak;            /* as PyTorch counted it */
    } tensors;                    /* with --tensors */
};

/* ---- expressions ---------------------------------------------------------------------------- */

/* Adds a row; takes over `text`. */
static bool cmd_check_add_row(struct check *check, char *text)
{
    struct row *row = &VEC_PUSH(check->rows, check->row_count, check->row_room);
    struct claim_error error;

    *row = (struct row){.text = text};
    if (claim_parse(text, &row->claim, &error))
        return true;
    render_print(stderr, "kedge check: expression %zu, column %u: %s\n", check->row_count,
            error.column, error.text);
    return false;
}

static bool are_live(const struct load *load)
{
    for (size_t i = 0; i < load->hint_count; i++)
        if (load->hints[i].mode != HINT_LIVE && load->hints[i].mode != HINT_OFF)
            return false;
    return true;
}

static void add_predictions(struct check *check, const struct hintfile *file)
{
    bool is_live = are_live(&check->load);
    uint64_t reserved = file->predicted_reserved;
    uint64_t slack = file->rule_count * GRANULE;

    (void)cmd_check_add_row(check, vec_text("drifted_hints==0"));
    (void)cmd_check_add_row(check,
            vec_format("%s==%" PRIu64, is_live ? "peak_with_hints" : "peak_if_live",
                    file->predicted_max));
    check->is_reserved_left_out = !is_live || reserved == 0;
    if (check->is_reserved_left_out)
        return;
    (void)cmd_check_add_row(
            check, vec_format("reserved>=%" PRIu64, reserved > slack ? reserved - slack : 0));
    (void)cmd_check_add_row(check, vec_format("reserved<=%" PRIu64, reserved + slack));
}

/* Adds the row of one step in one direction. */
static void cmd_check_add_step(struct check *check, const struct evict_check_step *step,
        const char *figure, uint64_t predicted)
{
    const struct read_evict *told = step->told;
    struct row *row;
    uint64_t is;

    if (!cmd_check_add_row(check, vec_format("%s==%" PRIu64, figure, predicted)))
        return;
    row = &check->rows[check->row_count - 1];
    is = row->claim.figure == CLAIM_MOVED_IN ? told->what.moved_in : told->what.moved_out;
    row->is_known = true;
    row->result = (struct measure_result){.anchor = TRACE_NONE,
            .range = {is, is},
            .answer = claim_holds((struct claim_range){is, is}, CLAIM_EQUAL, predicted),
            .note = vec_format("in step %" PRIu64 " of hint %s on device %d", told->what.step,
                    check->load.hints[told->rule].id, told->what.device)};
}

/*
 * Adds the bytes that evict hints moved: the sums, and the first steps that differ from the
 * simulator's.
 */
static int add_moved(struct check *check, const struct hintfile *file)
{
    struct evict_check moved;
    int r = 0;

    if (!swapsim_has_evict(file->rule, file->rule_count))
        return 0;
    r = evict_check_compare(&check->load, file->rule, file->rule_count, &moved);
    if (r == 0 && moved.untold && !moved.trouble)
        moved.trouble = "the run told nothing of a hint's steps";
    check->moved_left_out = moved.trouble;
    if (r == 0 && !moved.trouble) {
        (void)cmd_check_add_row(check, vec_format("moved_in==%" PRIu64, moved.in));
        (void)cmd_check_add_row(check, vec_format("moved_out==%" PRIu64, moved.out));
    }
    for (size_t i = 0; i < moved.wrong_count && i < STEPS_SHOWN && r == 0; i++) {
        cmd_check_add_step(check, &moved.wrong[i], "moved_in", moved.wrong[i].in);
        cmd_check_add_step(check, &moved.wrong[i], "moved_out", moved.wrong[i].out);
    }
    evict_check_done(&moved);
    return r;
}

static const char *launch_glob(const struct rule *rule)
{
    return rule->when.kind == EDGE_LAUNCH ? rule->when.anchor : rule->otherwise.anchor;
}

/*
 * Predicts the effect of the hints on this very run, if suggest has not recorded a prediction. 0,
 * or an exit code after one line on stderr.
 */
static int foresee(const struct check *check, struct hintfile *file)
{
    const struct trace *trace = check->load.trace;
    const char *path = check->fields->predicted;
    bool is_live = are_live(&check->load);
    bool is_whole = check->load.complete_from == 0;
    int lacking = predict_lacks_launch(trace, file->rule, file->rule_count);
    int r = lacking >= 0 || !is_whole ? -ENODATA : 0;

    for (size_t i = 0; i < file->rule_count; i++) /* as in the run: only live has a canary */
        if (file->rule[i].mode != HINT_OFF)
            file->rule[i].mode = is_live ? HINT_LIVE : HINT_SHADOW;
    if (r == 0)
        r = predict_max(trace, file->rule, file->rule_count, &file->predicted_max);
    if (r == 0 && !swapsim_has_evict(file->rule, file->rule_count))
        r = predict_reserved(trace, file->rule, file->rule_count, &file->predicted_reserved);
    if (r == 0)
        return CMD_DONE;
    if (!is_whole)
        render_print(stderr, "kedge check: %s: %s: nothing can be predicted\n", path,
                load_lacks(check->load.capture));
    else if (lacking >= 0)
        render_print(stderr,
                "kedge check: %s: hint %s waits for launches of kernels \"%s\", of which the "
                "capture has none: the run launched none, or it was not made with "
                "KEDGE_TRACE=full and driver 12.3 or later\n",
                path, file->rule[lacking].id, launch_glob(&file->rule[lacking]));
    else
        render_print(stderr, "kedge check: %s: %s\n", path, strerror(-r));
    return CMD_BAD;
}

/* Does suggest's prediction name another rank than the run's? */
static bool is_of_another(const struct check *check, const struct hintfile *file)
{
    return file->predicted_rank && strcmp(file->predicted_rank, check->load.capture->rank) != 0;
}

/* 0, or an exit code after one line on stderr. */
static int read_predictions(struct check *check)
{
    const char *path = check->fields->predicted;
    struct hintfile_error error = {.text = ""};
    struct hintfile *file = NULL;
    int r = hintfile_read(path, &file, &error);
    const char *trouble = NULL;

    if (r < 0) {
        if (*error.text)
            render_print(stderr, "kedge check: %s\n", error.text);
        else
            render_print(stderr, "kedge check: %s: %s\n", path, strerror(-r));
        return CMD_BAD;
    }
    if (check->load.capture->hints_hash == 0)
        trouble = "the run had no hints";
    else if (check->load.capture->hints_hash != file->hash)
        trouble = file->predicted_max
                ? "the run had other hints, or the file was changed since"
                : "has no prediction (kedge suggest writes one), and the run had other hints";
    r = trouble ? CMD_BAD : CMD_DONE;
    if (trouble)
        (void)fprintf(stderr, "kedge check: %s: %s\n", path, trouble);
    else if (file->predicted_max == 0 || is_of_another(check, file))
        r = foresee(check, file);
    if (r == CMD_DONE)
        add_predictions(check, file);
    if (r == CMD_DONE && add_moved(check, file) < 0)
        r = CMD_BAD;
    hintfile_free(file);
    return r;
}

/* ---- answers -------------------------------------------------------------------------------- */

static struct render_bytes value_text(const struct row *row, uint64_t value)
{
    struct render_bytes count;

    if (claim_row(row->claim.figure)->is_bytes)
        return render_bytes(value);
    (void)snprintf(count.text, sizeof(count.text), "%" PRIu64, value);
    return count;
}

static bool is_exact(const struct row *row)
{
    return row->result.range.low == row->result.range.high;
}

/* The measured range as text: "11.92 GiB", "at least 3" */
static char *cmd_check_is_text(const struct row *row)
{
    const struct claim_range *range = &row->result.range;

    if (!is_exact(row) && range->low == 0)
        return vec_text("not known");
    return vec_format("%s%s", is_exact(row) ? "" : ">= ", value_text(row, range->low).text);
}

static char *wanted_text(const struct row *row)
{
    return vec_format(
            "%s %s", claim_op_text(row->claim.op), value_text(row, row->claim.limit).text);
}

/*
 * The instance measured, why a result is unknown, and exact bytes where rounded ones look alike;
 * NULL = no note.
 */
static char *note_text(const struct check *check, const struct row *row)
{
    const struct measure_result *result = &row->result;
    struct render_bytes wanted = value_text(row, row->claim.limit);
    struct render_bytes is = value_text(row, result->range.low);
    char *note = NULL;

    if (result->anchor != TRACE_NONE) {
        char *anchor = figures_anchor_text(&check->load.trace->anchors[result->anchor]);
        note = vec_format(
                "in %s%s%s", anchor, result->note ? ": " : "", result->note ? result->note : "");
        free(anchor);
    } else if (result->note) {
        note = vec_text(result->note);
    } else if (result->answer == CLAIM_NO && result->range.low != row->claim.limit
            && strcmp(wanted.text, is.text) == 0) {
        note = vec_format("in bytes: %" PRIu64 ", wanted %s %" PRIu64, result->range.low,
                claim_op_text(row->claim.op), row->claim.limit);
    }
    return note;
}

static void cmd_check_print_row(const struct check *check, const struct row *row, int width)
{
    struct render_ink ink = render_ink(stdout);
    const char *const inks[] = {ink.green, ink.red, ink.yellow};
    char *wanted = wanted_text(row);
    char *is = cmd_check_is_text(row);
    char *note = note_text(check, row);
    int used = (int)strlen(row->text);

    printf("  ");
    render_text(stdout, row->text);
    if (used > width)
        printf("\n%*s", width + 2, "");
    printf("%*s  %-14s  %-14s  %s%s%s\n", used > width ? 0 : width - used, "", wanted, is,
            inks[row->result.answer], claim_answer_text(row->result.answer), ink.off);
    if (note) {
        printf("    ");
        render_label(stdout, note, 4, 4);
    }
    free(wanted);
    free(is);
    free(note);
}

static size_t cmd_check_count_of(const struct check *check, enum claim_answer answer)
{
    size_t count = 0;

    for (size_t i = 0; i < check->row_count; i++)
        count += check->rows[i].result.answer == answer;
    return count;
}

static void print_text(const struct check *check)
{
    struct render_ink ink = render_ink(stdout);
    int width = 10;

    for (size_t i = 0; i < check->row_count; i++) {
        int length = (int)strlen(check->rows[i].text);
        if (length > width && length <= TEXT_WIDTH)
            width = length;
    }
    printf("  %s%-*s  %-14s  %-14s  %s%s\n", ink.bold, width, "expression", "wanted", "is", "ok",
            ink.off);
    for (size_t i = 0; i < check->row_count; i++)
        cmd_check_print_row(check, &check->rows[i], width);
    if (check->is_reserved_left_out)
        puts("  peak reserved is not compared: the hints were not live, or nothing was predicted");
    if (check->moved_left_out)
        printf("  what was moved is not compared: %s\n", check->moved_left_out);
    if (check->load.capture->record.bytes)
        puts("  these are segments of PyTorch's own allocator: --tensors asks about the tensors in "
             "them");
    printf("%zu of %zu hold\n", cmd_check_count_of(check, CLAIM_YES), check->row_count);
    for (size_t i = 0; i < check->answer.count; i++) {
        if (i == 0)
            putchar('\n');
        fputs(i == 0 ? ink.bold : "", stdout);
        render_label(stdout, check->answer.sentence[i], 0, 2);
        fputs(ink.off, stdout);
    }
}

static enum claim_answer answer_of(const struct check *check)
{
    enum claim_answer answer = CLAIM_YES;

    for (size_t i = 0; i < check->row_count; i++)
        answer = claim_both(answer, check->rows[i].result.answer);
    return answer;
}

static void cmd_check_json_row(struct json *json, const struct check *check, const struct row *row)
{
    const struct measure_result *result = &row->result;
    const struct trace_anchor *anchor =
            result->anchor == TRACE_NONE ? NULL : &check->load.trace->anchors[result->anchor];

    json_begin(json, NULL, '{');
    json_text(json, "expression", row->text);
    json_text(json, "figure", claim_row(row->claim.figure)->name);
    json_text(json, "unit", claim_row(row->claim.figure)->is_bytes ? "bytes" : "count");
    json_text(json, "file", row->claim.file);
    json_text(json, "anchor", anchor ? anchor->path : NULL);
    json_known(json, "instance", anchor ? anchor->instance : UINT64_MAX);
    json_text(json, "operator", claim_op_text(row->claim.op));
    json_uint(json, "limit", row->claim.limit);
    json_uint(json, "at_least", result->range.low);
    json_known(json, "at_most", result->range.high);
    json_text(json, "answer", claim_answer_text(result->answer));
    json_text(json, "note", result->note);
    json_end(json, '}');
}

static void cmd_check_print_json(const struct check *check)
{
    struct json json = json_open(stdout);

    json_text(&json, "capture", check->load.path);
    json_text(&json, "from", check->fields->from);
    json_text(&json, "to", check->fields->to);
    json_text(&json, "predicted", check->fields->predicted);
    json_bool(&json, "tensors", check->fields->tensors);
    json_text(&json, "answer", claim_answer_text(answer_of(check)));
    if (check->moved_left_out)
        json_text(&json, "moved_not_compared", check->moved_left_out);
    json_begin(&json, "checks", '[');
    for (size_t i = 0; i < check->row_count; i++)
        cmd_check_json_row(&json, check, &check->rows[i]);
    json_end(&json, ']');
    answer_json(&json, "summary", &check->answer);
    json_end(&json, '}');
}

/* ---- JUnit ---------------------------------------------------------------------------------- */

/* Escapes text for the value of an attribute, or for an element. */
static void check_put_escaped(FILE *out, const char *value)
{
    char *text = NULL;
    size_t length = 0;
    FILE *plain = open_memstream(&text, &length);

    if (!plain)
        vec_out_of_memory();
    render_text(plain, value);
    if (fclose(plain) != 0)
        vec_out_of_memory();
    for (const char *c = text; *c; c++) {
        if (strncmp(c, "\xef\xbf\xbe", 3) == 0 || strncmp(c, "\xef\xbf\xbf", 3) == 0) {
            (void)fputc('?', out); /* U+FFFE and U+FFFF: not allowed in XML */
            c += 2;
        } else if (strchr("<>&\"", *c)) {
            (void)fprintf(out, "&#%d;", *c);
        } else {
            (void)fputc(*c, out);
        }
    }
    free(text);
}

static void put_attribute(FILE *out, const char *name, const char *value)
{
    (void)fprintf(out, " %s=\"", name);
    check_put_escaped(out, value);
    (void)fputc('"', out);
}

static void put_case(FILE *out, const struct check *check, const struct row *row)
{
    static const char *const elements[] = {NULL, "failure", "error"};
    const char *element = elements[row->result.answer];
    char *note = note_text(check, row);

    (void)fputs("  <testcase", out);
    put_attribute(out, "classname", check->load.path);
    put_attribute(out, "name", row->text);
    if (element) {
        char *wanted = wanted_text(row);
        char *is = cmd_check_is_text(row);
        char *message =
                vec_format("is %s, wanted %s%s%s", is, wanted, note ? "; " : "", note ? note : "");
        (void)fprintf(out, "><%s", element);
        put_attribute(out, "message", message);
        (void)fputs("/></testcase>\n", out);
        free(wanted);
        free(is);
        free(message);
    } else if (note) {
        (void)fputs("><system-out>", out);
        check_put_escaped(out, note);
        (void)fputs("</system-out></testcase>\n", out);
    } else {
        (void)fputs("/>\n", out);
    }
    free(note);
}

/* 0, or an exit code after one line on stderr. */
static int write_junit(const struct check *check)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);

    if (!out)
        vec_out_of_memory();
    (void)fprintf(out,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<testsuite name=\"kedge check\" tests=\"%zu\" failures=\"%zu\" errors=\"%zu\">\n",
            check->row_count, cmd_check_count_of(check, CLAIM_NO),
            cmd_check_count_of(check, CLAIM_UNKNOWN));
    for (size_t i = 0; i < check->row_count; i++)
        put_case(out, check, &check->rows[i]);
    (void)fputs("</testsuite>\n", out);
    if (fclose(out) != 0)
        vec_out_of_memory();
    int r = outfile_write("kedge check", check->fields->junit, OUTFILE_FOR_RUNS, text, length);
    free(text);
    return r == 0 ? CMD_DONE : CMD_BAD;
}

/* ---- tensors in a framework's segments ------------------------------------------------------- */

/* Puts the tensors in the place of the segments. 0, or an exit code after one line on stderr. */
static int take_tensors(struct check *check)
{
    const struct format_record *record = &check->load.capture->record.what;

    if (load_refuses("kedge check", &check->load))
        return CMD_BAD;
    check->tensors.has_ended = load_has_ended(&check->load) && record->why == FORMAT_RECORD_END;
    check->tensors.is_whole = (record->flags & (FORMAT_RECORD_CUT | FORMAT_RECORD_OWN)) == 0;
    for (unsigned i = 0; i < FORMAT_DEVICES_MAX; i++)
        check->tensors.peak += record->peak[i];
    return report_tensors_only("kedge check", &check->load);
}

/* What a record of tensors that ends early, or begins late, says of a figure. */
static void cmd_check_widen(const struct check *check, struct row *row)
{
    const struct tensors_of *tensors = &check->tensors;
    bool is_growth = row->claim.figure == CLAIM_GROWTH;
    bool is_at_end = claim_row(row->claim.figure)->is_final && !is_growth && !row->claim.anchor;
    bool is_cut = !tensors->has_ended || (!tensors->is_whole && !is_at_end);
    struct claim_range *range = &row->result.range;
    enum claim_answer before = row->result.answer;

    if (row->claim.figure == CLAIM_PEAK && !row->claim.anchor)
        range->low = max_of(range->low, min_of(tensors->peak, range->high));
    if (is_at_end ? !tensors->has_ended : !tensors->is_whole && (is_growth || row->claim.anchor))
        range->low = 0;
    if (is_cut)
        range->high = UINT64_MAX;
    row->result.answer = claim_holds(*range, row->claim.op, row->claim.limit);
    if (row->result.answer != CLAIM_UNKNOWN || before == CLAIM_UNKNOWN)
        return;
    free(row->result.note);
    row->result.note = vec_text(tensors->is_whole
                    ? "not known: the record of tensors lacks the end of the run"
                    : "not known: the record of tensors lacks the beginning of the run "
                      "(KEDGE_TENSORS=events=N keeps more)");
}

/* ---- the command ---------------------------------------------------------------------------- */

/* What to look at first where an expression does not hold. */
static void find_summary(struct check *check)
{
    struct symbols *symbols = symbols_new(check->load.trace);

    check->answer = answer_of_run(&check->load, symbols);
    symbols_free(symbols);
}

static bool measure_all(struct check *check)
{
    struct measure measure;
    bool is_done = true;

    progress_begin("checking");
    measure_begin(&check->load, &measure);
    measure.from = check->fields->from;
    measure.to = check->fields->to;
    if (check->fields->pairs)
        measure.pairs = check->fields->pairs;
    for (size_t i = 0; i < check->row_count && is_done; i++)
        is_done = check->rows[i].is_known
                || measure_claim(&measure, &check->rows[i].claim, &check->rows[i].result);
    for (size_t i = 0; i < check->row_count && is_done && check->fields->tensors; i++)
        cmd_check_widen(check, &check->rows[i]);
    measure_done(&measure);
    progress_end();
    return is_done;
}

/* Does the XML go to standard output? Then it has to be the only output there. */
static bool is_junit_alone(const struct fields *fields)
{
    return fields->junit && strcmp(fields->junit, "-") == 0;
}

/* Judges the open capture. */
static int cmd_check_judge(struct check *check)
{
    static const int codes[] = {
            [CLAIM_YES] = CMD_DONE, [CLAIM_NO] = CMD_NO, [CLAIM_UNKNOWN] = CMD_BAD};
    int r = load_refuses("kedge check", &check->load) ? CMD_BAD : CMD_DONE;

    if (r == CMD_DONE && check->fields->predicted)
        r = read_predictions(check);
    if (r == CMD_DONE && !measure_all(check))
        r = CMD_BAD;
    if (r == CMD_DONE && check->fields->junit)
        r = write_junit(check);
    if (r != CMD_DONE)
        return r;
    if (answer_of(check) == CLAIM_NO)
        find_summary(check);
    if (check->fields->json)
        cmd_check_print_json(check);
    else if (!is_junit_alone(check->fields))
        print_text(check);
    return codes[answer_of(check)];
}

/* Adds an expression of the user's. */
static int cmd_check_ask(struct check *check, const char *text)
{
    if (!cmd_check_add_row(check, vec_text(text)))
        return CMD_BAD;
    const struct claim *claim = &check->rows[check->row_count - 1].claim;
    if (claim->is_bare)
        render_print(stderr,
                "kedge check: %s: %" PRIu64 " means bytes; %" PRIu64 "B says so, %" PRIu64
                "GiB would be GiB\n",
                text, claim->limit, claim->limit, claim->limit);
    return CMD_DONE;
}

/* Refuses the options of a comparison together with other questions. */
static int check_against(const struct check *check)
{
    const struct fields *fields = check->fields;
    const char *other = fields->predicted ? "--predicted" : NULL;

    for (size_t i = 0; i < check->row_count && !other; i++)
        other = check->rows[i].claim.file ? NULL : check->rows[i].text;
    if (fields->pairs > 100) {
        (void)fprintf(stderr, "kedge check: --pairs %" PRIu64 ": 1 to 100\n", fields->pairs);
        return CMD_BAD;
    }
    if (!other || !(fields->from || fields->to || fields->pairs))
        return CMD_DONE;
    render_print(stderr,
            "kedge check: --from, --to and --pairs are for figures with a FILE: not with %s\n",
            other);
    return CMD_BAD;
}

/* Refuses --tensors for what is known of the whole process alone. */
static int check_tensors(const struct check *check)
{
    const char *other = check->fields->predicted ? "--predicted" : NULL;

    for (size_t i = 0; i < check->row_count && !other; i++)
        other = check->rows[i].claim.file ? check->rows[i].text : NULL;
    if (!other || !check->fields->tensors)
        return CMD_DONE;
    render_print(stderr,
            "kedge check: --tensors: not with %s; of two runs kedge import makes captures of their "
            "tensors\n",
            other);
    return CMD_BAD;
}

static int check_command(const void *parsed, char **words)
{
    struct check check = {.fields = parsed};
    int r = CMD_DONE;

    if (is_junit_alone(check.fields) && check.fields->json) {
        (void)fputs("kedge check: --junit - and --json: both write to standard output\n", stderr);
        return CMD_BAD;
    }
    for (size_t i = 1; words[i] && r == CMD_DONE; i++)
        r = cmd_check_ask(&check, words[i]);
    if (!words[1] && !check.fields->predicted) {
        (void)fputs("kedge check: an expression or --predicted is missing\n", stderr);
        (void)fprintf(stderr, "usage: kedge %s\n", cmd_check.usage);
        r = CMD_BAD;
    }
    if (r == CMD_DONE)
        r = check_against(&check);
    if (r == CMD_DONE)
        r = check_tensors(&check);
    if (r == CMD_DONE)
        r = load_open(words[0], &check.load);
    if (r == CMD_DONE && check.fields->tensors)
        r = take_tensors(&check);
    if (r == CMD_DONE)
        r = cmd_check_judge(&check);
    for (size_t i = 0; i < check.row_count; i++) {
        free(check.rows[i].text);
        free(check.rows[i].result.note);
        claim_done(&check.rows[i].claim);
    }
    free(check.rows);
    answer_done(&check.answer);
    load_close(&check.load);
    return r;
}

static void cmd_check_explain(void)
{
    puts("\nexpressions: [anchor:\"GLOB\".]FIGURE OP LIMIT, as in peak<12GiB,\n"
         "late(good.kcap)==0 or anchor:\"SOT_CALL_*\".remaining<1GiB (the worst instance\n"
         "counts). OP is one of < <= == != >= >, LIMIT a number or a size. Figures\n"
         "(* of anchors, too):");
    for (unsigned i = 0; i < CLAIM_FIGURE_COUNT; i++) {
        const struct claim_row *row = claim_row((enum claim_figure)i);
        char *name = vec_format(
                "%s%s%s", row->name, row->has_file ? "(FILE)" : "", row->has_anchors ? " *" : "");
        printf("  %-23s ", name);
        render_label(stdout, row->what, 26, 26);
        free(name);
    }
}

const struct cmd cmd_check = {
        .name = "check",
        .usage = "check CAPTURE [EXPR...] [options]",
        .summary = "Asserts figures of a run: exit 0 if all hold, 1 if one does not, 2 if there is "
                   "no answer.",
        .explain = cmd_check_explain,
        CMD_OPTIONS(options, struct fields),
        .writes = OUTFILE_FOR_RUNS,
        .pages = true,
        .words_min = 1,
        .words_max = -1,
        .run = check_command,
};
