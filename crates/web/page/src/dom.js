// Elements from data. Texts become text nodes, never markup.

/** An element. `props`: attributes, `on…` listeners, `class`, and `style` variables. */
export function el(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "vars") {
      for (const [name, text] of Object.entries(value)) element.style.setProperty(name, text);
    } else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

export const byId = (id) => document.getElementById(id);

/** A table. Cells are texts or elements; a cell with `num` is aligned right. */
export function table(caption, heads, rows) {
  return el(
    "table",
    {},
    el("caption", {}, caption),
    el("thead", {}, el("tr", {}, heads.map((head) => {
      const { text, num } = typeof head === "string" ? { text: head } : head;
      return el("th", { scope: "col", class: num && "num" }, text);
    }))),
    el("tbody", {}, rows.map((cells) => el("tr", {}, cells.map((cell, i) => {
      const num = typeof heads[i] === "object" && heads[i].num;
      return el("td", { class: num && "num" }, cell);
    })))),
  );
}

/** A button that looks like a link in a table. */
export const pick = (text, onclick, label) =>
  el("button", { type: "button", class: "pick", onclick, "aria-label": label }, text);
