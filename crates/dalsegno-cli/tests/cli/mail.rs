//! Mail from a declarative tool to a real SMTP server, which wants TLS and a login.

use std::fs;
use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use mailin::response::{Action, NO_MAILBOX, OK, Response};
use mailin::{AuthMechanism, Handler, Session, SessionBuilder};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};

use crate::support::Workspace;

const PASSWORD: &str = "canary-4711-password";

/// A mail that the server took.
#[derive(Debug, Clone, Default)]
struct Mail {
    from: String,
    to: Vec<String>,
    text: String,
    /// Who had logged in.
    login: Option<String>,
}

/// What the server makes of a mail.
#[derive(Default)]
struct Post {
    mail: Mail,
    /// What refuses the next mails at their end.
    trouble: Arc<Mutex<Vec<Response>>>,
    taken: Arc<Mutex<Vec<Mail>>>,
}

impl Handler for Post {
    fn mail(&mut self, _: IpAddr, _: &str, from: &str) -> Response {
        self.mail.from = from.to_owned();
        OK
    }

    fn rcpt(&mut self, to: &str) -> Response {
        if to.contains("nobody") {
            return NO_MAILBOX;
        }
        self.mail.to.push(to.to_owned());
        OK
    }

    fn data(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.mail.text.push_str(&String::from_utf8_lossy(bytes));
        Ok(())
    }

    fn data_end(&mut self) -> Response {
        if let Some(trouble) = self.trouble.lock().unwrap().pop() {
            return trouble;
        }
        self.taken.lock().unwrap().push(self.mail.clone());
        OK
    }

    fn auth_plain(&mut self, _: &str, name: &str, password: &str) -> Response {
        if (name, password) != ("robot", PASSWORD) {
            return mailin::response::INVALID_CREDENTIALS;
        }
        self.mail.login = Some(name.to_owned());
        mailin::response::AUTH_OK
    }
}

/// A mail server on this machine.
struct MailServer {
    port: u16,
    /// The certificate, as a client trusts it.
    certificate: String,
    taken: Arc<Mutex<Vec<Mail>>>,
    trouble: Arc<Mutex<Vec<Response>>>,
}

impl MailServer {
    fn start() -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let taken: Arc<Mutex<Vec<Mail>>> = Arc::default();
        let trouble: Arc<Mutex<Vec<Response>>> = Arc::default();
        let (log, troubles) = (Arc::clone(&taken), Arc::clone(&trouble));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let post =
                    Post { taken: Arc::clone(&log), trouble: Arc::clone(&troubles), ..Post::default() };
                let config = Arc::clone(&config);
                std::thread::spawn(move || converse(stream.unwrap(), post, &config));
            }
        });
        Self { port, certificate: made.cert.pem(), taken, trouble }
    }

    fn taken(&self) -> Vec<Mail> {
        self.taken.lock().unwrap().clone()
    }

    /// A workspace whose agent sends a mail through this server.
    fn workspace(&self, to: &str) -> Workspace {
        let workspace = Workspace::empty();
        workspace.write("dalsegno.toml", "[tenants.default]\nfile_prefixes = [\"name\", \"password\"]\n");
        workspace.succeed(&["tools", "add", "email"]);
        workspace.write("ca.pem", &self.certificate);
        workspace.write("name", "robot\n");
        workspace.write("password", &format!("{PASSWORD}\n"));
        let tenant = format!(
            "name = \"default\"\negress = [\"smtp://localhost:{0}\"]\n\
             [tools.email.config]\nsmtp_server = \"localhost\"\nsmtp_port = {0}\nfrom_email = \"robot@x.example\"\n\
             [tools.email.secrets]\nusername = {{ file = \"name\" }}\npassword = {{ file = \"password\" }}\n",
            self.port
        );
        workspace.write("tenants/default.toml", &tenant);
        let agent = format!(
            "name = \"clerk\"\nversion = \"1.0.0\"\ndescription = \"Writes.\"\n[tools]\nallow = [\"email.send_email\"]\n\
             [[steps]]\nid = \"sent\"\ntool = \"email.send_email\"\n\
             with = {{ to = \"{to}\", subject = \"Grüße\", body = \"The canary-4711 sings.\" }}\n\
             [[steps]]\nrespond = \"{{{{steps.sent}}}}\"\n"
        );
        workspace.write("agents/clerk.toml", &agent);
        workspace
    }

    /// Runs the agent; says how it ended and what was shown.
    fn run(&self, workspace: &Workspace) -> (Option<i32>, String) {
        let mut command = workspace.command(&["run", "clerk"]);
        let output = command.env("SSL_CERT_FILE", workspace.path("ca.pem")).output().unwrap();
        (output.status.code(), workspace.shown(&output))
    }
}

/// Speaks with one client.
fn converse(stream: TcpStream, post: Post, config: &Arc<ServerConfig>) -> std::io::Result<()> {
    let mut builder = SessionBuilder::new("localhost");
    // The login is offered once the connection is protected, and not before.
    builder.enable_start_tls().enable_auth(AuthMechanism::Plain);
    let remote = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let mut session = builder.build(remote, post);
    let mut plain = BufReader::new(stream);
    session.greeting().write_to(plain.get_mut())?;
    if !talk(&mut plain, &mut session)? {
        return Ok(());
    }
    let connection = ServerConnection::new(Arc::clone(config)).map_err(std::io::Error::other)?;
    session.tls_active();
    let mut private = BufReader::new(StreamOwned::new(connection, plain.into_inner()));
    talk(&mut private, &mut session)?;
    Ok(())
}

/// Answers line by line; says whether the client wants TLS now.
fn talk<S: Read + Write>(stream: &mut BufReader<S>, session: &mut Session<Post>) -> std::io::Result<bool> {
    loop {
        let mut line = Vec::new();
        if stream.read_until(b'\n', &mut line)? == 0 {
            return Ok(false);
        }
        let response = session.process(&line);
        if response.action != Action::NoReply {
            response.write_to(stream.get_mut())?;
            stream.get_mut().flush()?;
        }
        match response.action {
            Action::Close => return Ok(false),
            Action::UpgradeTls => return Ok(true),
            Action::Reply | Action::NoReply => {}
        }
    }
}

#[test]
fn a_mail_is_sent_with_a_login_over_tls() {
    let server = MailServer::start();
    let workspace = server.workspace("ada@x.example");
    let (code, shown) = server.run(&workspace);
    assert_eq!(code, Some(0), "{shown}");
    let taken = server.taken();
    assert_eq!(taken.len(), 1);
    let Mail { from, to, text, login, .. } = &taken[0];
    assert_eq!(
        (from.as_str(), to.as_slice(), login.as_deref()),
        ("robot@x.example", &["ada@x.example".to_owned()][..], Some("robot"))
    );
    assert!(text.contains("The canary-4711 sings."), "{text}");
    assert!(text.contains("Subject: =?utf-8?"), "{text}");
    // The id of the operation: who asks the server can tell which mail it was.
    let sent: Value = serde_json::from_str(shown.lines().nth(2).unwrap()).unwrap();
    let id = sent["message_id"].as_str().unwrap();
    assert!(text.contains(&format!("Message-ID: <{id}@localhost>")), "{text}");
    assert!(!format!("{shown}{}", workspace.succeed(&["show", "last", "--json"])).contains(PASSWORD));
}

#[test]
fn a_mail_that_is_refused_for_now_is_tried_again() {
    let server = MailServer::start();
    let workspace = server.workspace("ada@x.example");
    server.trouble.lock().unwrap().push(Response::custom(451, "come again".to_owned()));
    let (code, shown) = server.run(&workspace);
    assert_eq!(code, Some(0), "{shown}");
    assert_eq!(server.taken().len(), 1);
}

#[test]
fn a_mail_that_is_refused_for_good_is_a_failure_and_no_doubt() {
    let server = MailServer::start();
    let workspace = server.workspace("nobody@x.example");
    let (code, shown) = server.run(&workspace);
    assert_eq!(code, Some(1), "{shown}");
    assert!(server.taken().is_empty());
    let records = workspace.json(&["show", "last"]).to_string();
    assert!(records.contains("the mail server refused"), "{records}");
}

#[test]
fn a_server_whose_certificate_nobody_vouches_for_gets_nothing() {
    let server = MailServer::start();
    let workspace = server.workspace("ada@x.example");
    fs::write(workspace.path("ca.pem"), &MailServer::start().certificate).unwrap();
    let (code, shown) = server.run(&workspace);
    assert_eq!(code, Some(1), "{shown}");
    assert!(server.taken().is_empty());
}

#[test]
fn a_wrong_password_sends_nothing() {
    let server = MailServer::start();
    let workspace = server.workspace("ada@x.example");
    workspace.write("password", "another-word");
    let (code, shown) = server.run(&workspace);
    assert_eq!(code, Some(1), "{shown}");
    assert!(server.taken().is_empty());
}

#[test]
fn a_name_without_a_password_is_refused_before_anything_is_sent() {
    let server = MailServer::start();
    let workspace = server.workspace("ada@x.example");
    let file = workspace.path("tools/email.json");
    let mut document: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let action = &mut document["actions"][0]["actions"][1]["else_actions"][0];
    assert_eq!(action["type"], json!("email.send"));
    action.as_object_mut().unwrap().remove("password");
    workspace.write("tools/email.json", &document.to_string());
    let said = workspace.dalsegno(&["check"]);
    assert!(said.contains("`password` is missing"), "{said}");
}
