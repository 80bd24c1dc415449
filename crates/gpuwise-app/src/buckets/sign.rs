//! Requests signed with a secret that is not sent: AWS Signature Version 4, of requests without a body.
//! Source: docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html.

use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;

/// Bytes that HMAC works on at a time (FIPS 198-1), of SHA-256.
const BLOCK: usize = 64;

/// Who asks.
#[derive(Clone)]
pub(super) struct Keys {
    pub(super) id: String,
    pub(super) secret: String,
    pub(super) session: Option<String>,
}

/// A GET request: the path is encoded, the query is not, and in the order of its names.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request<'a> {
    pub(super) host: &'a str,
    pub(super) path: &'a str,
    pub(super) query: &'a [(&'a str, &'a str)],
    pub(super) region: &'a str,
    /// As `20130524T000000Z`.
    pub(super) at: &'a str,
}

/// The headers of a signed request, without its host.
pub(super) fn headers(request: &Request<'_>, keys: &Keys) -> Vec<(&'static str, String)> {
    let empty = hex(&Sha256::digest(b""));
    let day = request.at.get(..8).unwrap_or(request.at);
    let scope = format!("{day}/{}/s3/aws4_request", request.region);
    let mut headers = vec![
        ("host", request.host.to_owned()),
        ("x-amz-content-sha256", empty.clone()),
        ("x-amz-date", request.at.to_owned()),
    ];
    if let Some(session) = &keys.session {
        headers.push(("x-amz-security-token", session.clone()));
    }
    let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
    let names = names.join(";");
    let mut canonical = format!("GET\n{}\n{}\n", request.path, query(request.query));
    for (name, value) in &headers {
        // Writing to a text cannot fail.
        let _ = writeln!(canonical, "{name}:{value}");
    }
    let _ = write!(canonical, "\n{names}\n{empty}");
    let hash = hex(&Sha256::digest(canonical.as_bytes()));
    let text = format!("AWS4-HMAC-SHA256\n{}\n{scope}\n{hash}", request.at);
    let first = hmac(format!("AWS4{}", keys.secret).as_bytes(), day.as_bytes());
    let key = [request.region, "s3", "aws4_request"]
        .iter()
        .fold(first, |key, part| hmac(&key, part.as_bytes()));
    let signature = hex(&hmac(&key, text.as_bytes()));
    let id = &keys.id;
    headers.remove(0);
    headers.push((
        "authorization",
        format!(
            "AWS4-HMAC-SHA256 Credential={id}/{scope}, SignedHeaders={names}, Signature={signature}"
        ),
    ));
    headers
}

/// A query as it is signed and sent.
pub(super) fn query(pairs: &[(&str, &str)]) -> String {
    let pair =
        |(name, value): &(&str, &str)| format!("{}={}", encoded(name, ""), encoded(value, ""));
    pairs.iter().map(pair).collect::<Vec<_>>().join("&")
}

/// Percent signs for all but letters, digits, `-._~` and what is plain besides.
pub(super) fn encoded(text: &str, plain: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        let c = char::from(byte);
        if c.is_ascii_alphanumeric() || "-._~".contains(c) || plain.contains(c) {
            out.push(c);
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// HMAC-SHA-256 (FIPS 198-1, RFC 2104).
fn hmac(key: &[u8], text: &[u8]) -> [u8; 32] {
    let mut block = [0_u8; BLOCK];
    let short: Vec<u8> = if key.len() > BLOCK {
        Sha256::digest(key).to_vec()
    } else {
        key.to_vec()
    };
    for (place, byte) in block.iter_mut().zip(short) {
        *place = byte;
    }
    let inner = Sha256::new()
        .chain_update(block.map(|byte| byte ^ 0x36))
        .chain_update(text)
        .finalize();
    Sha256::new()
        .chain_update(block.map(|byte| byte ^ 0x5c))
        .chain_update(inner)
        .finalize()
        .into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of the page above, by their own keys.
    #[test]
    fn signatures_are_those_that_aws_prints() {
        let keys = Keys {
            id: "AKIAIOSFODNN7EXAMPLE".into(),
            secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".into(),
            session: None,
        };
        for (query, signature) in [
            (
                &[("max-keys", "2"), ("prefix", "J")][..],
                "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
            ),
            (
                &[("lifecycle", "")],
                "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
            ),
        ] {
            let request = Request {
                host: "examplebucket.s3.amazonaws.com",
                path: "/",
                query,
                region: "us-east-1",
                at: "20130524T000000Z",
            };
            let headers = headers(&request, &keys);
            let authorization = &headers.last().expect("headers").1;
            assert!(
                authorization.ends_with(&format!("Signature={signature}")),
                "{query:?}: {authorization}"
            );
        }
    }

    /// RFC 4231, test cases 2 and 6.
    #[test]
    fn hmac_is_as_its_rfc_has_it() {
        let short = hmac(b"Jefe", b"what do ya want for nothing?");
        assert_eq!(
            hex(&short),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        let long = hmac(
            &[0xaa; 131],
            b"Test Using Larger Than Block-Size Key - Hash Key First",
        );
        assert_eq!(
            hex(&long),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        );
    }
}
