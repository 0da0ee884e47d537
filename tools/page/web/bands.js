/* SPDX-License-Identifier: MIT */
/*
 * The timeline's picture: of each key a band, in it the blocks that are drawn one by one, above them what they lack, paler.
 * It is drawn for stretches: {leaf, left, right}, pixels.
 */

const BLOCK_LEAST = 0.6; /* pixels: lower blocks are part of their band */

class Bands {
    constructor(run, canvas) {
        this.run = run;
        this.canvas = canvas;
    }

    /* A rectangle that goes on in the next stretch, if it lies at the same height. */
    static extend(open, id, rectangle, done) {
        const before = open.get(id);
        if (before && before.right === rectangle.left && before.low === rectangle.low && before.high === rectangle.high) {
            before.right = rectangle.right;
            return;
        }
        if (before)
            done.push(before);
        open.set(id, rectangle);
    }

    /* Rectangles in bytes and pixels: of bands, and of blocks. */
    layOut(grouping, stretches, bytesPerPixel) {
        const {blocks} = this.run;
        const active = new Map();
        const open = {bands: new Map(), blocks: new Map()};
        const done = {bands: [], blocks: []};
        let next = 0;
        for (const {leaf, left, right} of stretches) {
            for (; next < blocks.count && blocks.first[next] <= leaf; next++) {
                const key = grouping.keyOfBlock[next];
                if (!active.has(key))
                    active.set(key, []);
                active.get(key).push(next);
            }
            let low = 0;
            for (const key of [...grouping.order, -1]) {
                const all = key < 0 ? this.run.rest(grouping, leaf) : grouping.columns[key][leaf];
                const lasting = (active.get(key) || []).filter(block => blocks.behind[block] > leaf);
                active.set(key, lasting);
                if (all === 0)
                    continue;
                Bands.extend(open.bands, key, {key, left, right, low, high: low + all}, done.bands);
                let at = low;
                for (const block of lasting) {
                    const size = blocks.size[block];
                    if (size >= BLOCK_LEAST * bytesPerPixel)
                        Bands.extend(open.blocks, block, {block, key, left, right, low: at, high: at + size}, done.blocks);
                    at += size;
                }
                low += all;
            }
        }
        done.bands.push(...open.bands.values());
        done.blocks.push(...open.blocks.values());
        return done;
    }

    draw(grouping, stretches, box, most, pinned) {
        const context = this.canvas.getContext("2d");
        const scale = window.devicePixelRatio || 1;
        const style = getComputedStyle(document.documentElement);
        const colours = new Map();
        const colour = key => {
            if (!colours.has(key))
                colours.set(key, style.getPropertyValue("--" + grouping.colour(key)).trim());
            return colours.get(key);
        };
        this.canvas.width = Math.round(box.width * scale);
        this.canvas.height = Math.round(box.height * scale);
        context.setTransform(scale, 0, 0, scale, 0, 0);
        context.clearRect(0, 0, box.width, box.height);
        const y = value => box.height * (1 - value / most);
        const {bands, blocks} = this.layOut(grouping, stretches, most / box.height);
        context.globalAlpha = 0.55;
        for (const {key, left, right, low, high} of bands) {
            context.fillStyle = colour(key);
            context.fillRect(left, y(high), right - left, y(low) - y(high));
        }
        context.globalAlpha = 1;
        for (const {block, key, left, right, low, high} of blocks) {
            const wide = right - left;
            const tall = y(low) - y(high);
            context.fillStyle = colour(key);
            context.fillRect(left, y(high), wide - (wide > 3 ? 0.7 : 0), tall - (tall > 2.5 ? 0.7 : 0));
            if (block === pinned) {
                context.strokeStyle = style.getPropertyValue("--ink").trim();
                context.lineWidth = 2;
                context.strokeRect(left + 1, y(high) + 1, Math.max(wide - 2, 1), Math.max(tall - 2, 1));
            }
        }
    }

    /* From the bottom up: each key's blocks, then what they lack of its bytes. {key, block, low, high}; block -1: none. */
    pile(grouping, leaf) {
        const parts = [];
        const of = this.run.blocksAt(leaf);
        let low = 0;
        for (const key of [...grouping.order, -1]) {
            const all = key < 0 ? this.run.rest(grouping, leaf) : grouping.columns[key][leaf];
            let at = low;
            if (all === 0)
                continue;
            for (const block of of.filter(one => grouping.keyOfBlock[one] === key)) {
                parts.push({key, block, low: at, high: at + this.run.blocks.size[block]});
                at += this.run.blocks.size[block];
            }
            low += all;
            if (low > at)
                parts.push({key, block: -1, low: at, high: low});
        }
        return parts;
    }
}
