//! Whatever stands in the files, loading ends with a workspace or with an error, and every span fits its file.

use std::fs;
use std::path::Path;

use dalsegno_workspace::{Loaded, Workspace};
use proptest::prelude::*;

fn load(settings: &[u8], agent: &[u8]) -> Loaded {
    load_all(settings, agent, &[])
}

fn load_all(settings: &[u8], agent: &[u8], more: &[(&str, &[u8])]) -> Loaded {
    let folder = tempfile::tempdir().unwrap();
    for (file, text) in more {
        let file = folder.path().join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    fs::create_dir(folder.path().join("agents")).unwrap();
    fs::write(folder.path().join("dalsegno.toml"), settings).unwrap();
    fs::write(folder.path().join("agents/a.toml"), agent).unwrap();
    Workspace::load(folder.path())
}

fn check(settings: &[u8], agent: &[u8]) {
    check_loaded(&load(settings, agent));
}

fn check_loaded(loaded: &Loaded) {
    assert_eq!(loaded.workspace.is_none(), loaded.has_errors());
    for diagnostic in &loaded.diagnostics {
        let Some(span) = &diagnostic.span else { continue };
        let source = loaded.source(&diagnostic.file).unwrap();
        assert!(source.text().get(span.clone()).is_some(), "{diagnostic:?}");
        assert_eq!(diagnostic.start, Some(source.position(span.start)));
        serde_json::to_value(diagnostic).unwrap();
    }
}

/// Pieces that mean something in these files, so that random sequences reach deep into the reader.
const PIECES: &[&str] = &[
    "\n",
    " ",
    "=",
    ".",
    ",",
    "[",
    "]",
    "[[",
    "]]",
    "{",
    "}",
    "\"",
    "'",
    "\"\"\"",
    "'''",
    "\\",
    "#",
    "é",
    "\r\n",
    "{{",
    "}}",
    "\"{{steps.past[0].text}}\"",
    "'{{request.text'",
    "\"2s\"",
    "\"64MiB\"",
    "-1",
    "1.5",
    "nan",
    "true",
    "1979-05-27",
    "99999999999999999999",
    "name = \"a\"\n",
    "[model]\nuse = \"default\"\n",
    "[[steps]]\n",
    "id = \"past\"\n",
    "memory_search = { query = \"{{request.text}}\" }\n",
    "respond = \"{{steps.past}}\"\n",
    "for_each = \"steps.past\"\n",
    "agent = \"a\"\n",
    "agent = { capability = \"b\" }\n",
    "handoff = \"a\"\n",
    "set = { a = \"vars.a\" }\n",
    "wait = { until = \"item\" }\n",
    "model = { prompt = \"{{vars.a}}\" }\n",
    "ask = \"{{index}}\"\n",
    "output = { a = [\"{{x\"] }\n",
    "capabilities = [\"b\"]\n",
    "[output]\nschema = { type = 3 }\n",
    "tool = \"risk.score\"\n",
    "with = { text = [\"{{x\", 1] }\n",
    "parallel = [{ respond = 1 }]\n",
    "when = ",
    "when",
    "[tools]\n",
    "allow = [\"risk.*\"]\n",
    "[tools.settings.\"risk.score\"]\n",
    "on_failure = { default = 1 }\n",
    "[limits]\nmax_cost_usd = 1\n",
    "[memory]\nrecall = { query = \"{{memory.hits}}\" }\n",
    "[models.default]\n",
    "provider = \"script\"\n",
    "provider = \"openai\"\nbase_url = \"http://[::1\"\n",
    "price = { input = 1e-9, output = -0.0 }\n",
    "api_key = { env = 1 }\n",
    "[servers.risk]\n",
    "wasm = \"risk.wasm\"\n",
    "[servers.risk.permissions]\n",
    "files = [{ host = \".\", guest = \"/\", access = \"read\" }]\n",
    "[secrets]\n",
    "TOKEN = \"sk-0123456789abcdef\"\n",
];

fn pieces() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(PIECES), 0..40).prop_map(|pieces| pieces.concat().into_bytes())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_never_panic(settings in prop::collection::vec(any::<u8>(), 0..200), agent in prop::collection::vec(any::<u8>(), 0..200)) {
        check(&settings, &agent);
    }

    #[test]
    fn arbitrary_pieces_never_panic(settings in pieces(), agent in pieces()) {
        check(&settings, &agent);
    }

    #[test]
    fn a_damaged_agent_never_panics(at in any::<prop::sample::Index>(), length in 0_usize..8, piece in prop::sample::select(PIECES)) {
        let good = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples/valid/every-key/agents/planned.toml")).unwrap();
        let start = at.index(good.len());
        let end = (start + length).min(good.len());
        let damaged = [&good[..start], piece.as_bytes(), &good[end..]].concat();
        check(b"", &damaged);
    }

    #[test]
    fn a_damaged_tool_or_tenant_never_panics(
        at in any::<prop::sample::Index>(),
        length in 0_usize..8,
        piece in prop::sample::select(PIECES),
        which in 0_usize..3,
    ) {
        let files = ["tools/crm.json", "tenants/acme.toml", "tenants/basil/tools/save_meal.json"];
        let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples/valid/tools");
        let mut texts = files.map(|file| fs::read(samples.join(file)).unwrap());
        let good = &texts[which];
        let start = at.index(good.len());
        let end = (start + length).min(good.len());
        texts[which] = [&good[..start], piece.as_bytes(), &good[end..]].concat();
        let more: Vec<_> = files.into_iter().zip(texts.iter().map(Vec::as_slice)).collect();
        check_loaded(&load_all(b"", b"name = \"a\"\n[[steps]]\nrespond = \"Hello\"\n", &more));
    }
}

#[test]
fn deep_nesting_is_refused_and_does_not_exhaust_the_stack() {
    for (open, close) in [("[", "]"), ("{ a = ", " }"), ("\"{{", "}}\"")] {
        check(b"", format!("name = {}1{}", open.repeat(50_000), close.repeat(50_000)).as_bytes());
    }
    for key in ["a.".repeat(200_000), "a . ".repeat(100_000), "\"a\".".repeat(100_000)] {
        check(b"", format!("{key}a = 1").as_bytes());
        check(format!("[{key}a]").as_bytes(), format!("x = {{ {key}a = 1 }}").as_bytes());
    }
}

#[test]
fn a_file_that_is_not_text_or_too_large_is_refused() {
    let loaded = load(b"[store]\npath = \"\xff\"", &b"#".repeat((1 << 20) + 1));
    let messages: Vec<_> = loaded.diagnostics.iter().map(ToString::to_string).collect();
    assert_eq!(
        messages,
        [
            "dalsegno.toml: error[unreadable-file]: the file is not UTF-8: byte 16 is not part of a character",
            "agents/a.toml: error[unreadable-file]: the file is larger than 1024 KiB",
        ]
    );
}

#[test]
fn a_secret_in_clear_is_shown_nowhere() {
    let loaded = load(
        b"[secrets]\nTOKEN = 'hunter2hunter2'\n[models.m]\napi_key = ['hunter2hunter2', 'hunter2hunter2']",
        b"",
    );
    let shown = format!("{loaded:?}");
    assert!(loaded.has_errors());
    assert!(!shown.contains("hunter2"), "{shown}");
}

#[test]
fn problems_of_all_files_are_reported_at_once() {
    let loaded = load(
        b"[modles]\n[servers.risk]\nwasm = 'absent.wasm'\n",
        b"nmae = 'a'\n[limits]\ntimeout = 'soon'\n",
    );
    let codes: Vec<_> = loaded.diagnostics.iter().map(|diagnostic| diagnostic.code.as_str()).collect();
    assert_eq!(
        codes,
        ["unknown-key", "missing-file", "unknown-key", "model-or-steps", "missing-key", "invalid-duration"]
    );
}

#[test]
fn a_diagnostic_tells_an_editor_its_line_and_column() {
    let loaded = load(b"", b"name = 'a'\n\n  nmae = 'b'\n[[steps]]\nrespond = 'x'\n");
    let json = serde_json::to_value(&loaded.diagnostics[0]).unwrap();
    assert_eq!(
        (
            &json["code"],
            &json["severity"],
            &json["file"],
            &json["line"],
            &json["column"],
            &json["span"]["start"]
        ),
        (&"unknown-key".into(), &"error".into(), &"agents/a.toml".into(), &3.into(), &3.into(), &14.into())
    );
}

#[test]
fn the_nearest_folder_with_settings_is_the_workspace() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("a/b");
    fs::create_dir_all(&inner).unwrap();
    fs::write(folder.path().join("dalsegno.toml"), "").unwrap();
    assert_eq!(Workspace::discover(&inner, None).as_deref(), Some(folder.path()));
    fs::write(folder.path().join("a/dalsegno.toml"), "").unwrap();
    assert_eq!(Workspace::discover(&inner, None), Some(folder.path().join("a")));
}
