//! Services of a broker: where our own gateway would send a request is where another's sends it.

use super::{Held, PickAsk, Picked, Picker, Picking, Refused};
use crate::{
    endpoints::InFlight,
    gateway,
    http::{Problem, call::Call, completion_route},
    standing::Gate,
};
use axum::http;
use std::sync::Arc;

/// Who asks is not the engine's business: the token stays with us.
const OURS: &str = "authorization";

pub(crate) struct OfGateway(pub(crate) Arc<Gate>);

impl Picker for OfGateway {
    fn pick(&self, ask: PickAsk) -> Picking<'_> {
        Box::pin(self.picked(ask))
    }
}

impl Held for InFlight {
    /// One endpoint is named, and no other.
    fn served(&mut self, _: &str) {}
}

impl OfGateway {
    async fn picked(&self, ask: PickAsk) -> Result<Picked, Refused> {
        let shared = self
            .0
            .shared()
            .ok_or_else(|| refused(503, "not-ready", "the broker is not ready yet".into()))?;
        let path = ask.headers.get(":path").map_or("", String::as_str);
        let path = path.split('?').next().unwrap_or_default();
        let route = completion_route(path).ok_or_else(|| {
            refused(
                404,
                "not-found",
                format!("{path:?} is not among what services answer"),
            )
        })?;
        let mut request = http::Request::post(path);
        for (name, value) in &ask.headers {
            if !name.starts_with(':') {
                request = request.header(name, value);
            }
        }
        let (parts, ()) = request
            .body(())
            .map_err(|error| refused(400, "headers", error.to_string()))?
            .into_parts();
        let mut call = Call::new(Arc::clone(shared), route, &parts).map_err(of)?;
        call.body = ask.body.ok_or_else(|| {
            let why = "the gateway does not show bodies, which say the model: set request_body_mode to FULL_DUPLEX_STREAMED or BUFFERED";
            refused(400, "no-body", why.into())
        })?;
        let slot = gateway::pick(&call).await.map_err(of)?;
        let endpoint = slot.address().to_owned();
        if ask.subset.is_some_and(|only| !only.contains(&endpoint)) {
            let why = format!("{endpoint} is not among the endpoints that the gateway allows");
            return Err(refused(503, "no-endpoint", why));
        }
        Ok(Picked {
            endpoints: vec![endpoint],
            hidden: &[OURS],
            held: Box::new(slot),
        })
    }
}

fn refused(status: u16, code: &str, detail: String) -> Refused {
    Refused {
        status,
        code: code.to_owned(),
        detail,
        dropped: None,
    }
}

fn of(problem: Problem) -> Refused {
    let problem = problem.document();
    let kind = problem.kind.rsplit('/').next().unwrap_or_default();
    refused(problem.status, kind, problem.detail)
}
