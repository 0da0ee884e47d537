/* SPDX-License-Identifier: MIT */
/* What went out to the host and came back in, step by step, and what stays on the device. */

function evictSummary(set) {
    const total = set.total;
    const moved = set.on_paper ? "Nothing was moved: this is what the hint would have moved. In all " : "In all steps ";
    const text = moved + bytes(total.in[0]) + " in and " + bytes(total.out[0]) + " out; calls waited " + time(total.stall_ns) + " for it. The most that was in at once is "
        + bytes(total.in_at_most_bytes) + ".";
    const middle = set.steps.find(step => step.step === set.median_step);
    return text + (middle ? " A step in the middle (" + middle.step + ") moved " + bytes(middle.in[0]) + " in and " + bytes(middle.out[0]) + " out." : "");
}

function drawShort(parent, set) {
    const most = set.not_made;
    if (!most)
        return;
    const where = most.anchor ? "in " + most.anchor + (most.instance ? " (" + (most.instance + 1) + ")" : "") : "outside of all anchors";
    parent.append(element("p", {class: "verdict bad"}, counted(set.not_made_count, "call") + (set.on_paper ? " would have failed" : " failed") + ": out of memory under the cap"),
        element("p", null, "The largest needed " + bytes(most.needed_bytes) + " at once, and " + bytes(most.room_bytes) + " could be had: ", element("bdi", null, where), "."));
}

function durationColumn(label, value) {
    return {label, figure: true, value, text: row => time(value(row))};
}

function drawMoves(parent, set) {
    if (set.step_count > set.steps.length)
        parent.append(element("p", {class: "note"}, "These are the first and the last of " + counted(set.step_count, "step") + " on record: " + count(set.steps.length) + " of them."));
    new Table(parent, {caption: "Step by step", rows: set.steps, sorted: 0, rising: true, columns: [
        {label: "Step", narrow: true, value: row => row.step, text: row => row.label + " " + row.step}, bytesColumn("Moved in", row => row.in[0]), bytesColumn("Moved out", row => row.out[0]),
        bytesColumn("Dropped, not copied", row => row.dropped_bytes), bytesColumn("Must come in", row => row.in_at_least_bytes), bytesColumn("In at once", row => row.in_at_most_bytes),
        bytesColumn("Cap", row => row.cap_bytes), bytesColumn("All blocks", row => row.blocks[0]), countColumn("Calls that waited", row => row.wait_count),
        durationColumn("Waiting", row => row.stall_ns), durationColumn("Moving", row => row.evict_ns), durationColumn("Deciding", row => row.layout_ns)]});
}

function drawSet(data, parent, set) {
    parent.append(element("h3", null, "Hint ", element("bdi", null, set.id), " (" + set.mode + ") on device " + set.device));
    drawShort(parent, set);
    if (set.steps.length > 0) {
        parent.append(element("p", null, evictSummary(set)));
        drawMoves(parent, set);
    }
    partNote(parent, set.kept, set.kept_count, "call site", "with most bytes");
    if (set.kept.length > 0)
        new Table(parent, {caption: "Blocks that stay on the device", rows: set.kept, sorted: 2, columns: [
            textColumn("Call site", row => row.name, siteCell(data)), textColumn("Why", row => row.why), bytesColumn("Bytes", row => row.blocks[0]), countColumn("Blocks", row => row.blocks[1])]});
}

function drawEviction(data) {
    if (data.eviction.length === 0) {
        dropSection("eviction");
        return;
    }
    const parent = document.getElementById("eviction");
    parent.append(element("p", {class: "lede"}, "Evict hints move memory that is not in use to the host, and back before its next use. This is of the whole run."));
    partNote(parent, data.eviction, data.eviction_count, "set", "that come first");
    for (const set of data.eviction)
        drawSet(data, parent, set);
}
