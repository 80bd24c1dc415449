//! HTTP as plainly as can be, for what the command line never asks.

use super::Daemon;
use serde_json::Value;
use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
};

pub(crate) struct Answer {
    pub(crate) status: u16,
    /// In small letters.
    pub(crate) head: String,
    pub(crate) text: String,
}

impl Answer {
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.text).expect("JSON")
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines();
        let mut pairs = lines.filter_map(|line| line.split_once(": "));
        Some(pairs.find(|(own, _)| *own == name)?.1.trim())
    }
}

impl Daemon {
    /// Asks with the administrator's token.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> Answer {
        self.ask_as(Some(&self.token), (method, path), &[], body)
    }

    /// Asks as somebody, with headers; of an answer without a length only the head.
    pub(super) fn ask_as(
        &self,
        token: Option<&str>,
        (method, path): (&str, &str),
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let address = self.url.trim_start_matches("http://");
        let mut stream = TcpStream::connect(address).expect("is there");
        let mut text = format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n");
        if let Some(token) = token {
            text.extend(["authorization: Bearer ", token, "\r\n"]);
        }
        for (name, value) in headers {
            text.extend([name, ": ", value, "\r\n"]);
        }
        let length = body.len().to_string();
        text.extend([
            "content-type: application/json\r\ncontent-length: ",
            &length,
            "\r\n\r\n",
        ]);
        stream.write_all((text + body).as_bytes()).expect("is sent");
        let mut reader = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            let read = reader.read_line(&mut head).expect("reads");
            assert!(read > 0, "{method} {path}: the answer was cut off: {head}");
        }
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok());
        let mut answer = Answer {
            status: status.expect("a status"),
            head: head.to_ascii_lowercase(),
            text: String::new(),
        };
        let length = answer.header("content-length").map(str::to_owned);
        let length = length.map_or(0, |length| length.parse().expect("a number"));
        let mut bytes = vec![0; length];
        reader.read_exact(&mut bytes).expect("reads");
        answer.text = String::from_utf8(bytes).expect("UTF-8");
        answer
    }

    /// A token of a role.
    pub(super) fn token_of(&self, name: &str, role: &str, tenant: Option<&str>) -> String {
        let mut arguments = vec!["token", "create", name, "--role", role];
        arguments.extend(tenant.iter().flat_map(|tenant| ["--tenant", tenant]));
        let made = self.json(&arguments);
        made["token"].as_str().expect("is said").to_owned()
    }
}
