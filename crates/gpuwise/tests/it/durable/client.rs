//! HTTP as plainly as can be: one request a connection, so that an answer is whole or was none.

use serde_json::{Value, json};
use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

#[derive(Clone)]
pub(super) struct Client {
    address: String,
    token: String,
}

pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) text: String,
}

impl Answer {
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.text).expect("JSON")
    }
}

impl Client {
    pub(super) fn new(address: &str, token: &str) -> Self {
        Self {
            address: address.to_owned(),
            token: token.to_owned(),
        }
    }

    /// `None`: nobody answered, or not to the end.
    pub(super) fn ask(&self, method: &str, path: &str, key: &str, body: &str) -> Option<Answer> {
        let mut stream = self.send(method, path, key, body)?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        let (head, text) = text.split_once("\r\n\r\n")?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        let head = head.to_ascii_lowercase();
        let (_, length) = head.split_once("content-length: ")?;
        let length: usize = length.lines().next()?.trim().parse().ok()?;
        (text.len() == length).then(|| Answer {
            status,
            head,
            text: text.to_owned(),
        })
    }

    /// Asks, and leaves it to others to wait for the answer.
    pub(super) fn send(
        &self,
        method: &str,
        path: &str,
        key: &str,
        body: &str,
    ) -> Option<TcpStream> {
        let mut stream = TcpStream::connect(&self.address).ok()?;
        let limit = Some(Duration::from_secs(30));
        stream.set_read_timeout(limit).ok()?;
        let key = match key {
            "" => String::new(),
            key => format!("idempotency-key: {key}\r\n"),
        };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: broker\r\nauthorization: Bearer {}\r\n\
             content-type: application/json\r\n{key}connection: close\r\n\
             content-length: {}\r\n\r\n{body}",
            self.token,
            body.len(),
        );
        stream.write_all(request.as_bytes()).ok()?;
        Some(stream)
    }

    pub(super) fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, "", "").expect("an answer")
    }

    pub(super) fn tenant(&self, name: &str) {
        let body = json!({"name": name}).to_string();
        let made = self
            .ask("POST", "/v1/tenants", "", &body)
            .expect("an answer");
        assert_eq!(made.status, 201, "{}", made.text);
    }

    /// Asks for a lease of some GPUs under a key.
    pub(super) fn lease(&self, key: &str, gpus: u32) -> Option<Answer> {
        let body = json!({
            "tenant": "vision", "gpu": format!("{gpus}xH100"), "for": "30min", "name": key,
        });
        self.ask("POST", "/v1/leases", key, &body.to_string())
    }

    pub(super) fn leased(&self, key: &str, gpus: u32) -> String {
        let made = self.lease(key, gpus).expect("an answer");
        assert!(matches!(made.status, 200 | 201), "{}", made.text);
        made.json()["id"].as_str().expect("an id").to_owned()
    }
}
