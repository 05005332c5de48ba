// What has changed, put into a page in its place: nothing moves under the pointer or the focus of a person.

import { main } from "./swap.js";

const fields = "input:not([type=hidden]), textarea, select";

/// Whether a person is in the middle of something in a part of the page.
export function busy(place) {
  if (place.contains(document.activeElement) && document.activeElement.matches(fields)) return true;
  return [...place.querySelectorAll("input:not([type=hidden]), textarea")].some((one) =>
    one.type === "checkbox" ? one.checked !== one.defaultChecked : one.value !== one.defaultValue);
}

/// Puts an element in place of another one; what had the focus in it has it again.
function replace(old, fresh) {
  const focused = old.contains(document.activeElement) ? document.activeElement.id : "";
  old.replaceWith(fresh);
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
}

/// Merges a list by the keys of its entries. While a person looks into it, entries neither come nor go: `held` counts them.
function merge(list, next, force, found) {
  const grows = list.dataset.keyed === "grows", still = list.dataset.keyed === "still";
  const looked = list.matches(":hover") || list.contains(document.activeElement) || scrollY > 120;
  const free = force || grows || !looked;
  const old = new Map([...list.children].map((one) => [one.dataset.key, one]));
  const keys = new Set();
  let last = null;
  for (const one of [...next.children]) {
    const { key, state, news } = one.dataset, had = old.get(key);
    keys.add(key);
    if (had) {
      const moved = had.dataset.state !== state;
      if (moved && news) found.words.push(news);
      const fits = still || grows ? !moved : had.isEqualNode(one);
      last = fits || busy(had) && !force ? had : one;
      if (last === one) replace(had, one);
    } else if (free) {
      if (news) found.words.push(news);
      if (last) last.after(one); else list.prepend(one);
      last = one;
    } else {
      found.came += 1;
    }
  }
  for (const [key, one] of old) {
    if (keys.has(key)) continue;
    if (free && (force || !busy(one))) one.remove(); else found.gone += 1;
  }
}

/// Puts the parts of a fresh `main` that differ into the one that is there, and returns what there is to tell.
export function patch(fresh, force = false) {
  const found = { came: 0, gone: 0, words: [] };
  for (const part of main().querySelectorAll("[data-part]")) {
    const other = fresh.querySelector(`#${part.id}`);
    if (!other || part.isEqualNode(other)) continue;
    const list = part.querySelector("[data-keyed]"), next = other.querySelector("[data-keyed]");
    if (list && next) { merge(list, next, force, found); continue; }
    if (busy(part) && !force) { found.gone += 1; continue; }
    if (next) found.words.push(...[...next.children].map((one) => one.dataset.news).filter(Boolean));
    replace(part, other);
  }
  for (const name of ["after", "stream"]) {
    if (fresh.dataset[name] === undefined) delete main().dataset[name]; else main().dataset[name] = fresh.dataset[name];
  }
  return found;
}
