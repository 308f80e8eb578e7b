// Colours of the canvas, from the style sheet, so that light and dark are defined there alone.

const TENANTS = 8;
let cache = null;

export function colours() {
  if (cache) return cache;
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(name).trim();
  cache = {
    back: of("--back"),
    text: of("--text"),
    faint: of("--faint"),
    line: of("--line"),
    accent: of("--accent"),
    bad: of("--bad"),
    box: of("--box"),
    boxEdge: of("--box-edge"),
    loads: [0, 1, 2, 3, 4, 5].map((i) => of(`--load-${i}`)),
    tenants: Array.from({ length: TENANTS }, (_, i) => of(`--tenant-${i}`)),
    host: of("--host"),
    font: of("--font"),
  };
  return cache;
}

export function forgetColours() {
  cache = null;
}

/** A tenant's colour; hosts of none have their own. */
export const tenantColour = (place) =>
  place === undefined ? colours().host : colours().tenants[place % TENANTS];

/** Upper ends of the steps of load, in shares of a cable's rate. */
export const LOAD_STEPS = [0.02, 0.1, 0.3, 0.6, 0.85, 1];

/** The step of a load; -1: not known. */
export function loadStep(load) {
  if (load === null) return -1;
  return LOAD_STEPS.findIndex((end) => load <= end);
}
