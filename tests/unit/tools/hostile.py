#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""usage: hostile.py cut | changed | foreign

Files that are not what they should be, given to every command that reads files. Whatever the bytes: no crash, no hang, no more than
half a GiB of address space, and exit 2 with one line that names the file, or an answer that says that it is not complete."""
import gzip
import json
import os
import pathlib
import random
import re
import resource
import shutil
import struct
import subprocess
import sys

BUILD = pathlib.Path(os.environ["TEST_BUILD"])
KEDGE, REPLAY, MAKER = BUILD / "kedge", BUILD / "tests" / "bench" / "kedge-replay", BUILD / "tests" / "unit" / "capture_maker"
IS_SANITIZED = bool(os.environ.get("TEST_SANITIZE"))  # its shadow memory takes terabytes of addresses
PAGE = 4096
DIRECTORY_AT, ENTRY = 4844, struct.Struct("<QQII")  # FORMAT.md: where the header says where the directory is; an entry of it
failures = []


def fail(what):
    failures.append(what)
    print("FAILED:", what)


def few_addresses():
    if not IS_SANITIZED:
        resource.setrlimit(resource.RLIMIT_AS, (512 << 20, 512 << 20))


def run(program, *words):
    """(exit status, output, messages), and what must hold of any file."""
    line = " ".join(map(str, words))
    try:
        done = subprocess.run([program, *words], capture_output=True, text=True, errors="replace", timeout=60, stdin=subprocess.DEVNULL,
                              preexec_fn=few_addresses, check=False)
    except subprocess.TimeoutExpired:
        fail(f"{line}: hangs")
        return 2, "", ""
    if done.returncode not in (0, 1, 2) or "Sanitizer" in done.stderr or "out of memory" in done.stderr:
        fail(f"{line}: exit {done.returncode}: {done.stderr[:2000]}")
    return done.returncode, done.stdout, done.stderr


def is_refused(name, what, code, words):
    """Exit 2, and one line with the file's name."""
    if code != 2 or len(words.splitlines()) != 1 or str(name) not in words:
        fail(f"{what}: exit {code}: {words[:300]!r}")


def report(what, data):
    """What `report` says of these bytes: None where it refuses them, else whether it is complete. Whoever decides refuses with it."""
    name = "any.kcap"
    pathlib.Path(name).write_bytes(data)
    code, out, words = run(KEDGE, "report", name, "--json")
    if code != 0:
        is_refused(name, what, code, words)
        return None
    answer = json.loads(out)
    damage = re.findall(rf"^kedge: {re.escape(name)} is damaged \(.*\): figures are wrong or incomplete$", words, re.M)
    if bool(answer["damaged"]) != (len(damage) == 1) or len(words.splitlines()) > 1:
        fail(f"{what}: {answer['damaged']}, {words!r}")
    if answer["damaged"] and answer["complete"]:
        fail(f"{what}: damaged and complete")
    return answer["complete"]


def capture():
    subprocess.run([MAKER, "bad", "bad.kcap"], check=True)
    return pathlib.Path("bad.kcap").read_bytes()


def extents(data):
    """(where it is in the directory, offset, length, kind) of each that was published."""
    at, = struct.unpack_from("<I", data, DIRECTORY_AT)
    rows = [(at + i * ENTRY.size, *ENTRY.unpack_from(data, at + i * ENTRY.size)[:3]) for i in range(64)]
    return [row for row in rows if row[3] != 0]


def test_cut():
    """A file that ends at a page, or anywhere else."""
    whole = capture()
    pages = range(0, len(whole), PAGE if "--all" in sys.argv else 5 * PAGE)
    odd = [1, 7, 8, 9, 4841, 7471, 7472, 32767, 32769, len(whole) - 1]
    found = {cut: report(f"cut at {cut}", whole[:cut]) for cut in [*pages, *odd]}
    if True in found.values():
        fail(f"complete, and cut at {[cut for cut, is_complete in found.items() if is_complete]}")
    if any(found[cut] is not None for cut in found if cut < 7472) or not any(found[cut] is False for cut in found):
        fail(f"without a header, or never shown: {found}")
    if report("whole", whole) is not True:
        fail("the whole file is not complete")


def changed(data, at, new):
    return data[:at] + new + data[at + len(new):]


def test_changed():
    """Fields that promise too much, areas in each other's place, single bits."""
    whole = capture()
    random.seed(15)
    table = extents(whole)
    for at in [*range(8, 152, 8), 1768, 2792, 4840, 4848, 4912, 5040, 7464]:
        report(f"header at {at}", changed(whole, at, struct.pack("<Q", 1 << 60 | 1 << 28)))
    if len(table) < 4:
        fail(f"a capture with few areas: {table}")
    for entry, offset, length, kind in table:
        for at, value in ((0, 1 << 60), (0, offset + 1), (8, 1 << 60), (8, 0), (16, 99)):
            if report(f"extent of kind {kind} at {at}: {value:#x}", changed(whole, entry + at, struct.pack("<Q", value))) is not False:
                fail(f"complete with a directory that was changed: {kind}, {at}, {value:#x}")
        used = [at for at in range(offset, offset + length) if whole[at]]
        for at in random.sample(used, min(4, len(used))):
            report(f"bit of kind {kind} at {at}", changed(whole, at, bytes([whole[at] ^ 1 << random.randrange(8)])))
        for other in table:
            size = min(length, other[2])
            if offset < other[1]:
                swapped = changed(changed(whole, offset, whole[other[1]:other[1] + size]), other[1], whole[offset:offset + size])
                if report(f"kinds {kind} and {other[3]} swapped", swapped) is not False:
                    fail(f"complete with areas swapped: {kind}, {other[3]}")


def make_foreign():
    pathlib.Path("csv").write_text("a,b,c\n1,2,3\n", encoding="utf-8")
    shutil.copy("/bin/true", "elf")
    whole = capture()
    pathlib.Path("gzip").write_bytes(gzip.compress(whole[:200_000]))
    pathlib.Path("zstd").write_bytes(b"\x28\xb5\x2f\xfd" + random.randbytes(3000))
    pathlib.Path("header").write_bytes(whole[:2 * PAGE])
    pathlib.Path("empty").touch()
    pathlib.Path("zeros").write_bytes(bytes(100_000))
    pathlib.Path("text").write_text("x" * 3_000_000, encoding="utf-8")
    pathlib.Path("folder").mkdir()
    os.mkfifo("fifo")
    os.symlink("loop", "loop")
    pathlib.Path("closed").write_bytes(whole)
    pathlib.Path("closed").chmod(0)
    files = "csv elf gzip zstd header empty zeros text folder fifo loop missing /dev/null /dev/zero".split()
    return files + ([] if os.geteuid() == 0 else ["closed"])


def test_foreign():
    """What is no capture, no bundle, no hint file, no csv."""
    files = make_foreign()
    commands = ["report F", "report F --json", "diff bad.kcap F", "diff F bad.kcap", "suggest F -o -",
                "suggest --good bad.kcap --bad F -o -", "check F peak<1GiB", "check bad.kcap --predicted F", "ranks F",
                "whatif F --policy kedge", "bundle F -o out.bundle", "hints lint F", "verify --hints F -- true"]
    for file in files:
        for command in commands:
            code, _, words = run(KEDGE, *[file if word == "F" else word for word in command.split()])
            is_refused(file, f"{command} of {file}", code, words)
        code, _, words = run(REPLAY, file)
        is_refused(file, f"kedge-replay {file}", code, words)


os.umask(0o022)
for old in pathlib.Path().iterdir():
    shutil.rmtree(old) if old.is_dir() and not old.is_symlink() else old.unlink()
{"cut": test_cut, "changed": test_changed, "foreign": test_foreign}[sys.argv[1]]()
sys.exit(bool(failures))
