# SPDX-License-Identifier: MIT
"""Programs that decide by values which the device computed: each function asserts what it decided."""
import ctypes
import sys

import torch
import torch.nn.functional as F
from torch import nn

DEVICE = "cuda"


def regression(samples=32, inputs=4):
    """Data of a plane, and a model of one."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(samples, inputs, generator=generator)
    y = x @ torch.arange(1.0, inputs + 1)[:, None] + 0.5
    torch.manual_seed(0)
    return x.to(DEVICE), y.to(DEVICE), nn.Linear(inputs, 1).to(DEVICE)


def a_loss_goes_down():
    x, y, model = regression()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 50, losses
    assert all(b < a for a, b in zip(losses, losses[1:])), losses


def a_loop_ends_when_it_has_converged():
    x, y, model = regression()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.2)
    steps = 0
    while (loss := F.mse_loss(model(x), y)) > 1e-3:
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        steps += 1
        assert steps < 500
    assert steps > 10, steps


def the_scaler_skips_no_step_but_that_of_an_infinity():
    x, y, model = regression()
    optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.01), torch.amp.GradScaler(init_scale=1024.0, growth_interval=3)
    for step in range(6):
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = F.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        if step == 4:
            model.weight.grad[0, 1] = float("inf")
        before = model.weight.detach().clone()
        scaler.step(optimizer)
        scaler.update()
        assert torch.equal(before, model.weight) == (step == 4), step
    assert scaler.get_scale() == 1024.0, scaler.get_scale() # twice as much after three steps, half of it after the infinity


def training_stops_early():
    best, patience, stopped = float("inf"), 0, None
    losses = torch.tensor([3.0, 2.0, 1.5, 1.6, 1.7, 1.4, 1.9, 1.8, 1.7, 0.1], device=DEVICE)
    for epoch, loss in enumerate(losses):
        if loss < best:
            best, patience = loss.item(), 0
        else:
            patience += 1
        if patience == 3:
            stopped = epoch
            break
    assert stopped == 8 and abs(best - 1.4) < 1e-6, (stopped, best)


def a_rate_falls_on_a_plateau():
    parameter = nn.Parameter(torch.ones(1, device=DEVICE))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.1, patience=1)
    rates = []
    for loss in torch.tensor([5.0, 4.0, 4.0, 4.0, 3.0, 3.5, 3.4], device=DEVICE):
        scheduler.step(loss)
        rates.append(optimizer.param_groups[0]["lr"])
    assert [round(r, 6) for r in rates] == [1, 1, 1, 0.1, 0.1, 0.1, 0.01], rates


def a_nan_is_found():
    x = torch.ones(4, 5, device=DEVICE)
    assert not torch.isnan(x).any() and torch.isfinite(x).all()
    x[2, 3] = float("nan")
    assert torch.isnan(x).any() and not torch.isfinite(x).all()
    assert torch.isnan(x).nonzero().tolist() == [[2, 3]]
    x[2, 3] = float("inf")
    assert not torch.isnan(x).any() and not torch.isfinite(x.sum())


def gradients_are_clipped_where_they_are_large():
    weight = nn.Parameter(torch.full((3, 4), 2.0, device=DEVICE))
    (weight ** 2).sum().backward()
    norm = nn.utils.clip_grad_norm_([weight], 1.0)
    assert abs(norm.item() - 4 * 12 ** 0.5) < 1e-3
    assert abs(weight.grad.norm().item() - 1) < 1e-3


def tokens_go_to_the_experts_with_the_highest_scores():
    scores = torch.tensor([[0.1, 3.0, 0.2, 2.0], [5.0, 0.0, 4.0, 0.1], [0.0, 0.1, 0.2, 9.0]], device=DEVICE)
    weights, experts = scores.softmax(-1).topk(2)
    assert experts.tolist() == [[1, 3], [0, 2], [3, 2]]
    counts = torch.zeros(4, dtype=torch.long, device=DEVICE).scatter_add_(0, experts.flatten(), torch.ones_like(experts.flatten()))
    assert counts.tolist() == [1, 1, 2, 2]
    x, out = torch.arange(3.0, device=DEVICE)[:, None] + torch.zeros(3, 2, device=DEVICE), torch.zeros(3, 2, device=DEVICE)
    for expert in range(4):
        token, place = torch.where(experts == expert)
        assert len(token) == counts[expert]
        out.index_add_(0, token, x[token] * (expert + 1) * weights[token, place, None])
    right = torch.tensor([sum((e + 1) * w for e, w in zip(es, ws)) for es, ws in zip(experts.tolist(), weights.tolist())])
    assert torch.allclose(out[:, 0].cpu(), right * torch.arange(3.0), atol=1e-5)


def boxes_that_overlap_are_suppressed():
    """Non-maximum suppression in operators of PyTorch."""
    boxes = torch.tensor([[0, 0, 10, 10], [1, 1, 11, 11], [20, 20, 30, 30], [21, 21, 29, 29], [50, 50, 60, 60.0]], device=DEVICE)
    scores = torch.tensor([0.9, 0.8, 0.3, 0.7, 0.5], device=DEVICE)
    order, kept = scores.argsort(descending=True), []
    while order.numel():
        first = order[0]
        kept.append(first.item())
        low, high = torch.maximum(boxes[first, :2], boxes[order, :2]), torch.minimum(boxes[first, 2:], boxes[order, 2:])
        sides = (high - low).clamp(min=0)
        overlap = sides[:, 0] * sides[:, 1]
        area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        order = order[overlap / (area[first] + area[order] - overlap) < 0.5]
    assert kept == [0, 3, 4], kept


def torchvision_suppresses_the_same_boxes():
    try:
        from torchvision.ops import nms # pylint: disable=import-outside-toplevel
    except ImportError:
        return "no torchvision"
    boxes = torch.tensor([[0, 0, 10, 10], [1, 1, 11, 11], [20, 20, 30, 30], [21, 21, 29, 29], [50, 50, 60, 60.0]], device=DEVICE)
    kept = nms(boxes, torch.tensor([0.9, 0.8, 0.3, 0.7, 0.5], device=DEVICE), 0.5)
    assert kept.tolist() == [0, 3, 4], kept
    return None


def masks_give_tensors_of_their_size():
    x = torch.arange(20.0, device=DEVICE) - 10
    assert x[x > 3].shape == (6,) and x[x > 100].numel() == 0
    assert torch.masked_select(x, x.abs() < 2).tolist() == [-1, 0, 1]
    assert (x % 2 == 0).sum().item() == 10 and (x > 0).count_nonzero() == 9


def what_is_there_once_is_counted():
    x = torch.tensor([3, 1, 3, 2, 1, 3], device=DEVICE)
    values, inverse, counts = x.unique(return_inverse=True, return_counts=True)
    assert values.tolist() == [1, 2, 3] and counts.tolist() == [2, 1, 3], (values, counts)
    assert torch.equal(values[inverse], x)
    assert torch.bincount(x).tolist() == [0, 2, 1, 3]


def a_classifier_counts_what_it_got_right():
    logits = torch.tensor([[2.0, 1, 0], [0, 3, 1], [1, 0, 4], [5, 0, 1], [0, 1, 2]], device=DEVICE)
    targets = torch.tensor([0, 1, 1, 0, 2], device=DEVICE)
    right = (logits.argmax(1) == targets).sum().item()
    assert right == 4, right
    top2 = logits.topk(2, 1).indices
    assert (top2 == targets[:, None]).any(1).sum().item() == 4


def tokens_are_chosen_greedily_until_the_end():
    table = torch.full((6, 6), -5.0)
    for a, b in ((0, 3), (3, 1), (1, 4), (4, 5)):
        table[a, b] = 5
    table, token, out = table.to(DEVICE), torch.tensor([0], device=DEVICE), []
    while len(out) < 20:
        token = F.embedding(token, table).log_softmax(-1).argmax(-1)
        out.append(token.item())
        if token.item() == 5:
            break
    assert out == [3, 1, 4, 5], out


def beams_keep_the_best_sentences():
    torch.manual_seed(3)
    table = torch.randn(7, 7)

    def search(table, device, width=3, length=4):
        steps = table.log_softmax(-1).to(device)
        scores, beams = torch.zeros(1, device=device), torch.zeros(1, 1, dtype=torch.long, device=device)
        for _ in range(length):
            total = scores[:, None] + steps[beams[:, -1]]
            scores, flat = total.flatten().topk(width)
            beams = torch.cat([beams[torch.div(flat, 7, rounding_mode="floor")], (flat % 7)[:, None]], 1)
        return beams.tolist(), scores.cpu()

    (got, scores), (right, wanted) = search(table, DEVICE), search(table, "cpu")
    assert got == right and torch.allclose(scores, wanted, atol=1e-4), (got, right)


def samples_have_the_chances_that_they_were_given():
    torch.manual_seed(0)
    picked = torch.multinomial(torch.tensor([0.0, 0.7, 0.3, 0.0], device=DEVICE), 500, replacement=True)
    counts = torch.bincount(picked, minlength=4)
    assert counts[0] == 0 and counts[3] == 0 and 300 < counts[1] < 400, counts
    kept = F.dropout(torch.ones(1000, device=DEVICE), 0.3)
    assert 0.6 < (kept > 0).float().mean() < 0.8


def an_order_is_a_permutation():
    torch.manual_seed(0)
    order = torch.randperm(100, device=DEVICE)
    assert order.sort().values.tolist() == list(range(100)) and order.tolist() != list(range(100))
    x = torch.arange(100, device=DEVICE)
    assert torch.equal(x[order].sort().values, x)


def padding_is_found_by_lengths():
    lengths = torch.tensor([3, 1, 5, 2], device=DEVICE)
    mask = torch.arange(lengths.max(), device=DEVICE)[None] < lengths[:, None]
    assert mask.shape == (4, 5) and mask.sum(1).tolist() == [3, 1, 5, 2]
    order = lengths.argsort(descending=True)
    assert order.tolist() == [2, 0, 3, 1]
    assert lengths.cumsum(0).tolist() == [3, 4, 9, 11]
    assert torch.repeat_interleave(torch.arange(4, device=DEVICE), lengths).tolist() == [0, 0, 0, 1, 2, 2, 2, 2, 2, 3, 3]


def an_optimizer_by_line_search_halves_its_step():
    x = torch.tensor([3.0, -2.0], device=DEVICE)
    step = torch.tensor(4.0, device=DEVICE)
    halved = 0
    while ((x - step * 2 * x) ** 2).sum() >= (x ** 2).sum():
        step = step / 2
        halved += 1
    assert halved == 3 and step.item() == 0.5, (halved, step)


def a_power_iteration_finds_the_largest_value():
    a = torch.tensor([[4.0, 1, 0], [1, 3, 1], [0, 1, 2]], device=DEVICE)
    v, before = torch.ones(3, device=DEVICE), torch.tensor(0.0, device=DEVICE)
    for rounds in range(200):
        w = a @ v
        value = w.norm()
        v = w / value
        if torch.allclose(value, before, atol=1e-6):
            break
        before = value
    assert 3 < rounds < 199 and abs(value.item() - torch.linalg.eigvalsh(a.cpu()).max().item()) < 1e-3


def a_replay_buffer_gives_what_was_put_in():
    buffer, size = torch.zeros(8, 2, device=DEVICE), 0
    for step in range(11):
        buffer[step % 8] = torch.tensor([step, step * 10.0], device=DEVICE)
        size = min(size + 1, 8)
    torch.manual_seed(0)
    batch = buffer[torch.randint(0, size, (16,), device=DEVICE)]
    assert ((batch[:, 1] == batch[:, 0] * 10) & (batch[:, 0] >= 3) & (batch[:, 0] <= 10)).all()


def a_large_mask_says_that_its_size_is_no_value():
    """What is not computed is told: the size of what a large mask gives."""
    copies = ctypes.CDLL("libcuda.so.1").simcuda_digest_copies
    small, large = torch.ones(100, device=DEVICE), torch.ones(4_000_000, device=DEVICE)
    before = copies()
    assert (small > 0).sum().item() == 100 and copies() == before
    _ = (large > 0).nonzero()
    assert copies() > before


def main():
    wrong = 0
    for name, function in list(globals().items()):
        if callable(function) and function.__module__ == __name__ and name not in ("main", "regression"):
            try:
                note = function()
                print(name, note or "right")
            except Exception as e: # pylint: disable=broad-except
                wrong += 1
                print(name, "WRONG", type(e).__name__, str(e)[:300])
    sys.exit(1 if wrong else 0)


main()
