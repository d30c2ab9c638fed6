/* SPDX-License-Identifier: Apache-2.0 */
/* Words and figures for people. Names come from others: they become text nodes and text on canvases, never markup. */
"use strict";

const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]/g;
const shown = (text) => String(text).replace(HIDDEN, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));

const NO_BREAK = "\u00a0"; /* a space at which no line ends */

function digits(value, units) {
  let step = 0;
  for (; Math.abs(value) >= 1000 && step + 1 < units.length; step++) value /= 1000;
  const size = Math.abs(value);
  return value.toFixed(step === 0 || size >= 100 ? 0 : size >= 10 ? 1 : 2) + " " + units[step];
}
const bytesText = (value) => digits(value, ["B", "kB", "MB", "GB", "TB", "PB"]);
const timeText = (ns) => digits(ns, ["ns", "us", "ms", "s"]);
const countText = (value) => value.toLocaleString("en-US");
const exactText = (value) => `${countText(value)} B`;
const signed = (value, text) => (value < 0 ? "-" : "+") + text(Math.abs(value));
const addedText = (ns) => signed(ns, timeText);
const percent = (value, than) => (than ? `${value >= than ? "+" : ""}${((value / than - 1) * 100).toFixed(2)} %` : "-");

function element(tag, text, properties = {}) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = shown(text);
  return Object.assign(made, properties);
}
const byId = (id) => document.getElementById(id);

/* Packed tables as rows: tools/dump/report_tables.h. */

function unpackColumn(column, texts) {
  const form = ["texts", "values", "objects", "lists"].find((name) => name in column);
  const cells = !column.runs ? column[form] : column[form].flatMap((cell, i) => Array(column.runs[i]).fill(cell));
  if (form === "values") return cells;
  if (form === "texts") return cells.map((place) => (place === null ? null : texts[place]));
  const inner = unpackTable(column.of, texts);
  let next = 0;
  if (form === "objects") return cells.map((one) => (one === null ? null : inner[next++]));
  return cells.map((length) => (length === null ? null : inner.slice(next, (next += length))));
}

function unpackTable(table, texts) {
  const rows = Array.from({ length: table.rows }, () => ({}));
  for (const [key, column] of Object.entries(table.columns))
    unpackColumn(column, texts).forEach((cell, i) => { rows[i][key] = cell; });
  return rows;
}

function unpack(value, texts) {
  if (value === null || typeof value !== "object" || Array.isArray(value)) return value;
  if ("columns" in value) return unpackTable(value, texts);
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, unpack(inner, texts)]));
}
