//! Writes `dalsegno.lock`, so that it reads well as a diff: one key a line, schemas spread out.

use std::fmt::Write;

use dalsegno_core::OrderedJson;
use serde_json::Value;

use super::{Lock, LockedServer, LockedTool, VERSION};

impl Lock {
    /// The text of the file: the same for the same catalogues and names, on every machine.
    pub fn to_text(&self) -> String {
        let mut text = format!(
            "# What the tool servers offer. Written by `dalsegno check --connect`: commit it, do not edit it.\n\
             version = {VERSION}\n"
        );
        if !self.names.is_empty() {
            text.push_str(NAMES);
        }
        for (tool, name) in &self.names {
            writeln!(text, "{} = \"{name}\"", quoted(tool.as_str())).expect("a string takes every text");
        }
        for (name, server) in &self.servers {
            write_server(&mut text, name, server).expect("a string takes every text");
        }
        text
    }
}

/// What stands above the names.
const NAMES: &str = "
# By these names models see the actions of toolkits; other names may be written here. A name stays while its tool is there.
[names]
";

fn write_server(text: &mut String, name: &str, server: &LockedServer) -> std::fmt::Result {
    let name = key(name);
    write!(text, "\n[servers.{name}]\ndigest = \"{}\"\n", server.digest())?;
    for (tool, locked) in &server.tools {
        write!(text, "\n[[servers.{name}.tools]]\nname = {}\n", quoted(tool))?;
        write_tool(text, locked)?;
    }
    Ok(())
}

fn write_tool(text: &mut String, tool: &LockedTool) -> std::fmt::Result {
    writeln!(text, "description = {}", literal(&tool.description))?;
    let annotations =
        [("read_only", tool.read_only), ("idempotent", tool.idempotent), ("destructive", tool.destructive)];
    for (name, value) in annotations {
        if let Some(value) = value {
            writeln!(text, "{name} = {value}")?;
        }
    }
    if tool.builtin {
        writeln!(text, "builtin = true")?;
    }
    writeln!(text, "input_schema = {}", literal(&pretty(&tool.input_schema.ordered())))?;
    if let Some(schema) = &tool.output_schema {
        writeln!(text, "output_schema = {}", literal(&pretty(&OrderedJson::sorted(schema))))?;
    }
    Ok(())
}

/// JSON over several lines.
fn pretty(value: &OrderedJson) -> String {
    serde_json::to_string_pretty(value).expect("all keys of JSON are texts")
}

/// A string over several lines as it is, where TOML can hold it so; else with escapes.
fn literal(text: &str) -> String {
    let is_plain = text.chars().all(|letter| letter == '\n' || !letter.is_control());
    if text.contains('\n') && is_plain && !text.contains("'''") && !text.ends_with('\'') {
        return format!("'''\n{text}'''");
    }
    quoted(text)
}

/// A string with escapes. Those of JSON are all known in TOML, which wants one letter more to be escaped.
fn quoted(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

fn key(name: &str) -> String {
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if !name.is_empty() && name.bytes().all(is_bare) { name.to_owned() } else { quoted(name) }
}
