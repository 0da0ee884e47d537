#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The README's first command on the simulated device, with the binaries of this build: every step shows what it should.
set -euo pipefail
DEMO_BUILD=$TEST_BUILD "$TEST_SOURCE/tools/demo" --sim | tee demo.out
for words in '13\.11 GiB' '9\.41 GiB' '751' '3\.71 GiB' '6 hints for 751 of 751 late frees' 'bad with hints finished' 'good           finished' 'device: simulated'; do
    grep -q "$words" demo.out || { echo "FAILED: the demo does not show: $words"; exit 1; }
done
# No table is wider than the terminal, which has 80 columns where there is none.
sed -n '/^== result/,$p' demo.out | grep -v '^captures, ' | awk 'length > 80 { print; wide = 1 } END { exit wide }' >&2 ||
    { echo "FAILED: the last table is too wide"; exit 1; }

# What README.md shows of the demo is what the demo prints; blanks do not count.
squeeze() { tr -s ' ' <"$1" | sed 's/^ //; s/ $//'; }
squeeze demo.out >printed
sed -n '/<!-- lines of tools\/demo -->/,/<!-- end -->/p' "$TEST_SOURCE/README.md" | grep -v '^<!--' >shown
[ "$(grep -c . shown)" -gt 10 ] || { echo "FAILED: README.md shows no lines of the demo"; exit 1; }
squeeze shown | grep . | while IFS= read -r line; do
    grep -qF -- "$line" printed || { echo "FAILED: README.md shows a line that the demo does not print: $line"; exit 1; }
done
