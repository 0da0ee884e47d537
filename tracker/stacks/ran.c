/* SPDX-License-Identifier: MIT */
#include "tracker/stacks/ran.h"

#include "tracker/base/config.h"
#include "tracker/base/ownfile.h"
#include "tracker/base/script.h"
#include "tracker/base/site.h"
#include "tracker/stacks/intern.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RAN_COMMAND_MAX (1u << 20) /* bytes of a command line that are read */
#define RAN_WORDS_MAX   4096u
#define RAN_SHOWN       100 /* bytes of a value in a message */

/* Variables that decide which anchors exist; for scripts, how a framework allocates and where
 * modules are found. */
static const char *const ran_variables[] = {"KEDGE_ANCHORS", "KEDGE_BYPASS",
        "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING",
        "TF_GPU_ALLOCATOR", "XLA_PYTHON_CLIENT_ALLOCATOR", "FLAGS_use_cuda_malloc_async_allocator",
        "FLAGS_use_system_allocator", "PYTHONPATH", "PYTHONHOME"};

enum {
    RAN_OWN_VARIABLES = 2
};

struct ran_words {
    const char **at; /* into `text` */
    size_t count;
    char *text;
};

/* ---- facts ---------------------------------------------------------------------------------- */

static char *ran_add(struct ran *ran, const char *key)
{
    struct ran_fact *fact = &ran->fact[ran->count++];

    fact->key = key;
    return fact->value;
}

static void ran_read_words(struct ran_words *ret_words)
{
    size_t used;

    *ret_words = (struct ran_words){.text = malloc(RAN_COMMAND_MAX + 1)};
    ret_words->at = malloc(RAN_WORDS_MAX * sizeof *ret_words->at);
    if (!ret_words->text || !ret_words->at)
        return;
    used = ownfile_fill("/proc/self/cmdline", ret_words->text, RAN_COMMAND_MAX);
    ret_words->text[used] = '\0';
    for (size_t at = 0; at < used && ret_words->count < RAN_WORDS_MAX;
            at += strlen(ret_words->text + at) + 1)
        ret_words->at[ret_words->count++] = ret_words->text + at;
}

/* Makes a path absolute, in ran->path. */
static void ran_absolute(struct ran *ran, const char *path)
{
    if (*path == '/' || !ran->directory[0])
        (void)snprintf(ran->path, sizeof ran->path, "%s", path);
    else
        (void)snprintf(ran->path, sizeof ran->path, "%s/%s", ran->directory, path);
}

/* Records the interpreter's path as it finds itself, which identifies its environment. */
static void ran_tell_interpreter(struct ran *ran, const char *word, char *const *env)
{
    const char *list = config_env(env, "PATH");

    ran_absolute(ran, word);
    while (!strchr(word, '/') && list && *list) {
        size_t n = strcspn(list, ":");

        (void)snprintf(ran->path, sizeof ran->path, "%.*s/%s", (int)n, list, word);
        if (access(ran->path, X_OK) == 0)
            break;
        list += n + (list[n] == ':');
    }
    receipt_escape(ran->path, ran_add(ran, "interpreter"));
}

/* For a folder, the file in it that Python runs. */
static void ran_tell_file(struct ran *ran, const char *word)
{
    struct stat status;
    char *real;

    ran_absolute(ran, word);
    real = realpath(ran->path, NULL);
    if (real)
        (void)snprintf(ran->path, sizeof ran->path, "%s%s", real,
                stat(real, &status) == 0 && S_ISDIR(status.st_mode) ? "/__main__.py" : "");
    free(real);
    receipt_file_value(ran->path, ran_add(ran, "script"));
}

static void ran_tell_script(struct ran *ran, const struct ran_words *words,
        const struct script *script, char *const *env)
{
    char value[RECEIPT_VALUE_MAX];

    if (script->kind == SCRIPT_NONE)
        return;
    ran_tell_interpreter(ran, words->at[script->program], env);
    if (script->kind == SCRIPT_FILE) {
        ran_tell_file(ran, script->text);
        return;
    }
    receipt_escape(script->kind == SCRIPT_MODULE ? script->text : "", value);
    (void)snprintf(ran_add(ran, "script"), RECEIPT_VALUE_MAX, "%s%.*s",
            script->kind == SCRIPT_MODULE         ? "module "
                    : script->kind == SCRIPT_CODE ? "code"
                                                  : "input",
            (int)RECEIPT_VALUE_MAX - 10, value);
    receipt_escape(ran->directory, ran_add(ran, "directory"));
}

/* Python's multiprocessing passes descriptor numbers to its children, which differ each time. */
static bool ran_mask_descriptors(char *word)
{
    if (strncmp(word, "from multiprocessing", 20) != 0)
        return false;
    for (char *to = word;; word++) {
        bool is_digit = *word >= '0' && *word <= '9';

        if (!is_digit || word[1] < '0' || word[1] > '9')
            *to++ = (char)(is_digit ? '#' : *word);
        if (*word == '\0')
            return true;
    }
}

/* "5", "-0.1", "1e-4", "4M", "0,1,2". */
static bool ran_is_number(const char *text)
{
    bool has_digit = false;

    for (; *text; text++) {
        if (*text >= '0' && *text <= '9')
            has_digit = true;
        else if (!strchr(has_digit ? ".,:+-eEKMGTiBkms" : "+-.", *text))
            return false;
    }
    return has_digit;
}

/* A run may be longer than its trial: a numeric argument, or a numeric value, may differ. */
static void ran_mask_number(char *word)
{
    char *value = strchr(word, '=');

    value = word[0] == '-' && value ? value + 1 : word;
    if (!ran_mask_descriptors(word) && ran_is_number(value))
        memcpy(value, "#", 2);
}

/* Records the command twice: unchanged, for people, and masked, for comparison. */
static void ran_tell_command(
        struct ran *ran, const struct ran_words *words, const struct script *script)
{
    char *texts[2] = {
            malloc(RAN_COMMAND_MAX + RAN_WORDS_MAX), malloc(RAN_COMMAND_MAX + RAN_WORDS_MAX)};
    char escaped[RECEIPT_VALUE_MAX];
    size_t used[2] = {0, 0};

    for (size_t i = script->program + 1; texts[0] && texts[1] && i < words->count; i++) {
        bool is_script = i == script->word && script->kind == SCRIPT_FILE;
        const char *word = is_script ? script_base(words->at[i]) : words->at[i];

        for (int k = 0; k < 2; k++) {
            char *to = texts[k] + used[k];

            memcpy(to, word, strlen(word) + 1);
            if (k == 1)
                ran_mask_number(to);
            used[k] += strlen(to);
            texts[k][used[k]++] = i + 1 < words->count ? ' ' : '\0';
        }
    }
    receipt_escape(used[0] > 0 ? texts[0] : "-", ran_add(ran, "arguments"));
    receipt_escape(used[1] > 0 ? texts[1] : "-", escaped);
    (void)snprintf(ran_add(ran, "command"), RECEIPT_VALUE_MAX, "%016" PRIx64 " %.*s",
            site_hash(texts[1] ? texts[1] : "", used[1], 8), (int)RECEIPT_VALUE_MAX - 18, escaped);
    free(texts[0]);
    free(texts[1]);
}

static void ran_tell_variables(struct ran *ran, bool is_script, char *const *env)
{
    size_t count = is_script ? sizeof ran_variables / sizeof *ran_variables : RAN_OWN_VARIABLES;
    char *value = ran_add(ran, "variables");
    char *text = ran->text;
    size_t used = 0;

    (void)snprintf(text, sizeof ran->text, "-");
    for (size_t i = 0; i < count; i++) {
        const char *set = config_env(env, ran_variables[i]);

        if (set && used < sizeof ran->text)
            used += (size_t)snprintf(text + used, sizeof ran->text - used, "%s%s=%s",
                    used ? " " : "", ran_variables[i], set);
    }
    receipt_escape(text, value);
}

/* Identity of libkedge.so itself. */
static uint64_t ran_kedge(void)
{
    const struct intern_module *module;

    for (uint32_t i = 1; (module = intern_module_at(i)); i++)
        if (module->kind == INTERN_MODULE_KEDGE)
            return module->hash;
    return 0;
}

struct ran *ran_look(const struct ran_opts *opts)
{
    struct ran *ran = calloc(1, sizeof *ran);
    struct ran_words words;
    struct script script;

    if (!ran)
        return NULL;
    if (!getcwd(ran->directory, sizeof ran->directory))
        ran->directory[0] = '\0';
    ran_read_words(&words);
    script = script_find(words.at, words.count);
    (void)snprintf(
            ran_add(ran, "kedge"), RECEIPT_VALUE_MAX, "%s %016" PRIx64, opts->version, ran_kedge());
    (void)snprintf(ran_add(ran, "driver"), RECEIPT_VALUE_MAX, "%d.%d", opts->driver / 1000,
            opts->driver % 1000 / 10);
    if (opts->is_simulated)
        (void)snprintf(ran_add(ran, "device"), RECEIPT_VALUE_MAX, "simulated");
    receipt_escape(opts->program, ran_add(ran, "program"));
    ran_tell_script(ran, &words, &script, opts->env);
    ran_tell_variables(ran, script.kind != SCRIPT_NONE, opts->env);
    receipt_escape(*opts->rank ? opts->rank : "-", ran_add(ran, "rank"));
    ran_tell_command(ran, &words, &script);
    free(words.text);
    free((void *)words.at);
    return ran;
}

/* ---- comparing ------------------------------------------------------------------------------ */

/* The part of a value after its hash. */
static const char *ran_behind(const char *value)
{
    const char *blank = strchr(value, ' ');

    return blank ? blank + 1 : value;
}

static const char *ran_fact_of(const struct ran *ran, const char *key)
{
    for (size_t i = 0; i < ran->count; i++)
        if (strcmp(ran->fact[i].key, key) == 0)
            return ran->fact[i].value;
    return "";
}

/* The end of a path, which identifies it best. */
static const char *ran_tail(const char *path)
{
    size_t length = strlen(path);

    return length > RAN_SHOWN ? path + length - RAN_SHOWN : path;
}

/* The same path with different content. */
static bool ran_was_changed(const struct receipt *receipt, const char *key, const char *value)
{
    const char *said;
    size_t at = 0;

    while ((said = receipt_next(receipt, key, &at)) != NULL)
        if (strcmp(ran_behind(said), ran_behind(value)) == 0)
            return true;
    return false;
}

/* A little before the first difference of two texts. */
static size_t ran_parting(const char *one, const char *other)
{
    size_t n = 0;

    while (one[n] && one[n] == other[n])
        n++;
    return n > 20 ? n - 20 : 0;
}

static void ran_tell_fact(
        const struct ran_fact *fact, const struct receipt *receipt, char *ret_why, size_t room)
{
    const char *value = fact->value;
    size_t at = 0;
    const char *said = receipt_next(receipt, fact->key, &at);
    size_t from;

    if (!said) {
        (void)snprintf(ret_why, room, "it does not say which %s was verified", fact->key);
    } else if (strcmp(fact->key, "program") == 0) {
        (void)snprintf(ret_why, room, "the receipt is for another program or build");
    } else if (strcmp(fact->key, "script") == 0 && ran_was_changed(receipt, fact->key, value)) {
        (void)snprintf(ret_why, room, "%s was changed since", ran_tail(ran_behind(value)));
    } else {
        bool has_hash = strcmp(fact->key, "script") == 0 || strcmp(fact->key, "command") == 0;

        value = has_hash ? ran_behind(value) : value;
        said = has_hash ? ran_behind(said) : said;
        from = strlen(value) > RAN_SHOWN || strlen(said) > RAN_SHOWN ? ran_parting(value, said) : 0;
        (void)snprintf(ret_why, room, "the %s %s %s%.*s, and %s%.*s was verified", fact->key,
                strcmp(fact->key, "variables") == 0 ? "are" : "is", from ? "..." : "", RAN_SHOWN,
                value + from, from ? "..." : "", RAN_SHOWN, said + from);
    }
}

/* A GPU is checked later, since its name is not known yet. */
static bool ran_differs_place(
        const struct ran *ran, const struct receipt *receipt, char *ret_why, size_t room)
{
    bool is_simulated = ran_fact_of(ran, "device")[0] != '\0';
    const char *said;
    size_t at = 0;

    if (is_simulated) {
        if (receipt_says(receipt, "device", "simulated"))
            return false;
        said = receipt_next(receipt, "device", &at);
        (void)snprintf(ret_why, room, "this is the simulated device, and %.*s was verified",
                RAN_SHOWN, said ? said : "no device");
        return true;
    }
    while ((said = receipt_next(receipt, "device", &at)) != NULL)
        if (strcmp(said, "simulated") != 0)
            return false;
    (void)snprintf(
            ret_why, room, "it was won on the simulated device, and permits a trap run on a GPU");
    return true;
}

static bool ran_differs_files(
        const struct receipt *receipt, const char *key, char *ret_why, size_t room)
{
    char value[RECEIPT_VALUE_MAX];
    const char *said;
    size_t at = 0;

    while ((said = receipt_next(receipt, key, &at)) != NULL) {
        receipt_file_value(ran_behind(said), value);
        if (strcmp(value, said) == 0)
            continue;
        (void)snprintf(ret_why, room, "%s was changed since", ran_tail(ran_behind(said)));
        return true;
    }
    return false;
}

static bool ran_differs_versions(const struct receipt *receipt, char *ret_why, size_t room)
{
    char value[RECEIPT_VALUE_MAX];
    const char *said;
    size_t at = 0;

    while ((said = receipt_next(receipt, "version", &at)) != NULL) {
        if (!receipt_version_value(ran_behind(said), value))
            (void)snprintf(value, sizeof value, "none ");
        if (strcmp(value, said) == 0)
            continue;
        (void)snprintf(ret_why, room, "%s says version %.*s, and %.*s was verified",
                ran_tail(ran_behind(said)), (int)strcspn(value, " "), value,
                (int)strcspn(said, " "), said);
        return true;
    }
    return false;
}

/* Finds a loaded library that has the name of one in the receipt, but is none of its builds. */
static bool ran_differs_builds(const struct receipt *receipt, char *ret_why, size_t room)
{
    const struct intern_module *module;
    char value[RECEIPT_VALUE_MAX];

    for (uint32_t i = 1; (module = intern_module_at(i)); i++) {
        receipt_build_value(module->hash, intern_text(module->path), value);
        if (!ran_was_changed(receipt, "build", value) || receipt_says(receipt, "build", value))
            continue;
        (void)snprintf(ret_why, room, "%s is of another build", ran_tail(ran_behind(value)));
        return true;
    }
    return false;
}

bool ran_differs(const struct ran *ran, const struct receipt *receipt, char *ret_why, size_t room)
{
    if (ran_differs_place(ran, receipt, ret_why, room))
        return true;
    for (size_t i = 0; i < ran->count; i++) {
        const struct ran_fact *fact = &ran->fact[i];

        if (strcmp(fact->key, "device") == 0 || strcmp(fact->key, "arguments") == 0
                || receipt_says(receipt, fact->key, fact->value))
            continue;
        ran_tell_fact(fact, receipt, ret_why, room);
        return true;
    }
    return ran_differs_versions(receipt, ret_why, room)
            || ran_differs_files(receipt, "file", ret_why, room)
            || ran_differs_builds(receipt, ret_why, room);
}

/* "NVIDIA H100 GPU-1234": the kind is everything except the last word. */
bool ran_other_gpu(const struct receipt *receipt, const char *gpu, char *ret_why, size_t room)
{
    const char *end = strrchr(gpu, ' ');
    size_t length = end ? (size_t)(end - gpu) + 1 : strlen(gpu);
    const char *said, *first = NULL;
    size_t at = 0;

    while ((said = receipt_next(receipt, "device", &at)) != NULL) {
        if (strncmp(said, gpu, length) == 0 && !strchr(said + length, ' '))
            return false;
        first = first ? first : said;
    }
    (void)snprintf(ret_why, room, "this is %.*s, and %.*s was verified", RAN_SHOWN, gpu, RAN_SHOWN,
            first ? first : "no device");
    return true;
}

/* Is the path that file of the folder? */
static bool ran_is_in(const char *path, const char *folder, const char *file)
{
    size_t length = strlen(folder);

    return strncmp(path, folder, length) == 0 && path[length] == '/'
            && strcmp(path + length + 1, file) == 0;
}

bool ran_names_file(const struct ran *ran, const struct receipt *receipt, const char *file)
{
    char folder[RECEIPT_VALUE_MAX], value[RECEIPT_VALUE_MAX];
    const char *said;
    size_t at = 0;

    receipt_escape(ran->directory, folder);
    receipt_escape(file, value);
    while ((said = receipt_next(receipt, "file", &at)) != NULL)
        if (strcmp(ran_behind(said), value) == 0
                || (*file != '/' && ran_is_in(ran_behind(said), folder, value)))
            return true;
    return false;
}
