#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# covers: page.c page_blocks.c page_flame.c page_groupings.c page_held.c page_leaves.c page_map.c page_pack.c page_parts.c page_sites.c page_timeline.c
"""`kedge report --html`: the page is one sound file that loads nothing, its figures are those of `report --json`, no name of the
watched program becomes markup, and its size does not grow with the run. What a browser makes of it is in page_browser.py.
"""
import base64
import hashlib
import html.parser
import json
import pathlib
import re
import subprocess
import sys

from pagedata import Timeline, unpack
from regresskit import BUILD, KEDGE, SOURCE, SOT, check, environment, kedge_run, main, run, same, tool, tool_json

sys.dont_write_bytecode = True
sys.path.insert(0, str(SOURCE / "tests" / "replay"))
import kcap  # noqa: E402

RECOUNT = BUILD / "tests" / "regress" / "recount_program"
VOID = {"meta", "input", "br", "link", "img"}
MIB = 1 << 20


class Reader(html.parser.HTMLParser):
    """Elements of a page; open ones must be closed in order."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.elements, self.texts, self.faults = [], [], {}, []
        self.feed(text)
        self.close()
        if self.open:
            self.faults.append(f"open at the end: {self.open}")

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}> without its beginning")

    def handle_data(self, data):
        if self.open and self.open[-1] in ("script", "style"):
            kind = "data" if self.open[-1] == "script" and self.elements[-1][1].get("id") == "data" else self.open[-1]
            self.texts.setdefault(kind, []).append(data)


# Programs of tests/python, with what stands in for PyTorch: what their memory is, is known, or they have tensors in segments.
PROGRAMS = {"kinds": ("kinds", (), "kinds_program.py", "plain"), "kinds-failed": ("kinds", (), "kinds_program.py", "failed"),
            "tensors": ("segments", ("--api", "framework"), "segment_program.py", "counted", "noted.json"),
            "tensors-failed": ("segments", ("--api", "framework"), "segment_program.py", "out_of_memory", "noted.json")}


def program(path, like, options, script, *words):
    run(KEDGE, "run", "--sim", "-q", *options, "--capture", path, "--", sys.executable, SOURCE / "tests" / "python" / script, *words,
        PYTHONPATH=BUILD / "tests" / "python" / like)


def capture(form):
    """A capture as the trainer of that form leaves it; some of them end by a signal, or with status 1."""
    path = pathlib.Path(f"{form}.kcap")
    if not path.exists() and form in PROGRAMS:
        program(path, *PROGRAMS[form])
    if not path.exists():
        run(BUILD / "tests" / "unit" / "capture_maker", form, path, rc=None)
    return path


def page_of(path, *options):
    page = pathlib.Path("page.html")
    tool("report", path, "--html", page, *options)
    return page.read_text(encoding="utf-8")


def data_of(text):
    return json.loads(Reader(text).texts["data"][0])


CUT = 400 # bytes of a text, of which a page shows no more
# What only the page has; "steps" is in the report's JSON with --view steps.
OWN = {"call_sites", "held_by_site", "timeline", "flame", "map", "frames", "kedge", "by_places", "notes", "max", "steps", "inside"}
# Of longer lists the page has these rows; of others the first ones.
CHOSEN = {"ooms": lambda rows, count: rows[-count:],
          "anchors": lambda rows, count: [rows[at] for at in sorted(sorted(range(len(rows)), key=lambda at: -rows[at]["max_bytes"])[:count])],
          "steps": lambda rows, count: rows[:count // 2] + rows[-(count // 2):],
          "not_made": lambda rows, count: [max(rows, key=lambda row: row["needed_bytes"])]}


class Comparison:
    """The page's data against the report's JSON: whatever the page has, the report has, too."""

    def __init__(self, name, page, report):
        self.frames = page["frames"]
        self.lacks = not report["complete"]
        self.compared = 0
        self.parts(name, {key: value for key, value in page.items() if key not in OWN}, report)

    def parts(self, where, page, report):
        if isinstance(page, dict) and isinstance(report, dict):
            for key in (key for key in page if not key.endswith("_left_out")):
                check(key in report, f"{where}: the report has no {key}")
                rows = report[key]
                if page.get(f"{key}_left_out") and key != "findings": # of which there are as many as --top says
                    same(f"{where}: rows of {key}", len(page[key]) + page[f"{key}_left_out"], len(rows))
                    rows = CHOSEN.get(key, lambda rows, count: rows[:count])(rows, len(page[key]))
                self.parts(f"{where}: {key}", page[key], rows)
        elif isinstance(page, list) and isinstance(report, list):
            same(f"{where}: rows", len(page), len(report))
            for i, (mine, theirs) in enumerate(zip(page, report)):
                self.parts(f"{where} {i}", mine, theirs)
        elif isinstance(report, dict) and "function" in report:
            same(where, self.frames[page][:3], [report["function"], report["file"] or report["module"], report["line"]])
        elif report is not None or not (self.lacks and ("patterns" in where or "sources" in where or "classes" in where)): # these are of what is on record
            self.compared += 1
            is_cut = isinstance(page, str) and len(page.encode()) > CUT - 4
            same(where, page, report[:len(page)] if is_cut else report)


def figures_are_those_of_the_report():
    window = ("--from", "SOT_CALL_3", "--to", "SOT_CALL_9")
    whole = ("walked", "good", "live", "shadow", "oom", "killed", "agg", "empty", "evict", "touched", "many")
    for form, options in [(form, ()) for form in whole] + [("bad", window), ("live", window)]:
        path = capture(form)
        report, page = tool_json("report", path, "--top", "1000000", *options), data_of(page_of(path, *options))
        check(Comparison(form, page, report).compared > (30 if form == "empty" else 60), f"{form}: the page has next to nothing of the report")
        at = {moment: [sum(site[moment][i] for site in page["call_sites"]) for i in (0, 1)] for moment in ("peak", "end")}
        same(f"{form}: sites at the end", at["end"][0], report["remaining_bytes"])
        same(f"{form}: sites at the peak", at["peak"][0], report["max_bytes"])
        same(f"{form}: allocations of all sites", sum(site["allocated"][1] for site in page["call_sites"]), report["allocated_count"])
        same(f"{form}: the flame graph's root", [page["flame"][0][2:4], page["flame"][0][6:8]], [at["peak"], at["end"]])
        kinds = [row["at_max_bytes"] for row in page["classes"] if row["device_memory"]]
        same(f"{form}: kinds at the peak", None if None in kinds else sum(kinds), None if page["by_places"] else report["max_bytes"])


def held_at(page):
    """Bytes and blocks of those who held most when an allocation failed last, as the call sites have them."""
    return sorted((tuple(site["failure"]) for site in page["call_sites"] if site["failure"][1]), reverse=True)


def who_held_memory_is_one_figure_everywhere():
    """Two devices of which one fails, and a window: what the failure met is all that its own device had, in every part of the page."""
    for name, options, program in (("two.kcap", (), ("devices=2",)), ("one.kcap", ("--from", "step (9)"), ())):
        kedge_run(RECOUNT, "two.log", "4", "steps=15", "huge=8", *program, capture=name, KEDGE_LOG="off", SIMCUDA_MEMORY="96M",
                  SIMCUDA_DEVICES="2", KEDGE_TRACE="full")
        page, report = data_of(page_of(name, *options)), tool_json("report", name)
        last = report["ooms"][-1]
        check(len({row["device"] for row in report["device_peaks"]}) == 2 or options, f"{name}: memory of one device alone")
        same(f"{name}: by call site", held_at(page), sorted(((h["bytes"], h["count"]) for h in last["live_at_oom"]), reverse=True))
        total = [sum(site["failure"][i] for site in page["call_sites"]) for i in (0, 1)]
        same(f"{name}: the flame graph", page["flame"][0][4:6], total)
        same(f"{name}: of the device", total[0], sum(h["bytes"] for h in last["live_at_oom"]) + last["other_bytes"])


def the_peak_is_at_one_place():
    """Headline and timeline name one moment and one anchor of the peak, also where anchors are shorter than a bin, or more than the page lists."""
    kedge_run(RECOUNT, "threads.log", "3", "steps=60", "threads=3", "shared=1", capture="threads.kcap", KEDGE_TRACE="full")
    for name in (capture("bad"), capture("many"), capture("unsaid"), "threads.kcap"):
        page = data_of(page_of(name))
        line, most = page["timeline"], page["max"]
        leaves = Timeline(line)
        top = leaves.live.index(line["peak_live"]["bytes"])
        same(f"{name}: when", leaves.at[top], most["time_ns"] if line["axis"] == "time" else line["peak_live"]["at"])
        same(f"{name}: in which anchor", leaves.anchors[top], most["anchor"])
        same(f"{name}: in which step", next((number for number, step in enumerate(leaves.steps) if step[2] <= top < step[3]), None), most["step"])
        check(all(a <= b for a, b in zip(leaves.positions, leaves.positions[1:])), f"{name}: leaves go back in time")
        check(all(position <= at for position, at in zip(leaves.positions, leaves.at)), f"{name}: a moment is before its leaf")


def waterfalls_of(page):
    """When memory ran out last, then each device's."""
    return [row["waterfall"] for row in page["ooms"] if "waterfall" in row] + page["waterfall"]


def devices_add_up(name, report, page):
    Comparison(name, page, report)
    for fall in waterfalls_of(page):
        check("other_libraries" not in fall, f"{name}: libraries that have no row")
        same(f"{name}: all of the device", sum(part["bytes"] for part in fall["parts"]), fall["total_bytes"])
        check(all(part["title"] for part in fall["parts"]), f"{name}: a part without a label")
    return len(waterfalls_of(page))


def the_device_is_in_parts_that_add_up():
    report, page = tool_json("report", capture("oom"), "--top", "1000000"), data_of(page_of(capture("oom")))
    same("of a failure alone", devices_add_up("oom", report, page), 1)
    same("where nobody looked", waterfalls_of(data_of(page_of(capture("bad")))), [])


def a_run_that_fails_has_its_device_then_and_at_the_end():
    kedge_run(SOT, "--form", "pir", "--graph", "small", capture="run.kcap")
    kedge_run(SOT, "--form", "pir", "--graph", "small", capture="tight.kcap", rc=None, SIMCUDA_MEMORY="16M")
    for name, falls in (("run.kcap", 1), ("tight.kcap", 2)):
        report, page = tool_json("report", name, "--top", "1000000"), data_of(page_of(name))
        same(f"{name}: how many", devices_add_up(name, report, page), falls)
    same("libraries and what kedge has", {part["part"] for part in waterfalls_of(page)[0]["parts"]} >= {"outside", "kedge_live_requested", "free"}, True)
    same("uses are recorded without being asked for", page["patterns"]["judged_count"], report["patterns"]["judged_count"])
    check(page["patterns"]["judged_count"] > 0, "no block was judged")


def patterns_are_those_of_the_report():
    for form, options in (("used", ()), ("used", ("--from", "SOT_CALL_3", "--to", "SOT_CALL_9")), ("many-used", ())):
        path = capture(form)
        report, page = tool_json("report", path, "--top", "200", *options), data_of(page_of(path, *options))
        Comparison(form, page, report)
        found = page["patterns"]
        same(f"{form}: worst first", [row["saves_bytes"] for row in found["findings"]], sorted((row["saves_bytes"] for row in found["findings"]), reverse=True))
        same(f"{form}: how many there are", len(found["findings"]) + found.get("findings_left_out", 0), sum(row["findings"] for row in found["by_pattern"]))
        check(any(row["saves_bytes"] > 0 for row in found["findings"]) or form != "used", f"{form}: nothing saves anything")
    same("without uses", data_of(page_of(capture("bad")))["patterns"]["recorded"], False)


def eviction_is_that_of_the_report():
    for form, sets in (("evict", 1), ("evict-shadow", 1), ("evict-lru", 1), ("evict-long", 1), ("live", 0)):
        report, page = tool_json("report", capture(form), "--top", "1000000"), data_of(page_of(capture(form)))
        Comparison(form, page, report)
        same(f"{form}: sets", len(page["eviction"]), sets)
        check(all(row["steps"] and row["kept"] for row in page["eviction"]) or form != "evict", f"{form}: nothing moves, or nothing stays")


def holders_are_those_of_the_report():
    """Of the end of a run, by call site: together they are the report's rows, which know no call site."""
    page, report = data_of(page_of(capture("walked"))), tool_json("report", capture("walked"))["held_at_end"]
    check(len(report["rows"]) > 1, "nothing is held")
    for kind, held_by in {(row["kind"], tuple(row["held_by"])) for row in report["rows"]}:
        told = sum(row["bytes"] for row in page["held_by_site"] if (row["kind"], tuple(row["held_by"])) == (kind, held_by))
        same(f"{kind}, {held_by}", told, sum(row["bytes"] for row in report["rows"] if (row["kind"], tuple(row["held_by"])) == (kind, held_by)))
    for row in page["held_by_site"]:
        check(row["moment"] == "end" and row["bytes"] <= page["call_sites"][row["site"]]["end"][0], f"more is held than there is: {row}")
    same("in a window", "held_at_end" in data_of(page_of(capture("walked"), "--from", "SOT_CALL_3", "--to", "SOT_CALL_9")), False)
    page, report = data_of(page_of(capture("grown"))), tool_json("report", capture("grown"))
    same("where memory had grown", [(row["bytes"], row["held_by"]) for row in page.get("held_when_grown", {}).get("rows", [])],
         [(row["bytes"], row["held_by"]) for row in report["held_when_grown"]["rows"]])
    same("by call site", sum(row["bytes"] for row in page["held_by_site"] if row["moment"] == "grown"), sum(row["bytes"] for row in report["held_when_grown"]["rows"]))
    check(page["held_by_site"] and all(0 < row["time_ns"] for row in page["held_by_site"]), f"when they were found: {page['held_by_site']}")
    same("nothing is of a step or the end", [key for key in page if key in ("held_after_step", "held_at_end")], [])


def kinds_are_those_of_the_report():
    """What the blocks are, at the peak and when memory ran out, and their names."""
    page, report = data_of(page_of(capture("kinds"))), tool_json("report", capture("kinds"))
    line = page["timeline"]
    leaves = Timeline(line)
    top = leaves.live.index(max(leaves.live))
    grouping = next(row for row in line["groupings"] if row["by"] == "kind")
    told = {name: column[top] for name, column in zip(grouping["names"], leaves.groupings["kind"]) if column[top]}
    same("at the peak", told, {row["kind"]: row["bytes"] for row in report["kinds_at_max"]})
    same("in the answer", page["kinds_at_max"], [{"kind": row["kind"], "bytes": row["bytes"]} for row in report["kinds_at_max"]])
    names = {(name["name"], name["bytes"]) for row in report["kinds_at_max"] for name in row["names"]}
    check(len(names) > 5, f"next to no names: {names}")
    numbers = unpack(line["blocks"]["name"])
    there = {(line["blocks"]["names"][number - 1], size) for number, (first, behind, size) in zip(numbers, leaves.blocks) if number and first <= top < behind}
    same("names of what is live then", there, names)
    page, report = data_of(page_of(capture("kinds-failed"))), tool_json("report", capture("kinds-failed"))
    same("when memory ran out", page["ooms"][-1]["kinds"], [{"kind": row["kind"], "bytes": row["bytes"]} for row in report["ooms"][-1]["kinds"]])
    same("where nothing was looked at", [row["by"] for row in data_of(page_of(capture("bad")))["timeline"]["groupings"]], ["site", "module", "library", "class"])
    runs = data_of(diff_of(capture("kinds"), capture("kinds-failed")))["runs"]
    same("in two runs", [any(row["by"] == "kind" for row in one["timeline"]["groupings"]) for one in runs], [True, True])


def tensors_are_those_of_the_report():
    """A page of a run under PyTorch's own allocator has its tensors, as --tensors tells them, beside its segments."""
    for form in ("tensors", "tensors-failed"):
        path = capture(form)
        text = page_of(path)
        page, report = data_of(text), tool_json("report", path, "--top", "1000000")
        inside, tensors = page["inside"], tool_json("report", path, "--tensors", "--top", "1000000")
        check(Comparison(f"{form}: segments", page, report).compared > 60, f"{form}: the page has next to nothing of the report")
        check(Comparison(f"{form}: tensors", inside | {"frames": page["frames"]}, tensors).compared > 60, f"{form}: the page has next to nothing of the tensors")
        leaves = Timeline(inside["timeline"])
        same(f"{form}: tensors at the peak", max(leaves.live), report["tensors"]["max_bytes"])
        same(f"{form}: segments at the peak", max(leaves.reserved), page["peak_live_bytes"])
        same(f"{form}: what they took", sum(site["allocated"][0] for site in page["call_sites"]), report["allocated_bytes"])
        same(f"{form}: failures", len(inside["ooms"]), len(tensors["ooms"]))
        same(f"{form}: --tensors makes the same page", page_of(path, "--tensors") == text, True)
    same("without a record", "inside" in data_of(page_of(capture("bad"))), False)
    check("no record of tensors" in tool("report", capture("bad"), "--html", "other.html", "--tensors", "--from", "SOT_CALL_3", rc=2), "--tensors without a record")


def diff_of(good, bad, *options):
    tool("diff", good, bad, "--html", "diff.html", *options)
    return pathlib.Path("diff.html").read_text(encoding="utf-8")


def a_page_of_two_runs_has_what_diff_says():
    for good, bad, options in (("good", "bad", ()), ("bad", "good", ("--by", "site")), ("good", "killed", ()), ("agg", "bad", ()), ("empty", "empty", ())):
        text = diff_of(capture(good), capture(bad), *options)
        page, report = data_of(text), tool_json("diff", capture(good), capture(bad), *options)
        same(f"{good} and {bad}: faults", Reader(text).faults, [])
        same(f"{good} and {bad}: keys", set(page["diff"]) | {"schema"}, set(report))
        check(Comparison(f"{good} and {bad}", page["diff"] | {"frames": page["frames"]}, report).compared > 40,
              f"{good} and {bad}: the page has next to nothing of the comparison")
        for name, run in zip((good, bad), page["runs"]):
            same(f"{name}: peak", run["peak_live_bytes"], tool_json("report", capture(name))["peak_live_bytes"])
            leaves = Timeline(run["timeline"])
            same(f"{name}: highest leaf", max(leaves.live, default=0), run["peak_live_bytes"] if leaves.count else 0)
            check(all(0 <= at < len(page["frames"]) for site in run["call_sites"] for at in site.get("stack", [])), f"{name}: a frame that is not in the table")
    check("not with --json" in tool("diff", capture("good"), capture("bad"), "--html", "other.html", "--json", rc=2), "no word about --json")


def job():
    """A folder with captures of four ranks, of which one is bad."""
    folder = pathlib.Path("job")
    if not folder.exists():
        folder.mkdir()
        for rank, form in enumerate(("good", "good", "bad", "killed")):
            run(BUILD / "tests" / "unit" / "capture_maker", form, folder / f"r{rank}.kcap", str(rank), rc=None)
    return folder


def a_page_of_ranks_has_what_ranks_says():
    tool("ranks", job(), "--html", "ranks.html")
    text = pathlib.Path("ranks.html").read_text(encoding="utf-8")
    page, report = data_of(text), tool_json("ranks", job())
    same("faults", Reader(text).faults, [])
    Comparison("ranks", {"ranks": page["ranks"]["ranks"], "frames": page["frames"]}, report | {"complete": True, "frames": page["frames"]})
    for mine, theirs in zip(page["ranks"]["jobs"], report["jobs"]):
        same("summary", mine["summary"], theirs["summary"])
        same("sites", [(site["title"], site["more_bytes"]) for site in mine["sites"]], [(site["title"], site["more_bytes"]) for site in theirs["sites"]])
        check(all(page["frames"][at][:1] == [frame["function"]] for site, other in zip(mine["sites"], theirs["sites"]) for at, frame in zip(site["stack"], other["stack"])), "other stacks")
        same("the first timeline", page["runs"][0]["capture"], theirs["worst"])
    same("timelines", len(page["runs"]), 4)
    for run_ in page["runs"]:
        same(run_["capture"], max(Timeline(run_["timeline"]).live), next(row["peak_live_bytes"] for row in report["ranks"] if row["capture"] == run_["capture"]))
    check("not with --json" in tool("ranks", job(), "--html", "other.html", "--json", rc=2), "no word about --json")


def steps_are_detected_where_none_are_stated():
    for form, options, detected in (("unsaid", (), True), ("bad", (), False), ("bad", ("--steps", "detected"), True), ("unsaid", ("--steps", "stated"), False), ("evict", (), False)):
        name = " ".join((form, *options))
        page, report = data_of(page_of(capture(form), *options)), tool_json("report", capture(form), "--view", "steps", *options)["steps"]
        Comparison(name, page["steps"] | {"frames": page["frames"]}, report | {"complete": True})
        same(f"{name}: by what", page["steps"]["origin"], "detected" if detected or not report["rows"] else "stated")
        same(f"{name}: the step of Max", page["max"]["step"], len(report["rows"]) - 1 if report["rows"] else None)
        same(f"{name}: marks", page["timeline"]["steps"]["count"], len(report["rows"]))
    same("steps that are looked for", len(data_of(page_of(capture("unsaid")))["steps"]["rows"]), 20)


def timeline_and_map_add_up():
    for form in ("bad", "oom", "many", "unsaid", "evict"):
        page = data_of(page_of(capture(form)))
        line = page["timeline"]
        leaves = Timeline(line)
        same(f"{form}: peak live", line["peak_live"]["bytes"], page["peak_live_bytes"])
        same(f"{form}: peak reserved", line["peak_reserved"]["bytes"], page["peak_reserved_bytes"])
        same(f"{form}: highest leaf", max(leaves.live), line["peak_live"]["bytes"])
        same(f"{form}: most reserved", max(leaves.reserved), line["peak_reserved"]["bytes"])
        for key in ("allocated", "freed"):
            same(f"{form}: {key}", [sum(leaves.sums[key]), sum(leaves.sums[f"{key}_count"])], [page[f"{key}_bytes"], page[f"{key}_count"]])
        is_exact = form != "many" # a leaf has an event
        same(f"{form}: blocks are left out", line["blocks"]["left_out"] == 0, is_exact)
        for grouping in line["groupings"]:
            columns, blocks = leaves.groupings[grouping["by"]], leaves.of_blocks(grouping["by"])
            same(f"{form}: names by {grouping['by']}", len(grouping.get("sites", grouping.get("names"))), len(columns))
            sums = [sum(values) for values in zip(*columns)]
            check(sums == leaves.live if is_exact else all(sum_ <= live for sum_, live in zip(sums, leaves.live)), f"{form}: columns by {grouping['by']} do not add up to what is live")
            check(all(part <= whole for key, column in enumerate(columns) for part, whole in zip(blocks[key + 1], column)), f"{form}: blocks by {grouping['by']} are more than their key's")
            check(blocks[1:] == columns or not is_exact, f"{form}: blocks by {grouping['by']} do not add up")
        if is_exact:
            same(f"{form}: live at the end", leaves.live[-1], page["remaining_bytes"])
            for (_, _, first, behind), row in zip(leaves.steps, page["steps"]["rows"]):
                before = leaves.live[first - 1] if first else 0
                same(f"{form}: peak of a step", max([before, *leaves.live[first:behind]]), row["peak_live_bytes"])
                same(f"{form}: of a step", [sum(leaves.sums["allocated"][first:behind]), leaves.live[behind - 1]], [row["allocated_bytes"], row["live_end_bytes"]])
        for moment, there in page["map"]["moments"].items():
            live = sum(cell[0] for cell in there["cells"] if cell)
            same(f"{form}: live bytes of the map, {moment}", live, sum(site[moment][0] for site in page["call_sites"]))
        same(f"{form}: bars", len(line["bars"]) + line["bars_left_out"], len(page["anchors"]) + page.get("anchors_left_out", 0))
        same(f"{form}: cells", sum(region[2] for region in page["map"]["regions"]), len(page["map"]["moments"]["end"]["cells"]))
    same("leaves without events", data_of(page_of(capture("agg")))["timeline"]["leaves"]["count"], 0)
    same("when it failed", data_of(page_of(capture("oom")))["program"]["failed"], True)


def the_page_is_whole_and_loads_nothing():
    for form in ("bad", "oom", "agg", "empty"):
        text = page_of(capture(form))
        page = Reader(text)
        same(f"{form}: faults", page.faults, [])
        same(f"{form}: scripts", [a.get("type") for tag, a in page.elements if tag == "script"], ["application/json", None])
        same(f"{form}: what may load", [(tag, a) for tag, a in page.elements if "src" in a or tag in ("link", "iframe", "object", "img", "base")], [])
        same(f"{form}: links", [a["href"] for _, a in page.elements if "href" in a and not a["href"].startswith("#")], [])
        ids = [a["id"] for _, a in page.elements if "id" in a]
        same(f"{form}: ids", len(ids), len(set(ids)))
        policy = next(a["content"] for _, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
        check("default-src 'none'" in policy and "unsafe" not in policy, f"{form}: the policy is {policy}")
        for kind in ("style", "script"):
            digest = base64.b64encode(hashlib.sha256("".join(page.texts[kind]).encode()).digest()).decode()
            check(f"{kind}-src 'sha256-{digest}'" in policy, f"{form}: the policy does not name the {kind} that is there")
        script = "".join(page.texts["script"])
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(", "fetch(", "XMLHttpRequest", "import("):
            check(word not in script, f"the script has {word}")
        same(f"{form}: schema", next(iter(data_of(text).items())), ("schema", 1))


def names_of_the_program_are_no_markup():
    path = capture("oom")
    data = path.read_bytes()
    for word, evil in ((b"SOT_CALL_", b"</script>"), (b"cuMemAllocAsync", b"<!--<script>x()"), (b"Test device", b"\"'`&\\\x1b[1m\x9b\xff"),
                       (b"made by a test", b"\xe2\x80\xae\x00<img src=x>")):
        assert len(word) >= len(evil) - 1 and word in data, word
        data = data.replace(word, evil[:len(word)].ljust(len(word), b">"))
    pathlib.Path("evil.kcap").write_bytes(kcap.mended(data))
    text = page_of("evil.kcap", "--from", "</script>2")
    page = Reader(text)
    same("faults", page.faults, [])
    same("elements", [tag for tag, _ in page.elements], [tag for tag, _ in Reader(page_of(capture("bad"))).elements])
    inside = re.search(r'id="data">(.*?)</script>\n<script>', text, re.S)[1]
    check("<" not in inside, "the data have a <")
    same("controls", re.findall(r"[\x00-\x1f\x7f-\x9f]|\\u00[01]", inside), [])
    found = json.loads(inside)
    same("the anchor's name", found["ooms"][0]["anchor"], "</script>15")
    same("the window", found["window"]["from"], "</script>2")
    same("the call", found["ooms"][0]["call"], "<!--<script>x()")
    same("the device", found["devices"][0]["name"], "\"'`&\\?[1m??")
    data = capture("evict").read_bytes()
    assert b"input" in data
    pathlib.Path("evil.kcap").write_bytes(kcap.mended(data.replace(b"input", b"</b>\x1b")))
    inside = re.search(r'id="data">(.*?)</script>\n<script>', page_of("evil.kcap"), re.S)[1]
    check("<" not in inside and "\x1b" not in inside, "the data of eviction have a < or a control character")
    same("the hint", json.loads(inside)["eviction"][0]["id"], "</b>?")
    long = "x" * 100_000
    run(BUILD / "tests" / "unit" / "capture_maker", "good", "long.kcap", long[:25])
    check("x" * 401 not in page_of("long.kcap.xxxxxxxxxxxxxxxxxxxxxxxxx"), "a name is longer than a page lets it be")


def its_size_has_a_bound():
    text = page_of(capture("many"))
    page = data_of(text)
    same("anchors", (page["anchors_left_out"], len(page["anchors"])), (3696, 400))
    same("steps", (page["steps"]["rows_left_out"], len(page["steps"]["rows"])), (3096, 1000))
    used = data_of(page_of(capture("many-used")))["patterns"]
    same("findings", (used["findings_left_out"] > 3896, len(used["findings"])), (True, 200))
    set_, = data_of(page_of(capture("evict-long")))["eviction"]
    same("steps of eviction", (set_["steps_left_out"], [row["step"] for row in set_["steps"]]), (40, [*range(100), *range(140, 240)]))
    same("leaves", page["timeline"]["leaves"]["count"] <= 16384 + 4096, True)
    same("blocks", page["timeline"]["blocks"]["count"] <= 6000, True)
    same("nodes", len(page["flame"]) <= 4000, True)
    check(len(text) < 2 * MIB, f"the page has {len(text)} bytes")


def rows_of(value, name):
    """The rows of all lists of a name in the data."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from (row for row in part if isinstance(row, dict)) if key == name and isinstance(part, list) else ()
            yield from rows_of(part, name)
    elif isinstance(value, list):
        for part in value:
            yield from rows_of(part, name)


def columns_are_those_that_scripts_show():
    """Rows of long lists have what the scripts read, and nothing else."""
    table = re.search(r"json_columns columns\[\] = \{(.*?)\{NULL", (SOURCE / "tools" / "page" / "page.c").read_text(encoding="utf-8"), re.S)[1]
    columns = {name: "".join(re.findall(r'"([^"]*)"', words)).split() for name, words in re.findall(r'\{"(\w+)",(.*?)\}', table, re.S)}
    pages = [page_of(capture(form)) for form in ("touched", "oom", "used", "evict", "unsaid", "bad", "walked", "kinds", "kinds-failed")] + [diff_of(capture("good"), capture("bad"))]
    script = "".join(Reader(pages[0]).texts["script"])
    for name, keys in columns.items():
        rows = [row for page in pages for row in rows_of(data_of(page), name)]
        check(rows, f"{name}: no capture has any")
        same(f"{name}: keys", {key for row in rows for key in row}, set(keys))
        same(f"{name}: keys that no script reads", [key for key in keys if not re.search(rf"\b{key}\b", script)], [])


def it_is_written_as_outputs_are():
    path = capture("bad")
    text = page_of(path)
    same("mode", oct(pathlib.Path("page.html").stat().st_mode & 0o777), "0o600")
    done = subprocess.run([str(KEDGE), "report", str(path), "--html", "-"], env=environment(), capture_output=True, text=True, timeout=60, check=False)
    same("on standard output", (done.returncode, done.stdout == text, done.stderr), (0, True, ""))
    for options, what in ((("--json",), "not with --json"), (("--view", "live"), "not with --view"), (("--by", "anchor"), "not with --by"),
                          (("--from", "nowhere"), "nowhere")):
        check(what in tool("report", path, "--html", "other.html", *options, rc=2), f"{options}: no word about {what}")
        check(not pathlib.Path("other.html").exists(), f"{options}: a page was written")
    check("No such file" in tool("report", path, "--html", "no/folder/x.html", rc=2), "no word about the folder")


if __name__ == "__main__":
    main(figures_are_those_of_the_report, who_held_memory_is_one_figure_everywhere, the_peak_is_at_one_place, the_device_is_in_parts_that_add_up, a_run_that_fails_has_its_device_then_and_at_the_end, patterns_are_those_of_the_report,
         eviction_is_that_of_the_report, holders_are_those_of_the_report, kinds_are_those_of_the_report, tensors_are_those_of_the_report, a_page_of_two_runs_has_what_diff_says, a_page_of_ranks_has_what_ranks_says, steps_are_detected_where_none_are_stated, timeline_and_map_add_up, the_page_is_whole_and_loads_nothing, names_of_the_program_are_no_markup,
         its_size_has_a_bound, columns_are_those_that_scripts_show, it_is_written_as_outputs_are)
