/* SPDX-License-Identifier: MIT */
/* Where blocks lay in the address space, and which call sites keep memory that is mostly free. */

const CELL = 11; /* pixels, with the gap */

class AddressMap {
    constructor(data, parent) {
        this.data = data;
        this.map = data.map;
        this.moments = moments(data).filter(moment => this.map.moments[moment.key]);
        this.moment = Math.max(0, this.moments.findIndex(moment => moment.key === "failure"));
        this.colours = new Map();
        this.named = data.timeline.groupings[0].sites;
        const sites = this.named.length ? this.named : data.call_sites.slice(0, -1).keys();
        [...sites].slice(0, COLOURS).forEach((site, at) => this.colours.set(site, at));
        this.build(parent);
        this.draw();
        new ResizeObserver(() => this.draw()).observe(this.box);
    }

    build(parent) {
        this.told = element("p", {class: "readout"}, "Point at a cell, or move with the arrow keys, to see what lies there.");
        this.box = element("div", {class: "regions"});
        this.keepers = element("div");
        parent.append(element("p", {class: "note"}, this.data.segments ? "This map is made of the addresses of tensors: a range is where they lay close to each other at some time. PyTorch gives a segment back once all of it is free."
            : "The capture records how much was held from the driver, not which address ranges. This map is made of the addresses of blocks: "
            + "a range is where blocks lay close to each other at some time. Memory goes back to the driver in whole pieces, of 2 MiB at least, so a piece in which one block is live stays."),
        element("div", {class: "bar-of-choices"}, choices("Moment", this.moments.map(moment => moment.name), this.moment, at => {
            this.moment = at;
            this.draw();
            this.drawKeepers();
        }), element("span", {class: "muted"}, "Each cell is " + shortBytes(this.map.cell_bytes) + "; the fuller, the stronger its colour. Colours are those of "
            + (this.named.length ? "the timeline's call sites." : "the first call sites of the table below."))),
        this.told, this.box, this.keepers);
        this.drawKeepers();
    }

    at() {
        return this.map.moments[this.moments[this.moment].key];
    }

    draw() {
        const columns = Math.max(8, Math.floor(this.box.clientWidth / CELL));
        let first = 0;
        const parts = [];
        for (const [address, size, cells] of this.map.regions) {
            parts.push(this.regionOf({address, size, first, cells}, columns));
            first += cells;
        }
        if (this.map.left_out)
            parts.push(element("p", {class: "note"}, counted(this.map.left_out, "smaller range") + " of " + bytes(this.map.left_out_bytes) + " in all are not shown."));
        this.box.replaceChildren(...parts);
    }

    regionOf(region, columns) {
        const cells = this.at().cells.slice(region.first, region.first + region.cells);
        const live = cells.reduce((sum, cell) => sum + (cell[0] || 0), 0);
        const title = region.address + ", " + bytes(region.size) + ": " + bytes(live) + " live, " + (percent(live, region.size) || "0 %");
        const rows = Math.ceil(region.cells / columns);
        const picture = drawing("svg", {tabindex: "0", role: "application", "aria-roledescription": "map", "aria-label": "Addresses from " + title, width: Math.min(columns, region.cells) * CELL + 2, height: rows * CELL + 2});
        cells.forEach((cell, at) => picture.append(drawing("rect", this.look(cell, at, columns))));
        const cursor = drawing("rect", {class: "cellcursor", width: CELL, height: CELL, visibility: "hidden"});
        picture.append(cursor);
        const state = {region, cells, columns, cursor, picture, at: 0};
        picture.addEventListener("pointermove", event => this.point(event, state));
        picture.addEventListener("pointerdown", event => this.point(event, state));
        picture.addEventListener("keydown", event => this.press(event, state));
        picture.addEventListener("focus", () => this.tell(state, state.at));
        picture.addEventListener("blur", () => cursor.setAttribute("visibility", "hidden"));
        return element("figure", null, element("figcaption", null, element("code", null, region.address), " ", element("b", {class: "figure"}, bytes(region.size)), " ",
            element("span", {class: "muted"}, bytes(live) + " live, " + (percent(live, region.size) || "0 %"))), picture);
    }

    look(cell, at, columns) {
        const colour = cell.length === 0 ? "free" : this.colours.has(cell[2]) ? this.colours.get(cell[2]) : "rest";
        const share = cell.length === 0 ? 1 : 0.25 + 0.75 * Math.min(1, cell[0] / this.map.cell_bytes);
        return {class: "cell colour-" + colour, x: at % columns * CELL + 1, y: Math.floor(at / columns) * CELL + 1, width: CELL - 1.5, height: CELL - 1.5, "fill-opacity": share.toFixed(2)};
    }

    point(event, state) {
        const box = state.picture.getBoundingClientRect();
        const column = Math.floor((event.clientX - box.left - 1) / CELL);
        const at = Math.floor((event.clientY - box.top - 1) / CELL) * state.columns + column;
        if (column >= 0 && column < state.columns && at >= 0 && at < state.cells.length)
            this.tell(state, at);
    }

    press(event, state) {
        const steps = {ArrowLeft: -1, ArrowRight: 1, ArrowUp: -state.columns, ArrowDown: state.columns, Home: -state.at, End: state.cells.length - 1 - state.at};
        if (!(event.key in steps))
            return;
        event.preventDefault();
        this.tell(state, Math.max(0, Math.min(state.cells.length - 1, state.at + steps[event.key])));
    }

    tell(state, at) {
        const cell = state.cells[at];
        const address = "0x" + (BigInt(state.region.address) + BigInt(at) * BigInt(this.map.cell_bytes)).toString(16);
        state.at = at;
        state.cursor.setAttribute("x", at % state.columns * CELL);
        state.cursor.setAttribute("y", Math.floor(at / state.columns) * CELL);
        state.cursor.setAttribute("visibility", "visible");
        const what = cell.length === 0 ? [element("span", null, "nothing is live here")]
            : [element("b", {class: "figure"}, bytes(cell[0])), " live in " + counted(cell[1], "block") + ", most of it ", way(this.data.call_sites[cell[2]].title), " (a block of " + bytes(cell[3]) + ")"];
        this.told.replaceChildren(element("code", null, address), " ", ...what);
        state.picture.setAttribute("aria-label", address + ": " + (cell.length === 0 ? "nothing is live here" : bytes(cell[0]) + " live, " + this.data.call_sites[cell[2]].title));
    }

    drawKeepers() {
        const rows = this.at().kept.map(([site, granules, free]) => ({name: this.data.call_sites[site].title, granules, free}));
        this.keepers.replaceChildren();
        if (rows.length > 0 && !this.data.segments) /* whose pieces are segments of any size */
            new Table(this.keepers, {caption: "What keeps free memory: pieces of " + shortBytes(this.map.granule_bytes) + " that are live in part, by the largest block in each",
                sorted: 1, rows, columns: [textColumn("Call site", row => row.name, row => way(row.name)), bytesColumn("Free in them", row => row.free), countColumn("Pieces", row => row.granules)]});
    }
}

function drawMap(data) {
    const parent = document.getElementById("map");
    if (data.map.regions.length === 0) {
        parent.append(element("p", null, "No block has an address in this capture."));
        return;
    }
    new AddressMap(data, parent);
}
