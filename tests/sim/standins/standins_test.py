#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The stand-ins as they are built, and how programs come to them.

    standins_test.py CASE
"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "regress"))
from regresskit import BUILD, KEDGE, check, failures, run  # noqa: E402

import asked_names as names

SIM = BUILD / "sim"
ASK = "import ctypes, sys; [print(ctypes.CDLL(name)._name, flush=True) for name in sys.argv[1:]]; sys.stdout.write(open('/proc/self/maps').read())"


def every_name_on_a_list_is_there():
    lists = sorted((names.HERE / "names").glob("*.def"))
    check(len(lists) >= 20, f"{len(lists)} lists")
    for path in lists:
        soname = path.name.removesuffix(".def")
        node, wanted = names.listed(soname)
        text = names.output("nm", "-D", "--defined-only", SIM / "standins" / soname)
        has = dict(re.findall(r" [TDWV] (\w+)(@@\S+)?$", text, re.M))
        check(wanted <= set(has), f"{soname} lacks {sorted(wanted - set(has))}")
        check(all(has[n].strip() == (f"@@{node}" if node else "") for n in wanted), f"{soname}: version node {node}")
        check(f"[{soname}]" in names.output("readelf", "-dW", SIM / "standins" / soname), f"{soname}: soname")


def what_has_no_body_refuses_and_says_so():
    """cusparse's status for it is 10; once for a name."""
    code = "import ctypes; l = ctypes.CDLL('libcusparse.so.12'); print(l.cusparseSpGEMM_compute(0), l.cusparseSpGEMM_compute(0))"
    done = run(KEDGE, "run", "-q", "--sim", "--capture", "refuses.kcap", "--", sys.executable, "-c", code)
    check(re.search(r"^10 10$", done.stdout, re.M), f"refused: {done.stdout}")
    check(done.stdout.count("stand-in: cusparseSpGEMM_compute has no body; refused") == 1, f"told once: {done.stdout}")


def the_loader_is_led_there_by_name_and_by_path():
    done = run(KEDGE, "run", "-q", "--sim", "--capture", "led.kcap", "--", sys.executable, "-c", ASK,
               "libcublas.so.12", "/nowhere/lib/libcudnn.so.9", "/usr/local/cuda/lib64/libcudart.so.13", "libnccl.so.2", "libcuda.so.1")
    for file in ("standins/libcublas.so.12", "standins/libcudnn.so.9", "libcudart.so.13", "nccl/libnccl.so.2", "libcuda.so.1"):
        check(f" {SIM / file}\n" in done.stdout, f"{file} is not loaded: {done.stdout[-3000:]}")


def what_is_not_nvidias_is_left_alone():
    """libcurl begins as CUDA's libraries do; a name that is nowhere stays so."""
    for name in ("libcu_nothing.so.1", "/nowhere/libcurl.so.4"):
        done = run(KEDGE, "run", "-q", "--sim", "--capture", "alone.kcap", "--", sys.executable, "-c", ASK, name, rc=1)
        check(f"{name}: cannot open shared object file" in done.stdout, f"{name}: {done.stdout}")


def a_name_that_is_missing_is_told_at_the_start():
    """Before the library is bound, all of them in one line; names that are there, and weak ones, are not told."""
    pathlib.Path("later.c").write_text("".join(f"int cublas{n}(void) {{ return 0; }}\n" for n in ("Create_v2", "Later1", "Later2", "Weak")),
                                       encoding="ascii")
    pathlib.Path("asks.c").write_text("int cublasCreate_v2(void), cublasLater1(void), cublasLater2(void);\n"
                                      "__attribute__((weak)) int cublasWeak(void);\nint asks(void);\n"
                                      "int asks(void) { return cublasCreate_v2() + cublasLater1() + cublasLater2() + (cublasWeak ? cublasWeak() : 0); }\n",
                                      encoding="ascii")
    pathlib.Path("map").write_text("libcublas.so.12 { global: *; };\n", encoding="ascii")
    run("cc", "-shared", "-fPIC", "-o", "libcublas.so.12", "-Wl,-soname,libcublas.so.12", "-Wl,--version-script=map", "later.c")
    run("cc", "-shared", "-fPIC", "-o", "libasks.so", "asks.c", "./libcublas.so.12")
    path = pathlib.Path("libasks.so").resolve()
    done = run(KEDGE, "run", "-q", "--sim", "--capture", "later.kcap", "--", sys.executable, "-c", f"import ctypes, os; ctypes.CDLL('{path}', os.RTLD_LAZY)")
    told = [line for line in done.stdout.splitlines() if line.startswith("simulated device:")]
    check(len(told) == 1 and told[0].startswith(f"simulated device: {path} asks libcublas.so.12 for 2 names that its stand-in does not have: ")
          and sorted(told[0].split(": ")[-1].split(", ")) == ["cublasLater1", "cublasLater2"],
          f"told: {told} {done.stdout[-500:]}")


CASES = (every_name_on_a_list_is_there, what_has_no_body_refuses_and_says_so, the_loader_is_led_there_by_name_and_by_path,
         what_is_not_nvidias_is_left_alone, a_name_that_is_missing_is_told_at_the_start)

if __name__ == "__main__":
    {case.__name__: case for case in CASES}[sys.argv[1]]()
    sys.exit(bool(failures))
