// One step, with all that was known, asked for and answered.

const MESSAGES = 20;

function showStep(app, row) {
  const detail = app.core.ask({ ask: "step", run: app.run, row });
  const end = detail.end;
  const title = app.outline.rows[row].end ? `End: ${app.outline.rows[row].end}` : detail.n === 0 ? "Start" : `Step ${detail.n}`;
  const about = row === 0 ? app.runs.find((run) => run.run === app.run) : null;
  byId("detail").replaceChildren(
    make("header", {}, make("h2", {}, title), make("p", { class: "quiet" }, time(app.outline.rows[row].at))),
    about ? make("div", { class: "asked" }, make("h3", {}, `Agent ${about.agent} was asked`), longText(about.text, "p", { class: "said" })) : "",
    detail.decisions.length > 0 ? make("ul", { class: "decisions" }, detail.decisions.map((decision) => make("li", {}, decision))) : "",
    ...detail.operations.map((operation) => showOperation(app, row, operation)),
    end ? make("div", { class: "asked" }, make("h3", {}, end.answer ? "Answer" : end.error ? "Error" : "Response"),
      longText(end.answer ?? end.error?.message ?? "", "p", { class: "said" }), section("Whole response", false, json(end))) : "",
    section(`What changed in the state (${count(detail.changes.length, "place")})`, detail.changes.length > 0 && detail.changes.length < 8, changes(detail.changes)),
    section("State", false, json(detail.state)),
    section(`Records (${detail.records.length})`, false, showRecords(detail.records)),
    make("p", { class: "digest quiet" }, "Course up to here: ", make("code", {}, detail.course)),
  );
  byId("detail").scrollTop = 0;
}

function showOperation(app, row, operation) {
  const done = operation.outcome !== null;
  const failed = done && ("failed" in Object(operation.outcome) || operation.outcome.tool_returned?.is_error === true);
  const card = make("section", { class: `operation ${failed ? "bad" : done ? "good" : "open"}`, "data-operation": operation.id });
  const editor = make("div", { class: "editor", hidden: true });
  const edit = make("button", { type: "button", class: "edit", onclick: () => openEditor(app, editor, operation) }, done ? "Edit outcome" : "Give an outcome");
  const child = operation.child && app.runs.some((run) => run.run === operation.child && !run.trouble)
    ? make("button", { type: "button", onclick: () => app.open(operation.child) }, `Open run ${short(operation.child)}`) : null;
  card.append(
    make("header", {}, make("h3", {}, operation.label), make("span", { class: "tags" },
      make("span", { class: "tag" }, operation.class), operation.gate ? make("span", { class: "tag" }, "gate") : null,
      operation.parent ? make("span", { class: "tag" }, "part") : null), child, operation.parent ? null : edit),
    operation.prompt ? showPrompt(app, row, operation) : section("Request", true, json(operation.request)),
    done ? section("Outcome", true, showOutcome(operation.outcome)) : make("p", { class: "quiet" }, "No outcome is recorded."),
    editor,
    make("p", { class: "digest quiet" }, "Request digest ", make("code", {}, operation.digest), " · operation ", make("code", {}, operation.id)),
  );
  return card;
}

function showOutcome(outcome) {
  const reply = outcome.model_replied;
  if (!reply) return json(outcome);
  const parts = reply.parts.map((part) => part.text !== undefined ? longText(part.text, "p", { class: "said" })
    : part.call ? make("div", { class: "call" }, make("strong", {}, `calls ${part.call.name}`), longText(part.call.arguments, "pre", { class: "json" })) : json(part));
  return make("div", {}, ...parts, section("As recorded", false, json(outcome)));
}

function showPrompt(app, row, operation) {
  const { total, new: fresh, model } = operation.prompt;
  const list = make("ol", { class: "messages" });
  const from = Math.max(0, total - Math.max(fresh, 1));
  let first = total;
  const load = (until) => {
    const start = Math.max(0, Math.min(until, first - MESSAGES));
    const found = app.core.ask({ ask: "messages", run: app.run, row, operation: operation.id, from: start, count: first - start });
    list.prepend(...found.map((message) => showMessage(message, message.index >= from)));
    first = start;
    more.hidden = first === 0;
    more.textContent = `Show ${count(Math.min(first, MESSAGES), "earlier message")} of ${first.toLocaleString("en")}`;
  };
  const more = make("button", { type: "button", class: "more", onclick: () => load(first - MESSAGES) }, "");
  load(Math.max(from, total - MESSAGES));
  return section(`Prompt to ${model}: ${count(total, "message")}, ${fresh} new`, true, more, list,
    section("Request", false, json(operation.request)));
}

function showMessage(message, fresh) {
  return make("li", { class: `message${fresh ? " fresh" : ""}`, value: message.index + 1 },
    make("span", { class: "kind" }, message.kind + (fresh ? " · new" : "")), longText(message.text, "p", { class: "said" }));
}

function showRecords(records) {
  const row = (record) => make("tr", {}, make("td", {}, record.seq), make("td", {}, time(record.at)),
    make("td", {}, record.kind), make("td", {}, record.operation ? make("code", {}, short(record.operation)) : ""),
    make("td", {}, make("code", {}, record.link)), make("td", {}, record.note ? section("content", false, json(record.note)) : ""));
  return make("div", { class: "wide" }, make("table", {}, make("thead", {}, make("tr", {},
    ["record", "time", "kind", "operation", "link in the chain", ""].map((name) => make("th", {}, name)))), make("tbody", {}, records.map(row))));
}
