/* SPDX-License-Identifier: MIT */
/* The timeline's data (page_leaves.h, page_blocks.h), read: leaves, columns of live bytes by key, blocks. */

const COLOURS = 7;

/* Numbers of a packed text (page_pack.h). */
function unpack(text) {
    const raw = atob(text);
    const numbers = [];
    let value = 0;
    let scale = 1;
    for (let at = 0; at < raw.length; at++) {
        const byte = raw.charCodeAt(at);
        value += (byte & 127) * scale;
        scale *= 128;
        if (byte < 128) {
            numbers.push(value);
            value = 0;
            scale = 1;
        }
    }
    return numbers;
}

/* 0, 1, 2, 3 ... are 0, -1, 1, -2 ... */
function difference(number) {
    return number % 2 ? -(number + 1) / 2 : number / 2;
}

/* Each number added to the one before. */
function summed(numbers, begin) {
    let value = begin;
    return Float64Array.from(numbers, number => value += number);
}

/* The keys of one grouping ("site", "module" ...), most bytes at one moment first. */
class Grouping {
    constructor(data, grouping, leaves) {
        this.by = grouping.by;
        this.sites = grouping.sites ? grouping.sites.map(site => data.call_sites[site]) : null;
        this.names = this.sites ? this.sites.map(titleOf) : grouping.names;
        this.columns = grouping.columns.map(column => Grouping.column(unpack(column), leaves));
        this.keyOfBlock = Int32Array.from(unpack(grouping.of_block), number => number - 1);
        this.colours = [...this.names.keys()];
        const area = this.columns.map(column => column.reduce((sum, value) => sum + value, 0));
        this.order = [...area.keys()].sort((a, b) => area[b] - area[a]); /* what stays lies below what comes and goes */
    }

    static column(pairs, leaves) {
        const values = new Float64Array(leaves);
        let value = 0;
        let done = 0;
        for (let at = 0, leaf = 0; at < pairs.length; at += 2) {
            leaf += pairs[at];
            values.fill(value, done, leaf);
            value += difference(pairs[at + 1]);
            done = leaf;
        }
        values.fill(value, done);
        return values;
    }

    /* The class of a key's colour; all but the first keys are grey. */
    colour(key) {
        return key >= 0 && this.colours[key] < COLOURS ? "colour-" + this.colours[key] : "colour-rest";
    }

    /* Keys that another run has, too, have its colours; the others those that are left. */
    takeColours(other) {
        const theirs = this.names.map(name => other.names.indexOf(name)).map(key => (key < 0 ? Infinity : other.colours[key]));
        const left = [...Array(COLOURS).keys()].filter(colour => !theirs.includes(colour));
        this.colours = theirs.map(colour => (colour === Infinity ? left.shift() ?? Infinity : colour));
    }

    name(key) {
        return key < 0 ? "all others" : this.names[key];
    }

    stack(key) {
        return this.sites && key >= 0 ? this.sites[key].stack : null;
    }
}

class Blocks {
    constructor(blocks, begin) {
        const list = key => unpack(blocks[key]);
        this.count = blocks.count;
        this.leftOut = blocks.left_out;
        this.first = summed(list("first"), 0);
        const leaves = list("leaves");
        this.behind = this.first.map((first, at) => first + leaves[at]);
        this.size = Float64Array.from(list("size"));
        this.born = summed(list("born").map(difference), begin);
        this.life = list("life");
        this.site = list("site");
        this.stack = list("stack");
        this.class = list("class");
        this.device = list("device");
        this.anchor = list("anchor");
        this.name = list("name");
        this.classes = blocks.classes;
        this.stacks = blocks.stacks;
        this.names = blocks.names;
    }
}

class Run {
    constructor(data) {
        const line = data.timeline;
        const list = key => unpack(line.leaves[key]);
        this.data = data;
        this.line = line;
        this.leaves = line.leaves.count;
        this.position = summed([...list("position"), 0], line.begin);
        this.position[this.leaves] = line.end;
        this.at = Float64Array.from(list("at"), (after, leaf) => this.position[leaf] + after);
        this.live = summed(list("live").map(difference), 0);
        this.reserved = summed(list("reserved").map(difference), 0);
        for (const key of ["allocated", "allocated_count", "freed", "freed_count"])
            this[key] = list(key);
        this.anchor = list("anchor");
        this.steps = Run.steps(line);
        this.groupings = line.groupings.map(grouping => new Grouping(data, grouping, this.leaves));
        this.blocks = new Blocks(line.blocks, line.begin);
        this.kinds = this.groupings.find(grouping => grouping.by === "kind"); /* undefined: not known */
        this.peak = this.highest(0, this.leaves);
    }

    /* "head.weight"; "": a block has no name. */
    nameOf(block) {
        const {name, names} = this.blocks;
        return name[block] ? names[name[block] - 1] : "";
    }

    /* Of each step: its first and last position, its first leaf, and that behind it. */
    static steps(line) {
        const list = key => unpack(line.steps[key]);
        const begin = summed(list("begin").map(difference), line.begin);
        const first = summed(list("first").map(difference), 0);
        const leaves = list("leaves");
        return list("length").map((length, at) => [begin[at], begin[at] + length, first[at], first[at] + leaves[at]]);
    }

    /* The leaf with most live bytes of those of a range. */
    highest(from, behind) {
        let best = from;
        for (let leaf = from + 1; leaf < behind; leaf++)
            if (this.live[leaf] > this.live[best])
                best = leaf;
        return best;
    }

    /* The leaf that a position lies in. */
    leafAt(position) {
        let low = 0;
        let high = this.leaves;
        while (low + 1 < high) {
            const mid = (low + high) >> 1;
            if (this.position[mid] <= position)
                low = mid;
            else
                high = mid;
        }
        return low;
    }

    stepOf(leaf) {
        return this.steps.findIndex(step => step[2] <= leaf && leaf < step[3]);
    }

    /* "step/backward (2)", "step 3" or "": where a leaf's moment is. */
    placeOf(leaf) {
        const anchor = this.anchor[leaf] ? this.line.anchors[this.anchor[leaf] - 1] : this.anchorAt(this.at[leaf]);
        const step = this.stepOf(leaf);
        return anchor || (step >= 0 ? stepName(this.data, step) : "");
    }

    anchorAt(position) {
        const found = this.line.bars.filter(bar => bar[0] <= position && position <= bar[1]);
        return found.length ? found.reduce((a, b) => (b[2] > a[2] || (b[2] === a[2] && b[1] - b[0] < a[1] - a[0]) ? b : a))[3] : "";
    }

    /* "8.822 s", or "event 12" where events have no times. */
    when(position) {
        return this.line.axis === "time" ? time(position) : "event " + count(Math.round(position));
    }

    sum(key, from, behind) {
        let all = 0;
        for (let leaf = from; leaf < behind; leaf++)
            all += this[key][leaf];
        return all;
    }

    /* What the columns of a grouping lack at a leaf's moment. */
    rest(grouping, leaf) {
        return Math.max(0, grouping.columns.reduce((left, column) => left - column[leaf], this.live[leaf]));
    }

    blocksAt(leaf) {
        const {first, behind, count: all} = this.blocks;
        const found = [];
        for (let block = 0; block < all && first[block] <= leaf; block++)
            if (behind[block] > leaf)
                found.push(block);
        return found;
    }
}
