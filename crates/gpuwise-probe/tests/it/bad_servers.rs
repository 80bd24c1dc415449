//! Servers that fail in every way: each failure is named, counted and survived.

use crate::scripted::{
    AS_DUE, ResourceRequest, Server, answer, document, end, head, key, load, options, part,
    prepared, requests, sent, sent_until, token, unprepared, usage,
};
use gpuwise_domain::request::Outcome;
use gpuwise_probe::bench::{Doubt, LoadEvent, Measured, Stop};
use std::{
    io::Write,
    net::TcpListener,
    ops::ControlFlow,
    sync::{Condvar, Mutex},
    time::Duration,
};

/// Waits forever, or rather until the process ends: the client gives up before.
fn hang() -> bool {
    let never = Mutex::new(());
    let guard = never.lock().expect("a lock");
    let _ended = Condvar::new().wait_timeout(guard, Duration::from_hours(1));
    false
}

/// The first request of a load on a server that behaves in its trials and then does this.
fn first_of(
    misbehave: impl Fn(&ResourceRequest, &mut dyn Write) -> bool + Send + Sync + 'static,
) -> Measured {
    let server = Server::start(move |asked, writer| {
        if asked.load && asked.number == 0 {
            misbehave(asked, writer)
        } else {
            answer(asked, writer)
        }
    });
    let mut options = options(&server.address);
    options.timeout = Duration::from_millis(300);
    let prepared = prepared(&server, options);
    // The second shows that the load goes on.
    let (measured, ended) = sent(
        &prepared,
        load(
            requests(2, 20, 4),
            gpuwise_probe::bench::Pacing::InFlight(1),
        ),
    );
    assert_eq!((measured.len(), ended.sent), (2, 2));
    assert_eq!(
        measured[1].record.outcome,
        Outcome::Completed,
        "{:?}",
        measured[1].failure
    );
    measured.into_iter().next().expect("two of them")
}

#[track_caller]
fn check(
    outcome: Outcome,
    reason: &str,
    misbehave: impl Fn(&ResourceRequest, &mut dyn Write) -> bool + Send + Sync + 'static,
) {
    let measured = first_of(misbehave);
    let said = measured
        .failure
        .as_ref()
        .map(ToString::to_string)
        .unwrap_or_default();
    assert_eq!(measured.record.outcome, outcome, "{said}");
    assert!(said.contains(reason), "{said:?} without {reason:?}");
}

#[test]
fn streams_that_break() {
    check(
        Outcome::Failed,
        "garbage in the answer: hello",
        |_, writer| {
            head(writer);
            part(writer, "data: hello\n\n");
            false
        },
    );
    check(
        Outcome::Failed,
        "garbage in the answer: hello",
        |_, writer| {
            head(writer);
            part(writer, "hello");
            let _ = writer.write_all(b"0\r\n\r\n");
            true
        },
    );
    check(Outcome::Failed, "cut off in mid-stream", |_, writer| {
        head(writer);
        token(writer);
        let _ = writer.write_all(b"40\r\ndata: {\"cho");
        false
    });
    check(Outcome::Failed, "cut off in mid-stream", |_, writer| {
        head(writer);
        token(writer);
        let _ = writer.write_all(b"0\r\n\r\n");
        true
    });
    check(
        Outcome::Failed,
        "error in the stream: out of memory",
        |_, writer| {
            head(writer);
            token(writer);
            part(
                writer,
                "data: {\"error\":{\"message\":\"out of memory\"}}\n\n",
            );
            end(writer);
            true
        },
    );
    check(Outcome::Failed, "the answer has no token", |_, writer| {
        head(writer);
        part(writer, &usage(1, 0));
        end(writer);
        true
    });
}

#[test]
fn answers_that_are_no_streams() {
    check(
        Outcome::Failed,
        "307, redirected to http://elsewhere/",
        |_, writer| {
            document(writer, 307, "location: http://elsewhere/\r\n", "");
            true
        },
    );
    check(
        Outcome::Rejected,
        "429, the server is full: slow down",
        |_, writer| {
            document(
                writer,
                429,
                "retry-after: 7\r\n",
                r#"{"error":{"message":"slow down"}}"#,
            );
            true
        },
    );
    check(Outcome::Rejected, "503, the server is full", |_, writer| {
        document(writer, 503, "", "");
        true
    });
    check(Outcome::Failed, "500: it broke", |_, writer| {
        document(writer, 500, "", r#"{"message":"it broke"}"#);
        true
    });
    check(Outcome::Failed, "401, a key is needed", |_, writer| {
        document(writer, 401, "", "");
        true
    });
    check(
        Outcome::Impossible,
        "longer than the context",
        |_, writer| {
            let body = r#"{"error":{"message":"maximum context length is 16 tokens"}}"#;
            document(writer, 400, "", body);
            true
        },
    );
    check(
        Outcome::Failed,
        "garbage in the answer: a web page: <html>",
        |_, writer| {
            let _ = writer.write_all(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 6\r\n\r\n<html>",
            );
            true
        },
    );
    check(Outcome::Failed, "no HTTP answer", |_, writer| {
        let _ = writer.write_all(b"220 mail.example ESMTP\r\n");
        false
    });
    let long = format!(r#"{{"error":"{}"}}"#, "x".repeat(5000));
    let measured = first_of(move |_, writer| {
        document(writer, 500, "", &long);
        true
    });
    let said = measured.failure.expect("it failed").to_string();
    assert!(said.len() < 300 && said.ends_with('…'), "{said}");
}

#[test]
fn connections_that_close() {
    check(
        Outcome::Failed,
        "connection closed without an answer",
        |_, _| false,
    );
}

#[test]
fn servers_that_hang() {
    check(Outcome::TimedOut, "before an answer began", |_, _| hang());
    check(Outcome::TimedOut, "before the first token", |_, writer| {
        head(writer);
        hang()
    });
    let measured = first_of(|_, writer| {
        head(writer);
        token(writer);
        token(writer);
        hang()
    });
    assert_eq!(measured.record.outcome, Outcome::TimedOut);
    assert_eq!((measured.record.output, measured.pieces.len()), (2, 2));
    assert!(measured.record.first_token.is_some());
}

#[test]
fn token_counts_that_cannot_be() {
    let counted = |count: u64| {
        move |asked: &ResourceRequest, writer: &mut dyn Write| {
            head(writer);
            for _ in 0..asked.tokens() {
                token(writer);
            }
            part(writer, &usage(asked.words(), count));
            end(writer);
            true
        }
    };
    for (count, doubt) in [
        (1, Some(Doubt::TooFew)),
        (9999, Some(Doubt::TooMany)),
        (4, None),
    ] {
        let measured = first_of(counted(count));
        assert_eq!(measured.record.outcome, Outcome::Completed);
        assert_eq!(
            (measured.record.output, measured.doubt),
            (4, doubt),
            "{count}"
        );
    }
    let measured = first_of(|_, writer| {
        head(writer);
        token(writer);
        end(writer);
        true
    });
    assert_eq!(
        (measured.record.output, measured.doubt),
        (1, Some(Doubt::Absent))
    );
}

#[test]
fn a_connection_that_was_closed_meanwhile_is_no_failure() {
    // The answer is whole, but its connection is closed without a word.
    let measured = first_of(|asked, writer| {
        answer(asked, writer);
        false
    });
    assert_eq!(measured.record.outcome, Outcome::Completed);
}

#[test]
fn what_the_server_was_too_full_for_is_sent_again_if_asked() {
    let server = Server::start(|asked, writer| {
        if asked.load && asked.number == 0 {
            document(writer, 429, "retry-after: 0\r\n", "");
            return true;
        }
        answer(asked, writer)
    });
    let mut options = options(&server.address);
    options.retry_after = true;
    let prepared = prepared(&server, options);
    let (measured, _) = sent(&prepared, load(requests(1, 20, 4), AS_DUE));
    let record = measured[0].record;
    assert_eq!((record.outcome, record.retries), (Outcome::Completed, 1));
}

#[test]
fn servers_that_cannot_be_measured() {
    let closed = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = closed.local_addr().expect("its address").to_string();
    drop(closed);
    let said = unprepared(options(&address)).to_string();
    assert!(said.contains("connection refused"), "{said}");
    let said = unprepared(options("http://no-such-host.invalid")).to_string();
    assert!(
        said.contains("the name of the host has no address"),
        "{said}"
    );
    let hanging = Server::start(|_, _| hang());
    let mut patience = options(&hanging.address);
    patience.patience = Duration::from_millis(300);
    let said = unprepared(patience).to_string();
    assert!(said.contains("timed out before an answer began"), "{said}");
}

#[test]
fn keys_are_sent_and_never_shown() {
    let secret = "sk-very-secret";
    let server = Server::start(|asked, writer| {
        if asked.key.as_deref() == Some("Bearer sk-very-secret") {
            if asked.load {
                let body = r#"{"error":"sk-very-secret has no money left"}"#;
                document(writer, 500, "", body);
                return true;
            }
            return answer(asked, writer);
        }
        let key = asked.key.as_deref().unwrap_or_default();
        document(
            writer,
            401,
            "",
            &format!("{{\"error\":\"{key} is wrong\"}}"),
        );
        true
    });
    let said = unprepared(options(&server.address)).to_string();
    assert!(said.contains("401, a key is needed"), "{said}");
    let mut wrong = options(&server.address);
    wrong.key = Some(key("sk-another"));
    let said = unprepared(wrong.clone()).to_string();
    assert!(
        said.contains("[key] is wrong") && !said.contains("sk-another"),
        "{said}"
    );
    assert!(!format!("{wrong:?}").contains("sk-another"));
    let mut right = options(&server.address);
    right.key = Some(key(&format!("{secret}\n")));
    let prepared = prepared(&server, right);
    assert!(!format!("{prepared:?}").contains(secret));
    let (measured, _) = sent(&prepared, load(requests(1, 20, 4), AS_DUE));
    let said = measured[0].failure.as_ref().expect("it failed").to_string();
    assert_eq!(said, "500: [key] has no money left");
}

#[test]
fn an_interrupted_load_keeps_what_was_measured() {
    let server = Server::start(|asked, writer| {
        if asked.load && asked.number >= 3 {
            head(writer);
            token(writer);
            return hang();
        }
        answer(asked, writer)
    });
    let prepared = prepared(&server, options(&server.address));
    let stop = Stop::default();
    let mut whole = 0;
    let mut load = load(
        requests(100, 20, 4),
        gpuwise_probe::bench::Pacing::InFlight(2),
    );
    load.until = None;
    let (measured, ended) = sent_until(&prepared, load, &stop, |event| {
        match event {
            LoadEvent::Measured(_) => whole += 1,
            // Both places are held by answers that hang.
            LoadEvent::Tick(progress) if whole == 3 && progress.in_flight == 2 => stop.set(),
            LoadEvent::Tick(_) => {}
        }
        ControlFlow::Continue(())
    });
    let of = |outcome| {
        measured
            .iter()
            .filter(|one| one.record.outcome == outcome)
            .count()
    };
    assert_eq!((of(Outcome::Completed), of(Outcome::Unfinished)), (3, 2));
    assert_eq!((ended.sent, ended.stopped), (5, true));
}
