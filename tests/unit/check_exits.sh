#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A framework that cannot fail would make every other test worthless: builds a program whose tests fail, skip and
# pass on purpose and looks at what it says and how it exits.
set -eu
cat >odd.c <<'C'
#include "tests/check.h"
TEST(passes) { CHECK_EQ(2, 2); }
TEST(fails) { CHECK_EQ(1, 2); CHECK_ROW("a row"); CHECK_STR_EQ("left side", "right side"); puts("went on"); }
TEST(stops) { REQUIRE(0 > 1); puts("never here"); }
TEST(skips) { SKIP("no such thing here"); }
C
"$CC" -D_GNU_SOURCE -I"$TEST_SOURCE" ${TEST_SANITIZE:+-fsanitize=$TEST_SANITIZE} odd.c -o odd -pthread

expect() { # exit-code pattern args...
    local want=$1 pattern=$2 rc=0
    shift 2
    ./odd "$@" >out 2>&1 || rc=$?
    if [ "$rc" != "$want" ] || ! grep -q -- "$pattern" out; then
        echo "odd $*: exit $rc, wanted $want and a line with: $pattern"
        cat out
        exit 1
    fi
}
expect 1 '^1 passed, 2 failed, 1 skipped$'
expect 0 '^1 passed, 0 failed, 0 skipped$' passes
expect 1 'right side' fails
expect 1 '^went on$' fails
expect 1 'failed: 1 == 2$' fails
expect 1 '(row: a row)$' fails
expect 1 'failed: 0 > 1$' # the row was of another test
expect 1 '0 > 1' stops
expect 77 'SKIP: no such thing here' skips
expect 1 'exists here' nosuch
expect 0 '^stops$' --list
./odd stops | grep -q 'never here' && { echo "REQUIRE went on"; exit 1; }
exit 0
