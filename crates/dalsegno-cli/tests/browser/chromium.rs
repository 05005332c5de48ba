//! A real Chromium without a network, spoken to over two pipes: no driver, no port.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

/// The names under which systems have it.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// The longest that a page may take to get somewhere, in milliseconds: far more than it takes, and an end for a test that fails.
const PATIENCE_MS: u32 = 120_000;
const PATIENCE: Duration = Duration::from_millis(PATIENCE_MS as u64);

/// One browser with one page.
pub(crate) struct Chromium {
    child: Child,
    to: File,
    from: BufReader<File>,
    session: String,
    number: u64,
    /// What the page reported: errors, refused actions, requests.
    events: Vec<Value>,
    _folder: TempDir,
}

/// Finds the browser.
pub(crate) fn find() -> Option<PathBuf> {
    let given = std::env::var_os("DALSEGNO_CHROMIUM").map(PathBuf::from);
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&paths).flat_map(|folder| NAMES.map(|name| folder.join(name)));
    given.or_else(|| places.find(|place| place.is_file()))
}

impl Chromium {
    /// Starts it, without a network.
    pub(crate) fn start(browser: &Path) -> Self {
        let mut chromium = Self::online(browser);
        let offline =
            json!({ "offline": true, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0 });
        chromium.call("Network.emulateNetworkConditions", &offline);
        chromium
    }

    /// Starts it, so that it reaches the servers of this machine.
    pub(crate) fn online(browser: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (to, from) = (folder.path().join("to"), folder.path().join("from"));
        assert!(Command::new("mkfifo").args([&to, &from]).status().unwrap().success());
        // The shell gives the pipes the numbers under which the browser looks for them.
        let script = "exec \"$0\" --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run \
            --disable-background-networking --remote-debugging-pipe --user-data-dir=\"$3\" about:blank 3<\"$1\" 4>\"$2\"";
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg(browser).args([&to, &from, &folder.path().join("profile")]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        let to = OpenOptions::new().write(true).open(to).unwrap();
        let from = BufReader::new(File::open(from).unwrap());
        let (session, number, events) = (String::new(), 0, Vec::new());
        let mut chromium = Self { child, to, from, session, number, events, _folder: folder };
        let target = chromium.call("Target.createTarget", &json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session =
            chromium.call("Target.attachToTarget", &attach)["sessionId"].as_str().unwrap().to_owned();
        chromium.session = session;
        for domain in ["Page", "Runtime", "Log", "Network", "DOM"] {
            chromium.call(&format!("{domain}.enable"), &json!({}));
        }
        chromium
    }

    /// Opens the page of a server.
    pub(crate) fn visit(&mut self, url: &str) {
        self.call("Page.navigate", &json!({ "url": url }));
    }

    /// Waits until something holds on the page that is there then: it may be another one than now.
    pub(crate) fn until(&mut self, condition: &str) {
        let expression = format!(
            "new Promise((done) => requestAnimationFrame(() => done(document.documentElement.dataset.ready === 'yes' && Boolean({condition}))))"
        );
        let asked = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let begun = Instant::now();
        // A page that is left while it is asked gives no answer.
        while self
            .send("Runtime.evaluate", &asked)
            .ok()
            .is_none_or(|answer| answer["result"]["value"] != true)
        {
            if begun.elapsed() > PATIENCE {
                panic!(
                    "{condition}\n{}\n{}",
                    self.text("location.href"),
                    self.text("document.body.innerText")
                );
            }
        }
    }

    /// Makes the page dark or light, as the settings of a person's system do.
    pub(crate) fn dark(&mut self, is_dark: bool) {
        let value = if is_dark { "dark" } else { "light" };
        let features = json!([{ "name": "prefers-color-scheme", "value": value }]);
        self.call("Emulation.setEmulatedMedia", &json!({ "features": features }));
    }

    /// Opens a file, and returns how it came out: `ready`, or `failed`.
    pub(crate) fn open(&mut self, file: &Path) -> String {
        self.events.clear();
        self.call("Page.navigate", &json!({ "url": format!("file://{}", file.display()) }));
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let event = self.read();
            self.events.push(event);
        }
        let state = "document.documentElement.dataset.state";
        self.wait(&format!("{state} !== 'loading'"));
        self.text(state)
    }

    /// Waits until something holds on the page.
    pub(crate) fn wait(&mut self, condition: &str) {
        let script = format!(
            "new Promise((done) => {{
                const look = () => {{ if ({condition}) done(true); }};
                new MutationObserver(look).observe(document, {{ subtree: true, childList: true, attributes: true, characterData: true }});
                setTimeout(() => done(false), {PATIENCE_MS});
                look();
            }})"
        );
        assert_eq!(self.ask(&script), true, "{condition}\n{}", self.text("document.body.innerText"));
    }

    /// The value of an expression on the page.
    pub(crate) fn ask(&mut self, expression: &str) -> Value {
        let answer = self.call(
            "Runtime.evaluate",
            &json!({ "expression": expression, "awaitPromise": true, "returnByValue": true }),
        );
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer:#}");
        answer["result"]["value"].clone()
    }

    /// The value of an expression on the page, as text.
    pub(crate) fn text(&mut self, expression: &str) -> String {
        self.ask(&format!("String({expression})")).as_str().unwrap().to_owned()
    }

    /// Runs a script before those of every page from here on.
    pub(crate) fn before(&mut self, script: &str) {
        self.call("Page.addScriptToEvaluateOnNewDocument", &json!({ "source": script }));
    }

    /// Presses a key, as a person does.
    pub(crate) fn press(&mut self, key: &str) {
        self.press_with(key, 0);
    }

    /// Presses a key together with others: 2 for Ctrl.
    pub(crate) fn press_with(&mut self, key: &str, modifiers: u32) {
        let text = match key {
            // What a focused link or button acts on.
            "Enter" => "\r",
            key if key.chars().count() == 1 => key,
            _ => "",
        };
        // What the browser itself does with a key, such as closing a dialog, goes by its number.
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            "Escape" => 27,
            _ => 0,
        };
        let down = json!({
            "type": "keyDown", "key": key, "text": text, "modifiers": modifiers, "windowsVirtualKeyCode": code,
        });
        self.call("Input.dispatchKeyEvent", &down);
        self.call("Input.dispatchKeyEvent", &json!({ "type": "keyUp", "key": key, "modifiers": modifiers }));
    }

    /// Types a text where the cursor is.
    pub(crate) fn write(&mut self, text: &str) {
        self.call("Input.insertText", &json!({ "text": text }));
    }

    /// Chooses a file in the first field for one.
    pub(crate) fn choose(&mut self, file: &Path) {
        let document = self.call("DOM.getDocument", &json!({}));
        let query = json!({ "nodeId": document["root"]["nodeId"], "selector": "input[type=file]" });
        let field = self.call("DOM.querySelector", &query);
        self.call("DOM.setFileInputFiles", &json!({ "nodeId": field["nodeId"], "files": [file] }));
    }

    /// Makes the window this wide and high.
    pub(crate) fn size(&mut self, width: u32, height: u32) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", &size);
    }

    /// A picture of the whole page, however long it is, as PNG.
    pub(crate) fn picture(&mut self) -> Vec<u8> {
        // By itself Chromium leaves out the width of a scroll bar that is not on the picture.
        let clip = self.ask(
            "({ x: 0, y: 0, width: innerWidth, height: Math.max(innerHeight, document.documentElement.scrollHeight), scale: 1 })",
        );
        let asked = json!({ "format": "png", "captureBeyondViewport": true, "clip": clip });
        let picture = self.call("Page.captureScreenshot", &asked)["data"].as_str().unwrap().to_owned();
        data_encoding::BASE64.decode(picture.as_bytes()).unwrap()
    }

    /// What went wrong on the page: exceptions, and all that its policy refused.
    pub(crate) fn troubles(&self) -> Vec<&Value> {
        let wrong = |event: &&Value| {
            matches!(
                event["method"].as_str(),
                Some("Runtime.exceptionThrown" | "Log.entryAdded" | "Runtime.consoleAPICalled")
            )
        };
        self.events.iter().filter(wrong).collect()
    }

    /// What the page asked the network or the disk for, but for itself.
    pub(crate) fn requests(&self) -> Vec<&str> {
        let requests = self.events.iter().filter(|event| event["method"] == "Network.requestWillBeSent");
        let urls = requests.filter_map(|event| event["params"]["request"]["url"].as_str());
        urls.filter(|url| !url.starts_with("file://") || !url.ends_with(".html")).collect()
    }

    fn call(&mut self, method: &str, parameters: &Value) -> Value {
        self.send(method, parameters).unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    fn send(&mut self, method: &str, parameters: &Value) -> Result<Value, Value> {
        self.number += 1;
        let mut message = json!({ "id": self.number, "method": method, "params": parameters });
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        self.to.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let answer = self.read();
            if answer["id"] == self.number {
                return if answer["error"].is_null() {
                    Ok(answer["result"].clone())
                } else {
                    Err(answer["error"].clone())
                };
            }
            self.events.push(answer);
        }
    }

    fn read(&mut self) -> Value {
        let mut message = Vec::new();
        self.from.read_until(0, &mut message).unwrap();
        assert_eq!(message.pop(), Some(0), "the browser ended");
        serde_json::from_slice(&message).unwrap()
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
