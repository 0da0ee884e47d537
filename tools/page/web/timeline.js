/* SPDX-License-Identifier: MIT */
/*
 * Memory over the run: bands of call sites or other keys with the largest blocks one by one; zoom, pan, a cursor, steps and anchors; a
 * click pins a block. What is chosen or to be seen is the range of the tables below (moment.js).
 */

const LANES = 3; /* of anchors */
const LANE = 13;
const GROUPINGS = {site: "call site", kind: "kind", module: "module", library: "library", class: "class of memory"};
const LEAST_LEAVES = 4; /* to be seen */
const DENSE = 3; /* pixels a step of the outline: its upright lines would hide what is below */
const LEAST_SPREAD = 10; /* pixels between two fingers */
const LONGEST_REST = 1 / 3; /* of a run in which nothing happens: then its events stand one beside the other at first */

class Timeline {
    /* Of several timelines on a page each has an `id`, and the same `most` bytes for its height; the last one tells the keys. */
    constructor(run, parent, {id = "timeline", most = 0, telling = true} = {}) {
        this.run = run;
        this.id = id;
        this.shared = most;
        this.telling = telling;
        this.line = run.line;
        this.bars = this.line.bars.filter(bar => bar[2] < LANES).sort((a, b) => a[0] - b[0]);
        const next = [];
        this.covered = this.bars.map(bar => bar[1]);
        for (let at = this.bars.length - 1; at >= 0; at--) {
            this.covered[at] = next[this.bars[at][2]] ?? this.bars[at][1];
            next[this.bars[at][2]] = this.bars[at][0];
        }
        this.isTime = this.restsLittle();
        this.grouping = run.groupings[0];
        this.held = run.data.segments ? "segments" : "reserved"; /* the dashed line */
        this.listeners = [];
        this.chosen = null; /* positions */
        this.choosing = false;
        this.fingers = new Map(); /* pointers that are down: their last event */
        this.spread = null; /* coordinates that two of them hold */
        this.pinned = null;
        this.picked = -1;
        const {failures} = this.line;
        this.cursor = failures.length ? run.leafAt(failures[failures.length - 1]) : run.peak;
        this.build(parent);
        this.showAll();
        new ResizeObserver(() => this.draw()).observe(this.box);
        document.getElementById("theme").addEventListener("change", () => this.draw());
        matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    }

    restsLittle() {
        const {position, leaves} = this.run;
        const longest = position.reduce((most, begin, leaf) => Math.max(most, leaf > 0 ? begin - position[leaf - 1] : 0), 0);
        return longest <= LONGEST_REST * (position[leaves] - position[0]);
    }

    /* ---- coordinates: positions, or leaves one beside the other ---- */

    coordinate(leaf) {
        return this.isTime ? this.run.position[leaf] : leaf;
    }

    whole() {
        return [this.coordinate(0), this.coordinate(this.run.leaves)];
    }

    coordinateOf(position) {
        if (this.isTime)
            return position;
        const leaf = this.run.leafAt(position);
        const length = this.run.position[leaf + 1] - this.run.position[leaf];
        return leaf + (length > 0 ? Math.min(1, (position - this.run.position[leaf]) / length) : 0);
    }

    leafOf(coordinate) {
        return this.isTime ? this.run.leafAt(coordinate) : Math.max(0, Math.min(this.run.leaves - 1, Math.floor(coordinate)));
    }

    x(coordinate) {
        return this.left + (coordinate - this.from) / (this.to - this.from) * this.wide;
    }

    coordinateAt(event) {
        const x = event.clientX - this.plot.getBoundingClientRect().left - this.left;
        return this.from + Math.max(0, Math.min(1, x / this.wide)) * (this.to - this.from);
    }

    y(value) {
        return this.top + this.high * (1 - value / this.most);
    }

    /* ---- elements ---- */

    build(parent) {
        const zoom = element("div", {class: "choices", role: "group", "aria-label": "Zoom"}, this.button("+", "Zoom in", () => this.zoom(0.5)),
            this.button("\u2212", "Zoom out", () => this.zoom(2)), this.button("All", "Show the whole run", () => this.showAll()),
            this.button("Peak", "Move the cursor to the peak", () => this.moveTo(this.run.peak)));
        this.box = element("div", {class: "chart"});
        this.canvas = element("canvas", {"aria-hidden": "true"});
        this.plot = drawing("svg", {tabindex: "0", role: "slider", "aria-label": "Memory over the run: cursor", "aria-valuemin": "0",
            "aria-valuemax": String(this.run.leaves - 1), "aria-describedby": this.id + "-keys"});
        this.bands = new Bands(this.run, this.canvas);
        this.tip = element("div", {class: "tip", hidden: true});
        this.box.append(this.canvas, this.plot, this.tip);
        this.readout = element("p", {class: "readout"});
        this.legend = element("ol", {class: "legend", "aria-label": "Live at the cursor, largest first"});
        this.pin = element("div", {class: "pin", role: "status", hidden: true});
        parent.append(element("div", {class: "bar-of-choices"}, choices("Stacked by", this.run.groupings.map(grouping => GROUPINGS[grouping.by]), 0, at => this.groupBy(this.run.groupings[at])),
            ...this.axisChoice(), zoom, ...this.stepChoice(), choices("Dragging", ["drag pans", "drag selects"], 0, at => {
                this.choosing = at === 1;
                this.plot.classList.toggle("choosing", this.choosing);
            })), this.readout, element("div", {class: "withlegend"}, this.box, this.legend), this.pin, this.keys());
        this.listen();
    }

    axisChoice() {
        if (this.line.axis !== "time")
            return [];
        return [choices("Axis", ["by time", "by event"], this.isTime ? 0 : 1, at => {
            const ends = [this.firstSeen(), this.leafOf(this.to)];
            this.isTime = at === 0;
            this.show(this.coordinate(ends[0]), this.coordinate(Math.min(this.run.leaves, ends[1] + 1)));
        })];
    }

    stepChoice() {
        if (this.run.steps.length === 0)
            return [];
        return [element("div", {class: "choices", role: "group", "aria-label": "One step"}, this.button("\u2039", "The step before", () => this.showStep(this.stepAtCursor() - 1)),
            this.button("Step", "Show the cursor's step alone", () => this.showStep(this.stepAtCursor())), this.button("\u203a", "The next step", () => this.showStep(this.stepAtCursor() + 1)))];
    }

    keys() {
        const drawn = counted(this.run.blocks.count, "block") + " drawn one by one" + (this.run.blocks.leftOut ? "; " + count(this.run.blocks.leftOut) + " smaller ones are in the paler bands" : "") + ".";
        const steps = this.run.steps.length ? "[ and ] show one step after the other, " : "";
        if (!this.telling)
            return element("p", {class: "keys muted", id: this.id + "-keys"}, drawn);
        return element("p", {class: "keys muted", id: this.id + "-keys"}, "Wheel zooms, dragging pans, with Shift it selects; a click pins a block. Keys: arrows move the cursor and pick a block, Enter pins it, + and \u2212 or W and S zoom, A and D pan, "
            + steps + "0 shows all, P goes to the peak, Escape takes back. " + drawn);
    }

    button(text, label, press) {
        const made = element("button", {type: "button", "aria-label": label, title: label}, text);
        made.addEventListener("click", press);
        return made;
    }

    /* ---- what the reader does ---- */

    listen() {
        this.plot.addEventListener("keydown", event => this.press(event));
        this.plot.addEventListener("wheel", event => this.wheel(event), {passive: false});
        this.plot.addEventListener("pointerdown", event => this.down(event));
        this.plot.addEventListener("pointermove", event => this.move(event));
        this.plot.addEventListener("pointerup", event => this.up(event));
        this.plot.addEventListener("pointercancel", event => {
            this.drag = null;
            this.lift(event);
        });
        this.plot.addEventListener("pointerleave", () => this.tip.hidden = true);
        this.plot.addEventListener("blur", () => this.tip.hidden = true);
    }

    press(event) {
        const step = event.shiftKey ? 10 : 1;
        const half = (this.to - this.from) / 2;
        const keys = {ArrowLeft: () => this.walk(-step), ArrowRight: () => this.walk(step), ArrowUp: () => this.pick(1), ArrowDown: () => this.pick(-1), Enter: () => this.pinPicked(),
            Home: () => this.moveTo(this.firstSeen()), End: () => this.moveTo(this.lastSeen()), "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), w: () => this.zoom(0.5),
            "-": () => this.zoom(2), s: () => this.zoom(2), a: () => this.show(this.from - half, this.to - half), d: () => this.show(this.from + half, this.to + half),
            0: () => this.showAll(), p: () => this.moveTo(this.run.peak), "[": () => this.showStep(this.stepAtCursor() - 1), "]": () => this.showStep(this.stepAtCursor() + 1), Escape: () => this.takeBack()};
        const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
        if (!keys[key] || event.ctrlKey || event.metaKey || event.altKey)
            return;
        event.preventDefault();
        keys[key]();
    }

    wheel(event) {
        const [first, last] = this.whole();
        const isOut = event.deltaY > 0 && this.from <= first && this.to >= last;
        if (isOut && event.deltaX === 0)
            return; /* the page scrolls */
        event.preventDefault();
        if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
            const by = event.deltaX / this.wide * (this.to - this.from);
            this.showSoon(this.from + by, this.to + by);
            return;
        }
        const around = this.coordinateAt(event);
        const factor = Math.exp(Math.max(-1, Math.min(1, event.deltaY * 0.002)));
        this.showSoon(around - (around - this.from) * factor, around + (this.to - around) * factor);
    }

    down(event) {
        if (event.button !== 0)
            return;
        this.plot.setPointerCapture(event.pointerId);
        this.fingers.set(event.pointerId, event);
        if (this.fingers.size > 1) {
            this.drag = null;
            this.tip.hidden = true;
            this.spread = [...this.fingers.values()].slice(0, 2).map(finger => this.coordinateAt(finger));
            return;
        }
        this.drag = {x: event.clientX, from: this.from, to: this.to, begin: this.coordinateAt(event), selects: this.choosing || event.shiftKey, moved: false};
        this.point(event);
    }

    /* Two fingers keep the coordinates that they hold. */
    pinch() {
        const left = this.plot.getBoundingClientRect().left + this.left;
        const [a, b] = [...this.fingers.values()].map(finger => (finger.clientX - left) / this.wide);
        const [first, second] = this.spread;
        if (b === undefined || Math.abs(b - a) * this.wide < LEAST_SPREAD || (second - first) * (b - a) <= 0)
            return;
        const width = (second - first) / (b - a);
        this.showSoon(first - a * width, first + (1 - a) * width);
    }

    /* True: it was one of two fingers. */
    lift(event) {
        const isPinch = this.spread !== null;
        this.fingers.delete(event.pointerId);
        if (this.fingers.size === 0)
            this.spread = null;
        return isPinch;
    }

    move(event) {
        const {drag} = this;
        if (this.fingers.has(event.pointerId))
            this.fingers.set(event.pointerId, event);
        if (this.spread) {
            this.pinch();
            return;
        }
        if (!drag) {
            this.point(event);
            return;
        }
        if (Math.abs(event.clientX - drag.x) > 3)
            drag.moved = true;
        if (!drag.moved)
            return;
        this.tip.hidden = true;
        if (drag.selects) {
            this.drag.end = this.coordinateAt(event);
            this.drawOver();
            return;
        }
        const by = (drag.x - event.clientX) / this.wide * (drag.to - drag.from);
        this.showSoon(drag.from + by, drag.to + by);
    }

    up(event) {
        const {drag} = this;
        this.drag = null;
        if (this.lift(event) || !drag)
            return;
        if (!drag.moved) {
            this.point(event);
            this.pinPicked();
        } else if (drag.selects) {
            const ends = [drag.begin, this.coordinateAt(event)].sort((a, b) => a - b);
            this.choose(this.leafOf(ends[0]), this.leafOf(ends[1]) + 1);
        }
    }

    /* The cursor, and what lies below the pointer. */
    point(event) {
        const box = this.plot.getBoundingClientRect();
        const stretch = this.stretchAt(event.clientX - box.left - this.left);
        if (!stretch)
            return;
        const value = this.most * (1 - (event.clientY - box.top - this.top) / this.high);
        const pile = this.bands.pile(this.grouping, stretch.leaf);
        this.cursor = stretch.leaf;
        this.picked = pile.findIndex(part => part.low <= value && value < part.high);
        this.drawOver();
        this.showTip(pile[this.picked], event.clientX - box.left, event.clientY - box.top);
    }

    stretchAt(x) {
        return this.stretches.find(stretch => stretch.left <= x && x < stretch.right) || this.stretches[this.stretches.length - 1];
    }

    showTip(part, x, y) {
        this.tip.hidden = !part;
        if (!part)
            return;
        this.tip.replaceChildren(...tipOf(this.run, this.grouping, part, this.cursor));
        const room = this.box.clientWidth - this.tip.offsetWidth;
        this.tip.style.left = Math.max(0, Math.min(room, x + 14)) + "px";
        this.tip.style.top = Math.max(0, Math.min(this.box.clientHeight - this.tip.offsetHeight, y + 14)) + "px";
    }

    walk(by) {
        const at = this.stretches.findIndex(stretch => stretch.leaf >= this.cursor);
        const next = this.stretches[Math.max(0, Math.min(this.stretches.length - 1, (at < 0 ? this.stretches.length - 1 : at) + by))];
        this.picked = -1;
        this.moveTo(next.leaf);
    }

    pick(by) {
        const pile = this.bands.pile(this.grouping, this.cursor);
        this.picked = Math.max(0, Math.min(pile.length - 1, this.picked < 0 ? (by > 0 ? 0 : pile.length - 1) : this.picked + by));
        this.drawOver();
        const part = pile[this.picked];
        if (part)
            this.showTip(part, this.x(this.coordinate(this.cursor)), this.y((part.low + part.high) / 2));
    }

    pinPicked() {
        const part = this.bands.pile(this.grouping, this.cursor)[this.picked];
        if (!part)
            return;
        this.pinned = part.block;
        this.tip.hidden = true;
        this.pin.hidden = false;
        this.pin.replaceChildren(this.button("\u00d7", "Close", () => this.takeBack()), ...pinOf(this.run, this.grouping, part, this.cursor));
        this.draw();
    }

    takeBack() {
        this.tip.hidden = true;
        if (!this.pin.hidden) {
            this.pin.hidden = true;
            this.pinned = null;
            this.draw();
        } else if (this.chosen) {
            this.chosen = null;
            this.tellRange();
            this.drawOver();
        } else {
            this.showAll();
        }
    }

    moveTo(leaf) {
        this.cursor = Math.max(0, Math.min(this.run.leaves - 1, leaf));
        const at = this.coordinate(this.cursor);
        if (at < this.from || at >= this.to) {
            const half = (this.to - this.from) / 2;
            this.show(at - half, at + half);
        }
        this.drawOver();
    }

    /* Leaves of a run's begin and end may have no length. */
    firstSeen() {
        return this.from <= this.whole()[0] ? 0 : this.leafOf(this.from);
    }

    lastSeen() {
        const isOver = this.to < this.whole()[1] && this.coordinate(this.leafOf(this.to)) >= this.to;
        return Math.max(0, this.leafOf(this.to) - (isOver ? 1 : 0));
    }

    zoom(factor) {
        const at = this.coordinate(this.cursor);
        const around = at >= this.from && at < this.to ? at : (this.from + this.to) / 2;
        this.show(around - (around - this.from) * factor, around + (this.to - around) * factor);
    }

    /* A wheel and a pointer tell more often than there are frames; each goes on where the last one ended. */
    showSoon(from, to) {
        const isAsked = this.wanted !== undefined;
        this.wanted = this.limited(from, to);
        [this.from, this.to] = this.wanted;
        if (!isAsked)
            requestAnimationFrame(() => {
                this.wanted = undefined;
                this.show(this.from, this.to);
            });
    }

    /* Within the run, and not too small. */
    limited(from, to) {
        const [first, last] = this.whole();
        const least = this.isTime ? Math.max(1, (last - first) / 1e7) : Math.min(LEAST_LEAVES, last);
        const width = Math.max(least, Math.min(to - from, last - first));
        const begin = Math.max(first, Math.min((from + to) / 2 - width / 2, last - width));
        return [begin, Math.min(last, begin + width)];
    }

    show(from, to) {
        [this.from, this.to] = this.limited(from, to);
        this.draw();
        this.tellRange();
    }

    showAll() {
        this.show(...this.whole());
    }

    stepAtCursor() {
        const step = this.run.stepOf(this.cursor);
        return step >= 0 ? step : this.run.stepOf(this.run.peak);
    }

    /* A step alone, from its first event to its last one. */
    showStep(number) {
        const step = this.run.steps[number];
        if (!step)
            return;
        this.chosen = null;
        this.cursor = this.run.highest(step[2], Math.max(step[3], step[2] + 1));
        this.show(this.coordinate(step[2]), this.coordinate(Math.min(this.run.leaves, step[3])));
    }

    /* A stretch of the axis with a little on both sides. */
    showPart(begin, end) {
        const ends = [this.coordinateOf(begin), this.coordinateOf(end)];
        const more = (ends[1] - ends[0]) / 10;
        this.cursor = this.run.highest(this.leafOf(ends[0]), this.leafOf(ends[1]) + 1);
        this.show(ends[0] - more, ends[1] + more);
        this.plot.scrollIntoView({block: "center"});
        this.plot.focus({preventScroll: true});
    }

    choose(from, behind) {
        this.chosen = [from, Math.max(behind, from + 1)];
        this.drawOver();
        this.tellRange();
    }

    groupBy(grouping) {
        this.grouping = grouping;
        this.picked = -1;
        this.draw();
        this.tellRange();
    }

    /* The leaves that are chosen, else those that are to be seen. */
    range() {
        return this.chosen || [this.firstSeen(), this.lastSeen() + 1];
    }

    onRange(listener) {
        this.listeners.push(listener);
        listener(...this.range(), this.grouping);
    }

    tellRange() {
        for (const listener of this.listeners)
            listener(...this.range(), this.grouping);
    }

    /* ---- drawing ---- */

    measure() {
        const width = Math.max(280, this.box.clientWidth);
        const isNarrow = width < 560;
        this.left = isNarrow ? 58 : 72;
        this.wide = width - this.left - 8;
        this.top = 36;
        this.high = isNarrow ? 220 : 340;
        this.depths = Math.min(LANES, this.line.bars.reduce((most, bar) => Math.max(most, bar[2] + 1), 0));
        this.stepsTop = this.top + this.high + 24;
        this.lanesTop = this.stepsTop + (this.run.steps.length ? LANE + 3 : 0);
        const height = this.lanesTop + this.depths * LANE + 4;
        this.plot.setAttribute("viewBox", "0 0 " + width + " " + height);
        this.plot.setAttribute("width", width);
        this.plot.setAttribute("height", height);
        this.canvas.style.left = this.left + "px";
        this.canvas.style.top = this.top + "px";
        this.canvas.style.width = this.wide + "px";
        this.canvas.style.height = this.high + "px";
    }

    /* Pixels in which one leaf is shown: of those that a pixel covers, that with most live bytes. */
    cut() {
        const found = [];
        const pixels = Math.floor(this.wide);
        const size = (this.to - this.from) / pixels;
        let next = this.firstSeen();
        for (let pixel = 0; pixel < pixels; pixel++) {
            const end = this.from + (pixel + 1) * size;
            let best = next;
            while (next + 1 < this.run.leaves && this.coordinate(next + 1) < end) {
                next++;
                if (this.run.live[next] > this.run.live[best])
                    best = next;
            }
            const last = found[found.length - 1];
            if (last && last.leaf === best)
                last.right = pixel + 1;
            else
                found.push({leaf: best, left: pixel, right: pixel + 1});
        }
        found[found.length - 1].right = this.wide;
        return found;
    }

    draw() {
        this.measure();
        this.stretches = this.cut();
        this.most = 1.04 * this.stretches.reduce((most, {leaf}) => Math.max(most, this.run.live[leaf], this.run.reserved[leaf]), this.shared || 1);
        this.bands.draw(this.grouping, this.stretches, {width: this.wide, height: this.high}, this.most, this.pinned);
        this.over = drawing("g", {class: "cursor"});
        const reserved = this.outline(this.run.reserved);
        this.plot.replaceChildren(...this.axes(), drawing("path", {class: "reserved below", d: reserved}), drawing("path", {class: "reserved", d: reserved}), drawing("path", {class: "live", d: this.outline(this.run.live, this.stretches.length > this.wide / DENSE)}),
            ...this.marks(), ...this.spans(), this.over);
        this.drawOver();
    }

    outline(values, isDense = false) {
        return this.stretches.map(({leaf, left, right}, at) => (at && !isDense ? "L" : "M") + (this.left + left).toFixed(1) + "," + this.y(values[leaf]).toFixed(1) + "H" + (this.left + right).toFixed(1)).join("");
    }

    axes() {
        const parts = [];
        for (const tick of byteTicks(this.most))
            parts.push(drawing("line", {class: "grid", x1: this.left, x2: this.left + this.wide, y1: this.y(tick), y2: this.y(tick)}),
                drawing("text", {class: "tick", x: this.left - 6, y: this.y(tick) + 4, "text-anchor": "end"}, shortBytes(tick)));
        for (const tick of roundTicks(this.from, this.to, this.wide < 480 ? 3 : 6)) {
            const x = this.x(tick);
            if (x < this.left + this.wide - 30)
                parts.push(drawing("line", {class: "grid", x1: x, x2: x, y1: this.top + this.high, y2: this.top + this.high + 4}),
                    drawing("text", {class: "tick", x, y: this.top + this.high + 17, "text-anchor": "middle"}, this.tickText(tick)));
        }
        return parts;
    }

    /* The time of a tick, also where events stand one beside the other. */
    tickText(tick) {
        if (this.line.axis !== "time")
            return count(tick);
        const [from, to, at] = this.isTime ? [this.from, this.to, tick] : [this.from, this.to, tick].map(coordinate => this.run.position[Math.min(this.run.leaves, Math.round(coordinate))]);
        return shortTime(at, to - from);
    }

    mark(position, kind, text, row) {
        const at = this.coordinateOf(position);
        if (at < this.from || at > this.to)
            return [];
        const x = this.x(at);
        const isRight = x > this.left + this.wide / 2;
        return [drawing("line", {class: kind, x1: x, x2: x, y1: this.top - 4, y2: this.top + this.high}),
            drawing("text", {class: "marktext " + kind, x: x + (isRight ? -5 : 5), y: this.top - 9 - row * 14, "text-anchor": isRight ? "end" : "start"}, text)];
    }

    marks() {
        const {failures, peak_live: peak} = this.line;
        const parts = failures.slice(0, -1).flatMap(at => this.mark(at, "failed", "", 0));
        if (failures.length)
            parts.push(...this.mark(failures[failures.length - 1], "failed", "out of memory", 0));
        if (peak.bytes !== null)
            parts.push(...this.mark(peak.at, "peak", "peak live " + bytes(peak.bytes), failures.length ? 1 : 0));
        return parts;
    }

    /* A rectangle of the axis below the chart, with its name where there is room. */
    /* `free`: up to where no other one covers it. */
    span(begin, end, top, kind, name, free = end) {
        const from = Math.max(this.x(this.coordinateOf(begin)), this.left);
        const to = Math.min(this.x(this.coordinateOf(end)), this.left + this.wide);
        if (to < this.left || from > this.left + this.wide || to - from < 0.3)
            return [];
        const parts = [drawing("rect", {class: kind, x: from, y: top, width: Math.max(to - from - 0.5, 0.5), height: LANE - 1}, drawing("title", null, name))];
        if (Math.min(to, this.x(this.coordinateOf(free))) - from > 7 * name.length + 6)
            parts.push(drawing("text", {class: "spantext", x: from + 4, y: top + LANE - 3}, name));
        return parts;
    }

    spans() {
        const parts = [];
        this.run.steps.forEach(([begin, end], at) => parts.push(...this.span(begin, end, this.stepsTop, "step" + at % 2, String(at + 1))));
        for (const [begin] of this.run.steps) {
            const x = this.x(this.coordinateOf(begin));
            if (x >= this.left && x <= this.left + this.wide && this.run.steps.length < this.wide / 4)
                parts.push(drawing("line", {class: "steptick", x1: x, x2: x, y1: this.top, y2: this.stepsTop}));
        }
        if (this.run.steps.length)
            parts.push(drawing("text", {class: "tick", x: this.left - 6, y: this.stepsTop + LANE - 3, "text-anchor": "end"}, "steps"));
        const drawn = new Array(LANES).fill(0);
        this.bars.forEach(([begin, end, depth, name], at) => parts.push(...this.span(begin, end, this.lanesTop + depth * LANE, "anchor" + drawn[depth]++ % 2, name, this.covered[at])));
        if (this.depths)
            parts.push(drawing("text", {class: "tick", x: this.left - 6, y: this.lanesTop + LANE - 3, "text-anchor": "end"}, "anchors"));
        return parts;
    }

    /* The chosen range and the cursor. */
    drawOver() {
        const parts = [];
        const ends = this.drag && this.drag.selects && this.drag.end !== undefined ? [this.drag.begin, this.drag.end].sort((a, b) => a - b)
            : this.chosen ? [this.coordinate(this.chosen[0]), this.coordinate(this.chosen[1])] : null;
        if (ends) {
            const [from, to] = ends.map(end => Math.max(this.left, Math.min(this.left + this.wide, this.x(end))));
            parts.push(drawing("rect", {class: "chosen", x: from, y: this.top, width: Math.max(0, to - from), height: this.high}));
        }
        const stretch = this.stretches.find(one => one.leaf === this.cursor) || this.stretches.find(one => one.leaf > this.cursor);
        if (stretch && this.coordinate(this.cursor) < this.to && this.coordinate(this.cursor + 1) >= this.from) {
            const x = this.left + (stretch.left + Math.min(stretch.right, stretch.left + 1)) / 2;
            parts.push(drawing("line", {x1: x, x2: x, y1: this.top, y2: this.top + this.high}),
                drawing("circle", {cx: x, cy: this.y(this.run.live[this.cursor]), r: 3.5}), drawing("circle", {class: "hollow", cx: x, cy: this.y(this.run.reserved[this.cursor]), r: 3.5}));
        }
        this.over.replaceChildren(...parts);
        this.tell();
    }

    tell() {
        const leaf = this.cursor;
        const {live, reserved} = this.run;
        const where = this.run.when(this.run.at[leaf]);
        const place = this.run.placeOf(leaf);
        this.readout.replaceChildren(element("b", {class: "figure"}, where), " ", element("span", null, element("span", {class: "sample live", "aria-hidden": "true"}), "live ", element("b", {class: "figure"}, bytes(live[leaf]))), " ",
            element("span", null, element("span", {class: "sample reserved", "aria-hidden": "true"}), this.held + " ", element("b", {class: "figure"}, bytes(reserved[leaf]))), " ", element("bdi", {class: "muted"}, place));
        this.plot.setAttribute("aria-valuenow", String(leaf));
        this.plot.setAttribute("aria-valuetext", where + ", live " + bytes(live[leaf]) + ", " + this.held + " " + bytes(reserved[leaf]) + (place ? ", " + place : ""));
        this.tellKeys(leaf);
    }

    tellKeys(leaf) {
        const {columns, by} = this.grouping;
        const rows = [...columns.keys()].slice(0, COLOURS).map(key => ({key, value: columns[key][leaf]}));
        const rest = this.run.live[leaf] - rows.reduce((sum, row) => sum + row.value, 0);
        if (columns.length > COLOURS || rest > 0)
            rows.push({key: -1, value: Math.max(0, rest)});
        rows.sort((a, b) => b.value - a.value || a.key - b.key);
        this.legend.replaceChildren(...rows.map(({key, value}) => {
            const name = this.grouping.name(key);
            return element("li", null, element("span", {class: "swatch " + this.grouping.colour(key), "aria-hidden": "true"}), element("span", {class: "figure"}, bytes(value)),
                element("div", {class: "short", title: name}, way(by === "library" ? baseName(name) : name)));
        }));
    }
}

function drawTimeline(data) {
    const parent = document.getElementById("timeline");
    if (data.timeline.leaves.count === 0) {
        parent.append(element("p", null, "This capture has no events, so how memory changed over the run is not known."));
        dropSection("moment");
        return null;
    }
    if (data.timeline.axis === "event")
        parent.append(element("p", {class: "note"}, "The events have no times of their own: they stand one beside the other in their order."));
    const run = new Run(data);
    const timeline = new Timeline(run, parent);
    new Moment(run, timeline, document.getElementById("moment"));
    return timeline;
}
