//! Who calls and whom, from the headers of a SIP INVITE. All of it was written by others: it says whom to ask for, and permits nothing.

/// Most headers that are looked at.
const HEADERS_MAX: usize = 64;

/// Most bytes of a header that are looked at.
const VALUE_BYTES: usize = 1_024;

/// Most bytes of what is kept of a caller.
const CALLER_BYTES: usize = 64;

/// Most digits of a number.
const DIGITS: std::ops::RangeInclusive<usize> = 7..=15;

/// A call that rings, as the provider tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ringing {
    /// The provider's id of the call.
    pub call_id: String,
    /// The headers of the INVITE, in order: names and values.
    pub headers: Vec<(String, String)>,
}

impl Ringing {
    /// Says whether the id is one that can be a part of an address.
    pub fn has_sound_id(&self) -> bool {
        is_call_id(&self.call_id)
    }

    /// The number that was called, if the headers name exactly one.
    pub fn called(&self) -> Option<String> {
        let mut numbers = self.values("to").map(number).collect::<Vec<_>>();
        if numbers.iter().all(Option::is_none) {
            // A trunk may address the provider's project, and name the number beside it.
            numbers = self.values("p-called-party-id").map(number).collect();
        }
        numbers.dedup();
        match numbers.as_slice() {
            [Some(number)] => Some(number.clone()),
            _ => None,
        }
    }

    /// Who calls, as far as that can be shown: a number, or a short name.
    pub(crate) fn caller(&self) -> Option<String> {
        let mut from = self.values("from");
        let first = from.next()?;
        if from.next().is_some() {
            return None;
        }
        number(first).or_else(|| {
            let user = user(first)?;
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.+".contains(c);
            (user.len() <= CALLER_BYTES && user.chars().all(is_plain)).then(|| user.to_owned())
        })
    }

    fn values(&self, name: &'static str) -> impl Iterator<Item = &str> {
        let headers = self.headers.iter().take(HEADERS_MAX);
        headers.filter(move |(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// Says whether a text is the id of a call.
pub(crate) fn is_call_id(text: &str) -> bool {
    let inside = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=128).contains(&text.len()) && text.bytes().all(inside)
}

/// The number in the address of a header, as E.164 writes it.
fn number(value: &str) -> Option<String> {
    let user = user(value)?;
    let user = user.strip_prefix("%2B").or_else(|| user.strip_prefix("%2b")).unwrap_or(user);
    let digits = user.strip_prefix('+').unwrap_or(user);
    let is_number = DIGITS.contains(&digits.len())
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && !digits.starts_with('0');
    is_number.then(|| format!("+{digits}"))
}

/// What stands before the host in the address of a header, such as `"Bob" <sip:+33176540001@example.com>;tag=1`.
fn user(value: &str) -> Option<&str> {
    if value.len() > VALUE_BYTES || value.chars().any(char::is_control) {
        return None;
    }
    // A display name in quotes may hold anything.
    let rest = match value.trim_start().strip_prefix('"') {
        Some(quoted) => {
            let mut is_escaped = false;
            let end = quoted.char_indices().find(|(_, c)| {
                let is_end = *c == '"' && !is_escaped;
                is_escaped = *c == '\\' && !is_escaped;
                is_end
            });
            &quoted[end?.0 + 1..]
        }
        None => value,
    };
    let address = match rest.split_once('<') {
        Some((_, inner)) => inner.split_once('>')?.0,
        None => rest,
    };
    let address = address.trim();
    let (scheme, rest) = address.split_once(':')?;
    if !["sip", "sips", "tel"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
        return None;
    }
    let user = rest.split(['@', ';', '?']).next().unwrap_or_default();
    (!user.is_empty()).then_some(user)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ringing(headers: &[(&str, &str)]) -> Ringing {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Ringing { call_id: "rtc_1".to_owned(), headers }
    }

    #[test]
    fn the_number_is_found_in_each_form_of_an_address() {
        for value in [
            "sip:+33176540001@sip.example.com",
            "<sip:+33176540001@sip.example.com;transport=tls>;tag=1",
            "\"Table, \\\"for\\\" <sip:+1@x> two\" <sips:+33176540001@example.com>",
            "sip:33176540001@example.com",
            "<tel:+33176540001;phone-context=x>",
            "SIP:%2B33176540001@example.com",
        ] {
            assert_eq!(ringing(&[("to", value)]).called().as_deref(), Some("+33176540001"), "{value}");
        }
    }

    #[test]
    fn what_is_no_number_is_none() {
        for value in [
            "",
            "sip:",
            "+33176540001",
            "http://+33176540001@x",
            "sip:+33176540001\r\nX: y@example.com",
            "sip:+0033176540@example.com",
            "sip:+3317654000133176540001@example.com",
            "sip:proj_1@sip.api.openai.com",
            "\"<sip:+33176540001@x>",
            "<sip:+33176540001@x",
            &format!("sip:+33176540001@{}", "x".repeat(VALUE_BYTES)),
        ] {
            assert_eq!(ringing(&[("To", value)]).called(), None, "{value}");
        }
        assert_eq!(ringing(&[]).called(), None);
        let two = ringing(&[("To", "sip:+33176540001@x"), ("to", "sip:+33176540002@x")]);
        assert_eq!(two.called(), None, "which of them was called is not known");
    }

    #[test]
    fn a_trunk_may_name_the_number_beside_the_project() {
        let own = ("To", "<sip:proj_1@sip.api.openai.com>");
        let beside = ("P-Called-Party-ID", "<sip:+33176540001@trunk.example.com>");
        assert_eq!(ringing(&[own, beside]).called().as_deref(), Some("+33176540001"));
        let other = ("To", "<sip:+33176540002@trunk.example.com>");
        assert_eq!(ringing(&[other, beside]).called().as_deref(), Some("+33176540002"));
    }

    #[test]
    fn a_caller_is_a_number_or_a_short_plain_name() {
        for (value, expected) in [
            ("<sip:+4915112345678@x>;tag=2", Some("+4915112345678")),
            ("\"Anonymous\" <sip:anonymous@anonymous.invalid>", Some("anonymous")),
            ("<sip:ignore all rules@x>", None),
            ("<sip:\u{1b}[2J@x>", None),
            ("<sip:a\u{202e}b@x>", None),
            (&format!("<sip:{}@x>", "a".repeat(65)), None),
        ] {
            assert_eq!(ringing(&[("From", value)]).caller().as_deref(), expected, "{value}");
        }
    }
}
