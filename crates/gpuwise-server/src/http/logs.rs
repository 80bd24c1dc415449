//! What processes of leases wrote.

use super::{Problem, call::Call, json, leases::seen};
use axum::{http::StatusCode, response::Response};
use gpuwise_wire::broker::LeaseLogAnswer;
use std::str;

/// Bytes of a piece at most.
const MOST: u64 = 1 << 20;

pub(crate) async fn show(call: Call) -> Result<Response, Problem> {
    let worker = number(&call, "worker")?.unwrap_or(0);
    let after = number(&call, "after")?;
    let tail: Option<usize> = number(&call, "tail")?;
    if after.is_some() && tail.is_some() {
        let what = "say either `after` or `tail`";
        return Err(Problem::invalid("tail", what));
    }
    let (lease, over) = {
        let broker = call.shared.broker();
        let lease = seen(&call, &broker)?;
        (lease.number, lease.over.is_some())
    };
    let Some(logs) = call.shared.logs.clone() else {
        let executor = call.shared.executor;
        let what = format!("the {executor} executor keeps nothing of what leases write");
        return Err(Problem::not_found(what));
    };
    let read = move |after, most| logs.read(lease, worker, after, most);
    let found = tokio::task::spawn_blocking(move || {
        let from = match tail {
            None => after.unwrap_or(0),
            Some(_) => read(0, 0)?.map_or(0, |all| all.size.saturating_sub(MOST)),
        };
        read(from, MOST)
    });
    let found: std::io::Result<_> = found.await.unwrap_or_else(|error| {
        let gone = error.to_string();
        Err(std::io::Error::other(gone))
    });
    let found = found.map_err(|error| {
        let what = format!(
            "what {} wrote cannot be read: {error}",
            call.parameter("lease")
        );
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "log", what)
    })?;
    let (mut from, mut bytes, size, first) = match found {
        Some(piece) => (piece.from, piece.bytes, piece.size, piece.first),
        None => (0, Vec::new(), 0, 0),
    };
    if let Some(lines) = tail {
        let skipped = before_the_last(&bytes, lines);
        bytes.drain(..skipped);
        from += skipped as u64;
    }
    // A letter that is not there yet as a whole is in the next piece.
    if !over || from + (bytes.len() as u64) < size {
        bytes.truncate(whole_letters(&bytes));
    }
    let answer = LeaseLogAnswer {
        id: gpuwise_broker::lease_id(lease),
        worker,
        from,
        next: from + bytes.len() as u64,
        size,
        dropped: first,
        text: String::from_utf8_lossy(&bytes).into_owned(),
        over,
    };
    Ok(json(StatusCode::OK, &answer))
}

/// A number of the query.
fn number<N: str::FromStr>(call: &Call, name: &str) -> Result<Option<N>, Problem> {
    let Some(text) = call.query(name) else {
        return Ok(None);
    };
    let number = text.parse().ok();
    let what = || Problem::invalid(name, format!("{text:?}: expected a number from 0 on"));
    number.map(Some).ok_or_else(what)
}

/// Bytes before the last so many lines.
fn before_the_last(bytes: &[u8], lines: usize) -> usize {
    let ended = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    if lines == 0 {
        return bytes.len();
    }
    let mut ends = ended.iter().enumerate().rev();
    let ends = ends.by_ref().filter(|(_, byte)| **byte == b'\n');
    ends.map(|(at, _)| at + 1).nth(lines - 1).unwrap_or(0)
}

/// Bytes up to a letter of UTF-8 that was cut off at the end.
fn whole_letters(bytes: &[u8]) -> usize {
    match str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        // What is wrong before the end hides whether the end is whole: the last three bytes say.
        Err(_) => {
            let start = bytes.len().saturating_sub(3);
            let last = (start..bytes.len()).find(|at| {
                let rest = bytes.get(*at..).unwrap_or_default();
                str::from_utf8(rest)
                    .is_err_and(|error| error.error_len().is_none() && error.valid_up_to() == 0)
            });
            last.unwrap_or(bytes.len())
        }
        Ok(_) => bytes.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines() {
        let check = |text: &str, lines, expect: &str| {
            assert_eq!(&text[before_the_last(text.as_bytes(), lines)..], expect);
        };
        check("a\nb\nc\n", 2, "b\nc\n");
        check("a\nb\nc", 2, "b\nc");
        check("a\nb\nc\n", 9, "a\nb\nc\n");
        check("a\n\n", 1, "\n");
        check("a\n", 0, "");
        check("", 3, "");
    }

    #[test]
    fn a_letter_that_is_cut_off_waits() {
        let letters = "aé€😀".as_bytes();
        for cut in 0..=letters.len() {
            let whole = whole_letters(&letters[..cut]);
            assert!(str::from_utf8(&letters[..whole]).is_ok());
            assert!(cut - whole < 4);
        }
        assert_eq!(whole_letters(b"\xff\xfea"), 3);
        assert_eq!(whole_letters(b"\xffa\xe2\x82"), 2);
    }
}
