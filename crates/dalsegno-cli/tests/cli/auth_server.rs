//! `dalsegno auth` for a tool server behind an address. The server and its authorization server are a double on this machine.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::auth::{ask, browse, end};
use crate::support::Workspace;

const ACCESS: &str = "canary-4711-access";
const REFRESH: &str = "canary-4711-refresh";

/// A request: its path, its authorization and its body.
type Asked = (String, String, String);

struct Service {
    origin: String,
    got: Arc<Mutex<Vec<Asked>>>,
}

impl Service {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let got: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let (log, here) = (Arc::clone(&got), origin.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let _ = serve(stream.unwrap(), &here, &log);
            }
        });
        Self { origin, got }
    }

    fn workspace(&self) -> Workspace {
        let workspace = Workspace::empty();
        workspace.write(
            "dalsegno.toml",
            &format!("[servers.tickets]\nurl = \"{}/mcp\"\noauth = {{}}\n", self.origin),
        );
        workspace.write(
            "agents/clerk.toml",
            "name = \"clerk\"\nversion = \"1.0.0\"\ndescription = \"Looks.\"\n[tools]\nallow = [\"tickets.look\"]\n\
             [[steps]]\nid = \"seen\"\ntool = \"tickets.look\"\n[[steps]]\nrespond = \"{{steps.seen}}\"\n",
        );
        workspace
    }

    fn forms(&self) -> Vec<String> {
        let got = self.got.lock().unwrap();
        got.iter().filter(|(path, ..)| path == "/token").map(|(.., body)| body.clone()).collect()
    }
}

fn serve(mut stream: TcpStream, origin: &str, log: &Mutex<Vec<Asked>>) -> std::io::Result<()> {
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
    let target = line.split(' ').nth(1).unwrap_or_default().to_owned();
    log.lock().unwrap().push((target.clone(), authorization.clone(), body.clone()));
    let metadata = format!("{origin}/.well-known/oauth-protected-resource/mcp");
    let (status, more, answer) = match target.as_str() {
        "/.well-known/oauth-protected-resource/mcp" => {
            let document = json!({ "resource": format!("{origin}/mcp"), "authorization_servers": [origin] });
            (200, String::new(), document)
        }
        "/.well-known/oauth-authorization-server" => {
            let document = json!({
                "issuer": origin, "authorization_endpoint": format!("{origin}/consent"),
                "token_endpoint": format!("{origin}/token"), "registration_endpoint": format!("{origin}/register"),
                "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"],
            });
            (200, String::new(), document)
        }
        "/register" => {
            let mut client: Value = serde_json::from_str(&body).unwrap();
            client["client_id"] = json!("registered");
            (201, String::new(), client)
        }
        "/token" => {
            let tokens = json!({
                "access_token": ACCESS, "refresh_token": REFRESH, "expires_in": 3599, "token_type": "Bearer",
                "scope": "tickets:read",
            });
            (200, String::new(), tokens)
        }
        _ if target.starts_with("/consent?") => {
            let asked: url::Url = format!("http://x{target}").parse().unwrap();
            let fields: BTreeMap<_, _> = asked.query_pairs().into_owned().collect();
            let mut back: url::Url = fields["redirect_uri"].parse().unwrap();
            back.query_pairs_mut().append_pair("state", &fields["state"]).append_pair("code", "a-code");
            (302, format!("location: {back}\r\n"), Value::Null)
        }
        "/mcp" if authorization != format!("Bearer {ACCESS}") => {
            let challenge = format!("www-authenticate: Bearer resource_metadata=\"{metadata}\"\r\n");
            (401, challenge, Value::Null)
        }
        "/mcp" if line.starts_with("POST") => said(&serde_json::from_str(&body).unwrap()),
        _ => (404, String::new(), Value::Null),
    };
    let answer = if answer.is_null() { String::new() } else { answer.to_string() };
    write!(
        stream,
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n{more}\r\n{answer}",
        answer.len()
    )
}

/// What the tool server answers.
fn said(message: &Value) -> (u16, String, Value) {
    let result = match message["method"].as_str().unwrap_or_default() {
        "initialize" => {
            let info = json!({ "name": "tickets", "version": "1" });
            json!({ "protocolVersion": "2025-11-25", "capabilities": { "tools": {} }, "serverInfo": info })
        }
        "tools/list" => json!({ "tools": [
            { "name": "look", "description": "Looks.", "inputSchema": { "type": "object" }, "annotations": { "readOnlyHint": true } }
        ] }),
        "tools/call" => {
            json!({ "content": [{ "type": "text", "text": format!("one ticket for {ACCESS}") }] })
        }
        _ if message.get("id").is_none() => return (202, String::new(), Value::Null),
        _ => {
            let error = json!({ "code": -32601, "message": "unknown" });
            return (404, String::new(), json!({ "jsonrpc": "2.0", "id": message["id"], "error": error }));
        }
    };
    (200, String::new(), json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }))
}

#[test]
fn a_tool_server_is_used_after_consent_and_its_tokens_are_in_nothing_that_is_kept_or_shown() {
    let service = Service::start();
    let workspace = service.workspace();
    let before = workspace.dalsegno(&["run", "clerk"]);
    assert!(before.contains("run `dalsegno auth tickets`"), "{before}");

    let (child, words, address) = ask(&workspace, &["auth", "tickets"]);
    let (_, back) = browse(&address);
    let back = back.unwrap();
    let (status, _) = browse(&back.replace("state=", "state=x"));
    assert!(status.contains("400"), "{status}");
    let (status, _) = browse(&back);
    assert!(status.contains("200"), "{status}");
    let (code, rest) = end(child, words);
    assert_eq!(code, Some(0), "{rest}");
    assert!(rest.contains("it stands in the secret store as `oauth.tickets`"), "{rest}");

    assert_eq!(workspace.succeed(&["run", "clerk"]), "one ticket for [secret]\n");
    let forms = service.forms();
    assert_eq!(forms.len(), 1, "{forms:?}");
    assert!(forms[0].contains("code=a-code") && forms[0].contains("code_verifier="), "{}", forms[0]);
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
fn a_person_who_says_no_gives_no_access_to_a_tool_server() {
    let service = Service::start();
    let workspace = service.workspace();
    let (child, words, address) = ask(&workspace, &["auth", "tickets"]);
    let (_, back) = browse(&address);
    let no = back.unwrap().replace("code=a-code", "error=access_denied");
    assert!(browse(&no).0.contains("200"));
    let (code, rest) = end(child, words);
    assert_eq!(code, Some(1), "{rest}");
    assert!(rest.contains("access was refused: access_denied"), "{rest}");
    assert!(service.forms().is_empty());
}

#[test]
fn a_tool_server_without_oauth_needs_no_consent() {
    let workspace = Workspace::empty();
    workspace.write("dalsegno.toml", "[servers.local]\ncommand = [\"local\"]\n");
    let said = workspace.dalsegno(&["auth", "local"]);
    assert!(said.contains("tool server `local` has no OAuth settings"), "{said}");
}
