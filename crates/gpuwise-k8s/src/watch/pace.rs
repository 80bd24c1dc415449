//! Watches that end as soon as they begin are begun anew more and more slowly.
//!
//! A watch that ends is asked for again at once, and that is right after its time is over. Behind a proxy
//! that ends it at once nothing fails, so that no back-off would ever begin.

use http::{Request, Response};
use kube::client::Body;
use std::{
    collections::BTreeMap,
    hash::{BuildHasher as _, Hasher as _, RandomState},
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::{Duration, Instant},
};
use tower::{Layer, Service};

/// A watch that lasted for less than this is a short one.
const SHORT: Duration = Duration::from_secs(5);
/// The pause after the second short one; doubled with each, up to the longest.
const FIRST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(30);

#[derive(Debug, Default, Clone)]
pub(super) struct Pace {
    begun: Arc<Mutex<BTreeMap<String, Begun>>>,
}

#[derive(Debug, Clone, Copy)]
struct Begun {
    at: Instant,
    /// Short ones in a row.
    short: u32,
}

impl Pace {
    /// How long the next watch of a path waits.
    fn pause(&self, path: String) -> Duration {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let Some(last) = begun.get_mut(&path) else {
            begun.insert(path, Begun { at: now, short: 0 });
            return Duration::ZERO;
        };
        let lasted = now.saturating_duration_since(last.at);
        last.short = if lasted < SHORT { last.short + 1 } else { 0 };
        let pause = match last.short {
            0 | 1 => Duration::ZERO,
            short => (FIRST * (1 << (short - 2).min(10))).min(LONGEST),
        };
        // Up to a quarter more, so that those who were cut off together do not come back together.
        let chance = RandomState::new().build_hasher().finish() % 256;
        let pause = pause + pause * (chance as u32) / 1024;
        last.at = now + pause;
        pause
    }
}

/// What a request watches: its path, and which of the objects there.
fn watched(path: &str, query: Option<&str>) -> Option<String> {
    let query = query?;
    let is = |field: &str| field == "watch=true" || field == "watch=1";
    query.split('&').any(is).then(|| {
        let selectors = query.split('&').filter(|field| field.contains("Selector="));
        selectors.fold(path.to_owned(), |path, selector| path + "&" + selector)
    })
}

impl<S> Layer<S> for Pace {
    type Service = Paced<S>;

    fn layer(&self, inner: S) -> Paced<S> {
        Paced {
            inner,
            pace: self.clone(),
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Paced<S> {
    inner: S,
    pace: Pace,
}

type Answer<R, E> = Pin<Box<dyn Future<Output = Result<R, E>> + Send>>;

impl<S, B> Service<Request<Body>> for Paced<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = Response<B>;
    type Error = S::Error;
    type Future = Answer<Response<B>, S::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let watched = watched(request.uri().path(), request.uri().query());
        let pause = watched.map_or(Duration::ZERO, |what| self.pace.pause(what));
        // Nothing is sent before the answer is polled.
        let answer = self.inner.call(request);
        Box::pin(async move {
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            answer.await
        })
    }
}
