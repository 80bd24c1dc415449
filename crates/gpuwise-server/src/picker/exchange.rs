//! One HTTP request as a gateway shows it to an external processor: what is gathered, when an endpoint is picked,
//! and what is answered; without waiting for anything.
//!
//! The protocol between a gateway and an endpoint picker is that of the Gateway API's inference extension, 1.0.0:
//! the endpoint goes back as a header and as dynamic metadata, both alike.

use super::messages::{
    Answered, Asked, BodyMode, BodyMutation, CommonAnswer, CommonResponse, HeaderMutation,
    HeaderValue, HeaderValueOption, HttpStatus, ImmediateResponse, OVERWRITE, ProcessingRequest,
    ProcessingResponse, StreamedBodyResponse, TrailersAnswer,
};
use super::told::{named, served, subset};
use prost::bytes::Bytes;
use prost_types::{Struct, Value, value::Kind};
use std::collections::BTreeMap;

/// Header, and key of the metadata, that say where a request goes.
pub(super) const DESTINATION: &str = "x-gateway-destination-endpoint";
/// Namespace of that metadata.
pub(super) const LB: &str = "envoy.lb";
/// Header of an answer that says why a request did not come to an endpoint, as llm-d's picker says it.
const DROPPED: &str = "x-llm-d-request-dropped-reason";

/// A body of a request at most, in bytes: as much as the gateway takes.
pub(super) const LARGEST: usize = crate::gateway::LARGEST;

/// A request that wants an endpoint.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct PickAsk {
    /// By their names in lower case; of several of one name the last.
    pub(crate) headers: BTreeMap<String, String>,
    /// `None`: the gateway does not show it.
    pub(crate) body: Option<Bytes>,
    /// The only endpoints that may be picked, where there is a limit.
    pub(crate) subset: Option<Vec<String>>,
}

/// Why no endpoint is picked, as it is answered to who asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused {
    /// Of HTTP.
    pub(crate) status: u16,
    /// A word for it, for programs and figures.
    pub(crate) code: String,
    pub(crate) detail: String,
    /// The same for gateways, in llm-d's words; of what is no matter of the pool none.
    pub(crate) dropped: Option<&'static str>,
}

/// What is to be done after a message.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    Answer(Vec<ProcessingResponse>),
    /// An endpoint is to be picked; [`Exchange::picked`] says what is answered then.
    Pick(PickAsk),
    /// It was answered by this endpoint.
    Served(Option<String>, Vec<ProcessingResponse>),
}

/// The message to which a picked endpoint is the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Due {
    Headers,
    /// Of a body that came whole.
    Body,
    /// Headers, then all of the body, then trailers where the body ended by them.
    Duplex {
        trailers: bool,
    },
}

#[derive(Debug)]
pub(super) struct Exchange {
    request_mode: BodyMode,
    response_mode: BodyMode,
    ask: PickAsk,
    body: Vec<Bytes>,
    bytes: usize,
    due: Option<Due>,
    /// Nothing more is picked: there is an endpoint, or it was refused.
    over: bool,
}

impl Default for Exchange {
    fn default() -> Self {
        Self {
            // Gateways that do not say how they send are told by their guides to send so.
            request_mode: BodyMode::FullDuplexStreamed,
            response_mode: BodyMode::FullDuplexStreamed,
            ask: PickAsk::default(),
            body: Vec::new(),
            bytes: 0,
            due: None,
            over: false,
        }
    }
}

impl Exchange {
    /// The next message of the gateway.
    pub(super) fn take(&mut self, message: ProcessingRequest) -> Step {
        if let Some(config) = message.protocol_config {
            self.request_mode = config.request_body_mode();
            self.response_mode = config.response_body_mode();
        }
        // Nobody listens to an answer.
        if message.observability_mode {
            return Step::Answer(Vec::new());
        }
        let metadata = message.metadata_context.unwrap_or_default();
        if let Some(subset) = subset(&metadata) {
            self.ask.subset = Some(subset);
        }
        match message.request {
            None => Step::Answer(Vec::new()),
            Some(Asked::RequestHeaders(asked)) => {
                self.ask.headers = asked.headers.map(named).unwrap_or_default();
                self.headers_came(asked.end_of_stream)
            }
            Some(Asked::RequestBody(asked)) => self.body_came(asked.body, asked.end_of_stream),
            Some(Asked::RequestTrailers(_)) if self.waits() => {
                self.pick(Due::Duplex { trailers: true })
            }
            Some(Asked::RequestTrailers(_)) => {
                one(Answered::RequestTrailers(TrailersAnswer::default()))
            }
            Some(Asked::ResponseHeaders(_)) => {
                let answer = answer(Answered::ResponseHeaders(CommonAnswer::default()));
                Step::Served(served(&metadata), vec![answer])
            }
            Some(Asked::ResponseBody(asked)) => {
                let duplex = self.response_mode == BodyMode::FullDuplexStreamed;
                let echo = duplex.then(|| streamed(asked.body, asked.end_of_stream));
                one(Answered::ResponseBody(echo.unwrap_or_default()))
            }
            Some(Asked::ResponseTrailers(_)) => {
                one(Answered::ResponseTrailers(TrailersAnswer::default()))
            }
        }
    }

    /// Whether a body that comes in pieces is still gathered.
    fn waits(&self) -> bool {
        self.request_mode == BodyMode::FullDuplexStreamed && self.due.is_none() && !self.over
    }

    fn headers_came(&mut self, end: bool) -> Step {
        match self.request_mode {
            // There is no body.
            _ if end => self.pick(Due::Headers),
            BodyMode::FullDuplexStreamed => Step::Answer(Vec::new()),
            BodyMode::Buffered => one(Answered::RequestHeaders(CommonAnswer::default())),
            // A body is not shown, or too late to say where it goes: by the headers alone.
            BodyMode::None | BodyMode::Streamed | BodyMode::BufferedPartial | BodyMode::Grpc => {
                self.pick(Due::Headers)
            }
        }
    }

    fn body_came(&mut self, piece: Bytes, end: bool) -> Step {
        if self.over || self.due == Some(Due::Headers) {
            return one(Answered::RequestBody(CommonAnswer::default()));
        }
        self.bytes += piece.len();
        if self.bytes > LARGEST {
            let detail = format!("the body has more than {} MiB", LARGEST >> 20);
            let refused = Refused {
                status: 413,
                code: "too-large".into(),
                detail,
                dropped: None,
            };
            return Step::Answer(self.refuse(&refused));
        }
        self.body.push(piece);
        if self.request_mode == BodyMode::Buffered {
            self.pick(Due::Body)
        } else if end {
            self.pick(Due::Duplex { trailers: false })
        } else {
            Step::Answer(Vec::new())
        }
    }

    fn pick(&mut self, due: Due) -> Step {
        self.due = Some(due);
        if due != Due::Headers {
            self.ask.body = Some(whole(&self.body));
        }
        Step::Pick(std::mem::take(&mut self.ask))
    }

    /// What is answered once endpoints are picked: where the request goes, the first first, and which of its headers
    /// do not.
    pub(super) fn picked(
        &mut self,
        endpoints: &[String],
        hidden: &[&str],
    ) -> Vec<ProcessingResponse> {
        self.over = true;
        let to = endpoints.join(",");
        let header_mutation = HeaderMutation {
            remove_headers: hidden.iter().map(|name| (*name).to_owned()).collect(),
            ..set(DESTINATION, &to)
        };
        let response = CommonResponse {
            header_mutation: Some(header_mutation),
            ..CommonResponse::default()
        };
        let goes = CommonAnswer {
            response: Some(response),
        };
        let due = self.due.unwrap_or(Due::Headers);
        let first = match due {
            Due::Headers | Due::Duplex { .. } => Answered::RequestHeaders(goes),
            Due::Body => Answered::RequestBody(goes),
        };
        let mut all = vec![ProcessingResponse {
            response: Some(first),
            dynamic_metadata: Some(destination(&to)),
        }];
        if let Due::Duplex { trailers } = due {
            let last = self.body.len().saturating_sub(1);
            let pieces = std::mem::take(&mut self.body).into_iter().enumerate();
            all.extend(pieces.map(|(at, piece)| {
                answer(Answered::RequestBody(streamed(
                    piece,
                    at == last && !trailers,
                )))
            }));
            if trailers {
                all.push(answer(Answered::RequestTrailers(TrailersAnswer::default())));
            }
        }
        all
    }

    /// What is answered where no endpoint is picked: an error in the form of OpenAI's API.
    pub(super) fn refuse(&mut self, why: &Refused) -> Vec<ProcessingResponse> {
        self.over = true;
        self.body.clear();
        let body = serde_json::json!({
            "error": {"message": why.detail, "type": why.code, "code": why.status},
        });
        let dropped = why.dropped.map(|reason| (DROPPED, reason));
        let all = [("content-type", "application/json")]
            .into_iter()
            .chain(dropped);
        let headers = HeaderMutation {
            set_headers: all
                .flat_map(|(name, value)| set(name, value).set_headers)
                .collect(),
            remove_headers: Vec::new(),
        };
        vec![answer(Answered::Immediate(ImmediateResponse {
            status: Some(HttpStatus {
                code: i32::from(why.status),
            }),
            headers: Some(headers),
            body: body.to_string().into_bytes(),
            details: why.code.clone(),
        }))]
    }
}

fn one(answered: Answered) -> Step {
    Step::Answer(vec![answer(answered)])
}

fn answer(answered: Answered) -> ProcessingResponse {
    ProcessingResponse {
        response: Some(answered),
        dynamic_metadata: None,
    }
}

fn streamed(body: Bytes, end_of_stream: bool) -> CommonAnswer {
    let piece = StreamedBodyResponse {
        body,
        end_of_stream,
    };
    let response = CommonResponse {
        body_mutation: Some(BodyMutation {
            streamed_response: Some(piece),
        }),
        ..CommonResponse::default()
    };
    CommonAnswer {
        response: Some(response),
    }
}

fn set(name: &str, value: &str) -> HeaderMutation {
    let header = HeaderValue {
        key: name.into(),
        value: String::new(),
        raw_value: value.as_bytes().to_vec(),
    };
    HeaderMutation {
        set_headers: vec![HeaderValueOption {
            header: Some(header),
            append_action: OVERWRITE,
        }],
        remove_headers: Vec::new(),
    }
}

fn destination(to: &str) -> Struct {
    let text = Kind::StringValue(to.into());
    let inner = Kind::StructValue(of(DESTINATION, text));
    of(LB, inner)
}

fn of(key: &str, kind: Kind) -> Struct {
    let value = Value { kind: Some(kind) };
    Struct {
        fields: [(key.to_owned(), value)].into(),
    }
}

fn whole(pieces: &[Bytes]) -> Bytes {
    match pieces {
        [one] => one.clone(),
        many => many.concat().into(),
    }
}
