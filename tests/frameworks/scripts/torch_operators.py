# SPDX-License-Identifier: MIT
"""Runs operators of PyTorch that call NVIDIA's libraries, forward and, where there is one, backward. A line for each:

    NAME <tab> STATUS <tab> SHAPES

STATUS is `ok`, when the results are as many as on the CPU, of the same shapes and types; `value`, when PyTorch looks at a number
that was computed and does not like it (the device computes no numbers of its own); `no NVRTC` and `capability`, when it asks for a
compiler that is not there or a newer device; else what went wrong.

    torch_operators.py [NAME...]
"""
import re
import sys
import warnings

import torch
import torch.nn.functional as F

warnings.simplefilter("ignore")
TABLE = {}
SPARSE_BLOCKS = (4, 4)


def matrix(*size, dtype=torch.float32, device="cpu", grad=False):
    """Values that the CPU can do everything with; on the device only their shape counts."""
    made = torch.randn(*size, dtype=dtype)
    if len(size) >= 2 and size[-1] == size[-2]:
        made = made @ made.mH + size[-1] * torch.eye(size[-1], dtype=dtype)
    return made.to(device).requires_grad_(grad)


def add(name, call, *sizes, dtype=torch.float32, grad=True):
    """`call` gets a tensor for each of `sizes`; with `grad` the sum of what is differentiable goes backward."""
    def run(device):
        given = [matrix(*size, dtype=dtype, device=device, grad=grad) for size in sizes]
        results = call(*given)
        if grad:
            flat = [t for t in leaves(results) if t.requires_grad and (t.is_floating_point() or t.is_complex())]
            torch.autograd.backward(flat, [torch.ones_like(t, memory_format=torch.contiguous_format) for t in flat])
            return [*leaves(results), *[g.grad for g in given if g.grad is not None]]
        return results
    TABLE[name] = run


def leaves(results):
    if isinstance(results, torch.Tensor):
        return [results]
    if isinstance(results, torch.nn.utils.rnn.PackedSequence):
        return [results.data]
    return [t for r in results for t in leaves(r)] if isinstance(results, (tuple, list)) else []


def fourier():
    fft = torch.fft
    for name in ("fft", "rfft", "ihfft"):
        add(f"fft.{name}", getattr(fft, name), (3, 20))
        add(f"fft.{name} prime", getattr(fft, name), (1009,))
        add(f"fft.{name} double", getattr(fft, name), (3, 20), dtype=torch.float64)
    for name in ("ifft", "irfft", "hfft"):
        add(f"fft.{name}", getattr(fft, name), (3, 20), dtype=torch.complex64)
        add(f"fft.{name} double", getattr(fft, name), (3, 20), dtype=torch.complex128)
    for name in ("fft2", "fftn", "rfft2", "rfftn", "ihfft2", "ihfftn"):
        add(f"fft.{name}", getattr(fft, name), (2, 12, 10))
    for name in ("ifft2", "ifftn", "irfft2", "irfftn", "hfft2", "hfftn"):
        add(f"fft.{name}", getattr(fft, name), (2, 12, 10), dtype=torch.complex64)
    add("fft.fftn 4 dimensions", lambda a: fft.fftn(a), (2, 3, 4, 5))
    add("fft.fft over the first dimension", lambda a: fft.fft(a, dim=0), (8, 6))
    add("fft.fftshift", fft.fftshift, (3, 20))
    add("fft.ifftshift", fft.ifftshift, (3, 20))
    TABLE["fft.fftfreq"] = lambda device: fft.fftfreq(10, device=device)
    TABLE["fft.rfftfreq"] = lambda device: fft.rfftfreq(10, device=device)
    add("stft", lambda a: torch.stft(a, 64, return_complex=True, window=torch.ones(64, device=a.device)), (2, 512))
    TABLE["istft"] = lambda device: torch.istft(torch.zeros(33, 33, dtype=torch.complex64, device=device), 64,
                                               window=torch.ones(64, device=device))


def linear_algebra():
    la = torch.linalg
    square = ("cholesky", "cholesky_ex", "inv", "inv_ex", "qr", "eigh", "eigvalsh", "svd", "svdvals", "lu", "lu_factor", "lu_factor_ex",
              "det", "slogdet", "pinv", "cond", "matrix_exp", "eig", "eigvals", "matrix_norm", "vector_norm", "norm", "diagonal")
    for name in square:
        call = getattr(la, name)
        add(f"linalg.{name}", call, (8, 8))
        add(f"linalg.{name} batch", call, (3, 8, 8))
        add(f"linalg.{name} of 100", call, (2, 100, 100), grad=False)
        add(f"linalg.{name} complex", call, (8, 8), dtype=torch.complex128, grad=False)
    for name in ("qr", "svdvals", "pinv", "lu", "lu_factor_ex", "matrix_norm"):
        add(f"linalg.{name} tall", getattr(la, name), (40, 5), grad=False)
    add("linalg.svd tall", lambda a: la.svd(a, full_matrices=False), (40, 5))
    for driver in ("gesvd", "gesvdj", "gesvda"):
        TABLE[f"linalg.svd by {driver}"] = lambda device, driver=driver: la.svd(
            matrix(2, 40, 5, device=device), full_matrices=False, **({} if device == "cpu" else {"driver": driver}))
    for name in ("ldl_factor", "ldl_factor_ex", "matrix_rank"):
        add(f"linalg.{name}", getattr(la, name), (8, 8), grad=False)
        add(f"linalg.{name} complex", getattr(la, name), (8, 8), dtype=torch.complex128, grad=False)
    add("linalg.solve", la.solve, (8, 8), (8, 2))
    add("linalg.solve batch", la.solve, (3, 8, 8), (3, 8, 2))
    add("linalg.solve_ex", lambda a, b: la.solve_ex(a, b), (8, 8), (8, 2))
    add("linalg.solve_triangular", lambda a, b: la.solve_triangular(a, b, upper=True), (8, 8), (8, 2))
    add("linalg.solve_triangular batch", lambda a, b: la.solve_triangular(a, b, upper=True), (3, 8, 8), (3, 8, 2))
    add("linalg.lu_solve", lambda a, b: la.lu_solve(*la.lu_factor_ex(a)[:2], b), (8, 8), (8, 2))
    add("linalg.lu_solve batch", lambda a, b: la.lu_solve(*la.lu_factor_ex(a)[:2], b), (3, 8, 8), (3, 8, 2), grad=False)
    add("linalg.ldl_solve", lambda a, b: la.ldl_solve(*la.ldl_factor_ex(a)[:2], b), (8, 8), (8, 2), grad=False)
    add("linalg.lstsq", lambda a, b: la.lstsq(a, b)[0], (12, 5), (12, 2), grad=False)
    add("linalg.lstsq batch", lambda a, b: la.lstsq(a, b)[0], (3, 12, 5), (3, 12, 2), grad=False)
    add("linalg.householder_product", la.householder_product, (12, 5), (5,))
    add("linalg.tensorinv", lambda a: la.tensorinv(a.reshape(2, 3, 6), ind=2), (6, 6))
    add("linalg.tensorsolve", lambda a, b: la.tensorsolve(a.reshape(2, 3, 6), b.reshape(2, 3)), (6, 6), (6,))
    add("linalg.matrix_power", lambda a: la.matrix_power(a, -2), (8, 8))
    add("linalg.multi_dot", lambda a, b: la.multi_dot([a, a, b]), (8, 8), (8, 2))
    add("linalg.cross", la.cross, (4, 3), (4, 3))
    add("linalg.vander", la.vander, (5,))
    add("linalg.vecdot", la.vecdot, (4, 8), (4, 8))
    add("linalg.vecdot complex", la.vecdot, (4, 8), (4, 8), dtype=torch.complex64)
    add("linalg.matmul", la.matmul, (4, 8), (8, 3))
    for name in ("matrix_sqrth", "polar"):  # not in 2.5
        if hasattr(la, name):
            add(f"linalg.{name}", getattr(la, name), (8, 8), grad=False)
    add("cholesky_solve", torch.cholesky_solve, (8, 2), (8, 8))
    add("cholesky_solve batch", torch.cholesky_solve, (3, 8, 2), (3, 8, 8), grad=False)
    add("cholesky_inverse", torch.cholesky_inverse, (8, 8))
    add("cholesky_inverse batch", torch.cholesky_inverse, (3, 8, 8), grad=False)
    add("ormqr", torch.ormqr, (12, 5), (5,), (12, 3), grad=False)
    add("geqrf", torch.geqrf, (12, 5), grad=False)
    add("triangular_solve", torch.triangular_solve, (8, 2), (8, 8))
    add("lobpcg", lambda a: torch.lobpcg(a, k=2, niter=2), (30, 30), grad=False)
    add("pca_lowrank", lambda a: torch.pca_lowrank(a, q=3), (20, 10), grad=False)
    add("svd_lowrank", lambda a: torch.svd_lowrank(a, q=3), (20, 10), grad=False)


def products():
    add("mv", torch.mv, (8, 6), (6,))
    add("mv complex", torch.mv, (8, 6), (6,), dtype=torch.complex64)
    add("dot complex", torch.dot, (6,), (6,), dtype=torch.complex128, grad=False)
    add("vdot complex", torch.vdot, (6,), (6,), dtype=torch.complex64, grad=False)
    for dtype in (torch.float16, torch.bfloat16, torch.float64, torch.complex64):
        add(f"matmul {str(dtype)[6:]}", torch.matmul, (4, 8, 6), (4, 6, 5), dtype=dtype)
    add("einsum", lambda a, b: torch.einsum("bij,bjk->bik", a, b), (4, 8, 6), (4, 6, 5))


def by(layout):
    def make(device, rows=8, columns=8):
        dense = torch.zeros(rows, columns)
        for i in range(rows):
            dense[i, i % columns] = dense[i, (3 * i + 1) % columns] = 1 + i
        arguments = {"blocksize": SPARSE_BLOCKS} if layout is torch.sparse_bsr else {}
        return dense.to_sparse(layout=layout, **arguments).to(device)
    return make


def sparse():
    coo, csr, bsr = by(torch.sparse_coo), by(torch.sparse_csr), by(torch.sparse_bsr)
    for name, make in (("coo", coo), ("csr", csr), ("bsr", bsr)):
        TABLE[f"sparse.{name} @ matrix"] = lambda device, make=make: make(device) @ torch.ones(8, 4, device=device)
        TABLE[f"sparse.{name} @ vector"] = lambda device, make=make: make(device) @ torch.ones(8, device=device)
        TABLE[f"sparse.{name} addmm"] = lambda device, make=make: torch.addmm(
            torch.ones(8, 4, device=device), make(device), torch.ones(8, 4, device=device))
    # Not here: bmm of a COO tensor asks the device where each matrix begins, and gets numbers that mean nothing.
    TABLE["sparse.coo mm backward"] = lambda device: backward_of_sparse(coo(device), device)
    TABLE["sparse.coo @ coo"] = lambda device: size_of(torch.sparse.mm(coo(device), coo(device)))
    TABLE["sparse.csr @ csr"] = lambda device: size_of(csr(device) @ csr(device))
    TABLE["sparse.csr + csr"] = lambda device: size_of(csr(device) + csr(device))
    TABLE["sparse.coo coalesce"] = lambda device: size_of(torch.cat([coo(device), coo(device)]).coalesce())
    TABLE["sparse.sampled_addmm"] = lambda device: size_of(
        torch.sparse.sampled_addmm(csr(device), torch.ones(8, 5, device=device), torch.ones(5, 8, device=device)) if device != "cpu" else csr(device))
    for name, make in (("csr", csr), ("bsr", bsr)):
        for columns in (1, 3):
            TABLE[f"sparse.{name} triangular_solve {columns}"] = lambda device, make=make, columns=columns: \
                torch.ones(8, columns) if device == "cpu" else torch.triangular_solve(
                    torch.ones(8, columns, device=device), make(device), upper=True)[0]
    TABLE["sparse.to_dense"] = lambda device: csr(device).to_dense()
    TABLE["sparse.coo to csr"] = lambda device: size_of(coo(device).to_sparse_csr())
    TABLE["sparse.csr to csc"] = lambda device: size_of(csr(device).to_sparse_csc())
    TABLE["sparse.softmax"] = lambda device: size_of(torch.sparse.softmax(coo(device), 1))
    TABLE["sparse.sum"] = lambda device: size_of(torch.sparse.sum(coo(device), 1))
    TABLE["sparse.embedding"] = lambda device: size_of(embedding(device))


def backward_of_sparse(a, device):
    a.requires_grad_()
    b = torch.ones(8, 4, device=device, requires_grad=True)
    torch.sparse.mm(a, b).sum().backward()
    return [size_of(a.grad), b.grad]


def embedding(device):
    table = torch.nn.Embedding(10, 4, sparse=True).to(device)
    table(torch.tensor([1, 2, 2], device=device)).sum().backward()
    return table.weight.grad


def size_of(x):
    """How many nonzeros there are depends on values."""
    return torch.empty(x.shape, dtype=x.dtype, device="cpu" if x.device.type == "cpu" else "cuda")


def recurrent():
    for kind in ("RNN", "LSTM", "GRU"):
        for name, settings in (("", {}), (" 3 layers, both ways", {"num_layers": 3, "bidirectional": True}),
                               (" dropout", {"num_layers": 2, "dropout": .5}), (" no bias, batch first", {"bias": False, "batch_first": True})):
            TABLE[f"{kind}{name}"] = lambda device, kind=kind, settings=settings: run_recurrent(device, kind, settings)
        TABLE[f"{kind} packed"] = lambda device, kind=kind: run_recurrent(device, kind, {"batch_first": True}, packed=True)
        TABLE[f"{kind} half"] = lambda device, kind=kind: run_recurrent(device, kind, {}, dtype=torch.float16 if device != "cpu" else torch.float32)
        TABLE[f"{kind} inference"] = lambda device, kind=kind: run_recurrent(device, kind, {}, training=False)
        TABLE[f"{kind}Cell"] = lambda device, kind=kind: getattr(torch.nn, f"{kind}Cell")(6, 5).to(device)(torch.ones(3, 6, device=device))
    TABLE["LSTM projection"] = lambda device: run_recurrent(device, "LSTM", {"proj_size": 3, "num_layers": 2})


def run_recurrent(device, kind, settings, packed=False, dtype=torch.float32, training=True):
    net = getattr(torch.nn, kind)(6, 5, **settings).to(device, dtype).train(training)
    given = torch.ones(4, 3, 6, device=device, dtype=dtype, requires_grad=training)
    with torch.set_grad_enabled(training):
        results = net(torch.nn.utils.rnn.pack_padded_sequence(given, torch.tensor([3, 2, 2, 1]), batch_first=True) if packed else given)
        flat = leaves(results)
        if training:
            flat[0].sum().backward()
            flat += [given.grad, *[p.grad for p in net.parameters()]]
    return [t.float() for t in flat]


def networks():
    def normed(shape, layout):
        def run(device):
            net = torch.nn.LazyBatchNorm2d().to(device)
            given = torch.ones(shape, device=device).contiguous(memory_format=layout).requires_grad_()
            out = net(given)
            out.sum().backward()
            return [out, given.grad, net.weight.grad, net.running_mean]
        return run
    TABLE["batch_norm"] = normed((4, 8, 10, 10), torch.contiguous_format)
    TABLE["batch_norm channels last"] = normed((4, 8, 10, 10), torch.channels_last)
    for name, where, kind in ((", labels on the host", "cpu", torch.int32), (", labels on the device", "cuda", torch.int32), (" of PyTorch", "cuda", torch.int64)):
        TABLE[f"ctc_loss{name}"] = lambda device, where=where, kind=kind: ctc(device, where, kind)
    add("conv1d", F.conv1d, (2, 4, 20), (6, 4, 3))
    add("conv2d", F.conv2d, (2, 4, 12, 12), (6, 4, 3, 3))
    add("conv3d", F.conv3d, (2, 4, 6, 8, 8), (6, 4, 3, 3, 3))
    add("conv_transpose2d", F.conv_transpose2d, (2, 4, 12, 12), (4, 6, 2, 2))
    add("conv2d in groups", lambda a, b: F.conv2d(a, b, groups=2), (2, 4, 12, 12), (6, 2, 3, 3))
    add("max_pool2d", lambda a: F.max_pool2d(a, 2), (2, 4, 12, 12))
    add("grid_sample", lambda a, b: F.grid_sample(a, b, align_corners=False), (2, 4, 7, 8), (2, 5, 6, 2))
    add("affine_grid", lambda a: F.affine_grid(a, (2, 3, 7, 8), align_corners=False), (2, 2, 3))
    add("scaled_dot_product_attention", F.scaled_dot_product_attention, (2, 2, 9, 8), (2, 2, 9, 8), (2, 2, 9, 8))
    TABLE["bincount"] = lambda device: size_if(torch.tensor([0, 1, 1, 4], device=device).bincount(minlength=5))
    TABLE["histc"] = lambda device: torch.histc(torch.ones(9, device=device), bins=4, min=0, max=2)
    TABLE["_int_mm"] = lambda device: torch._int_mm(torch.ones(32, 32, dtype=torch.int8, device=device), torch.ones(32, 32, dtype=torch.int8, device=device))
    TABLE["_scaled_mm"] = scaled
    TABLE["_scaled_mm by rows"] = lambda device: scaled(device, (32, 1))


def size_if(x):
    """A size that depends on values, at most what it is on the CPU."""
    return torch.empty((), dtype=x.dtype)


def ctc(device, where, kind):
    """Labels of 32 bits go to cuDNN: from the host with their lengths, or all from the device."""
    given = torch.randn(20, 2, 7).log_softmax(2).to(device).requires_grad_()
    labels = torch.ones(8, dtype=kind, device="cpu" if device == "cpu" else where)
    lengths = [(20, 20), (4, 4)] if labels.device.type == "cpu" else [torch.tensor(n, dtype=kind, device=where) for n in ([20, 20], [4, 4])]
    loss = F.ctc_loss(given, labels, *lengths)
    loss.backward()
    return [loss, given.grad]


def scaled(device, scales=()):
    """Products of 8-bit numbers need capability 8.9. A scale for each operand (cuBLASLt), or for each of its rows (CUTLASS)."""
    if device == "cpu":
        return torch.empty(32, 32, dtype=torch.bfloat16)
    a = torch.ones(32, 32, device=device).to(torch.float8_e4m3fn)
    left, right = torch.ones(scales, device=device), torch.ones(scales[::-1], device=device)
    return torch._scaled_mm(a, a.t(), scale_a=left, scale_b=right, out_dtype=torch.bfloat16)


def shapes(results):
    return " ".join(f"{str(t.dtype)[6:]}{list(t.shape)}".replace(" ", "") for t in leaves(results))


def status_of(run):
    torch.manual_seed(0)
    expected = shapes(run("cpu"))
    try:
        got = shapes(run("cuda"))
        torch.cuda.synchronize()
    except Exception as error:  # whatever PyTorch raises is the result
        first = str(error).splitlines()[0]
        if type(error).__name__ == "_LinAlgError" or re.search(r"BatchLinearAlgebra|infs or NaNs|is zero and using it|U\[|^istft", first):
            return "value", expected
        for word, status in (("NVRTC", "no NVRTC"), ("compute capability", "capability")):
            if word in first:
                return status, expected
        return f"{type(error).__name__}: {re.sub(r'[`].*|at .*', '', first)[:110].strip()}", expected
    return ("ok" if got == expected else f"other results: {got}"), expected


def main(wanted):
    for part in (products, fourier, linear_algebra, sparse, recurrent, networks):
        part()
    for module in (torch.fft, torch.linalg):
        prefix = module.__name__.split(".")[-1]
        for name in dir(module):
            if type(getattr(module, name)).__name__ == "builtin_function_or_method" and not name.startswith("_") and name != "Tensor":
                if not any(row.split()[0] == f"{prefix}.{name}" for row in TABLE):
                    print(f"{prefix}.{name}\tnot in this script\t")
    for name, run in TABLE.items():
        if not wanted or name in wanted:
            print(name, *status_of(run), sep="\t", flush=True)


main(sys.argv[1:])
