/* SPDX-License-Identifier: MIT */
/* What went out to the host and came back in, step by step, and what stays on the device. */

function evictSummary(set) {
    const total = set.total;
    const moved = set.on_paper ? "Nothing was moved: this is what the hint would have moved. In all " : "In all steps ";
    const text = moved + bytes(total.moved_in_bytes) + " in and " + bytes(total.moved_out_bytes) + " out; calls waited " + time(1e6 * total.stall_ms) + " for it. The most that was in at once is "
        + bytes(total.in_at_most_bytes) + ".";
    const middle = set.steps.find(step => step.step === set.median_step);
    return text + (middle ? " A step in the middle (" + middle.step + ") moved " + bytes(middle.moved_in_bytes) + " in and " + bytes(middle.moved_out_bytes) + " out." : "");
}

function drawShort(parent, set) {
    const [most] = set.not_made;
    if (!most)
        return;
    const where = most.anchor ? "in " + instanceOf(most.anchor, most.instance) : "outside of all anchors";
    parent.append(element("p", {class: "verdict bad"}, counted(1 + (set.not_made_left_out || 0), "call") + (set.on_paper ? " would have failed" : " failed") + ": out of memory under the cap"),
        element("p", null, "The largest needed " + bytes(most.needed_bytes) + " at once, and " + bytes(most.room_bytes) + " could be had: ", element("bdi", null, where), "."));
}

function durationColumn(label, value) {
    return {label, figure: true, value, text: row => time(1e6 * value(row))};
}

/* The first steps go without an order of use; a set that never had one has no others. */
function stepLabel(set, row, at) {
    const leftOut = set.steps_left_out || 0;
    const number = at < set.steps.length / 2 ? at : at + leftOut;
    const isWarmUp = number < set.warm_up_count && set.warm_up_count < set.steps.length + leftOut;
    return !row.ended ? "unfinished" : isWarmUp ? "warm-up" : "step";
}

function drawMoves(parent, set) {
    if (set.steps_left_out)
        parent.append(element("p", {class: "note"}, "These are the first and the last of " + counted(set.steps.length + set.steps_left_out, "step") + " on record: " + count(set.steps.length) + " of them."));
    const rows = set.steps.map((row, at) => ({...row, label: stepLabel(set, row, at)}));
    new Table(parent, {caption: "Step by step", rows, sorted: 0, rising: true, columns: [
        {label: "Step", narrow: true, value: row => row.step, text: row => row.label + " " + row.step}, bytesColumn("Moved in", row => row.moved_in_bytes), bytesColumn("Moved out", row => row.moved_out_bytes),
        bytesColumn("Dropped, not copied", row => row.dropped_bytes), bytesColumn("Must come in", row => row.in_at_least_bytes), bytesColumn("In at once", row => row.in_at_most_bytes),
        bytesColumn("Cap", row => row.cap_bytes || null), bytesColumn("All blocks", row => row.block_bytes), countColumn("Calls that waited", row => row.wait_count),
        durationColumn("Waiting", row => row.stall_ms), durationColumn("Moving", row => row.evict_ms), durationColumn("Deciding", row => row.layout_ms)]});
}

function drawSet(data, parent, set) {
    parent.append(element("h3", null, "Hint ", element("bdi", null, set.id), " (" + set.mode + ") on device " + set.device));
    drawShort(parent, set);
    if (set.steps.length > 0) {
        parent.append(element("p", null, evictSummary(set)));
        drawMoves(parent, set);
    }
    partNote(parent, set.kept, set.kept_left_out, "call site", "with most bytes");
    if (set.kept.length > 0)
        new Table(parent, {caption: "Blocks that stay on the device", rows: set.kept, sorted: 2, ...withStacks(data), columns: [
            titleColumn("Call site"), textColumn("Why", row => row.reason), bytesColumn("Bytes", row => row.bytes), countColumn("Blocks", row => row.count)]});
}

function drawEviction(data) {
    if (data.eviction.length === 0) {
        dropSection("eviction");
        return;
    }
    const parent = document.getElementById("eviction");
    parent.append(element("p", {class: "lede"}, "Evict hints move memory that is not in use to the host, and back before its next use. This is of the whole run."));
    partNote(parent, data.eviction, data.eviction_left_out, "set", "that come first");
    for (const set of data.eviction)
        drawSet(data, parent, set);
}
