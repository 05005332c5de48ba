//! Reports in a real browser without a network, and the pages of a server. Where none is installed, each test says so and passes.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]
#![expect(clippy::print_stdout, reason = "a test says why it looks at nothing")]

use std::fs;
use std::path::PathBuf;

use crate::chromium::{Chromium, find};
use crate::support::Workspace;

mod chromium;
mod pages;
mod pictures;
#[expect(
    dead_code,
    unused_macros,
    unused_imports,
    reason = "most of it is for the tests of the command's output"
)]
#[path = "../cli/support.rs"]
mod support;

/// What would act if a page made markup of it.
const HOSTILE: &str = "<img src=x onerror=\"document.title='taken'\"></script><script>document.title='taken'</script>{{script}}";

/// Finds the browser; says so where there is none.
fn found() -> Option<PathBuf> {
    let found = find();
    if found.is_none() {
        println!("no Chromium is installed: reports and pages are not opened in a browser here");
    }
    found
}

/// An agent whose model calls a tool, and whose tool says what it was given.
fn desk(said: &str) -> Workspace {
    let workspace = Workspace::empty();
    workspace.write("dalsegno.toml", "[models.default]\nprovider = \"script\"\nfile = \"replies.toml\"\n");
    workspace.write(
        "replies.toml",
        &format!(
            "[[replies]]\ncalls = [{{ name = \"refunds.create\", arguments = {{ note = '''{said}''' }} }}]\n\
             [[replies]]\ntext = \"{{{{last}}}}\"\n"
        ),
    );
    workspace.write(
        "tools/refunds.json",
        r#"{ "name": "refunds", "actions": [{
            "name": "create", "description": "Pays a sum back.",
            "parameters": [{ "name": "note", "type": "string", "required": true }],
            "actions": [{ "type": "respond", "message": "Paid: {{params.note}}" }] }] }"#,
    );
    workspace.write(
        "agents/desk.toml",
        "name = \"desk\"\ndescription = \"Pays back.\"\n[model]\nuse = \"default\"\n[tools]\nallow = [\"refunds.*\"]\n",
    );
    workspace
}

/// Runs it, and exports a report of the run.
fn report(workspace: &Workspace, file: &str) -> PathBuf {
    workspace.succeed(&["run", "desk", "Please."]);
    workspace.succeed(&["export", "--html", "last", file]);
    workspace.path(file)
}

const TITLE: &str = "document.querySelector('#detail h2').textContent";

#[test]
fn a_run_is_stepped_with_keys_and_every_digest_is_the_engines() {
    let Some(browser) = found() else { return };
    let workspace = desk("10");
    let report = report(&workspace, "report.html");
    let mut page = Chromium::start(&browser);
    page.size(1440, 900);
    assert_eq!(page.open(&report), "ready");
    assert_eq!(page.text("document.getElementById('verdict').textContent"), "Verified");
    assert_eq!(page.text(TITLE), "Start");
    let mut titles = Vec::new();
    for key in ["j", "ArrowDown", "j", "j", "j", "k", "Home", "End"] {
        page.press(key);
        titles.push(page.text(TITLE));
    }
    let expected = [
        "Step 1",
        "Step 2",
        "Step 3",
        "End: completed",
        "End: completed",
        "Step 3",
        "Start",
        "End: completed",
    ];
    assert_eq!(titles, expected);
    page.press("v");
    page.wait("document.querySelectorAll('#checks tbody tr').length === 7");
    assert_eq!(page.ask("document.querySelectorAll('#checks tr.differs').length"), 0);
    page.press("/");
    page.write("refunds");
    page.wait("document.getElementById('matches').textContent.endsWith('matches')");
    page.press("Enter");
    page.press("?");
    page.wait("document.getElementById('keys').open");
    assert_eq!(page.troubles(), Vec::<&serde_json::Value>::new());
    assert_eq!(page.requests(), [""; 0]);
}

#[test]
fn an_outcome_is_edited_and_the_next_requests_are_computed_anew() {
    let Some(browser) = found() else { return };
    let workspace = desk("10");
    let report = report(&workspace, "report.html");
    let mut page = Chromium::start(&browser);
    assert_eq!(page.open(&report), "ready");
    let edit = |page: &mut Chromium| {
        page.press("j");
        page.press("e");
        page.wait("document.activeElement.tagName === 'TEXTAREA'");
    };
    // As recorded: the reply of the model in step 1.
    edit(&mut page);
    page.press_with("Enter", 2);
    page.wait("document.querySelector('.result .verdict')");
    assert_eq!(
        page.text("document.querySelector('.result .verdict').textContent"),
        "The run asks for the same to its end."
    );
    // Another one: the result of the tool in step 2.
    page.press("Escape");
    edit(&mut page);
    let recorded = page.text("document.querySelector('textarea').value");
    assert!(recorded.contains("Paid: 10"), "{recorded}");
    page.ask("document.querySelector('textarea').select()");
    page.write(&recorded.replace("Paid: 10", "Nothing was paid"));
    page.press_with("Enter", 2);
    page.wait("document.querySelector('.result .differs')");
    let result = page.text("document.querySelector('.result').innerText");
    assert!(result.contains("Step 3 asks for something else."), "{result}");
    let sides = page.ask("[...document.querySelectorAll('.result .side')].map((side) => side.innerText)");
    assert!(sides[0].as_str().unwrap().contains("Paid: 10"), "{sides}");
    assert!(sides[1].as_str().unwrap().contains("Nothing was paid"), "{sides}");
    assert!(sides[1].as_str().unwrap().contains("model completion"), "{sides}");
    page.ask("document.querySelector('textarea').select()");
    page.write("{ \"nonsense\": 1 }");
    page.press_with("Enter", 2);
    page.wait("document.querySelector('.result .problem')?.textContent.startsWith('this is not an outcome')");
    // What was edited is nowhere but on the screen: the journal is as it was.
    page.press("Escape");
    assert_eq!(page.text("document.getElementById('verdict').textContent"), "Verified");
    assert_eq!(page.troubles(), Vec::<&serde_json::Value>::new());
}

#[test]
fn hostile_text_of_a_tool_stays_text() {
    let Some(browser) = found() else { return };
    let workspace = desk(&HOSTILE.replace("{{script}}", ""));
    let report = report(&workspace, "report.html");
    let mut page = Chromium::start(&browser);
    assert_eq!(page.open(&report), "ready");
    let title = page.text("document.title");
    for _ in 0..5 {
        page.press("j");
        page.press("e");
        page.press("Escape");
        assert_eq!(
            page.ask(
                "document.querySelectorAll('img, iframe, body script:not([type]), #detail script').length"
            ),
            0
        );
    }
    page.press("End");
    let shown = page.text("document.getElementById('detail').textContent");
    assert!(shown.contains("<img src=x onerror="), "{shown}");
    assert_eq!(page.text("document.title"), title);
    assert_eq!(page.troubles(), Vec::<&serde_json::Value>::new());
    assert_eq!(page.requests(), [""; 0]);
}

#[test]
fn a_run_is_compared_with_the_one_in_another_file() {
    let Some(browser) = found() else { return };
    let (one, other) = (desk("10"), desk("20"));
    let (left, right) = (report(&one, "left.html"), report(&other, "right.html"));
    other.succeed(&["export", "last", "right.dalsegno"]);
    let mut page = Chromium::start(&browser);
    assert_eq!(page.open(&left), "ready");
    for file in [right, other.path("right.dalsegno")] {
        page.press("c");
        page.choose(&file);
        page.wait("document.getElementById('diff')");
        let words = page.text("document.getElementById('diff').textContent");
        assert_eq!(words, "The first difference is at step 1: outcome, model completion.");
        page.press("Escape");
    }
    fs::write(one.path("neither.html"), "<p>something else</p>").unwrap();
    page.press("c");
    page.choose(&one.path("neither.html"));
    page.wait("document.querySelector('#detail .problem')?.textContent.startsWith('this file is neither')");
    assert_eq!(page.troubles(), Vec::<&serde_json::Value>::new());
}

#[test]
fn a_journal_that_was_changed_is_not_verified() {
    let Some(browser) = found() else { return };
    let workspace = desk("10");
    let report = report(&workspace, "report.html");
    let text = fs::read_to_string(&report).unwrap();
    let (before, after) = text.split_once("\"course\":\"").unwrap();
    let flipped = if after.starts_with('0') { "1" } else { "0" };
    workspace.write("changed.html", &format!("{before}\"course\":\"{flipped}{}", &after[1..]));
    let mut page = Chromium::start(&browser);
    assert_eq!(page.open(&workspace.path("changed.html")), "ready");
    assert_eq!(page.text("document.getElementById('verdict').textContent"), "Not verified");
    page.press("v");
    page.wait("document.querySelectorAll('#checks tr.differs').length === 1");
}

#[test]
fn a_browser_without_webassembly_says_so_in_one_sentence() {
    let Some(browser) = found() else { return };
    let workspace = desk("10");
    let report = report(&workspace, "report.html");
    let mut page = Chromium::start(&browser);
    page.before("delete globalThis.WebAssembly; delete globalThis.DecompressionStream;");
    assert_eq!(page.open(&report), "failed");
    assert_eq!(
        page.text("document.getElementById('notice').textContent"),
        "This browser has no WebAssembly and no DecompressionStream, so it cannot run the report: open this file in a \
         current Chromium, Firefox or Safari."
    );
}

#[test]
fn nothing_is_wider_than_a_small_screen() {
    let Some(browser) = found() else { return };
    let workspace = desk(&"w".repeat(500));
    let report = report(&workspace, "report.html");
    let mut page = Chromium::start(&browser);
    for width in [320, 768, 1440] {
        page.size(width, 700);
        assert_eq!(page.open(&report), "ready");
        for key in ["j", "j", "e", "Escape", "v", "c"] {
            page.press(key);
            assert_eq!(page.ask("document.documentElement.scrollWidth"), width, "{width} {key}");
            let wide = "[...document.querySelectorAll('#detail > *')].filter((one) => one.getBoundingClientRect().right > innerWidth + 1).length";
            assert_eq!(page.ask(wide), 0, "{width} {key}");
        }
    }
}
