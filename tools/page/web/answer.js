/* SPDX-License-Identifier: MIT */
/* The first screen: why memory ran out and who held it, else how much was needed, when and for whom. */

const HOLDERS_SHOWN = 6;
const KEEPER_LEAST = 0.1; /* of what the line held: a holder of less is no answer */

/* A row of the list of holders: a bar, its bytes, who asked. */
function holderRow(data, {name, sum, stack, moment}, largest, total) {
    const bar = element("span", {class: stack ? "bar" : "bar rest", "aria-hidden": "true"});
    bar.style.setProperty("--share", Math.min(1, sum[0] / largest));
    const figures = [element("span", {class: "figure"}, bytes(sum[0])),
        element("span", {class: "share"}, percent(sum[0], total)),
        element("span", {class: "blocks"}, sum[1] === null ? "" : counted(sum[1], "block"))];
    const title = stack && stack.length > 0 ? disclosure(way(name), () => stackList(data, stack), (detail, button) => button.parentElement.append(detail)) : null;
    return element("li", null, bar, ...figures, title || element("div", {class: "title"}, way(name)), keeperLine(data, name, moment, sum[0]));
}

/* Who refers to the memory of that call site: by the walk through the program's objects of that moment, else by that which found most. */
function keeperLine(data, name, moment, held) {
    const rows = holdersOf(data, data.call_sites.findIndex(site => site.title === name)).filter(one => one.bytes >= KEEPER_LEAST * held);
    const row = rows.find(one => one.moment === moment) || rows[0];
    return row ? element("div", {class: "keeper"}, ...holderText(row)) : null;
}

function holderList(data, title, rows, total) {
    const largest = Math.max(...rows.filter(row => row.stack).map(row => row.sum[0]), 1);
    const list = element("ol", {class: "holders", "aria-label": title});
    for (const row of rows)
        list.append(holderRow(data, row, largest, total));
    return [element("h2", null, title), list];
}

/* "By kind: activations 3.45 MiB, parameters 743.75 KiB"; nothing where kinds are not known. */
function kindsLine(kinds) {
    if (!kinds || kinds.length === 0)
        return "";
    const rows = [...kinds].sort((a, b) => (a.kind === "unknown") - (b.kind === "unknown") || b.bytes - a.bytes);
    return element("p", {class: "kinds"}, element("b", null, "By kind:"), ...rows.flatMap((row, at) => [at ? ", " : " ", row.kind + " ", element("span", {class: "figure"}, bytes(row.bytes))]));
}

/* The first rows, and one for all others. */
function firstRows(rows, total) {
    const shown = rows.filter(row => row.sum[0] > 0).slice(0, HOLDERS_SHOWN);
    const rest = total - shown.reduce((sum, row) => sum + row.sum[0], 0);
    if (rest > 0)
        shown.push({name: "all others", sum: [rest, null], stack: null});
    return shown;
}

function lackSentence(data, failure) {
    if (data.segments)
        return segmentsLack(data, failure);
    const free = failure.pool_free_bytes;
    if (failure.lack === "whole")
        return bytes(free) + " were free in the pool, but in pieces: the largest was " + bytes(failure.largest_free_bytes) + ". This is fragmentation.";
    if (failure.lack === "here")
        return bytes(free) + " were free in the pool, but " + bytes(failure.pool_free_elsewhere_bytes) + " of it lie beside memory of the other allocation API.";
    if (free !== undefined && failure.requested_bytes > 0)
        return "The pool held " + bytes(failure.reserved_bytes) + " and had " + bytes(free) + " free: the program needs more than there is.";
    return "";
}

function failureText(data, failure) {
    const asked = failure.requested_bytes > 0 ? bytes(failure.requested_bytes) : "memory";
    const free = failure.free_bytes === null ? "" : " The device had " + bytes(failure.free_bytes)
        + (failure.total_bytes ? " of " + bytes(failure.total_bytes) : "") + " free.";
    const [first, ...callers] = failure.title.split(" < ");
    const {axis, failures} = data.timeline;
    const when = axis === "time" && failures.length ? time(failures[failures.length - 1]) + " after the start" : "";
    const where = [when, callers.length ? "called by " + callers.join(" < ") : "", failure.anchor ? "in " + instanceOf(failure.anchor, failure.instance) : "outside of all anchors",
        failure.call, "device " + failure.device];
    const all = failure.total_bytes ? [" ", element("a", {href: "#device"}, "Who had the rest?")] : [];
    return [element("h1", null, element("b", null, element("bdi", null, first)), " asked for ", element("b", {class: "figure"}, asked), ", and there was not enough."),
        element("p", {class: "where"}, element("bdi", null, where.filter(Boolean).join(" \u00b7 "))),
        element("p", {class: "lede"}, lackSentence(data, failure) + free, ...all)];
}

function answerOfFailure(data) {
    const failure = lastFailure(data);
    const times = data.oom_count > 1 ? ", " + data.oom_count + " times; this is the last one" : "";
    const parts = [element("p", {class: "verdict bad"}, (data.program.failed ? "Out of memory" : "Memory ran out, and the run went on") + times), ...failureText(data, failure)];
    let rows = (failure.live_at_oom || []).map(holder => ({name: holder.title, sum: [holder.bytes, holder.count], stack: holder.stack, moment: "failure"}));
    let total = rows.reduce((sum, row) => sum + row.sum[0], 0) + (failure.other_bytes || 0);
    if (rows.length === 0 && data.call_sites.some(site => site.failure)) {
        rows = data.call_sites.map(site => ({name: site.title, sum: site.failure, stack: site.stack, moment: "failure"})).sort((a, b) => b.sum[0] - a.sum[0]);
        total = rows.reduce((sum, row) => sum + row.sum[0], 0);
    }
    return total > 0 ? [...parts, ...holderList(data, "Who held the memory then", firstRows(rows, total), total), kindsLine(failure.kinds)] : parts;
}

/* "13.14 GiB", or "9.44 GiB, without hints 13.14 GiB". */
function peakOf(data) {
    const hinted = data.max_with_hints_bytes;
    return hinted === null || hinted >= data.max_bytes ? [element("b", {class: "figure"}, bytes(data.max_bytes))]
        : [element("b", {class: "figure"}, bytes(hinted)), ", without hints ", element("b", {class: "figure"}, bytes(data.max_bytes))];
}

/* Evict hints had the program run in less memory than was live. */
function hasMoved(data) {
    return data.eviction.some(set => !set.on_paper && set.total.moved_out_bytes > 0) && data.peak_reserved_bytes < data.peak_live_bytes;
}

function answerOfPeak(data) {
    const max = data.max;
    const where = max.anchor ? "in " + max.anchor : typeof max.step === "number" ? "in " + stepName(data, max.step) : "";
    const when = [max.time_ns ? time(max.time_ns) + " after the start" : "", where].filter(Boolean).join(" \u00b7 ");
    const total = data.max_bytes;
    const rows = data.call_sites.map(site => ({name: site.title, sum: site.peak || [0, 0], stack: site.stack, moment: "peak"}));
    const isAll = total === data.peak_live_bytes; /* else blocks from before the window are in the peak, and not in its Max */
    const parts = [element("p", {class: "verdict"}, "No request for memory failed"),
        element("h1", null, isAll ? "At its peak the run held " : "Of what the window allocated, the most that lived at once was ", ...peakOf(data),
            isAll && hasMoved(data) ? [", with at most ", element("b", {class: "figure"}, bytes(data.peak_reserved_bytes)), " on the device: evict hints kept the rest on the host"] : "", "."),
        element("p", {class: "where"}, element("bdi", null, when))];
    return total > 0 ? [...parts, ...holderList(data, "Who held the memory at the peak", firstRows(rows, total), total), kindsLine(data.kinds_at_max)] : parts;
}

function fact(word, figure, more) {
    return element("div", null, element("dt", null, word), element("dd", null, figure, more ? element("small", null, more) : null));
}

/* What was reserved at its peak beyond the peak of what was live, as `diff` counts it. With hints in a window that is not known. */
function fragmentationText(f) {
    const isHinted = f.max_with_hints_bytes !== null && f.max_with_hints_bytes < f.max_bytes;
    const beyond = f.peak_reserved_bytes - (isHinted ? f.max_with_hints_bytes : f.peak_live_bytes);
    return beyond > 0 && !(isHinted && f.max_bytes !== f.peak_live_bytes) ? "; " + bytes(beyond) + " fragmentation" : "";
}

function facts(data) {
    const f = data;
    const hinted = f.max_with_hints_bytes !== f.max_bytes ? bytes(f.max_with_hints_bytes) + " with hints" : "";
    return element("dl", {class: "facts"},
        fact("Peak live", bytes(f.peak_live_bytes), hinted),
        fact("Peak reserved", bytes(f.peak_reserved_bytes), !f.e ? "" : f.e > 1 ? "the rest of live was on the host" : (100 * f.e).toFixed(0) + " % used" + fragmentationText(f)),
        fact("Live at the end", bytes(f.remaining_bytes), ""),
        fact("Allocated", bytes(f.allocated_bytes), counted(f.allocated_count, "time")),
        fact("Freed", bytes(f.freed_bytes), counted(f.freed_count, "time")));
}

/* What makes a reader doubt the figures, or the hints. */
function doubts(data) {
    const used = data.hints.filter(hint => lateUses(hint) > 0);
    const parts = [];
    if (data.notes.some(note => note[0] === "damaged"))
        parts.push(element("p", {class: "verdict bad"}, "This capture is damaged: figures are wrong or incomplete."));
    if (used.length > 0)
        parts.push(element("p", {class: "verdict bad"}, "Hint ", element("bdi", null, used[0].id), ": memory was used after its release was due"
            + (used.length > 1 ? "; so it was with " + counted(used.length - 1, "more hint") : "") + "."));
    return parts;
}

/* Of a run that states its steps: that nothing grows, or why that is not known. */
function noGrowth(data) {
    const {origin, rows, growth_unknown: why, may_grow: may} = data.steps;
    if (origin !== "stated" || rows.length === 0)
        return null;
    return element("p", {class: "lede"}, why ? "Whether memory grows is not known: " + why + "." : may.length ? ["Whether memory grows is not known: ", way(titleOf(may[0])), " went from " + bytes(may[0].first_bytes) + " to " + bytes(may[0].last_bytes) + "."]
        : "Nothing grows from step to step.");
}

/* How to find out which objects keep what grows; "": they are known, or it is no program of Python. */
function keepersHint(data) {
    const isPython = data.notes.some(note => note[1].startsWith("Python stacks"));
    return isPython && heldWalks(data).length === 0 ? [" Which objects keep it was not looked at: with ", element("code", null, "KEDGE_HELD=oom,end"), " kedge looks at the end of a run, too."] : "";
}

/* What a program keeps with each round is why it fails in the end. */
function growth(data, who = "Memory") {
    if (data.steps.growers.length === 0)
        return noGrowth(data);
    const [first, ...others] = data.steps.growers;
    return element("p", {class: "lede"}, who + " grows from ", element("bdi", null, first.round), " to ", element("bdi", null, first.round), ": ", way(titleOf(first)), " held "
        + bytes(first.first_bytes) + " after the first and " + bytes(first.last_bytes) + " after the last one"
        + (first.rounds > 1 ? ", on average " + signedBytes(Math.round((first.last_bytes - first.first_bytes) / (first.rounds - 1))) + " each" : "")
        + (others.length ? "; " + others.length + " more " + (others.length === 1 ? "call site grows" : "call sites grow") : "") + ". ",
    document.getElementById("anchors") ? element("a", {href: "#anchors"}, "Show") : "", keepersHint(data));
}

/* That hints did nothing, which their file does not show. */
function idleHints(data) {
    const {max_bytes: most, max_with_hints_bytes: hinted, max_would_bytes: would, program} = data;
    if (data.hints.length === 0 || would === null || hinted < most || hasMoved(data))
        return null;
    const isRefused = program.hints_mode === "shadow" && data.settings.KEDGE_HINTS_MODE === "live";
    return element("p", {class: "lede"}, "Hints were in mode " + program.hints_mode + ", and saved nothing" + (isRefused ? ": live needs a receipt of kedge verify" : "") + "."
        + (would < most ? " They would make the highest use lower by " + bytes(most - would) + "." : "") + " ", element("a", {href: "#hints"}, "Show"));
}

/* What could be mended, where it is worth a look. A run that was cut short would have used more of its memory again. */
function waste(data) {
    const found = data.patterns;
    const saved = found.recorded && found.max_bytes !== null ? found.max_bytes - found.max_freed_after_last_use_bytes : 0;
    if (saved === 0 || saved < found.max_bytes / 20 || !data.program.clean || data.program.failed)
        return null;
    return element("p", {class: "lede"}, "Memory is held after its last use. If each block were freed right then, the peak would be " + bytes(found.max_freed_after_last_use_bytes)
        + ", " + bytes(saved) + " less. ", element("a", {href: "#patterns"}, "Show"));
}

function drawAnswer(data) {
    const nothing = data.allocated_count === 0 && data.ooms.length === 0;
    const parts = nothing ? [element("h1", null, "The run allocated no device memory that kedge saw.")]
        : data.ooms.length > 0 ? answerOfFailure(data) : answerOfPeak(data);
    const program = element("p", {class: "command"}, element("code", null, commandOf(data.program)), " ",
        element("span", {class: "muted"}, data.program.ended));
    const window = data.window.from || data.window.to
        ? element("p", {class: "note"}, "Figures are of the window from " + (data.window.from || "the start") + " to " + (data.window.to || "the end") + ".") : null;
    const missing = data.complete ? null : element("p", {class: "note"}, data.by_places
        ? "Events are missing. Totals and call sites are the run's own sums; timeline, map and anchors show what is on record."
        : "Events are missing in this capture. All figures are of what is on record.");
    const first = data.summary.length > 0 ? element("p", {class: "lede"}, element("b", null, element("bdi", null, data.summary[0]))) : null;
    document.getElementById("answer").append(program, ...doubts(data), ...[first].filter(Boolean), ...parts, facts(data), ...[tensorsNote(data), idleHints(data), growth(data), waste(data), window, missing].filter(Boolean));
}
