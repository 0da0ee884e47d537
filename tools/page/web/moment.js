/* SPDX-License-Identifier: MIT */
/* What was live in the range that the timeline shows or that is chosen in it: at its highest moment, and what changed over it. */

const NAMES_SHOWN = 12;

class Moment {
    constructor(run, timeline, parent) {
        this.run = run;
        this.heading = document.getElementById("moment-title");
        this.text = element("p", {class: "lede", role: "status"});
        this.tree = element("div", {class: "treemap", role: "img"});
        this.table = element("div");
        parent.append(this.text, this.tree, this.table);
        timeline.onRange((from, behind, grouping) => this.show(from, behind, grouping));
        new ResizeObserver(() => drawTreemap(this.tree, this.rows, this.grouping)).observe(this.tree);
    }

    show(from, behind, grouping) {
        const isSame = this.shown && this.shown[0] === from && this.shown[1] === behind && this.grouping === grouping;
        if (isSame)
            return;
        this.shown = [from, behind];
        this.grouping = grouping;
        const {run} = this;
        const top = run.highest(from, behind);
        this.rows = [...grouping.columns.keys(), -1].map(key => this.row(grouping, key, from, behind, top)).filter(row => row.bytes > 0 || row.change !== 0)
            .sort((a, b) => b.bytes - a.bytes);
        this.tell(from, behind, top);
        drawTreemap(this.tree, this.rows, grouping);
        this.draw(top);
    }

    row(grouping, key, from, behind, top) {
        const at = leaf => (leaf < 0 ? 0 : key < 0 ? this.run.rest(grouping, leaf) : grouping.columns[key][leaf]);
        return {key, title: grouping.name(key), stack: grouping.stack(key), bytes: at(top), change: at(behind - 1) - at(this.before(from))};
    }

    /* The leaf before a range; -1: nothing was live before the run; of a window that is not known. */
    before(from) {
        return from > 0 || !this.run.data.window.from ? from - 1 : 0;
    }

    tell(from, behind, top) {
        const {run} = this;
        const live = leaf => (leaf < 0 ? 0 : run.live[leaf]);
        const isWhole = from === 0 && behind === run.leaves;
        const step = run.steps.findIndex(one => one[2] === from && one[3] === behind);
        const whole = run.data.window.from || run.data.window.to ? "the window" : "the run";
        const range = isWhole ? whole : step >= 0 ? stepName(run.data, step) : "this range";
        const before = live(this.before(from));
        const place = run.placeOf(top);
        this.heading.textContent = "Live at the highest moment of " + range;
        this.text.replaceChildren(element("b", {class: "figure"}, bytes(run.live[top])), " at " + run.when(run.at[top]) + (place ? ", in " : ""), place ? element("bdi", null, place) : "",
            ". From " + run.when(run.position[from]) + " to " + run.when(run.position[behind]) + " the program allocated " + bytes(run.sum("allocated", from, behind)) + " in "
            + counted(run.sum("allocated_count", from, behind), "block") + " and freed " + bytes(run.sum("freed", from, behind)) + " in " + counted(run.sum("freed_count", from, behind), "block")
            + "; live went from " + bytes(before) + " to " + bytes(live(behind - 1)) + " (" + signedBytes(live(behind - 1) - before) + ").");
    }

    /* What opens below a kind: its largest blocks with names; null: none has one. */
    namesOf(kind, leaf) {
        const {run} = this;
        const named = run.blocksAt(leaf).filter(block => run.kinds.keyOfBlock[block] === kind && run.blocks.name[block]).sort((a, b) => run.blocks.size[b] - run.blocks.size[a]);
        const lines = () => named.slice(0, NAMES_SHOWN).map(block => element("li", null, element("span", {class: "figure"}, bytes(run.blocks.size[block])), " ", element("bdi", null, run.nameOf(block))));
        const rest = named.length - NAMES_SHOWN;
        return named.length === 0 ? null : () => element("div", {class: "stackbox"}, element("ol", {class: "stack names"}, ...lines()), rest > 0 ? element("p", {class: "muted"}, "and " + counted(rest, "smaller one")) : null);
    }

    draw(top) {
        const total = this.run.live[top];
        const {by} = this.grouping;
        this.table.replaceChildren();
        const details = by === "kind" ? {detail: row => this.namesOf(row.key, top)} : withStacks(this.run.data);
        new Table(this.table, {caption: "By " + GROUPINGS[by], rows: this.rows, sorted: 1, ...details,
            foot: ["Total", bytes(this.rows.reduce((sum, row) => sum + row.bytes, 0)), "", signedBytes(this.rows.reduce((sum, row) => sum + row.change, 0))],
            columns: [textColumn(GROUPINGS[by][0].toUpperCase() + GROUPINGS[by].slice(1), row => row.title, row => way(by === "library" ? baseName(row.title) : row.title)),
                bytesColumn("Live", row => row.bytes), {label: "Share", figure: true, value: row => row.bytes, text: row => percent(row.bytes, total)},
                {label: "Change from begin to end", figure: true, value: row => row.change, text: row => signedBytes(row.change)}]});
    }
}
