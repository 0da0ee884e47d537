/* SPDX-License-Identifier: MIT */
/* Rectangles whose areas are bytes: rows that are as near to squares as they can be. */

const TREE_HEIGHT = 190;
const TREE_LEAST = 2; /* pixels */

/* The worst ratio of sides, if these sizes fill a row of this length. */
function worstRatio(sizes, sum, length) {
    const wide = sum / length;
    return Math.max(...sizes.map(size => Math.max(wide * wide / size, size / (wide * wide))));
}

/* Rectangles for the rows, largest first; areas in square pixels. */
function layOutTree(rows, box) {
    const total = rows.reduce((sum, row) => sum + row.bytes, 0);
    const sized = rows.map(row => ({row, size: row.bytes / total * box.width * box.height}));
    const found = [];
    let {x, y, width, height} = {x: 0, y: 0, ...box};
    for (let at = 0; at < sized.length;) {
        const length = Math.min(width, height);
        let end = at + 1;
        let sizes = [sized[at].size];
        while (end < sized.length) {
            const more = [...sizes, sized[end].size];
            const sum = list => list.reduce((all, size) => all + size, 0);
            if (worstRatio(more, sum(more), length) > worstRatio(sizes, sum(sizes), length))
                break;
            sizes = more;
            end++;
        }
        const thick = sizes.reduce((all, size) => all + size, 0) / length;
        let along = 0;
        for (const {row, size} of sized.slice(at, end)) {
            const part = size / thick;
            found.push(width <= height ? {row, x: x + along, y, width: part, height: thick} : {row, x, y: y + along, width: thick, height: part});
            along += part;
        }
        if (width <= height) {
            y += thick;
            height -= thick;
        } else {
            x += thick;
            width -= thick;
        }
        at = end;
    }
    return found;
}

function drawTreemap(parent, rows, grouping) {
    const shown = rows.filter(row => row.bytes > 0);
    const box = {width: parent.clientWidth, height: TREE_HEIGHT};
    parent.style.height = TREE_HEIGHT + "px";
    parent.setAttribute("aria-label", "Live bytes by " + GROUPINGS[grouping.by] + ": " + shown.slice(0, 5).map(row => row.title + " " + bytes(row.bytes)).join(", "));
    const tiles = box.width === 0 || shown.length === 0 ? [] : layOutTree(shown, box);
    parent.replaceChildren(...tiles.filter(tile => tile.width >= TREE_LEAST && tile.height >= TREE_LEAST).map(({row, x, y, width, height}) => {
        const name = grouping.by === "library" ? baseName(row.title) : row.title;
        const made = element("div", {class: "tile", title: name + ": " + bytes(row.bytes)}, width > 90 && height > 18 ? element("span", null, element("b", {class: "figure"}, bytes(row.bytes)), " ", element("bdi", null, name)) : null);
        made.style.left = x + "px";
        made.style.top = y + "px";
        made.style.width = Math.max(1, width - 1) + "px";
        made.style.height = Math.max(1, height - 1) + "px";
        made.style.borderLeftColor = "var(--" + grouping.colour(row.key) + ")";
        return made;
    }));
}
