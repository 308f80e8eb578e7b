// The network as the server sends it, with indexes, and what the reader has selected.

/** Samples that charts show, one a second. */
const SAMPLES = 300;

const listeners = new Set();

export const store = {
  map: { title: "", notice: null, boxes: [], cables: [], tenants: [] },
  hosts: [],
  rates: null,
  router: null,
  events: [],
  clock: null,
  /** Cables that were there before, by key. */
  lost: new Map(),
  /** Hosts by box, and by Ethernet address. */
  hostsOf: [],
  byMac: new Map(),
  /** By cable: its place among parallel ones, from the middle. */
  lanes: [],
  /** Rates over time: {at, from, to, drops, boxes, cables, keys}. Unknown: null, of a cable NaN. */
  samples: [],
  /** {kind: "box" | "host" | "cable" | "tenant", id}: name, MAC, key of a cable, name. */
  selected: null,
  /** Ways to highlight, and the one of them that is looked at. */
  ways: [],
  way: null,
};

export function listen(listener) {
  listeners.add(listener);
}

/** Tells all parts of the page what has changed. */
export function changed(what) {
  for (const listener of listeners) listener(what);
}

export const boxName = (place) => store.map.boxes[place]?.name ?? "?";

/** A cable's name, which stays when places change. */
export function cableKey(cable) {
  const [a, b] = cable.ends.map(([place, port]) => `${boxName(place)}:${port}`);
  return `${a} – ${b}`;
}

export function take(part, value) {
  if (part === "map") takeMap(value);
  else if (part === "hosts") takeHosts(value);
  else if (part === "rates") takeRates(value);
  else store[part] = value;
  changed(part);
}

function takeMap(map) {
  const before = new Map(store.map.cables.map((cable) => [cableKey(cable), cable.ends.map(([place]) => boxName(place))]));
  store.map = map;
  store.keys = map.cables.map(cableKey);
  const now = new Set(store.keys);
  for (const [key, ends] of before) if (!now.has(key)) store.lost.set(key, ends);
  const known = new Set(map.boxes.map((box) => box.name));
  for (const [key, ends] of store.lost) {
    if (now.has(key) || !ends.every((name) => known.has(name))) store.lost.delete(key);
  }
  const pairs = new Map();
  map.cables.forEach((cable, i) => {
    const pair = cable.ends.map(([place]) => place).sort((a, b) => a - b).join("-");
    if (!pairs.has(pair)) pairs.set(pair, []);
    pairs.get(pair).push(i);
  });
  store.lanes = new Float32Array(map.cables.length);
  for (const all of pairs.values()) {
    all.forEach((cable, i) => {
      // Parallel cables lie on the same side whichever end comes first.
      const [a, b] = map.cables[cable].ends;
      store.lanes[cable] = (i - (all.length - 1) / 2) * (a[0] < b[0] ? 1 : -1);
    });
  }
  store.colours = new Map();
  indexHosts();
}

function takeHosts(hosts) {
  store.hosts = hosts;
  indexHosts();
}

function indexHosts() {
  store.hostsOf = store.map.boxes.map(() => []);
  store.byMac = new Map();
  for (const host of store.hosts) {
    store.hostsOf[host.at[0]]?.push(host);
    store.byMac.set(host.mac, host);
  }
}

function takeRates(rates) {
  store.rates = rates;
  // Null if no box has told: a chart has a gap there.
  const known = rates.boxes.filter(Boolean);
  const sum = (key) => (known.length > 0 ? known.reduce((all, box) => all + box[key], 0) : null);
  const cables = new Float32Array(rates.cables.length * 2);
  rates.cables.forEach(([there, back], i) => {
    cables[2 * i] = there ?? NaN;
    cables[2 * i + 1] = back ?? NaN;
  });
  const boxes = new Map();
  rates.boxes.forEach((box, i) => box && boxes.set(boxName(i), box));
  const reasons = known.length > 0 ? Object.fromEntries(Object.entries(rates.drops).map(([k, v]) => [k, v[1]])) : null;
  store.samples.push({
    at: Date.now() / 1000, from: sum("from_hosts"), to: sum("to_hosts"), drops: reasons,
    boxes, cables, keys: store.keys ?? [],
  });
  if (store.samples.length > SAMPLES) store.samples.shift();
}

/** A cable's load, 0 to 1, of its busier direction; null if nobody knows it. */
export function load(i) {
  const rates = store.rates?.cables[i];
  if (!rates || (rates[0] === null && rates[1] === null)) return null;
  const rate = store.map.cables[i].rate_mbit_per_s * 1e6;
  const most = Math.max(rates[0] ?? 0, rates[1] ?? 0);
  return rate > 0 ? Math.min(1, most / rate) : null;
}

/** Nearly every host has a link-local address, and nobody knows it by that. */
const addressOf = (host) => host.addresses.find((a) => !a.startsWith("fe80:")) ?? host.addresses[0];

export const hostLabel = (host) => host.name ?? addressOf(host) ?? host.mac;

export const tenantsOf = (host) => host.tenants.map((t) => store.map.tenants[t] ?? "?");

/** Selects something, or nothing, and forgets ways of what was selected. */
export function select(selected) {
  store.selected = selected;
  store.ways = [];
  store.way = null;
  changed("selected");
}

export const isSelected = (kind, id) => store.selected?.kind === kind && store.selected.id === id;

/** Asks the server. Its errors are sentences for people. */
export async function ask(path, options) {
  const answer = await fetch(path, options);
  const text = await answer.text();
  if (!answer.ok) throw new Error(text.trim() || `${answer.status}`);
  return JSON.parse(text);
}
