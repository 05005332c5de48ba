//! Documents of a catalogue: they stand in for files of the same name, widen nothing, and harm nothing else.

use std::fs;
use std::path::{Path, PathBuf};

use dalsegno_core::ToolOwner;
use dalsegno_workspace::{Code, DocumentPlace, Documents, InCode, Loaded, Severity, Workspace};
use tempfile::TempDir;

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("dalsegno.toml"), "").unwrap();
    for (file, text) in files {
        let path = folder.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

fn tool(name: &str, word: &str) -> String {
    format!(r#"{{"name":"{name}","description":"{word}","actions":[{{"type":"respond","message":"x"}}]}}"#)
}

fn agent(name: &str, description: &str) -> String {
    format!("name = \"{name}\"\ndescription = \"{description}\"\n[[steps]]\nrespond = \"x\"\n")
}

fn all(name: &str) -> DocumentPlace {
    DocumentPlace::Tool(name.to_owned())
}

fn of(tenant: &str, name: &str) -> DocumentPlace {
    DocumentPlace::ToolOf { tenant: tenant.to_owned(), name: name.to_owned() }
}

fn load(folder: &TempDir, documents: &[(DocumentPlace, &str)]) -> Loaded {
    let mut read = Documents::of_generation(7);
    for (place, text) in documents {
        read.set(place.clone(), Some(text));
    }
    Workspace::load_under(folder.path(), &InCode::default(), |_| Ok(read))
}

fn errors(loaded: &Loaded) -> Vec<(String, Code)> {
    let found = loaded.diagnostics.iter().filter(|found| found.is_error());
    found.map(|found| (found.file.to_string_lossy().into_owned(), found.code)).collect()
}

fn says(workspace: &Workspace, tenant: &str, tool: &str) -> Option<String> {
    let toolkits = workspace.toolkits_for(tenant);
    Some(toolkits.get(tool)?.toolkit.tools()[0].description())
}

#[test]
fn each_layer_stands_in_for_the_one_before() {
    let files = [
        ("tools/crm.json", &*tool("crm", "file")),
        ("tenants/acme.toml", "name = \"acme\"\n"),
        ("tenants/acme/tools/crm.json", &*tool("crm", "file of acme")),
        ("tenants/rival.toml", "name = \"rival\"\n"),
    ];
    let folder = folder(&files);
    let (all_text, own_text) = (tool("crm", "document"), tool("crm", "document of acme"));
    let (shared, own) = ((all("crm"), all_text.as_str()), (of("acme", "crm"), own_text.as_str()));
    for (documents, expected) in [
        (vec![], ["file of acme", "file", "file"]),
        (vec![shared.clone()], ["file of acme", "document", "document"]),
        (vec![own.clone()], ["document of acme", "file", "file"]),
        (vec![shared, own], ["document of acme", "document", "document"]),
    ] {
        let loaded = load(&folder, &documents);
        assert_eq!(errors(&loaded), []);
        let notes = loaded.diagnostics.iter().filter(|found| found.severity == Severity::Note).count();
        assert_eq!(notes, documents.len(), "each file that is covered is named");
        let workspace = loaded.workspace.unwrap();
        assert_eq!(workspace.documents.generation(), Some(7));
        let seen = ["acme", "rival", "default"].map(|tenant| says(&workspace, tenant, "crm").unwrap());
        assert_eq!(seen, expected);
        let owner = workspace.owner_of("rival", "crm");
        // What the catalogue has for all is each tenant's own: it gets no secret of the workspace.
        let is_document = expected[1] == "document";
        let wanted = if is_document { ToolOwner::Tenant("rival".to_owned()) } else { ToolOwner::Workspace };
        assert_eq!(owner, wanted);
    }
}

#[test]
fn a_document_stands_in_for_a_file_of_its_name_whatever_the_file_is_called() {
    let folder = folder(&[
        ("tools/other.json", &tool("crm", "file")),
        ("agents/other.toml", &agent("desk", "file")),
        ("tenants/other.toml", "name = \"acme\"\ndescription = \"file\"\n"),
    ]);
    let (crm, desk) = (tool("crm", "document"), agent("desk", "document"));
    let documents = [
        (all("crm"), crm.as_str()),
        (DocumentPlace::Agent("desk".to_owned()), desk.as_str()),
        (DocumentPlace::Tenant("acme".to_owned()), "name = \"acme\"\ndescription = \"document\"\n"),
    ];
    let loaded = load(&folder, &documents);
    assert_eq!(errors(&loaded), []);
    let workspace = loaded.workspace.unwrap();
    assert_eq!(says(&workspace, "acme", "crm").as_deref(), Some("document"));
    assert_eq!(workspace.agents[&"desk".parse().unwrap()].description, "document");
    assert_eq!(workspace.tenants["acme"].description, "document");
    assert_eq!((workspace.agents.len(), workspace.toolkits.len(), workspace.tenants.len()), (1, 1, 1));
}

#[test]
fn a_document_with_errors_uncovers_no_file_and_takes_nothing_else_with_it() {
    let folder = folder(&[
        ("tools/crm.json", &tool("crm", "file")),
        ("tools/good.json", &tool("good", "file")),
        ("agents/desk.toml", &agent("desk", "file")),
        ("agents/other.toml", &agent("other", "file")),
        ("tenants/acme.toml", "name = \"acme\"\negress = [\"https://wide.example\"]\n"),
        ("tenants/rival.toml", "name = \"rival\"\n"),
    ]);
    for wrong in ["", "{", "name = ", "name = \"x\"\n", "{\"name\":\"y\"}"] {
        let documents = [
            (all("crm"), wrong),
            (DocumentPlace::Agent("desk".to_owned()), wrong),
            (DocumentPlace::Tenant("acme".to_owned()), wrong),
            (of("rival", "good"), wrong),
        ];
        let loaded = load(&folder, &documents);
        let wrong_files: std::collections::BTreeSet<_> =
            errors(&loaded).into_iter().map(|(file, _)| file).collect();
        let expected = [
            "catalogue/agents/desk.toml",
            "catalogue/tenants/acme.toml",
            "catalogue/tenants/rival/tools/good.json",
            "catalogue/tools/crm.json",
        ];
        assert_eq!(wrong_files.iter().map(String::as_str).collect::<Vec<_>>(), expected, "{wrong:?}");
        let workspace = loaded.sound().unwrap();
        assert_eq!(says(&workspace, "default", "crm"), None, "the file is not used instead");
        assert!(workspace.check_tenant("acme").is_err() && workspace.check_tenant("rival").is_ok());
        assert_eq!(workspace.agents.keys().map(ToString::to_string).collect::<Vec<_>>(), ["other"]);
        let broken = workspace.broken_agent(&"desk".parse().unwrap()).unwrap();
        assert_eq!(
            broken.files.into_iter().collect::<Vec<_>>(),
            [PathBuf::from("catalogue/agents/desk.toml")]
        );
        assert!(
            workspace.broken_agent(&"missing".parse().unwrap()).is_none(),
            "the document is no other agent"
        );
        assert_eq!(says(&workspace, "rival", "good"), None);
        assert_eq!(says(&workspace, "default", "good").as_deref(), Some("file"));
    }
}

#[test]
fn a_document_says_its_own_name() {
    let folder = folder(&[("tenants/acme.toml", "name = \"acme\"\n")]);
    let (crm, desk) = (tool("other", "x"), agent("other", "x"));
    for (place, text) in [
        (all("crm"), crm.as_str()),
        (of("acme", "crm"), crm.as_str()),
        (DocumentPlace::Agent("desk".to_owned()), desk.as_str()),
        (DocumentPlace::Tenant("new".to_owned()), "name = \"acme\"\n"),
    ] {
        let loaded = load(&folder, &[(place.clone(), text)]);
        let found = errors(&loaded);
        assert!(
            found.contains(&(place.source().to_string_lossy().into_owned(), Code::FileName)),
            "{place}: {found:?}"
        );
    }
}

#[test]
fn a_document_of_a_tenant_that_is_gone_is_read_by_nothing() {
    let folder = folder(&[("tools/crm.json", &tool("crm", "file"))]);
    let text = tool("crm", "document");
    let loaded = load(&folder, &[(of("gone", "crm"), text.as_str())]);
    assert_eq!(errors(&loaded), [("catalogue/tenants/gone/tools/crm.json".to_owned(), Code::UnknownTenant)]);
    let workspace = loaded.sound().unwrap();
    assert_eq!(says(&workspace, "default", "crm").as_deref(), Some("file"));
}

#[test]
fn a_document_takes_no_name_that_is_pinned() {
    let toolkit = r#"{"name":"crm","description":"x","actions":[{"name":"find","description":"x","actions":[{"type":"respond","message":"x"}]}]}"#;
    let folder = folder(&[
        ("tools/crm.json", toolkit),
        ("tenants/acme.toml", "name = \"acme\"\n"),
        ("dalsegno.lock", "version = 1\n\n[names]\n\"crm.find\" = \"find\"\n"),
    ]);
    let pinned = load(&folder, &[]).sound().unwrap();
    assert_eq!(pinned.names.len(), 1, "{:?}", pinned.names);
    let text = tool("find", "document");
    for place in [all("find"), of("acme", "find")] {
        let loaded = load(&folder, &[(place.clone(), text.as_str())]);
        let source = place.source().to_string_lossy().into_owned();
        assert_eq!(errors(&loaded), [(source, Code::ToolNameClash)]);
        let workspace = loaded.sound().unwrap();
        assert_eq!(workspace.names, pinned.names);
        assert_eq!(says(&workspace, "acme", "find"), None);
        assert!(says(&workspace, "acme", "crm").is_some());
    }
}

#[test]
fn a_catalogue_that_cannot_be_read_refuses_the_workspace() {
    let folder = folder(&[("agents/desk.toml", &agent("desk", "file"))]);
    let file = folder.path().join(".dalsegno/catalogue.db");
    let loaded =
        Workspace::load_under(folder.path(), &InCode::default(), |_| Err((file, "it is damaged".to_owned())));
    assert_eq!(errors(&loaded), [(".dalsegno/catalogue.db".to_owned(), Code::UnreadableFile)]);
    assert!(loaded.sound().is_err(), "what the files say may be wider");
}

#[test]
fn a_folder_of_that_name_is_nobodys_catalogue() {
    let folder = folder(&[
        ("catalogue/tools/crm.json", "{"),
        ("catalogue/agents/desk.toml", "name = "),
        ("agents/desk.toml", &agent("desk", "file")),
    ]);
    let workspace = load(&folder, &[]).workspace.unwrap();
    assert!(workspace.toolkits.is_empty());
    assert_eq!(workspace.agents[&"desk".parse().unwrap()].source.file(), Path::new("agents/desk.toml"));
}
