//! The provider's webhooks, signed as Standard Webhooks has it.

use data_encoding::BASE64;
use ring::hmac;
use serde_json::{Value, json};

/// A webhook that is ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveWebhook {
    /// `webhook-id`.
    pub id: String,
    /// `webhook-timestamp`, in seconds.
    pub time: u64,
    /// `webhook-signature`.
    pub signature: String,
    /// The body.
    pub body: String,
}

impl LiveWebhook {
    /// A telephone rings: an event with these headers of SIP, signed with this secret.
    ///
    /// # Panics
    /// When the secret is not base64 behind `whsec_`.
    pub fn ringing(secret: &str, time: u64, call: &str, headers: &[(&str, &str)]) -> Self {
        let headers: Vec<Value> =
            headers.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect();
        let body = json!({
            "object": "event", "id": format!("evt_{call}"), "type": "realtime.call.incoming", "created_at": time,
            "data": { "call_id": call, "sip_headers": headers, "sip_media_security": "srtp" },
        });
        Self::signed(secret, time, &format!("wh_{call}"), body.to_string())
    }

    /// The same as the Live API tells it.
    ///
    /// # Panics
    /// When the secret is not base64 behind `whsec_`.
    pub fn ringing_live(secret: &str, time: u64, call: &str, headers: &[(&str, &str)]) -> Self {
        let headers: Vec<Value> =
            headers.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect();
        let body = json!({
            "object": "event", "id": format!("evt_{call}"), "type": "live.call.incoming", "created_at": time,
            "data": { "session_id": call, "sip_headers": headers, "sip_media_security": "srtp" },
        });
        Self::signed(secret, time, &format!("wh_{call}"), body.to_string())
    }

    /// A body, signed with this secret.
    ///
    /// # Panics
    /// When the secret is not base64 behind `whsec_`.
    pub fn signed(secret: &str, time: u64, id: &str, body: String) -> Self {
        let key = BASE64.decode(secret.trim_start_matches("whsec_").as_bytes()).expect("a secret is base64");
        let code =
            hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &key), format!("{id}.{time}.{body}").as_bytes());
        let signature = format!("v1,{}", BASE64.encode(code.as_ref()));
        Self { id: id.to_owned(), time, signature, body }
    }

    /// The same in two parts. The server asks for the second one (`100 Continue`) once it has begun to take the first.
    pub fn halves(&self, line: &str, host: &str) -> (String, String) {
        let request = self.request(line, host).replacen("\r\n", "\r\nExpect: 100-continue\r\n", 1);
        let head = request.len() - self.body.len();
        (request[..head].to_owned(), self.body.clone())
    }

    /// The request of HTTP that delivers it to a line of a server.
    pub fn request(&self, line: &str, host: &str) -> String {
        let Self { id, time, signature, body } = self;
        format!(
            "POST /voice/{line} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nwebhook-id: {id}\r\n\
             webhook-timestamp: {time}\r\nwebhook-signature: {signature}\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n{body}",
            body.len()
        )
    }
}
