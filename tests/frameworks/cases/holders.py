# SPDX-License-Identifier: MIT
"""Which objects of a PyTorch program hold its memory (kedge-report(1), HELD BY): planted holders, and a script that leaks."""
import json
import re

import anchors
import harness

PACKAGE, TITLE = "torch", "Who holds the memory, in PyTorch programs"
BOUND = {"KEDGE_HELD": "oom,end,seconds=600"}  # no row depends on how fast the machine is
section = anchors.section


def walked(row, work, api, **settings):
    """What `kedge report` says of the walk at the failure, and the run."""
    done = harness.execute(row, anchors.kedge("--api", api, capture=work / f"{api}.kcap"), work, **BOUND, **settings)
    told = harness.reports(work, api)
    return (told[0]["ooms"][-1].get("held", {"rows": []}) if told and told[0]["ooms"] else {"rows": []}), done


def is_of(found, size):
    """A graph keeps a few bytes beside the plant; plants differ by 4 KiB."""
    return size <= found < size + 64


def planted(row, work):
    """Each plant is told with its holders, by both interfaces. PyTorch 2.5 has neither an error of its own for a failed
    cudaMalloc, nor the names by which graphs are read: what they keep is counted."""
    wrong, sentences = [], []
    for api in ("stream",) if row.env == "torch-2024" else ("stream", "sync"):
        walk, done = walked(row, work, api)
        if done.status != 0:
            return [f"{api}: exit {done.status}: {done.errors.strip()[-800:]}"], ""
        expect = json.loads((work / "plants.json").read_text(encoding="utf-8"))
        if walk["graphs_read"] == (row.env == "torch-2024"):
            wrong.append(f"{api}: graphs were {'' if walk['graphs_read'] else 'not '}read")
        unread = {n: (s, f"{t}|C code$|C\\+\\+$|^nothing that|no Python object") for n, (s, t) in expect.items() if "graph" in t}
        expect |= {} if walk["graphs_read"] else unread
        rows = [(r["bytes"], r["count"], " AND ".join(r["held_by"])) for r in walk["rows"]]
        wrong += [f"{api}: {name}: {[t for b, _, t in rows if is_of(b, size)]}" for name, (size, text) in expect.items()
                  if not any(re.search(text, t) and (is_of(b, size) or n > 1 and b > size) for b, n, t in rows)]
        if sum(r["bytes"] for r in walk["rows"]) != walk.get("live_bytes"):
            wrong.append(f"{api}: rows do not add up to what is live")
        counted = "" if walk["graphs_read"] else f", {len(unread)} of them in graphs, which are counted"
        sentences.append(f"{len(expect)} planted holders by the {api} API{counted}")
    return wrong, "; ".join(sentences)


def leaked(row, work):
    """The curve of losses that keeps every graph is what has to let go, not the line that allocates."""
    walk, done = walked(row, work, "stream", SIMCUDA_MEMORY="400M")
    if done.status == 0 or not walk["rows"]:
        return [f"exit {done.status}: {done.errors.strip()[-800:]}"], ""
    top = walk["rows"][0]
    named = sum(r["bytes"] for r in walk["rows"] if r["kind"] != "no tensor")
    wrong = [] if top["held_by"] == ["graph of curve[*][*]"] else [f"most is held by {top['held_by']}"]
    if named < 0.99 * walk["live_bytes"]:
        wrong.append(f"{named} of {walk['live_bytes']} bytes are tensors'")
    if not re.search(r"are held by graph of curve\[\*\]\[\*\]; see kedge report", done.errors):
        wrong.append("the line on stderr does not name it")
    told = harness.reports(work, "stream")[0]["summary"]
    if not re.fullmatch(r"evaluate torch_leak\.py:41 holds \d\d % .*MiB a step; kept by graph of curve\[\*\]\[\*\] \(\d+ of \d+ blocks\), "
                        r"\.item\(\) or \.detach\(\) there frees it", told[0]):
        wrong.append(f"the answer is another one: {told}")
    return wrong, f"{top['bytes'] / (1 << 20):.2f} MiB in {top['count']} blocks: {top['held_by'][0]}, of {walk['live_bytes'] / (1 << 20):.2f} MiB"


def untouched(row, work):
    """References, objects, locals, collector: as they were before a walk (held_program.py looks itself)."""
    walk, done = walked(row, work, "stream")
    wrong = [] if done.status == 0 and walk["rows"] else [f"exit {done.status}, {len(walk['rows'])} rows: {done.errors.strip()[-800:]}"]
    return wrong, "references, objects, locals and the collector are as they were"


CASES = [
    anchors.Look("held_plants", anchors.BOTH, "torch_held.py", ("plants.json",), look=planted, short=("torch",)),
    anchors.Look("held_leak", ("torch",), "torch_leak.py", ("--leak",), look=leaked, short=("torch",)),
    anchors.Look("held_untouched", anchors.BOTH, "../../python/held_program.py", ("left_as_it_was", "noted.json"), look=untouched,
                 short=("torch",)),
]
