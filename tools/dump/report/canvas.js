/* SPDX-License-Identifier: Apache-2.0 */
/* Drawing on canvases: colours of the page, patterns, text that fits. */

const LEFT = 92, RIGHT = 14, TOP = 20, BOTTOM = 22;
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function begin(canvas) {
  const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const c = canvas.getContext("2d");
  c.setTransform(ratio, 0, 0, ratio, 0, 0);
  c.clearRect(0, 0, width, height);
  c.font = '12px system-ui, "DejaVu Sans", sans-serif';
  c.textBaseline = "middle";
  return { c, width, height };
}

const TILES = {
  plain: "", dots: "M3 3h1.2v1.2h-1.2z M7 7h1.2v1.2h-1.2z", rows: "M0 4h8", columns: "M4 0v8", rising: "M-2 10L10 -2",
  falling: "M-2 -2L10 10", cross: "M-2 -2L10 10M-2 10L10 -2", wait: "M-2 -2L10 10M-2 2L6 10M2 -2L10 6",
};
function pattern(c, name, colour) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 8;
  const t = tile.getContext("2d");
  t.strokeStyle = colour;
  t.lineWidth = 1.1;
  t.stroke(new Path2D(TILES[name]));
  return c.createPattern(tile, "repeat");
}
const hatch = () => css("--ink").replace(/^#(......)$/, "#$166");

/* The first pixel from one to the other, and how many. */
function pixels(from, to) {
  const first = Math.round(from), count = Math.round(to) - first;
  return count > 0 ? [first, count] : [Math.floor((from + to) / 2), 1];
}

/* Rectangles [left, top, right, bottom], on whole pixels, so that neighbours neither overlap nor leave gaps; but each has
 * a pixel at least. */
function fill(c, boxes, colour, tile, ink = hatch()) {
  for (const style of [colour, TILES[tile] && pattern(c, tile, ink)]) {
    if (!style) continue;
    c.fillStyle = style;
    for (const [left, top, right, bottom] of boxes) {
      const [x, width] = pixels(left, right), [y, height] = pixels(top, bottom);
      c.fillRect(x, y, width, height);
    }
  }
}

/* On an axis that is shown from state.view.begin to state.view.end. */
function xOf(position, width) {
  const { begin: from, end: to } = state.view;
  return LEFT + ((position - from) / (to - from)) * (width - LEFT - RIGHT);
}
function positionOf(x, width) {
  const { begin: from, end: to } = state.view;
  return from + ((x - LEFT) / (width - LEFT - RIGHT)) * (to - from);
}

function niceSteps(from, to, most) {
  const raw = (to - from) / most, power = 10 ** Math.floor(Math.log10(raw || 1));
  const size = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw) ?? 1;
  const first = Math.ceil(from / size), steps = [];
  for (let k = 0; k <= Math.floor(to / size) - first; k++) steps.push((first + k) * size); /* a sum may not grow by the size */
  return steps;
}

/* As much of the text as there is room for, from both ends. */
function label(c, text, x, y, room) {
  let said = shown(text);
  for (let keep = said.length; c.measureText(said).width > room; said = said.slice(0, keep / 3) + "\u2026" + shown(text).slice(keep / 3 - keep)) {
    keep = Math.min(keep - 1, Math.floor((keep * room) / c.measureText(said).width));
    if (keep < 4) return;
  }
  c.fillText(said, x, y);
}

function clipPicture(c, width, height) {
  c.beginPath();
  c.rect(LEFT, 0, width - LEFT - RIGHT, height);
  c.clip();
}

const LINES = { line: "M0 11h9v-6h8v-2h9", dashes: "M0 11h9v-6h8v-2h9", curve: "M3 1C3 16 23 16 23 1" }; /* of legends */
function makeLegend(list, entries) {
  list.replaceChildren(...entries.map(([text, colour, tile]) => {
    const item = element("li"), swatch = element("canvas", undefined, { width: 26, height: 14 }), c = swatch.getContext("2d");
    if (typeof tile === "function") tile(c);
    else if (LINES[tile]) {
      c.strokeStyle = css(colour);
      c.lineWidth = 1.5;
      c.setLineDash(tile === "dashes" ? [4, 2] : []);
      c.stroke(new Path2D(LINES[tile]));
    } else if (tile === "wait") fill(c, [[0, 0, 26, 14]], css("--free"), tile, css(colour));
    else fill(c, [[0, 0, 26, 14]], css(colour), tile);
    item.append(swatch, document.createTextNode(text));
    return item;
  }));
}

const tip = byId("tip");
function showTip(lines, x, y) {
  tip.textContent = lines.map(shown).join("\n");
  tip.hidden = false;
  tip.style.left = `${Math.max(4, Math.min(x + 14, window.innerWidth - tip.offsetWidth - 6))}px`;
  tip.style.top = `${y + 18 + tip.offsetHeight > window.innerHeight ? Math.max(4, y - tip.offsetHeight - 10) : y + 18}px`;
}
