/* SPDX-License-Identifier: MIT */
/* Live and reserved bytes over the run, stacked by call site, library or class of memory; a cursor, steps, anchors, zoom. */

const LANES = 3; /* of anchors */
const LANE = 13;
const GROUPINGS = {site: "call site", library: "library", class: "class of memory"};

/* Ticks at whole powers of two, five at most. */
function byteTicks(most) {
    let step = 1;
    while (most / step > 5)
        step *= 2;
    const ticks = [];
    for (let at = 0; at <= most; at += step)
        ticks.push(at);
    return ticks;
}

/* Ticks of 1, 2 or 5 times a power of ten. */
function roundTicks(from, to, wanted) {
    let step = Math.pow(10, Math.floor(Math.log10(Math.max(to - from, 1) / wanted)));
    for (const more of [2, 2.5, 2])
        if ((to - from) / step > wanted)
            step *= more;
    step = Math.max(step, 1);
    const ticks = [];
    for (let at = Math.ceil(from / step) * step; at <= to; at += step)
        ticks.push(at);
    return ticks;
}

class Timeline {
    constructor(data, parent) {
        this.data = data;
        this.line = data.timeline;
        this.bins = this.line.live.length;
        this.bars = this.line.bars.filter(bar => bar[2] < LANES).sort((a, b) => a[0] - b[0]);
        this.from = 0;
        this.to = this.bins;
        this.grouping = 0;
        this.peak = this.binOf(this.line.peak_live.at);
        this.cursor = this.line.failures.length ? this.binOf(this.line.failures[this.line.failures.length - 1]) : this.peak;
        this.build(parent);
        this.draw();
        new ResizeObserver(() => this.draw()).observe(this.box);
    }

    binOf(position) {
        return Math.max(0, Math.min(this.bins - 1, Math.floor((position - this.line.begin) / this.line.width)));
    }

    positionOf(bin) {
        return this.line.begin + bin * this.line.width;
    }

    where(position) {
        return this.line.axis === "time" ? time(position) : "event " + count(Math.round(position));
    }

    build(parent) {
        const names = this.line.groupings.map(grouping => GROUPINGS[grouping.by]);
        const zoom = element("div", {class: "choices", role: "group", "aria-label": "Zoom"}, this.button("+", "Zoom in", () => this.zoom(0.5)),
            this.button("\u2212", "Zoom out", () => this.zoom(2)), this.button("All", "Show the whole run", () => this.show(0, this.bins)),
            this.button("Peak", "Move the cursor to the peak", () => this.moveTo(this.peak)));
        this.box = element("div", {class: "chart"});
        this.plot = drawing("svg", {tabindex: "0", role: "slider", "aria-label": "Memory over the run: cursor", "aria-valuemin": "0",
            "aria-valuemax": String(this.bins - 1), "aria-describedby": "timeline-keys"});
        this.box.append(this.plot);
        this.readout = element("p", {class: "readout"});
        this.legend = element("ol", {class: "legend", "aria-label": "Live at the cursor, largest first"});
        parent.append(element("div", {class: "bar-of-choices"}, choices("Stacked by", names, 0, at => {
            this.grouping = at;
            this.draw();
        }), zoom), this.readout, element("div", {class: "withlegend"}, this.box, this.legend),
        element("p", {class: "keys muted", id: "timeline-keys"}, "Arrow keys move the cursor, with Shift by ten; + and \u2212 zoom, 0 shows all, P goes to the peak. Drag to zoom."));
        this.listen();
    }

    button(text, label, press) {
        const made = element("button", {type: "button", "aria-label": label, title: label}, text);
        made.addEventListener("click", press);
        return made;
    }

    /* ---- what the reader does ---- */

    listen() {
        this.plot.addEventListener("keydown", event => this.press(event));
        this.plot.addEventListener("pointermove", event => this.point(event));
        this.plot.addEventListener("pointerdown", event => {
            this.dragged = event.pointerType === "mouse" ? this.binAt(event) : null;
            this.point(event);
        });
        this.plot.addEventListener("pointerup", event => this.drop(event));
        this.plot.addEventListener("pointerleave", () => {
            this.dragged = null;
            this.drawCursor();
        });
    }

    press(event) {
        const step = event.shiftKey ? 10 : 1;
        const keys = {ArrowLeft: () => this.moveTo(this.cursor - step), ArrowRight: () => this.moveTo(this.cursor + step),
            Home: () => this.moveTo(this.from), End: () => this.moveTo(this.to - 1), "+": () => this.zoom(0.5), "=": () => this.zoom(0.5),
            "-": () => this.zoom(2), 0: () => this.show(0, this.bins), p: () => this.moveTo(this.peak), P: () => this.moveTo(this.peak)};
        if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey)
            return;
        event.preventDefault();
        keys[event.key]();
    }

    binAt(event) {
        const x = event.clientX - this.plot.getBoundingClientRect().left - this.left;
        return Math.max(this.from, Math.min(this.to - 1, Math.floor(this.from + x / this.wide * (this.to - this.from))));
    }

    point(event) {
        this.cursor = this.binAt(event);
        this.drawCursor();
    }

    drop(event) {
        const end = this.binAt(event);
        const begin = this.dragged;
        this.dragged = null;
        if (begin !== null && begin !== undefined && Math.abs(end - begin) > 2)
            this.show(Math.min(begin, end), Math.max(begin, end) + 1);
        else
            this.drawCursor();
    }

    moveTo(bin) {
        this.cursor = Math.max(0, Math.min(this.bins - 1, bin));
        if (this.cursor < this.from || this.cursor >= this.to) {
            const half = Math.floor((this.to - this.from) / 2);
            this.show(this.cursor - half, this.cursor - half + (this.to - this.from));
        }
        this.drawCursor();
    }

    zoom(factor) {
        const width = Math.max(Math.min(8, this.bins), Math.min(this.bins, Math.round((this.to - this.from) * factor)));
        const begin = Math.round(this.cursor - width / 2);
        this.show(begin, begin + width);
    }

    show(from, to) {
        const width = to - from;
        this.from = Math.max(0, Math.min(from, this.bins - width));
        this.to = Math.min(this.bins, this.from + width);
        this.draw();
    }

    /* ---- drawing ---- */

    x(bin) {
        return this.left + (bin - this.from) / (this.to - this.from) * this.wide;
    }

    y(value) {
        return this.top + this.high * (1 - value / this.most);
    }

    /* A line of steps over the bins that are shown; with `floor` the area down to it. */
    outline(values, floor) {
        let path = "";
        for (let bin = this.from; bin < this.to; bin++)
            path += (path ? "L" : "M") + this.x(bin).toFixed(1) + "," + this.y(values[bin]).toFixed(1) + "H" + this.x(bin + 1).toFixed(1);
        for (let bin = this.to - 1; floor && bin >= this.from; bin--)
            path += "L" + this.x(bin + 1).toFixed(1) + "," + this.y(floor[bin]).toFixed(1) + "H" + this.x(bin).toFixed(1);
        return path + (floor ? "Z" : "");
    }

    measure() {
        const width = Math.max(280, this.box.clientWidth);
        const isNarrow = width < 560;
        this.left = isNarrow ? 58 : 72;
        this.wide = width - this.left - 8;
        this.top = 22;
        this.high = isNarrow ? 200 : 300;
        this.depths = Math.min(LANES, this.line.bars.reduce((most, bar) => Math.max(most, bar[2] + 1), 0));
        this.stepsTop = this.top + this.high + 24;
        this.lanesTop = this.stepsTop + (this.line.steps.length ? LANE + 3 : 0);
        const height = this.lanesTop + this.depths * LANE + 4;
        this.most = Math.max(...this.line.live.slice(this.from, this.to), ...this.line.reserved.slice(this.from, this.to), 1) * 1.04;
        this.plot.setAttribute("viewBox", "0 0 " + width + " " + height);
        this.plot.setAttribute("width", width);
        this.plot.setAttribute("height", height);
    }

    draw() {
        this.measure();
        this.plot.replaceChildren(...this.axes(), ...this.layers(), drawing("path", {class: "reserved", d: this.outline(this.line.reserved)}),
            drawing("path", {class: "live", d: this.outline(this.line.live)}), ...this.marks(), ...this.spans());
        this.over = drawing("g", {class: "cursor"});
        this.plot.append(this.over);
        this.drawCursor();
    }

    axes() {
        const parts = [];
        for (const tick of byteTicks(this.most))
            parts.push(drawing("line", {class: "grid", x1: this.left, x2: this.left + this.wide, y1: this.y(tick), y2: this.y(tick)}),
                drawing("text", {class: "tick", x: this.left - 6, y: this.y(tick) + 4, "text-anchor": "end"}, shortBytes(tick)));
        const begin = this.positionOf(this.from);
        const end = this.positionOf(this.to);
        for (const tick of roundTicks(begin, end, this.wide < 480 ? 3 : 6)) {
            const x = this.left + (tick - begin) / (end - begin) * this.wide;
            if (x < this.left + this.wide - 30)
                parts.push(drawing("line", {class: "grid", x1: x, x2: x, y1: this.top + this.high, y2: this.top + this.high + 4}),
                    drawing("text", {class: "tick", x, y: this.top + this.high + 17, "text-anchor": "middle"}, this.line.axis === "time" ? shortTime(tick, end - begin) : count(tick)));
        }
        return parts;
    }

    layers() {
        const parts = this.line.groupings[this.grouping].parts;
        const floor = new Array(this.bins).fill(0);
        return parts.map((values, at) => {
            const roof = values.map((value, bin) => value + floor[bin]);
            const path = drawing("path", {class: "layer colour-" + (at === parts.length - 1 ? "rest" : at), d: this.outline(roof, floor.slice())});
            roof.forEach((value, bin) => {
                floor[bin] = value;
            });
            return path;
        });
    }

    mark(position, kind, text, row) {
        const bin = (position - this.line.begin) / this.line.width;
        if (bin < this.from || bin > this.to)
            return [];
        const x = this.x(Math.floor(bin) + 0.5);
        const isRight = x > this.left + this.wide / 2;
        return [drawing("line", {class: kind, x1: x, x2: x, y1: this.top - 4, y2: this.top + this.high}),
            drawing("text", {class: "marktext " + kind, x: x + (isRight ? -5 : 5), y: this.top - 9 + row * 14, "text-anchor": isRight ? "end" : "start"}, text)];
    }

    marks() {
        const failures = this.line.failures;
        const parts = failures.slice(0, -1).flatMap(at => this.mark(at, "failed", "", 0));
        if (failures.length)
            parts.push(...this.mark(failures[failures.length - 1], "failed", "out of memory", 0));
        if (this.line.peak_live.bytes !== null)
            parts.push(...this.mark(this.line.peak_live.at, "peak", "peak live " + bytes(this.line.peak_live.bytes), failures.length ? 1 : 0));
        return parts;
    }

    /* A rectangle of the axis below the chart, with its name where there is room. */
    span(begin, end, top, kind, name) {
        const from = Math.max(this.x((begin - this.line.begin) / this.line.width), this.left);
        const to = Math.min(this.x((end - this.line.begin) / this.line.width), this.left + this.wide);
        if (to < this.left || from > this.left + this.wide || to - from < 0.3)
            return [];
        const parts = [drawing("rect", {class: kind, x: from, y: top, width: Math.max(to - from - 0.5, 0.5), height: LANE - 1}, drawing("title", null, name))];
        if (to - from > 7 * name.length + 6)
            parts.push(drawing("text", {class: "spantext", x: from + 4, y: top + LANE - 3}, name));
        return parts;
    }

    spans() {
        const parts = [];
        this.line.steps.forEach(([begin, end], at) => parts.push(...this.span(begin, end, this.stepsTop, "step" + at % 2, String(at))));
        if (this.line.steps.length)
            parts.push(drawing("text", {class: "tick", x: this.left - 6, y: this.stepsTop + LANE - 3, "text-anchor": "end"}, "steps"));
        const drawn = new Array(LANES).fill(0);
        for (const [begin, end, depth, name] of this.bars)
            parts.push(...this.span(begin, end, this.lanesTop + depth * LANE, "anchor" + drawn[depth]++ % 2, name));
        if (this.depths)
            parts.push(drawing("text", {class: "tick", x: this.left - 6, y: this.lanesTop + LANE - 3, "text-anchor": "end"}, "anchors"));
        return parts;
    }

    anchorAt(position) {
        const found = this.line.bars.filter(bar => bar[0] <= position && position <= bar[1]);
        return found.length ? found.reduce((a, b) => b[2] > a[2] || (b[2] === a[2] && b[1] - b[0] < a[1] - a[0]) ? b : a)[3] : "";
    }

    drawCursor() {
        const bin = this.cursor;
        const x = this.x(bin + 0.5);
        const parts = [];
        if (bin >= this.from && bin < this.to)
            parts.push(drawing("line", {x1: x, x2: x, y1: this.top, y2: this.top + this.high}),
                drawing("circle", {cx: x, cy: this.y(this.line.live[bin]), r: 3.5}), drawing("circle", {class: "hollow", cx: x, cy: this.y(this.line.reserved[bin]), r: 3.5}));
        if (this.dragged !== null && this.dragged !== undefined)
            parts.push(drawing("rect", {class: "chosen", x: Math.min(x, this.x(this.dragged)), y: this.top, width: Math.abs(x - this.x(this.dragged)), height: this.high}));
        this.over.replaceChildren(...parts);
        this.tell(bin);
    }

    /* When and where the bytes of a bin were reached; bytes that are carried have the middle of the bin. */
    reachedAt(bin) {
        const [at, name, step] = this.line.reached[bin];
        if (at !== undefined)
            return {at, anchor: name === null ? "" : this.line.anchors[name], step: step === null ? -1 : step};
        const middle = this.positionOf(bin + 0.5);
        return {at: this.positionOf(bin), anchor: this.anchorAt(middle), step: this.line.steps.findIndex(([begin, end]) => begin <= middle && middle <= end)};
    }

    tell(bin) {
        const {at, anchor, step} = this.reachedAt(bin);
        const where = this.where(at);
        const place = anchor || (step >= 0 ? stepNoun(this.data) + " " + step : "");
        this.readout.replaceChildren(element("b", {class: "figure"}, where), " ", element("span", null, element("span", {class: "sample live", "aria-hidden": "true"}), "live ", element("b", {class: "figure"}, bytes(this.line.live[bin]))), " ",
            element("span", null, element("span", {class: "sample reserved", "aria-hidden": "true"}), "reserved ", element("b", {class: "figure"}, bytes(this.line.reserved[bin]))), " ", element("bdi", {class: "muted"}, place));
        this.plot.setAttribute("aria-valuenow", String(bin));
        this.plot.setAttribute("aria-valuetext", where + ", live " + bytes(this.line.live[bin]) + ", reserved " + bytes(this.line.reserved[bin]) + (place ? ", " + place : ""));
        this.tellParts(bin);
    }

    tellParts(bin) {
        const {by, names, parts} = this.line.groupings[this.grouping];
        const rows = parts.map((values, at) => ({at, name: at < names.length ? names[at] : "all others", value: values[bin]}));
        const shown = rows.filter(row => row.at < names.length || Math.max(...parts[row.at]) > 0);
        this.legend.replaceChildren(...shown.reverse().map(row => element("li", null, element("span", {class: "swatch colour-" + (row.at < names.length ? row.at : "rest"), "aria-hidden": "true"}),
            element("span", {class: "figure"}, bytes(row.value)), element("div", {class: "short", title: row.name}, way(by === "library" ? baseName(row.name) : row.name)))));
    }
}

/* For an axis of this length: whole where it can be. */
function shortTime(ns, length) {
    if (length > 300e9)
        return (ns / 60e9).toFixed(length > 3000e9 ? 0 : 1) + " min";
    if (length > 2e9)
        return (ns / 1e9).toFixed(length > 20e9 ? 0 : 1) + " s";
    if (length > 50e6)
        return Math.round(ns / 1e6) + " ms";
    return (ns / 1e6).toFixed(length > 5e6 ? 1 : 3) + " ms";
}

function drawTimeline(data) {
    const parent = document.getElementById("timeline");
    if (data.timeline.live.length === 0) {
        parent.append(element("p", null, "This capture has no events, so how memory changed over the run is not known."));
        return;
    }
    if (data.timeline.axis === "event")
        parent.append(element("p", {class: "note"}, "The events have no times of their own: they stand one beside the other in their order."));
    new Timeline(data, parent);
}
