#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
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


def capture(form):
    """A capture as the trainer of that form leaves it; some of them end by a signal, or with status 1."""
    path = pathlib.Path(f"{form}.kcap")
    if not path.exists():
        run(BUILD / "tests" / "unit" / "capture_maker", form, path, rc=None)
    return path


def page_of(path, *options):
    page = pathlib.Path("page.html")
    tool("report", path, "--html", page, *options)
    return page.read_text(encoding="utf-8")


def data_of(text):
    return json.loads(Reader(text).texts["data"][0])


def figures_are_those_of_the_report():
    window = ("--from", "SOT_CALL_3", "--to", "SOT_CALL_9")
    whole = ("good", "live", "shadow", "oom", "killed", "agg", "empty", "evict")
    for form, options in [(form, ()) for form in whole] + [("bad", window), ("live", window)]:
        path = capture(form)
        report, page = tool_json("report", path, *options), data_of(page_of(path, *options))
        for key, value in page["figures"].items():
            same(f"{form}: {key}", value, report[key])
        same(f"{form}: keys of the figures", {"max_bytes", "peak_live_bytes", "peak_reserved_bytes"} - page["figures"].keys(), set())
        for key in ("complete", "allocated_count"):
            same(f"{form}: {key}", page.get(key, page["figures"].get(key)), report[key])
        at = {moment: [sum(site[moment][i] for site in page["sites"]) for i in (0, 1)] for moment in ("peak", "end")}
        same(f"{form}: sites at the end", at["end"][0], report["remaining_bytes"])
        same(f"{form}: sites at the peak", at["peak"][0], report["max_bytes"])
        same(f"{form}: allocations of all sites", sum(site["allocated"][1] for site in page["sites"]), report["allocated_count"])
        same(f"{form}: the flame graph's root", [page["flame"][0][2:4], page["flame"][0][6:8]], [at["peak"], at["end"]])
        same(f"{form}: libraries", [(row["name"], row["live_bytes"], row["at_max_bytes"]) for row in page["libraries"]],
             [(row["library"], row["live_bytes"], row["at_max_bytes"]) for row in report["sources"]])
        same(f"{form}: kinds", [(row["name"], row["allocated_bytes"]) for row in page["classes"]],
             [(row["name"], row["allocated_bytes"]) for row in report["classes"]])
        kinds = [row["at_max_bytes"] for row in page["classes"] if row["device_memory"]]
        same(f"{form}: kinds at the peak", None if None in kinds else sum(kinds), None if page["by_places"] else report["max_bytes"])
        same(f"{form}: anchors", [(row["name"], row["max_bytes"], row["remaining_bytes"]) for row in page["anchors"]],
             [(row["name"], row["max_bytes"], row["remaining_bytes"]) for row in report["anchors"]])
        same(f"{form}: hints", [(row["id"], row["matched"][1], row["released"], row["refused"][1]) for row in page["hints"]],
             [(row["id"], row["matched_count"], [row["released_bytes"], row["released_count"]], row["refused_count"]) for row in report["hints"]])
        same(f"{form}: failures", [(row["requested_bytes"], row["free_bytes"]) for row in page["failures"]],
             [(row["requested_bytes"], row["free_bytes"]) for row in report["ooms"]])
        same(f"{form}: who held memory", [held_at(page, row) for row in page["failures"]],
             [[(h["bytes"], h["count"]) for h in row["live_at_oom"]] for row in report["ooms"]])


def held_at(page, failure):
    """Bytes and blocks of those who held most: the last failure's stand in the table of call sites."""
    if "live_at_oom" in failure:
        return [(holder["bytes"], holder["count"]) for holder in failure["live_at_oom"]]
    return sorted((tuple(site["failure"]) for site in page["sites"] if site["failure"][1]), reverse=True)


def who_held_memory_is_one_figure_everywhere():
    """Two devices of which one fails, and a window: what the failure met is all that its own device had, in every part of the page."""
    for name, options, program in (("two.kcap", (), ("devices=2",)), ("one.kcap", ("--from", "step (9)"), ())):
        kedge_run(RECOUNT, "two.log", "4", "steps=15", "huge=8", *program, capture=name, KEDGE_LOG="off", SIMCUDA_MEMORY="96M",
                  SIMCUDA_DEVICES="2", KEDGE_TRACE="full")
        page, report = data_of(page_of(name, *options)), tool_json("report", name)
        last = report["ooms"][-1]
        check(len({row["device"] for row in report["device_peaks"]}) == 2 or options, f"{name}: memory of one device alone")
        same(f"{name}: by call site", held_at(page, page["failures"][-1]), sorted(((h["bytes"], h["count"]) for h in last["live_at_oom"]), reverse=True))
        total = [sum(site["failure"][i] for site in page["sites"]) for i in (0, 1)]
        same(f"{name}: the flame graph", page["flame"][0][4:6], total)
        same(f"{name}: of the device", total[0], sum(h["bytes"] for h in last["live_at_oom"]) + last["other_bytes"])


def the_peak_is_at_one_place():
    """Headline and timeline name one moment and one anchor of the peak, also where anchors are shorter than a bin, or more than the page lists."""
    kedge_run(RECOUNT, "threads.log", "3", "steps=60", "threads=3", "shared=1", capture="threads.kcap", KEDGE_TRACE="full")
    for name in (capture("bad"), capture("many"), capture("unsaid"), "threads.kcap"):
        page = data_of(page_of(name))
        line, most = page["timeline"], page["max"]
        reached = line["reached"][line["live"].index(line["peak_live"]["bytes"])]
        same(f"{name}: when", reached[0], most["time_ns"] if line["axis"] == "time" else line["peak_live"]["at"])
        same(f"{name}: in which anchor", None if reached[1] is None else line["anchors"][reached[1]], most["anchor"])
        same(f"{name}: in which step", reached[2], most["step"])
        same(f"{name}: moments", len(line["reached"]), len(line["live"]))
        for i, moment in enumerate(line["reached"]):
            check(not moment or line["begin"] + i * line["width"] <= moment[0] <= line["begin"] + (i + 1) * line["width"], f"{name}: bin {i} was reached at {moment}")
            check(moment or i == 0 or line["live"][i] <= line["live"][i - 1], f"{name}: bin {i} grew at no time")


def waterfalls_of(report):
    """Of a report's JSON, as the page has them: when memory ran out last, then each device's."""
    last = report["ooms"][-1].get("waterfall") if report["ooms"] else None
    return [("failure", last)] * bool(last) + [("look", fall) for fall in report["waterfall"]]


def devices_add_up(name, report, page):
    wanted = waterfalls_of(report)
    same(f"{name}: waterfalls", [(fall["moment"], fall["device"], fall["total_bytes"], fall["short"]) for fall in page["waterfalls"]],
         [(moment, fall["device"], fall["total_bytes"], fall["short"]) for moment, fall in wanted])
    for fall, (_, want) in zip(page["waterfalls"], wanted):
        same(f"{name}: parts", [(part["part"], part["bytes"]) for part in fall["parts"]], [(part["part"], part["bytes"]) for part in want["parts"]])
        same(f"{name}: other libraries", fall["other_libraries"], [0, 0])
        same(f"{name}: all of the device", sum(part["bytes"] for part in fall["parts"]), fall["total_bytes"])
        check(all(part["text"] for part in fall["parts"]), f"{name}: a part without a label")
    return len(wanted)


def the_device_is_in_parts_that_add_up():
    report, page = tool_json("report", capture("oom")), data_of(page_of(capture("oom")))
    same("of a failure alone", devices_add_up("oom", report, page), 1)
    same("where nobody looked", data_of(page_of(capture("bad")))["waterfalls"], [])


def a_run_that_fails_has_its_device_then_and_at_the_end():
    kedge_run(SOT, "--form", "pir", "--graph", "small", capture="run.kcap")
    kedge_run(SOT, "--form", "pir", "--graph", "small", capture="tight.kcap", rc=None, SIMCUDA_MEMORY="16M")
    for name, falls in (("run.kcap", 1), ("tight.kcap", 2)):
        report, page = tool_json("report", name), data_of(page_of(name))
        same(f"{name}: how many", devices_add_up(name, report, page), falls)
    same("libraries and what kedge has", {part["part"] for part in page["waterfalls"][0]["parts"]} >= {"outside", "kedge_live_requested", "free"}, True)
    same("uses are recorded without being asked for", page["patterns"]["judged_count"], report["patterns"]["judged_count"])
    check(page["patterns"]["judged_count"] > 0, "no block was judged")


def patterns_are_those_of_the_report():
    for form, options in (("used", ()), ("used", ("--from", "SOT_CALL_3", "--to", "SOT_CALL_9")), ("many-used", ())):
        path = capture(form)
        report, page = tool_json("report", path, "--top", "200", *options)["patterns"], data_of(page_of(path, *options))["patterns"]
        for key in ("judged_count", "judged_bytes", "unseen_calls", "max_bytes", "max_freed_after_last_use_bytes"):
            same(f"{form}: {key}", page[key], report[key])
        same(f"{form}: not judged", {doubt["key"]: doubt["count"] for doubt in page["not_judged"]}, {key: n for key, n in report["not_judged"].items() if n})
        same(f"{form}: by pattern", [(row["pattern"], row["recorded"], row["findings"], row["blocks"], row["saves_bytes"]) for row in page["by_pattern"]],
             [(row["pattern"], row["recorded"], row["findings"], [row["bytes"], row["count"]], row["saves_bytes"]) for row in report["by_pattern"]])
        keys = ("pattern", "saves_bytes", "max_left_bytes", "at_max_bytes", "longest_ns")
        same(f"{form}: findings", [([row[key] for key in keys], row["name"], row["blocks"]) for row in page["findings"]],
             [([row[key] for key in keys], row["title"], [row["bytes"], row["count"]]) for row in report["findings"]])
        same(f"{form}: what to do", [row["advice"] for row in page["findings"]],
             [row["advice"] + (f" that of {row['memory_of']}." if row["memory_of"] else "") for row in report["findings"]])
        same(f"{form}: worst first", [row["saves_bytes"] for row in page["findings"]], sorted((row["saves_bytes"] for row in page["findings"]), reverse=True))
        same(f"{form}: how many there are", page["finding_count"], sum(row["findings"] for row in report["by_pattern"]))
        check(any(row["saves_bytes"] > 0 for row in page["findings"]) or form != "used", f"{form}: nothing saves anything")
    same("without uses", "patterns" in data_of(page_of(capture("bad"))), False)


def eviction_is_that_of_the_report():
    moved = ("in_at_most_bytes", "dropped_bytes", "wait_count")
    for form in ("evict", "evict-shadow", "evict-lru", "evict-long"):
        report, page = tool_json("report", capture(form))["eviction"], data_of(page_of(capture(form)))["eviction"]
        same(f"{form}: sets", [(row["id"], row["mode"], row["device"], row["on_paper"], row["median_step"]) for row in page],
             [(row["id"], row["mode"], row["device"], row["on_paper"], row["median_step"]) for row in report])
        for got, want in zip(page, report):
            rows = want["steps"] if len(want["steps"]) <= 200 else want["steps"][:100] + want["steps"][-100:]
            same(f"{form}: steps", got["step_count"], len(want["steps"]))
            for part, row in ((got["total"], want["total"]), *zip(got["steps"], rows, strict=True)):
                same(f"{form}: moved", (part["in"], part["out"], [part[key] for key in moved], [part[f"{key}_ns"] / 1e6 for key in ("layout", "evict", "stall")]),
                     ([row["moved_in_bytes"], row["moved_in_count"]], [row["moved_out_bytes"], row["moved_out_count"]], [row[key] for key in moved],
                      [row[f"{key}_ms"] for key in ("layout", "evict", "stall")]))
            same(f"{form}: each step", [(row["step"], row["in_at_least_bytes"], row["blocks"], row["cap_bytes"] or 0) for row in got["steps"]],
                 [(row["step"], row["in_at_least_bytes"], [row["block_bytes"], row["block_count"]], row["cap_bytes"]) for row in rows])
            same(f"{form}: unfinished", [row["label"] == "unfinished" for row in got["steps"]], [not row["ended"] for row in rows])
            same(f"{form}: what stays", [(row["name"], row["blocks"]) for row in got["kept"]], [(row["title"], [row["bytes"], row["count"]]) for row in want["kept"]])
            same(f"{form}: calls that were not made", (got["not_made_count"], got.get("not_made", {}).get("needed_bytes")),
                 (len(want["not_made"]), max((row["needed_bytes"] for row in want["not_made"]), default=None)))
    same("without eviction", data_of(page_of(capture("live")))["eviction"], [])


def steps_are_detected_where_none_are_stated():
    for form, options, detected in (("unsaid", (), True), ("bad", (), False), ("bad", ("--steps", "detected"), True), ("unsaid", ("--steps", "stated"), False), ("evict", (), False)):
        name = " ".join((form, *options))
        page, report = data_of(page_of(capture(form), *options)), tool_json("report", capture(form), "--view", "steps", *options)["steps"]
        same(f"{name}: by what", page["detected_by"], report["reason"] if detected else None)
        keys = ("live_begin_bytes", "live_end_bytes", "peak_live_bytes", "allocated_bytes", "allocated_count")
        same(f"{name}: steps", [[row[key] for key in keys] for row in page["steps"]], [[row[key] for key in keys] for row in report["rows"]])
        same(f"{name}: the step of Max", page["max"]["step"], len(report["rows"]) - 1 if report["rows"] else None)
        same(f"{name}: marks", len(page["timeline"]["steps"]), len(report["rows"]))
        same(f"{name}: growers", [(row["name"], row["first_bytes"], row["last_bytes"]) for row in page["growers"]],
             [(row["title"], row["first_bytes"], row["last_bytes"]) for row in report["growers"]])
    same("steps that are looked for", len(data_of(page_of(capture("unsaid")))["steps"]), 20)


def timeline_and_map_add_up():
    for form in ("bad", "oom", "many"):
        page = data_of(page_of(capture(form)))
        line = page["timeline"]
        same(f"{form}: peak live", line["peak_live"]["bytes"], page["figures"]["peak_live_bytes"])
        same(f"{form}: peak reserved", line["peak_reserved"]["bytes"], page["figures"]["peak_reserved_bytes"])
        same(f"{form}: highest bin", max(line["live"]), line["peak_live"]["bytes"])
        for grouping in line["groupings"]:
            sums = [sum(part[i] for part in grouping["parts"]) for i in range(len(line["live"]))]
            same(f"{form}: parts by {grouping['by']}", sums, line["live"])
            same(f"{form}: names by {grouping['by']}", len(grouping["names"]) + 1, len(grouping["parts"]))
        for moment, there in page["map"]["moments"].items():
            live = sum(cell[0] for cell in there["cells"] if cell)
            same(f"{form}: live bytes of the map, {moment}", live, sum(site[moment][0] for site in page["sites"]))
        same(f"{form}: bars", len(line["bars"]) + line["bars_left_out"], page["anchor_count"])
        same(f"{form}: cells", sum(region[2] for region in page["map"]["regions"]), len(page["map"]["moments"]["end"]["cells"]))
    same("bins without events", data_of(page_of(capture("agg")))["timeline"]["live"], [])
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
    same("the anchor's name", found["failures"][0]["anchor"], "</script>15")
    same("the window", found["window"]["from"], "</script>2")
    same("the call", found["failures"][0]["call"], "<!--<script>x()")
    same("the device", found["program"]["devices"][0]["name"], "\"'`&\\?[1m??")
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
    same("anchors", (page["anchor_count"], len(page["anchors"])), (4096, 400))
    same("steps", (page["step_count"], len(page["steps"])), (4096, 1000))
    used = data_of(page_of(capture("many-used")))["patterns"]
    same("findings", (used["finding_count"] > 4096, len(used["findings"])), (True, 200))
    set_, = data_of(page_of(capture("evict-long")))["eviction"]
    same("steps of eviction", (set_["step_count"], [row["step"] for row in set_["steps"]]), (240, [*range(100), *range(140, 240)]))
    same("bins", len(page["timeline"]["live"]) <= 1000, True)
    same("nodes", len(page["flame"]) <= 4000, True)
    check(len(text) < 2 * MIB, f"the page has {len(text)} bytes")


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
         eviction_is_that_of_the_report, steps_are_detected_where_none_are_stated, timeline_and_map_add_up, the_page_is_whole_and_loads_nothing, names_of_the_program_are_no_markup,
         its_size_has_a_bound, it_is_written_as_outputs_are)
