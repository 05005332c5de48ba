//! The pages of `dalsegno serve`, as a person uses them: with a keyboard.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::thread;

use serde_json::Value;

use crate::chromium::Chromium;
use crate::support::Workspace;
use crate::{HOSTILE, desk, found};

/// A server process, with the link that it prints.
pub(crate) struct Served {
    child: Child,
    link: String,
    pub(crate) place: String,
}

impl Served {
    pub(crate) fn start(workspace: &Workspace) -> Self {
        let arguments = ["serve", "--address", "127.0.0.1:0", "--format", "jsonl", "--sign-in-link"];
        let mut command = workspace.command(&arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let first: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        // What it tells further is read, so that it never waits for a reader.
        thread::spawn(move || lines.for_each(drop));
        let link = first["sign_in_link"].as_str().unwrap().to_owned();
        let place = format!("http://{}", first["address"].as_str().unwrap());
        Self { child, link, place }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_sign_in_link_is_printed_where_it_is_asked_for_and_not_into_a_log() {
    let workspace = desk("10");
    for (is_asked, expected) in
        [(false, "no active access key"), (true, "open the debugger: http://127.0.0.1:")]
    {
        let mut arguments = vec!["serve", "--address", "127.0.0.1:0"];
        arguments.extend(is_asked.then_some("--sign-in-link"));
        let mut child =
            workspace.command(&arguments).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let first = lines.next().unwrap().unwrap();
        let second = lines.next().unwrap().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(first.starts_with("serves at http://127.0.0.1:"), "{first}");
        assert!(second.starts_with(expected), "{second}");
    }
}

/// The same desk, whose tool waits for a person.
pub(crate) fn guarded(said: &str) -> Workspace {
    let workspace = desk(said);
    workspace.write(
        "agents/desk.toml",
        "name = \"desk\"\ndescription = \"Pays back.\"\n[model]\nuse = \"default\"\n\
         [tools]\nallow = [\"refunds.*\"]\napprove = [\"refunds.*\"]\n",
    );
    workspace
}

/// A browser that is signed in, on the list of runs.
fn signed_in(browser: &std::path::Path, served: &Served) -> Chromium {
    let mut page = Chromium::online(browser);
    page.size(1440, 900);
    page.visit(&served.link);
    page.until("location.pathname === '/runs'");
    page
}

/// Looks for what keeps people out of a page, where `DALSEGNO_AXE` names the file `axe.min.js` of the npm package `axe-core`.
fn accessible(page: &mut Chromium, place: &str) {
    let Some(file) = std::env::var_os("DALSEGNO_AXE") else { return };
    let script = std::fs::read_to_string(file).unwrap();
    page.ask(&format!("{script};0"));
    let rules = "{ runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] }";
    let found = page.ask(&format!(
        "axe.run(document, {rules}).then((all) => all.passes.length < 10 ? ['axe did not run'] : all.violations.map((one) => `${{one.id}}: ${{one.nodes.map((node) => node.target)}}`))"
    ));
    assert_eq!(found, serde_json::json!([]), "{place}");
}

/// The same on a wide screen and on a small one, light and dark.
fn everywhere(page: &mut Chromium, place: &str) {
    for width in [320, 1440] {
        page.size(width, 800);
        page.until(&format!("innerWidth === {width}"));
        let light = page.text("getComputedStyle(document.body).backgroundColor");
        accessible(page, &format!("{place} at {width}"));
        page.dark(true);
        page.until(&format!("getComputedStyle(document.body).backgroundColor !== '{light}'"));
        accessible(page, &format!("{place} at {width}, dark"));
        page.dark(false);
        page.until(&format!("getComputedStyle(document.body).backgroundColor === '{light}'"));
    }
}

const H1: &str = "document.querySelector('h1').textContent";

#[test]
fn a_live_run_is_found_stepped_and_left_with_keys_alone() {
    let Some(browser) = found() else { return };
    let workspace = desk(&HOSTILE.replace("{{script}}", ""));
    let served = Served::start(&workspace);
    let mut page = signed_in(&browser, &served);
    page.until("document.querySelector('.empty h2')?.textContent === 'No runs yet'");
    // A run of another process appears without a reload.
    page.ask("window.before = true");
    workspace.succeed(&["run", "desk", "Please."]);
    page.until("document.querySelectorAll('a[data-open]').length === 1");
    assert_eq!(page.ask("window.before"), true);
    page.press("j");
    page.press("Enter");
    page.until(&format!("{H1} === 'desk'"));
    page.press("j");
    page.press("j");
    page.press("Enter");
    page.until(&format!("{H1} === 'Step 2'"));
    for (key, title) in [("ArrowRight", "Step 3"), ("j", "End"), ("k", "Step 3"), ("ArrowLeft", "Step 2")] {
        page.press(key);
        page.until(&format!("{H1} === '{title}'"));
    }
    // What the tool returned is text, however it looks.
    page.until("document.querySelector('main').textContent.includes('<img src=x onerror=')");
    assert_eq!(page.ask("document.querySelectorAll('main img, main script').length"), 0);
    assert_ne!(page.text("document.title"), "taken");
    page.press("u");
    page.until(&format!("{H1} === 'desk'"));
    page.ask("history.back()");
    page.until(&format!("{H1} === 'Step 2'"));
    page.press("?");
    page.until("document.getElementById('keys').open");
    page.press("Escape");
    page.press("g");
    page.press("i");
    page.until(&format!("{H1} === 'Inbox'"));
    assert_eq!(page.ask("window.before"), true, "no page was loaded anew");
    assert_eq!(page.troubles(), Vec::<&Value>::new());
}

#[test]
fn a_call_is_approved_with_edited_arguments_then_forked_with_an_edited_outcome_and_compared() {
    let Some(browser) = found() else { return };
    let workspace = guarded("10");
    workspace.dalsegno(&["run", "desk", "Please."]);
    let served = Served::start(&workspace);
    let mut page = signed_in(&browser, &served);
    page.visit(&format!("{}/inbox", served.place));
    page.until("document.querySelector('details summary')");
    page.ask("document.querySelector('details summary').focus()");
    page.press("Enter");
    page.until("document.querySelector('details').open");
    page.press("Tab");
    page.until("document.activeElement.name === 'arguments'");
    page.ask("document.activeElement.select()");
    page.write("{ \"note\": \"5\" }");
    page.ask("document.querySelector('button[value=approve]').focus()");
    page.press("Enter");
    page.until("document.querySelector('.done')?.textContent.includes('recorded')");
    page.visit(&format!("{}/runs", served.place));
    page.until("document.querySelector('.mark.good')?.textContent === 'completed'");
    page.press("j");
    page.press("Enter");
    page.until("document.body.innerText.includes('Paid: 5')");
    let first = page.text("location.pathname");
    page.visit(&format!("{}{first}/steps/2", served.place));
    page.until("document.body.innerText.includes('put here by the person who approved the call')");
    page.ask("document.querySelector('.operation header a.button').focus()");
    page.press("Enter");
    page.until("document.getElementById('outcome')");
    let recorded = page.text("document.getElementById('outcome').value");
    assert!(recorded.contains("Paid: 5"), "{recorded}");
    page.ask("document.getElementById('outcome').select()");
    page.write("{ \"outcome\": 3 }");
    page.ask("document.querySelector('button[type=submit].primary').focus()");
    page.press("Enter");
    page.until("document.querySelector('[role=alert]')");
    page.ask("document.getElementById('outcome').select()");
    page.write(&recorded.replace("Paid: 5", "Nothing was paid"));
    page.ask("document.querySelector('button[type=submit].primary').focus()");
    page.press("Enter");
    page.until("document.querySelector('.origin')?.textContent.includes('1 outcome replaced')");
    page.until("document.querySelector('.mark.good')?.textContent === 'completed'");
    page.ask("[...document.querySelectorAll('.origin a')].at(-1).focus()");
    page.press("Enter");
    page.until("document.querySelector('.verdict.differs')");
    let shown = page.text("document.querySelector('main').innerText");
    assert!(shown.contains("Paid: 5") && shown.contains("Nothing was paid"), "{shown}");
    // The outcome that did not fit.
    let troubles = page.troubles();
    assert!(troubles.len() == 1 && troubles[0].to_string().contains("status of 422"), "{troubles:?}");
}

#[test]
fn a_run_that_is_looked_at_grows_by_its_stream() {
    let Some(browser) = found() else { return };
    let workspace = guarded("10");
    workspace.dalsegno(&["run", "desk", "Please."]);
    let served = Served::start(&workspace);
    let mut page = signed_in(&browser, &served);
    page.until("document.querySelector('a[data-open]')");
    page.press("j");
    page.press("Enter");
    page.until("document.querySelector('.head .mark.wait') && document.querySelector('.waits')");
    page.ask("window.before = true");
    // Another process continues it.
    workspace.succeed(&["resume", "last", "--approve", "--shown", &workspace.seen()]);
    page.until("document.querySelector('.head .mark.good') && document.getElementById('row-end')");
    page.until("!document.querySelector('.waits') && document.body.innerText.includes('Paid: 10')");
    assert_eq!(page.ask("window.before"), true, "the page was not loaded anew");
    assert_eq!(page.troubles(), Vec::<&Value>::new());
}

#[test]
fn pages_fit_a_small_screen_are_dark_where_a_person_wants_it_and_ask_for_a_key_when_the_session_ends() {
    let Some(browser) = found() else { return };
    let workspace = guarded(&"long-".repeat(60));
    // Another way to sign in, by a provider that does not answer.
    let settings = std::fs::read_to_string(workspace.path("dalsegno.toml")).unwrap();
    let provider = "\n[serve.oidc]\nissuer = \"http://127.0.0.1:9/\"\naudience = [\"pages\"]\ntenant = \"*\"\n\
         [serve.oidc.scopes]\nreader = [\"runs:read\"]\n[serve.oidc.sign_in]\nclient_id = \"pages\"\n";
    workspace.write("dalsegno.toml", &format!("{settings}{provider}"));
    workspace.write("tenants/acme.toml", "name = \"acme\"\ndescription = \"A tenant with a document.\"\n");
    workspace.dalsegno(&["run", "desk", &"word ".repeat(80), "--session", "talk"]);
    let served = Served::start(&workspace);
    // Before anybody is signed in: both ways in, and a provider that cannot be asked.
    let mut stranger = Chromium::online(&browser);
    stranger.visit(&format!("{}/sign-in", served.place));
    stranger.until("document.querySelector('a[href^=\"/sign-in/oidc\"], form[action^=\"/sign-in/oidc\"]')");
    everywhere(&mut stranger, "/sign-in");
    stranger.visit(&format!("{}/sign-in/oidc", served.place));
    stranger.until("document.querySelector('h1')");
    everywhere(&mut stranger, "/sign-in/oidc");
    let mut page = signed_in(&browser, &served);
    page.until("document.querySelector('a[data-open]')");
    let run = page.text("document.querySelector('a[data-open]').getAttribute('href')");
    let id = run.trim_start_matches("/runs/").to_owned();
    // What the parameters of an address add to a page.
    let further = [
        "/inbox?kind=approval".to_owned(),
        "/runs?status=suspended&agent=desk".to_owned(),
        format!("/diff?left={id}&right={id}"),
        "/chat?agent=desk&session=talk&tenant=default".to_owned(),
        format!("{run}?from=end"),
        "/nothing/here".to_owned(),
    ];
    for place in further {
        page.visit(&format!("{}{place}", served.place));
        page.until(&format!(
            "location.pathname + location.search === '{place}' && document.querySelector('h1')"
        ));
        page.ask("document.querySelectorAll('details').forEach((one) => { one.open = true })");
        everywhere(&mut page, &place);
    }
    let places = [
        "/runs",
        &run,
        &format!("{run}/steps/1"),
        &format!("{run}/steps/2"),
        "/inbox",
        "/diff",
        "/agents",
        "/agents/desk",
        "/tools",
        "/tools/refunds",
        "/tenants",
        "/tenants/acme",
        "/tenants/acme/tools",
        "/chat",
        &format!("{run}/replay"),
        &format!("{run}/fork"),
    ];
    for place in places {
        page.visit(&format!("{}{place}", served.place));
        page.until(&format!("location.pathname === '{place}'"));
        for width in [320, 768, 1440] {
            page.size(width, 800);
            page.until(&format!("innerWidth === {width}"));
            assert!(
                page.ask("document.documentElement.scrollWidth").as_u64() <= Some(width.into()),
                "{place} {width}"
            );
        }
        everywhere(&mut page, place);
        // Every control has a name.
        let nameless = "[...document.querySelectorAll('input:not([type=hidden]), select, textarea, button, a[href]')]\
             .filter((one) => !(one.labels?.length || one.ariaLabel || one.textContent.trim())).length";
        assert_eq!(page.ask(nameless), 0, "{place}");
    }
    // The link is used up.
    page.visit(&served.link);
    page.until("document.querySelector('[role=alert]')?.textContent.includes('used before')");
    let keys = workspace.json(&["key", "list"]);
    let session = keys[0]["id"].as_str().or(keys["keys"][0]["id"].as_str()).unwrap().to_owned();
    page.visit(&format!("{}/runs", served.place));
    page.until(&format!("{H1} === 'Runs'"));
    workspace.succeed(&["key", "revoke", &session]);
    // The list looks again by itself, and the server asks for a key.
    page.until(&format!("{H1} === 'Sign in'"));
}

#[test]
fn a_long_run_has_few_rows_on_the_page_however_far_it_is_scrolled() {
    let Some(browser) = found() else { return };
    let workspace = desk("10");
    let step = |number: usize| {
        format!("[[steps]]\nid = \"s{number}\"\nmemory_search = {{ query = \"{number}\", limit = 1 }}\n")
    };
    let steps: String = (0..750).map(step).collect();
    workspace.write("agents/long.toml", &format!("name = \"long\"\n[limits]\nmax_steps = 1000\n{steps}"));
    workspace.succeed(&["run", "long", "Please."]);
    let served = Served::start(&workspace);
    let mut page = signed_in(&browser, &served);
    page.until("document.querySelector('a[data-open]')");
    page.press("j");
    page.press("Enter");
    page.until("document.querySelectorAll('tr[data-row]').length === 100");
    let scroll = "(scrollTo(0, document.documentElement.scrollHeight), document.querySelectorAll('tr[data-row]').length <= 400)";
    page.until(&format!("{scroll} && document.getElementById('row-end')"));
    assert!(page.ask("document.querySelectorAll('tr[data-row]').length").as_u64() <= Some(400));
    assert_eq!(
        page.ask("document.querySelector('td.step').textContent !== '1'"),
        true,
        "the first rows are gone"
    );
    let back = "(scrollTo(0, 0), document.querySelectorAll('tr[data-row]').length <= 400)";
    page.until(&format!("{back} && document.querySelector('td.step').textContent === '1'"));
    // Any step is there at once, with the rows around it.
    let run = page.text("location.pathname");
    page.visit(&format!("{}{run}/steps/600", served.place));
    page.until(&format!("{H1} === 'Step 600' && document.querySelectorAll('.rail li').length === 100"));
    assert_eq!(page.troubles(), Vec::<&Value>::new());
}

/// A browser that is signed in with a key that changes documents.
pub(crate) fn operator(browser: &std::path::Path, workspace: &Workspace, served: &Served) -> Chromium {
    let scopes = [
        "runs:list",
        "runs:read",
        "runs:write",
        "answers:write",
        "agents:read",
        "agents:write",
        "tools:read",
        "tools:write",
    ];
    let mut arguments = vec!["key", "add", "--all-tenants"];
    arguments.extend(scopes.iter().flat_map(|scope| ["--scope", scope]));
    let key = workspace.json(&arguments)["key"].as_str().unwrap().to_owned();
    let mut page = Chromium::online(browser);
    page.size(1440, 900);
    page.visit(&format!("{}/sign-in", served.place));
    page.until("document.getElementById('key')");
    page.ask("document.getElementById('key').focus()");
    page.write(&key);
    page.press("Enter");
    page.until("location.pathname === '/runs'");
    page
}

#[test]
fn a_broken_tool_is_underlined_while_a_person_types_and_one_that_is_mended_is_saved_with_keys_alone() {
    let Some(browser) = found() else { return };
    let workspace = desk("10");
    let served = Served::start(&workspace);
    let mut page = operator(&browser, &workspace, &served);
    page.visit(&format!("{}/tools", served.place));
    page.until("document.querySelector('a[data-open]')");
    page.press("j");
    page.press("Enter");
    page.until(&format!("{H1} === 'refunds'"));
    page.ask("window.before = true; document.getElementById('text').focus(); document.getElementById('text').select()");
    let tool = std::fs::read_to_string(workspace.path("tools/refunds.json"))
        .unwrap()
        .replace("Pays a sum back.", HOSTILE_TOOL);
    page.write(&tool.replace("\"respond\"", "\"recpond\""));
    page.until("document.querySelector('#layer mark')");
    page.until("document.getElementById('verdict').textContent.includes('cannot be saved')");
    assert_eq!(page.text("document.querySelector('#layer mark').textContent"), "\"recpond\"");
    // The marks lie exactly where the words are: both layers break lines alike.
    for width in [320, 1440] {
        page.size(width, 900);
        page.until(&format!("innerWidth === {width}"));
        assert!(page.ask("document.documentElement.scrollWidth").as_u64() <= Some(width.into()), "{width}");
        let over = "document.getElementById('text').scrollHeight <= document.getElementById('layer').offsetHeight + 1";
        assert_eq!(page.ask(over), true, "{width}");
    }
    everywhere(&mut page, "/tools/refunds with an error");
    page.ask("document.getElementById('text').select()");
    page.write(&tool);
    page.until("!document.querySelector('#layer mark.error') && document.getElementById('verdict').textContent !== ''");
    page.press_with("s", 2);
    page.until("document.querySelector('#about .done')?.textContent.startsWith('Saved')");
    page.until("document.querySelectorAll('.versions tbody tr').length === 1");
    assert_eq!(page.ask("window.before"), true, "the page was not loaded anew");
    assert_eq!(page.ask("document.querySelectorAll('main img, main script').length"), 0);
    assert_ne!(page.text("document.title"), "taken");
    // Another writer is faster: nothing that was typed is lost.
    page.ask("fetch('/v1/tools/refunds', { method: 'PUT', headers: { 'content-type': 'application/json', 'if-match': '*' }, \
              body: document.getElementById('text').value.replace('Paid', 'Given') }).then((answer) => answer.status)");
    page.ask("document.getElementById('text').select()");
    page.write(&tool.replace("Paid", "Mine"));
    page.press_with("s", 2);
    page.until("document.querySelector('.stale del')?.textContent.includes('Paid')");
    assert!(page.text("document.querySelector('.stale ins').textContent").contains("Given"));
    assert!(page.text("document.getElementById('text').value").contains("Mine"));
    page.press_with("s", 2);
    page.until("document.querySelector('#about .done') && document.querySelectorAll('.versions tbody tr').length === 3");
    assert!(
        std::fs::read_to_string(workspace.path("tools/refunds.json")).unwrap().contains("Paid"),
        "the file is as it was"
    );
}

#[test]
fn a_conversation_is_held_with_a_keyboard_and_its_call_is_approved_in_place() {
    let Some(browser) = found() else { return };
    let workspace = guarded("10");
    let served = Served::start(&workspace);
    let mut page = signed_in(&browser, &served);
    page.visit(&format!("{}/chat?agent=desk", served.place));
    page.until("document.getElementById('message')");
    page.ask("document.getElementById('message').focus()");
    page.write("Please pay <b>10</b>.");
    page.press("Tab");
    page.press("Enter");
    page.until("document.querySelector('.turn .waits')");
    assert_eq!(page.ask("document.querySelectorAll('.turn b').length"), 0, "a message is text");
    // A message that is being typed outlives what comes in above it.
    page.ask("document.querySelector('button[value=approve]').focus()");
    page.press("Enter");
    page.until("document.querySelector('.turn .mark.good') && !document.querySelector('.waits')");
    page.until("document.querySelector('.theirs .said').textContent.includes('Paid: 10')");
    accessible(&mut page, "/chat");
    page.size(320, 800);
    page.until("innerWidth === 320");
    assert!(page.ask("document.documentElement.scrollWidth").as_u64() <= Some(320));
    assert_eq!(page.troubles(), Vec::<&Value>::new());
}

#[test]
fn rows_neither_come_nor_go_under_the_focus_and_are_told_to_who_does_not_see_them() {
    let Some(browser) = found() else { return };
    let workspace = desk("10");
    workspace.succeed(&["run", "desk", "First."]);
    let served = Served::start(&workspace);
    let mut page = signed_in(&browser, &served);
    page.until("document.querySelector('a[data-open]')");
    page.press("j");
    let place = "document.activeElement.getBoundingClientRect().top";
    let before = page.text(place);
    workspace.succeed(&["run", "desk", "Second."]);
    page.until("!document.getElementById('held').hidden");
    assert_eq!(page.text("document.getElementById('held').textContent"), "Show 1 new");
    assert_eq!(page.text(place), before, "what a person looks at has not moved");
    page.ask("document.getElementById('held').click()");
    page.until("document.querySelectorAll('a[data-open]').length === 2");
    page.until("document.getElementById('held').hidden && document.getElementById('news').textContent.startsWith('desk ')");
    assert_eq!(page.troubles(), Vec::<&Value>::new());
}

/// What would act in a description, if a page made markup of it.
const HOSTILE_TOOL: &str = "</textarea><img src=x onerror=document.title='taken'>";
