#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The packages on a Debian 12 that has nothing else of ours: installed by apt with what they depend on, run, purged.
. "$(dirname "$0")/../check.sh"
unset "${!KEDGE_@}" LD_LIBRARY_PATH
skip() { echo "SKIP: $*"; exit 77; }
[ "$(id -u)" = 0 ] || skip "this is not root"
for tool in debootstrap unshare chroot; do command -v $tool >/dev/null || skip "no $tool here"; done
[ "$(dpkg --print-architecture)" = amd64 ] || skip "this is not amd64"
[ -e "$(echo "$TEST_PACKED"/kedge-sim_*.deb)" ] || skip "no Debian packages here"
mirror=${TEST_DEBIAN_MIRROR:-http://deb.debian.org/debian}
root=$PWD/root
# What is mounted is so for the command alone.
inside() {
    unshare --mount --pid --fork sh -c 'mount -t proc proc "$0/proc" && mount --bind /dev "$0/dev" && exec chroot "$@"' "$root" "$root" \
        env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"
}
unshare --mount true 2>/dev/null || skip "no mounts of our own here"
trap 'rm -rf "$root"' EXIT # half a gigabyte
timeout 900 debootstrap --variant=minbase --include=man-db,python3-minimal bookworm "$root" "$mirror" >bootstrap.log 2>&1 ||
    skip "debootstrap: $(tail -1 bootstrap.log)"
cp /etc/resolv.conf "$root/etc/resolv.conf"
# Everything but what package managers write down, and temporary files.
listed() {
    (cd "$root" && find . -xdev \( -path ./proc -o -path ./dev -o -path ./tmp -o -path ./var/lib/apt -o -path ./var/lib/dpkg \
        -o -path ./var/cache -o -path ./var/log -o -path ./root \) -prune -o -print | sort)
}
cp "$TEST_PACKED"/*.deb "$root/tmp"
"$CC" -I"$TEST_SOURCE/preload/base" -I"$TEST_SOURCE" -I"$TEST_SOURCE/tests/trainers/include" "$TEST_SOURCE/tools/examples/marks.c" \
    "$TEST_BUILD/sim/libcudart.so.13" -o "$root/tmp/marks"
expect 0 inside apt-get update
expect 0 inside apt-get install -qq --no-install-recommends libpython3-stdlib python3 # ctypes
listed >before

expect 0 inside sh -c 'apt-get install -y /tmp/kedge_*.deb /tmp/kedge-sim_*.deb'
expect 0 inside dpkg-query -W -f '${Status}\n' kedge kedge-sim
[ "$(sort -u out)" = "install ok installed" ] || fail "not all is installed: $(cat out)"
expect 0 inside kedge --version
expect 0 inside sh -c 'cd /tmp && kedge run --sim --capture m.kcap -- ./marks'
has out "3 steps"
has err "kedge run: peak live 192.00 MiB"
expect 0 inside kedge report /tmp/m.kcap --json
json "j['max_bytes'] == 192 << 20 and [a['name'] for a in j['anchors']][:3] == ['step', 'step/workspace done', 'step/update']"
expect 0 inside sh -c 'cd /tmp && PATH=/usr/bin kedge run --sim --capture n.kcap -- python3 -c "import kedge; print(kedge.active(), kedge.live())"'
has out "True None"
[ -d "$root/usr/lib/python3/dist-packages/kedge/__pycache__" ] || fail "Python has written nothing beside the module"
for page in "$TEST_SOURCE"/tools/man/*.[15]; do
    name=$(basename "$page") section=${page##*.}
    expect 0 inside man -w "$section" "${name%.*}"
    has out "/usr/share/man/man$section/$name.gz"
    expect 0 inside lexgrog "/usr/share/man/man$section/$name.gz"
    has out "${name%.*} - "
done
expect 0 inside sh -c 'man kedge-run | cat'
has out "--capture FILE"
expect 0 inside bash -c '. /usr/share/bash-completion/completions/kedge && COMP_WORDS=(kedge ver) COMP_CWORD=1 && _kedge && echo "$COMPREPLY"'
[ "$(cat out)" = verify ] || fail "completion: $(cat out)"

expect 0 inside apt-get purge -y kedge kedge-sim
expect 0 inside apt-get autoremove --purge -y
listed >after
diff before after >&2 || fail "purged, and traces are left"
[ -z "$(grep -l kedge "$root"/var/lib/dpkg/status "$root"/var/lib/dpkg/info/* 2>/dev/null)" ] || fail "dpkg remembers it"
