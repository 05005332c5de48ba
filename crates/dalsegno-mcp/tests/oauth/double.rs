//! A tool server and its authorization server, each at an address of its own on this machine.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use dalsegno_mcp::{
    Answer, CallContext, CallError, Consent, Endpoint, OAuth, OAuthConfig, OAuthError, Server, ServerConfig,
    Tokens,
};
use dalsegno_net::{Client, Egress, Url};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// A request as it came in.
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Asked {
    fn bearer(&self) -> Option<String> {
        let line =
            self.head.lines().find(|line| line.to_ascii_lowercase().starts_with("authorization: bearer "))?;
        Some(line["authorization: bearer ".len()..].trim().to_owned())
    }

    fn form(&self) -> BTreeMap<String, String> {
        let url: Url = format!("http://form/?{}", self.body).parse().unwrap();
        url.query_pairs().map(|(key, value)| (key.into_owned(), value.into_owned())).collect()
    }
}

/// Status, further header lines, body as JSON.
pub(crate) struct Reply(u16, String, Value);

fn json(body: Value) -> Reply {
    Reply(200, String::new(), body)
}

async fn serve(answer: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let answer = Arc::new(answer);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let answer = Arc::clone(&answer);
            tokio::spawn(async move {
                let mut request = Vec::new();
                let (head, body) = loop {
                    if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
                        return;
                    }
                    let text = String::from_utf8_lossy(&request).into_owned();
                    let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
                    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                    if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                        break (head.to_owned(), body.to_owned());
                    }
                };
                let mut words = head.split(' ').map(str::to_owned);
                let (method, path) = (words.next().unwrap(), words.next().unwrap());
                let Reply(status, headers, body) = answer(&Asked { method, path, head, body });
                let body = if body.is_null() { String::new() } else { body.to_string() };
                let length = body.len();
                let head = format!(
                    "HTTP/1.1 {status} Status\r\nconnection: close\r\n{headers}content-type: application/json\r\ncontent-length: {length}\r\n\r\n"
                );
                let _ = stream.write_all(head.as_bytes()).await;
                let _ = stream.write_all(body.as_bytes()).await;
                let _ = stream.shutdown().await;
            });
        }
    });
    address
}

/// What both of them know, and what a test changes about them.
#[derive(Default)]
pub(crate) struct State {
    /// The server's own address, and that of its authorization server, without paths.
    pub(crate) resource: String,
    pub(crate) issuer: String,
    /// What the metadata say in their places, where they lie.
    pub(crate) false_resource: Option<String>,
    pub(crate) false_issuer: Option<String>,
    /// What the server takes, and the refresh token that is good.
    pub(crate) valid: BTreeSet<String>,
    pub(crate) refresh: Option<String>,
    /// How long the tokens of a consent and those of a refresh live, in seconds.
    pub(crate) first_life: u64,
    pub(crate) next_life: u64,
    /// The scope without which calls are refused as too narrow.
    pub(crate) wanted: Option<String>,
    /// What was asked for tokens, and shown to the server.
    pub(crate) forms: Vec<BTreeMap<String, String>>,
    pub(crate) shown: Vec<Option<String>>,
    pub(crate) registrations: usize,
    issued: usize,
}

impl State {
    fn issue(&mut self, life: u64) -> Value {
        self.issued += 1;
        let (access, refresh) =
            (format!("access-secret-{}", self.issued), format!("refresh-secret-{}", self.issued));
        self.valid = BTreeSet::from([access.clone()]);
        self.refresh = Some(refresh.clone());
        let identity = "identity-secret";
        json!({
            "access_token": access, "token_type": "Bearer", "expires_in": life, "refresh_token": refresh, "id_token": identity,
        })
    }

    pub(crate) fn grants(&self, grant: &str) -> usize {
        self.forms.iter().filter(|form| form["grant_type"] == grant).count()
    }
}

/// Both servers.
#[derive(Clone)]
pub(crate) struct Double {
    state: Arc<Mutex<State>>,
}

impl Double {
    pub(crate) async fn start() -> Self {
        let state = State { first_life: 3600, next_life: 3600, ..State::default() };
        let state = Arc::new(Mutex::new(state));
        let known = Arc::clone(&state);
        let resource = serve(move |asked| resource(asked, &mut known.lock().unwrap())).await;
        let known = Arc::clone(&state);
        let issuer = serve(move |asked| issuer(asked, &mut known.lock().unwrap())).await;
        {
            let mut state = state.lock().unwrap();
            state.resource = format!("http://{resource}");
            state.issuer = format!("http://{issuer}");
        }
        Self { state }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(crate) fn url(&self) -> Url {
        format!("{}/mcp", self.state().resource).parse().unwrap()
    }

    /// The access to the server for who keeps tokens here, with both allowed.
    pub(crate) fn config(&self, tokens: &Arc<Memory>) -> OAuthConfig {
        let origins = {
            let state = self.state();
            [state.resource.clone(), state.issuer.clone()]
        };
        let client = Client::new(Egress::new(origins.map(|origin| origin.parse().unwrap())));
        let remedy = "run `dalsegno auth crm`".to_owned();
        OAuthConfig { remedy, ..OAuthConfig::new(client, Arc::<Memory>::clone(tokens)) }
    }

    pub(crate) fn server(&self, config: OAuthConfig) -> (Server, OAuth) {
        let oauth = OAuth::new(self.url(), config);
        let client = Client::new(Egress::new([self.state().resource.parse().unwrap()]));
        let endpoint = Endpoint { oauth: Some(oauth.clone()), ..Endpoint::new(self.url(), client) };
        (Server::new(ServerConfig::http("crm", endpoint)), oauth)
    }

    /// A server whose use was consented to.
    pub(crate) async fn consented(&self, tokens: &Arc<Memory>) -> (Server, OAuth) {
        let (server, oauth) = self.server(self.config(tokens));
        let consent = begin(&oauth).await.unwrap();
        consent.finish(&answered(&consent, "code=code-1")).await.unwrap();
        (server, oauth)
    }
}

fn resource(asked: &Asked, state: &mut State) -> Reply {
    if asked.path == "/.well-known/oauth-protected-resource/mcp" {
        let resource = state.false_resource.clone().unwrap_or_else(|| format!("{}/mcp", state.resource));
        return json(json!({ "resource": resource, "authorization_servers": [state.issuer] }));
    }
    if asked.path != "/mcp" {
        return Reply(404, String::new(), Value::Null);
    }
    let token = asked.bearer();
    state.shown.push(token.clone());
    let challenge = |more: &str, scope: &str| {
        let metadata = format!("{}/.well-known/oauth-protected-resource/mcp", state.resource);
        format!("www-authenticate: Bearer {more}resource_metadata=\"{metadata}\", scope=\"{scope}\"\r\n")
    };
    if !token.is_some_and(|token| state.valid.contains(&token)) {
        return Reply(401, challenge("", "read"), json!({ "error": "invalid_token" }));
    }
    if asked.method != "POST" {
        return Reply(405, String::new(), Value::Null);
    }
    let message: Value = serde_json::from_str(&asked.body).unwrap();
    let result = match message["method"].as_str().unwrap_or_default() {
        "initialize" => {
            let info = json!({ "name": "test", "version": "1" });
            json!({ "protocolVersion": "2025-11-25", "capabilities": { "tools": {} }, "serverInfo": info })
        }
        "tools/list" => json!({ "tools": [{ "name": "look", "inputSchema": { "type": "object" } }] }),
        "tools/call" => {
            if let Some(wanted) = &state.wanted {
                let headers = challenge("error=\"insufficient_scope\", ", wanted);
                return Reply(403, headers, json!({ "error": "insufficient_scope" }));
            }
            json!({ "content": [{ "type": "text", "text": "seen" }] })
        }
        _ if message.get("id").is_none() => return Reply(202, String::new(), Value::Null),
        _ => {
            let error = json!({ "code": -32601, "message": "unknown" });
            return Reply(
                404,
                String::new(),
                json!({ "jsonrpc": "2.0", "id": message["id"], "error": error }),
            );
        }
    };
    json(json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }))
}

fn issuer(asked: &Asked, state: &mut State) -> Reply {
    match asked.path.as_str() {
        "/.well-known/oauth-authorization-server" => json(json!({
            "issuer": state.false_issuer.as_ref().unwrap_or(&state.issuer),
            "authorization_endpoint": format!("{}/authorize", state.issuer),
            "token_endpoint": format!("{}/token", state.issuer),
            "registration_endpoint": format!("{}/register", state.issuer),
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": true,
            "token_endpoint_auth_methods_supported": ["none", "client_secret_post"],
        })),
        "/register" => {
            state.registrations += 1;
            let mut client: Value = serde_json::from_str(&asked.body).unwrap();
            client["client_id"] = json!("client-1");
            client["client_secret"] = json!("registered-secret");
            Reply(201, String::new(), client)
        }
        "/token" => {
            let form = asked.form();
            state.forms.push(form.clone());
            let said = |key: &str| form.get(key).map(String::as_str).unwrap_or_default();
            let refused = |error: &str| Reply(400, String::new(), json!({ "error": error }));
            if said("resource") != format!("{}/mcp", state.resource) {
                return refused("invalid_target");
            }
            let life = match said("grant_type") {
                "authorization_code" if said("code") == "code-1" && !said("code_verifier").is_empty() => {
                    state.first_life
                }
                "refresh_token" if state.refresh.as_deref() == Some(said("refresh_token")) => state.next_life,
                "client_credentials" if said("client_secret") == "configured-secret" => state.first_life,
                _ => return refused("invalid_grant"),
            };
            json(state.issue(life))
        }
        _ => Reply(404, String::new(), Value::Null),
    }
}

pub(crate) async fn begin(oauth: &OAuth) -> Result<Consent, OAuthError> {
    oauth.begin("http://127.0.0.1:8765/callback").await
}

/// The address to which the authorization server sends the browser.
pub(crate) fn answered(consent: &Consent, query: &str) -> Url {
    let state = consent.url().query_pairs().find(|(key, _)| key == "state").unwrap().1.into_owned();
    let issuer = consent.url().origin().ascii_serialization();
    let mut url: Url = format!("http://127.0.0.1:8765/callback?{query}").parse().unwrap();
    url.query_pairs_mut().append_pair("state", &state);
    if !query.contains("iss=") {
        url.query_pairs_mut().append_pair("iss", &issuer);
    }
    url
}

pub(crate) async fn look(server: &Server) -> Result<String, CallError> {
    let call = CallContext::new("op_1", std::time::Duration::from_secs(20));
    match server.session("default").call("look", Map::new(), call).await? {
        Answer::Done(output) => Ok(output.text),
        Answer::InputRequired(input) => panic!("{input:?}"),
    }
}

/// Keeps tokens in memory, and counts how often they were written.
#[derive(Default)]
pub(crate) struct Memory(Mutex<(Option<String>, usize)>);

impl Memory {
    pub(crate) fn text(&self) -> String {
        self.0.lock().unwrap().0.clone().unwrap_or_default()
    }

    pub(crate) fn writes(&self) -> usize {
        self.0.lock().unwrap().1
    }
}

#[async_trait]
impl Tokens for Memory {
    async fn load(&self) -> Result<Option<String>, String> {
        Ok(self.0.lock().unwrap().0.clone())
    }

    async fn save(&self, tokens: &str) -> Result<(), String> {
        let mut kept = self.0.lock().unwrap();
        *kept = (Some(tokens.to_owned()), kept.1 + 1);
        Ok(())
    }

    async fn remove(&self) -> Result<(), String> {
        self.0.lock().unwrap().0 = None;
        Ok(())
    }
}
