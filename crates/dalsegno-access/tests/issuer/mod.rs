//! An identity provider that tests run: it publishes a document and keys over a real socket, signs tokens, and takes codes.
#![allow(dead_code, unreachable_pub, reason = "two tests have it, and each uses a part")]
#![allow(clippy::needless_pass_by_value, reason = "what is given is written where it is given")]
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};

use data_encoding::{BASE64, BASE64URL_NOPAD};
use ring::rand::SystemRandom;
use ring::signature::{
    self, ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair,
    KeyPair, RsaEncoding, RsaKeyPair, RsaPublicKeyComponents,
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What tokens of these tests are for.
pub const AUDIENCE: &str = "dalsegno";
/// The client of those who sign in to pages.
pub const CLIENT: &str = "dalsegno-pages";
/// Its secret, which has signs that a form encodes.
pub const SECRET: &str = "s3cret+/&= %";

/// Seconds since the epoch.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

fn base64(bytes: impl AsRef<[u8]>) -> String {
    BASE64URL_NOPAD.encode(bytes.as_ref())
}

enum Pair {
    Ed(Ed25519KeyPair),
    P256(EcdsaKeyPair),
    P384(EcdsaKeyPair),
    Rsa(Box<RsaKeyPair>),
}

/// A key that signs tokens.
pub struct SigningKey {
    pub id: String,
    pair: Pair,
}

impl SigningKey {
    pub fn ed(id: &str) -> Self {
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self { id: id.to_owned(), pair: Pair::Ed(Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).unwrap()) }
    }

    pub fn p256(id: &str) -> Self {
        Self { id: id.to_owned(), pair: Pair::P256(elliptic(&ECDSA_P256_SHA256_FIXED_SIGNING)) }
    }

    pub fn p384(id: &str) -> Self {
        Self { id: id.to_owned(), pair: Pair::P384(elliptic(&ECDSA_P384_SHA384_FIXED_SIGNING)) }
    }

    /// A key that is in the folder: `ring` makes none of this type.
    pub fn rsa(id: &str) -> Self {
        let pem: String = include_str!("rsa.key.pem").lines().filter(|line| !line.starts_with('-')).collect();
        let pair = RsaKeyPair::from_pkcs8(&BASE64.decode(pem.as_bytes()).unwrap()).unwrap();
        Self { id: id.to_owned(), pair: Pair::Rsa(Box::new(pair)) }
    }

    /// The algorithm that is used where a test does not name one.
    pub fn algorithm(&self) -> &'static str {
        match &self.pair {
            Pair::Ed(_) => "EdDSA",
            Pair::P256(_) => "ES256",
            Pair::P384(_) => "ES384",
            Pair::Rsa(_) => "RS256",
        }
    }

    /// The public key as it is published.
    pub fn public(&self) -> Value {
        let point = |curve: &str, pair: &EcdsaKeyPair| {
            let (x, y) = pair.public_key().as_ref()[1..].split_at(pair.public_key().as_ref().len() / 2);
            json!({ "kty": "EC", "crv": curve, "x": base64(x), "y": base64(y) })
        };
        let mut key = match &self.pair {
            Pair::Ed(pair) => json!({ "kty": "OKP", "crv": "Ed25519", "x": base64(pair.public_key()) }),
            Pair::P256(pair) => point("P-256", pair),
            Pair::P384(pair) => point("P-384", pair),
            Pair::Rsa(pair) => {
                let parts: RsaPublicKeyComponents<Vec<u8>> = pair.public_key().into();
                json!({ "kty": "RSA", "n": base64(parts.n), "e": base64(parts.e) })
            }
        };
        key["kid"] = json!(self.id);
        key["use"] = json!("sig");
        key
    }

    /// The bytes of the public key, as one who takes it for a secret would use them.
    pub fn public_bytes(&self) -> Vec<u8> {
        match &self.pair {
            Pair::Ed(pair) => pair.public_key().as_ref().to_vec(),
            Pair::P256(pair) | Pair::P384(pair) => pair.public_key().as_ref().to_vec(),
            Pair::Rsa(pair) => pair.public_key().as_ref().to_vec(),
        }
    }

    fn sign(&self, algorithm: &str, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match &self.pair {
            Pair::Ed(pair) => pair.sign(message).as_ref().to_vec(),
            Pair::P256(pair) | Pair::P384(pair) => pair.sign(&random, message).unwrap().as_ref().to_vec(),
            Pair::Rsa(pair) => {
                let encoding: &dyn RsaEncoding = match algorithm {
                    "RS384" => &signature::RSA_PKCS1_SHA384,
                    "RS512" => &signature::RSA_PKCS1_SHA512,
                    "PS256" => &signature::RSA_PSS_SHA256,
                    "PS384" => &signature::RSA_PSS_SHA384,
                    "PS512" => &signature::RSA_PSS_SHA512,
                    _ => &signature::RSA_PKCS1_SHA256,
                };
                let mut signed = vec![0; pair.public().modulus_len()];
                pair.sign(encoding, &random, message, &mut signed).unwrap();
                signed
            }
        }
    }

    /// A token with this head and these claims, both as they are sent.
    pub fn raw(&self, head: &str, claims: &str) -> String {
        let algorithm =
            serde_json::from_str::<Value>(head).unwrap()["alg"].as_str().unwrap_or_default().to_owned();
        let message = format!("{}.{}", base64(head), base64(claims));
        let signed = self.sign(&algorithm, message.as_bytes());
        format!("{message}.{}", base64(signed))
    }

    /// A token with these claims.
    pub fn token(&self, claims: &Value) -> String {
        self.with(json!({}), claims)
    }

    /// A token with these claims and further fields of the head.
    pub fn with(&self, fields: Value, claims: &Value) -> String {
        let mut head = json!({ "alg": self.algorithm(), "typ": "JWT", "kid": self.id });
        for (name, value) in fields.as_object().unwrap() {
            head[name] = value.clone();
        }
        self.raw(&head.to_string(), &claims.to_string())
    }
}

fn elliptic(algorithm: &'static signature::EcdsaSigningAlgorithm) -> EcdsaKeyPair {
    let random = SystemRandom::new();
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
    EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.as_ref(), &random).unwrap()
}

/// A token that a shared secret has signed.
pub fn hmac(head: &Value, claims: &Value, secret: &[u8]) -> String {
    let message = format!("{}.{}", base64(head.to_string()), base64(claims.to_string()));
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret);
    format!("{message}.{}", base64(ring::hmac::sign(&key, message.as_bytes())))
}

/// A code that a browser comes back with, and what it is good for.
pub struct Grant {
    pub challenge: String,
    pub redirect: String,
    pub id_token: String,
}

/// What an identity provider answers with.
pub struct State {
    pub document: Value,
    /// The keys as text: what comes may be none.
    pub keys: String,
    /// Where its keys are asked for, it sends who asks there instead.
    pub elsewhere: Option<String>,
    /// Where its keys are asked for, it sends bytes for ever.
    pub is_endless: bool,
    /// How often its keys were asked for.
    pub asked: usize,
    pub grants: BTreeMap<String, Grant>,
    /// The bodies of what the token endpoint was sent.
    pub exchanges: Vec<String>,
}

/// A running identity provider. It ends with this value.
pub struct TestIssuer {
    pub name: String,
    pub address: SocketAddr,
    state: Arc<Mutex<State>>,
    serving: JoinHandle<()>,
}

impl Drop for TestIssuer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl TestIssuer {
    /// One with these keys.
    pub async fn new(keys: &[&SigningKey]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::on(listener, keys)
    }

    /// One that listens here already.
    pub fn on(listener: TcpListener, keys: &[&SigningKey]) -> Self {
        let address = listener.local_addr().unwrap();
        let name = format!("http://{address}/realms/main");
        let document = json!({
            "issuer": name,
            "jwks_uri": format!("{name}/keys"),
            "authorization_endpoint": format!("{name}/authorize?realm=main"),
            "token_endpoint": format!("{name}/token"),
            "response_types_supported": ["code"],
        });
        let state = State {
            document,
            keys: String::new(),
            elsewhere: None,
            is_endless: false,
            asked: 0,
            grants: BTreeMap::new(),
            exchanges: Vec::new(),
        };
        let state = Arc::new(Mutex::new(state));
        let own = Arc::clone(&state);
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let own = Arc::clone(&own);
                tokio::spawn(async move { answer(stream, &own).await });
            }
        });
        let issuer = Self { name, address, state, serving };
        issuer.publish(keys);
        issuer
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Publishes these keys and no others.
    pub fn publish(&self, keys: &[&SigningKey]) {
        let keys: Vec<Value> = keys.iter().map(|key| key.public()).collect();
        self.state().keys = json!({ "keys": keys }).to_string();
    }

    /// The claims of a good token.
    pub fn claims(&self) -> Value {
        json!({
            "iss": self.name,
            "aud": AUDIENCE,
            "sub": "f:ada",
            "iat": now(),
            "exp": now() + 300,
            "org": "acme",
            "email": "ada@example.com",
            "realm_access": { "roles": ["reader", "writer", "offline_access"] },
        })
    }

    /// The same with other values; `null` takes a claim away.
    pub fn claims_with(&self, others: Value) -> Value {
        let mut claims = self.claims();
        for (name, value) in others.as_object().unwrap() {
            match value {
                Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
                value => claims[name] = value.clone(),
            }
        }
        claims
    }
}

async fn answer(mut stream: TcpStream, state: &Mutex<State>) {
    let mut sent = Vec::new();
    let (head, body) = loop {
        let mut piece = [0; 4096];
        let Ok(count @ 1..) = stream.read(&mut piece).await else { return };
        sent.extend_from_slice(&piece[..count]);
        let text = String::from_utf8_lossy(&sent).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                line.to_ascii_lowercase().strip_prefix("content-length: ").map(str::to_owned)
            });
            if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                break (head.to_owned(), body.to_owned());
            }
        }
    };
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let (status, extra, text, is_endless) = {
        let mut state = state.lock().unwrap();
        match path.as_str() {
            "/realms/main/.well-known/openid-configuration" => {
                ("200 OK", String::new(), state.document.to_string(), false)
            }
            "/realms/main/keys" => {
                state.asked += 1;
                match &state.elsewhere {
                    Some(elsewhere) => {
                        ("302 Found", format!("location: {elsewhere}\r\n"), String::new(), false)
                    }
                    None => ("200 OK", String::new(), state.keys.clone(), state.is_endless),
                }
            }
            "/realms/main/token" => {
                state.exchanges.push(body.clone());
                match exchange(&mut state, &head, &body) {
                    Some(token) => {
                        let text =
                            json!({ "access_token": "opaque", "token_type": "Bearer", "id_token": token });
                        ("200 OK", String::new(), text.to_string(), false)
                    }
                    None => (
                        "400 Bad Request",
                        String::new(),
                        json!({ "error": "invalid_grant" }).to_string(),
                        false,
                    ),
                }
            }
            _ => ("404 Not Found", String::new(), String::new(), false),
        }
    };
    if is_endless {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{\"keys\":[").await;
        while stream.write_all(&[b' '; 4096]).await.is_ok() {}
        return;
    }
    let head =
        format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n{extra}\r\n", text.len());
    let _ = stream.write_all(head.as_bytes()).await;
    let _ = stream.write_all(text.as_bytes()).await;
    let _ = stream.shutdown().await;
}

/// Takes a code as the protocol has it: once, from its own client, with the verifier and the address that it was asked for with.
fn exchange(state: &mut State, head: &str, body: &str) -> Option<String> {
    let form: BTreeMap<String, String> = form_urlencoded::parse(body.as_bytes()).into_owned().collect();
    let grant = state.grants.remove(form.get("code")?)?;
    let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let basic =
        format!("Basic {}", BASE64.encode(format!("{}:{}", encoded(CLIENT), encoded(SECRET)).as_bytes()));
    let is_client = head.lines().any(|line| {
        line.split_once(": ")
            .is_some_and(|(name, value)| name.eq_ignore_ascii_case("authorization") && value == basic)
    });
    let digest = ring::digest::digest(&ring::digest::SHA256, form.get("code_verifier")?.as_bytes());
    let is_right = is_client
        && form.get("grant_type").map(String::as_str) == Some("authorization_code")
        && base64(digest) == grant.challenge
        && form.get("redirect_uri") == Some(&grant.redirect);
    is_right.then_some(grant.id_token)
}
