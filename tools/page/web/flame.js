/* SPDX-License-Identifier: MIT */
/* The stacks that held memory at a moment, as one picture: each frame is as wide as what was asked for below it. */

const FRAME_ROW = 20;
const FRAME_MIN = 1.5; /* pixels: narrower ones are not drawn */
const BELOW = 2; /* the kind of frames of CUDA, kedge and the C library */

/* Nodes with the sums of one moment; without the frames that `keeps` refuses, whose callees move up. */
function flameTree(data, column, keeps) {
    const root = {name: "all", frame: null, bytes: 0, blocks: 0, children: new Map(), parent: null, depth: 0};
    const made = [root];
    data.flame.forEach((node, at) => {
        if (at === 0) {
            root.bytes = node[column];
            root.blocks = node[column + 1];
            return;
        }
        const parent = made[node[0]];
        made[at] = parent;
        if (node[column] === 0 || !keeps(data.frames[node[1]]))
            return;
        let child = parent.children.get(node[1]);
        if (!child) {
            child = {frame: data.frames[node[1]], bytes: 0, blocks: 0, children: new Map(), parent, depth: parent.depth + 1};
            child.name = frameName(child.frame);
            parent.children.set(node[1], child);
        }
        child.bytes += node[column];
        child.blocks += node[column + 1];
        made[at] = child;
    });
    return root;
}

/* Code without a name is called after its library, which need not be said twice. */
function frameName([name, file, line]) {
    const base = baseName(file);
    return base && !name.startsWith(base) ? name + " " + base + (line ? ":" + line : "") : name;
}

function byBytes(node) {
    return [...node.children.values()].sort((a, b) => b.bytes - a.bytes);
}

class Flame {
    constructor(data, parent) {
        this.data = data;
        this.moments = moments(data);
        this.moment = Math.max(0, this.moments.findIndex(moment => moment.key === "failure"));
        this.isIcicle = true;
        this.whole = false;
        this.words = "";
        this.build(parent);
        this.reset();
        new ResizeObserver(() => this.draw()).observe(this.box);
    }

    build(parent) {
        const search = element("input", {type: "search", id: "flame-search", autocomplete: "off", spellcheck: "false"});
        const whole = element("input", {type: "checkbox", id: "flame-whole", title: "Show the frames of CUDA, kedge and the C library, too"});
        search.addEventListener("input", () => {
            this.words = search.value.toLowerCase();
            this.draw();
        });
        whole.addEventListener("change", () => {
            this.whole = whole.checked;
            this.reset();
        });
        this.found = element("span", {class: "muted", role: "status"});
        this.box = element("div", {class: "frames", role: "group", "aria-label": "Frames, widest first", "aria-describedby": "flame-keys"});
        this.told = element("p", {class: "readout"});
        parent.append(element("div", {class: "bar-of-choices"}, choices("Moment", this.moments.map(moment => moment.name), this.moment, at => {
            this.moment = at;
            this.reset();
        }), choices("Direction", ["icicle", "flame"], 0, at => {
            this.isIcicle = at === 0;
            this.draw();
        }), element("label", {for: "flame-whole"}, whole, " CUDA and C library"),
        element("label", {for: "flame-search"}, "Search"), search, this.found), this.told, this.box,
        element("p", {class: "legendline muted"}, ...["native", "Python", "Python of another thread", "CUDA, kedge, C library"].map((name, at) =>
            element("span", null, element("span", {class: "swatch kind-" + [0, 1, 3, 2][at], "aria-hidden": "true"}), name))),
        element("p", {class: "keys muted", id: "flame-keys"}, "Click or Enter zooms in, Escape zooms out, arrow keys move from frame to frame."));
        this.box.addEventListener("keydown", event => this.press(event));
    }

    reset() {
        const column = 2 + 2 * ["peak", "failure", "end"].indexOf(this.moments[this.moment].key);
        this.root = flameTree(this.data, column, frame => this.whole || frame[3] !== BELOW);
        this.top = this.root;
        this.focused = this.root;
        this.draw();
    }

    draw() {
        const wide = this.box.clientWidth;
        this.nodes = [];
        this.deepest = 0;
        for (let node = this.top.parent; node; node = node.parent)
            this.place(node, 0, wide, node.depth);
        this.layOut(this.top, 0, wide);
        const height = (this.deepest + 1) * FRAME_ROW;
        this.box.style.height = height + "px";
        this.box.replaceChildren(...this.nodes.map(placed => this.frameOf(placed, height)));
        this.tellFound();
        this.tell(this.focused);
    }

    place(node, x, width, depth) {
        this.deepest = Math.max(this.deepest, depth);
        this.nodes.push({node, x, width, depth});
    }

    layOut(node, x, width) {
        this.place(node, x, width, node.depth);
        for (const child of byBytes(node)) {
            const part = width * child.bytes / node.bytes;
            if (part >= FRAME_MIN)
                this.layOut(child, x, part);
            x += part;
        }
    }

    frameOf({node, x, width, depth}, height) {
        const kind = node.frame ? "kind-" + node.frame[3] : "kind-all";
        const isFound = this.words && node.name.toLowerCase().includes(this.words);
        const button = element("button", {type: "button", class: "frame " + kind + (isFound ? " found" : ""), tabindex: node === this.focused ? "0" : "-1",
            "aria-label": node.name + ", " + bytes(node.bytes) + " in " + counted(node.blocks, "block")}, width > 24 ? node.name : "");
        button.style.left = x + "px";
        button.style.width = Math.max(width - 1, 1) + "px";
        button.style.top = (this.isIcicle ? depth * FRAME_ROW : height - (depth + 1) * FRAME_ROW) + "px";
        button.addEventListener("click", () => this.zoom(node));
        button.addEventListener("mouseenter", () => this.tell(node));
        button.addEventListener("focus", () => this.tell(node));
        node.button = button;
        return button;
    }

    zoom(node) {
        this.top = node;
        this.focused = node;
        this.draw();
        node.button.focus({preventScroll: true});
    }

    focusOn(node) {
        if (!node || !node.button || !node.button.isConnected)
            return;
        this.focused.button.setAttribute("tabindex", "-1");
        this.focused = node;
        node.button.setAttribute("tabindex", "0");
        node.button.focus();
    }

    beside(step) {
        const row = this.focused.parent ? byBytes(this.focused.parent) : [this.root];
        return row[row.indexOf(this.focused) + step];
    }

    press(event) {
        const inner = () => this.focusOn(byBytes(this.focused)[0]);
        const outer = () => this.focusOn(this.focused.parent);
        const keys = {ArrowLeft: () => this.focusOn(this.beside(-1)), ArrowRight: () => this.focusOn(this.beside(1)),
            ArrowDown: this.isIcicle ? inner : outer, ArrowUp: this.isIcicle ? outer : inner, Escape: () => this.zoom(this.top.parent || this.root)};
        if (!keys[event.key])
            return;
        event.preventDefault();
        keys[event.key]();
    }

    tell(node) {
        const file = node.frame && node.frame[1] ? node.frame[1] + (node.frame[2] ? ":" + node.frame[2] : "") : "";
        this.told.replaceChildren(element("b", {class: "figure"}, bytes(node.bytes)), " ", element("span", null, percent(node.bytes, this.root.bytes) + " in " + counted(node.blocks, "block")), " ",
            element("bdi", null, node.frame ? node.frame[0] : "all call sites"), " ", element("bdi", {class: "muted"}, file));
    }

    /* Bytes below frames that match, each counted once. */
    tellFound() {
        const sum = node => node.name.toLowerCase().includes(this.words) && node.frame ? node.bytes : byBytes(node).reduce((all, child) => all + sum(child), 0);
        const found = this.words ? sum(this.root) : 0;
        this.found.textContent = this.words ? bytes(found) + ", " + (percent(found, this.root.bytes) || "0 %") : "";
    }
}

function drawFlame(data) {
    const parent = document.getElementById("flame");
    if (data.flame.length < 2) {
        parent.append(element("p", null, "No memory was live at any of the moments that this page knows."));
        return;
    }
    new Flame(data, parent);
}
