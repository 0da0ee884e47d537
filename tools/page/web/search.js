/* SPDX-License-Identifier: MIT */
/*
 * Search through all that the page tells: rows of tables and their stacks, frames, anchors of the timeline, notes. A slash goes to it, Escape leaves it; what is
 * chosen is gone to: a table shows its rows that match, the flame graph marks its frames.
 */

const HITS_SHOWN = 12;

class Search {
    constructor(data, timeline) {
        this.data = data;
        this.timeline = timeline;
        this.field = document.getElementById("search");
        this.list = document.getElementById("hits");
        this.field.addEventListener("input", () => this.look());
        this.field.addEventListener("keydown", event => this.press(event));
        this.list.addEventListener("keydown", event => this.press(event));
        document.addEventListener("keydown", event => this.call(event));
        document.addEventListener("pointerdown", event => {
            if (!event.target.closest(".search"))
                this.list.hidden = true;
        });
    }

    /* "/" anywhere but in a field. */
    call(event) {
        if (event.key !== "/" || event.target.closest("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey)
            return;
        event.preventDefault();
        this.field.focus();
        this.field.select();
    }

    press(event) {
        const hits = [...this.list.querySelectorAll("button")];
        const at = hits.indexOf(document.activeElement);
        const keys = {ArrowDown: () => hits[Math.min(hits.length - 1, at + 1)]?.focus(), ArrowUp: () => (at > 0 ? hits[at - 1] : this.field).focus(),
            Escape: () => {
                this.field.value = "";
                this.look();
                this.field.blur();
            },
            Enter: () => (at < 0 ? hits[0] : hits[at])?.click()};
        if (!keys[event.key])
            return;
        event.preventDefault();
        keys[event.key]();
    }

    look() {
        const words = this.field.value.toLowerCase().split(/\s+/).filter(Boolean);
        const hits = words.length ? this.hits(text => words.every(word => text.toLowerCase().includes(word))) : [];
        this.list.hidden = words.length === 0;
        this.list.replaceChildren(...(hits.length ? hits.slice(0, HITS_SHOWN).map(hit => this.hitOf(hit)) : [element("p", {class: "muted"}, "Nothing on this page has these words.")]),
            hits.length > HITS_SHOWN ? element("p", {class: "muted"}, "and " + counted(hits.length - HITS_SHOWN, "more place")) : "");
    }

    hitOf(hit) {
        const button = element("button", {type: "button"}, element("span", {class: "muted"}, hit.where + ": "), element("bdi", null, hit.text));
        button.addEventListener("click", () => {
            this.list.hidden = true;
            hit.go();
        });
        return button;
    }

    /* Each place with its first text that matches, and how many more it has. */
    hits(matches) {
        const found = [];
        const add = (where, rows, go, text = row => row, title = text) => {
            const right = rows.filter(row => matches(text(row)));
            if (right.length)
                found.push({where, text: title(right[0]) + (right.length > 1 ? ", and " + count(right.length - 1) + " more" : ""), go: () => go(right[0])});
        };
        for (const table of Table.all)
            if (table.isThere())
                add(table.caption, table.rows, () => table.filterBy(this.field.value), row => table.textOf(row), row => table.columns[0].text(row));
        if (this.timeline)
            add("Timeline", this.data.timeline.bars, bar => this.timeline.showPart(bar[0], bar[1]), bar => bar[3]);
        if (this.data.flame.length > 1)
            add("Flame graph", this.data.flame.slice(1).map(node => frameName(this.data.frames[node[1]])), () => {
                const field = document.getElementById("flame-search");
                field.value = this.field.value;
                field.dispatchEvent(new Event("input"));
                field.scrollIntoView({block: "center"});
            });
        add("Notes", this.data.notes.map(note => note[1]), () => document.getElementById("about").scrollIntoView());
        return found;
    }
}
