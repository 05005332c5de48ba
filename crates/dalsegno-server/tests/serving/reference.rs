//! The book's page of the interface, made from its document.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

/// The book's reference. `UPDATE=1 cargo test --workspace --test serving the_book` writes it anew.
#[test]
fn the_book_has_the_interface_as_it_is() {
    let page = page(&dalsegno_server::openapi());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/http-api.md");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    let hint = "docs/src/http-api.md is old: UPDATE=1 cargo test --workspace --test serving the_book";
    assert!(committed == page, "{hint}");
}

fn page(document: &Value) -> String {
    let mut page = String::from(
        "# HTTP API reference\n\nThis page is made from `/openapi.json`, which every server sends without a key. [Run a server](serve.md) \
         explains keys, streams and answers.\n",
    );
    let methods = ["get", "post", "put", "patch", "delete"];
    for tag in document["tags"].as_array().unwrap() {
        let name = tag["name"].as_str().unwrap();
        let mut title = name.to_owned();
        title[..1].make_ascii_uppercase();
        write!(page, "\n## {title}\n\n{}\n", text(&tag["description"])).unwrap();
        for (path, item) in document["paths"].as_object().unwrap() {
            for method in methods {
                let operation = &item[method];
                if operation["tags"][0] == name {
                    describe(&mut page, &method.to_uppercase(), path, operation);
                }
            }
        }
    }
    page.push_str("\n## Documents\n");
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        write!(page, "\n### `{name}`\n\n").unwrap();
        of_schema(&mut page, schema);
    }
    page
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default().trim()
}

/// A text in a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

fn describe(page: &mut String, method: &str, path: &str, operation: &Value) {
    write!(page, "\n### `{method} {path}`\n\n{}\n", text(&operation["summary"])).unwrap();
    if let Some(description) = operation["description"].as_str() {
        write!(page, "\n{}\n", description.trim()).unwrap();
    }
    match operation["security"][0]["key"][0].as_str() {
        Some(scope) => write!(page, "\nScope: `{scope}`.\n").unwrap(),
        None => page.push_str("\nIt needs no key.\n"),
    }
    let parameters = operation["parameters"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !parameters.is_empty() {
        page.push_str("\n| parameter | in | type | meaning |\n|---|---|---|---|\n");
    }
    for one in parameters {
        let (name, place) = (text(&one["name"]), text(&one["in"]));
        let required = if one["required"] == true && place != "path" { " Required." } else { "" };
        let meaning = cell(text(&one["description"]));
        writeln!(page, "| `{name}` | {place} | {} | {meaning}{required} |", kind(&one["schema"])).unwrap();
    }
    let body = &operation["requestBody"]["content"]["application/json"];
    if let Some(name) = name(&body["schema"]) {
        let example = serde_json::to_string_pretty(&body["example"]).unwrap();
        write!(page, "\nThe body is {}:\n\n```json\n{example}\n```\n", link(name)).unwrap();
    }
    if let Some(name) = name(&operation["requestBody"]["content"]["multipart/form-data"]["schema"]) {
        write!(page, "\nOr it is a form, `multipart/form-data`, with the parts of {}.\n", link(name))
            .unwrap();
    }
    page.push_str("\n| status | answer |\n|---|---|\n");
    let mut problems = Vec::new();
    for (status, response) in operation["responses"].as_object().unwrap() {
        let description = text(&response["description"]);
        if !status.starts_with(['1', '2']) {
            problems.push(format!("{status} {}", codes(description)));
            continue;
        }
        let content = response["content"].as_object().into_iter().flatten();
        let bodies: Vec<String> = content.map(|(of, content)| sent(of, &content["schema"])).collect();
        let headers = response["headers"].as_object().into_iter().flatten();
        let headers: Vec<String> = headers
            .map(|(name, header)| format!("`{name}`: {}", cell(text(&header["description"]))))
            .collect();
        let mut words = vec![cell(description)];
        words.extend((!bodies.is_empty()).then(|| format!("{}.", bodies.join(" or "))));
        words.extend((!headers.is_empty()).then(|| format!("Headers: {}", headers.join(" "))));
        writeln!(page, "| {status} | {} |", words.join(" ")).unwrap();
    }
    write!(page, "\nProblems: {}.\n", problems.join(", ")).unwrap();
}

/// The codes that a description begins its sentences with, as links to their pages.
fn codes(description: &str) -> String {
    let known: BTreeSet<&str> = dalsegno_server::Code::ALL.iter().map(|code| code.as_str()).collect();
    let named = description.split('`').filter(|word| known.contains(word));
    named.map(|code| format!("[`{code}`](errors/{code}.md)")).collect::<Vec<_>>().join(" ")
}

fn sent(of: &str, schema: &Value) -> String {
    match name(schema) {
        Some(name) => link(name),
        None => format!("`{of}`"),
    }
}

/// The schema that is referred to.
fn name(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str()?.rsplit('/').next()
}

fn link(name: &str) -> String {
    format!("[`{name}`](#{})", name.to_lowercase())
}

/// A type in words.
fn kind(schema: &Value) -> String {
    if let Some(name) = name(schema) {
        return link(name);
    }
    for forms in ["oneOf", "anyOf", "allOf"] {
        if let Some(forms) = schema[forms].as_array() {
            return forms.iter().map(kind).collect::<Vec<_>>().join(" or ");
        }
    }
    let words = |of: &str| match of {
        "array" => format!("list of {}", kind(&schema["items"])),
        "integer" => match (schema["minimum"].as_i64(), schema["maximum"].as_i64()) {
            (Some(least), Some(most)) => format!("whole number from {least} to {most}"),
            (Some(least), None) => format!("whole number from {least}"),
            _ => "whole number".to_owned(),
        },
        "string" if schema["enum"].is_array() => {
            let values = schema["enum"].as_array().unwrap().iter().map(|value| format!("`{}`", text(value)));
            values.collect::<Vec<_>>().join(", ")
        }
        "string" => "text".to_owned(),
        of => of.to_owned(),
    };
    match &schema["type"] {
        Value::String(of) => words(of),
        Value::Array(types) => types.iter().map(|of| words(text(of))).collect::<Vec<_>>().join(" or "),
        _ => "any value".to_owned(),
    }
}

/// What a schema says: its parts, its keys, or its type.
fn of_schema(page: &mut String, schema: &Value) {
    if let Some(description) = schema["description"].as_str() {
        writeln!(page, "{}\n", description.trim()).unwrap();
    }
    let mut keys = Vec::new();
    let mut parts = Vec::new();
    collect(schema, &mut keys, &mut parts);
    if !parts.is_empty() {
        writeln!(
            page,
            "It has all keys of {}{}\n",
            parts.join(" and "),
            if keys.is_empty() { "." } else { ", and:" }
        )
        .unwrap();
    }
    if keys.is_empty() {
        if parts.is_empty() {
            writeln!(page, "Type: {}.", kind(schema)).unwrap();
        }
        return;
    }
    page.push_str("| key | type | meaning |\n|---|---|---|\n");
    for (name, key, is_required) in keys {
        let of_form = |forms: &Value| {
            forms.as_array().and_then(|forms| forms[0]["description"].as_str()).map(str::to_owned)
        };
        let meaning = key["description"].as_str().map(str::to_owned).or_else(|| of_form(&key["oneOf"]));
        let optional = if is_required { "" } else { " May be left out." };
        writeln!(page, "| `{name}` | {} | {}{optional} |", kind(key), cell(&meaning.unwrap_or_default()))
            .unwrap();
    }
}

fn collect<'s>(schema: &'s Value, keys: &mut Vec<(&'s str, &'s Value, bool)>, parts: &mut Vec<String>) {
    for part in schema["allOf"].as_array().into_iter().flatten() {
        match name(part) {
            Some(name) => parts.push(link(name)),
            None => collect(part, keys, parts),
        }
    }
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().map(text).collect();
    for (name, key) in schema["properties"].as_object().into_iter().flatten() {
        keys.push((name, key, required.contains(&name.as_str())));
    }
}
