//! Who may be reached: scheme, host and port.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use url::{Host, Url};

/// How a receiver is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scheme {
    /// In the clear.
    Http,
    /// Over TLS.
    Https,
    /// A mail server, by SMTP; a mail says itself how its connection is protected.
    Smtp,
}

impl Scheme {
    /// The scheme of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        if name.eq_ignore_ascii_case("https") {
            Some(Self::Https)
        } else {
            name.eq_ignore_ascii_case("http").then_some(Self::Http)
        }
    }

    /// The port that is meant where none is written.
    pub fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
            Self::Smtp => 587,
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::Smtp => "smtp",
        })
    }
}

/// Scheme, host and port of a receiver, such as `https://crm.example.com`.
///
/// As a grant it stands for exactly that: no other scheme, no sub-domains, no other port. A name stands for public
/// addresses only; `localhost` stands for this machine; an address stands for itself, wherever it lies, also when a
/// granted name resolves to it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    scheme: Scheme,
    host: Host,
    port: u16,
}

impl Origin {
    /// The origin of a URL.
    ///
    /// # Errors
    ///
    /// When the URL is not one of HTTP, has no host, or holds a user's name or password.
    pub fn of(url: &Url) -> Result<Self, InvalidOrigin> {
        let invalid = |reason| InvalidOrigin { shown: shown(url), reason };
        let scheme = Scheme::from_name(url.scheme())
            .ok_or_else(|| invalid("only `http` and `https` can be reached"))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(invalid("it holds a user's name or password"));
        }
        let host = url.host().ok_or_else(|| invalid("it has no host"))?.to_owned();
        let port = url.port_or_known_default().ok_or_else(|| invalid("it has no port"))?;
        Self::checked(scheme, host, port).ok_or_else(|| invalid(HOST))
    }

    /// The origin with these parts.
    ///
    /// The host is read as in a URL, so that an address in disguise, such as `0x7f.1`, is seen as one.
    ///
    /// # Errors
    ///
    /// When the host is neither a name nor an address.
    pub fn new(scheme: Scheme, host: &str, port: u16) -> Result<Self, InvalidOrigin> {
        let invalid = || InvalidOrigin { shown: excerpt(host), reason: HOST };
        let host = Host::parse(host).map_err(|_| invalid())?;
        Self::checked(scheme, host, port).ok_or_else(invalid)
    }

    /// How it is spoken to.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address, where the host is one.
    pub fn address(&self) -> Option<IpAddr> {
        match self.host {
            Host::Domain(_) => None,
            Host::Ipv4(address) => Some(address.into()),
            Host::Ipv6(address) => Some(address.into()),
        }
    }

    /// The name, where the host is one: in lower case, in ASCII.
    pub fn name(&self) -> Option<&str> {
        match &self.host {
            Host::Domain(name) => Some(name),
            Host::Ipv4(_) | Host::Ipv6(_) => None,
        }
    }

    fn checked(scheme: Scheme, host: Host, port: u16) -> Option<Self> {
        if let Host::Domain(name) = &host {
            // A URL may hold more than a name server knows. What cannot be a name is no way around a grant.
            let known = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            let fits = !name.is_empty() && name.len() <= 253 && name.bytes().all(known);
            if !fits || name.split('.').any(str::is_empty) {
                return None;
            }
        }
        (port != 0).then_some(Self { scheme, host, port })
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}://{}", self.scheme, self.host)?;
        if self.port == self.scheme.default_port() { Ok(()) } else { write!(formatter, ":{}", self.port) }
    }
}

impl FromStr for Origin {
    type Err = InvalidOrigin;

    fn from_str(text: &str) -> Result<Self, InvalidOrigin> {
        let invalid = |reason| InvalidOrigin { shown: excerpt(text), reason };
        if text.contains('*') {
            return Err(invalid("wildcards are not allowed: write each host in full"));
        }
        let url =
            Url::parse(text).map_err(|_| invalid("expected an address such as `https://crm.example.com`"))?;
        if !matches!(url.path(), "" | "/") || url.query().is_some() || url.fragment().is_some() {
            return Err(invalid("expected scheme, host and port, without a path"));
        }
        // A mail server has no URLs of its own, only a grant.
        if url.scheme() == "smtp" && url.username().is_empty() && url.password().is_none() {
            let port = url.port().unwrap_or_else(|| Scheme::Smtp.default_port());
            return Self::new(Scheme::Smtp, url.host_str().unwrap_or_default(), port);
        }
        Self::of(&url)
    }
}

/// A text or URL that names nobody who could be reached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{shown}` cannot be reached: {reason}")]
pub struct InvalidOrigin {
    /// What stood there, without names, passwords and queries, cut where it is long.
    pub shown: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

/// A URL as messages show it.
pub(crate) fn shown(url: &Url) -> String {
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    excerpt(&format!("{}://{}{port}{}", url.scheme(), url.host_str().unwrap_or_default(), url.path()))
}

fn excerpt(text: &str) -> String {
    let mut shown: String = text.chars().take(SHOWN_CHARS).flat_map(char::escape_debug).collect();
    if text.chars().nth(SHOWN_CHARS).is_some() {
        shown.push('…');
    }
    shown
}

const HOST: &str = "its host is neither a name nor an address";

/// A host has at most 253 characters; a path may have any number.
const SHOWN_CHARS: usize = 300;

#[cfg(test)]
mod tests {
    use super::{Origin, Scheme};

    #[test]
    fn an_origin_is_read_and_written() {
        let cases = [
            ("https://crm.example.com", "https://crm.example.com"),
            ("https://CRM.Example.com:443/", "https://crm.example.com"),
            ("http://crm.example.com:8080", "http://crm.example.com:8080"),
            ("http://[::1]:9000", "http://[::1]:9000"),
            ("https://bücher.example", "https://xn--bcher-kva.example"),
            ("smtp://Mail.example.com:587", "smtp://mail.example.com"),
            ("smtp://mail.example.com:25", "smtp://mail.example.com:25"),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse::<Origin>().unwrap().to_string(), expected);
        }
    }

    #[test]
    fn what_is_more_or_less_than_an_origin_is_refused() {
        let cases = [
            "crm.example.com",
            "ftp://crm.example.com",
            "https://crm.example.com/path",
            "https://crm.example.com?query",
            "https://user:password@crm.example.com",
            "https://*.example.com",
            "https://crm.example.com.",
            "https://crm..example.com",
            "https://crm.example.com:0",
            "https://",
        ];
        for text in cases {
            let error = text.parse::<Origin>().unwrap_err();
            assert!(!error.to_string().contains("password@"), "{error}");
        }
    }

    #[test]
    fn an_address_in_disguise_is_an_address() {
        for host in ["127.1", "0x7f.1", "2130706433", "0177.0.0.1", "127.0.0.1"] {
            let origin = Origin::new(Scheme::Http, host, 80).unwrap();
            assert_eq!(origin.address(), Some("127.0.0.1".parse().unwrap()), "{host}");
        }
    }
}
