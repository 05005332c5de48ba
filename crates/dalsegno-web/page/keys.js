// Keys: every action of a page has one, and every one is an ordinary link or button too.

import { go, main, say } from "./swap.js";

let prefix = "";

const typing = (target) => target.matches?.("input:not([type=checkbox]), textarea, select, [contenteditable]");
const rows = () => [...main().querySelectorAll("a[data-open]")].filter((one) => one.offsetParent !== null);
const data = (name) => main().dataset[name];

/// Moves the focus among the rows, or the cards of an inbox.
function move(by) {
  const list = rows();
  const all = list.length ? list : [...main().querySelectorAll("[data-card]")];
  if (!all.length) return;
  const now = all.findIndex((one) => one === document.activeElement || one.contains(document.activeElement));
  const next = now < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, now + by));
  if (!all[next].matches("a")) all[next].tabIndex = -1;
  all[next].focus({ preventScroll: true });
  all[next].scrollIntoView({ block: "nearest" });
}

function step(name, words) {
  const to = data(name);
  if (to) go(to);
  else if (main().dataset.page === "step") say(words);
}

function page(name) {
  const to = data(name);
  if (to) go(to);
}

const commands = {
  j: () => (main().dataset.page === "step" ? step("next", "This is the end of the run.") : move(1)),
  k: () => (main().dataset.page === "step" ? step("previous", "This is the first step.") : move(-1)),
  ArrowRight: () => (main().dataset.page === "step" ? step("next", "This is the end of the run.") : document.activeElement?.matches("a[data-open]") && document.activeElement.click()),
  ArrowLeft: () => (main().dataset.page === "step" ? step("previous", "This is the first step.") : page("up")),
  u: () => page("up"),
  f: () => page("fork"),
  c: () => page("compare"),
  "/": () => {
    const field = main().querySelector("[data-filter]");
    if (field) { field.focus(); field.select(); } else go("/runs");
  },
  "?": () => document.getElementById("keys")?.showModal(),
  gr: () => go("/runs"),
  gi: () => go("/inbox"),
};

export function start() {
  const button = document.getElementById("keys-button");
  if (button) {
    button.hidden = false;
    button.addEventListener("click", commands["?"]);
  }
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || document.querySelector("dialog[open]")) return;
    if (event.key === "Escape" && typing(event.target)) return event.target.blur();
    if (typing(event.target)) return;
    const name = prefix + event.key;
    prefix = "";
    if (event.key === "g" && name === "g") { prefix = "g"; return; }
    const command = commands[name];
    if (!command) return;
    event.preventDefault();
    command();
  });
}
