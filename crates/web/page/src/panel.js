// The lists beside the map, one at a time.
import { dropChart, rateChart, reasonSeries } from "./charts.js";
import { byId, el, pick, table } from "./dom.js";
import { bits, clock, count, many, perSecond, share } from "./format.js";
import { show } from "./search.js";
import { ask, boxName, hostLabel, listen, load, select, store, tenantsOf } from "./store.js";

/** Rows that a list shows at most. */
const ROWS = 100;

const panel = byId("panel");
const strip = byId("tabs");
let current = "overview";
let filter = "";
let routes = null;
let traffic = null;
let drops = null;

const TABS = {
  overview: { name: "Overview", parts: ["rates", "map", "hosts"], render: overview },
  boxes: { name: "Boxes", parts: ["map", "rates", "hosts"], render: boxes },
  hosts: { name: "Hosts", parts: ["hosts", "map"], render: hosts },
  routes: { name: "Routes", parts: ["router"], render: routeTable, when: () => store.router !== null },
  names: { name: "Names", parts: ["rates"], render: names, when: () => store.rates?.named.length > 0 },
  events: { name: "Events", parts: ["events"], render: events },
};

const note = (...text) => el("p", { class: "note" }, ...text);

const hidden = (total) => (total > ROWS ? note(`${count(total - ROWS)} more: search to find one.`) : null);

function overview() {
  const busiest = store.map.cables
    .map((_, i) => [i, load(i)])
    .filter(([, used]) => used !== null && used > 0.0005)
    .sort((a, b) => b[1] - a[1])
    .slice(0, 8);
  const rows = busiest.map(([i, used]) => {
    const [there, back] = store.rates.cables[i];
    return [pick(store.keys[i], () => select({ kind: "cable", id: store.keys[i] })), share(used), bits(there), bits(back)];
  });
  const totals = Object.entries(store.rates?.drops ?? {}).filter(([, [total]]) => total > 0).sort((a, b) => b[1][0] - a[1][0]);
  byId("busiest").replaceChildren(rows.length > 0
    ? table("Busiest cables", ["Cable", { text: "Use", num: true }, { text: "→", num: true }, { text: "←", num: true }], rows)
    : note(hasRates() ? "No cable carries traffic now." : "No box has reported its counters yet."));
  byId("reasons").replaceChildren(totals.length > 0
    ? table("Dropped packets", ["Reason", { text: "Per second", num: true }, { text: "Since start", num: true }],
      totals.map(([reason, [total, rate]]) => [reason, perSecond(rate), count(total)]))
    : note("No box has dropped a packet."));
  const tenants = store.map.tenants.map((name, i) => [name, i, store.hosts.filter((h) => h.tenants.includes(i)).length]);
  byId("tenants").replaceChildren(...(tenants.length === 0 ? [] : [table("Tenants", ["Name", { text: "Hosts", num: true }],
    tenants.map(([name, i, number]) => [
      el("span", {}, el("i", { class: `dot tenant-${i % 8}` }), pick(name, () => select({ kind: "tenant", id: name }))), count(number)]))]));
  const times = store.samples.map(({ at }) => at);
  traffic.set(times, [["from hosts", store.samples.map((s) => s.from)], ["to hosts", store.samples.map((s) => s.to)]]);
  drops.set(times, reasonSeries(store.samples));
}

const hasRates = () => store.rates?.boxes.some(Boolean);

function buildOverview() {
  const area = (title) => el("div", { class: "chart" }, el("h2", {}, title));
  const [a, b] = [area("Traffic of hosts"), area("Packets dropped")];
  panel.replaceChildren(a, b, el("div", { id: "busiest" }), el("div", { id: "reasons" }), el("div", { id: "tenants" }));
  traffic?.clear();
  drops?.clear();
  traffic = rateChart(a, "Traffic from and to hosts over time");
  drops = dropChart(b);
}

/** A list with a field that filters it. The field keeps its text while rows change. */
function filtered(label, rows) {
  const list = byId("rows");
  if (list) return list.replaceChildren(...rows());
  const field = el("input", { type: "text", class: "filter", "aria-label": label, placeholder: label, autocomplete: "off", oninput: () => {
    filter = field.value.trim().toLowerCase();
    byId("rows").replaceChildren(...rows());
  } });
  panel.replaceChildren(field, el("div", { id: "rows" }, ...rows()));
}

function boxes() {
  filtered("Filter by name", () => {
    const all = store.map.boxes.map((box, i) => [box, i]).filter(([box]) => box.name.toLowerCase().includes(filter));
    const rows = all.slice(0, ROWS).map(([box, i]) => {
      const rates = store.rates?.boxes[i];
      return [
        pick(box.name, () => show({ kind: "box", id: box.name })),
        el("span", { class: box.up ? "" : "bad" }, box.up ? box.kind : `${box.kind}, down`),
        count(store.hostsOf[i]?.length ?? 0),
        rates ? bits(rates.from_hosts + rates.to_hosts) : "–",
        rates ? perSecond(rates.drops) : "–",
      ];
    });
    return [table(many(all.length, "box", "boxes"), ["Name", "Kind", { text: "Hosts", num: true }, { text: "Hosts' traffic", num: true }, { text: "Drops", num: true }], rows), hidden(all.length)].filter(Boolean);
  });
}

function hosts() {
  filtered("Filter by name, address, box or tenant", () => {
    const fits = (host) => [host.name ?? "", host.mac, boxName(host.at[0]), ...host.addresses, ...tenantsOf(host)]
      .some((text) => text.toLowerCase().includes(filter));
    const all = filter ? store.hosts.filter(fits) : store.hosts;
    const rows = all.slice(0, ROWS).map((host) => [
      el("span", {}, el("i", { class: `dot tenant-${host.tenants.length > 0 ? host.tenants[0] % 8 : "none"}` }), pick(hostLabel(host), () => show({ kind: "host", id: host.mac }), `${hostLabel(host)}, ${host.mac}`)),
      el("span", { class: "whole" }, host.mac),
      el("span", { class: "whole" }, `${boxName(host.at[0])}:${host.at[1]}`),
      tenantsOf(host).join(", "),
    ]);
    return [table(many(all.length, "host"), ["Host", "MAC", "At", "Tenant"], rows), hidden(all.length)].filter(Boolean);
  });
}

async function fetchRoutes(first) {
  try {
    routes = await ask(`/api/routes/${first}`);
  } catch (error) {
    routes = { routes: [], next: null, trouble: error.message };
  }
  if (current === "routes") routeTable();
}

function routeTable() {
  const { router } = store;
  if (!router) return;
  if (!byId("table")) {
    const field = el("input", { type: "text", class: "filter", "aria-label": "IP address to look up, or first prefix to list", placeholder: "10.0.0.7 or 10.0.0.0/8", autocomplete: "off" });
    const go = async (event) => {
      event.preventDefault();
      const text = field.value.trim();
      if (!text || text.includes("/")) return fetchRoutes(text || "0.0.0.0/0");
      try {
        byId("answer").replaceChildren(...routeAnswer(await ask(`/api/route/${text}`)));
      } catch (error) {
        byId("answer").replaceChildren(note(error.message));
      }
    };
    panel.replaceChildren(
      el("form", { class: "row", onsubmit: go }, field, el("button", {}, "Look up")),
      el("div", { id: "answer", "aria-live": "polite" }), el("div", { id: "table" }));
    if (!routes) fetchRoutes("0.0.0.0/0");
  }
  const behind = router.nodes.filter((node) => node.up && node.lag !== 0 && node.routes !== null);
  const copies = router.nodes.filter((node) => node.up && node.routes !== null).length;
  byId("table").replaceChildren(
    note(`${many(router.routes, "route")} to other networks, version ${count(router.version)}. ${behind.length === 0
      ? `All ${many(copies, "copy", "copies")} are of this version.`
      : `${many(behind.length, "box", "boxes")} of ${copies} lag behind: ${behind.slice(0, 5).map((n) => n.name).join(", ")}.`}`),
    routes?.trouble ? note(routes.trouble) : routes
      ? el("div", {}, table("Routes", ["Prefix", "To"], routes.routes.slice(0, 500).map((line) => {
        const [prefix, ...rest] = line.split(" ");
        return [prefix, rest.join(" ")];
      })), el("div", { class: "row" },
        el("button", { type: "button", onclick: () => fetchRoutes("0.0.0.0/0") }, "IPv4 from the first"),
        el("button", { type: "button", onclick: () => fetchRoutes("::/0") }, "IPv6 from the first"),
        routes.next && el("button", { type: "button", onclick: () => fetchRoutes(routes.next) }, `From ${routes.next} on`)))
      : note("Asking for the routes."));
}

function routeAnswer(route) {
  const lines = [`${route.address}: ${route.action.replace(/_/g, " ")}${route.prefix ? ` by ${route.prefix}` : ""}`];
  for (const to of route.neighbours) {
    lines.push(`to ${to.address}${to.station ? ` (${to.station.mac} at ${to.station.node}:${to.station.port})` : ", not found yet"}`);
    for (const path of to.paths.slice(0, 5)) lines.push(`  ${path.boxes.map((b) => b.node).join(" → ")}`);
  }
  return lines.map((line) => note(line));
}

function names() {
  panel.replaceChildren(...store.rates.named.map((named) => {
    const all = named.hits_per_s + named.misses_per_s;
    const total = named.hits + named.misses;
    return el("section", { class: "card" },
      el("h2", {}, pick(boxName(named.at), () => show({ kind: "box", id: boxName(named.at) }))),
      el("dl", {},
        el("dt", {}, "Cache hits"), el("dd", {}, total > 0 ? `${share(named.hits / total)} of ${count(total)} Interests` : "no Interest yet"),
        el("dt", {}, "Now"), el("dd", {}, all > 0 ? `${share(named.hits_per_s / all)} of ${perSecond(all)}` : "no Interests"),
        el("dt", {}, "Cached packets"), el("dd", {}, count(named.packets)),
        el("dt", {}, "Pending"), el("dd", {}, many(named.pending, "Interest"))),
      named.prefixes.length > 0 ? el("ul", { class: "names" }, named.prefixes.map((prefix) => el("li", {}, prefix))) : "");
  }));
}

function events() {
  const rows = [...store.events].reverse().slice(0, 2 * ROWS);
  panel.replaceChildren(rows.length === 0 ? note("Nothing has happened since the start.") : el(
    "ol", { class: "events" },
    rows.map((event) => el("li", { class: event.bad ? "bad" : "" }, el("time", {}, clock(event.time_ms)), el("span", {}, event.text))),
  ));
}

function tabs() {
  const shown = Object.entries(TABS).filter(([, tab]) => !tab.when || tab.when());
  if (!shown.some(([id]) => id === current)) current = "overview";
  const ids = shown.map(([id]) => id).join();
  if (strip.dataset.ids !== ids) {
    strip.dataset.ids = ids;
    strip.replaceChildren(...shown.map(([id, tab]) => el("button", { type: "button", role: "tab", id: `tab-${id}`, "aria-controls": "panel", onclick: () => open(id) }, tab.name)));
  }
  for (const tab of strip.children) {
    const isOpen = tab.id === `tab-${current}`;
    tab.setAttribute("aria-selected", String(isOpen));
    tab.tabIndex = isOpen ? 0 : -1;
  }
  panel.setAttribute("aria-labelledby", `tab-${current}`);
}

function open(id) {
  current = id;
  filter = "";
  tabs();
  panel.replaceChildren();
  if (id === "overview") buildOverview();
  TABS[id].render();
}

/** Rows must not go while a reader has the focus on one of them. */
const isBusy = () => panel.contains(document.activeElement) && document.activeElement.matches("button.pick");

export function begin() {
  strip.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const all = [...strip.children];
    const next = all[(all.findIndex((tab) => tab.tabIndex === 0) + step + all.length) % all.length];
    next.click();
    next.focus();
    event.preventDefault();
  });
  new ResizeObserver(() => {
    traffic?.resize();
    drops?.resize();
  }).observe(panel);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => setTimeout(() => open(current)));
  listen((what) => {
    if (what === "router" || what === "rates") tabs();
    if (TABS[current].parts.includes(what) && !isBusy()) TABS[current].render();
  });
  tabs();
  open("overview");
}
