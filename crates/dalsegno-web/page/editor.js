// The editor of a document: what is wrong is underlined at its place while a person types, and forms are sent without a reload.

import { patch } from "./patch.js";
import { main, parse, say } from "./swap.js";

const PAUSE = 350;
let waits = 0, asked = null, leaves = false;
let lines = [], nodes = [], marked = new Map();

const form = () => main().querySelector("form[data-check]");
const field = () => document.getElementById("text");

/// Whether there is a text that was typed and not saved.
export const unsaved = () => Boolean(form()) && field().value !== field().defaultValue;

function node(line, marks = []) {
  const one = document.createElement("span");
  one.className = "line";
  let at = 0;
  for (const [from, to, kind] of marks) {
    if (from < at || to <= from) continue;
    const mark = document.createElement("mark");
    mark.className = kind;
    mark.textContent = line.slice(from, to);
    one.append(line.slice(at, from), mark);
    at = to;
  }
  one.append(line.slice(at));
  return one;
}

/// Draws the lines that have changed; all others stay as they are.
function draw() {
  const layer = document.getElementById("layer"), next = field().value.split("\n");
  let head = 0, tail = 0;
  while (head < lines.length && head < next.length && lines[head] === next[head]) head += 1;
  while (tail < lines.length - head && tail < next.length - head && lines.at(-1 - tail) === next.at(-1 - tail)) tail += 1;
  const fresh = next.slice(head, next.length - tail).map((line) => node(line));
  nodes.slice(head, nodes.length - tail).forEach((one) => one.remove());
  const after = nodes[nodes.length - tail] ?? null;
  fresh.forEach((one) => layer.insertBefore(one, after));
  nodes.splice(head, nodes.length - tail - head, ...fresh);
  lines = next;
}

/// Underlines places, given in bytes.
function underline(found) {
  const bytes = new TextEncoder().encode(lines.join("\n")), decoder = new TextDecoder();
  const place = (byte) => decoder.decode(bytes.subarray(0, byte)).length;
  const starts = [0];
  for (const line of lines) starts.push(starts.at(-1) + line.length + 1);
  const next = new Map();
  for (const { offset, length, kind } of found) {
    const from = place(offset), to = Math.max(from + 1, place(offset + length));
    for (let number = 0; number < lines.length; number += 1) {
      const start = starts[number], end = start + lines[number].length;
      if (to <= start || from > end) continue;
      const mark = [Math.max(0, Math.min(from - start, lines[number].length - 1)), Math.min(to, end) - start, kind];
      next.set(number, [...(next.get(number) ?? []), mark].sort((one, other) => one[0] - other[0]));
    }
  }
  for (const number of new Set([...marked.keys(), ...next.keys()])) {
    if (number >= nodes.length) continue;
    const one = node(lines[number], next.get(number));
    nodes[number].replaceWith(one);
    nodes[number] = one;
  }
  marked = next;
}

/// An entry of the list of problems.
function entry({ severity, message, line, column, offset, length, label, help, file }, own) {
  const one = document.createElement("li"), word = document.createElement("b");
  one.className = severity;
  word.textContent = severity;
  one.append(word);
  const add = (name, kind, words) => {
    const part = document.createElement(name);
    part.className = kind;
    part.textContent = words;
    one.append(" ", part);
  };
  if (file && file !== own) add("code", "", file);
  if (line) add("span", "soft", `line ${line}, column ${column}`);
  one.append(` ${message}`);
  if (label) add("span", "soft", `(${label})`);
  if (help) add("span", "help", help);
  if (line && (!file || file === own)) { one.dataset.offset = offset; one.dataset.length = length; }
  return one;
}

/// Underlines what the list of problems names.
function marks() {
  const list = [...document.getElementById("found").children].filter((one) => one.dataset.offset);
  underline(list.map((one) => ({ offset: Number(one.dataset.offset), length: Number(one.dataset.length), kind: one.className })));
}

async function check() {
  const here = form();
  if (!here) return;
  asked?.abort();
  asked = new AbortController();
  const { check: address, kind, file } = here.dataset;
  try {
    const answer = await fetch(address, { method: "POST", headers: { "content-type": kind }, body: field().value, signal: asked.signal });
    const told = await answer.json();
    if (form() !== here) return;
    const problems = answer.ok ? told.diagnostics : [{ severity: "error", message: told.detail, help: told.help }];
    const errors = problems.filter((one) => one.severity === "error").length;
    document.getElementById("found").replaceChildren(...problems.map((one) => entry(one, file)));
    const words = errors ? `${errors} error${errors === 1 ? "" : "s"}: it cannot be saved so.` : problems.length ? "It can be saved." : "No problems.";
    const verdict = document.getElementById("verdict");
    if (verdict.textContent !== words) verdict.textContent = words;
    field().setAttribute("aria-invalid", String(errors > 0));
    marks();
  } catch (error) {
    if (error.name !== "AbortError") say("The text could not be checked.");
  }
}

/// Sends the form, and puts what comes back around the text, which stays as it is.
async function send(event) {
  const here = event.target, button = event.submitter;
  if (here !== form() || !button || !parse) return;
  event.preventDefault();
  clearTimeout(waits);
  asked?.abort();
  const typed = field().value, body = new URLSearchParams(new FormData(here, button));
  button.disabled = true;
  try {
    // Not `here.action`: that is the field of this name.
    const answer = await fetch(here.getAttribute("action"), { method: "POST", body, headers: { accept: "text/html" } });
    if (answer.status === 401) return location.reload();
    const fresh = parse(await answer.text()).getElementById("main");
    if (fresh?.dataset.page !== "document" || !fresh.querySelector("form[data-check]")) throw new Error("another page");
    document.getElementById("version").value = fresh.querySelector("#version").value;
    patch(fresh, true);
    if (answer.ok && button.value === "save") field().defaultValue = typed;
    if (button.value !== "try") marks();
    document.querySelector("#about [role=alert], #about [role=status], #tried [role]")?.scrollIntoView({ block: "nearest" });
  } catch {
    here.removeEventListener("submit", send);
    button.disabled = false;
    here.requestSubmit(button);
  } finally {
    button.disabled = false;
  }
}

function begin() {
  const here = form();
  if (!here) return;
  lines = [];
  nodes = [];
  marked = new Map();
  document.getElementById("layer").replaceChildren();
  draw();
  marks();
  here.addEventListener("submit", send);
  field().addEventListener("input", () => {
    draw();
    clearTimeout(waits);
    waits = setTimeout(check, PAUSE);
  });
}

export function start() {
  document.addEventListener("page", begin);
  document.addEventListener("keydown", (event) => {
    if (event.key !== "s" || !(event.ctrlKey || event.metaKey) || !form()) return;
    event.preventDefault();
    form().requestSubmit(form().querySelector("button[value=save]"));
  });
  // A form that is sent takes the text along.
  addEventListener("submit", (event) => { leaves = !event.defaultPrevented; });
  addEventListener("beforeunload", (event) => { if (unsaved() && !leaves) event.preventDefault(); });
  begin();
}
