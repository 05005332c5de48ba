// Starts the page: reads the file, opens the run, and follows the keys.

class App {
  constructor(core, facts) {
    this.core = core;
    this.facts = facts;
    this.seals = new Map(facts.seals.map((seal) => [seal.run, seal]));
    this.verdicts = new Map();
    this.runs = core.ask({ ask: "runs" });
    this.outline = new Outline((row) => this.showRow(row));
  }

  open(run) {
    this.run = run;
    const outline = this.core.ask({ ask: "outline", run });
    byId("run").value = run;
    const listed = this.runs.find((one) => one.run === run);
    byId("title").textContent = visible(`${listed.agent} ${short(run)}, ${listed.status}`);
    const notes = this.facts.notes.filter((note) => note.run === null || note.run === run).map((note) => note.text);
    if (outline.divergence) notes.push(`The steps are shown up to the place where the journal and the core part: ${outline.divergence}`);
    byId("notice").textContent = visible(notes.join(" "));
    byId("notice").hidden = notes.length === 0;
    byId("query").value = "";
    byId("matches").textContent = "";
    this.outline.at = 0;
    byId("list").scrollTop = 0;
    this.outline.open(outline.rows);
    this.verify();
  }

  showRow(row) {
    try {
      showStep(this, row);
    } catch (error) {
      byId("detail").replaceChildren(make("p", { class: "problem" }, error.message));
    }
  }

  // After the first step is on the screen: the digest of a long conversation takes a moment.
  verify() {
    const run = this.run;
    const badge = byId("verdict");
    const tell = () => {
      const found = this.verdicts.get(run);
      badge.textContent = found.verified ? "Verified" : found.checks.length > 0 ? "Not verified" : "No digests";
      badge.dataset.verdict = found.verified ? "yes" : "no";
      badge.title = found.words;
      document.documentElement.dataset.state = "ready";
    };
    if (this.verdicts.has(run)) return tell();
    badge.textContent = "Verifying…";
    badge.dataset.verdict = "open";
    setTimeout(() => {
      let found;
      try {
        found = this.core.ask({ ask: "verify", run, engine: this.seals.get(run) ?? null });
        found.words = found.verified ? "Each digest that this page computed equals the engine's."
          : found.checks.length > 0 ? "Some digests that this page computed differ from the engine's."
          : "The file has no digests of the engine for this run, so there is nothing to compare with.";
      } catch (error) {
        found = { verified: false, checks: [], words: error.message };
      }
      this.verdicts.set(run, found);
      if (this.run === run) tell();
    });
  }

  listRuns() {
    const depth = (run) => (run.parent ? 1 : 0);
    byId("run").replaceChildren(...this.runs.map((run) => make("option", { value: run.run, disabled: Boolean(run.trouble) },
      `${"\u00a0\u00a0".repeat(depth(run))}${short(run.run)} ${run.trouble ? "cannot be read" : `${run.agent} (${run.status})`}`)));
    byId("which").hidden = this.runs.length < 2;
    byId("run").value = this.run;
  }

  // Adds the runs of another file, and returns the one that it is about.
  async addFile(file) {
    const { archive, facts } = await archiveOf(file);
    const runs = this.core.add(archive);
    for (const seal of facts?.seals ?? []) if (!this.seals.has(seal.run)) this.seals.set(seal.run, seal);
    this.runs = this.core.ask({ ask: "runs" });
    this.listRuns();
    return facts?.root ?? runs.at(-1);
  }

  find(text) {
    const found = text === "" ? [] : this.core.ask({ ask: "find", run: this.run, text });
    this.outline.mark(found);
    byId("matches").textContent = text === "" ? "" : found.length === 0 ? "No match" : count(found.length, "match", "matches");
    return found;
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") {
      if (byId("keys").open) return;
      byId("list").focus();
      this.outline.select(this.outline.at);
      return;
    }
    if (/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) || byId("keys").open) return;
    const { outline } = this;
    const page = Math.max(1, Math.floor(byId("list").clientHeight / ROW) - 1);
    const inDetail = byId("detail").contains(event.target);
    const moves = { j: 1, k: -1, ...(inDetail ? {} : { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity }) };
    const actions = {
      "/": () => byId("query").focus(),
      "?": () => byId("keys").showModal(),
      n: () => outline.match(true),
      N: () => outline.match(false),
      e: () => document.querySelector("#detail .edit")?.click(),
      c: () => showCompare(this),
      v: () => this.verdicts.has(this.run) && showChecks(this),
    };
    if (event.key in moves) outline.select(outline.at + moves[event.key]);
    else if (event.key in actions) actions[event.key]();
    else return;
    event.preventDefault();
  }

  save(archive) {
    const link = make("a", { href: URL.createObjectURL(new Blob([archive])), download: `${short(this.facts.root)}.dalsegno` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }
}

async function start() {
  const lacks = missing();
  if (lacks) throw new Error(lacks);
  const facts = JSON.parse(byId("facts").textContent);
  const began = performance.now();
  const [code, archive] = await Promise.all([inflated(byId("core").textContent), inflated(byId("journal").textContent)]);
  const core = await Core.open(code, []);
  const read = performance.now();
  core.add(archive);
  const app = new App(core, facts);
  app.run = facts.root;
  app.listRuns();
  document.addEventListener("keydown", (event) => app.key(event));
  byId("run").addEventListener("change", (event) => app.open(event.target.value));
  let typing = 0;
  byId("query").addEventListener("input", (event) => {
    // A search reads all records: not for each letter of a word.
    clearTimeout(typing);
    typing = setTimeout(() => app.find(event.target.value), 120);
  });
  byId("query").addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    clearTimeout(typing);
    app.find(event.target.value);
    app.outline.match(true);
    byId("list").focus();
  });
  byId("help").addEventListener("click", () => byId("keys").showModal());
  byId("compare").addEventListener("click", () => showCompare(app));
  byId("verdict").addEventListener("click", () => app.verdicts.has(app.run) && showChecks(app));
  byId("save").addEventListener("click", () => app.save(archive));
  app.open(facts.root);
  // For those who measure: unpacking and compiling, then reading and folding all runs.
  document.documentElement.dataset.took = `${Math.round(read - began)} ${Math.round(performance.now() - read)}`;
  byId("list").focus();
  if (facts.with) showDiff(app, facts.with);
}

start().catch((error) => {
  byId("notice").textContent = visible(error.message);
  byId("notice").hidden = false;
  document.documentElement.dataset.state = "failed";
});
