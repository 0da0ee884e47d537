/* SPDX-License-Identifier: MIT */
/* Memory that is held for nothing, as the uses of blocks tell it, and what to do about it. */

const DOUBTS = {
    not_watched: "their uses were not recorded",
    lost: "their uses could not be recorded",
    shown: "they were shown to what uses them unseen",
    unseen: "they lived while a call was made whose arguments are not known"};

const PATTERN_NOTES = {
    leak: "The run did not end by itself: what is never freed may only be not freed yet.",
    dead_write: "A dead write costs time, not memory."};

function patternName(row) {
    return row.pattern.replace("_", " ");
}

function adviceOf(row) {
    return row.advice + (row.memory_of === null ? "" : " that of " + row.memory_of + ".");
}

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
function patternDoubts(data, found) {
    const says = key => found.by_pattern.some(row => row.pattern === key && row.findings > 0);
    const texts = Object.entries(found.not_judged).filter(([, blocks]) => blocks > 0)
        .map(([why, blocks]) => counted(blocks, "block") + (blocks === 1 ? " is" : " are") + " not judged: " + DOUBTS[why] + ".");
    if (found.unseen_calls > 0)
        texts.push("The arguments of " + counted(found.unseen_calls, "call") + " are not known.");
    if (says("leak") && !data.program.clean)
        texts.push(PATTERN_NOTES.leak);
    if (says("dead_write"))
        texts.push(PATTERN_NOTES.dead_write);
    return texts.map(text => element("p", {class: "note"}, text));
}

function drawKinds(parent, found) {
    const rows = found.by_pattern.filter(row => row.findings > 0 || !row.recorded);
    new Table(parent, {caption: "By pattern", rows, filter: false, sorted: 1, columns: [
        {label: "Pattern", narrow: true, text: patternName}, {label: "Saves if all are mended", figure: true, value: row => row.saves_bytes, text: row => row.recorded ? bytes(row.saves_bytes) : "not recorded"},
        countColumn("Call sites", row => row.findings), countColumn("Blocks", row => row.count), bytesColumn("Bytes", row => row.bytes)]});
}

function drawFindings(data, parent, found) {
    partNote(parent, found.findings, found.findings_left_out, "finding", "that save most");
    new Table(parent, {caption: "What each finding saves at the peak by itself: savings do not add up", sorted: 1, rows: found.findings, ...withStacks(data), columns: [
        titleColumn("Call site"), bytesColumn("Saves", row => row.saves_bytes),
        textColumn("Pattern", patternName, row => element("span", {class: "figure"}, patternName(row))), bytesColumn("Max without it", row => row.max_left_bytes),
        textColumn("What to do", adviceOf, row => element("bdi", {class: "advice"}, adviceOf(row))),
        countColumn("Blocks", row => row.count), bytesColumn("Bytes", row => row.bytes), bytesColumn("At Max", row => row.at_max_bytes),
        {label: "Longest", figure: true, value: row => row.longest_ns, text: row => row.longest_ns ? time(row.longest_ns) : ""},
        textColumn("Anchor", row => instanceOf(row.anchor || "", row.instance), row => brokenName(instanceOf(row.anchor || "", row.instance)))]});
}

function drawPatterns(data) {
    const found = data.patterns;
    if (!found.recorded || found.judged_count + Object.values(found.not_judged).reduce((sum, blocks) => sum + blocks) === 0) {
        dropSection("patterns");
        return;
    }
    const parent = document.getElementById("patterns");
    if (data.program.failed)
        parent.append(element("p", {class: "lede"}, element("b", null, "The run was cut short when memory ran out. "), "What it would have used later, such as activations for the backward pass, "
            + "counts as not used any more. A run that comes to its end tells more."));
    parent.append(element("p", {class: "lede"}, patternSummary(found)), ...patternDoubts(data, found));
    if (found.findings.length === 0) {
        parent.append(element("p", null, "Nothing was held for nothing."));
        return;
    }
    drawFindings(data, parent, found);
    drawKinds(parent, found);
}
