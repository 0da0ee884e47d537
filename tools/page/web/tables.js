/* SPDX-License-Identifier: MIT */
/* The tables of the page. */

/* Options of a table whose rows open the stack that asked for them, and are found by its frames. */
function withStacks(data) {
    return {detail: row => (row.stack && row.stack.length > 0 ? () => stackList(data, row.stack) : null),
        words: row => (row.stack || []).map(at => data.frames[at].slice(0, 3).join(" ")).join(" ")};
}

function titleColumn(label) {
    return textColumn(label, titleOf, row => way(titleOf(row)));
}

/* Where a page has not all of them: which it has. */
function partNote(parent, rows, leftOut, noun, which) {
    if (leftOut)
        parent.append(element("p", {class: "note"}, "These are the " + count(rows.length) + " of " + counted(rows.length + leftOut, noun) + " " + which + "."));
}

function drawSites(data) {
    const rows = data.call_sites.filter(site => site.allocated[1] > 0 || (site.failure && site.failure[1] > 0));
    const parent = document.getElementById("sites");
    if (rows.length === 0) {
        parent.append(element("p", null, "Nothing was allocated."));
        return;
    }
    const columns = [titleColumn("Call site")];
    for (const {key, head} of moments(data))
        columns.push(bytesColumn(head, site => site[key][0]), countColumn("blocks", site => site[key][1]));
    columns.push(bytesColumn("Own peak", site => site.most), bytesColumn("Allocated", site => site.allocated[0]),
        countColumn("times", site => site.allocated[1]));
    if (rows.some(site => site.library !== ""))
        columns.push(textColumn("Library", site => baseName(site.library), site => element("bdi", {title: site.library}, baseName(site.library))));
    new Table(parent, {caption: "Who asked for memory", columns, rows, sorted: 1, ...withStacks(data)});
}

/* The number of a step, which shows it in the timeline. */
function stepButton(timeline, number) {
    if (!timeline || !timeline.run.steps[number])
        return count(number + 1);
    const button = element("button", {type: "button", class: "link", title: "Show this step in the timeline"}, count(number + 1));
    button.addEventListener("click", () => {
        timeline.showStep(number);
        timeline.plot.scrollIntoView({block: "center"});
        timeline.plot.focus({preventScroll: true});
    });
    return button;
}

function drawSteps(data, parent, timeline) {
    const steps = data.steps.rows;
    if (steps.length === 0)
        return;
    const noun = stepNoun(data);
    const name = row => (row.name ? instanceOf(row.name, row.instance) : stepName(data, row.at)) + (row.likeness < 0.7 ? ", unlike the others (" + Math.round(100 * row.likeness) + " % alike)" : "");
    const reason = detectedBy(data);
    if (reason)
        parent.append(element("p", {class: "note"}, "These steps are not stated by anchors. They were detected, since what is allocated repeats: " + reason + "."));
    partNote(parent, steps, data.steps.rows_left_out, noun, "that came first");
    new Table(parent, {caption: reason ? "Detected steps" : "Steps", sorted: 2, rows: steps.map((row, at) => ({...row, at})), columns: [
        textColumn(reason ? "Name" : "Anchor", name), {...countColumn("Step", row => row.at + 1), cell: row => stepButton(timeline, row.at)}, bytesColumn("Peak live", row => row.peak_live_bytes),
        bytesColumn("Live at its end", row => row.live_end_bytes), {label: "Change", figure: true, value: row => row.live_end_bytes - row.live_begin_bytes,
            text: row => signedBytes(row.live_end_bytes - row.live_begin_bytes)},
        bytesColumn("Allocated", row => row.allocated_bytes), countColumn("times", row => row.allocated_count)]});
}

function drawAnchors(data, timeline) {
    const parent = document.getElementById("anchors");
    if (data.steps.growers.length > 0)
        new Table(parent, {caption: "What grows from round to round", sorted: 3, rows: data.steps.growers, ...withStacks(data), columns: [
            titleColumn("Call site"), bytesColumn("After the first round", row => row.first_bytes),
            bytesColumn("After the last round", row => row.last_bytes), bytesColumn("Growth", row => row.last_bytes - row.first_bytes),
            textColumn("Round", row => row.round), countColumn("Rounds", row => row.rounds), countColumn("Rounds in which it grew", row => row.rises)]});
    drawSteps(data, parent, timeline);
    if (data.anchors.length === 0) {
        parent.append(element("p", null, "The program named no anchors. kedge takes them from NVTX ranges, the framework's own names or log lines."));
        return;
    }
    partNote(parent, data.anchors, data.anchors_left_out, "anchor", "with the highest Max");
    new Table(parent, {caption: "Anchors", sorted: 1, rows: data.anchors, columns: [
        textColumn("Anchor", row => instanceOf(row.name, row.instance)), bytesColumn("Max", row => row.max_bytes),
        bytesColumn("Remaining", row => row.remaining_bytes), bytesColumn("Allocated", row => row.allocated_bytes), countColumn("times", row => row.allocated_count),
        bytesColumn("Freed", row => row.freed_bytes), countColumn("times", row => row.freed_count), bytesColumn("Peak live of the run", row => row.peak_live_bytes)]});
}

function drawLibraries(data) {
    const parent = document.getElementById("libraries");
    const columns = first => [first, bytesColumn("At Max", row => row.at_max_bytes), bytesColumn("Live at the end", row => row.live_bytes),
        countColumn("blocks", row => row.live_count), bytesColumn("Own peak", row => row.own_peak_bytes), bytesColumn("Allocated", row => row.allocated_bytes), countColumn("times", row => row.allocated_count)];
    if (data.sources.length === 0) {
        parent.append(element("p", null, "Nothing was allocated."));
        return;
    }
    partNote(parent, data.sources, data.sources_left_out, "library", "that held most at the peak");
    new Table(parent, {caption: "By library", sorted: 1, rows: data.sources, columns:
        columns(textColumn("Library", row => row.library, row => element("bdi", {title: row.library}, baseName(row.library))))});
    const ofClasses = columns(textColumn("Class", row => row.name + (row.device_memory ? "" : " (not device memory)")));
    if (data.classes.every(row => row.at_max_bytes === null)) /* the run kept its own sums alone */
        ofClasses.splice(1, 1);
    new Table(parent, {caption: "By class of memory", sorted: 1, rows: data.classes, columns: ofClasses});
}

function drawHints(data) {
    const parent = document.getElementById("hints");
    if (data.hints.length === 0) {
        parent.append(element("p", null, "This run had no hints. ", element("code", null, "kedge suggest"), " looks for memory that could be released earlier, and writes them."));
        return;
    }
    const f = data;
    const saved = f.max_bytes - f.max_with_hints_bytes;
    const would = f.max_bytes - f.max_would_bytes;
    parent.append(element("p", {class: "lede"}, f.max_would_bytes === null ? "What hints did is not on record any more." : saved > 0 ? "Hints made the highest use lower by " + bytes(saved) + ": from " + bytes(f.max_bytes) + " to " + bytes(f.max_with_hints_bytes) + "."
        : hasMoved(data) ? "Evict hints moved memory to the host: the run had " + bytes(f.peak_live_bytes) + " live at its peak, with at most " + bytes(f.peak_reserved_bytes) + " on the device."
        : would > 0 ? "In this mode hints released nothing. They would make the highest use lower by " + bytes(would) + "." : "Hints made no difference to the highest use."));
    partNote(parent, data.hints, data.hints_left_out, "hint", "that come first in the file");
    new Table(parent, {caption: "What each hint did", sorted: 3, rows: data.hints, columns: [
        {label: "Hint", narrow: true, text: row => row.id}, textColumn("Action", row => row.do + ", " + row.mode), countColumn("Matched", row => row.matched_count),
        bytesColumn("Released", row => row.released_bytes), bytesColumn("Would save", row => row.would_bytes),
        bytesColumn("Held", row => row.held_bytes), countColumn("Skipped", row => row.skipped_count), countColumn("Refused", row => row.refused_count), countColumn("Touched", lateUses),
        textColumn("Note", row => row.drift || "")]});
}

function drawAbout(data) {
    const program = data.program;
    const list = element("dl", {class: "about"});
    const add = (word, text) => {
        if (text)
            list.append(element("dt", null, word), element("dd", null, element("bdi", null, text)));
    };
    add("Capture", data.capture);
    add("Program", commandOf(program));
    add("Process", "pid " + program.pid + (program.hostname ? " on " + program.hostname : "") + (program.rank ? ", rank " + program.rank : ""));
    add("Started", program.started_ms ? new Date(program.started_ms).toISOString().replace("T", " ").slice(0, 19) + " UTC" : "");
    add("Ended", program.ended);
    for (const device of data.devices)
        add("Device " + device.device, device.name + ", " + bytes(device.total_bytes) + ", driver " + Math.floor(device.driver_version / 1000) + "." + Math.floor(device.driver_version % 1000 / 10));
    add("Mode", data.settings.mode);
    add("Hints", program.hints_file ? program.hints_file + " (" + program.hints_mode + ")" : "");
    const parent = document.getElementById("about");
    parent.append(list);
    if (data.notes.length > 0)
        parent.append(element("h3", null, "What is missing or was warned of"), element("ul", {class: "notes"},
            ...data.notes.map(note => element("li", {class: note[0]}, element("b", null, note[0]), " ", element("bdi", null, note[1])))));
    parent.append(element("p", {class: "muted"}, "Written by kedge " + data.kedge + ". Byte figures count what the program asked for; reserved is what was held from the driver."));
}
