/* SPDX-License-Identifier: Apache-2.0 */
/* Tables that sort and filter; only the rows in view are elements. */

const ROW = 24;
const number = (title, key, text, width = 90) => ({ title, width, number: true, value: (r) => r[key], text: (r) => text(r[key]) });
const words = (title, key, width, choice) => ({ title, width, choice, value: (r) => r[key], text: (r) => r[key] ?? "" });
const layerColumn = { title: "layer", width: 60, number: true, value: (r) => r.layer, text: (r) => layerText(r.layer) };
const orDash = (text) => (value) => (value === null || value === undefined ? "-" : text(value));

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
const moves = commands.filter((command) => command.transfer).map((command) => ({ ...command, ...command.transfer, command }));

const TABS = [
  {
    id: "live", title: () => `Live at command ${state.at}`, rows: () => liveAt(state.at), sort: [4, -1],
    columns: [
      { title: "value", width: 280, value: nameOf, text: nameOf }, layerColumn, words("class", "class", 130, true), words("by", "op", 120),
      number("bytes", "bytes", bytesText), number("offset", "offset", countText, 120),
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
    id: "transfers", title: () => "Transfers", rows: () => moves,
    columns: [
      ...commandColumns.slice(0, 1), words("kind", "kind", 90, true), words("axis", "axis", 70, true), words("phase", "phase", 80, true), words("name", "name", 240),
      layerColumn, number("sent", "sent_bytes", bytesText), number("predicted", "estimated_ns", timeText), number("exposed", "exposed_ns", timeText),
      { title: "complete before", width: 120, number: true, value: (r) => r.complete_before ?? -1, text: (r) => orDash(String)(r.complete_before) },
      { title: "asked by", width: 180, value: (r) => askedBy.get(r.index)?.asked_by ?? "", text: (r) => askedBy.get(r.index)?.asked_by ?? "" },
      ...measuredColumns,
    ],
    enter: (row) => order.has(row.index) && setCursor(row.index),
  },
];

function layersOf(text) {
  const parts = text.split(",").map((part) => part.trim()).filter(Boolean).map((part) => (part === "-" ? [-1, -1] : part.split("-").map(Number)));
  return parts.length ? (layer) => parts.some(([from, to = from]) => layer >= from && layer <= to) : () => true;
}

function matcher(text) {
  const wanted = text.trim().toLowerCase();
  if (!/[*?]/.test(wanted)) return (value) => String(value).toLowerCase().includes(wanted);
  const source = wanted.replace(/[.+^${}()|[\]\\]/g, "\\$&").replace(/\*/g, ".*").replace(/\?/g, ".");
  const whole = new RegExp(`^${source}$`);
  return (value) => whole.test(String(value).toLowerCase());
}

const compare = (a, b) => (a === b ? 0 : a === null || a === undefined ? 1 : b === null || b === undefined ? -1 : a < b ? -1 : 1);

const tabs = {
  shown: TABS[0],
  rows: [],
  chosen: -1,

  /* Values of a filter, by title of its column; of "find" and "layers" what was typed. */
  filters: {},

  show(id) {
    if (this.shown.id === id && byId("tabs").childElementCount) return;
    this.shown = TABS.find((tab) => tab.id === id);
    this.filters = {};
    byId("more").hidden = true;
    this.makeFilters();
    this.refresh();
  },

  refresh() {
    const { columns, rows, sort } = this.shown;
    const find = matcher(this.filters.find ?? ""), scope = matcher(this.filters.scope ?? ""), layers = layersOf(this.filters.layers ?? "");
    const choices = columns.filter((column) => column.choice && this.filters[column.title]);
    this.rows = rows().filter((row) => find(columns.find((c) => c.title === "value" || c.title === "name" || c.title === "kernel").text(row))
      && scope(row.scope ?? "") && (row.layer === undefined || layers(row.layer)) && choices.every((c) => c.text(row) === this.filters[c.title]));
    if (sort) {
      const { value } = columns[sort[0]];
      this.rows.sort((a, b) => sort[1] * compare(value(a), value(b)));
    }
    this.chosen = -1;
    byId("scroller").scrollTop = 0;
    this.makeTabs();
    this.makeTitles();
    this.draw();
  },

  makeTabs() {
    byId("tabs").replaceChildren(...TABS.filter((tab) => tab.id !== "transfers" || moves.length).map((tab) => {
      const all = tab === this.shown ? `${countText(this.rows.length)}` : countText(tab.rows().length);
      const button = element("button", `${tab.title()} (${all})`, { onclick: () => this.show(tab.id) });
      button.dataset.tab = tab.id;
      button.setAttribute("role", "tab");
      button.setAttribute("aria-selected", tab === this.shown);
      return button;
    }));
  },

  makeFilters() {
    const { columns } = this.shown, made = [];
    const input = (title, key, hint, short) => {
      const box = element("input", undefined, { type: "search", placeholder: hint, className: short ? "short" : "", oninput: () => { this.filters[key] = box.value; this.refresh(); } });
      const around = element("label", `${title} `);
      box.dataset.filter = key;
      around.append(box);
      made.push(around);
    };
    input("name", "find", "part or glob*");
    if (columns.some((column) => column.title === "scope")) input("scope", "scope", "part or glob*");
    if (columns.includes(layerColumn)) input("layers", "layers", "3, 5-8, -", true);
    for (const column of columns.filter((c) => c.choice)) {
      const values = [...new Set(this.shown.rows().map(column.text))].sort().slice(0, 40);
      if (values.length < 2) continue;
      const select = element("select", undefined, { onchange: () => { this.filters[column.title] = select.value; this.refresh(); } });
      select.append(element("option", "all", { value: "" }), ...values.map((value) => element("option", value, { value })));
      select.dataset.filter = column.title;
      const around = element("label", `${column.title} `);
      around.append(select);
      made.push(around);
    }
    byId("filters").replaceChildren(...made);
  },

  makeTitles() {
    const { columns, sort } = this.shown;
    byId("table").style.minWidth = `${columns.reduce((sum, column) => sum + column.width, 0)}px`;
    byId("titles").replaceChildren(...columns.map((column, i) => {
      const sorted = sort?.[0] === i, th = element("th", undefined, { className: column.number ? "number" : "" });
      th.style.width = `${column.width}px`;
      th.setAttribute("aria-sort", sorted ? (sort[1] > 0 ? "ascending" : "descending") : "none");
      th.append(element("button", column.title + (sorted ? (sort[1] > 0 ? " \u25b2" : " \u25bc") : ""), {
        title: column.title,
        onclick: () => {
          this.shown.sort = [i, sorted ? -sort[1] : column.number ? -1 : 1];
          this.refresh();
          byId("titles").children[i].firstChild.focus();
        },
      }));
      return th;
    }));
  },

  /* Only the rows in view are there. */
  draw() {
    const scroller = byId("scroller"), { columns } = this.shown;
    const first = Math.max(0, Math.floor(scroller.scrollTop / ROW) - 2);
    const last = Math.min(this.rows.length, first + Math.ceil(scroller.clientHeight / ROW) + 4);
    const space = (rows) => {
      const row = element("tr", undefined, { className: "space" }), cell = element("td", undefined, { colSpan: columns.length });
      cell.style.height = `${rows * ROW}px`;
      row.append(cell);
      return row;
    };
    const made = this.rows.slice(first, last).map((row, i) => {
      const tr = element("tr", undefined, { className: first + i === this.chosen ? "chosen" : "", onclick: () => this.choose(first + i, true) });
      tr.setAttribute("aria-rowindex", first + i + 2);
      tr.append(...columns.map((column) => {
        const text = column.text(row);
        return element("td", text, { className: column.number ? "number" : "", title: shown(text) });
      }));
      return tr;
    });
    byId("table").setAttribute("aria-rowcount", this.rows.length + 1);
    byId("rows").replaceChildren(space(first), ...made, space(this.rows.length - last));
  },

  choose(index, enter) {
    if (!this.rows.length) return;
    this.chosen = Math.max(0, Math.min(this.rows.length - 1, index));
    const scroller = byId("scroller"), top = this.chosen * ROW, room = scroller.clientHeight - 2 * ROW;
    if (top < scroller.scrollTop) scroller.scrollTop = top;
    else if (top > scroller.scrollTop + room) scroller.scrollTop = top - room;
    this.draw();
    if (enter) this.shown.enter(this.rows[this.chosen]);
  },
};

byId("scroller").addEventListener("scroll", () => tabs.draw());
byId("scroller").addEventListener("keydown", (event) => {
  const page = Math.floor(byId("scroller").clientHeight / ROW) - 2;
  const by = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity }[event.key];
  if (by === undefined && event.key !== "Enter") return;
  if (event.target !== event.currentTarget) return;
  event.preventDefault();
  if (by === undefined) tabs.choose(tabs.chosen, true);
  else tabs.choose(tabs.chosen + by, false);
});
