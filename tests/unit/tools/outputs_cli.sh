#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# covers: ownfile.c
# Which files commands replace (R102), with captures that capture_maker wrote. $1 says which part.
. "$(dirname "$0")/../../check.sh"
unset "${!KEDGE_@}"
kedge=$TEST_BUILD/kedge
make=$TEST_BUILD/tests/unit/capture_maker
"$make" good good.kcap
"$make" bad bad.kcap
printf 'op,id,size,stream,time_us\na,0,512,0,1\nf,0,512,0,2\n' >rows.csv
printf 'kedge-hints: 1\nhints:\n  - {id: a, do: release, pick: {size: ">=4MiB"}, when: {anchor: A, edge: exit}}\n' >hints.yaml
has_sqlite=true
"$kedge" export bad.kcap --to sqlite -o tried.db >out 2>tried || has_sqlite=false

# All commands that write a file, as `write COMMAND FILE`; the exit code is the first word of expect.
commands="export report diff ranks check bundle suggest suggest-cap import"
formats="folded pprof perfetto memory_viz csv"
! $has_sqlite || formats+=" sqlite"
write() { # want, command, file, more options
    local want=$1 command=$2 file=$3
    shift 3
    case $command in
    export) set -- export bad.kcap --to folded -o "$file" "$@" ;;
    report) set -- report bad.kcap --html "$file" "$@" ;;
    diff) set -- diff bad.kcap bad.kcap --html "$file" "$@" ;;
    ranks) set -- ranks bad.kcap --html "$file" "$@" ;;
    check) set -- check bad.kcap 'leaks>0' --junit "$file" "$@" ;;
    bundle) set -- bundle bad.kcap -o "$file" "$@" ;;
    suggest) set -- suggest --good good.kcap --bad bad.kcap -o "$file" "$@" ;;
    suggest-cap) set -- suggest bad.kcap --cap 1G -o "$file" "$@" ;;
    import) set -- import rows.csv -o "$file" "$@" ;;
    *) set -- export bad.kcap --to "$command" -o "$file" "$@" ;;
    esac
    expect "$want" "$kedge" "$@"
}
said() { # text: the one line on stderr
    has err "$1"
    [ "$(wc -l <err)" = 1 ] || fail "more than a line: $(cat err)"
}
same() { cmp "$1" "$2" || fail "$1 was changed"; }

case "$1" in
input)
    # What a command reads stays, whatever it is called and whatever is said.
    cp bad.kcap before
    ln bad.kcap hard.kcap
    ln -s bad.kcap soft.kcap
    for command in export report diff ranks check bundle suggest suggest-cap; do
        for name in bad.kcap ./bad.kcap hard.kcap soft.kcap "$PWD/bad.kcap"; do
            write 2 $command "$name"
            said " $name is "
        done
        write 2 $command hard.kcap --force
        said " hard.kcap is what is read; name another file"
    done
    [ "$(stat -c %h bad.kcap)" = 2 ] && [ -L soft.kcap ] || fail "another link"
    same bad.kcap before
    expect 0 "$kedge" bundle bad.kcap -o b.tar.zst
    cp b.tar.zst before
    for force in "" --force; do
        expect 2 "$kedge" export b.tar.zst --to csv -o b.tar.zst $force
        said "kedge export: b.tar.zst is what is read; name another file"
        expect 2 "$kedge" suggest --good good.kcap --bad b.tar.zst -o b.tar.zst $force
        expect 2 "$kedge" check bad.kcap --predicted hints.yaml --junit hints.yaml $force
        said "kedge check: hints.yaml is what is read; name another file"
    done
    same b.tar.zst before
    cp rows.csv before
    for force in "" --force; do write 2 import rows.csv $force; done
    same rows.csv before
    ;;
captures)
    # Another capture, whole or damaged: import alone may take its place.
    { head -c 8 good.kcap; echo "of another version, or cut off"; } >damaged.kcap
    ln -s good.kcap soft.kcap
    for name in good.kcap damaged.kcap soft.kcap; do
        cp $name before
        for command in export report diff ranks check bundle $formats; do
            for force in "" --force; do
                write 2 $command $name $force
                said " $name is a capture, whose place nothing else takes; name another file"
            done
        done
        same $name before
    done
    cp good.kcap other.kcap && cp good.kcap before
    expect 2 "$kedge" suggest bad.kcap --cap 1G -o other.kcap --force
    cp good.kcap hints.yaml.receipt
    for force in "" --force; do
        expect 2 "$kedge" verify --hints hints.yaml $force -- touch started
        said "kedge verify: hints.yaml.receipt is a capture, whose place nothing else takes; name another file"
    done
    same hints.yaml.receipt before
    [ ! -e started ] || fail "the program was started"
    same other.kcap before
    for turn in 1 2; do
        write 0 import other.kcap
        expect 0 "$kedge" report other.kcap --json
        json "j['allocated_count'] == 1"
    done
    ;;
foreign)
    # Files of others stay without --force, also those that look like ours.
    mkdir others
    echo notes >others/text
    cp rows.csv others/csv
    cp hints.yaml others/hints
    echo "main;step 12" >others/folded
    printf '<!DOCTYPE html>\n<title>my page</title>\n' >others/page
    printf '<?xml version="1.0"?>\n<testsuite name="pytest"></testsuite>\n' >others/junit
    printf '{"traceEvents": [], "writer": "another"}' >others/trace
    tar czf others/tar.gz good.kcap
    python3 -c 'import pickle, sqlite3, sys
pickle.dump({"segments": [], "kedge": 1}, open("others/pickle", "wb"))
with sqlite3.connect("others/db") as db: db.execute("CREATE TABLE mine (id INTEGER)")'
    for path in others/*; do
        cp "$path" before
        ln -sf "$path" link
        for command in export report diff ranks check bundle import; do
            write 2 $command link
            said " link is there already, and does not begin as a file that kedge wrote; --force replaces it"
        done
        write 2 suggest "$path"
        said "kedge suggest: $path is there already; --force replaces it"
        same "$path" before
    done
    for command in export report diff ranks check bundle suggest import; do
        cp rows.csv mine && chmod 640 mine && ln -sf mine link
        write 0 $command link --force
        [ -L link ] && [ "$(stat -c %a mine)" = 640 ] || fail "$command: another file, or mode"
        ! cmp -s rows.csv mine || fail "$command --force left it"
    done
    cp others/text hints.yaml.receipt
    expect 2 "$kedge" verify --hints hints.yaml -- touch started
    said "kedge verify: hints.yaml.receipt is there already, and does not begin as a file that kedge wrote; --force replaces it"
    same hints.yaml.receipt others/text
    [ ! -e started ] || fail "the program was started"
    ;;
again)
    # What kedge wrote is replaced again and again, by whatever; a bundle has a capture in it, and hints are edited.
    for format in $formats; do
        for turn in 1 2; do write 0 $format again; done
        cp again wrote
        write 0 check again
        write 0 $format again
        cmp again wrote || [ $format = sqlite ] || fail "$format: another file the second time"
    done
    for command in report diff ranks check export report; do write 0 $command again; done
    : >empty && write 0 suggest empty
    write 0 bundle b
    cp b before
    write 2 export b
    said "kedge export: b is a bundle with a capture in it; --force replaces it"
    same b before
    write 0 bundle b
    for turn in 1 2; do expect 0 "$kedge" bundle bad.kcap; done
    write 0 export b --force
    # A csv without a row, folded stacks without one.
    printf 'op,id,size,stream,time_us\n' >rows
    write 0 csv rows
    [ -z "$(find . -name '*.new')" ] || fail "drafts are left: $(find . -name '*.new')"
    ;;
options)
    # Each command that writes a file says so; no other has the option.
    for command in run report diff suggest verify check ranks whatif bundle export import env top hints; do
        expect 0 "$kedge" $command --help
        case $command in
        report | diff | ranks | suggest | verify | check | bundle | export | import)
            has out "  --force "
            has out "never a capture"
            ;;
        *) hasnt out "  --force " ;;
        esac
        ! grep -qE -- '--(output|html|junit) ' out || has out "  --force "
    done
    ;;
*)
    fail "no part $1"
    ;;
esac
