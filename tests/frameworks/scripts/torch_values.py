# SPDX-License-Identifier: MIT
"""Operators on small tensors: what the device computes is what the CPU computes.

Of each operator one line says `right`, `digest` (the device wrote no values of its own, and says so), `refused` (an
exception) or WRONG (other values than the CPU's, and the device does not say so). Exit 1: something is wrong, or an
operator that is not listed below as a digest or as refused is no longer right.
"""
import collections
import ctypes
import sys

import torch
import torch.nn.functional as F
from torch import nn

# What has no values: kernels without a body, cuDNN, and operators that PyTorch compiles when they are called (NVRTC).
DIGESTS = {"tril_indices", "mode", "masked_scatter", "pad reflect", "cdist", "cross", "group_norm", "batch_norm",
           "batch_norm of known moments", "max_pool2d", "avg_pool2d", "interpolate nearest", "interpolate bilinear", "conv2d"}
if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 15):  # names of kernels do not say which type comes out
    DIGESTS |= {"float8_e4m3fn of float32", "float8_e4m3fn of float16", "float8_e5m2 of float32", "float8_e5m2 of float16"}
REFUSED = {"erfc", "exp2", "lgamma", "digamma", "erfinv", "prod", "prod 0", "prod 1"}

torch.manual_seed(0)
A, B, V, W = torch.randn(6, 7), torch.randn(6, 7), torch.randn(33), torch.randn(5, 4, 3)
P, M, X = A.abs() + 0.5, A > 0, torch.randn(2, 3, 8, 8)
I, J = torch.randint(-9, 9, (6, 7)), torch.randint(1, 9, (6, 7))
H, Y, D, N = A.half(), A.bfloat16(), A.double(), I.int()
ROWS, TARGETS = torch.tensor([3, 0, 5]), torch.tensor([1, 0, 3, 2, 6, 5])
ODD = torch.tensor([1, float("nan"), float("inf"), -float("inf"), 0])
TYPES = {"float32": A, "float16": H, "bfloat16": Y, "float64": D, "int64": I, "int32": N, "bool": M}
OPERATORS = {}


def add(name, function, *tensors):
    assert name not in OPERATORS, name
    OPERATORS[name] = (function, tensors)


def named(names, *tensors, of=torch, suffix="", **more):
    for name in names.split():
        add(name + suffix, lambda d, *x, name=name: getattr(of, name)(*x, **more), *tensors)


def changed(function):
    """An operator that changes its first argument in place."""
    def run(_, first, *rest):
        first = first.clone()
        function(first, *rest)
        return first
    return run


# ── creation ──
for made in ("zeros", "ones"):
    add(made, lambda d, made=made: getattr(torch, made)(5, device=d))
for filled in (3.5, 7, True):
    add(f"full {filled}", lambda d, filled=filled: torch.full((5,), filled, device=d))
for kind in ("float32", "float64", "int64", "int32", "float16", "bfloat16", "uint8"):
    add(f"arange {kind}", lambda d, kind=kind: torch.arange(3, 20, 2, device=d, dtype=getattr(torch, kind)))
add("linspace", lambda d: torch.linspace(0, 1, 7, device=d))
add("logspace", lambda d: torch.logspace(0, 1, 7, device=d))
add("eye", lambda d: torch.eye(4, device=d))
add("tril_indices", lambda d: torch.tril_indices(4, 5, device=d))
add("fill_", lambda d: torch.empty(9, device=d).fill_(2))
add("one_hot", lambda d, t: F.one_hot(t, 7), TARGETS)

# ── one argument ──
named("abs neg exp expm1 sin cos tan atan sinh cosh tanh sigmoid erf erfc floor ceil round trunc frac sign sgn square reciprocal"
      " relu logical_not isnan isinf isfinite signbit exp2 clone", A)
named("log log2 log10 log1p sqrt rsqrt lgamma digamma", P)
named("asin acos erfinv", A.clamp(-0.9, 0.9))
named("isnan isinf isfinite nan_to_num isneginf isposinf", ODD, suffix=" of what is not finite")
named("gelu silu mish softplus elu selu leaky_relu hardtanh hardswish hardsigmoid logsigmoid relu6 softsign tanhshrink celu", A, of=F)
add("gelu tanh", lambda d, a: F.gelu(a, approximate="tanh"), A)
named("abs neg bitwise_not", I, suffix=" of integers")
add("not of bools", lambda d, a: ~a, M)
named("exp", H, suffix=" of halves")
named("tanh", Y, suffix=" of bfloats")
named("sin", D, suffix=" of doubles")
for source, values in TYPES.items():
    for target in [*TYPES, "uint8"]:
        add(f"{source} to {target}", lambda d, a, target=target: a.to(getattr(torch, target)),
            values.abs() if target == "uint8" and source != "bool" else values)
add("transpose", lambda d, a: a.t().contiguous(), A)
add("copy_", changed(torch.Tensor.copy_), A, B)
add("copy_ of a row", changed(torch.Tensor.copy_), A, B[0])

# ── two arguments ──
named("add sub mul div eq ne lt le gt ge maximum minimum atan2 fmod remainder fmax fmin hypot logaddexp copysign logical_and"
      " logical_or logical_xor floor_divide", A, B)
named("add sub mul eq lt ge maximum minimum remainder fmod floor_divide bitwise_and bitwise_or bitwise_xor true_divide"
      " bitwise_left_shift bitwise_right_shift", I, J, suffix=" of integers")
named("pow", P, B)
for name_, function_ in {
        "a + 2": lambda a: a + 2, "2 - a": lambda a: 2 - a, "a * 3": lambda a: a * 3, "a / 3": lambda a: a / 3,
        "1 / a": lambda a: 1 / a, "a ** 2": lambda a: a ** 2, "a ** 3": lambda a: a ** 3, "2 ** a": lambda a: 2.0 ** a,
        "a ** 0.5": lambda a: a.abs() ** 0.5, "a > 0.3": lambda a: a > 0.3, "a == 0": lambda a: a == 0, "a % 0.3": lambda a: a % 0.3,
        "clamp": lambda a: a.clamp(-0.5, 0.5), "clamp_min": lambda a: a.clamp_min(0), "clamp_max": lambda a: a.clamp_max(0.1),
        "threshold": lambda a: F.threshold(a, 0.1, 20.0), "a + alpha * a": lambda a: torch.add(a, a, alpha=0.5),
        "float + integer": lambda a: a + torch.arange(7, device=a.device), "in place": lambda a: a.clone().mul_(2).sub_(1),
        "and": lambda a: (a > 0) & (a < 1), "or": lambda a: (a > 1) | (a < 0), "xor": lambda a: (a > 0) ^ (a < 1)}.items():
    add(name_, lambda d, a, function_=function_: function_(a), A)
add("a column", lambda d, a, b: a + b[:, :1], A, B)
add("a row", lambda d, a, b: a * b[0], A, B)
add("strides", lambda d, a, b: a[::2, 1::2] - b.t()[1::2, ::2].t(), A, B)
for left, right in (("float16", "float32"), ("float64", "float32"), ("int64", "float32"), ("int32", "int64"), ("int32", "bool")):
    add(f"{left} * {right}", lambda d, a, b: a * b, TYPES[left], TYPES[right])
for kind in ("float16", "bfloat16"):
    add(f"a + 2 * a of {kind}", lambda d, a: a + a * 2, TYPES[kind])

for kind in ("float8_e4m3fn", "float8_e5m2"):
    SMALL = A.to(getattr(torch, kind))
    for other in ("float32", "float16"):
        add(f"{kind} of {other}", lambda d, a, kind=kind: a.to(getattr(torch, kind)), TYPES[other] * 20)
        add(f"{other} of {kind}", lambda d, a, other=other: a.to(getattr(torch, other)), SMALL)
    add(f"{kind} is copied", lambda d, a: a.t().contiguous(), SMALL)

# ── three and more, conditions ──
add("where", lambda d, a, b: torch.where(a > 0, a, b), A, B)
add("where of integers", lambda d, a, b: torch.where(a > b, a, b), I, J)
add("where of a number", lambda d, a: torch.where(a > 0, a, 0.0), A)
add("masked_fill", lambda d, a: a.masked_fill(a > 0, -1.0), A)
add("lerp", lambda d, a, b: torch.lerp(a, b, 0.3), A, B)
named("lerp", A, B, P, suffix=" by a tensor")
named("addcmul addcdiv", A, B, P, value=0.5)
add("clamp by tensors", lambda d, a, b: torch.clamp(a, b, b + 1), A, B)
add("isclose", lambda d, a: torch.isclose(a, a + 1e-9), A)
add("equal", lambda d, a, b: torch.tensor([torch.equal(a, a), torch.equal(a, b)]), A, B)
add("allclose", lambda d, a: torch.tensor(torch.allclose(a, a)), A)

# ── reductions ──
for name_ in "sum mean prod argmax argmin any all std var count_nonzero".split():
    of_ = M if name_ in ("any", "all") else A
    named(name_, of_)
    for dim in (0, 1):
        named(name_, of_, suffix=f" {dim}", dim=dim)
for name_ in "amax amin logsumexp".split():
    for dim in (0, 1, (0, 1)):
        named(name_, A, suffix=f" {dim}", dim=dim)
named("max min aminmax median nansum norm", A)
named("max min median", A, suffix=" 1", dim=1)
for type_ in ("int64", "bool", "int32", "float64", "bfloat16"):
    named("sum", TYPES[type_], suffix=f" of {type_}")
named("mean", H, suffix=" of halves")
for shape, dims in (((3000,), 0), ((40, 500), 1), ((500, 40), 0), ((5, 4, 3), (0, 2))):
    named("sum", torch.randn(shape), suffix=f" of {shape}", dim=dims)
named("argmax", torch.randn(64, 1000), suffix=" of 64 rows", dim=1)
named("var_mean", A, dim=1)
add("norm 1", lambda d, a: a.norm(p=1), A)
add("norm of infinity", lambda d, a: a.norm(p=float("inf")), A)
named("dist", A, B)
add("any of NaN", lambda d, a: a.isnan().any(), ODD)
add("quantile", lambda d, a: torch.quantile(a, 0.4), A)
add("kthvalue", lambda d, a: a.kthvalue(3, 1), A)
add("mode", lambda d, a: a.mode(1).values, I)

# ── scans, sorts, selection ──
for name_ in "cumsum cumprod logcumsumexp cummax cummin".split():
    for dim in (0, 1):
        named(name_, A, suffix=f" {dim}", dim=dim)
named("cumsum", torch.arange(50), suffix=" of integers", dim=0)
named("cumsum", V, suffix=" of a row", dim=0)
named("cumsum", M, suffix=" of bools", dim=1)
for name_, of_ in (("short", V), ("long", torch.randn(5000)), ("integers", I.flatten())):
    add(f"sort of {name_}", lambda d, a: a.sort(stable=True), of_)
for dim in (0, 1):
    add(f"sort {dim}", lambda d, a, dim=dim: a.sort(dim), A)
add("sort of rows", lambda d, a: a.sort(1), torch.randn(4, 300))
add("sort downwards", lambda d, a: a.sort(1, descending=True), A)
named("argsort msort", V)
for name_, of_, k, dim in (("row", V, 5, 0), ("rows", A, 3, 1), ("columns", A, 2, 0), ("long rows", torch.randn(2, 5000), 8, 1)):
    add(f"topk of {name_}", lambda d, a, k=k, dim=dim: a.topk(k, dim), of_)
add("topk from below", lambda d, a: a.topk(2, largest=False), A)
add("nonzero", lambda d, a: a.nonzero(), M)
add("nonzero of floats", lambda d, a: (a * (a > 0)).nonzero(), A)
add("nonzero of a row", lambda d, a: (a > 0).nonzero(), V)
add("mask", lambda d, a: a[a > 0], A)
add("masked_select", lambda d, a, b: torch.masked_select(a, b > 0), A, B)
add("where of one", lambda d, a: torch.where(a > 0), A)
named("unique unique_consecutive", I.flatten())
add("unique with counts", lambda d, a: a.unique(return_inverse=True, return_counts=True), I)
add("bincount", lambda d, a: a.flatten().abs().bincount(), I)
add("histc", lambda d, a: a.histc(5, -2, 2), A)
add("bucketize", lambda d, a: torch.bucketize(a, torch.tensor([-1.0, 0, 1], device=d)), A)
add("isin", lambda d, a: torch.isin(a, torch.tensor([1, 2, 3], device=d)), I)

# ── indexing ──
add("index_select", lambda d, a, i: a.index_select(0, i), A, ROWS)
add("index_select of columns", lambda d, a, i: a.index_select(1, i), A, ROWS)
add("gather", lambda d, a, t: a.gather(1, t[:, None]), A, TARGETS)
add("index", lambda d, a, i: a[i], A, ROWS)
add("index by two", lambda d, a, t: a[torch.arange(6, device=d), t], A, TARGETS)
add("take", lambda d, a, i: a.take(i), A, ROWS)
add("take_along_dim", lambda d, a: a.take_along_dim(a.argsort(1), 1), A)
add("embedding", lambda d, a, t: F.embedding(t.clamp(max=5), a), A, TARGETS)
add("index_put", changed(lambda a, i: a.index_put_((i,), torch.tensor(1.5, device=a.device))), A, ROWS)
add("index_put that adds", changed(lambda a, i, b: a.index_put_((i,), b[:3], accumulate=True)), A, ROWS, B)
add("mask that is set", changed(lambda a: a.__setitem__(a < 0, 9.0)), A)
add("slice that is set", changed(lambda a: a.__setitem__((slice(1, 3), 2), 7.0)), A)
add("fill_diagonal_", changed(lambda a: a.fill_diagonal_(0)), A)
add("scatter of a number", changed(lambda a, t: a.scatter_(1, t[:, None], 1.0)), A, TARGETS)
add("scatter", changed(lambda a, t, b: a.scatter_(1, t[:, None], b[:, :1])), A, TARGETS, B)
add("scatter_add", changed(lambda a, t, b: a.scatter_add_(1, t[:, None], b)), A, TARGETS, B)
for name_ in ("index_add_", "index_copy_"):
    add(name_, changed(lambda a, i, b, name_=name_: getattr(a, name_)(0, i, b[:3])), A, ROWS, B)
add("index_fill_", changed(lambda a, i: a.index_fill_(0, i, 2.0)), A, ROWS)
add("masked_scatter", lambda d, a, b: a.masked_scatter(a > 0, b), A, B)

# ── shapes ──
for dim in (0, 1):
    add(f"cat {dim}", lambda d, a, b, dim=dim: torch.cat([a, b], dim), A, B)
add("cat of integers", lambda d, a: torch.cat([a, a, a]), I)
add("stack", lambda d, a, b: torch.stack([a, b], 1), A, B)
add("flip", lambda d, a: a.flip(0, 1), A)
add("roll", lambda d, a: a.roll(2, 1), A)
add("repeat", lambda d, a: a.repeat(2, 3), A)
add("repeat_interleave", lambda d, a: a.repeat_interleave(3, 0), A)
named("repeat_interleave", TARGETS, suffix=" by counts")
add("pad", lambda d, a: F.pad(a, (1, 2)), A)
add("pad reflect", lambda d, a: F.pad(a[None], (1, 2), mode="reflect"), A)
named("tril triu diag trace", A)
named("diff", V)
named("cdist", A, B)
add("cross", lambda d, a, b: torch.cross(a[:, :3], b[:, :3], dim=1), A, B)
add("outer", lambda d, a: torch.outer(a[:4], a[:5]), V)

# ── layers and losses ──
for name_ in ("softmax", "log_softmax"):
    for dim in (0, 1):
        named(name_, A, of=F, suffix=f" {dim}", dim=dim)
named("softmax", torch.randn(3, 2000), of=F, suffix=" of long rows", dim=1)
named("cross_entropy", A, TARGETS, of=F)
named("mse_loss l1_loss smooth_l1_loss huber_loss cosine_similarity", A, B, of=F)
named("binary_cross_entropy_with_logits", A, M.float(), of=F)
add("binary_cross_entropy", lambda d, a, m: F.binary_cross_entropy(a.sigmoid(), m), A, M.float())
add("kl_div", lambda d, a, b: F.kl_div(a.log_softmax(1), b.softmax(1), reduction="batchmean"), A, B)
add("layer_norm", lambda d, a, w: F.layer_norm(a, (7,), w[0], w[1]), A, B)
add("rms_norm", lambda d, a: F.rms_norm(a, (7,)), A)
add("group_norm", lambda d, x: F.group_norm(x, 1), X)
add("batch_norm", lambda d, x: F.batch_norm(x, None, None, training=True), X)
add("batch_norm of known moments", lambda d, x: F.batch_norm(x, torch.zeros(3, device=d), torch.ones(3, device=d)), X)
named("max_pool2d avg_pool2d", X, of=F, kernel_size=2)
named("adaptive_avg_pool2d", X, of=F, output_size=1)
for name_ in ("nearest", "bilinear"):
    named("interpolate", X, of=F, suffix=f" {name_}", scale_factor=2, mode=name_)
named("normalize", A, of=F)
add("glu", lambda d, a: F.glu(a[:, :6]), A)
add("prelu", lambda d, a: F.prelu(a, torch.tensor([0.2], device=d)), A)
add("conv2d", lambda d, x: F.conv2d(x, torch.ones(2, 3, 3, 3, device=d)), X)

# ── products ──
for type_ in ("float32", "float16", "bfloat16", "float64"):
    add(f"matmul of {type_}", lambda d, a: a @ a.t(), TYPES[type_])
add("matmul of a transpose", lambda d, a, b: a.t() @ b, A, B)
add("matmul with a vector", lambda d, a, b: a @ b[0], A, B)
add("dot", lambda d, a: a.dot(a), V)
add("bmm", lambda d, w: torch.bmm(w, w.transpose(1, 2)), W)
add("baddbmm", lambda d, w: torch.baddbmm(torch.ones(5, 4, 4, device=d), w, w.transpose(1, 2), beta=0.5, alpha=2.0), W)
add("addmm", lambda d, a, b: torch.addmm(torch.ones(6, 6, device=d), a, b.t()), A, B)
add("linear", lambda d, a, b: F.linear(a, b, b[:, 0]), A, B)
add("einsum", lambda d, a, b: torch.einsum("ij,kj->ik", a, b), A, B)
add("attention", lambda d, w: F.scaled_dot_product_attention(w[None], w[None], w[None]), W)


# ── gradients and optimizers ──
def gradient(function):
    def run(_, a):
        a = a.clone().requires_grad_()
        function(a).sum().backward()
        return a.grad
    return run


def scaled(x):
    return x * torch.arange(7.0, device=x.device)


for name_ in "relu sigmoid tanh gelu silu leaky_relu softplus logsigmoid hardtanh".split():
    add(f"gradient of {name_}", gradient(lambda a, name_=name_: getattr(F, name_)(a)), A)
for name_, function_ in {
        "softmax": lambda a: scaled(a.softmax(1)), "log_softmax": lambda a: scaled(a.log_softmax(1)),
        "layer_norm": lambda a: F.layer_norm(a, (7,)) ** 2, "cross_entropy": lambda a: F.cross_entropy(a, TARGETS.to(a.device)),
        "linear": lambda a: F.linear(a, a), "mse_loss": lambda a: F.mse_loss(a, torch.zeros_like(a)),
        "embedding": lambda a: F.embedding(torch.tensor([0, 2, 2], device=a.device), a),
        "index": lambda a: a[torch.tensor([0, 2, 2], device=a.device)], "norm": torch.norm, "max": lambda a: a.max(1)[0],
        "cumsum": lambda a: a.cumsum(1), "mean": lambda a: a.mean(0), "std": lambda a: a.std(0), "slice": lambda a: a[1:3],
        "cat": lambda a: torch.cat([a, a * 2]),
        "binary_cross_entropy_with_logits": lambda a: F.binary_cross_entropy_with_logits(a, torch.ones_like(a))}.items():
    add(f"gradient of {name_}", gradient(function_), A)


def optimize(make, **options):
    def run(_, a, b):
        p, q = nn.Parameter(a.clone()), nn.Parameter(b[0].clone())
        optimizer = make([p, q], lr=0.1, **options)
        for _ in range(2):
            optimizer.zero_grad()
            ((p * p).sum() + (q * q * q).sum()).backward()
            optimizer.step()
        return [p.detach(), q.detach()]
    return run


def clip(_, a, b):
    p, q = nn.Parameter(a.clone()), nn.Parameter(b.clone())
    ((p * p).sum() + (q * q).sum()).backward()
    return [nn.utils.clip_grad_norm_([p, q], 1.0), p.grad, q.grad]


def foreach(_, a, b):
    tensors = [a.clone(), b.clone()]
    torch._foreach_add_(tensors, 1.0) # pylint: disable=protected-access
    torch._foreach_mul_(tensors, 2.0) # pylint: disable=protected-access
    return tensors + list(torch._foreach_norm(tensors)) # pylint: disable=protected-access


for name_, options_ in {"SGD": {}, "SGD momentum": {"momentum": 0.9}, "Adam": {}, "AdamW": {}, "Adam one by one": {"foreach": False},
                        "SGD nesterov": {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}, "Adam fused": {"fused": True},
                        "SGD fused": {"fused": True, "momentum": 0.9}, "RMSprop": {}, "Adagrad": {}}.items():
    add(name_, optimize(getattr(torch.optim, name_.split()[0]), **options_), A, B)
add("clip_grad_norm_", clip, A, B)
add("foreach", foreach, A, B)

# ── random numbers: what holds of all of them ──
for count in (50, 1000, 40000):
    add(f"randperm {count}", lambda d, count=count: torch.randperm(count, device=d).sort().values)
add("rand", lambda d: (lambda r: (r >= 0) & (r < 1) & (r.std() > 0.2))(torch.rand(100, device=d)))
add("randint", lambda d: (lambda r: (r >= 3) & (r < 9))(torch.randint(3, 9, (50,), device=d)))
add("randn", lambda d: (lambda r: (r.mean().abs() < 0.2) & ((r.std() - 1).abs() < 0.1))(torch.randn(2000, device=d)))
add("normal_", lambda d: (torch.empty(1000, device=d).normal_(5, 0.1) - 5).abs() < 1)
add("uniform_", lambda d: (lambda r: (r >= -1) & (r < 2))(torch.empty(77, device=d).uniform_(-1, 2)))
add("exponential_", lambda d: torch.empty(100, device=d).exponential_() >= 0)
add("bernoulli", lambda d: (lambda m: (m > 0.3) & (m < 0.7))(torch.full((500,), 0.5, device=d).bernoulli().mean()))
add("dropout", lambda d: (lambda r: (r == 0) | (r == 2))(F.dropout(torch.ones(100, device=d))))
add("multinomial", lambda d: torch.multinomial(torch.tensor([0.0, 1, 0], device=d), 1))
add("multinomial of two", lambda d: torch.multinomial(torch.tensor([0.5, 0.5, 0], device=d), 2).sort().values)
add("multinomial with replacement", lambda d: torch.multinomial(torch.tensor([[0.0, 1, 0], [0, 0, 3]], device=d), 3, replacement=True))


def flat(results):
    return [results] if isinstance(results, torch.Tensor) else [x for r in results for x in flat(r)]


def run(device, function, tensors):
    torch.manual_seed(0)
    return [r.detach().cpu() for r in flat(function(device, *(t.to(device) for t in tensors)))]


def is_close(got, right):
    tolerance = 1e-2 if got.dtype in (torch.half, torch.bfloat16) else 1e-5
    return got.shape == right.shape and got.dtype == right.dtype and torch.allclose(
        got.double(), right.double(), rtol=10 * tolerance, atol=tolerance, equal_nan=True)


def outcome(function, tensors):
    copies = ctypes.CDLL("libcuda.so.1").simcuda_digest_copies
    right, before = run("cpu", function, tensors), copies()
    try:
        got = run("cuda", function, tensors)
    except RuntimeError:
        return "refused"
    if copies() > before:
        return "digest"
    return "right" if len(got) == len(right) and all(map(is_close, got, right)) else "WRONG"


def main():
    outcomes = {name: outcome(*operator) for name, operator in OPERATORS.items()}
    unexpected = [f"{name}: {what}" for name, what in outcomes.items()
                  if what != ("digest" if name in DIGESTS else "refused" if name in REFUSED else "right")]
    for name, what in outcomes.items():
        print(f"{name:40} {what}")
    print(*(f"{count} {what}" for what, count in collections.Counter(outcomes.values()).most_common()), sep=", ")
    print(*unexpected, sep="\n", file=sys.stderr)
    sys.exit(1 if unexpected else 0)


main()
