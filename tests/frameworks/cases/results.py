# SPDX-License-Identifier: MIT
"""The results of rows in words and tables: results.md, and the top README's short form of it."""
import datetime

import harness

HEAD = """# Frameworks on the simulated device: results

Made by `tests/frameworks/run` on {day}; do not edit. Runs without kedge and in the modes `off`, `track` and `pool` are compared.
Reserved bytes and free memory are not, because kedge changes them, nor counts of segments (`num_device_*`, `num_sync_all_streams`).
`tests/frameworks/run --write` takes the last result of each row, and a section as it was if results of its rows are lacking:
they may come from different states of the sources.

- *seen*: allocations in the capture over the requests that the simulated driver's log knows of the run without kedge (`pool`).
- *stacks*: of these, without memory of graphs, those whose native / Python stack equals that of a witness that does not know kedge
  (`cases/stacks.py`). Then the share of allocations by threads that have Python frames; for the others kedge shows
  the stack of a thread that has some, and says so.
- *line*: those whose stack reaches a line of the script; README.md says why not all do.
- *utilisation*: peak live, each block rounded to 512 bytes, over peak reserved (`pool`).
- *reserved*: the framework's own figure in MiB, without kedge and in `pool`.
- *CPU*: CPU time of the fastest step in `track` (recording, with Python stacks) minus that in `off`, in microseconds for each
  allocation of a step; not where `track` is the run whose stacks are compared. One run each, on a machine shared with other work: too noisy to compare rows, and some are negative.
  `tests/bench` measures. `pool` is left out: a step took less there than in `off`; why has not been investigated.
- *late*: runs under late schedules, reuses of memory, reuses that were too early. Output is compared with the run without
  kedge, or, if that differs, with a run without kedge under the same schedule.
"""


def share(part, whole):
    return "-" if not whole else "100 %" if part == whole else f"{100 * part / whole:.1f} %"


def sentence(result):
    """One line about a row that ran."""
    parts = [f"{result.get('requests', 0)} requests to the driver"]
    for mode, told in result["modes"].items():
        parts.append(f"{mode}: {told['seen']} seen, {told['named']} with the script's line, utilisation {told['e']}")
    if result.get("stacks"):
        s = result["stacks"]
        parts.append(f"{s['mode']}: {s['compared']} stacks compared, {s['native']} native and {s['python']} Python ones right, {s['own']} with Python frames")
    if result.get("witness"):
        w = result["witness"]
        parts.append(f"{w['runs']} late runs, {w['reuses']} reuses, {w['premature']} premature")
    if result.get("mutant"):
        parts.append(result["mutant"])
    return "; ".join(parts)


def mib(apart):
    return f"{apart['max_reserved'] / 2**20:.0f}" if apart and "max_reserved" in apart else "-"


def cpu(result):
    """Microseconds an allocation, or "-" where steps do not allocate or were not timed."""
    off, track, steps = result["step_ms"].get("off"), result["step_ms"].get("track"), result.get("steps")
    if not off or not track or not steps or result.get("stacks", {}).get("mode") == "track": # the witness's time is in it
        return "-"
    each = result["requests"] / steps
    return f"{(track - off) * 1000 / each:.0f}" if each >= 20 else "-"


def stacks(result):
    """Shares of the allocations in the capture: native right, Python right, with Python frames of their own."""
    told = result.get("stacks")
    if not told:
        return "-"
    return " / ".join(share(told[key], told["compared"]) for key in ("native", "python")) + f", {share(told['own'], told['compared'])} own"


def line(result):
    name = result["case"].replace("_", " ")
    if result.get("why"):
        return f"| {name} | | cannot run here: {result['why']} | | | | | | | | |"
    pool, late, apart = result["modes"].get("pool", {}), result.get("witness"), result.get("apart", {})
    same = "**no**" if result["wrong"] else "yes, but: " + result["less"] if result["less"] else "yes"
    e = f"{pool['e']:.3f}" if pool.get("e") else "-"
    return (f"| {name} | {result['api']} | {same} | {result.get('status')} | {share(pool.get('seen', 0), result.get('requests'))} of "
            f"{result.get('requests')} | {stacks(result)} | {share(pool.get('named', 0), pool.get('recorded'))} | {e} | {mib(apart.get('bare'))} / {mib(apart.get('pool'))} | "
            f"{cpu(result)} | {'%(runs)d / %(reuses)d / %(premature)d' % late if late else '-'} |")


def sections_of(text):
    """{title: lines} of a page's sections."""
    return {part.partition("\n")[0]: part.partition("\n")[2].strip() for part in ("\n" + text).split("\n## ")[1:]}


def rows_of_framework(table, env, rows):
    """The section of a framework in one of its environments."""
    yield "| case | allocator | as without kedge | exit | seen | stacks | line | utilisation | reserved | CPU | late: runs / reuses / too early |"
    yield "|---|---|---|---|---|---|---|---|---|---|---|"
    yield from (line(d) for d in rows)
    mutants = [f"`{d['case']}` ({d['api']}): {d['mutant']}" for d in rows if d.get("mutant")]
    if mutants:
        yield "\nWith one safety device of the library switched off: " + "; ".join(mutants) + "."
    unshown = [f"`{c.name}` ({api}): {why}" for c in table.CASES if env in c.envs for api, why in c.unshown.items()]
    if unshown:
        yield "\nWhere none showed, and which were tried: " + "; ".join(unshown) + "."


def parts(tables):
    """What has a section each: (title without CPython's version, names of its rows, environment, table). A table of cases may have a
    section(done) of its own, for rows of another kind."""
    for table in tables:
        rows = [r for c in table.CASES for r in c.rows(False)]
        if hasattr(table, "section"):
            yield table.TITLE, {r.name for r in rows}, None, table
            continue
        for env in dict.fromkeys(e for c in table.CASES for e in c.envs):
            yield f"{table.TITLE} {harness.version_of(env, table.PACKAGE)}", {r.name for r in rows if r.env == env}, env, table


def page(tables, done, old=""):
    """results.md. A section stays as in `old` if results of its rows are lacking."""
    out, was = [HEAD.format(day=datetime.date.today().isoformat())], sections_of(old)
    have, lacking = {d["row"] for d in done}, set()
    for title, names, env, table in parts(tables):
        full = title + (f", CPython {harness.python_of(env)}" if env and harness.is_ready(env) else "")
        kept = next((t for t in was if t == title or t.startswith(title + ", CPython ")), None)
        if names - have and kept:
            out += [f"\n## {kept}\n", was[kept]]
            continue
        lacking |= names - have
        rows = [d for d in done if d["row"] in names]
        if rows:
            out += [f"\n## {full}\n", *(rows_of_framework(table, env, rows) if env else table.section(rows))]
    if lacking:
        out += ["\n## Not run\n", "No result of " + ", ".join(f"`{n}`" for n in sorted(lacking)) + "."]
    wrong = [f"- `{d['row']}`: {w.splitlines()[0][:300]}" for d in done for w in d["wrong"]]
    if wrong:
        out += ["\n## What is not the same\n", *wrong]
    return "\n".join(out).rstrip() + "\n"


# ---- the table of tests/frameworks/README.md, and its part in the top README ----

BEGIN, END = "<!-- frameworks: made by tests/frameworks/run --readme -->", "<!-- end of frameworks -->"


TENSORS, ASYNC, SEGMENTS = "every tensor", "every tensor, with its stream", "segments only"
# What chooses an allocator, and what kedge sees of it.
SWITCHES = {
    ("CuPy", "none"): ("`cupy.cuda.set_allocator(None)`", "every array"),
    ("CuPy", "async"): ("CuPy's async pool", "every array, with its stream"),
    ("CuPy", "pool"): ("none: CuPy's pool", SEGMENTS),
    ("CuPy", "managed"): ("CuPy's managed memory", SEGMENTS),
    ("JAX", "async"): ("`XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async` *", "every buffer, with its stream"),
    ("JAX", "bfc"): ("none", "one segment"),
    ("JAX", "grow"): ("`XLA_PYTHON_CLIENT_PREALLOCATE=false`", SEGMENTS),
    ("JAX", "platform"): ("`XLA_PYTHON_CLIENT_ALLOCATOR=platform`", SEGMENTS),
    ("Numba-CUDA", "default"): ("none", "every array"),
    ("Numba-CUDA", "fences"): ("`KEDGE_SYNC_FREE=0`", "every array"),
    ("PaddlePaddle", "system"): ("`FLAGS_use_system_allocator=1` *", TENSORS),
    ("PaddlePaddle", "auto_growth"): ("none", SEGMENTS),
    ("PaddlePaddle", "naive"): ("`FLAGS_allocator_strategy=naive_best_fit`", SEGMENTS),
    ("PaddlePaddle", "virtual"): ("`FLAGS_use_virtual_memory_auto_growth=1`", SEGMENTS),
    ("PyTorch", "async"): ("`PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync` *", ASYNC),
    ("PyTorch", "nocache"): ("`PYTORCH_NO_CUDA_MEMORY_CACHING=1`", TENSORS),
    ("PyTorch", "caching"): ("none", SEGMENTS),
    ("PyTorch", "expandable"): ("`PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`", SEGMENTS),
    ("tinygrad", "lru"): ("none", SEGMENTS),
    ("tinygrad", "nocache"): ("`LRU=0`", TENSORS),
    ("torch_memory_saver", "before_kedge"): ("preloaded before kedge", SEGMENTS),
    ("torch_memory_saver", "behind_kedge"): ("preloaded behind kedge", SEGMENTS),
}


def rows_of(text):
    """The rows of results.md that ran: (framework, its version, the row's cells by column)."""
    title, columns = None, []
    for l in text.splitlines():
        if l.startswith("## "):
            title, columns = l[3:], []
        cells = [c.strip() for c in l.strip("|").split("|")] if l.startswith("| ") else []
        if cells and cells[0] == "case":
            columns = cells
        elif len(cells) == len(columns) and len(columns) >= 10 and cells[1]: # other tables have fewer
            framework, version = title.partition(",")[0].rsplit(" ", 1)
            yield framework, version, dict(zip(columns, cells))


class Sum:
    """A line of the table: all rows of a framework under one allocator."""
    def __init__(self):
        self.versions, self.right = [], []
        self.cases = self.same = self.requests = self.seen = self.reuses = self.early = 0

    def add(self, version, row):
        self.versions += [version] if version not in self.versions else []
        self.cases += 1
        self.same += row["as without kedge"].startswith("yes")
        percent, _, requests = row["seen"].partition(" of ")
        self.requests += int(requests)
        self.seen += 0 if percent == "-" else round(float(percent.split()[0]) / 100 * int(requests))
        late = row["late: runs / reuses / too early"].split("/")
        if len(late) > 1:
            self.reuses, self.early = self.reuses + int(late[1]), self.early + int(late[2])
        if row.get("stacks", "-") != "-":
            self.right += [float(part.split()[0]) for part in row["stacks"].partition(",")[0].split("/")]


def short_form(text, seen=""):
    """The lines of the table, of a text of results.md: a line for each framework and allocator of which kedge sees `seen`."""
    sums = {}
    for framework, version, row in rows_of(text):
        sums.setdefault((framework, row["allocator"]), Sum()).add(version, row)
    out = ["| framework | switch | kedge sees | cases as without kedge | requests seen | stacks right | reused too early |",
           "|---|---|---|---|---|---|---|"]
    for (framework, api), s in sums.items():
        switch, what = SWITCHES[framework, api]
        if seen not in what:
            continue
        early = f"{s.early} of {s.reuses}" if s.reuses else "-"
        least = f"{min(s.right):g} %" if s.right else "-"
        out.append(f"| {framework} {', '.join(s.versions)} | {switch} | {what} | {s.same} of {s.cases} | {share(s.seen, s.requests)} | {least} | {early} |")
    return out


def in_readme(readme, text, seen=""):
    """A document with the table of results.md."""
    head, _, rest = readme.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return "\n".join([head + BEGIN, "", *short_form(text, seen), "", END + tail])


# Document -> which allocators its table has: the top README has those under which kedge sees more than segments.
DOCUMENTS = {"README.md": "every", "tests/frameworks/README.md": ""}


# ---- kedge beside other tools (tests/frameworks/other_tools) ----

OTHERS_BEGIN, OTHERS_END = "<!-- other tools: made by tests/frameworks/other_tools --design -->", "<!-- end of other tools -->"
OTHERS_HEAD = """# kedge beside other tools: results

Made by `tests/frameworks/other_tools --write` on {day}; do not edit. `scripts/torch_leak.py --leak` on the simulated device;
{versions}; {rounds} rounds. `other_tools --help` says what the columns mean.

- CPU is that of the whole process, importing PyTorch included, on a machine shared with other work: a second measurement
  differed by up to 0.34. All other columns are counts; those of memray differed by 1 MiB.
- Threads of the backward pass have no Python stack. kedge gives their memory the stack of the main thread.
- memray follows the host's memory, as its documentation says. It does not see the device's here either, which is the host's.
- Hints release what is not used any more; its content is lost. torch_memory_saver copies it to the host, and it can be used again.

"""


OTHERS_IN = "tools/DESIGN.md"


def others_in_document(readme, text):
    """OTHERS_IN with the table of other_tools.md, but for the runs without a tool."""
    head, _, rest = readme.partition(OTHERS_BEGIN)
    _, _, tail = rest.partition(OTHERS_END)
    rows = [l for l in text.splitlines() if l.startswith("|") and not l.startswith("| none |")]
    return "\n".join([head + OTHERS_BEGIN, *rows, OTHERS_END + tail])
