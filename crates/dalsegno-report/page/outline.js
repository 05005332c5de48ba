// The steps of a run. Only the rows that can be seen are elements, so that ten thousand are as quick as ten.

const ROW = 46;

class Outline {
  constructor(show) {
    this.list = byId("list");
    this.sheet = byId("sheet");
    this.show = show;
    this.rows = [];
    this.at = 0;
    this.found = new Set();
    this.list.addEventListener("scroll", () => requestAnimationFrame(() => this.draw()), { passive: true });
    addEventListener("resize", () => this.draw());
    this.sheet.addEventListener("click", (event) => {
      const row = event.target.closest("[data-row]");
      if (row) this.select(Number(row.dataset.row));
    });
  }

  open(rows) {
    this.rows = rows;
    this.found = new Set();
    this.sheet.style.height = `${rows.length * ROW}px`;
    this.select(Math.min(this.at, rows.length - 1));
  }

  select(at) {
    if (this.rows.length === 0) return;
    this.at = Math.max(0, Math.min(at, this.rows.length - 1));
    const top = this.at * ROW;
    if (top < this.list.scrollTop) this.list.scrollTop = top;
    else if (top + ROW > this.list.scrollTop + this.list.clientHeight) this.list.scrollTop = top + ROW - this.list.clientHeight;
    this.draw();
    this.show(this.at);
  }

  mark(found) {
    this.found = new Set(found);
    this.draw();
  }

  // The next match after the row, or the one before it.
  match(forward) {
    const found = [...this.found];
    const next = forward ? found.find((row) => row > this.at) ?? found[0] : found.findLast((row) => row < this.at) ?? found.at(-1);
    if (next !== undefined) this.select(next);
  }

  draw() {
    const first = Math.max(0, Math.floor(this.list.scrollTop / ROW) - 6);
    const last = Math.min(this.rows.length, Math.ceil((this.list.scrollTop + this.list.clientHeight) / ROW) + 6);
    const drawn = [];
    for (let index = first; index < last; index++) drawn.push(this.row(index));
    this.sheet.replaceChildren(...drawn);
    this.list.setAttribute("aria-activedescendant", `row-${this.at}`);
  }

  row(index) {
    const row = this.rows[index];
    const state = row.ops.some((op) => op.ok === false) || row.end === "failed" ? "bad" : row.ops.some((op) => op.ok === null) ? "open" : "good";
    const title = row.end ? row.end : row.ops.length === 0 ? "started" : row.ops.map((op) => op.label).join(", ");
    const ms = Math.max(0, ...row.ops.map((op) => op.ms));
    const tries = Math.max(0, ...row.ops.map((op) => op.tries));
    const notes = [ms > 0 ? span(ms) : null, tries > 1 ? count(tries, "attempt") : null, row.waited ? "waited" : null];
    const element = make("div", {
      class: `row ${state}${this.found.has(index) ? " found" : ""}`, id: `row-${index}`, role: "option", "data-row": index,
      "aria-selected": String(index === this.at), "aria-posinset": index + 1, "aria-setsize": this.rows.length,
    }, make("span", { class: "number" }, row.end ? "■" : row.n || "▶"), make("span", { class: "what" }, title),
    make("span", { class: "notes" }, notes.filter(Boolean).join(" · ")));
    element.style.top = `${index * ROW}px`;
    return element;
  }
}
