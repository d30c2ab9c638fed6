/* SPDX-License-Identifier: Apache-2.0 */
/* The tables TABS, which sort and filter; only the rows in view are elements. */

const ROW = 24;
const NAMES = ["value", "name", "kernel"]; /* titles of columns that are found by name */

function layersOf(text) {
  const parts = text.split(",").map((part) => part.trim()).filter(Boolean).map((part) => (part === "-" ? [-1, -1] : part.split("-").map(Number)));
  return parts.length ? (layer) => layer === undefined || parts.some(([from, to = from]) => layer >= from && layer <= to) : () => true;
}

function matcher(text) {
  const wanted = text.trim().toLowerCase();
  if (!/[*?]/.test(wanted)) return (value) => String(value).toLowerCase().includes(wanted);
  const source = wanted.replace(/[.+^${}()|[\]\\]/g, "\\$&").replace(/\*/g, ".*").replace(/\?/g, ".");
  const whole = new RegExp(`^${source}$`);
  return (value) => whole.test(String(value).toLowerCase());
}

/* Of one that has no layer any is found. */
const layersIn = (row) => (row.layers ? (row.layers.length ? row.layers : [-1]) : [row.layer]);

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
    const named = columns.find((column) => NAMES.includes(column.title)), find = matcher(this.filters.find ?? ""), scope = matcher(this.filters.scope ?? ""), layers = layersOf(this.filters.layers ?? "");
    const choices = columns.filter((column) => column.choice && this.filters[column.title]);
    this.rows = rows().filter((row) => (!named || find(named.text(row)))
      && scope(row.scope ?? "") && layersIn(row).some(layers) && choices.every((c) => c.text(row) === this.filters[c.title]));
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
    byId("tabs").replaceChildren(...TABS.filter((tab) => !tab.hidden).map((tab) => {
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
      const box = element("input", undefined, { type: "search", placeholder: hint, value: this.filters[key] ?? "", className: short ? "short" : "", oninput: () => { this.filters[key] = box.value; this.refresh(); } });
      const around = element("label", `${title} `);
      box.dataset.filter = key;
      around.append(box);
      made.push(around);
    };
    if (columns.some((column) => NAMES.includes(column.title))) input("name", "find", "part or glob*");
    if (columns.some((column) => column.title === "scope")) input("scope", "scope", "part or glob*");
    if (columns.some((column) => column.title === "layer" || column.title === "layers")) input("layers", "layers", "3, 5-8, -", true);
    for (const column of columns.filter((c) => c.choice)) {
      const values = [...new Set(this.shown.rows().map(column.text))].sort().slice(0, 40);
      if (values.length < 2) continue;
      const select = element("select", undefined, { onchange: () => { this.filters[column.title] = select.value; this.refresh(); } });
      select.append(element("option", "all", { value: "" }), ...values.map((value) => element("option", value, { value })));
      select.value = this.filters[column.title] ?? "";
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
