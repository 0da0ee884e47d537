#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# covers: cmd_import.c import_names.c import_paddle.c import_ranges.c import_rows.c import_torch.c
# import_what.c report_fragments.c
# `kedge import`: records of other tools, written here by hand, as captures. $1 says which part.
. "$(dirname "$0")/../../check.sh"
kedge=$TEST_BUILD/kedge
# glog FILE-LINE MESSAGE [THREAD]: a line of glog's, each a second after the one before
second=0
glog() { printf 'I0721 08:00:%02d.000500 %5d %s] %s\n' $((second++)) "${3:-4711}" "$1" "$2"; }
auto=auto_growth_best_fit_allocator.cc
want() { glog $auto:106 "Allocate $1 bytes, aligned to $2, extra size 0" "${3:-4711}"; }
alloc() { glog $auto:178 "Alloc $1 bytes, ptr = $2" "${3:-4711}"; }
free() { glog $auto:187 "Free $1 bytes, ptr = $2" "${3:-4711}"; }
figures() { expect 0 "$kedge" report "$@" --json; }
# pickle OUT [PROTOCOL]: what Python makes of the expression on stdin
pickle() { python3 -c 'import pickle, sys
pickle.dump(eval(sys.stdin.read()), open(sys.argv[1], "wb"), int(sys.argv[2]))' "$1" "${2:-4}"; }
one_line() { [ "$(wc -l <err)" = 1 ] || fail "not one line: $(cat err)"; }

case "$1" in
paddle)
    {
        echo "2025-07-21 epoch 0"
        want 1000 1024; glog $auto:166 "Not found and reallocate 4096(0x7f0000000000), and remaining 3072"; alloc 1024 0x7f0000000c00
        echo "START SOT_CALL_0"
        glog api.cc:22906 'cast kernel: {"input":['
        echo '   Alloc 64 bytes, ptr = 0x1'
        glog stats.h:12 "Alloc 64 bytes, ptr = 0x2"
        # Two threads at once: each line belongs to the thread's own request.
        want 300 512; want 200 256 88; alloc 256 0x7f0000000a00 88; alloc 512 0x7f0000000800
        want 512 512; glog $auto:120 "Allocate 512 bytes from chunk size 2048, remaining 1536"; alloc 512 0x7f0000000600
        free 512 0x7f0000000800
        glog python.cc:3 "END SOT_CALL_0"
        echo "END SOT_CALL_0"
        free 1024 0x7f0000000c00
        glog $auto:234 "Free chunk with size 4096"
    } >run.log
    expect 0 "$kedge" import run.log -o run.kcap
    has out "Paddle allocator log: 4 allocations, 2 frees, 1 anchor, peak live 1.96 KiB"
    expect 0 "$kedge" report run.kcap
    has out "imported  Paddle allocator log run.log"
    has out "ended     not known: the record that was imported does not say"
    hasnt out "lost"
    figures run.kcap
    json "(j['max_bytes'], j['remaining_bytes'], j['peak_reserved_bytes']) == (2012, 712, 4096)"
    json "(j['allocated_count'], j['freed_count'], j['complete']) == (4, 2, True)"
    figures run.kcap --from SOT_CALL_0 --to SOT_CALL_0
    json "(j['allocated_bytes'], j['allocated_count'], j['freed_bytes'], j['freed_count']) == (1012, 3, 300, 1)"
    json "j['settings']['imported_from'] == 'Paddle allocator log' and j['settings']['imported_file'] == 'run.log'"
    expect 0 "$kedge" check run.kcap 'peak<2KiB' 'leaks==2' 'anchor:"SOT_CALL_0".allocations==3'
    expect 0 "$kedge" whatif run.kcap --policy kedge
    # Other words for anchors; a later form of glog's date; the kind is told.
    sed -e 's/^START SOT/=> call SOT/' -e 's/^I0721/I20250721/' run.log >later.log
    expect 0 "$kedge" import later.log --from paddle --anchors 'call {}|END {}' -o later.kcap
    figures later.kcap --from SOT_CALL_0 --to SOT_CALL_0
    json "(j['allocated_bytes'], j['freed_count']) == (1012, 1)"
    # Versions that do not say what was asked for count what it was rounded to.
    grep -v "aligned to" run.log >old.log
    expect 0 "$kedge" import old.log -o old.kcap --json
    json "(j['peak_live_bytes'], j['live_bytes'], j['from']) == (2304, 768, 'paddle')"
    keys_stand_in import
    # Memory runs out: one thread gets its memory after a while, the other one does not. The lines and their order are those of
    # PaddlePaddle 2.6.2.
    safe=stream_safe_cuda_allocator.cc
    {
        want 512 512; alloc 512 0x7f0000000000; echo "START step"
        glog $safe:195 "Allocation failed when allocating 8589934592 bytes"; glog $safe:195 "Allocation failed when allocating 1024 bytes" 88
        for thread in 4711 88; do glog $safe:247 "Release 0 bytes memory from all streams" $thread; done
        glog $auto:70 "Allocate 8589934592 bytes, aligned to 8589934592"; want 1024 1024 88; alloc 1024 0x7f0000000200 88
        glog gpu_info.cc:224 "[cudaMalloc] size=8192 MB, result=2"
        glog $safe:200 "Still allocation failed after release memory from all streams"
    } >oom.log
    expect 0 "$kedge" import oom.log -o oom.kcap
    has out "1 allocation failed"
    expect 0 "$kedge" report oom.kcap --view oom --json
    json "[(o['requested_bytes'], o['live_bytes'], o['anchor'], o['free_bytes']) for o in j['ooms']] == [(8 << 30, 1536, 'step', None)]"
    expect 0 "$kedge" import run.log -o ranked.kcap --rank 3
    expect 0 "$kedge" ranks ranked.kcap --json
    json "j['ranks'][0]['rank'] == '3'"
    ;;
late)
    # What was live before the log, is freed in it; and frees of nothing.
    { free 4096 0x10; want 100 256; alloc 256 0x20; free 512 0x30; free 256 0x20; } >tail.log
    expect 0 "$kedge" import tail.log -o tail.kcap
    has out "2 blocks lived before it begins"
    expect 0 "$kedge" report tail.kcap
    has out "lost      2 blocks lived before the record begins"
    figures tail.kcap
    json "(j['max_bytes'], j['remaining_bytes'], j['complete']) == (4608, 0, False)"
    # What keeps the events of a run of kedge's keeps none of another tool's.
    lacks="events are missing in the record that was imported"
    for view in patterns steps streams; do
        expect 0 "$kedge" report tail.kcap --view $view
        has out "note      $lacks"
        hasnt out "KEDGE_TRACE"
    done
    for claim in 'late(tail.kcap)==0' 'extra(tail.kcap)==0' 'more_remaining(tail.kcap)==0'; do
        expect 2 "$kedge" check tail.kcap "$claim"
        has out "$lacks"
        hasnt out "KEDGE_TRACE"
    done
    expect 2 "$kedge" suggest tail.kcap -o tail.yaml
    has err "kedge suggest: tail.kcap: the record that was imported does not say when memory was used: no hint can be made from it"
    for rank in 0 1; do expect 0 "$kedge" import tail.log --rank $rank -o rank$rank.kcap; done
    expect 0 "$kedge" ranks rank0.kcap rank1.kcap --by anchor
    has out "2 captures are without all anchors: events are missing"
    hasnt out "KEDGE_TRACE"
    # A log that ends inside a line: what is there counts, and nobody knows how it went on.
    { want 100 256; alloc 256 0x20; printf 'I0721 08:00:09.000500  4711 %s:187] Free 256 bytes, ptr = 0x2' $auto; } >cut.log
    expect 0 "$kedge" import cut.log -o cut.kcap
    has out "1 allocation, 0 frees"
    expect 2 "$kedge" check cut.kcap 'peak<1MiB'
    # No process writes it: another import takes its place.
    expect 0 "$kedge" import cut.log -o cut.kcap
    ;;
bad)
    # A line that makes no sense is told with its place, and the figures are known to lack it.
    { echo hello; want 100 256; alloc 256 0x20; alloc many 0x30; free 256 x; alloc 99999999999999999999 0x40; free 256 0x20; } >odd.log
    expect 0 "$kedge" import odd.log -o odd.kcap
    one_line
    has err "kedge import: odd.log:4:74: here should stand: SIZE bytes, ptr = ADDRESS"
    has out "3 of its records make no sense and are left out"
    expect 0 "$kedge" report odd.kcap
    has out "lost      3 pieces of the record that make no sense"
    has out "line 4, column 74 of the log"
    figures odd.kcap
    json "(j['allocated_count'], j['freed_count'], j['complete']) == (1, 1, False)"
    # Nothing known: one line, and no capture.
    echo "hello" >none.log
    : >empty.log
    head -c 300000 /dev/zero >zero.log
    { glog $auto:187 "Free chunk with size 7"; head -c 700000 /dev/zero | tr '\0' a; } >long.log
    for file in none zero; do
        expect 2 "$kedge" import $file.log -o none.kcap
        one_line
        has err "kedge import: $file.log: nothing in it is known"
    done
    expect 2 "$kedge" import empty.log -o none.kcap
    has err "kedge import: empty.log: it is empty"
    expect 2 "$kedge" import long.log -o none.kcap
    has err "kedge import: long.log: no line of Paddle's allocator says Alloc or Free, only lines of growth (1): GLOG_v=10 is needed"
    [ ! -e none.kcap ] || fail "a capture of nothing was left"
    expect 2 "$kedge" import nowhere.log -o none.kcap
    has err "nowhere.log: No such file"
    expect 2 "$kedge" import odd.log
    has err "-o FILE"
    expect 2 "$kedge" import odd.log -o none.kcap --from padle
    has err "did you mean paddle?"
    expect 2 "$kedge" import odd.log -o none.kcap --anchors '{}'
    has err "--anchors '{}': it has to begin with two letters"
    expect 2 "$kedge" import odd.log -o /dev/null
    has err "a capture can only be written to a file"
    mkfifo pipe
    cat odd.log >pipe &
    expect 2 "$kedge" import pipe -o none.kcap
    has err "--from has to say what comes"
    wait
    cat odd.log >pipe &
    expect 0 "$kedge" import pipe --from paddle -o pipe.kcap
    wait
    has out "1 allocation, 1 free,"
    # An old capture stays where the new one fails.
    cp odd.kcap kept.kcap
    expect 2 "$kedge" import none.log -o kept.kcap
    cmp odd.kcap kept.kcap || fail "a failure replaced the capture"
    ;;
torch)
    # Two devices; blocks from before, one of them freed in the trace; an annotation; memory runs out.
    cat >snapshot.py <<'PY'
(lambda py, cpp: {
    "segments": [
        {"device": 0, "address": 4096, "total_size": 2097152, "stream": 0, "blocks": [
            {"address": 4096, "size": 1024, "requested_size": 1000, "state": "active_allocated", "frames": [py]},
            {"address": 5120, "size": 512, "requested_size": 400, "state": "active_allocated", "frames": [cpp, py]},
            {"address": 5632, "size": 512, "requested_size": 9, "state": "active_pending_free", "frames": []},
            {"address": 6144, "size": 2091008, "requested_size": 0, "state": "inactive", "frames": []}]},
        {"device": 1, "address": 1 << 40, "total_size": 1048576, "stream": 7, "blocks": []}],
    "device_traces": [
        [{"action": "free_requested", "addr": 8192, "size": 300, "stream": 0, "time_us": 1000, "frames": []},
         {"action": "free_completed", "addr": 8192, "size": 300, "stream": 0, "time_us": 1001, "frames": []},
         {"action": "segment_free", "addr": 8192, "size": 4194304, "stream": 0, "time_us": 1002, "frames": []},
         {"action": "alloc", "addr": 5120, "size": 400, "stream": 7, "time_us": 1004, "frames": [cpp, py]},
         {"action": "oom", "device_free": 123456, "size": 1 << 30, "stream": 0, "time_us": 1007, "frames": [py]},
         {"action": "dance", "time_us": 1008}, 5],
        [{"action": "segment_alloc", "addr": 1 << 40, "size": 1048576, "stream": 7, "time_us": 1003, "frames": []},
         {"action": "alloc", "addr": 1 << 40, "size": 700, "stream": 7, "time_us": 1005, "frames": [py]},
         {"action": "free_requested", "addr": 1 << 40, "size": 700, "stream": 7, "time_us": 1006, "frames": []}]],
    "external_annotations": [
        {"stage": "START", "name": "step", "device": 0, "time_us": 1004},
        {"stage": "END", "name": "step", "device": 0, "time_us": 1005}],
    "allocator_settings": {"rate": 0.5, "on": True, "conf": "", "none": None, "pair": (1, 2)}})(
    {"name": "forward", "filename": "/home/me/model.py", "line": 14},
    {"name": "at::empty(int)", "filename": "??", "line": 0})
PY
    for protocol in 2 3 4 5; do
        pickle snapshot.pickle $protocol <snapshot.py
        expect 0 "$kedge" import snapshot.pickle -o $protocol.kcap
        has out "PyTorch snapshot: 2 allocations, 2 frees, 1 anchor, peak live 2.05 KiB"
        has out "2 blocks lived before it begins"
        # One record has no action: it is none.
        has out "1 of its records make no sense"
    done
    cmp 2.kcap 5.kcap || fail "the protocol is in the capture"
    figures 4.kcap
    json "(j['max_bytes'], j['remaining_bytes']) == (1000 + 400 + 700, 1400)"
    json "j['peak_reserved_bytes'] == 2097152 + 4194304"
    json "[(r['bytes'], [f['function'] for f in r['stack']]) for r in j['live']] == [(1000, ['forward']), (400, ['at::empty(int)', 'forward'])]"
    json "j['live'][0]['stack'][0] == {'function': 'forward', 'file': '/home/me/model.py', 'line': 14, 'module': '', 'python': True}"
    json "'python' not in j['live'][1]['stack'][0] and j['live'][1]['stack'][0]['file'] is None"
    json "any('1 records of the snapshot' in n for n in j['notes']) and any('1.27 KiB' in n for n in j['notes'])"
    # A stack has the program's frames, and a count of the others.
    expect 0 "$kedge" report 4.kcap --view live
    has out "+ 1 frame"
    hasnt out "at::empty(int)"
    expect 0 "$kedge" report 4.kcap --view live --native
    has out "at::empty(int)"
    hasnt out "+ 1 frame"
    # Of a window nothing is known where a record is missing, wherever it was.
    figures 4.kcap --from step --to step
    json "not j['complete'] and j['allocated_bytes'] is None"
    sed 's/, 5\]/]/' snapshot.py | pickle whole.pickle
    expect 0 "$kedge" import whole.pickle -o whole.kcap
    figures whole.kcap --from step --to step
    json "(j['allocated_bytes'], j['allocated_count'], j['freed_count']) == (1100, 2, 0)"
    # Two blocks of one line in one granule keep the rest of it; a part of a run tells nothing.
    expect 0 "$kedge" report whole.kcap --view fragments --json
    json "[(r['title'], r['granules'], r['kept_bytes']) for r in j['fragments']['rows']] == [('forward model.py:14', 1, (2 << 20) - 1400)]"
    json "(j['fragments']['live_bytes'], j['fragments']['granules'], j['fragments']['kept_bytes']) == (1400, 1, (2 << 20) - 1400)"
    expect 0 "$kedge" report whole.kcap --view fragments
    has out "2.00 MiB       1 granule   forward model.py:14"
    expect 0 "$kedge" report 4.kcap --view fragments
    has out "not known: "
    expect 0 "$kedge" report 4.kcap --view oom --json
    json "[(o['requested_bytes'], o['free_bytes']) for o in j['ooms']] == [(1 << 30, 123456)]"
    expect 0 "$kedge" report 4.kcap --view streams
    ;;
pickles)
    # Nothing is executed, and each refusal has its byte.
    python3 - <<'PY'
import pickle
class Evil:
    def __reduce__(self):
        return __import__("os").system, ("touch executed",)
for protocol in range(2, 6):
    pickle.dump({"segments": [Evil()], "device_traces": []}, open(f"evil{protocol}.pickle", "wb"), protocol)
pickle.dump([1, 2], open("list.pickle", "wb"), 4)
pickle.dump({"device_traces": []}, open("half.pickle", "wb"), 4)
pickle.dump({"segments": [{"device": 1000}], "device_traces": []}, open("far.pickle", "wb"), 4)
pickle.dump({"segments": 7, "device_traces": {"a": "b"}}, open("odd.pickle", "wb"), 4)
deep = {"segments": [], "device_traces": []}
deep["segments"].append(deep)
deep["device_traces"].append(deep["device_traces"])
pickle.dump(deep, open("deep.pickle", "wb"), 4)
whole = pickle.dumps({"segments": [], "device_traces": [[]] * 3}, 4)
open("cut.pickle", "wb").write(whole[:-4])
PY
    for protocol in 2 3 4 5; do
        expect 2 "$kedge" import evil$protocol.pickle -o evil.kcap
        one_line
        grep -qE "evil$protocol.pickle: byte [0-9]+: (STACK_)?GLOBAL makes something else than numbers" err || fail "$(cat err)"
    done
    [ ! -e executed ] || fail "a pickle was executed"
    for name in list half; do
        expect 2 "$kedge" import $name.pickle -o none.kcap
        has err "neither a dict with 'segments' and 'device_traces', as torch.cuda.memory._dump_snapshot writes it, nor a list of segments"
    done
    expect 2 "$kedge" import far.pickle -o none.kcap
    has err "a segment is on a device beyond 63"
    timeout 20 "$kedge" import /dev/zero --from torch -o none.kcap 2>err || [ $? = 2 ] || fail "/dev/zero: $(cat err)"
    has err "/dev/zero: byte 0: no pickle"
    expect 2 "$kedge" import cut.pickle -o none.kcap
    has err "cut.pickle: byte $(stat -c %s cut.pickle): the pickle ends here, in the middle"
    [ ! -e none.kcap ] || fail "a capture of a damaged pickle was left"
    for name in odd deep; do
        timeout 20 "$kedge" import $name.pickle -o $name.kcap >out 2>err || fail "$name: $(cat err)"
        expect 0 "$kedge" report $name.kcap
    done
    ;;
rows)
    # The figures of a csv and of a log of RMM are those that they have without an import.
    printf 'op,id,size,stream,time_us\na,0,2000,0,-1\na,1,4096,0,10\na,2,100,9,11\nf,1,4096,0,12\na,1,8192,9,13\nf,0,2000,0,14\n' >a.csv
    printf 'Thread,Time,Action,Pointer,Size,Stream\n1,10:00:00.1,allocate,0x7f10,4096,0x2\n2,10:00:00.2,allocate,0x9f10,100,0x0\n1,10:00:00.3,allocate failure,0x0,99999,0x2\n1,10:00:00.4,free,0x7f10,4096,0x2\n1,10:00:00.5,allocate,0x7f10,50,0x2\n' >b.csv
    for name in a b; do
        expect 0 "$kedge" import $name.csv -o $name.kcap
        for file in $name.csv $name.kcap; do
            expect 0 "$kedge" whatif $file --policy all --json
            grep -v '"trace"\|"file"\|"capture"' out >$file.answer
        done
        cmp $name.csv.answer $name.kcap.answer || fail "$(diff $name.csv.answer $name.kcap.answer | head -20)"
        expect 0 "$kedge" report $name.kcap
        has out "Peak reserved: not known"
        expect 2 "$kedge" check $name.kcap 'reserved<1GiB' 'peak<1GiB'
        has out "not known: the record that was imported does not say"
    done
    figures a.kcap
    json "(j['max_bytes'], j['remaining_bytes'], j['allocated_count'], j['freed_count']) == (10292, 8292, 4, 2)"
    figures b.kcap
    json "(j['max_bytes'], j['allocated_count']) == (4196, 3) and any('1 allocations failed' in n for n in j['notes'])"
    printf 'op,id,size,stream,time_us\na,1,4096,0,10\nf,2,1,0,11\n' >wrong.csv
    expect 2 "$kedge" import wrong.csv -o wrong.kcap
    one_line
    has err "wrong.csv:3:3:"
    [ ! -e wrong.kcap ] || fail "a capture of a wrong csv was left"
    ;;
inside)
    # A text without an end of its own before a line, two lines in one, one inside another; what a launcher or a terminal adds.
    {
        want 1000 1024; alloc 1024 0x7f0000000000; want 300 512; alloc 512 0x7f0000000400
        echo "START step"; want 100 256; alloc 256 0x7f0000000600; free 256 0x7f0000000600; echo "END step"
        free 512 0x7f0000000400
    } >plain.log
    expect 0 "$kedge" import plain.log -o plain.kcap
    has out "3 allocations, 2 frees, 1 anchor, peak live 1.37 KiB"
    awk '/Free/ {printf "\rEpoch 1:  50%%|#####     | 5/10 [00:01<00:01]"} {print}' plain.log >glued.log
    awk '/Free 512/ {printf "1: loss 0.5 "} {print}' plain.log >number.log
    awk '/Alloc / && !/512/ {printf "%s", $0; next} {print}' plain.log >joined.log
    sed 's/^/[1,0]<stderr>:/' plain.log >mpi.log
    sed 's/^/12: /' plain.log >srun.log
    sed 's/^/[default3]:/' plain.log >torchrun.log
    sed 's/^/2026-07-21T08:12:01.215407123Z /' plain.log >times.log
    sed 's/^/[pod\/train-0\/main] 2026-07-21T08:12:01.215407123+00:00 /' plain.log >pod.log
    sed 's/.*/\x1b[0;32m&\x1b[m/' plain.log >colour.log
    sed 's/$/\r/' plain.log >terminal.log
    for name in glued number joined mpi srun torchrun times pod colour terminal; do
        expect 0 "$kedge" import $name.log -o $name.kcap
        has out "3 allocations, 2 frees, 1 anchor, peak live 1.37 KiB"
        hasnt out "make no sense"
        cmp <("$kedge" report $name.kcap --from step --to step --json | sed 1,/capture/d | grep -v imported_file) \
            <("$kedge" report plain.kcap --from step --to step --json | sed 1,/capture/d | grep -v imported_file) || fail "$name.log"
    done
    # A line whose head is lost is counted, and so is one that another line cut off.
    sed -e 's/^.*\] Free 512/of 512: auto_growth_best_fit_allocator.cc:187] Free 512/' plain.log >headless.log
    awk '/Free 256/ {printf "%s", substr($0, 1, 80)} {print}' plain.log >inner.log
    awk '/Free 256/ {printf "%s", $0; next} {print}' plain.log >behind.log
    for name in behind headless inner; do
        expect 0 "$kedge" import $name.log -o $name.kcap
        has out "1 of its records make no sense and are left out"
        one_line
    done
    has out "3 allocations, 2 frees"
    ;;
processes)
    # Addresses of one process are not those of another one: by what a launcher says, or where threads have one address at a time.
    {
        alloc 1024 0x7f0000000000 100; alloc 1024 0x7f0000000000 200; alloc 4096 0x7f0000010000 200; alloc 2048 0x7f0000010000 100
        free 1024 0x7f0000000000 200; free 2048 0x7f0000010000 100
    } >two.log
    expect 0 "$kedge" import two.log -o two.kcap
    has out "4 allocations, 2 frees, 0 anchors, peak live 8.00 KiB"
    has out "2 blocks lay at an address that was live elsewhere, on another device or in another process; all are counted"
    figures two.kcap
    json "any('two processes or more wrote this log: an address is live twice, of threads that' in n for n in j['notes'])"
    json "(j['max_bytes'], j['remaining_bytes'], j['freed_bytes'], j['complete']) == (8192, 5120, 3072, True)"
    # Each has figures of its own, as a device.
    peaks() { json "[(h['device'], h['peak_live_bytes']) for h in j['device_peaks']] == $1"; }
    peaks "[(0, 3072), (1, 5120)]"
    json "any(n == 'device 1 is what thread 200 wrote' for n in j['notes']) and not any('may be of one' in n for n in j['notes'])"
    expect 0 "$kedge" import two.log -o two.kcap --json
    json "j['processes'] == [{'device': 0, 'name': 'thread 100', 'peak_live_bytes': 3072, 'live_bytes': 1024}, {'device': 1, 'name': 'thread 200', 'peak_live_bytes': 5120, 'live_bytes': 4096}]"
    keys_stand_in import
    # Through a pipe it cannot be read twice.
    mkfifo pipe; cat two.log >pipe & expect 0 "$kedge" import --from paddle pipe -o pipe.kcap
    figures pipe.kcap
    json "j['max_bytes'] == 8192 and any('no regular file: the figures are those of all of them together' in n for n in j['notes'])"
    peaks "[(0, 8192)]"
    # One number of a thread on two machines.
    { sed -n 's/  100 / 4711 /p' two.log | sed 's/^/0: /'; sed -n 's/  200 / 4711 /p' two.log | sed 's/^/1: /'; } | sort -k3 >ranks.log
    expect 0 "$kedge" import ranks.log -o ranks.kcap
    has out "4 allocations, 2 frees, 0 anchors, peak live 8.00 KiB"
    figures ranks.kcap
    json "any('2 processes wrote this log, by what a launcher put before its lines' in n for n in j['notes'])"
    peaks "[(0, 3072), (1, 5120)]"
    # The rank is the device, whoever writes first and whatever the launcher; what each holds, lacks and has from before is its own.
    {
        glog $auto:166 "Not found and reallocate 8192(0x7f0000000000), and remaining 0" 9 | sed 's/^/[1,3]<stderr>:/'
        alloc 1024 0x7f0000000000 9 | sed 's/^/[1,3]<stderr>:/'
        free 700 0x7f00000a0000 9 | sed 's/^/[1,3]<stderr>:/'; free 600 0x7f00000a0000 9 | sed 's/^/[1,1]<stderr>:/'
        glog $auto:166 "Not found and reallocate 4096(0x7f0000000000), and remaining 0" 9 | sed 's/^/[1,1]<stderr>:/'
        alloc 2048 0x7f0000000000 9 | sed 's/^/[1,1]<stderr>:/'
        glog stream_safe_cuda_allocator.cc:195 "Allocation failed when allocating 9999 bytes" 9 | sed 's/^/[1,1]<stderr>:/'
        glog stream_safe_cuda_allocator.cc:200 "Still allocation failed after release memory from all streams" 9 | sed 's/^/[1,1]<stderr>:/'
    } >mpi.log
    expect 0 "$kedge" import mpi.log -o mpi.kcap --json
    json "[(p['device'], p['name'], p['peak_live_bytes'], p['live_bytes']) for p in j['processes']] == [(3, '[1,3]', 1724, 1024), (1, '[1,1]', 2048, 2048)]"
    json "j['before_count'] == 2 and j['oom_count'] == 1"
    figures mpi.kcap
    json "j['peak_reserved_bytes'] == 12288 and [o['device'] for o in j['ooms']] == [1]"
    sed -e 's/^.1,\([13]\)[^:]*:/[default\1]:/' mpi.log >torchrun.log
    expect 0 "$kedge" import torchrun.log -o torchrun.kcap
    has out "device 3, [default3]: peak live 1.68 KiB, 1.00 KiB live at the end"
    # Pods have names, and of two with one rank the order decides.
    sed -e 's/^.1,\([13]\)[^:]*:/[pod\/train-\1\/main] /' mpi.log >pods.log
    expect 0 "$kedge" import pods.log -o pods.kcap
    has out "device 0, [pod/train-3/main]: peak live 1.68 KiB"
    has out "device 1, [pod/train-1/main]: peak live 2.00 KiB"
    # A launcher within a launcher: two pods with a rank 0 each.
    sed -e 's/^.1,\([13]\)[^:]*:/[pod\/train-\1\/main] 2026-07-21T08:12:01.2154Z [default0]:/' mpi.log >nested.log
    expect 0 "$kedge" import nested.log -o nested.kcap
    has out "device 0, [pod/train-3/main] [default0]: peak live 1.68 KiB"
    has out "device 1, [pod/train-1/main] [default0]: peak live 2.00 KiB"
    # A third thread has met neither of the two: whose it is nobody knows.
    { cat two.log; alloc 512 0x7f0000770000 300; } >third.log
    expect 0 "$kedge" import third.log -o third.kcap
    has out "device 2, thread 300: peak live 512.00 B"
    figures third.kcap
    json "any('some of them may be of one process' in n for n in j['notes']) and j['max_bytes'] == 8192"
    # It frees what the second has allocated: then it is of that process.
    { sed '/Free 1024/d' two.log; free 1024 0x7f0000000000 300; alloc 512 0x7f0000770000 300; free 4096 0x7f0000010000 300; } >third.log
    expect 0 "$kedge" import third.log -o third.kcap
    hasnt out "device 2"
    has out "device 1, thread 200: peak live"
    # Threads of one process: what one allocated the other frees, so that an address that comes again was freed meanwhile.
    { alloc 1024 0x7f0000000000 100; free 1024 0x7f0000000000 200; alloc 1024 0x7f0000000000 100; alloc 1024 0x7f0000000000 200; } >one.log
    expect 0 "$kedge" import one.log -o one.kcap
    has out "3 allocations, 1 free, 0 anchors, peak live 1.00 KiB"
    hasnt out "elsewhere"
    ;;
quiet)
    { glog $auto:178 "Not found and reallocate 4194304, and remaining 0"; glog $auto:234 "Free chunk with size 4194304"; } >growth.log
    glog stream_safe_cuda_allocator.cc:187 "Try allocate 4194304 bytes" >safe.log
    glog cuda_malloc_async_allocator.cc:331 "Allocate 0x7f2c40000000 with allocator 0x55" >async.log
    for name in growth safe async; do expect 2 "$kedge" import $name.log -o none.kcap; one_line; cat err >>told; done
    has told "growth.log: no line of Paddle's allocator says Alloc or Free, only lines of growth (2): GLOG_v=10 is needed"
    has told "safe.log: no line of Paddle's allocator says Alloc or Free, other lines of it are there (1): GLOG_v=10 is needed"
    has told "async.log: lines of other allocators alone (1, cuda_malloc_async_allocator.cc), which are not read: FLAGS_allocator_strategy=auto_growth"
    { alloc 512 0x10; cat async.log; } >both.log
    expect 0 "$kedge" import both.log -o both.kcap
    figures both.kcap
    json "any(n == 'lines of other allocators are not read: 1, of cuda_malloc_async_allocator.cc first' for n in j['notes'])"
    ;;
year)
    # day DATE TIME: a block; its time in the capture is that since the first one
    day() { printf 'I%s %s.000000  4711 %s:178] Alloc 512 bytes, ptr = 0x%x\n' "$1" "$2" $auto $((second++ * 512 + 512)); }
    hours() { # DATE ... : a block at noon of each; hours from the first to each
        for date in "$@"; do day "$date" 12:00:00; done >days.log
        expect 0 "$kedge" import days.log -o days.kcap
        expect 0 "$kedge" export days.kcap --to csv -o - --force
        awk -F, 'NR > 1 {printf "%s%d", (NR > 2 ? " " : ""), $5 / 3600e6}' out
    }
    for row in "1231 0101:0 24" "0630 0701:0 24" "0228 0229 0301:0 24 48" "0228 0301:0 24" "0229 0301 1231 0101:0 24 7344 7368" \
        "1231 0101 1231 0102:0 24 24 48" "20231231 20240101:0 24" "20240228 20240301:0 48"; do
        got=$(hours ${row%%:*})
        [ "$got" = "${row#*:}" ] || fail "${row%%:*}: $got, not ${row#*:}"
    done
    ;;
parts)
    # Frees that are only completed; the same address on two devices; segments alone, in a list or without a trace; stacks in history.
    python3 - <<'PY'
import pickle
def dump(name, value):
    pickle.dump(value, open(name + ".pickle", "wb"), 4)
def event(action, addr, size, time):
    return {"action": action, "addr": addr, "size": size, "stream": 0, "time_us": time, "frames": []}
frames = [{"name": "forward", "filename": "/home/me/model.py", "line": 14}]
segment = {"device": 0, "address": 4096, "total_size": 2097152, "stream": 0, "blocks": [
    {"address": 4096, "size": 1024, "requested_size": 1000, "state": "active_allocated", "frames": frames},
    {"address": 5120, "size": 2096128, "requested_size": 0, "state": "inactive", "frames": []}]}
old = {"device": 0, "address": 4096, "total_size": 2097152, "stream": 0, "blocks": [
    {"size": 1024, "state": "active_allocated", "history": [{"addr": 4096, "real_size": 1000, "frames": frames}]},
    {"size": 2096128, "state": "inactive", "history": [{"addr": 5120, "real_size": 7, "frames": []}]}]}
empty = dict(segment, blocks=[])
dump("completed", {"segments": [empty], "device_traces": [
    [e for i in range(8) for e in (event("alloc", 4096 + 512 * i, 512, 10 * i), event("free_completed", 4096 + 512 * i, 512, 10 * i + 5))]
    + [event("free_completed", 1 << 20, 3000, 99)]]})
dump("pending", {"segments": [empty], "device_traces": [
    [event("free_completed", 8192, 300, 1), event("alloc", 4096, 512, 2), event("free_requested", 4096, 512, 3),
     event("free_completed", 4096, 512, 4), event("alloc", 4096, 700, 5), event("free_completed", 4096, 700, 6)]]})
dump("devices", {"segments": [empty, dict(segment, device=1)], "device_traces": [
    [event("alloc", 4096, 512, 1), event("alloc", 8192, 100, 3), event("free_requested", 4096, 512, 5)],
    [event("alloc", 8192, 2048, 2), event("free_requested", 8192, 2048, 4)]]})
dump("twice", {"segments": [empty], "device_traces": [
    [event("alloc", 4096, 512, 1), event("free_requested", 4096, 512, 2), event("free_requested", 4096, 512, 3)]]})
dump("list", [segment])
dump("end", {"segments": [segment]})
dump("old", {"segments": [old], "device_traces": [[]]})
dump("older", {"segments": [old]})
dump("odd", {"segments": [segment, 5, {"device": 0, "blocks": [{"state": "active_allocated"}, 6]}], "device_traces": [[], 7]})
PY
    expect 0 "$kedge" import completed.pickle -o completed.kcap
    has out "8 allocations, 9 frees, 0 anchors, peak live 3.43 KiB"
    figures completed.kcap
    json "(j['remaining_bytes'], j['freed_bytes'], j['max_bytes']) == (0, 8 * 512 + 3000, 512 + 3000)"
    expect 0 "$kedge" import pending.pickle -o pending.kcap
    has out "2 allocations, 2 frees, 0 anchors, peak live 700.00 B"
    hasnt out "before"
    expect 0 "$kedge" import twice.pickle -o twice.kcap
    has out "1 allocation, 1 free,"
    has out "1 of its records make no sense"
    expect 0 "$kedge" import devices.pickle -o devices.kcap
    has out "3 allocations, 2 frees, 0 anchors, peak live 3.57 KiB"
    has out "2 blocks lay at an address that was live elsewhere"
    figures devices.kcap
    json "(j['max_bytes'], j['remaining_bytes'], j['freed_bytes']) == (1000 + 512 + 2048 + 100, 1100, 2560)"
    for name in list end old older; do
        expect 0 "$kedge" import $name.pickle -o $name.kcap
        has out "0 allocations, 0 frees, 0 anchors, peak live 1000.00 B"
        figures $name.kcap
        json "(j['peak_reserved_bytes'], [(r['bytes'], r['stack'][0]['function']) for r in j['live']]) == (2097152, [(1000, 'forward')])"
        json "any('does not say what happened' in n for n in j['notes']) == ('$name' != 'old')"
    done
    expect 0 "$kedge" import odd.pickle -o odd.kcap
    has out "4 of its records make no sense"
    ;;
rmm)
    head=Thread,Time,Action,Pointer,Size,Stream
    rows='1,10:00:00.1,allocate,0x7f10,4096,0x2
1,10:00:00.2,allocate,0x9f10,1024,0x2
1,10:00:00.3,free,0x7f10,4096,0x2'
    # imported NAME WANTED: with --from rmm
    imported() { expect 0 "$kedge" import --from rmm "$1" -o out.kcap; has out "RMM log: 2 allocations, 1 free, 0 anchors, peak live 5.00 KiB"; }
    echo "$rows" >bare.csv
    printf '%s\n' "24/05/01 14:21:19 INFO Executor: Running task" "$head" "$rows" "24/05/01 14:21:20 WARN X: spilled" "$head" >spark.csv
    printf '%s\n' "$head" "$rows" "1,10:00:00.4,allocate,0x0,0,0x2" "1,10:00:00.4,free,0x0,0,0x2" >nothing.csv
    for name in bare spark nothing; do
        imported $name.csv
        hasnt out "make no sense"
        figures out.kcap
        json "j['complete'] and any('no rows of RMM are passed over: 2' in n for n in j['notes']) == ('$name' == 'spark')"
    done
    expect 0 "$kedge" whatif nothing.csv --policy kedge
    # Rows that make no sense: the first with its place, and the capture is without them.
    printf '%s\n' "$head" "1,10:00:00.0,allocate,x,1,0x2" "$rows" "1,10:00:00.4,free,0x33,1,0x2" "1,10" "1,1,allocate,0x9f10,5,0x2" >odd.csv
    expect 0 "$kedge" import odd.csv -o odd.kcap
    one_line
    has err "kedge import: odd.csv:2:23: Pointer must be a hexadecimal number"
    has out "4 of its records make no sense and are left out"
    figures odd.kcap
    json "not j['complete'] and j['lost']['events_dropped'] == 4"
    # A process that died while it wrote: what is there counts.
    for tail in "1,10:00:00.661875" "1,10" "1,10:00:00.4,free,0x9f10,10"; do
        printf '%s\n%s\n%s' "$head" "$rows" "$tail" >cut.csv
        imported cut.csv
        expect 0 "$kedge" report out.kcap
        has out "the last row of the file is cut off, and passed over"
    done
    printf '%s\n%s' "$head" "$rows" >whole.csv
    imported whole.csv
    hasnt out "cut off"
    # What failed, when, and of which size.
    printf '%s\n' "$head" "$rows" "1,10:00:00.4,allocate failure,0x0,8589934592,0x2" "1,10:00:00.5,allocate failure,,77,0x0" >fail.csv
    imported fail.csv
    has out "2 allocations failed"
    expect 0 "$kedge" report out.kcap --view oom --json
    json "[(o['requested_bytes'], o['live_bytes']) for o in j['ooms']] == [(8 << 30, 1024), (77, 1024)]"
    echo hello >none.csv
    expect 2 "$kedge" import --from rmm none.csv -o none.kcap
    has err "none.csv:2:1: no row of RMM is in it"
    ;;
boxes)
    # named FILE WORDS: the file is refused in one line that says what it is
    named() { expect 2 "$kedge" import "$1" -o none.kcap; one_line; has err "kedge import: $1: $2"; }
    python3 - <<'PY'
import gzip, json, pickle, sqlite3, zipfile
snapshot = {"segments": [], "device_traces": []}
for protocol in 0, 1:
    pickle.dump(snapshot, open(f"p{protocol}.pickle", "wb"), protocol)
    pickle.dump([snapshot], open(f"l{protocol}.pickle", "wb"), protocol)
gzip.open("s.pickle.gz", "wb").write(pickle.dumps(snapshot, 4))
zipfile.ZipFile("s.pt", "w").writestr("s/data.pkl", pickle.dumps(snapshot, 2))
json.dump(snapshot, open("s.json", "w"))
sqlite3.connect("s.db").execute("create table t(a)")
PY
    for name in p0 p1 l0 l1; do named $name.pickle "a pickle of protocol 0 or 1, protocols 2 to 5 are read: write the snapshot with pickle.dump(snapshot, file)"; done
    named s.pickle.gz "it is compressed: unpack it with gunzip first"
    named s.pt "it is a zip archive, as torch.save writes one: a snapshot of PyTorch is imported as the pickle that torch.cuda.memory._dump_snapshot writes"
    named s.json "it looks like JSON, which is not read"
    named s.db "it is a database of SQLite"
    expect 2 "$kedge" import s.json --from torch -o none.kcap
    has err "it looks like JSON"
    { want 100 256; alloc 256 0x20; } >log
    expect 0 "$kedge" import log -o log.kcap
    named log.kcap "a capture without a record of PyTorch's tensors in it"
    # A log may begin like JSON.
    { echo '{"lr": 0.1}'; cat log; } >json.log
    expect 0 "$kedge" import json.log -o json.kcap
    echo "1,10:00:00.1,allocate,0x7f10,4096,0x2" >bare.csv
    named bare.csv "rows of RMM without their first line (Thread,Time,Action,Pointer,Size,Stream) are read with --from rmm"
    [ ! -e none.kcap ] || fail "a capture was left"
    ;;
*)
    fail "no part $1"
    ;;
esac
