#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The preset `package` in two folders, in two environments, at two times: the same bytes.
. "$(dirname "$0")/../check.sh"
unset "${!KEDGE_@}" LD_LIBRARY_PATH "${!CMAKE_@}" "${!CCACHE_@}"
export CCACHE_DISABLE=1
command -v ninja >/dev/null || { echo "SKIP: no ninja here"; exit 77; }
# The time of the sources; the copies have no history.
epoch=$(git -C "$TEST_SOURCE" log -1 --format=%ct 2>/dev/null || stat -c %Y "$TEST_SOURCE/CHANGELOG.md")
copy() { # folder
    mkdir -p "$1"
    tar -C "$TEST_SOURCE" --exclude=./build --exclude=./.git -cf - . | tar -C "$1" -xf -
}
pack() { # folder, more for env
    (cd "$1" && shift && env "$@" SOURCE_DATE_EPOCH="$epoch" cmake --workflow --preset package) >log 2>&1 || { tail -30 log >&2; fail "$1"; }
}
copy one
copy two/of/another/length
pack one TZ=UTC LC_ALL=C
umask 027
sleep 1 # times of files differ
pack two/of/another/length TZ=Asia/Tokyo LC_ALL=C.UTF-8 USER=other
(cd one/build/package && ls ./*.tar.gz ./*.deb) >names
[ -s names ] || fail "nothing was packed"
while read -r name; do
    cmp "one/build/package/$name" "two/of/another/length/build/package/$name" || fail "$name differs"
done <names
! tar -xOzf one/build/package/kedge-*.tar.gz | grep -qaF "$PWD" || fail "the folder of the build stands in the tarball"
cat names
rm -rf one two
