#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""lint.scripts: every script parses, and can be run; every test that it offers runs.

Guards the branches that a green run never takes: the GPU half of the demo, the error path of the set-up. A syntax
error there shows itself on the one machine where it matters. A test that a script hands to main() and that no
CMakeLists.txt names shows itself nowhere. What is there to be called by hand begins with print_ or write_.
"""
import ast
import os
import re
import subprocess

import lintkit


def offered(tree):
    """(name, line) of the functions that a script hands to main()."""
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "main":
            for argument in node.args:
                if isinstance(argument, ast.Name) and argument.id in defined:
                    yield argument.id, argument.lineno


def check_offered(name, tree, listed, complain):
    for test, line in offered(tree):
        if test not in listed and not test.startswith(("print_", "write_")):
            complain(f"{name}:{line}: {test}: no CMakeLists.txt names it, so it never runs")


def check(root, complain):
    listed = set()
    for path in lintkit.files(root, "CMakeLists.txt", ".cmake"):
        listed.update(re.findall(r"\w+", lintkit.read(path)))
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
                tree = ast.parse(lintkit.read(path))
                if name.parts[0] == "tests":
                    check_offered(name, tree, listed, complain)
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
    ("a test that never runs", script("tests/y.py", "#!/usr/bin/env python3\ndef a():\n    pass\nmain(a)\n")),
    ("no right to run", script("tests/x.sh", "#!/bin/sh\ntrue\n", 0o644)),
])
