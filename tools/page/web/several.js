/* SPDX-License-Identifier: MIT */
/* What pages of several runs share: their sections, and timelines on one scale with one colour for each key. */

/* The data of one run, as the scripts of a report's page know them. */
function runData(data, at) {
    return {...data.runs[at], frames: data.frames, flame: []};
}

function newSection(id, title) {
    const made = element("section", {id, class: "panel", "aria-labelledby": id + "-title"}, element("h2", {id: id + "-title"}, title));
    document.querySelector("main").append(made);
    document.querySelector("nav").append(element("a", {href: "#" + id}, title));
    return made;
}

/* Of a report's sections only these. */
function keepSections(kept) {
    for (const link of [...document.querySelectorAll("nav a")].filter(one => !kept.includes(one.hash)))
        dropSection(link.hash.slice(1));
}

/* Colours are those of the run with the highest peak. */
function drawSeveral(data, names, isBeside) {
    const parent = document.getElementById("timeline");
    const most = Math.max(...data.runs.map(run => Math.max(run.peak_live_bytes || 0, run.peak_reserved_bytes || 0)));
    const runs = data.runs.map((run, at) => (run.timeline.leaves.count ? new Run(runData(data, at)) : null));
    const drawn = runs.filter(Boolean);
    const first = drawn.length ? drawn.reduce((a, b) => (b.live[b.peak] > a.live[a.peak] ? b : a)) : null;
    for (const run of drawn.filter(one => one !== first))
        for (const grouping of run.groupings) {
            const theirs = first.groupings.find(one => one.by === grouping.by);
            if (theirs)
                grouping.takeColours(theirs);
        }
    const box = element("div", {class: isBeside ? "beside" : null});
    parent.append(box);
    runs.forEach((run, at) => {
        const place = element("div", null, element("h3", null, names[at]));
        box.append(place);
        if (run)
            new Timeline(run, place, {id: "run-" + at, most, telling: at === runs.length - 1});
        else
            place.append(element("p", null, "This capture has no events, so how memory changed over the run is not known."));
    });
}
