/* SPDX-License-Identifier: MIT */
/* A stack: the program's own frames, and all others behind their number. Which are which: stackfold.h; frames: frames.h of load. */

const PROGRAM_NATIVE = 1; /* enum framekind of framekind.h */
const LIBRARY_CODE = 5;
const NO_KIND = 7;
const ORIGINS_SHOWN = 4;

/* The worst kind that is kept. */
function keptKind(frames) {
    const best = Math.min(...frames.map(frame => frame[4]), NO_KIND);
    return best <= PROGRAM_NATIVE ? PROGRAM_NATIVE : best < LIBRARY_CODE ? best : NO_KIND;
}

/* "12 frames of torch, libc" */
function othersText(frames) {
    const names = [...new Set(frames.map(frame => frame[5]).filter(Boolean))];
    const shown = names.length > ORIGINS_SHOWN ? [...names.slice(0, ORIGINS_SHOWN), "..."] : names;
    return counted(frames.length, "frame") + (shown.length ? " of " + shown.join(", ") : "");
}

function frameLine([name, file, line, kind, , , shorter]) {
    const where = file ? baseName(file) + (line ? ":" + line : "") : "";
    return element("li", {class: "kind-" + kind, title: (name + " " + file + (line ? ":" + line : "")).trim()}, element("bdi", null, shorter || name),
        where && !name.startsWith(where) ? [" ", element("span", {class: "muted"}, where)] : null);
}

/* Innermost first. */
function stackList(data, stack) {
    const frames = stack.map(at => data.frames[at]);
    if (frames.length === 0)
        return element("p", {class: "stack muted"}, "no stack was recorded");
    const limit = keptKind(frames);
    const others = frames.filter(frame => frame[4] > limit);
    const list = element("ol", {class: "stack"}, ...frames.filter(frame => frame[4] <= limit).map(frameLine));
    if (others.length === 0)
        return element("div", {class: "stackbox"}, list);
    const button = element("button", {type: "button", class: "unfold", "aria-expanded": "false"});
    const label = isOpen => {
        button.setAttribute("aria-expanded", String(isOpen));
        button.textContent = isOpen ? "Only the program's frames" : "+ " + othersText(others);
    };
    label(false);
    button.addEventListener("click", () => {
        const isOpen = button.getAttribute("aria-expanded") === "false";
        label(isOpen);
        list.replaceChildren(...frames.filter(frame => isOpen || frame[4] <= limit).map(frameLine));
    });
    return element("div", {class: "stackbox"}, list, button);
}

/* A title that opens what `makeDetail` returns; `place` puts it into the document, the way around a row. */
function disclosure(title, makeDetail, place) {
    let detail = null;
    const button = element("button", {type: "button", class: "disclose", "aria-expanded": "false"}, title);
    button.addEventListener("click", () => {
        if (detail) {
            detail.remove();
            detail = null;
        } else {
            detail = makeDetail();
            place(detail, button);
        }
        button.setAttribute("aria-expanded", String(detail !== null));
    });
    return button;
}
