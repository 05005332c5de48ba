//! Tokens of an identity provider in the place of keys: OpenID Connect.
//!
//! A token is a text that an issuer has signed. [`Issuer::check`] fetches the keys of the issuer, checks the signature and what the
//! token says, and returns what the rules make of its claims: an [`Access`], like that of a key.

mod claims;
mod directory;
mod keys;
mod sign_in;
mod signatures;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dalsegno_net::Origin;
use data_encoding::HEXLOWER;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, Validation, decode, decode_header};

use self::claims::Claims;
use self::directory::{Directory, Known};
pub use self::sign_in::{OidcClient, SignInSecret};
use crate::access::{Access, Reach};
use crate::error::Refused;
use crate::scope::Scope;

/// Most bytes of a token. The head of a request has 16 KiB.
const TOKEN: usize = 12 << 10;
/// How far the clocks of an issuer and of this machine may differ, in seconds.
const LEEWAY: u64 = 30;
/// Most bytes of the id of a key, and of the id of who a token is about.
const ID: usize = 255;
/// Most characters of a name.
const NAME: usize = 64;

/// Which tokens are accepted, and what they allow.
#[derive(Debug, Clone)]
pub struct Rules {
    /// The issuer, exactly as it names itself.
    pub issuer: String,
    /// What a token must name as its audience: one of these.
    pub audience: BTreeSet<String>,
    /// The algorithms with which tokens may be signed, such as `RS256`. Those that are none of public keys count for nothing.
    pub algorithms: BTreeSet<String>,
    /// Whose runs a token reaches.
    pub tenant: TenantRule,
    /// The claim with what a token allows.
    pub scopes_claim: String,
    /// What each value of that claim allows; any other one allows nothing.
    pub scopes: BTreeMap<String, BTreeSet<Scope>>,
    /// The claim with the name that is recorded; without it that is the subject.
    pub name_claim: String,
    /// Origins of a private network at which the issuer may be reached.
    pub addresses: BTreeSet<Origin>,
}

/// Whose runs a token reaches.
#[derive(Debug, Clone)]
pub enum TenantRule {
    /// The same for each token.
    Fixed(Reach),
    /// What is listed for the value of a claim; a token with any other value is refused.
    Listed {
        /// The claim.
        claim: String,
        /// The reach of each value.
        reaches: BTreeMap<String, Reach>,
    },
    /// The tenant whose name is the value of a claim.
    Named {
        /// The claim.
        claim: String,
    },
}

/// An issuer whose tokens are accepted. It is asked for its keys when the first token is checked, and not before.
#[derive(Clone)]
pub struct Issuer {
    rules: Arc<Rules>,
    algorithms: Vec<Algorithm>,
    directory: Arc<Directory>,
}

impl std::fmt::Debug for Issuer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Issuer").field("rules", &self.rules).finish_non_exhaustive()
    }
}

/// The name of an issuer is no address.
#[derive(Debug, thiserror::Error)]
#[error("`{issuer}` is not the address of an issuer")]
pub struct NoIssuer {
    issuer: String,
}

/// What of a token differs between the one that an API gets and the one that signs a person in.
struct Expected<'e> {
    audience: Vec<&'e str>,
    nonce: Option<&'e str>,
}

impl Issuer {
    /// The issuer of these rules. Nothing is sent.
    ///
    /// # Errors
    /// When its name is no address.
    pub fn new(rules: Rules) -> Result<Self, NoIssuer> {
        signatures::install();
        let directory = Directory::new(&rules.issuer, rules.addresses.clone());
        let directory = directory.ok_or_else(|| NoIssuer { issuer: rules.issuer.clone() })?;
        let algorithms = rules.algorithms.iter().filter_map(|name| signatures::algorithm(name)).collect();
        Ok(Self { rules: Arc::new(rules), algorithms, directory: Arc::new(directory) })
    }

    /// Says whether a text is to be checked as a token: it has three parts, as no key has.
    pub fn is_token(text: &str) -> bool {
        text.bytes().filter(|byte| *byte == b'.').count() == 2
    }

    /// Checks a token that a client showed.
    ///
    /// # Errors
    /// When it is not good, or the keys of the issuer cannot be had.
    pub async fn check(&self, token: &str) -> Result<Access, Refused> {
        let audience = self.rules.audience.iter().map(String::as_str).collect();
        let claims = self.verify(token, &Expected { audience, nonce: None }).await?;
        self.access(&claims)
    }

    /// What a token says, once it is known that the issuer says it, to this server, now.
    async fn verify(&self, token: &str, expected: &Expected<'_>) -> Result<Claims, Refused> {
        if token.len() > TOKEN {
            return Err(refused("it is longer than 12 KiB"));
        }
        let header = decode_header(token).map_err(|_| refused("it cannot be read"))?;
        if header.crit.is_some() {
            return Err(refused("it has parts that have to be understood, and are not"));
        }
        let is_token = |kind: &str| {
            let kind = kind.to_ascii_lowercase();
            ["jwt", "at+jwt", "application/at+jwt"].contains(&kind.as_str())
        };
        if !header.typ.as_deref().is_none_or(is_token) {
            return Err(refused("it is of another type"));
        }
        if !self.algorithms.contains(&header.alg) {
            return Err(refused("its algorithm is not listed"));
        }
        let id = header.kid.as_deref();
        if id.is_some_and(|id| id.len() > ID) {
            return Err(refused("the id of its key is too long"));
        }
        let has_key = |known: &Known| !known.keys.of(id, header.alg).is_empty();
        let known = self.directory.known(has_key).await.ok_or(Refused::Issuer)?;
        let validation = self.validation(header.alg, expected);
        for key in known.keys.of(id, header.alg) {
            match decode::<Claims>(token, key, &validation) {
                Ok(token) => return checked(&self.rules.issuer, token.claims, expected),
                // Keys may share an id, so it may be the next one's.
                Err(error) if matches!(error.kind(), ErrorKind::InvalidSignature) => {}
                Err(error) => return Err(reason(error.kind())),
            }
        }
        Err(refused("no key of the issuer has signed it"))
    }

    fn validation(&self, algorithm: Algorithm, expected: &Expected<'_>) -> Validation {
        let mut validation = Validation::new(algorithm);
        validation.leeway = LEEWAY;
        validation.validate_nbf = true;
        validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        validation.set_issuer(&[&self.rules.issuer]);
        validation.set_audience(&expected.audience);
        validation
    }

    /// What the rules make of the claims of a token that was checked.
    fn access(&self, claims: &Claims) -> Result<Access, Refused> {
        let rules = &self.rules;
        let reach = match &rules.tenant {
            TenantRule::Fixed(reach) => reach.clone(),
            TenantRule::Listed { claim, reaches } => {
                let value = claims.text(claim).ok_or_else(|| refused("it names no tenant"))?;
                reaches.get(value).cloned().ok_or_else(|| refused("its tenant is not listed"))?
            }
            TenantRule::Named { claim } => match claims.text(claim) {
                Some(name) if !name.is_empty() && name != "*" => Reach::Tenant(name.to_owned()),
                _ => return Err(refused("it names no tenant")),
            },
        };
        let words = claims.words(&rules.scopes_claim).into_iter();
        let scopes = words.filter_map(|word| rules.scopes.get(word)).flatten().copied().collect();
        let subject = claims.text("sub").unwrap_or_default();
        let name = claims.text(&rules.name_claim).filter(|name| !name.trim().is_empty()).unwrap_or(subject);
        let name = name.chars().filter(|letter| !letter.is_control()).take(NAME).collect();
        let ends = claims.at("exp").and_then(serde_json::Value::as_f64).unwrap_or_default();
        Ok(Access {
            key: holder(&rules.issuer, subject),
            name: Some(name),
            reach,
            scopes,
            // Beyond what a number of milliseconds holds it is cut off.
            token_ends: Some((ends * 1_000.0) as u64),
        })
    }
}

/// The id of who holds a token, the same for all tokens of that person or program.
fn holder(issuer: &str, subject: &str) -> String {
    let mut hasher = blake3::Hasher::new_derive_key("dalsegno 2026-11 holder of a token");
    hasher.update(&(issuer.len() as u64).to_le_bytes());
    hasher.update(issuer.as_bytes());
    hasher.update(subject.as_bytes());
    format!("oidc-{}", HEXLOWER.encode(&hasher.finalize().as_bytes()[..8]))
}

/// What the library that decodes tokens leaves to others.
fn checked(issuer: &str, claims: Claims, expected: &Expected<'_>) -> Result<Claims, Refused> {
    // A list of issuers is not what RFC 7519 describes.
    if claims.text("iss") != Some(issuer) {
        return Err(refused("another issuer is named"));
    }
    if claims.text("sub").is_none_or(|subject| subject.is_empty() || subject.len() > ID) {
        return Err(refused("it names no subject"));
    }
    let latest = jsonwebtoken::get_current_timestamp().saturating_add(LEEWAY);
    match claims.at("iat").map(serde_json::Value::as_f64) {
        None => {}
        Some(Some(issued)) if issued <= latest as f64 => {}
        Some(_) => return Err(refused("it is from the future")),
    }
    // It counts only together with the key that it names, and the request proves none.
    if claims.at("cnf").is_some() {
        return Err(refused("it is bound to a key of its holder"));
    }
    if expected.nonce.is_some_and(|nonce| claims.text("nonce") != Some(nonce)) {
        return Err(refused("it is for another attempt to sign in"));
    }
    Ok(claims)
}

/// Why a token is refused: the log has it, and no client.
fn refused(why: &'static str) -> Refused {
    tracing::info!(target: "dalsegno::oidc", why, "a token was refused");
    Refused::Token
}

fn reason(kind: &ErrorKind) -> Refused {
    match kind {
        ErrorKind::ExpiredSignature => Refused::TokenExpired,
        ErrorKind::ImmatureSignature => refused("it is not valid yet"),
        ErrorKind::InvalidIssuer => refused("another issuer is named"),
        ErrorKind::InvalidAudience => refused("it is for another audience"),
        ErrorKind::MissingRequiredClaim(_) => refused("one of `exp`, `iss`, `aud` and `sub` is missing"),
        _ => refused("it cannot be read"),
    }
}
