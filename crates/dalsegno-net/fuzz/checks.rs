//! What holds for any text that should be an origin or a URL: the bodies of the fuzz targets.
//!
//! The targets call these with what libFuzzer invents; `tests/corpus.rs` calls them on stable with every file of the corpus.

use dalsegno_net::{Origin, Url};

/// An origin is refused, or prints so that it reads back to the same, with an address or a name and nothing else.
pub fn origin(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let Ok(origin) = text.parse::<Origin>() else { return };
    let printed = origin.to_string();
    assert_eq!(printed.parse::<Origin>().as_ref(), Ok(&origin), "{printed}");
    assert!(origin.address().is_some() != origin.name().is_some(), "{printed}");
    assert_ne!(origin.port(), 0, "{printed}");
    assert!(printed.bytes().all(|byte| byte.is_ascii_graphic()), "{printed:?}");
    let url: Url = format!("{printed}/").parse().expect("an origin begins a URL");
    assert_eq!(Origin::of(&url), Ok(origin), "{printed}");
    assert!(url.username().is_empty() && url.password().is_none(), "{printed}");
}

/// The origin of a URL is that of its printed form, whatever disguise its host has.
pub fn url(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let Ok(url) = text.parse::<Url>() else { return };
    let Ok(origin) = Origin::of(&url) else { return };
    let again: Url = url.as_str().parse().expect("what was printed can be read");
    assert_eq!(Origin::of(&again), Ok(origin.clone()), "{url}");
    assert_eq!(origin.to_string().parse::<Origin>(), Ok(origin), "{url}");
}
