/* SPDX-License-Identifier: MIT */
/* Figures as text, and elements. Names go into the document as text only. */

const COMMAND_SHOWN = 400; /* characters */
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

/* Two decimals as printf has them: of two that are as near, the even one; toFixed takes the larger. */
function decimals(value) {
    const isTie = value * 8 % 8 === 1 || value * 8 % 8 === 5;
    return (isTie ? value - 0.001 : value).toFixed(2);
}

/* As the command prints bytes: 3538944 is "3.38 MiB". null: not known. */
function bytes(value) {
    if (value === null || value === undefined)
        return "not known";
    let unit = 0;
    while (value >= 1024 && unit + 1 < UNITS.length) {
        value /= 1024;
        unit++;
    }
    return decimals(value) + " " + UNITS[unit];
}

/* For axes: whole where it is whole. */
function shortBytes(value) {
    return bytes(value).replace(/\.?0+ /, " ");
}

/* "+3.38 MiB" */
function signedBytes(value) {
    return (value < 0 ? "\u2212" : value > 0 ? "+" : "") + bytes(Math.abs(value));
}

/* "12,345" */
function count(value) {
    return value === null || value === undefined ? "not known" : String(value).replace(/\B(?=(\d{3})+$)/g, ",");
}

/* "1 block", "2 blocks", "3 libraries" */
function counted(value, noun) {
    return count(value) + " " + (value === 1 ? noun : noun.replace(/y$/, "ie").replace(/s$/, "se") + "s");
}

function percent(part, whole) {
    if (part > 0 && part < whole / 2000)
        return "< 0.1\u00a0%";
    return whole > 0 ? (100 * part / whole).toFixed(part / whole < 0.1 ? 1 : 0) + "\u00a0%" : "";
}

/* Nanoseconds since the run's start. */
function time(ns) {
    if (ns >= 60e9)
        return Math.floor(ns / 60e9) + " min " + (ns % 60e9 / 1e9).toFixed(1) + " s";
    if (ns >= 1e9)
        return (ns / 1e9).toFixed(3) + " s";
    return (ns / 1e6).toFixed(ns < 1e7 ? 3 : 1) + " ms";
}

function baseName(path) {
    return path.slice(path.lastIndexOf("/") + 1);
}

/* A section that has nothing to tell is not there, nor is its link. */
function dropSection(id) {
    document.getElementById(id).remove();
    document.querySelector('nav a[href="#' + id + '"]').remove();
}

function put(made, attributes, children) {
    for (const [name, value] of Object.entries(attributes || {}))
        if (value !== null && value !== undefined && value !== false)
            made.setAttribute(name, value === true ? "" : value);
    for (const child of children.flat())
        if (child !== null && child !== undefined)
            made.append(child);
    return made;
}

function element(name, attributes, ...children) {
    return put(document.createElement(name), attributes, children);
}

function drawing(name, attributes, ...children) {
    return put(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

/* "attend gpt.py:28 < forward gpt.py:32": the first frame stands out, those that called it do not. */
function way(name) {
    const cut = name.indexOf(" < ");
    if (cut < 0)
        return element("bdi", {class: "way"}, element("b", null, name));
    return element("bdi", {class: "way"}, element("b", null, name.slice(0, cut)), element("span", {class: "muted"}, name.slice(cut)));
}

/* Buttons of which one is pressed; `choose` is told its index. */
function choices(label, names, chosen, choose) {
    const group = element("div", {class: "choices", role: "group", "aria-label": label});
    names.forEach((name, at) => {
        const button = element("button", {type: "button", "aria-pressed": String(at === chosen)}, name);
        button.addEventListener("click", () => {
            for (const other of group.children)
                other.setAttribute("aria-pressed", String(other === button));
            choose(at);
        });
        group.append(button);
    });
    return group;
}

/* A name that may be broken behind its slashes. */
function brokenName(name) {
    return element("bdi", {class: "broken"}, ...name.split(/(?<=\/)/).flatMap(part => [part, element("wbr")]));
}

/* "step (3)" for the third instance of an anchor. */
function instanceOf(anchor, instance) {
    return anchor + (instance ? " (" + (instance + 1) + ")" : "");
}

/* Of a row, who asked. */
function titleOf(row) {
    return row.title || "(no stack)";
}

function commandOf(program) {
    return program.argv.join(" ").slice(0, COMMAND_SHOWN) || program.exe;
}

/* The failed allocation that the page is about; undefined: none failed. */
function lastFailure(data) {
    return data.ooms[data.ooms.length - 1];
}

/* How often memory was used too late for a hint; null: not known. */
function lateUses(hint) {
    return hint.late_touches === null ? null : hint.late_touches + hint.violations + hint.late_writes;
}

/* Why steps were detected; null: the program states them, or there are none. */
function detectedBy(data) {
    return data.steps.origin === "detected" && data.steps.rows.length > 0 ? data.steps.reason : null;
}

/* Steps that the program does not state are no more than likely. */
function stepNoun(data) {
    return detectedBy(data) ? "detected step" : "step";
}

/* "step 3": numbers are those of `report --step`, from 1. */
function stepName(data, at) {
    return stepNoun(data) + " " + (at + 1);
}

/* The moments that the page knows of, in words. */
function moments(data) {
    const failed = data.devices.length > 1 && lastFailure(data) ? ", device " + lastFailure(data).device : "";
    const names = {peak: data.by_places ? "at each device's peak" : "at the peak", failure: "at the failure" + failed, end: "at the end"};
    const heads = {peak: "Peak", failure: "Failure", end: "End"};
    return ["peak", "failure", "end"].filter(key => data.call_sites.some(site => site[key]))
        .map(key => ({key, name: names[key], head: heads[key]}));
}
