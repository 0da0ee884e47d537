#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The sync API on real steps, against Paddle's policy and against no pool at all, both as the driver backs them.

    KEDGE_TEST_TRACES=... plain_heap.py
"""
import json
import os
import subprocess
import sys


def held(path):
    """{policy: bytes}, and the most that was live."""
    command = [os.path.join(os.environ["TEST_BUILD"], "tests", "bench", "kedge-models"), "whatif", path, "--policy", "kedge-sync,paddle,native", "--json"]
    answer = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return ({a["policy"]: a["peak_reserved_bytes"] for a in answer["policies"]}, answer["policies"][0]["peak_live_512_bytes"])


def main():
    folder = os.path.join(os.environ.get("KEDGE_TEST_TRACES", ""), "csv")
    if not os.path.isdir(folder):
        print("SKIP: no KEDGE_TEST_TRACES")
        return 77
    wrong = 0
    for name in sorted(os.listdir(folder)):
        of, live = held(os.path.join(folder, name))
        print(f"{name:36} " + ", ".join(f"{policy} {live / size:.4f} {size >> 20:6} MiB" for policy, size in of.items()))
        wrong += of["kedge-sync"] > of["paddle"]
    return 1 if wrong else 0


sys.exit(main())
