# SPDX-License-Identifier: MIT
"""What the lints share: the tree's files, the report, and the self-test.

A lint is a script with check(root, complain) and a list SEEDED of (what, build_tree) pairs. Run plainly it checks
the tree; with --self-test it builds a small clean tree, on which it must stay silent, and every seeded violation,
on each of which it must complain: a lint that has never been seen red proves nothing.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(os.environ.get("TEST_SOURCE", pathlib.Path(__file__).resolve().parents[2]))
BUILD = pathlib.Path(os.environ.get("TEST_BUILD", SOURCE / "build" / "release"))
CC = os.environ.get("CC", "gcc")


def skip(why):
    print(f"SKIP: {why}")
    sys.exit(77)


def run(*command, **options):
    """Runs a command and returns its output; a failing command ends the lint as broken (99), not as a finding."""
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        print(f"lint is broken: {' '.join(map(str, command))}: exit {done.returncode}\n{done.stderr}")
        sys.exit(99)
    return done.stdout


def files(root, *suffixes):
    """All files of the tree (what git would commit, else everything but build/), with one of these suffixes."""
    root = pathlib.Path(root)
    listed = subprocess.run(["git", "-C", str(root), "ls-files", "-co", "--exclude-standard"],
                            capture_output=True, text=True, check=False)
    top = subprocess.run(["git", "-C", str(root), "rev-parse", "--show-toplevel"],
                         capture_output=True, text=True, check=False).stdout.strip()
    if listed.returncode == 0 and top and pathlib.Path(top).resolve() == root.resolve():
        paths = [root / line for line in listed.stdout.splitlines()]
    else:
        paths = [p for p in root.rglob("*") if not {"build", ".git"} & set(p.relative_to(root).parts)]
    paths = sorted({p for p in paths if p.is_file() and not p.is_symlink()})
    return [p for p in paths if not suffixes or p.name.endswith(suffixes)]


def read(path):
    return pathlib.Path(path).read_text(encoding="utf-8", errors="replace")


def write(root, name, text):
    path = pathlib.Path(root) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def compile_shared(root, name, source, *flags):
    """Compiles a small shared object for a self-test."""
    path = write(root, name + ".c", source)
    out = pathlib.Path(root) / (name + ".so")
    run(CC, "-D_GNU_SOURCE", "-O2", "-fPIC", "-shared", path, "-o", out, *flags)
    return out


def collect(check, root):
    found = []
    check(pathlib.Path(root), found.append)
    return found


def main(check, clean, seeded):
    """clean(root) builds a tree without violations; seeded is [(what, change(root))], applied on top of it."""
    if "--self-test" not in sys.argv:
        found = collect(check, SOURCE)
        for line in found:
            print(line)
        print(f"{len(found)} findings")
        sys.exit(1 if found else 0)
    bad = 0
    for what, change in [("nothing wrong", None)] + list(seeded):
        with tempfile.TemporaryDirectory() as root:
            clean(root)
            if change:
                change(root)
            found = collect(check, root)
        if bool(found) != bool(change):
            bad += 1
            print(f"self-test failed: {what}: {found or 'no complaint'}")
        else:
            print(f"ok: {what}: {found[0] if found else 'silent'}")
    sys.exit(1 if bad else 0)
