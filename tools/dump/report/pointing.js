/* SPDX-License-Identifier: Apache-2.0 */
/* What the pointer and the keys do on the pictures. */

function bufferLines(buffer) {
  const span = spanOf(buffer);
  const lasts = buffer.persistent || !state.byTime || !span ? "" : `, ${timeText(span[1] - span[0])}`;
  return [
    nameOf(buffer), `layer ${layerText(buffer.layer)}, ${buffer.class}${buffer.op ? `, by ${buffer.op}` : ""}`,
    `${bytesText(buffer.bytes)} = ${exactText(buffer.bytes)} at ${countText(buffer.offset)}`, `life: ${lifeText(buffer)}${lasts}`,
    `decision: ${decisionText(buffer)}`, `removal: ${removalText(buffer)}`,
  ];
}

function transferLines({ index, transfer }) {
  const order = [
    transfer.group < index ? `starts with command ${transfer.group}` : "",
    (transfer.waits_for ?? null) !== null ? `waits for command ${transfer.waits_for}` : "",
    (transfer.complete_before ?? null) !== null ? `complete before command ${transfer.complete_before}` : "",
  ].filter(Boolean).join(", ");
  const sent = `along ${transfer.axis}: rank 0 sends ${bytesText(transfer.sent_bytes)}, ${timeText(transfer.exposed_ns)} exposed`;
  return order ? [sent, order] : [sent];
}

function commandLines(command, plan = step) {
  const lines = [
    `${plan === other ? "other plan: " : ""}${command.index} ${command.name}`, `${command.kind}, ${command.phase}, layer ${layerText(command.layer)}`,
    `predicted ${timeText(command.estimated_ns)}, live ${bytesText(command.live_bytes)}`,
  ];
  const event = plan === step && measuredOf.get(command.index);
  if (event) lines.push(`measured ${timeText(event.ns)}, ${percent(event.ns, command.estimated_ns)}`);
  if (command.transfer) lines.push(...transferLines(command));
  if (plan.original.has(command.index)) lines.push(`recomputes what command ${plan.original.get(command.index)} made`);
  return lines;
}

/* What the other plan does at a position; none after its end, or without one. */
function otherLines(position) {
  if (!other || position >= endOf(other)) return [];
  const index = commandAt(position, other), live = other.commands[other.order.get(index)].live_bytes;
  const here = position < endOf(step) ? byIndex.get(commandAt(position)).live_bytes : 0;
  return [`other plan then: ${bytesText(live)} live, ${signed(live - here, bytesText)}, at command ${index}`];
}

function bytesAt(y, height) {
  return bytesBegin() + ((height - BOTTOM - y) / (height - TOP - BOTTOM)) * (bytesEnd() - bytesBegin());
}

function bufferAt(x, y, width, height) {
  const position = positionOf(x, width), byte = bytesAt(y, height);
  if (position >= endOf(step)) return null;
  return liveAt(commandAt(position)).find((b) => b.offset <= byte && byte < b.offset + b.bytes) ?? null;
}

/* What is shown there of the streams: a row, and in it a command or a wait. */
function streamAt(x, y, width) {
  const row = streamRows.find((r) => y >= r.top && y < r.top + r.height), position = positionOf(x, width);
  if (!row) return {};
  const command = row.plan.commands.find((each) => {
    const span = streamSpan(row, each);
    return span && span[0] <= position && position < span[1];
  });
  const wait = !command && hasWaits(row) ? row.plan.waits.find((w) => w.begin <= position && position < w.end) : null;
  return { row, command, wait };
}

const TALL = 24; /* from here on a drag chooses bytes too */

/* Where the range that is dragged over begins and ends from top to bottom. */
function dragDown(canvas, y) {
  const { drag } = state, inside = canvas === memoryCanvas && Math.abs(y - drag.y) > TALL;
  [drag.top, drag.bottom] = inside ? [drag.y, y] : [0, canvas.clientHeight];
  drag.tall = inside;
}

function hover(canvas, event) {
  const { offsetX: x, offsetY: y } = event, width = canvas.clientWidth, height = canvas.clientHeight;
  if (state.drag) {
    state.drag.to = x;
    dragDown(canvas, y);
    drawMarks();
    return;
  }
  const inside = x >= LEFT && x <= width - RIGHT, inMemory = inside && canvas === memoryCanvas;
  const buffer = inMemory ? bufferAt(x, y, width, height) : null;
  const { row, command, wait } = inside && canvas === streamsCanvas ? streamAt(x, y, width) : {};
  if (state.hover?.buffer !== buffer || state.hover?.command !== command) {
    state.hover = { buffer, command: row?.plan === step ? command : null };
    drawMarks();
  }
  const lines = buffer ? bufferLines(buffer) : command ? commandLines(command, row.plan)
    : wait ? [`exposed ${timeText(wait.end - wait.begin)}`, "computation waits for transfers"] : [];
  if (inMemory) lines.push(...otherLines(positionOf(x, width)));
  if (lines.length) showTip(lines, event.clientX, event.clientY);
  else tip.hidden = true;
}

function leave() {
  tip.hidden = true;
  state.hover = null;
  drawMarks();
}

function setView(from, to, bytes = state.view.bytes) {
  const whole = axisEnd(), length = Math.min(whole, Math.max(to - from, whole / 1e5));
  const start = Math.max(0, Math.min(from, whole - length));
  state.view = { begin: start, end: start + length, bytes };
  drawAll();
}

function zoom(factor, position) {
  const { begin: from, end: to } = state.view;
  setView(position - (position - from) * factor, position + (to - position) * factor);
}

function setCursor(index, buffer = null) {
  state.at = index;
  state.buffer = buffer;
  const { begin: from, end: to } = state.view, position = beginOf(index);
  if (position < from || position > to) setView(position - (to - from) / 2, position + (to - from) / 2);
  const command = byIndex.get(index);
  byId("cursor").textContent = command
    ? shown(`command ${commandLines(command).join("; ")}${index === summary.peak_command ? "; the peak" : ""}`) : "";
  byId("cursor-other").textContent = command ? otherLines(position).map(shown).join("") : "";
  if (tabs.shown.id === "live") tabs.refresh();
  drawMarks();
}

function showBuffer(buffer) {
  setCursor(isLive(buffer, state.at) ? state.at : buffer.born, buffer);
  const place = memoryCanvas.getBoundingClientRect(), box = boxOf(buffer, place.width, place.height);
  const x = Math.max(LEFT, Math.min(xOf(beginOf(state.at), place.width), place.width - RIGHT));
  showTip(bufferLines(buffer), place.left + x, place.top + Math.max(0, box.y + box.height / 2));
}

function moveCursor(by) {
  const next = Math.max(0, Math.min(step.commands.length - 1, order.get(state.at) + by));
  setCursor(step.commands[next].index);
}

/* Through the buffers that live at the cursor, by address. */
function moveBuffer(by) {
  const live = liveAt(state.at).sort((a, b) => a.offset - b.offset);
  const now = live.indexOf(state.buffer);
  const next = now < 0 ? (by > 0 ? live.findIndex((b) => !b.persistent) : live.length - 1) : now + by;
  if (live[Math.max(0, next)] && next < live.length) showBuffer(live[Math.max(0, next)]);
}

const inView = () => {
  const first = order.get(commandAt(state.view.begin)), last = order.get(commandAt(state.view.end));
  return Math.max(1, Math.round((last - first) / 100));
};
const KEYS = {
  ArrowLeft: (shift) => moveCursor(shift ? -inView() : -1),
  ArrowRight: (shift) => moveCursor(shift ? inView() : 1),
  ArrowUp: () => moveBuffer(1),
  ArrowDown: () => moveBuffer(-1),
  Home: () => moveCursor(-Infinity),
  End: () => moveCursor(Infinity),
  p: () => setCursor(summary.peak_command),
  o: () => other && setCursor(commandAt(beginOf(other.summary.peak_command, other))),
  "+": () => zoom(0.5, beginOf(state.at)),
  "=": () => zoom(0.5, beginOf(state.at)),
  "-": () => zoom(2, beginOf(state.at)),
  0: () => setView(0, axisEnd(), null),
};

function listen(canvas) {
  canvas.addEventListener("pointermove", (event) => hover(canvas, event));
  canvas.addEventListener("pointerleave", leave);
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    canvas.setPointerCapture(event.pointerId);
    tip.hidden = true;
    state.drag = { from: event.offsetX, to: event.offsetX, y: event.offsetY };
    dragDown(canvas, event.offsetY);
  });
  canvas.addEventListener("pointerup", (event) => {
    const width = canvas.clientWidth, drag = state.drag;
    state.drag = null;
    if (!drag || !step.commands.length) return;
    const ends = [positionOf(drag.from, width), positionOf(event.offsetX, width)].sort((a, b) => a - b);
    const bytes = [drag.y, event.offsetY].map((y) => bytesAt(y, canvas.clientHeight)).sort((a, b) => a - b);
    if (Math.abs(event.offsetX - drag.from) > 5) setView(...ends, drag.tall ? bytes : state.view.bytes);
    else if (event.offsetX >= LEFT) {
      const buffer = canvas === memoryCanvas ? bufferAt(event.offsetX, event.offsetY, width, canvas.clientHeight) : null;
      const { row, command } = canvas === streamsCanvas ? streamAt(event.offsetX, event.offsetY, width) : {};
      tabs.show("live");
      setCursor(command && row.plan === step ? command.index : commandAt(ends[0]), buffer);
    }
  });
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, positionOf(event.offsetX, canvas.clientWidth));
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    if (!KEYS[event.key] || event.ctrlKey || event.altKey || event.metaKey || !step.commands.length) return;
    event.preventDefault();
    KEYS[event.key](event.shiftKey);
  });
}
