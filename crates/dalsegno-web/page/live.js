// Live pages: a run follows its events, a list looks again now and then. One stream a page, and none while it is hidden.

import { main, put, read, say } from "./swap.js";

let stream = null;
let followed = "";
let timer = 0;
let reading = false;
let again = false;
let last = "";

/// Whether a person is in the middle of something that a fresh page would take away.
function busy() {
  const here = main();
  if (document.querySelector("dialog[open]") || here.contains(document.activeElement) && document.activeElement.matches("input, textarea, select")) return true;
  return [...here.querySelectorAll("input, textarea")].some((one) => one.type === "checkbox" ? one.checked !== one.defaultChecked : one.value !== one.defaultValue);
}

/// Reads this page again, and puts what has changed.
async function refresh() {
  if (reading) { again = true; return; }
  if (busy()) return;
  reading = true;
  again = false;
  const address = location.pathname + location.search;
  try {
    const bodies = main().querySelectorAll("tbody[data-from]");
    if (bodies.length > 1) {
      // A person has scrolled through windows of rows, which stay: only the last one grows.
      const end = bodies[bodies.length - 1];
      const grown = (await read(`${location.pathname}?from=${end.dataset.from}`))?.fresh.querySelector("tbody[data-from]");
      if (grown && end.isConnected) end.replaceWith(grown);
      document.dispatchEvent(new Event("rows"));
      return;
    }
    const page = await read(address);
    const text = page?.fresh.textContent ?? "";
    if (page && !busy() && address === location.pathname + location.search && text !== last) {
      const before = last;
      last = text;
      if (before !== "" && main().textContent !== text) put(page, { keep: true });
    }
  } catch {
    say("The server does not answer. This page is as it was.");
  } finally {
    reading = false;
    if (again) refresh();
  }
}

function stop() {
  stream?.close();
  stream = null;
  clearInterval(timer);
  timer = 0;
}

/// Follows what the page shows.
export function follow() {
  const { run, after, poll } = main().dataset;
  last = main().textContent;
  if (stream && !document.hidden && after !== undefined && followed === run) return;
  stop();
  if (document.hidden) return;
  if (run && after !== undefined && main().dataset.page === "run") {
    stream = new EventSource(`/v1/runs/${run}/events?after=${Math.max(0, Number(after) - 1)}`);
    followed = run;
    let waits = 0;
    const soon = () => { clearTimeout(waits); waits = setTimeout(refresh, 60); };
    stream.addEventListener("record", soon);
    stream.addEventListener("end", () => { soon(); stop(); });
  } else if (poll) {
    timer = setInterval(refresh, Number(poll));
  }
}

export function start() {
  document.addEventListener("page", follow);
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) refresh();
    follow();
  });
  follow();
}
