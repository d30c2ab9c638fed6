/* SPDX-License-Identifier: Apache-2.0 */
/* Memory and streams. Positions on the axis are times or commands. */

const state = { view: { begin: 0, end: 1 }, byTime: true, above: false, at: 0, buffer: null, hover: null };
const PEAK_LABEL_WIDTH = 170;
const memoryCanvas = byId("memory"), streamsCanvas = byId("streams"), curveCanvas = byId("curve");

/* Where a command of a plan begins on the axis, and what follows it. */
const beginOf = (index, plan = step) => (state.byTime ? plan.at[index] : plan.order.get(index));
const nextOf = (index, plan = step) => (state.byTime ? plan.next[index] : plan.order.get(index) + 1);
const endOf = (plan) => (state.byTime ? plan.end : plan.commands.length);
const axisEnd = () => Math.max(...plans.map(endOf)) || 1;

/* The command that runs there. */
function commandAt(position, plan = step) {
  let low = 0, high = plan.commands.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (beginOf(plan.commands[middle].index, plan) <= position) low = middle;
    else high = middle - 1;
  }
  return plan.commands.length ? plan.commands[low].index : 0;
}

/* [begin, end) of a buffer on the axis; of one that lives in no segment of a step, none. */
function spanOf(buffer) {
  if (buffer.persistent) return [0, endOf(step)];
  const segment = segmentOf(buffer.born);
  return segment ? [beginOf(buffer.born), nextOf(Math.min(buffer.dies, segment.last) - 1)] : null;
}

const limitOf = (plan) => Math.max(0, plan.summary.budget_bytes - plan.summary.reserve_bytes); /* of the arena; 0: none */
const bytesBegin = () => state.view.bytes?.[0] ?? (state.above ? summary.static_bytes : 0);
const bytesEnd = () => {
  if (state.view.bytes) return state.view.bytes[1];
  const arena = Math.max(...plans.map((plan) => plan.summary.arena_bytes));
  return Math.max(arena, ...plans.map(limitOf).filter((limit) => limit < 1.25 * arena), bytesBegin() + 1) * 1.02;
};
function yOf(bytes, height) {
  const from = bytesBegin();
  return height - BOTTOM - ((bytes - from) / (bytesEnd() - from)) * (height - TOP - BOTTOM);
}

/* The rectangle of a buffer in the picture. */
function boxOf(buffer, width, height) {
  const span = spanOf(buffer);
  if (!span) return null;
  const x = xOf(span[0], width), y = yOf(buffer.offset + buffer.bytes, height);
  return { x, y, width: xOf(span[1], width) - x, height: yOf(buffer.offset, height) - y };
}

function drawAxes(c, width, height, ticks, text) {
  c.strokeStyle = css("--line");
  c.lineWidth = 1;
  c.fillStyle = css("--soft");
  c.textAlign = "right";
  for (const value of ticks) {
    const y = Math.round(yOf(value, height)) + 0.5;
    c.beginPath();
    c.moveTo(LEFT, y);
    c.lineTo(width - RIGHT, y);
    c.stroke();
    c.fillText(text(value), LEFT - 8, y);
  }
}

function drawTimes(c, width, y) {
  c.fillStyle = css("--soft");
  c.textAlign = "center";
  for (const value of niceSteps(state.view.begin, state.view.end, Math.max(2, Math.floor(width / 130)))) {
    const x = xOf(value, width);
    if (x > LEFT + 12 && x < width - RIGHT - 20) c.fillText(state.byTime ? timeText(value) : countText(value), x, y);
  }
}

function drawMemory() {
  const { c, width, height } = begin(memoryCanvas);
  c.fillStyle = css("--free");
  c.fillRect(LEFT, TOP, width - LEFT - RIGHT, height - TOP - BOTTOM);
  drawAxes(c, width, height, niceSteps(bytesBegin(), bytesEnd(), 7), bytesText);
  drawTimes(c, width, height - BOTTOM / 2);
  c.save();
  clipPicture(c, width, height - BOTTOM);
  const boxes = CLASSES.map(() => []), thin = CLASSES.map(() => []), named = [];
  for (const buffer of stepBuffers) {
    const box = boxOf(buffer, width, height);
    if (!box || box.x > width || box.x + box.width < LEFT || box.y > height - BOTTOM) continue;
    const gap = box.width > 8 && box.height > 8 ? 1 : 0;
    (Math.min(box.width, box.height) < 1 ? thin : boxes)[classOf.get(buffer.class)].push([box.x, box.y + gap, box.x + box.width - gap, box.y + box.height]);
    if (box.width > 60 && box.height > 13 && named.length < 300) named.push([buffer, box]);
  }
  for (const each of [boxes, thin]) each.forEach((of, i) => fill(c, of, css(`--class-${i}`), CLASSES[i][2]));
  c.textAlign = "left";
  c.fillStyle = css("--ink");
  for (const [buffer, box] of named) {
    const x = Math.max(box.x, LEFT), end = Math.min(box.x + box.width, width - RIGHT);
    label(c, `${CLASSES[classOf.get(buffer.class)][1]} ${nameOf(buffer)}`, x + 4, box.y + box.height / 2, end - x - 8);
  }
  if (other) drawOutline(c, width, height);
  drawLive(c, width, height);
  drawSegments(c, width, height);
  c.restore();
  for (const plan of plans) {
    drawLimit(c, plan, width, height);
    drawPeak(c, plan, width, height);
  }
}

function drawLive(c, width, height) {
  c.beginPath();
  for (const command of step.commands) {
    const y = yOf(command.live_bytes, height), x = xOf(beginOf(command.index), width);
    if (segmentOf(command.index).first === command.index) c.moveTo(x, y);
    else c.lineTo(x, y);
    c.lineTo(xOf(nextOf(command.index), width), y);
  }
  c.strokeStyle = css("--ink");
  c.lineWidth = 1.2;
  c.stroke();
}

/* By column of pixels: the most bytes that a plan has live there. */
function mostLive(plan, width) {
  const most = [];
  for (const { index, live_bytes: bytes } of plan.commands) {
    const from = Math.max(LEFT, Math.floor(xOf(beginOf(index, plan), width)));
    const to = Math.min(width - RIGHT, Math.ceil(xOf(nextOf(index, plan), width)));
    for (let x = from; x < Math.max(to, from + 1); x++) most[x] = Math.max(most[x] ?? 0, bytes);
  }
  return most;
}

/* Of the other plan, dashed on a ground that sets it off. */
function drawOutline(c, width, height) {
  const path = new Path2D(), most = mostLive(other, width);
  most.forEach((bytes, x) => {
    const y = yOf(bytes, height);
    if (most[x - 1] === undefined) path.moveTo(x, y);
    else path.lineTo(x, y);
    path.lineTo(x + 1, y);
  });
  for (const [colour, wide, dash] of [["--page", 4, []], ["--other", 2, [7, 3]]]) {
    c.strokeStyle = css(colour);
    c.lineWidth = wide;
    c.setLineDash(dash);
    c.stroke(path);
  }
  c.setLineDash([]);
}

function drawSegments(c, width, height) {
  c.fillStyle = css("--soft");
  c.strokeStyle = css("--soft");
  c.textAlign = "left";
  for (const segment of step.segments) {
    const x = xOf(beginOf(segment.first), width);
    c.setLineDash([2, 3]);
    c.beginPath();
    c.moveTo(x, 0);
    c.lineTo(x, height);
    c.stroke();
    c.setLineDash([]);
    if (step.segments.length > 1) c.fillText(shown(segment.name) + (segment.times > 1 ? ` x ${segment.times}` : ""), x + 4, TOP + 8);
  }
}

/* On a ground that sets it off. */
function say(c, text, x, y) {
  c.strokeStyle = css("--page");
  c.lineWidth = 4;
  c.lineJoin = "round";
  c.strokeText(text, x, y);
  c.fillText(text, x, y);
}

function drawLimit(c, plan, width, height) {
  const limit = limitOf(plan), isOther = plan === other;
  if (!limit || limit > bytesEnd() || limit < bytesBegin()) return;
  const y = yOf(limit, height);
  c.strokeStyle = c.fillStyle = css(isOther ? "--other" : "--exposed");
  c.lineWidth = 1.2;
  c.setLineDash(isOther ? [2, 3] : [7, 4]);
  c.beginPath();
  c.moveTo(LEFT, y);
  c.lineTo(width - RIGHT, y);
  c.stroke();
  c.setLineDash([]);
  c.textAlign = isOther ? "right" : "left";
  say(c, `${isOther ? "other: " : ""}budget - reserve ${bytesText(limit)}`, isOther ? width - RIGHT - 6 : LEFT + 6, y - 8);
}

function peakAt(plan, width, height) {
  const { peak_command: peak, peak_bytes: bytes } = plan.summary;
  return [xOf((beginOf(peak, plan) + nextOf(peak, plan)) / 2, width), yOf(bytes, height)];
}

function drawPeak(c, plan, width, height) {
  const isOther = plan === other, [x, y] = peakAt(plan, width, height);
  if (!(x >= LEFT && x <= width - RIGHT)) return;
  const toLeft = x > width - PEAK_LABEL_WIDTH;
  c.strokeStyle = c.fillStyle = css(isOther ? "--other" : "--ink");
  c.lineWidth = 1.2;
  if (!isOther) {
    c.setLineDash([4, 3]);
    c.beginPath();
    c.moveTo(x, TOP);
    c.lineTo(x, height - BOTTOM);
    c.stroke();
    c.setLineDash([]);
  }
  if (y < 0 || y > height - BOTTOM) return;
  c.beginPath();
  c.moveTo(x, y);
  c.lineTo(x - 5, y - 8);
  c.lineTo(x + 5, y - 8);
  c.closePath();
  if (isOther) c.fillStyle = css("--page");
  c.fill();
  if (isOther) c.stroke();
  c.fillStyle = css(isOther ? "--other" : "--ink");
  c.textAlign = toLeft ? "right" : "left";
  const [otherX, otherY] = isOther ? peakAt(step, width, height) : [];
  const meet = Math.abs(x - otherX) < PEAK_LABEL_WIDTH && Math.abs(y - otherY) < 14; /* labels of both plans */
  say(c, `${isOther ? "other: " : ""}peak ${bytesText(plan.summary.peak_bytes)}`, x + (toLeft ? -9 : 9), meet ? Math.max(y, otherY) + 9 : y - 7);
}

const linksOf = (plan) => (plan?.summary.mesh ?? []).map(({ axis }) => axis)
  .filter((axis) => plan.commands.some((command) => command.transfer?.axis === axis));
const moves = (plan) => linksOf(plan).length > 0;
/* A row for each link; `title` of the only one. */
const linkRows = (id, plan, title, each) => linksOf(plan).map((link, i, { length }) => (
  { id: `${id}-${link}`, title: length > 1 ? each(link) : title, height: 26, plan, link, shown: true }));
const streamRows = [ /* `link`: of the plan's transfers along this axis, else of its computation */
  { id: "computation", title: "computation", height: 36, plan: step, shown: true },
  ...linkRows("transfers", step, "transfers", (link) => `along ${link}`),
  { id: "other", title: "other plan", height: 36, plan: other, shown: other },
  ...linkRows("other-transfers", other, "its transfers", (link) => `its ${link}`),
  { id: "joins", title: "recomputed", height: 52, plan: step, shown: original.size > 0 },
  { id: "measured", title: "measured", height: 36, plan: step, shown: measured.length > 0 },
  ...(measured.length ? linkRows("measured-transfers", step, "", (link) => `along ${link}`) : []),
].filter((row) => row.shown);
{
  let top = 6;
  for (const row of streamRows) {
    row.top = top;
    top += row.height + 8;
  }
  streamsCanvas.style.height = `${top + BOTTOM - 4}px`;
}

/* Of a command of the row's plan: [begin, end) on the axis, or none. */
function streamSpan(row, command) {
  const index = command.index, event = measuredOf.get(index), { plan } = row;
  if (row.link !== command.transfer?.axis) return null;
  if (row.id.startsWith("measured")) {
    if (!event) return null;
    const from = segmentOf(index).begin + event.start_ns;
    return state.byTime ? [from, from + event.last_ns] : [beginOf(index), nextOf(index)];
  }
  return state.byTime ? plan.stream[index] : [beginOf(index, plan), nextOf(index, plan)];
}

function drawStreams() {
  const { c, width, height } = begin(streamsCanvas);
  drawTimes(c, width, height - BOTTOM / 2);
  c.textAlign = "right";
  for (const row of streamRows) {
    c.fillStyle = css("--soft");
    c.fillText(row.title, LEFT - 8, row.top + row.height / 2);
    c.fillStyle = css("--free");
    c.fillRect(LEFT, row.top, Math.min(xOf(endOf(row.plan), width), width - RIGHT) - LEFT, row.height);
  }
  c.save();
  clipPicture(c, width, height - BOTTOM);
  for (const row of streamRows)
    if (row.id === "joins") drawJoins(c, row, width);
    else drawRow(c, row, width);
  c.restore();
}

function drawRow(c, row, width) {
  const kinds = new Map(), named = [];
  for (const command of row.plan.commands) {
    const span = streamSpan(row, command);
    if (!span) continue;
    const x = xOf(span[0], width), end = xOf(span[1], width);
    if (end < LEFT || x > width) continue;
    const kind = command.transfer ? "transfer" : `phase-${Math.max(0, PHASES.indexOf(command.phase))}`;
    const key = `${kind} ${command.instance ? "cross" : "plain"}`;
    if (!kinds.has(key)) kinds.set(key, []);
    kinds.get(key).push([x, row.top, end - (end - x > 8 ? 1 : 0), row.top + row.height]);
    if (end - x > 60 && named.length < 200) named.push([command, Math.max(x, LEFT), Math.min(end, width - RIGHT)]);
  }
  for (const [key, boxes] of kinds) {
    const [kind, tile] = key.split(" ");
    fill(c, boxes, css(`--${kind}`), tile);
  }
  if (hasWaits(row)) drawWaits(c, row, width);
  c.textAlign = "left";
  c.fillStyle = css("--ink");
  for (const [command, x, end] of named) label(c, command.name, x + 4, row.top + row.height / 2, end - x - 8);
}

const hasWaits = (row) => state.byTime && (row.id === "computation" || row.id === "other");
function drawWaits(c, row, width) {
  const boxes = row.plan.waits.map((wait) => [xOf(wait.begin, width), row.top, xOf(wait.end, width), row.top + row.height]);
  fill(c, boxes, css("--free"), "wait", css("--exposed"));
}

const middleOf = (index) => (beginOf(index) + nextOf(index)) / 2;

function joinPath(path, index, row, width) {
  const from = xOf(middleOf(original.get(index)), width), to = xOf(middleOf(index), width);
  path.moveTo(from, row.top);
  path.bezierCurveTo(from, row.top + row.height * 1.25, to, row.top + row.height * 1.25, to, row.top);
}

function drawJoins(c, row, width) {
  const path = new Path2D();
  for (const index of original.keys()) joinPath(path, index, row, width);
  c.strokeStyle = css("--class-4");
  c.globalAlpha = Math.max(0.08, Math.min(0.8, 40 / original.size));
  c.lineWidth = 1;
  c.stroke(path);
  c.globalAlpha = 1;
}

/* What is chosen, hovered over and dragged over: on canvases above the pictures. */
function drawMarks() {
  const memory = begin(byId("memory-mark")), streams = begin(byId("streams-mark"));
  for (const { c, width, height } of [memory, streams]) {
    const x = xOf(beginOf(state.at), width), end = xOf(nextOf(state.at), width);
    c.save();
    clipPicture(c, width, height);
    c.fillStyle = css("--accent");
    c.globalAlpha = 0.25;
    c.fillRect(x, 0, Math.max(end - x, 0), height);
    c.globalAlpha = 1;
    c.fillRect(Math.round(x) - 0.5, 0, 1.5, height);
    if (state.drag) {
      c.globalAlpha = 0.2;
      const { from, to, top, bottom } = state.drag;
      c.fillRect(Math.min(from, to), Math.min(top, bottom), Math.abs(to - from), Math.abs(bottom - top));
    }
    c.restore();
  }
  memory.c.save();
  clipPicture(memory.c, memory.width, memory.height);
  for (const buffer of new Set([state.buffer, state.hover?.buffer])) outline(memory, buffer);
  memory.c.restore();
  const row = streamRows.find((r) => r.id === "joins"), about = state.hover?.command ?? byIndex.get(state.at);
  if (!row || !about) return;
  const path = new Path2D();
  for (const [again, first] of original)
    if (again === about.index || first === about.index) joinPath(path, again, row, streams.width);
  streams.c.save();
  clipPicture(streams.c, streams.width, streams.height);
  streams.c.strokeStyle = css("--class-4");
  streams.c.lineWidth = 2.5;
  streams.c.stroke(path);
  streams.c.restore();
}

function outline({ c, width, height }, buffer) {
  const box = buffer && boxOf(buffer, width, height);
  if (!box) return;
  c.strokeStyle = css("--ink");
  c.lineWidth = 2;
  c.strokeRect(box.x, box.y, Math.max(box.width, 2), Math.max(box.height, 2));
}

function drawAll() {
  drawMemory();
  drawStreams();
  drawMarks();
  if (curve.length) drawCurve();
}
