/* SPDX-License-Identifier: MIT */
/* The page of `kedge diff GOOD BAD --html`: the two peaks and why they differ, both timelines, what each call site held, what is freed late. */

const SIDES = ["good", "bad"];
/* What a cause is called where bad has more, and where it has less (explain_print.c). */
const CAUSES = {kept: ["kept until the end, not in good", "kept until the end in good, not in bad"], late: ["freed later than in good", "freed earlier than in good"],
    larger: ["as many blocks, larger ones", "as many blocks, smaller ones"], more: ["more allocations than in good", "fewer allocations than in good"],
    lone: ["allocated in one run only", "allocated in one run only"], order: ["another order", "another order"]};

function peakText(figures) {
    return (figures.live_is_exact ? "" : "at least ") + bytes(figures.peak_live_bytes);
}

function diffHead(diff) {
    const {good, bad} = diff.figures;
    const change = diff.difference.peak_live_bytes;
    const known = good.peak_live_bytes !== null && bad.peak_live_bytes !== null;
    const how = !known ? "" : change === 0 ? ": they are equal" : ": " + bytes(Math.abs(change)) + (good.peak_live_bytes ? " (" + percent(Math.abs(change), good.peak_live_bytes).replace("\u00a0", " ") + ")" : "")
        + (change < 0 ? " lower" : " higher") + " in bad";
    return [element("h1", null, "Peak live is ", element("b", {class: "figure"}, peakText(bad)), " in bad and ", element("b", {class: "figure"}, peakText(good)), " in good" + how + "."),
        element("p", {class: "where"}, "Peak reserved is " + bytes(bad.peak_reserved_bytes) + " in bad and " + bytes(good.peak_reserved_bytes) + " in good"
            + (diff.difference.peak_reserved_bytes === null || change === null ? "." : "; of the difference " + signedBytes(change) + " is live and " + signedBytes(diff.difference.fragmentation_bytes) + " fragmentation."))];
}

function causeRow(data, row, largest) {
    const bar = element("span", {class: "bar", "aria-hidden": "true"});
    bar.style.setProperty("--share", Math.min(1, Math.abs(row.bytes) / largest));
    const name = (row.run === "good" ? "good: " : "") + titleOf(row);
    return element("li", null, bar, element("span", {class: "figure"}, signedBytes(row.bytes)), element("span", {class: "share"}, ""), element("span", {class: "blocks"}, counted(Math.abs(row.count), "block")),
        row.stack.length ? disclosure(way(name), () => stackList(data, row.stack), (detail, button) => button.parentElement.append(detail)) : element("div", {class: "title"}, way(name)));
}

function drawCauses(data, parent) {
    const {difference} = data.diff;
    const causes = (difference.causes || []).filter(cause => cause.bytes !== 0 || cause.rows.length > 0);
    if (difference.peak_live_bytes === null)
        parent.append(element("p", {class: "lede"}, "Why the peaks differ is not known."));
    for (const cause of causes) {
        const largest = Math.max(...cause.rows.map(row => Math.abs(row.bytes)), 1);
        const list = element("ol", {class: "holders"});
        let shown = 0;
        const more = element("button", {type: "button", class: "more"});
        const show = to => {
            list.append(...cause.rows.slice(shown, to).map(row => causeRow(data, row, largest)));
            shown = Math.min(to, cause.rows.length);
            more.hidden = shown >= cause.rows.length;
            more.textContent = "Show all " + count(cause.rows.length);
        };
        more.addEventListener("click", () => show(cause.rows.length));
        show(HOLDERS_SHOWN);
        parent.append(element("h2", null, signedBytes(cause.bytes) + " " + CAUSES[cause.cause][cause.bytes < 0 ? 1 : 0]), list, more);
    }
    if (difference.not_explained_bytes !== null)
        parent.append(element("p", {class: "note"}, (difference.not_explained_bytes === 0 ? "This is all of the difference." : signedBytes(difference.not_explained_bytes) + " is not explained.") + (difference.missing ? " Events are missing: " + difference.missing + "." : "")));
}

/* What each call site held at the peaks of both runs, by its title. */
function drawPeaks(data) {
    const rows = new Map();
    for (const [at, run] of data.runs.entries())
        for (const site of run.call_sites) {
            const row = rows.get(site.title) || {title: site.title, bytes: [0, 0], allocated: [0, 0], stack: site.stack};
            row.bytes[at] += site.peak ? site.peak[0] || 0 : 0;
            row.allocated[at] += site.allocated[1] || 0;
            rows.set(site.title, row);
        }
    const table = newSection("peaks", "Both peaks");
    const shown = [...rows.values()].filter(row => row.bytes[0] || row.bytes[1] || row.allocated[0] || row.allocated[1]);
    new Table(table, {caption: "What each call site held at the peak of its run", rows: shown, sorted: 3, ...withStacks(data), columns: [titleColumn("Call site"),
        bytesColumn("In good", row => row.bytes[0]), bytesColumn("In bad", row => row.bytes[1]), {label: "Change", figure: true, value: row => row.bytes[1] - row.bytes[0], text: row => signedBytes(row.bytes[1] - row.bytes[0])},
        countColumn("Allocations in good", row => row.allocated[0]), countColumn("Allocations in bad", row => row.allocated[1])]});
}

function anchorsText(row) {
    const names = row.anchors.filter((name, at) => row.anchors.indexOf(name) === at).map(name => name || "no anchor");
    return names.slice(0, 3).join(", ") + (names.length > 3 || row.anchors_left_out ? ", ..." : "");
}

function drawGroups(data, parent, caption, groups, leftOut) {
    if (groups.length === 0)
        return;
    partNote(parent, groups, leftOut, "group", "with most bytes");
    new Table(parent, {caption, rows: groups, sorted: 1, ...withStacks(data), columns: [titleColumn("Call site"), bytesColumn("Bytes", row => row.bytes), countColumn("Blocks", row => row.count),
        textColumn("Sizes", row => row.sizes.slice(0, 3).map(bytes).join(", ") + (row.sizes.length > 3 || row.sizes_left_out ? ", ..." : "")), textColumn("Anchors", anchorsText)]});
}

function drawLate(data) {
    const {diff} = data;
    const parent = newSection("late", "Late frees");
    parent.append(element("p", {class: "lede"}, diff.late_frees === 0 && diff.never_freed === 0 && diff.extra === 0 ? "Bad frees nothing later than good" + (diff.complete ? "." : ", as far as events are on record.")
        : [[diff.late_frees, diff.late_bytes, "that bad frees later than good, or never"], [diff.never_freed, diff.never_freed_bytes, "outside of all anchors that good frees, and bad does not"],
            [diff.extra, diff.extra_bytes, "that only bad allocates, and keeps"]].filter(([blocks]) => blocks > 0).map(([blocks, size, what]) => counted(blocks, "block") + " of " + bytes(size) + " " + what).join("; ") + "."));
    drawGroups(data, parent, "Freed before the end of its anchor in good, later or never in bad", diff.groups, diff.groups_left_out);
    drawGroups(data, parent, "Never freed in bad", diff.never_freed_groups, diff.never_freed_groups_left_out);
    drawGroups(data, parent, "Only bad allocates and keeps", diff.extra_groups, diff.extra_groups_left_out);
}

/* What can be done about it without a change of the program. */
function freedByHints(diff) {
    return diff.late_frees === 0 ? null : element("p", {class: "lede"}, "What bad frees late can be freed as early as good does: ", element("code", null, "kedge suggest --good " + baseName(diff.good) + " --bad " + baseName(diff.bad) + " -o hints.yaml"),
        " writes hints for it. ", element("a", {href: "#late"}, "Show"));
}

function drawDiff(data) {
    const {diff} = data;
    document.title = "kedge: " + baseName(diff.good) + " and " + baseName(diff.bad);
    keepSections(["#answer", "#timeline"]);
    document.getElementById("timeline-title").textContent = "Memory over both runs";
    const answer = document.getElementById("answer");
    for (const [at, run] of data.runs.entries())
        answer.append(element("p", {class: "command"}, element("code", null, SIDES[at] + ": " + commandOf(run.program)), " ", element("span", {class: "muted"}, run.program.ended)));
    answer.append(...diffHead(diff));
    drawCauses(data, answer);
    const bad = runData(data, 1);
    if (bad.summary.length > 0)
        answer.append(element("p", {class: "lede"}, "In bad: ", element("b", null, element("bdi", null, bad.summary[0])), "."));
    answer.append(...[bad.steps.growers.length ? growth(bad, "Memory of bad") : null, freedByHints(diff)].filter(Boolean));
    drawSeveral(data, data.runs.map((run, at) => SIDES[at] + ": " + baseName(run.capture)), false);
    drawPeaks(data);
    drawLate(data);
    new Search({frames: data.frames, flame: [], notes: []}, null);
}
