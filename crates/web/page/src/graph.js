// The map: a canvas that draws boxes, cables, hosts and ways, and follows pointer and keys.
import { drag as d3drag } from "d3-drag";
import { select as d3select } from "d3-selection";
import { zoom as d3zoom, zoomIdentity } from "d3-zoom";

import { colours, forgetColours, loadStep, tenantColour } from "./colours.js";
import { byId } from "./dom.js";
import { bits, many, share } from "./format.js";
import * as layout from "./layout.js";
import { cableKey, hostLabel, isSelected, listen, load, select, store, tenantsOf } from "./store.js";

const canvas = byId("canvas");
const frame = byId("graph");
const tip = byId("tip");
const pen = canvas.getContext("2d");
const surface = d3select(canvas);

/** Distance of parallel cables, in pixels. */
const LANE = 7;
/** In networks of so few hosts their names are on the map. */
const NAMED_HOSTS = 40;
/** Hosts are drawn one by one where a box's ring has so much room for each, in pixels. */
const HOST_ROOM = 5;

let view = zoomIdentity;
let size = { width: 0, height: 0 };
let isWaiting = false;
let hasMoved = false;
let hover = null;
/** How long the last frames took to draw, in milliseconds. */
export const frameTimes = [];

/** Draws soon, once. */
export function draw() {
  if (isWaiting) return;
  isWaiting = true;
  requestAnimationFrame(() => {
    isWaiting = false;
    const begun = performance.now();
    const moves = layout.settle();
    if (moves && !hasMoved) fit(false);
    paint();
    frameTimes.push(performance.now() - begun);
    if (frameTimes.length > 200) frameTimes.shift();
    if (moves) draw();
  });
}

function resize() {
  const { clientWidth: width, clientHeight: height } = frame;
  if (width === size.width && height === size.height) return;
  size = { width, height };
  const dots = Math.min(2, window.devicePixelRatio || 1);
  canvas.width = width * dots;
  canvas.height = height * dots;
  pen.setTransform(dots, 0, 0, dots, 0, 0);
  if (!hasMoved) fit(false);
  draw();
}

const at = (point) => [view.applyX(point.x), view.applyY(point.y)];

const boxRadius = (place) => layout.radius(place) * Math.min(1.6, Math.max(0.35, view.k));

/** The ends of a cable on the canvas, beside its parallel ones. */
function ends(i) {
  const points = layout.places();
  const { ends: [[a], [b]] } = store.map.cables[i];
  if (!points[a] || !points[b]) return null;
  const [x1, y1] = at(points[a]);
  const [x2, y2] = at(points[b]);
  const lane = store.lanes[i] * Math.min(LANE, LANE * view.k);
  const length = Math.hypot(x2 - x1, y2 - y1) || 1;
  const [dx, dy] = [(-(y2 - y1) / length) * lane, ((x2 - x1) / length) * lane];
  return [x1 + dx, y1 + dy, x2 + dx, y2 + dy];
}

const outside = (x1, y1, x2, y2) =>
  Math.max(x1, x2) < 0 || Math.min(x1, x2) > size.width || Math.max(y1, y2) < 0 || Math.min(y1, y2) > size.height;

function paint() {
  const { width, height } = size;
  pen.fillStyle = colours().back;
  pen.fillRect(0, 0, width, height);
  written = new Map();
  paintLost();
  paintCables();
  paintWays();
  paintHosts();
  paintBoxes();
  if (view.k > 0.6) names.forEach(hostName);
}

function paintLost() {
  const place = new Map(layout.places().map((point) => [point.name, point]));
  pen.setLineDash([3, 5]);
  pen.lineWidth = 1.5;
  pen.strokeStyle = colours().bad;
  pen.beginPath();
  for (const [a, b] of store.lost.values()) {
    if (!place.has(a) || !place.has(b)) continue;
    pen.moveTo(...at(place.get(a)));
    pen.lineTo(...at(place.get(b)));
  }
  pen.stroke();
  pen.setLineDash([]);
}

function paintCables() {
  const steps = colours().loads.map(() => new Path2D());
  const unknown = new Path2D();
  store.map.cables.forEach((_, i) => {
    const line = ends(i);
    if (!line || outside(...line)) return;
    const path = steps[loadStep(load(i))] ?? unknown;
    path.moveTo(line[0], line[1]);
    path.lineTo(line[2], line[3]);
  });
  // From afar cables must not hide each other, and beside a way they step back.
  const thin = Math.min(1, 0.25 + view.k * 0.75);
  pen.globalAlpha = store.ways.length > 0 ? 0.3 : 1;
  pen.lineWidth = 1.2 * thin;
  pen.strokeStyle = colours().line;
  pen.stroke(unknown);
  steps.forEach((path, i) => {
    pen.lineWidth = (1.2 + i * 0.75) * thin;
    pen.strokeStyle = colours().loads[i];
    pen.stroke(path);
  });
  pen.globalAlpha = 1;
  for (const [id, width] of [[store.selected?.kind === "cable" ? store.selected.id : null, 4], [hover?.kind === "cable" ? hover.id : null, 3]]) {
    const line = id === null ? null : ends(store.keys.indexOf(id));
    if (line) stroke(line, width, colours().accent);
  }
}

function stroke([x1, y1, x2, y2], width, colour) {
  pen.lineWidth = width;
  pen.strokeStyle = colour;
  pen.beginPath();
  pen.moveTo(x1, y1);
  pen.lineTo(x2, y2);
  pen.stroke();
}

/** The cables of a way, by their numbers. */
function cablesOf(way) {
  const byEnd = store.byEnd;
  return way.boxes.slice(0, -1).map(([place, , out]) => byEnd.get(`${place}:${out}`)).filter((i) => i !== undefined);
}

function paintWays() {
  const ways = store.way === null ? store.ways : [store.ways[store.way]];
  const cables = new Set(ways.filter(Boolean).flatMap(cablesOf));
  pen.lineCap = "round";
  for (const i of cables) {
    const line = ends(i);
    if (line) stroke(line, store.way === null ? 4 : 5.5, colours().accent);
  }
  pen.lineCap = "butt";
}

/** The place of a host on its box's ring. */
function hostAt(place, i, total) {
  const [x, y] = at(layout.places()[place]);
  const ring = boxRadius(place) + 4 + 3 * Math.min(1.6, view.k);
  const angle = (i / total) * 2 * Math.PI - Math.PI / 2;
  return [x + ring * Math.cos(angle), y + ring * Math.sin(angle), ring];
}

const showsHosts = (place) => {
  const total = store.hostsOf[place].length;
  const ring = boxRadius(place) + 4 + 3 * Math.min(1.6, view.k);
  return (2 * Math.PI * ring) / total >= HOST_ROOM;
};

function paintHosts() {
  const paths = new Map();
  const of = (tenant) => {
    if (!paths.has(tenant)) paths.set(tenant, [new Path2D(), new Path2D()]);
    return paths.get(tenant);
  };
  const dot = Math.min(4, Math.max(1.6, 2.6 * view.k));
  const isFar = view.k < 0.25;
  names = [];
  layout.places().forEach((point, place) => {
    const hosts = store.hostsOf[place];
    if (!hosts?.length) return;
    const [x, y] = at(point);
    if (x < -60 || y < -60 || x > size.width + 60 || y > size.height + 60) return;
    if (!isFar && showsHosts(place)) {
      hosts.forEach((host, i) => {
        const [hx, hy, ring] = hostAt(place, i, hosts.length);
        const [dots] = of(host.tenants[0]);
        dots.moveTo(hx + dot, hy);
        dots.arc(hx, hy, dot, 0, 2 * Math.PI);
        if (store.hosts.length <= NAMED_HOSTS) names.push([hostLabel(host), hx, hy, (hx - x) / ring, (hy - y) / ring]);
      });
      return;
    }
    // Too many to tell apart: a ring with each tenant's share.
    const shares = new Map();
    for (const { tenants } of hosts) shares.set(tenants[0], (shares.get(tenants[0]) ?? 0) + 1);
    const ring = boxRadius(place) + 3;
    let from = -Math.PI / 2;
    for (const [tenant, number] of [...shares].sort((a, b) => (a[0] ?? 99) - (b[0] ?? 99))) {
      const to = from + (number / hosts.length) * 2 * Math.PI;
      const [, arcs] = of(tenant);
      arcs.moveTo(x + ring * Math.cos(from), y + ring * Math.sin(from));
      arcs.arc(x, y, ring, from, to);
      from = to;
    }
  });
  pen.lineWidth = isFar ? 2 : 3;
  for (const [tenant, [dots, arcs]] of paths) {
    pen.globalAlpha = store.selected?.kind === "tenant" && store.selected.id !== store.map.tenants[tenant] ? 0.15 : 1;
    pen.fillStyle = tenantColour(tenant);
    pen.strokeStyle = tenantColour(tenant);
    pen.fill(dots);
    pen.stroke(arcs);
  }
  pen.globalAlpha = 1;
  const marked = new Set();
  if (store.selected?.kind === "host") marked.add(store.selected.id);
  const way = store.ways[store.way];
  if (way) [way.from, way.to].forEach((mac) => mac && marked.add(mac));
  for (const mac of marked) markHost(store.byMac.get(mac));
}

function markHost(host) {
  const hosts = host && store.hostsOf[host.at[0]];
  if (!hosts || !layout.places()[host.at[0]]) return;
  const [x, y] = hostAt(host.at[0], hosts.indexOf(host), hosts.length);
  pen.fillStyle = tenantColour(host.tenants[0]);
  pen.strokeStyle = colours().accent;
  pen.lineWidth = 2.5;
  pen.beginPath();
  pen.arc(x, y, 5.5, 0, 2 * Math.PI);
  pen.fill();
  pen.stroke();
  label(hostLabel(host), x, y - 13, true);
}

/** Writes a host's name beside its dot, away from the box. */
function hostName([text, x, y, dx, dy]) {
  pen.font = `500 12px ${colours().font}`;
  const half = pen.measureText(text).width / 2;
  label(text, x + dx * (half + 8), y + dy * 13, false, true);
}

/** Hosts' names, which are written where room is left. */
let names = [];
/** Where labels are already: 16 pixels high, in rows. */
let written = new Map();

function hasRoom(x, y, width) {
  const row = Math.floor(y / 8);
  const [from, to] = [x - width / 2, x + width / 2];
  const rows = [row - 1, row, row + 1].map((r) => written.get(r) ?? []);
  if (rows.some((spans) => spans.some(([a, b]) => from < b && a < to))) return false;
  if (!written.has(row)) written.set(row, []);
  written.get(row).push([from, to]);
  return true;
}

function label(text, x, y, isStrong, isFaint) {
  pen.font = `${isStrong ? 600 : 500} 12px ${colours().font}`;
  if (!hasRoom(x, y, pen.measureText(text).width + 4)) return;
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  pen.lineWidth = 3.5;
  pen.lineJoin = "round";
  pen.strokeStyle = colours().back;
  pen.strokeText(text, x, y);
  pen.fillStyle = isFaint ? colours().faint : colours().text;
  pen.fillText(text, x, y);
}

function paintBoxes() {
  const { boxes } = store.map;
  const plain = new Path2D();
  const down = new Path2D();
  const named = [];
  const room = view.k * 70;
  const withNames = boxes.length <= 60 || room > 30;
  layout.places().forEach((point, place) => {
    const [x, y] = at(point);
    if (x < -40 || y < -40 || x > size.width + 40 || y > size.height + 40) return;
    const box = boxes[place];
    const r = boxRadius(place);
    const path = box.up ? plain : down;
    if (box.kind === "node") {
      path.moveTo(x + r, y);
      path.arc(x, y, r, 0, 2 * Math.PI);
    } else {
      path.roundRect(x - r, y - r * 0.8, 2 * r, 1.6 * r, 3);
    }
    const isLit = isSelected("box", box.name) || (hover?.kind === "box" && hover.id === box.name);
    if (isLit) ring(x, y, r + 3);
    if (withNames || isLit) named.push([box.name, x, y + r + (hasRing(place) ? 17 + 3 * Math.min(1.6, view.k) : 11), isLit]);
  });
  pen.lineWidth = 1.5;
  pen.fillStyle = colours().box;
  pen.fill(plain);
  pen.strokeStyle = colours().boxEdge;
  pen.stroke(plain);
  pen.fillStyle = colours().back;
  pen.fill(down);
  pen.setLineDash([3, 2]);
  pen.strokeStyle = colours().bad;
  pen.stroke(down);
  pen.setLineDash([]);
  // Lit names are written first; a name without room is left out.
  for (const [name, x, y, isLit] of named.sort((a, b) => b[3] - a[3])) label(name, x, y, isLit);
}

const hasRing = (place) => store.hostsOf[place]?.length > 0;

function ring(x, y, r) {
  pen.lineWidth = 3;
  pen.strokeStyle = colours().accent;
  pen.beginPath();
  pen.arc(x, y, r, 0, 2 * Math.PI);
  pen.stroke();
}

// The item under the pointer.

function found(x, y) {
  let best = null;
  let least = Infinity;
  layout.places().forEach((point, place) => {
    const [px, py] = at(point);
    const distance = Math.hypot(px - x, py - y) - boxRadius(place);
    if (distance < Math.min(least, 4)) [best, least] = [{ kind: "box", id: point.name, place }, distance];
    const hosts = store.hostsOf[place] ?? [];
    if (distance > 22 || hosts.length === 0 || view.k < 0.25 || !showsHosts(place)) return;
    hosts.forEach((host, i) => {
      const [hx, hy] = hostAt(place, i, hosts.length);
      const near = Math.hypot(hx - x, hy - y) - 4;
      if (near < Math.min(least, 3)) [best, least] = [{ kind: "host", id: host.mac }, near];
    });
  });
  if (best) return best;
  store.map.cables.forEach((cable, i) => {
    const line = ends(i);
    if (!line || outside(line[0] - 5, line[1] - 5, line[2] + 5, line[3] + 5)) return;
    const [x1, y1, x2, y2] = line;
    const square = (x2 - x1) ** 2 + (y2 - y1) ** 2 || 1;
    const t = Math.max(0, Math.min(1, ((x - x1) * (x2 - x1) + (y - y1) * (y2 - y1)) / square));
    const distance = Math.hypot(x1 + t * (x2 - x1) - x, y1 + t * (y2 - y1) - y);
    if (distance < Math.min(least, 5)) [best, least] = [{ kind: "cable", id: cableKey(cable), i }, distance];
  });
  return best;
}

function describe(thing) {
  if (thing.kind === "box") {
    const box = store.map.boxes[thing.place];
    const rates = store.rates?.boxes[thing.place];
    const lines = [box.name, `${box.kind}${box.up ? "" : ", down"}, ${many(store.hostsOf[thing.place].length, "host")}`];
    if (rates) lines.push(`hosts send ${bits(rates.from_hosts)}, get ${bits(rates.to_hosts)}`);
    return lines;
  }
  if (thing.kind === "host") {
    const host = store.byMac.get(thing.id);
    return [hostLabel(host), host.mac, host.addresses.join(", "), tenantsOf(host).join(", ")].filter(Boolean);
  }
  const rates = store.rates?.cables[thing.i] ?? [null, null];
  const used = load(thing.i);
  const lines = [thing.id, `→ ${bits(rates[0])}   ← ${bits(rates[1])}`];
  return used === null ? lines : [...lines, `${share(used)} in use`];
}

function point(event) {
  const [x, y] = [event.offsetX, event.offsetY];
  hover = found(x, y);
  canvas.style.cursor = hover ? "pointer" : "grab";
  tip.hidden = !hover;
  if (hover) {
    tip.replaceChildren(...describe(hover).map((line) => {
      const row = document.createElement("div");
      row.textContent = line;
      return row;
    }));
    const left = Math.min(x + 14, size.width - tip.offsetWidth - 8);
    tip.style.transform = `translate(${Math.max(4, left)}px, ${Math.min(y + 14, size.height - tip.offsetHeight - 8)}px)`;
  }
  draw();
}

// Moving and zooming.

const zoom = d3zoom()
  .scaleExtent([0.03, 8])
  .on("zoom", (event) => {
    view = event.transform;
    if (event.sourceEvent) hasMoved = true;
    tip.hidden = true;
    draw();
  });

/** Shows the whole network. */
export function fit(isAsked = true) {
  const points = layout.places().filter((point) => point.x !== undefined);
  if (points.length === 0 || size.width === 0) return;
  const xs = points.map((point) => point.x);
  const ys = points.map((point) => point.y);
  const [left, right, top, bottom] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  // Room for hosts, names and the legend.
  const margin = 150;
  const k = Math.min(2.2, size.width / (right - left + margin), size.height / (bottom - top + margin));
  const to = zoomIdentity
    .translate(size.width / 2, size.height / 2)
    .scale(k)
    .translate(-(left + right) / 2, -(top + bottom) / 2);
  if (isAsked) hasMoved = false;
  surface.call(zoom.transform, to);
}

/** Moves the map until a box is in the middle. */
export function reveal(place) {
  const target = layout.places()[place];
  if (!target) return;
  hasMoved = true;
  const k = Math.max(view.k, 0.9);
  surface.call(zoom.transform, zoomIdentity.translate(size.width / 2, size.height / 2).scale(k).translate(-target.x, -target.y));
}

/** Where the map is: for tests. */
export const viewAt = () => ({ k: view.k, x: view.x, y: view.y });

/** Whether boxes look for their places. */
export const isMoving = () => isWaiting;

/** Zooms by a factor and moves by some pixels. */
export function turn(factor, step) {
  by(factor);
  surface.call(zoom.translateBy, step / view.k, 0);
}

const by = (factor) => {
  hasMoved = true;
  surface.call(zoom.scaleBy, factor);
};

function key(event) {
  const step = 60;
  const moves = { ArrowLeft: [step, 0], ArrowRight: [-step, 0], ArrowUp: [0, step], ArrowDown: [0, -step] };
  if (event.key in moves) {
    hasMoved = true;
    const [dx, dy] = moves[event.key];
    surface.call(zoom.translateBy, dx / view.k, dy / view.k);
  } else if (event.key === "+" || event.key === "=") by(1.3);
  else if (event.key === "-") by(1 / 1.3);
  else if (event.key === "0") fit();
  else if (event.key === "Escape") select(null);
  else return;
  event.preventDefault();
}

function index() {
  store.byEnd = new Map();
  store.map.cables.forEach(({ ends: both }, i) => both.forEach(([place, port]) => store.byEnd.set(`${place}:${port}`, i)));
}

export function begin() {
  const dragging = d3drag()
    .subject((event) => {
      const thing = found(event.x, event.y);
      const target = thing?.kind === "box" && layout.places()[thing.place];
      return target && { x: view.applyX(target.x), y: view.applyY(target.y), target };
    })
    .on("drag", (event) => {
      hasMoved = true;
      layout.drag(event.subject.target, view.invertX(event.x), view.invertY(event.y));
      draw();
    });
  surface.call(dragging).call(zoom).on("dblclick.zoom", null);
  canvas.addEventListener("pointermove", point);
  canvas.addEventListener("pointerleave", () => {
    hover = null;
    tip.hidden = true;
    draw();
  });
  canvas.addEventListener("click", (event) => {
    const thing = found(event.offsetX, event.offsetY);
    select(thing && { kind: thing.kind, id: thing.id });
  });
  frame.addEventListener("keydown", key);
  byId("zoom").addEventListener("click", (event) => {
    const how = event.target.closest("button")?.dataset.zoom;
    if (how === "fit") fit();
    else if (how) by(how === "in" ? 1.4 : 1 / 1.4);
  });
  new ResizeObserver(resize).observe(frame);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    forgetColours();
    draw();
  });
  listen((what) => {
    if (what === "map") {
      index();
      layout.relax();
      // The first sight of a network is a network, not a knot.
      if (!hasMoved) {
        layout.settle(150);
        fit(false);
      }
      canvas.setAttribute("aria-label", `${many(store.map.boxes.length, "box", "boxes")} and ${many(store.map.cables.length, "cable")}`);
    }
    draw();
  });
  resize();
}
