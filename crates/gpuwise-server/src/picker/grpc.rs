//! The service `envoy.service.ext_proc.v3.ExternalProcessor`: a stream for each HTTP request.

use super::{
    Held, PickAsk, Picked, Picker, Refused,
    exchange::{Exchange, LARGEST, Step},
    figures::Figures,
    messages::{ProcessingRequest, ProcessingResponse},
};
use crate::listening::serving;
use std::{
    collections::VecDeque,
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};
use tokio::sync::mpsc;
use tokio_stream::{Stream, wrappers::ReceiverStream};
use tonic::{
    Request, Response, Status, Streaming,
    body::Body,
    codegen::{BoxFuture, Service, http},
    server::{Grpc, NamedService, StreamingService},
};
use tonic_prost::ProstCodec;

/// Answers of a stream that wait to be sent, at most.
const QUEUE: usize = 16;

#[derive(Clone)]
pub(super) struct Processor {
    pub(super) picker: Arc<dyn Picker>,
    pub(super) figures: Arc<Figures>,
}

impl NamedService for Processor {
    const NAME: &'static str = "envoy.service.ext_proc.v3.ExternalProcessor";
}

type Answers = Pin<Box<dyn Stream<Item = Result<ProcessingResponse, Status>> + Send>>;

impl StreamingService<ProcessingRequest> for Processor {
    type Response = ProcessingResponse;
    type ResponseStream = Answers;
    type Future = BoxFuture<Response<Answers>, Status>;

    fn call(&mut self, request: Request<Streaming<ProcessingRequest>>) -> Self::Future {
        let (send, answers) = mpsc::channel(QUEUE);
        let serving = serving(request.extensions());
        let follow = self.clone().follow(request.into_inner(), send);
        tokio::spawn(async move {
            follow.await;
            drop(serving);
        });
        Box::pin(async move {
            let answers: Answers = Box::pin(ReceiverStream::new(answers));
            Ok(Response::new(answers))
        })
    }
}

impl Processor {
    /// One HTTP request, until the gateway closes the stream; then it is over.
    async fn follow(
        self,
        mut asked: Streaming<ProcessingRequest>,
        send: mpsc::Sender<Result<ProcessingResponse, Status>>,
    ) {
        let mut exchange = Exchange::default();
        let mut under_way: Option<Box<dyn Held>> = None;
        let mut early = VecDeque::new();
        loop {
            let message = match early.pop_front() {
                Some(message) => message,
                None => match asked.message().await {
                    Ok(Some(message)) => message,
                    _ => return,
                },
            };
            let answers = match exchange.take(message) {
                Step::Answer(answers) => answers,
                Step::Served(by, answers) => {
                    if let (Some(by), Some(held)) = (by, &mut under_way) {
                        held.served(&by);
                    }
                    answers
                }
                Step::Pick(ask) => {
                    let began = Instant::now();
                    let Some(picked) = self.pick(ask, &mut asked, &mut early).await else {
                        return;
                    };
                    self.figures.picked(&picked, began.elapsed());
                    match picked {
                        Ok(picked) => {
                            under_way = Some(picked.held);
                            exchange.picked(&picked.endpoints, picked.hidden)
                        }
                        Err(refused) => exchange.refuse(&refused),
                    }
                }
            };
            for answer in answers {
                // The gateway has gone.
                if send.send(Ok(answer)).await.is_err() {
                    return;
                }
            }
        }
    }
}

impl Processor {
    /// An endpoint, which may take a while; `None`: the gateway has gone. What it says before goes to `early`.
    async fn pick(
        &self,
        ask: PickAsk,
        asked: &mut Streaming<ProcessingRequest>,
        early: &mut VecDeque<ProcessingRequest>,
    ) -> Option<Result<Picked, Refused>> {
        let mut picking = self.picker.pick(ask);
        loop {
            tokio::select! {
                biased;
                picked = &mut picking => return Some(picked),
                message = asked.message(), if early.len() < QUEUE => match message {
                    Ok(Some(message)) => early.push_back(message),
                    _ => return None,
                },
            }
        }
    }
}

impl Service<http::Request<Body>> for Processor {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let own = self.clone();
        let is_process = request.uri().path().ends_with("/Process");
        Box::pin(async move {
            if !is_process {
                return Ok(Status::unimplemented("there is no such method").into_http());
            }
            // A body that comes whole comes in one message.
            let mut grpc = Grpc::new(ProstCodec::default())
                .max_decoding_message_size(LARGEST + (1 << 20))
                .max_encoding_message_size(LARGEST + (1 << 20));
            Ok(grpc.streaming(own, request).await)
        })
    }
}
