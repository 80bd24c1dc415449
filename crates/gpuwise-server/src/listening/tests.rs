#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

use super::{BoundedListener, ConnectionBounds, Connections, application};
use axum::{Router, body::Bytes, routing::post};
use std::{net::SocketAddr, time::Duration};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// Within which all that is waited for here must come.
const SOON: Duration = Duration::from_secs(20);
const LONG: Duration = Duration::from_mins(10);
const SHORT: Duration = Duration::from_millis(60);

const BOUNDS: ConnectionBounds = ConnectionBounds {
    all: 8,
    each: 8,
    head: LONG,
    body: LONG,
    idle: LONG,
    write: LONG,
};

/// Says back what it is sent; at /never it does not answer, at /much it does not end.
async fn listens(bounds: ConnectionBounds) -> (SocketAddr, Connections) {
    let much = || async {
        let piece = || Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; 65_536]));
        let stream = tokio_stream::iter(std::iter::repeat_with(piece));
        axum::body::Body::from_stream(stream)
    };
    let router = Router::new()
        .route("/echo", post(|body: Bytes| async move { body }))
        .route("/never", post(|_: Bytes| std::future::pending::<()>()))
        .route("/much", post(much));
    let connections = Connections::new(bounds);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let listener = BoundedListener::new(listener, &connections);
    tokio::spawn(async move { axum::serve(listener, application(router)).await });
    (address, connections)
}

async fn sends(address: SocketAddr, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    stream
}

/// All that comes until the connection is closed.
async fn rest(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(SOON, stream.read_to_end(&mut bytes)).await;
    // One that is reset is closed, too.
    let _ = read.expect("it is closed in time");
    String::from_utf8_lossy(&bytes).into_owned()
}

async fn answered(address: SocketAddr) -> String {
    let asks =
        "POST /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 4\r\n\r\nping";
    rest(sends(address, asks).await).await
}

fn closed(connections: &Connections, why: &str) -> u64 {
    let mut all = connections.closed();
    all.find(|(name, _)| *name == why).unwrap().1
}

#[tokio::test]
async fn whole_requests_are_answered_while_others_hold_connections_open() {
    let bounds = ConnectionBounds { each: 6, ..BOUNDS };
    let (address, connections) = listens(bounds).await;
    let mut held = Vec::new();
    let half = [
        "",
        "POST /echo HTTP/1.1\r\nHo",
        "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhal",
    ];
    for at in 0..60 {
        held.push(sends(address, half[at % half.len()]).await);
        if at % 10 == 9 {
            let said = answered(address).await;
            assert!(said.ends_with("ping"), "{at}: {said}");
        }
    }
    assert!(closed(&connections, "made_room") >= 54);
    assert_eq!(closed(&connections, "refused"), 0);
    drop(held);
}

#[tokio::test]
async fn who_is_served_is_left_alone_and_one_too_many_is_told() {
    let (address, connections) = listens(ConnectionBounds { each: 3, ..BOUNDS }).await;
    let never = "POST /never HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n";
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(sends(address, never).await);
        // The next is taken on after this one is served.
        let all = async {
            while connections.serving() < held.len() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(SOON, all).await.unwrap();
    }
    let mut one_more = TcpStream::connect(address).await.unwrap();
    let mut said = String::new();
    one_more.read_to_string(&mut said).await.unwrap();
    assert!(said.starts_with("HTTP/1.1 503 "), "{said}");
    assert_eq!(closed(&connections, "refused"), 1);
    drop(held);
    let all = async {
        while connections.count_open() > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(SOON, all).await.unwrap();
    assert!(answered(address).await.ends_with("ping"));
}

#[tokio::test]
async fn silence_ends_a_connection_wherever_it_falls() {
    let cases = [
        (
            "idle",
            ConnectionBounds {
                idle: SHORT,
                ..BOUNDS
            },
            "",
        ),
        (
            "head",
            ConnectionBounds {
                head: SHORT,
                ..BOUNDS
            },
            "POST /echo HTTP/1.1\r\nHo",
        ),
        (
            "idle",
            ConnectionBounds {
                idle: SHORT,
                ..BOUNDS
            },
            "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nping",
        ),
    ];
    for (why, bounds, text) in cases {
        let (address, connections) = listens(bounds).await;
        let said = rest(sends(address, text).await).await;
        assert_eq!(
            said.ends_with("ping"),
            text.ends_with("ping"),
            "{why}: {said}"
        );
        assert_eq!(closed(&connections, why), 1, "{why}");
    }
    // Who takes nothing of an answer.
    let (address, connections) = listens(ConnectionBounds {
        write: SHORT,
        ..BOUNDS
    })
    .await;
    let much = "POST /much HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n";
    let held = sends(address, much).await;
    let all = async {
        while closed(&connections, "write") == 0 {
            tokio::time::sleep(SHORT / 10).await;
        }
    };
    tokio::time::timeout(SOON, all).await.unwrap();
    drop(held);
}
