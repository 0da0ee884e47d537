#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes a lock file: exact versions and the hashes of the wheels for each of some versions of CPython.

    lock.py PYTHON[,PYTHON...] REQUIREMENT... >ENV.txt          e.g. lock.py 3.12,3.11 torch==2.5.1 numpy==2.4.0

Only what is named gets in: dependencies are never followed, because some would bring NVIDIA's libraries. Needs pip and
the registry, and downloads nothing where the registry serves metadata by itself.
"""
import json
import subprocess
import sys



def resolved(python, requirements):
    """[(name, version, sha256)] of the wheels that pip would install under that CPython."""
    line = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--no-deps",
            "--only-binary", ":all:", "--target", "unused", "--python-version", python, "--report", "-", *requirements]
    report = json.loads(subprocess.run(line, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return [(i["metadata"]["name"].lower(), i["metadata"]["version"],
             i["download_info"]["archive_info"]["hashes"]["sha256"]) for i in report["install"]]


def main():
    pythons, requirements = sys.argv[1].split(","), sys.argv[2:]
    hashes = {}
    for python in pythons:
        for name, version, digest in resolved(python, requirements):
            known = hashes.setdefault((name, version), [])
            if digest not in known:
                known.append(digest)
    print("# SPDX-License-Identifier: MIT")
    print(f"# python: {' '.join(pythons)}")
    for (name, version), digests in sorted(hashes.items()):
        print(" \\\n".join([f"{name}=={version}"] + [f"    --hash=sha256:{d}" for d in digests]))


main()
