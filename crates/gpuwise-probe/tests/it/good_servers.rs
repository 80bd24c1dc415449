//! Servers that behave: what is sent, when, and what is measured.

use crate::scripted::{
    AS_DUE, Server, after, answer, document, end, head, load, options, part, prepared, requests,
    sent, token, usage,
};
use gpuwise_domain::request::{Outcome, Request, Segment};
use gpuwise_probe::bench::{Calibration, Interface, Pacing};
use serde_json::json;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

#[test]
fn requests_are_sent_when_they_are_due() {
    let server = Server::start(answer);
    let prepared = prepared(&server, options(&server.address));
    assert_eq!(
        (prepared.model.as_str(), prepared.engine.as_deref()),
        ("tiny", Some("scripted"))
    );
    let mut traffic = requests(20, 30, 5);
    for (place, request) in (0..).zip(&mut traffic) {
        request.due = after(10 * place);
    }
    let (measured, ended) = sent(&prepared, load(traffic, AS_DUE));
    assert_eq!((measured.len(), ended.sent, ended.stopped), (20, 20, false));
    for (place, one) in (0..).zip(&measured) {
        let record = &one.record;
        assert_eq!(record.outcome, Outcome::Completed, "{:?}", one.failure);
        assert_eq!((record.due, record.number), (after(10 * place), place));
        assert!(record.due <= record.sent && Some(record.sent) <= record.first_token);
        assert!(record.first_token <= Some(record.end));
        assert_eq!((record.input, record.output, one.pieces.len()), (30, 5, 5));
        assert!(one.pieces.is_sorted());
        assert_eq!(
            (one.pieces.first(), one.pieces.last()),
            (record.first_token.as_ref(), Some(&record.end))
        );
    }
    let bodies: Vec<_> = server
        .of_load()
        .iter()
        .map(|asked| asked.body.clone())
        .collect();
    let expected = [
        "model",
        "prompt",
        "max_tokens",
        "min_tokens",
        "ignore_eos",
        "stream",
        "stream_options",
    ];
    assert!(bodies[0].as_object().expect("fields").keys().eq(expected));
    assert!(
        bodies
            .iter()
            .skip(1)
            .all(|body| body["prompt"] != bodies[0]["prompt"])
    );
}

#[test]
fn latencies_count_from_the_schedule() {
    // One at a time is let through, though all are due at once.
    let server = Server::start(answer);
    let prepared = prepared(&server, options(&server.address));
    let (measured, _) = sent(
        &prepared,
        load(requests(8, 30, 5), Pacing::Scheduled { at_most: Some(1) }),
    );
    for pair in measured.windows(2) {
        let (before, one) = (&pair[0].record, &pair[1].record);
        assert_eq!(one.due.0, 0);
        assert!(one.sent >= before.end, "the limit is kept");
        assert!(
            one.ttft() >= Some(before.end),
            "waiting for the limit is in the latency"
        );
    }
}

#[test]
fn so_many_are_in_flight_and_no_more() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counting, highest) = (Arc::clone(&now), Arc::clone(&most));
    let server = Server::start(move |asked, writer| {
        highest.fetch_max(counting.fetch_add(1, SeqCst) + 1, SeqCst);
        head(writer);
        token(writer);
        counting.fetch_sub(1, SeqCst);
        part(writer, &usage(asked.words(), 1));
        end(writer);
        true
    });
    let prepared = prepared(&server, options(&server.address));
    let (measured, _) = sent(&prepared, load(requests(60, 30, 1), Pacing::InFlight(3)));
    assert_eq!(measured.len(), 60);
    assert!(most.load(SeqCst) <= 3);
    let first: Vec<u64> = measured
        .iter()
        .take(3)
        .map(|one| one.record.due.0)
        .collect();
    assert_eq!(first, [0; 3], "places are free from the beginning");
    assert!(
        measured[3..].iter().all(|one| one.record.due.0 > 0),
        "a place comes free when one ends"
    );
}

#[test]
fn nothing_is_sent_after_its_time() {
    let server = Server::start(answer);
    let prepared = prepared(&server, options(&server.address));
    let mut traffic = requests(3, 30, 2);
    traffic[2].due = after(3_600_000);
    let mut load = load(traffic, AS_DUE);
    load.until = Some(std::time::Duration::from_millis(100));
    let (measured, ended) = sent(&prepared, load);
    assert_eq!((measured.len(), ended.sent), (2, 2));
}

#[test]
fn what_was_due_in_time_is_sent_however_late() {
    let server = Server::start(answer);
    let prepared = prepared(&server, options(&server.address));
    // One at a time goes through, so that most are sent long after the time is over.
    let mut traffic = requests(30, 30, 2);
    traffic[29].due = after(1);
    let mut load = load(traffic, Pacing::Scheduled { at_most: Some(1) });
    load.until = Some(std::time::Duration::from_millis(1));
    let (measured, ended) = sent(&prepared, load);
    assert_eq!((measured.len(), ended.sent), (29, 29));
}

#[test]
fn a_client_thinks_also_where_its_next_request_is_due_long_after_the_answer() {
    let server = Server::start(answer);
    let prepared = prepared(&server, options(&server.address));
    let mut traffic = requests(3, 30, 2);
    for (place, request) in (0..).zip(&mut traffic) {
        request.session = Some(3);
        request.due = after(100 * place);
        request.think = after(150 * place);
    }
    for pacing in [AS_DUE, Pacing::InFlight(2)] {
        let (measured, _) = sent(&prepared, load(traffic.clone(), pacing));
        for (place, pair) in (1..).zip(measured.windows(2)) {
            let (before, one) = (&pair[0].record, &pair[1].record);
            assert!(
                one.due.0 >= before.end.0 + after(150 * place).0,
                "{pacing:?}"
            );
            assert!(one.sent >= one.due);
        }
    }
}

#[test]
fn prompts_are_as_long_as_the_server_counts() {
    // Two tokens for every word, and seven around them.
    let server = Server::start(|asked, writer| {
        head(writer);
        for _ in 0..asked.tokens() {
            token(writer);
        }
        part(writer, &usage(asked.words() * 2 + 7, asked.tokens()));
        end(writer);
        true
    });
    let prepared = prepared(&server, options(&server.address));
    let expected = Calibration {
        tokens_per_word: 2.0,
        overhead: 7.0,
    };
    assert_eq!(prepared.calibration, Some(expected));
    let (measured, _) = sent(&prepared, load(requests(1, 47, 2), AS_DUE));
    assert_eq!(
        (measured[0].requested_input, measured[0].record.input),
        (47, 47)
    );
    assert_eq!(server.of_load()[0].words(), 20);
}

#[test]
fn the_tokenizer_counts_where_answers_do_not() {
    let server = Server::start(|asked, writer| {
        if asked.path == "/tokenize" {
            let tokens = vec![1; asked.words() as usize + 1];
            document(writer, 200, "", &json!({ "tokens": tokens }).to_string());
            return true;
        }
        head(writer);
        token(writer);
        end(writer);
        true
    });
    let prepared = prepared(&server, options(&server.address));
    let found = prepared.calibration.expect("it counts");
    assert_eq!((found.tokens_per_word, found.overhead), (1.0, 1.0));
}

#[test]
fn fields_that_the_server_does_not_take_are_left_out() {
    let server = Server::start(|asked, writer| {
        let refused = ["ignore_eos", "stream_options"]
            .iter()
            .find(|name| asked.body.get(**name).is_some());
        if let Some(name) = refused {
            let message = format!("{{\"error\":{{\"message\":\"{name} is not known\"}}}}");
            document(writer, 400, "", &message);
            return true;
        }
        answer(asked, writer)
    });
    let prepared = prepared(&server, options(&server.address));
    assert!(!prepared.dialect.exact_length && !prepared.dialect.stream_usage);
    assert_eq!(prepared.notes.len(), 2, "{:?}", prepared.notes);
    let (measured, _) = sent(&prepared, load(requests(1, 20, 3), AS_DUE));
    assert_eq!(measured[0].record.outcome, Outcome::Completed);
}

#[test]
fn a_server_without_chat_is_asked_for_completions() {
    let server = Server::start(|asked, writer| {
        if asked.path == "/v1/chat/completions" {
            document(writer, 404, "", "");
            return true;
        }
        answer(asked, writer)
    });
    let mut options = options(&server.address);
    options.interface = None;
    assert_eq!(prepared(&server, options).interface, Interface::Completions);
}

#[test]
fn whole_answers_have_no_first_token() {
    let server = Server::start(|asked, writer| {
        let body = json!({
            "choices": [{"message": {"content": "ba be bi"}, "finish_reason": "length"}],
            "usage": {"prompt_tokens": asked.words(), "completion_tokens": asked.tokens()},
        });
        document(writer, 200, "", &body.to_string());
        true
    });
    let mut options = options(&server.address);
    options.stream = false;
    options.interface = Some(Interface::Chat);
    let prepared = prepared(&server, options);
    let (measured, _) = sent(&prepared, load(requests(2, 20, 3), AS_DUE));
    let record = measured[0].record;
    assert_eq!(
        (record.outcome, record.output, record.first_token),
        (Outcome::Completed, 3, None)
    );
    assert!(record.end > record.sent);
}

#[test]
fn a_conversation_waits_for_its_answers_and_repeats_them() {
    let server = Server::start(answer);
    let mut options = options(&server.address);
    options.interface = Some(Interface::Chat);
    let prepared = prepared(&server, options);
    let first = Request {
        input: 20,
        output: 2,
        session: Some(7),
        answer: Some(900),
        prefix: Some(Box::new([Segment {
            content: 800,
            tokens: 20,
        }])),
        ..Request::default()
    };
    let second = Request {
        input: 32,
        think: after(5),
        prefix: Some(Box::new([
            Segment {
                content: 800,
                tokens: 20,
            },
            Segment {
                content: 900,
                tokens: 2,
            },
        ])),
        answer: None,
        ..first.clone()
    };
    let (measured, _) = sent(&prepared, load(vec![first, second], AS_DUE));
    let (before, after_it) = (&measured[0].record, &measured[1].record);
    assert!(
        after_it.due.0 >= before.end.0 + after(5).0,
        "it waits, and thinks"
    );
    let asked = server.of_load();
    let said = |place: usize| {
        asked[place].body["messages"]
            .as_array()
            .expect("messages")
            .clone()
    };
    let (one, two) = (said(0), said(1));
    assert_eq!(two[0], one[0], "the same beginning");
    assert_eq!(two[1], json!({"role": "assistant", "content": " ba ba"}));
    assert_eq!((two[2]["role"].as_str(), two.len()), (Some("user"), 3));
    assert_eq!(asked[1].words(), 32);
}
