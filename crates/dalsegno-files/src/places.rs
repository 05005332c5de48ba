//! Where a user keeps what belongs to no project.

use std::ffi::OsString;
use std::path::PathBuf;

/// The folder of what can be made again: `$DALSEGNO_CACHE`, else `$XDG_CACHE_HOME/dalsegno`, else `~/.cache/dalsegno`. None when
/// these are unset, or are not absolute.
pub fn cache_folder() -> Option<PathBuf> {
    cache(|name| std::env::var_os(name))
}

/// The folder of what a user decided: `$DALSEGNO_STATE`, else `$XDG_STATE_HOME/dalsegno`, else `~/.local/state/dalsegno`.
/// None when these are unset, or are not absolute.
pub fn state_folder() -> Option<PathBuf> {
    state(|name| std::env::var_os(name))
}

fn cache(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    folder(variable, "DALSEGNO_CACHE", "XDG_CACHE_HOME", ".cache")
}

fn state(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    folder(variable, "DALSEGNO_STATE", "XDG_STATE_HOME", ".local/state")
}

fn folder(
    variable: impl Fn(&str) -> Option<OsString>,
    own: &str,
    base: &str,
    below: &str,
) -> Option<PathBuf> {
    let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let shared = || absolute(base).or_else(|| Some(absolute("HOME")?.join(below)));
    absolute(own).or_else(|| Some(shared()?.join("dalsegno")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(variables: &[(&str, &str)]) -> (Option<String>, Option<String>) {
        let known = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
        };
        let shown = |path: PathBuf| path.display().to_string();
        (cache(known).map(shown), state(known).map(shown))
    }

    #[test]
    fn the_users_folders_are_the_usual_ones_and_can_be_named() {
        let found = |cache: &str, state: &str| (Some(cache.to_owned()), Some(state.to_owned()));
        assert_eq!(places(&[]), (None, None));
        assert_eq!(places(&[("HOME", "relative")]), (None, None));
        assert_eq!(places(&[("HOME", "/h")]), found("/h/.cache/dalsegno", "/h/.local/state/dalsegno"));
        let xdg = [("HOME", "/h"), ("XDG_CACHE_HOME", "/c"), ("XDG_STATE_HOME", "/s")];
        assert_eq!(places(&xdg), found("/c/dalsegno", "/s/dalsegno"));
        let own = [("DALSEGNO_CACHE", "/c"), ("DALSEGNO_STATE", "/s")];
        assert_eq!(places(&own), found("/c", "/s"));
    }
}
