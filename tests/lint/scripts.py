#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""lint.scripts: every script parses, and can be run.

Guards the branches that a green run never takes: the GPU half of the demo, the error path of the set-up. A syntax
error there shows itself on the one machine where it matters.
"""
import ast
import os
import subprocess

import lintkit


def check(root, complain):
    for path in lintkit.files(root):
        with open(path, "rb") as f:
            first = f.readline(200).decode(errors="replace")
        name = path.relative_to(root)
        if not first.startswith("#!"):
            continue
        if not os.access(path, os.X_OK):
            complain(f"{name}: has a #! line and cannot be run")
        if "python" in first:
            try:
                ast.parse(lintkit.read(path))
            except SyntaxError as e:
                complain(f"{name}:{e.lineno}: {e.msg}")
        elif "sh" in first:
            done = subprocess.run([first[2:].split()[-1].split("/")[-1], "-n", str(path)], capture_output=True, text=True,
                                  check=False)
            if done.returncode != 0:
                complain(f"{name}: {done.stderr.strip()}")


def script(name, text, mode=0o755):
    return lambda root: lintkit.write(root, name, text).chmod(mode)


lintkit.main(check, script("tools/setup", "#!/usr/bin/env bash\necho a\n"), [
    ("shell syntax", script("tests/run", "#!/usr/bin/env bash\nif true; echo\n")),
    ("python syntax", script("tests/x.py", "#!/usr/bin/env python3\ndef f(:\n")),
    ("no right to run", script("tests/x.sh", "#!/bin/sh\ntrue\n", 0o644)),
])
