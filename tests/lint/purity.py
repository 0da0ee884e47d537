#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""lint.purity: what the archive libkedge_alloc.a asks of the outside.

Guards the promise that alloc/ decides and does nothing else: no malloc (it runs inside the program's own malloc),
no stdio, no environment, no clock (tests would have to wait), no driver (tests would need one). A header check cannot
see a call through a macro; the archive's undefined symbols show all of them.
"""
import pathlib
import sys
import tempfile

import lintkit

ALLOWED = {
    # memory of our own, and making it read-only
    "mmap", "mmap64", "munmap", "mprotect", "mremap", "madvise",
    # words
    "memcpy", "memmove", "memset", "memcmp", "strlen", "strcmp", "strncmp", "strchr", "strstr", "strnlen", "fnmatch",
    # locks and waiting for another thread, and the errno of the calls above
    "syscall", "sched_yield", "pthread_self", "pthread_mutex_init", "pthread_mutex_lock", "pthread_mutex_unlock",
    "pthread_mutex_trylock", "pthread_mutex_destroy", "pthread_cond_init", "pthread_cond_wait", "pthread_cond_signal",
    "pthread_cond_broadcast", "pthread_cond_destroy", "__errno_location",
    # the compiler's own
    "__stack_chk_fail", "_GLOBAL_OFFSET_TABLE_", "__tls_get_addr",
    "__memcpy_chk", "__memset_chk", "__memmove_chk",
}


def undefined(archive):
    defined, wanted = set(), {}
    for line in lintkit.run("nm", "-A", archive).splitlines():
        where, _, rest = line.rpartition(":")
        words = rest.split()
        kind, symbol = words[-2], words[-1].split("@")[0]
        if kind in "Uwv":
            wanted.setdefault(symbol, where.rpartition(":")[2])
        else:
            defined.add(symbol)
    return {s: w for s, w in wanted.items() if s not in defined}


def check_archive(archive, complain):
    for symbol, where in sorted(undefined(archive).items()):
        if symbol not in ALLOWED:
            complain(f"{where} uses {symbol}, which alloc/ must do without")


def self_test():
    bad = 0
    cases = [("nothing wrong", "#include <string.h>\nint f(char *p) { memset(p, 0, 9000); return 0; }", False)]
    for call in ("puts(\"x\")", "malloc(9)", "getenv(\"X\")", "time(NULL)", "clock_gettime(0, NULL)", "cuMemFree(0)",
                 "exit(1)", "usleep(1)", "__assert_fail(\"x\", \"f\", 1, \"f\")"):
        cases.append((call, "#include <stddef.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <time.h>\n"
                      "#include <unistd.h>\nint cuMemFree(unsigned long);\nint __assert_fail();\n"
                      f"int f(void);\nint f(void) {{ return (int)(size_t)({call}, 0); }}", True))
    with tempfile.TemporaryDirectory() as root:
        for n, (what, source, red) in enumerate(cases):
            path = lintkit.write(root, f"s{n}.c", source)
            archive = pathlib.Path(root) / f"s{n}.a"
            obj = path.with_suffix(".o")
            lintkit.run(lintkit.CC, "-w", "-D_GNU_SOURCE", "-O0", "-c", path, "-o", obj)
            lintkit.run("ar", "rcs", archive, obj)
            found = []
            check_archive(archive, found.append)
            print(f"{what}: {found or 'silent'}")
            bad += bool(found) != red
    sys.exit(1 if bad else 0)


if "--self-test" in sys.argv:
    self_test()
archives = list(lintkit.BUILD.rglob("libkedge_alloc.a"))
if not archives:
    lintkit.skip("libkedge_alloc.a is not built here")
complaints = []
for one in archives:
    check_archive(one, complaints.append)
print("\n".join(complaints + [f"{len(complaints)} findings"]))
sys.exit(1 if complaints else 0)
