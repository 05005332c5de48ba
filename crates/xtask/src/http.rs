//! The server's interface, tried by tools that know it from `/openapi.json` alone: Schemathesis with every check, and a
//! client that is generated from it. Before Schemathesis begins, the workspace has documents, runs, a webhook and a trigger, whose
//! names it is told, so that it gets behind the first answer "not found".
//!
//! Both are Python, so this needs a network once, and a Python 3.11 or later with pip.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Stdio};

use anyhow::{Context as _, bail, ensure};

use crate::build;
use crate::conformance::packages;
use crate::process::{command, perform, read, root};

/// The workspace that is served: an agent that answers, one that asks, and one that needs an approval.
const FILES: [(&str, &str); 4] = [
    ("agents/notes.toml", "name = \"notes\"\n[[steps]]\nrespond = \"Noted: {{request.text}}\"\n"),
    (
        "agents/ask.toml",
        "name = \"ask\"\n[[steps]]\nid = \"n\"\nask = \"How many?\"\nschema = { type = \"integer\" }\n[[steps]]\nrespond = \"{{steps.n}} then\"\n",
    ),
    (
        "agents/approve.toml",
        "name = \"approve\"\n[tools]\nallow = [\"runs.list\"]\napprove = [\"runs.list\"]\n[[steps]]\ntool = \"runs.list\"\nwith = {}\n[[steps]]\nrespond = \"listed\"\n",
    ),
    ("tenants/acme.toml", "name = \"acme\"\n"),
];

/// The variable with the secret of the trigger: the access key, so that a client that shows its key proves its deliveries.
const SECRET: &str = "DALSEGNO_HTTP_SECRET";

/// The settings of the workspace, with who receives its webhooks.
fn settings(receiver: SocketAddr) -> String {
    format!(
        "[serve]
address = \"127.0.0.1:0\"
requests_per_minute = 100000
# Each wrong credential is to have its own answer.
refusals_per_minute = 100000
streams = 1000
webhooks = [\"http://{receiver}\"]

[triggers.hook]
agent = \"notes\"
signature = \"token\"
token_header = \"authorization\"
secret = {{ env = \"{SECRET}\" }}
"
    )
}

/// The folder of the scripts and settings.
const HERE: &str = "crates/dalsegno-server/tests/http";

/// Serves a small workspace, and lets both at it.
///
/// # Errors
/// Something could not be installed, built or started, or one of them found something.
pub(crate) fn run(arguments: &[std::ffi::OsString]) -> anyhow::Result<()> {
    let folder = root().join("target/http");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
    let python = packages::http(&folder)?;
    let dalsegno = build::dalsegno()?;
    let home = folder.join("workspace");
    if home.exists() {
        fs::remove_dir_all(&home).with_context(|| format!("cannot clear `{}`", home.display()))?;
    }
    for (name, text) in FILES {
        let path = home.join(name);
        let parent = path.parent().unwrap_or(&home);
        fs::create_dir_all(parent).with_context(|| format!("cannot make `{}`", parent.display()))?;
        fs::write(&path, text).with_context(|| format!("cannot write `{}`", path.display()))?;
    }
    let receiver = receiver()?;
    fs::write(home.join("dalsegno.toml"), settings(receiver)).context("cannot write the settings")?;
    let key = key(&dalsegno, &home)?;
    let served = Served::start(&dalsegno, &home, &key)?;
    let document = format!("{}/openapi.json", served.address);

    println!("\na client that is generated from the document:");
    client(&python, &folder, &served.address, &key)?;

    println!("\nSchemathesis, with every check:");
    let mut schemathesis = command("python3");
    schemathesis
        .args(["-m", "schemathesis.cli", "--config-file"])
        .arg(root().join(HERE).join("schemathesis.toml"))
        .args(["run", &document, "--header", &format!("Authorization: Bearer {key}")])
        .args(arguments)
        .current_dir(&folder)
        .env("SCHEMATHESIS_HOOKS", root().join(HERE).join("prepared.py"))
        .env("DALSEGNO_ADDRESS", &served.address)
        .env("DALSEGNO_KEY", &key)
        .env("DALSEGNO_RECEIVER", format!("http://{receiver}/in"))
        .env("PYTHONPATH", &python);
    perform(&mut schemathesis).context("Schemathesis found something: see above")?;
    drop(served);
    println!("\nall of it passed");
    Ok(())
}

/// Receives webhooks, and accepts each.
fn receiver() -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").context("no port is free")?;
    let address = listener.local_addr().context("the receiver has no address")?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(stream);
            let mut line = String::new();
            // The body fits the buffers of the system, so that it need not be read.
            while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
                line.clear();
            }
            // Who has gone away needs no answer.
            let answer = b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n";
            let _ = reader.get_mut().write_all(answer);
        }
    });
    Ok(address)
}

/// Makes a key of all tenants that allows everything.
fn key(dalsegno: &Path, home: &Path) -> anyhow::Result<String> {
    let help = read(command(dalsegno).args(["key", "add", "--help"]))?;
    let scopes = help.split_once("[possible values:").and_then(|(_, rest)| rest.split_once(']'));
    let scopes = scopes.map_or("", |(scopes, _)| scopes).split(',').map(str::trim);
    let mut add = command(dalsegno);
    add.args(["key", "add", "--all-tenants", "--json"]).current_dir(home);
    for scope in scopes {
        add.args(["--scope", scope]);
    }
    let added = read(&mut add)?;
    // The one text in it that begins so; this program reads no JSON.
    let key = added.split('"').find(|text| text.starts_with("dalsegno_"));
    Ok(key.with_context(|| format!("`key add` showed no key: {added}"))?.to_owned())
}

/// Generates the client, and lets it start a run, read it and answer for it.
fn client(python: &Path, folder: &Path, address: &str, key: &str) -> anyhow::Result<()> {
    let generated = folder.join("client");
    if generated.exists() {
        fs::remove_dir_all(&generated).with_context(|| format!("cannot clear `{}`", generated.display()))?;
    }
    let mut generate = command("python3");
    generate
        .args(["-m", "openapi_python_client", "generate", "--meta", "none", "--fail-on-warning", "--config"])
        .arg(root().join(HERE).join("client.yaml"))
        .args(["--url", &format!("{address}/openapi.json"), "--output-path"])
        .arg(generated.join("dalsegno_client"))
        .current_dir(folder)
        .env("PYTHONPATH", python)
        .env("PATH", with_programs(python)?);
    perform(&mut generate).context("no client could be generated")?;
    let mut client = command("python3");
    client.arg(root().join(HERE).join("client.py")).args([address, key]);
    client.env("PYTHONPATH", std::env::join_paths([generated.as_path(), python])?);
    perform(&mut client).context("the generated client does not work with the server")
}

/// The search path with the programs of the packages in front: the generator formats with one of them.
fn with_programs(python: &Path) -> anyhow::Result<std::ffi::OsString> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(python.join("bin")).chain(std::env::split_paths(&path));
    std::env::join_paths(folders).context("the search path cannot be extended")
}

/// The server. Dropped, it ends.
struct Served {
    process: Child,
    address: String,
}

impl Served {
    fn start(dalsegno: &Path, home: &Path, secret: &str) -> anyhow::Result<Self> {
        let mut serve = command(dalsegno);
        serve.args(["serve", "--format", "jsonl", "--trust"]).current_dir(home).env(SECRET, secret);
        serve.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = serve.spawn().context("`dalsegno serve` did not start")?;
        let Some(output) = process.stdout.take() else { bail!("`dalsegno serve` has no output") };
        let mut served = Self { process, address: String::new() };
        let mut lines = BufReader::new(output).lines();
        let first = lines.next().context("`dalsegno serve` ended at once")??;
        let address = first.split_once("\"address\":\"").and_then(|(_, rest)| rest.split_once('"'));
        let (address, _) = address.with_context(|| format!("`dalsegno serve` did not say where: {first}"))?;
        ensure!(first.contains("listening"), "`dalsegno serve` does not listen: {first}");
        served.address = format!("http://{address}");
        // What it tells further is read, so that it never waits for a reader.
        std::thread::spawn(move || lines.for_each(drop));
        Ok(served)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It has ended by itself where this fails.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
