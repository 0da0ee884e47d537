# SPDX-License-Identifier: MIT
# covers: kinds.c kindstate.c kindwalk.c paddlestorages.c tensors.c datakind.c inside.c
"""What the memory of PyTorch and PaddlePaddle programs is (kedge-report(1), KINDS), beside what the programs' own objects say."""
import json
import re

import anchors
import harness

PACKAGE, TITLE = "torch", "What the memory is, in PyTorch and PaddlePaddle programs"
section = anchors.section
STEPS = 6
OWN = {"KEDGE_ANCHORS": "python=modules", "HF_HUB_OFFLINE": "1"}
LAYERS = {"gpt": r"(wte|wpe|h\.\d\.(norm[12]|qkv|out|up|down))\.(weight|bias)(, and 1 more)?$", "lightning": r"(enc\.0|dec)\.(weight|bias)$",
          "gan": r"Net(#2)?\.[02]\.(weight|bias)$", "ema": r"CNN(#2)?\.(features\.\d|head)\.(weight|bias)$",
          "hf": r"transformer\.(wte|wpe|h\.\d|ln_f)\..*(weight|bias)(, and 1 more)?$"}


def last_line(done):
    """What a script says of its own objects."""
    lines = done.output.strip().splitlines()
    return json.loads(lines[-1]) if lines and lines[-1].startswith("{") else {}


def sizes(rows):
    return {row["kind"]: row["bytes"] for row in rows or ()}


def kinds(row, work):
    """Parameters, gradients, optimizer state and buffers are as the objects say, to the byte; all kinds add up to what is live; names
    of parameters are those that named_parameters has, each once."""
    model = row.case.args[0]
    done = harness.execute(row, anchors.kedge(capture=work / "run.kcap"), work, **OWN)
    own, told = last_line(done), harness.reports(work, "run")
    if done.status != 0 or not own or not told:
        return [f"exit {done.status}: {done.errors.strip()[-800:]}"], ""
    rows, report = told[0].get("kinds_at_end"), told[0]
    wrong = [f"{kind}: {sizes(rows).get(kind, 0)}, the program has {size}" for kind, size in own.items() if sizes(rows).get(kind, 0) != size]
    if sum(sizes(rows).values()) != report["remaining_bytes"]:
        wrong.append(f"{sizes(rows)} at the end, {report['remaining_bytes']} bytes are live")
    if sum(sizes(report["kinds_at_max"]).values()) != report["max_bytes"]:
        wrong.append(f"{sizes(report['kinds_at_max'])} at the peak, {report['max_bytes']} bytes are live")
    names = [name["name"] for r in rows for name in r["names"] if r["kind"] == "parameters"]
    if len(names) != len(set(names)):
        wrong.append(f"two parameters share a name: {sorted(names)}")
    wrong += [f"a parameter is called {name}" for name in names if not re.match(LAYERS.get(model, ""), name)]
    paths = {a["name"] for a in report["anchors"]}
    if row.env == "paddle":
        wrong += of_paddle(rows, names, model, paths)
    if model == "lightning" and not {f"step/optimizer/forward/{part}" for part in ("enc", "enc/0", "dec")} <= paths:
        wrong.append(f"no modules by name: {sorted(paths)}")
    peak = sizes(report["kinds_at_max"])
    if peak.get("unknown", 0) > 0.05 * sum(peak.values()):
        wrong.append(f"of {sum(peak.values())} bytes at the peak {peak['unknown']} are unknown")
    return wrong, (f"{sum(own.values())} bytes as the objects say, {len(names)} names; unknown at the peak: "
                   f"{100 * peak.get('unknown', 0) / sum(peak.values()):.2f} %")


def of_paddle(rows, parameters, model, paths):
    """What an optimizer keeps has its parameter's name, copies of higher precision and their state, too; layers are anchors."""
    kept = [name["name"] for row in rows if row["kind"] == "optimizer state" for name in row["names"]]
    inside = {re.sub(r"^Net(#2)?\.", "", name) for name in parameters}
    wrong = [f"state is called {name}" for name in kept if name.partition(" of ")[2] not in inside]
    if not kept or (model == "masters" and sum(name.startswith("master_weights of ") for name in kept) != len(parameters)):
        wrong.append(f"the optimizer's: {kept}")
    if model == "gpt" and not {"step/forward/wte", *(f"step/forward/h.{i}/{part}" for i in range(3) for part in ("qkv", "norm2"))} <= paths:
        wrong.append(f"no layers by name: {sorted(paths)}")
    return wrong


def activations(row, work):
    """At the end of the last forward: what autograd saves, as saved_tensors_hooks count it in a run without kedge, and no more than 2 % beside:
    the loss, which is live and not saved."""
    saved = harness.execute(row, [], work, **OWN)
    plain = type(row.case)(row.case.name, row.case.envs, row.case.script, row.case.args[:1], look=None)
    done = harness.execute(type(row)(plain, row.env, row.api), anchors.kedge(capture=work / "run.kcap"), work, **OWN)
    told = harness.reports(work, "run", "--to", f"step/forward ({STEPS})")
    expect = last_line(saved).get("saved", 0)
    if saved.status or done.status or not told:
        return [f"exit {saved.status}, {done.status}: {saved.errors.strip()[-400:]} {done.errors.strip()[-400:]}"], ""
    found = sizes(told[0].get("kinds_at_end")).get("activations", 0)
    wrong = [] if expect <= found <= 1.02 * expect else [f"{found} bytes of activations, autograd saves {expect}"]
    return wrong, f"{found} bytes of activations, autograd saves {expect}"


def leaked(row, work):
    """When memory has run out in a leak of graphs, kinds are to the byte what the walk says of holders: of old graphs, too."""
    done = harness.execute(row, anchors.kedge("--api", "stream", capture=work / "run.kcap"), work, SIMCUDA_MEMORY="400M", KEDGE_HELD="oom,seconds=600")
    told = harness.reports(work, "run")
    if done.status == 0 or not told or not told[0]["ooms"]:
        return [f"exit {done.status}: {done.errors.strip()[-400:]}"], ""
    found, rows = sizes(told[0]["ooms"][-1].get("kinds")), told[0]["ooms"][-1].get("held", {"rows": []})["rows"]
    graphs = [r for r in rows if r["kind"] == "saved for backward" and r["held_by"][0].startswith("graph of ")]
    held = {"parameters": [r for r in rows if r["kind"] == "parameter"], "activations": graphs,
            "optimizer state": [r for r in rows if r["kind"] == "optimizer state"]}
    wrong = [f"{kind}: {found.get(kind, 0)}, the holders say {sum(r['bytes'] for r in of_kind)}" for kind, of_kind in held.items()
             if not of_kind or found.get(kind, 0) != sum(r["bytes"] for r in of_kind)]
    if found.get("unknown", 0) > 0.001 * sum(found.values()):
        wrong.append(f"unknown: {found}")
    return wrong, (f"{sum(r['bytes'] for r in graphs)} bytes of activations as the holders say, {len(graphs)} rows; unknown when memory ran out: "
                   f"{100 * found.get('unknown', 0) / sum(found.values()):.2f} %")


def of(model, envs=anchors.BOTH, short=()):
    return anchors.Look(f"kinds_{model}", envs, "torch_kinds.py", (model,), look=kinds, short=short)


def paddles(model, short=()):
    return anchors.Look(f"kinds_paddle_{model}", ("paddle",), "paddle_kinds.py", (model,), look=kinds, short=short)


CASES = [
    of("gpt", short=("torch",)),
    *map(of, ("cnn", "lstm", "sgd", "scaler", "accumulate", "kept", "ema", "loaded", "flat", "functional", "lbfgs")),
    of("gan"),
    *(of(name, ("trainers",)) for name in ("hf", "accelerate", "lightning")),
    anchors.Look("kinds_leak", ("torch",), "torch_leak.py", ("--leak",), look=leaked, short=("torch",)),
    paddles("gpt", short=("paddle",)),
    *map(paddles, ("kept", "groups", "gan", "copied", "loaded", "functional", "masters")),
    *(anchors.Look(f"activations_{name}", ("torch",), "torch_kinds.py", (name, "--saved"), look=activations)
      for name in ("gpt", "cnn", "lstm")),
]
