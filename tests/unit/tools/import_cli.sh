#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
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
    expect 2 "$kedge" plan tail.kcap
    has err "kedge plan: tail.kcap: $lacks"
    expect 2 "$kedge" diff tail.kcap tail.kcap --fail-on default
    has err "kedge diff: --fail-on late>0: $lacks"
    hasnt err "KEDGE_TRACE"
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
    for file in none empty zero long; do
        expect 2 "$kedge" import $file.log -o none.kcap
        one_line
        has err "kedge import: $file.log: nothing in it is known"
    done
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
    figures 4.kcap --from step --to step
    json "(j['allocated_bytes'], j['allocated_count'], j['freed_count']) == (1100, 2, 0)"
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
pickle.dump({"segments": []}, open("half.pickle", "wb"), 4)
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
        has err "no dict with 'segments' and 'device_traces'"
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
*)
    fail "no part $1"
    ;;
esac
