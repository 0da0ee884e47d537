#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""lint.artefact: what libkedge.so is, read off the file that ships.

Each check guards an incident. needed: libunwind.so.8 as a dependency of a preloaded object comes before libgcc_s in the
global scope and silently stops the destructors of cancelled threads; libcuda or libstdc++ there decide for the program
which of them it gets. exports: a symbol too many (yaml_*, _Unwind_*) takes the place of the program's own; a symbol
too few is a hook that nobody reaches; a version node on them turns every hook off. textrel: refused under SELinux.
tls: dynamic TLS allocates on first use, inside the program's malloc. exit: a library that ends the program it watches.
switches: what tests/mutation switches off cannot be switched off in the library that ships, and nobody but a test asks for it.
glibc: one call of a newer function, in any file that is installed, and all of it stops at the loader of an older system.

    artefact.py needed|exports|textrel|tls|exit|switches|glibc [--self-test]
"""
import os
import pathlib
import re
import sys
import tempfile

import lintkit

NEEDED = {"libc.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
# Exported beside the hooks, with the reason.
EXTRA_EXPORTS = {
    "dlsym": "the choke point of programs that ask the loader",
    "InitializeInjectionNvtx2": "what NVTX calls in the library that NVTX_INJECTION64_PATH names",
}
TLS_MAX = 512 # what is larger comes with its first use (preload/base/threadmem.h)
ENDS_THE_PROGRAM = {"exit", "_exit", "_Exit", "quick_exit", "abort", "raise", "kill", "tgkill", "pthread_exit", "err",
                    "errx", "error", "system", "execve", "execvp", "__assert_fail", "__assert", "pthread_kill"}
# Undefined symbols of ours that may stay, with the reason.
EXCUSED = {
    "__assert_fail": "libyaml's parser, linked statically, checks its own arguments with assert; hintfile.c passes "
                     "valid ones, and Debian's archive cannot be built without",
}


def dynamic_symbols(path, which):
    out = lintkit.run("nm", "-D", which, path)
    return [line.split()[-1] for line in out.splitlines() if line.split()]


def check_needed(path, complain):
    for name in re.findall(r"\(NEEDED\).*\[(.*)\]", lintkit.run("readelf", "-d", "-W", path)):
        if name not in NEEDED:
            complain(f"{path.name} needs {name}")


def hook_names(root):
    """What preload/base/hooks.def exports: the symbols of its HOOK rows, in both forms, of its EXPORT rows, and of nvtx_events.def."""
    path = pathlib.Path(root) / "preload" / "base" / "hooks.def"
    if not path.exists():
        return None
    text = re.sub(r"/\*.*?\*/", "", lintkit.read(path), flags=re.S)
    rows = re.findall(r"^(HOOK|HOOK_PTSZ|HOOK_PTDS|EXPORT)\(\s*(\w+)\s*[,)]", text, re.M)
    events = re.findall(r"^EVENT\(\w+, [\w *]+?, (\w+),", lintkit.read(path.with_name("nvtx_events.def")), re.M)
    forms = {f"{symbol}_{kind[5:].lower()}" for kind, symbol in rows if kind.startswith("HOOK_")}
    return {symbol for _, symbol in rows} | forms | set(events)


def check_exports(path, complain, hooks=None):
    hooks = hook_names(lintkit.SOURCE) if hooks is None else hooks
    if not hooks:
        complain("preload/base/hooks.def names no hook")
        return
    found = set()
    for symbol in dynamic_symbols(path, "--defined-only"):
        name, _, version = symbol.partition("@")
        found.add(name)
        if version:
            complain(f"{name} carries the version {version}: a named node turns interposition off")
    for name in sorted(found - hooks - set(EXTRA_EXPORTS)):
        complain(f"{name} is exported, and neither in hooks.def nor in the short list here")
    for name in sorted((hooks | set(EXTRA_EXPORTS)) - found):
        complain(f"{name} is in hooks.def or the short list here, and not exported")


def check_textrel(path, complain):
    if re.search(r"\(TEXTREL\)|\bTEXTREL\b", lintkit.run("readelf", "-d", "-W", path)):
        complain(f"{path.name} has text relocations")


def check_tls(path, complain):
    relocations = lintkit.run("readelf", "-r", "-W", path)
    for kind in sorted(set(re.findall(r"R_[A-Z0-9_]*(?:DTPMOD|DTPOFF|TLSDESC)[A-Z0-9_]*", relocations))):
        complain(f"{path.name} has {kind}: TLS that is not initial-exec")
    size = sum(int(found, 16) for found in re.findall(r"^  TLS +(?:0x\w+ +){4}(0x\w+)", lintkit.run("readelf", "-lW", path), re.M))
    if size > TLS_MAX:
        complain(f"{path.name} has {size} bytes of TLS; with LD_AUDIT all libraries of a process share 1664")
    for symbol in dynamic_symbols(path, "--undefined-only"):
        if symbol.split("@")[0] == "__tls_get_addr":
            complain(f"{path.name} asks for {symbol}: TLS that may allocate")


def check_exit(path, complain):
    for symbol in dynamic_symbols(path, "--undefined-only"):
        name = symbol.split("@")[0]
        if name in ENDS_THE_PROGRAM and name not in EXCUSED:
            complain(f"{path.name} calls {name}")
    # What is excused for a library inside is not excused for us.
    parts = [*path.parent.glob("preload/CMakeFiles/**/*.o"), *path.parent.glob("*/libkedge_alloc.a"),
             *path.parent.glob("*/libkedge_track.a")]
    for part in sorted(parts):
        for line in lintkit.run("nm", "-A", "-u", part).splitlines():
            if line.split()[-1] in ENDS_THE_PROGRAM:
                complain(f"{part.name}: {line.split(':')[-2]} calls {line.split()[-1]}")


# What a library with switches has: variables of the mutant, functions that the linker put between two objects, and by symbol
# or in its debug information the pool's own switches (alloc/base/mutation.h), which the objects of the mutant alone are compiled with.
SWITCHES = (b"TEST_KEDGE_", b"__wrap_", b"mutant", b"mutation", b"mutate", b"POOL_MUTATE_")


def check_switches(path, complain):
    image = path.read_bytes()
    for trace in SWITCHES:
        if trace in image:
            complain(f"{path.name} has a trace of tests/mutation: {trace.decode()}")
    for folder in ("alloc", "preload", "tools", "tracker"):
        for source in sorted((pathlib.Path(lintkit.SOURCE) / folder).glob("**/*.[ch]")):
            if source.name != "mutation.h" and re.search(r"POOL_MUTATE_|\bpool_mutations\b|KEDGE_POOL_MUTATIONS", lintkit.read(source)):
                complain(f"{source.name} asks for a mutation of the pool without POOL_IS_WITHOUT, which is false in what ships")


# What is installed beside the library; and the C library of the system that packages are built on, Debian 12.
BESIDE = ("kedge", "sim/lib*.so.*", "sim/nccl/lib*.so.*")
PACKAGED_WITH = (2, 36)


def version(text):
    return tuple(int(part) for part in text.split("."))


def stated_glibc(root, complain):
    """What the documents say that packages need. They must agree."""
    stated = {}
    for name in ("tools/package/README.md", "README.md"):
        for found in re.findall(r"glibc (\d+\.\d+)", lintkit.read(root / name)):
            stated.setdefault(version(found), name)
    if len(stated) != 1:
        complain(f"the documents state these versions of glibc: {stated}")
    return min(stated, default=(0, 0))


def check_glibc(path, complain):
    limit = stated_glibc(pathlib.Path(lintkit.SOURCE), complain)
    for part in [path] + [p for pattern in BESIDE for p in sorted(path.parent.glob(pattern))]:
        for symbol in dynamic_symbols(part, "--undefined-only"):
            found = re.match(r"(\w+)@GLIBC_(\d+[\d.]*)", symbol)
            if found and version(found[2]) > limit:
                complain(f"{part.name}: {found[1]} needs glibc {found[2]}")


CHECKS = {"needed": check_needed, "exports": check_exports, "textrel": check_textrel, "tls": check_tls,
          "exit": check_exit, "switches": check_switches, "glibc": check_glibc}
PLAIN = "int cuInit(unsigned f); int cuInit(unsigned f) { return (int)f; } " \
        "void *dlsym(void *h, const char *n); void *dlsym(void *h, const char *n) { return n ? h : 0; } " \
        "int InitializeInjectionNvtx2(void *g); int InitializeInjectionNvtx2(void *g) { return g != 0; } "
HIDDEN_TLS = "static __thread int depth __attribute__((tls_model(\"%s\"))); " \
             "int cuInit2(void); __attribute__((visibility(\"%s\"))) int cuInit2(void) { return ++depth; } "
# check -> (what, source, flags) that must be red.
SEEDED = {
    "needed": [("a dependency on libm", PLAIN + "double sin(double); double x(double a); "
                "double x(double a) { return sin(a); }", ["-Wl,--no-as-needed", "-lm"])],
    "exports": [("one too many", PLAIN + "int yaml_parser_parse(void); int yaml_parser_parse(void) { return 0; }", []),
                ("one too few", PLAIN.replace("cuInit", "cuInitial"), []),
                ("a version node", PLAIN, ["-Wl,--version-script=%s"])],
    "textrel": [("a text relocation", PLAIN + "extern int v; int v; "
                 "__asm__(\".text\\n.globl f\\nf: .quad v\\n\");", ["-Wl,-z,notext"])],
    "tls": [("general dynamic", PLAIN + HIDDEN_TLS % ("global-dynamic", "hidden") +
             "int cuInit3(void); int cuInit3(void) { return cuInit2(); }", [])],
    "exit": [(call, PLAIN + f"\n#include <stdlib.h>\n#include <unistd.h>\nvoid f(void); void f(void) {{ {call}; }}", [])
             for call in ("exit(1)", "abort()", "_exit(1)", "quick_exit(2)")],
    "glibc": [("a function of glibc 2.35", PLAIN + "int _dl_find_object(void *, void *); int q(void *a); "
               "int q(void *a) { return _dl_find_object(a, a); }", [])],
    "switches": [("a variable of the mutant", PLAIN + "const char *w(void); const char *w(void) "
                  "{ return \"TEST_KEDGE_MUTATE\"; }", []),
                 ("a wrapped function", PLAIN + "int __wrap_pool_new(void); int __wrap_pool_new(void) { return 0; }", []),
                 ("a switch of the pool", PLAIN + "__attribute__((visibility(\"hidden\"))) unsigned pool_mutations; "
                  "int q(void); int q(void) { return pool_mutations & 1; }", []),
                 ("a field of options, seen in debug information", PLAIN + "struct opts { int mutate; }; "
                  "int q(const struct opts *o); int q(const struct opts *o) { return o->mutate; }", ["-g"])],
}


def self_test(name):
    bad = 0
    cases = [("nothing wrong", PLAIN + (HIDDEN_TLS % ("initial-exec", "hidden")).replace(
        "int cuInit2(void);", "int cuInit2(void); int cuInit(unsigned f);"), [])]
    with tempfile.TemporaryDirectory() as root:
        script = lintkit.write(root, "version.map", "KEDGE_1 { global: *; };\n")
        for n, (what, source, flags) in enumerate(cases + SEEDED[name]):
            flags = [f % script if "%s" in f else f for f in flags]
            path = lintkit.compile_shared(root, f"s{n}", source, "-w", "-fno-builtin", *flags)
            found = []
            if name == "exports":
                check_exports(path, found.append, {"cuInit"})
            else:
                CHECKS[name](path, found.append)
            print(f"{what}: {found[0] if found else 'silent'}")
            bad += bool(found) != (n > 0)
    sys.exit(1 if bad else 0)


which = sys.argv[1] if len(sys.argv) > 1 else ""
if which not in CHECKS:
    sys.exit(f"usage: artefact.py {'|'.join(CHECKS)} [--self-test]")
if "--self-test" in sys.argv:
    self_test(which)
library = lintkit.BUILD / "libkedge.so"
if not library.exists():
    lintkit.skip("libkedge.so is not built here")
if which == "glibc" and version(os.confstr("CS_GNU_LIBC_VERSION").split()[1]) > PACKAGED_WITH:
    lintkit.skip("built with a newer C library than packages are")
complaints = []
CHECKS[which](library, complaints.append)
print("\n".join(complaints + [f"{len(complaints)} findings"]))
sys.exit(1 if complaints else 0)
