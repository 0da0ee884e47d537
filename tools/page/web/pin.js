/* SPDX-License-Identifier: MIT */
/* What is told of a block, or of the smaller blocks of a band: while the pointer is there, and where it is pinned. */

const HOLDERS_TOLD = 4;

function titleOfPart(run, grouping, part) {
    return part.block >= 0 ? titleOf(run.data.call_sites[run.blocks.site[part.block]]) : grouping.name(part.key);
}

/* "allocated at 8.1 s in step (3), freed at 8.2 s, after 0.1 s" */
function lifeText(run, block) {
    const {born, life, anchor} = run.blocks;
    const isTime = run.line.axis === "time";
    const place = anchor[block] ? " in " + run.line.anchors[anchor[block] - 1] : "";
    const end = life[block] === 0 ? "never freed" : "freed at " + run.when(born[block] + life[block] - 1) + (isTime ? ", after " + time(life[block] - 1) : "");
    return "allocated at " + run.when(born[block]) + place + "; " + end;
}

/* "parameters: head.weight"; null: what blocks are is not known, or its holders alone tell it. */
function kindText(run, block, isHeld) {
    if (!run.kinds)
        return null;
    const name = run.nameOf(block);
    const kind = run.kinds.name(run.kinds.keyOfBlock[block]);
    return kind === "unknown" && isHeld ? null : element("div", null, kind === "unknown" ? "of unknown kind" : kind, name ? ": " : "", name ? element("bdi", null, name) : "");
}

/* "driver's pool, device 1" */
function classText(run, block) {
    const {device, classes} = run.blocks;
    const hasDevices = run.data.devices.length > 1;
    return classes[run.blocks.class[block]] + (hasDevices && device[block] ? ", device " + (device[block] - 1) : "");
}

/* Who refers to the memory of a call site, most bytes first, as a walk through the program's objects found it. */
function holdersOf(data, site) {
    return data.held_by_site.filter(row => row.site === site);
}

/* Those that may hold a block: it was live when they were found, and theirs are not all of another size. */
function holdersOfBlock(run, block) {
    const {born, life, size, site} = run.blocks;
    const {failures} = run.line;
    const atTime = row => (run.line.axis === "time" ? row.time_ns : NaN);
    const momentOfRow = row => ({failure: failures[failures.length - 1], end: Infinity}[row.moment] ?? atTime(row));
    const isLive = at => born[block] < at && (life[block] === 0 || born[block] + life[block] - 1 >= at);
    return holdersOf(run.data, site[block]).filter(row => isLive(momentOfRow(row)) && row.bytes >= size[block] && (row.count > 1 || row.bytes === size[block]));
}

const WALKED = {end: " at the end", grown: " when memory had grown", step: " after a step", asked: " when kedge held asked"};

/* Of a block that several may hold, one of them may be the one. */
function holderText(row, isOne = false) {
    const isTensor = row.kind !== "no tensor";
    return [isTensor ? (isOne ? "perhaps held by " : "held by ") : "no tensor of the program has it", isTensor ? element("bdi", null, row.held_by.join(" and ")) : "",
        element("span", {class: "muted"}, " (" + (isTensor ? row.kind + ", " : "") + bytes(row.bytes) + (WALKED[row.moment] || "") + ")")];
}

function tipOf(run, grouping, part, leaf) {
    const size = part.high - part.low;
    const head = [element("b", {class: "figure"}, bytes(size)), " ", percent(size, run.live[leaf]) + " of live"];
    const title = element("div", null, way(titleOfPart(run, grouping, part)));
    if (part.block < 0)
        return [element("div", null, ...head), title, element("div", {class: "muted"}, part.key < 0 ? "of keys that are not shown one by one" : "smaller blocks of this band")];
    const held = holdersOfBlock(run, part.block);
    return [element("div", null, ...head), title, kindText(run, part.block, held.length > 0), element("div", {class: "muted"}, classText(run, part.block) + "; " + lifeText(run, part.block)),
        held.length ? element("div", null, ...holderText(held[0], held.length > 1)) : null].filter(Boolean);
}

function stackOfPart(run, grouping, part) {
    if (part.block < 0)
        return grouping.stack(part.key);
    const own = run.blocks.stack[part.block];
    return own ? run.blocks.stacks[own - 1] : run.data.call_sites[run.blocks.site[part.block]].stack;
}

function pinOf(run, grouping, part, leaf) {
    const stack = stackOfPart(run, grouping, part);
    const held = part.block >= 0 ? holdersOfBlock(run, part.block) : [];
    return [...tipOf(run, grouping, part, leaf), ...held.slice(1, HOLDERS_TOLD).map(row => element("div", null, "or ", ...holderText(row))),
        stack ? stackList(run.data, stack) : null].filter(Boolean);
}
