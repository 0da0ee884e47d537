#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# covers: mark.c runlook.c cmd_run.c relay.c tree.c
# Drives `kedge` with libkedge.so and the simulated device. $1 says which part.
. "$(dirname "$0")/../check.sh"
build=$TEST_BUILD
kedge=$build/kedge
replay=$build/tests/bench/kedge-replay
sot=$build/trainers/sot
for part in libkedge.so sim/libcuda.so.1 sim/libcudart.so.13 trainers/sot; do
    [ -e "$build/$part" ] || { echo "SKIP: no $part in this build"; exit 77; }
done
small() { # name, form, more for kedge run...
    local name=$1 form=$2
    shift 2
    expect 0 "$kedge" run --sim --capture "$name.kcap" "$@" -- "$sot" --form "$form" --graph small
    grep checksum out >"$name.sum"
}
record() { # name, trace mode, program and its words
    local name=$1 mode=$2
    shift 2
    KEDGE_TRACE=$mode expect 0 "$kedge" run --sim --capture "$name.kcap" -- "$@"
}
unseen="no process with libkedge.so in it loaded CUDA (1 had it); one that was started with LD_PRELOAD cleared or replaced (env -i, sudo, a container) is not seen"
window="--from SOT_CALL_0 --to SOT_CALL_0"

case "$1" in
run)
    expect 7 "$kedge" run -- sh -c 'exit 7'
    expect 143 "$kedge" run -- sh -c 'kill -TERM $$'
    expect 127 "$kedge" run -- ./nowhere
    has err "nowhere: No such file"
    expect 127 "$kedge" run -- no-such-program-here
    touch plain
    expect 126 "$kedge" run -- ./plain
    has err "plain: Permission denied"
    expect 126 "$kedge" run -- /
    # As env has it: what is found in PATH and may not be run, and what cannot be started after all.
    mkdir bin bin/folder && touch bin/plain-there
    PATH=$PWD/bin:$PATH expect 126 "$kedge" run -- plain-there
    PATH=$PWD/bin:$PATH expect 126 "$kedge" run -- folder
    expect 127 "$kedge" run -- ''
    printf '#!/no/such/interpreter\n' >script && chmod +x script
    expect 127 "$kedge" run -- ./script
    # What is no capture is not removed for one, and nothing is for a program that is not there.
    echo precious >train.py
    expect 2 "$kedge" run --capture train.py -- true
    has err "train.py is there and is no capture"
    touch kept.kcap
    expect 127 "$kedge" run --capture kept.kcap -- ./nowhere
    [ -e kept.kcap ] && [ "$(cat train.py)" = precious ] || fail "a file is gone"
    expect 2 "$kedge" run
    expect 0 "$kedge" run --sim --capture a.kcap -- "$build/trainers/loop" --steps 2
    # No CUDA in it: no capture, and the old one stays, which is said.
    expect 0 "$kedge" run --capture a.kcap -- env
    has out "KEDGE_CAPTURE=$PWD/a.kcap"
    has out "LD_PRELOAD=$build/libkedge.so"
    [ -e a.kcap ] || fail "the old capture is gone"
    has err "no capture: $unseen"
    has err "a.kcap is an earlier run's"
    KEDGE_SIM=/nowhere expect 77 "$kedge" run --sim -- true
    has err "no simulated device in /nowhere"
    expect 2 "$kedge" run --mode fast -- true
    expect 2 "$kedge" run --hints-mode foo -- true
    has err "--hints-mode foo: off|shadow|poison|trap|live|trial"
    expect 2 "$kedge" run --trace foo -- true
    has err "--trace foo: agg|ring|full|off"
    expect 0 "$kedge" run --trace full,uses=off --hints-mode shadow -- true
    expect 2 "$kedge" run --api async -- true
    expect 2 "$kedge" run --hints nowhere.yaml -- true
    # The words behind the program are the program's.
    expect 0 "$kedge" run -- echo --json --help
    has out "--json --help"
    ;;
none)
    # Why there is no capture: each cause in one line, and what is only known in part as what was seen.
    program=$build/trainers/loop
    init=$build/tests/regress/init_program
    none() { ended=$(grep -c '^kedge run: ' err); has err "kedge run: no capture: $1"; [ "$ended" = 1 ] || fail "$(cat err)"; }
    kedge_run() { expect "$1" "$kedge" run --sim --capture none.kcap -- "${@:2}"; }
    became() { echo "$1 with libkedge.so became another program without it (LD_PRELOAD cleared or replaced: env -i, a wrapper), or was killed; none loaded CUDA"; }
    kedge_run 0 env -i "LD_LIBRARY_PATH=$build/sim" "$program" --steps 2
    none "$(became "1 of 1 process")"
    kedge_run 0 env "LD_PRELOAD=$(ls "$build"/sim/libcudart.so.1? | head -1)" "$program" --steps 2
    none "$(became "1 of 1 process")"
    kedge_run 0 bash -c "env -i LD_LIBRARY_PATH='$build/sim' '$program' --steps 2; exec true"
    none "$(became "1 of 2 processes")"
    # A program that becomes another one with libkedge.so in it is one process, and a child that has it no longer is not seen.
    kedge_run 0 sh -c 'exec bash -c "exec true"'
    none "$unseen"
    kedge_run 0 python3 -Sc "import subprocess; subprocess.run(['$program', '--steps', '2'], env={'LD_LIBRARY_PATH': '$build/sim'}, check=True)"
    has err "no capture: no process with libkedge.so in it loaded CUDA ("
    expect 137 "$kedge" run --capture none.kcap -- sh -c 'kill -9 $$'
    none "no process with libkedge.so in it loaded CUDA before signal 9 ended the program"
    # What the program's file says.
    printf 'int main(void) { return 0; }\n' >static.c
    if gcc -static static.c -o static 2>/dev/null; then
        kedge_run 0 ./static
        none "./static is linked statically, and LD_PRELOAD does not reach it"
    fi
    cp "$(type -P true)" secure
    if [ "$(id -u)" = 0 ] && chown nobody secure && chmod 4755 secure && ! findmnt -no OPTIONS -T . | grep -qw nosuid; then
        kedge_run 0 ./secure
        none "./secure runs with other rights than its caller's (setuid or file capabilities), and LD_PRELOAD does not reach it"
    fi
    # How far a program came with CUDA.
    for code in "100: there is no CUDA device" "999: unknown error" "1"; do
        SIMCUDA_FAIL=cuInit:1:${code%%:*} expect 1 "$kedge" run --sim --capture none.kcap -- "$init"
        none "the driver answered cuInit with error $code"
    done
    kedge_run 0 "$init"
    none "CUDA's driver was loaded and initialised, and no call followed that kedge records"
    kedge_run 0 "$init" load
    none "CUDA's driver was loaded and not initialised, and no call followed that kedge records"
    kedge_run 0 "$init" apart
    none "CUDA's driver was loaded in a namespace of its own (dlmopen), where kedge does not see its calls"
    ;;
ranks)
    # What launchers of processes do, in a few lines: each process has its rank in one variable or another.
    cat >launcher <<'END'
#!/bin/bash
for rank in 0 1 2; do env "$1=$rank" "${@:2}" & done
wait
END
    chmod +x launcher
    program=$build/trainers/loop
    for variable in RANK SLURM_PROCID; do
        rm -f ./*.kcap*
        expect 0 "$kedge" run --sim --capture x.kcap -- ./launcher $variable "$program" --steps 2
        has err ", one of 3; next: kedge ranks x.kcap x.kcap.1 x.kcap.2"
        # Two processes a rank: six captures, and a later run takes away all of them that it does not replace.
        expect 0 "$kedge" run --sim --capture x.kcap -- ./launcher $variable sh -c "'$program' --steps 2; '$program' --steps 2"
        [ "$(ls x.kcap* | wc -l)" = 6 ] || fail "above $variable, two each: $(echo *.kcap*)"
        # What the user has copied stays, whatever number it has.
        cp x.kcap.1 x.kcap.4711
        cp x.kcap.1 x.kcap.1.4711
        expect 0 "$kedge" run --sim --capture x.kcap -- ./launcher $variable "$program" --steps 2
        [ "$(echo x.kcap*)" = "x.kcap x.kcap.1 x.kcap.1.4711 x.kcap.2 x.kcap.4711" ] || fail "above $variable: $(echo *.kcap*)"
        # Each rank starts kedge for itself: none may take away what another one has just begun, and all take away what other
        # processes of their rank wrote in an earlier run.
        expect 0 ./launcher $variable "$kedge" run --sim --capture x.kcap -- sh -c "'$program' --steps 2; '$program' --steps 2"
        expect 0 ./launcher $variable "$kedge" run --sim --capture x.kcap -- "$program" --steps 2
        for name in x.kcap x.kcap.1 x.kcap.2; do has err "kedge run: capture $name; next: kedge report $name"; done
        [ "$(echo x.kcap*)" = "x.kcap x.kcap.1 x.kcap.1.4711 x.kcap.2 x.kcap.4711" ] || fail "below $variable: $(echo *.kcap*)"
        expect 0 "$kedge" report x.kcap.2 --json
        json "j['allocated_count'] > 0"
    done
    rm -f ./*.kcap*
    expect 0 ./launcher RANK "$kedge" run --sim -- "$program" --steps 2
    [ "$(ls | sed -n 's/^kedge-.*-\([0-9]\)-[0-9]*.kcap$/\1/p' | sort | tr -d '\n')" = 012 ] || fail "$(ls)"
    # A variable of that name that is no rank.
    rm -f ./*.kcap*
    RANK=gold expect 0 "$kedge" run --sim --capture x.kcap -- "$program" --steps 2
    [ "$(echo *.kcap*)" = x.kcap ] || fail "$(echo *.kcap*)"
    ;;
names)
    # Whose capture has a name already: it stays while its process lives, and until the next program replaces it (R102).
    program=$build/trainers/loop
    "$kedge" run --sim --capture f.kcap -- "$program" --seconds 6 >first.out 2>first.err &
    first=$!
    until [ -e f.kcap ]; do sleep 0.1; done
    expect 0 "$kedge" run --sim --capture f.kcap -- "$program" --steps 2
    second=$(ls f.kcap.*)
    has err "still writes f.kcap; the capture of this run gets the name f.kcap.PID"
    has err "kedge run: capture $second; next: kedge report $second"
    expect 0 "$kedge" run -q --sim --capture f.kcap -- "$program" --steps 3
    [ "$(ls f.kcap.* | wc -l)" = 2 ] || fail "beside a run: $(echo f.kcap*)"
    wait "$first" || fail "the first run: $?"
    grep -qx "kedge run: capture f.kcap; next: kedge report f.kcap" first.err || fail "$(cat first.err)"
    expect 0 "$kedge" report f.kcap
    has out "loop --seconds 6"
    # What the user puts aside stays, whatever it is called.
    rm -f f.kcap.*
    mv f.kcap f.kcap.1
    cp f.kcap.1 f.kcap.20261128
    expect 0 "$kedge" run --sim --capture f.kcap -- "$program" --steps 2
    cp f.kcap before
    # A program that does not start, one without CUDA and one that is ended before it begins leave the old capture.
    expect 127 "$kedge" run --sim --capture f.kcap -- ./nowhere
    expect 3 "$kedge" run --sim --capture f.kcap -- sh -c 'exit 3'
    SIMCUDA_FAIL=cuInit:1:999 expect 3 "$kedge" run --sim --capture f.kcap -- "$program" --steps 2
    cmp f.kcap before || fail "the old capture is another one"
    # One that was killed is over, and gives way.
    "$kedge" run -q --sim --capture f.kcap -- "$program" --seconds 60 >/dev/null &
    until ! cmp -s f.kcap before; do sleep 0.1; done
    kill -9 $!
    wait || :
    expect 0 "$kedge" run --sim --capture f.kcap -- "$program" --steps 2
    has err "kedge run: capture f.kcap; next"
    [ "$(echo f.kcap*)" = "f.kcap f.kcap.1 f.kcap.20261128" ] || fail "$(echo f.kcap*)"
    ;;
ending)
    # What a run held, where the capture is and what to do next: three lines, and the program's own end.
    program=$build/trainers/loop
    ended() { grep '^kedge run: ' err >lines || :; }
    expect 0 "$kedge" run --sim --capture a.kcap -- "$program" --steps 2
    ended
    expect 0 "$kedge" report a.kcap --json
    python3 - <<'PY' || fail "$(cat lines)"
import json, sys
j, lines = json.load(open("out")), open("lines").read().splitlines()
def size(n):
    units = iter(("B", "KiB", "MiB", "GiB", "TiB"))
    n, unit = float(n), next(units)
    while n >= 1024:
        n, unit = n / 1024, next(units)
    return f"{n:.2f} {unit}"
sys.exit(lines != [f"kedge run: peak live {size(j['peak_live_bytes'])}", f"kedge run: peak reserved {size(j['peak_reserved_bytes'])}",
                   *(f"kedge run: {s}" for s in j["summary"]), "kedge run: capture a.kcap; next: kedge report a.kcap"]
         or len(j["summary"]) != 1)
PY
    expect 0 "$kedge" report a.kcap
    has out "ended     exited with status 0"
    grep -qE '^Peak live: [^ ]+ [KMG]iB   Peak reserved: [^ ]+ [KMG]iB   Utilisation: 0\.[0-9]+$' out || fail "$(cat out)"
    SIMCUDA_MEMORY=8M expect 3 "$kedge" run --sim --api sync --capture oom.kcap -- "$sot" --form pt --graph small
    has err "largest free block"
    hasnt err "(E "
    has err "kedge run: capture oom.kcap; next: kedge report oom.kcap --view oom"
    expect 0 "$kedge" report oom.kcap
    has out "ended     exited with status 3, after running out of memory"
    hasnt out "(E "
    expect 0 "$kedge" run --sim --capture "a b.kcap" -- "$program" --steps 2
    has err "kedge run: capture a b.kcap; next: kedge report 'a b.kcap'"
    expect 0 "$kedge" run -q --sim --capture a.kcap -- "$program" --steps 2
    ! grep '^kedge run: ' err && [ -e a.kcap ] || fail "-q says: $(cat err)"
    # The name that is given without one, and the capture of a program that a script starts.
    expect 3 "$kedge" run --sim -- sh -c "'$program' --steps 2; exit 3"
    ended
    grep -qx "kedge run: capture $(ls kedge-*.kcap); next: kedge report $(ls kedge-*.kcap)" lines || fail "$(cat err)"
    # Each line is one write: ranks that share standard error would mix them otherwise.
    python3 - "$kedge" "$program" <<'PY' || fail "a line in pieces"
import socket, subprocess, sys
here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
subprocess.run([sys.argv[1], "run", "--sim", "--capture", "l.kcap", "--", sys.argv[2], "--steps", "2"], stderr=there, stdout=subprocess.DEVNULL, check=True)
there.close()
here.settimeout(20)
writes = [here.recv(4096) for _ in range(3)]
assert all(w.startswith(b"kedge run: ") and w.endswith(b"\n") for w in writes), writes
PY
    # Several: how many, and the one that held most.
    expect 0 "$kedge" run --sim --capture s.kcap -- sh -c "'$program' --steps 2 & '$sot' --form pt --graph small; wait"
    ended
    grep -qE '^kedge run: capture s\.kcap(\.[0-9]+)?, one of 2; next: kedge report ' lines || fail "$(cat err)"
    # Of other runs in the same place nothing is said.
    expect 0 "$kedge" run --sim --capture s.kcap -- "$program" --steps 2
    ended
    has lines "kedge run: capture s.kcap; next"
    # None, and why.
    expect 4 "$kedge" run --capture none.kcap -- sh -c 'exit 4'
    ended
    [ "$(cat lines)" = "kedge run: no capture: $unseen" ] || fail "$(cat err)"
    expect 0 "$kedge" run --sim --capture none.kcap -- "$kedge" run --sim --capture inner.kcap -- "$program" --steps 2
    has err "kedge run: no capture: the program is kedge: the run that it began has the capture"
    expect 0 "$kedge" run --sim --capture none.kcap -- sh -c 'sleep 20 & exit 0'
    grep -qE '^kedge run: no capture: process [0-9]+ of this run still runs, and has not used CUDA yet$' err || fail "$(cat err)"
    pid=$(sed -n 's/.*process \([0-9]*\) of this.*/\1/p' err)
    kill "$pid"
    # kedge's own descriptors: a folder and a file in it are not open at once.
    expect 0 python3 - "$kedge" run --sim --capture few.kcap -- "$program" --steps 2 <<'PY'
import resource, subprocess, sys
sys.exit(subprocess.run(sys.argv[1:], preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (4, 4))).returncode)
PY
    has err "kedge run: capture few.kcap; next: kedge report few.kcap"
    # Before the program starts.
    expect 2 "$kedge" run --sim --capture nowhere/x.kcap -- touch started
    [ "$(cat err)" = "kedge run: --capture nowhere/x.kcap: No such file or directory" ] && [ ! -e started ] || fail "$(cat err)"
    KEDGE_CAPTURE=nowhere/x.kcap expect 0 "$kedge" run --sim -- "$program" --steps 2
    ended
    [ "$(cat lines)" = "kedge run: no capture: nowhere/x.kcap: No such file or directory" ] || fail "$(cat err)"
    grep -qE "^kedge\[[0-9]+\]: no capture: $PWD/nowhere/x.kcap: No such file or directory$" err || fail "$(cat err)"
    expect 2 "$kedge" run --api async -- "$program"
    has err "kedge run: --api async: stream, sync or framework"
    expect 0 "$kedge" run --sim --mode off -- "$program" --steps 2
    ended
    [ "$(cat lines)" = "kedge run: no capture: KEDGE_MODE=off" ] || fail "$(cat err)"
    expect 0 "$kedge" run --sim --trace off -- "$program" --steps 2
    ended
    [ "$(cat lines)" = "kedge run: no capture: KEDGE_TRACE=off" ] || fail "$(cat err)"
    # Killed: the capture is there, and so is the end of the program, as a signal too.
    expect 137 "$kedge" run --sim --capture k.kcap -- sh -c "'$program' --steps 2; kill -9 \$\$"
    ended
    has lines "kedge run: capture k.kcap; next: kedge report k.kcap"
    expect 137 "$kedge" run --sim --capture k.kcap -- python3 - "$sot" <<'PY'
import os, subprocess, sys
# The program itself is killed in the middle.
p = subprocess.Popen([sys.argv[1], "--form", "pir", "--graph", "full", "--pause-at", "SOT_CALL_0"], stdout=subprocess.PIPE, text=True)
while not p.stdout.readline().startswith("PAUSED"):
    pass
p.kill()
p.wait()
os.kill(os.getpid(), 9)
PY
    expect 0 "$kedge" report k.kcap
    has out "ended     still running, or killed"
    # The program's own end by a signal is known to its parent alone.
    expect 130 "$kedge" run --sim --capture i.kcap -- python3 - "$sot" <<'PY'
import os, signal, subprocess, sys, threading
signal.signal(signal.SIGINT, signal.SIG_DFL)
read, write = os.pipe()
def interrupt():
    with os.fdopen(read) as lines:
        while not lines.readline().startswith("PAUSED"):
            pass
    os.kill(pid, signal.SIGINT)
pid = os.getpid()
if os.fork() == 0:
    os.close(write)
    interrupt()
    os._exit(0)
os.dup2(write, 1)
os.execv(sys.argv[1], [sys.argv[1], "--form", "pir", "--graph", "full", "--pause-at", "SOT_CALL_0"])
PY
    expect 0 "$kedge" report i.kcap
    has out "ended     interrupted (signal 2)"
    python3 - "$kedge" <<'PY' || fail "signals"
import os, signal, subprocess, sys, time
def start(script, *options, **more):
    p = subprocess.Popen([sys.argv[1], "run", *options, "--", "sh", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                         text=True, **more)
    assert p.stdout.readline() == "ready\n"
    return p
for options in (), ("-q",):
    # A signal for kedge is one for the program: its own answer, or its end by it.
    for number in signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP, signal.SIGINT:
        p = start("trap 'exit 9' TERM USR1 HUP INT; echo ready; while :; do sleep 0.05; done", *options)
        p.send_signal(number)
        assert p.wait(20) == 9, (number, p.returncode)
    p = start("echo ready; exec sleep 60", *options)
    p.send_signal(signal.SIGTERM)
    assert p.wait(20) == -signal.SIGTERM, p.returncode
    # What is ignored stays ignored (nohup), and what is blocked is not blocked in the program.
    p = start("echo ready; sleep 0.3; exit 5", *options, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    p.send_signal(signal.SIGHUP)
    assert p.wait(20) == 5, p.returncode
    p = start("grep SigBlk /proc/self/status >blocked; echo ready; sleep 0.1", *options)
    assert p.wait(20) == 0 and int(open("blocked").read().split()[1], 16) == 0
    # Nobody outlives kedge that is killed.
    p = start("echo $$ >pid; echo ready; exec sleep 60", *options)
    p.kill()
    p.wait(20)
    number = int(open("pid").read())
    for _ in range(200):
        try:
            if open(f"/proc/{number}/stat").read().rsplit(")", 1)[1].split()[0] == "Z":
                break
        except OSError:
            break
        time.sleep(0.05)
    else:
        sys.exit("the program outlived kedge")
PY
    ;;
rpath)
    # The program's exit code is the number of devices: its own runtime has none, the simulated one has one.
    for kind in rpath runpath; do
        expect 0 "$kedge" run -- "$build/tests/unit/rpath/${kind}_program"
        expect 1 "$kedge" run --sim -- "$build/tests/unit/rpath/${kind}_program"
    done
    ;;
small)
    small good pt
    small bad pir
    expect 0 "$kedge" report bad.kcap $window
    for line in "Remaining memory: 6.75 MiB" "Max memory: 10.12 MiB" "Allocated memory: 10.12 MiB" "Allocated count: 3" \
        "Freed memory: 3.38 MiB" "Freed count: 1"; do has out "$line"; done
    expect 0 "$kedge" report good.kcap $window
    for line in "Remaining memory: 3.38 MiB" "Max memory: 10.12 MiB" "Allocated memory: 10.12 MiB" "Allocated count: 3" \
        "Freed memory: 6.75 MiB" "Freed count: 2"; do has out "$line"; done
    expect 0 "$kedge" report good.kcap $window --json
    cp out good.json
    expect 0 "$kedge" diff good.kcap bad.kcap --json
    json "j['late_frees'] == 1 and j['late_bytes'] == 3538944 and len(j['groups']) == 1"
    json "j['groups'][0]['site'].startswith('contiguous_copy sot.c:') and j['groups'][0]['anchors'] == ['SOT_CALL_0']"
    expect 0 "$kedge" suggest --good good.kcap --bad bad.kcap -o h.yaml --json $window
    json "j['predicted_max_bytes'] == 3 * 3538944 and len(j['hints']) == 1 and j['predicted_peak_reserved_bytes'] > 0"
    small shadow pir --hints h.yaml
    expect 0 "$kedge" report shadow.kcap $window --json
    json "j['remaining_bytes'] == 2 * 3538944 and j['hinted_freed_count'] == 0 and j['remaining_would_bytes'] == 3538944"
    # live without a receipt stays in shadow
    small unproved pir --hints h.yaml --hints-mode live
    expect 0 "$kedge" report unproved.kcap --json
    json "j['hinted_freed_count'] == 0"
    expect 0 "$kedge" verify --sim --hints h.yaml --json -- "$sot" --form pir --graph small
    json "j['verified'] is True and j['hints'][0]['matched_count'] == 1 and j['hints'][0]['trapped_count'] == 1"
    keys_stand_in verify
    small live pir --hints h.yaml --hints-mode live
    expect 0 "$kedge" report live.kcap $window --json
    json "(lambda g: all(j[a] == g[b] for a, b in (('remaining_with_hints_bytes', 'remaining_bytes'), ('max_with_hints_bytes', 'max_bytes'), ('allocated_bytes', 'allocated_bytes'), ('allocated_count', 'allocated_count'), ('freed_with_hints_bytes', 'freed_bytes'), ('freed_with_hints_count', 'freed_count'))))(json.load(open('good.json')))"
    cmp good.sum live.sum && cmp good.sum bad.sum && cmp good.sum shadow.sum || fail "the checksums differ"
    ;;
verify)
    small good pt
    small bad pir
    "$kedge" suggest --good good.kcap --bad bad.kcap -o h.yaml >/dev/null
    expect 1 "$kedge" verify --sim --hints h.yaml -- "$sot" --form pir --graph small --touch-released
    has out "not verified: hint contiguous-copy: shadow: its storage is used after the release was due"
    has err "run_touch"
    has err "contiguous_copy"
    [ ! -e h.yaml.receipt ] || fail "a receipt was written"
    # Another form of the program: the hint matches nothing that it expects.
    sed 's/{count: 1,/{count: 2,/' h.yaml >two.yaml
    expect 1 "$kedge" verify --sim --hints two.yaml -- "$sot" --form pir --graph small
    has out "hint contiguous-copy: shadow: matched 1 allocation in SOT_CALL_0, 2 expected"
    sed 's/, bytes: [0-9.]*MiB}/, bytes: "4096..8192"}/' h.yaml >bytes.yaml
    expect 1 "$kedge" verify --sim --hints bytes.yaml -- "$sot" --form pir --graph small
    has out "matched 3538944 bytes in SOT_CALL_0, 4096..8192 expected"
    # Evictions act in each run, and a restore matches nothing.
    cat >evict.yaml <<'YAML'
kedge-hints: 1
hints:
  - {id: early, do: restore, of: params, when: {anchor: "SOT_CALL_*", edge: exit}}
  - {id: params, do: evict, pick: {size: 3538944}, when: {anchor: "SOT_CALL_*", edge: enter}, cap: {device: 1GiB}}
YAML
    expect 0 "$kedge" verify --sim --hints evict.yaml -- "$sot" --form pir --graph small
    has out "2 hints verified"
    sed -i 's/size: 3538944/size: 3538945/' evict.yaml
    expect 1 "$kedge" verify --sim --hints evict.yaml -- "$sot" --form pir --graph small
    has out "not verified: hint params: matched nothing"
    # A proof that nobody has written yet is none. Nothing is run.
    cat >open.yaml <<'YAML'
kedge-hints: 1
hints:
  - id: sent
    do: release
    pick: {size: 16MiB, used-by: {call: ncclSend, arg: sendbuff}}
    when: {event: {call: ncclRecv}}
    wait: event
    proof: "to be answered: why has the peer read the whole buffer?"
YAML
    touch open.yaml.receipt
    expect 1 "$kedge" verify --sim --hints open.yaml -- touch ran
    has out "not verified: hint sent: its proof is still to be answered, and wait: event relies on it"
    [ ! -e ran ] && [ ! -e open.yaml.receipt ] || fail "it was tried, or an old receipt is left"
    # The program fails by itself.
    expect 1 "$kedge" verify --sim --hints h.yaml -- "$build/trainers/sot" --form nonsense
    has out "exit code 2"
    # What could not be started, in any run, is no verdict on the hints.
    printf '#!/no/such/interpreter\n' >script && printf '#!/bin/sh\n[ -e once ] && exit 126\ntouch once\nexec "$@"\n' >second
    chmod +x script second
    expect 2 "$kedge" verify --sim --hints h.yaml -- ./script
    has err "kedge verify: plain: the program ended with exit code 127 and left no capture: it could not be started"
    expect 2 "$kedge" verify --sim --hints h.yaml -- sh -c 'exec ./plain'
    expect 2 "$kedge" verify --sim --hints h.yaml --json -- ./second "$sot" --form pir --graph small
    has err "kedge verify: shadow: the program ended with exit code 126"
    [ ! -e h.yaml.receipt ] || fail "a receipt was written for a program that did not start"
    # Whatever ends kedge ends the program and what the program started, and the folder goes.
    cat >stubborn <<'END'
#!/bin/bash
trap '' TERM HUP INT
setsid sleep 1000 & echo $! >>processes
(setsid sleep 1001 & echo $! >>processes)
echo $$ >>processes
while :; do sleep 1; done
END
    chmod +x stubborn
    mkdir tmp
    for signal in TERM HUP INT; do
        rm -f processes
        # A shell's background processes ignore SIGINT; what a supervisor starts does not.
        TMPDIR=$PWD/tmp timeout 60 python3 - $signal "$kedge" verify --sim --hints h.yaml -- ./stubborn <<'PY' || fail "$signal"
import pathlib, signal, subprocess, sys, time
signal.signal(signal.SIGINT, signal.SIG_DFL)
number = getattr(signal, "SIG" + sys.argv[1])
run = subprocess.Popen(sys.argv[2:], stderr=subprocess.DEVNULL)
processes = pathlib.Path("processes")
while not processes.exists() or len(processes.read_text().split()) < 3:
    time.sleep(0.05)
run.send_signal(number)
assert run.wait() == 128 + number, run.returncode
left = [p for p in processes.read_text().split() if pathlib.Path("/proc", p).exists()]
assert not left, left
PY
        [ -z "$(ls tmp)" ] || fail "$signal: the folder is still there: $(ls tmp)"
    done
    # A capture that was damaged before it was read decides nothing.
    cat >spoil <<'END'
#!/bin/bash
"$@" && printf 'no bytes of a capture' | dd of="$KEDGE_CAPTURE" bs=1 seek=2000 conv=notrunc 2>/dev/null
END
    chmod +x spoil
    expect 2 "$kedge" verify --sim --hints h.yaml -- ./spoil "$sot" --form pir --graph small
    has err "kedge verify: "
    has err "plain.kcap is damaged: nothing can be decided by it"
    [ ! -e h.yaml.receipt ] || fail "a receipt was written for a damaged capture"
    # Hints for another program are not in force.
    sed 's/argv: .*/argv: "*other*"/' h.yaml >other.yaml
    expect 1 "$kedge" verify --sim --hints other.yaml -- "$sot" --form pir --graph small
    has out "not in force"
    expect 2 "$kedge" verify --sim -- "$sot"
    expect 2 "$kedge" verify --sim --hints nowhere.yaml -- "$sot"
    expect 2 "$kedge" verify --sim --hints h.yaml -- ./nowhere
    has err "kedge verify: ./nowhere: No such file"
    [ "$(wc -l <err)" = 1 ] || fail "$(cat err)"
    (umask 0 && expect 0 "$kedge" verify --sim --hints h.yaml --keep kept -- "$sot" --form pir --graph small)
    has out "1 hint verified, 1 release, 3.38 MiB;"
    [ -e kept/shadow.kcap ] && [ -e kept/poison.kcap ] && [ -e kept/trap.kcap ] && [ -e h.yaml.receipt ] || fail "something was not kept"
    expect 77 "$kedge" verify --sim --hints h.yaml --keep kept -- "$sot"
    # A % in a folder is a % and begins no pattern, whoever named the folder.
    for folder in 100% %p %%; do
        expect 0 "$kedge" verify --sim --hints h.yaml --keep $folder -- "$sot" --form pir --graph small
        [ -e $folder/shadow.kcap ] && [ -e $folder/trap.kcap ] || fail "nothing in $folder: $(ls)"
    done
    mkdir 5%h && cd 5%h
    TMPDIR=$PWD expect 0 "$kedge" verify --sim --hints ../h.yaml -- "$sot" --form pir --graph small
    expect 0 "$kedge" run --sim -- "$sot" --form pir --graph small
    has err "kedge run: capture kedge-"
    expect 0 "$kedge" run --sim -- true
    has err "kedge run: no capture: $unseen"
    cd ..
    # The receipt is an output as others: 0644 whatever the umask, an old one is replaced where it lies and keeps its mode.
    [ "$(stat -c %a h.yaml.receipt)" = 644 ] || fail "$(ls -l h.yaml.receipt)"
    mkdir elsewhere && mv h.yaml.receipt elsewhere/old && ln -s elsewhere/old h.yaml.receipt
    chmod 600 elsewhere/old && echo 'kedge-receipt 1' >elsewhere/old
    expect 0 "$kedge" verify --sim --hints h.yaml -- "$sot" --form pir --graph small
    [ -L h.yaml.receipt ] && [ "$(stat -c %a elsewhere/old)" = 600 ] || fail "$(ls -l h.yaml.receipt elsewhere)"
    has elsewhere/old "kedge-receipt 2"
    ;;
replay)
    python3 - <<'PY'
import random
random.seed(3)
rows, live, total, peak = ["op,id,size,stream,time_us"], {}, 0, 0
for n in range(3000):
    if live and random.random() < 0.5:
        i = random.choice(list(live))
        size, stream = live.pop(i)
        total -= size
        rows.append(f"f,{i},{size},{stream},{n}")
    else:
        size, stream = random.choice([512, 4096, 70000, 1 << 20, 3 << 20, 9000001]), random.randrange(3)
        live[n] = size, stream
        total += size
        peak = max(peak, total)
        rows.append(f"a,{n},{size},{stream},{n}")
open("t.csv", "w").write("\n".join(rows) + "\n")
open("peak", "w").write(f"{peak} {sum(r[0] == 'a' for r in rows[1:])}\n")
PY
    read -r peak count <peak
    for entrance in sync stream; do
        for more in "" "--streams" "--passes 2"; do
            expect 0 "$kedge" run --sim --capture r.kcap -- "$replay" --api $entrance $more t.csv
            has out "peak live bytes: $peak"
            expect 0 "$kedge" report r.kcap --json
            json "j['peak_live_bytes'] == $peak and j['allocated_count'] == $count * (2 if '$more' == '--passes 2' else 1)"
            json "j['remaining_bytes'] == 0 and j['peak_reserved_bytes'] >= j['peak_live_512_bytes']"
        done
    done
    ;;
traces)
    [ -n "${KEDGE_TEST_TRACES:-}" ] || { echo "SKIP: KEDGE_TEST_TRACES is not set"; exit 77; }
    for trace in few-huge-blocks lm-small-step-150 lm-medium-train-ctx1024; do
        for entrance in sync stream; do
            expect 0 "$kedge" run --sim --capture r.kcap -- "$replay" --api $entrance "$KEDGE_TEST_TRACES/csv/$trace.csv"
            expect 0 "$kedge" report r.kcap --json
            python3 - "$KEDGE_TEST_TRACES/csv/$trace.csv" <<'PY' || fail "$trace $entrance"
import csv, json, sys
live = peak = count = 0
for row in csv.DictReader(open(sys.argv[1])):
    live += int(row["size"]) * (1 if row["op"] == "a" else -1)
    count += row["op"] == "a"
    peak = max(peak, live)
j = json.load(open("out"))
assert (j["peak_live_bytes"], j["allocated_count"]) == (peak, count), (j["peak_live_bytes"], peak)
PY
        done
    done
    ;;
steps_loop)
    for entrance in sync stream; do
        record "$entrance" full "$build/trainers/loop" --steps 12 --entrance "$entrance"
        same_steps "$entrance.kcap" 12
    done
    expect 2 "$kedge" report sync.kcap --from forwrd # a last part is a name, too
    has err "did you mean forward?"
    ;;
steps_sot)
    record pir full "$sot" --form pir --graph full
    steps pir.kcap
    in_steps "j['origin'] == 'stated' and [x['name'] for x in r] == [f'SOT_CALL_{i}' for i in range(430)]"
    # No two of its sub-graphs are alike, and their results live on to the backward: without what it states there are layers.
    # (Places alone are a few in no order: long pieces of them look alike, which must not do.)
    record pt full "$sot" --form pt --graph full --entrance stream
    for form in pir pt; do
        steps "$form.kcap" --steps detected
        in_steps "j['kind'] == 'none' and r == []"
    done
    ;;
steps_trainers)
    # Two steps are enough where they are the same; one is not.
    record two full "$build/trainers/loop" --steps 2
    same_steps two.kcap 2
    record one full "$build/trainers/loop" --steps 1
    steps one.kcap --steps detected
    in_steps "j['kind'] == 'none'"
    ;;
orphans)
    # As the first process of a container it waits for whoever has nobody else.
    unshare -rpf --mount-proc true 2>err || { echo "SKIP: no namespace of processes can be made: $(cat err)"; exit 77; }
    cat >orphans.sh <<'END'
for i in 1 2 3 4 5 6 7 8; do (sleep 0.05 &); done
for i in $(seq 100); do # until they have ended and been waited for
    left=$(grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null | wc -l)
    alive=$(grep -l '^Name:.sleep' /proc/[0-9]*/status 2>/dev/null | wc -l)
    [ "$alive" -eq 0 ] && [ "$left" -eq 0 ] && break
    sleep 0.05
done
echo "zombies $left, left $alive"
exit 5
END
    expect 5 unshare -rpf --mount-proc "$kedge" run --sim --capture o.kcap -- bash orphans.sh
    has out "zombies 0, left 0"
    ;;
*)
    fail "no part $1"
    ;;
esac
