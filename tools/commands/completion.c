/* SPDX-License-Identifier: MIT */
#include "tools/commands/completion.h"

#include <string.h>

typedef bool (*option_filter)(const struct args_option *option);

/* Each command has this option besides its rows. */
static const struct args_option help_option = {"help|h", NULL, "the list of options", ARGS_FLAG, 0};

/* Option `i` of a command: its rows, then --help, then those of cmd_option; NULL after the last. */
static const struct args_option *option_at(const struct cmd *cmd, size_t i)
{
    if (i < cmd->option_count)
        return &cmd->options[i];
    if (i == cmd->option_count)
        return &help_option;
    return cmd_option(cmd, i - cmd->option_count - 1);
}

static bool completion_is_any(const struct args_option *option)
{
    return option->name != NULL;
}

static bool takes_other_value(const struct args_option *option)
{
    return option->value && !args_takes_file(option);
}

/*
 * Writes the first sentence of a text inside single quotes, with a backslash before each byte of
 * `special`.
 */
static void put_sentence(FILE *out, const char *text, const char *special)
{
    const char *end = strstr(text, ". ");
    size_t length = end ? (size_t)(end - text) : strlen(text);

    if (length && text[length - 1] == '.')
        length--;
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '\'')
            (void)fputs("'\\''", out);
        else
            (void)fprintf(out, "%s%c", strchr(special, text[i]) ? "\\" : "", text[i]);
    }
}

static void put_name(FILE *out, const struct args_option *option)
{
    (void)fprintf(out, "%.*s", (int)args_name_length(option), option->name);
}

static void put_subcommands(FILE *out, const struct cmd *cmd)
{
    for (size_t i = 0; cmd->subcommands && cmd->subcommands[i]; i++)
        (void)fprintf(out, "%s%s", i ? " " : "", cmd->subcommands[i]);
}

/* Writes NAME='--option -o ...' with the options that `has` accepts. */
static void bash_options(FILE *out, const char *name, const struct cmd *cmd, option_filter has)
{
    const struct args_option *option;

    (void)fprintf(out, "        %s='", name);
    for (size_t i = 0; (option = option_at(cmd, i)) != NULL; i++) {
        char letter = args_letter(option);
        if (!has(option))
            continue;
        (void)fputs("--", out);
        put_name(out, option);
        (void)fputs(" ", out);
        if (letter)
            (void)fprintf(out, "-%c ", letter);
    }
    (void)fputs("'\n", out);
}

static const char bash_head[] = "_kedge()\n"
                                "{\n"
                                "    local word=${COMP_WORDS[COMP_CWORD]}\n"
                                "    local before=${COMP_WORDS[COMP_CWORD - 1]}\n"
                                "    local options files values subcommands kind=-f list=\n";

static const char bash_tail[] =
        "    esac\n"
        "    [[ $before == = ]] && before=${COMP_WORDS[COMP_CWORD - 2]}\n"
        "    [[ $word == = ]] && word=\n"
        "    COMPREPLY=()\n"
        "    if ((COMP_CWORD == 1)); then\n"
        "        list=$commands\n"
        "    elif [[ $before == -- ]]; then\n"
        "        kind=-c\n"
        "    elif [[ \" ${COMP_WORDS[*]:2:COMP_CWORD-2} \" == *' -- '* || \" $files\" == *\" "
        "$before \"* ]]; then\n"
        "        kind=-f\n"
        "    elif [[ \" $values\" == *\" $before \"* ]]; then\n"
        "        return\n"
        "    elif [[ $word == -* ]]; then\n"
        "        list=$options\n"
        "    elif ((COMP_CWORD == 2)); then\n"
        "        list=$subcommands\n"
        "    fi\n"
        "    if [[ $list ]]; then\n"
        "        mapfile -t COMPREPLY < <(compgen -W \"$list\" -- \"$word\")\n"
        "    else\n"
        "        mapfile -t COMPREPLY < <(compgen $kind -- \"$word\")\n"
        "    fi\n"
        "}\n"
        "complete -o filenames -F _kedge kedge\n";

static void bash_print(FILE *out, const struct cmd *const *commands, size_t count)
{
    (void)fputs(bash_head, out);
    (void)fputs("    local commands='", out);
    for (size_t i = 0; i < count; i++)
        (void)fprintf(out, "%s ", commands[i]->name);
    (void)fputs("--help --version'\n    case ${COMP_WORDS[1]} in\n", out);
    for (size_t i = 0; i < count; i++) {
        (void)fprintf(out, "    %s)\n", commands[i]->name);
        bash_options(out, "options", commands[i], completion_is_any);
        bash_options(out, "files", commands[i], args_takes_file);
        bash_options(out, "values", commands[i], takes_other_value);
        (void)fputs("        subcommands='", out);
        put_subcommands(out, commands[i]);
        (void)fputs("'\n        ;;\n", out);
    }
    (void)fputs(bash_tail, out);
}

static void zsh_option(FILE *out, const struct args_option *option)
{
    char letter = args_letter(option);
    const char *quote = letter ? "" : "'";

    (void)fputs(" \\\n            ", out);
    if (letter) { /* '(-o --output)'{-o,--output=} */
        (void)fprintf(out, "'(-%c --", letter);
        put_name(out, option);
        (void)fprintf(out, ")'{-%c%s,", letter, option->value ? "+" : "");
    }
    (void)fprintf(out, "%s--", quote);
    put_name(out, option);
    (void)fprintf(out, "%s%s[", option->value ? "=" : "", letter ? "}'" : "");
    put_sentence(out, option->help, "\\[]");
    (void)fputs("]", out);
    if (option->value)
        (void)fprintf(out, ":%s:%s", option->value, args_takes_file(option) ? "_files" : " ");
    (void)fputs("'", out);
}

static void zsh_command(FILE *out, const struct cmd *cmd)
{
    const struct args_option *option;

    (void)fprintf(out, "    %s)\n        _arguments -S", cmd->name);
    for (size_t i = 0; (option = option_at(cmd, i)) != NULL; i++)
        zsh_option(out, option);
    (void)fputs(" \\\n            ", out);
    if (cmd->subcommands) {
        (void)fputs("'1:word:(", out);
        put_subcommands(out, cmd);
        (void)fputs(")' ", out);
    }
    (void)fputs(cmd->tail ? "'(-)1:program:_command_names -e' '*::argument:_normal'"
                          : "'*:file:_files'",
            out);
    (void)fputs("\n        ;;\n", out);
}

static void zsh_print(FILE *out, const struct cmd *const *commands, size_t count)
{
    (void)fputs("#compdef kedge\n"
                "if (( CURRENT == 2 )); then\n"
                "    local -a commands=(",
            out);
    for (size_t i = 0; i < count; i++) {
        (void)fprintf(out, "\n        '%s:", commands[i]->name);
        put_sentence(out, commands[i]->summary, "\\");
        (void)fputs("'", out);
    }
    (void)fputs(")\n"
                "    _describe command commands\n"
                "    compadd -- --help --version\n"
                "    return\n"
                "fi\n"
                "shift words\n"
                "(( CURRENT-- ))\n"
                "case $words[1] in\n",
            out);
    for (size_t i = 0; i < count; i++)
        zsh_command(out, commands[i]);
    (void)fputs("esac\n", out);
}

static void fish_option(FILE *out, const char *command, const struct args_option *option)
{
    char letter = args_letter(option);

    (void)fprintf(out, "complete -c kedge -n '__fish_seen_subcommand_from %s' -l ", command);
    put_name(out, option);
    if (letter)
        (void)fprintf(out, " -s %c", letter);
    if (option->value)
        (void)fputs(args_takes_file(option) ? " -r -F" : " -x", out);
    (void)fputs(" -d '", out);
    put_sentence(out, option->help, "\\");
    (void)fputs("'\n", out);
}

static void fish_command(FILE *out, const struct cmd *cmd)
{
    const struct args_option *option;

    (void)fprintf(out, "complete -c kedge -n __fish_use_subcommand -f -a %s -d '", cmd->name);
    put_sentence(out, cmd->summary, "\\");
    (void)fputs("'\n", out);
    for (size_t i = 0; (option = option_at(cmd, i)) != NULL; i++)
        fish_option(out, cmd->name, option);
    if (cmd->subcommands) {
        (void)fprintf(out, "complete -c kedge -n '__fish_seen_subcommand_from %s' -a '", cmd->name);
        put_subcommands(out, cmd);
        (void)fputs("'\n", out);
    }
    if (cmd->tail)
        (void)fprintf(out,
                "complete -c kedge -n '__fish_seen_subcommand_from %s' -a "
                "'(__fish_complete_command)'\n",
                cmd->name);
}

static void fish_print(FILE *out, const struct cmd *const *commands, size_t count)
{
    (void)fputs("complete -c kedge -n __fish_use_subcommand -f -l help -d 'the list of commands'\n"
                "complete -c kedge -n __fish_use_subcommand -f -l version -d 'versions'\n",
            out);
    for (size_t i = 0; i < count; i++)
        fish_command(out, commands[i]);
}

bool completion_print(FILE *out, const char *shell, const struct cmd *const *commands, size_t count)
{
    static const struct {
        const char *name;
        void (*print)(FILE *out, const struct cmd *const *commands, size_t count);
    } shells[] = {{"bash", bash_print}, {"zsh", zsh_print}, {"fish", fish_print}};

    for (size_t i = 0; shell && i < CMD_COUNT(shells); i++) {
        if (strcmp(shell, shells[i].name) != 0)
            continue;
        shells[i].print(out, commands, count);
        return true;
    }
    return false;
}
