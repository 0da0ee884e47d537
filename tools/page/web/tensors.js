/* SPDX-License-Identifier: MIT */
/*
 * A run under PyTorch's own allocator, of which PyTorch's record of tensors is in the data (`inside`, page.c): the page shows the tensors. What is
 * known of the process, the device and the segments alone stays that of the run; `segments` is all of it, undefined where there is no such record.
 */

const OF_PROCESS = ["frames", "kedge", "estimate", "capture", "program", "settings", "devices", "tensors", "hints", "eviction", "waterfall"];

/* The request that failed as PyTorch tells it, and the device then. A segment that was refused is no failure if PyTorch went on without it. */
function failuresWithTensors(data) {
    const [asked, refused] = [lastFailure(data.inside), lastFailure(data)];
    if (!asked)
        return data.program.failed ? data.ooms : [];
    return [{...asked, ...(refused ? {call: refused.call, total_bytes: refused.total_bytes, waterfall: refused.waterfall} : {})}];
}

function withTensors(data) {
    if (!data.inside)
        return data;
    const kept = Object.fromEntries(OF_PROCESS.filter(key => key in data).map(key => [key, data[key]]));
    return {...data.inside, ...kept, notes: [...data.notes, ...data.inside.notes], ooms: failuresWithTensors(data), segments: data};
}

/* When PyTorch's record was taken, if the run went on then; "": at its end. */
function recordedWhen(data) {
    const words = {failure: data.program.failed ? "" : "when memory ran out", asked: "when kedge held asked", changed: "when the program began a record of its own"};
    const when = words[data.tensors.moment];
    return when ? ". The record was taken " + when + ": what came later is not in it" : "";
}

/* What is of segments, and what of tensors; null: the page knows one of them alone. */
function tensorsNote(data) {
    const {segments, tensors} = data;
    if (!segments)
        return null;
    const cut = tensors.framework_max_bytes > tensors.max_bytes ? " The highest moment, with " + bytes(tensors.framework_max_bytes) + " by PyTorch's count, was before that." : "";
    return element("p", {class: "note"}, "This program kept PyTorch's own allocator, which takes ", element("b", null, "segments"), " from the driver and lays ", element("b", null, "tensors"), " into them. All figures are of tensors, as PyTorch recorded them; reserved is what the segments take. "
        + "When most bytes of tensors were live, the segments took " + bytes(tensors.segments_bytes) + ", of which " + bytes(tensors.cached_bytes) + " were free. ",
    element("a", {href: "#segments"}, "Segments"), recordedWhen(data), tensors.complete ? "" : ". Not all of the run is in PyTorch's record: KEDGE_TENSORS=events=N keeps more." + cut);
}

/* Why a request for a tensor failed. */
function segmentsLack(data, failure) {
    const held = data.segments.ooms.length ? lastFailure(data.segments).live_bytes : null;
    if (held === null || failure.live_bytes === null)
        return "";
    const free = held - failure.live_bytes;
    return "PyTorch's segments took " + bytes(held) + ", and tensors " + bytes(failure.live_bytes) + " of it" + (free > 0 ? "; the other " + bytes(free) + " were free, but in no piece that was large enough." : ".");
}

function drawSegments(data) {
    const {segments} = data;
    if (!segments) {
        dropSection("segments");
        return;
    }
    const parent = document.getElementById("segments");
    parent.append(element("p", {class: "lede"}, "PyTorch's allocator took " + counted(segments.allocated_count, "segment") + " of " + bytes(segments.allocated_bytes) + " in all from the driver, " + bytes(segments.peak_live_bytes)
        + " at most at one time, and gave " + (segments.freed_bytes > 0 ? bytes(segments.freed_bytes) : "nothing") + " back" + (segments.oom_count ? "; " + counted(segments.oom_count, "request") + " failed" : "") + "."));
    new Table(parent, {caption: "Who made it take them", rows: segments.call_sites.filter(site => site.allocated[1] > 0), sorted: 1, ...withStacks(data), columns: [titleColumn("Call site"), bytesColumn("Allocated", site => site.allocated[0]),
        countColumn("Segments", site => site.allocated[1]), bytesColumn("Held at the end", site => site.end[0])]});
}
