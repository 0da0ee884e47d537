/* SPDX-License-Identifier: MIT */
/*
 * Tables that sort and filter: {caption, columns, rows, sorted, rising, filter, foot}; `sorted` is the column at first, none: rows stay in their
 * order; `foot` has the cells of a last row; `detail(row)` makes what a row opens
 * below itself, over the whole width, null: nothing; `words(row)` is searched, too. A column: {label, text(row), value(row), figure, cell(row), narrow}: `text` is what is shown and searched,
 * `value` what is sorted by, `cell` an element instead of the text; a first column that is `narrow` has short texts, a `wide` one long figures.
 */

const ROWS_SHOWN = 15;
let tables = 0; /* made so far */

class Table {
    static all = [];

    constructor(parent, options) {
        Table.all = [...Table.all.filter(table => table.isThere()), this];
        this.columns = options.columns;
        this.rows = options.rows;
        this.sorted = options.sorted;
        this.falling = !options.rising;
        this.all = false;
        this.filtered = "";
        this.caption = options.caption;
        this.build(parent, options);
        this.draw();
    }

    build(parent, options) {
        this.detail = options.detail || (() => null);
        this.words = options.words || (() => "");
        const hasFilter = options.filter !== false && options.rows.length > 1;
        const id = "filter-" + tables++;
        this.filter = element("input", {id, type: "search", autocomplete: "off", spellcheck: "false"});
        this.filter.addEventListener("input", () => {
            this.filtered = this.filter.value.toLowerCase();
            this.draw();
        });
        this.shown = element("span", {class: "muted", role: "status"});
        this.more = element("button", {type: "button", class: "more"});
        this.more.addEventListener("click", () => {
            this.all = !this.all;
            this.draw();
        });
        this.head = element("tr");
        this.body = element("tbody");
        this.heads = this.columns.map((column, at) => this.headOf(column, at));
        this.head.append(...this.heads);
        const title = element("h3", {id: id + "-title"}, this.caption);
        const filter = [element("label", {for: id}, "Filter"), this.filter, this.shown];
        parent.append(element("div", {class: "tablebar"}, title, ...(hasFilter ? filter : [])),
            element("div", {class: "scroll", tabindex: "0", role: "region", "aria-labelledby": title.id},
                element("table", {"aria-labelledby": title.id, class: this.columns[0].narrow ? "narrow" : null}, element("thead", null, this.head), this.body, options.foot ? this.footOf(options.foot) : null)), this.more);
    }

    isThere() {
        return this.head.isConnected;
    }

    textOf(row) {
        return this.columns.map(c => c.text(row)).join(" ") + " " + this.words(row);
    }

    /* Shows the rows that have these words, and goes to them. */
    filterBy(words) {
        this.filter.value = words;
        this.filtered = words.toLowerCase();
        this.draw();
        this.head.closest(".scroll").scrollIntoView({block: "center"});
        this.head.closest(".scroll").focus({preventScroll: true});
    }

    footOf(texts) {
        return element("tfoot", null, element("tr", null, ...texts.map((text, at) =>
            element(at === 0 ? "th" : "td", {scope: at === 0 ? "row" : null, class: this.classOf(this.columns[at])}, text))));
    }

    headOf(column, at) {
        const label = this.labelOf(at);
        const button = element("button", {type: "button"}, label === column.label ? null : element("span", {class: "of"}, label.slice(0, -column.label.length)), column.label, element("span", {class: "order", "aria-hidden": "true"}));
        button.addEventListener("click", () => {
            this.falling = this.sorted === at ? !this.falling : Boolean(column.figure);
            this.sorted = at;
            this.draw();
        });
        return element("th", {scope: "col", class: column.figure ? "figure" : null}, button);
    }

    chosen() {
        const column = this.columns[this.sorted];
        const words = this.filtered.split(/\s+/).filter(Boolean);
        const found = this.rows.filter(row => {
            const text = this.textOf(row).toLowerCase();
            return words.every(word => text.includes(word));
        });
        if (!column)
            return found;
        const sign = this.falling ? -1 : 1;
        return found.sort((a, b) => {
            const x = column.value ? column.value(a) : column.text(a);
            const y = column.value ? column.value(b) : column.text(b);
            return x < y ? -sign : x > y ? sign : 0;
        });
    }

    draw() {
        const rows = this.chosen();
        const shown = this.all ? rows : rows.slice(0, ROWS_SHOWN);
        this.heads.forEach((head, at) => {
            const order = at !== this.sorted ? "none" : this.falling ? "descending" : "ascending";
            head.setAttribute("aria-sort", order);
        });
        this.shown.textContent = rows.length === this.rows.length ? counted(rows.length, "row") : count(rows.length) + " of " + counted(this.rows.length, "row");
        this.more.hidden = rows.length <= ROWS_SHOWN;
        this.more.textContent = this.all ? "Show fewer" : "Show all " + count(rows.length);
        this.body.replaceChildren(...shown.map(row => this.rowOf(row)));
    }

    classOf(column) {
        return !column.figure ? null : column.wide ? "figure wide" : "figure";
    }

    /* "blocks" below "Peak" is "Peak blocks" where a column stands alone. */
    labelOf(at) {
        const {label} = this.columns[at];
        return at > 0 && /^[a-z]/.test(label) ? this.columns[at - 1].label + ", " + label : label;
    }

    rowOf(row) {
        return element("tr", null, ...this.columns.map((column, at) => {
            const content = column.cell ? column.cell(row) : column.text(row);
            const detail = at === 0 ? this.detail(row) : null;
            return element(at === 0 ? "th" : "td", {scope: at === 0 ? "row" : null, class: at > 0 && column.text(row) === "" ? "blank" : this.classOf(column), "data-label": at === 0 ? null : this.labelOf(at)},
                detail ? this.opener(detail, content) : content);
        }));
    }

    opener(detail, content) {
        return disclosure(content, () => element("tr", {class: "detail"}, element("td", {colspan: String(this.columns.length)}, detail())),
            (detail, button) => button.closest("tr").after(detail));
    }
}

function textColumn(label, text, cell) {
    return {label, text, cell};
}

function bytesColumn(label, value) {
    return {label, figure: true, value: row => value(row) ?? -1, text: row => bytes(value(row))};
}

function countColumn(label, value) {
    return {label, figure: true, value: row => value(row) ?? -1, text: row => count(value(row))};
}
