// Places of boxes: forces push boxes apart and pull cables together. A box keeps its place when
// others come and go, and where a reader has put it.
import { forceCollide, forceLink, forceManyBody, forceSimulation, forceX, forceY } from "d3-force";

import { store } from "./store.js";

/** Time for the layout in one frame, in milliseconds. */
const SLICE = 14;

let points = new Map();
let order = [];
let simulation = null;

/** The boxes' places, in the order of the map. */
export const places = () => order;

/** A box's size depends on its hosts. */
export const radius = (place) => 7 + Math.min(11, Math.sqrt(store.hostsOf[place]?.length ?? 0));

export function relax() {
  const { boxes, cables } = store.map;
  const next = new Map();
  const links = cables
    .map(({ ends }) => ({ source: ends[0][0], target: ends[1][0] }))
    .filter(({ source, target }) => boxes[source] && boxes[target] && source !== target);
  let isNew = false;
  order = boxes.map((box, place) => {
    const known = points.get(box.name);
    isNew ||= !known;
    const point = known ?? { name: box.name };
    point.place = place;
    next.set(box.name, point);
    return point;
  });
  isNew ||= points.size !== next.size;
  points = next;
  const spread = 46 + 26 / Math.sqrt(1 + boxes.length / 60);
  simulation ??= forceSimulation().stop();
  simulation
    .nodes(order)
    .force("push", forceManyBody().strength(-spread * 6).distanceMax(spread * 18).theta(1))
    .force("pull", forceLink(links).distance(spread * 1.5))
    .force("x", forceX().strength(0.035))
    .force("y", forceY().strength(0.045))
    .force("apart", forceCollide((point) => radius(point.place) + 9));
  // A cable that comes or goes moves little; a new network is laid out from the beginning.
  const warm = simulation.alpha();
  simulation.alpha(isNew ? 1 : Math.max(warm, 0.12)).alphaMin(0.015);
}

/** Moves boxes for some milliseconds. True: they have not come to rest. */
export function settle(slice = SLICE) {
  if (!simulation || simulation.alpha() < simulation.alphaMin()) return false;
  const end = performance.now() + slice;
  do simulation.tick();
  while (performance.now() < end && simulation.alpha() >= simulation.alphaMin());
  return true;
}

/** A reader moves a box. */
export function drag(point, x, y) {
  point.fx = x;
  point.fy = y;
  point.x = x;
  point.y = y;
  simulation.alpha(Math.max(simulation.alpha(), 0.1));
}
