//! Pods of a real control plane, held to the suite.

use super::{
    super::{Daemon, Executor, Shows},
    subjects::{Cluster, Processes},
};
use gpuwise_broker::MakesExecutor as _;
use gpuwise_k8s::{executor::Settings, watch::Source};
use std::{
    env,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// On the node and in one of the namespaces that variables name: a log is known by when it began, and all of the
/// suite's begin at one time. None where they are not said.
pub(super) fn kubernetes() -> Option<Cluster> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let given =
        ["TEST", "NODE", "NAMESPACES"].map(|name| env::var(format!("GPUWISE_KUBERNETES_{name}")));
    let [Ok(config), Ok(node), Ok(namespaces)] = given else {
        gpuwise_needs::skipped("GPUWISE_KUBERNETES_TEST does not name the kubeconfig of a cluster");
        return None;
    };
    let at = NEXT.fetch_add(1, Ordering::Relaxed);
    let namespace = namespaces
        .split(' ')
        .nth(at)
        .expect("a namespace for each case");
    let settings = Settings {
        source: Source::Kubeconfig {
            file: Some(config.into()),
            context: None,
        },
        namespace: namespace.to_owned(),
        image: "none".into(),
        pull_secrets: Vec::new(),
        service_account: None,
        device_class: None,
        port: 8000,
        patience: Duration::from_secs(30),
    };
    let make = move |state, sender| -> Box<dyn Executor> {
        let shows = Shows::default();
        let host = Arc::new(Daemon { sender, shows });
        settings.make(state, host).expect("begins")
    };
    Some(Cluster {
        node,
        programs: Processes::new(),
        make: Box::new(make),
    })
}
