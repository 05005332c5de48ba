//! Near names and lists of names, for help texts.

/// Finds the candidate that the writer of `name` probably meant.
pub(crate) fn nearest<'c>(name: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let wanted = plain(name);
    let tolerance = (wanted.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&wanted, &plain(candidate)), candidate))
        .filter(|(distance, _)| *distance <= tolerance)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Suggests the nearest of some names, else lists them.
pub(crate) fn suggestion(name: &str, known: &[&str]) -> String {
    match (nearest(name, known.iter().copied()), known) {
        (Some(near), _) => format!("did you mean `{near}`? available: {}", list(known)),
        (None, []) => "no names are available here".to_owned(),
        (None, _) => format!("available: {}", list(known)),
    }
}

/// Lists names: `` `a`, `b` ``.
pub(crate) fn list<T: AsRef<str>>(names: impl IntoIterator<Item = T>) -> String {
    names.into_iter().map(|name| format!("`{}`", name.as_ref())).collect::<Vec<_>>().join(", ")
}

/// Lists the first of many names.
pub(crate) fn some<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    let mut names = names.into_iter();
    let shown = list(names.by_ref().take(SHOWN_MAX));
    match names.count() {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// More names than these do not help.
const SHOWN_MAX: usize = 12;

/// `-` and `_`, and upper and lower case, are easily mistaken for each other. Nobody means a name of kilobytes.
fn plain(name: &str) -> String {
    name.chars().take(128).collect::<String>().to_lowercase().replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_found_despite_a_slip() {
        assert_eq!(nearest("risk.scroe", ["risk.score", "risk.record"]), Some("risk.score"));
        assert_eq!(nearest("Max-Steps", ["max_steps"]), Some("max_steps"));
        assert_eq!(nearest("banana", ["risk.score", "name"]), None);
    }

    #[test]
    fn many_names_are_cut_short() {
        let names: Vec<_> = (0..14).map(|number| format!("a{number}")).collect();
        let shown = some(names.iter().map(String::as_str));
        assert!(shown.ends_with("`a11` and 2 more"), "{shown}");
        assert_eq!(some(["a", "b"]), "`a`, `b`");
    }
}
