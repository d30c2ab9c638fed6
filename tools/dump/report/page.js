/* SPDX-License-Identifier: Apache-2.0 */
/* What stands above the pictures and below them, and all together. */

/* --- what stands above and below --- */

function makeFigures() {
  const limit = Math.max(0, summary.budget_bytes - summary.reserve_bytes);
  const peak = byIndex.get(summary.peak_command);
  const rows = [
    ["budget", "budget_bytes", bytesText, summary.budget_bytes ? `${bytesText(summary.reserve_bytes)} reserve leave ${bytesText(limit)}` : "no budget"],
    ["arena", "arena_bytes", bytesText, exactText(summary.arena_bytes)],
    ["live peak", "peak_bytes", bytesText, peak ? `at command ${peak.index}` : ""],
    ["persistent", "static_bytes", bytesText, summary.workspace_bytes ? `of it workspace ${bytesText(summary.workspace_bytes)}` : ""],
    ["step, predicted", "step_ns", timeText, `${percent(summary.step_ns, summary.base_step_ns)} over everything saved`],
    ["recomputed", "recomputed", countText, `of ${countText(decisions.length)} values, ${countText(summary.recomputed_fused)} inline`],
  ];
  if (summary.tokens) rows.push(["tokens/s", "tokens_per_s", (v) => countText(Math.round(v)), summary.mfu ? `MFU ${(summary.mfu * 100).toFixed(1)} %` : ""]);
  if (summary.mesh)
    rows.push(["exposed", "exposed_ns", timeText, `of ${timeText(summary.communication_ns)}; ${summary.mesh.map((a) => `${a.axis}=${a.size}`).join(",")}${summary.depth ? `, depth${NO_BREAK}${summary.depth}` : ""}`]);
  if (measured.length) {
    const runs = step.segments.reduce((sum, s) => sum + s.times * s.measured, 0);
    rows.push(["step, measured", null, timeText, percent(runs, summary.step_ns) + " over predicted", runs]);
  }
  byId("figures").replaceChildren(...rows.map(([title, key, text, more, value = summary[key]]) => {
    const say = (number) => (key === "budget_bytes" && !number ? "none" : text(number));
    const group = element("div"), said = element("dd", say(value)), there = key && other?.summary[key];
    said.dataset.key = key ?? "measured";
    said.dataset.value = value;
    said.append(element("small", more));
    if (other && there !== undefined) {
      const apart = there && value && there !== value ? `, this ${percent(value, there).replace(" ", NO_BREAK)}` : "";
      said.append(element("small", `other ${say(there).replace(" ", NO_BREAK)}${apart}`, { className: "other" }));
      said.dataset.other = there;
    }
    group.append(element("dt", title), said);
    return group;
  }));
}

function makeLegends() {
  const used = new Set(stepBuffers.map((b) => b.class));
  makeLegend(byId("legend"), [
    ...CLASSES.map(([name, letter, tile], i) => [`${letter} ${name}`, `--class-${i}`, tile, name]).filter((row) => used.has(row[3])),
    ["live bytes", "--ink", "line"], ...(other ? [["of the other plan", "--other", "dashes"]] : []),
  ]);
  const phases = new Set(plans.flatMap((plan) => plan.commands).map((command) => command.phase));
  makeLegend(byId("streams-legend"), [
    ...PHASES.map((phase, i) => [phase, `--phase-${i}`, "plain"]).filter(([phase]) => phases.has(phase)),
    ...(original.size ? [["recomputed", "--phase-2", "cross"], ["to its original", "--class-4", "curve"]] : []),
    ...(plans.some(moves) ? [["transfer", "--transfer", "plain"], ["exposed", "--exposed", "wait"]] : []),
  ]);
}

function makeSystems() {
  byId("systems-section").hidden = !summary.manuals.length;
  byId("systems").tBodies[0].replaceChildren(...summary.manuals.map((manual) => {
    const row = element("tr");
    row.append(element("td", manual.system), element("td", manual.flags || "no recompute flags"), element("td", timeText(manual.step_ns), { className: "number" }),
      element("td", percent(manual.step_ns, summary.step_ns), { className: "number" }));
    return row;
  }));
}

function settingsText({ settings, chosen_by: chosenBy }) {
  const said = settings.map(({ name, value }) => `--${name}${value ? " " + value : ""}`).join(" ") || "defaults";
  return said + (chosenBy ? `; chosen by ${chosenBy}` : "");
}

function makeRecord() {
  const rows = [
    ["policy", summary.policy], ["settings", settingsText(summary)], ["costs", packed.costs],
    ...summary.notes.map((note) => ["note", note]), ["hashes", `graph ${summary.graph_hash}, numerics ${summary.numerics_hash}`],
    ...(summary.plan_only ? [["plan only", summary.plan_only]] : []),
    ...(other ? [["other policy", other.summary.policy], ["other settings", settingsText(other.summary)]] : []),
  ];
  byId("record").replaceChildren(...rows.flatMap(([name, text]) => [element("dt", name), element("dd", text)]));
}

/* --- all together --- */

document.title = `${shown(summary.graph)}: ${other ? "two plans" : "plan"}`;
byId("title").textContent = shown(summary.graph);
byId("subtitle").textContent = shown(`${summary.layers} layers, for ${summary.target}, by ${summary.producer}`);
byId("certificate").textContent = shown(packed.certificate ? `Certificate: ${packed.certificate}` : "No certificate: that takes a budget, and decisions that are left to the planner.");
byId("difference").hidden = byId("other-keys").hidden = !other;
if (other) byId("difference").textContent = shown(differenceText());
memoryCanvas.setAttribute("aria-label", `Memory over the step: every buffer a rectangle${other ? "; live bytes of the other plan as a dashed line" : ""}`);
streamsCanvas.setAttribute("aria-label", "Computation and transfers over the step");
curveCanvas.setAttribute("aria-label", "Step time against budget");
byId("curve-section").hidden = !curve.some((point) => point.feasible);
makeFigures();
makeLegends();
makeSystems();
makeRecord();
listen(memoryCanvas);
listen(streamsCanvas);
curveCanvas.addEventListener("pointermove", (event) => {
  const scale = curveScale(curveCanvas.clientWidth, curveCanvas.clientHeight);
  const far = scale.points.map((p) => Math.abs(scale.x(p.budget) - event.offsetX));
  chooseCurvePoint(far.indexOf(Math.min(...far)));
});
curveCanvas.addEventListener("keydown", (event) => {
  const by = { ArrowLeft: 1, ArrowRight: -1 }[event.key]; /* points descend */
  if (!by) return;
  event.preventDefault();
  chooseCurvePoint(curvePoint + by);
});
byId("axis").onchange = () => {
  state.byTime = byId("axis").value === "time";
  setView(0, axisEnd());
};
byId("above").onchange = () => {
  state.above = byId("above").checked;
  setView(state.view.begin, state.view.end, null);
};
byId("to-peak").onclick = () => setCursor(summary.peak_command);
byId("to-all").onclick = () => setView(0, axisEnd(), null);
state.view = { begin: 0, end: axisEnd(), bytes: null };
state.at = order.has(summary.peak_command) ? summary.peak_command : (step.commands[0]?.index ?? 0);
tabs.show(TABS[0].id);
setCursor(state.at);
drawAll();
new ResizeObserver(drawAll).observe(memoryCanvas);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  makeLegends();
  drawAll();
});
