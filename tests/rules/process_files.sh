#!/bin/bash
# SPDX-License-Identifier: MIT
#
# What can be read off the products. R41: libkedge.so is never unloaded, since its pointers have been handed out. R48, R49: it
# has one signal handler, that of SIGBUS (preload/hooks/bus.h), and knows no other way to install one. R59: the simulated driver binds its own calls to itself, or a hook that is
# broken would seem to work.
set -u
fail=0
lib=$TEST_BUILD/libkedge.so
sim=$TEST_BUILD/sim/libcuda.so.1

readelf -dW "$lib" | grep -q 'Flags:.*NODELETE' || { echo "$lib is not marked nodelete"; fail=1; }
readelf -dW "$sim" | grep -qE '\(SYMBOLIC\)|Flags:.*SYMBOLIC' || { echo "$sim is not bound to itself"; fail=1; }
handlers=$(nm -D --undefined-only "$lib" | grep -wE 'sigaction|signal|sigaltstack|bsd_signal|sigset')
[ -z "$handlers" ] || { echo "$lib uses $handlers"; fail=1; }
# the greps see something
nm -D --undefined-only "$lib" | grep -qw pthread_atfork || nm -D --undefined-only "$lib" | grep -q __register_atfork \
    || { echo "nm lists nothing of $lib"; fail=1; }
exit $fail
