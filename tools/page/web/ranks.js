/* SPDX-License-Identifier: MIT */
/* The page of `kedge ranks --html`: which rank stands out and by what, the peaks of all ranks, timelines of some side by side. */

function rankName(capture) {
    return capture.rank === null ? baseName(capture.capture) : "rank " + capture.rank;
}

function drawRankTable(ranks) {
    const parent = newSection("ranks", "Ranks");
    const rows = ranks.ranks.map(row => ({...row, name: rankName(row)}));
    partNote(parent, rows, ranks.ranks_left_out, "rank", "that come first");
    const columns = [{label: "Rank", narrow: true, value: row => (row.rank === null ? row.name : Number(row.rank)), text: row => row.name}, bytesColumn("Peak live", row => row.peak_live_bytes),
        bytesColumn("Peak reserved", row => row.peak_reserved_bytes), countColumn("Out of memory", row => row.oom_count), textColumn("Ended", row => row.ended), textColumn("Capture", row => row.capture)];
    if (rows.some(row => row.hints_mode !== null))
        columns.splice(2, 0, bytesColumn("Peak with hints", row => row.peak_with_hints_bytes));
    new Table(parent, {caption: "Peaks of all ranks", rows, sorted: 1, columns});
}

function drawRankSites(data) {
    const jobs = data.ranks.jobs.filter(job => job.sites.length > 0);
    if (jobs.length === 0)
        return;
    const parent = newSection("more", "Call sites");
    for (const job of jobs)
        new Table(parent, {caption: "Where the worst rank held more than the median rank" + (data.ranks.jobs.length > 1 ? ", " + job.folder : ""), rows: job.sites, sorted: 1, ...withStacks(data),
            columns: [titleColumn("Call site"), bytesColumn("More", row => row.more_bytes), bytesColumn("Worst rank", row => row.bytes), bytesColumn("Median rank", row => row.median_bytes)]});
}

function drawRanks(data) {
    const {ranks} = data;
    document.title = "kedge: " + counted(ranks.ranks.length + (ranks.ranks_left_out || 0), "rank");
    keepSections(["#answer", "#timeline"]);
    const answer = document.getElementById("answer");
    for (const job of ranks.jobs)
        answer.append(job.folder && ranks.jobs.length > 1 ? element("p", {class: "where"}, job.folder) : "", element("h1", null, element("bdi", null, job.summary)),
            job.complete ? "" : element("p", {class: "verdict bad"}, "Captures are damaged or could not be read: " + counted(job.damaged_captures + job.unread_captures, "capture") + "."));
    const names = data.runs.map(run => rankName({capture: run.capture, rank: ranks.ranks.find(row => row.capture === run.capture)?.rank ?? null}));
    document.getElementById("timeline-title").textContent = "Memory of ranks, side by side";
    drawSeveral(data, names, true);
    drawRankTable(ranks);
    drawRankSites(data);
    new Search({frames: data.frames, flame: [], notes: []}, null);
}
