//! Signing a person in by an identity provider: the authorization code flow with PKCE.
//!
//! All that has to be remembered between its two requests is one random secret, in a cookie of the browser: `state`, `nonce` and the
//! verifier are derived from it. So no server has to remember anything, and each of a workspace can answer the second request.

use dalsegno_net::{Request, StatusCode, Url};
use data_encoding::BASE64URL_NOPAD;
use serde::Deserialize;

use super::directory::{Known, Trouble};
use super::{Expected, Issuer, refused};
use crate::access::Access;
use crate::error::{KeyError, Refused};
use crate::key::random;

/// Most bytes of what an identity provider answers with to a code.
const ANSWER: u64 = 128 << 10;
/// Most bytes of a code.
const CODE: usize = 4 << 10;

/// What the identity provider knows a server by.
#[derive(Clone, Copy)]
pub struct OidcClient<'c> {
    /// Its id there.
    pub id: &'c str,
    /// Its secret; none for a public client.
    pub secret: Option<&'c str>,
    /// Where the identity provider sends the browser back to.
    pub redirect: &'c str,
}

/// The secret of one sign-in, which only the browser has.
#[derive(Clone)]
pub struct SignInSecret(String);

impl std::fmt::Debug for SignInSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SignInSecret(…)")
    }
}

impl SignInSecret {
    /// A new one.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub fn begin() -> Result<Self, KeyError> {
        let bytes = random::<32>().map_err(|source| KeyError::Random { source })?;
        Ok(Self(BASE64URL_NOPAD.encode(&bytes)))
    }

    /// The one that a browser has kept.
    pub fn kept(text: &str) -> Option<Self> {
        let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).ok()?;
        (bytes.len() == 32).then(|| Self(text.to_owned()))
    }

    /// What the browser keeps.
    pub fn expose(&self) -> &str {
        &self.0
    }

    fn derived(&self, what: &str) -> String {
        let key = blake3::derive_key(what, self.0.as_bytes());
        BASE64URL_NOPAD.encode(&key)
    }

    fn state(&self) -> String {
        self.derived("dalsegno 2026-11 sign-in state")
    }

    fn nonce(&self) -> String {
        self.derived("dalsegno 2026-11 sign-in nonce")
    }

    fn verifier(&self) -> String {
        self.derived("dalsegno 2026-11 sign-in verifier")
    }

    fn challenge(&self) -> String {
        let digest = ring::digest::digest(&ring::digest::SHA256, self.verifier().as_bytes());
        BASE64URL_NOPAD.encode(digest.as_ref())
    }

    /// Says whether the browser was sent back for this attempt.
    fn is_for(&self, state: &str) -> bool {
        // Hashes are compared in constant time.
        blake3::hash(self.state().as_bytes()) == blake3::hash(state.as_bytes())
    }
}

/// What an identity provider answers with to a code, as far as it is read.
#[derive(Deserialize)]
struct Tokens {
    id_token: Option<String>,
}

impl Issuer {
    /// Where a browser is sent to, so that its user signs in there.
    ///
    /// # Errors
    /// When the identity provider cannot be asked where that is.
    pub async fn authorize(
        &self,
        attempt: &SignInSecret,
        client: OidcClient<'_>,
        scopes: &[String],
    ) -> Result<String, Refused> {
        let known = self.directory.known(|_| true).await.ok_or(Refused::Issuer)?;
        let mut url = self.endpoint(known.document.authorization_endpoint.as_deref())?;
        let scopes: Vec<&str> = ["openid"].into_iter().chain(scopes.iter().map(String::as_str)).collect();
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", client.id)
            .append_pair("redirect_uri", client.redirect)
            .append_pair("scope", &scopes.join(" "))
            .append_pair("state", &attempt.state())
            .append_pair("nonce", &attempt.nonce())
            .append_pair("code_challenge", &attempt.challenge())
            .append_pair("code_challenge_method", "S256");
        Ok(url.into())
    }

    /// Says whether the identity provider sent a browser back, and for this attempt. `issuer` is what the answer names as its
    /// issuer, if it names one.
    ///
    /// # Errors
    /// When it did not.
    pub fn returned(&self, attempt: &SignInSecret, state: &str, issuer: Option<&str>) -> Result<(), Refused> {
        if !attempt.is_for(state) {
            return Err(refused("a browser came back for another attempt to sign in"));
        }
        match issuer {
            Some(issuer) if issuer != self.rules.issuer => {
                Err(refused("another issuer sent the browser back"))
            }
            _ => Ok(()),
        }
    }

    /// Gives the code that a browser came back with to the identity provider, and checks the token that it gets for it.
    ///
    /// # Errors
    /// When there is no good token for it, or the identity provider cannot be asked.
    pub async fn redeem(
        &self,
        attempt: &SignInSecret,
        code: &str,
        client: OidcClient<'_>,
    ) -> Result<Access, Refused> {
        if code.is_empty() || code.len() > CODE {
            return Err(refused("the code is empty or too long"));
        }
        let known = self.directory.known(|_| true).await.ok_or(Refused::Issuer)?;
        let request = self.exchange(&known, attempt, code, client)?;
        let answer = self.directory.send(request).await;
        let (status, body) = answer.map_err(|error| self.unavailable(&error))?;
        match status {
            StatusCode::OK => {}
            status if status.is_server_error() => return Err(self.unavailable(&Trouble::Status(status))),
            status => {
                let error: Option<String> = serde_json::from_slice::<serde_json::Value>(&body)
                    .ok()
                    .and_then(|body| Some(body.get("error")?.as_str()?.chars().take(64).collect()));
                tracing::warn!(target: "dalsegno::oidc", %status, ?error, "the identity provider refused the code of a browser");
                return Err(Refused::Token);
            }
        }
        let tokens = serde_json::from_slice::<Tokens>(&body).ok().and_then(|tokens| tokens.id_token);
        let token = tokens.ok_or_else(|| refused("the identity provider sent no ID token"))?;
        let nonce = attempt.nonce();
        let expected = Expected { audience: vec![client.id], nonce: Some(&nonce) };
        let claims = self.verify(&token, &expected).await?;
        // A token for several clients names the one that asked for it.
        if claims.at("azp").is_some_and(|party| party.as_str() != Some(client.id)) {
            return Err(refused("it was made for another client"));
        }
        self.access(&claims)
    }

    fn exchange(
        &self,
        known: &Known,
        attempt: &SignInSecret,
        code: &str,
        client: OidcClient<'_>,
    ) -> Result<Request, Refused> {
        let url = self.endpoint(known.document.token_endpoint.as_deref())?;
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.append_pair("grant_type", "authorization_code")
            .append_pair("code", code)
            .append_pair("redirect_uri", client.redirect)
            .append_pair("code_verifier", &attempt.verifier());
        // Without a list every identity provider takes the secret in the header.
        let methods = known.document.token_endpoint_auth_methods_supported.as_deref();
        let in_header =
            methods.is_none_or(|methods| methods.iter().any(|method| method == "client_secret_basic"));
        let mut header = None;
        match client.secret {
            Some(secret) if in_header => {
                let part = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
                let pair = format!("{}:{}", part(client.id), part(secret));
                header = Some(format!("Basic {}", data_encoding::BASE64.encode(pair.as_bytes())));
            }
            Some(secret) => {
                form.append_pair("client_id", client.id).append_pair("client_secret", secret);
            }
            None => {
                form.append_pair("client_id", client.id);
            }
        }
        let mut request = Request::post(url, form.finish().into_bytes());
        request.max_bytes = ANSWER;
        let headers = [
            ("content-type", Some("application/x-www-form-urlencoded".to_owned())),
            ("accept", Some("application/json".to_owned())),
            ("authorization", header),
        ];
        for (name, value) in headers {
            if let Some(value) = value {
                // Digits, letters and signs of base64.
                request.headers.insert(name, value.parse().map_err(|_| Refused::Issuer)?);
            }
        }
        Ok(request)
    }

    /// An address that the document of the issuer names.
    fn endpoint(&self, address: Option<&str>) -> Result<Url, Refused> {
        let url = address.and_then(|address| Url::parse(address).ok());
        let url = url.ok_or(Trouble::Content("its document does not say where people sign in"));
        let url = url.and_then(|url| self.directory.permits(&url).map(|_| url));
        url.map_err(|error| self.unavailable(&error))
    }

    fn unavailable(&self, error: &Trouble) -> Refused {
        tracing::warn!(target: "dalsegno::oidc", issuer = self.rules.issuer, %error, "the identity provider cannot sign a person in");
        Refused::Issuer
    }
}
