/* SPDX-License-Identifier: Apache-2.0 */
/* The data of a page, and what follows from them. */

const packed = JSON.parse(document.getElementById("plan").textContent);
const summary = packed.summary;
const part = (name) => unpack(packed.tables[name] ?? {}, packed.tables.texts);
const { buffers = [], residents_at_peak: residents = [] } = part("memory");
const { schedule: commands = [] } = part("schedule");
const { kernels = [] } = part("kernels");
const { transfers: askedFor = [] } = part("placement");
const { why: decisions = [], exact = true } = part("why");
const { points: curve = [] } = part("curve");
const { events: measured = [] } = part("measured");

const CLASSES = [ /* name, letter and pattern, as in remat-dump --memory */
  ["parameters", "P", "plain"], ["optimizer state", "O", "dots"], ["gradients", "G", "rows"], ["activations kept", "K", "rising"],
  ["recomputed", "R", "cross"], ["transients", "t", "falling"], ["inputs and outputs", "i", "columns"],
];
const classOf = new Map(CLASSES.map(([name], i) => [name, i]));
const layerText = (layer) => (layer < 0 ? "-" : String(layer));
const PHASES = ["forward", "loss", "backward", "optimizer"];

/* --- the step: each segment once, in the order of a step --- */

/* Positions on the axis, by command: `at`, where computation comes to it; `next`, to what follows it; `stream`,
 * [begin, end) of what it does itself; `original`: the one that made before what it recomputes; `order`: its place in
 * `commands`, those of the step. `waits`: when computation waits for a transfer. */
function layOut(summary, { segments = [], positions = [] }, commands, measured) {
  const laid = { summary, at: [], next: [], stream: [], waits: [], segments: [], commands: [], original: new Map(), end: 0 };
  let next = 0;
  for (const segment of segments) {
    const inside = positions.slice(next, (next += segment.end - segment.begin)), begin = laid.end;
    inside.forEach((position, i) => {
      const command = commands[position.command], after = inside[i + 1]?.reached_ns ?? segment.ns;
      const done = command.transfer ? position.reached_ns : position.end_ns;
      laid.at[command.index] = begin + position.reached_ns;
      laid.next[command.index] = begin + after;
      laid.stream[command.index] = [begin + position.begin_ns, begin + position.end_ns];
      if (after > done) laid.waits.push({ begin: begin + done, end: begin + after });
      if (position.original !== null) laid.original.set(command.index, position.original);
      laid.commands.push(command);
    });
    const ends = measured.filter((e) => e.command >= segment.begin && e.command < segment.end).map((e) => e.start_ns + e.last_ns);
    const length = ends.reduce((most, end) => Math.max(most, end), 0);
    laid.segments.push({ name: segment.name, times: segment.times, first: segment.begin, last: segment.end, begin, measured: length });
    laid.end = begin + Math.max(segment.ns, length);
  }
  laid.order = new Map(laid.commands.map((command, i) => [command.index, i]));
  return laid;
}

const step = layOut(summary, part("step"), commands, measured);
const { original, order } = step;
const other = packed.other ? layOut(packed.other, part("other").step, part("other").schedule.schedule, []) : null; /* of --diff */
const plans = other ? [step, other] : [step];
const segmentOf = (index, plan = step) => plan.segments.find((s) => index >= s.first && index < s.last);
const byIndex = new Map(commands.map((command) => [command.index, command]));
const measuredOf = new Map(measured.map((event) => [event.command, event]));

/* --- what is known of a buffer --- */

const decisionOf = new Map();
for (const decision of decisions) decisionOf.set(decision.name, decision);
const residentOf = new Map(residents.map((resident) => [resident.buffer, resident]));
const estimated = exact ? "" : ", estimated";
buffers.forEach((buffer, index) => { buffer.index = index; });
const stepBuffers = buffers.filter((b) => b.persistent || step.segments.some((s) => b.born < s.last && b.dies > s.first));

function nameOf(buffer) {
  return residentOf.get(buffer.index)?.name || buffer.name || "(no value)";
}

function decisionText(buffer) {
  const decision = decisionOf.get(nameOf(buffer)) ?? decisionOf.get(buffer.name);
  return decision ? `${decision.action} (${decision.reason})` : "none";
}

/* What it takes to have it gone. */
function removalText(buffer) {
  const resident = residentOf.get(buffer.index);
  const decision = decisionOf.get(buffer.name);
  if (resident) {
    const why = {
      persistent: "persistent", needed: "needed", pinned: "pinned", "in use": "in use at the peak",
    };
    return why[resident.removal] ?? `${addedText(resident.recompute_extra_ns)} a step${estimated}`;
  }
  if (decision?.recomputable !== false && decision?.action === "save" && decision.recompute_extra_ns !== null)
    return `${addedText(decision.recompute_extra_ns)} a step${estimated}, not live at the peak`;
  return buffer.persistent ? "persistent" : "not live at the peak";
}

function lifeText(buffer) {
  return buffer.persistent ? "all of the step" : `commands ${buffer.born}-${buffer.dies - 1}`;
}

const isLive = (buffer, command) => buffer.persistent || (buffer.born <= command && command < buffer.dies);
const liveAt = (command) => stepBuffers.filter((b) => isLive(b, command));
