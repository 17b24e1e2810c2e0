// The dashboard: joins what is told of the gate to what shows it.

import { everySeconds, lastPoint, redraw, setHistory, startCharts } from "./charts.js";
import { showControls, startControls } from "./controls.js";
import { redrawCurves, setCurves, setLoad, startCurves } from "./curves.js";
import { follow, read } from "./feed.js";
import { addSwitch, setSwitches, startLog } from "./log.js";
import { put, showState } from "./now.js";
import { startTheme } from "./theme.js";
import { mayRead } from "./token.js";
import { clock, span } from "./words.js";

const CURVES_EVERY = 6; // of the history's points: they move with the accept length, slowly

const byId = (id) => document.getElementById(id);

let told = null; // the last status
let turns = 0;

function state(status) {
  told = status;
  showState(status);
  showControls(status);
  setLoad(status);
}

/** The stream began anew: what happened meanwhile is asked for. */
async function joined() {
  await settled([
    read("switches").then(setSwitches),
    read("history").then((found) => setHistory(found, { anew: true })),
    read("curves").then(setCurves),
  ]);
}

async function further() {
  if (told !== null && mayRead() && !document.hidden) {
    const since = lastPoint();
    const asked = since === null ? "history" : `history?since=${since}`;
    const reads = [read(asked).then((found) => setHistory(found, { anew: since === null }))];
    turns += 1;
    if (turns % CURVES_EVERY === 0) reads.push(read("curves").then(setCurves));
    await settled(reads);
  }
  setTimeout(further, everySeconds() * 1000);
}

/** What fails is asked for again soon; the feed says that the gate is away, or takes no such token. */
async function settled(reads) {
  for (const result of await Promise.allSettled(reads)) {
    if (result.status === "rejected" && mayRead() && !(result.reason instanceof TypeError)) console.warn(result.reason);
  }
}

const WORDS = {
  connecting: () => "connecting",
  live: () => `live, ${clock(told.at)}`,
  polled: () => `every 3 s, ${clock(told.at)}: the event stream has no room`,
  lost: () => "no connection",
  locked: () => "locked: the gate's admin token is needed",
};

let was = "connecting";

function aged(how, age) {
  put(byId("connection-words"), WORDS[how]());
  const lost = byId("lost");
  if (how === "lost") {
    const old = age === null ? "Nothing was heard of the gate yet." : `What is shown is ${span(age)} old, of ${clock(told.at)}.`;
    put(lost, `No connection to the gate. ${old} Trying again.`);
  }
  if (how === was) return;
  was = how;
  document.body.dataset.feed = how;
  lost.hidden = how !== "lost";
  if (how === "locked") byId("token").focus();
  if (how === "lost") put(byId("told"), "The connection to the gate is lost. What is shown is old.");
}

/** After a change by hand: what it says is newer than the stream. */
function changed(status) {
  if (status !== null) state(status);
  settled([read("curves").then(setCurves)]);
}

startCharts();
startCurves();
startLog();
startTheme(() => {
  redraw();
  redrawCurves();
});
startControls(changed);
follow({ state, switched: addSwitch, joined, aged });
setTimeout(further, everySeconds() * 1000);
