//! Where a span hangs (W3C Trace Context).

use sha2::{Digest as _, Sha256};
use std::fmt::{Display, Formatter, Result, Write as _};

/// The variable that programs find their trace in (as OpenTelemetry's specification of environment variables as
/// carriers has it).
pub const VARIABLE: &str = "TRACEPARENT";

/// A trace and a span of it, by the hexadecimal digits of their ids: 32 and 16.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    pub trace: String,
    pub span: String,
}

impl Context {
    /// Reads `00-TRACE-SPAN-FLAGS`; `None`: it is none.
    pub fn read(text: &str) -> Option<Self> {
        let mut parts = text.trim().split('-');
        let (version, trace, span) = (parts.next()?, parts.next()?, parts.next()?);
        let hex = |text: &str, digits| {
            text.len() == digits
                && text
                    .bytes()
                    .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
                && text.bytes().any(|byte| byte != b'0')
        };
        let known = version == "00" && hex(trace, 32) && hex(span, 16);
        known.then(|| Self {
            trace: trace.into(),
            span: span.into(),
        })
    }
}

impl Display for Context {
    fn fmt(&self, out: &mut Formatter<'_>) -> Result {
        write!(out, "00-{}-{}-01", self.trace, self.span)
    }
}

/// An id of so many hexadecimal digits, 64 at most, that follows from its parts.
pub fn id(parts: &[&str], digits: usize) -> String {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update(part);
        digest.update([0]);
    }
    let mut text = String::new();
    for byte in digest.finalize() {
        let _ = write!(text, "{byte:02x}");
    }
    text.truncate(digits);
    text
}

#[cfg(test)]
mod tests {
    use super::Context;

    #[test]
    fn who_asks_within_a_trace_is_known_by_its_form() {
        let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let read = Context::read(good).expect("is one");
        assert_eq!(read.span, "00f067aa0ba902b7");
        assert_eq!(read.to_string(), good);
        let bad = [
            "",
            "00",
            "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        ];
        for text in bad {
            assert_eq!(Context::read(text), None, "{text}");
        }
    }
}
