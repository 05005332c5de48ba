//! The names that AWS gives its errors, in a header, in a body or in an exception of a stream.

use crate::model::ModelErrorKind;

/// The header with the name of an error.
pub(super) const CODE: &str = "x-amzn-errortype";

/// The name alone: AWS writes `com.amazonaws.bedrock#ThrottlingException:http://…` as well.
pub(super) fn name(code: &str) -> &str {
    let code = code.split(':').next().unwrap_or(code);
    code.rsplit('#').next().unwrap_or(code)
}

/// What an error of this name is, where its status says less.
pub(super) fn kind(codes: &[String]) -> Option<ModelErrorKind> {
    use ModelErrorKind::{Protocol, RateLimited, Refused, Unavailable};
    let kind = |code: &String| {
        Some(match code.to_ascii_lowercase().as_str() {
            "throttlingexception" | "modelnotreadyexception" => RateLimited,
            "serviceunavailableexception" | "internalserverexception" => Unavailable,
            // The model has worked on it.
            "modelerrorexception" | "modelstreamerrorexception" | "modeltimeoutexception" => Protocol,
            "validationexception" | "accessdeniedexception" | "resourcenotfoundexception" => Refused,
            "servicequotaexceededexception" => Refused,
            _ => return None,
        })
    };
    codes.iter().find_map(kind)
}

/// Whether a request was refused for its key alone, and another one may do.
pub(super) fn is_key_refused(codes: &[String], words: &str) -> bool {
    const NAMES: [&str; 6] = [
        "ExpiredToken",
        "ExpiredTokenException",
        "UnrecognizedClientException",
        "InvalidClientTokenId",
        "InvalidAccessKeyId",
        "InvalidIdentityToken",
    ];
    let is_denied = has(codes, "AccessDeniedException");
    // A key of Bedrock itself has no name of its own for it.
    let words = words.to_lowercase();
    let is_token =
        is_denied && (words.contains("token has expired") || words.contains("authentication failed"));
    is_token || NAMES.iter().any(|name| has(codes, name))
}

/// What to do about an error, where there is more to say than its status does.
pub(super) fn advice(codes: &[String], words: &str) -> Option<&'static str> {
    let words = words.to_lowercase();
    if has(codes, "InvalidSignatureException") || has(codes, "SignatureDoesNotMatch") {
        let is_late = words.contains("signature expired") || words.contains("not yet current");
        return Some(match is_late {
            true => "; the clock of this machine is wrong: set it, since a signature holds for five minutes",
            false => "; check `secret_access_key` and the `region` of the model",
        });
    }
    if has(codes, "ExpiredTokenException") || has(codes, "ExpiredToken") {
        return Some(
            "; the session of the AWS credentials is over: log in again, or let `command` print new ones",
        );
    }
    if has(codes, "UnrecognizedClientException") {
        return Some("; check the access key, and its `session_token` if it is one of a session");
    }
    if has(codes, "ValidationException") && words.contains("on-demand throughput") {
        return Some(
            "; write the model with the prefix of a region, such as `eu.` or `us.`, or the ARN of a profile",
        );
    }
    if has(codes, "ServiceQuotaExceededException") {
        return Some("; ask AWS for a higher quota of this model");
    }
    None
}

fn has(codes: &[String], name: &str) -> bool {
    codes.iter().any(|code| code.eq_ignore_ascii_case(name))
}
