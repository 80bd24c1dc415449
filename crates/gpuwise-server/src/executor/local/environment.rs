//! What a process is told of its lease, and what it gets of the broker's environment: what is named here, and nothing
//! else.

use super::{
    account::Account,
    devices::Devices,
    tree::{BROKER, LEASE, WORKER},
};
use gpuwise_broker::{Broker, Launch, Lease};
use gpuwise_domain::placement::Assignment;
use std::{collections::BTreeMap, env};

/// Where a process reads which GPUs it has.
pub(super) const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";

/// Variables of the broker that commands of leases get, where it has them.
const PASSED: &[&str] = &[
    "PATH",
    "LANG",
    "LANGUAGE",
    "TZ",
    "LD_LIBRARY_PATH",
    "CUDA_HOME",
    "CUDA_PATH",
    "CUDA_DEVICE_ORDER",
    "CUDA_MPS_PIPE_DIRECTORY",
    "CUDA_MPS_LOG_DIRECTORY",
    "NVIDIA_DRIVER_CAPABILITIES",
    "ROCM_PATH",
];

/// Those of its account: another account has its own.
const OF_ACCOUNT: &[&str] = &["HOME", "USER", "LOGNAME", "SHELL", "TMPDIR"];

/// The GPUs that it was told.
pub(super) fn devices(launch: &Launch) -> &str {
    launch.environment.get(VISIBLE).map_or("", String::as_str)
}

/// The environment in which commands under an account begin; `more` are variables that somebody named besides.
pub(super) fn base(account: Option<&Account>, more: &[String]) -> BTreeMap<String, String> {
    let all = env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let passed = |name: &str| {
        PASSED.contains(&name)
            || name.starts_with("LC_")
            || (account.is_none() && OF_ACCOUNT.contains(&name))
            || more.iter().any(|one| one == name)
    };
    let mut found: BTreeMap<String, String> = all.filter(|(name, _)| passed(name)).collect();
    if let Some(account) = account {
        found.insert("HOME".into(), account.home.display().to_string());
        found.insert("USER".into(), account.name.clone());
        found.insert("LOGNAME".into(), account.name.clone());
        found.insert("SHELL".into(), account.shell.clone());
    }
    found
}

/// By what a process is known as one of a lease, however it was started.
pub(super) fn marks(broker: &str, lease: &str, worker: usize) -> [(String, String); 3] {
    [
        (BROKER.into(), broker.into()),
        (LEASE.into(), lease.into()),
        (WORKER.into(), worker.to_string()),
    ]
}

/// The command of a lease for one of its workers, on `visible` GPUs.
pub(super) fn command(
    lease: &Lease,
    visible: String,
    assignments: &[Assignment],
    worker: usize,
    port: Option<u16>,
) -> Launch {
    let mut launch = launch(lease, assignments, worker, port);
    launch.environment.insert(VISIBLE.into(), visible);
    launch
}

/// The same, where somebody else says which GPUs it sees.
pub(in crate::executor) fn launch(
    lease: &Lease,
    assignments: &[Assignment],
    worker: usize,
    port: Option<u16>,
) -> Launch {
    let trace = crate::observe::traceparent(lease);
    Launch::of(lease, assignments, worker, port, trace)
}

/// The GPUs of assignments as CUDA is told: their lasting ids, and those of MIG instances; or why that cannot be.
pub(super) fn visible(
    broker: &Broker,
    devices: &Devices,
    assignments: &[Assignment],
) -> Result<String, String> {
    let shares = assignments.iter().flat_map(|one| &one.gpus);
    let ids: Result<Vec<String>, String> = shares
        .map(|share| devices.name(broker, share.gpu, share.part))
        .collect();
    Ok(ids?.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_begin_with_what_is_named_and_nothing_else() {
        let own = base(None, &[]);
        assert!(own.contains_key("PATH"));
        for name in own.keys() {
            let known = PASSED.contains(&name.as_str()) || OF_ACCOUNT.contains(&name.as_str());
            assert!(known || name.starts_with("LC_"), "{name}");
        }
        // Cargo sets many, and none of them is passed on unless it is named.
        let hidden = env::vars().map(|(name, _)| name);
        let hidden: Vec<String> = hidden.filter(|name| name.starts_with("CARGO")).collect();
        assert!(!hidden.is_empty());
        assert!(hidden.iter().all(|name| !own.contains_key(name)));
        let more = base(None, &hidden[..1]);
        assert!(more.contains_key(&hidden[0]));
    }

    #[test]
    fn an_account_has_a_home_of_its_own() {
        let account = Account {
            name: "lab".into(),
            uid: 1000,
            gid: 1000,
            groups: Vec::new(),
            home: "/home/lab".into(),
            shell: "/bin/sh".into(),
        };
        let found = base(Some(&account), &[]);
        let expect = [
            ("HOME", "/home/lab"),
            ("USER", "lab"),
            ("LOGNAME", "lab"),
            ("SHELL", "/bin/sh"),
        ];
        for (name, value) in expect {
            assert_eq!(found.get(name).map(String::as_str), Some(value));
        }
        assert!(!found.contains_key("TMPDIR"));
    }
}
