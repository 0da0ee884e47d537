/* SPDX-License-Identifier: MIT */
#include "tools/base/args.h"

#include <string.h>

#include "tools/base/render.h"
#include "tools/base/vec.h"
#include "tracker/base/config.h"

const char *args_name(struct args_names names, size_t i)
{
    return *(const char *const *)(const void *)((const char *)names.first + i * names.stride);
}

size_t args_find(struct args_names names, const char *word)
{
    size_t i = 0;

    while (i < names.count && strcmp(args_name(names, i), word) != 0)
        i++;
    return i;
}

const char *args_nearest(struct args_names names, const char *word)
{
    const char *found = NULL;
    unsigned best = 3; /* a word with more than two edits is another word */

    for (size_t i = 0; i < names.count; i++) {
        const char *name = args_name(names, i);
        unsigned d = config_distance(word, name);
        /* of equals the one with the same first letter, which is usually the right one */
        bool is_alike = d == best && found && *found != *word && *name == *word;
        if ((d < best || is_alike) && d < strlen(name)) {
            best = d;
            found = name;
        }
    }
    return found;
}

int args_choose(
        const char *command, const char *option, const char *value, const char *const *words)
{
    for (int i = 0; words[i]; i++)
        if (!value || strcmp(value, words[i]) == 0)
            return i;
    (void)fprintf(stderr, "%s: --%s %s: %s", command, option, value, words[0]);
    for (words++; *words; words++)
        (void)fprintf(stderr, "%s%s", words[1] ? ", " : " or ", *words);
    (void)fputc('\n', stderr);
    return -1;
}

size_t args_name_length(const struct args_option *option)
{
    return strcspn(option->name, "|");
}

char args_letter(const struct args_option *option)
{
    const char *bar = strchr(option->name, '|');

    if (!bar)
        return '\0';
    return bar[1];
}

bool args_takes_file(const struct args_option *option)
{
    static const char *const names[] = {"FILE", "CAPTURE", "HINTS", "DIRECTORY"};
    bool found = false;

    for (size_t i = 0; option->value && i < sizeof(names) / sizeof(names[0]); i++)
        found = found || strcmp(option->value, names[i]) == 0;
    return found;
}

/* "--name", with or without "=value", or "-n". */
static const struct args_option *find_option(const struct args_spec *spec, const char *word)
{
    bool is_long = word[1] == '-';
    const char *name = word + 1 + is_long;
    size_t length = is_long ? strcspn(name, "=") : strlen(name);

    for (size_t i = 0; i < spec->option_count && (is_long || length == 1); i++) {
        const struct args_option *option = &spec->options[i];
        if (is_long ? args_name_length(option) == length && memcmp(option->name, name, length) == 0
                    : args_letter(option) == *name)
            return option;
    }
    return NULL;
}

static void print_unknown(const struct args_spec *spec, const char *word)
{
    struct vec_texts names = {0};
    size_t length = strcspn(word, "=");

    if (spec->gone && strlen(spec->gone) == length && memcmp(spec->gone, word, length) == 0) {
        (void)fprintf(
                stderr, "%s: %s is gone; instead: %s\n", spec->command, spec->gone, spec->instead);
        return;
    }
    for (size_t i = 0; i < spec->option_count; i++)
        (void)vec_add_text(&names,
                vec_format(
                        "%.*s", (int)args_name_length(&spec->options[i]), spec->options[i].name));
    (void)vec_add_text(&names, vec_text("help"));
    const char *near = args_nearest(ARGS_WORDS(names.at, names.count), word + strspn(word, "-"));
    (void)fprintf(stderr, "%s: no option %s", spec->command, word);
    if (near)
        (void)fprintf(stderr, " (did you mean --%s?)", near);
    (void)fprintf(stderr, "; see %s --help\n", spec->command);
    vec_free_texts(&names);
}

static enum args_result store(const struct args_spec *spec, const struct args_option *option,
        const char *value, void *fields)
{
    char *field = (char *)fields + option->offset;
    uint64_t number;

    switch (option->kind) {
    case ARGS_FLAG:
        *(bool *)(void *)field = true;
        return ARGS_OK;
    case ARGS_TEXT:
    case ARGS_PAIR: /* the first of them */
    case ARGS_OUTPUT:
        *(const char **)(void *)field = value;
        return ARGS_OK;
    case ARGS_UINT:
    case ARGS_SIZE:
        if (config_size(value, &number) < 0
                || (option->kind == ARGS_UINT && value[strspn(value, "0123456789")] != '\0')) {
            (void)fprintf(stderr, "%s: --%.*s %s: not a %s\n", spec->command,
                    (int)args_name_length(option), option->name, value,
                    option->kind == ARGS_UINT ? "number" : "size (try 512M or 11G)");
            return ARGS_BAD;
        }
        *(uint64_t *)(void *)field = number;
        return ARGS_OK;
    }
    return ARGS_BAD;
}

/* One word that starts with '-'; *io_index advances past the value if the option takes one. */
static enum args_result parse_option(
        const struct args_spec *spec, int argc, char **argv, int *io_index, void *fields)
{
    const char *word = argv[*io_index];
    const char *equals = word[1] == '-' ? strchr(word, '=') : NULL;
    const struct args_option *option = find_option(spec, word);

    if (!option) {
        print_unknown(spec, word);
        return ARGS_BAD;
    }
    if (option->kind == ARGS_FLAG) {
        if (equals) {
            (void)fprintf(stderr, "%s: %s: this option takes no value\n", spec->command, word);
            return ARGS_BAD;
        }
        return store(spec, option, NULL, fields);
    }
    if (equals && option->kind != ARGS_PAIR)
        return store(spec, option, equals + 1, fields);
    if (equals || *io_index + 1 + (option->kind == ARGS_PAIR) >= argc) {
        (void)fprintf(stderr, "%s: %s needs a value: %s\n", spec->command, word, option->value);
        return ARGS_BAD;
    }
    if (option->kind == ARGS_PAIR)
        ((const char **)(void *)((char *)fields + option->offset))[1] = argv[*io_index + 2];
    enum args_result r = store(spec, option, argv[++*io_index], fields);
    *io_index += option->kind == ARGS_PAIR;
    return r;
}

enum args_result args_parse(const struct args_spec *spec, int argc, char **argv, void *fields,
        char **words, int *ret_count)
{
    int count = 0;
    int i;

    for (i = 0; i < argc; i++) {
        const char *word = argv[i];
        if (strcmp(word, "--") == 0) {
            i++;
            break;
        }
        if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
            return ARGS_HELP;
        if (word[0] == '-' && word[1] != '\0') {
            enum args_result result = parse_option(spec, argc, argv, &i, fields);
            if (result != ARGS_OK)
                return result;
            continue;
        }
        if (spec->tail)
            break;
        words[count++] = argv[i];
    }
    for (; i < argc; i++)
        words[count++] = argv[i];
    *ret_count = count;
    return ARGS_OK;
}

static void print_option(FILE *out, const struct args_option *option)
{
    char left[64];
    char letter[8] = "";

    if (args_letter(option))
        (void)snprintf(letter, sizeof(letter), "-%c, ", args_letter(option));
    (void)snprintf(left, sizeof(left), "%s--%.*s%s%s", letter, (int)args_name_length(option),
            option->name, option->value ? " " : "", option->value ? option->value : "");
    (void)fprintf(out, "  %-26s ", left);
    render_label(out, option->help, strlen(left) > 26 ? 3 + (unsigned)strlen(left) : 29, 29);
}

void args_print_options(FILE *out, const struct args_option *options, size_t count)
{
    static const struct args_option help = {"help|h", NULL, "this text", ARGS_FLAG, 0};

    (void)fputs("options:\n", out);
    for (size_t i = 0; i < count; i++)
        print_option(out, &options[i]);
    print_option(out, &help);
}
