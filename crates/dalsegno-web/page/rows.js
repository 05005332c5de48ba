// A long timeline: the next window of rows is read when its end comes near, and the farthest one goes. At most four are kept.

import { main, read } from "./swap.js";

const KEPT = 4;
let watcher = null;
let reading = false;

async function more(table, body, side) {
  const address = body.dataset[side];
  if (!address || reading) return;
  reading = true;
  try {
    const page = await read(address);
    const fresh = page?.fresh.querySelector("tbody[data-from]");
    if (!fresh || !table.isConnected) return;
    if (side === "next") {
      body.after(fresh);
      const bodies = table.querySelectorAll("tbody[data-from]");
      if (bodies.length > KEPT) bodies[0].remove();
    } else {
      // What comes in above must not move what is read.
      const before = body.getBoundingClientRect().top;
      body.before(fresh);
      const bodies = table.querySelectorAll("tbody[data-from]");
      if (bodies.length > KEPT) bodies[bodies.length - 1].remove();
      const moved = body.getBoundingClientRect().top - before;
      if (Math.abs(moved) > 1) scrollBy(0, moved);
    }
  } finally {
    reading = false;
    watch(table);
  }
}

/// Watches for the ends of the rows that are there.
function watch(table) {
  watcher?.disconnect();
  const bodies = [...table.querySelectorAll("tbody[data-from]")];
  const first = bodies[0], last = bodies[bodies.length - 1];
  const ends = new Map();
  if (last?.dataset.next) ends.set(last.lastElementChild, [last, "next"]);
  if (first?.dataset.previous) ends.set(first.firstElementChild, [first, "previous"]);
  watcher = new IntersectionObserver((seen) => {
    for (const one of seen) {
      const end = one.isIntersecting && ends.get(one.target);
      if (end) more(table, ...end);
    }
  }, { rootMargin: "600px" });
  for (const end of ends.keys()) watcher.observe(end);
}

function begin() {
  watcher?.disconnect();
  const table = main().querySelector("table[data-windows]");
  if (table) watch(table);
}

export function start() {
  document.addEventListener("page", begin);
  document.addEventListener("rows", begin);
  begin();
}
