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

from regresskit import BUILD, KEDGE, SOURCE, check, environment, main, run, same, tool, tool_json

sys.dont_write_bytecode = True
sys.path.insert(0, str(SOURCE / "tests" / "replay"))
import kcap  # noqa: E402

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
        same(f"{form}: anchors", [(row["name"], row["max_bytes"], row["remaining_bytes"]) for row in page["anchors"]],
             [(row["name"], row["max_bytes"], row["remaining_bytes"]) for row in report["anchors"]])
        same(f"{form}: hints", [(row["id"], row["matched"][1], row["released"], row["refused"][1]) for row in page["hints"]],
             [(row["id"], row["matched_count"], [row["released_bytes"], row["released_count"]], row["refused_count"]) for row in report["hints"]])
        same(f"{form}: failures", [(row["requested_bytes"], row["free_bytes"], [(h["bytes"], h["count"]) for h in row["holders"]]) for row in page["failures"]],
             [(row["requested_bytes"], row["free_bytes"], [(h["bytes"], h["count"]) for h in row["holders"]]) for row in report["ooms"]])


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
    long = "x" * 100_000
    run(BUILD / "tests" / "unit" / "capture_maker", "good", "long.kcap", long[:25])
    check("x" * 401 not in page_of("long.kcap.xxxxxxxxxxxxxxxxxxxxxxxxx"), "a name is longer than a page lets it be")


def its_size_has_a_bound():
    text = page_of(capture("many"))
    page = data_of(text)
    same("anchors", (page["anchor_count"], len(page["anchors"])), (4096, 400))
    same("steps", (page["step_count"], len(page["steps"])), (4096, 1000))
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
    main(figures_are_those_of_the_report, timeline_and_map_add_up, the_page_is_whole_and_loads_nothing, names_of_the_program_are_no_markup,
         its_size_has_a_bound, it_is_written_as_outputs_are)
