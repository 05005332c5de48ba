// Live pages: each follows one stream of the server, and none while it is hidden.

import { busy, patch } from "./patch.js";
import { main, put, read, say } from "./swap.js";

/// The shortest time between two looks at the page that a stream asks for, and the time between two looks of the clock.
const PAUSE = 500, TICK = 10_000, BACK = 5_000;

let stream = null;
/// What the stream follows, and the id of the last event that came.
let followed = "", last = "";
let reading = false, again = false, before = "";
let waits = 0, looked = 0, returns = 0;

/// Reads this page again, and puts what has changed.
async function refresh(force = false) {
  if (reading) { again = true; return; }
  reading = true;
  again = false;
  looked = Date.now();
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
    const inParts = () => main().querySelector("[data-part]");
    const open = document.querySelector("dialog[open]");
    if (!inParts() && (open || busy(main()))) return;
    const page = await read(address);
    if (!page || address !== location.pathname + location.search) return;
    if (inParts() && page.fresh.querySelector("[data-part]")) return tell(patch(page.fresh, force));
    const text = page.fresh.textContent;
    if (!busy(main()) && text !== before) {
      before = text;
      if (main().textContent !== text) put(page, { keep: true });
    }
  } catch {
    say("The server does not answer. This page is as it was.");
  } finally {
    reading = false;
    if (again) soon();
  }
}

/// Tells those who do not see the page what came, and offers what was held back.
function tell({ came, gone, words }) {
  const button = document.getElementById("held");
  if (button) {
    const parts = [came && `${came} new`, gone && `${gone} gone`].filter(Boolean);
    button.hidden = parts.length === 0;
    button.textContent = `Show ${parts.join(", ")}`;
  }
  if (words.length) announce(words.length > 3 ? `${words.length} entries have changed.` : `${words.join(". ")}.`);
  document.dispatchEvent(new Event("patched"));
  follow();
}

export function announce(words) {
  const news = document.getElementById("news");
  if (news) news.textContent = words;
}

/// Looks at the page again, now or when the last look is some time ago.
function soon() {
  clearTimeout(waits);
  waits = setTimeout(refresh, Math.max(60, looked + PAUSE - Date.now()));
}

function stop() {
  clearTimeout(returns);
  stream?.close();
  stream = null;
}

function failed(event) {
  if (event.data) say("The server cannot read what has changed. This page is as it was.");
  if (stream?.readyState !== EventSource.CLOSED) return;
  // The session is over, or the place is not known any more: the page says so, or has another place.
  stop();
  followed = last = "";
  refresh();
  returns = setTimeout(follow, BACK);
}

/// Follows what the page shows.
export function follow() {
  const { stream: address, after } = main().dataset;
  if (stream && !document.hidden && followed === address) return;
  stop();
  if (document.hidden || !address) return;
  if (followed !== address) last = "";
  followed = address;
  const from = last || after;
  stream = new EventSource(address + (address.includes("?") ? "&" : "?") + `after=${encodeURIComponent(from)}`);
  const came = (event) => { last = event.lastEventId || last; soon(); };
  stream.addEventListener("record", came);
  stream.addEventListener("run", came);
  stream.addEventListener("delta", (event) => document.dispatchEvent(new CustomEvent("delta", { detail: JSON.parse(event.data) })));
  stream.addEventListener("end", () => { soon(); stop(); });
  stream.addEventListener("error", failed);
}

/// How long ago something was: as the server says it, and kept true.
function ago(at, now) {
  const seconds = Math.max(0, Math.floor((now - at) / 1000));
  if (seconds < 5) return "just now";
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
  const days = Math.floor(seconds / 86400);
  return `${days} day${days === 1 ? "" : "s"} ago`;
}

function tick() {
  if (document.hidden) return;
  for (const one of main().querySelectorAll("time[data-at]")) one.textContent = ago(Number(one.dataset.at), Date.now());
  // That the process of a run has died is no change in the journal.
  if (main().querySelector("[data-keyed] .mark.live") && main().dataset.stream) soon();
}

/// A part of a reply that is being written: what comes at the place of an earlier attempt stands for it.
function write({ detail }) {
  const place = main().querySelector("[data-said]");
  if (!place) return;
  const before = detail.offset === 0 ? "" : place.textContent;
  place.textContent = before + detail.text;
}

export function start() {
  document.addEventListener("delta", write);
  document.addEventListener("page", () => { before = main().textContent; follow(); });
  document.addEventListener("click", (event) => { if (event.target.id === "held") refresh(true); });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) refresh();
    follow();
  });
  setInterval(tick, TICK);
  before = main().textContent;
  follow();
}
