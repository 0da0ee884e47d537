#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# covers: cmd_export.c export_csv.c export_folded.c export_memory_viz.c export_perfetto.c
# export_pprof.c export_sqlite.c export_live.c export_moment.c export_pickle.c
# `kedge export`: readers that know the formats alone find the figures of the report in every file. $1: part.
. "$(dirname "$0")/../../check.sh"
frameworks=${KEDGE_FRAMEWORKS:-$TEST_SOURCE/build/frameworks}
unset "${!KEDGE_@}"
kedge=$TEST_BUILD/kedge
make=$TEST_BUILD/tests/unit/capture_maker
tests=$TEST_SOURCE/tests/unit/tools
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$tests
form() { ("$make" "$1" "$1.kcap") 2>/dev/null || [ -s "$1.kcap" ] || fail "no $1.kcap"; "$kedge" report "$1.kcap" --json >"$1.json"; }
has_sqlite() { "$kedge" export odd.kcap --to sqlite -o tried.db >/dev/null 2>tried; ! grep -q "built without libsqlite3" tried; }
# exported NAME FORMAT: NAME.FORMAT is written; `all_read` looks into it
exported() {
    expect 0 "$kedge" export "$1.kcap" --to "$2" -o "$1.$2"
    printf '%s %s\n' "$1" "$2" >>exports
}
# In every export a reader finds the figures of the report.
all_read() { py "for line in open('exports'): r.check(line.split()[1], line.strip().replace(' ', '.'), report(line.split()[0]))"; }
# py CODE: of the files that are there; `r` is export_read, report(NAME) what the report says
py() { python3 -c "
import json
import export_read as r
def report(name): return json.load(open(f'{name}.json'))
$1" >&2 || fail "$1"; }

case "$1" in
figures)
    # A run that ended, with hints that release, out of memory, killed, with lost events, without events, without blocks.
    formats="folded pprof perfetto memory_viz csv sqlite"
    form odd
    has_sqlite || formats=${formats% sqlite}
    for name in odd bad live oom killed lost agg held-ring empty; do
        [ $name = odd ] || form $name
        for format in $formats; do
            exported $name $format
            [ "$(stat -c %a "$name.$format")" = 600 ] || fail "an export is not 0600"
            case "$format:$name" in
            perfetto:lost|perfetto:agg|perfetto:held-ring|memory_viz:lost|memory_viz:agg|memory_viz:held-ring|csv:lost|csv:agg|csv:held-ring|sqlite:lost|sqlite:agg|sqlite:held-ring)
                has err "kedge export: $name.kcap: incomplete: events are missing in the capture" ;;
            memory_viz:odd) # a record by hand, of blocks that nothing holds
                [ "$(cat err)" = "kedge export: odd.kcap: segments have up to 7.00 MiB more than was held from the driver" ] || fail "$(cat err)" ;;
            *)
                [ ! -s err ] || fail "$format, $name: $(cat err)" ;;
            esac
        done
    done
    all_read
    ;;
folded)
    for name in bad agg; do form $name; exported $name folded; done
    # Stacks with the places of their calls, from the outermost.
    grep -qE '^_start[^;]*;main \(capture_maker.c:[0-9]+\);one_anchor \(capture_maker.c:[0-9]+\);unused_input \(capture_maker.c:[0-9]+\);allocate \(capture_maker.c:[0-9]+\) 61865984$' bad.folded ||
        fail "$(cat bad.folded)"
    # A reader of this format sees the same where the events are gone.
    cmp <(sed 's/ [0-9]*$//' bad.folded | sort) <(sed 's/ [0-9]*$//' agg.folded | sort) || fail "other stacks without events"
    ;;
pprof)
    for name in bad; do form $name; exported $name pprof; done
    py "
p = r.check('pprof', 'bad.pprof', report('bad'))
calls, values, labels = max(p['samples'], key=lambda s: s[1][1])
assert [c[0] for c in calls][:2] == ['allocate', 'other_tensor'] and values == [1, 32 << 20] and labels == {'device': '0'}, (calls, values, labels)
assert all(c[1].endswith('capture_maker.c') and c[2] > 0 for c in calls[:3]), calls
assert {s[2].get('anchor') for s in p['samples']} == {None, *(f'SOT_CALL_{i}' for i in range(20))}
assert sum(s[1][0] for s in p['samples']) == 62, p['samples']
assert any(m.endswith('/capture_maker') for m in p['mappings'].values())
assert 'live at the peak' in p['comments'][0] and 'incomplete' not in p['comments'][0]"
    ;;
perfetto)
    for name in odd oom; do form $name; exported $name perfetto; done
    py "
j = r.check('perfetto', 'odd.perfetto', report('odd'))
events = j['traceEvents']
slices = {e['name']: e for e in events if e['ph'] in 'Xb'}
# of two ranges that overlap, one is no slice of its thread
assert slices['left']['ph'] == 'b' and slices['right']['ph'] == 'X', slices
assert {e['name'] for e in events if e['ph'] == 'C'} == {'live', 'live, device 0', 'live, device 1', 'reserved'}
assert [e['args']['bytes'] for e in events if e['name'] == 'live, device 1'] == [(7 << 20) + 13, (7 << 20) + 24]
# the device's blocks are those of its handle, too: 1 MiB, and 3 MiB in its place, then 5 MiB
assert [e['args']['bytes'] >> 20 for e in events if e['name'] == 'live, device 0'] == [1, 4, 1, 6, 8]
j = r.check('perfetto', 'oom.perfetto', report('oom'))
oom = [e for e in j['traceEvents'] if e['name'] == 'out of memory']
assert len(oom) == 1 and oom[0]['ph'] == 'i' and oom[0]['args']['requested_bytes'] == 64 << 20, oom
assert oom[0]['args']['call'] == 'cuMemAllocAsync' and oom[0]['args']['live_bytes'] == report('oom')['remaining_bytes'], oom
anchors = [e for e in j['traceEvents'] if e['ph'] == 'X']
assert [a['name'] for a in anchors] == [f'SOT_CALL_{i}' for i in range(16)]
# the last one is open until the end
assert abs(anchors[-1]['ts'] + anchors[-1]['dur'] - max(e['ts'] for e in j['traceEvents'])) < 0.01
names = [e['args']['name'] for e in j['traceEvents'] if e['ph'] == 'M']
assert names[0].endswith('/capture_maker') and names[1] == 'capture_maker', names"
    ;;
memory_viz)
    for name in bad odd oom live lost agg empty; do form $name; exported $name memory_viz; done
    py "
def of_blocks(trace): return [t for t in trace if not t['action'].startswith('segment')]
s = r.check('memory_viz', 'bad.memory_viz', report('bad'))
assert s['kedge']['complete'] is True and len(s['device_traces']) == 1
assert s['kedge']['reserved_is_known'] and s['kedge']['segments_beyond_reserved_bytes'] == 0
trace = of_blocks(s['device_traces'][0])
assert {t['category'] for t in trace} == {'SOT_CALL_#', 'unknown'}
assert [f['name'] for f in trace[1]['frames']][:2] == ['allocate', 'unused_input'], trace[1]
assert len({id(t['frames']) for t in trace if t['action'] == 'alloc'}) == 6, 'frames are not shared'
assert [(a['name'], a['stage']) for a in s['external_annotations']][:3] == [('SOT_CALL_0', 'START'), ('SOT_CALL_0', 'END'), ('SOT_CALL_1', 'START')]
s = r.check('memory_viz', 'odd.memory_viz', report('odd'))
assert [len(of_blocks(t)) for t in s['device_traces']] == [5 + 1 + 1, 2 + 1], s['device_traces']
handles = [t['addr'] for t in of_blocks(s['device_traces'][0]) if t['size'] >= 3 << 20]
assert len(set(handles)) == 1 and handles[0] >= 1 << 48, 'a handle is no address'
s = r.check('memory_viz', 'oom.memory_viz', report('oom'))
oom = [t for t in s['device_traces'][0] if t['action'] == 'oom']
assert len(oom) == 1 and oom[0]['size'] == 64 << 20 and oom[0]['device_free'] == 3 << 20, oom
s = r.check('memory_viz', 'live.memory_viz', report('live'))
released = {t['user_metadata'] for t in s['device_traces'][0] if 'user_metadata' in t}
assert released == {'storage released early by hint input', 'storage released early by hint output'}, released
# what lived before the record begins is there, and no event tells of its birth
s = r.check('memory_viz', 'lost.memory_viz', report('lost'))
assert s['kedge']['complete'] is False
assert [t['action'] for t in of_blocks(s['device_traces'][0])] == ['free_requested', 'free_completed', 'alloc', 'snapshot'], s['device_traces']
s = r.check('memory_viz', 'agg.memory_viz', report('agg'))
assert [t['action'] for t in s['device_traces'][0]] == ['snapshot']
s = r.check('memory_viz', 'empty.memory_viz', report('empty'))
assert s['segments'] == [] and len(s['device_traces']) == 1"
    ;;
csv)
    for name in odd bad live oom killed lost empty; do form $name; exported $name csv; done
    for name in odd bad live oom killed; do
        expect 0 "$kedge" whatif $name.csv --policy native --json
        py "j = json.load(open('out')); r.same('peak', j['peak_live_bytes'], report('$name')['peak_live_bytes'])"
    done
    # The stream is that of the capture: legacy, or none, is 0; the first one seen is 1.
    [ "$(cut -d, -f4 odd.csv | tail -n +2 | tr -d '\n')" = 1010100 ] || fail "$(cat odd.csv)"
    expect 2 "$kedge" whatif empty.csv
    has err "no allocations"
    # Blocks of before the record stand at its beginning.
    grep -c ',-1$' lost.csv | grep -qx 61 || fail "$(cat lost.csv)"
    ;;
sqlite)
    form odd
    if ! has_sqlite; then
        echo "SKIP: built without libsqlite3"
        exit 77
    fi
    for name in odd oom live; do [ $name = odd ] || form $name; exported $name sqlite; done
    py "
db = r.check('sqlite', 'live.sqlite', report('live'))
rows = db.execute('''SELECT hints.name, count(*), sum(size) FROM blocks JOIN hints ON hints.id = blocks.hint
    WHERE released_event IS NOT NULL GROUP BY hints.name ORDER BY 1''').fetchall()
assert rows == [('input', 20, 61865984), ('output', 10, 83886080)], rows
assert db.execute('SELECT name, action, mode, released_count, released_bytes FROM hints').fetchall() == [
    ('input', 'release', 'live', 20, 61865984), ('output', 'release', 'live', 10, 83886080)]
rows = db.execute('''SELECT function FROM blocks JOIN stack_frames USING (stack) JOIN frames ON frames.id = frame
    WHERE blocks.id = 1 ORDER BY depth''').fetchall()
assert [row[0] for row in rows][:4] == ['allocate', 'unused_input', 'one_anchor', 'main'], rows
db = r.check('sqlite', 'oom.sqlite', report('oom'))
assert db.execute('SELECT requested_bytes, free_bytes, live_bytes, call FROM ooms').fetchall() == [
    (64 << 20, 3 << 20, report('oom')['remaining_bytes'], 'cuMemAllocAsync')]
assert db.execute('SELECT kind FROM ooms JOIN events ON events.id = event').fetchall() == [('other',)]
db = r.check('sqlite', 'odd.sqlite', report('odd'))
assert [row[0] for row in db.execute('SELECT class FROM blocks')] == ['pooled', 'vmm', 'vmm', 'pooled', 'pooled', 'pooled']"
    ;;
go)
    # The reader that the format is made for, where Go is installed (Debian: golang-go).
    pprof=$(ls /usr/lib/go-*/pkg/tool/*/pprof /usr/local/go/pkg/tool/*/pprof 2>/dev/null | tail -1)
    [ -n "$pprof" ] || { echo "SKIP: no Go, whose pprof would read a profile"; exit 77; }
    form bad; exported bad pprof
    live=$(python3 -c 'import json; print(json.load(open("bad.json"))["peak_live_bytes"])')
    expect 0 "$pprof" -top -unit=B -sample_index=inuse_space bad.pprof
    has out "Showing nodes accounting for ${live}B, 100% of ${live}B total"
    grep -qE "^ *${live}B +100% +100% +${live}B +100% +allocate" out || fail "what allocates: $(cat out)"
    expect 0 "$pprof" -tags -unit=B -sample_index=inuse_space bad.pprof
    has out "anchor: Total"
    ;;
torch)
    # PyTorch's own reader of such files, where one is installed.
    viz=$(find "$frameworks/torch" -path '*/torch/cuda/_memory_viz.py' 2>/dev/null | head -1)
    [ -n "$viz" ] || { echo "SKIP: no PyTorch in KEDGE_FRAMEWORKS"; exit 77; }
    form bad; form empty
    for name in bad empty; do exported $name memory_viz; done
    expect 0 python3 "$viz" stats bad.memory_viz
    has out "total_allocated: 271.0MiB" # what is live at the end
    expect 0 python3 "$viz" trace bad.memory_viz
    # 61 blocks stay of 101, a free is two events, and the snapshot is one
    segments=$(python3 -c 'import pickle; print(sum(t["action"].startswith("segment") for t in pickle.load(open("bad.memory_viz", "rb"))["device_traces"][0]))')
    has out "$((101 + 2 * 40 + 1 + segments)) entries"
    [ "$(grep -c '^del ' out)" = 40 ] || fail "frees: $(grep -c '^del ' out)"
    expect 0 python3 "$viz" stats empty.memory_viz
    ;;
names)
    # Names of any bytes: every reader gets them as they are, with U+FFFD for what is no text; folded has one line for each stack.
    form odd
    python3 - "$TEST_SOURCE/tests/replay" <<'PY'
import pathlib, sys
sys.path.insert(0, sys.argv[1])
import kcap
# the program's path, in whose place stands what each format could take for its own
data = pathlib.Path("odd.kcap").read_bytes()
evil = b";\n\"\\\x1b\xff'\xc3\xa9<&\x7f"
assert data.count(b"capture_maker") > 0
pathlib.Path("evil.kcap").write_bytes(kcap.mended(data.replace(b"capture_maker", evil + b"r")))
PY
    "$kedge" report evil.kcap --json >evil.json
    for format in folded pprof perfetto memory_viz csv; do exported evil $format; done
    ! has_sqlite || exported evil sqlite
    all_read
    py "
import os
name = b';\n\"\\\\\x1b\xff\'\xc3\xa9<&\x7fr'.decode(errors='replace')
anchor = 'a;b \"c\" \\\\d/ \x1b[31m\ufffd\ufffd café, \'x\' <y>&'
text = open('evil.folded').read()
assert ':?\"' in text and 'é<&?r' in text and all(len(line.split(';')) > 2 for line in text.splitlines()), text
p = r.check('pprof', 'evil.pprof', report('evil'))
assert any(name in c[1] for s in p['samples'] for c in s[0]) and {anchor} < {s[2].get('anchor') for s in p['samples']}, p
j = r.check('perfetto', 'evil.perfetto', report('evil'))
assert any(e['args'].get('path') == anchor for e in j['traceEvents'])
s = r.check('memory_viz', 'evil.memory_viz', report('evil'))
assert any(name in f['filename'] for t in s['device_traces'][0] for f in t['frames'])
assert s['external_annotations'][0]['name'] == anchor
if os.path.exists('evil.sqlite'):
    db = r.check('sqlite', 'evil.sqlite', report('evil'))
    assert anchor in [row[0] for row in db.execute('SELECT path FROM anchors')]
    assert any(name in row[0] for row in db.execute('SELECT module FROM frames'))"
    ;;
moments)
    for name in bad live oom agg killed; do form $name; done
    for name in bad live oom agg killed; do
        "$kedge" export $name.kcap --to folded --at peak >$name.peak
        "$kedge" export $name.kcap --to folded --at end >$name.end
    done
    "$kedge" export oom.kcap --to folded --at oom >oom.oom
    py "
def same(name, moment, key):
    r.same(f'{name} at {moment}', sum(int(line.split()[-1]) for line in open(f'{name}.{moment}')), report(name)[key])
for name in ('bad', 'live', 'oom', 'agg', 'killed'):
    same(name, 'peak', 'peak_live_bytes')
    same(name, 'end', 'remaining_bytes')
same('oom', 'oom', 'remaining_bytes')"
    # it ran out of memory as the last thing that it did
    expect 0 "$kedge" export oom.kcap --to pprof --at oom -o oom.pprof --json
    json "j['schema'] == 1 and j['complete'] and j['moment'] == 'live when memory ran out'"
    json "j['live_bytes'] == json.load(open('oom.json'))['remaining_bytes'] and j['live_count'] > 0"
    expect 2 "$kedge" export bad.kcap --to folded --at oom
    has err "kedge export: --at oom: bad.kcap: this run did not run out of memory"
    ;;
limits)
    # The viewer cannot take everything: the last events or steps, and no small blocks. What is left fits together all the same.
    form bad
    expect 0 "$kedge" export bad.kcap --to memory_viz -o all
    expect 0 "$kedge" export bad.kcap --to memory_viz --last 30 -o last
    expect 0 "$kedge" export bad.kcap --to memory_viz --last 1000000 -o last-all
    expect 0 "$kedge" export bad.kcap --to memory_viz --steps 3 -o steps --json
    expect 0 "$kedge" export bad.kcap --to memory_viz --min-size 2M -o large --json
    json "j['left_out_count'] == 40 and j['left_out_bytes'] == 20 * ((1 << 20) + 4096)"
    has err "kedge export: 40 blocks left out (20.08 MiB)"
    py "
def events(name):
    s = r.check('memory_viz', name, report('bad'))
    return s, [t for t in s['device_traces'][0] if t['action'] in ('alloc', 'free_completed')]
whole, all_events = events('all')
assert len(all_events) == 141 and open('all', 'rb').read() == open('last-all', 'rb').read()
s, some = events('last')
assert len(some) == 30 and some == all_events[-30:] and not s['kedge']['complete'], len(some)
assert [b for g in s['segments'] for b in g['blocks'] if b['state'] == 'active_allocated'] == [
    b for g in whole['segments'] for b in g['blocks'] if b['state'] == 'active_allocated'], 'another end'
s, some = events('steps')
assert [a['name'] for a in s['external_annotations'] if a['stage'] == 'START'] == ['SOT_CALL_17', 'SOT_CALL_18', 'SOT_CALL_19']
assert len(some) == 3 * 7 and some == all_events[-21:], len(some)
s, some = events('large')
assert some == [t for t in all_events if t['size'] >= 2 << 20] and not s['kedge']['complete']
assert s['kedge']['left_out_blocks'] == 40"
    form empty
    expect 2 "$kedge" export empty.kcap --to memory_viz --steps 3 -o none
    has err "kedge export: --steps: empty.kcap: no steps: "
    [ ! -e none ] || fail "a file was left"
    ;;
words)
    form bad; form odd
    expect 0 "$kedge" export --help
    for format in folded pprof perfetto memory_viz csv sqlite; do
        grep -qE "^  $format +[a-z.]+ +[a-zA-Z]" out || fail "--help does not say what $format is"
    done
    expect 2 "$kedge" export bad.kcap
    has err "kedge export: --to FORMAT is missing; kedge export --help lists the formats"
    expect 2 "$kedge" export bad.kcap --to perfeto
    has err "kedge export: there is no format 'perfeto' (did you mean perfetto?)"
    expect 2 "$kedge" export bad.kcap --to speedscope
    has err "kedge export: --to speedscope is gone; speedscope opens what --to pprof writes"
    expect 2 "$kedge" export bad.kcap --to folded --at noon
    has err "kedge export: --at noon: peak, end or oom"
    expect 2 "$kedge" export bad.kcap --to csv --at end
    has err "kedge export: --to csv: --at is for folded and pprof"
    for option in "--last 3" "--steps 3" "--min-size 3M"; do
        expect 2 "$kedge" export bad.kcap --to perfetto $option
        has err "kedge export: --to perfetto: --last, --steps and --min-size are for memory_viz"
    done
    expect 2 "$kedge" export bad.kcap --to memory_viz --last 3 --steps 3
    has err "kedge export: --to memory_viz: --last or --steps, not both"
    expect 2 "$kedge" export nowhere.kcap --to folded
    has err "nowhere.kcap"
    expect 2 "$kedge" export bad.kcap --to folded -o nowhere/x
    has err "kedge export: nowhere/x: No such file or directory"
    # Standard output has the format alone; what is said goes to standard error.
    for format in folded pprof perfetto memory_viz csv; do
        expect 0 "$kedge" export bad.kcap --to $format -o file
        expect 0 "$kedge" export bad.kcap --to $format
        cmp out file || fail "$format: another output on standard output"
        [ ! -s err ] || fail "$(cat err)"
    done
    expect 0 "$kedge" export bad.kcap --to csv -o - --json
    cmp out file || fail "the answer is among the rows"
    cp err out
    json "j['format'] == 'csv' and j['output'] == '-' and j['events'] == 141"
    # An old file is replaced when the new one is whole; what is no file is written where it stands.
    echo old >file
    chmod 640 file
    expect 2 "$kedge" export bad.kcap --to folded --at oom -o file --force
    has err "did not run out of memory"
    [ "$(cat file)" = old ] || fail "the old file is gone"
    expect 0 "$kedge" export bad.kcap --to folded -o file --force
    has out "file: folded, "
    has out ", 287.00 MiB live at the peak"
    [ "$(stat -c %a file)" = 640 ] || fail "another mode"
    expect 2 "$kedge" export bad.kcap --to folded -o /dev/full
    has err "kedge export: /dev/full: the output is not whole: No space left on device"
    expect 2 "$kedge" export bad.kcap --to pprof -o /dev/full
    [ -z "$(find . -name '*.new')" ] || fail "a draft was left behind"
    # A database is a file.
    for output in "" "-o -" "-o /dev/null"; do
        expect 2 "$kedge" export bad.kcap --to sqlite $output
        has err "kedge export: --to sqlite is written to a regular file (-o FILE.db)"
    done
    if has_sqlite; then
        echo old >file
        expect 0 "$kedge" export bad.kcap --to sqlite -o file --force
        python3 "$tests/export_read.py" sqlite file bad.json || fail "sqlite"
    fi
    # Nothing that is not for people goes to a terminal unasked.
    python3 - "$kedge" <<'PY' || fail "at a terminal"
import os, pty, subprocess, sys
def at_terminal(*words):
    ours, theirs = pty.openpty()
    done = subprocess.run([sys.argv[1], "export", "bad.kcap", *words], stdout=theirs, stderr=subprocess.PIPE, check=False)
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(ours, 65536):
            shown += part
    except OSError:
        pass
    return done.returncode, done.stderr.decode(), shown
code, said, shown = at_terminal("--to", "pprof", "-o", "-")
assert code == 2 and "--to pprof is binary, which a terminal does not show (-o FILE.pb.gz)" in said and not shown, (code, said, shown)
code, said, shown = at_terminal("--to", "csv")
assert code == 2 and "--to csv is not for reading; -o - prints it all the same (-o FILE.csv)" in said and not shown, (code, said, shown)
code, said, shown = at_terminal("--to", "folded", "-o", "-")
assert code == 0 and shown.count(b"\n") == 5, (code, said, shown)
PY
    ;;
damage)
    # Captures of any bytes: an answer or one line, whatever is cut off or turned over.
    form odd
    python3 - "$kedge" <<'PY' || fail "damaged captures"
import pathlib, random, subprocess, sys
data = pathlib.Path("odd.kcap").read_bytes()
# where something is written at all
places = [i for i in range(0, len(data), 64) if any(data[i:i + 64])]
rng = random.Random(15)
formats = ["folded", "pprof", "perfetto", "memory_viz", "csv", "sqlite"]
codes = set()
told = 0
for turn in range(21):
    length = 5000 if turn == 20 else rng.randrange(8192, len(data)) if turn % 3 == 2 else len(data)
    now = bytearray(data[:length])
    for place in rng.sample(places, 1 + turn % 5):
        if place + 64 < length:
            now[place + rng.randrange(64)] ^= 1 << rng.randrange(8)
    pathlib.Path("turned.kcap").write_bytes(now)
    done = subprocess.run([sys.argv[1], "export", "turned.kcap", "--to", formats[turn % len(formats)], "-o", "turned", "--force"], capture_output=True,
                          timeout=60, check=False)
    assert done.returncode in (0, 2, 77), (turn, done)
    assert done.returncode == 0 or done.stderr.count(b"\n") in (1, 2), (turn, done)
    told += b"is damaged" in done.stderr and b"incomplete" in done.stderr
    codes.add(done.returncode)
assert {0, 2} <= codes and told > 3, (codes, told)
PY
    ;;
*)
    fail "no part $1"
    ;;
esac
