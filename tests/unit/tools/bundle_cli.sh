#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# covers: bundle.c cmd_bundle.c
# `kedge bundle`: what is reported from one where the program's files are gone is what was reported where they were. $1: part.
. "$(dirname "$0")/../../check.sh"
kedge=$TEST_BUILD/kedge
# A program of our own, which can go away.
make_captures() {
    cp "$TEST_BUILD/tests/unit/capture_maker" program
    for form in good bad touched; do ./program $form $form.kcap; done
}
# The answers of every command that reads captures, the names of the files aside.
answers() {
    "$kedge" report "$2" --view all
    "$kedge" report "$2" --json
    "$kedge" report "$2" --view hwm --top 3
    "$kedge" diff "$1" "$2"
    "$kedge" diff "$1" "$2" --json
    "$kedge" suggest --good "$1" --bad "$2" -o hints.yaml --force && cat hints.yaml
    "$kedge" whatif "$2" --policy kedge,torch
    "$kedge" report "$3"
}

case "$1" in
equal)
    make_captures
    answers good.kcap bad.kcap touched.kcap >home 2>&1
    has home "unused_input $TEST_SOURCE"
    for form in good bad touched; do
        expect 0 "$kedge" bundle $form.kcap
        has out "$form.kcap.tar.zst: "
        hasnt out note
        [ "$(stat -c %a $form.kcap.tar.zst)" = 600 ] || fail "a bundle is not 0600"
    done
    # Elsewhere: the same names, one folder up the captures and the program are gone.
    mkdir elsewhere gone
    mv ./*.tar.zst elsewhere/
    mv ./*.kcap program gone/
    cd elsewhere
    for form in good bad touched; do mv $form.kcap.tar.zst $form.kcap; done
    answers good.kcap bad.kcap touched.kcap >../away 2>&1
    diff ../home ../away >&2 || fail "another answer from the bundles"
    # unpacked by hand, and without compression
    tar xf bad.kcap
    "$kedge" report kedge-bundle --view hwm --top 3 >folder
    "$kedge" report bad.kcap --view hwm --top 3 >archive
    diff archive folder >&2 || fail "another answer from the folder"
    tar cf plain.tar kedge-bundle
    "$kedge" report plain.tar --view hwm --top 3 >plain
    diff archive plain >&2 || fail "another answer from a tar without compression"
    # without the bundle there is nothing to see: the test above is not about a program that is still found
    "$kedge" report ../gone/bad.kcap >bare
    has bare "note: "
    hasnt bare "capture_maker.c"
    ;;
packs)
    make_captures
    expect 0 "$kedge" bundle bad.kcap -o some.bundle --modules --json
    json "j['bundle'] == 'some.bundle' and j['modules'] == 1 and j['named_frames'] == j['frames'] > 5"
    json "[f.endswith('/program') for f in j['files']] == [True] and j['symbol_notes'] == []"
    json "j['bytes'] == __import__('os').stat('some.bundle').st_size"
    tar tf some.bundle >list
    has list kedge-bundle/about
    id=$(readelf -n program | sed -n 's/.*Build ID: //p')
    has list "kedge-bundle/modules/.build-id/${id:0:2}/${id:2}"
    tar xf some.bundle
    cmp kedge-bundle/capture.kcap bad.kcap || fail "another capture"
    cmp "kedge-bundle/modules/.build-id/${id:0:2}/${id:2}" program || fail "another program"
    head -1 kedge-bundle/about | grep -qx "kedge-bundle 1" || fail "$(cat kedge-bundle/about)"
    # What has no names says so here and there.
    mv program away
    expect 0 "$kedge" bundle bad.kcap -o poor.bundle
    has out "names for 0 of"
    has out "program: not readable on this machine"
    mv away program
    expect 0 "$kedge" report poor.bundle
    has out "program: not readable on this machine"
    hasnt out "capture_maker.c"
    expect 2 "$kedge" bundle poor.bundle
    has err "is a bundle already"
    expect 2 "$kedge" bundle bad.kcap -o /nowhere/b
    has err "/nowhere/b: No such file or directory"
    expect 2 "$kedge" bundle nowhere.kcap
    [ -z "$(find . -name '*.new')" ] || fail "a draft was left behind"
    ;;
modules)
    # What was packed with --modules is asked where the names are not: from the archive, from the folder, with the debug file apart.
    make_captures
    "$kedge" report bad.kcap --view hwm --top 3 >home
    has home "capture_maker.c:"
    # as far as the names go: nobody has unpacked anything there yet
    reports_home() {
        "$kedge" report "$1" --view hwm --top 3 >away
        diff home away >&2 || fail "another answer from $1"
    }
    nameless() {
        rm -rf kedge-bundle && tar xf "$1" && rm kedge-bundle/symbols
        tar cf "nameless-$1" --zstd kedge-bundle
    }
    expect 0 "$kedge" bundle bad.kcap -o poor --json
    expect 0 "$kedge" bundle bad.kcap -o whole --modules
    id=$(readelf -n program | sed -n 's/.*Build ID: //p')
    # the program without its debug information, which lies beside it
    cp program program.whole
    mkdir .debug
    objcopy --only-keep-debug program.whole .debug/program.debug
    strip --strip-debug program.whole -o program
    (cd .debug && objcopy --add-gnu-debuglink=program.debug ../program)
    expect 0 "$kedge" bundle bad.kcap -o split --modules --json
    json "[f.split('/')[-1] for f in j['files']] == ['program', 'program.debug']"
    tar tf split >list
    has list "kedge-bundle/modules/.build-id/${id:0:2}/${id:2}.debug"
    rm -r program program.whole .debug
    mkdir tmp
    export TMPDIR=$PWD/tmp
    for bundle in poor whole split; do
        reports_home $bundle
        nameless $bundle
        if [ $bundle = poor ]; then
            "$kedge" report nameless-poor --view hwm --top 3 >away
            has away "note: $PWD/program: not readable on this machine"
            hasnt away "capture_maker.c:"
            continue
        fi
        reports_home nameless-$bundle
        reports_home kedge-bundle
    done
    # of another build they are not asked
    printf x | dd of="kedge-bundle/modules/.build-id/${id:0:2}/${id:2}" bs=1 conv=notrunc \
        seek=$((0x$(readelf -SW "kedge-bundle/modules/.build-id/${id:0:2}/${id:2}" | sed -n 's/.*note.gnu.bu[^ ]* *NOTE *[0-9a-f]* \([0-9a-f]*\) .*/\1/p') + 16)) status=none
    "$kedge" report kedge-bundle --view hwm --top 3 >away
    hasnt away "unused_input /"
    [ -z "$(ls tmp)" ] || fail "left behind: $(ls tmp)"
    # a library without a build-id goes by what its code looks like
    cp "$TEST_BUILD/tests/unit/capture_maker" program
    objcopy --remove-section .note.gnu.build-id program
    ./program bad bad.kcap
    "$kedge" report bad.kcap --view hwm --top 3 >home
    has home "capture_maker.c:"
    expect 0 "$kedge" bundle bad.kcap -o whole --modules
    tar tf whole >list
    has list kedge-bundle/modules/identity/
    mv program away.program
    nameless whole
    reports_home nameless-whole
    reports_home kedge-bundle
    ;;
bad)
    # Any bytes: an answer or one line, whatever is cut off or turned over.
    make_captures
    expect 0 "$kedge" bundle bad.kcap -o b
    mkdir empty
    expect 2 "$kedge" report empty
    [ "$(wc -l <err)" = 1 ] || fail "$(cat err)"
    tar xf b
    rm kedge-bundle/about
    tar cf no-about.tar kedge-bundle
    expect 2 "$kedge" report no-about.tar
    has err "not a bundle of kedge"
    printf 'kedge-symbols\t1\nm\t-\n' >kedge-bundle/symbols
    expect 2 "$kedge" report kedge-bundle
    has err "kedge-bundle: line 2 of the names makes no sense"
    python3 - "$kedge" <<'PY'
import pathlib, random, subprocess, sys
whole = pathlib.Path("b").read_bytes()
chance = random.Random(5)
worked = refused = 0
def attempt(data):
    global worked, refused
    pathlib.Path("x").write_bytes(data)
    done = subprocess.run([sys.argv[1], "report", "x"], capture_output=True, text=True,
                          errors="replace", timeout=60, check=False)
    lines = done.stderr.splitlines()
    damaged = done.returncode == 0 and lines and lines[0].startswith("kedge: x is damaged (")
    assert done.returncode in (0, 2) and len(lines) == (damaged or done.returncode == 2), (done.returncode, lines)
    assert damaged or not lines or lines[0].startswith("kedge: x: "), lines
    worked += done.returncode == 0
    refused += done.returncode == 2
for length in (0, 1, 4, 100, len(whole) // 2, len(whole) - 1):
    attempt(whole[:length])
for _ in range(60):
    data = bytearray(whole)
    for _ in range(chance.choice((1, 1, 4, 40))):
        data[chance.randrange(len(data))] = chance.randrange(256)
    attempt(bytes(data))
# the same in what lies inside
subprocess.run(["tar", "xf", "b"], check=True)
subprocess.run(["tar", "cf", "plain", "--sort=name", "kedge-bundle"], check=True)
plain = pathlib.Path("plain").read_bytes()
texts = [plain.index(b"kedge-symbols"), plain.index(b"KEDGECAP")]
for at in texts:
    for _ in range(30):
        data = bytearray(plain)
        for _ in range(8):
            data[at - 512 + chance.randrange(1400)] = chance.randrange(256)
        attempt(bytes(data))
print(worked, "were read,", refused, "refused")
sys.exit(not refused)
PY
    # A small file that claims to be a large one is not unpacked for long.
    python3 -c 'import sys
head = bytearray(512)
head[0:22] = b"kedge-bundle/modules/a"
head[100:108] = b"0000644\0"; head[108:116] = head[116:124] = b"0000000\0"
head[124:136] = b"77777777777\0"; head[136:148] = b"00000000000\0"; head[148:156] = b" " * 8; head[156:157] = b"0"
head[257:265] = b"ustar\00000"
head[148:156] = b"%06o\0 " % sum(head)
sys.stdout.buffer.write(bytes(head) + bytes(100000))' >bomb
    expect 2 "$kedge" report bomb
    [ "$(wc -l <err)" = 1 ] || fail "$(cat err)"
    has err "more in it than its length allows"
    ;;
*)
    fail "no part $1"
    ;;
esac
