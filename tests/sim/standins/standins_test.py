#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The stand-ins as they are built, and how programs come to them.

    standins_test.py CASE
"""
import pathlib
import re
import shutil
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
    code = "import ctypes; l = ctypes.CDLL('libcusparse.so.12'); print(l.cusparseScsric02(0), l.cusparseScsric02(0))"
    done = run(KEDGE, "run", "-q", "--sim", "--capture", "refuses.kcap", "--", sys.executable, "-c", code)
    check(re.search(r"^10 10$", done.stdout, re.M), f"refused: {done.stdout}")
    check(done.stdout.count("stand-in: cusparseScsric02 has no body; refused") == 1, f"told once: {done.stdout}")


def the_loader_is_led_there_by_name_and_by_path():
    done = run(KEDGE, "run", "-q", "--sim", "--capture", "led.kcap", "--", sys.executable, "-c", ASK,
               "libcublas.so.12", "/nowhere/lib/libcudnn.so.9", "/usr/local/cuda/lib64/libcudart.so.13", "libnccl.so.2", "libcuda.so.1")
    for file in ("standins/libcublas.so.12", "standins/libcudnn.so.9", "libcudart.so.13", "nccl/libnccl.so.2", "libcuda.so.1"):
        check(f" {SIM / file}\n" in done.stdout, f"{file} is not loaded: {done.stdout[-3000:]}")


def names_without_a_version_lead_to_one_library():
    """Where there are no links, as in a wheel."""
    folder = pathlib.Path("sim").absolute()
    shutil.rmtree(folder, ignore_errors=True)
    for path in [*SIM.glob("*.so*"), *SIM.glob("*/*.so*")]:
        if not path.is_symlink():
            (folder / path.relative_to(SIM)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, folder / path.relative_to(SIM))
    done = run(KEDGE, "run", "-q", "--sim", "--capture", "led.kcap", "--", sys.executable, "-c", ASK, "libcuda.so", "libcuda.so.1", "libnccl.so",
               "libcublas.so", "libcublas.so.11", KEDGE_SIM=folder)
    loaded = {line.split()[-1] for line in done.stdout.splitlines() if str(folder) in line}
    check({str(folder / f) for f in ("libcuda.so.1", "nccl/libnccl.so.2", "standins/libcublas.so.11")} <= loaded, f"{loaded}")
    for name in ("libcublas.so.9", "libcu.so", "libcudnn", "libcud.so"):
        done = run(KEDGE, "run", "-q", "--sim", "--capture", "alone.kcap", "--", sys.executable, "-c", ASK, name, rc=1)
        check(f"{name}: cannot open shared object file" in done.stdout, f"{name}: {done.stdout}")


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


SIZES = """
import ctypes as c
size = lambda: c.byref(answer)
answer, other, ints = c.c_size_t(), c.c_size_t(), lambda *n: (c.c_longlong * len(n))(*n)
fft = c.CDLL("libcufft.so.12")
def area(n, batch, in_type=4, out_type=4):
    plan = c.c_int()
    assert fft.cufftCreate(c.byref(plan)) == 0 and fft.cufftSetAutoAllocation(plan, 0) == 0
    assert fft.cufftXtMakePlanMany(plan, len(n), ints(*n), None, 1, 1, in_type, None, 1, 1, out_type, c.c_longlong(batch), size(), out_type) == 0
    assert fft.cufftDestroy(plan) == 0
    return answer.value
print("fft", area((1024,), 3), area((127 * 8,), 1), area((131 * 8,), 1), area((16, 30), 2, 1, 5))
dnn = c.CDLL("libcudnn.so.9")
def rnn(cell, steps, batch, training=1):
    net, data, lengths = c.c_void_p(), c.c_void_p(), (c.c_int * batch)(*[steps] * batch)
    assert dnn.cudnnCreateRNNDescriptor(c.byref(net)) == 0 and dnn.cudnnCreateRNNDataDescriptor(c.byref(data)) == 0
    assert dnn.cudnnSetRNNDescriptor_v8(net, 0, cell, 2, 0, 0, 0, 0, 0, 123, 320, 320, 4, None, 0) == 0
    assert dnn.cudnnSetRNNDataDescriptor(data, 0, 0, steps, batch, 123, lengths, None) == 0
    assert dnn.cudnnGetRNNWeightSpaceSize(None, net, size()) == 0
    weights = answer.value
    assert dnn.cudnnGetRNNTempSpaceSizes(None, net, training, data, size(), c.byref(other)) == 0
    return weights, answer.value, other.value
print("lstm", *rnn(2, 500, 50))
print("gru", *rnn(3, 500, 50))
print("inference", rnn(2, 500, 50, 0)[2])
def norm(mode, ops):
    x = c.c_void_p()
    assert dnn.cudnnCreateTensorDescriptor(c.byref(x)) == 0 and dnn.cudnnSetTensor4dDescriptor(x, 0, 0, 2, 3, 5, 7) == 0
    assert dnn.cudnnGetBatchNormalizationTrainingExReserveSpaceSize(None, mode, ops, None, x, size()) == 0
    return answer.value
print("norm", norm(1, 0), norm(2, 0), norm(2, 1))
old = c.CDLL("libcudnn.so.8")
def rnn_v6(cell, steps, batch):
    net, x, sizes = c.c_void_p(), c.c_void_p(), []
    assert old.cudnnCreateRNNDescriptor(c.byref(net)) == 0 and old.cudnnSetRNNDescriptor_v6(None, net, 320, 4, None, 0, 0, cell, 0, 0) == 0
    assert old.cudnnCreateTensorDescriptor(c.byref(x)) == 0 and old.cudnnSetTensorNdDescriptor(x, 0, 3, (c.c_int * 3)(batch, 123, 1), (c.c_int * 3)(123, 1, 1)) == 0
    assert old.cudnnGetRNNParamsSize(None, net, x, size(), 0) == 0
    sizes.append(answer.value)
    for ask in (old.cudnnGetRNNWorkspaceSize, old.cudnnGetRNNTrainingReserveSize):
        assert ask(None, net, steps, (c.c_void_p * steps)(*[x] * steps), size()) == 0
        sizes.append(answer.value)
    return sizes
print("lstm v6", *rnn_v6(2, 500, 50))
print("gru v6", *rnn_v6(3, 500, 50))
"""


def what_libraries_ask_for_is_what_is_published():
    """cuFFT: one area for 1024 and for a factor of 127, eight for 131. RNN: the sizes that pytorch#2895 saw, with the 3210 parameters of its last layer."""
    done = run(KEDGE, "run", "-q", "--sim", "--capture", "sizes.kcap", "--", sys.executable, "-c", SIZES)
    for line in (f"fft {1024 * 3 * 8} {127 * 8 * 8} {131 * 8 * 8 * 8} {16 * 30 * 2 * 16}", f"lstm {(3038090 - 3210) * 4} 17730560 736000000",
                 f"gru {(2279370 - 3210) * 4} 13169920 864000000", "inference 0", f"lstm v6 {(3038090 - 3210) * 4} 17730560 736000000",
                 f"gru v6 {(2279370 - 3210) * 4} 13169920 864000000", f"norm 0 0 {(2 * 3 * 5 * 7 + 7) // 8}"):
        check(line in done.stdout.splitlines(), f"not {line}: {done.stdout[-2000:]}")


MANAGED = """
import ctypes as c
ml, cu = c.CDLL("libnvidia-ml.so.1"), c.CDLL("libcuda.so.1")
class Memory(c.Structure):
    _fields_ = [(name, c.c_ulonglong) for name in ("total", "free", "used")]
class Memory2(c.Structure):
    _fields_ = [("version", c.c_uint)] + [(name, c.c_ulonglong) for name in ("total", "reserved", "free", "used")]
number, device, memory, more = c.c_uint(), c.c_void_p(), Memory(), Memory2(version=c.sizeof(Memory2) | 2 << 24)
def text(call):
    out = c.create_string_buffer(96)
    assert call(device, out, 96) == 0
    return out.value.decode()
assert ml.nvmlInit_v2() == 0 and ml.nvmlDeviceGetCount_v2(c.byref(number)) == 0
print("devices", number.value, ml.nvmlDeviceGetHandleByIndex_v2(2, c.byref(device)), ml.nvmlDeviceGetMemoryInfo(None, c.byref(memory)))
assert ml.nvmlDeviceGetHandleByIndex_v2(1, c.byref(device)) == 0
print("names", text(ml.nvmlDeviceGetName), text(ml.nvmlDeviceGetUUID), ml.nvmlDeviceGetName(device, c.create_string_buffer(4), 4))
def used():
    assert ml.nvmlDeviceGetMemoryInfo(device, c.byref(memory)) == 0 and ml.nvmlDeviceGetMemoryInfo_v2(device, c.byref(more)) == 0
    assert (more.total, more.free, more.used) == (memory.total, memory.free, memory.used) == (2 << 30, (2 << 30) - memory.used, memory.used)
    return memory.used
before, context, at = used(), c.c_void_p(), c.c_ulonglong()
print("before", before, "driver", cu.cuCtxGetCurrent(c.byref(context)))
assert cu.cuInit(0) == 0 and cu.cuDevicePrimaryCtxRetain(c.byref(context), 1) == 0 and cu.cuCtxSetCurrent(context) == 0
start, other = used(), c.c_void_p()
assert cu.cuMemAlloc_v2(c.byref(at), c.c_size_t(48 << 20)) == 0
held = used() - start
print("held", held)
assert ml.nvmlDeviceGetHandleByIndex_v2(0, c.byref(other)) == 0 and ml.nvmlDeviceGetMemoryInfo(other, c.byref(memory)) == 0
print("other device", memory.used)
assert cu.cuMemFree_v2(at) == 0
print("freed", used() - start)
"""


def the_management_library_says_what_the_devices_hold():
    """Two devices, asked before the driver is initialised (3: it still is not), while a block is held, and after its free."""
    for way in ("off", "pool"):
        done = run(KEDGE, "run", "-q", "--sim", "--mode", way, "--capture", "managed.kcap", "--", sys.executable, "-c", MANAGED,
                   SIMCUDA_DEVICES="2", SIMCUDA_MEMORY="2G")
        names = "names Simulated device 1 GPU-73696d75-6c61-7465-642d-6465762d3031 7"
        for line in ("devices 2 2 2", names, "before 0 driver 3", f"held {48 << 20}", "other device 0"):
            check(line in done.stdout.splitlines(), f"{way}: not {line}: {done.stdout[-2000:]}")
        if way == "off":
            check("freed 0" in done.stdout.splitlines(), f"freed: {done.stdout[-2000:]}")


# An argument that is a string names memory: with "+" a result, else what is read.
PASSES = """
import ctypes as c
from ctypes import c_double as d, c_int as i, c_size_t as n, c_void_p as p
cuda, dnn, made = c.CDLL("libcuda.so.1"), c.CDLL("libcudnn.so.8"), {}
context, handle = p(), p()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(c.byref(context), 0) == 0 and cuda.cuCtxSetCurrent(context) == 0
assert dnn.cudnnCreate(c.byref(handle)) == 0
def memory(name, size):
    at = c.c_uint64()
    assert cuda.cuMemAlloc_v2(c.byref(at), n(size + 64)) == 0
    made[name] = at, size
    return p(at.value)
def fill(name, byte):
    assert cuda.cuMemsetD8_v2(made[name][0], byte, n(made[name][1] + 64)) == 0
def bytes_of(name):
    host = (c.c_ubyte * (made[name][1] + 64))()
    assert cuda.cuCtxSynchronize() == 0 and cuda.cuMemcpyDtoH_v2(host, made[name][0], n(len(host))) == 0
    return bytes(host)
def tensor(*sizes, type=0):
    t, strides = p(), [1]
    for s in sizes[:0:-1]:
        strides.insert(0, strides[0] * s)
    assert dnn.cudnnCreateTensorDescriptor(c.byref(t)) == 0 and dnn.cudnnSetTensorNdDescriptor(t, type, len(sizes), (i * len(sizes))(*sizes), (i * len(sizes))(*strides)) == 0
    return t
def derived(x, mode):
    t, type, count, sizes, strides = p(), i(), i(), (i * 8)(), (i * 8)()
    assert dnn.cudnnCreateTensorDescriptor(c.byref(t)) == 0 and dnn.cudnnDeriveBNTensorDescriptor(t, x, mode) == 0
    assert dnn.cudnnGetTensorNdDescriptor(t, 8, c.byref(type), c.byref(count), sizes, strides) == 0
    print("derived", type.value, sizes[:count.value])
    return t
def call(name, *args):
    outs = [a[1:] for a in args if isinstance(a, str) and a[0] == "+"]
    ins = [a for a in args if isinstance(a, str) and a[0] != "+"]
    said, whole = [], True
    for byte in (0, 1):
        for a in ins:
            fill(a, byte)
        for o in outs:
            fill(o, 0xee)
        assert getattr(dnn, name)(handle, *[p(made[a.strip("+")][0].value) if isinstance(a, str) else a for a in args]) == 0
        said.append([bytes_of(o) for o in outs])
        whole = whole and all(b[:made[o][1]][-4:] != bytes([0xee] * 4) and b[made[o][1]:] == bytes([0xee] * 64) for o, b in zip(outs, said[-1]))
        whole = whole and all(set(bytes_of(a)) == {byte} for a in ins)
    print(name, len(outs), whole, all(a != b for a, b in zip(*said)), flush=True)
x, x4 = tensor(2, 3, 5, 7), 2 * 3 * 5 * 7 * 4
ch, null = derived(x, 1), None
derived(x, 0), derived(tensor(2, 3, 4, type=2), 1), derived(tensor(2, 3, 4, type=1), 2)
for name in ("x", "y", "dy", "dx"):
    memory(name, x4)
for name in ("scale", "bias", "mean", "var", "run", "runv", "ds", "db"):
    memory(name, 3 * 4)
call("cudnnBatchNormalizationForwardTraining", 1, null, null, x, "x", x, "+y", ch, "scale", "bias", d(0.1), "+run", "+runv", d(1e-5), "+mean", "+var")
call("cudnnBatchNormalizationForwardInference", 1, null, null, x, "x", x, "+y", ch, "scale", "bias", "mean", "var", d(1e-5))
call("cudnnBatchNormalizationBackward", 1, null, null, null, null, x, "x", x, "dy", x, "+dx", ch, "scale", "+ds", "+db", d(1e-5), "mean", "var")
call("cudnnSoftmaxForward", 1, 0, null, x, "x", null, x, "+y")
call("cudnnSoftmaxBackward", 1, 0, null, x, "y", x, "dy", null, x, "+dx")
net, a, size, steps, lengths = p(), {}, n(), 3, (i * 2)(3, 2)
assert dnn.cudnnCreateRNNDescriptor(c.byref(net)) == 0 and dnn.cudnnSetRNNDescriptor_v6(handle, net, 6, 1, null, 0, 0, 2, 0, 0) == 0
step_x, step_y, h = tensor(2, 5, 1), tensor(2, 6, 1), tensor(1, 2, 6)
xs, ys = (p * steps)(*[step_x] * steps), (p * steps)(*[step_y] * steps)
for ask, name in ((dnn.cudnnGetRNNWorkspaceSize, "work"), (dnn.cudnnGetRNNTrainingReserveSize, "reserve")):
    assert ask(handle, net, steps, xs, c.byref(size)) == 0
    a[name] = n(size.value)
    memory(name, size.value)
assert dnn.cudnnGetRNNParamsSize(handle, net, step_x, c.byref(size), 0) == 0
w = tensor(size.value // 4, 1, 1)
for name, bytes_ in (("w", size.value), ("dw", size.value), ("X", steps * 2 * 5 * 4), ("dX", steps * 2 * 5 * 4), ("Y", steps * 2 * 6 * 4), ("dY", steps * 2 * 6 * 4)):
    memory(name, bytes_)
for name in ("hx", "cx", "hy", "cy", "dhx", "dcx", "dhy", "dcy"):
    memory(name, 2 * 6 * 4)
assert dnn.cudnnSetRNNPaddingMode(net, 1) == 0
def data(vector):
    t = p()
    assert dnn.cudnnCreateRNNDataDescriptor(c.byref(t)) == 0 and dnn.cudnnSetRNNDataDescriptor(t, 0, 0, steps, 2, vector, lengths, null) == 0
    return t
nothing = [null] * 8
for ex, one, X, Y in (("", [steps], xs, ys), ("Ex", [], data(5), data(6))):
    forward = [net, *one, X, "X", h, "hx", h, "cx", w, "w", Y, "+Y", h, "+hy", h, "+cy", *(nothing if ex else [])]
    call("cudnnRNNForwardTraining" + ex, *forward, "+work", a["work"], "+reserve", a["reserve"])
    call("cudnnRNNForwardInference" + ex, *forward, "+work", a["work"])
    call("cudnnRNNBackwardData" + ex, net, *one, Y, "Y", Y, "dY", *([null] * 2 if ex else []), h, "dhy", h, "dcy", w, "w", h, "hx", h, "cx", X, "+dX",
         h, "+dhx", h, "+dcx", *([null] * 2 if ex else []), "+work", a["work"], "+reserve", a["reserve"])
    call("cudnnRNNBackwardWeights" + ex, net, *one, X, "X", h, "hx", Y, "Y", "work", a["work"], w, "+dw", "reserve", a["reserve"])
"""


def what_paddle_asks_of_cudnn_8_is_done():
    """Each result is written to its end and no further, and differs where what is read differs; what is read stays."""
    done = run(KEDGE, "run", "-q", "--sim", "--capture", "passes.kcap", "--", sys.executable, "-c", PASSES)
    lines = done.stdout.splitlines()
    check([line for line in lines if line.startswith("derived")] == ["derived 0 [1, 3, 1, 1]", "derived 0 [1, 3, 5, 7]", "derived 0 [1, 3, 1]", "derived 1 [1, 3, 1]"],
          f"derived: {done.stdout[-2000:]}")
    norm = (("ForwardTraining", 5), ("ForwardInference", 1), ("Backward", 3))
    rnn = (("ForwardTraining", 5), ("ForwardInference", 4), ("BackwardData", 5), ("BackwardWeights", 1))
    for name, outs in (*((f"BatchNormalization{n}", o) for n, o in norm), ("SoftmaxForward", 1), ("SoftmaxBackward", 1),
                       *((f"RNN{n}{ex}", o) for ex in ("", "Ex") for n, o in rnn)):
        check(f"cudnn{name} {outs} True True" in lines, f"{name}: {done.stdout[-2000:]}")


def names_that_an_object_looks_up_are_found():
    """As Paddle exports them: a variable for each. A function, a template's variable and another library's name are none."""
    mangled = ("_ZN3phi7dynload14cudnnAddTensorE", "_ZN3phi7dynload14cublasLtMatmulE", "_ZN3phi7dynload15cudnn_dso_flagE", "_ZN3phi7dynload9miopenAddE",
               "_ZN3phi7dynload11cudnnCreateEv")
    pathlib.Path("looks.c").write_text("".join(f"int {name} = 1;\n" for name in mangled), encoding="ascii")
    run("cc", "-shared", "-fPIC", "-o", "liblooks.so", "looks.c")
    found = names.asked_of(pathlib.Path("liblooks.so"))
    check(found == {"libcudnn.so.8": ["", {"cudnnAddTensor"}], "libcublasLt.so.11": ["", {"cublasLtMatmul"}]}, f"found: {found}")


CASES = (every_name_on_a_list_is_there, names_without_a_version_lead_to_one_library, what_has_no_body_refuses_and_says_so, the_loader_is_led_there_by_name_and_by_path,
         what_is_not_nvidias_is_left_alone, a_name_that_is_missing_is_told_at_the_start,
         what_libraries_ask_for_is_what_is_published, the_management_library_says_what_the_devices_hold,
         what_paddle_asks_of_cudnn_8_is_done, names_that_an_object_looks_up_are_found)

if __name__ == "__main__":
    {case.__name__: case for case in CASES}[sys.argv[1]]()
    sys.exit(bool(failures))
