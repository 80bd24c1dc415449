//! What is asked of a cluster once, by who may not read all of it.

use super::{
    given::{node, pod},
    server::{Fault, Server},
};
use gpuwise_k8s::{
    inventory::Kind,
    operator::{Connection, OperatorError, Why, why},
    watch,
};
use std::path::PathBuf;

/// A kubeconfig of a server, under a name of its own.
fn connection(server: &Server, name: &str) -> Connection {
    let file = format!("gpuwise-why-{}-{name}", std::process::id());
    let path: PathBuf = std::env::temp_dir().join(file);
    let url = &server.url;
    let text = format!(
        "apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {{server: '{url}'}}}}]\nusers: [{{name: u, user: {{}}}}]\ncontexts: [{{name: one, context: {{cluster: c, user: u}}}}]\ncurrent-context: one\n"
    );
    std::fs::write(&path, text).expect("a file");
    Connection {
        kubeconfig: Some(path),
        context: None,
    }
}

async fn asked(
    server: &Server,
    name: &str,
) -> Result<gpuwise_k8s::operator::Answer, OperatorError> {
    let connection = connection(server, name);
    let of = Why {
        namespace: "default".into(),
        pod: "p".into(),
    };
    let file = connection.kubeconfig.clone().expect("a file");
    let answer = tokio::task::spawn_blocking(move || why(&connection, &of)).await;
    std::fs::remove_file(file).expect("our file");
    answer.expect("it ends")
}

async fn small() -> Server {
    let server = Server::start(true).await;
    let (node, pod) = (node("gpu-1", 8), pod("p", Some("gpu-1"), 1));
    server.put("/api/v1/nodes", "", "gpu-1", &node.to_string());
    server.put("/api/v1/pods", "default", "p", &pod.to_string());
    server
}

#[tokio::test]
async fn who_may_not_list_what_is_needed_is_told_the_rule_that_is_missing() {
    for kind in [Kind::Nodes, Kind::Pods] {
        let server = small().await;
        let path = format!("/api/v1/{}", kind.resource());
        let words = "is forbidden at the cluster scope";
        server.fault(&path, Fault::Status(403, words));
        let refused = asked(&server, kind.resource()).await;
        let Err(OperatorError::Trouble(trouble)) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(trouble.why, watch::Why::Forbidden);
        assert_eq!(trouble.about, Some(kind.into()));
        let hint = trouble.hint.expect("what to do");
        let rule = format!("resources: [\"{}\"]", kind.resource());
        assert!(hint.contains(&rule), "{hint}");
    }
}

#[tokio::test]
async fn what_else_may_not_be_read_is_done_without() {
    let server = small().await;
    for path in [
        "/apis/gpuwise.dev/v1alpha1/gpuquotas",
        "/apis/resource.k8s.io/v1/resourceclaims",
        "/apis/apps/v1/statefulsets",
        "/apis/apps/v1/deployments",
    ] {
        server.fault(path, Fault::Status(403, "forbidden"));
    }
    server.fault(
        "/apis/gpuwise.dev/v1alpha1/gpuworkloads",
        Fault::Status(404, "404 page not found"),
    );
    let answer = asked(&server, "else").await.expect("an answer");
    assert_eq!(answer.reason, "Bound");
}

#[tokio::test]
async fn a_stranger_is_told_and_does_not_wait() {
    let server = small().await;
    server.fault("/api/v1/pods", Fault::Status(401, "Unauthorized"));
    let refused = asked(&server, "stranger").await;
    let Err(OperatorError::Trouble(trouble)) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(trouble.why, watch::Why::Unauthorized);
}
