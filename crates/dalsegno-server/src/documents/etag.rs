//! Versions as entity tags (RFC 9110): what a client has seen of a document.

use axum::http::HeaderMap;
use axum::http::header::{HeaderValue, IF_MATCH, IF_NONE_MATCH};
use dalsegno_catalogue::Version;
use dalsegno_runtime::Expected;

use crate::params;
use crate::problem::{Code, Problem};

/// Most versions that one header may name.
const TAGS_MAX: usize = 16;

/// A version as an entity tag.
pub(super) fn tag(version: Version) -> HeaderValue {
    // Hexadecimal digits in quotes are a header.
    HeaderValue::try_from(format!("\"{version}\"")).unwrap_or_else(|_| HeaderValue::from_static("\"\""))
}

/// What a writer has seen, which it has to say.
pub(super) fn expected(headers: &HeaderMap) -> Result<Expected, Problem> {
    let matches = params::header(headers, IF_MATCH.as_str())?;
    let none_matches = params::header(headers, IF_NONE_MATCH.as_str())?;
    let read = |tags: &str| match tags.trim() {
        "*" => Ok(Expected::Any),
        tags => Ok(Expected::OneOf(versions(tags, IF_MATCH.as_str())?)),
    };
    match (matches, none_matches) {
        (Some(tags), None) => read(tags),
        (None, Some(tags)) if tags.trim() == "*" => Ok(Expected::Absent),
        (None, Some(_)) => Err(Problem::parameter(
            IF_NONE_MATCH.as_str(),
            "is not `*`",
            "send `If-None-Match: *` to add a document, or `If-Match` with the ETag of the one that is there",
        )),
        (Some(_), Some(_)) => Err(Problem::parameter(
            IF_MATCH.as_str(),
            "is there with `If-None-Match`, which means the reverse",
            "send one of them",
        )),
        (None, None) => Err(Problem::new(
            Code::PreconditionRequired,
            "the request does not say which version of the document it changes",
            "send `If-Match` with the ETag of `GET`, or `If-None-Match: *` to add a document",
        )),
    }
}

/// Whether a reader has this version already.
pub(super) fn has(headers: &HeaderMap, version: Version) -> bool {
    let tags = params::header(headers, IF_NONE_MATCH.as_str()).ok().flatten();
    // A reader compares weakly: a weak tag is as good.
    tags.is_some_and(|tags| {
        tags.trim() == "*"
            || tags.split(',').any(|tag| tag.trim().trim_start_matches("W/") == format!("\"{version}\""))
    })
}

/// The versions that a header names. One that is weak, or none of ours, is the version of no document.
fn versions(tags: &str, name: &str) -> Result<Vec<Version>, Problem> {
    let help = "send the ETag of `GET` as it is, in quotes";
    let mut versions = Vec::new();
    for (index, tag) in tags.split(',').map(str::trim).enumerate() {
        if index >= TAGS_MAX {
            return Err(Problem::parameter(name, format!("has more than {TAGS_MAX} tags"), help));
        }
        let opaque = tag.strip_prefix("W/").unwrap_or(tag);
        let Some(text) = opaque.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
            return Err(Problem::parameter(name, "is no entity tag", help));
        };
        if !tag.starts_with("W/") {
            versions.extend(text.parse::<Version>().ok());
        }
    }
    Ok(versions)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(all: &[(&'static str, &str)]) -> HeaderMap {
        all.iter()
            .map(|(name, value)| ((*name).try_into().unwrap(), HeaderValue::from_str(value).unwrap()))
            .collect()
    }

    #[test]
    fn a_writer_says_what_it_has_seen() {
        let version = Version::of("x");
        let tag = format!("\"{version}\"");
        for (given, wanted) in [
            (vec![("if-match", "*")], Expected::Any),
            (vec![("if-none-match", "*")], Expected::Absent),
            (vec![("if-match", tag.as_str())], Expected::OneOf(vec![version])),
            (vec![("if-match", &format!("\"x\", {tag} , W/{tag}"))], Expected::OneOf(vec![version])),
            (vec![("if-match", &format!("W/{tag}"))], Expected::OneOf(Vec::new())),
        ] {
            assert_eq!(expected(&headers(&given)).unwrap(), wanted, "{given:?}");
        }
    }

    #[test]
    fn what_says_nothing_or_too_much_is_refused() {
        let many = vec!["\"x\""; TAGS_MAX + 1].join(",");
        for (given, code) in [
            (vec![], "precondition_required"),
            (vec![("if-none-match", "\"x\"")], "bad_request"),
            (vec![("if-match", "x")], "bad_request"),
            (vec![("if-match", "")], "bad_request"),
            (vec![("if-match", "*"), ("if-none-match", "*")], "bad_request"),
            (vec![("if-match", many.as_str())], "bad_request"),
        ] {
            assert_eq!(expected(&headers(&given)).unwrap_err().document()["code"], code, "{given:?}");
        }
    }
}
