#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# covers: unsupported.c
# The wheel, made in $TEST_WHEEL. $1 says which part.
. "$(dirname "$0")/../check.sh"
unset "${!KEDGE_@}" LD_LIBRARY_PATH LD_PRELOAD "${!CMAKE_@}" PYTHONPATH
make() { # folder
    local got=0
    python3 "$TEST_SOURCE/tools/package/wheel" --build "$1" --jobs 2 >out 2>err || got=$?
    [ "$got" != 77 ] || { cat out; exit 77; }
    [ "$got" = 0 ] || { tail -30 err >&2; fail "exit $got"; }
}
wheel() { echo "$TEST_WHEEL"/kedge_memory-*.whl; }
# All files and links of a folder, with what is in them. pip leaves empty folders: share, share/man.
listed() { (cd "$1" && find . -type f ! -path '*/__pycache__/*' -exec sha256sum {} + | sort; find . -type l | sort; find . -path '*kedge*' | sort); }

case "${1:-}" in
made)
    make "$TEST_WHEEL"
    cat out
    # Twice the same bytes, in another folder, with other rights.
    cp "$(wheel)" first.whl
    rm -rf "$TEST_WHEEL/again" && mkdir -p "$TEST_WHEEL/again/of/another/length"
    ln -s "$TEST_WHEEL/ziglang" "$TEST_WHEEL/again/of/another/length/ziglang"
    umask 027
    make "$TEST_WHEEL/again/of/another/length"
    cmp first.whl "$TEST_WHEEL"/again/of/another/length/*.whl || fail "not the same bytes"
    rm -r "$TEST_WHEEL/again"
    ;;
old)
    # What each file asks of the C library, read off the files: 2.28 and nothing newer, and no other library.
    python3 -m zipfile -e "$(wheel)" content
    find content -type f -exec sh -c 'head -c 4 "$1" | grep -q ELF' sh {} \; -print >files
    [ "$(wc -l <files)" -gt 20 ] || fail "few files: $(cat files)"
    while read -r file; do
        newest=$(objdump -T "$file" | grep -oE 'GLIBC_2[.0-9]+' | sort -Vu | tail -1)
        [ "$(printf '%s\nGLIBC_2.28\n' "$newest" | sort -V | tail -1)" = GLIBC_2.28 ] || fail "$file needs $newest"
        readelf -dW "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' >needed
        ! grep -vE '^(lib(c|m|dl|rt|pthread|cuda|nccl)\.so\.[0-9]+|ld-linux-x86-64\.so\.2)$' needed >&2 || fail "$file"
        ! grep -qaF "$TEST_SOURCE" "$file" || fail "a folder of the build stands in $file"
    done <files
    cmp <(nm -D --defined-only content/*.data/data/lib/kedge/libkedge.so | awk '{print $3}' | sort) \
        <(nm -D --defined-only "$TEST_BUILD/libkedge.so" | awk '{print $3}' | sort) || fail "other exports than libkedge.so has here"
    ;;
installed)
    python3 -m venv env || { echo "SKIP: python3 cannot make an environment"; exit 77; }
    listed env >before
    expect 0 env/bin/pip install --no-index --no-deps --disable-pip-version-check "$(wheel)"
    kedge=$PWD/env/bin/kedge
    export PATH=$PWD/env/bin:$PATH
    expect 0 kedge --version
    cp out version && "$TEST_BUILD/kedge" --version | cmp - version || fail "another version"
    printf 'op,id,size,stream,time_us\na,1,4194304,0,1\nf,1,4194304,0,2\n' >trace.csv
    expect 0 kedge run --sim --capture r.kcap -- "$TEST_BUILD/tests/bench/kedge-replay" trace.csv
    has out "peak live bytes: 4194304"
    expect 0 kedge report r.kcap --json
    json "j['max_bytes'] == 4194304 and j['complete']"
    # Names of frames and of files are read by what is linked statically.
    expect 0 kedge report r.kcap
    has out ".c:"
    expect 0 kedge bundle r.kcap -o r.tar.zst
    expect 0 kedge report r.tar.zst --json
    json "j['max_bytes'] == 4194304"
    expect 0 kedge export r.kcap --to sqlite -o r.sqlite
    expect 0 python3 -c "import sqlite3; print(sqlite3.connect('r.sqlite').execute('select count(*) from sqlite_master').fetchone())"
    # The driver's second name leads to the one driver, by the auditor.
    LD_AUDIT=$PWD/env/lib/kedge/sim/libsimaudit.so expect 0 kedge run --sim --capture d.kcap -- python3 -c '
import ctypes
one, two = ctypes.CDLL("libcuda.so"), ctypes.CDLL("libcuda.so.1")
assert one.cuInit(0) == 0 and sum("libcuda.so" in line and "r-xp" in line for line in open("/proc/self/maps")) == 1'
    hasnt err "a second driver"
    [ -z "$(find env/lib/kedge -type l)" ] && [ ! -e env/lib/kedge/sim/libcuda.so ] || fail "second names of libraries are files"
    # The module, in the process and outside of one; nothing of Python's own is left by it.
    expect 0 kedge run --sim --capture m.kcap -- python3 -c '
import ctypes, kedge
driver, context, address = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
assert driver.cuInit(0) == 0 and driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert driver.cuCtxSetCurrent(context) == 0
with kedge.anchor("part"), kedge.measure() as used:
    assert driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(3 << 20)) == 0
print(kedge.active(), kedge.live(), used.growth, "<iframe" in kedge.snapshot("s.kcap")._repr_html_())'
    has out "True 3145728 3145728 True"
    expect 0 kedge report m.kcap --json
    json "j['max_bytes'] == 3 << 20 and [a['name'] for a in j['anchors']] == ['part']"
    expect 0 python3 -c 'import kedge; print(kedge.active(), kedge.live())'
    has out "False None"
    expect 0 python3 -c 'import importlib.metadata as m; print([e.value for e in m.entry_points(group="pytest11")])'
    has out "kedge.pytest_plugin"
    [ -f env/share/man/man1/kedge-run.1 ] || fail "no manuals"
    expect 0 env/bin/pip uninstall -y --disable-pip-version-check kedge-memory
    listed env >after
    diff before after >&2 || fail "uninstalled, and traces are left"
    ;;
*)
    fail "no part '${1:-}'"
    ;;
esac
