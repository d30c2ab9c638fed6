/* SPDX-License-Identifier: Apache-2.0 */
/* Words and figures for people. Names come from others: they become text nodes and text on canvases, never markup. */
"use strict";

const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]/g;
const shown = (text) => String(text).replace(HIDDEN, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));

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
const addedText = (ns) => (ns < 0 ? "-" : "+") + timeText(Math.abs(ns));
const percent = (value, than) => (than ? `${value >= than ? "+" : ""}${((value / than - 1) * 100).toFixed(2)} %` : "-");

function element(tag, text, properties = {}) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = shown(text);
  return Object.assign(made, properties);
}
const byId = (id) => document.getElementById(id);
