#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# covers: completion.c
# What shells complete behind `kedge` is what --help lists. $1 is the shell.
. "$(dirname "$0")/../../check.sh"
kedge=$TEST_BUILD/kedge
shell=${1:-}
commands=$("$kedge" --help | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p')
[ "$(wc -w <<<"$commands")" -ge 13 ] || fail "commands of --help: $commands"
expect 0 "$kedge" --completion "$shell"
mv out script

# The options of a command by its --help, each with its letter: "--output -o".
help_options() { "$kedge" "$1" --help | sed -nE 's/^  ((-.), )?(--[a-z-]+).*/\3 \2/p'; }
words() { tr ' ' '\n' | grep . | sort; }
same() { # what, words, words
    diff <(words <<<"$2") <(words <<<"$3") >&2 || fail "$1"
}

case "$shell" in
bash)
    . ./script
    complete -p kedge | grep -q -- '-F _kedge kedge' || fail "bash completes kedge with nothing of ours"
    completed() { # words behind kedge, the last one is being typed
        COMP_WORDS=(kedge "$@") COMP_CWORD=$#
        _kedge
        echo "${COMPREPLY[@]}"
    }
    same "commands" "$(completed '')" "$commands --help --version"
    for c in $commands; do same "options of $c" "$(completed "$c" -)" "$(help_options "$c")"; done
    mkdir there && cd there && touch 'a file' other.kcap
    [ "$(completed report oth)" = other.kcap ] || fail "a capture: $(completed report oth)"
    [ "$(completed run --capture oth)" = other.kcap ] || fail "the value of --capture"
    [ "$(completed run --capture = oth)" = other.kcap ] || fail "the value of --capture="
    [ "$(completed report --top oth)" = "" ] || fail "a number is no file: $(completed report --top oth)"
    completed report a >/dev/null
    [ "${#COMPREPLY[@]}" = 1 ] || fail "a name with a blank: ${COMPREPLY[*]}"
    [ "$(completed hints '')" = "lint keys" ] || fail "words of hints: $(completed hints '')"
    completed run -- env | grep -qw env || fail "programs behind --: $(completed run -- env)"
    [ "$(completed run -- python3 --)" = "" ] || fail "options of the program are not ours: $(completed run -- python3 --)"
    ;;
zsh)
    [ "$(head -1 script)" = "#compdef kedge" ] || fail "$(head -1 script)"
    same "commands" "$(sed -nE "s/^        '([a-z]+):.*/\1/p" script)" "$commands"
    for c in $commands; do
        sed -n "/^    $c)\$/,/;;/p" script | sed -nE "s/^ +'(--[a-z-]+)=?\[.*/\1/p; s/^ +'[^']*'\{(-.)\+?,(--[a-z-]+)=?\}'\[.*/\1 \2/p" >found
        same "options of $c" "$(cat found)" "$(help_options "$c")"
    done
    ! command -v zsh >/dev/null || zsh -n script || fail "zsh does not read it"
    ;;
fish)
    same "commands" "$(sed -nE 's/^complete -c kedge -n __fish_use_subcommand -f -a ([a-z]+) .*/\1/p' script)" "$commands"
    for c in $commands; do
        sed -nE "s/^complete -c kedge -n '__fish_seen_subcommand_from $c' -l ([a-z-]+)( -s (.))? .*/--\1 -\3/p" script | sed 's/ -$//' >found
        same "options of $c" "$(cat found)" "$(help_options "$c")"
        ! command -v fish >/dev/null || same "what fish has for $c" \
            "$(HOME=$PWD fish --no-config -c "source script; complete -C 'kedge $c -'" | cut -f1)" "$(help_options "$c")"
    done
    ;;
*)
    fail "no shell '$shell'"
    ;;
esac
