#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# covers: report_window.c
# `kedge report --view steps` on captures and on traces. $1 says which part.
. "$(dirname "$0")/../../check.sh"
kedge=$TEST_BUILD/kedge

case "$1" in
words)
    "$TEST_BUILD/tests/unit/capture_maker" bad bad.kcap
    expect 0 "$kedge" report bad.kcap --view steps
    has out "Steps: 20, stated by the program: SOT_CALL_#"
    has out "SOT_CALL_19"
    hasnt out "detected"
    steps bad.kcap
    in_steps "j['origin'] == 'stated' and j['anchor'] == 'SOT_CALL_#' and [x['name'] for x in r] == [f'SOT_CALL_{i}' for i in range(20)]"
    # as report counts them: inputs of 2, 3, 4 MiB in turn, 16 + 8 + 1 MiB each and a pair of 4 KiB
    in_steps "[x['allocated_bytes'] for x in r[:3]] == [((2 + i + 25) << 20) + 4096 for i in range(3)] and r[0]['allocated_count'] == 5"
    in_steps "all(x['live_end_bytes'] - x['live_begin_bytes'] == x['allocated_bytes'] - x['freed_bytes'] == x['delta_live_bytes'] for x in r)"
    in_steps "all(a['live_end_bytes'] == b['live_begin_bytes'] and a['last_seq'] < b['first_seq'] for a, b in zip(r, r[1:]))"
    # What each sub-graph keeps grows; the largest first, with its stack.
    in_steps "j['growers'][0]['stack'][0]['function'] == 'allocate' and j['growers'][0]['last_bytes'] - j['growers'][0]['first_bytes'] >= 19 * 3 << 20"
    in_steps "[(g['round'], g['rounds'], g['rises']) for g in j['growers'][:2]] == [('SOT_CALL', 20, 19)] * 2"
    in_steps "j['may_grow'] == j['filled'] == [] and j['growth_unknown'] is None"
    expect 0 "$kedge" report bad.kcap --view steps --top 3
    has out "... 14 more"
    steps bad.kcap --from SOT_CALL_3 --to SOT_CALL_9
    in_steps "[x['name'] for x in r] == [f'SOT_CALL_{i}' for i in range(3, 10)]"
    expect 2 "$kedge" report bad.kcap --view steps --steps guessed
    has err "--steps guessed: stated or detected"
    expect 2 "$kedge" report "$TEST_SOURCE/tests/traces/loop.csv"
    has err "of a csv there is --view steps only"
    expect 2 "$kedge" report "$TEST_SOURCE/tests/traces/loop.csv" --view steps --from A
    printf 'op,id,size,stream,time_us\na,1,0,0,1\n' >wrong.csv
    expect 2 "$kedge" report wrong.csv --view steps
    has err "wrong.csv:2:"
    printf 'op,id,size,stream,time_us\na,1,512,0,1\n' >one.csv
    expect 0 "$kedge" report one.csv --view steps
    has out "Steps: none: only 1 allocation"
    steps one.csv --steps stated
    in_steps "j['kind'] == 'none' and r == [] and 'no anchors' in j['reason'] and 'no anchors' in j['growth_unknown']"
    ;;
one)
    # A step by its number, as the view counts, and by each form of its name.
    "$TEST_BUILD/tests/unit/capture_maker" bad bad.kcap
    expect 0 "$kedge" report bad.kcap --view steps
    grep -qE '^ +4 .* SOT_CALL_3$' out || fail "$(cat out)"
    expect 0 "$kedge" report bad.kcap --from SOT_CALL_3 --to SOT_CALL_3 --json
    sed '/"window"/,/}/d' out >want
    for words in "--step|4" "--from|step:4|--to|step:4" "--from|SOT_CALL_3:1|--to|SOT_CALL_3:1" "--from|step (4)|--to|SOT_CALL_3 (1)"; do
        IFS='|' read -ra list <<<"$words"
        expect 0 "$kedge" report bad.kcap "${list[@]}" --json
        sed '/"window"/,/}/d' out | cmp - want || fail "$words"
    done
    expect 0 "$kedge" report bad.kcap --step 4 --json
    json "j['window'] == {'from': 'SOT_CALL_3', 'to': 'SOT_CALL_3'} and j['allocated_count'] == 5"
    # Of steps that were detected; the commands that a report names take such a step, too.
    expect 0 "$kedge" import "$TEST_SOURCE/tests/traces/loop.csv" -o loop.kcap
    expect 0 "$kedge" report loop.kcap --step 20 --json
    json "j['window'] == {'from': 'step:20', 'to': 'step:20'} and j['allocated_count'] == 19"
    expect 0 "$kedge" report loop.kcap --step 20
    has out "--from step:20 --to step:20 --all"
    # What is there is told, in a line.
    wrong() { # its message, and the words
        local says=$1
        shift
        expect 2 "$kedge" report "$@"
        has err "$says"
        [ "$(wc -l <err)" = 1 ] || fail "more than a line: $(cat err)"
    }
    wrong "no step 21: --view steps has 1 to 20" bad.kcap --step 21
    wrong "no step 21: --view steps has 1 to 20" loop.kcap --from step:21
    wrong "--step 0: a number, from 1" bad.kcap --step 0
    wrong "--step 1x: a number, from 1" bad.kcap --step 1x
    wrong "not with --from, --to or --between" bad.kcap --step 3 --to step:4
    wrong "'step:2' ends before 'step:4' begins" bad.kcap --from step:4 --to step:2
    wrong "no anchor 'epoch' (the anchors are SOT_CALL_0, SOT_CALL_1, SOT_CALL_2, SOT_CALL_3, SOT_CALL_4, SOT_CALL_5, ...)" \
        bad.kcap --from epoch
    wrong "no anchor 'epoch' (the capture has no anchors at all)" loop.kcap --to epoch
    printf 'op,id,size,stream,time_us\na,1,512,0,1\n' >one.csv
    expect 0 "$kedge" import one.csv -o one.kcap
    wrong "no step 1: no steps were found: only 1 allocation" one.kcap --step 1
    ;;
between)
    # What two steps made, and what of it is there after them, and at the end.
    "$TEST_BUILD/tests/unit/capture_maker" bad bad.kcap
    expect 0 "$kedge" report bad.kcap --between SOT_CALL_3 step:5 --json
    json "[j['between'][k] for k in ('from', 'to', 'allocated_count')] == ['SOT_CALL_3', 'step:5', 10]"
    json "sum(r['bytes'] for r in j['live']) == j['between']['live_bytes'] > 0 and sum(r['count'] for r in j['live']) == j['between']['live_count']"
    cp out between.json
    expect 0 "$kedge" report bad.kcap --from SOT_CALL_3 --to SOT_CALL_4 --json
    json "all(json.load(open('between.json'))['between'][k] == j[k] for k in ('remaining_bytes', 'allocated_bytes', 'allocated_count'))"
    json "'between' not in j"
    expect 0 "$kedge" report bad.kcap --between SOT_CALL_3 step:5
    has out "Made between SOT_CALL_3 and step:5"
    has out "in 10 blocks  made"
    has out "still there at the end of step:5"
    has out "still there at the end of the run"
    has out "Live at the end, by stack"
    hasnt out "Allocated memory"
    # What is there when another window ends; by site, filtered.
    expect 0 "$kedge" report bad.kcap --between SOT_CALL_3 SOT_CALL_3 --to SOT_CALL_7 --by site --filter unused_output
    has out "still there at the end of SOT_CALL_7"
    has out "8.00 MiB       1 block"
    for wrong in "A" "SOT_CALL_3 SOT_CALL_4 --from SOT_CALL_1" "SOT_CALL_3 SOT_CALL_4 --view hwm" "SOT_CALL_4 SOT_CALL_3" \
            "SOT_CALL_3 SOT_CALL_7 --to SOT_CALL_5" "SOT_CALL_3 SOT_CALL_4 --html x.html" "nothing SOT_CALL_3"; do
        expect 2 "$kedge" report bad.kcap --between $wrong
    done
    has err "no anchor 'nothing'"
    "$TEST_BUILD/tests/unit/capture_maker" agg agg.kcap
    expect 0 "$kedge" report agg.kcap --between SOT_CALL_3 SOT_CALL_4
    has out "not known: events are missing"
    expect 0 "$kedge" report agg.kcap --between SOT_CALL_3 SOT_CALL_4 --json
    json "j['between']['live_bytes'] is None and j['live'] is None"
    ;;
numbers)
    # How many steps of the program are in a file.
    for number in 20 020; do
        expect 0 "$kedge" whatif "$TEST_SOURCE/tests/traces/loop.csv" --policy native --lag 1 --steps $number
        has out "a step is taken to be 38 requests"
    done
    for number in 0 -1 +1 " 1" 1x 1e1 ""; do
        expect 2 "$kedge" whatif "$TEST_SOURCE/tests/traces/loop.csv" --policy native --steps "$number"
        has err "--steps $number: a number, or auto"
    done
    ;;
csv)
    traces=$TEST_SOURCE/tests/traces
    # loop.c: 7 tensors are set up, then 20 steps of 19; make_unify.py: 60, then three steps of other lengths.
    steps "$traces/loop.csv"
    in_steps "j['kind'] == 'steps' and j['rests'] and [x['first_seq'] for x in r] == [8 + 38 * i for i in range(20)]"
    in_steps "all(x['allocated_count'] == 19 for x in r)"
    steps "$traces/unify.csv"
    in_steps "j['kind'] == 'steps' and j['rests'] and [x['first_seq'] for x in r] == [61 + 844 * i for i in range(3)]"
    # One pass of sub-graphs of which no two are alike, rounds of random streams and threads: nothing to be found.
    for name in sot-full-pir streams threads; do
        steps "$traces/$name.csv"
        in_steps "j['kind'] == 'none' and r == [] and 'nothing repeats' in j['reason']"
    done
    # Four passes of it: each is a step, no sub-graph is.
    python3 - "$traces/sot-full-pir.csv" <<'PY'
import sys
head, *rows = open(sys.argv[1]).read().splitlines()
with open("passes.csv", "w") as out:
    print(head, file=out)
    for turn in range(4):
        for row in rows:
            op, number, rest = row.split(",", 2)
            print(op, int(number) + turn * 100000, rest, sep=",", file=out)
print(len(rows))
PY
    rows=$(($(wc -l <"$traces/sot-full-pir.csv") - 1))
    steps passes.csv
    in_steps "j['kind'] == 'steps' and j['rests'] and [x['first_seq'] for x in r] == [1 + $rows * i for i in range(4)]"
    ;;
shuffled)
    python3 - "$TEST_SOURCE/tests/traces" <<'PY'
import pathlib, random, sys
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.csv")):
    head, *rows = path.read_text().splitlines()
    births, turn = [], {}
    for number, row in enumerate(rows):
        if row[0] == "a":
            births.append([row, number, None])
            turn[row.split(",")[1]] = len(births) - 1
        else:
            births[turn[row.split(",")[1]]][2] = number
    for seed in range(2):
        random.seed(seed)
        order = births[:]
        random.shuffle(order)
        events = []
        for place, (row, born, died) in enumerate(order):
            events.append((2.0 * place, 0, place, row))
            if died is not None:
                events.append((2.0 * place + died - born, 1, place, row))
        with open(f"{path.stem}-{seed}.csv", "w") as out:
            print(head, file=out)
            for moment, kind, place, row in sorted(events):
                fields = row.split(",")
                print("af"[kind], place, fields[2], fields[3], int(moment) + 1, sep=",", file=out)
PY
    for trace in *.csv; do
        steps "$trace"
        in_steps "j['kind'] == 'none' and r == []"
    done
    ;;
keys)
    # R90: only what prints asks for detected steps. No hint, comparison, claim or verification is linked with them.
    lib=$TEST_BUILD/tools/libkedge_tools.a
    [ -e "$lib" ] || fail "no $lib"
    nm -A "$lib" >names
    grep -E ' U (period_find|stepview_find)$' names | sed -E 's/.*:([a-z_]+)\.c\.o:.* U /\1 /' | sort >users
    printf '%s\n' 'cmd_export stepview_find' 'cmd_whatif stepview_find' 'page stepview_find' 'report_steps stepview_find' 'report_window stepview_find' 'stepview period_find' >want
    diff want users || fail "others ask for detected steps"
    ;;
traces)
    [ -d "${KEDGE_TEST_TRACES:-/nowhere}/csv" ] || { echo "SKIP: KEDGE_TEST_TRACES is not set"; exit 77; }
    # Which have boundaries, in rows from 1, and how that is known:
    #   lm-small-step-150        the stacks in the recording (raw/): forward begins anew in the profiled loop at these rows
    #   lm-small-step-200-mixed  the same program: the first activation behind the batch, then the same pair at even distances
    #   lm-small-forward-*       one logits tensor per pass (three); the first allocation behind the batch, then even distances
    # The others are one step or one pass each (the logits are made once), few-huge-blocks is no loop: no steps there, although
    # 24 or 48 layers repeat strongly.
    while read -r name begins; do
        steps "$KEDGE_TEST_TRACES/csv/$name.csv"
        if [ "$begins" = none ]; then
            in_steps "j['kind'] != 'steps'"
        else
            in_steps "j['kind'] == 'steps' and [x['first_seq'] for x in r] == [$begins]"
        fi
        echo "$name: $begins"
    done <<'TABLE'
lm-small-step-150 120,2644,5168
lm-small-step-200-mixed 120,2985,5821
lm-small-forward-100 41,538,1034
lm-small-forward-200 41,538,1034
lm-medium-train-ctx1024 none
lm-medium-train-ctx128 none
lm-medium-infer-ctx512 none
lm-small-forward-fp32-warm none
few-huge-blocks none
TABLE
    ;;
*) fail "no part $1" ;;
esac
