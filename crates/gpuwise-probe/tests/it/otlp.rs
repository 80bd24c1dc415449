//! What programs send by OTLP: forms, refusals, several senders, slow ones.

// Tests may fail loudly.
#![allow(clippy::unwrap_used)]

use flate2::{Compression, write::GzEncoder};
use gpuwise_probe::otlp::{Decoded, Form, Limits, Receiver};
use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

type Taken = (Form, Vec<u8>);

const LIMITS: Limits = Limits {
    senders: 4,
    patience: Duration::from_secs(30),
    body: 1000,
};

/// A receiver whose bodies mean nothing but themselves; `bad` is refused, of `much` three points.
fn receiver(limits: Limits) -> Receiver<Taken> {
    let decode = |form, body: &[u8]| match body {
        b"bad" => Err("it is bad".into()),
        body => Ok(Decoded {
            value: (form, body.to_vec()),
            rejected: if body == b"much" { 300 } else { 0 },
        }),
    };
    Receiver::open("127.0.0.1:0", limits, decode).unwrap()
}

/// The status and the body of the answer.
fn post(receiver: &Receiver<Taken>, head: &str, body: &[u8]) -> (String, Vec<u8>) {
    let mut stream = TcpStream::connect(receiver.address()).unwrap();
    let request = format!("{head}\r\nHost: a\r\nConnection: close\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let _ = write!(stream, "Content-Length: {}\r\n\r\n", body.len());
    let _ = stream.write_all(body);
    answered(&mut stream)
}

fn answered(stream: &mut TcpStream) -> (String, Vec<u8>) {
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let end = answer.windows(4).position(|part| part == b"\r\n\r\n");
    let (head, body) = answer.split_at(end.map_or(answer.len(), |end| end + 4));
    let head = String::from_utf8_lossy(head);
    (head.lines().next().unwrap_or("").into(), body.to_vec())
}

const POST: &str = "POST /v1/metrics HTTP/1.1";

fn typed(kind: &str) -> String {
    format!("{POST}\r\nContent-Type: {kind}")
}

#[test]
fn bodies_of_both_forms_are_taken_once_packed_or_not() {
    let receiver = receiver(LIMITS);
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(b"packed").unwrap();
    let packed = packed.finish().unwrap();
    let json = typed("application/json; charset=utf-8");
    let protobuf = typed("application/x-protobuf");
    let gzip = format!("{protobuf}\r\nContent-Encoding: gzip");
    for (head, body, says) in [
        (POST, &b"untyped"[..], "{}"),
        (&json, b"json", "{}"),
        (&protobuf, b"protobuf", ""),
        (&gzip, &packed, ""),
    ] {
        let (status, answer) = post(&receiver, head, body);
        assert_eq!(status, "HTTP/1.1 200 OK", "{head}");
        assert_eq!(String::from_utf8_lossy(&answer), says, "{head}");
    }
    let taken = [
        (Form::Json, b"untyped".to_vec()),
        (Form::Json, b"json".to_vec()),
        (Form::Protobuf, b"protobuf".to_vec()),
        (Form::Protobuf, b"packed".to_vec()),
    ];
    assert_eq!(receiver.taken(), taken);
    assert_eq!(receiver.taken(), []);
    let address = receiver.address().to_string();
    let again = Receiver::open(
        &address,
        LIMITS,
        |_, _| Err::<Decoded<()>, _>(String::new()),
    );
    assert!(again.is_err());
}

#[test]
fn answers_have_the_form_of_their_request() {
    let receiver = receiver(LIMITS);
    let (json, protobuf) = (typed("application/json"), typed("application/x-protobuf"));
    let (status, answer) = post(&receiver, &json, b"bad");
    assert_eq!(status, "HTTP/1.1 400 Bad Request");
    let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!(answer["message"], "it is bad");
    // google.rpc.Status: code 3, INVALID_ARGUMENT, and the message.
    let (status, answer) = post(&receiver, &protobuf, b"bad");
    assert_eq!(status, "HTTP/1.1 400 Bad Request");
    assert_eq!(answer, b"\x08\x03\x12\x09it is bad");
    let (_, answer) = post(&receiver, &json, b"much");
    let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!(answer["partialSuccess"]["rejectedDataPoints"], "300");
    // partial_success of 300, which takes two bytes of seven bits, lowest first.
    let (_, answer) = post(&receiver, &protobuf, b"much");
    assert_eq!(
        answer.get(2..5),
        Some(&[0x08, 0xac, 0x02][..]),
        "{answer:?}"
    );
    assert_eq!(
        (answer[0], usize::from(answer[1])),
        (0x0a, answer.len() - 2)
    );
}

#[test]
fn what_is_refused_is_said() {
    let receiver = receiver(LIMITS);
    let mut bomb = GzEncoder::new(Vec::new(), Compression::best());
    bomb.write_all(&[0; 2000]).unwrap();
    let bomb = bomb.finish().unwrap();
    let gzip = format!("{POST}\r\nContent-Encoding: gzip");
    let zstd = format!("{POST}\r\nContent-Encoding: zstd");
    for (head, body, status) in [
        (POST, &[b' '; 1001][..], "413 Payload Too Large"),
        (&gzip, &bomb, "413 Payload Too Large"),
        (&gzip, b"no gzip", "400 Bad Request"),
        (&zstd, b"x", "415 Unsupported Media Type"),
        (&typed("text/plain"), b"x", "415 Unsupported Media Type"),
        (&format!("{POST}\r\nno colon"), b"x", "400 Bad Request"),
        ("GET / HTTP/1.1", b"", "404 Not Found"),
        ("GET /v1/metrics HTTP/1.1", b"", "405 Method Not Allowed"),
    ] {
        assert_eq!(
            post(&receiver, head, body).0,
            format!("HTTP/1.1 {status}"),
            "{head}"
        );
    }
    let mut stream = TcpStream::connect(receiver.address()).unwrap();
    write!(stream, "{POST}\r\nHost: a\r\n\r\n").unwrap();
    assert_eq!(answered(&mut stream).0, "HTTP/1.1 411 Length Required");
    // What says that it is too large is refused before it comes.
    let mut stream = TcpStream::connect(receiver.address()).unwrap();
    write!(
        stream,
        "{POST}\r\nHost: a\r\nContent-Length: 9999999999\r\n\r\n"
    )
    .unwrap();
    assert_eq!(answered(&mut stream).0, "HTTP/1.1 413 Payload Too Large");
    assert_eq!(receiver.taken(), []);
}

/// Senders that begin and do not go on: within the head, and within the body.
fn slow(receiver: &Receiver<Taken>) -> Vec<TcpStream> {
    let begun = |text: &str| {
        let mut stream = TcpStream::connect(receiver.address()).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        stream
    };
    vec![
        begun("POST /v1/met"),
        begun(&format!("{POST}\r\nHost: a\r\nContent-Length: 5\r\n\r\nab")),
    ]
}

#[test]
fn a_slow_sender_holds_up_nobody() {
    let receiver = receiver(LIMITS);
    let held = slow(&receiver);
    assert_eq!(post(&receiver, POST, b"x").0, "HTTP/1.1 200 OK");
    drop(held);
}

#[test]
fn a_slow_sender_is_given_up_and_others_then_come_in() {
    let receiver = receiver(Limits {
        senders: 2,
        patience: Duration::from_millis(50),
        ..LIMITS
    });
    let held = slow(&receiver);
    // Both places are taken: this one waits until they are given up.
    assert_eq!(post(&receiver, POST, b"x").0, "HTTP/1.1 200 OK");
    for mut stream in held {
        let (status, _) = answered(&mut stream);
        assert!(!status.contains("200"), "{status}");
    }
}
