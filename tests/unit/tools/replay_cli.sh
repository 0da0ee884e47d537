#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# covers: rowread.c
# kedge-replay on a runtime that can be told to be wrong (broken_runtime.c).
. "$(dirname "$0")/../../check.sh"
replay=$TEST_BUILD/tests/bench/kedge-replay
export LD_LIBRARY_PATH=$TEST_BUILD/tests/unit/broken

# Sizes around every edge of the pattern: a byte, a page, two pages, a step of 2 MiB, and odd ones.
python3 - <<'PY'
sizes = [1, 3, 4, 5, 4095, 4096, 4097, 5000, 8191, 8192, 8193, 2097152, 2101248, 2101249, 4194304, 5242881, 9999999]
rows = ["op,id,size,stream,time_us", "a,1000,4096,0,-1"]
live = peak = 4096
for n, size in enumerate(sizes * 3):
    rows.append(f"a,{n},{size},{n % 3},{n}")
    live += size
    peak = max(peak, live)
    if n % 4 == 3:
        rows.append(f"f,{n-1},{sizes[(n-1) % len(sizes)]},{(n-1) % 3},{n}")
        live -= sizes[(n - 1) % len(sizes)]
open("t.csv", "w").write("\n".join(rows) + "\n")
open("peak", "w").write(str(peak))
def pages(size): # the first page, one per 2 MiB, and the last page
    starts = {0, max(size - 4096, 4096)} | {k for k in range(1 << 21, size, 1 << 21) if k + 4096 <= size - 4096}
    return len([s for s in starts if s < size])
open("pages", "w").write(str(sum(pages(s) for s in sizes * 3 + [4096])))
PY
peak=$(cat peak)

expect 0 "$replay" t.csv
has out "allocations: 52"
has out "peak live bytes: $peak"
has out "pages checked: $(cat pages)"
sum=$(grep checksum out)
expect 0 "$replay" --api sync --streams t.csv
has out "$sum"
expect 0 "$replay" --passes 2 t.csv
has out "allocations: 104"
has out "peak live bytes: $peak"
! grep -q "$sum" out || fail "the second pass has the first one's patterns"
expect 0 "$replay" --json t.csv
python3 -c "import json; j = json.load(open('out')); assert j['peak_live_bytes'] == $peak and j['allocations'] == 52"

# Steps: each pass, or so many rows of it; what they say is not part of the result.
edges() { grep -c "^$1 step\$" err || true; }
! grep -q step err || fail "steps are told unasked"
expect 0 "$replay" --json --passes 3 --steps pass t.csv
python3 -c "import json; json.load(open('out'))"
[ "$(edges START) $(edges END)" = "3 3" ] || fail "three passes: $(edges START) steps begin, $(edges END) end"
rows=$(($(wc -l <t.csv) - 1))
expect 0 "$replay" --passes 2 --steps 10 t.csv
[ "$(edges START)" = $((2 * ((rows + 9) / 10))) ] || fail "$(edges START) steps of 10 rows in twice $rows"
[ "$(edges START)" = "$(edges END)" ] || fail "a step has one edge"
for steps in "" 0 -1 1x all 99999999999999999999; do
    expect 2 "$replay" --steps "$steps" t.csv
    has err "a number of rows"
done

BROKEN=overlap expect 1 "$replay" t.csv
has err "should be 0x"
BROKEN=oom expect 1 "$replay" t.csv
has err "out of memory"
BROKEN=nodevice expect 77 "$replay" t.csv
LD_LIBRARY_PATH=/nowhere expect 77 "$replay" t.csv # no runtime, or the machine's own without a device
expect 2 "$replay" nowhere.csv
has err "nowhere.csv: No such file"
printf 'op,id,size,stream,time_us\na,1,x,0,0\n' >bad.csv
expect 2 "$replay" bad.csv
has err "bad.csv:2:5: "
[ "$(wc -l <err)" = 1 ] || fail "more than one line"
expect 2 "$replay" --api async t.csv
expect 2 "$replay"
expect 0 "$replay" --help
