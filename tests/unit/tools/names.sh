#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# covers: buildid.c builds.c dwarfnames.c symfile.c
# Names of addresses: from debug information wherever it may lie, never from a file of another build. $1 says which part.
. "$(dirname "$0")/../../check.sh"
helper=$TEST_BUILD/tests/unit/names_helper
export HOME=$PWD XDG_CACHE_HOME= DEBUGINFOD_CACHE_PATH= DEBUGINFOD_URLS=

cat >lib.c <<'C'
void sink(int);
static inline __attribute__((always_inline)) void inner(int x)
{
    sink(x + 1); /* line 4 */
}
static inline __attribute__((always_inline)) void middle(int x)
{
    inner(x * 2); /* line 8 */
}
void outer(int x)
{
    middle(x - VARIANT); /* line 12 */
    __asm__ volatile("" ::: "memory");
}
__attribute__((noinline)) static void hidden(int x)
{
    sink(x); /* line 17 */
    __asm__ volatile("" ::: "memory");
}
void entry(int x)
{
    hidden(x + VARIANT);
    __asm__ volatile("" ::: "memory");
}
C

# build NAME [FLAGS...]: a library of lib.c, its build-id in $id
build() {
    local name=$1
    shift
    gcc -shared -fPIC -O1 -fno-optimize-sibling-calls -DVARIANT=1 "$@" -o "$name" lib.c
    id=$(readelf -n "$name" | sed -n 's/.*Build ID: //p')
}
# The address inside the call of `sink` in a function, as a capture has it.
call_in() { objdump -d "$1" | awk -v f="<$2>:" '$2 == f {in_it = 1} in_it && /call.*sink/ {sub(":", "", $1); print $1; exit}'; }
inside() { printf '%x' $((0x$1 + 4)); }
# names_are WHAT...: the lines that the helper printed
names_are() {
    printf '%s\n' "$@" >want
    diff want got >&2 || fail "other names"
}
ask() { "$helper" "$@" >got; }
inlined=("inner lib.c:4" "middle lib.c:8" "outer lib.c:12")

case "$1" in
inlined)
    build lib.so -g
    at=$(inside "$(call_in lib.so outer)")
    ask "$PWD/lib.so" "$id" 0 "" "$at" "$at"
    names_are "${inlined[@]}" - "${inlined[@]}"
    ;;
split)
    # functions in files of their own, beside what was linked
    for version in 4 5; do
        build lib.so -g -gdwarf-$version -gsplit-dwarf
        at=$(inside "$(call_in lib.so outer)")
        ask "$PWD/lib.so" "$id" 0 "" "$at"
        names_are "${inlined[@]}"
        # without them the lines are left
        rm ./*.dwo
        ask "$PWD/lib.so" "$id" 0 "" "$at"
        grep -q "^outer+0x[0-9a-f]* lib.c:4$" got || fail "$(cat got)"
    done
    ;;
packed)
    for way in zlib zlib-gnu; do
        build lib.so -g -gz=$way
        readelf -SW lib.so | grep -qE "debug_info .* C|zdebug_info" || fail "nothing is compressed"
        at=$(inside "$(call_in lib.so outer)")
        ask "$PWD/lib.so" "$id" 0 "" "$at"
        names_are "${inlined[@]}"
    done
    ;;
fixed)
    # a program that is linked to a fixed address
    printf 'void entry(int);\nvoid outer(int);\nvoid sink(int x) { (void)x; __asm__ volatile("" ::: "memory"); }\n' >main.c
    printf 'int main(void) { outer(1); entry(2); return 0; }\n' >>main.c
    gcc -no-pie -O1 -fno-optimize-sibling-calls -DVARIANT=1 -g -Wl,--build-id -o program main.c lib.c
    id=$(readelf -n program | sed -n 's/.*Build ID: //p')
    at=$(inside "$(call_in program outer)")
    ask "$PWD/program" "$id" 0 "" "$at"
    names_are "${inlined[@]}"
    ;;
separate)
    build whole.so -g -Wl,-soname,lib.so
    at=$(inside "$(call_in whole.so outer)")
    objcopy --only-keep-debug whole.so lib.debug
    strip --strip-debug --strip-unneeded -o lib.so whole.so
    ask "$PWD/lib.so" "$id" 0 "" "$at"
    grep -q "^outer+0x[0-9a-f]* :0$" got || fail "no name from the symbol table: $(cat got)"
    # by build-id, as packages of debug symbols lay them
    mkdir -p "debug/.build-id/${id:0:2}"
    cp lib.debug "debug/.build-id/${id:0:2}/${id:2}.debug"
    ask "$PWD/lib.so" "$id" 0 "$PWD/debug" "$at"
    names_are "${inlined[@]}"
    # by .gnu_debuglink, beside the library and in .debug
    objcopy --add-gnu-debuglink=lib.debug lib.so linked.so
    ask "$PWD/linked.so" "$id" 0 ":.debug" "$at"
    names_are "${inlined[@]}"
    mkdir .debug && mv lib.debug .debug/
    ask "$PWD/linked.so" "$id" 0 ":.debug" "$at"
    names_are "${inlined[@]}"
    # a separate file of another build is not taken
    build other.so -g -DOTHER -Wl,-soname,other.so
    objcopy --only-keep-debug other.so .debug/lib.debug
    ask "$PWD/linked.so" "$(readelf -n linked.so | sed -n 's/.*Build ID: //p')" 0 ":.debug" "$at"
    grep -q "^outer+0x" got || fail "names of another build: $(cat got)"
    ;;
cache)
    # what debuginfod-find has fetched is found, and nothing is fetched
    build lib.so -g
    at=$(inside "$(call_in lib.so outer)")
    python3 - "$helper" "$PWD" "$id" "$at" <<'PY'
import os, pathlib, socket, subprocess, sys
helper, folder, build_id, at = sys.argv[1:]
folder = pathlib.Path(folder)
server = socket.create_server(("127.0.0.1", 0))
environment = os.environ | {"DEBUGINFOD_URLS": f"http://127.0.0.1:{server.getsockname()[1]}/", "DEBUGINFOD_TIMEOUT": "1"}
subprocess.run(["objcopy", "--only-keep-debug", "lib.so", "lib.debug"], check=True)
subprocess.run(["strip", "--strip-debug", "--strip-unneeded", "lib.so"], check=True)
def ask():
    return subprocess.run([helper, folder / "lib.so", build_id, "0", "", at], env=environment, check=True, capture_output=True,
                          text=True).stdout.split("\n")[:-1]
want = ["inner lib.c:4", "middle lib.c:8", "outer lib.c:12"]
assert ask()[0].startswith("outer+0x"), ask()
for variable, place in (("DEBUGINFOD_CACHE_PATH", folder / "own"), ("XDG_CACHE_HOME", folder / "xdg"), ("HOME", folder / "home")):
    cache = {"DEBUGINFOD_CACHE_PATH": place, "XDG_CACHE_HOME": place / "debuginfod_client",
             "HOME": place / ".cache" / "debuginfod_client"}[variable] / build_id
    cache.mkdir(parents=True)
    (cache / "debuginfo").write_bytes(pathlib.Path("lib.debug").read_bytes())
    environment[variable] = str(place)
    assert ask() == want, (variable, ask())
    environment[variable] = ""
# without such a folder no file of the folder that kedge stands in is taken for it
for place in ("(null)", "."):
    (folder / place / build_id).mkdir(parents=True)
    (folder / place / build_id / "debuginfo").write_bytes(pathlib.Path("lib.debug").read_bytes())
assert ask()[0].startswith("outer+0x"), ask()
# the library itself is gone: the debug file names its own build
os.rename("lib.so", "away.so")
environment["DEBUGINFOD_CACHE_PATH"] = str(folder / "own")
assert ask() == want, ask()
server.setblocking(False)
try:
    server.accept()
    sys.exit("the network was asked")
except BlockingIOError:
    pass
PY
    ;;
rebuilt)
    build lib.so -g
    at=$(inside "$(call_in lib.so outer)")
    first=$id
    cp lib.so first.so
    gcc -shared -fPIC -O1 -fno-optimize-sibling-calls -DVARIANT=2 -g -o lib.so lib.c
    ask "$PWD/lib.so" "$first" 0 "" "$at" "$at" 1000
    names_are "lib.so+0x$at :0" - "lib.so+0x$at :0" - "lib.so+0x1000 :0" \
        "note: $PWD/lib.so: rebuilt since the capture, its frames have no names"
    # the build that ran may still have its debug information, or lie among them itself
    mkdir -p "debug/.build-id/${first:0:2}"
    objcopy --only-keep-debug first.so "debug/.build-id/${first:0:2}/${first:2}.debug"
    ask "$PWD/lib.so" "$first" 0 ":$PWD/debug" "$at"
    names_are "${inlined[@]}"
    cp first.so "debug/.build-id/${first:0:2}/${first:2}"
    ask "$PWD/gone.so" "$first" 0 ":$PWD/debug" "$at"
    names_are "${inlined[@]}"
    ;;
nameless)
    # Without a build-id the code is compared. Its identity is what a program that loads it finds.
    build lib.so -g -Wl,--build-id=none
    at=$(inside "$(call_in lib.so outer)")
    identity=$("$TEST_BUILD/tests/unit/identity_helper" "$PWD/lib.so")
    ask "$PWD/lib.so" - "$identity" "" "$at"
    names_are "${inlined[@]}"
    gcc -shared -fPIC -O1 -fno-optimize-sibling-calls -DVARIANT=2 -g -Wl,--build-id=none -o lib.so lib.c
    ask "$PWD/lib.so" - "$identity" "" "$at"
    names_are "lib.so+0x$at :0" "note: $PWD/lib.so: rebuilt since the capture, its frames have no names"
    build lib.so -g -Wl,--build-id=none
    ask "$PWD/lib.so" - "$identity" "" "$at"
    names_are "${inlined[@]}"
    ;;
stripped)
    build lib.so
    outer=$(inside "$(call_in lib.so outer)")
    hidden=$(inside "$(call_in lib.so hidden)")
    ask "$PWD/lib.so" "$id" 0 "" "$outer" "$hidden"
    grep -q "^outer+0x[0-9a-f]* :0$" got && grep -q "^hidden+0x[0-9a-f]* :0$" got || fail "$(cat got)"
    # Only exported names are left: a function between two of them is none of them.
    strip --strip-all lib.so
    ask "$PWD/lib.so" "$id" 0 "" "$outer" "$hidden"
    grep -q "^outer+0x[0-9a-f]* :0$" got || fail "no name from the dynamic symbols: $(cat got)"
    grep -q "^lib.so+0x$hidden :0$" got || fail "a wrong name: $(cat got)"
    ! grep -q note got || fail "$(cat got)"
    ;;
cxx)
    compiler=$(command -v g++ || command -v clang++) || fail "no C++ compiler"
    printf 'void sink(int);\nnamespace space {\ntemplate <typename T> struct box { __attribute__((noinline)) void put(T x); };\n' >lib.cc
    printf 'template <typename T> void box<T>::put(T x) { sink((int)x); __asm__ volatile("" ::: "memory"); }\n' >>lib.cc
    printf 'template struct box<long>;\n}\n' >>lib.cc
    "$compiler" -shared -fPIC -O1 -g -Wl,--build-id -o lib.so lib.cc
    id=$(readelf -n lib.so | sed -n 's/.*Build ID: //p')
    at=$(inside "$(call_in lib.so _ZN5space3boxIlE3putEl)")
    ask "$PWD/lib.so" "$id" 0 "" "$at"
    names_are "space::box<long>::put(long) lib.cc:4"
    strip --strip-debug lib.so
    ask "$PWD/lib.so" "$id" 0 "" "$at"
    grep -q "^space::box<long>::put(long)+0x[0-9a-f]* :0$" got || fail "$(cat got)"
    ;;
gone)
    ask "$PWD/gone.so" 0011 0 "" 40 41
    names_are "gone.so+0x40 :0" - "gone.so+0x41 :0" "note: $PWD/gone.so: not readable on this machine, its frames have no names"
    echo text >gone.so
    ask "$PWD/gone.so" 0011 0 "" 40
    names_are "gone.so+0x40 :0" "note: $PWD/gone.so: no ELF file, its frames have no names"
    # nobody writes to it
    rm gone.so && mkfifo gone.so
    timeout 20 "$helper" "$PWD/gone.so" 0011 0 "" 40 >got || fail "exit $?"
    names_are "gone.so+0x40 :0" "note: $PWD/gone.so: no ELF file, its frames have no names"
    # the kernel's own code, and code that was made at run time
    ask linux-vdso.so.1 0011 0 "" a10
    names_are "linux-vdso.so.1+0xa10 :0"
    ask "" - 0 "" 7f0012345678
    names_are "?+0x7f0012345678 :0"
    ;;
*)
    fail "no part $1"
    ;;
esac
