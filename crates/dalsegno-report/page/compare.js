// Two runs side by side, and the digests of one.

function showCompare(app, problem = null) {
  const others = app.runs.filter((run) => run.run !== app.run && !run.trouble);
  const choice = make("select", { "aria-label": "Other run" }, others.map((run) => make("option", { value: run.run }, `${short(run.run)} ${run.agent}: ${run.text.slice(0, 60)}`)));
  const file = make("input", { type: "file", accept: ".html,.dalsegno", "aria-label": "Another report or archive" });
  file.addEventListener("change", async () => {
    if (!file.files[0]) return;
    try {
      const runs = await app.addFile(file.files[0]);
      showDiff(app, runs);
    } catch (error) {
      showCompare(app, error.message);
    }
  });
  byId("detail").replaceChildren(
    make("header", {}, make("h2", {}, `Compare run ${short(app.run)}`)),
    problem ? make("p", { class: "problem" }, problem) : "",
    others.length > 0 ? make("p", {}, "With a run in this file: ", choice, " ", make("button", { type: "button", class: "primary", onclick: () => showDiff(app, choice.value) }, "Compare")) : "",
    make("p", {}, "With another report or archive: ", file),
    make("p", { class: "quiet" }, "The file is read on this computer and sent nowhere."));
}

function showDiff(app, other) {
  let diff;
  try {
    diff = app.core.ask({ ask: "diff", left: app.run, right: other });
  } catch (error) {
    showCompare(app, error.message);
    return;
  }
  const side = (name, one) => make("div", { class: "side" }, make("h4", {}, name), make("dl", { class: "facts" },
    ...[["run", short(one.run_id)], ["agent", one.agent], ["status", one.status], ["steps", one.steps]].flatMap(([key, value]) => [make("dt", {}, key), make("dd", {}, value)])),
    one.end ? longText(one.end, "p", { class: "said" }) : null);
  const place = (title, found) => found ? section(`${title} at step ${found.step}: ${found.label}`, true, changes(found.changes, "left", "right")) : "";
  byId("detail").replaceChildren(
    make("header", {}, make("h2", {}, "Comparison"), make("button", { type: "button", onclick: () => showCompare(app) }, "Choose another")),
    make("p", { class: diff.identical ? "verdict" : "verdict differs", id: "diff" }, diff.identical
      ? "Both asked for the same, had the same outcomes and came to the same end."
      : `The first difference is at step ${diff.first.step}: ${diff.first.kind}, ${diff.first.label}.`),
    make("div", { class: "sides" }, side("Left", diff.left), side("Right", diff.right)),
    place("First difference", diff.first), place("Prompts", diff.prompt), place("Arguments", diff.arguments),
    diff.state.length > 0 ? section("State after it", false, changes(diff.state, "left", "right")) : "");
  byId("detail").scrollTop = 0;
}

function showChecks(app) {
  const found = app.verdicts.get(app.run);
  const row = (check) => make("tr", { class: check.equal ? "" : "differs" }, make("th", { scope: "row" }, check.what),
    make("td", { "data-side": "engine" }, make("code", {}, check.engine)), make("td", { "data-side": "this page" }, make("code", {}, check.here)), make("td", {}, check.equal ? "equal" : "different"));
  byId("detail").replaceChildren(
    make("header", {}, make("h2", {}, "Digests")),
    make("p", { class: found.verified ? "verdict" : "verdict differs" }, found.words),
    found.checks.length > 0 ? make("div", { class: "wide" }, make("table", { id: "checks" }, make("thead", {}, make("tr", {},
      ["", "engine, when it wrote the file", "this page, now", ""].map((name) => make("th", {}, name)))), make("tbody", {}, found.checks.map(row)))) : json(found.here ?? {}),
    make("p", { class: "quiet" }, "The engine computed its digests when it wrote this file. This page folded the journal again and computed its own. Equal digests say that both have the same steps; they do not say who wrote the file."));
}
