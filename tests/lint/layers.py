#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""lint.layers: what each folder includes.

Guards the one straight line tools, preload -> tracker -> alloc. The first include that goes the other way is the
last day on which alloc/ can be tested without a driver and the reader without a program; a code review does not see
it, this does.
"""
import re

import lintkit

# Folder -> patterns of quoted includes that it may use.
MAY_USE = {
    "alloc": [r"alloc/.*"],
    "tracker": [r"tracker/.*", r"alloc/base/(types|rule|lock|meta|table|wildcard)\.h"],
    "preload": [r"preload/.*", r"alloc/.*", r"tracker/(?!reader/).*"],
    "tools": [r"tools/.*", r"alloc/.*", r"tracker/(base|format|hints|reader)/.*", r"tracker/where/loglines\.h", r"tracker/capture/capold\.h"],
    "tests": [r".*"],
}
# Real CUDA headers: nowhere in the products. Our own cuda_abi.h: in preload/.
CUDA = re.compile(r"(^|/)(cuda|nv|cublas|cudnn|nccl)[A-Za-z0-9_]*\.h(pp)?$")
# System headers that alloc/ must not even name; what it calls is checked by lint.purity on the archive.
ALLOC_NEVER = re.compile(r"^(stdio|stdlib|malloc|time|sys/time|syslog|err|dlfcn|yaml|libunwind)\.h$")
# Headers with one user.
ONE_USER = {
    "yaml.h": re.compile(r"^tracker/hints/hint(file|tree)\.[ch]$"),
}
# A trainer is what a user could have written: it knows CUDA's interface and its own helpers, nothing of kedge.
TRAINERS = re.compile(r"^(tests/trainers/.*|tests/sim/base/program_abi\.h)$")
# So is an example, which is installed and finds kedge's header there.
EXAMPLES = "tools/examples/"
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)


def complaint(name, quote, target):
    top = name.split("/")[0]
    if name.startswith(EXAMPLES):
        return "an example includes what is installed" if quote == '"' else None
    if target in ONE_USER and not ONE_USER[target].match(name):
        return f"only {ONE_USER[target].pattern} may include it"
    if top != "tests" and target.split("/")[0] not in MAY_USE and CUDA.search(target):
        return "no CUDA header in the products, preload/base/cuda_abi.h declares what we speak"
    if quote == "<":
        return "alloc/ does without it" if top == "alloc" and ALLOC_NEVER.match(target) else None
    if name.startswith("tests/trainers/") and "/" in target and not TRAINERS.match(target):
        return "a trainer knows nothing of kedge"
    if not any(re.fullmatch(p, target) for p in MAY_USE[top]):
        return f"{top}/ may use only {', '.join(MAY_USE[top])}"
    return None


def check(root, complain):
    for path in lintkit.files(root, ".c", ".h", ".def"):
        name = str(path.relative_to(root))
        if name.split("/")[0] not in MAY_USE:
            complain(f"{name}: source file outside the five folders")
            continue
        for quote, target in INCLUDE.findall(lintkit.read(path)):
            why = complaint(name, quote, target)
            if why:
                complain(f"{name}: includes {target}: {why}")


def clean(root):
    lintkit.write(root, "alloc/pool.c", '#include "alloc/pool.h"\n#include <errno.h>\n')
    lintkit.write(root, "tracker/hints/hintfile.c", "#include <yaml.h>\n")
    lintkit.write(root, "tracker/where/where.c", '#include "alloc/base/types.h"\n')
    lintkit.write(root, "preload/request/dispatch.c", '#include "alloc/pool.h"\n#include "preload/base/cuda_abi.h"\n')
    lintkit.write(root, "tools/examples/marks.c", '#include <cuda_runtime_api.h>\n#include <kedge.h>\n')
    lintkit.write(root, "tests/trainers/sot.c", '#include <cuda_runtime_api.h>\n#include "nvtx.h"\n')


def seed(name, line):
    return lambda root: lintkit.write(root, name, line + "\n")


lintkit.main(check, clean, [
    ("alloc includes tracker", seed("alloc/index/fence.c", '#include "tracker/where/where.h"')),
    ("alloc includes stdio", seed("alloc/index/fence.c", "#include <stdio.h>")),
    ("tracker includes the pool", seed("tracker/where/anchor.c", '#include "alloc/pool.h"')),
    ("tracker includes CUDA", seed("tracker/where/anchor.c", '#include "preload/base/cuda_abi.h"')),
    ("yaml in the reader", seed("tracker/reader/read.c", "#include <yaml.h>")),
    ("preload includes the reader", seed("preload/driver/life.c", '#include "tracker/reader/read.h"')),
    ("preload includes cuda.h", seed("preload/driver/life.c", "#include <cuda.h>")),
    ("tools includes preload", seed("tools/main.c", '#include "preload/driver/life.h"')),
    ("tools includes CUDA", seed("tools/commands/cmd_run.c", '#include "preload/base/cuda_abi.h"')),
    ("tools includes the recorder", seed("tools/main.c", '#include "tracker/stacks/unwind.h"')),
    ("product includes a test", seed("preload/driver/life.c", '#include "tests/check.h"')),
    ("a trainer knows kedge", seed("tests/trainers/sot.c", '#include "preload/base/kedge.h"')),
    ("an example knows the tree", seed("tools/examples/marks.c", '#include "preload/base/kedge.h"')),
    ("a sixth folder", seed("common/misc.c", "#include <errno.h>")),
])
