#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
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
    printf '%s\n' 'cmd_export stepview_find' 'cmd_whatif stepview_find' 'page stepview_find' 'report_steps stepview_find' 'stepview period_find' >want
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
