/* SPDX-License-Identifier: MIT */
/* Memory that is held for nothing, as the uses of blocks tell it, and what to do about it. */

const PATTERN_NOTES = {
    leak: "The run did not end by itself: what is never freed may only be not freed yet.",
    dead_write: "A dead write costs time, not memory."};

function patternSummary(found) {
    if (found.judged_count === 0)
        return "Of no block it is known how it was used.";
    if (found.max_bytes === null)
        return "Events of the run are missing. These are the uses of " + counted(found.judged_count, "block") + " that are on record.";
    const then = found.max_freed_after_last_use_bytes;
    const saved = found.max_bytes - then;
    const isSeen = bytes(then) !== bytes(found.max_bytes);
    return "The uses of " + counted(found.judged_count, "block") + " are known. At the peak the run held " + bytes(found.max_bytes) + ". If each block had been freed right after its last use, "
        + (isSeen ? "it would have been " + bytes(then) + ": " + bytes(saved) + " less." : "it would have been " + (saved > 0 ? "lower by " + bytes(saved) + " only." : "the same."));
}

/* What weakens the findings. */
function patternDoubts(found) {
    const says = key => found.by_pattern.some(row => row.pattern === key && row.findings > 0);
    const texts = found.not_judged.map(doubt => counted(doubt.count, "block") + (doubt.count === 1 ? " is" : " are") + " not judged: " + doubt.why + ".");
    if (found.unseen_calls > 0)
        texts.push("The arguments of " + counted(found.unseen_calls, "call") + " are not known.");
    if (says("leak") && !found.ended)
        texts.push(PATTERN_NOTES.leak);
    if (says("dead_write"))
        texts.push(PATTERN_NOTES.dead_write);
    return texts.map(text => element("p", {class: "note"}, text));
}

function drawKinds(parent, found) {
    const rows = found.by_pattern.filter(row => row.findings > 0 || !row.recorded);
    new Table(parent, {caption: "By pattern", rows, filter: false, sorted: 1, columns: [
        {label: "Pattern", narrow: true, text: row => row.name}, {label: "Saves if all are mended", figure: true, value: row => row.saves_bytes, text: row => row.recorded ? bytes(row.saves_bytes) : "not recorded"},
        countColumn("Call sites", row => row.findings), countColumn("Blocks", row => row.blocks[1]), bytesColumn("Bytes", row => row.blocks[0])]});
}

function drawFindings(data, parent, found) {
    const names = Object.fromEntries(found.by_pattern.map(row => [row.pattern, row.name]));
    partNote(parent, found.findings, found.finding_count, "finding", "that save most");
    new Table(parent, {caption: "What each finding saves at the peak by itself: savings do not add up", sorted: 1, rows: found.findings, columns: [
        textColumn("Call site", row => row.name, siteCell(data)), bytesColumn("Saves", row => row.saves_bytes),
        textColumn("Pattern", row => names[row.pattern], row => element("span", {class: "figure"}, names[row.pattern])), bytesColumn("Max without it", row => row.max_left_bytes),
        textColumn("What to do", row => row.advice, row => element("bdi", {class: "advice"}, row.advice)),
        countColumn("Blocks", row => row.blocks[1]), bytesColumn("Bytes", row => row.blocks[0]), bytesColumn("At Max", row => row.at_max_bytes),
        {label: "Longest", figure: true, value: row => row.longest_ns, text: row => row.longest_ns ? time(row.longest_ns) : ""},
        textColumn("Anchor", row => row.anchor || "")]});
}

function drawPatterns(data) {
    const found = data.patterns;
    if (!found || found.judged_count + found.not_judged.length === 0) {
        dropSection("patterns");
        return;
    }
    const parent = document.getElementById("patterns");
    if (data.program.failed)
        parent.append(element("p", {class: "lede"}, element("b", null, "The run was cut short when memory ran out. "), "What it would have used later, such as activations for the backward pass, "
            + "counts as not used any more. A run that comes to its end tells more."));
    parent.append(element("p", {class: "lede"}, patternSummary(found)), ...patternDoubts(found));
    if (found.finding_count === 0) {
        parent.append(element("p", null, "Nothing was held for nothing."));
        return;
    }
    drawFindings(data, parent, found);
    drawKinds(parent, found);
}
