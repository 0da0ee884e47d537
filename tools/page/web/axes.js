/* SPDX-License-Identifier: MIT */
/* Ticks and marks of the timeline. */

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
