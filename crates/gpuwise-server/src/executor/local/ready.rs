//! When a service of this machine is ready.

use super::{
    super::asking::{Asking, Waited},
    kept::Kept,
    process::{Group, Watch, end_all},
};
use gpuwise_broker::Observation;
use gpuwise_wire::broker::ServiceAsk;
use std::{
    sync::{Arc, atomic::Ordering},
    thread,
    time::Duration,
};

/// Waits until a service is ready, and says so: to the gateway where it answers, and to the broker, unless that
/// knows already, that it was started. One that does not get ready in time is ended and has failed.
pub(super) fn tell(
    watch: &Watch,
    service: &ServiceAsk,
    kept: &Kept,
    groups: Vec<Arc<Group>>,
    known: bool,
) {
    let (watch, kept, asking) = (watch.clone(), kept.clone(), Asking::of(service));
    thread::spawn(move || {
        let ports: Vec<u16> = kept.processes.iter().filter_map(|one| one.port).collect();
        let answers = addresses(&ports);
        let gone = || groups.iter().any(|group| group.gone.load(Ordering::SeqCst));
        match asking.wait(&answers, gone) {
            Waited::Ready => {}
            Waited::Gone => return,
            Waited::Late(reason) => {
                for group in &groups {
                    group.is_told();
                }
                end_all(&groups, Duration::from_secs(10));
                watch.place.forget(watch.job);
                return watch.tell(Observation::failed(watch.order(), reason));
            }
        }
        watch.starting.store(false, Ordering::SeqCst);
        watch.endpoints.set(watch.job.0, answers);
        if !known {
            watch.tell(Observation::Done(watch.order()));
        }
    });
}

/// Where ports of this machine answer.
pub(super) fn addresses(ports: &[u16]) -> Vec<String> {
    let address = |port: &u16| format!("127.0.0.1:{port}");
    ports.iter().map(address).collect()
}
