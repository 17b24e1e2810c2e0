// The profile's curves, and where the present load is on them.

import { put } from "./now.js";
import { colours, faint } from "./theme.js";
import uPlot from "./vendor/uPlot.esm.js";
import { number, rate, sequences, short } from "./words.js";

const HEIGHT = 260;
const STEPS = 12; // between two loads that were measured
const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';

const byId = (id) => document.getElementById(id);

let curves = null;
let load = 0; // sequences
let prompt = null; // tokens of recent prompts, on the mean, where the profile has several lengths
let plot = null;

/** What `/curves` answered; null: there is no profile. */
export function setCurves(told) {
  curves = told;
  byId("curves-legend").hidden = told === null;
  if (told === null) {
    plot?.destroy();
    plot = null;
  } else {
    draw();
  }
  say();
}

export function setLoad(status) {
  load = status.load;
  prompt = status.weighing?.prompt_tokens ?? null;
  plot?.redraw(false);
  say();
}

export function redrawCurves() {
  plot?.redraw(false);
}

export function startCurves() {
  const watcher = new ResizeObserver(() => {
    const { clientWidth: width } = byId("curves-plot");
    if (plot && width && width !== plot.width) plot.setSize({ width, height: HEIGHT });
  });
  watcher.observe(byId("curves-plot"));
}

/** Tokens a second at a load, as the gate reads a curve (`core.curves`). */
export function rateAt(points, at) {
  const [first] = points;
  const last = points.at(-1);
  if (at <= first.load) return (first.tok_s * Math.max(0, at)) / first.load;
  if (at >= last.load) return last.tok_s;
  const above = points.findIndex((point) => point.load > at);
  const [a, b] = [points[above - 1], points[above]];
  return a.tok_s * (b.tok_s / a.tok_s) ** (Math.log(at / a.load) / Math.log(b.load / a.load));
}

function say() {
  put(byId("curves-words"), curves === null ? "There is no profile to weigh by: the gate has a threshold, or nothing." : words());
}

function words() {
  const { spec, plain } = curves.points;
  const [a, b] = [rateAt(spec, load), rateAt(plain, load)];
  const more = Math.abs(a / b - 1) * 100;
  const now =
    load > 0
      ? `At the present load of ${sequences(load)} spec gives ${rate(a)} and plain ${rate(b)}: spec ` +
        `${number(more)} % ${a < b ? "less" : "more"}.`
      : "There is no load now.";
  const length = prompt === null ? "" : ` For prompts of ${number(prompt)} tokens, as of late on the mean.`;
  return `${now} ${paying()}${length} Output of all sequences together (tok/s), over the load (sequences).`;
}

function paying() {
  if (!curves.pays.length) return "Speculation pays at no load.";
  const parts = curves.pays.map(([low, high]) => {
    if (high === null) return low > 0 ? `above ${short(low)}` : "at any load";
    return low > 0 ? `from ${short(low)} to ${short(high)}` : `below ${short(high)}`;
  });
  return `Speculation pays ${parts.join(", and ")}${curves.pays[0][1] === null && !curves.pays[0][0] ? "" : " sequences"}.`;
}

/** Loads to draw at: those measured, and some between, where lines of this picture are bent. */
function grid({ spec, plain }) {
  const measured = [...new Set([...spec, ...plain].map((point) => point.load))].sort((a, b) => a - b);
  return measured.flatMap((low, at) => {
    const high = measured[at + 1];
    if (high === undefined) return [low];
    return Array.from({ length: STEPS }, (_, step) => low * (high / low) ** (step / STEPS));
  });
}

function draw() {
  const { points, spread } = curves;
  const loads = grid(points);
  const of = (lane) => loads.map((at) => rateAt(points[lane], at));
  const spec = of("spec");
  const wide = (sign) => spec.map((value) => (spread === null ? null : value * Math.exp(sign * spread)));
  const data = [loads, spec, of("plain"), wide(1), wide(-1)];
  if (plot) plot.setData(data);
  else plot = new uPlot(options(), data, byId("curves-plot"));
}

function options() {
  const measured = (lane) => (u) => {
    const known = new Set(curves.points[lane].map((point) => point.load));
    return u.data[0].flatMap((at, index) => (known.has(at) ? [index] : []));
  };
  const lane = (name, dash) => ({
    stroke: () => colours[name],
    width: 2,
    dash,
    points: { show: false, filter: measured(name), size: 6, fill: () => colours[name] },
  });
  const edge = { stroke: () => faint("spec", 0.01), width: 0, points: { show: false } };
  const axis = { stroke: () => colours.muted, font: FONT, ticks: { show: false } };
  const lines = { stroke: () => colours.rule, width: 1 };
  return {
    width: byId("curves-plot").clientWidth || 300,
    height: HEIGHT,
    legend: { show: false },
    cursor: { show: false },
    padding: [12, 16, 0, 0],
    scales: {
      x: { time: false, distr: 3, log: 2, range: (_, low, high) => [low, high] },
      y: { range: (_, __, most) => [0, most * 1.08] },
    },
    axes: [
      { ...axis, grid: lines, values: (_, all) => all.map((value) => (value === null ? "" : short(value))) },
      { ...axis, grid: lines, size: 64, values: (_, all) => all.map((value) => short(value)) },
    ],
    series: [{}, lane("spec"), lane("plain", [6, 3]), edge, edge],
    bands: [{ series: [3, 4], fill: () => faint("spec", 0.22) }],
    hooks: { drawClear: [shade], draw: [mark] },
  };
}

/** Behind: where speculation pays, and where that is open. */
function shade(u) {
  const { ctx, bbox } = u;
  const { min, max } = u.scales.x;
  const strip = (low, high, colour) => {
    const from = u.valToPos(Math.max(min, low), "x", true);
    const to = u.valToPos(Math.min(max, high ?? max), "x", true);
    ctx.fillStyle = colour;
    if (to > from) ctx.fillRect(from, bbox.top, to - from, bbox.height);
  };
  ctx.save();
  for (const [low, high] of curves.pays) strip(low, high, faint("spec", 0.12));
  for (const [low, high] of curves.open) strip(low, high, faint("open", 0.4));
  ctx.restore();
}

/** The present load, at the picture's edge where it is beyond it. */
function mark(u) {
  if (load <= 0) return;
  const { ctx, bbox } = u;
  const { min, max } = u.scales.x;
  const at = Math.round(u.valToPos(Math.min(max, Math.max(min, load)), "x", true));
  ctx.save();
  ctx.strokeStyle = colours.ink;
  ctx.lineWidth = 2 * devicePixelRatio;
  ctx.beginPath();
  ctx.moveTo(at, bbox.top);
  ctx.lineTo(at, bbox.top + bbox.height);
  ctx.stroke();
  ctx.restore();
}
