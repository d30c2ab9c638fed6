/* SPDX-License-Identifier: Apache-2.0 */
/* The steps in a log, drawn over their numbers; gaps and crosses where a loss is not finite. */

const packed = JSON.parse(byId("run").textContent);
const { summary } = packed;
const { steps } = unpack(packed.tables, packed.tables.texts);
const state = { view: { begin: 0, end: 1 }, at: steps.length - 1, drag: null, logarithmic: false };
const has = (key) => steps.some((row) => row[key] !== null);
steps.forEach((row, i) => { row.index = i; });

/* --- words --- */

const isPlain = (value) => value === 0 || (Math.abs(value) < 1e6 && Math.abs(value) >= 1e-2);
const brief = (value) => (isPlain(value) ? String(Number(value.toPrecision(4))) : value.toExponential(3).replace(/\.?0+e/, "e"));
const lossText = (value) => (Math.abs(value) >= 1e4 ? brief(value) : value.toFixed(4));
const rateText = (value) => value.toLocaleString("en-US", { maximumFractionDigits: value < 100 ? 2 : 0 });
const clockText = (unix) => new Date(unix * 1000).toISOString().slice(0, 19).replace("T", " ");
function spanText(ns) {
  const seconds = Math.round(ns / 1e9), two = (value) => String(value).padStart(2, "0");
  return ns < 60e9 ? timeText(ns) : `${Math.floor(seconds / 3600)}:${two(Math.floor(seconds / 60) % 60)}:${two(seconds % 60)}`;
}
const lossOf = (row) => (row.loss === null ? "not finite" : lossText(row.loss));

function stepLines(row) {
  const lines = [`step ${countText(row.step)}`, `loss ${lossOf(row)}`];
  if (row.eval_loss !== null) lines.push(`evaluation ${lossText(row.eval_loss)}`);
  if (row.lr !== null) lines.push(`learning rate ${brief(row.lr)}`);
  if (row.tokens_per_s !== null) lines.push(`${rateText(row.tokens_per_s)} tokens/s`);
  if (row.step_ns !== null) lines.push(`${timeText(row.step_ns)} a step`);
  if (row.unix_s !== null) lines.push(`${clockText(row.unix_s)} UTC`);
  if (row.resumed) lines.push("the run was resumed here");
  return lines;
}

/* --- pictures --- */

const PICTURES = [
  { id: "loss", text: brief, lines: [{ key: "loss", colour: "--accent", dash: [] }, { key: "eval_loss", colour: "--class-4", dash: [6, 4], dots: true }] },
  { id: "lr", text: brief, lines: [{ key: "lr", colour: "--accent", dash: [] }] },
  { id: "rate", text: rateText, lines: [{ key: "tokens_per_s", colour: "--accent", dash: [] }] },
].filter((picture) => picture.id === "loss" || picture.lines.some((line) => has(line.key)));
for (const picture of PICTURES) picture.canvas = byId(picture.id);

/* The first row that is not before the position. */
function rowFrom(position) {
  let low = 0, high = steps.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (steps[middle].step < position) low = middle + 1;
    else high = middle;
  }
  return low;
}
/* Rows [from, to) in view, and a row beyond at each end, to which lines lead. */
function inView() {
  const from = rowFrom(state.view.begin), to = rowFrom(state.view.end + Number.EPSILON * state.view.end);
  return [from, steps[to]?.step === state.view.end ? to + 1 : to];
}
const aroundView = () => {
  const [from, to] = inView();
  return steps.slice(Math.max(0, from - 1), to + 1);
};

/* [least, most] of what a picture shows, with room, and where a value is in it. */
function scaleOf(picture, height) {
  const [from, to] = inView();
  const wanted = picture.id === "loss" && state.logarithmic;
  let low = Infinity, high = -Infinity, positive = true;
  const look = (row) => {
    for (const { key } of picture.lines) {
      const value = row[key];
      if (value === null) continue;
      low = Math.min(low, value);
      high = Math.max(high, value);
      positive &&= value > 0;
    }
  };
  steps.slice(from, to).forEach(look);
  if (low > high) aroundView().forEach(look);
  if (low > high) [low, high] = [0, 1];
  const logarithmic = wanted && positive, by = logarithmic ? Math.log10 : (value) => value;
  const room = (by(high) - by(low) || Math.abs(by(high)) || 1) * 0.06, bottom = by(low) - room, top = by(high) + room;
  const y = (value) => height - BOTTOM - ((by(value) - bottom) / (top - bottom)) * (height - TOP - BOTTOM);
  const ticks = niceSteps(bottom, top, Math.max(2, Math.floor(height / 45)));
  return { y, ticks: logarithmic ? ticks.map((tick) => 10 ** tick) : ticks };
}

function drawAxes(c, picture, scale, width, height) {
  c.fillStyle = css("--free");
  c.fillRect(LEFT, TOP, width - LEFT - RIGHT, height - TOP - BOTTOM);
  c.textAlign = "right";
  for (const value of scale.ticks) {
    const y = Math.round(scale.y(value));
    c.fillStyle = css("--line");
    c.fillRect(LEFT, y, width - LEFT - RIGHT, 1);
    c.fillStyle = css("--soft");
    c.fillText(picture.text(value), LEFT - 8, y);
  }
  c.textAlign = "center";
  const { begin: from, end: to } = state.view;
  for (const value of niceSteps(from, to, Math.max(2, Math.floor(width / 130)))) {
    const x = xOf(value, width);
    if (Number.isInteger(value) && x > LEFT + 12 && x < width - RIGHT - 20) c.fillText(countText(value), x, height - BOTTOM / 2);
  }
}

function drawLine(c, line, scale, rows, width) {
  const path = new Path2D(), dots = new Path2D(), dotted = rows.filter((row) => row[line.key] !== null).length <= 100;
  let joined = false;
  for (const row of rows) {
    const value = row[line.key];
    if (value === null) {
      joined &&= line.dots === true; /* between evaluations are steps without one */
      continue;
    }
    const x = xOf(row.step, width), y = scale.y(value);
    if (joined) path.lineTo(x, y);
    else path.moveTo(x, y);
    joined = true;
    if (!dotted) continue;
    dots.moveTo(x + 3, y);
    dots.arc(x, y, 3, 0, 7);
  }
  c.strokeStyle = c.fillStyle = css(line.colour);
  c.lineWidth = line.dots ? 2 : 1.3;
  c.lineJoin = "round";
  c.setLineDash(line.dash);
  c.stroke(path);
  c.setLineDash([]);
  c.fill(dots);
}

/* A step whose loss is not finite, and where a run was resumed. */
function drawEvents(c, picture, rows, width, height) {
  c.lineWidth = 1.5;
  for (const row of rows) {
    const x = xOf(row.step, width);
    if (row.resumed) {
      c.strokeStyle = css("--soft");
      c.setLineDash([2, 3]);
      c.stroke(new Path2D(`M${x} ${TOP}V${height - BOTTOM}`));
      c.setLineDash([]);
    }
    if (picture.id !== "loss" || row.loss !== null) continue;
    c.strokeStyle = css("--exposed");
    c.stroke(new Path2D(`M${x - 4} ${TOP + 2}l8 8m-8 0l8 -8`));
  }
}

function drawPicture(picture) {
  const { c, width, height } = begin(picture.canvas), rows = aroundView();
  picture.scale = scaleOf(picture, height);
  drawAxes(c, picture, picture.scale, width, height);
  c.save();
  clipPicture(c, width, height - BOTTOM);
  for (const line of picture.lines) drawLine(c, line, picture.scale, rows, width);
  drawEvents(c, picture, rows, width, height);
  c.restore();
}

/* The chosen step and the range that is dragged over: on canvases above the pictures. */
function drawMarks() {
  const row = steps[state.at];
  for (const picture of PICTURES) {
    const { c, width, height } = begin(byId(`${picture.id}-mark`)), x = xOf(row.step, width);
    c.save();
    clipPicture(c, width, height);
    c.fillStyle = css("--soft");
    c.fillRect(Math.round(x) - 0.5, TOP, 1.5, height - TOP - BOTTOM);
    c.strokeStyle = css("--ink");
    c.lineWidth = 2;
    for (const { key } of picture.lines)
      if (row[key] !== null) {
        c.beginPath();
        c.arc(x, picture.scale.y(row[key]), 5, 0, 7);
        c.stroke();
      }
    if (state.drag) {
      c.globalAlpha = 0.2;
      c.fillRect(Math.min(state.drag.from, state.drag.to), TOP, Math.abs(state.drag.to - state.drag.from), height - TOP - BOTTOM);
    }
    c.restore();
  }
}

function drawAll() {
  PICTURES.forEach(drawPicture);
  drawMarks();
}

/* --- the table --- */

const inRange = (rows) => rows.filter((row) => row.step >= state.view.begin && row.step <= state.view.end);
const stepColumns = [
  number("step", "step", countText), { ...number("loss", "loss", orDash(lossText)), text: lossOf },
  ...[["evaluation", "eval_loss", lossText], ["learning rate", "lr", brief], ["tokens", "tokens", countText, 120], ["tokens/s", "tokens_per_s", rateText],
    ["step time", "step_ns", timeText]].filter(([, key]) => has(key)).map(([title, key, text, width]) => number(title, key, orDash(text), width ?? 100)),
  ...(has("unix_s") ? [{ title: "time, UTC", width: 150, value: (r) => r.unix_s, text: (r) => orDash(clockText)(r.unix_s) }] : []),
];
const TABS = [
  { id: "steps", title: () => "Steps in view", rows: () => inRange(steps), columns: stepColumns, enter: (row) => setCursor(row.index) },
  {
    id: "evaluations", title: () => "Evaluations in view", rows: () => inRange(steps.filter((row) => row.eval_loss !== null)), columns: stepColumns,
    enter: (row) => setCursor(row.index), hidden: !has("eval_loss"),
  },
];
