/* SPDX-License-Identifier: Apache-2.0 */
/* What differs from another plan, if one is laid over this one: as remat-dump --diff says it. */

const { costs: differentCosts = [], settings: differentSettings = [], by_layers: runs = [], decisions: differentDecisions = [], kernels: differentKernels = [] } = part("diff");

/* "0-33,40", "-" outside layers */
function rangesText(layers) {
  const ranges = [];
  for (const layer of layers) {
    const last = ranges.at(-1);
    if (last?.[1] === layer - 1) last[1] = layer;
    else ranges.push([layer, layer]);
  }
  return ranges.map(([from, to]) => (from === to ? String(from) : `${from}-${to}`)).join(",") || "-";
}

const runRows = runs.flatMap((run) => run.values.map((value) => ({ ...value, ...run, layersText: rangesText(run.layers) })));

/* By runs of layers, then by value: names are told from the patterns that the runs have. */
const valueRows = [];
{
  const left = new Map(differentDecisions.map((decision) => [decision.name, decision]));
  for (const run of runRows)
    for (const layer of run.layers.length ? run.layers : [-1]) {
      const decision = left.get(layer < 0 ? run.name : run.name.replace(".*", `.${layer}`));
      if (!decision) continue;
      left.delete(decision.name);
      valueRows.push({ ...decision, layersText: run.layersText });
    }
  valueRows.push(...left.values());
}

const UNITS = { ns: timeText, bytes: bytesText, count: countText };
const costRows = [
  ...differentCosts.map((row) => ({ ...row, text: (value) => (value ? UNITS[row.unit](value) : "-"), kind: "cost" })),
  ...differentSettings.map((row) => ({ ...row, text: String, kind: "setting" })),
];

const actionText = (action) => action ?? "not decided";
const layersColumn = { title: "layers", width: 110, value: (r) => r.layers?.[0] ?? r.layer, text: (r) => r.layersText ?? layerText(r.layer) };
const actionColumn = (title, key) => ({ title, width: 130, choice: true, value: (r) => r[key], text: (r) => actionText(r[key]) });
const pairColumns = [
  actionColumn("this plan", "this"), actionColumn("other plan", "other"), number("bytes", "bytes", bytesText, 100),
  number("recomputed in", "this_recompute_ns", (ns) => (ns ? timeText(ns) : "-"), 120), number("other in", "other_recompute_ns", (ns) => (ns ? timeText(ns) : "-"), 120),
];
const lessOrMore = (title, width, value, text) => ({ title, width, number: true, value, text: (r) => (value(r) ? signed(value(r), text) : "-") });

const COMPARED = [
  {
    id: "runs", title: () => "Differences by layers", rows: () => runRows,
    columns: [layersColumn, words("value", "name", 330), number("values", "count", countText, 80), ...pairColumns],
    enter: (row) => {
      tabs.show("values");
      Object.assign(tabs.filters, { find: row.name, layers: row.layersText, "this plan": actionText(row.this), "other plan": actionText(row.other) });
      tabs.makeFilters();
      tabs.refresh();
    },
  },
  {
    id: "values", title: () => "Differing values", rows: () => valueRows,
    columns: [words("value", "name", 330), layerColumn, ...pairColumns, { ...layersColumn, title: "run of layers" }],
    enter: (row) => TABS.find((tab) => tab.id === "decisions").enter(row),
  },
  {
    id: "different-kernels", title: () => "Differing kernels", rows: () => differentKernels,
    columns: [
      words("kernel", "kernel", 420), number("commands", "this_count", countText, 110), number("other plan", "other_count", countText, 110),
      lessOrMore("more", 90, (r) => r.this_count - r.other_count, countText), number("in a step", "this_ns", timeText, 110), number("other's", "other_ns", timeText, 110),
      lessOrMore("longer", 110, (r) => r.this_ns - r.other_ns, timeText),
    ],
    enter: (row) => {
      const command = step.commands.find((each) => each.key === row.kernel);
      if (command) setCursor(command.index);
    },
  },
  {
    id: "costs", title: () => "Costs and settings", rows: () => costRows,
    columns: [
      words("name", "name", 260), words("kind", "kind", 90, true), { title: "this plan", width: 220, value: (r) => r.this, text: (r) => r.text(r.this) },
      { title: "other plan", width: 220, value: (r) => r.other, text: (r) => r.text(r.other) },
      { title: "difference", width: 140, number: true, value: (r) => (r.unit ? r.this - r.other : null), text: (r) => (r.unit ? signed(r.this - r.other, r.text) : "") },
    ],
    enter: (row) => {
      byId("more").hidden = false;
      byId("more").textContent = shown(`${row.name}\n  this plan   ${row.text(row.this)}\n  other plan  ${row.text(row.other)}`);
    },
  },
];
if (other) TABS.unshift(...COMPARED.filter((tab) => tab.rows().length));

/* The difference of a number, for a sentence. */
function than(key, text, less, more) {
  const [here, there] = [summary[key], other.summary[key]];
  return here === there ? null : `${text(Math.abs(here - there))} ${here < there ? less : more} (${percent(here, there)})`;
}

const counted = (list, one, several) => list.length ? [`${countText(list.length)} ${list.length === 1 ? one : several}`] : [];

function differenceText() {
  const time = than("step_ns", timeText, "shorter", "longer"), peak = than("peak_bytes", bytesText, "lower", "higher");
  const parts = [
    time ? `a step is ${time}` : "a step takes the same time", peak ? `the live peak is ${peak}` : "the live peak is the same",
    ...counted(differentDecisions, "value has another action", "values have another action"),
    ...counted(differentKernels, "kernel has another number of commands or time", "kernels have another number of commands or time"),
  ];
  const nothing = !costRows.length && !differentDecisions.length && !differentKernels.length;
  return nothing ? "Beside another plan: nothing differs." : `Beside another plan, which is dashed: ${parts.join(", ")}.`;
}
