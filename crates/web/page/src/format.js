// Numbers for people.

const STEPS = ["", "k", "M", "G", "T", "P"];

function scaled(value, unit) {
  let step = 0;
  let v = value;
  while (v >= 999.5 && step < STEPS.length - 1) {
    v /= 1000;
    step += 1;
  }
  const digits = v >= 99.5 || step === 0 && Number.isInteger(v) ? 0 : v >= 9.95 ? 1 : 2;
  return `${v.toFixed(digits)} ${STEPS[step]}${unit}`;
}

export const bits = (value) => (value === null || value === undefined ? "–" : scaled(value, "bit/s"));
export const perSecond = (value) => (value === 0 ? "0 /s" : `${scaled(value, "")}/s`);
export const count = (value) => value.toLocaleString("en").replace(/,/g, "\u202f");
export const share = (value) => `${(value * 100).toFixed(value < 0.0995 ? 1 : 0)} %`;
export const many = (number, one, more = `${one}s`) => `${count(number)} ${number === 1 ? one : more}`;

export function clock(ms) {
  // A simulation's clock begins at zero.
  if (ms < 1e11) return `${(ms / 1000).toFixed(3)} s`;
  return new Date(ms).toLocaleTimeString("en-GB");
}
