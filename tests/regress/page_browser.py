#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The page of `kedge report --html` in Chromium: it draws without an error, its controls work by keyboard and mouse and have names, its
text has the contrast of WCAG AA in both themes, and no script but its own runs. Skipped where Chromium is not installed.
"""
import contextlib
import pathlib
import re

import browser
from page import RECOUNT, capture, data_of, job, waterfalls_of
from pagedata import Timeline, unpack
from regresskit import BUILD, KEDGE, check, human, kedge_run, main, run, same, skip, tool

LAPTOP, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
# Sections that are not on every page: what they need in the data.
MAYBE = {"estimate": lambda data: "estimate" in data, "moment": lambda data: data["timeline"]["leaves"]["count"],
         "held": lambda data: any("held" in part for part in (data["ooms"] or [{}])[-1:]) or any(f"held_{when}" in data for when in ("after_step", "when_grown", "as_asked", "at_end")),
         "segments": lambda data: "inside" in data, "device": waterfalls_of, "patterns": lambda data: data["patterns"]["recorded"], "eviction": lambda data: data["eviction"]}
# Of the text nodes that are to be seen: those whose contrast to what is behind them is below the least (4.5, large text 3).
CONTRAST = """(() => {
    const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
    const rgba = colour => {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = colour;
        canvas.fillRect(0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data];
    };
    const light = colour => colour.slice(0, 3).map(c => c / 255).map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
        .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
    const behind = node => {
        for (let at = node; at instanceof Element; at = at.parentElement) {
            const colour = rgba(getComputedStyle(at).backgroundColor);
            if (colour[3] === 255 && !(at instanceof SVGElement))
                return colour;
        }
        return [255, 255, 255];
    };
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const found = [];
    let seen = 0;
    while (walker.nextNode()) {
        const parent = walker.currentNode.parentElement;
        const style = getComputedStyle(parent);
        const isSeen = walker.currentNode.data.trim() && parent.getClientRects().length && !parent.closest("script, style, title, noscript, .skip");
        if (!isSeen)
            continue;
        seen++;
        const front = light(rgba(parent instanceof SVGElement ? style.fill : style.color));
        const back = light(behind(parent));
        const contrast = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
        const size = parseFloat(style.fontSize);
        const least = size >= 24 || (size >= 18.66 && style.fontWeight >= 700) ? 3 : 4.5;
        if (contrast < least)
            found.push([walker.currentNode.data.trim().slice(0, 40), contrast.toFixed(2), parent.className.baseVal ?? parent.className]);
    }
    return {seen, found};
})()"""

# Of the elements that are to be seen: those that are wider than the window or than their parent's box; stacks narrower than 40 characters,
# or higher than the window.
BOXES = """(() => {
    const found = [];
    const name = node => node.localName + "." + node.className + " " + node.innerText.slice(0, 30);
    for (const node of document.querySelectorAll("body *:not(svg *):not(script):not(.skip)")) {
        const box = node.getBoundingClientRect();
        const isSeen = node instanceof HTMLElement && box.width > 0 && box.height > 0 && !node.closest("select");
        if (!isSeen)
            continue;
        const isAbove = () => getComputedStyle(node).position === "absolute"; // a box over the page, not in its parent's
        if (box.width > innerWidth + 1 || box.width > node.parentElement.getBoundingClientRect().width + 1 && !isAbove())
            found.push(["wider", Math.round(box.width), Math.round(node.parentElement.getBoundingClientRect().width), name(node)]);
        if ((box.right > innerWidth + 1 || box.left < -1) && !node.closest("nav"))
            found.push(["outside", Math.round(box.left), Math.round(box.right), name(node)]);
    }
    // All rulers are there before the first one is measured: the page is laid out once.
    const rulers = [...document.querySelectorAll(".stack")].map(stack => {
        const ruler = document.createElement("span");
        ruler.textContent = "0".repeat(40);
        ruler.style.whiteSpace = "pre";
        const line = document.createElement("li");
        line.append(ruler);
        stack.append(line);
        return {stack, ruler, line};
    });
    for (const {stack, ruler} of rulers) {
        const wide = ruler.getBoundingClientRect().width;
        const room = stack.getBoundingClientRect().right - ruler.getBoundingClientRect().left;
        if (room < wide)
            found.push(["narrow stack", Math.round(room), Math.round(wide)]);
    }
    rulers.forEach(({line}) => line.remove());
    for (const {stack} of rulers)
        if (stack.offsetHeight > innerHeight)
            found.push(["high stack", stack.offsetHeight]);
    return found;
})()"""

# Words of anchors that a later anchor lies upon.
COVERED = """[...document.querySelectorAll(".spantext")].filter(text => {
    const box = text.getBoundingClientRect();
    for (let at = text.nextElementSibling; at; at = at.nextElementSibling) {
        const other = at.getBoundingClientRect();
        if (at.localName === "rect" && other.left < box.right - 1 && other.right > box.left + 1 && other.top < box.bottom - 3 && other.bottom > box.top + 3)
            return true;
    }
    return false;
}).map(text => text.textContent)"""

# Pixels of the timeline's picture that have a colour.
PAINTED = """(() => {
    const canvas = document.querySelector(".chart canvas");
    return canvas ? canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.filter((value, at) => at % 4 === 3 && value > 0).length : 0;
})()"""
CHART = "document.querySelector('.chart svg')"


@contextlib.contextmanager
def chromium():
    if not browser.find():
        skip("Chromium is not installed")
    with browser.Browser() as started:
        yield started


def written(form):
    path = pathlib.Path(f"{form}.html")
    tool("report", capture(form), "--html", path)
    return path


def pages_draw_on_a_laptop_and_a_phone():
    with chromium() as started:
        for form, sizes in (("bad", [LAPTOP]), ("oom", [LAPTOP, PHONE]), ("agg", [LAPTOP]), ("empty", [PHONE]), ("many", [LAPTOP, PHONE]),
                            ("used", [PHONE]), ("evict", [PHONE])):
            path = written(form)
            data = data_of(path.read_text(encoding="utf-8"))
            for size in sizes:
                page = started.open(path, **size)
                same(f"{form}: drawn", page.value("document.documentElement.dataset.ready"), "yes")
                same(f"{form}: empty sections", page.value("[...document.querySelectorAll('section')].filter(s => s.innerText.length < 30).map(s => s.id)"), [])
                same(f"{form}: wider than the window", page.value("document.documentElement.scrollWidth"), size["width"])
                same(f"{form}: pixels of the timeline that are drawn", page.value(PAINTED) > 500, data["peak_live_bytes"] > 0 and data["timeline"]["leaves"]["count"] > 0)
                same(f"{form}: frames wider than none", page.value("document.querySelectorAll('.frame').length > 0"), len(data["flame"]) > 1)
                same(f"{form}: cells", page.value("document.querySelectorAll('.cell').length"), sum(region[2] for region in data["map"]["regions"]))
                same(f"{form}: sections that are not always there", page.value(f"{list(MAYBE)}.filter(id => document.getElementById(id))"),
                     [name for name, has in MAYBE.items() if has(data)])
                same(f"{form}: links to nowhere", page.value("[...document.querySelectorAll('a[href^=\"#\"]')].filter(a => !document.querySelector(a.hash)).map(a => a.hash)"), [])
                same(f"{form}: tables wider than their box", page.value("[...document.querySelectorAll('table')].filter(t => !t.closest('.scroll')).length"), 0)
                same(f"{form}: errors", page.errors, [])
                page.close()
        said = started.open(written("many")).value("document.getElementById('anchors').innerText")
        for words in ("These are the 400 of 4,096 anchors with the highest Max.", "These are the 1,000 of 4,096 steps that came first."):
            check(words in said, f"not told: {words}")
        page = started.open(written("oom"))
        said = page.value("document.getElementById('answer').innerText")
        said_of_hints = started.open(written("touched")).value("document.getElementById('answer').innerText")
        check("Hint input: memory was used after its release was due." in said_of_hints, f"the answer does not doubt the hint: {said_of_hints}")
        for words in ("Out of memory", "asked for 64.00 MiB", "in SOT_CALL_15", "in pieces: the largest was 48.00 MiB"):
            check(words in said, f"the answer lacks {words!r}: {said}")
        first = data_of(written("oom").read_text(encoding="utf-8"))["summary"][0]
        check(first in " ".join(said.split()), f"the answer lacks the first line of report, {first!r}: {said}")
        top = page.value("document.querySelector('.holders').getBoundingClientRect().bottom")
        check(top < LAPTOP["height"], f"who held the memory ends at {top}, below the first screen")


def nothing_is_wider_than_its_box():
    with chromium() as started:
        for form in ("bad", "oom", "agg", "empty", "many", "used", "evict", "live", "touched", "unsaid", "walked", "grown", "killed", "lost", "held-ring", "kinds", "tensors", "tensors-failed"):
            page = started.open(written(form), **LAPTOP)
            if form == "kinds":
                stack_by(page, "kind")
            same(f"{form}, 1440 wide: boxes", page.value(BOXES), [])
            for state, press in (("stacks", ".disclose"), ("frames", ".unfold")):
                page.value(f"document.querySelectorAll({press!r}).forEach(button => button.click())")
                same(f"{form}, 1440 wide: boxes with all {state}", page.value(BOXES), [])
            page.look(**PHONE)
            same(f"{form}, 390 wide: boxes with all frames", page.value(BOXES), [])
            same(f"{form}, 390 wide: labels of nothing", page.value("[...document.querySelectorAll('tbody td')].filter(td => td.innerText.trim() === '' && td.getClientRects().length).length"), 0)
            page.value("document.querySelectorAll('.disclose').forEach(button => button.click())")
            same(f"{form}, 390 wide: boxes", page.value(BOXES), [])
            page.close()
        page = started.open(written("bad"))
        page.value("document.querySelector('.disclose').click()")
        page.value("document.querySelector('.stack').style.width = '130px'")
        check(any(row[0] == "narrow stack" for row in page.value(BOXES)), "a narrow stack is not found")


def words_of_anchors_are_not_covered():
    """Of threads anchors lie at one depth and over each other."""
    kedge_run(RECOUNT, "threads.log", "3", "steps=60", "threads=3", "shared=1", capture="threads.kcap", KEDGE_TRACE="full")
    with chromium() as started:
        for name in ("threads.kcap", capture("bad")):
            tool("report", name, "--html", "anchors.html")
            page = started.open("anchors.html", **LAPTOP)
            for word in ("by time", "by event"):
                stack_by(page, word)
                same(f"{name}, {word}: covered", page.value(COVERED), [])
            check(name == "threads.kcap" or page.value("document.querySelectorAll('.spantext').length") > 0, f"{name}: no word at all")
            page.close()


def stack_by(page, word):
    page.value(f"[...document.querySelectorAll('#timeline button')].find(button => button.innerText === {word!r}).click()")


def by_event(page):
    """One event beside the other: by time it depends on the machine's load what is to be seen where."""
    stack_by(page, "by event")


def a_click_opens_the_stack_that_the_report_prints():
    """Its frames, and what is said of the others, are those of the command (stackfold.h)."""
    with chromium() as started:
        path = written("bad")
        data = data_of(path.read_text(encoding="utf-8"))
        text = tool("report", capture("bad"), "--view", "hwm", "--top", "1000")
        page = started.open(path)
        first = page.value("document.querySelector('.holders .disclose').innerText")
        page.value("document.querySelector('.holders .disclose').click()")
        shown = page.value("[...document.querySelectorAll('.holders .stack li bdi')].map(line => line.innerText)")
        others = page.value("document.querySelector('.holders .unfold')?.innerText")
        check(shown and all(line in text for line in shown), f"{first}: {shown} is not in the report")
        check(others is None or others in text, f"{first}: {others!r} is not in the report")
        whole = next(site for site in data["call_sites"] if site["title"] == first)["stack"]
        page.value("document.querySelector('.holders .unfold')?.click()")
        same("all frames", page.value("document.querySelectorAll('.holders .stack li').length"), len(whole))
        page.value("document.querySelector('.holders .disclose').click()")
        same("closed", page.value("document.querySelectorAll('.holders .stack').length"), 0)


def seen(page):
    """The positions that the timeline shows, by what the table below it says of its range."""
    return page.value("[...document.querySelector('#moment .lede').innerText.matchAll(/From (.*?) to (.*?) the program/g)][0].slice(1)")


def table_sum(page):
    """What the table of the range adds up to, and its rows: bytes as printed."""
    return page.value("document.querySelector('#moment tfoot').rows[0].cells[1].innerText"), page.value(cells("moment", 0, 1))


def the_timeline_zooms_pans_and_has_a_cursor():
    with chromium() as started:
        page = started.open(written("bad"))
        by_event(page)
        line = Timeline(data_of(pathlib.Path("bad.html").read_text(encoding="utf-8"))["timeline"])
        at = f"Number({CHART}.getAttribute('aria-valuenow'))"
        peak = line.live.index(max(line.live))
        page.value(f"{CHART}.scrollIntoView({{block: 'center'}})")
        page.value(f"{CHART}.focus()")
        same("the cursor at first", page.value(at), peak)
        whole = seen(page)
        page.key("Home")
        same("Home", page.value(at), 0)
        page.key("ArrowRight")
        first = page.value(at)
        page.key("ArrowRight", shift=True)
        check(0 < first < page.value(at), "arrow keys do not move the cursor")
        check("live " in page.value("document.querySelector('.readout').innerText"), "the cursor tells no figures")
        for inside, outside in (("+", "0"), ("w", "0")):
            page.key(inside)
            check(seen(page) != whole, f"{inside} does not zoom")
            page.key(outside)
            same(f"{outside} shows all again", seen(page), whole)
        page.key("p")
        same("P", page.value(at), peak)
        when, place = page.value("document.querySelector('#answer .where').innerText").split(" after the start \u00b7 in ")
        told = page.value("document.querySelector('.readout').innerText")
        check(told.startswith(when) and told.endswith(place), f"the headline has the peak at {when} in {place}, the timeline says {told}")

        x, y, wide, high = page.value("(box => [box.x, box.y, box.width, box.height])(document.querySelector('.chart canvas').getBoundingClientRect())")
        page.mouse("mouseMoved", x + 100, y + 100)
        check(page.value(at) < peak, "the mouse does not move the cursor")
        scrolled = page.value("scrollY")
        page.mouse("mouseWheel", x + wide / 2, y + high / 2, deltaX=0, deltaY=-400)
        page.wait(f"document.querySelector('#moment .lede').innerText.includes({whole[0]!r} + ' to') === false")
        zoomed = seen(page)
        same("the page does not scroll meanwhile", page.value("scrollY"), scrolled)
        for kind, to in (("mousePressed", wide / 2), ("mouseMoved", wide / 2 + 60), ("mouseMoved", wide / 2 + 120), ("mouseReleased", wide / 2 + 120)):
            page.mouse(kind, x + to, y + high / 2, button="left", buttons=0 if kind == "mouseReleased" else 1, clickCount=1)
        page.wait(f"!document.querySelector('#moment .lede').innerText.includes({' to '.join(zoomed)!r})")
        check(seen(page) not in (zoomed, whole), "dragging does not pan")
        page.key("d")
        page.key("Escape")
        same("Escape shows all again", seen(page), whole)
        for button, by in enumerate(line.groupings):
            page.value(f"document.querySelector('#timeline .choices').children[{button}].click()")
            keys = len([column for column in line.groupings[by] if column[peak]])
            same(f"rows by {by}", page.value("Number(document.querySelector('#moment [role=status].muted')?.innerText.split(' ')[0] ?? 1)"),
                 max(1, len([column for column in line.groupings[by] if column[peak] or column[-1]])) if keys else 1)
        stack_by(page, "by time")
        check(page.value(PAINTED) > 500, "nothing is drawn by time")
        same("errors", page.errors, [])


def a_click_pins_the_block_below_the_pointer():
    with chromium() as started:
        page = started.open(written("bad"))
        data = data_of(pathlib.Path("bad.html").read_text(encoding="utf-8"))
        by_event(page)
        line = Timeline(data["timeline"])
        sites = unpack(data["timeline"]["blocks"]["site"])
        page.value(f"{CHART}.scrollIntoView({{block: 'center'}})")
        page.value(f"{CHART}.focus()")
        page.key("p")
        x, y, wide, high = page.value("(box => [box.x, box.y, box.width, box.height])(document.querySelector('.chart canvas').getBoundingClientRect())")
        at = page.value("document.querySelector('.cursor line').getBoundingClientRect().x")
        for share in (0.15, 0.4, 0.7):
            page.mouse("mouseMoved", at, y + high * (1 - share))
            page.mouse("mousePressed", at, y + high * (1 - share), button="left", buttons=1, clickCount=1)
            page.mouse("mouseReleased", at, y + high * (1 - share), button="left", clickCount=1)
            leaf = page.value(f"Number({CHART}.getAttribute('aria-valuenow'))")
            title = page.value("document.querySelector('.pin .way').innerText")
            size = page.value("document.querySelector('.pin .figure').innerText")
            there = [(human(block[2]), data["call_sites"][site]["title"]) for block, site in zip(line.blocks, sites) if block[0] <= leaf < block[1]]
            check((size, title) in there, f"{size} of {title} is pinned, which is not live there: {there[:5]}")
            site = next(site for site in data["call_sites"] if site["title"] == title)
            page.value("document.querySelector('.pin .unfold')?.click()")
            frames = page.value("[...document.querySelectorAll('.pin .stack li')].map(line => line.title)")
            check(frames[0].startswith(data["frames"][site["stack"][0]][0]), f"the stack of {title} begins with {frames[0]}")
            same("its frames", len(frames), len(site["stack"]))
        same("boxes", page.value(BOXES), [])
        page.key("Escape")
        same("Escape closes it", page.value("document.querySelector('.pin').hidden"), True)
        page.key("ArrowUp")
        page.key("Enter")
        same("Enter pins", page.value("document.querySelector('.pin').hidden"), False)


def two_fingers_zoom():
    """What they hold stays below them: the wider they are spread, the less is to be seen."""
    with chromium() as started:
        page = started.open(written("bad"), **PHONE)
        by_event(page)
        page.value(f"{CHART}.scrollIntoView({{block: 'center'}})")
        x, y, wide, high = page.value("(box => [box.x, box.y, box.width, box.height])(document.querySelector('.chart canvas').getBoundingClientRect())")
        middle = y + high / 2
        whole = seen(page)
        page.fingers("touchStart", (x + wide * 0.4, middle), (x + wide * 0.6, middle))
        for share in (0.3, 0.2, 0.1):
            page.fingers("touchMove", (x + wide * share, middle), (x + wide * (1 - share), middle))
        page.wait(f"!document.querySelector('#moment .lede').innerText.includes({' to '.join(whole)!r})")
        page.fingers("touchEnd")
        zoomed = seen(page)
        check(zoomed[0] != whole[0] and zoomed[1] != whole[1], f"{whole} became {zoomed}")
        same("no block is pinned", page.value("document.querySelector('.pin').hidden"), True)
        page.fingers("touchStart", (x + wide * 0.1, middle), (x + wide * 0.9, middle))
        for share in (0.2, 0.35, 0.45):
            page.fingers("touchMove", (x + wide * share, middle), (x + wide * (1 - share), middle))
        page.fingers("touchEnd")
        page.wait(f"document.querySelector('#moment .lede').innerText.includes({' to '.join(whole)!r})")
        same("errors", page.errors, [])


def kinds_and_tensors_are_told():
    with chromium() as started:
        page = started.open(written("kinds"))
        data = data_of(pathlib.Path("kinds.html").read_text(encoding="utf-8"))
        most = sorted(data["kinds_at_max"], key=lambda row: (row["kind"] == "unknown", -row["bytes"]))
        same("in the answer", page.value("document.querySelector('.kinds').innerText"), "By kind: " + ", ".join(f"{row['kind']} {human(row['bytes'])}" for row in most))
        check("Nothing grows from step to step." in page.value("document.getElementById('answer').innerText"), "it is not told that nothing grows")
        by_event(page)
        stack_by(page, "kind")
        same("the table of the peak", page.value(cells("moment", 0, 1))[:len(most)], [human(row["bytes"]) for row in most])
        page.value("[...document.querySelectorAll('#moment .disclose')].find(button => button.innerText === 'parameters').click()")
        shown = page.value("[...document.querySelectorAll('#moment .names bdi')].map(name => name.innerText)")
        same("names of parameters", sorted(shown), ["dec.weight", "enc.weight"])
        page.value(f"{CHART}.focus()")
        page.key("p")
        page.key("ArrowUp")
        page.key("Enter")
        pinned = page.value("document.querySelector('.pin').innerText")
        check(re.search(rf"({'|'.join(row['kind'] for row in most)})(: |\n)", pinned), f"no kind is told of a block: {pinned}")

        page = started.open(written("tensors"))
        data = data_of(pathlib.Path("tensors.html").read_text(encoding="utf-8"))
        answer = " ".join(page.value("document.getElementById('answer').innerText").split())
        check(f"At its peak the run held {human(data['tensors']['max_bytes'])}." in answer, f"the answer is not of tensors: {answer}")
        for words in ("All figures are of tensors", f"the segments took {human(data['tensors']['segments_bytes'])}, of which {human(data['tensors']['cached_bytes'])} were free"):
            check(words in answer, f"not told: {words}: {answer}")
        check(f"segments {human(data['peak_live_bytes'])}" in page.value("document.querySelector('.readout').innerText"), "the timeline has no line of segments")
        same("segments by call site", page.value(cells("segments", 0, 1)), [human(site["allocated"][0]) for site in data["call_sites"] if site["allocated"][1]])
        for word in ("by time", "by event"):
            stack_by(page, word)
            check(page.value("document.getElementById('moment-title').innerText").endswith("of the run"), f"{word}: all of the run is said to be a part of it")
        page = started.open(written("tensors-failed"))
        data = data_of(pathlib.Path("tensors-failed.html").read_text(encoding="utf-8"))
        answer = page.value("document.getElementById('answer').innerText")
        check("Segments" in answer and "held" in answer, f"a run that was cut off says nothing of its segments: {answer}")
        same("errors", page.errors, [])


def a_range_has_its_own_table():
    """The table of what is chosen adds up to what the command says of that range."""
    with chromium() as started:
        for form in ("bad", "unsaid"):
            page = started.open(written(form))
            data = data_of(pathlib.Path(f"{form}.html").read_text(encoding="utf-8"))
            line = Timeline(data["timeline"])
            same(f"{form}: the whole run", table_sum(page)[0], human(data["peak_live_bytes"]))
            page.value(f"{CHART}.scrollIntoView({{block: 'center'}})")
            page.value(f"{CHART}.focus()")
            page.key("Home")
            for number, row in list(enumerate(data["steps"]["rows"]))[:3]:
                page.value(f"[...document.querySelectorAll('#timeline button')].find(button => button.innerText === '{'Step' if number == 0 else '›'}').click()") if number == 0 else page.key("]")
                step = page.value("document.getElementById('moment-title').innerText")
                shown = int(step.split()[-1]) - 1
                row = data["steps"]["rows"][shown]
                first, behind = line.steps[shown][2:]
                total, rows = table_sum(page)
                same(f"{form}: {step}", total, human(max(line.live[first:behind])))
                if max(line.live[first:behind]) >= (line.live[first - 1] if first else 0):
                    same(f"{form}: {step}, as the report says", total, human(row["peak_live_bytes"]))
                check(len(rows) > 0, f"{form}: no rows for {step}")
                check(f"allocated {human(row['allocated_bytes'])} in" in page.value("document.querySelector('#moment .lede').innerText"), f"{form}: what {step} allocated is not told")
            number = int(page.value("(button => { button.click(); return button.innerText; })(document.querySelector('#anchors button.link'))"))
            check(page.value("document.getElementById('moment-title').innerText").endswith(f" {number}"), f"{form}: the button of step {number} does not show it")
            same(f"{form}: the timeline has the focus", page.value(f"document.activeElement === {CHART}"), True)
            page.key("0")
            x, y, wide, high = page.value("(box => [box.x, box.y, box.width, box.height])(document.querySelector('.chart canvas').getBoundingClientRect())")
            for kind, to in (("mousePressed", wide * 0.2), ("mouseMoved", wide * 0.3), ("mouseMoved", wide * 0.5), ("mouseReleased", wide * 0.5)):
                page.mouse(kind, x + to, y + high / 2, button="left", buttons=0 if kind == "mouseReleased" else 1, clickCount=1, modifiers=8)
            same(f"{form}: a chosen range", page.value("document.querySelectorAll('.chosen').length"), 1)
            live = page.value("document.querySelector('#moment .lede .figure').innerText")
            same(f"{form}: its table adds up", table_sum(page)[0], live)
            check("this range" in page.value("document.getElementById('moment-title').innerText"), f"{form}: a range is not told")
            page.key("Escape")
            same(f"{form}: Escape takes it back", page.value("document.querySelectorAll('.chosen').length"), 0)


def the_search_goes_through_everything():
    with chromium() as started:
        page = started.open(written("oom"))
        data = data_of(pathlib.Path("oom.html").read_text(encoding="utf-8"))
        found = "[...document.querySelectorAll('#hits button')].map(hit => hit.innerText)"
        same("at first", page.value("document.getElementById('hits').hidden"), True)
        page.key("/")
        same("/ goes to the search", page.value("document.activeElement.id"), "search")
        page.type("unused_output")
        hits = page.value(found)
        for place in ("By call site", "Who asked for memory", "Flame graph"):
            check(any(hit.startswith(place) for hit in hits), f"{place} is not found: {hits}")
        page.value("[...document.querySelectorAll('#hits button')].find(hit => hit.innerText.startsWith('Who asked')).focus()")
        page.key("Enter")
        same("rows that match", page.value("document.querySelectorAll('#sites tbody tr').length"), sum("unused_output" in str([data["frames"][at] for at in site.get("stack", [])]) for site in data["call_sites"]))
        page.key("/")
        page.type(data["timeline"]["bars"][0][3])
        whole = page.value("document.querySelector('#moment .lede').innerText")
        page.value("[...document.querySelectorAll('#hits button')].find(hit => hit.innerText.startsWith('Timeline')).click()")
        check(page.value("document.querySelector('#moment .lede').innerText") != whole, "the timeline does not go to an anchor that was found")
        page.key("/")
        page.type("nothing has this name")
        check("Nothing on this page" in page.value("document.getElementById('hits').innerText"), "nothing is found, and that is not told")
        same("boxes", page.value(BOXES), [])
        page.key("Escape")
        same("Escape closes it", page.value("document.getElementById('hits').hidden"), True)
        same("errors", page.errors, [])


def two_runs_are_one_above_the_other():
    with chromium() as started:
        for good, bad in (("good", "bad"), ("bad", "good"), ("agg", "bad"), ("empty", "empty")):
            path = pathlib.Path("diff.html")
            tool("diff", capture(good), capture(bad), "--html", path)
            data = data_of(path.read_text(encoding="utf-8"))
            for size in (LAPTOP, PHONE):
                page = started.open(path, **size)
                name = f"{good} and {bad}, {size['width']} wide"
                same(f"{name}: drawn", page.value("document.documentElement.dataset.ready"), "yes")
                page.value("document.querySelectorAll('.disclose').forEach(button => button.click())")
                same(f"{name}: boxes", page.value(BOXES), [])
                same(f"{name}: timelines", page.value("document.querySelectorAll('.chart').length"), sum(run["timeline"]["leaves"]["count"] > 0 for run in data["runs"]))
                same(f"{name}: ids", page.value("(ids => ids.length - new Set(ids).size)([...document.querySelectorAll('[id]')].map(one => one.id))"), 0)
                head = page.value("document.querySelector('#answer h1').innerText")
                check(all(human(data["diff"]["figures"][side]["peak_live_bytes"]) in head for side in ("good", "bad")), f"{name}: the first line has no peaks: {head}")
                for cause in data["diff"]["difference"]["causes"]:
                    check(cause["bytes"] == 0 or human(abs(cause["bytes"])) in page.value("document.getElementById('answer').innerText"), f"{name}: {cause['cause']} is not told")
                same(f"{name}: errors", page.errors, [])
                page.close()
        tool("diff", capture("good"), capture("bad"), "--html", "diff.html")
        data = data_of(pathlib.Path("diff.html").read_text(encoding="utf-8"))
        page = started.open("diff.html")
        check(f"In bad: {data['runs'][1]['summary'][0]}." in " ".join(page.value("document.getElementById('answer').innerText").split()), "what bad's own report says first")
        for column, run in ((1, data["runs"][0]), (2, data["runs"][1])):
            told = page.value(cells("peaks", 0, column))
            held = [human(site["peak"][0]) for site in run["call_sites"] if site["allocated"][1]]
            same("what call sites held", sorted(told), sorted(held + ["0.00 B"] * (len(told) - len(held))))
        page.key("/")
        page.type("unused_output")
        check(page.value("document.querySelectorAll('#hits button').length") > 0, "the search finds nothing")


def ranks_are_side_by_side():
    with chromium() as started:
        tool("ranks", job(), "--html", "ranks.html")
        data = data_of(pathlib.Path("ranks.html").read_text(encoding="utf-8"))
        for size in (LAPTOP, PHONE):
            page = started.open("ranks.html", **size)
            page.value("document.querySelectorAll('.disclose').forEach(button => button.click())")
            same(f"{size['width']} wide: boxes", page.value(BOXES), [])
            same("the answer", page.value("document.querySelector('#answer h1').innerText"), data["ranks"]["jobs"][0]["summary"])
            tops = page.value("[...document.querySelectorAll('.chart')].map(chart => Math.round(chart.getBoundingClientRect().top))")
            same("timelines", len(tops), len(data["runs"]))
            same(f"{size['width']} wide: side by side", tops[0] == tops[1], size is LAPTOP)
            same("peaks", page.value(cells("ranks", 0, 1)), [human(row["peak_live_bytes"]) for row in sorted(data["ranks"]["ranks"], key=lambda row: -row["peak_live_bytes"])])
            same("errors", page.errors, [])
            page.close()


def an_estimate_comes_first():
    loop = BUILD / "trainers" / "loop"
    run(KEDGE, "estimate", "--device", "memory=90M,capability=8.0,context=20M-40M,name=card", "--html", "estimate.html", "--", "sh", "-c",
        f"RANK=0 {loop} --steps 3 & RANK=1 {loop} --steps 3; wait", rc=None)
    data = data_of(pathlib.Path("estimate.html").read_text(encoding="utf-8"))
    found = data["estimate"]
    with chromium() as started:
        page = started.open("estimate.html", **LAPTOP)
        same("what comes first", page.value("[...document.querySelectorAll('main > section')][0].id"), "estimate")
        same("nav", page.value("document.querySelector('nav a').hash"), "#estimate")
        said = " ".join(page.value("document.getElementById('estimate').innerText").split())
        check(found["summary"][1:] in said and human(found["need_most_bytes"]) in said and human(found["from_device_bytes"]) in said, f"the answer: {said}")
        check(f"of {found['contexts']} processes: published" in said, f"how many processes have a context: {said}")
        same("ranks", page.value(cells("estimate", 0, 0)), [f"rank {process['rank']}, process {process['pid']}" for process in found["processes"]])
        same("their bytes", page.value(cells("estimate", 0, 2)), [human(process["device_peaks"][0]["bytes"]) for process in found["processes"]])
        same("red where it does not fit", page.value("document.querySelector('#estimate .verdict').classList.contains('bad')"), found["answer"] == "does not fit")
        for dark, size in ((False, LAPTOP), (True, LAPTOP), (True, PHONE), (False, PHONE)):
            page.look(dark=dark, **size)
            same(f"dark {dark}, {size['width']} wide: text without contrast", page.value(CONTRAST)["found"], [])
            same(f"{size['width']} wide: boxes", page.value(BOXES), [])
        same("errors", page.errors, [])


def controls_work_by_keyboard_and_mouse():
    with chromium() as started:
        page = started.open(written("bad"))
        data = data_of(pathlib.Path("bad.html").read_text(encoding="utf-8"))
        page.value("document.getElementById('flame-search').scrollIntoView()")
        page.value("document.getElementById('flame-search').focus()")
        page.type("unused_input")
        check(page.value("document.querySelectorAll('.frame.found').length") > 0, "the search marks no frame")
        page.value("document.querySelector('.frame').focus()")
        before = page.value("document.activeElement.getAttribute('aria-label')")
        page.key("ArrowDown")
        inner = page.value("document.activeElement.getAttribute('aria-label')")
        check(inner != before, "an arrow key does not move to the next frame")
        page.key("ArrowDown")
        page.key("Enter")
        same("zoomed", page.value("document.activeElement.offsetWidth >= document.querySelector('.frames').clientWidth - 2"), True)
        page.key("Escape")
        same("zoomed out", page.value("document.activeElement.getAttribute('aria-label')"), inner)

        page.value("document.querySelector('.regions svg').focus()")
        first = page.value("document.activeElement.getAttribute('aria-label')")
        page.key("ArrowRight")
        check(page.value("document.activeElement.getAttribute('aria-label')") != first, "an arrow key does not move in the map")

        table = "[...document.querySelectorAll('#anchors table')].find(table => document.getElementById(table.getAttribute('aria-labelledby')).innerText === 'Anchors')"
        rows = f"{table}.tBodies[0].rows.length"
        page.value(f"{table}.closest('.scroll').previousElementSibling.querySelector('input').focus()")
        page.type("SOT_CALL_1")
        same("rows that match", page.value(rows), 11)
        heads = "document.querySelectorAll('#sites thead th')"
        figures = f"[...document.querySelectorAll('#sites tbody tr')].map(row => row.cells[{{}}].innerText)"
        for word, wanted in (("descending", sorted((site["allocated"][1] for site in data["call_sites"] if site["allocated"][1]), reverse=True)),
                             ("ascending", sorted(site["allocated"][1] for site in data["call_sites"] if site["allocated"][1]))):
            number = page.value(f"[...{heads}].findIndex(head => head.innerText.startsWith('times'))")
            page.value(f"{heads}[{number}].querySelector('button').focus()")
            page.key("Enter")
            same("aria-sort", page.value(f"{heads}[{number}].getAttribute('aria-sort')"), word)
            same(f"sorted, {word}", page.value(figures.format(number)), [str(n) for n in wanted])

        sizes = [0, 1, 1023, 1024, 1152, 1408, 1664, 1920, 3538944, 10616832, 5 << 40, *(n * 7919 ** 2 for n in range(1, 40))]
        same("bytes", page.value(f"{sizes}.map(bytes)"), [human(size) for size in sizes])

        ground = page.value("getComputedStyle(document.body).backgroundColor")
        page.value("(choice => { choice.value = 'dark'; choice.dispatchEvent(new Event('change')); })(document.getElementById('theme'))")
        check(page.value("getComputedStyle(document.body).backgroundColor") != ground, "the switch does not change the theme")
        same("errors", page.errors, [])


def cells(section, table, column):
    """The texts of a column of a section's table, by their numbers."""
    return f"[...document.querySelectorAll('#{section} table')[{table}].tBodies[0].rows].map(row => row.cells[{column}].innerText)"


def sections_that_are_not_always_there_draw_and_sort():
    with chromium() as started:
        page = started.open(written("oom"))
        fall, = waterfalls_of(data_of(pathlib.Path("oom.html").read_text(encoding="utf-8")))
        wide = page.value("document.querySelector('.stackbar').clientWidth")
        pieces = page.value("[...document.querySelectorAll('.stackbar div')].map(piece => piece.getBoundingClientRect().width)")
        shown = [part["bytes"] for part in fall["parts"] if part["bytes"]]
        same("pieces of the bar", len(pieces), len(shown))
        for piece, size in zip(pieces, shown):
            check(abs(piece - size / fall["total_bytes"] * wide) < 4 * len(shown), f"a piece of {piece} of {wide} for {size} of {fall['total_bytes']} bytes")
        check(min(pieces) >= 1, f"a part is not to be seen: {pieces}")
        same("parts", page.value(cells("device", 0, 1)), [human(size) for size in shown])
        same("to the byte", page.value(cells("device", 0, 3)), [f"{size:,}" for size in shown])
        same("their sum", page.value("document.querySelector('#device tfoot').innerText").split("\t")[-1].strip(), f"{fall['total_bytes']:,}")
        page.value("document.querySelectorAll('#device thead button')[1].focus()")
        page.key("Enter")
        same("by size", page.value(cells("device", 0, 3)), [f"{size:,}" for size in sorted(shown, reverse=True)])
        page.close()

        page = started.open(written("oom"))
        kinds = data_of(pathlib.Path("oom.html").read_text(encoding="utf-8"))["classes"]
        same("kinds at the peak", page.value(cells("libraries", 1, 1)), [human(row["at_max_bytes"]) for row in sorted(kinds, key=lambda row: -row["at_max_bytes"])])
        page.close()

        page = started.open(written("used"))
        found = data_of(pathlib.Path("used.html").read_text(encoding="utf-8"))["patterns"]
        same("worst first", page.value(cells("patterns", 0, 1)), [human(row["saves_bytes"]) for row in found["findings"]])
        same("the peak without it", page.value(cells("patterns", 0, 3)), [human(row["max_left_bytes"]) for row in found["findings"]])
        same("what to do", page.value(cells("patterns", 0, 4)), [row["advice"] + (f" that of {row['memory_of']}." if row["memory_of"] else "") for row in found["findings"]])
        check("cut short" not in page.value("document.getElementById('patterns').innerText"), "a run that ended is said to be cut short")
        page.value("[...document.querySelectorAll('#patterns thead button')].find(head => head.innerText.startsWith('Pattern')).focus()")
        page.key("Enter")
        same("by pattern", page.value(cells("patterns", 0, 2)), sorted(row["pattern"].replace("_", " ") for row in found["findings"]))
        said = page.value("document.getElementById('answer').innerText")
        check(f"the peak would be {human(found['max_freed_after_last_use_bytes'])}" in said, f"the answer does not lead to what is held for nothing: {said}")
        said = page.value("document.getElementById('patterns').innerText")
        check(human(found["max_bytes"]) in said and human(found["max_freed_after_last_use_bytes"]) in said, f"the summary lacks the peaks: {said}")
        page.close()

        page = started.open(written("evict"))
        set_, = data_of(pathlib.Path("evict.html").read_text(encoding="utf-8"))["eviction"]
        same("steps", page.value(cells("eviction", 0, 0)), [f"{'unfinished' if not row['ended'] else 'warm-up' if at < set_['warm_up_count'] else 'step'} {row['step']}" for at, row in enumerate(set_["steps"])])
        same("moved in", page.value(cells("eviction", 0, 1)), [human(row["moved_in_bytes"]) for row in set_["steps"]])
        page.value("document.querySelectorAll('#eviction thead button')[2].focus()")
        page.key("Enter")
        same("by what moved out", page.value(cells("eviction", 0, 2)), [human(size) for size in sorted((row["moved_out_bytes"] for row in set_["steps"]), reverse=True)])
        check("3 calls failed" in page.value("document.getElementById('eviction').innerText"), "calls that were not made are not told")
        page.close()

        page = started.open(written("walked"))
        held = data_of(pathlib.Path("walked.html").read_text(encoding="utf-8"))["held_at_end"]["rows"]
        same("held by", page.value(cells("held", 0, 0)), [" and ".join(row["held_by"]) for row in sorted(held, key=lambda row: -row["bytes"])])
        same("their bytes", page.value(cells("held", 0, 1)), [human(row["bytes"]) for row in sorted(held, key=lambda row: -row["bytes"])])
        check("held by kept[*]" in page.value("document.querySelector('.keeper').innerText"), "the answer does not name a holder")
        page.close()

        page = started.open(written("grown"))
        check("Held by, when memory had grown" in page.value("document.querySelector('#held h3').innerText"), "the moment of a walk where memory had grown")
        keepers = page.value("[...document.querySelectorAll('.keeper')].map(line => line.innerText)")
        check(keepers and all(line.startswith("held by ") and "when memory had grown)" in line for line in keepers), f"the answer names no holder where memory had grown: {keepers}")
        page.close()

        page = started.open(written("shadow"))
        data = data_of(pathlib.Path("shadow.html").read_text(encoding="utf-8"))
        said = page.value("document.getElementById('answer').innerText")
        would = human(data["max_bytes"] - data["max_would_bytes"])
        check(f"Hints were in mode shadow, and saved nothing. They would make the highest use lower by {would}." in said, f"idle hints are not told: {said}")
        page.close()
        check("saved nothing" not in started.open(written("live")).value("document.getElementById('answer').innerText"), "hints that did something are said to be idle")

        tool("report", capture("bad"), "--from", "SOT_CALL_3", "--to", "SOT_CALL_9", "--html", "window.html")
        window = data_of(pathlib.Path("window.html").read_text(encoding="utf-8"))
        page = started.open("window.html")
        check(f"{human(window['peak_reserved_bytes'] - window['peak_live_bytes'])} fragmentation" in page.value("document.querySelector('.facts').innerText"), "the fragmentation of a window is another")
        check(page.value("document.getElementById('moment-title').innerText").endswith("of the window"), "a window is said to be the run")
        same("a window's table", page.value("document.querySelector('#moment tfoot').rows[0].cells[1].innerText"), human(window["peak_live_bytes"]))
        page.close()

        page = started.open(written("unsaid"))
        check(page.value("document.querySelectorAll('.step0, .step1').length") > 0, "no mark of a detected step") # those of no width have none
        said = page.value("document.querySelector('#answer .where').innerText")
        check(re.search("in detected step (1?[0-9]|20)$", said), f"the peak is in no detected step: {said}")
        check("They were detected" in page.value("document.getElementById('anchors').innerText"), "detected steps are not told from stated ones")


def text_has_contrast_and_controls_have_names():
    with chromium() as started:
        for form in ("oom", "live", "evict", "used", "kinds", "tensors"):
            page = started.open(written(form), **LAPTOP)
            page.value("document.querySelectorAll('.disclose').forEach(button => button.click())")
            page.value("document.getElementById('flame-whole').click()")
            for dark, size in ((False, LAPTOP), (True, LAPTOP), (True, PHONE), (False, PHONE)):
                page.look(dark=dark, **size)
                answer = page.value(CONTRAST)
                same(f"{form}, dark {dark}, {size['width']} wide: text without contrast", answer["found"], [])
                check(answer["seen"] > 100, f"only {answer['seen']} texts were looked at")
            page.value("document.querySelector('.where').style.color = '#7c7c7c'")
            check(page.value(CONTRAST)["found"], "text that was made pale is not found")
            page.close()
        page = started.open(written("oom"))
        tree = page.call("Accessibility.getFullAXTree")["nodes"]
        focusable = [node for node in tree if any(p["name"] == "focusable" and p["value"]["value"] for p in node.get("properties", []))]
        check(len(focusable) > 40, f"only {len(focusable)} controls were looked at")
        same("controls without a name", [node["role"]["value"] for node in focusable if not node.get("name", {}).get("value") and node["role"]["value"] != "RootWebArea"], [])
        same("fields without a label", page.value("[...document.querySelectorAll('input, select')].filter(field => field.labels.length === 0).map(field => field.id)"), [])
        places = []
        for _ in range(25):
            page.key("Tab")
            places.append(page.value("[...document.querySelectorAll('*')].indexOf(document.activeElement)"))
            outline = page.value("getComputedStyle(document.activeElement).outlineStyle")
            check(outline not in ("none", ""), f"no outline around {page.value('document.activeElement.outerHTML.slice(0, 120)')}")
        same("Tab goes forward", places, sorted(set(places)))


def no_other_script_runs():
    path = written("oom")
    text = path.read_text(encoding="utf-8")
    text = text.replace("<main>", "<main><script>window.alien = 1</script><img src='x' onerror='window.alien = 2'>", 1)
    path.write_text(text, encoding="utf-8")
    with chromium() as started:
        page = started.open(path)
        same("drawn", page.value("document.documentElement.dataset.ready"), "yes")
        same("an alien script", page.value("typeof window.alien"), "undefined")
        same("the policy's complaints", len([error for error in page.errors if "Content Security Policy" in error]), 3)


if __name__ == "__main__":
    main(pages_draw_on_a_laptop_and_a_phone, nothing_is_wider_than_its_box, words_of_anchors_are_not_covered, a_click_opens_the_stack_that_the_report_prints, the_timeline_zooms_pans_and_has_a_cursor, a_click_pins_the_block_below_the_pointer, two_fingers_zoom, kinds_and_tensors_are_told, a_range_has_its_own_table, the_search_goes_through_everything, two_runs_are_one_above_the_other, ranks_are_side_by_side, an_estimate_comes_first, controls_work_by_keyboard_and_mouse, sections_that_are_not_always_there_draw_and_sort, text_has_contrast_and_controls_have_names, no_other_script_runs)
