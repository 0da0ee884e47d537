/* SPDX-License-Identifier: MIT */
/* Which objects of a Python program refer to its memory, beside the line that allocated it. */

/* The walks that the capture has, in order of time. */
function heldWalks(data) {
    const walks = [[data.held_after_step, "after a step"], [data.held_when_grown, "when memory had grown"], [data.held_as_asked, "when kedge held asked"], [lastFailure(data)?.held, "when memory ran out"], [data.held_at_end, "at the end"]];
    return walks.filter(([walk]) => walk && walk.rows.length > 0).map(([walk, moment]) => ({...walk, moment}));
}

/* Of a program without Python: its memory was searched for addresses. */
function isScan(walk) {
    return walk.rows.some(row => row.kind === "memory");
}

function heldDoubts(walk) {
    if (isScan(walk))
        return walk.complete ? [] : ["Not all memory was read: other variables may hold the same."];
    return [walk.complete ? null : "The walk came to its bound: other objects may hold the same.", walk.graphs_read ? null : "Graphs of autograd were not read."].filter(Boolean);
}

function drawHeld(data) {
    const walks = heldWalks(data);
    if (walks.length === 0) {
        dropSection("held");
        return;
    }
    const parent = document.getElementById("held");
    for (const walk of walks) {
        const known = walk.rows.reduce((sum, row) => sum + row.bytes, 0);
        parent.append(element("p", {class: "lede"}, "Of the " + bytes(walk.live_bytes) + " that were live " + walk.moment + ", " + bytes(known) + " are listed, after a walk through " + counted(walk.object_count, isScan(walk) ? "malloc block" : "Python object")
            + " in " + time(1e6 * walk.walk_ms) + "."), ...heldDoubts(walk).map(text => element("p", {class: "note"}, text)));
        partNote(parent, walk.rows, walk.rows_left_out, "holder", "with most bytes");
        new Table(parent, {caption: "Held by, " + walk.moment, rows: walk.rows, sorted: 1, ...withStacks(data), columns: [
            textColumn("Held by", row => row.held_by.join(" and "), row => element("div", null, ...row.held_by.flatMap((holder, at) => [at ? element("span", {class: "muted"}, " and ") : null, element("bdi", null, holder)]))),
            bytesColumn("Bytes", row => row.bytes), countColumn("Blocks", row => row.count), textColumn("What it is", row => row.kind),
            textColumn("Allocated by", row => row.title + (row.place_count > 1 ? ", and " + counted(row.place_count - 1, "other place") : ""), row => element("div", null, way(row.title), row.place_count > 1 ? ", and " + counted(row.place_count - 1, "other place") : ""))]});
    }
}
