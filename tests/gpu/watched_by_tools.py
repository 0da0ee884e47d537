#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""R45: compute-sanitizer and nsys run programs under kedge and find nothing that they do not find without.

The tools see a pool as one block, so kedge is run as it is meant to be run under them: KEDGE_MODE=off and track. A pooled run
is made as well and must end well. Exit 77 without a GPU or without either tool.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("KEDGE_BUILD") or HERE.parents[1] / "build" / "release").resolve()
PROGRAM = [str(BUILD / "tests" / "gpu" / "plain_dynamic"), "200"]


def find(tool):
    found = shutil.which(tool)
    places = sorted(pathlib.Path("/usr/local").glob(f"cuda*/bin/{tool}")) + sorted(pathlib.Path("/opt/nvidia").glob(f"**/{tool}"))
    return found or (str(places[-1]) if places else None)


def execute(command, mode):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("KEDGE_", "LD_PRELOAD"))}
    if mode != "none":
        env.update({"LD_PRELOAD": str(BUILD / "libkedge.so"), "KEDGE_MODE": mode, "KEDGE_TRACE": "off"})
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                          timeout=300, check=False)
    return done.returncode, done.stdout


def sanitizer(tool, mode):
    """(exit, findings, the program's own result)"""
    status, output = execute([tool, "--tool", "memcheck", "--error-exitcode", "9", *PROGRAM], mode)
    errors = re.findall(r"ERROR SUMMARY: (\d+) error", output)
    return status, errors, re.findall(r"^checksum .*$", output, re.M)


def profiler(tool, mode):
    with tempfile.TemporaryDirectory() as folder:
        status, output = execute([tool, "profile", "--force-overwrite", "true", "-o", f"{folder}/report", *PROGRAM], mode)
        made = any(pathlib.Path(folder).glob("report*"))
    return status, [f"report {made}"], re.findall(r"^checksum .*$", output, re.M)


def main():
    probe = subprocess.run([sys.executable, HERE / "probe.py"], capture_output=True, text=True, check=False)
    if probe.returncode != 0:
        print(probe.stdout.strip() or "SKIP: the probe for a GPU failed")
        return 77
    tools = [(t, how) for t, how in ((find("compute-sanitizer"), sanitizer), (find("nsys"), profiler)) if t]
    if not tools or not pathlib.Path(PROGRAM[0]).exists():
        print("SKIP: neither compute-sanitizer nor nsys here, or no program built")
        return 77
    wrong = 0
    for tool, how in tools:
        wanted = how(tool, "none")
        print(f"{tool}, alone: {wanted}")
        for mode in ("off", "track", "pool"):
            got = how(tool, mode)
            same = got == wanted
            wrong += not same
            print(f"{tool}, {mode}: {'same' if same else got}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
