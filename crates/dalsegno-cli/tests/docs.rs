//! The book says what is so: every code has a page, every link leads somewhere, every example loads.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

#[path = "../../dalsegno-workspace/tests/pages/mod.rs"]
mod pages;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use dalsegno_cases::{Search, Suite};
use dalsegno_core::{FailureCode, RunErrorCode};
use dalsegno_workspace::{Catalogue, Code, Diagnostic, Lock, Workspace};

use crate::pages::Case;

/// The heading of a page about a run's end, where the code has another meaning beside it.
const END: &str = "As the end of a run";

/// The heading of a page about an operation's failure, where the code has another meaning beside it.
const FAILURE: &str = "As the failure of an operation";

/// What the examples name; only that it is there counts.
const FILES: &[(&str, &str)] = &[
    ("scripts/replies.toml", ""),
    ("cassettes/run.jsonl", ""),
    ("tool-servers/risk.wasm", ""),
    ("schemas/answer.json", r#"{ "type": "object" }"#),
    ("knowledge.jsonl", ""),
];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn book() -> PathBuf {
    repository().join("docs/src")
}

/// The text of every page of the book, by its path with `/`.
fn pages() -> BTreeMap<String, String> {
    let mut pages = BTreeMap::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(book().join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let path = format!("{folder}{}", entry.file_name().to_string_lossy());
            if entry.file_type().unwrap().is_dir() {
                folders.push(format!("{path}/"));
            } else if path.ends_with(".md") {
                pages.insert(path, fs::read_to_string(entry.path()).unwrap());
            }
        }
    }
    pages
}

/// The pages about codes, by their code.
fn error_pages() -> BTreeMap<String, String> {
    let code = |path: &str| path.strip_prefix("errors/")?.strip_suffix(".md").map(str::to_owned);
    let found = pages().into_iter().filter_map(|(path, text)| Some((code(&path)?, text)));
    found.filter(|(code, _)| code != "index").collect()
}

/// A block of a page between two fences.
struct Block<'p> {
    /// What stands behind the first fence: `toml,agent` is `["toml", "agent"]`.
    marks: Vec<&'p str>,
    text: &'p str,
}

/// The blocks of a page.
fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut rest = page;
    while let Some((_, after)) = rest.split_once("\n```") {
        let (marks, body) = after.split_once('\n').unwrap();
        // An empty block would end before its first line break.
        let end = if body.starts_with("```") { 0 } else { body.find("\n```").unwrap() + 1 };
        blocks.push(Block { marks: marks.split(',').collect(), text: &body[..end] });
        rest = &body[end + "```".len()..];
    }
    blocks
}

/// The lines of a page that stand in no block.
fn prose(page: &str) -> Vec<&str> {
    let mut is_inside = false;
    let is_prose = |line: &&str| {
        let is_fence = line.starts_with("```");
        is_inside ^= is_fence;
        !is_fence && !is_inside
    };
    page.lines().filter(is_prose).collect()
}

fn headings(page: &str) -> Vec<&str> {
    let lines = prose(page).into_iter().filter(|line| line.starts_with('#'));
    lines.map(|line| line.trim_start_matches('#').trim()).collect()
}

/// The anchor that mdBook gives a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|letter| letter.is_alphanumeric() || " _-".contains(*letter));
    kept.map(|letter| if letter == ' ' { '-' } else { letter.to_ascii_lowercase() }).collect()
}

/// The targets of a page's links.
fn links(page: &str) -> Vec<&str> {
    // A link may be broken between two lines, but never inside its target.
    let targets = prose(page).into_iter().flat_map(|line| line.split("](").skip(1));
    targets.map(|rest| rest.split(')').next().unwrap()).collect()
}

/// Where a link on a page leads: the page and the anchor.
fn resolve<'l>(from: &str, link: &'l str) -> (String, Option<&'l str>) {
    let (path, anchor) = link.split_once('#').map_or((link, None), |(path, anchor)| (path, Some(anchor)));
    if path.is_empty() {
        return (from.to_owned(), anchor);
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    (parts.join("/"), anchor)
}

fn workspace_codes() -> BTreeSet<String> {
    Code::ALL.iter().map(|code| code.as_str().to_owned()).collect()
}

fn run_codes() -> BTreeSet<String> {
    RunErrorCode::ALL.iter().map(|code| code.as_str().to_owned()).collect()
}

fn failure_codes() -> BTreeSet<String> {
    FailureCode::ALL.iter().map(|code| code.as_str().to_owned()).collect()
}

fn server_codes() -> BTreeSet<String> {
    dalsegno_server::Code::ALL.iter().map(|code| code.as_str().to_owned()).collect()
}

#[test]
fn every_code_has_a_page_and_every_page_a_code() {
    let codes: BTreeSet<_> =
        [workspace_codes(), run_codes(), failure_codes(), server_codes()].into_iter().flatten().collect();
    let pages = error_pages();
    assert_eq!(pages.keys().cloned().collect::<BTreeSet<_>>(), codes);
    for (code, page) in pages {
        assert_eq!(headings(&page).first(), Some(&format!("`{code}`").as_str()));
    }
}

#[test]
fn the_index_has_every_code() {
    let pages = pages();
    let index = &pages["errors/index.md"];
    let links: BTreeSet<_> =
        links(index).into_iter().map(|link| resolve("errors/index.md", link).0).collect();
    for code in error_pages().keys() {
        assert!(links.contains(&format!("errors/{code}.md")), "{code}");
    }
}

#[test]
fn a_code_with_two_meanings_has_a_section_for_each() {
    let both: BTreeSet<_> = run_codes().intersection(&failure_codes()).cloned().collect();
    for (code, page) in error_pages() {
        let headings = headings(&page);
        let found = [END, FAILURE].map(|heading| headings.contains(&heading));
        assert_eq!(found, [both.contains(&code); 2], "{code}");
    }
}

#[test]
fn every_page_shows_what_is_printed() {
    for (code, page) in error_pages() {
        let mut shown = blocks(&page).into_iter().filter(|block| block.marks[0] == "text");
        let is_shown = match workspace_codes().contains(&code) {
            true => shown.any(|block| block.text.contains(&format!("[{code}]"))),
            false => shown.next().is_some(),
        };
        assert!(is_shown, "{code}");
    }
}

/// `UPDATE=1 cargo test --workspace --test docs` writes what is printed into the pages.
#[test]
fn every_wrong_workspace_of_a_page_gets_the_message_of_the_page() {
    let is_update = std::env::var_os("UPDATE").is_some();
    let mut checked = 0;
    for (code, page) in error_pages() {
        let mut updated = page.clone();
        // From the last to the first, so that the places of those before stay right.
        for case in pages::cases(&code, &page).into_iter().rev() {
            let printed = check(&case);
            checked += 1;
            if is_update {
                updated.replace_range(case.place.clone(), &printed);
            } else {
                assert_eq!(case.printed, printed, "{}: see the comment of this test", case.name());
            }
        }
        if updated != page {
            fs::write(pages::folder().join(format!("{code}.md")), updated).unwrap();
        }
    }
    assert!(checked > 180, "{checked}");
}

/// What `dalsegno check` prints about a workspace of a page. Its exit code says whether there are errors.
fn check(case: &Case) -> String {
    let folder = tempfile::tempdir().unwrap();
    case.write(folder.path());
    let mut command = Command::new(env!("CARGO_BIN_EXE_dalsegno"));
    let output = command.args(["check", "--workspace"]).arg(folder.path()).env_clear().output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    let is_wrong = text.lines().any(|line| line.starts_with("error["));
    assert_eq!(output.status.code(), Some(if is_wrong { 2 } else { 0 }), "{}: {text}", case.name());
    text.trim_end().lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

#[test]
fn the_summary_lists_every_page_once() {
    let pages = pages();
    let mut listed: Vec<_> =
        links(&pages["SUMMARY.md"]).into_iter().map(|link| resolve("SUMMARY.md", link).0).collect();
    listed.sort();
    let expected: Vec<_> = pages.keys().filter(|path| *path != "SUMMARY.md").cloned().collect();
    assert_eq!(listed, expected);
}

#[test]
fn every_link_leads_somewhere() {
    let pages = pages();
    let mut followed = 0;
    for (path, page) in &pages {
        for link in links(page).into_iter().filter(|link| !link.starts_with("https://")) {
            let (target, fragment) = resolve(path, link);
            let Some(target) = pages.get(&target) else { panic!("{path}: `{link}` is no page") };
            if let Some(fragment) = fragment {
                let anchors: Vec<_> = headings(target).into_iter().map(anchor).collect();
                assert!(anchors.iter().any(|anchor| anchor == fragment), "{path}: `{link}`: {anchors:?}");
            }
            followed += 1;
        }
    }
    assert!(followed > 100, "{followed}");
}

/// The blocks of a page that are marked `settings` are its `dalsegno.toml`, each one marked `agent` is an agent, and those
/// marked `plan` follow each other as one more. One marked `tenant` is a tenant, and one marked `tool` a declarative tool.
#[test]
fn the_examples_of_a_page_are_a_workspace_without_a_problem() {
    let mut examples = 0;
    for (path, page) in pages() {
        let blocks = blocks(&page);
        let is_file = |block: &&Block<'_>| ["toml", "json"].contains(&block.marks[0]);
        let marked: Vec<_> = blocks.iter().filter(is_file).filter(|block| block.marks.len() > 1).collect();
        if marked.is_empty() {
            continue;
        }
        examples += marked.len();
        let of = |mark: &str| -> Vec<&str> {
            marked.iter().filter(|block| block.marks[1..] == [mark]).map(|block| block.text).collect()
        };
        let (settings, agents, plan) = (of("settings"), of("agent"), of("plan"));
        let (tenants, tools, cases) = (of("tenant"), of("tool"), of("case"));
        assert_eq!(
            settings.len() + agents.len() + plan.len() + tenants.len() + tools.len() + cases.len(),
            marked.len(),
            "{path}: a mark that is not known"
        );
        let agents = agents.into_iter().map(str::to_owned).chain((!plan.is_empty()).then(|| plan.join("\n")));
        let tenants =
            tenants.into_iter().map(|text| (format!("tenants/{}.toml", name(text)), text.to_owned()));
        let tools = tools.into_iter().map(|text| {
            let document: serde_json::Value = serde_json::from_str(text).unwrap();
            (format!("tools/{}.json", document["name"].as_str().unwrap()), text.to_owned())
        });
        let agents = agents.map(|text| (format!("agents/{}.toml", name(&text)), text));
        let cases = cases.into_iter().enumerate();
        let cases = cases.map(|(number, text)| (format!("tests/{number}.toml"), text.to_owned()));
        let files = agents.chain(tenants).chain(tools).chain(cases);
        let problems = problems(&settings.join("\n"), files);
        assert!(problems.is_empty(), "{path}: {problems:#?}");
    }
    assert!(examples > 20, "{examples}");
}

/// The name that an agent or a tenant gives itself.
fn name(text: &str) -> &str {
    let name = text.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
    name.unwrap_or_else(|| panic!("no name: {text}"))
}

/// What is wrong with a workspace of these files; that nothing is pinned is not.
fn problems(settings: &str, files: impl Iterator<Item = (String, String)>) -> Vec<Diagnostic> {
    let folder = tempfile::tempdir().unwrap();
    let write = |file: &str, text: &str| {
        let file = folder.path().join(file);
        assert!(!file.exists(), "there are two examples of {}", file.display());
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    };
    FILES.iter().for_each(|(file, text)| write(file, text));
    write("dalsegno.toml", settings);
    for (file, text) in files {
        write(&file, &text);
    }
    let loaded = Workspace::load(folder.path());
    if let Some(workspace) = &loaded.workspace {
        let cases = workspace.cases();
        assert_eq!(cases.diagnostics, Vec::new());
        for report in Suite::load(folder.path(), &cases).0.run(Search::default(), |_, _| true) {
            assert!(report.passed(), "{}: {:#?}", report.name, report.failures);
        }
    }
    let checked = loaded.workspace.map(|workspace| workspace.check(&Lock::default(), &Catalogue::new()));
    let checked = checked.into_iter().flatten().filter(Diagnostic::is_error);
    loaded.diagnostics.into_iter().chain(checked).collect()
}
