// Another page in place of this one, without a reload. The server renders every page; this puts its `main` where the old one was.
// `Document.parseHTML` makes no script of any text: where a browser does not have it, the page is loaded as usual.

const canSwap = typeof Document.parseHTML === "function";
let turn = 0;

export const main = () => document.getElementById("main");

/// Reads the markup of a page; nothing where the browser makes scripts of it.
export const parse = canSwap && ((text) => Document.parseHTML(text, { sanitizer: {} }));

/// Reads a page, and returns its `main` with its title; null where it is none for a swap.
export async function read(address, signal) {
  if (!canSwap) return null;
  const answer = await fetch(address, { headers: { accept: "text/html" }, signal, credentials: "same-origin" });
  // The session has ended: the server asks for a key on this very page.
  if (answer.status === 401) location.reload();
  const url = new URL(answer.url);
  if (!answer.ok || url.origin !== location.origin || !answer.headers.get("content-type")?.startsWith("text/html")) return null;
  const page = parse(await answer.text());
  const fresh = page.getElementById("main");
  return fresh && { fresh, title: page.title, address: url.pathname + url.search };
}

/// Puts a `main` in place of the one that is there.
export function put({ fresh, title }, { keep = false } = {}) {
  const old = main();
  const focused = keep ? document.activeElement?.id : "";
  const open = keep ? [...old.querySelectorAll("details[open]")].map((one) => one.parentElement.id + [...one.parentElement.children].indexOf(one)) : [];
  const rail = old.querySelector(".rail")?.scrollTop ?? 0;
  old.replaceWith(fresh);
  document.title = title;
  for (const one of fresh.querySelectorAll("details")) {
    if (open.includes(one.parentElement.id + [...one.parentElement.children].indexOf(one))) one.open = true;
  }
  const pane = fresh.querySelector(".rail");
  if (pane) pane.scrollTop = rail;
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  document.dispatchEvent(new Event("page"));
}

/// Goes to an address of this server.
export async function go(address, { push = true } = {}) {
  const mine = ++turn;
  // A text that is edited is left as a browser leaves a page: it asks.
  if (main().querySelector("form[data-check]")) { location.assign(address); return; }
  try {
    const page = await read(address);
    if (mine !== turn) return;
    if (!page) throw new Error("no page to put here");
    if (push) history.pushState({}, "", address);
    put(page);
    show(new URL(address, location.href).hash);
  } catch {
    if (mine === turn) location.assign(address);
  }
}

/// Shows the place that an address names, else the beginning.
function show(hash) {
  const target = hash.length > 1 ? document.getElementById(hash.slice(1)) : null;
  if (target) target.scrollIntoView({ block: "start" });
  else scrollTo(0, 0);
  const pane = main().querySelector(".rail");
  const current = pane?.querySelector("[aria-current]");
  if (current) pane.scrollTop = Math.max(0, current.offsetTop - pane.clientHeight / 2);
  (target ?? main()).focus({ preventScroll: true });
}

export function say(words) {
  const status = document.getElementById("status");
  if (!status) return;
  status.textContent = words;
  clearTimeout(say.timer);
  say.timer = setTimeout(() => { status.textContent = ""; }, 4000);
}
