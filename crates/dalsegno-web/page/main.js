// Pages work without this. It adds: pages that change without a reload, keys, live updates, and rows that load as they are needed.

import * as editor from "./editor.js";
import * as keys from "./keys.js";
import * as live from "./live.js";
import * as rows from "./rows.js";
import { go, main } from "./swap.js";

// Only what shows a run is swapped: forms, and what signs in or out, are loaded as usual.
const swaps = /^\/(runs(\/[0-9a-f]+(\/steps\/\w+)?)?|inbox|diff|agents|tools|tenants)$/;

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href]");
  if (!link || event.defaultPrevented || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  const url = new URL(link.href);
  if (url.origin !== location.origin || !swaps.test(url.pathname) || link.hash && url.pathname + url.search === location.pathname + location.search) return;
  event.preventDefault();
  go(url.pathname + url.search + url.hash);
});

addEventListener("popstate", () => go(location.pathname + location.search + location.hash, { push: false }));

editor.start();
keys.start();
live.start();
rows.start();
const current = main()?.querySelector(".rail [aria-current]");
if (current) current.closest(".rail").scrollTop = Math.max(0, current.offsetTop - 200);
document.documentElement.dataset.ready = "yes";
