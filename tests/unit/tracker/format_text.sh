#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Captures of all forms, read by our reader and by tests/replay/kcap.py, which knows tracker/FORMAT.md only: line by line the same.
# (The order of places is the reader's own.)
set -eu -o pipefail

text=$TEST_BUILD/tests/unit/capture_text
make=$TEST_BUILD/tests/unit/capture_maker
rm -f ./*.kcap

in_order() {
    awk '!/^place /; /^place / { print | "sort" }'
}

"$text" odd odd.kcap # as rank 7
mv odd.kcap.7 odd.kcap
for form in good live touched agg; do
    "$make" $form $form.kcap > /dev/null
done
for form in oom killed; do # neither comes to its end
    "$make" $form $form.kcap > /dev/null 2>&1 || true
done
for capture in odd good live touched oom agg killed; do
    "$text" show $capture.kcap | in_order > $capture.ours
    python3 "$TEST_SOURCE/tests/replay/kcap.py" $capture.kcap | in_order > $capture.document
    diff $capture.ours $capture.document
done
# that there was something to compare
for kind in 1 2 3 4 5 6 7 8 9; do
    grep -q "^event $kind " odd.document
done
for line in live other place failure holder ladder string module node rule setting note gpu coverage thread; do
    grep -q "^$line " odd.document
done
