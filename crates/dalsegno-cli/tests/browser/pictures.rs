//! Pictures of all pages, for `cargo xtask screenshots`.

use std::path::PathBuf;

use crate::found;
use crate::pages::{Served, guarded, operator};

#[test]
#[ignore = "takes pictures: `cargo xtask screenshots --to FOLDER`"]
fn of_all_pages() {
    let folder = PathBuf::from(std::env::var_os("DALSEGNO_SCREENSHOTS").unwrap());
    let browser = found().expect("pictures need Chromium");
    let workspace = guarded("Order 4711 came broken");
    workspace.write("agents/echo.toml", "name = \"echo\"\ndescription = \"Says what it hears.\"\n[[steps]]\nrespond = \"You said: {{request.text}}\"\n");
    workspace.write("agents/broken.toml", "name = \"broken\"\n[model]\nuse = \"nothing\"\n");
    workspace.dalsegno(&["run", "desk", "My order came broken, please pay it back.", "--session", "chat-1"]);
    workspace.dalsegno(&["run", "echo", "Hello."]);
    workspace.write("agents/takes-calls.toml", CALLED);
    workspace.write("table.toml", TABLE);
    workspace.dalsegno(&["call", "text", "takes-calls", "--script", "table.toml"]);
    let served = Served::start(&workspace);
    let mut page = operator(&browser, &workspace, &served);
    let href = "[...document.querySelectorAll('a[data-open]')].find((one) => one.textContent.includes('desk')).getAttribute('href')";
    page.until("document.querySelectorAll('a[data-open]').length === 3");
    let run = page.text(href);
    let call = page.text(&href.replace("'desk'", "'takes-calls'"));
    let places = [
        ("runs", "/runs".to_owned()),
        ("runs-none", "/runs?agent=none".to_owned()),
        ("run", run.clone()),
        ("call", call),
        ("step", format!("{run}/steps/1")),
        ("fork", format!("{run}/fork?at=1")),
        ("inbox", "/inbox".to_owned()),
        ("compare", format!("/diff?left={run}").replace("/runs/", "")),
        ("agents", "/agents".to_owned()),
        ("agent", "/agents/desk".to_owned()),
        ("tools", "/tools".to_owned()),
        ("tool", "/tools/refunds".to_owned()),
        ("tenants", "/tenants".to_owned()),
        ("chat", "/chat?agent=desk&session=chat-1".to_owned()),
        ("chat-none", "/chat".to_owned()),
    ];
    for (name, place) in places {
        for (width, is_dark) in [(1440, false), (1440, true), (768, false), (320, false), (320, true)] {
            page.size(width, 900);
            page.dark(is_dark);
            page.visit(&format!("{}{place}", served.place));
            page.until(&format!(
                "location.pathname + location.search === '{place}' && innerWidth === {width}"
            ));
            if name == "tool" && width != 768 {
                page.ask("document.getElementById('text').focus(); document.getElementById('text').setRangeText('\"recpond\"', document.getElementById('text').value.indexOf('\"respond\"'), document.getElementById('text').value.indexOf('\"respond\"') + 9)");
                page.ask("document.getElementById('text').dispatchEvent(new Event('input'))");
                page.until("document.querySelector('#layer mark')");
            }
            let shade = if is_dark { "dark" } else { "light" };
            std::fs::write(folder.join(format!("{name}-{width}-{shade}.png")), page.picture()).unwrap();
        }
    }
}

const CALLED: &str = r#"name = "takes-calls"
description = "Takes the calls of a restaurant."
instructions = "You take the calls of a restaurant."

[model]
use = "default"

[tools]
allow = ["memory.*"]

[voice]
greeting = "Greet the caller."
"#;

const TABLE: &str = r#"[[turns]]
model = "Good evening, Chez Nous. How can I help?"

[[turns]]
caller = "Note that I like the table at the window, please, and tell me what you know of the terrace."

[[turns]]
model = "I note it."
calls = [{ tool = "memory.create", arguments = { entity = "caller", content = "likes the table at the window" } }]

[[turns]]
model = "Noted. The terrace is open from noon on, unless"
interrupt = "400ms"

[[turns]]
drop = "1s"

[[turns]]
caller = "And tonight?"

[[turns]]
model = "Tonight it is open until eleven."
"#;
