//! How a text is told apart, what is shown of it, and for which places a template is.

use super::request::parts;
use super::sources::excerpt;
use super::stands_at;

#[test]
fn a_text_is_told_apart_into_what_is_seldom_there_by_chance() {
    let text = "Hi Ann, pay (bob@example.com) 1,000.50 for INV-77: https://shop.example/a?id=4711 or 12, again INV-77";
    let told: Vec<&str> = parts(text).collect();
    assert_eq!(told, ["bob@example.com", "1,000.50", "INV-77", "https://shop.example/a", "4711"]);
    assert_eq!(parts("bob@example.com").count(), 0, "the whole was looked for already");
    assert_eq!(parts(&(0..99).map(|number| format!("no-{number:04} ")).collect::<String>()).count(), 20);
}

#[test]
fn an_excerpt_is_one_line_and_never_cuts_a_character() {
    let text = format!("{}\n\tpay  now {}", "é".repeat(80), "ü".repeat(80));
    let start = text.find("pay").unwrap();
    for shift in 0..3 {
        let cut = excerpt(&text, start + shift, start + 3);
        assert!(cut.starts_with('…') && cut.ends_with('…') && cut.contains("pay now"), "{cut}");
        assert!(!cut.contains('\n'));
    }
    assert_eq!(excerpt("pay", 0, 3), "pay");
}

#[test]
fn a_template_is_for_its_own_place_and_those_below() {
    for (path, at, is_of) in [
        ("to", "to", true),
        ("to.name", "to", true),
        ("to[0]", "to", true),
        ("total", "to", false),
        ("anything", "", true),
        ("to", "to.name", false),
    ] {
        assert_eq!(stands_at(path, at), is_of, "{path} at {at}");
    }
}
