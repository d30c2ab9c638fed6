/* SPDX-License-Identifier: Apache-2.0 */
/* Step time at every budget. */

let curvePoint = -1;
function curveScale(width, height) {
  const points = curve.filter((p) => p.feasible);
  const budgets = points.map((p) => p.budget).concat(summary.budget_bytes || []);
  const times = points.map((p) => p.time).concat(points.map((p) => p.lower_bound ?? p.time), summary.step_ns);
  const range = (values) => {
    const low = Math.min(...values), high = Math.max(...values), room = (high - low || high || 1) * 0.05;
    return [low - room, high + room];
  };
  const [b0, b1] = range(budgets), [t0, t1] = range(times);
  return {
    points, budgets: [b0, b1], times: [t0, t1],
    x: (budget) => LEFT + ((budget - b0) / (b1 - b0)) * (width - LEFT - RIGHT),
    y: (time) => height - BOTTOM - ((time - t0) / (t1 - t0)) * (height - TOP - BOTTOM),
  };
}

function drawCurve() {
  const { c, width, height } = begin(curveCanvas);
  const scale = curveScale(width, height);
  c.textAlign = "right";
  for (const time of niceSteps(...scale.times, 6)) {
    c.fillStyle = css("--line");
    c.fillRect(LEFT, Math.round(scale.y(time)), width - LEFT - RIGHT, 1);
    c.fillStyle = css("--soft");
    c.fillText(timeText(time), LEFT - 8, scale.y(time));
  }
  c.textAlign = "center";
  for (const budget of niceSteps(...scale.budgets, 6)) c.fillText(bytesText(budget), scale.x(budget), height - BOTTOM / 2);
  const line = (value, colour, dash) => {
    c.beginPath();
    scale.points.forEach((p, i) => {
      if (value(p) === null) return;
      if (i) c.lineTo(scale.x(p.budget), scale.y(value(scale.points[i])));
      else c.moveTo(scale.x(p.budget), scale.y(value(p)));
    });
    c.strokeStyle = css(colour);
    c.setLineDash(dash);
    c.lineWidth = 1.6;
    c.stroke();
    c.setLineDash([]);
  };
  line((p) => p.lower_bound ?? null, "--soft", [4, 3]);
  line((p) => p.time, "--accent", []);
  c.fillStyle = css("--ink");
  const budget = summary.budget_bytes || summary.arena_bytes + summary.reserve_bytes;
  const x = scale.x(budget), y = scale.y(summary.step_ns), toLeft = x > width - 120;
  c.beginPath();
  c.arc(x, y, 5, 0, 7);
  c.fill();
  c.textAlign = toLeft ? "right" : "left";
  c.fillText("this plan", x + (toLeft ? -10 : 10), y - 8);
  const chosen = scale.points[curvePoint];
  if (!chosen) return;
  c.strokeStyle = css("--accent");
  c.lineWidth = 2;
  c.beginPath();
  c.arc(scale.x(chosen.budget), scale.y(chosen.time), 6, 0, 7);
  c.stroke();
}

function chooseCurvePoint(index) {
  const points = curve.filter((p) => p.feasible);
  curvePoint = Math.max(0, Math.min(points.length - 1, index));
  const point = points[curvePoint];
  const bound = point.lower_bound ? `; none takes less than ${timeText(point.lower_bound)}` : "";
  byId("curve-said").textContent = `${bytesText(point.budget)}: ${timeText(point.time)} a step, ${percent(point.time, summary.base_step_ns)} over everything saved${bound}`;
  drawCurve();
}
