// Elements out of text. Nothing here, and nothing that uses it, makes markup of what a journal says.

const byId = (id) => document.getElementById(id);

function make(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key === "class") element.className = value;
    else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value === true) element.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(key, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined).map((child) => (child instanceof Node ? child : visible(String(child)))));
  return element;
}

// Control characters and those that turn the direction of a text are shown and not obeyed.
function visible(text) {
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, (c) => `\\u${c.codePointAt(0).toString(16).padStart(4, "0")}`);
}

const TEXT_SHOWN = 4000;

// A long text, cut until it is asked for.
function longText(text, name = "pre", properties = {}) {
  text = String(text);
  if (text.length <= TEXT_SHOWN) return make(name, properties, text);
  const block = make(name, properties, text.slice(0, TEXT_SHOWN) + "…");
  const more = make("button", { type: "button", class: "more", onclick: () => {
    block.textContent = visible(text);
    more.remove();
  } }, `Show all ${text.length.toLocaleString("en")} characters`);
  return make("div", {}, block, more);
}

const TOKEN = /("(?:[^"\\]|\\.)*")(\s*:)?|\b(?:true|false|null)\b|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

function json(value) {
  const text = JSON.stringify(value, null, 2) ?? "nothing";
  if (text.length > TEXT_SHOWN) return longText(text, "pre", { class: "json" });
  const block = make("pre", { class: "json" });
  let last = 0;
  for (const token of text.matchAll(TOKEN)) {
    block.append(text.slice(last, token.index));
    const kind = token[2] ? "key" : token[1] ? "string" : "atom";
    block.append(make("span", { class: kind }, token[1] ?? token[0]), token[2] ?? "");
    last = token.index + token[0].length;
  }
  block.append(text.slice(last));
  return block;
}

function section(title, open, ...children) {
  return make("details", { class: "section", open }, make("summary", {}, title), ...children);
}

const time = (ms) => new Date(ms).toISOString().replace("T", " ").replace(/\.(\d+)Z$/, ".$1 UTC");
const span = (ms) => (ms < 1000 ? `${ms} ms` : ms < 60000 ? `${(ms / 1000).toFixed(1)} s` : `${Math.round(ms / 60000)} min`);
const short = (id) => id.slice(0, 8);
const count = (n, one, many = `${one}s`) => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;

// The places at which two things differ.
function changes(list, left = "before", right = "after") {
  if (list.length === 0) return make("p", { class: "quiet" }, "No difference.");
  const side = (text, kind) => (text === null ? make("span", { class: "quiet" }, "nothing") : longText(text, kind));
  const row = (change) => make("tr", {},
    make("th", { scope: "row" }, change.path || "all"),
    make("td", { "data-side": left }, side(change.left, "del")),
    make("td", { "data-side": right }, side(change.right, "ins")));
  return make("div", { class: "wide" }, make("table", { class: "changes" },
    make("thead", {}, make("tr", {}, make("th", {}, "where"), make("th", {}, left), make("th", {}, right))),
    make("tbody", {}, list.map(row))));
}
