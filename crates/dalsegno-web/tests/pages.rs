//! Photographs of every page, and what holds for all of them. `INSTA_UPDATE=always` takes them anew.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use dalsegno_web::chat::{ChatPage, Turn};
use dalsegno_web::diff::{Diff, DiffPage, Offer, Place, ReplayPage, SideView};
use dalsegno_web::document::{
    DiffLine, DocumentPage, DocumentRow, DocumentsPage, Found, Stale, Trial, VersionRow,
};
use dalsegno_web::fork::{Edited, ForkPage};
use dalsegno_web::inbox::{Field, InboxPage, Kind, Typed, WaitingCard};
use dalsegno_web::notice::NoticePage;
use dalsegno_web::run::{
    Asked, Bar, Call, End, Origin, Paused, Row, RunHead, RunPage, Said, Timeline, Windows,
};
use dalsegno_web::runs::{Filter, Mark, RunRow, RunsPage};
use dalsegno_web::sign_in::{SignInPage, SignedInPage};
use dalsegno_web::step::{
    Block, ChangeRow, Happening, Hit, Message, OperationCard, PromptCard, StepBody, StepPage,
};
use dalsegno_web::why::{Place as Origins, Why, WhyValue};
use dalsegno_web::{Live, Markup, Section, Shell, Template};
use serde_json::json;

/// What would act if a page made markup of it, in every place that takes a text of another party.
const HOSTILE: &str = "<img src=x onerror=alert(1)>\"'></textarea></pre><script>1</script>";
const ID: &str = "6733a81fec0444938a93d723b138cec8";

fn hostile() -> String {
    HOSTILE.to_owned()
}

fn shell(section: Section, may: bool) -> Shell {
    let sections = vec![Section::Runs, Section::Inbox, Section::Diff, Section::Agents, Section::Tools];
    Shell {
        section,
        sections,
        actor: "key 3fa9".to_owned(),
        reach: "acme".to_owned(),
        may_answer: may,
        may_write: may,
    }
}

fn live() -> Live {
    Live { stream: format!("/v1/runs?agent={HOSTILE}"), after: hostile() }
}

fn head() -> RunHead {
    RunHead {
        id: ID.to_owned(),
        short: ID[..12].to_owned(),
        agent: "desk".to_owned(),
        mark: Mark { class: "wait", word: "needs approval" },
        is_open: true,
        records: 12,
    }
}

fn row(step: &str, is_current: bool) -> Row {
    Row {
        step: step.to_owned(),
        is_first: true,
        href: format!("/runs/{ID}/steps/{step}"),
        anchor: format!("{step}f0d39295f79"),
        kind: "tool".to_owned(),
        name: hostile(),
        is_part: step == "2",
        mark: Mark { class: "good", word: "done" },
        attempts: Some(3),
        tokens: Some("1,204".to_owned()),
        took: "40 ms".to_owned(),
        bar: Some(Bar { x: 10, width: 500 }),
        is_current,
    }
}

fn timeline() -> Timeline {
    Timeline {
        id: ID.to_owned(),
        rows: vec![row("1", false), row("2", true)],
        from: 100,
        known: 300,
        is_whole: false,
        span: "2.10 s".to_owned(),
        windows: Windows {
            first: None,
            previous: Some(format!("/runs/{ID}?from=0")),
            next: Some(format!("/runs/{ID}?from=200")),
            last: Some(format!("/runs/{ID}?from=end")),
        },
    }
}

fn card(kind: Kind, field: Field, may_answer: bool) -> WaitingCard {
    let is_approval = kind == Kind::Approval;
    WaitingCard {
        run: ID.to_owned(),
        run_short: ID[..12].to_owned(),
        agent: "desk".to_owned(),
        tenant: Some(hostile()),
        operation: ID.to_owned(),
        short: format!("{kind:?}{field:?}").chars().filter(char::is_ascii_alphanumeric).take(16).collect(),
        kind,
        subject: "refunds.create".to_owned(),
        question: hostile(),
        reason: Some(hostile()),
        arguments: is_approval.then(|| Markup::json(&json!({ "note": HOSTILE }))),
        editable: is_approval.then(hostile),
        schema: None,
        field,
        shown: "e0a94ba339e54520".to_owned(),
        may_answer,
        back: "/inbox".to_owned(),
        problem: Some(hostile()),
        typed: Typed { arguments: None, value: hostile(), reason: hostile() },
        names_run: true,
    }
}

fn runs(rows: bool) -> RunsPage {
    let filter = Filter { agent: if rows { hostile() } else { String::new() }, ..Filter::default() };
    let row = RunRow {
        id: ID.to_owned(),
        short: ID[..12].to_owned(),
        agent: "desk".to_owned(),
        tenant: hostile(),
        mark: Mark { class: "live", word: "running" },
        asked: hostile(),
        ago: "3 min ago".to_owned(),
        started: "2026-11-26 18:00:54 UTC".to_owned(),
        at: 1_795_716_054_000,
        took: "12 s".to_owned(),
        used: vec!["1,204 tokens".to_owned(), "$0.0200".to_owned()],
        records: "12 records".to_owned(),
        is_child: true,
    };
    RunsPage {
        shell: Shell { reach: "all tenants".to_owned(), ..shell(Section::Runs, true) },
        tabs: filter.tabs(),
        filter,
        rows: if rows { vec![row] } else { Vec::new() },
        next: rows.then(|| "/runs?cursor=x".to_owned()),
        first: None,
        agents: vec!["desk".to_owned()],
        problem: rows.then(hostile),
        live: rows.then(live),
    }
}

fn run() -> RunPage {
    RunPage {
        pause: None,
        shell: shell(Section::Runs, true),
        head: head(),
        facts: vec![("Started", "2026-11-26 18:00:54 UTC".to_owned()), ("Session", hostile())],
        asked: Some(Asked { text: hostile(), values: vec![("Data", Markup::json(&json!([HOSTILE])))] }),
        end: Some(End {
            answer: Some(hostile()),
            output: None,
            error: Some(("tool_failed".to_owned(), hostile(), hostile())),
        }),
        waiting: vec![card(Kind::Approval, Field::Text, true)],
        origin: Some(Origin {
            word: "Forked from",
            id: ID.to_owned(),
            short: ID[..12].to_owned(),
            place: Some("step 3".to_owned()),
            notes: vec![hostile()],
            diff: Some("/diff".to_owned()),
        }),
        stops: vec![hostile()],
        call: Some(Call {
            earlier: 7,
            moments: vec![
                said(Some(1), Some("agent"), Some(hostile())),
                said(Some(2), Some("caller"), None),
                said(None, None, None),
            ],
        }),
        timeline: timeline(),
    }
}

fn said(turn: Option<u64>, by: Option<&'static str>, note: Option<String>) -> Said {
    Said { turn, at: "1.2 s".to_owned(), by, words: hostile(), note }
}

fn operation() -> OperationCard {
    let message = |role, tool: Option<String>| Message {
        role,
        is_error: tool.is_some(),
        tool,
        blocks: vec![Block::Text(hostile()), Block::Call(hostile(), Markup::json(&json!({ "a": HOSTILE })))],
    };
    OperationCard {
        id: ID.to_owned(),
        short: ID[..12].to_owned(),
        kind: "tool".to_owned(),
        name: hostile(),
        mark: Mark { class: "bad", word: "failed" },
        facts: vec!["class read".to_owned(), hostile()],
        child: Some((ID.to_owned(), ID[..12].to_owned())),
        is_part: true,
        asked: vec![Block::Named("query", hostile()), Block::Json(Markup::json(&json!({ HOSTILE: 1 })))],
        why: Some(Why {
            author: Origins { words: hostile(), ..Origins::default() },
            values: vec![WhyValue {
                path: hostile(),
                value: hostile(),
                places: vec![Origins {
                    words: hostile(),
                    href: Some("/runs".to_owned()),
                    excerpt: hostile(),
                }],
                is_written: false,
            }],
            further: None,
        }),
        why_at: None,
        prompt: Some(PromptCard {
            facts: vec![hostile()],
            left_out: Some("3 messages before these".to_owned()),
            known: vec![message("user", None)],
            new: vec![message("tool", Some(hostile()))],
            tools: vec![hostile()],
            schema: None,
        }),
        happened: vec![Happening { offset: "+3 ms".to_owned(), words: hostile(), is_bad: true }],
        result: Some(hostile()),
        blocks: vec![
            Block::Note(hostile()),
            Block::Bad(hostile()),
            Block::Folded("What the tool did", Markup::json(&json!([HOSTILE]))),
        ],
        hits: vec![Hit { score: "0.91".to_owned(), width: 910, entity: hostile(), text: hostile() }],
        fork: Some(format!("/runs/{ID}/fork?op={ID}")),
    }
}

fn change() -> ChangeRow {
    ChangeRow { path: hostile(), left: Some(hostile()), right: None }
}

fn step() -> StepPage {
    StepPage {
        shell: shell(Section::Runs, true),
        head: head(),
        number: "2".to_owned(),
        offset: "+1.20 s".to_owned(),
        previous: Some(format!("/runs/{ID}/steps/1")),
        next: None,
        rail: timeline(),
        body: Some(StepBody {
            decisions: vec![vec![(false, hostile()), (true, hostile())]],
            operations: vec![operation()],
            changes: vec![change()],
            state: Markup::json(&json!({ "vars": HOSTILE })),
            used_before: vec!["2 model calls".to_owned()],
            spent: vec!["1 tool call".to_owned()],
            end: None,
            fork_at: Some(format!("/runs/{ID}/fork?at=2")),
        }),
        stops: vec![hostile()],
    }
}

fn inbox(cards: Vec<WaitingCard>) -> InboxPage {
    let done = Some(hostile());
    InboxPage {
        shell: shell(Section::Inbox, true),
        cards,
        tabs: Vec::new(),
        next: None,
        first: None,
        is_filtered: false,
        done,
        live: Some(live()),
    }
}

fn all_cards() -> Vec<WaitingCard> {
    let choice = Field::Choice(vec![(hostile(), hostile())]);
    vec![
        card(Kind::Approval, Field::Text, true),
        card(Kind::Question, Field::Text, true),
        card(Kind::Question, Field::Json, true),
        card(Kind::Question, Field::Number, true),
        card(Kind::Question, choice, true),
        card(Kind::Doubt, Field::Text, true),
        card(Kind::Secret, Field::Text, true),
    ]
}

fn diff() -> DiffPage {
    let side = || SideView {
        id: ID.to_owned(),
        short: ID[..12].to_owned(),
        agent: "desk".to_owned(),
        facts: vec!["completed".to_owned()],
        end: Some(hostile()),
    };
    let place = || Place {
        place: "step 2".to_owned(),
        title: "Step 2".to_owned(),
        words: hostile(),
        at: ["/a".to_owned(), "/b".to_owned()],
        changes: vec![change()],
    };
    DiffPage {
        shell: shell(Section::Diff, true),
        left: hostile(),
        right: hostile(),
        problem: Some(hostile()),
        found: Some(Diff {
            sides: [side(), side()],
            is_identical: false,
            first: Some(place()),
            state: vec![change()],
            prompt: Some(place()),
            arguments: Some(place()),
        }),
        offers: vec![Offer { href: "/diff".to_owned(), short: "6733".to_owned(), words: hostile() }],
    }
}

fn fork() -> ForkPage {
    let edited = Edited {
        operation: ID.to_owned(),
        label: hostile(),
        step: 3,
        outcome: hostile(),
        recorded: hostile(),
    };
    let (shell, problem) = (shell(Section::Runs, true), Some(hostile()));
    ForkPage { shell, head: head(), edited: Some(edited), at: hostile(), model: hostile(), problem }
}

fn replay() -> ReplayPage {
    let divergence = Some((3, hostile(), hostile()));
    let facts = vec!["3 steps".to_owned()];
    ReplayPage { shell: shell(Section::Runs, true), head: head(), is_identical: false, facts, divergence }
}

fn documents(has_rows: bool) -> DocumentsPage {
    let row = DocumentRow {
        name: hostile(),
        href: Some("/agents/desk".to_owned()),
        layer: "file".to_owned(),
        words: hostile(),
        tools: vec![hostile()],
        broken: None,
        chat: Some("/chat?agent=desk".to_owned()),
    };
    let broken = DocumentRow { broken: Some(hostile()), href: None, chat: None, ..row.clone() };
    DocumentsPage {
        shell: shell(Section::Agents, true),
        title: hostile(),
        word: "agent",
        address: "/agents".to_owned(),
        rows: if has_rows { vec![row, broken] } else { Vec::new() },
        may_add: true,
        links: vec![(hostile(), "/tenants".to_owned())],
        done: has_rows.then_some("The document is deleted."),
        problem: has_rows.then(hostile),
    }
}

fn document(may_write: bool) -> DocumentPage {
    let text = format!("{HOSTILE}\nsecond \u{202e}line\n");
    let found = Found {
        class: "error",
        code: "json_invalid".to_owned(),
        message: hostile(),
        label: Some(hostile()),
        help: Some(hostile()),
        file: None,
        place: Some([1, 1, 2, HOSTILE.len() + 6]),
    };
    let elsewhere = Found { class: "warning", file: Some(hostile()), ..found.clone() };
    let line = |sign| DiffLine { sign, text: hostile() };
    DocumentPage {
        shell: shell(Section::Tools, true),
        word: "tool",
        name: hostile(),
        address: "/tools/till".to_owned(),
        up: (hostile(), "/tools".to_owned()),
        file: "catalogue/tools/till.json".to_owned(),
        media_type: "application/json",
        facts: vec![hostile()],
        version: ID.to_owned(),
        text,
        may_write,
        may_delete: may_write,
        found: vec![found, elsewhere],
        is_checked: true,
        problem: Some(hostile()),
        done: Some("Saved."),
        stale: Some(Stale {
            words: hostile(),
            title: "What changed",
            lines: vec![line(' '), line('-'), line('+')],
        }),
        versions: vec![VersionRow {
            number: 2,
            href: Some("/tools/till/versions/x".to_owned()),
            short: ID[..12].to_owned(),
            at: "2026-11-26 18:00:54 UTC".to_owned(),
            by: hostile(),
        }],
        trial: may_write.then(|| Trial {
            actions: vec![hostile()],
            action: hostile(),
            params: hostile(),
            tenant: Some(hostile()),
            recording: hostile(),
            may_live: true,
            is_live: true,
            problem: Some(hostile()),
            outcome: Some(Markup::json(&json!({ "text": HOSTILE }))),
            writes: Some(Markup::json(&json!([HOSTILE]))),
            recorded: Some(hostile()),
        }),
        is_earlier: !may_write,
    }
}

fn chat(agent: &str) -> ChatPage {
    let turn = |id: &str, is_open: bool| Turn {
        id: id.to_owned(),
        short: id[..12].to_owned(),
        agent: "desk".to_owned(),
        mark: Mark { class: "live", word: "running" },
        text: hostile(),
        end: (!is_open).then(|| End { answer: Some(hostile()), output: None, error: None }),
        waiting: Vec::new(),
        is_open,
    };
    ChatPage {
        shell: shell(Section::Chat, true),
        agent: agent.to_owned(),
        agents: vec![hostile()],
        session: hostile(),
        address: hostile(),
        tenant: Some(hostile()),
        key: hostile(),
        typed: hostile(),
        problem: Some(hostile()),
        turns: vec![turn(ID, false), turn(&"a".repeat(32), true)],
        earlier: Some("/runs?session=x".to_owned()),
        live: Some(live()),
    }
}

/// Every page, by its name.
fn pages() -> Vec<(&'static str, String)> {
    let (shell, problem, provider) = (Shell::signed_out(), Some(hostile()), Some(hostile()));
    let sign_in = SignInPage { shell, next: hostile(), problem, provider };
    let notice = NoticePage {
        shell: Shell::signed_out(),
        title: hostile(),
        detail: hostile(),
        help: hostile(),
        violations: vec![(hostile(), hostile())],
    };
    vec![
        ("runs", runs(true).render().unwrap()),
        ("runs_empty", runs(false).render().unwrap()),
        ("run", run().render().unwrap()),
        ("step", step().render().unwrap()),
        ("inbox", inbox(all_cards()).render().unwrap()),
        ("inbox_empty", inbox(Vec::new()).render().unwrap()),
        ("diff", diff().render().unwrap()),
        ("fork", fork().render().unwrap()),
        ("documents", documents(true).render().unwrap()),
        ("documents_empty", documents(false).render().unwrap()),
        ("document", document(true).render().unwrap()),
        ("document_earlier", document(false).render().unwrap()),
        ("chat", chat(HOSTILE).render().unwrap()),
        ("chat_choice", chat("").render().unwrap()),
        ("replay", replay().render().unwrap()),
        ("sign_in", sign_in.render().unwrap()),
        (
            "signed_in",
            SignedInPage { shell: Shell::signed_out(), next: "/runs".to_owned() }.render().unwrap(),
        ),
        ("notice", notice.render().unwrap()),
    ]
}

#[test]
fn every_page_is_as_in_its_photograph() {
    let version = dalsegno_web::assets::version();
    for (name, page) in pages() {
        insta::assert_snapshot!(name, page.replace(version, "VERSION").replace(HOSTILE, "RAW"));
    }
}

#[test]
fn no_text_of_another_party_becomes_markup() {
    for (name, page) in pages() {
        assert!(!page.contains("<img") && !page.contains("<script>"), "{name}: {page}");
        assert!(!page.contains(HOSTILE), "{name}");
        assert_eq!(page.matches("</textarea>").count(), page.matches("<textarea").count(), "{name}");
        assert_eq!(page.matches("</pre>").count(), page.matches("<pre").count(), "{name}");
        assert_eq!(page.matches("<main").count(), 1, "{name}");
        assert_eq!(page.matches("<h1").count(), 1, "{name}");
    }
}

#[test]
fn every_page_of_a_debugger_has_each_id_once() {
    for (name, page) in pages() {
        let mut ids: Vec<&str> =
            page.match_indices(" id=\"").map(|(at, _)| page[at + 5..].split('"').next().unwrap()).collect();
        let all = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all, "{name}");
    }
}

#[test]
fn who_may_not_answer_or_write_sees_no_way_to_do_it() {
    let cards = all_cards().into_iter().map(|card| WaitingCard { may_answer: false, ..card }).collect();
    let page = inbox(cards).render().unwrap();
    assert!(!page.contains("/answers") && !page.contains("name=\"shown\""), "{page}");
    let page = document(false).render().unwrap();
    assert!(!page.contains("<textarea") && !page.contains("name=\"do\""), "{page}");
    assert!(page.contains("\\u{202e}"), "who only reads sees every character: {page}");
    let page = RunPage { shell: shell(Section::Runs, false), waiting: Vec::new(), ..run() }.render().unwrap();
    assert!(!page.contains("/cancel") && !page.contains(">Fork<"), "{page}");
}

#[test]
fn an_open_run_is_paused_and_a_paused_one_resumed_and_a_call_neither() {
    let open = || RunPage { head: RunHead { is_open: true, ..head() }, call: None, ..run() };
    let ways = |page: &RunPage| {
        let page = page.render().unwrap();
        assert!(!page.contains(HOSTILE), "{page}");
        ["/pause\"", "/resume\""].map(|way| page.contains(way))
    };
    let pause = Some(Paused { by: Some(hostile()), reason: Some(hostile()) });
    assert_eq!(ways(&open()), [true, false]);
    assert_eq!(ways(&RunPage { pause: pause.clone(), ..open() }), [false, true]);
    assert_eq!(ways(&RunPage { call: run().call, ..open() }), [false, false]);
    assert_eq!(ways(&RunPage { pause, shell: shell(Section::Runs, false), ..open() }), [false, false]);
}
