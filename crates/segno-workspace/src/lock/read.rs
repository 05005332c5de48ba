//! Reads `segno.lock`.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use toml::de::DeTable;

use super::keys::{FILE, SERVER, TOOL};
use super::{Lock, LockedServer, LockedTool};
use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::report::Report;
use crate::section::Section;
use crate::source::SourceFile;

/// What came of reading a lock file.
#[derive(Debug, Clone)]
pub struct LockRead {
    /// What is pinned; `None` if there is no lock file, or if it is damaged.
    pub lock: Option<Lock>,
    /// What is wrong with it.
    pub diagnostics: Vec<Diagnostic>,
    /// The file, for whoever shows the diagnostics; `None` if there is none.
    pub source: Option<SourceFile>,
}

impl Lock {
    /// Reads the lock file of the workspace in `root`, if it has one.
    pub fn read(root: &Path) -> LockRead {
        let file = Path::new(Self::FILE);
        let mut diagnostics = Vec::new();
        let is_there = root.join(file).exists();
        let text = is_there.then(|| crate::workspace::read(root, file, FILE_BYTES_MAX, &mut diagnostics));
        let Some(text) = text.flatten() else { return LockRead { lock: None, diagnostics, source: None } };
        let report = Report::new(SourceFile::new(file.to_path_buf(), text.as_str()));
        let lock = report.parse(&text).map(|table| lock(&report, &table));
        let (source, diagnostics) = report.finish();
        let lock = lock.filter(|_| diagnostics.is_empty());
        LockRead { lock, diagnostics, source: Some(source) }
    }
}

fn lock(report: &Report, root: &DeTable<'_>) -> Lock {
    let file = Section::open(report, root, 0..0, FILE.what, &FILE);
    file.require_all();
    // Its range has said so where this is another version.
    file.integer::<u64>("version");
    let mut servers = BTreeMap::new();
    for (name, value) in file.tables("servers") {
        let what = format!("`[servers.{}]`", name.value);
        let Some(section) = Section::of(report, &name.value, value, &what, &SERVER) else { continue };
        let before = report.count();
        let mut server = LockedServer::default();
        for item in section.items("tools", "a list of tools") {
            let Some(section) = Section::of(report, "tools", item, TOOL.what, &TOOL) else { continue };
            let Some((name, tool)) = tool(&section) else { continue };
            if server.tools.insert(name.clone(), tool).is_some() {
                damaged(
                    report,
                    section.key_span("name").unwrap_or_default(),
                    format!("`{name}` is pinned twice"),
                );
            }
        }
        let digest = section.string("digest");
        // A tool that cannot be read has been reported; the digest would only say the same.
        if let Some(digest) = digest.filter(|_| report.count() == before)
            && digest.value != server.digest().to_string()
        {
            let problem =
                format!("the digest of `{}` does not belong to the tools that are listed", name.value);
            damaged(report, digest.span, problem);
        }
        servers.insert(name.value, server);
    }
    Lock { servers }
}

fn tool(section: &Section<'_>) -> Option<(String, LockedTool)> {
    let name = section.string("name");
    let description = section.string("description");
    let input_schema = schema(section, "input_schema");
    let output_schema = schema(section, "output_schema");
    let tool = LockedTool {
        description: description?.value,
        input_schema: input_schema?,
        output_schema,
        read_only: section.boolean("read_only"),
        idempotent: section.boolean("idempotent"),
        destructive: section.boolean("destructive"),
        builtin: section.boolean("builtin").unwrap_or(false),
    };
    Some((name?.value, tool))
}

fn schema(section: &Section<'_>, key: &str) -> Option<Value> {
    let text = section.string(key)?;
    serde_json::from_str(&text.value)
        .map_err(|error| {
            damaged(section.report, text.span, format!("`{key}` is not JSON: {error}"));
        })
        .ok()
}

fn damaged(report: &Report, span: std::ops::Range<usize>, problem: String) {
    report
        .error(Code::DamagedLock, span, problem)
        .label("the file was edited by hand, or merged")
        .help("run `segno check --connect`, which writes it anew and shows what changed");
}

/// A hundred servers of a hundred tools.
const FILE_BYTES_MAX: u64 = 16 << 20;
