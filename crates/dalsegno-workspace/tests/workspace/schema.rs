//! The JSON Schemas and the readers know the same keys, in the same places, with the same types.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use dalsegno_workspace::{Code, Diagnostic, FileKind, Lock, Workspace, schema};
use serde_json::{Value, json};

/// Every file of the right workspaces.
fn right() -> Vec<(FileKind, PathBuf, PathBuf)> {
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples/valid"))
}

/// The wrong workspaces of the book in a folder: each below its code and heading:
/// those with errors in `wrong`, those with warnings in `doubtful`.
fn book() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for case in crate::pages::all() {
        let is_wrong = case.printed.lines().any(|line| line.starts_with("error["));
        let kind = if is_wrong { "wrong" } else { "doubtful" };
        case.write(&folder.path().join(kind).join(format!("{}, {}", case.code, case.title)));
    }
    folder
}

/// Every file of the workspaces in a folder, with the kind of file that it is, the workspace and its place in there.
fn files(samples: &Path) -> Vec<(FileKind, PathBuf, PathBuf)> {
    let mut files = Vec::new();
    for sample in samples.read_dir().unwrap().map(|entry| entry.unwrap().path()) {
        let mut add = |kind: FileKind, file: &str| {
            if sample.join(file).is_file() {
                files.push((kind, sample.clone(), PathBuf::from(file)));
            }
        };
        add(FileKind::Dalsegno, "dalsegno.toml");
        add(FileKind::Lock, Lock::FILE);
        add(FileKind::Script, "script.toml");
        let folders = [
            (FileKind::Agent, "agents"),
            (FileKind::Case, "tests"),
            (FileKind::Eval, "tests/evals"),
            (FileKind::Tenant, "tenants"),
            (FileKind::Tool, "tools"),
        ];
        for (kind, folder) in folders {
            for file in sample.join(folder).read_dir().into_iter().flatten() {
                add(kind, &format!("{folder}/{}", file.unwrap().file_name().to_string_lossy()));
            }
        }
    }
    files.sort();
    files
}

/// A file as JSON; `None` if it is neither TOML nor JSON.
fn document(path: &Path) -> Option<Value> {
    if path.extension().is_some_and(|extension| extension == "json") {
        return serde_json::from_str(&fs::read_to_string(path).unwrap()).ok();
    }
    let table: toml::Table = fs::read_to_string(path).unwrap().parse().ok()?;
    serde_json::to_value(table).ok()
}

fn validator(kind: FileKind) -> jsonschema::Validator {
    jsonschema::draft7::new(&schema(kind)).unwrap()
}

fn evals(root: &Path) -> impl Iterator<Item = PathBuf> {
    root.join("tests/evals").read_dir().into_iter().flatten().map(|entry| entry.unwrap().path())
}

fn problems(root: &Path) -> Vec<Diagnostic> {
    let loaded = Workspace::load(root);
    let mut found = loaded.diagnostics;
    found.extend(loaded.workspace.iter().flat_map(|workspace| workspace.cases().diagnostics));
    for (workspace, file) in
        loaded.workspace.iter().flat_map(|workspace| evals(root).map(move |file| (workspace, file)))
    {
        found.extend(workspace.eval(&file).diagnostics);
    }
    found.extend(Lock::read(root).diagnostics);
    found
}

#[test]
fn every_schema_is_a_schema_and_explains_every_key() {
    fn explained(schema: &Value, path: &str) {
        for (key, below) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}/{key}");
            let is_tag = below["enum"].is_array() && schema["allOf"].is_array();
            let words = below["description"].as_str().unwrap_or_default();
            assert!(is_tag || words.ends_with('.'), "{path}: {words:?}");
            explained(below, &path);
        }
        for (name, below) in schema["definitions"].as_object().into_iter().flatten() {
            explained(below, &format!("{path}/{name}"));
        }
        for below in ["items", "additionalProperties", "then"].map(|key| &schema[key]) {
            if below.is_object() {
                explained(below, path);
            }
        }
        for below in ["anyOf", "allOf"].iter().flat_map(|key| schema[key].as_array().into_iter().flatten()) {
            explained(below, path);
        }
    }
    for kind in FileKind::ALL {
        assert!(jsonschema::meta::is_valid(&schema(kind)), "{kind}");
        explained(&schema(kind), kind.as_str());
        assert_eq!(kind.as_str().parse(), Ok(kind));
    }
    assert!("agnet".parse::<FileKind>().unwrap_err().to_string().contains("`agent`"));
}

#[test]
fn every_right_file_fits_its_schema() {
    let book = book();
    for (kind, sample, file) in right().into_iter().chain(files(&book.path().join("doubtful"))) {
        let document = document(&sample.join(&file)).unwrap();
        let errors: Vec<_> = validator(kind).iter_errors(&document).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{} {}: {errors:?}", sample.display(), file.display());
    }
}

#[test]
fn every_tool_that_comes_with_dalsegno_fits_the_schema() {
    for battery in dalsegno_workspace::batteries() {
        let document = serde_json::from_str(battery.text).unwrap();
        let errors: Vec<_> =
            validator(FileKind::Tool).iter_errors(&document).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{}: {errors:?}", battery.name);
    }
}

#[test]
fn a_file_with_an_unknown_key_or_a_wrong_type_does_not_fit() {
    let shown =
        [Code::UnknownKey, Code::KeyBelowTable, Code::WrongType, Code::MissingKey, Code::UnknownProvider];
    let mut seen = BTreeSet::new();
    let book = book();
    for (kind, sample, file) in files(&book.path().join("wrong")) {
        let found = problems(&sample);
        let codes: BTreeSet<_> =
            found.iter().filter(|found| found.file == file).map(|found| found.code).collect();
        let Some(document) = document(&sample.join(&file)) else { continue };
        // That a public endpoint needs a key depends on the address; what a toolkit takes, only the toolkit tells; and
        // settings of a tenant may have any name.
        if sample.ends_with("missing-key, The API key of a provider")
            || sample.ends_with("unknown-key, A tenant's configuration of a tool")
            || sample.ends_with("key-below-table, In a tenant's file")
        {
            continue;
        }
        if shown.iter().any(|code| codes.contains(code)) {
            assert!(
                !validator(kind).is_valid(&document),
                "{} {}: {codes:?}",
                sample.display(),
                file.display()
            );
            seen.extend(codes);
        }
    }
    assert!(shown.iter().all(|code| seen.contains(code)), "{seen:?}");
}

/// The places of all keys of a document, as a schema counts them: `*` stands for a name that the author chose.
fn places(schema: &Value, document: &Value, path: &str, found: &mut BTreeSet<String>) {
    found.insert(path.to_owned());
    for one in ["anyOf", "allOf"].iter().flat_map(|key| schema[key].as_array().into_iter().flatten()) {
        let applies = |condition: &Value| condition.is_null() || jsonschema::is_valid(condition, document);
        let one = if one["then"].is_object() && applies(&one["if"]) { &one["then"] } else { one };
        if jsonschema::is_valid(one, document) {
            places(one, document, path, found);
        }
    }
    for (key, value) in document.as_object().into_iter().flatten() {
        if schema["properties"][key].is_object() {
            places(&schema["properties"][key], value, &format!("{path}/{key}"), found);
        } else if schema["additionalProperties"].is_object() {
            places(&schema["additionalProperties"], value, &format!("{path}/*"), found);
        }
    }
    for item in document.as_array().into_iter().flatten() {
        if schema["items"].is_object() {
            places(&schema["items"], item, &format!("{path}/[]"), found);
        }
    }
}

/// All places that a schema knows.
fn known(schema: &Value, path: &str, found: &mut BTreeSet<String>) {
    found.insert(path.to_owned());
    for one in ["anyOf", "allOf"].iter().flat_map(|key| schema[key].as_array().into_iter().flatten()) {
        known(if one["then"].is_object() { &one["then"] } else { one }, path, found);
    }
    for (key, below) in schema["properties"].as_object().into_iter().flatten() {
        known(below, &format!("{path}/{key}"), found);
    }
    if schema["additionalProperties"].is_object() {
        known(&schema["additionalProperties"], &format!("{path}/*"), found);
    }
    if schema["items"].is_object() {
        known(&schema["items"], &format!("{path}/[]"), found);
    }
}

/// A step inside `parallel` is read by what reads a step.
fn plain(place: &str) -> String {
    place.replace("/parallel/[]/", "/")
}

/// With [`every_right_file_fits_its_schema`]: a key that only one side knows is found, whichever side it is.
#[test]
fn every_key_of_every_schema_is_read_from_some_right_file() {
    let book = book();
    // The schema of tools refers to parts of itself, which this does not follow; the changes below do.
    for kind in FileKind::ALL.into_iter().filter(|kind| *kind != FileKind::Tool) {
        let mut missing = BTreeSet::new();
        known(&schema(kind), "", &mut missing);
        // What is right and draws a warning stands among the doubtful ones.
        let samples = right().into_iter().chain(files(&book.path().join("doubtful")));
        for (_, sample, file) in samples.filter(|(of, ..)| *of == kind) {
            let mut found = BTreeSet::new();
            places(&schema(kind), &document(&sample.join(file)).unwrap(), "", &mut found);
            let found: BTreeSet<_> = found.iter().map(|place| plain(place)).collect();
            missing.retain(|place| !found.contains(&plain(place)));
        }
        assert!(missing.is_empty(), "{kind}: {missing:#?}");
    }
}

/// Every document that differs from a right one in one place: there stands something of another type, or a new key.
fn changed(value: &Value) -> Vec<Value> {
    let others = [json!(true), json!(12.5), json!("§ {{"), json!([]), json!([{}]), json!({ "zzz": 1 })];
    let mut all: Vec<_> = others.into_iter().filter(|other| other != value).collect();
    match value {
        Value::Object(members) => {
            let mut more = members.clone();
            more.insert("zzz".to_owned(), json!(1));
            all.push(more.into());
            for (key, below) in members {
                let mut less = members.clone();
                less.remove(key);
                all.push(less.into());
                for below in changed(below) {
                    let mut other = members.clone();
                    other.insert(key.clone(), below);
                    all.push(other.into());
                }
            }
        }
        Value::Array(items) => {
            for (index, below) in items.iter().enumerate() {
                for below in changed(below) {
                    let mut other = items.clone();
                    other[index] = below;
                    all.push(other.into());
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    all
}

fn copy(from: &Path, to: &Path) {
    for entry in from.read_dir().unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            fs::create_dir(&target).unwrap();
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Whatever the schema refuses, the reader refuses; and what the reader refuses for its form, the schema refuses, too.
#[test]
fn the_reader_and_the_schema_agree_on_every_small_change() {
    let count: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = right()
            .into_iter()
            // The reader of a script is the scripted model's.
            .filter(|(kind, ..)| *kind != FileKind::Script)
            .map(|(kind, sample, file)| scope.spawn(move || agree(kind, &sample, &file)))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!(count > 1_000, "{count}");
}

/// Tries every small change of a sample; returns how many there were.
fn agree(kind: FileKind, sample: &Path, file: &Path) -> usize {
    let mut count = 0;
    let folder = tempfile::tempdir().unwrap();
    copy(sample, folder.path());
    let validator = validator(kind);
    for changed in changed(&document(&sample.join(file)).unwrap()).into_iter().filter(Value::is_object) {
        let text = match kind {
            FileKind::Tool => Some(changed.to_string()),
            _ => toml::to_string(&changed).ok(),
        };
        let Some(text) = text else { continue };
        fs::write(folder.path().join(file), &text).unwrap();
        let found = problems(folder.path());
        let here = || found.iter().filter(|found| found.file == file && found.is_error());
        let fits = validator.is_valid(&changed);
        let why = || validator.iter_errors(&changed).map(|error| error.to_string()).collect::<Vec<_>>();
        assert!(fits || here().next().is_some(), "only the schema of `{kind}` refuses: {:?}\n{text}", why());
        let form = [Code::UnknownKey, Code::KeyBelowTable, Code::WrongType, Code::MissingKey];
        let refused = here().find(|found| form.contains(&found.code) && !is_beyond_schemas(found));
        assert!(!fits || refused.is_none(), "only the reader of `{kind}` refuses: {refused:?}\n{text}");
        count += 1;
    }
    count
}

/// That a public endpoint needs a key or a region, only its address tells; what a toolkit takes, only the toolkit; whether a case
/// needs an agent, only the top of its file; that one of several keys must be there, no table of keys.
fn is_beyond_schemas(diagnostic: &Diagnostic) -> bool {
    let beyond = [
        "a case has no `agent`",
        "a property has no `agent`",
        "a property does not say what must hold",
        "has no `api_key`",
        "has no `region`",
        "is not in the configuration of",
        "has no secret",
    ];
    beyond.iter().any(|words| diagnostic.message.contains(words))
}
