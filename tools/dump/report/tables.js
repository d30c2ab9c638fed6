/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of a plan. */

const layerColumn = { title: "layer", width: 60, number: true, value: (r) => r.layer, text: (r) => layerText(r.layer) };

const commandColumns = [
  { title: "command", width: 80, number: true, value: (r) => r.index, text: (r) => String(r.index) }, words("segment", "segment", 90, true),
  words("phase", "phase", 80, true), words("name", "name", 260), words("scope", "scope", 130), layerColumn,
  { title: "recomputed", width: 90, choice: true, value: (r) => r.instance, text: (r) => (r.instance ? `round ${r.instance > 2 ? 2 : 1}` : "no") },
  words("kernel", "kind", 120, true), number("predicted", "estimated_ns", timeText), number("live", "live_bytes", bytesText),
];
const measuredColumns = !measured.length ? [] : [
  { title: "measured", width: 90, number: true, value: (r) => measuredOf.get(r.index)?.ns ?? null, text: (r) => orDash(timeText)(measuredOf.get(r.index)?.ns) },
  { title: "longer", width: 90, number: true, value: (r) => (measuredOf.get(r.index)?.ns ?? NaN) / r.estimated_ns,
    text: (r) => orDash((ns) => percent(ns, r.estimated_ns))(measuredOf.get(r.index)?.ns) },
];
const kernelMeasured = new Map();
for (const command of step.commands)
  if (measuredOf.has(command.index))
    kernelMeasured.set(command.key, (kernelMeasured.get(command.key) ?? 0) + measuredOf.get(command.index).ns);
const askedBy = new Map(askedFor.map((transfer) => [transfer.command, transfer]));
const transfers = commands.filter((command) => command.transfer).map((command) => ({ ...command, ...command.transfer, command }));

const TABS = [
  {
    id: "live", title: () => `Live at command ${state.at}`, rows: () => liveAt(state.at), sort: [4, -1],
    columns: [
      { title: "value", width: 280, value: nameOf, text: nameOf }, layerColumn, words("class", "class", 130, true), words("by", "op", 120),
      number("bytes", "bytes", bytesText), number("offset", "offset", countText, 160),
      { title: "life, commands", width: 130, value: (r) => (r.persistent ? -1 : r.born), text: (r) => lifeText(r).replace("commands ", "") },
      { title: "decision", width: 180, value: decisionText, text: decisionText },
      { title: "removal", width: 190, value: (r) => residentOf.get(r.index)?.recompute_extra_ns ?? -Infinity, text: removalText },
    ],
    enter: showBuffer,
  },
  {
    id: "decisions", title: () => "Decisions", rows: () => decisions,
    columns: [
      words("value", "name", 240), words("scope", "scope", 140), layerColumn, words("action", "action", 120, true), words("op", "op", 100, true),
      { title: "type", width: 140, value: (r) => r.dtype, text: (r) => `${r.dtype}[${r.shape.join(",")}]` },
      number("bytes", "bytes", bytesText), number("recomputed in", "recompute_ns", (ns) => (ns ? timeText(ns) : "-"), 120),
      number(`recomputing adds${estimated}`, "recompute_extra_ns", orDash(addedText), 225),
      number("at peak if saved", "peak_bytes_saved", bytesText, 130), words("reason", "reason", 110, true),
    ],
    enter: (row) => {
      const buffer = stepBuffers.find((b) => nameOf(b) === row.name) ?? stepBuffers.find((b) => b.name === row.name);
      if (buffer) showBuffer(buffer);
      else setCursor(step.commands.find((command) => command.name === row.name)?.index ?? state.at);
    },
  },
  { id: "commands", title: () => "Commands", rows: () => commands, columns: [...commandColumns, ...measuredColumns], enter: (row) => order.has(row.index) && setCursor(row.index) },
  {
    id: "kernels", title: () => "Kernels", rows: () => kernels,
    columns: [
      words("kernel", "key", 420), words("kind", "kind", 150, true), number("uses", "uses", countText), number("predicted, all uses", "estimated_ns", timeText, 140),
      ...(measured.length ? [{ title: "measured, in a step", width: 140, number: true, value: (r) => kernelMeasured.get(r.key) ?? null, text: (r) => orDash(timeText)(kernelMeasured.get(r.key)) }] : []),
      { title: "instructions", width: 110, number: true, value: (r) => r.instructions.length, text: (r) => (r.instructions.length ? String(r.instructions.length) : "built in") },
    ],
    enter: (row) => {
      byId("more").hidden = false;
      byId("more").textContent = [row.key, ...row.instructions].map(shown).join("\n");
    },
  },
  {
    id: "transfers", title: () => "Transfers", rows: () => transfers, hidden: !transfers.length,
    columns: [
      ...commandColumns.slice(0, 1), words("kind", "kind", 90, true), words("axis", "axis", 70, true), words("phase", "phase", 80, true), words("name", "name", 240),
      layerColumn, number("sent", "sent_bytes", bytesText), number("predicted", "estimated_ns", timeText), number("exposed", "exposed_ns", timeText),
      ...[["with command", (r) => (r.group < r.index ? r.group : null)], ["waits for", (r) => r.waits_for], ["complete before", (r) => r.complete_before]]
        .map(([title, of]) => ({ title, width: 110, number: true, value: (r) => of(r) ?? -1, text: (r) => orDash(String)(of(r)) })),
      { title: "asked by", width: 180, value: (r) => askedBy.get(r.index)?.asked_by ?? "", text: (r) => askedBy.get(r.index)?.asked_by ?? "" },
      ...measuredColumns,
    ],
    enter: (row) => order.has(row.index) && setCursor(row.index),
  },
];
