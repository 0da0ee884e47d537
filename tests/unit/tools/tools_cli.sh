#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# covers: cmd_check.c cmd_diff.c cmd_env.c cmd_report.c cmd_suggest.c cmd_verify.c cmd_whatif.c
# cmdoption.c commands.c main.c report.c report_anchors.c report_coverage.c report_json.c
# report_live.c report_oom.c report_pool.c report_select.c report_text.c report_views.c
# report_screen.c report_steps.c report_streams.c
# Drives `kedge` on captures that capture_maker wrote. $1 says which part.
. "$(dirname "$0")/../../check.sh"
unset "${!KEDGE_@}" # kedge env judges what is set
kedge=$TEST_BUILD/kedge
make=$TEST_BUILD/tests/unit/capture_maker
form() { "$make" "$1" "$1.kcap"; }

case "$1" in
report)
    form good; form bad
    expect 0 "$kedge" report bad.kcap --from SOT_CALL_0 --to SOT_CALL_18 --all
    # 19 anchors: inputs 2, 3, 4 MiB in turn (56), 16 + 8 + 1 MiB each, and 4 KiB pairs.
    has out "Remaining memory: 227.00 MiB"
    has out "Allocated memory: 531.07 MiB"
    has out "Allocated count: 95"
    has out "Freed memory: 304.07 MiB"
    has out "Freed count: 38"
    has out "blocks  unused_output capture_maker.c:"
    hasnt out "blocks  allocate capture_maker.c:" # through which all of it was asked for
    has out "unused_input /"
    has out "Test device"
    has out "ended     exited with status 0"
    hasnt out $'\033'
    expect 0 "$kedge" report good.kcap --from SOT_CALL_0 --to SOT_CALL_18 --json
    json "j['remaining_bytes'] == (19 + 9*8)<<20 and j['freed_count'] == 19+19+10"
    json "j['max_bytes'] > j['remaining_bytes'] and j['hinted_freed_count'] == 0"
    json "len(j['anchors']) == 19 and j['anchors'][3]['name'] == 'SOT_CALL_3' and j['anchors'][3]['instance'] == 0"
    json "j['anchors'][3]['allocated_count'] == 4 and j['complete'] is True and j['program']['clean'] is True"
    json "all(k in j for k in 'max_with_hints_bytes remaining_with_hints_bytes peak_reserved_bytes'.split())"
    json "j['live'][0]['stack'][0]['function'] == 'allocate' and j['live'][0]['stack'][0]['line'] > 0"
    json "j['libraries'][0]['path'].endswith('capture_maker')"
    json "sum(r['bytes'] for r in j['live']) == j['remaining_bytes'] and sum(r['bytes'] for r in j['live_at_max']) == j['max_bytes']"
    json "[d['device'] for d in j['devices']] == [0]"
    expect 0 "$kedge" report good.kcap --by anchor
    has out "SOT_CALL_19"
    for view in live hwm leaks temporary libraries hints oom anchors classes sources; do expect 0 "$kedge" report good.kcap --view $view; done
    expect 2 "$kedge" report good.kcap --view frag
    has err "not in this version"
    expect 2 "$kedge" report good.kcap --from SOT_CALL_99
    has err "no anchor 'SOT_CALL_99'"
    expect 2 "$kedge" report good.kcap --from SOT_CALL_5 --to SOT_CALL_4
    expect 2 "$kedge" report nowhere.kcap
    has err "nowhere.kcap"
    echo nonsense >bad.txt
    expect 2 "$kedge" report bad.txt
    # Rows with commas are a csv, and a wrong first line is told like every other.
    for head in op,id,size,stream "Op,Id,Size,Stream,Time_us" "Thread,Time,Action,Pointer,Size" "op,id,size,stream,time_us,more"; do
        printf '%s\na,1,4096,0,1\n' "$head" >head.csv
        for command in "report --view steps" "whatif --policy kedge"; do
            expect 2 "$kedge" $command head.csv
            has err "head.csv:1:1: the first line must be op,id,size,stream,time_us, or Thread,Time,Action,Pointer,Size,Stream"
        done
    done
    printf 'a,b\001\n' >bytes
    expect 2 "$kedge" report bytes
    has err "bytes: not a kedge capture"
    head -c 5000 good.kcap >cut.kcap
    expect 2 "$kedge" report cut.kcap
    # A capture of the version before is called so, and not damaged.
    cp good.kcap old.kcap
    printf '\003' | dd of=old.kcap bs=1 seek=8 conv=notrunc status=none
    for command in report "diff good.kcap" "bundle"; do
        expect 2 "$kedge" $command old.kcap
        has err "old.kcap: written by another version of kedge: format 3, this kedge reads 4"
        hasnt err "damaged"
    done
    mkfifo pipe
    expect 2 timeout 20 "$kedge" report pipe # nobody writes
    has err "pipe: not a regular file"
    ;;
moves)
    # What moves took stands in the capture; what they saved is the same run played without them.
    for form in sync sync-mapped; do form $form; done
    expect 0 "$kedge" report sync-mapped.kcap
    grep -qE '^Storage moved: 6.00 MiB in 1.5 ms, [0-9.]+ % of the time; without moves the pool would have held [0-9.]+ MiB$' out ||
        fail "$(grep 'Peak live' -A3 out)"
    expect 0 "$kedge" report sync-mapped.kcap --json
    json "j['moves']['without_peak_reserved_bytes'] >= j['peak_live_512_bytes']"
    json "[j['moves'][k] for k in ('count', 'ns', 'ready', 'lazy', 'sparing', 'map_ns')] == [3, 1500000, 7, 2, 0, 1450]"
    expect 0 "$kedge" report sync.kcap
    hasnt out "Storage moved"
    expect 0 "$kedge" report sync.kcap --json
    json "j['moves']['count'] == 0 and j['moves']['without_peak_reserved_bytes'] is None"
    ;;
pace)
    # Moves that take more than their share of the time become rare; then more is held, and less mapped. Without a limit nothing is counted.
    python3 "$TEST_SOURCE/tests/traces/programs.py" 34 wide.csv
    for us in 0 63 630; do
        expect 0 "$kedge" whatif wide.csv --policy kedge --passes 4 --lag 0.5 --move-us $us --event-us 100 --json
        cp out $us.json
    done
    expect 0 "$kedge" whatif wide.csv --policy kedge --passes 4 --lag 0.5 --move-us 63 --event-us 900000 --json
    json "'paces' not in json.load(open('0.json'))['passes'][3]"
    json "all(p['paces']['lazy'] + p['paces']['sparing'] == 0 for p in j['passes'])" # a minute is soon over
    json "j['peak_reserved_bytes'] == json.load(open('0.json'))['peak_reserved_bytes']"
    json "json.load(open('63.json'))['passes'][3]['paces']['sparing'] > 0"
    json "json.load(open('630.json'))['passes'][0]['paces']['sparing'] > 0"
    json "json.load(open('630.json'))['passes'][3]['granules_moved'] < j['passes'][3]['granules_moved']"
    json "json.load(open('630.json'))['peak_reserved_bytes'] >= j['peak_reserved_bytes']"
    for bad in "--move-us x" "--move-us -1" "--event-us 1ms"; do
        expect 2 "$kedge" whatif wide.csv $bad
        has err "a number of microseconds such as 63 or 0.5"
    done
    ;;
mapped)
    # Of a whole run by cudaMalloc on plain memory that showed nothing to others; what whatif says, to the byte.
    for form in sync sync-mapped sync-shown sync-long good; do form $form; done
    expect 0 "$kedge" whatif sync.kcap --policy kedge-mapped --json
    cp out mapped.json
    expect 0 "$kedge" report sync.kcap --json
    json "j['sync_mapped_peak_reserved_bytes'] == json.load(open('mapped.json'))['peak_reserved_bytes'] > j['max_bytes']"
    expect 0 "$kedge" report sync.kcap
    grep -qE '^The pool held [0-9.]+ MiB at the peak; with KEDGE_POOL=sync=mapped it would have been [0-9.]+ MiB$' out ||
        fail "$(grep 'Peak live' -A3 out)"
    expect 0 "$kedge" report sync.kcap --view live
    hasnt out "sync=mapped"
    expect 0 "$kedge" report sync-long.kcap
    has out "What the pool would have held with KEDGE_POOL=sync=mapped:"
    has out "  kedge whatif sync-long.kcap --policy kedge-sync,kedge-mapped"
    for capture in sync-mapped.kcap sync-shown.kcap good.kcap "sync.kcap --from SOT_CALL_0"; do
        expect 0 "$kedge" report $capture
        hasnt out "it would have been"
        expect 0 "$kedge" report $capture --json
        json "j['sync_mapped_peak_reserved_bytes'] is None"
    done
    ;;
screen)
    # Without options: one screen, that begins with the largest holder; --all has the rest.
    form bad; form oom || true; form agg; form shadow
    one_screen() { # capture, and its first line
        expect 0 "$kedge" report $1.kcap
        [ "$(wc -l <out)" -le 42 ] || { cat out >&2; fail "$1: $(wc -l <out) lines"; }
        ! awk 'length > 80' out | grep -vE '^(program|  live|  reserved) ' | grep . || fail "$1: wider than a screen"
        head -2 out | paste -sd' ' | grep -qE "$2" || { cat out >&2; fail "$1: not its first line"; }
    }
    one_screen bad '^unused_output capture_maker.c:[0-9]+ holds 56 % of the peak: 160.00 MiB of 287.00 MiB; \+8.00 MiB a SOT_CALL$'
    for words in "Remaining memory: 271.00 MiB" "Freed count: 40" "peak 287.00 MiB in SOT_CALL_19" "  reserved " \
        "At the peak, by line" "   160.00 MiB   56 %      20 blocks  unused_output capture_maker.c:" \
        "  kedge report bad.kcap --view leaks" "  kedge report bad.kcap --all"; do has out "$words"; done
    for words in coverage "By library" "Live at the end" "_start"; do hasnt out "$words"; done
    # The rows add up to the peak, and --top has as many as it says.
    sum() { sed -n '/^At the peak/,/^$/p' out | awk '/MiB/ {sum += $1} END {print sum}'; }
    [ "$(sum)" = 287 ] || fail "the rows are $(sum) MiB"
    expect 0 "$kedge" report bad.kcap --top 2
    [ "$(sum)" = 287 ] && [ "$(sed -n '/^At the peak/,/^$/p' out | grep -c MiB)" = 3 ] || fail "--top 2: $(sum) MiB"
    has out "68.00 MiB   24 %      22 blocks  3 other lines"
    # What failed stands below who held most; what hints did is one line; without events the places tell it.
    one_screen oom '^unused_output capture_maker.c:[0-9]+ held '
    sed -n 3p out | grep -qxF "out of memory: 64.00 MiB asked for by cuMemAllocAsync in SOT_CALL_15" || fail "$(head -3 out)"
    has out "  kedge report oom.kcap --view oom "
    one_screen agg '^unused_output capture_maker.c:[0-9]+ holds 56 % of the peak: 160.00 MiB of 287.00 MiB$'
    has out "At the peak of device 0, by line"
    one_screen shadow 'holds'
    has out "Hints: 2 in shadow; released 0.00 B, would save 139.00 MiB"
    has out "  kedge report shadow.kcap --view hints "
    # A window has its own; what is not known is not told.
    expect 0 "$kedge" report bad.kcap --from SOT_CALL_3 --to SOT_CALL_3
    head -2 out | paste -sd' ' | grep -q "^other_tensor .* of the window's peak: 16.00 MiB of" || fail "$(head -2 out)"
    expect 0 "$kedge" report agg.kcap --from SOT_CALL_3
    has out "not known: events are missing"
    # --all has what every view says.
    expect 0 "$kedge" report bad.kcap --all
    for words in coverage "By library" "Live at the end, by stack" "Live at the maximum, by stack"; do has out "$words"; done
    expect 2 "$kedge" report bad.kcap --all --view live
    has err "--all is the whole report: not with --view"
    ;;
first)
    # What a whole run is asked first: who made the peak, what is left, and which view says more.
    form bad; form oom || true
    expect 0 "$kedge" report bad.kcap --all
    order() { # the lines that begin so come in this order
        local at=0 found
        for words in "$@"; do
            found=$(grep -nF -- "$words" out | head -1 | cut -d: -f1)
            [ -n "$found" ] && [ "$found" -gt "$at" ] || { cat out >&2; fail "not in its place: $words"; }
            at=$found
        done
    }
    order "Peak live:" "  live     " "  reserved " "peak 287.00 MiB in SOT_CALL_19" "Live at the maximum, by stack" "Live at the end, by stack" "More:"
    # Two lines of one scale and as wide as the terminal; the mark stands below a column that is as high as any.
    for locale in C C.UTF-8; do
        LC_ALL=$locale "$kedge" report bad.kcap --all >out
        python3 - $locale <<'PY' || fail "the lines over time are wrong ($locale): $(grep -A2 '^  live  ' out)"
import sys
heights = " .:-=+*#@" if sys.argv[1] == "C" else " ▁▂▃▄▅▆▇█"
lines = open("out", encoding="utf-8").read().splitlines()
at = next(i for i, line in enumerate(lines) if line.startswith("  live  "))
live, reserved = ([heights.index(c) for c in line[11:]] for line in lines[at:at + 2])
assert len(live) == len(reserved) == 69, (len(live), len(reserved))
assert max(reserved) == 8 and max(live) == 4, "287 MiB live at most, 591 MiB reserved"
mark = lines[at + 2].index("^") - 11
assert live[mark] == max(live), (mark, live)
PY
    done
    sed -n '/^More:/,$p' out >more
    for view in anchors leaks sources steps temporary; do
        grep -qE "^  kedge report bad.kcap --view $view +[a-z0-9]" more || fail "no line about $view: $(cat more)"
        expect 0 "$kedge" report bad.kcap --view $view
    done
    # A shell takes the commands as they stand, whatever the names of files and anchors are.
    cp bad.kcap "it's a copy.kcap"
    expect 0 "$kedge" report "it's a copy.kcap" --from SOT_CALL_0 --all
    sed -nE "s/^  (kedge report .* --from SOT_CALL_0 --view sources) .*/\1/p" out >command
    [ -s command ] || fail "no such command: $(sed -n '/^More:/,$p' out)"
    (kedge() { "$kedge" "$@"; } && . ./command) >out 2>err || fail "not for a shell: $(cat command err)"
    has out "Who asked for memory"
    # What has nothing to tell is not named.
    for view in patterns hints oom; do ! grep -q -- "--view $view" more || fail "named: $view"; done
    expect 0 "$kedge" report oom.kcap --all
    order "Out of memory" "Live at the maximum, by stack" "Live at the end, by stack"
    expect 0 "$kedge" report --help
    for view in live hwm leaks temporary libraries hints oom anchors classes sources patterns streams steps eviction fragments; do
        grep -qE "^  $view +[a-z].*" out || fail "--help does not say what $view answers"
    done
    ;;
select)
    # --by, --sort and --filter; text and JSON have the same rows in the same order.
    form bad
    form agg
    rows() { sed -nE 's/^ +[0-9.]+ [KMG]?i?B +[0-9]+ blocks? +//p' out | paste -sd' '; }
    titles() { # key of a list in JSON
        python3 -c 'import json, sys; print(" ".join(r["title"] for r in json.load(open("out"))[sys.argv[1]]))' "$1"
    }
    for choice in live:live:library live:live:anchor hwm:live_at_max:site; do
        IFS=: read -r view key by <<<"$choice"
        expect 0 "$kedge" report bad.kcap --view $view --by $by
        has out "by $by"
        # a long name goes on below itself
        sed -n '/^Live/,/^  [.][.][.]/{/^Live/d;/^  [.][.][.]/d;p}' out | sed -E 's/^ +[0-9.]+ [KMG]?i?B +[0-9]+ blocks? +//' | tr -d ' \n' >text
        expect 0 "$kedge" report bad.kcap --view $view --by $by --json
        [ -s text ] && [ "$(titles $key | tr -d ' ')" = "$(cat text)" ] || fail "$view by $by: $(cat text) is $(titles $key)"
    done
    expect 0 "$kedge" report bad.kcap --view live --by class
    [ "$(rows)" = pooled ] || fail "by class: $(rows)"
    expect 0 "$kedge" report bad.kcap --view live --by device --json
    json "[r['title'] for r in j['live']] == ['device 0'] and j['live'][0]['bytes'] == j['remaining_bytes'] and 'stack' not in j['live'][0]"
    # What is filtered and what is not add up.
    expect 0 "$kedge" report bad.kcap --view live --filter UNUSED_OUT --json
    json "[(r['bytes'], r['stack'][1]['function']) for r in j['live']] == [(160 << 20, 'unused_output')]"
    json "len(j['live_at_max']) > 1"
    line() { grep -n "$1" "$TEST_SOURCE/tests/unit/tools/capture_maker.c" | head -1 | cut -d: -f1; }
    output=$(line 'allocate(size, 1);')
    expect 0 "$kedge" report bad.kcap --view live --filter "capture_maker.c:$output"
    has out "160.00 MiB      20 blocks  unused_output capture_maker.c:$output" # whatever else is left
    hasnt out unused_input
    has out "filter    only rows with 'capture_maker.c:$output'"
    expect 0 "$kedge" report bad.kcap --view live --filter SOT_CALL_7 --by anchor
    [ "$(rows)" = SOT_CALL_7 ] || fail "by an anchor: $(rows)"
    expect 0 "$kedge" report bad.kcap --view live --filter no-such-thing
    has out "  nothing"
    expect 0 "$kedge" report bad.kcap --view hwm --sort count
    [ "$(sed -nE 's/.* ([0-9]+) blocks? .*/\1/p' out)" = "$(sed -nE 's/.* ([0-9]+) blocks? .*/\1/p' out | sort -rn)" ] || fail "not by count"
    expect 0 "$kedge" report bad.kcap --view anchors --sort remaining --filter CALL_1 --json
    json "all('CALL_1' in a['name'] for a in j['anchors']) and len(j['anchors']) == 11"
    json "[a['remaining_bytes'] for a in j['anchors']] == sorted((a['remaining_bytes'] for a in j['anchors']), reverse=True)"
    expect 0 "$kedge" report bad.kcap --view libraries --sort live --filter capture_maker
    has out "capture_maker"
    expect 0 "$kedge" report bad.kcap --view sources --filter nobody
    hasnt out "capture_maker"
    # Places, with events and without.
    for name in bad agg; do
        expect 0 "$kedge" report $name.kcap --view leaks --by stack --json
        json "sum(r['bytes'] for r in j['groups']) == 271 << 20"
        expect 0 "$kedge" report $name.kcap --view leaks --by site --filter other_tensor --json
        json "[r['bytes'] for r in j['groups']] == [52 << 20] and all(p['live_bytes'] in (0, 1 << 20, 32 << 20) for p in j['places'])"
        expect 0 "$kedge" report $name.kcap --view temporary --sort bytes --json
        json "[p['temporary_bytes'] for p in j['places']] == sorted((p['temporary_bytes'] for p in j['places']), reverse=True)"
    done
    expect 0 "$kedge" report agg.kcap --view hwm --by library
    has out "Live at the maximum of device 0, 287.00 MiB, by library"
    expect 2 "$kedge" report agg.kcap --view hwm --by class
    has err "the kinds of memory at the maximum are not known"
    # A wrong word: one line with the right ones.
    for wrong in "--view hwm --sort byte:did you mean bytes?" "--view anchors --sort maxx:did you mean max?" "--view hwm --by sites:did you mean site?" \
            "--view patterns --sort save:did you mean saves?" "--sort bytes:--sort needs --view" "--filter x:--filter needs --view" \
            "--view oom --sort bytes:--sort needs --view" "--by site:--by needs --view" "--view leaks --by class:--by class needs --view"; do
        expect 2 "$kedge" report bad.kcap ${wrong%%:*}
        has err "${wrong#*:}"
        [ "$(wc -l <err)" = 1 ] || fail "more than one line: $(cat err)"
    done
    ;;
pager)
    # What is longer than the screen goes through the pager, what is not and what is no terminal does not.
    form bad
    printf '#!/bin/sh\ncat >paged\nexit 3\n' >mine
    printf '#!/bin/sh\nhead -c 10 >paged\n' >early
    chmod +x mine early
    expect 0 "$kedge" report bad.kcap --no-pager
    cp out plain
    python3 - "$kedge" <<'PY' || fail "not as it should be on a terminal"
import fcntl, os, pathlib, pty, struct, subprocess, sys, termios
kedge = sys.argv[1]
plain = open("plain", encoding="utf-8").read()
def on_terminal(rows, *words, **variables):
    """What comes to a terminal of so many rows, what the pager got (None: nothing), and the exit status."""
    pathlib.Path("paged").unlink(missing_ok=True)
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, 80, 0, 0))
    env = {**os.environ, "NO_COLOR": "1", "TERM": "vt100", **variables}
    with subprocess.Popen([kedge, *words], stdout=slave, stderr=slave, stdin=subprocess.DEVNULL, env=env) as p:
        os.close(slave)
        data = b""
        try:
            while part := os.read(master, 65536):
                data += part
        except OSError:
            pass
        os.close(master)
    paged = pathlib.Path("paged")
    return data.decode().replace("\r", ""), paged.read_text(encoding="utf-8") if paged.exists() else None, p.returncode
report = ("report", "bad.kcap")
assert on_terminal(24, *report, PAGER="./mine") == ("", plain, 0), "a long report is not paged"
assert on_terminal(9999, *report, PAGER="./mine") == (plain, None, 0), "a short one is"
assert on_terminal(24, *report, "--no-pager", PAGER="./mine") == (plain, None, 0), "--no-pager does not turn it off"
assert on_terminal(24, *report, PAGER="") == (plain, None, 0), "an empty PAGER does not turn it off"
assert on_terminal(24, *report, PAGER="cat") == (plain, None, 0)
assert on_terminal(24, *report, PAGER="./mine", TERM="dumb") == (plain, None, 0), "a dumb terminal has one"
text, paged, status = on_terminal(24, *report, PAGER="./not-there")
assert (text.endswith(plain), paged, status) == (True, None, 0), "without the pager nothing is shown"
assert on_terminal(24, *report, PAGER="./early") == ("", plain[:10], 0), "who leaves early is an error"
# Colours are kedge's own, on standard error too; those of a name are not obeyed.
image = bytearray(pathlib.Path("bad.kcap").read_bytes())
for at in range(8192, len(image) - 4096, 4096):
    image[at + 17] ^= 0xff
odd = "odd\033[31m.kcap"
pathlib.Path(odd).write_bytes(image)
text, paged, status = on_terminal(9999, "report", odd, PAGER="", NO_COLOR="")
assert text.startswith("\033[31mkedge: odd?[31m.kcap is damaged ("), text[:300]
assert "): figures are wrong or incomplete\033[0m\n" in text, text[:300]
text, paged, status = on_terminal(9999, "report", odd, PAGER="")
assert text.startswith("kedge: odd?[31m.kcap is damaged (") and "\033" not in text, text[:300]
text, paged, status = on_terminal(3, "check", "bad.kcap", "peak>=1", "peak==1", "growth==0", PAGER="./mine")
assert status == 1 and paged, f"the status is not the command's: {status}"
PY
    expect 0 "$kedge" report bad.kcap
    cmp out plain || fail "in a pipe it is another text"
    ;;
width)
    # Nothing but files and fields of the head is wider than the terminal, which has 80 columns where there is none.
    form bad; form good; form shadow; form evict; form oom || true
    python3 - "$kedge" <<'PY' || fail "lines are too wide"
import fcntl, os, pty, re, struct, subprocess, sys, termios
kedge = sys.argv[1]
views = "all live hwm leaks temporary libraries hints oom anchors classes sources patterns streams steps eviction".split()
commands = [["report", f"{name}.kcap", "--view", view] for name in ("bad", "shadow", "evict", "oom") for view in views]
commands += [["report", "bad.kcap", "--by", "anchor"], ["diff", "good.kcap", "bad.kcap"], ["whatif", "bad.kcap", "--policy", "all", "--passes", "2"],
             ["suggest", "--good", "good.kcap", "--bad", "bad.kcap", "-o", "h.yaml", "--force"],
             ["ranks", "bad.kcap", "shadow.kcap"], ["ranks", "bad.kcap", "good.kcap", "--by", "anchor"], ["top", "bad.kcap", "--once"],
             ["check", "bad.kcap", "peak>=1", "growth==0", 'anchor:"SOT_CALL_*".remaining==1048576000', 'anchor:"SOT_CALL_*".leaks==1', "peak==300941313"]]
commands += [[name, "--help"] for name in "run report diff suggest verify check ranks whatif bundle hints env top".split()]
# what was captured, notes at the end and places in files: as long as what the program is called
FREE = re.compile(r"^(capture|program|device|warning|note:|good|bad|usage:)|^ +\S*/\S*$|^ {4,}\S+ \S+:\d+$|: kedge report |^  kedge report ")
def at(columns, command):
    if columns == 0:
        return subprocess.run([kedge, *command], capture_output=True, text=True).stdout
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    with subprocess.Popen([kedge, *command], stdout=slave, stderr=subprocess.DEVNULL, env={**os.environ, "NO_COLOR": "1", "PAGER": ""}) as p:
        os.close(slave)
        data = b""
        try:
            while part := os.read(master, 65536):
                data += part
        except OSError:
            pass
        os.close(master)
    return data.decode().replace("\r", "")
wide = 0
for columns in 0, 80, 100:
    for command in commands:
        for line in at(columns, command).splitlines():
            if len(line) > (columns or 80) and not FREE.search(line):
                wide += 1
                print(columns, " ".join(command), len(line), line)
sys.exit(wide != 0)
PY
    # A wide one shows all columns of the steps.
    hasnt <("$kedge" report bad.kcap --view steps) "first seq"
    ;;
hints)
    form shadow; form live; form touched; form good
    expect 0 "$kedge" report shadow.kcap --from SOT_CALL_0 --to SOT_CALL_18 --json
    json "j['hinted_freed_count'] == 0 and j['max_with_hints_bytes'] == j['max_bytes']"
    json "j['would_freed_count'] == 29 and j['would_freed_bytes'] == (56 + 80)<<20"
    json "j['remaining_would_bytes'] == (19 + 9*8)<<20"
    expect 0 "$kedge" report shadow.kcap --all
    has out "hints would make it"
    expect 0 "$kedge" report live.kcap --from SOT_CALL_0 --to SOT_CALL_18 --json
    cp out live.json
    json "j['hinted_freed_count'] == 29 and j['remaining_bytes'] == 227<<20"
    json "[h['id'] for h in j['hints']] == ['input', 'output'] and j['hints'][0]['released_count'] == 20"
    expect 0 "$kedge" report good.kcap --from SOT_CALL_0 --to SOT_CALL_18 --json
    json "json.load(open('live.json'))['remaining_with_hints_bytes'] == j['remaining_bytes']"
    json "json.load(open('live.json'))['freed_with_hints_count'] == j['freed_count'] + 19"
    expect 0 "$kedge" report touched.kcap --all
    has out "hint input: a call that touches a released range was stopped"
    has out "late_kernel"
    has out "unused_input"
    expect 0 "$kedge" report touched.kcap --json
    json "j['hints'][0]['violations'] == 1 and any(f['function'] == 'late_kernel' for f in j['hints'][0]['used_by'])"
    form poison
    expect 0 "$kedge" report poison.kcap --all
    has out "hint input: 1 block was written after the release was due"
    has out "first changed byte 4096 of 3.00 MiB allocated by:"
    has out "hint input: 1 of 20 blocks were not checked for late writes"
    has out "hint output: 10 of 10 blocks were not checked for late writes"
    expect 0 "$kedge" report poison.kcap --json
    json "[h['mode'] for h in j['hints']] == ['poison', 'poison'] and j['hints'][0]['late_writes'] == 1 and j['hints'][0]['unchanged_count'] == 18"
    json "j['hints'][0]['first_changed_byte'] == 4096 and 'unused_input' in [f['function'] for f in j['hints'][0]['written_in']]"
    json "j['hints'][1]['late_writes'] == 0 and 'first_changed_byte' not in j['hints'][1]"
    # What held blocks waited for never came, which only a whole log of a run that ended by itself says.
    form held; form held-killed || true; form held-ring
    expect 0 "$kedge" report held.kcap --all
    has out "hint input held 3 blocks, 66.00 MiB, after the free; 2 of them, 2.00 MiB, to the end: what they waited for never came"
    expect 0 "$kedge" report held-killed.kcap --all
    has out "hint input held 3 blocks, 66.00 MiB, after the free; 2 of them, 2.00 MiB, to the end"
    hasnt out "never came"
    expect 0 "$kedge" report held-ring.kcap --all
    has out "older events overwritten"
    grep -qxF "  hint input held 2 blocks, 2.00 MiB, after the free" out || fail "of a ring that has lost a block's free: $(grep held out)"
    # No block lived through what this ring has lost: it lacks events all the same, and says so where that matters.
    expect 0 "$kedge" report held.kcap --json
    json "j['complete'] is True"
    expect 0 "$kedge" report held-ring.kcap --json
    json "j['complete'] is False"
    expect 0 "$kedge" report held-ring.kcap --view steps
    has out "note      events are missing in the capture (KEDGE_TRACE=full keeps all)"
    expect 0 "$kedge" diff held-ring.kcap held.kcap --json
    json "j['complete'] is False"
    has err "kedge: held-ring.kcap: events are missing in the capture (KEDGE_TRACE=full keeps all)"
    expect 2 "$kedge" check held-ring.kcap 'growth==0'
    ;;
endings)
    form oom || true; form killed || true; form elsewhere || true
    expect 0 "$kedge" report elsewhere.kcap --all
    has out "  of it, for the other API 200.00 MiB"
    has out "240.00 MiB were free in the pool, but 200.00 MiB of it beside memory of the other API"
    hasnt out "fragmentation"
    expect 0 "$kedge" report elsewhere.kcap --json
    json "j['ooms'][0]['pool_free_elsewhere_bytes'] == 200<<20"
    expect 0 "$kedge" report oom.kcap --all
    has out "Out of memory"
    has out "requested                64.00 MiB by cuMemAllocAsync on device 0"
    has out "free on the device       3.00 MiB of 80.00 GiB"
    has out "reserved by kedge        400.00 MiB, live 150.00 MiB (utilisation 0.40)"
    has out "free in the pool       240.00 MiB, largest block 48.00 MiB"
    has out "whole free handles     96.00 MiB, and 32.00 MiB whose work has not passed"
    has out "240.00 MiB were free in the pool, but in pieces: fragmentation"
    has out "tried                    waits 3, trims 1 (2.00 MiB), moved 0.00 B"
    has out "128.00 MiB       16  unused_output capture_maker.c:"
    has out " < one_anchor capture_maker.c:"
    has out "SOT_CALL_15"
    has out "run_out_of_memory"
    expect 0 "$kedge" report oom.kcap --json
    json "j['oom_count'] == 1 and [o['number'] for o in j['ooms']] == [1]"
    json "j['ooms'][0]['requested_bytes'] == 64<<20 and j['ooms'][0]['largest_free_bytes'] == 48<<20"
    json "j['ooms'][0]['remappable_bytes'] == 96<<20 and j['ooms'][0]['waits'] == 3 and j['ooms'][0]['e'] == 0.4"
    json "sum(h['bytes'] for h in j['ooms'][0]['live_at_oom']) + j['ooms'][0]['other_bytes'] == j['remaining_bytes']"
    json "j['ooms'][0]['live_bytes'] == j['remaining_bytes']"
    json "sum(p['bytes'] for p in j['ooms'][0]['waterfall']['parts']) == 80<<30"
    json "{p['part']: p['bytes'] >> 20 for p in j['ooms'][0]['waterfall']['parts'][1:]} == dict(kedge_live_requested=150, kedge_live_rounding=10, kedge_free=240, free=3)"
    expect 0 "$kedge" report oom.kcap --view oom
    has out "all of the device's 80.00 GiB:"
    has out "requested by:"
    expect 0 "$kedge" report killed.kcap --json
    json "j['program']['clean'] is False and j['ooms'] == []"
    # 32 outside; 15 whole anchors (45 of inputs, 15 * 9) and the 16th with 2 + 8 + 1
    json "j['remaining_bytes'] == (32 + 45 + 15*9 + 2 + 9)<<20"
    expect 0 "$kedge" report killed.kcap --all
    has out "still running, or killed"
    ;;
escapes)
    # What the program called things reaches no terminal as commands.
    form touched; form oom || true; form good; form bad; form used
    python3 - "$TEST_SOURCE/tests/replay" <<'PY'
import pathlib, struct, sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import kcap
for name in ("touched", "oom", "good", "bad", "used"):
    data = pathlib.Path(f"{name}.kcap").read_bytes()
    for word in (b"SOT_CALL_", b"cuMemAllocAsync", b"Test device", b"capture_maker", b"output", b"input"):
        evil = b"\x1b[31m\x07\x1b]0;title\x07"[:len(word)]
        data = data.replace(word, evil + word[len(evil):])
    pathlib.Path(f"{name}.kcap").write_bytes(kcap.mended(data))
# A damaged file is mended as far as it can be read: no length in it makes that long.
data = bytearray(pathlib.Path("good.kcap").read_bytes())
directory = struct.unpack_from("<I", data, 4844)[0]
defs = next(at for at in range(directory, directory + 24576, 24) if struct.unpack_from("<I", data, at + 16)[0] == kcap.DEFS)
first = struct.unpack_from("<Q", data, defs)[0]
assert kcap.mended(data) == bytes(data) and data[first]
for at, form, value in ((36, "I", 0xffffffff), (4844, "I", 0xffffffff), (defs, "Q", 1 << 63), (defs + 8, "Q", 1 << 63),
                        (first + 4, "I", 0), (first + 4, "I", 8), (first + 4, "I", 0xffffffff)):
    damaged = bytearray(data)
    struct.pack_into("<" + form, damaged, at, value)
    made = kcap.mended(damaged)
    assert len(made) == len(data) and made[:6752] == damaged[:6752], (at, value)
PY
    evil=$'\033[31m\007\033]0'
    for view in all live hwm leaks temporary libraries hints oom anchors classes sources patterns streams steps; do
        for name in touched oom; do
            expect 0 "$kedge" report $name.kcap --view $view
            cat out err >>said
        done
    done
    expect 0 "$kedge" diff good.kcap bad.kcap --top 3
    cat out err >>said
    expect 0 "$kedge" suggest --good good.kcap --bad bad.kcap -o h.yaml
    cat out err h.yaml >>said
    expect 0 "$kedge" suggest used.kcap -o used.yaml
    has out "growth:"
    cat out err used.yaml >>said
    expect 1 "$kedge" check bad.kcap 'growth==0' 'anchor:"*3".remaining==0'
    cat out err >>said
    expect 2 "$kedge" check bad.kcap 'anchor:"x'"$evil"'".leaks==0' --junit j.xml
    cat out err j.xml >>said
    expect 2 "$kedge" check bad.kcap "$evil<3"
    cat out err >>said
    expect 2 "$kedge" report good.kcap --from "x${evil:1}_3"
    has err "did you mean ?[31m"
    has said "?[31m"
    ! grep -qP '[\x00-\x08\x0b-\x1f]' said || { grep -aP '[\x00-\x08\x0b-\x1f]' said | cat -v | sort -u | head -5 >&2; fail "commands reach the terminal"; }
    ;;
verify-evict)
    cat >h.yaml <<'TXT'
kedge-hints: 1
hints:
  - {id: params, do: evict, pick: {size: ">=2MiB"}, when: {anchor: step, edge: enter}, cap: {device: 256MiB}}
  - {id: early, do: restore, of: params, when: {anchor: step, edge: exit}}
TXT
    try() { expect "$1" "$kedge" verify --hints h.yaml -- bash -c "exec '$make' evict-$2 \"\$KEDGE_CAPTURE\"" "${@:3}"; }
    try 0 try
    has out "kedge verify: hint params: 4 blocks, 2 steps: 768.00 MiB moved in, 1.12 GiB out; in trap 768.00 MiB in, 1.12 GiB out"
    has out "kedge verify: hint params: 1 block (2.00 MiB) stayed in (kedge report --view eviction)"
    has out "kedge verify: 2 hints verified, receipt: h.yaml.receipt"
    has h.yaml.receipt "trap clean 1"
    expect 0 "$kedge" verify --hints h.yaml --json -- bash -c "exec '$make' evict-try \"\$KEDGE_CAPTURE\""
    json "[(h['id'], h.get('step_count'), h.get('moved_out_bytes'), h.get('trap_moved_in_bytes'), h.get('kept_count')) for h in j['hints']] == [('params', 2, 9 * 128 << 20, 6 * 128 << 20, 1), ('early', None, None, None, None)]"
    # A fault names no block: the hints that were in force are named. There is no receipt.
    try 1 fault
    has out "not verified: trap: the program ended with exit code 1; the device has faulted: memory was used that no call names, while it was out (evict hints in force: params)"
    [ ! -e h.yaml.receipt ] || fail "a receipt is left"
    try 1 short
    has out "not verified: hint params: shadow: a call needed 512.00 MiB at once under the cap, and 254.00 MiB could be had"
    try 1 none
    has out "not verified: hint params: did nothing in the trap run: nothing is proved"
    ;;
eviction)
    form evict; form evict-shadow; form evict-lru; form bad
    section() { expect 0 "$kedge" report "$@" $([[ $* = *--view* ]] || echo --all); sed -nE '/^Eviction$/,/^$/{s/capture_maker.c:.*/FILE/;/^$/!p}' out >section; }
    # The median is a step that there was. What had not ended is in the sums, and is no steady step.
    section evict.kcap
    cat >want <<'TXT'
Eviction
  hint input (live) on device 0: 7 steps
  3 blocks, 384.00 MiB
  warm-up: cap 288.00 MiB; the most that was in at once: 272.00 MiB
  then: cap 256.00 MiB; the most that was in at once: 256.00 MiB
                   moved in   moved out     dropped in at least waits  stall ms
  warm-up 0      384.00 MiB  128.00 MiB      0.00 B   not known     3    40.000
  warm-up 1      256.00 MiB  256.00 MiB      0.00 B   not known     2    35.000
  median, 3      256.00 MiB  256.00 MiB      0.00 B  250.00 MiB     0     3.000
  last, 6        256.00 MiB  255.00 MiB      0.00 B  250.00 MiB     0     4.000
  unfinished 7   128.00 MiB      0.00 B      0.00 B  250.00 MiB     0     0.000
  all              2.12 GiB    1.62 GiB  128.00 MiB                 6   105.000
  layout time 0.010 ms, evict time 25.600 ms, stall time 3.000 ms in step 3
  layout time 0.080 ms, evict time 217.600 ms, stall time 105.000 ms in all
  at the end, in step 7: free 128.00 MiB, compute 127.00 MiB, hold 1.00 MiB,
  hold after forward 2.00 MiB, hold after backward 126.00 MiB
  3 calls failed: out of memory under the cap
    the largest needed 514.00 MiB at once and 254.00 MiB could be had: in step
  blocks that stay in:
       2.00 MiB      1 block   named by a graph: unused_input
                                FILE
       2.00 MiB      2 blocks  pointed to from data on the device: other_tensor
                                FILE
TXT
    diff want section >&2 || fail "another section"
    section evict.kcap --view eviction
    for line in "step 2         384.00 MiB  384.00 MiB" "step 3" "step 4" "step 5         256.00 MiB  128.00 MiB  128.00 MiB"; do has section "  $line"; done
    hasnt section median
    has out "main /"
    section evict.kcap --view eviction --top 2
    has section "   ... 4 more (--top, --json)"
    # On paper; without an order of use; without any of it; of the whole run or not at all.
    section evict-shadow.kcap
    has section "on paper only: nothing was moved, and no call waited"
    has section "median, 3      256.00 MiB"
    hasnt section failed
    section evict-lru.kcap
    has section "on device 0: no step has ended"
    has section "  cap 256.00 MiB; the most that was in at once: 256.00 MiB"
    has section "all            384.00 MiB  128.00 MiB      0.00 B                 3    40.000"
    expect 0 "$kedge" report bad.kcap --all
    hasnt out viction
    expect 0 "$kedge" report bad.kcap --view eviction
    has out "no block was evicted, or was to be, in this run"
    expect 2 "$kedge" report evict.kcap --view eviction --from step
    has err "of the whole run"

    expect 0 "$kedge" report evict.kcap --json
    ev() { json "(lambda e: $1)(j['eviction'][0])"; }
    json "len(j['eviction']) == 1"
    ev "(e['id'], e['mode'], e['device'], e['on_paper'], e['warm_up_count'], e['median_step']) == ('input', 'live', 0, False, 2, 3)"
    ev "[s['step'] for s in e['steps']] == list(range(8)) and [s['ended'] for s in e['steps']] == [True] * 7 + [False]"
    ev "[s['planned'] for s in e['steps']] == [False] * 2 + [True] * 6 and [s['replayed'] for s in e['steps']] == [False] * 3 + [True] * 5"
    ev "[s['in_at_least_bytes'] for s in e['steps']] == [None] * 2 + [250 << 20] * 6"
    ev "all(e['total'][k] == sum(s[k] for s in e['steps']) for k in e['total'] if k.endswith(('_count', '_bytes')) and k != 'in_at_most_bytes')"
    ev "all(abs(e['total'][k] - sum(s[k] for s in e['steps'])) < 1e-6 for k in ('layout_ms', 'evict_ms', 'stall_ms'))"
    ev "[e['steps'][5][f'{k}_bytes'] >> 20 for k in 'moved_in moved_out dropped in_at_most block cap state_free state_compute state_hold state_hold_after_forward state_hold_after_backward'.split()] == [256, 128, 128, 256, 384, 256, 128, 127, 1, 2, 126]"
    ev "(lambda s: [s[k] for k in 'moved_in_count moved_out_count wait_count use_count look_count block_count'.split()])(e['steps'][2]) == [3, 3, 1, 5, 7, 3]"
    ev "[(k['why'], k['count'], k['bytes'] >> 20, k['stack'][0]['function'], k['anchor']) for k in e['kept']] == [('graph', 1, 2, 'allocate', ''), ('pointer', 2, 2, 'allocate', '')]"
    ev "[(n['needed_bytes'] >> 20, n['room_bytes'] >> 20, n['cap_bytes'] >> 20, n['anchor'], n['instance']) for n in e['not_made']] == [(i, 254, 256, 'step', 0) for i in (512, 513, 514)]"
    expect 0 "$kedge" report bad.kcap --json
    json "j['eviction'] == []"
    ;;
places)
    form bad; form agg
    # Who held the memory at the maximum, without one event: as all events say.
    expect 0 "$kedge" report bad.kcap --view hwm --top 99
    mv out events
    expect 0 "$kedge" report agg.kcap --view hwm --top 99
    has out "Live at the maximum of device 0,"
    # one row is a stack there, and here a stack and the anchors that are alike but for digits
    sums() { awk '/ blocks  / { sum[$5] += $1 * ($2 == "GiB" ? 1024 : $2 == "KiB" ? 1 / 1024 : 1); count[$5] += $3 }
        END { for (i in sum) printf "%s %.2f %d\n", i, sum[i], count[i] }' "$1" | sort; }
    [ "$(sums events)" = "$(sums out)" ] || { sums events; sums out; fail "the places' high-water mark is another"; }
    [ "$(sums out | wc -l)" -ge 1 ] || fail "nothing at the maximum"
    has out "in SOT_CALL_* (20 places, most in SOT_CALL_"
    # What can only be counted with all events says so, and is no ground for an answer.
    for file in bad agg; do
        expect 0 "$kedge" report $file.kcap --view libraries
        mv out $file.libraries
        expect 0 "$kedge" report $file.kcap --json
        json "j['complete'] is ('$file' == 'bad')"
        json "sum(l['allocated_count'] for l in j['libraries']) == j['allocated_count'] > 0"
    done
    diff bad.libraries agg.libraries >&2 || fail "libraries are others without events"
    for view in anchors patterns steps; do
        expect 0 "$kedge" report agg.kcap --view $view
        has out "events are missing in the capture (KEDGE_TRACE=full keeps all)"
        expect 0 "$kedge" report bad.kcap --view $view
        hasnt out "events are missing"
    done
    # A log that has lost its beginning is told in the same words everywhere.
    lacks="events are missing in the capture (KEDGE_TRACE=full keeps all)"
    "$TEST_BUILD/tests/unit/long_maker" ring.kcap 50000 ring
    for view in anchors steps streams patterns sources; do
        expect 0 "$kedge" report ring.kcap --view $view
        has out "$lacks"
    done
    expect 0 "$kedge" report ring.kcap --to forward
    has out "$lacks"
    expect 0 "$kedge" report ring.kcap --json
    json "j['complete'] is False and j['allocated_count'] == 50000"
    expect 0 "$kedge" diff bad.kcap ring.kcap
    has err "kedge: ring.kcap: $lacks"
    expect 0 "$kedge" whatif ring.kcap --policy kedge
    has err "$lacks"
    expect 2 "$kedge" suggest --good bad.kcap --bad ring.kcap -o h.yaml
    has err "ring.kcap: $lacks"
    expect 2 "$kedge" suggest ring.kcap -o h.yaml
    has err "ring.kcap: $lacks"
    expect 2 "$kedge" check ring.kcap 'growth==0'
    has out "$lacks"
    expect 0 "$kedge" diff bad.kcap agg.kcap
    has out "Late frees: not known: events are missing"
    expect 0 "$kedge" diff bad.kcap agg.kcap --json
    json "j['complete'] is False and j['late_frees'] == 0"
    json "(j['difference']['missing'], j['difference']['there_bytes'], j['difference']['peak_live_bytes']) == ('$lacks', None, 0)"
    # Places tell what is kept; a window without its events is not known.
    form good
    expect 0 "$kedge" diff good.kcap agg.kcap --json
    json "[(c['cause'], c['bytes']>>20) for c in j['difference']['causes'] if c['bytes']] == [('kept', 136)] and j['difference']['not_explained_bytes'] == 0"
    expect 2 "$kedge" check agg.kcap 'late(bad.kcap)==0'
    has out "$lacks"
    expect 0 "$kedge" diff bad.kcap bad.kcap --json
    json "j['complete'] is True"
    ;;
temporary)
    form bad
    expect 0 "$kedge" report bad.kcap --view temporary --top 999 --json
    json "(sum(p['temporary_count'] for p in j['places']), sum(p['temporary_bytes'] for p in j['places'])) == (20, 80 << 10)"
    ;;
places-sums)
    form bad; form agg
    for file in bad agg; do
        expect 0 "$kedge" report $file.kcap --view leaks
        has out "Live at the end, by place"
        has out "160.00 MiB      20 blocks  unused_output"
        expect 0 "$kedge" report $file.kcap --view temporary
        has out "      20 of       20 blocks,   80.00 KiB  other_tensor capture_maker.c:"
        [ "$(grep -c ' of .* blocks, ' out)" = 1 ] || fail "one loop is several rows"
        expect 0 "$kedge" report $file.kcap --json --top 999
        json "sum(p['at_peak_bytes'] for p in j['places']) == j['device_peaks'][0]['peak_live_bytes'] == j['max_bytes'] and sum(p['live_bytes'] for p in j['places']) == j['remaining_bytes'] and sum(p['temporary_count'] for p in j['places']) == 20 and j['places_lost'] == 0"
        json "len(j['places']) == j['place_count'] and {p['anchor'] for p in j['places']} >= {'SOT_CALL_0', 'SOT_CALL_19'}"
        json "all(p['stack'][0]['function'] == 'allocate' for p in j['places'] if p['allocated_count'])"
    done
    expect 2 "$kedge" report bad.kcap --view leaks --from SOT_CALL_3
    has err "of the whole run"
    ;;
diff)
    form good; form bad; form oom || true
    expect 0 "$kedge" diff good.kcap bad.kcap
    has out "Late frees: 30, 139.00 MiB"
    has out "unused_input /"
    has out "unused_output /"
    # The peaks are first, and why they differ: 10 outputs, and inputs of 19 anchors before the one with the peak.
    sed -n 4,10p out | cut -c 1-60 >first
    cat >want <<-'EOF'
	Peak live: 287.00 MiB in bad, 151.00 MiB in good
	Peak reserved: 591.08 MiB in bad, 591.00 MiB in good
	The peak is 136.00 MiB (90 %) higher in bad:
	  +136.00 MiB  kept until the end, not in good
	       +80.00 MiB      10  unused_output capture_maker.c:
	       +56.00 MiB      19  unused_input capture_maker.c:
	       0.00 B  not explained
	EOF
    sed -E 's/(capture_maker.c:)[0-9]+/\1/' first | command diff want - >&2 || fail "another explanation"
    expect 0 "$kedge" diff good.kcap bad.kcap --top 1
    has out "... 1 more row (--top)"
    # What is freed again is called harmless where the peaks are equal, and nowhere else.
    has out "Freed in its anchor again, but the peaks differ:"
    has out "  20 allocations only in bad (80.00 KiB) and 0 only in good (0.00 B)"
    for pair in 'good bad' 'bad good'; do
        set -- $pair
        expect 0 "$kedge" diff $1.kcap $2.kcap
        hasnt out Harmless
        for side in $1 $2; do
            "$kedge" report $side.kcap --json >out || fail "report of $side"
            json "print(j['peak_live_bytes'], j['peak_reserved_bytes']) is None" >$side.peaks
        done
        expect 0 "$kedge" diff $1.kcap $2.kcap --json
        json "[(j['figures'][s]['peak_live_bytes'], j['figures'][s]['peak_reserved_bytes']) for s in ('good', 'bad')] == [tuple(map(int, open(f'{s}.peaks').read().split())) for s in ('$1', '$2')]"
        json "j['figures']['equal'] == 'no' and j['figures']['devices'] == [] and 'armless' not in str(j)"
    done
    expect 0 "$kedge" diff bad.kcap bad.kcap
    has out "Harmless: 0 allocations only in bad (0.00 B) and 0 only in good (0.00 B),"
    expect 0 "$kedge" diff bad.kcap bad.kcap --json
    json "j['figures']['equal'] == 'yes' and j['figures']['good'] == j['figures']['bad']"
    expect 0 "$kedge" diff good.kcap bad.kcap --json
    json "j['late_frees'] == 30 and j['late_bytes'] == 139<<20 and j['freed_in_anchor'] == 20"
    json "[(c['cause'], c['bytes']>>20, c['count']) for c in j['difference']['causes'] if c['rows']] == [('kept', 136, 29)]"
    json "(lambda d: (d['peak_live_bytes']>>20, d['not_explained_bytes'], d['missing'], d['there_run'], d['good_anchor'], d['bad_anchor']))(j['difference']) == (136, 0, None, 'good', 'SOT_CALL_19', 'SOT_CALL_19')"
    json "[(g['count'], g['bytes']>>20) for g in j['groups']] == [(10, 80), (20, 59)]"
    json "j['groups'][0]['site'].startswith('allocate capture_maker.c:') and j['groups'][0]['sizes'] == [8<<20]"
    json "j['groups'][1]['sizes'] == [2<<20, 3<<20, 4<<20] and j['groups'][1]['anchors'][0] == 'SOT_CALL_0'"
    json "j['groups'][1]['stack'][1]['function'] == 'unused_input'"
    json "j['extra'] == 0 and j['missing'] == 0 and j['anchors_paired'] == 20"
    expect 0 "$kedge" diff good.kcap bad.kcap --from SOT_CALL_2 --to SOT_CALL_3 --json
    json "j['late_frees'] == 3"
    expect 0 "$kedge" diff bad.kcap good.kcap --json
    json "j['late_frees'] == 0"
    # The run that ended inside SOT_CALL_15 proves nothing about that anchor.
    expect 0 "$kedge" diff good.kcap oom.kcap --json
    json "j['late_frees'] == 15 + 8 and j['never_freed'] == 0"
    json "j['allocated']['count'] == 1 + 16 * 5 and j['looked_at']['count'] == 15 * 4 and j['advice'] is None"
    json "j['passed_over']['outside']['count'] == 1 and j['passed_over']['unfinished']['count'] == 4 and j['passed_over']['unpaired']['count'] == 16"
    ;;
against)
    form good; form bad; form leak; form short; form empty; form oom || true
    # check BAD GOOD [WHAT]: is it as good as the other one?
    as_good() { "$kedge" check $1.kcap "late($2.kcap)==0" "extra($2.kcap)==0" "more_remaining($2.kcap)==0" "${@:3}"; }
    expect 0 as_good good good
    expect 0 "$kedge" diff good.kcap bad.kcap --json
    json "[len(g['anchors']) for g in j['groups']] == [10, 20] and all(set(g['anchors']) <= {f'SOT_CALL_{i}' for i in range(20)} for g in j['groups'])"
    expect 1 "$kedge" check bad.kcap 'late(good.kcap)<=29'
    has out "<= 29           30 "
    expect 0 "$kedge" check bad.kcap 'late(good.kcap)<=30' 'extra(good.kcap)==0' 'more_remaining(good.kcap)<=139M'
    # A new leak frees nothing late.
    expect 1 as_good leak good
    has out "late(good.kcap)==0            == 0            0               yes"
    has out "extra(good.kcap)==0           == 0            10              no"
    has out "more_remaining(good.kcap)==0  == 0.00 B       60.00 MiB       no"
    expect 1 "$kedge" check leak.kcap 'extra(good.kcap)<=9'
    expect 0 "$kedge" check leak.kcap 'extra(good.kcap)<=10' 'more_remaining(good.kcap)<=60MiB'
    expect 1 "$kedge" check leak.kcap --to SOT_CALL_0 'more_remaining(good.kcap)<=6143K'
    has out " 6.00 MiB "
    expect 0 "$kedge" check leak.kcap --to SOT_CALL_0 'more_remaining(good.kcap)<=6144K'
    expect 0 as_good good leak
    expect 1 as_good leak good --to SOT_CALL_0 --json
    json "[(c['figure'], c['unit'], c['at_least'], c['at_most'], c['answer']) for c in j['checks']] == [('late', 'count', 0, 0, 'yes'),
        ('extra', 'count', 1, 1, 'no'), ('more_remaining', 'bytes', 6<<20, 6<<20, 'no')] and (j['from'], j['to']) == (None, 'SOT_CALL_0')"
    expect 0 "$kedge" diff good.kcap leak.kcap --json
    json "j['extra_remaining'] == 10 and j['extra_remaining_bytes'] == 60<<20"
    json "j['remaining_bytes'] - j['remaining_good_bytes'] == 60<<20 and j['remaining'] - j['remaining_good'] == 10"
    # Runs with little or nothing in common are not equal.
    for pair in "good short" "short good" "good empty" "empty good" "empty empty"; do
        set -- $pair
        expect 2 as_good $2 $1
        tr -s ' \n' ' ' <out >flat
        has flat "% of the allocations have a partner, at least 50 % are needed (--pairs)"
    done
    expect 0 "$kedge" check short.kcap 'late(good.kcap)==0' 'extra(good.kcap)==0' --pairs 10
    expect 2 "$kedge" check short.kcap 'late(good.kcap)==0' 'extra(good.kcap)==0' --pairs 20
    # What is live where a run was cut off is no answer, but a late free that was seen is.
    expect 2 "$kedge" check oom.kcap 'extra(good.kcap)==0' 'more_remaining(good.kcap)==0'
    has out "not known: the run was cut off before its end"
    expect 2 "$kedge" check good.kcap 'more_remaining(oom.kcap)==0'
    has out "not known: the other run was cut off before its end"
    expect 1 "$kedge" check oom.kcap 'late(good.kcap)==0'
    has out " >= 23 "
    expect 0 "$kedge" check oom.kcap --to SOT_CALL_3 'extra(good.kcap)==0'
    # Windows and pairs belong to a comparison.
    for more in 'peak<1GiB' '--predicted h.yaml'; do
        for option in '--from SOT_CALL_0' '--to SOT_CALL_0' '--pairs 10'; do
            expect 2 "$kedge" check bad.kcap $option 'late(good.kcap)==0' $more
            [ "$(cat err)" = "kedge check: --from, --to and --pairs are for figures with a FILE: not with ${more% h.yaml}" ] || fail "$(cat err)"
        done
    done
    expect 2 "$kedge" check bad.kcap --pairs 101 'late(good.kcap)==0'
    has err "kedge check: --pairs 101: 1 to 100"
    expect 2 "$kedge" check bad.kcap --to SOT_CAL_0 'late(good.kcap)==0'
    has err "no anchor 'SOT_CAL_0' (did you mean SOT_CALL_0?)"
    # How it was asked once.
    for old in '--fail-on default' '--fail-on=late>0'; do
        expect 2 "$kedge" diff good.kcap bad.kcap $old
        [ "$(cat err)" = "kedge diff: --fail-on is gone; instead: kedge check BAD 'late(GOOD)==0' 'extra(GOOD)==0' 'more_remaining(GOOD)==0'" ] || fail "$(cat err)"
    done
    ;;
unknown)
    # Programs that state nothing, or something else in each run: "nothing was freed late" would not be true.
    form good; form bad; form unsaid; form unsaid-bad; form numbered
    expect 0 "$kedge" diff unsaid.kcap unsaid-bad.kcap
    has out "Late frees: not known"
    has out "note: none of 101 allocations of the bad run (591.08 MiB) were looked at"
    has out "note: 101 of them lie in no anchor: state where a step begins and ends: 'kedge run' does it for PyTorch"
    expect 0 "$kedge" diff unsaid.kcap unsaid-bad.kcap --json
    json "j['late_frees'] == 0 and j['looked_at'] == {'count': 0, 'bytes': 0} and j['passed_over']['outside']['count'] == 101"
    json "j['allocated']['count'] == 101 and j['paired'] == 81 and 'kedge run' in j['advice']"
    # What good frees at some time and bad never does is known all the same.
    expect 1 "$kedge" check unsaid-bad.kcap 'late(unsaid.kcap)==0'
    has out " >= 30 "
    expect 2 "$kedge" check unsaid.kcap 'late(unsaid.kcap)==0'
    has out "not known: 0 % of the allocations could be looked at"
    expect 0 "$kedge" check unsaid.kcap 'extra(unsaid.kcap)==0' 'more_remaining(unsaid.kcap)==0'
    expect 2 "$kedge" suggest --good unsaid.kcap --bad unsaid-bad.kcap -o h.yaml
    has err "no hint to write: too little could be looked at to know what was freed late"
    has out "note: 101 of them lie in no anchor"
    hasnt err "nothing was freed late"
    expect 2 "$kedge" suggest --good unsaid.kcap --bad unsaid-bad.kcap -o h.yaml --json
    json "j['output'] is None and j['looked_at']['count'] == 0 and 'kedge run' in j['advice']"
    expect 0 "$kedge" diff good.kcap numbered.kcap
    has out "Late frees: not known"
    has out "note: none of 101 allocations of the bad run"
    has out "100 of them lie in anchors that the good run never entered (the bad run's first: SOT_CALL at 0; the good run's: SOT_CALL_0)"
    expect 0 "$kedge" diff good.kcap bad.kcap
    hasnt out "note: only"
    ;;
suggest)
    form good; form bad
    expect 0 "$kedge" suggest --good good.kcap --bad bad.kcap -o hints.yaml
    has out "for 30 of 30 late frees"
    has out "lowers the peak"
    expect 0 "$kedge" hints lint --strict hints.yaml
    has hints.yaml "SOT_CALL_"
    has hints.yaml "shadow"
    has hints.yaml "capture_maker"
    [ "$(stat -c %a hints.yaml)" = 644 ] || fail "hints.yaml is not 0644"
    expect 2 "$kedge" suggest --good good.kcap --bad bad.kcap -o hints.yaml
    has err "hints.yaml is there already; --force replaces it"
    rm hints.yaml
    (umask 077; "$kedge" suggest --good good.kcap --bad bad.kcap --output hints.yaml --json >out)
    [ "$(stat -c %a hints.yaml)" = 644 ] || fail "hints.yaml is not 0644 under umask 077"
    json "j['late_frees'] == 30 and j['covered'] == {'count': 30, 'bytes': 139<<20}"
    json "sum(h['count'] for h in j['hints']) == 30 and j['predicted_max_bytes'] < j['max_bytes']"
    json "any(h['inside'] == 'SOT_CALL_*' and h['count'] == 20 and h['id'] == 'unused-input' for h in j['hints'])"
    json "all(h['key'].startswith('c:') and h['key'] in open('hints.yaml').read() for h in j['hints'])"
    has hints.yaml "20 late frees, 59.00 MiB, 2.00 MiB to 4.00 MiB each, 1 in each SOT_CALL_*; without it the peak is"
    # What it predicts stands in the file, of the whole run also where it looked at a part of it.
    predicted="predicted: {max-bytes: $(python3 -c 'import json; j = json.load(open("out")); print(f"""{j["predicted_max_bytes"]}, reserved-bytes: {j["predicted_peak_reserved_bytes"]}""")')}"
    has hints.yaml "$predicted"
    expect 0 "$kedge" suggest --good good.kcap --bad bad.kcap -o part.yaml --from SOT_CALL_0 --json
    json "j['predicted_max_bytes'] == $(sed -nE 's/^predicted: \{max-bytes: ([0-9]+),.*/\1/p' hints.yaml) - (32 << 20)"
    has part.yaml "$predicted"
    # One run: what it never used, and what it keeps more of with each step.
    form used
    expect 0 "$kedge" suggest used.kcap -o used.yaml
    has used.yaml "20 late frees, 160.00 MiB, 8.00 MiB each, 1 in each SOT_CALL_*, never used; without it the peak is"
    has used.yaml "20 late frees, 59.00 MiB, 2.00 MiB to 4.00 MiB each, 1 in each SOT_CALL_*; without it the peak is"
    has out "growth: +8.00 MiB a SOT_CALL, since SOT_CALL_1: unused_output capture_maker.c:"
    has out "growth: +9.00 MiB every 3 SOT_CALLs, since SOT_CALL_1: unused_input capture_maker.c:" # 2, 3 and 4 MiB in turn
    [ "$(grep -c ^growth: out)" = 3 ] || fail "$(cat out)"
    expect 0 "$kedge" suggest used.kcap -o used.yaml --force --json
    json "[(g['bytes_per_step'] >> 20, g['steps'], g['round'], g['since']) for g in j['growth']] == [(m, 19, 'SOT_CALL', 'SOT_CALL_1') for m in (8, 3, 1)]"
    json "sorted(h['unused_count'] for h in j['hints']) == [0, 20]"
    # Ranks, by name or by folder: what is made of one holds for all.
    mkdir ranks none
    for rank in 1 0; do "$make" used ranks/run.kcap $rank; done
    expect 0 "$kedge" suggest ranks/run.kcap ranks/run.kcap.1 -o ranks.yaml
    has out "made from ranks/run.kcap; no hint takes what 1 other rank may still use"
    has out "written to ranks.yaml, mode shadow; next: kedge verify --hints ranks.yaml -- PROGRAM..."
    has ranks.yaml "# made from the capture of rank 0; no hint takes what 1 other rank may still use"
    has ranks.yaml 'from: ["run.kcap", "run.kcap.1"]'
    diff <(sed -n '/^hints:/,$p' used.yaml) <(sed -n '/^hints:/,$p' ranks.yaml) >&2 || fail "other hints of two ranks alike"
    expect 0 "$kedge" suggest ranks -o ranks.yaml --force --json
    json "j['made_from'] == 'ranks/run.kcap' and len(j['hints']) == 2"
    expect 2 "$kedge" suggest used.kcap ranks/run.kcap.1 used.kcap -o ranks.yaml --force
    [ "$(cat err)" = "kedge suggest: used.kcap and used.kcap are without a rank: name one of them, or compare two runs with --good and --bad" ] ||
        fail "$(cat err)"
    expect 2 "$kedge" suggest ranks/run.kcap.1 ranks/run.kcap.1 -o ranks.yaml --force
    has err "ranks/run.kcap.1 and ranks/run.kcap.1 are of one rank: name one of them"
    expect 2 "$kedge" suggest none -o ranks.yaml --force
    has err "kedge suggest: none: no captures in this folder"
    "$make" bad ranks/last.kcap 2 # without uses
    expect 2 "$kedge" suggest ranks -o ranks.yaml --force
    has err "kedge suggest: ranks/last.kcap.2: the capture has no uses (KEDGE_TRACE=full,uses=on records them): no hint can be made from it"
    expect 1 "$kedge" suggest --good bad.kcap --bad good.kcap -o none.yaml
    has err "no hint to write"
    [ ! -e none.yaml ] || fail "none.yaml was written"
    expect 2 "$kedge" suggest --good good.kcap
    expect 2 "$kedge" suggest --good good.kcap --bad bad.kcap -o /nowhere/h.yaml
    has err "/nowhere/h.yaml"
    ;;
damage)
    form good; form bad
    # 3 KB of any bytes in the events, in the live table, in names and in places; and a file that ends too early.
    python3 - <<'PY'
import pathlib, random, struct
random.seed(5)
good = pathlib.Path("bad.kcap").read_bytes()
directory, = struct.unpack_from("<I", good, 4844)
names = {1: "live", 2: "names", 3: "events", 5: "places"}
for i in range(20):
    offset, length, kind, _ = struct.unpack_from("<QQII", good, directory + 24 * i)
    if kind in names:
        bad = bytearray(good)
        bad[offset + 300 : offset + 3300] = random.randbytes(3000)
        pathlib.Path(names.pop(kind) + ".kcap").write_bytes(bad)
assert not names, names
pathlib.Path("cut.kcap").write_bytes(good[: len(good) * 2 // 3])
bad = bytearray(good)
bad[136 + 40] ^= 1  # the peak of all devices, by a byte
pathlib.Path("header.kcap").write_bytes(bad)
PY
    expect 0 "$kedge" top header.kcap --once
    has out "the capture is damaged: figures are wrong or incomplete"
    for name in live names events places cut header; do
        expect 0 "$kedge" report $name.kcap
        [ "$(grep -c "^kedge: $name.kcap is damaged (.*): figures are wrong or incomplete" err)" = 1 ] || fail "$name: $(cat err)"
        has out "damaged"
        hasnt out "by itself"
        expect 0 "$kedge" report $name.kcap --json
        json "j['complete'] is False and len(j['damaged']) > 0 and j['program']['clean'] is False"
        for view in live hwm leaks steps; do
            expect 0 "$kedge" report $name.kcap --view $view
            has err "$name.kcap is damaged"
        done
        expect 0 "$kedge" diff good.kcap $name.kcap --json
        json "j['complete'] is False"
        has err "$name.kcap is damaged"
        expect 2 "$kedge" suggest --good good.kcap --bad $name.kcap -o h.yaml
        has err "kedge suggest: $name.kcap is damaged: nothing can be decided by it"
        expect 2 "$kedge" suggest --good $name.kcap --bad bad.kcap -o h.yaml
        expect 2 "$kedge" suggest $name.kcap -o h.yaml
        expect 2 "$kedge" check $name.kcap 'peak<1TiB' --junit j.xml
        has err "kedge check: $name.kcap is damaged: nothing can be decided by it"
        expect 2 "$kedge" check good.kcap "late($name.kcap)<1000000" --junit j.xml
        has err "kedge check: $name.kcap is damaged: nothing can be decided by it"
        [ ! -s out ] && [ ! -e j.xml ] || fail "something was decided: $(cat out)"
        [ ! -e h.yaml ] || fail "hints were written"
        expect 0 "$kedge" bundle $name.kcap
        has err "$name.kcap is damaged"
        expect 0 "$kedge" report $name.kcap.tar.zst --json
        json "j['complete'] is False"
    done
    expect 0 "$kedge" report bad.kcap --json
    json "j['complete'] is True and j['damaged'] == []"
    [ ! -s err ] || fail "$(cat err)"
    ;;
check)
    form good; form bad; form leak; form unsaid; form live; form shadow; form agg; form oom || true
    check() { expect "$1" "$kedge" check "${@:2}"; }
    # Each figure is the report's.
    for name in good bad live shadow; do
        expect 0 "$kedge" report $name.kcap --json
        figures=$(python3 - <<'PY'
import json
j = json.load(open("out"))
for figure, key in {"peak": "peak_live_bytes", "peak_with_hints": "max_with_hints_bytes", "peak_if_live": "max_would_bytes",
                    "reserved": "peak_reserved_bytes", "allocated": "allocated_bytes", "allocations": "allocated_count",
                    "freed": "freed_bytes", "frees": "freed_count", "remaining": "remaining_bytes",
                    "remaining_with_hints": "remaining_with_hints_bytes", "hint_releases": "hinted_freed_count"}.items():
    print(f"{figure}=={j[key]}")
print(f"leaks=={j['allocated_count'] - j['freed_count']}")
PY
)
        check 0 $name.kcap $figures
        has out "12 of 12 hold"
        check 1 $name.kcap $(echo "$figures" | sed 's/==/!=/')
        has out "0 of 12 hold"
    done
    # What was moved between device and host, in all steps that were told.
    form evict
    check 0 evict.kcap 'moved_in==2176MiB' 'moved_out==1663MiB'
    check 1 evict.kcap 'moved_out<1GiB'
    check 0 good.kcap 'moved_in==0'
    # Other runs, growth and anchors.
    check 0 bad.kcap 'late(good.kcap)==30' 'late(bad.kcap)==0' 'extra(good.kcap)==0' 'growth==228MiB'
    check 0 leak.kcap 'extra(good.kcap)==10' 'late(good.kcap)==0'
    check 1 bad.kcap 'growth==0'
    has out "unused_output capture_maker.c:"
    has out ": +8.00 MiB a SOT_CALL,"
    expect 0 "$kedge" report bad.kcap --view leaks # in the words of the report
    has out "+8.00 MiB a SOT_CALL, now "
    check 1 bad.kcap 'anchor:"SOT_CALL_*".remaining<=12MiB' 'anchor:"SOT_CALL_*".peak<1GiB'
    # an output of 8 MiB and one of 1 that stay, and 2 + 2 MiB of an input: the first of those that have most
    [ "$(sed -n 2,5p out)" = '  anchor:"SOT_CALL_*".remaining<=12MiB  <= 12.00 MiB    13.00 MiB       no
    in SOT_CALL_2
  anchor:"SOT_CALL_*".peak<1GiB         < 1.00 GiB      287.00 MiB      yes
    in SOT_CALL_19' ] || fail "$(cat out)"
    check 0 bad.kcap 'anchor:SOT_CALL_7.leaks==3'
    check 1 bad.kcap 'peak==300941313' # where rounded figures look alike, bytes are said
    has out "in bytes: 300941312, wanted == 300941313"
    # One that does not hold is a no, whatever is not known besides; nothing but the table is printed.
    check 1 oom.kcap 'peak<1MiB' 'leaks==0'
    has out "peak<1MiB   < 1.00 MiB      >= 239.00 MiB   no"
    has out "leaks==0    == 0            not known       unknown"
    [ ! -s err ] || fail "$(cat err)"
    for text in 'peak<1GiB' 'remaining<1GiB' 'leaks>=1' 'anchor:"SOT_CALL_*".remaining<1GiB' 'late(oom.kcap)==0'; do
        check 2 oom.kcap "$text"
        has out "not known: the run was cut off before its end"
    done
    check 2 unsaid.kcap 'growth==0'
    has out "not known: the program states no steps"
    check 2 unsaid.kcap 'late(unsaid.kcap)==0'
    has out "not known: 0 % of the allocations could be looked at"
    check 0 agg.kcap 'peak<1GiB' 'leaks==61' # what the writer counted itself
    for text in 'growth==0' 'anchor:"SOT_CALL_*".remaining<1GiB' 'late(good.kcap)==0'; do
        check 2 agg.kcap 'peak<1GiB' "$text"
        has out "events are missing in the capture"
    done
    check 2 good.kcap 'anchor:"SOT_CAL_3".remaining<1GiB'
    has out "no anchor is called 'SOT_CAL_3'; did you mean 'SOT_CALL_3'?"
    # What a hint file says is no command to a terminal.
    printf 'kedge-hints: 1\n"\\x1b[31mred": 1\n' >esc.yaml
    check 2 good.kcap --predicted esc.yaml
    has err "esc.yaml:2:1: unknown key"
    ! grep -q $'\x1b' err || fail "raw: $(od -c err)"
    expect 2 "$kedge" verify --hints esc.yaml -- true
    ! grep -q $'\x1b' err || fail "raw: $(od -c err)"
    # What is no expression is told before any file is opened.
    check 2 nowhere.kcap 'peak<1GiB' '  peek<1GiB'
    [ "$(cat err)" = "kedge check: expression 2, column 3: unknown figure 'peek'; did you mean 'peak'?" ] || fail "$(cat err)"
    check 2 good.kcap 'peak'
    has err "a shell needs quotes around an expression"
    check 2 good.kcap 'late(nowhere.kcap)==0'
    has err "nowhere.kcap: No such file"
    check 2 good.kcap
    has err "usage: kedge check CAPTURE [EXPR...] [options]"
    # Predictions: of the run with these very hints.
    expect 0 "$kedge" suggest --good good.kcap --bad bad.kcap -o hints.yaml
    check 2 bad.kcap --predicted hints.yaml
    [ "$(cat err)" = "kedge check: hints.yaml: the run had no hints" ] || fail "$(cat err)"
    check 2 live.kcap --predicted hints.yaml
    [ "$(cat err)" = "kedge check: hints.yaml: the run had other hints, or the file was changed since" ] || fail "$(cat err)"
    grep -v '^predicted' hints.yaml >silent.yaml
    check 2 live.kcap --predicted silent.yaml
    has err "silent.yaml: has no prediction"
    check 2 live.kcap --predicted nowhere.yaml
    has err "nowhere.yaml"
    # JSON, JUnit and colour.
    check 1 bad.kcap 'late(good.kcap)<3' 'anchor:"SOT_CALL_*".remaining<1GiB' 'growth!=0' --json
    json "j['answer'] == 'no' and [c['answer'] for c in j['checks']] == ['no', 'yes', 'yes'] and j['predicted'] is None"
    json "[(c['figure'], c['operator'], c['limit'], c['at_least'], c['at_most'], c['unit']) for c in j['checks']][:2] == [
        ('late', '<', 3, 30, 30, 'count'), ('remaining', '<', 1<<30, 13<<20, 13<<20, 'bytes')]"
    json "j['checks'][0]['file'] == 'good.kcap' and (j['checks'][1]['anchor'], j['checks'][1]['instance']) == ('SOT_CALL_2', 0)"
    check 2 oom.kcap 'peak<1GiB' 'leaks==0' --json
    json "[(c['at_least'] > 0, c['at_most'], c['answer']) for c in j['checks']] == [(True, None, 'unknown'), (False, None, 'unknown')]"
    check 1 oom.kcap 'peak<1MiB' 'peak<1GiB' 'allocations>3' $'anchor:"<&>\xef\xbf\xbf".leaks==0' --junit j.xml
    has out "1 of 4 hold"
    # Both peaks, whether the claim holds or not, in all three forms.
    for claim in 'late(good.kcap)==30' 'late(good.kcap)<3' 'extra(good.kcap)==0'; do
        "$kedge" check bad.kcap "$claim" --junit peaks.xml >out || [ $? = 1 ] || fail "check $claim"
        tr -s ' \n' ' ' <out >flat
        has flat "peak live 287.00 MiB in this run, 151.00 MiB in the other; reserved "
        has peaks.xml "peak live 287.00 MiB in this run, 151.00 MiB in the other; reserved "
        "$kedge" check bad.kcap "$claim" --json >out || [ $? = 1 ] || fail "check $claim --json"
        json "'peak live 287.00 MiB in this run, 151.00 MiB in the other; reserved ' in j['checks'][0]['note']"
    done
    check 2 good.kcap 'leaks==61' --junit /nowhere/j.xml
    has err "/nowhere/j.xml"
    python3 - "$kedge" <<'PY' || fail "JUnit or colour"
import errno, os, pty, subprocess, sys, xml.etree.ElementTree
suite = xml.etree.ElementTree.parse("j.xml").getroot()
assert suite.tag == "testsuite" and suite.attrib == {"name": "kedge check", "tests": "4", "failures": "1", "errors": "2"}, suite.attrib
cases = [(c.get("classname"), c.get("name"), [(e.tag, e.get("message")) for e in c]) for c in suite]
oom = "not known: the run was cut off before its end"
assert cases == [("oom.kcap", "peak<1MiB", [("failure", "is >= 239.00 MiB, wanted < 1.00 MiB")]),
                 ("oom.kcap", "peak<1GiB", [("error", f"is >= 239.00 MiB, wanted < 1.00 GiB; {oom}")]),
                 ("oom.kcap", "allocations>3", []),
                 ("oom.kcap", 'anchor:"<&>?".leaks==0', [("error", "is not known, wanted == 0; no anchor is called '<&>?'")])], cases
def shown(**env):
    master, slave = pty.openpty()
    subprocess.run([sys.argv[1], "check", "bad.kcap", "peak>0", "peak<1"], stdout=slave, env={**os.environ, **env}, check=False)
    os.close(slave)
    out = b""
    try:  # A terminal may hand over in parts what was written at once, and answers EIO after the last.
        while part := os.read(master, 65536): out += part
    except OSError as e: assert e.errno == errno.EIO, e
    os.close(master)
    return out.decode()
assert "\033[32myes\033[0m" in shown(NO_COLOR="") and "\033[31mno\033[0m" in shown(NO_COLOR=""), shown(NO_COLOR="")
assert "\033" not in shown(NO_COLOR="1")
PY
    ;;
ranks)
    # Two runs of three ranks: one row for each capture, by folder and by rank as a number.
    mkdir plain hinted
    "$make" killed plain/run.kcap 11 || true
    for rank in 10 2 0; do "$make" bad plain/run.kcap $rank && "$make" live hinted/run.kcap $rank; done
    expect 0 "$kedge" ranks plain hinted --json
    json "[r['capture'] for r in j['ranks']] == ['hinted/run.kcap', 'hinted/run.kcap.2', 'hinted/run.kcap.10',
          'plain/run.kcap', 'plain/run.kcap.2', 'plain/run.kcap.10', 'plain/run.kcap.11']"
    json "[r['rank'] for r in j['ranks']] == ['0', '2', '10', '0', '2', '10', '11']"
    json "[r['clean'] for r in j['ranks']] == 6 * [True] + [False]"
    # 20 inputs and 20 outputs; hints release each input and every other output at the end of its own anchor.
    json "[(h['id'], h['mode'], h['peak_live_count'], h['peak_with_hints_count']) for h in j['ranks'][0]['hints']
          ] == [('input', 'live', 20, 1), ('output', 'live', 20, 10)]"
    json "j['ranks'][0]['hints_mode'] == 'live' and j['ranks'][3]['hints_mode'] is None and j['ranks'][3]['hints'] == []"
    cp out ranks
    # The figures are those of the report.
    for at in 0:hinted/run.kcap 3:plain/run.kcap; do
        expect 0 "$kedge" report "${at#*:}" --json
        json "(lambda r: (r['peak_live_bytes'], r['peak_reserved_bytes'], r['peak_with_hints_bytes']) == (j['peak_live_bytes'],
              j['peak_reserved_bytes'], j['max_with_hints_bytes']))(json.load(open('ranks'))['ranks'][${at%%:*}])"
    done
    # The same files by name, in any order.
    expect 0 "$kedge" ranks plain/run.kcap.1? hinted/* plain/run.kcap plain/run.kcap.2 --json
    cmp -s out ranks || fail "files by name: $(cat out)"
    expect 0 "$kedge" ranks plain hinted
    [ "$(sed 's/ *$//' out)" = 'hinted/: no rank stands out: all 3 hold 287.00 MiB at their peak
note: no capture of rank 1, 3 to 9
plain/: no rank holds more than the median rank: 287.00 MiB at its peak; rank 11
holds least, 239.00 MiB
note: no capture of rank 1, 3 to 9
  rank   peak live  with hints  matched   left    reserved  capture
hinted/
     0  287.00 MiB  151.00 MiB       40     11  455.08 MiB  run.kcap (live)
     2  287.00 MiB  151.00 MiB       40     11  455.08 MiB  run.kcap.2 (live)
    10  287.00 MiB  151.00 MiB       40     11  455.08 MiB  run.kcap.10 (live)
plain/
     0  287.00 MiB           -        -      -  591.08 MiB  run.kcap
     2  287.00 MiB           -        -      -  591.08 MiB  run.kcap.2
    10  287.00 MiB           -        -      -  591.08 MiB  run.kcap.10
    11  239.00 MiB           -        -      -  479.06 MiB
        run.kcap.11, still running, or killed' ] || fail "$(cat out)"
    # In shadow the hints' peak is what they would make; without events it is not known.
    form shadow; form agg
    expect 0 "$kedge" ranks shadow.kcap agg.kcap --json
    json "[(r['peak_live_bytes'], r['peak_with_hints_bytes']) for r in j['ranks']] == [(287 << 20, 287 << 20), (287 << 20, 151 << 20)]"
    # What hints held at one time, of which the largest was let go; a ring has lost when. A table without such hints has no column.
    form good; form held; form held-ring; form live
    expect 0 "$kedge" ranks good.kcap held.kcap held-ring.kcap live.kcap --json
    json "[r['peak_held_bytes'] for r in j['ranks']] == [0, None, 66 << 20, 0]"
    expect 0 "$kedge" ranks good.kcap held.kcap held-ring.kcap live.kcap
    [ "$(sed '1,3d; /^$/,$d' out | grep -v kcap | tr -s ' ' | cut -d' ' -f5- | sed 's/ $//')" = 'with hints matched left held reserved capture
- - - - 591.00 MiB
? ? ? ? 0.00 B
0.00 B 0 0 66.00 MiB 0.00 B
151.00 MiB 40 11 - 455.08 MiB' ] || fail "held: $(cat out)"
    mkdir none
    expect 2 "$kedge" ranks none
    has err "kedge ranks: none: no captures in this folder"
    expect 2 "$kedge" ranks plain nowhere
    has err "nowhere: No such file or directory"
    [ ! -s out ] || fail "a table of a part"
    ;;
ranks-folder)
    # What is no capture is passed over, a pipe too; a capture without a row is told in one line, and the others have theirs.
    form good
    mkdir run run/below
    mv good.kcap run/run.kcap
    mkfifo run/pipe
    : >run/empty
    echo nonsense >run/notes.txt
    cp run/run.kcap run/below
    expect 0 timeout 20 "$kedge" ranks run --json # nobody writes
    json "[r['capture'] for r in j['ranks']] == ['run/run.kcap']"
    [ ! -s err ] || fail "$(cat err)"
    cp run/run.kcap run/run.kcap.1
    printf '\003' | dd of=run/run.kcap.1 bs=1 seek=8 conv=notrunc status=none
    head -c 100 run/run.kcap >run/run.kcap.2
    ln -s nowhere run/run.kcap.3
    expect 2 timeout 20 "$kedge" ranks run --json
    json "[r['capture'] for r in j['ranks']] == ['run/run.kcap']"
    [ "$(cat err)" = 'kedge: run/run.kcap.1: written by another version of kedge: format 3, this kedge reads 4
kedge: run/run.kcap.2: not a kedge capture
kedge: run/run.kcap.3: No such file or directory' ] || fail "$(cat err)"
    expect 2 timeout 20 "$kedge" ranks run
    has out "run.kcap"
    # Without any row there is no table.
    rm run/run.kcap
    expect 2 timeout 20 "$kedge" ranks run
    [ ! -s out ] || fail "$(cat out)"
    ;;
ranks-damage)
    # A damaged capture has its row, in which no figure is told.
    mkdir run
    "$make" live run/run.kcap 1 && "$make" live run/run.kcap 0
    truncate -s $(($(stat -c %s run/run.kcap.1) * 2 / 3)) run/run.kcap.1
    expect 0 "$kedge" ranks run
    has err "kedge: run/run.kcap.1 is damaged ("
    has out "note: incomplete: 1 capture is damaged and not compared"
    [ "$(sed '1,/ 0 /d; s/ *$//' out)" = '     1           ?           ?        ?      ?           ?
        run.kcap.1 (live), damaged' ] || fail "$(cat out)"
    expect 0 "$kedge" ranks run --json
    json "[(r['rank'], r['complete'], r['clean']) for r in j['ranks']] == [('0', True, True), ('1', False, False)]"
    json "(lambda r: all(r[k] is None for k in r if k.endswith('_bytes') or k == 'oom_count'))(j['ranks'][1])"
    json "[(h['peak_live_count'], h['peak_with_hints_count']) for h in j['ranks'][1]['hints']] == [(None, None)] * 2"
    # What it has for a rank is shown without control characters.
    "$make" live run/run.kcap 77777
    sed -i $'s/77777/7\033[7m/g' run/run.kcap.77777
    expect 0 "$kedge" ranks run/run.kcap.77777
    has out "  7?[7m           ?"
    hasnt out $'\033'
    ;;
foresee)
    # Hints without a prediction: check predicts from the very run, if all of it is there.
    printf 'kedge-hints: 1\nhints:\n  - {id: a, do: evict, pick: {size: ">=4MiB"}, when: {anchor: "S*", edge: enter}, cap: {device: 256MiB}}\n' >hints.yaml
    KEDGE_HINTS=hints.yaml form evict-try
    form held-ring
    # the ring's run with these hints
    python3 - "$TEST_SOURCE/tests/replay" <<'PY' || fail "hash"
import pathlib, struct, sys
sys.path.insert(0, sys.argv[1])
import kcap
ring, with_hints = (pathlib.Path(f"{name}.kcap").read_bytes() for name in ("held-ring", "evict-try"))
at = ring.index(struct.pack("<Q", 1234))
pathlib.Path("ring.kcap").write_bytes(kcap.mended(ring[:at] + with_hints[at:at + 8] + ring[at + 8:]))
PY
    expect 2 "$kedge" check held-ring.kcap --predicted hints.yaml
    has err "has no prediction (kedge suggest writes one), and the run had other hints"
    expect 2 "$kedge" check ring.kcap --predicted hints.yaml
    [ "$(cat err)" = "kedge check: hints.yaml: events are missing in the capture (KEDGE_TRACE=full keeps all): nothing can be predicted" ] ||
        fail "$(cat err)"
    ;;
outputs)
    form good; form bad
    pair="--good good.kcap --bad bad.kcap"
    # What is no regular file is written where it stands. Not /dev/full itself: a test that fails must not cost the machine its device.
    mkfifo pipe
    timeout 60 cat pipe >piped &
    expect 0 timeout 60 "$kedge" suggest $pair -o pipe
    [ -p pipe ] || fail "the pipe was replaced"
    wait $!
    expect 0 "$kedge" hints lint piped
    if mknod full c 1 7 2>/dev/null && (: >full) 2>/dev/null; then
        expect 2 "$kedge" suggest $pair -o full
        has err "full: No space left on device"
        expect 2 "$kedge" bundle good.kcap -o full
        has err "full: No space left on device"
        [ -c full ] || fail "the device was replaced"
    fi
    # "-" is standard output, and nothing else goes there.
    expect 0 "$kedge" suggest $pair -o -
    [ ! -e ./- ] || fail "a file called - was written"
    cp out stdout.yaml
    has err "for 30 of 30 late frees"
    expect 0 "$kedge" hints lint stdout.yaml
    "$kedge" bundle good.kcap -o - 2>/dev/null >stdout.tar.zst || fail "bundle -o -"
    expect 0 "$kedge" report stdout.tar.zst
    # Links are followed, also where nothing is yet; the mode is kept; a file that cannot be replaced stays.
    mkdir real && : >real/h.yaml && chmod 600 real/h.yaml && ln -s real/h.yaml link.yaml && ln -s real/new.yaml fresh.yaml
    expect 0 "$kedge" suggest $pair -o link.yaml
    [ -L link.yaml ] && [ -s real/h.yaml ] || fail "the link was replaced"
    [ "$(stat -c %a real/h.yaml)" = 600 ] || fail "the mode of real/h.yaml is $(stat -c %a real/h.yaml)"
    expect 0 "$kedge" suggest $pair -o fresh.yaml
    [ -L fresh.yaml ] && [ "$(stat -c %a real/new.yaml)" = 644 ] || fail "the link to nothing was replaced"
    expect 0 "$kedge" bundle good.kcap -o b.tar.zst
    [ "$(stat -c %a b.tar.zst)" = 600 ] || fail "a new bundle is not 0600"
    chmod 640 b.tar.zst
    expect 0 "$kedge" bundle bad.kcap -o b.tar.zst
    [ "$(stat -c %a b.tar.zst)" = 640 ] || fail "the bundle's mode changed"
    # Hints that others may write are refused by the library: such a mode is not kept.
    : >open.yaml && chmod 666 open.yaml
    expect 0 "$kedge" suggest $pair -o open.yaml
    [ "$(stat -c %a open.yaml)" = 644 ] || fail "others may write open.yaml"
    # Hints are edited by people.
    echo "# mine" >>real/h.yaml
    for path in real/h.yaml link.yaml; do
        expect 2 "$kedge" suggest $pair -o $path
        has err "$path is there already; --force replaces it"
    done
    has real/h.yaml "# mine"
    expect 0 "$kedge" suggest $pair -o link.yaml --force
    hasnt real/h.yaml "# mine"
    [ -z "$(find . -name '*.new')" ] || fail "drafts are left: $(find . -name '*.new')"
    ;;
lint)
    printf 'kedge-hints: 1\nhints:\n  - id: a\n    do: release\n    pick: {sizes: 3}\n    when: {anchor: "A", edge: exit}\n' >h.yaml
    expect 2 "$kedge" hints lint h.yaml
    has err "h.yaml:5:"
    expect 2 "$kedge" hints lint h.yaml --json
    json "j['valid'] is False and 'h.yaml:5:' in j['error']"
    expect 2 "$kedge" hints lint nowhere.yaml
    expect 2 "$kedge" hints check h.yaml
    printf 'kedge-hints: 1\nhints:\n  - id: a\n    do: release\n    pick: {size: ">=4MiB"}\n    when: {anchor: "A", edge: exit}\n' >h.yaml
    expect 0 "$kedge" hints lint h.yaml
    has out "h.yaml:5:11: warning: hint a: picks by size alone"
    printf 'kedge-hints: 1\nhints:\n  - id: a\n    do: release\n    pick: {site: ["p:model.py:Net.<locals>.f:7", c:00000000000000ab]}\n    when: {anchor: "A", edge: exit}\n' >h.yaml
    expect 0 "$kedge" hints lint h.yaml --json
    json "j['hints'][0]['sites'] == ['p:model.py:Net.<locals>.f:7', 'c:00000000000000ab']"
    ;;
stumbles)
    form good
    says() { expect 2 "$kedge" "${@:2}"; has err "$1"; }
    # Why, before the usage.
    says "kedge report: CAPTURE is missing" report
    says "kedge report: one word too many: b" report a b
    says "kedge run: PROGRAM is missing" run
    has err "usage: kedge run"
    says "kedge diff: BAD is missing" diff good.kcap
    says "kedge check: an expression or --predicted is missing" check good.kcap
    says "kedge verify: --hints FILE is missing" verify -- true
    says "kedge hints: lint: FILE is missing" hints lint
    says "kedge suggest: a capture is missing" suggest -o -
    says "kedge suggest: -o FILE is missing" suggest good.kcap
    says "kedge suggest: --good and --bad belong together" suggest --good good.kcap -o -
    says "kedge suggest: --good and --bad name the captures" suggest good.kcap --good good.kcap --bad good.kcap -o -
    says "kedge suggest: --cap looks at a whole run" suggest good.kcap --cap 1G --from SOT_CALL_1
    says "kedge suggest: --bandwidth needs --cap" suggest good.kcap --bandwidth 1G -o -
    expect 0 "$kedge" help report
    cp out help
    expect 0 "$kedge" report --help
    cmp -s out help || fail "kedge help report is other than kedge report --help"
    says "no command 'reprot' (did you mean report?)" help reprot
    says "--view hmw is not in this version (did you mean hwm?)" report good.kcap --view hmw
    # Instances as reports print them.
    expect 0 "$kedge" report good.kcap --from SOT_CALL_3 --to SOT_CALL_3
    grep -v "kedge report" out >plain
    expect 0 "$kedge" report good.kcap --from 'SOT_CALL_3 (1)' --to 'SOT_CALL_3 (1)'
    grep -v "kedge report" out | diff plain - || fail "an instance is another window"
    says "no anchor 'SOT_CALL_3 (2)' ('SOT_CALL_3' was entered 1 time on record)" report good.kcap --from 'SOT_CALL_3 (2)'
    expect 0 "$kedge" check good.kcap 'anchor:"SOT_CALL_* (1)".allocations>3'
    # Bytes without a unit.
    expect 0 "$kedge" check good.kcap 'peak<12GB'
    [ ! -s err ] || fail "$(cat err)"
    expect 1 "$kedge" check good.kcap 'peak<12'
    [ "$(cat err)" = "kedge check: peak<12: 12 means bytes; 12B says so, 12GiB would be GiB" ] || fail "$(cat err)"
    # Nothing but XML.
    expect 0 "$kedge" check good.kcap 'peak<12GB' --junit -
    python3 -c 'import xml.dom.minidom as m; m.parse("out")' || fail "no XML: $(cat out)"
    says "both write to standard output" check good.kcap 'peak<12GB' --junit - --json
    expect 0 "$kedge" report good.kcap --html page.html
    [ "$(cat out)" = "written to page.html" ] || fail "$(cat out)"
    # One shape for one policy and for more.
    expect 0 "$kedge" whatif good.kcap --policy native --json
    json "[p['policy'] for p in j['policies']] == ['native'] and j['policies'][0]['e'] == j['e'] and j['passes'] == j['policies'][0]['passes']"
    ;;
names)
    # Controls, those of 8-bit sets, and those that turn the direction of text, in words and in names, through each command.
    form oom || true; form good; form bad; form used; form steps || true
    python3 - "$TEST_SOURCE/tests/replay" <<'PY'
import pathlib, sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import kcap
evil = {"SOT_CALL_": "\u202eX\u061c\u009bm", "capture_maker": "\u2066\u2069\u202a\u200f_", "output": "\u200f\u200e", "input": "\u0085\x1b[m",
        "Test device": "\u2067\x9b_\u202d\x07"}
for name in ("oom", "good", "bad", "used"):
    data = pathlib.Path(f"{name}.kcap").read_bytes()
    for word, other in evil.items():
        other = other.encode()
        assert len(other) <= len(word), (word, other)
        data = data.replace(word.encode(), other + word.encode()[len(other):])
    pathlib.Path(f"{name}.kcap").write_bytes(kcap.mended(data))
PY
    evil=$'\u202e\u009b31m\033]0;\u2067x'
    cp good.kcap "$evil.kcap"
    push() { "$kedge" "$@" >out 2>err || true; cat out err >>said; }
    for view in all live hwm leaks temporary libraries hints oom anchors classes sources patterns streams steps; do
        push report "$evil.kcap" --view $view; push report oom.kcap --view $view; push report bad.kcap --view $view --json
    done
    push report bad.kcap --html page.html; push report bad.kcap --by anchor
    push report good.kcap --from "$evil" --to x; push report good.kcap --view "$evil"; push report good.kcap --sort "$evil" --view hwm
    push diff "$evil.kcap" bad.kcap; push diff good.kcap bad.kcap --json
    push suggest --good good.kcap --bad bad.kcap -o h.yaml; push suggest used.kcap -o used.yaml; push suggest "$evil" -o -
    push check good.kcap "$evil<1"; push check good.kcap 'anchor:"'"$evil"'".peak<1GiB' --junit j.xml; push check "$evil.kcap" 'leaks==0' --json
    push ranks "$evil.kcap" bad.kcap; push ranks "$evil"; push whatif "$evil.kcap" --policy "$evil"; push whatif "$evil"
    push bundle "$evil.kcap" -o "$evil/b"; push bundle good.kcap -o b.bundle; push export "$evil.kcap" --to "$evil"; push hints lint "$evil"; push hints "$evil"
    push import "$evil" -o x.kcap; push top "$evil"; push env "--$evil"; push "$evil"; push run -- "$evil"
    push run --capture "$evil/x" -- true; push verify --hints "$evil" -- true
    for format in folded csv memory_viz pprof perfetto; do push export good.kcap --to $format -o e.$format; done
    cat page.html h.yaml used.yaml j.xml >>said
    for format in folded csv perfetto; do [ ! -e e.$format ] || case $format in perfetto) gzip -dcf e.$format ;; *) cat e.$format ;; esac >>said; done
    python3 - <<'PY' || fail "a name is obeyed"
import re, sys
bad = 0
for number, line in enumerate(open("said", "rb").read().split(b"\n"), 1):
    text = line.decode("utf-8", "surrogateescape")
    found = re.search("[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\udc80-\udcff]", text)
    if found and bad < 20:
        print(number, ascii(text[max(0, found.start() - 100):found.start() + 60]))
    bad += bool(found)
sys.exit(bad > 0)
PY
    ;;
words)
    expect 0 "$kedge" verify --help
    has out "in the modes shadow, poison and trap"
    expect 0 "$kedge" --help
    for c in run report diff suggest verify check ranks whatif bundle export import hints env top; do has out "  $c "; done
    expect 0 "$kedge" --version
    version=$(sed -n 's/^project(kedge VERSION \([0-9.]*\).*/\1/p' "$TEST_SOURCE/CMakeLists.txt")
    form good # its version stands behind the eight bytes of the magic
    capture=$(od -An -tu4 -j8 -N4 good.kcap | tr -d ' ')
    hints=$(sed -n 's/^hint format //p' out)
    [ "$(cat out)" = "kedge $version
capture format $capture
hint format $hints" ] || fail "versions: $(cat out)"
    printf 'kedge-hints: %s\nhints: [{id: a, do: ignore, pick: {size: 4MiB}}]\n' "$hints" >h.yaml
    expect 0 "$kedge" hints lint h.yaml
    expect 2 "$kedge"
    expect 2 "$kedge" --completion
    expect 2 "$kedge" --completion csh
    has err "usage: kedge --completion bash|zsh|fish"
    expect 2 "$kedge" reprot
    has err "did you mean report?"
    expect 2 "$kedge" report --form x
    has err "did you mean --from?"
    expect 0 "$kedge" env
    has out "KEDGE_CAPTURE="
    KEDGE_POOL=cap=11GiB KEDGE_FRAMEWORKS=/tmp expect 0 "$kedge" env
    [ ! -s err ] || fail "$(cat err)"
    # What the library would not take is told, with what it would.
    KEDGE_MODE=fast KEDGE_POOL=cap=many KEDGE_MODUS=x expect 1 "$kedge" env
    has out "KEDGE_MODE=fast"
    has err "kedge env: KEDGE_MODE: bad value 'fast' for it: expected pool|track|off, using pool"
    has err "kedge env: KEDGE_POOL: bad value 'many' for key cap: expected size, using the default"
    has err "kedge env: unknown variable KEDGE_MODUS is ignored; did you mean KEDGE_MODE?"
    KEDGE_TRACE=mb=0 expect 1 "$kedge" env --json
    json "len(j['complaints']) == 1 and '1..1048576' in j['complaints'][0]"
    KEDGE_MODE=track expect 0 "$kedge" env --json
    json "j['complaints'] == []"
    json "[v['value'] for v in j['variables'] if v['name'] == 'KEDGE_MODE'] == ['track']"
    json "any(k['key'] == 'mb' for v in j['variables'] for k in v['keys'])"
    # A full disk is no success.
    got=0; "$kedge" env >/dev/full 2>err || got=$?
    [ "$got" = 2 ] || fail "exit $got with /dev/full"
    [ "$(cat err)" = "kedge: the output is not whole: No space left on device" ] || fail "with /dev/full: $(cat err)"
    ;;
man)
    # The figures of check are explained with the same words.
    tr -s ' \n' ' ' <"$TEST_SOURCE/tools/man/kedge-check.1" >page
    "$kedge" check --help | sed -n '/^  peak \*/,$p' | sed -E 's/^  ([a-z_]+).* {2}/@\1@/' | tr '@\n' '\n ' | tr -s ' ' >help
    [ "$(grep -cE '^[a-z_]+$' help)" = 19 ] || fail "not 19 figures: $(cat help)"
    while read -r line; do has page "$line"; done <help
    # The source of a page as text: dashes plain, quotes gone.
    text() { sed -e 's/\\-/-/g' -e 's/"//g' "$1"; }
    options() { grep -oE -- '--[a-z-]+' | sort -u; }
    for c in run report diff suggest verify check ranks whatif bundle export import hints env top; do
        page=$TEST_SOURCE/tools/man/kedge-$c.1
        [ -e "$page" ] || fail "no $page"
        "$kedge" $c --help | options >help
        # The paragraphs of OPTIONS: each option stands in the line after .TP.
        text "$page" | sed -n '/^.SH OPTIONS/,/^.SH [^O]/p' | grep -A1 '^.TP' | options >page
        diff help page >&2 || fail "--help and kedge-$c.1 list different options"
        has "$page" "SPDX-License-Identifier"
        has "$TEST_SOURCE/tools/man/kedge.1" ".BR kedge-$c (1)"
    done
    ! command -v man >/dev/null || for page in "$TEST_SOURCE"/tools/man/*.[15]; do
        man --warnings -l "$page" >/dev/null 2>err
        [ ! -s err ] || fail "$page: $(cat err)"
    done
    ;;
keys)
    # Every key that a command prints stands in its page; those of verify are in regress.cli.
    form good; form bad; form touched; form oom || true; form live
    keys() { # exit code, command and its words
        local want=$1
        shift
        expect $want "$kedge" "$@" --json
        keys_stand_in "$1"
    }
    form evict
    for name in good bad touched oom live; do keys 0 report $name.kcap --view steps --from SOT_CALL_2; done
    keys 0 report evict.kcap
    keys 0 ranks good.kcap live.kcap
    keys 0 top live.kcap --once
    keys 0 diff good.kcap bad.kcap
    keys 0 suggest --good good.kcap --bad bad.kcap -o h.yaml
    keys 0 hints keys
    keys 0 hints lint h.yaml
    printf 'kedge-hints: 1\nhints:\n  - {id: a, do: release, pick: {size: 4MiB}, when: {anchor: A, edge: exit}}\n' >doubtful.yaml
    keys 0 hints lint doubtful.yaml
    echo nonsense >bad.yaml
    keys 2 hints lint bad.yaml
    keys 0 bundle bad.kcap --modules
    keys 0 export bad.kcap --to csv -o bad.csv
    keys 0 export bad.kcap --to folded -o bad.folded
    keys 1 check bad.kcap 'peak==0' 'anchor:"SOT_CALL_*".leaks==0'
    keys 0 env
    KEDGE_MODE=fast keys 1 env
    keys 0 whatif bad.kcap --passes 2 --budget 1.05x
    keys 0 whatif bad.kcap --policy kedge --steps auto
    ;;
*)
    fail "no part $1"
    ;;
esac
