//! Reads `[serve]`.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::PathBuf;

use super::paths::Paths;
use super::{ServeSettings, TlsFiles, dispatch, oidc, url};
use crate::code::Code;
use crate::section::Section;
use crate::shape::{Form, Key, Shape};

pub(super) static SHAPE: Shape = Shape::new(
    "`[serve]`",
    &[
        Key::new(
            "address",
            Form::Text,
            "Address and port to listen at; `127.0.0.1:8700` by default. Beyond loopback it needs `certificate` or `behind_proxy`.",
        ),
        Key::new(
            "hosts",
            Form::List(&Form::Text),
            "Names by which clients call the server, such as `agents.example.com`, beside those of this machine.",
        ),
        Key::new(
            "behind_proxy",
            Form::Boolean,
            "Whether a proxy that encrypts connections forwards them; `false` by default.",
        ),
        Key::new(
            "certificate",
            Form::Text,
            "File with the TLS certificate of the server and those that lead to its issuer, in PEM; with `private_key`. Read again when it changes.",
        ),
        Key::new("private_key", Form::Text, "File with the private key of `certificate`, in PEM."),
        Key::new("connections", dispatch::COUNT, "Maximum number of connections; 12,000 by default."),
        Key::new(
            "requests_per_minute",
            dispatch::COUNT,
            "Maximum number of requests of an access key in a minute; 6,000 by default.",
        ),
        Key::new(
            "refusals_per_minute",
            dispatch::COUNT,
            "Maximum number of requests without a good credential from one address in a minute; 60 by default.",
        ),
        Key::new(
            "streams",
            dispatch::COUNT,
            "Maximum number of open streams of an access key; 100 by default.",
        ),
        Key::new("body", Form::Size, "Maximum size of the body of a request; `4 MiB` by default."),
        Key::new(
            "webhooks",
            Form::List(&Form::Text),
            "Receivers of webhooks besides public ones over `https`, for every tenant: `http://localhost:9000`, for example.",
        ),
        Key::new(
            "oidc",
            Form::Table(&oidc::SHAPE),
            "Whose tokens clients may show in the place of access keys, and what those allow.",
        ),
    ],
);

pub(super) fn read(file: &Section<'_>, paths: &Paths<'_>) -> ServeSettings {
    let default = ServeSettings::default();
    let Some(section) = file.section("serve") else { return default };
    let address = section.string("address").and_then(|text| match text.value.parse::<SocketAddr>() {
        Ok(address) => Some(address),
        Err(_) => {
            section
                .report
                .error(
                    Code::InvalidValue,
                    text.span,
                    format!("`{}` is not an address with a port", text.value),
                )
                .label("expected an IP address and a port, such as `127.0.0.1:8700` or `[::1]:8700`");
            None
        }
    });
    let hosts = section.list::<String>("hosts").into_iter().filter_map(|host| {
        let name = host.value.to_ascii_lowercase();
        if is_host(&name) {
            return Some(name);
        }
        section
            .report
            .error(Code::InvalidValue, host.span, format!("`{}` is not the name of a host", host.value))
            .label("expected a name without a port, such as `agents.example.com`");
        None
    });
    let hosts: BTreeSet<String> = hosts.collect();
    let file = |key| section.string(key).map(|text| (text.span, PathBuf::from(text.value)));
    let tls = match (file("certificate"), file("private_key")) {
        (Some((_, certificate)), Some((_, private_key))) => Some(TlsFiles { certificate, private_key }),
        (None, None) => None,
        (Some((span, _)), None) => {
            alone(&section, span, "private_key");
            None
        }
        (None, Some((span, _))) => {
            alone(&section, span, "certificate");
            None
        }
    };
    ServeSettings {
        tls,
        address: address.unwrap_or(default.address),
        hosts,
        behind_proxy: section.boolean("behind_proxy").unwrap_or(default.behind_proxy),
        connections: section.integer("connections").unwrap_or(default.connections),
        requests_per_minute: section.integer("requests_per_minute").unwrap_or(default.requests_per_minute),
        refusals_per_minute: section.integer("refusals_per_minute").unwrap_or(default.refusals_per_minute),
        streams: section.integer("streams").unwrap_or(default.streams),
        body: section.size("body").unwrap_or(default.body),
        webhooks: receivers(&section),
        oidc: oidc::read(&section, paths),
    }
}

/// Reads who may receive webhooks besides those whom anybody may reach.
fn receivers(section: &Section<'_>) -> BTreeSet<String> {
    let mut receivers = BTreeSet::new();
    for text in section.list::<String>("webhooks") {
        match url::origin(&text.value) {
            Some(origin) => drop(receivers.insert(origin)),
            None => {
                section
                    .report
                    .error(Code::InvalidValue, text.span, format!("`{}` is not a destination", text.value))
                    .label("expected a scheme, a host and perhaps a port, such as `http://localhost:9000`")
                    .help("write each host in full: wildcards and paths are not allowed");
            }
        }
    }
    receivers
}

/// Says that one of the files is there without the other.
fn alone(section: &Section<'_>, span: Range<usize>, missing: &str) {
    section
        .report
        .error(Code::InvalidValue, span, format!("`{missing}` is missing in `[serve]`"))
        .label("a certificate and its private key go together: name both files, or none");
}

/// Says whether a text is the name of a host or an IP address as the header `Host` has it.
fn is_host(name: &str) -> bool {
    let inside = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
    let is_v6 = || {
        name.strip_prefix('[')
            .and_then(|name| name.strip_suffix(']'))
            .is_some_and(|name| name.parse::<std::net::Ipv6Addr>().is_ok())
    };
    (1..=253).contains(&name.len()) && name.bytes().all(inside) || is_v6()
}
