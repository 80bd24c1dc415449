//! Answers are as their schemas say.

use super::Daemon;
use crate::schemas;
use std::collections::BTreeSet;

#[test]
fn answers_are_as_their_schemas_say() {
    let daemon = Daemon::start(&["--speed", "600"]);
    let mut held = BTreeSet::new();
    for arguments in [
        &[
            "tenant", "create", "vision", "--budget", "100usd", "--quota", "8xH100", "--borrow",
            "4",
        ][..],
        &["tenant", "list"],
        &[
            "token", "create", "ann", "--role", "member", "--tenant", "vision", "--for", "1d",
        ],
        &["token", "list"],
        &[
            "lease", "request", "--tenant", "vision", "--gpu", "2xH100", "--for", "1h",
        ],
        &[
            "lease",
            "request",
            "--tenant",
            "vision",
            "--model",
            "llama-3.1-8b",
            "--rate",
            "1",
            "--for",
            "1h",
        ],
        &["lease", "list"],
        &["lease", "explain", "L-1"],
        &["statement", "vision"],
        &["top"],
        &["tenant", "set", "vision", "--weight", "2"],
        &["prices", "set", "H100", "2usd"],
        &["lease", "offers"],
        &[
            "lease",
            "request",
            "--tenant",
            "vision",
            "--gpu",
            "H100",
            "--for",
            "1h",
            "--dry-run",
        ],
        &["token", "audit"],
        &["policy", "show"],
        &[
            "reservation",
            "create",
            "demo",
            "--tenant",
            "vision",
            "--node",
            "n1",
            "--gpus",
            "1",
            "--for",
            "8h",
        ],
        &["node", "list"],
        &["secret", "list"],
        &["node", "add", "m1", "--gpus", "4xH100"],
        &["slo", "costs"],
        &["store", "snapshot", "--store", "sqlite://log.db"],
        &["store", "check", "--store", "sqlite://log.db"],
        &[
            "store",
            "backup",
            "copy.jsonl",
            "--store",
            "sqlite://log.db",
        ],
    ] {
        held.insert(schemas::held(&daemon.json(arguments)));
    }
    assert_eq!(held.len(), 22, "{held:?}");
}
