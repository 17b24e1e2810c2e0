// The last hour: five charts over the same time, with one cursor.

import { put } from "./now.js";
import { colours, faint } from "./theme.js";
import uPlot from "./vendor/uPlot.esm.js";
import { LANES, NONE, band, clock, latency, latencyTick, number, rate, sequences, short } from "./words.js";

const HEIGHT = 190;
const SHORTEST_S = 300;
const HOUR_S = 3600;
const KEPT = 720;
const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';

const tokens = (value) => `${number(value, 2)} tokens a step`;
const lanes = (column) =>
  LANES.map((lane) => ({
    label: lane,
    colour: lane,
    dash: lane === "plain" ? [6, 3] : undefined,
    of: (history) => history.lanes[lane][column],
  }));

const CHARTS = [
  {
    title: "Load, in sequences",
    tell: sequences,
    tick: short,
    band: true,
    series: [
      { label: "load", colour: "ink", of: (history) => history.load },
      { label: "upper edge", colour: "muted", thin: true, of: (history) => history.high },
      { label: "lower edge", colour: "muted", thin: true, of: (history) => history.low },
    ],
  },
  { title: "Output, in tokens a second", tell: rate, tick: short, series: lanes("tok_s") },
  { title: "Time to first token (TTFT), mean", tell: latency, tick: latencyTick, series: lanes("ttft_s") },
  {
    title: "Time per output token (TPOT), mean",
    tell: latency,
    tick: latencyTick,
    // Engines state a stream's count where its client, or the gate, asks for it.
    missing: "No stream ended whose count of tokens is known.",
    series: lanes("tpot_s"),
  },
  {
    title: "Accept length, in tokens a step",
    tell: tokens,
    tick: short,
    floor: 1,
    missing: "No profile says with which accept length it was measured.",
    series: [
      { label: "live", colour: "spec", of: (history) => history.accept_length },
      { label: "break-even", colour: "muted", dash: [6, 3], of: (history) => history.break_even },
    ],
  },
];

let history = null;
let drawn = [];

/** What `/history` answered: all there is, or what came after the last point. */
export function setHistory(told, { anew }) {
  history = anew || !history ? told : joined(history, told);
  for (const chart of drawn) chart.update();
}

export const lastPoint = () => history?.at.at(-1) ?? null;
export const everySeconds = () => history?.every_s ?? 5;

export function redraw() {
  for (const chart of drawn) chart.plot.redraw(false);
}

export function startCharts() {
  drawn = CHARTS.map(build);
  const room = document.getElementById("charts");
  room.append(...drawn.map((chart) => chart.figure));
  const watcher = new ResizeObserver(() => drawn.forEach((chart) => chart.fit()));
  watcher.observe(room);
}

/** Column by column; an hour at most. */
function joined(was, more) {
  if (Array.isArray(was)) return [...was, ...more].slice(-KEPT);
  if (was === null || typeof was !== "object") return more;
  return Object.fromEntries(Object.keys(more).map((name) => [name, joined(was[name], more[name])]));
}

/** Of the last hour, or of as long as there was anything; never so short that noise fills it. */
export function timeRange() {
  const now = history?.now ?? Date.now() / 1000;
  const first = history?.at[0] ?? now;
  return [now - Math.min(HOUR_S, Math.max(SHORTEST_S, now - first)), now];
}

function build(chart) {
  const figure = document.createElement("figure");
  const title = document.createElement("h3");
  title.textContent = chart.title;
  const room = document.createElement("div");
  room.className = "plot";
  room.setAttribute("role", "img");
  const note = document.createElement("p");
  note.className = "missing";
  const legend = makeLegend(chart);
  figure.append(title, legend.list, room, note);

  const plot = new uPlot(options(chart, legend), [[], ...chart.series.map(() => [])], room);

  function update() {
    const columns = chart.series.map((each) => each.of(history));
    plot.setData([history.at, ...columns]);
    const known = columns.some((column) => column.some((value) => value !== null));
    put(note, known ? "" : (chart.missing ?? "Nothing in the last hour."));
    room.setAttribute("aria-label", `${chart.title}, over the last hour. At its end: ${legend.read()}`);
  }

  const fit = () => {
    const { clientWidth: width } = room;
    if (width && width !== plot.width) plot.setSize({ width, height: HEIGHT });
  };
  return { figure, plot, update, fit };
}

function options(chart, legend) {
  const line = (each) => ({
    stroke: () => colours[each.colour],
    width: each.thin ? 1 : 2,
    dash: each.dash,
    points: { show: false, filter: alone, size: 5 },
  });
  const axis = { stroke: () => colours.muted, font: FONT, ticks: { show: false } };
  const grid = { stroke: () => colours.rule, width: 1 };
  return {
    width: 300,
    height: HEIGHT,
    legend: { show: false },
    padding: [10, 24, 0, 0],
    cursor: { sync: { key: "hour" }, drag: { x: false, y: false }, y: false },
    scales: {
      x: { time: true, range: timeRange },
      y: { range: (_, __, most) => [chart.floor ?? 0, upper(most, chart.floor ?? 0)] },
    },
    axes: [
      { ...axis, grid: { show: false }, size: 30, incrs: [60, 120, 300, 600, 900, 1800], space: 56, values: (_, all) => all.map((at) => clock(at, false)) },
      { ...axis, grid, size: 64, space: 34, values: (_, all) => all.map((value) => chart.tick(value)) },
    ],
    series: [{}, ...chart.series.map(line)],
    bands: chart.band ? [{ series: [2, 3], fill: () => faint("open", 0.35) }] : [],
    hooks: { drawClear: [(plot) => shade(plot, chart)], setCursor: [(plot) => legend.show(plot.cursor.idx)] },
  };
}

const upper = (most, floor) => (most === null || most <= floor ? floor + 1 : floor + (most - floor) * 1.08);

/** Points with nothing on either side, which a line would not show. */
function alone(plot, series) {
  const values = plot.data[series];
  const found = [];
  values.forEach((value, at) => {
    if (value !== null && (values[at - 1] ?? null) === null && (values[at + 1] ?? null) === null) found.push(at);
  });
  return found.length ? found : null;
}

/** The side of each time, behind the load. */
function shade(plot, chart) {
  if (!chart.band || !history) return;
  const { at, side } = history;
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  for (let from = 0; from < at.length; ) {
    let to = from + 1;
    while (to < at.length && side[to] === side[from]) to += 1;
    const left = plot.valToPos(at[from], "x", true);
    const right = plot.valToPos(to < at.length ? at[to] : history.now, "x", true);
    ctx.fillStyle = faint(side[from], 0.16);
    ctx.fillRect(left, bbox.top, right - left, bbox.height);
    from = to;
  }
  ctx.restore();
}

/** Names and values: at the cursor, else of the last point. */
function makeLegend(chart) {
  const list = document.createElement("ul");
  list.className = "legend";
  const shown = chart.series.filter((each) => !each.thin);
  const cells = shown.map((each) => entry(list, each.colour, `${each.label} `, { dash: Boolean(each.dash) }));
  const edges = chart.band ? entry(list, "open", "") : null;
  if (chart.band) LANES.forEach((lane) => entry(list, `side-${lane}`, `${lane} side`));
  const when = document.createElement("li");
  list.append(when);

  function show(index) {
    if (!history) return;
    const at = index ?? history.at.length - 1;
    shown.forEach((each, column) => {
      const value = each.of(history)[at] ?? null;
      put(cells[column], value === null ? NONE : chart.tell(value));
    });
    if (edges) put(edges, band(history.low[at] ?? null, history.high[at] ?? null));
    put(when, at < 0 ? "" : `at ${clock(history.at[at])}`);
  }

  function read() {
    show(null);
    return shown.map((each, column) => `${each.label} ${cells[column].textContent}`).join(", ");
  }

  return { list, show, read };
}

/** An entry of a legend: its place for a value. */
function entry(list, line, label, { dash = false } = {}) {
  const node = document.createElement("li");
  const swatch = document.createElement("span");
  swatch.className = "swatch";
  swatch.dataset.line = line;
  swatch.dataset.dash = dash;
  const value = document.createElement("b");
  node.append(swatch, label, value);
  list.append(node);
  return value;
}
