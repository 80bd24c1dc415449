//! The service `externalscaler.ExternalScaler` of KEDA over gRPC.

use super::{
    messages::{
        GetMetricSpecResponse, GetMetricsRequest, GetMetricsResponse, IsActiveResponse, MetricSpec,
        MetricValue, ScaledObjectRef,
    },
    objects::{Objects, Refused},
    service::Wrong,
};
use crate::listening::serving;
use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};
use tokio_stream::{Stream, StreamExt as _, wrappers::WatchStream};
use tonic::{
    Request, Response, Status,
    body::Body,
    codegen::{BoxFuture, Service, http},
    server::{Grpc, NamedService, ServerStreamingService, UnaryService},
};
use tonic_prost::ProstCodec;

/// Wanted replicas, of which a replica is to have one: what is reported is what is wanted.
pub(super) const METRIC: &str = "gpuwise-replicas";

#[derive(Clone)]
pub(super) struct Scaler {
    pub(super) objects: Arc<Objects>,
}

impl NamedService for Scaler {
    const NAME: &'static str = "externalscaler.ExternalScaler";
}

impl From<Refused> for Status {
    fn from(refused: Refused) -> Self {
        let words = refused.to_string();
        match refused {
            Refused::Wrong {
                why: Wrong::Unknown,
                ..
            } => Self::not_found(words),
            Refused::Wrong { .. } => Self::invalid_argument(words),
            Refused::TooMany => Self::resource_exhausted(words),
            Refused::NotYet { .. } => Self::unavailable(words),
        }
    }
}

/// One way of asking, answered on a thread that may wait.
struct Asks<F> {
    objects: Arc<Objects>,
    answer: F,
}

impl<M, A, F> UnaryService<M> for Asks<F>
where
    M: Send + 'static,
    A: Send + 'static,
    F: Fn(&Objects, &M) -> Result<A, Status> + Copy + Send + 'static,
{
    type Response = A;
    type Future = BoxFuture<Response<A>, Status>;

    fn call(&mut self, request: Request<M>) -> Self::Future {
        let (objects, answer) = (Arc::clone(&self.objects), self.answer);
        let asked = request.into_inner();
        Box::pin(async move {
            waiting(move || answer(&objects, &asked))
                .await
                .map(Response::new)
        })
    }
}

struct Streams {
    objects: Arc<Objects>,
}

impl ServerStreamingService<ScaledObjectRef> for Streams {
    type Response = IsActiveResponse;
    type ResponseStream = Pin<Box<dyn Stream<Item = Result<IsActiveResponse, Status>> + Send>>;
    type Future = BoxFuture<Response<Self::ResponseStream>, Status>;

    fn call(&mut self, request: Request<ScaledObjectRef>) -> Self::Future {
        let objects = Arc::clone(&self.objects);
        let serving = serving(request.extensions());
        let asked = request.into_inner();
        Box::pin(async move {
            let active = waiting(move || objects.activity(&asked).map_err(Status::from)).await?;
            // What is known now, then each change; nothing while nothing is known.
            let told = WatchStream::new(active).filter_map(move |active| {
                // Its connection serves for as long as this is there.
                let _ = &serving;
                active.map(|result| Ok(IsActiveResponse { result }))
            });
            let told: Self::ResponseStream = Box::pin(told);
            Ok(Response::new(told))
        })
    }
}

async fn waiting<A: Send + 'static>(
    answer: impl FnOnce() -> Result<A, Status> + Send + 'static,
) -> Result<A, Status> {
    let done = tokio::task::spawn_blocking(answer).await;
    done.map_err(|_| Status::internal("the answer was cut off"))?
}

fn is_active(objects: &Objects, asked: &ScaledObjectRef) -> Result<IsActiveResponse, Status> {
    let result = objects.replicas(asked)? > 0;
    Ok(IsActiveResponse { result })
}

fn metric_spec(
    objects: &Objects,
    asked: &ScaledObjectRef,
) -> Result<GetMetricSpecResponse, Status> {
    objects.know(asked)?;
    Ok(GetMetricSpecResponse {
        metric_specs: vec![MetricSpec {
            metric_name: METRIC.into(),
            target_size: 1,
            target_size_float: 1.0,
        }],
    })
}

fn metrics(objects: &Objects, asked: &GetMetricsRequest) -> Result<GetMetricsResponse, Status> {
    let object = asked.scaled_object_ref.as_ref();
    let object = object.ok_or_else(|| Status::invalid_argument("scaledObjectRef is missing"))?;
    // KEDA puts the number of the trigger before the name.
    if !asked.metric_name.ends_with(METRIC) {
        let asked = &asked.metric_name;
        return Err(Status::not_found(format!(
            "there is no metric {asked:?}; expected {METRIC:?}"
        )));
    }
    let replicas = objects.replicas(object)?;
    Ok(GetMetricsResponse {
        metric_values: vec![MetricValue {
            metric_name: asked.metric_name.clone(),
            metric_value: replicas.into(),
            metric_value_float: replicas.into(),
        }],
    })
}

impl Service<http::Request<Body>> for Scaler {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let objects = Arc::clone(&self.objects);
        let serving = serving(request.extensions());
        let method = request.uri().path().rsplit('/').next().map(str::to_owned);
        Box::pin(async move {
            let answer = match method.as_deref() {
                Some("IsActive") => {
                    let answer = is_active;
                    let asks = Asks { objects, answer };
                    Grpc::new(ProstCodec::default()).unary(asks, request).await
                }
                Some("GetMetricSpec") => {
                    let answer = metric_spec;
                    let asks = Asks { objects, answer };
                    Grpc::new(ProstCodec::default()).unary(asks, request).await
                }
                Some("GetMetrics") => {
                    let answer = metrics;
                    let asks = Asks { objects, answer };
                    Grpc::new(ProstCodec::default()).unary(asks, request).await
                }
                Some("StreamIsActive") => {
                    let streams = Streams { objects };
                    let mut grpc = Grpc::new(ProstCodec::default());
                    grpc.server_streaming(streams, request).await
                }
                // Among them StreamMetricSpec, which KEDA 2.21 takes for what it is.
                _ => Status::unimplemented("there is no such method").into_http(),
            };
            drop(serving);
            Ok(answer)
        })
    }
}
