/* SPDX-License-Identifier: Apache-2.0 */
/* What the pointer and the keys do, what stands above the pictures, and all together. */

const WHOLE = steps.length > 1 ? [steps[0].step, steps[steps.length - 1].step] : [steps[0].step - 1, steps[0].step + 1];

function setView(from, to) {
  const length = Math.min(WHOLE[1] - WHOLE[0], Math.max(to - from, Math.min(4, WHOLE[1] - WHOLE[0])));
  const start = Math.max(WHOLE[0], Math.min(from, WHOLE[1] - length));
  state.view = { begin: start, end: start + length };
  drawAll();
  tabs.refresh();
}

function zoom(factor, position) {
  const { begin: from, end: to } = state.view;
  setView(position - (position - from) * factor, position + (to - position) * factor);
}

function setCursor(index) {
  state.at = Math.max(0, Math.min(steps.length - 1, index));
  const { step } = steps[state.at], { begin: from, end: to } = state.view;
  if (step < from || step > to) setView(step - (to - from) / 2, step + (to - from) / 2);
  byId("cursor").textContent = shown(stepLines(steps[state.at]).join("; "));
  drawMarks();
}

/* The row next to the pointer. */
function nearest(canvas, x) {
  const position = positionOf(x, canvas.clientWidth), next = rowFrom(position);
  const closer = next > 0 && (next === steps.length || position - steps[next - 1].step < steps[next].step - position);
  return closer ? next - 1 : next;
}

function hover(canvas, event) {
  if (state.drag) {
    state.drag.to = event.offsetX;
    drawMarks();
  } else if (event.offsetX >= LEFT && event.offsetX <= canvas.clientWidth - RIGHT) {
    setCursor(nearest(canvas, event.offsetX));
    showTip(stepLines(steps[state.at]), event.clientX, event.clientY);
  } else tip.hidden = true;
}

function toEvaluation(by) {
  let index = state.at + by;
  while (steps[index] && steps[index].eval_loss === null) index += by;
  if (steps[index]) setCursor(index);
}

const pace = (shift) => {
  const [from, to] = inView();
  return shift ? Math.max(1, Math.round((to - from) / 100)) : 1;
};
const KEYS = {
  ArrowLeft: (shift) => setCursor(state.at - pace(shift)),
  ArrowRight: (shift) => setCursor(state.at + pace(shift)),
  Home: () => setCursor(0),
  End: () => setCursor(steps.length - 1),
  e: () => toEvaluation(1),
  E: () => toEvaluation(-1),
  "+": () => zoom(0.5, steps[state.at].step),
  "=": () => zoom(0.5, steps[state.at].step),
  "-": () => zoom(2, steps[state.at].step),
  0: () => setView(...WHOLE),
};

function listen(canvas) {
  canvas.addEventListener("pointermove", (event) => hover(canvas, event));
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    canvas.setPointerCapture(event.pointerId);
    tip.hidden = true;
    state.drag = { from: event.offsetX, to: event.offsetX };
  });
  canvas.addEventListener("pointerup", (event) => {
    const { drag } = state, width = canvas.clientWidth;
    state.drag = null;
    if (!drag) return;
    if (Math.abs(event.offsetX - drag.from) > 5) setView(...[drag.from, event.offsetX].map((x) => positionOf(x, width)).sort((a, b) => a - b));
    else setCursor(nearest(canvas, event.offsetX));
  });
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, positionOf(event.offsetX, canvas.clientWidth));
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    if (!KEYS[event.key] || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    KEYS[event.key](event.shiftKey);
  });
}

/* --- what stands above --- */

function makeFigures() {
  const last = steps[steps.length - 1], least = (key) => steps.reduce((best, row) => (row[key] !== null && (best === null || row[key] < best[key]) ? row : best), null);
  const rows = [["steps", "step", countText(last.step), summary.steps < last.step ? `${countText(summary.steps)} in the log` : "", last.step], ["loss", "loss", lossOf(last), "of the last step", last.loss]];
  const add = (title, key, row) => row && rows.push([title, key, lossText(row[key]), `at step ${countText(row.step)}`, row[key]]);
  add("lowest loss", "loss", least("loss"));
  add("evaluation", "eval_loss", steps.findLast((row) => row.eval_loss !== null));
  add("lowest evaluation", "eval_loss", least("eval_loss"));
  if (last.lr !== null) rows.push(["learning rate", "lr", brief(last.lr), "of the last step", last.lr]);
  if (last.tokens !== null) rows.push(["tokens", "tokens", last.tokens < 1e6 ? countText(last.tokens) : digits(last.tokens / 1e6, ["million", "billion", "trillion"]), last.tokens < 1e6 ? "" : countText(last.tokens), last.tokens]);
  if (summary.ns) rows.push(["step time", "ns", timeText(summary.ns / summary.steps), `mean; ${spanText(summary.ns)} in all`, summary.ns / summary.steps]);
  byId("figures").replaceChildren(...rows.map(([title, key, text, more, value]) => {
    const group = element("div"), said = element("dd", text);
    said.dataset.key = key;
    said.dataset.value = value;
    said.append(element("small", more));
    group.append(element("dt", title), said);
    return group;
  }));
}

function makeLegends() {
  const swatch = (line) => (c) => {
    c.strokeStyle = c.fillStyle = css(line.colour);
    c.lineWidth = line.dots ? 2 : 1.5;
    c.setLineDash(line.dash);
    c.stroke(new Path2D("M0 7h26"));
    if (line.dots) c.fill(new Path2D("M16 7a3 3 0 1 0 -6 0a3 3 0 1 0 6 0"));
  };
  const cross = (c) => {
    c.strokeStyle = css("--exposed");
    c.lineWidth = 1.5;
    c.stroke(new Path2D("M9 3l8 8m-8 0l8 -8"));
  };
  const resumed = (c) => {
    c.strokeStyle = css("--soft");
    c.setLineDash([2, 3]);
    c.stroke(new Path2D("M13 0v14"));
  };
  const [loss, evaluation] = PICTURES[0].lines;
  makeLegend(byId("legend"), [
    ["loss", null, swatch(loss)], ...(has("eval_loss") ? [["evaluation", null, swatch(evaluation)]] : []),
    ...(steps.some((row) => row.loss === null) ? [["not finite", null, cross]] : []),
    ...(summary.resumed ? [["resumed", null, resumed]] : []),
  ]);
}

/* --- all together --- */

document.title = `${shown(summary.name)}: run`;
byId("title").textContent = shown(summary.name);
byId("subtitle").textContent = [
  `${countText(summary.steps)} step${summary.steps === 1 ? "" : "s"}`,
  ...(steps.length < summary.steps ? [`${countText(steps.length)} of them are shown: in each of some thousand stretches those with the lowest and the highest figures`] : []),
  ...(summary.resumed ? [`resumed ${summary.resumed === 1 ? "once" : `${countText(summary.resumed)} times`} at an earlier step`] : []), ...(summary.cut_off ? ["the last line is not complete"] : []),
].join("; ");
for (const id of ["lr", "rate"]) byId(`${id}-section`).hidden = !PICTURES.some((picture) => picture.id === id);
makeFigures();
makeLegends();
PICTURES.forEach((picture) => listen(picture.canvas));
byId("logarithmic").onchange = () => {
  state.logarithmic = byId("logarithmic").checked;
  drawAll();
};
byId("to-all").onclick = () => setView(...WHOLE);
state.view = { begin: WHOLE[0], end: WHOLE[1] };
drawAll();
tabs.show("steps");
setCursor(steps.length - 1);
new ResizeObserver(drawAll).observe(byId("loss"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  makeLegends();
  drawAll();
});
