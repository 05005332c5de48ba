// What would follow if an operation had another outcome.

const FAILURE = { failed: { code: "timeout", message: "the call took longer than allowed" } };

function openEditor(app, place, operation) {
  const text = make("textarea", { "aria-label": "Outcome as JSON", spellcheck: "false", rows: 10 });
  const result = make("div", { class: "result", "aria-live": "polite" });
  const write = (outcome) => { text.value = JSON.stringify(outcome, null, 2); };
  const run = () => {
    try {
      const outcome = JSON.parse(text.value);
      const found = app.core.ask({ ask: "edit", run: app.run, operation: operation.id, outcome });
      result.replaceChildren(showEdited(app, operation, found));
    } catch (error) {
      const words = error instanceof SyntaxError ? `this is not JSON: ${error.message}` : error.message;
      result.replaceChildren(make("p", { class: "problem" }, words));
    }
  };
  write(operation.outcome ?? FAILURE);
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) run();
    if (event.key === "Escape") { place.hidden = true; byId("list").focus(); }
    event.stopPropagation();
  });
  place.replaceChildren(
    make("h4", {}, "If the outcome were"), text,
    make("div", { class: "buttons" },
      make("button", { type: "button", class: "primary", onclick: run }, "Compute what follows"),
      make("button", { type: "button", onclick: () => write(operation.outcome ?? FAILURE) }, "As recorded"),
      make("button", { type: "button", onclick: () => write(FAILURE) }, "A failure"),
      make("button", { type: "button", onclick: () => { place.hidden = true; } }, "Close"),
      make("span", { class: "quiet" }, "Ctrl+Enter computes")),
    result);
  place.hidden = false;
  text.focus();
}

function showEdited(app, operation, found) {
  const next = found.now.step;
  const after = next - found.step;
  const kept = after < 2 ? "" : after === 2 ? `Step ${found.step + 1} asks for the same. ` : `Steps ${found.step + 1} to ${next - 1} ask for the same. `;
  const words = found.same ? "The run asks for the same to its end." : `${kept}${found.now.end ? "Then the run ends otherwise." : `Step ${next} asks for something else.`}`;
  return make("div", {},
    make("p", { class: found.same ? "verdict" : "verdict differs" }, words),
    make("div", { class: "sides" },
      showSide("Recorded", found.was, false),
      showSide("With your edit", found.now, true)),
    section(`How the state differs (${count(found.changes.length, "place")})`, false, changes(found.changes, "recorded", "edited")),
    make("p", { class: "quiet" }, "To run it for real, save the outcome to a file and fork the run: ",
      make("code", {}, `dalsegno fork ${short(app.run)} --set ${operation.id}=FILE`)));
}

function showSide(title, side, edited) {
  const requests = side === null ? [make("p", { class: "quiet" }, "The recorded step still waited.")] : side.requests.map((request) => make("section", { class: "would" },
    make("h5", {}, request.label, request.waits ? make("span", { class: "tag" }, "asks a person") : null),
    request.messages.length > 0 ? make("ol", { class: "messages" }, request.messages.map((message) => showMessage(message, true))) : json(request.request),
    edited && request.changes?.length > 0 ? section("What differs", true, changes(request.changes, "recorded", "edited")) : null,
    make("p", { class: "digest quiet" }, make("code", {}, request.digest))));
  const end = side?.end ? make("section", { class: "would" }, make("h5", {}, "The run ends"), json(side.end)) : null;
  const none = side !== null && requests.length === 0 && !end ? make("p", { class: "quiet" }, "Nothing is asked for.") : null;
  return make("div", { class: "side" }, make("h4", {}, title),
    side ? make("ul", { class: "decisions" }, side.decisions.map((decision) => make("li", {}, decision))) : null, ...requests, end, none);
}
