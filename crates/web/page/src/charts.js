// Charts of rates over the last minutes.
import uPlot from "uplot";

import { colours } from "./colours.js";
import { bits, perSecond } from "./format.js";

/** Series with more reasons than this are summed up. */
const REASONS = 4;

const axis = (extra) => ({
  stroke: colours().faint,
  grid: { stroke: colours().line, width: 0.5 },
  ticks: { show: false },
  font: `11px ${colours().font}`,
  ...extra,
});

/** A chart of some series in `into`: `set` gives it times, values and the names of the series. */
export function chart(into, title, format) {
  let plot = null;
  let shown = "";
  const clear = () => {
    plot?.destroy();
    plot = null;
    shown = "";
  };
  const make = (names, data) => {
    clear();
    shown = names.join("\n");
    const strokes = [colours().accent, ...colours().tenants.slice(1)];
    plot = new uPlot({
      width: into.clientWidth || 340,
      height: 132,
      cursor: { drag: { x: false, y: false }, y: false },
      legend: { live: true },
      padding: [8, 8, 0, 0],
      scales: { x: { time: true }, y: { range: (_, low, high) => [0, Math.max(high, 1) * 1.08] } },
      axes: [
        axis({ size: 26, space: 64, incrs: [1, 2, 5, 10, 20, 30, 60, 120], values: "{HH}:{mm}:{ss}" }),
        axis({ size: 64, space: 28, values: (_, all) => all.map((v) => format(v)) }),
      ],
      series: [{}, ...names.map((label, i) => ({
        label, stroke: strokes[i % strokes.length], width: 1.5, points: { show: false },
        value: (_, v) => (v === null || v === undefined ? "–" : format(v)),
      }))],
    }, data, into);
    const canvas = into.querySelector("canvas");
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", title);
  };
  return {
    set(times, series) {
      const names = series.map(([name]) => name);
      const data = [times, ...series.map(([, values]) => values)];
      if (!plot || names.join("\n") !== shown) make(names, data);
      else plot.setData(data);
      // Without a pointer the legend says what is now.
      if (plot.cursor.left < 0) plot.setLegend({ idx: times.length - 1 });
    },
    clear,
    resize() {
      plot?.setSize({ width: into.clientWidth, height: 132 });
    },
  };
}

export const rateChart = (into, title) => chart(into, title, (v) => bits(v).replace("bit/s", "b/s"));
export const dropChart = (into) => chart(into, "Packets dropped per second, by reason", perSecond);

/** The reasons that drop most in some samples, and all others together. */
export function reasonSeries(samples) {
  const sums = new Map();
  for (const { drops } of samples) {
    for (const [reason, rate] of Object.entries(drops ?? {})) sums.set(reason, (sums.get(reason) ?? 0) + rate);
  }
  const most = [...sums].filter(([, sum]) => sum > 0).sort((a, b) => b[1] - a[1]).map(([reason]) => reason);
  const series = most.slice(0, REASONS).map((reason) => [reason, samples.map(({ drops }) => drops && (drops[reason] ?? 0))]);
  const others = most.slice(REASONS);
  if (others.length > 0) {
    series.push(["others", samples.map(({ drops }) => drops && others.reduce((sum, r) => sum + (drops[r] ?? 0), 0))]);
  }
  return series.length > 0 ? series : [["none", samples.map(({ drops }) => drops && 0)]];
}
