#!/bin/bash
# SPDX-License-Identifier: MIT
# covers: unsize.c
#
# The tool that takes the sizes of exported functions out of a library: what it changes, and what it refuses.
set -u
unsize=$TEST_BUILD/kedge_unsize
fail=0
check() { if [ "$2" != "$3" ]; then echo "$1: '$2', not '$3'"; fail=1; fi; }
# names with a size among a library's dynamic symbols; what the tool says of a file, and its exit status
sized() { nm -DS --defined-only "$1" | awk 'NF == 4 { print $4 }' | sort | tr '\n' ' '; }
said() { "$unsize" "$@" 2>&1; echo "$?"; }
# library NAME CODE
library() { echo "$2" | $CC -x c -shared -fPIC -nostdlib -o "$1" - || { echo "no $1"; fail=1; }; }

library one.so 'int size_of_none(void); int one(void) { return size_of_none(); } int variable = 7;'
library two.so 'int one(void) { return 1; } int two(void) { return 2; } static int own(void) { return 3; } int three(void) { return own(); }'
library none.so 'int variable = 7;'
for name in one two; do cp $name.so $name.before; done
check "one before" "$(sized one.so)" "one variable "
check "one" "$(said one.so)" "0"
check "one after" "$(sized one.so)" "variable "
check "two" "$(said two.so)" "0"
check "two after" "$(sized two.so)" ""
for name in one two; do # nothing else is changed
    check "length of $name" "$(stat -c %s $name.so)" "$(stat -c %s $name.before)"
    check "places of $name" "$(nm -D $name.so)" "$(nm -D $name.before)"
done

none="no library with exported functions"
cp none.so none.before
check "no function" "$(said none.so)" "unsize: none.so: $none"$'\n1'
check "no function, unchanged" "$(cmp none.so none.before && echo same)" "same"
cp two.before small.so
printf '\1' | dd of=small.so bs=1 seek=4 conv=notrunc status=none # of 32 bits
check "another class" "$(said small.so)" "unsize: small.so: $none"$'\n1'
echo 'not a library, and longer than the header of one would be: so it is read, and then refused' >text
check "a text" "$(said text)" "unsize: text: $none"$'\n1'
check "no file" "$(said missing.so)" "unsize: missing.so: No such file or directory"$'\n1'
: >empty
check "an empty file" "$(said empty)" "unsize: empty: Invalid argument"$'\n1'
check "no argument" "$(said | tail -1)" "1"
check "two arguments" "$(said one.so two.so | tail -1)" "1"
exit $fail
