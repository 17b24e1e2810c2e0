// The gate's state, once a second.

import { drawGauge } from "./gauge.js";
import {
  LANES,
  NONE,
  acceptLength,
  clock,
  count,
  experiment,
  gained,
  latency,
  number,
  other,
  rate,
  sentence,
  short,
  span,
} from "./words.js";

const byId = (id) => document.getElementById(id);

/** Only what differs: what a reader has selected stays selected, and nothing is announced twice. */
export function put(node, words) {
  if (node.textContent !== words) node.textContent = words;
}

export function showState(status) {
  const now = serving(status);
  put(byId("version"), status.version);
  put(byId("serving-lane"), now.lane);
  put(byId("serving-words"), now.words);
  byId("now").dataset.lane = now.lane;
  byId("now").dataset.trouble = now.trouble;
  byId("serving-mark").dataset.lane = now.lane;
  const why = now.lane === status.side ? "Why" : `The side is ${status.side}, to which it goes back`;
  put(byId("why"), `${why}: ${status.why}.`);
  put(byId("next"), `Next: the gate ${status.ahead.words}.`);
  // Read out by a screen reader, so only when it changes, and without the numbers that always do.
  put(byId("told"), `${now.lane} ${now.words} ${sentence(status.why)}`);
  document.title = `${now.lane}, ${number(status.load, 1)} sequences: specgate`;
  drawGauge(status);
  showFacts(status);
  showLanes(status);
  showPays(status);
}

/** Which lane gets the next request, and in words why it is not the side's where it is not. */
export function serving(status) {
  const { shadow, side, lanes, placement } = status;
  const wanted = shadow ?? side;
  if (isAble(lanes[wanted])) {
    let words = "serves new requests.";
    if (shadow) words = `serves everything, in shadow: the policy would choose ${side}.`;
    else if (placement === "split" && side === "spec") words = "serves first; what it has no room for goes to plain.";
    return { lane: wanted, words, trouble: "" };
  }
  const instead = other(wanted);
  if (isAble(lanes[instead])) {
    const why = unable(lanes[wanted]);
    return { lane: instead, words: `serves, since ${wanted} ${why}.`, trouble: "away" };
  }
  const lane = lanes[wanted].draining ? instead : wanted;
  return { lane, words: "is asked, but no lane is known to serve.", trouble: "down" };
}

const isAble = (lane) => lane.health !== "ejected" && !lane.draining && !lane.asleep;
const unable = (lane) => (lane.asleep ? "sleeps" : lane.draining ? "is being drained" : "is ejected");

function showFacts(status) {
  const mode = status.mode === "auto" ? "the policy" : `an operator: forced to ${status.mode}`;
  put(byId("fact-mode"), status.shadow ? `${mode}; shadow: all to ${status.shadow}` : mode);
  byId("fact-mode").dataset.notable = status.mode !== "auto" || status.shadow !== null;

  const { total, spec, plain, oldest_s: oldest } = status.in_flight;
  const parts = [`${count(total, "sequence")}: ${spec} spec, ${plain} plain`];
  if (oldest !== null) parts.push(`oldest ${span(oldest)}`);
  if (status.beyond) parts.push(`${status.beyond} more that engines have from others`);
  put(byId("fact-in-flight"), parts.join("; "));
  put(byId("fact-queued"), count(status.queued, "request"));

  const { switches, since_switch_s: since } = status;
  put(
    byId("fact-switch"),
    since === null ? "none yet" : `${span(since)} ago; ${count(switches, "switch", "switches")} since the start`,
  );
  const { weighing } = status;
  put(byId("fact-rule-name"), weighing ? "Asked of both lanes" : "Threshold");
  put(byId("fact-rule"), weighing ? weighed(weighing) : threshold(status));
  byId("fact-turns-row").hidden = status.turns === null;
  if (status.turns !== null) {
    put(byId("fact-turns"), turns(status.turns));
    byId("fact-turns").dataset.notable = status.turns.failed !== null;
  }
}

/** The lanes of a pool that holds one at a time. */
function turns({ awake, wanted, step, failed, why, retry_s: retry }) {
  const parts = [awake === null ? "neither lane is known to be awake" : `${awake} is awake`];
  if (awake !== wanted) parts.push(`${wanted} is wanted`);
  if (step !== null) parts.push(`under way: ${step}`);
  if (failed !== null) parts.push(`${failed} failed: ${why}`);
  if (failed !== null && retry !== null) parts.push(`again in ${span(retry)}`);
  return parts.join("; ");
}

const weighed = ({ offered_tok_s: offered, spec_top_tok_s: top }) =>
  `${rate(offered)}; spec gives at most ${rate(top)}`;

function threshold({ threshold: at, speculate_below: low }) {
  if (at === null) return "none: nothing was measured";
  if (typeof at === "string") return at === "never" ? "never speculate" : "always speculate";
  return `${short(at)} sequences; back below ${short(low)}`;
}

const ROWS = [
  ["Health", (lane) => health(lane)],
  ["In flight", (lane, _, inFlight) => count(inFlight, "sequence")],
  ["In hand", (lane) => count(lane.in_hand, "request")],
  ["Output", (_, recent) => rate(recent.tok_s)],
  ["TTFT, mean", (_, recent) => latency(recent.ttft_s)],
  ["TPOT, mean", (_, recent) => latency(recent.tpot_s)],
  ["Ended", (_, recent) => count(recent.ended, "request")],
  ["Failures", (_, recent) => count(recent.errors, "failure")],
  ["Engine", (lane) => `${lane.engine} ${lane.url}`],
];

function health(lane) {
  if (lane.asleep) return "asleep";
  if (lane.draining) return lane.in_hand ? `${lane.health}, draining` : `${lane.health}, drained`;
  return lane.health;
}

let cells = null;

function showLanes(status) {
  cells ??= ROWS.map(([name]) => {
    const row = byId("lanes-body").insertRow();
    const head = document.createElement("th");
    head.scope = "row";
    head.textContent = name;
    row.append(head);
    return LANES.map(() => row.insertCell());
  });
  ROWS.forEach(([name, tell], at) =>
    LANES.forEach((lane, column) => {
      const cell = cells[at][column];
      const known = status.lanes[lane];
      const recent = status.recent[lane];
      put(cell, tell(known, recent, status.in_flight[lane]) ?? NONE);
      if (name === "Health") cell.dataset.health = known.asleep ? "asleep" : known.draining ? "draining" : known.health;
      if (name === "Failures") cell.dataset.bad = recent.errors > 0;
    }),
  );
}

function showPays(status) {
  const { accept_length: accept, weighing } = status;
  put(byId("accept-words"), acceptLength(accept));
  put(byId("meter-words"), gained(weighing));
  put(byId("experiment-words"), experiment(weighing));
  const bar = byId("accept-bar");
  bar.dataset.known = accept !== null;
  byId("accept-edge-label").hidden = accept === null;
  if (accept === null) return;
  const { live, standard_error: error, break_even: edge, bench } = accept;
  // From 1, of which a step yields at least so much.
  const top = Math.max(live + error, edge, bench) * 1.15;
  const per = (value) => `${(100 * Math.min(1, Math.max(0, (value - 1) / (top - 1)))).toFixed(2)}%`;
  bar.dataset.pays = live >= edge;
  byId("accept-live").style.width = per(live);
  byId("accept-error").style.left = per(live - error);
  byId("accept-error").style.width = `calc(${per(live + error)} - ${per(live - error)})`;
  byId("accept-edge").style.left = per(edge);
  byId("accept-edge-label").style.setProperty("--at", per(edge));
  put(byId("accept-edge-label"), `break-even ${number(edge, 2)}`);
}

export const lastWord = (status) => clock(status.at);
