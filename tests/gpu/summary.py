# SPDX-License-Identifier: MIT
"""What a visit has found, as pages: README.md and facts.txt from results.jsonl."""
import json
import re

import steps
from runs import MODES, human


def verdict(record):
    """One line for a record."""
    said = record.get("skipped")
    return f"{record['name']}: " + (f"not run: {said}" if said else "; ".join(record["wrong"]) or "as it should be")


def records(out):
    with open(out / "results.jsonl", encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.endswith("\n")]


def count(out, ended):
    """How many records are right, wrong, and not run. A step that was cut off or crashed counts as wrong."""
    found = records(out)
    skipped = sum(bool(r.get("skipped")) for r in found) + sum(e["status"].startswith("not begun") for e in ended.values())
    wrong = sum(bool(r.get("wrong")) for r in found) + sum(e["status"].startswith("ended") for e in ended.values())
    return len(found) - sum(bool(r.get("skipped")) or bool(r.get("wrong")) for r in found), wrong, skipped


def table(head, rows):
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    yield from ("| " + " | ".join(str(c).replace("|", "\\|").replace("\n", " ") for c in row) + " |" for row in rows)


def of_steps(found, ended):
    for name, end in ended.items():
        mine = [r for r in found if r["step"] == name]
        yield (name, end["seconds"], sum(not r.get("wrong") and not r.get("skipped") for r in mine),
               sum(bool(r.get("wrong")) for r in mine), sum(bool(r.get("skipped")) for r in mine), end["status"])


def of_programs(found):
    for r in found:
        if "runs" not in r:
            continue
        pool = r["runs"]["pool"].get("report") or {}
        yield (r["name"], "same" if not r["wrong"] else "**other**", *(r["runs"][m]["seconds"] for m in ("none", *MODES)),
               pool.get("allocated_count", ""), *(human(pool[k]) if pool.get(k) is not None else "" for k in ("max_bytes", "peak_reserved_bytes")))


def of_reports(found):
    for r in found:
        for form, figures in r.get("reports", {}).items():
            yield (r["name"], form, *(human(figures[k] or 0) for k in ("max_bytes", "max_with_hints_bytes", "peak_reserved_bytes")),
                   f"{figures['hinted_freed_count']} / {human(figures['hinted_freed_bytes'] or 0)}")


def of_policies(found):
    for r in found:
        for policy, v in r.get("policies", {}).items():
            if v["predicted"] and v["held"]:
                yield r["name"], policy, human(v["predicted"]), human(v["held"]), f"{v['predicted'] / v['held']:.3f}"


def of_figures(found):
    for r in found:
        if r.get("max_allocated"):
            yield r["name"], r["max_allocated"], r["max_reserved"] or ""


SECTIONS = [
    ("Programs: alone, and under kedge",
     ("program", "result", "alone, s", "off, s", "track, s", "pool, s", "allocations", "peak live", "peak held"), of_programs),
    ("With hints", ("program", "run", "peak, program's frees", "peak, hints counted", "peak held", "released"), of_reports),
    ("Predicted by `kedge whatif`, and held", ("program", "allocator", "predicted", "held", "ratio"), of_policies),
    ("What PyTorch says that scripts need", ("script", "max allocated, bytes", "max reserved, bytes"), of_figures),
]


def coverage(hooks):
    """By which door how many hooks were reached, and the entries that allocate by name."""
    routes = {}
    for hook, route in hooks.items():
        routes.setdefault(route, []).append(hook)
    named = sorted(h for h in hooks if re.match(r"cuMem(Alloc|Free)|cuda(Malloc|Free)", h) and not h.endswith("_ptsz"))
    return ", ".join(f"{len(h)} by {route}" for route, h in sorted(routes.items())) + "; " + ", ".join(named)


def page(gpu, found, ended):
    yield f"# {gpu['name']}, {gpu['date']}"
    yield ""
    yield (f"Driver {gpu['driver']} (CUDA {gpu['cuda'] // 1000}.{gpu['cuda'] % 1000 // 10}), {gpu['cudart']}, "
           f"{human(gpu['total_bytes'])} of device memory, {gpu['system']}, Python {gpu['python']}. kedge {gpu['kedge']}.")
    yield ""
    yield "Seconds are wall time, several programs at once, start-up included: notes, no benchmark."
    yield ""
    yield from table(("step", "seconds", "right", "wrong", "not run", ""), of_steps(found, ended))
    for title, head, rows in SECTIONS:
        lines = list(rows(found))
        if lines:
            yield f"\n## {title}\n"
            yield from table(head, lines)
    for title, which in (("Wrong", "wrong"), ("Not run", "skipped")):
        lines = [f"- {r['step']}: {verdict(r)}".replace("\n", " ") for r in found if r.get(which)]
        if lines:
            yield f"\n## {title}\n"
            yield from lines
    covered = [f"- {r['name']}: {coverage(r['runs']['pool']['coverage'])}" for r in found if r.get("runs", {}).get("pool", {}).get("coverage")]
    if covered:
        yield "\n## Hooks that were reached, by door (pool)\n"
        yield from covered
    said = sorted({f"- {r['name']}, {m}: {line}" for r in found for m, run in r.get("runs", {}).items() for line in run["messages"]})
    if said:
        yield "\n## What kedge said\n"
        yield from said


def facts(found):
    """Tests first, then every fact, then the output of those that failed."""
    asked = [r for r in found if "alone" in r]
    yield f"{'test':88} {'alone':14} under kedge"
    yield from (f"{r['name']:88} {r['alone']['status']:14} {r['kedge']['status']}" for r in asked)
    yield f"\n{'fact':60} {'alone':44} under kedge"
    for r in asked:
        a, b = r["alone"]["facts"], r["kedge"]["facts"]
        for name in sorted(set(a) | set(b)):
            same = a.get(name) == b.get(name)
            mark = "" if same else "  (as allowed)" if steps.MAY_DIFFER.match(name) else "  DIFFERENT"
            yield f"{name:60} {a.get(name, '-'):44} {'same' if same else b.get(name, '-')}{mark}"
    for r in asked:
        for who in ("alone", "kedge"):
            if r[who]["output"]:
                yield f"\n{r['name']}, {who}:\n{r[who]['output'].rstrip()}"


def write(out, ended):
    """Writes both pages anew."""
    gpu, found = json.loads((out / "gpu.json").read_text(encoding="utf-8")), records(out)
    (out / "README.md").write_text("\n".join(page(gpu, found, ended)) + "\n", encoding="utf-8")
    (out / "facts.txt").write_text("\n".join(facts(found)) + "\n", encoding="utf-8")
