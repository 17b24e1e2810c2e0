// The switch log, the newest first.

import { put } from "./now.js";
import { band, clock, count, number, sequences } from "./words.js";

const SHOWN = 8;

const byId = (id) => document.getElementById(id);

let kept = [];
let sinceStart = 0;
let all = false;

/** What `/switches` answered. */
export function setSwitches(log) {
  kept = log.switches;
  sinceStart = log.since_start;
  show();
}

/** One that just happened; it may be in `/switches` already. */
export function addSwitch(told) {
  if (kept.some((each) => each.number === told.number && each.at === told.at)) return;
  kept = [told, ...kept].slice(0, 256);
  sinceStart = Math.max(sinceStart, told.number);
  show();
}

function show() {
  const shown = all ? kept : kept.slice(0, SHOWN);
  byId("switches-list").replaceChildren(...shown.map(item));
  put(
    byId("switches-words"),
    kept.length ? `${count(sinceStart, "switch", "switches")} since the gate started.` : "None since the gate started.",
  );
  const more = byId("switches-more");
  more.hidden = kept.length <= SHOWN;
  put(more, all ? `Show the last ${SHOWN}` : `Show all ${kept.length} that are kept`);
}

function item(told) {
  const node = document.createElement("li");
  const head = document.createElement("p");
  const when = document.createElement("time");
  when.dateTime = told.at;
  when.textContent = clock(told.at);
  when.title = new Date(told.at).toString();
  const mark = document.createElement("span");
  mark.className = "mark";
  mark.dataset.lane = told.side;
  mark.setAttribute("aria-hidden", "true");
  const side = document.createElement("strong");
  side.textContent = `to ${told.side}`;
  const why = document.createElement("span");
  why.textContent = told.why;
  why.title = told.reason;
  head.append(when, " ", mark, side, ": ", why);
  const known = document.createElement("p");
  known.className = "muted";
  known.textContent = facts(told).join(" · ");
  node.append(head, known);
  return node;
}

function facts(told) {
  const found = [told.reason, `load ${sequences(told.load)}`, `${count(told.count, "sequence")} in flight`];
  found.push(band(told.low, told.high));
  if (told.accept_length !== null && told.break_even !== null) {
    found.push(
      `accept length ${number(told.accept_length, 2)}, break-even ${number(told.break_even, 2)} tokens a step`,
    );
  }
  if (told.offered_tok_s !== null) found.push(`asked ${number(told.offered_tok_s)} tok/s`);
  return found;
}

export function startLog() {
  byId("switches-more").addEventListener("click", () => {
    all = !all;
    show();
  });
}
