//! The style, the scripts and the icon of the pages, which are parts of the program.

use std::sync::LazyLock;

/// A file that pages load.
#[derive(Debug, Clone, Copy)]
pub struct Asset {
    /// Its name.
    pub name: &'static str,
    /// Its media type.
    pub kind: &'static str,
    /// Its content.
    pub text: &'static str,
}

const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// All of them. The modules import each other by these names.
pub const ALL: &[Asset] = &[
    Asset { name: "style.css", kind: STYLE, text: include_str!("../page/style.css") },
    Asset { name: "main.js", kind: SCRIPT, text: include_str!("../page/main.js") },
    Asset { name: "editor.js", kind: SCRIPT, text: include_str!("../page/editor.js") },
    Asset { name: "keys.js", kind: SCRIPT, text: include_str!("../page/keys.js") },
    Asset { name: "live.js", kind: SCRIPT, text: include_str!("../page/live.js") },
    Asset { name: "patch.js", kind: SCRIPT, text: include_str!("../page/patch.js") },
    Asset { name: "rows.js", kind: SCRIPT, text: include_str!("../page/rows.js") },
    Asset { name: "swap.js", kind: SCRIPT, text: include_str!("../page/swap.js") },
    Asset { name: "icon.svg", kind: "image/svg+xml", text: include_str!("../page/icon.svg") },
];

/// Finds a file by its name.
pub fn find(name: &str) -> Option<&'static Asset> {
    ALL.iter().find(|asset| asset.name == name)
}

/// What changes with the content of any of them: browsers keep them as long as it stays.
pub fn version() -> &'static str {
    static VERSION: LazyLock<String> = LazyLock::new(|| {
        let mut hasher = blake3::Hasher::new();
        for asset in ALL {
            hasher.update(asset.text.as_bytes());
        }
        hasher.finalize().to_hex()[..12].to_owned()
    });
    &VERSION
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Most bytes of style and scripts of a page.
    const WEIGHT: usize = 80_000;
    /// Most lines of all scripts, and of one.
    const LINES: (usize, usize) = (1_500, 300);

    #[test]
    fn style_and_scripts_are_small() {
        let weight: usize = ALL.iter().map(|asset| asset.text.len()).sum();
        assert!(weight <= WEIGHT, "{weight} bytes");
        let scripts = ALL.iter().filter(|asset| asset.kind == SCRIPT);
        let lines: Vec<usize> = scripts.map(|script| script.text.lines().count()).collect();
        assert!(
            lines.iter().sum::<usize>() <= LINES.0 && lines.iter().all(|one| *one <= LINES.1),
            "{lines:?}"
        );
    }

    #[test]
    fn no_script_makes_markup_of_text_and_nothing_comes_from_elsewhere() {
        for asset in ALL {
            for forbidden in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "setHTMLUnsafe",
                "parseHTMLUnsafe",
                "document.write",
                "eval(",
                "Function(",
                "localStorage",
                "@import",
                "url(",
                "//cdn",
                "https://",
            ] {
                assert!(!asset.text.contains(forbidden), "{} has {forbidden}", asset.name);
            }
        }
    }
}
