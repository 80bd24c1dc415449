//! The client that asks engines: connections are kept.

use axum::{body::Body, http::Request};
use hyper::{Response, body::Incoming};
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use std::{fmt, time::Duration};

/// How long a connection may take that is opened on this machine or beside it.
const CONNECT: Duration = Duration::from_secs(5);

pub(crate) struct Client(legacy::Client<HttpConnector, Body>);

impl fmt::Debug for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Client")
    }
}

impl Default for Client {
    fn default() -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT));
        let client = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(Duration::from_secs(4))
            .build(connector);
        Self(client)
    }
}

impl Client {
    pub(crate) async fn request(
        &self,
        request: Request<Body>,
    ) -> Result<Response<Incoming>, legacy::Error> {
        self.0.request(request).await
    }
}
