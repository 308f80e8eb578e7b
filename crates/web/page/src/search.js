// Search by name, MAC or IP address: a combobox (WAI-ARIA 1.2).
import { byId, el } from "./dom.js";
import * as graph from "./graph.js";
import { hostLabel, select, store } from "./store.js";

const MOST = 12;
const field = byId("search");
const list = byId("found");
let hits = [];
let active = -1;

/** A MAC address may be written with any signs between its digits, or none. */
const digits = (text) => text.replace(/[^0-9a-f]/gi, "").toLowerCase();

export function search(text) {
  const word = text.trim().toLowerCase();
  if (!word) return [];
  const out = [];
  const hex = /^[0-9a-f:.\- ]+$/i.test(word) && digits(word).length >= 4 ? digits(word) : null;
  const has = (value) => value.toLowerCase().includes(word);
  for (const box of store.map.boxes) {
    if (has(box.name)) out.push({ kind: "box", id: box.name, text: box.name, more: box.kind });
  }
  for (const tenant of store.map.tenants) {
    if (has(tenant)) out.push({ kind: "tenant", id: tenant, text: tenant, more: "tenant" });
  }
  for (const host of store.hosts) {
    if (out.length >= MOST * 4) break;
    const isIt = (host.name && has(host.name)) || host.addresses.some(has) || has(host.mac)
      || (hex && digits(host.mac).includes(hex));
    if (isIt) out.push({ kind: "host", id: host.mac, text: hostLabel(host), more: [host.mac, ...host.addresses].join(" ") });
  }
  // Names that begin with the word come first.
  const rank = ({ text: name, more }) => (name.toLowerCase() === word || more.split(" ").includes(word) ? 0 : name.toLowerCase().startsWith(word) ? 1 : 2);
  return out.sort((a, b) => rank(a) - rank(b)).slice(0, MOST);
}

/** Selects something and shows it on the map. */
export function show({ kind, id }) {
  select({ kind, id });
  const place = kind === "box" ? store.map.boxes.findIndex((box) => box.name === id) : store.byMac.get(id)?.at[0];
  if (place !== undefined && place >= 0) graph.reveal(place);
}

function close() {
  list.hidden = true;
  active = -1;
  field.setAttribute("aria-expanded", "false");
  field.removeAttribute("aria-activedescendant");
}

function choose(hit) {
  if (!hit) return;
  close();
  field.value = "";
  show(hit);
}

function render() {
  hits = search(field.value);
  if (!field.value.trim()) return close();
  active = hits.length > 0 ? Math.max(0, Math.min(active, hits.length - 1)) : -1;
  list.replaceChildren(...hits.map((hit, i) => el(
    "li",
    { role: "option", id: `hit-${i}`, "aria-selected": String(i === active), onpointerdown: (event) => { event.preventDefault(); choose(hit); } },
    el("span", {}, hit.text), el("span", { class: "more" }, hit.more),
  )));
  if (hits.length === 0) list.append(el("li", { role: "option", "aria-disabled": "true", "aria-selected": "false" }, "Nothing found"));
  list.hidden = false;
  field.setAttribute("aria-expanded", "true");
  if (active >= 0) field.setAttribute("aria-activedescendant", `hit-${active}`);
}

export function begin() {
  field.addEventListener("input", render);
  field.addEventListener("blur", close);
  field.addEventListener("keydown", (event) => {
    if (event.key === "Escape") close();
    else if (event.key === "Enter") choose(hits[active]);
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      active = (active + (event.key === "ArrowDown" ? 1 : hits.length - 1)) % Math.max(1, hits.length);
      render();
      event.preventDefault();
    }
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.target.matches("input")) return;
    event.preventDefault();
    field.focus();
  });
}
