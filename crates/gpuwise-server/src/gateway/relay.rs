//! Passing an answer on, piece by piece as it comes, and counting what it says of tokens.

use super::{
    count::{Piece, Tokens, end_of_event, piece, tokens},
    traffic::Started,
};
use crate::endpoints::InFlight;
use axum::{
    body::{Body, Bytes, HttpBody},
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use http_body::Frame;
use hyper::body::Incoming;
use std::{
    collections::VecDeque,
    pin::Pin,
    task::{Context, Poll, ready},
};

/// An answer that is not a stream, at most, in bytes.
const LARGEST: usize = 64 << 20;

pub(super) async fn relay(
    response: hyper::Response<Incoming>,
    started: Started,
    slot: InFlight,
    hide_usage: bool,
    stream: bool,
) -> Response {
    let status = response.status();
    let form = response.headers().get(header::CONTENT_TYPE).cloned();
    let later = response.headers().get(header::RETRY_AFTER).cloned();
    let streams = stream
        && status.is_success()
        && form
            .as_ref()
            .is_some_and(|form| form.as_bytes().starts_with(b"text/event-stream"));
    let mut answer = if streams {
        let events = Events {
            body: response.into_body(),
            pending: Vec::new(),
            looked: 0,
            ready: VecDeque::new(),
            hide_usage,
            counted: Counted::new(started),
            ended: false,
            _slot: slot,
        };
        Response::new(Body::new(events))
    } else {
        whole(response, started, slot).await
    };
    *answer.status_mut() = if answer.status() == StatusCode::BAD_GATEWAY {
        StatusCode::BAD_GATEWAY
    } else {
        status
    };
    for (name, value) in [(header::CONTENT_TYPE, form), (header::RETRY_AFTER, later)] {
        if let Some(value) = value {
            answer.headers_mut().insert(name, value);
        }
    }
    answer
}

async fn whole(
    response: hyper::Response<Incoming>,
    mut started: Started,
    slot: InFlight,
) -> Response {
    started.whole();
    let good = response.status().is_success();
    let mut counted = Counted::new(started);
    let body = Body::new(response.into_body());
    let Ok(bytes) = axum::body::to_bytes(body, LARGEST).await else {
        return (StatusCode::BAD_GATEWAY, "the engine broke off\n").into_response();
    };
    drop(slot);
    if good {
        counted.text();
        let said = serde_json::from_slice(&bytes)
            .ok()
            .as_ref()
            .and_then(tokens);
        counted.tokens = said;
        counted.good = true;
    }
    Response::new(Body::from(bytes))
}

/// What is known of a request when it is over, however it ends.
struct Counted {
    started: Option<Started>,
    tokens: Option<Tokens>,
    /// Pieces of the answer that came.
    pieces: u64,
    /// Whether it ended as it should.
    good: bool,
}

impl Counted {
    const fn new(started: Started) -> Self {
        Self {
            started: Some(started),
            tokens: None,
            pieces: 0,
            good: false,
        }
    }

    fn text(&mut self) {
        if self.pieces == 0
            && let Some(started) = &mut self.started
        {
            started.first();
        }
        self.pieces += 1;
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if let Some(started) = self.started.take() {
            started.over(self.tokens, self.pieces, self.good);
        }
    }
}

/// A stream of events; each is passed on as soon as it is whole.
struct Events {
    body: Incoming,
    pending: Vec<u8>,
    /// Bytes of it in which no end was found.
    looked: usize,
    ready: VecDeque<Bytes>,
    hide_usage: bool,
    counted: Counted,
    ended: bool,
    _slot: InFlight,
}

impl Events {
    /// Takes the events that are whole out of what has come.
    fn take_whole(&mut self) {
        let mut out = Vec::new();
        while let Some(end) = end_of_event(&self.pending, self.looked) {
            let event: Vec<u8> = self.pending.drain(..end).collect();
            self.looked = 0;
            match piece(&event) {
                Piece::Text => self.counted.text(),
                Piece::Both(tokens) => {
                    self.counted.text();
                    self.counted.tokens = Some(tokens);
                }
                Piece::Usage(tokens) => {
                    self.counted.tokens = Some(tokens);
                    if self.hide_usage {
                        continue;
                    }
                }
                Piece::Other => {}
            }
            out.extend_from_slice(&event);
        }
        self.looked = self.pending.len();
        if !out.is_empty() {
            self.ready.push_back(out.into());
        }
    }
}

impl HttpBody for Events {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        loop {
            if let Some(bytes) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            if self.ended {
                return Poll::Ready(None);
            }
            match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.pending.extend_from_slice(&data);
                        self.take_whole();
                    }
                }
                Some(Err(error)) => {
                    self.ended = true;
                    return Poll::Ready(Some(Err(error)));
                }
                None => {
                    self.ended = true;
                    self.counted.good = true;
                    let rest = std::mem::take(&mut self.pending);
                    if !rest.is_empty() {
                        self.ready.push_back(rest.into());
                    }
                }
            }
        }
    }
}
