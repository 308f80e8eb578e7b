// Plexus's page: takes the server's events and wires the parts of the page together.
import "uplot/dist/uPlot.min.css";
import "./page.css";

import { LOAD_STEPS } from "./colours.js";
import { byId, el } from "./dom.js";
import { bits, count, many } from "./format.js";
import * as graph from "./graph.js";
import * as panel from "./panel.js";
import * as search from "./search.js";
import * as selected from "./selected.js";
import { ask, listen, store, take } from "./store.js";

const PARTS = ["map", "hosts", "rates", "router", "events", "clock"];

function header() {
  const { boxes, cables, title } = store.map;
  byId("title").textContent = title;
  document.title = `${title || "Network"} – Plexus`;
  const up = boxes.filter((box) => box.up).length;
  const traffic = store.rates?.boxes.reduce((sum, box) => sum + (box?.from_hosts ?? 0), 0);
  const fact = (value, name, isBad) => el("span", { class: isBad ? "fact bad" : "fact" }, el("b", {}, value), ` ${name}`);
  byId("facts").replaceChildren(...[
    fact(up === boxes.length ? count(up) : `${count(up)} of ${count(boxes.length)}`, up === 1 ? "box up" : "boxes up", up < boxes.length),
    fact(count(cables.length), cables.length === 1 ? "cable" : "cables"),
    store.lost.size > 0 && fact(count(store.lost.size), "lost", true),
    fact(count(store.hosts.length), store.hosts.length === 1 ? "host" : "hosts"),
    store.rates?.boxes.some(Boolean) && fact(bits(traffic), "from hosts"),
  ].filter(Boolean));
}

function trouble(text) {
  const all = [store.map.notice, text].filter(Boolean).join(". ");
  byId("trouble").hidden = !all;
  byId("trouble").textContent = all;
}

function live(text, isGood) {
  const element = byId("live");
  if (element.textContent !== text) element.textContent = text;
  element.classList.toggle("good", isGood);
}

function legend() {
  const steps = LOAD_STEPS.map((end, i) => el("span", { class: `step load-${i}`, title: `up to ${end * 100} % in use` }));
  const tenants = store.map.tenants.slice(0, 8).map((name, i) => el("span", { class: "tenant" }, el("i", { class: `dot tenant-${i}` }), name));
  byId("legend").replaceChildren(
    el("div", { class: "scale" }, el("span", {}, "idle"), ...steps, el("span", {}, "full")),
    ...(tenants.length > 0 ? [el("div", { class: "tenants" }, ...tenants)] : []));
}

async function command(what) {
  try {
    await ask("/api/command", { method: "POST", body: JSON.stringify(what) });
  } catch (error) {
    trouble(error.message);
  }
}

/** The controls of a simulation. */
function simulation() {
  const { clock } = store;
  const bar = byId("clock");
  bar.hidden = !clock;
  if (!clock) return;
  if (!bar.firstChild) {
    const speeds = [0.01, 0.1, 0.5, 1, 2, 5, 10];
    bar.append(
      el("button", { type: "button", id: "pause", onclick: () => command({ pause: !store.clock.paused }) }),
      el("select", { id: "speed", "aria-label": "Speed", onchange: (event) => command({ speed: Number(event.target.value) }) },
        speeds.map((speed) => el("option", { value: String(speed) }, `× ${speed}`))),
      el("span", { id: "now" }));
  }
  byId("pause").textContent = clock.paused ? "Go on" : "Pause";
  byId("speed").value = String(clock.speed);
  byId("now").textContent = `${clock.now_s.toFixed(2)} s${clock.done === null ? "" : `, ${Math.floor(clock.done * 100)} %`}`;
}

function connect() {
  let told = null;
  const source = new EventSource("/api/stream");
  for (const part of PARTS) {
    source.addEventListener(part, (event) => {
      live("live", true);
      take(part, JSON.parse(event.data));
    });
  }
  source.addEventListener("trouble", (event) => {
    told = JSON.parse(event.data);
    trouble(told);
  });
  source.addEventListener("open", () => live("live", true));
  source.addEventListener("error", () => {
    live("connecting", false);
    // A browser gives up where the answer is none: the token is old, or the server has no room.
    if (source.readyState === EventSource.CLOSED) setTimeout(connect, 3000);
  });
  listen((what) => what === "map" && trouble(told));
}

listen((what) => {
  if (["map", "hosts", "rates"].includes(what)) header();
  if (what === "map") legend();
  if (what === "clock") simulation();
});
search.begin();
panel.begin();
selected.begin();
graph.begin();
connect();

/** For tests and measurements. */
window.plexus = { store, graph, take, many };
