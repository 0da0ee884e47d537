# SPDX-License-Identifier: MIT
"""Which objects of a PyTorch program hold its memory (kedge-report(1), HELD BY): planted holders, and a script that leaks."""
import dataclasses
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


IN_CPP = ("value_stack", "future_of_pytorch")  # of torch_held.py and held_plants.py


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
        if row.env == "torch-2024":  # beside other threads it does not say what a tensor in C++ may be asked
            expect = {n: e for n, e in expect.items() if n not in IN_CPP}
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


def arrays(row, work):
    """Each array of CuPy's, each tensor of PaddlePaddle's is told with its holders, and no row has another holder."""
    walk, done = walked(row, work, "framework")
    if done.status != 0:
        return [f"exit {done.status}: {done.errors.strip()[-800:]}"], ""
    expect = json.loads((work / "plants.json").read_text(encoding="utf-8"))
    texts = {r["bytes"]: " AND ".join(r["held_by"]) for r in walk["rows"]}
    wrong = [f"{name}: {texts.get(size)}" for name, (size, text) in expect.items() if not re.search(text, texts.get(size, "no row"))]
    if sum(r["bytes"] for r in walk["rows"]) != walk.get("live_bytes"):
        wrong.append("rows do not add up to what is live")
    return wrong, f"{len(expect)} planted holders of arrays"


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
    if not re.fullmatch(r"evaluate torch_leak\.py:41 held \d\d % .*MiB a step; kept by graph of curve\[\*\]\[\*\] \(\d+ of \d+ blocks\), "
                        r"\.item\(\) or \.detach\(\) there frees it", told[0]):
        wrong.append(f"the answer is another one: {told}")
    return wrong, f"{top['bytes'] / (1 << 20):.2f} MiB in {top['count']} blocks: {top['held_by'][0]}, of {walk['live_bytes'] / (1 << 20):.2f} MiB"


# Of held_program.py: views of a part and of nothing keep the whole, and a storage with an object of its own is no holder in C++.
STORAGES = {"part": r"held_plants\.KEPT\[0\]", "nothing": r"held_plants\.ALSO",
            "asked": r"held_plants\.ALSO2 AND local 'asked' of storages held_program\.py:\d+"}


def untouched(row, work):
    """References, objects, locals, collector: as they were before a walk (held_program.py looks itself)."""
    walk, done = walked(row, work, "stream")
    wrong = [] if done.status == 0 and walk["rows"] else [f"exit {done.status}, {len(walk['rows'])} rows: {done.errors.strip()[-800:]}"]
    asked = dataclasses.replace(row, case=dataclasses.replace(row.case, args=("storages", "storages.json")))
    walk, done = walked(asked, work, "stream")
    if done.status != 0:
        return [*wrong, f"storages: exit {done.status}: {done.errors.strip()[-800:]}"], ""
    expect, told = json.loads((work / "storages.json").read_text(encoding="utf-8")), {r["bytes"]: " AND ".join(r["held_by"]) for r in walk["rows"]}
    for name, holders in STORAGES.items():
        if not re.fullmatch(holders, told.get(expect[name], "")):
            wrong.append(f"storages: {name} is held by {told.get(expect[name])}, not by {holders}")
    return wrong, "references, objects, locals, storages and the collector are as they were"


# What a person needs of the path to each place of torch_keepers.py. The places were written before kedge was asked.
KEEPERS = {
    "global": "TABLE", "nested dict": "CACHE masks 64", "nested list": "HISTORY 1 0", "deque": "RECENT", "set": "SEEN", "dict key": "NAMES",
    "defaultdict": "BY_KIND train", "OrderedDict": "LRU", "UserDict": "USER seen", "ChainMap": "CHAIN base", "heap of tuples": "HEAP",
    "mappingproxy": "SETTINGS table", "namespace": "SPACE inner mask", "numpy object array": "OBJECTS 2", "two holders": "SHARED AND ALSO shared",
    "view": "FIRST", "storage": "STORAGE", "attribute of a tensor": "SMALL extra", "class attribute": "Engine table",
    "metaclass's dict": "Registry known Plugin", "attribute": "engine buffer", "list of an attribute": "engine scheduler waiting 1",
    "cached_property": "engine positions", "slot": "slotted data", "dataclass": "current inputs", "namedtuple": "pair", "enum member": "Mode FAST table",
    "module": "settings table", "closure": "CALLBACKS kept", "default argument": "scaled __defaults__", "keyword default": "shifted __kwdefaults__ by",
    "function attribute": "last seen", "partial": "STEP", "bound method": "HANDLERS message state", "lru_cache": "positions cache",
    "singledispatch": "show registry", "property": "Shape area", "generator": "stream ahead batches", "coroutine": "request prompt answer",
    "asyncio task": "task context serve", "itertools.cycle": "ROUND", "map": "PIPE", "list iterator": "POINTER", "itertools.tee": "LEFT",
    "thread's local": "mine work thread", "threading.local": "LOCAL scratch", "queue": "QUEUE", "future": "FUTURES", "contextvar": "current",
    "traceback": "LAST_ERROR activations fails", "context of an error": "PROBLEM gradients fails_again", "argument of an error": "WRONG args",
    "logging record": "memory buffer", "kept frame": "FRAME scratch stopped", "ctx of a Function": "MASKED out grad_fn mask", "save_for_backward": "graph of KEPT",
    "graph": "graph of LOSSES", "node of a graph": "NODE", "buffer": "buffer net.mask", "parameter": "parameter net.scale", "gradient": "leaf",
    "optimizer state": "optimizer", "module hook": "net hook seen", "tensor hook": "ONE hook factor", "dataset of a loader": "loader dataset tensors",
    "PackedSequence": "packed data", "callback of a weak reference": "REF seen", "finalize": "finalize", "cycle": "collector Ring data",
    "ctypes.py_object": "BOX", "DLPack capsule": "capsule", "atexit": "atexit", "signal handler": "signal", "error that is handled": "half broken",
    "argument of a function": "local outputs step", "local of a function": "local hidden step state 0",
}
IN_C = ("DLPack capsule", "atexit", "signal handler") # nothing that Python shows refers to these: counted is right
COUNTED = re.compile(r"C code( holds)?$|C\+\+$|^nothing that|no Python object")
OUTPUT = 512 # a graph is kept by an output, which goes with it


def is_right(name, path):
    return all(re.search(word, path) for word in KEEPERS[name].split(" ")) or (name in IN_C and bool(COUNTED.search(path)))


def sizes_of(kind, output):
    return {name: int(size) for name, size in re.findall(rf"^{kind} (.+) (\d+)$", output, re.M)}


def kept(row, work):
    """Each place is told with a path that a person can act on, or counted; none with a wrong one. Emptied one by one, each frees the bytes told."""
    walk, done = walked(row, work, "stream")
    places, found = sizes_of("place", done.output), {}
    for name, size in places.items():
        rows = [r for r in walk["rows"] if r["bytes"] in (size, size // 2)]
        found[name] = (sum(r["bytes"] for r in rows), [" AND ".join(r["held_by"]) for r in rows])
    right = [n for n, (size, paths) in found.items() if size == places[n] and all(is_right(n, p) for p in paths)]
    counted = [n for n in places if n not in right and found[n][1] and all(COUNTED.search(p) for p in found[n][1])]
    wrong = [f"{n}: {found[n]}, not {places[n]} by {KEEPERS[n]}" for n in places if n not in right and n not in counted]
    if set(places) != set(KEEPERS) or len(right) < len(KEEPERS) - 4:
        wrong.append(f"{len(places)} places of {len(KEEPERS)}, {len(right)} right; counted: {', '.join(counted)}; exit {done.status}: {done.errors.strip()[-800:]}")
    cut = dataclasses.replace(row, case=dataclasses.replace(row.case, args=("--cut",)))
    freed = sizes_of("cut", harness.execute(cut, anchors.kedge("--api", "stream", capture=work / "cut.kcap"), work, **BOUND).output)
    here = [n for n in places if n not in freed] # they go with their functions
    wrong += [f"{n}: {size} freed, {found[n][0]} told" for n, size in freed.items() if n != "locals" and not 0 <= size - found[n][0] <= OUTPUT]
    if len(here) != 3 or freed.get("locals") != sum(places[n] for n in here):
        wrong.append(f"the functions' end freed {freed.get('locals')}, not the {len(here)} of {', '.join(here)}")
    sentence = f"{len(right)} of {len(places)} places right, {len(counted)} counted"
    return wrong, f"{sentence} ({', '.join(counted)})" if counted else sentence


def beside(row, work):
    """Walks on request while three threads train: nothing of the program is different, and it lives."""
    looks = row.case.args[0]
    done = harness.execute(row, anchors.kedge("--api", "stream", capture=work / "stream.kcap"), work, KEDGE_HELD="ask,seconds=60,objects=20000")
    wrong = [] if done.status == 0 else [f"exit {done.status}: {done.errors.strip()[-800:]}"]
    said = re.search(rf"^{looks} looks beside some steps; (\d+) of {looks} in the capture have read graphs$", done.output, re.M)
    if not said or (int(said[1]) > 0) == (row.env == "torch-2024"):  # which has no names by which graphs are read
        wrong.append(f"said {done.output!r}")
    told = harness.reports(work, "stream")
    walk = told[0].get("held_as_asked", {"rows": []}) if told else {"rows": []}
    if not any("held_by" in r and not r["held_by"][0].startswith("no Python object") for r in walk["rows"]):
        wrong.append(f"the last walk names nothing: {walk}")
    return wrong, f"{looks} looks, {said and said[1]} with graphs, while three threads trained: references, collector and graphs are as they were"


CASES = [
    anchors.Look("held_plants", anchors.BOTH, "torch_held.py", ("plants.json",), look=planted, short=("torch",)),
    anchors.Look("held_leak", ("torch",), "torch_leak.py", ("--leak",), look=leaked, short=("torch",)),
    anchors.Look("held_beside", anchors.BOTH, "torch_beside.py", ("50",), look=beside),
    anchors.Look("held_untouched", anchors.BOTH, "../../python/held_program.py", ("left_as_it_was", "noted.json"), look=untouched,
                 short=("torch",)),
    anchors.Look("held_arrays", ("cupy",), "cupy_held.py", ("plants.json",), look=arrays, short=("cupy",)),
    anchors.Look("held_tensors", ("paddle",), "paddle_held.py", ("plants.json",), look=arrays, short=("paddle",)),
    anchors.Look("held_keepers", ("torch",), "torch_keepers.py", look=kept, short=("torch",)),
]
