#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What `cmake --install` makes, and what runs from there. $1 says which part.
. "$(dirname "$0")/../check.sh"
unset "${!KEDGE_@}" LD_LIBRARY_PATH
part=${1:-}
install_to() { expect 0 cmake --install "$TEST_BUILD" --prefix "$PWD/$1" "${@:2}"; } # folder, more for cmake
files_of() { (cd "$1" && find . ! -type d | sort); }
# The program of the examples, linked with the simulated device's runtime. $1 is an installation.
build_example() {
    local flags
    flags=$(PKG_CONFIG_PATH=$1/share/pkgconfig pkg-config --cflags kedge)
    expect 0 "$CC" -Wall -Wextra -Werror $flags -I"$TEST_SOURCE/tests/trainers/include" -I"$TEST_SOURCE" \
        "$1/share/doc/kedge/examples/marks.c" "$1"/lib/kedge/sim/libcudart.so.13 -o marks
}
needs() { for tool in "$@"; do command -v "$tool" >/dev/null || { echo "SKIP: no $tool here"; exit 77; }; done; }
# The library directory of this build may have another name than lib.
grep -q '^CMAKE_INSTALL_LIBDIR:[A-Z]*=lib$' "$TEST_BUILD/CMakeCache.txt" || { echo "SKIP: libraries do not go to lib/"; exit 77; }

case "$part" in
moved)
    install_to first
    mkdir 'a folder' && mv first 'a folder/second'
    prefix="$PWD/a folder/second"
    # A path with a blank is none for LD_PRELOAD, and one line says so.
    expect 77 "$prefix/bin/kedge" run -- env
    has err "LD_PRELOAD cannot hold a path with a blank or a colon"
    mv "$prefix" third
    prefix=$PWD/third
    expect 0 "$prefix/bin/kedge" run -- env
    has out "LD_PRELOAD=$prefix/lib/kedge/libkedge.so"
    expect 0 "$prefix/bin/kedge" run --sim -- env
    has out "LD_LIBRARY_PATH=$prefix/lib/kedge/sim"
    printf 'op,id,size,stream,time_us\na,1,4194304,0,1\nf,1,4194304,0,2\n' >trace.csv
    expect 0 "$prefix/bin/kedge" run --sim --capture r.kcap -- "$TEST_BUILD/tests/bench/kedge-replay" trace.csv
    has out "peak live bytes: 4194304"
    expect 0 "$prefix/bin/kedge" report r.kcap --json
    json "j['max_bytes'] == 4194304 and j['complete']"
    # By a link from elsewhere, too; a file that is called sim beside it is no device.
    mkdir bin && ln -s "$prefix/bin/kedge" bin/kedge && touch "$prefix/bin/sim"
    expect 0 bin/kedge run --sim -- env
    has out "LD_LIBRARY_PATH=$prefix/lib/kedge/sim"
    rm -r "$prefix/lib/kedge/sim"
    expect 77 "$prefix/bin/kedge" run --sim -- true
    has err "kedge run: --sim: no simulated device in sim/ beside kedge or in ../lib/kedge/sim; install it (package kedge-sim), or set KEDGE_SIM"
    rm "$prefix/lib/kedge/libkedge.so"
    expect 77 "$prefix/bin/kedge" run -- true
    has err "libkedge.so is neither beside kedge nor in ../lib/kedge"
    ;;
files)
    install_to all
    install_to kedge --component kedge
    install_to sim --component sim
    files_of all >all.txt
    { files_of kedge; files_of sim; } | sort >both.txt
    diff all.txt both.txt >&2 || fail "the components are not all, or not apart"
    ! grep -q /sim/ <(files_of kedge) || fail "the device is in the component kedge"
    [ "$(files_of sim | grep -v '^./lib/kedge/sim/')" = ./share/doc/kedge/simulated-device.txt ] ||
        fail "the component sim is not all in its folder: $(files_of sim)"
    for file in bin/kedge lib/kedge/libkedge.so include/kedge.h share/pkgconfig/kedge.pc \
        share/doc/kedge/LICENSE share/doc/kedge/copyright share/doc/kedge/CHANGELOG.md \
        lib/kedge/sim/libcuda.so.1 lib/kedge/sim/libcudart.so.11.0 lib/kedge/sim/libcudart.so.12 lib/kedge/sim/libcudart.so.13 \
        lib/kedge/sim/nccl/libnccl.so.2; do
        [ -f "all/$file" ] || fail "no $file"
    done
    diff <(cd "$TEST_SOURCE/tools/python/kedge" && ls ./*.py) <(cd all/lib/kedge/python/kedge && ls ./*) >&2 || fail "the module"
    # Links lead to what is installed.
    [ -z "$(find all -xtype l)" ] || fail "links that lead nowhere: $(find all -xtype l)"
    # Whole folders of the tree, so that a new file is not forgotten.
    for section in 1 5; do diff <(cd "$TEST_SOURCE/tools/man" && ls ./*.$section) <(cd all/share/man/man$section && ls ./*) >&2 || fail "pages of section $section"; done
    diff <(cd "$TEST_SOURCE/tools/examples" && ls) <(cd all/share/doc/kedge/examples && ls) >&2 || fail "examples"
    # Completion as this kedge prints it.
    all/bin/kedge --completion bash | cmp - all/share/bash-completion/completions/kedge || fail "completion of bash"
    all/bin/kedge --completion zsh | cmp - all/share/zsh/site-functions/_kedge || fail "completion of zsh"
    all/bin/kedge --completion fish | cmp - all/share/fish/vendor_completions.d/kedge.fish || fail "completion of fish"
    # No path of this machine is in what is read as text.
    ! grep -rIl -e "$TEST_SOURCE" -e "$TEST_BUILD" all >&2 || fail "paths of the build"
    ;;
example)
    needs pkg-config
    install_to first && mv first moved
    prefix=$PWD/moved
    build_example "$prefix"
    [ "$(PKG_CONFIG_PATH=$prefix/share/pkgconfig pkg-config --variable=library kedge | xargs realpath)" = "$prefix/lib/kedge/libkedge.so" ] ||
        fail "kedge.pc names another library"
    kedge=$prefix/bin/kedge
    LD_LIBRARY_PATH=$prefix/lib/kedge/sim expect 0 ./marks # without kedge the marks do nothing
    expect 0 "$kedge" run --sim --capture marks.kcap -- ./marks
    expect 0 "$kedge" report marks.kcap --json
    json "[a['name'] for a in j['anchors']] == ['step', 'step/workspace done', 'step/update'] * 3"
    json "j['max_bytes'] == 192 << 20"
    cp "$prefix"/share/doc/kedge/examples/*.yaml . # the receipt is written beside them
    for file in *.yaml; do expect 0 "$kedge" hints lint --strict "$file"; done
    expect 0 "$kedge" verify --sim --hints release.yaml -- ./marks
    expect 0 "$kedge" run --sim --hints release.yaml --hints-mode live --capture live.kcap -- ./marks
    expect 0 "$kedge" report live.kcap --json
    json "j['hinted_freed_count'] == 3 and j['max_with_hints_bytes'] == 128 << 20"
    ;;
*)
    fail "no part $part"
    ;;
esac
