/* SPDX-License-Identifier: MIT */
#include "tracker/base/script.h"

#include <string.h>

struct script_words {
    const char *const *at;
    size_t count;
};

/* A program that starts another one, or an interpreter. `values`: its options that take the next
 * word, separated by blanks. */
struct script_known {
    const char *name;
    const char *values;
    const char *code;  /* options whose value is program text */
    unsigned operands; /* its own words before the command */
};

/* Programs that run the command after them. */
static const struct script_known starters[] = {
        {"env", " -u --unset -C --chdir -S --split-string ", "", 0},
        {"timeout", " -s --signal -k --kill-after ", "", 1},
        {"nice", " -n --adjustment ", "", 0},
        {"ionice", " -c --class -n --classdata ", "", 0},
        {"nohup", "", "", 0},
        {"setsid", "", "", 0},
        {"stdbuf", " -i --input -o --output -e --error ", "", 0},
        {"time", " -f --format -o --output ", "", 0},
        {"taskset", "", "", 1},
        {"chrt", "", "", 1},
        {"numactl", " -i -p -N -C -m -P -l ", "", 0},
        {"prlimit", "", "", 0},
        {"sudo", " -u -g -h -p -C -r -t ", "", 0},
        {"xvfb-run", " -e -f -n -p -s -w ", "", 0},
};

static const struct script_known interpreters[] = {
        {"bash", " -o -O --rcfile --init-file ", " -c ", 0},
        {"sh", " -o ", " -c ", 0},
        {"dash", " -o ", " -c ", 0},
        {"zsh", " -o ", " -c ", 0},
        {"julia", " -C -J -H -L -t -p -O -g --project --threads --procs --sysimage ",
                " -e -E --eval --print ", 0},
        {"node", " -r --require --import --loader -C ", " -e -p --eval --print ", 0},
        {"perl", " -I -M -m ", " -e -E ", 0},
        {"ruby", " -I -r -C -E ", " -e ", 0},
        {"lua", " -l ", " -e ", 0},
        {"luajit", " -l ", " -e ", 0},
        {"Rscript", "", " -e ", 0},
        {"php", " -d -c -z ", " -r ", 0},
        {"ipython", " -c --profile --colors --matplotlib ", "", 0},
};

/* Python modules, and their scripts, that run another script. */
static const char *const launchers[] = {"torchrun", "torch.distributed.run",
        "torch.distributed.launch", "torch.distributed.elastic", "accelerate", "accelerate-launch",
        "accelerate.commands.launch", "accelerate.commands.accelerate_cli", "deepspeed",
        "deepspeed.launcher.launch", "deepspeed.launcher.runner", "paddle.distributed.launch",
        "fleetrun", "horovodrun", "cProfile", "profile", "pdb", "trace", "coverage", "kernprof",
        "line_profiler", "memory_profiler", "mprof", "scalene", "viztracer", "debugpy", "runpy",
        "mpi4py", "mpi4py.run", "composer", "colossalai", "lightning", "fabric", "ipython",
        "ipython3", "IPython"};

/* Their options without a value, which may precede the script. */
static const char flags[] =
        " -m --module --standalone --no-python --no_python --use-env --use_env --run-path "
        "--run_path "
        "--cpu --mps --multi_gpu --multi-gpu --tpu --use_deepspeed --use_fsdp --use_megatron_lm "
        "--use_xpu --ipex --debug -q --quiet --same_network --use_parallelism_config "
        "--dynamo_use_dynamic --dynamo_use_fullgraph --main_training_function --wait-for-client "
        "-l -v -b -z --force --no_local_rank --no_ssh --bind_cores_to_rank -t -c -T -g -C -r -R "
        "-s ";

const char *script_base(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* Is " word " in the list? */
static bool script_is_in(const char *list, const char *word)
{
    size_t length = strlen(word);

    for (const char *at = list; length > 0 && (at = strstr(at, word)) != NULL; at++)
        if (at > list && at[-1] == ' ' && at[length] == ' ')
            return true;
    return false;
}

static bool script_ends(const char *word, const char *end)
{
    size_t length = strlen(word), tail = strlen(end);

    return length > tail && strcmp(word + length - tail, end) == 0;
}

static const struct script_known *script_known(
        const struct script_known *table, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

bool script_is_python(const char *base)
{
    size_t n = strncmp(base, "python", 6) == 0 ? 6 : strncmp(base, "pypy", 4) == 0 ? 4 : 0;

    if (n == 0)
        return false;
    n += strspn(base + n, "0123456789.tdm");
    return base[n] == '\0' || strcmp(base + n, "-dbg") == 0;
}

static bool script_is_launcher(const char *name)
{
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++)
        if (strcmp(launchers[i], name) == 0)
            return true;
    return false;
}

static struct script script_at(enum script_kind kind, size_t word, const char *text)
{
    return (struct script){.kind = kind, .word = word, .text = text};
}

/* Does this option take the next word? Long ones with '=' do not. */
static bool script_takes_next(const char *option)
{
    return option[0] == '-' && option[1] && !strchr(option, '=') && !script_is_in(flags, option);
}

/* The target of a launcher, in the words after its own: a script file, else the argument of -m,
 * else its first operand. */
static bool script_of_launcher(
        const struct script_words *words, size_t from, struct script *ret_script)
{
    size_t operand = 0;
    bool is_module = false;

    for (size_t i = from; i < words->count; i++) {
        const char *word = words->at[i];
        bool is_value = i > from && script_takes_next(words->at[i - 1]);

        if (strcmp(word, "-m") == 0 || strcmp(word, "--module") == 0)
            is_module = operand == 0;
        if (word[0] == '-' || (i == from && strcmp(word, "launch") == 0)
                || (i == from && strcmp(word, "run") == 0))
            continue;
        if (!is_module && (script_ends(word, ".py") || script_ends(word, ".pyc"))) {
            *ret_script = script_at(SCRIPT_FILE, i, word);
            return true;
        }
        if (operand == 0 && !is_value)
            operand = i;
        if (operand > 0 && is_module)
            break;
    }
    if (operand == 0)
        return false;
    *ret_script = script_at(is_module ? SCRIPT_MODULE : SCRIPT_FILE, operand, words->at[operand]);
    return true;
}

/* The target of a script or module that runs another one; otherwise the script itself. */
static struct script script_behind(const struct script_words *words, struct script script)
{
    const char *name = script_base(script.text);
    struct script inner;

    if (script.kind == SCRIPT_FILE && script_ends(name, ".py"))
        return script;
    if (!script_is_launcher(name) || !script_of_launcher(words, script.word + 1, &inner))
        return script;
    inner.runner = script.text;
    return inner;
}

/* Parses the options of CPython 3: letters in a word, of which W and X take a value, c and m end
 * the options. */
static struct script script_of_python(const struct script_words *words, size_t from)
{
    size_t i = from + 1;

    for (; i < words->count && words->at[i][0] == '-' && words->at[i][1]; i++) {
        const char *word = words->at[i];
        size_t end;

        if (strcmp(word, "--") == 0) {
            i++;
            break;
        }
        if (strcmp(word, "--check-hash-based-pycs") == 0)
            i++;
        if (word[1] == '-')
            continue;
        end = strcspn(word, "cmWXQ");
        if (word[end] == '\0')
            continue;
        if (word[end + 1] == '\0' && i + 1 == words->count)
            return script_at(SCRIPT_INPUT, from, words->at[from]);
        if (word[end] == 'c' || word[end] == 'm') {
            bool is_next = word[end + 1] == '\0';
            enum script_kind kind = word[end] == 'c' ? SCRIPT_CODE : SCRIPT_MODULE;

            i += is_next;
            return script_behind(
                    words, script_at(kind, i, is_next ? words->at[i] : word + end + 1));
        }
        i += word[end + 1] == '\0';
    }
    if (i >= words->count || strcmp(words->at[i], "-") == 0)
        return script_at(SCRIPT_INPUT, from, words->at[from]);
    return script_behind(words, script_at(SCRIPT_FILE, i, words->at[i]));
}

static struct script script_of_other(
        const struct script_words *words, size_t from, const struct script_known *known)
{
    size_t i = from + 1;

    for (; i < words->count && words->at[i][0] == '-' && words->at[i][1]; i++) {
        if (strcmp(words->at[i], "--") == 0) {
            i++;
            break;
        }
        if (script_is_in(known->code, words->at[i]) && i + 1 < words->count)
            return script_at(SCRIPT_CODE, i + 1, words->at[i + 1]);
        i += script_is_in(known->values, words->at[i]);
    }
    if (i >= words->count || strcmp(words->at[i], "-") == 0)
        return script_at(SCRIPT_INPUT, from, words->at[from]);
    return script_at(SCRIPT_FILE, i, words->at[i]);
}

/* The command after a starter's options, variables and operands; words->count: none. */
static size_t script_command(
        const struct script_words *words, size_t from, const struct script_known *starter)
{
    unsigned operands = starter->operands;
    size_t i = from + 1;

    for (; i < words->count; i++) {
        const char *word = words->at[i];

        if (word[0] == '-' && word[1]) {
            i += script_is_in(starter->values, word);
            continue;
        }
        if (strcmp(starter->name, "env") == 0 && strchr(word, '='))
            continue;
        if (operands == 0)
            break;
        operands--;
    }
    return i;
}

struct script script_find(const char *const *at, size_t count)
{
    const struct script_words words = {at, count};
    const struct script_known *known;
    struct script script = {.kind = SCRIPT_NONE, .text = ""};
    size_t i = 0;

    while (i < count
            && (known = script_known(
                        starters, sizeof starters / sizeof *starters, script_base(at[i])))
            && script_command(&words, i, known) < count)
        i = script_command(&words, i, known);
    if (i >= count)
        return script;
    script = script_at(SCRIPT_NONE, i, at[i]);
    known = script_known(
            interpreters, sizeof interpreters / sizeof *interpreters, script_base(at[i]));
    if (script_is_python(script_base(at[i])))
        script = script_of_python(&words, i);
    else if (script_is_launcher(script_base(at[i])))
        (void)script_of_launcher(&words, i + 1, &script);
    else if (known)
        script = script_of_other(&words, i, known);
    script.program = i;
    return script;
}
