/* SPDX-License-Identifier: MIT */
/* The answer of `kedge estimate --html`, above the run of the process that took most of the fullest device. */

function rangeText(least, most) {
    return least === most ? bytes(most) : bytes(least) + " to " + bytes(most);
}

function estimateFacts(data) {
    const {estimate} = data;
    const {device, contexts} = estimate;
    const spare = device.memory_bytes - estimate.need_most_bytes;
    return element("dl", {class: "facts"},
        fact("Needed", rangeText(estimate.need_least_bytes, estimate.need_most_bytes), "of " + bytes(device.memory_bytes)),
        fact("From the device", bytes(estimate.from_device_bytes), estimate.in_use_bytes === null ? "as its allocator asked" : bytes(estimate.in_use_bytes) + " of it in use at once"),
        fact("Context and libraries", rangeText(contexts * estimate.context_least_bytes, contexts * estimate.context_most_bytes), "of " + counted(contexts, "process") + ": published, not simulated"),
        fact(spare < 0 ? "Too much" : "To spare", bytes(Math.abs(spare)), "at the upper end"));
}

/* Devices that are used, by process, where there are several. */
function estimateProcesses(data, parent) {
    const {processes, fullest_device: fullest} = data.estimate;
    if (processes.length < 2)
        return;
    const mine = processes.find(process => process.pid === data.program.pid);
    const rows = processes.flatMap(process => process.device_peaks.map(peak => ({...peak, process: (process.rank === null ? "" : "rank " + process.rank + ", ") + "process " + process.pid})));
    parent.append(element("p", {class: "note"}, "Device " + fullest + " is the fullest one. Below this is the run of " + (mine && mine.rank !== null ? "rank " + mine.rank : "process " + data.program.pid) + ", which took most of it. What NCCL keeps for itself is not counted."));
    new Table(parent, {caption: "Processes", rows, sorted: 2, columns: [textColumn("Process", row => row.process), countColumn("Device", row => row.device), bytesColumn("From the device", row => row.bytes)]});
}

/* What the estimate rests on, and the simulated device did not compute. */
function estimateReads(reads) {
    const sizes = reads.filter(read => read.size_of !== null);
    return sizes.length === 0 ? null : element("p", {class: "note"}, "Sizes of tensors were read from values that the simulated device invents; what depends on them is not known: ",
        ...sizes.flatMap((read, at) => [at ? ", " : "", read.size_of + " at ", element("bdi", null, read.title), " (" + counted(read.count, "time") + ")"]), ".");
}

function drawEstimate(data) {
    const {estimate} = data;
    if (!estimate) {
        dropSection("estimate");
        return;
    }
    const isBad = estimate.answer === "does not fit" || estimate.answer === "failed";
    const parent = document.getElementById("estimate");
    const title = estimate.summary.charAt(0).toUpperCase() + estimate.summary.slice(1);
    document.title = "kedge: " + estimate.answer + " on " + estimate.device.name;
    parent.append(element("p", {class: isBad ? "verdict bad" : "verdict"}, "Estimated on the simulated device"), element("h1", null, element("bdi", null, title), "."),
        element("p", {class: "where"}, element("bdi", null, [estimate.device.name, bytes(estimate.device.memory_bytes), "capability " + estimate.device.capability,
            counted(estimate.device.multiprocessors, "multiprocessor"), estimate.device.source ? "source: " + estimate.device.source.replace(/^.*?: /, "") : ""].filter(Boolean).join(" \u00b7 "))),
        estimateFacts(data), ...[estimateReads(estimate.values_not_computed), estimate.was_stopped ? element("p", {class: "note"}, "The program was ended after its steps.") : null].filter(Boolean));
    estimateProcesses(data, parent);
}
