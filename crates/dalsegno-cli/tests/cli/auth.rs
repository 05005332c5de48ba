//! `dalsegno auth`: a run waits for consent, a person gives it, and the run goes on. The service is a double on this machine.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::support::{Workspace, photograph};

const ACCESS: &str = "ya29.canary-4711-access";
const REFRESH: &str = "1//canary-4711-refresh";

/// An authorization server and the service that takes its tokens.
struct Service {
    origin: String,
    /// The requests, each with its body.
    got: Arc<Mutex<Vec<(String, String)>>>,
}

impl Service {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let got: Arc<Mutex<Vec<(String, String)>>> = Arc::default();
        let log = Arc::clone(&got);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let _ = serve(stream.unwrap(), &log);
            }
        });
        Self { origin, got }
    }

    /// A workspace whose agent lists the events of a calendar.
    fn workspace(&self) -> Workspace {
        let workspace = Workspace::empty();
        workspace.write("dalsegno.toml", "");
        workspace.succeed(&["tools", "add", "google_calendar"]);
        let file = workspace.path("tools/google_calendar.json");
        let mut document: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        document["auth"]["auth_url"] = json!(format!("{}/consent", self.origin));
        document["auth"]["token_url"] = json!(format!("{}/token", self.origin));
        workspace.write("tools/google_calendar.json", &document.to_string());
        workspace.write(
            "tenants/default.toml",
            &format!(
                "name = \"default\"\negress = [\"{0}\"]\n\
                 [tools.google_calendar.config]\napi_url = \"{0}\"\n\
                 [tools.google_calendar.secrets]\n\
                 client_id = {{ store = \"calendar.id\" }}\nclient_secret = {{ store = \"calendar.secret\" }}\n",
                self.origin
            ),
        );
        workspace.write(
            "agents/planner.toml",
            "name = \"planner\"\nversion = \"1.0.0\"\ndescription = \"Plans.\"\n\
             [tools]\nallow = [\"google_calendar.list_events\"]\n\
             [[steps]]\nid = \"events\"\ntool = \"google_calendar.list_events\"\n\
             with = { time_min = \"2026-01-31T09:00:00Z\" }\n\
             [[steps]]\nrespond = \"{{steps.events[0].title}}\"\n",
        );
        for (name, value) in [("calendar.id", "a-client-id"), ("calendar.secret", "canary-4711-client")] {
            let put = workspace.dalsegno_with_input(&["secret", "put", "--tenant", "default", name], value);
            assert!(put.starts_with("exit code: 0"), "{put}");
        }
        workspace
    }

    fn got(&self, path: &str) -> Vec<String> {
        let got = self.got.lock().unwrap();
        got.iter().filter(|(line, _)| line.contains(path)).map(|(_, body)| body.clone()).collect()
    }
}

fn serve(mut stream: TcpStream, log: &Mutex<Vec<(String, String)>>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut line, mut length, mut authorization) = (String::new(), 0, String::new());
    reader.read_line(&mut line)?;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        let Some((name, value)) = header.trim().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().unwrap(),
            "authorization" => authorization = value.to_owned(),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let body = String::from_utf8(body).unwrap();
    log.lock().unwrap().push((line.clone(), body));
    let target = line.split(' ').nth(1).unwrap();
    let (status, more, answer) = match target {
        _ if target.starts_with("/consent?") => {
            let asked: url::Url = format!("http://x{target}").parse().unwrap();
            let fields: BTreeMap<_, _> = asked.query_pairs().into_owned().collect();
            assert_eq!(fields["code_challenge_method"], "S256");
            let mut back: url::Url = fields["redirect_uri"].parse().unwrap();
            back.query_pairs_mut().append_pair("state", &fields["state"]).append_pair("code", "a-code");
            (302, format!("location: {back}\r\n"), Value::Null)
        }
        "/token" => {
            // The client's id and secret, as the standard has it.
            assert_eq!(authorization, "Basic YS1jbGllbnQtaWQ6Y2FuYXJ5LTQ3MTEtY2xpZW50");
            let tokens = json!({"access_token": ACCESS, "refresh_token": REFRESH, "expires_in": 3599,
                "token_type": "Bearer", "scope": "calendar.events"});
            (200, String::new(), tokens)
        }
        _ if authorization == format!("Bearer {ACCESS}") => {
            (200, String::new(), json!({"items": [{"id": "e1", "summary": format!("Dentist {ACCESS}")}]}))
        }
        _ => (401, String::new(), json!({"error": {"code": 401}})),
    };
    let answer = answer.to_string();
    write!(
        stream,
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n{more}\r\n{answer}",
        answer.len()
    )
}

/// Asks for a page as a browser does; returns its status line and where it leads.
pub(crate) fn browse(address: &str) -> (String, Option<String>) {
    let url: url::Url = address.parse().unwrap();
    let mut stream = TcpStream::connect((url.host_str().unwrap(), url.port().unwrap())).unwrap();
    let target = format!("{}?{}", url.path(), url.query().unwrap_or_default());
    write!(stream, "GET {target} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let location = answer.lines().find_map(|line| line.strip_prefix("location: ")).map(str::to_owned);
    (answer.lines().next().unwrap().to_owned(), location)
}

/// Starts `dalsegno` with these arguments, and reads the address that it writes.
pub(crate) fn ask(
    workspace: &Workspace,
    args: &[&str],
) -> (Child, BufReader<std::process::ChildStderr>, String) {
    let mut command = workspace.command(args);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut words = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.trim().starts_with("http") {
        line.clear();
        assert_ne!(words.read_line(&mut line).unwrap(), 0, "it ended without an address");
    }
    (child, words, line.trim().to_owned())
}

pub(crate) fn end(
    mut child: Child,
    mut words: BufReader<std::process::ChildStderr>,
) -> (Option<i32>, String) {
    let mut rest = String::new();
    words.read_to_string(&mut rest).unwrap();
    (child.wait().unwrap().code(), rest)
}

#[test]
fn a_run_waits_for_consent_and_goes_on_with_it() {
    let service = Service::start();
    let workspace = service.workspace();
    photograph!(workspace.dalsegno(&["run", "planner"]).replace(&service.origin, "[ORIGIN]"), @r"
    exit code: 4
    --- stdout
    --- stderr
    suspended · 1 step · 1 tool call · [TOOK] · run [SHORT]

    the secret `oauth.default.google_calendar` is missing, which the GET [ORIGIN]/calendars/primary/events needs
    give access, and go on
      dalsegno auth google_calendar
      dalsegno resume [SHORT]
    ");
    let (child, words, address) = ask(&workspace, &["auth", "google_calendar"]);
    let (_, back) = browse(&address);
    let back = back.unwrap();
    // Somebody who makes a browser come by with another state is turned away, and the wait goes on.
    let (status, _) = browse(&back.replace("state=", "state=x"));
    assert!(status.contains("400"), "{status}");
    let (status, _) = browse(&back);
    assert!(status.contains("200"), "{status}");
    let (code, rest) = end(child, words);
    assert_eq!(code, Some(0), "{rest}");
    photograph!(rest.trim(), @r"
        waiting for the browser
        access is given: it stands in the secret store as `oauth.default.google_calendar`
        1 run waiting for a secret: a worker goes on, or `dalsegno resume RUN`
        ");
    photograph!(workspace.dalsegno(&["resume", "last"]), @r"
        exit code: 0
        --- stdout
        Dentist [secret]
        --- stderr
        completed · 1 step · 1 tool call · [TOOK] · run [SHORT]
        ");
    let asked = service.got("/token");
    assert_eq!(asked.len(), 1);
    assert!(asked[0].contains("code=a-code") && asked[0].contains("code_verifier="), "{}", asked[0]);
    // Neither token is in any byte that is kept, and no word that is shown holds one.
    for file in std::fs::read_dir(workspace.path(".dalsegno")).unwrap() {
        let path = file.unwrap().path();
        if path.is_file() {
            let bytes = std::fs::read(&path).unwrap();
            assert!(!bytes.windows(11).any(|part| part == b"canary-4711"), "{}", path.display());
        }
    }
    assert!(!workspace.dalsegno(&["show", "last", "--json"]).contains("canary-4711"));
}

#[test]
fn without_a_browser_here_the_address_is_pasted() {
    let service = Service::start();
    let workspace = service.workspace();
    let (mut child, words, address) = ask(&workspace, &["auth", "google_calendar", "--no-listen", "--json"]);
    let (_, back) = browse(&address);
    let mut input = child.stdin.take().unwrap();
    writeln!(input, "what is this\n{address}\n{}", back.unwrap()).unwrap();
    drop(input);
    let mut document = String::new();
    child.stdout.take().unwrap().read_to_string(&mut document).unwrap();
    let (code, rest) = end(child, words);
    assert_eq!(code, Some(0), "{rest}");
    let document: Value = serde_json::from_str(&document).unwrap();
    assert_eq!(document["name"], "oauth.default.google_calendar");
    assert_eq!(document["renews"], true);
    assert_eq!(rest.matches("this is not it").count(), 2, "{rest}");
    assert_eq!(workspace.succeed(&["run", "planner"]), "Dentist [secret]\n");
}

#[test]
fn a_person_who_says_no_gives_nothing() {
    let service = Service::start();
    let workspace = service.workspace();
    let (child, words, address) = ask(&workspace, &["auth", "google_calendar"]);
    let (_, back) = browse(&address);
    let no = back.unwrap().replace("code=a-code", "error=access_denied");
    assert!(browse(&no).0.contains("200"));
    let (code, rest) = end(child, words);
    assert_eq!(code, Some(1));
    assert!(rest.contains("access was refused: access_denied"), "{rest}");
    assert!(service.got("/token").is_empty());
}

#[test]
fn what_needs_no_consent_says_so() {
    let service = Service::start();
    let workspace = service.workspace();
    workspace.succeed(&["tools", "add", "email"]);
    photograph!(workspace.dalsegno(&["auth", "email"]), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: toolkit `email` does not use OAuth, so there is nothing to consent to: its `auth` is not `oauth2`
        ");
    photograph!(workspace.dalsegno(&["auth", "calendar"]), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: the tenant `default` has no toolkit `calendar`
          help: those that need consent: google_calendar
        ");
    photograph!(workspace.dalsegno(&["auth", "google_calendar", "--tenant", "acme"]), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: there is no tenant `acme`: write tenants/acme.toml, whose `egress` lists the addresses that its tools may reach
        ");
    workspace.write("tenants/default.toml", "name = \"default\"\n");
    let said = workspace.dalsegno(&["auth", "google_calendar"]);
    assert!(said.contains("may not reach the authorization server: add `http://127.0.0.1"), "{said}");
}
