/* SPDX-License-Identifier: MIT */
/* Where all of a device's memory was at one moment: parts that add up to it, as one bar and a table. */

const OTHER_COLOURS = [3, 5, 6]; /* of libraries, in turn */
const PART_COLOURS = {outside: "rest", graphs: "6", framework_pool: "1", framework_free: "2", kedge: "0", kedge_live_requested: "0", kedge_live_rounding: "4",
    kedge_free: "2", free: "free"};

function momentOf(waterfall, hasDevices) {
    return (waterfall.moment === "failure" ? "when memory ran out" : "when kedge looked last") + (hasDevices ? ", device " + waterfall.device : "");
}

/* What is live in PyTorch's own allocator, where its record of tensors tells it, is a part of its own. */
function splitPool(data, waterfall, parts) {
    const at = parts.findIndex(part => part.part === "framework_pool");
    if (!data.segments || at < 0)
        return;
    const leaf = data.timeline.leaves.count ? new Run(data) : null;
    const live = waterfall.moment === "failure" ? lastFailure(data).live_bytes : leaf ? leaf.live[leaf.leafAt(1e6 * waterfall.at_ms)] : null;
    const pool = parts[at];
    if (live === null || live > pool.bytes)
        return;
    parts.splice(at, 1, {...pool, title: "tensors in PyTorch's own pool", bytes: live}, {part: "framework_free", name: pool.name, title: "free in PyTorch's own pool", bytes: pool.bytes - live});
}

/* Each part with its colour; what is left of the libraries has a part of its own. */
function partsOf(data, waterfall) {
    const others = waterfall.other_libraries;
    const parts = waterfall.parts.map(part => ({...part}));
    const behind = parts.findLastIndex(part => part.part === "library") + 1;
    if (others)
        parts.splice(behind, 0, {part: "library", name: null, title: counted(others.count, "more library") + " past kedge's pool", bytes: others.bytes});
    splitPool(data, waterfall, parts);
    let libraries = 0;
    parts.forEach((part, at) => {
        part.order = at;
        part.colour = "colour-" + (PART_COLOURS[part.part] || OTHER_COLOURS[libraries++ % OTHER_COLOURS.length]);
    });
    return parts;
}

function deviceBar(waterfall, parts) {
    const bar = element("div", {class: "stackbar", role: "img", "aria-label": "All of the device's " + bytes(waterfall.total_bytes) + ": "
        + parts.filter(part => part.bytes > 0).map(part => bytes(part.bytes) + " " + part.title).join("; ")});
    for (const part of parts.filter(row => row.bytes > 0)) {
        const piece = element("div", {class: part.colour, title: part.title + ": " + bytes(part.bytes)});
        piece.style.flexGrow = String(part.bytes / waterfall.total_bytes);
        bar.append(piece);
    }
    return bar;
}

function deviceTable(parent, waterfall, parts) {
    const total = waterfall.total_bytes;
    new Table(parent, {caption: "Parts that add up to the device's " + bytes(total) + ", to the byte", rows: parts.filter(part => part.bytes > 0), filter: false,
        columns: [
            {label: "Part", narrow: true, text: row => row.title, value: row => -row.order,
                cell: row => element("span", {class: "part"}, element("span", {class: "swatch " + row.colour, "aria-hidden": "true"}), element("bdi", {title: row.name}, row.title))},
            bytesColumn("Size", row => row.bytes), {label: "Share", figure: true, value: row => row.bytes, text: row => percent(row.bytes, total)},
            {...countColumn("In bytes", row => row.bytes), wide: true}],
        foot: ["Total", bytes(total), percent(total, total), count(total)]});
}

function drawWaterfall(data, parent, waterfall) {
    const parts = partsOf(data, waterfall);
    const when = "Device " + waterfall.device + ", " + momentOf(waterfall, false) + (waterfall.at_ms === 0 ? "" : ": " + time(1e6 * waterfall.at_ms) + " after the start");
    parent.replaceChildren(element("p", {class: "where"}, when), deviceBar(waterfall, parts));
    deviceTable(parent, waterfall, parts);
    if (waterfall.short)
        parent.append(element("p", {class: "note"}, "More is counted than the device had in use: some of it was not backed by memory then, and parts are smaller by that much."));
}

/* When memory ran out, and each device as kedge saw it last. */
function waterfallsOf(data) {
    const then = lastFailure(data)?.waterfall;
    return [...(then ? [{...then, moment: "failure"}] : []), ...data.waterfall];
}

function drawDevice(data) {
    const waterfalls = waterfallsOf(data);
    if (waterfalls.length === 0) {
        dropSection("device");
        return;
    }
    const parent = document.getElementById("device");
    const hasDevices = waterfalls.some(one => one.device !== waterfalls[0].device);
    const box = element("div");
    const names = waterfalls.map(one => momentOf(one, hasDevices));
    if (names.length > 1)
        parent.append(element("div", {class: "bar-of-choices"}, choices("Moment", names, 0, at => drawWaterfall(data, box, waterfalls[at]))));
    parent.append(box);
    drawWaterfall(data, box, waterfalls[0]);
}
