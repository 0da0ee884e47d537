#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Packages of what is built, in $TEST_PACKED. $1 says which part.
. "$(dirname "$0")/../check.sh"
unset "${!KEDGE_@}" LD_LIBRARY_PATH
field() { dpkg-deb -f "$1" "$2"; }

case "${1:-}" in
make)
    rm -rf "$TEST_PACKED"
    has_shlibdeps=0
    command -v dpkg-shlibdeps >/dev/null || has_shlibdeps=1
    expect $has_shlibdeps cpack --config "$TEST_BUILD/CPackConfig.cmake" -B "$TEST_PACKED"
    rm -r "$TEST_PACKED/_CPack_Packages"
    tarball=$(ls "$TEST_PACKED"/kedge-*.tar.gz)
    tar -tvzf "$tarball" >listed
    [ -z "$(grep -v ' root/root ' listed)" ] || fail "files that are not root's: $(cat listed)"
    LC_ALL=C sort -c <(tar -tzf "$tarball") || fail "the names are not sorted"
    [ "$(tar -tvzf "$tarball" --full-time | awk '{print $4, $5}' | sort -u | wc -l)" = 1 ] || fail "more than one time"
    [ $has_shlibdeps = 0 ] || { echo "SKIP: no dpkg-shlibdeps here, no Debian packages"; exit 77; }
    kedge=$(ls "$TEST_PACKED"/kedge_*.deb) sim=$(ls "$TEST_PACKED"/kedge-sim_*.deb)
    version=$("$TEST_BUILD/kedge" --version | sed -n 's/^kedge //p')
    for library in libarchive13 libc6 libdw1 libelf1; do
        grep -qE "(^|, )$library( |,|$)" <(field "$kedge" Depends) || fail "kedge does not depend on $library: $(field "$kedge" Depends)"
    done
    [ "$(field "$kedge" Recommends)" = "libstdc++6" ] || fail "recommended: $(field "$kedge" Recommends)"
    grep -q "^kedge (= $version), libc6 " <(field "$sim" Depends) || fail "kedge-sim depends on $(field "$sim" Depends)"
    # No script runs at an installation; one removes what Python wrote beside the module.
    scripts() { dpkg-deb --ctrl-tarfile "$1" | tar -t | sort | xargs; }
    [ "$(scripts "$kedge")" = "./control ./md5sums ./prerm" ] || fail "scripts of kedge: $(scripts "$kedge")"
    [ "$(scripts "$sim")" = "./control ./md5sums" ] || fail "scripts of kedge-sim: $(scripts "$sim")"
    dpkg-deb --fsys-tarfile "$kedge" | tar -t | grep -qx ./usr/lib/python3/dist-packages/kedge/__init__.py || fail "no module in kedge"
    for package in "$kedge" "$sim"; do
        ! dpkg-deb --fsys-tarfile "$package" | tar -tv | grep -vE '^(drwxr-xr-x|-rw-r--r--|-rwxr-xr-x|lrwxrwxrwx) root/root ' >&2 ||
            fail "odd rights in $package"
    done
    ;;
missing)
    # Where there is all but dpkg-shlibdeps.
    mkdir tools
    for tool in cmake cpack tar gzip chmod find touch ar strip git readelf objdump; do ln -s "$(command -v $tool)" tools/; done
    PATH=$PWD/tools expect 1 cpack --config "$TEST_BUILD/CPackConfig.cmake" -B packed
    tr -s ' \n' ' ' <err >line
    has line "No Debian packages are made, the tarball is: dpkg-shlibdeps is not here"
    has line "dpkg-dev"
    [ "$(cd packed && ls ./*.tar.gz ./*.deb 2>/dev/null | wc -l)" = 1 ] || fail "packed: $(ls packed)"
    ;;
tarball)
    mkdir there && tar -C there -xzf "$TEST_PACKED"/kedge-*.tar.gz
    kedge=$(echo "$PWD"/there/*/bin/kedge)
    expect 0 "$kedge" --version
    cp out version && "$TEST_BUILD/kedge" --version | cmp - version || fail "another version"
    printf 'op,id,size,stream,time_us\na,1,4194304,0,1\n' >trace.csv
    expect 0 "$kedge" run --sim --capture r.kcap -- "$TEST_BUILD/tests/bench/kedge-replay" trace.csv
    expect 0 "$kedge" report r.kcap --json
    json "j['max_bytes'] == 4194304 and j['complete']"
    ;;
lintian)
    command -v lintian >/dev/null || { echo "SKIP: no lintian here"; exit 77; }
    packages=("$TEST_PACKED"/*.deb)
    [ -e "${packages[0]}" ] || { echo "SKIP: no Debian packages here"; exit 77; }
    expect 0 lintian --allow-root --fail-on none --show-overrides --tag-display-limit 0 "${packages[@]}"
    [ -z "$(grep '^[EW]:' out)" ] || fail "$(cat out)"
    # What it is told not to say stands in kedge.overrides, each with its reason, and it would say it.
    [ "$(grep '^O:' out | sort)" = "$(grep '^kedge' "$TEST_SOURCE/tools/package/kedge.overrides" | sed 's/^/O: /' | sort)" ] ||
        fail "an override for nothing, or too few: $(cat out)"
    ;;
*)
    fail "no part '${1:-}'"
    ;;
esac
