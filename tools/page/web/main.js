/* SPDX-License-Identifier: MIT */
/* Reads the data and draws the page. `data-ready` of the document says that all of it is there, or what went wrong. */

function setTheme(theme) {
    if (theme)
        document.documentElement.dataset.theme = theme;
    else
        delete document.documentElement.dataset.theme;
}

/* A browser may keep nothing for a file: then the choice lasts as long as the page. */
function keepTheme() {
    const choice = document.getElementById("theme");
    try {
        choice.value = localStorage.getItem("kedge-theme") || "";
    } catch (error) {
        choice.value = "";
    }
    setTheme(choice.value);
    choice.addEventListener("change", () => {
        setTheme(choice.value);
        try {
            localStorage.setItem("kedge-theme", choice.value);
        } catch (error) {
            return;
        }
    });
}

function drawAll() {
    // Names are the program's: nothing that turns the direction of what follows, no controls.
    const obeyed = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
    const shown = (key, value) => (typeof value === "string" ? value.replace(obeyed, "?") : value);
    const data = JSON.parse(document.getElementById("data").textContent, shown);
    if (data.schema !== 1)
        throw new Error("data of schema " + data.schema);
    if (data.diff)
        drawDiff(data);
    else if (data.ranks)
        drawRanks(data);
    else
        drawReport(data);
}

function drawReport(run) {
    const data = withTensors(run);
    document.title = "kedge: " + baseName(data.capture);
    drawAnswer(data);
    drawEstimate(data);
    const timeline = drawTimeline(data);
    for (const draw of [drawHeld, drawDevice, drawPatterns, drawFlame, drawMap, drawSites, drawSegments, drawAnchors, drawLibraries, drawEviction, drawHints, drawAbout])
        draw(data, timeline);
    new Search(data, timeline);
}

keepTheme();
try {
    drawAll();
    document.documentElement.dataset.ready = "yes";
} catch (error) {
    document.documentElement.dataset.ready = String(error);
    document.getElementById("answer").append(element("p", {class: "verdict bad"}, "This page could not be drawn: " + error));
    throw error;
}
