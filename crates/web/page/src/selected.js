// The card of what is selected: its facts, its ways, its rates over time.
import { rateChart } from "./charts.js";
import { byId, el, pick, table } from "./dom.js";
import { bits, count, many, perSecond, share } from "./format.js";
import { search, show } from "./search.js";
import { ask, boxName, changed, hostLabel, listen, load, select, store, tenantsOf } from "./store.js";

/** Ways that the card lists at most. */
const WAYS = 30;

const card = byId("selected");
let chart = null;
let partner = null;

const facts = (pairs) => el("dl", {}, pairs.filter(Boolean).flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));

function head(title, kind) {
  return el("div", { class: "head" }, el("h2", {}, title, " ", el("small", {}, kind)),
    el("button", { type: "button", class: "close", "aria-label": "Close", onclick: () => select(null) }, "×"));
}

function box(name) {
  const place = store.map.boxes.findIndex((b) => b.name === name);
  if (place < 0) return [head(name, "gone")];
  const it = store.map.boxes[place];
  const cables = store.map.cables.map((cable, i) => [cable, i]).filter(([cable]) => cable.ends.some(([p]) => p === place));
  const rates = store.rates?.boxes[place];
  const rows = cables.slice(0, 60).map(([cable, i]) => {
    const own = cable.ends[0][0] === place ? 0 : 1;
    const [there, back] = own === 0 ? store.rates?.cables[i] ?? [] : [...store.rates?.cables[i] ?? []].reverse();
    return [String(cable.ends[own][1]), pick(boxName(cable.ends[1 - own][0]), () => select({ kind: "cable", id: store.keys[i] })), bits(there), bits(back)];
  });
  return [
    head(name, it.up ? it.kind : `${it.kind}, down`),
    facts([
      ["Hosts", count(store.hostsOf[place]?.length ?? 0)],
      rates && ["Hosts send", bits(rates.from_hosts)],
      rates && ["Hosts get", bits(rates.to_hosts)],
      rates && ["Drops", perSecond(rates.drops)],
    ]),
    rows.length > 0 ? table(many(cables.length, "cable"), ["Port", "To", { text: "Sends", num: true }, { text: "Gets", num: true }], rows) : null,
  ];
}

function cable(key) {
  const i = store.keys.indexOf(key);
  if (i < 0) return [head(key, "cable, gone")];
  const { ends, rate_mbit_per_s: rate } = store.map.cables[i];
  // Names: places on the map change.
  const named = ends.map(([place, port]) => [boxName(place), port]);
  const used = load(i);
  return [
    head(key, "cable"),
    facts([
      ["Rate", rate > 0 ? bits(rate * 1e6) : "not known"],
      used !== null && ["In use", share(used)],
      ["Ends", el("span", {}, pick(boxName(ends[0][0]), () => show({ kind: "box", id: boxName(ends[0][0]) })), " and ", pick(boxName(ends[1][0]), () => show({ kind: "box", id: boxName(ends[1][0]) })))],
    ]),
    store.clock && el("div", { class: "row" }, el("button", { type: "button", class: "danger", onclick: (event) => breakCable(named, event.target) }, "Break this cable")),
  ];
}

async function breakCable(named, button) {
  try {
    await ask("/api/command", { method: "POST", body: JSON.stringify({ break: named }) });
    button.textContent = "Broken";
    button.disabled = true;
  } catch (error) {
    button.after(el("span", { class: "bad" }, error.message));
  }
}

function host(mac) {
  const it = store.byMac.get(mac);
  if (!it) return [head(mac, "host, gone")];
  const name = boxName(it.at[0]);
  return [
    head(hostLabel(it), "host"),
    facts([
      ["MAC", it.mac],
      it.addresses.length > 0 && ["Addresses", it.addresses.join(", ")],
      ["At", el("span", {}, pick(name, () => show({ kind: "box", id: name })), `, port ${it.at[1]}`)],
      it.tenants.length > 0 && ["Tenant", tenantsOf(it).join(", ")],
    ]),
  ];
}

function tenant(name) {
  const place = store.map.tenants.indexOf(name);
  const all = store.hosts.filter((h) => h.tenants.includes(place));
  return [head(name, "tenant"), facts([["Hosts", count(all.length)], ["Boxes", count(new Set(all.map((h) => h.at[0])).size)]])];
}

const VIEWS = { box, cable, host, tenant };

/** The rates of what is selected over time: a box by its hosts, a cable by its directions. */
function series({ kind, id }) {
  if (kind === "box") {
    const of = (key) => store.samples.map(({ boxes }) => boxes.get(id)?.[key] ?? null);
    return [["from hosts", of("from_hosts")], ["to hosts", of("to_hosts")]];
  }
  if (kind !== "cable") return null;
  const of = (side) => store.samples.map(({ cables, keys }) => {
    const i = keys.indexOf(id);
    const rate = i < 0 ? NaN : cables[2 * i + side];
    return Number.isNaN(rate) ? null : rate;
  });
  return [["→", of(0)], ["←", of(1)]];
}

function renderFacts() {
  const { selected } = store;
  if (!selected) return;
  const facts = byId("facts-of-selected");
  if (facts && !facts.contains(document.activeElement)) {
    facts.replaceChildren(...VIEWS[selected.kind](selected.id).filter(Boolean));
  }
  const rates = series(selected);
  if (chart && rates && store.samples.length > 1) chart.set(store.samples.map(({ at }) => at), rates);
}

function render() {
  const { selected } = store;
  chart?.clear();
  chart = null;
  partner = null;
  card.hidden = !selected;
  if (!selected) return;
  const area = el("div", { class: "chart" });
  card.replaceChildren(el("div", { id: "facts-of-selected" }), area, el("div", { id: "ways" }));
  if (selected.kind === "box" || selected.kind === "cable") chart = rateChart(area, `Rates of ${selected.id} over time`);
  else area.remove();
  renderFacts();
  if (selected.kind === "host") {
    byId("ways").append(pairForm(), el("div", { id: "way-list" }));
    fetchWays();
  }
}

/** Asks for the ways to and from the selected host, or between it and its partner. */
async function fetchWays() {
  const mac = store.selected?.id;
  const list = byId("way-list");
  const between = partner ? [`${mac}/${partner}`, `${partner}/${mac}`] : [`${mac}/-`, `-/${mac}`];
  try {
    const both = await Promise.all(between.map((path) => ask(`/api/ways/${path}`)));
    if (store.selected?.id !== mac || byId("way-list") !== list) return;
    store.ways = both.flatMap(({ ways }) => ways);
    store.way = null;
    const more = both.reduce((sum, answer) => sum + answer.more, 0);
    list.replaceChildren(...wayList(more));
  } catch (error) {
    list.replaceChildren(el("p", { class: "note" }, error.message));
  }
  changed("ways");
}

const hostOf = (mac) => (mac ? hostLabel(store.byMac.get(mac) ?? { mac, addresses: [] }) : "any host");

function wayList(more) {
  if (store.ways.length === 0) {
    return [el("p", { class: "note" }, "The network has no way for these flows now. A host gets one when it first sends.")];
  }
  const look = (i) => () => {
    store.way = i;
    changed("ways");
  };
  const items = store.ways.slice(0, WAYS).map((way, i) => el("li", {},
    el("button", { type: "button", class: "way", onmouseenter: look(i), onfocus: look(i), onmouseleave: look(null), onblur: look(null) },
      el("span", {}, `${hostOf(way.from)} → ${hostOf(way.to)}`),
      el("span", { class: "more" }, way.boxes.map(([place]) => boxName(place)).join(" → ")))));
  const left = more + Math.max(0, store.ways.length - WAYS);
  return [el("h3", {}, "Ways of its flows"), el("ol", { class: "ways" }, items), left > 0 ? el("p", { class: "note" }, `${count(left)} more.`) : null].filter(Boolean);
}

function pairForm() {
  const field = el("input", { type: "text", "aria-label": "Other host: name, MAC or IP address", placeholder: "Only to and from …", autocomplete: "off", spellcheck: "false" });
  const told = el("span", { class: "bad", role: "status" });
  const go = (event) => {
    event.preventDefault();
    const text = field.value.trim();
    const hit = text && search(text).find(({ kind }) => kind === "host");
    told.textContent = text && !hit ? "no such host" : "";
    partner = hit ? hit.id : null;
    if (hit) field.value = hit.text;
    fetchWays();
  };
  return el("form", { class: "row", onsubmit: go }, field, el("button", {}, "Show"), told);
}

export function begin() {
  listen((what) => {
    if (what === "selected") render();
    else if (what !== "ways" && what !== "events") renderFacts();
  });
}
