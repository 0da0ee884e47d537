#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares hooks.def with the toolkit's cudaTypedefs.h and cudaProfilerTypedefs.h: every (name, version, flag) that a row claims is one that the
toolkit knows, begins where it says, and ends where the next form of the name begins, as far as the toolkit goes
(lint.headers has the newest headers, where a registry answers). Skipped without a toolkit."""
import collections
import os
import re
import sys

headers = []
for root in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"):
    if root and os.path.exists(os.path.join(root, "include", "cudaTypedefs.h")):
        headers = [os.path.join(root, "include", name) for name in ("cudaTypedefs.h", "cudaProfilerTypedefs.h")]
        break
if not headers:
    print("SKIP: no cudaTypedefs.h")
    sys.exit(77)

versions = collections.defaultdict(set)
text = "".join(open(header).read() for header in headers)
for name, version, flavour in re.findall(r"PFN_(cu\w+?)_v(\d+)(_pt[ds][sz])?\)", text):
    versions[name, 2 if flavour else 0].add(int(version))

table = open(os.path.join(os.environ["TEST_SOURCE"], "preload", "base", "hooks.def")).read()
rows = re.findall(r'^HOOK\((\w+), "(\w+)", (\d+), (\d+), (\d), \w+,', table, re.M)
for form, symbol, name, start, start_per_thread, end in re.findall(
        r'^HOOK_(PTSZ|PTDS)\((\w+), "(\w+)", (\d+), (\d+), (\d+), \w+,', table, re.M):
    rows += [(symbol, name, start, end, "0"), (f"{symbol}_{form.lower()}", name, start_per_thread, end, "2")]
bad = 0
newest = max(v for known in versions.values() for v in known)
for symbol, name, start, end, flag in rows:
    known = versions[name, int(flag)]
    after = [v for v in known if v > int(start)]
    wanted = min(after) if after else 0
    if int(start) > newest:
        continue
    if int(end) > newest:
        end = 0
    if int(start) not in known or int(end) != wanted:
        print(f"{symbol}: {name} from {start} to {end}; the toolkit has {sorted(known)}")
        bad = 1
print(f"{len(rows)} rows, {sum(len(v) for v in versions.values())} of the toolkit")
sys.exit(bad or (1 if len(rows) < 100 else 0))
