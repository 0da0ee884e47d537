/* SPDX-License-Identifier: MIT */
#include "preload/hints/hints_run.h"

#include "preload/base/elfsym.h"
#include "preload/base/linked.h"
#include "preload/base/msg.h"
#include "preload/driver/resolve.h"
#include "preload/driver/session.h"
#include "preload/hints/pynamed.h"
#include "tracker/base/errtext.h"
#include "tracker/base/ownfile.h"
#include "tracker/capture/capture.h"
#include "tracker/hints/hintfile.h"
#include "tracker/stacks/intern.h"
#include "tracker/stacks/ran.h"
#include "tracker/where/where.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct hints_run hints_run;
static bool falls_back; /* fixed by hints_run_load */

/*
 * fixed by hints_run_load: the running program (NULL = there is no file), and the receipt that
 * permits live ({0} = none)
 */
static struct ran *ran;
static struct receipt proven;

/* The arguments of this process, joined by blanks and cut at `size`. */
static void read_arguments(char *ret_text, size_t size)
{
    size_t used = ownfile_fill("/proc/self/cmdline", ret_text, size - 1);

    while (used > 0 && ret_text[used - 1] == '\0')
        used--;
    for (size_t i = 0; i < used; i++)
        if (ret_text[i] == '\0')
            ret_text[i] = ' ';
    ret_text[used] = '\0';
}

static bool has_prefix(const struct intern_module *module, const char *hex)
{
    for (size_t i = 0; hex[i]; i++)
        if (i / 2 >= module->build_id_bytes
                || hex[i] != "0123456789abcdef"[module->build_id[i / 2] >> (i % 2 ? 0 : 4) & 15])
            return false;
    return true;
}

/*
 * Whether a module of this name is loaded in another build. One that is not loaded (yet) counts as
 * equal.
 */
static bool differs(const struct hintfile_build *build)
{
    const struct intern_module *module;

    for (uint32_t i = 1; (module = intern_module_at(i)); i++) {
        if (strcmp(linked_base(intern_text(module->path)), build->soname) == 0)
            return !has_prefix(module, build->id);
    }
    return false;
}

static const struct hintfile_build *other_build(const struct hintfile *file)
{
    for (size_t i = 0; i < file->build_count; i++)
        if (differs(&file->build[i]))
            return &file->build[i];
    return NULL;
}

/* The values of KEDGE_HINTS_MODE, from least to most effect; trial comes after them. */
static const enum hint_mode modes[] = {HINT_OFF, HINT_SHADOW, HINT_POISON, HINT_TRAP, HINT_LIVE};

/*
 * The mode of a hint in a trial. It releases nothing, but a program may be wrong without its holds,
 * and may not fit without its evictions.
 */
static enum hint_mode mode_in_trial(enum action action)
{
    if (action == ACTION_HOLD)
        return HINT_TRAP;
    return action == ACTION_EVICT ? HINT_POISON : HINT_SHADOW;
}

/* Sets the mode that `word` names. */
static void set_modes(struct hintfile *file, unsigned word)
{
    bool is_trial = word >= sizeof modes / sizeof modes[0];

    for (size_t i = 0; i < file->rule_count; i++)
        file->rule[i].mode = is_trial ? mode_in_trial(file->rule[i].action) : modes[word];
}

/*
 * Gives a restore the mode of the hint whose blocks it brings in, after all that decides about that
 * hint.
 */
static void follow_evicts(struct hintfile *file)
{
    for (size_t i = 0; i < file->rule_count; i++)
        if (file->rule[i].action == ACTION_RESTORE)
            file->rule[i].mode = file->rule[file->rule[i].of].mode;
}

static size_t count_mode(const struct hintfile *file, enum hint_mode mode)
{
    size_t n = 0;

    for (size_t i = 0; i < file->rule_count; i++)
        n += file->rule[i].mode == mode ? 1 : 0;
    return n;
}

/*
 * 0: the driver does not say. Asked once, in every process (R55, hints that do not act change no
 * call). While life starts.
 */
static int driver_version(void)
{
    static bool is_asked;
    static int version;

    if (!is_asked && REAL(cuDriverGetVersion)(&version) != CUDA_SUCCESS)
        version = 0;
    is_asked = true;
    return version;
}

/* The driver reports the parameters of kernels since 12.4. */
static bool tells_parameters(void)
{
    return driver_version() >= 12040 && REAL_HAS(cuFuncGetParamInfo);
}

bool hints_run_driver_is_newer(void)
{
    return driver_version() > HOOKS_NEWEST;
}

static void stay_in_shadow(struct hintfile *file)
{
    for (size_t i = 0; i < file->rule_count; i++)
        if (file->rule[i].mode != HINT_OFF)
            file->rule[i].mode = HINT_SHADOW;
}

/*
 * Applies the receipt: these hints may let launches carry addresses, because the trial showed that
 * this is necessary (R86, guard of hints).
 */
static void keep_meta(struct hintfile *file, const struct receipt *receipt)
{
    for (size_t i = 0; i < file->rule_count; i++) {
        struct rule *rule = &file->rule[i];
        char text[160];

        if (rule->mode == HINT_SHADOW || rule->action != ACTION_RELEASE
                || !receipt_keeps_meta(receipt, rule->id))
            continue;
        rule->action = ACTION_KEEP_META;
        /* never for a value that may be no address: a hint has no right to that by itself */
        rule->inside_only = true;
        (void)snprintf(text, sizeof text,
                "hint %s is keep-meta by the receipt: launches carry its address inside a larger "
                "parameter",
                rule->id);
        (void)capture_note(0, text);
    }
}

/*
 * The number of hints that would release or evict in live; all of them stay in shadow from here on.
 * Other hints take nothing from the program.
 */
static size_t refuse_live(struct hintfile *file)
{
    size_t count = 0;

    for (size_t i = 0; i < file->rule_count; i++) {
        struct rule *rule = &file->rule[i];

        if (rule->mode != HINT_LIVE || !action_unmaps(rule->action))
            continue;
        rule->mode = HINT_SHADOW;
        count++;
    }
    return count;
}

/* Puts hints that may not be live into shadow, and one line says why. */
static void judge_live(
        struct hintfile *file, const char *path, enum receipt_verdict verdict, const char *why)
{
    if (verdict != RECEIPT_GOOD && refuse_live(file))
        msg_warn("%s: live needs a receipt from `kedge verify` (%s); hints stay in shadow", path,
                why);
    else if (!tells_parameters() && refuse_live(file))
        msg_warn("%s: live is refused below driver 12.4, which cannot tell kernel parameters; "
                 "hints stay in shadow",
                path);
}

static void judge_acting(struct hintfile *file, const char *path)
{
    enum receipt_verdict verdict;
    char why[MSG_LINE - 100];

    if (count_mode(file, HINT_TRAP) + count_mode(file, HINT_LIVE) == 0)
        return;
    verdict = receipt_read(path, file->hash, &proven);
    (void)snprintf(why, sizeof why, "%s", receipt_verdict_text(verdict));
    if ((verdict == RECEIPT_GOOD || verdict == RECEIPT_NOT_CLEAN)
            && (!ran || ran_differs(ran, &proven, why, sizeof why)))
        verdict = RECEIPT_OTHER_RUN;
    judge_live(file, path, verdict, why);
    if (verdict == RECEIPT_GOOD || verdict == RECEIPT_NOT_CLEAN)
        keep_meta(file, &proven);
    if (count_mode(file, HINT_LIVE) == 0)
        receipt_free(&proven);
}

/* The simulated device's libcuda has a symbol that says so. No call. */
static bool is_simulated(void)
{
    struct link_map *object = NULL;
    Dl_info info;

    return dladdr1((void *)REAL(cuDriverGetVersion), &info, (void **)&object, RTLD_DL_LINKMAP) != 0
            && object && elfsym_function(object, "simcuda_stats") != NULL;
}

/*
 * Describes this run for the receipt that a trial may earn, and for comparison with the receipt
 * that exists.
 */
static void look_at_run(const char *rank)
{
    struct ran_opts opts = {
            .program = where_program(),
            .version = KEDGE_VERSION,
            .driver = driver_version(),
            .is_simulated = is_simulated(),
            .rank = rank,
            .env = environ,
    };

    ran = ran_look(&opts);
}

static void tell_run(void)
{
    char name[40];

    for (size_t i = 0; ran && i < ran->count; i++) {
        (void)snprintf(name, sizeof name, RAN_SETTING "%s", ran->fact[i].key);
        (void)capture_setting(name, ran->fact[i].value);
    }
    if (ran)
        (void)capture_setting("directory", ran->directory);
}

void hints_run_device(int device, const char *name)
{
    char text[160], key[24], why[MSG_LINE - 100];
    CUuuid uuid = {{0}};
    int used;

    if (!ran || is_simulated())
        return;
    if (REAL_HAS(cuDeviceGetUuid))
        (void)REAL(cuDeviceGetUuid)(&uuid, device);
    used = snprintf(text, sizeof text, "%s GPU-", name);
    for (unsigned i = 0; i < sizeof uuid.bytes && used > 0 && (size_t)used + 4 < sizeof text; i++)
        used += snprintf(text + used, sizeof text - (size_t)used, "%s%02x",
                i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", (unsigned char)uuid.bytes[i]);
    (void)snprintf(key, sizeof key, RAN_SETTING "gpu%d", device);
    session_report(capture_setting(key, text));
    if (hints_run.lives && ran_other_gpu(&proven, text, why, sizeof why))
        hints_run_stop(why);
}

/* A frame of a Python file with a call site of a hint was seen. */
static void saw_file(const char *file)
{
    char text[MSG_LINE - 100];

    if (!hints_run.lives || !ran || ran_names_file(ran, &proven, file))
        return;
    (void)snprintf(text, sizeof text,
            "a hint's call site is in %.200s, which the receipt does not name", file);
    hints_run_stop(text);
}

/* Removes hints for other ranks. */
static void leave_out(struct hintfile *file, const char *rank)
{
    for (size_t i = 0; i < file->rule_count; i++)
        if (!hint_is_for(&file->rule[i], rank))
            file->rule[i].mode = HINT_OFF;
}

/* false: the file must not be used. */
static bool hints_run_judge(struct hintfile *file, const struct config *config, const char *path)
{
    const struct hintfile_build *other = other_build(file);
    const char *rank = config_rank(environ) ? config_rank(environ) : "";
    char arguments[4096];

    read_arguments(arguments, sizeof arguments);
    if (!hintfile_fits(file, arguments, rank))
        return false;
    look_at_run(rank);
    if (other && file->on_mismatch == HINTFILE_MISMATCH_REFUSE) {
        msg_warn("%s: %s is of another build, hints are not used", path, other->soname);
        return false;
    }
    if (config_is_set(config, CONFIG_HINTS_MODE))
        set_modes(file, config_word(config, CONFIG_HINTS_MODE));
    leave_out(file, rank);
    if (other) {
        msg_warn("%s: %s is of another build, hints stay in shadow", path, other->soname);
        stay_in_shadow(file);
    }
    if (hints_run_driver_is_newer()) /* start.c prints the line about it */
        stay_in_shadow(file);
    judge_acting(file, path);
    follow_evicts(file);
    return true;
}

static void tell_capture(const struct hintfile *file, const char *path)
{
    enum hint_mode top = HINT_OFF;

    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++)
        if (count_mode(file, modes[i]) > 0)
            top = modes[i];
    for (size_t i = 0; i < file->rule_count; i++)
        (void)capture_rule((uint32_t)i, &file->rule[i]);
    (void)capture_hints(path, file->hash, top, (uint32_t)file->rule_count);
    tell_run();
}

/*
 * Starts the look-up of the hints' Python call sites; that no such stacks are taken is reported
 * once.
 */
static void name_pysites(const char *path)
{
    const char *why;

    if (!hint_has_pysites(hints_run.hints))
        return;
    pynamed_start(hints_run.hints, saw_file);
    why = where_lacks_python();
    if (why)
        msg_warn("%s: hints by Python call site match nothing: %s", path, why);
}

static bool has_evictions(const struct hintfile *file)
{
    bool has = false;

    for (size_t i = 0; i < file->rule_count; i++)
        has |= (file->rule[i].action == ACTION_EVICT || file->rule[i].keep_content)
                && file->rule[i].mode != HINT_OFF;
    return has;
}

static unsigned events_of(const struct hintfile *file)
{
    unsigned events = 0;

    for (size_t i = 0; i < file->rule_count; i++) {
        const struct rule *rule = &file->rule[i];

        if (rule->mode == HINT_OFF)
            continue;
        events |= 1u << rule->when.kind | 1u << rule->otherwise.kind;
        events |= rule->pick.use.call ? 1u << EDGE_CALL : 0;
        events |= rule->wait == RULE_WAIT_EVENT ? 1u << HINTS_RUN_WAITS_STREAM : 0;
    }
    return events;
}

void hints_run_load(const struct config *config, bool serves)
{
    const char *path = config_text(config, CONFIG_HINTS);
    struct hintfile_error error;
    struct hintfile *file;
    int r;

    if (!*path || strcmp(path, "off") == 0)
        return;
    if (!serves) {
        msg_warn("KEDGE_HINTS needs KEDGE_MODE=pool, hints are ignored");
        return;
    }
    if (hintfile_read(path, &file, &error) < 0) {
        msg_warn("%s, hints are ignored", error.text);
        return;
    }
    if (!hints_run_judge(file, config, path)) {
        hintfile_free(file);
        return;
    }
    tell_capture(file, path);
    if (count_mode(file, HINT_OFF) == file->rule_count) {
        hintfile_free(file); /* as if there were no file: nothing is checked for its hints (R55) */
        return;
    }
    r = hint_new(file->rule, file->rule_count, &hints_run.hints);
    if (r < 0) {
        msg_warn("%s: %s, hints are ignored", path, errtext(-r));
        hintfile_free(file);
        return;
    }
    /* the file is kept: the index points into its rules */
    name_pysites(path);
    hints_run.lives = count_mode(file, HINT_LIVE) > 0;
    hints_run.evicts = has_evictions(file);
    falls_back = file->fallback == HINTFILE_FALLBACK_YES;
    hints_run.waits = events_of(file);
    hints_run.acts =
            hints_run.lives || count_mode(file, HINT_TRAP) > 0 || count_mode(file, HINT_POISON) > 0;
}

bool hints_run_waits_for_kernel(const char *name)
{
    const struct edge launch = {.kind = EDGE_LAUNCH, .name = name};
    bool waits = false;

    for (int i = 0; hints_run_waits(EDGE_LAUNCH) && hint_rule(hints_run.hints, i); i++)
        waits |= hint_edge_matches(&hint_rule(hints_run.hints, i)->when, &launch)
                || hint_edge_matches(&hint_rule(hints_run.hints, i)->otherwise, &launch);
    return waits;
}

/*
 * Holds continue, since they protect the program, and evicted blocks come in as before. True for
 * the call that made the change.
 */
static bool release_no_more(void)
{
    bool is_first = false;

    for (size_t i = 0; i < hint_count(hints_run.hints); i++)
        is_first |= action_unmaps(hint_rule(hints_run.hints, (int)i)->action)
                && hint_learn(hints_run.hints, (int)i, HINT_LEARNT_STOPPED);
    return is_first;
}

void hints_run_stop(const char *why)
{
    if (!hints_run.acts || !release_no_more())
        return;
    msg_warn("%s: hints release and evict nothing more in this run", why);
    session_report(capture_note(1, why));
}

void hints_run_drifted(const struct outcome *drift, const struct edge *edge)
{
    const struct rule *rule = hint_rule(hints_run.hints, drift->rule);
    const struct hintwords_drift what = {
            .expect = rule->expect,
            .seen = {.count = drift->rounded, .bytes = drift->size},
            .path = edge->path,
            .instance = edge->instance,
    };
    char text[MSG_LINE];

    hintwords_tell_drift(&what, text, sizeof text);
    msg_warn("hint %s: %s: %s", rule->id, text,
            drift->rounded ? "nothing of that is released"
                           : "it releases nothing more in this run");
    session_report(capture_drift((uint32_t)drift->rule, &what));
}

void hints_run_fall_back(void)
{
    if (!falls_back || !release_no_more())
        return;
    msg_warn("fallback: a call was stopped, nothing more is released or evicted");
    session_report(
            capture_note(1, "fallback: a call was stopped, nothing more was released or evicted"));
}

void hints_run_rule_off(int rule, const char *call)
{
    if (!hints_run.hints || !action_releases(hint_rule(hints_run.hints, rule)->action)
            || !hint_learn(hints_run.hints, rule, HINT_LEARNT_OFF))
        return;
    msg_warn("hint %s: a block of it is shared by %s, so it does nothing more in this run",
            hint_rule(hints_run.hints, rule)->id, call);
}

bool hints_run_is_evict_rule(int rule)
{
    return rule >= 0 && hints_run.hints
            && (hint_rule(hints_run.hints, rule)->action == ACTION_EVICT
                    || hint_rule(hints_run.hints, rule)->keep_content);
}
