//! Passing an answer on, piece by piece as it comes, and counting what it says of tokens.

use super::{
    count::{Piece, end_of_event, piece, tokens},
    patience::{EnginePatience, Silence, Silent},
    traffic::Started,
};
use crate::{endpoints::InFlight, http::Problem};
use axum::{
    body::{Body, Bytes, HttpBody},
    http::{StatusCode, header},
    response::Response,
};
use http_body::Frame;
use hyper::body::Incoming;
use serde_json::json;
use std::{
    collections::VecDeque,
    io,
    pin::Pin,
    task::{Context, Poll},
};

/// An answer that is not a stream, or an event of one, at most, in bytes.
const LARGEST: usize = 64 << 20;

/// How an answer is passed on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Relaying {
    /// Whether the client did not ask for usage.
    pub(super) hide_usage: bool,
    /// Whether it asked for a stream.
    pub(super) stream: bool,
    pub(super) patience: EnginePatience,
}

pub(super) async fn relay(
    response: hyper::Response<Incoming>,
    started: Started,
    slot: InFlight,
    how: Relaying,
) -> Response {
    let status = response.status();
    let form = response.headers().get(header::CONTENT_TYPE).cloned();
    let later = response.headers().get(header::RETRY_AFTER).cloned();
    let streams = how.stream
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
            how,
            started,
            end: None,
            silent: None,
            slot,
        };
        Response::new(Body::new(events))
    } else {
        match whole(response, started, slot, how.patience).await {
            Ok(answer) => answer,
            Err(broken) => return broken.into_openai(),
        }
    };
    *answer.status_mut() = status;
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
    patience: EnginePatience,
) -> Result<Response, Problem> {
    started.whole();
    let good = response.status().is_success();
    let broke = |why: &str| {
        let detail = format!("the engine broke off: {why}");
        Problem::new(StatusCode::BAD_GATEWAY, "engine", detail)
    };
    let (mut body, mut bytes) = (response.into_body(), Vec::new());
    loop {
        let next = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context));
        let frame = tokio::select! {
            biased;
            frame = next => frame,
            silence = patience.until_next(slot.replica()) => {
                started.silent();
                let status = StatusCode::GATEWAY_TIMEOUT;
                return Err(Problem::new(status, "engine-silent", silence.to_string()));
            }
        };
        let Some(frame) = frame else {
            break;
        };
        let frame = frame.map_err(|error| broke(&error.to_string()))?;
        if let Some(data) = frame.data_ref() {
            bytes.extend_from_slice(data);
        }
        if bytes.len() > LARGEST {
            return Err(broke("its answer is too large"));
        }
    }
    drop(slot);
    if good {
        started.text();
        let said = serde_json::from_slice(&bytes).ok();
        if let Some(tokens) = said.as_ref().and_then(tokens) {
            started.told(tokens);
        }
        started.good();
    }
    Ok(Response::new(Body::from(bytes)))
}

/// A stream of events; each is passed on as soon as it is whole.
struct Events {
    body: Incoming,
    pending: Vec<u8>,
    /// Bytes of it in which no end was found.
    looked: usize,
    ready: VecDeque<Bytes>,
    how: Relaying,
    started: Started,
    /// That nothing more comes, and whether it was broken off.
    end: Option<io::Result<()>>,
    /// Until the engine has been silent for too long, while its next piece is waited for.
    silent: Option<Silent>,
    slot: InFlight,
}

impl Events {
    /// Takes the events that are whole out of what has come.
    fn take_whole(&mut self) {
        let mut out = Vec::new();
        while let Some(end) = end_of_event(&self.pending, self.looked) {
            let event: Vec<u8> = self.pending.drain(..end).collect();
            self.looked = 0;
            match piece(&event) {
                Piece::Text => self.started.text(),
                Piece::Both(tokens) => {
                    self.started.text();
                    self.started.told(tokens);
                }
                Piece::Usage(tokens) => {
                    self.started.told(tokens);
                    if self.how.hide_usage {
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

    /// The next part of the engine's answer, or how that is over.
    fn takes(&mut self, frame: Option<Result<Frame<Bytes>, hyper::Error>>) {
        match frame {
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    self.pending.extend_from_slice(&data);
                    self.take_whole();
                }
                if self.pending.len() > LARGEST {
                    self.end = Some(Err(io::Error::other("an event of the engine is too large")));
                }
            }
            Some(Err(error)) => self.end = Some(Err(io::Error::other(error))),
            None => {
                self.end = Some(Ok(()));
                self.started.good();
                let rest = std::mem::take(&mut self.pending);
                if !rest.is_empty() {
                    self.ready.push_back(rest.into());
                }
            }
        }
    }

    /// The client is told by an event of OpenAI's form, with which the stream ends.
    fn gives_up(&mut self, silence: &Silence) {
        self.started.silent();
        let error = json!({
            "message": silence.to_string(), "type": "Gateway Timeout", "code": "engine-silent",
        });
        let event = format!("data: {}\n\n", json!({ "error": error }));
        self.ready.push_back(event.into());
        // Broken off, it would be cut off before the client has read why.
        self.end = Some(Ok(()));
    }
}

impl HttpBody for Events {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        loop {
            if let Some(bytes) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            if let Some(end) = &mut self.end {
                // A break is told once; after it the stream is over.
                let broken = std::mem::replace(end, Ok(())).err();
                return Poll::Ready(broken.map(Err));
            }
            if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
                self.silent = None;
                self.takes(frame);
                continue;
            }
            // From when it is waited for: a client that is slow to read is not the engine's silence.
            let mut silent = match self.silent.take() {
                Some(silent) => silent,
                None => self.how.patience.until_next(self.slot.replica()),
            };
            match silent.as_mut().poll(context) {
                Poll::Ready(silence) => self.gives_up(&silence),
                Poll::Pending => {
                    self.silent = Some(silent);
                    return Poll::Pending;
                }
            }
        }
    }
}
