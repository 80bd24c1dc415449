//! Watches against a server that does what it is told.

use super::{
    given::{node, pod},
    server::{Fault, Server},
};
use gpuwise_k8s::{
    inventory::{Inventory, Kind, State},
    watch::{Live, Said, Settings, Source, Why, connect, drive, start},
};
use kube::{Client, Config};
use std::{sync::Arc, time::Duration};

const NODES: &str = "/api/v1/nodes";
const PODS: &str = "/api/v1/pods";

fn settings() -> Settings {
    Settings {
        settle: Duration::from_millis(10),
        page: 3,
        timeout: 30,
        absent: Duration::from_millis(50),
        ..Settings::default()
    }
}

fn client(server: &Server) -> Client {
    let config = Config::new(server.url.parse().expect("an address"));
    gpuwise_k8s::watch::client(config).expect("a client")
}

async fn live(server: &Server, settings: Settings) -> Live {
    start(client(server), settings).await.expect("a server")
}

fn put(server: &Server, object: &serde_json::Value, path: &str) {
    let mut object = object.clone();
    object["metadata"]["resourceVersion"] = "%V".into();
    let text = |key: &str| {
        object["metadata"][key]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    server.put(path, &text("namespace"), &text("name"), &object.to_string());
}

/// Two nodes and seven pods.
async fn small(streaming: bool) -> Server {
    let server = Server::start(streaming).await;
    for name in ["gpu-1", "gpu-2"] {
        put(&server, &node(name, 8), NODES);
    }
    for at in 0..7 {
        put(&server, &pod(&format!("p{at}"), Some("gpu-1"), 1), PODS);
    }
    server
}

/// Waits for an inventory of which this holds.
async fn until(live: &Live, holds: impl Fn(&Inventory) -> bool) -> Arc<Inventory> {
    let mut seen = live.subscribe();
    let wait = async {
        seen.wait_for(|inventory| holds(inventory))
            .await
            .expect("watches go on")
            .clone()
    };
    let waited = tokio::time::timeout(Duration::from_secs(30), wait).await;
    waited.unwrap_or_else(|_| panic!("not within 30 s: {:?}", live.troubles().borrow()))
}

#[tokio::test]
async fn lists_as_the_beginning_of_a_watch_and_in_pages_give_the_same() {
    let mut copies = Vec::new();
    for streaming in [true, false] {
        let server = small(streaming).await;
        let live = live(&server, settings()).await;
        let first = live.ready().await.expect("ready");
        assert_eq!((first.nodes.len(), first.pods.len()), (2, 7));
        // In pages of three.
        assert_eq!(
            server.asked("/api/v1/pods?&limit=3"),
            if streaming { 0 } else { 3 }
        );
        copies.push(first);
    }
    assert_eq!(copies[0].pods, copies[1].pods);
    assert_eq!(copies[0].nodes, copies[1].nodes);
}

#[tokio::test]
async fn changes_are_seen() {
    let server = small(true).await;
    let live = live(&server, settings()).await;
    live.ready().await.expect("ready");
    put(&server, &pod("new", None, 2), PODS);
    until(&live, |all| all.pods.get("default", "new").is_some()).await;
    put(&server, &pod("new", Some("gpu-2"), 2), PODS);
    until(&live, |all| all.held("gpu-2").is_some()).await;
    server.delete(PODS, "default", "new");
    until(&live, |all| all.held("gpu-2").is_none()).await;
    server.delete(NODES, "", "gpu-2");
    until(&live, |all| all.nodes.len() == 1).await;
    assert_eq!(live.figures().of(Kind::Pods).lists, 1);
}

#[tokio::test]
async fn a_burst_is_published_a_few_times() {
    let server = small(true).await;
    let settings = Settings {
        settle: Duration::from_millis(200),
        ..settings()
    };
    let live = live(&server, settings).await;
    live.ready().await.expect("ready");
    let before = live.figures().copies();
    for at in 0..300 {
        put(&server, &pod(&format!("b{at}"), None, 1), PODS);
    }
    until(&live, |all| all.pods.len() == 307).await;
    let copies = live.figures().copies() - before;
    assert!(copies <= 10, "{copies} copies for 300 changes");
}

#[tokio::test]
async fn a_watch_that_is_cut_goes_on_where_it_was() {
    let server = small(false).await;
    let live = live(&server, settings()).await;
    live.ready().await.expect("ready");
    server.cut();
    put(&server, &pod("new", None, 2), PODS);
    until(&live, |all| all.pods.get("default", "new").is_some()).await;
    assert_eq!(live.figures().of(Kind::Pods).lists, 1);
}

#[tokio::test]
async fn too_old_a_watch_is_listed_again() {
    for streaming in [true, false] {
        let server = small(streaming).await;
        let live = live(&server, settings()).await;
        live.ready().await.expect("ready");
        // The watch ends, what happens meanwhile is no longer in the server's log.
        server.fault(PODS, Fault::Gone);
        server.delete(PODS, "default", "p0");
        server.forget(PODS);
        server.cut();
        until(&live, |all| all.pods.len() == 6).await;
        assert_eq!(live.figures().of(Kind::Pods).lists, 2);
    }
}

#[tokio::test]
async fn lists_that_fail_are_asked_again_with_pauses() {
    let server = small(false).await;
    server.fault(PODS, Fault::Status(500, "etcdserver: request timed out"));
    server.fault(PODS, Fault::Cut);
    server.fault(NODES, Fault::Slow(Duration::from_millis(300)));
    let live = live(
        &server,
        Settings {
            streaming: Some(false),
            ..settings()
        },
    )
    .await;
    let first = live.ready().await.expect("ready");
    assert_eq!((first.nodes.len(), first.pods.len()), (2, 7));
    assert_eq!(live.figures().of(Kind::Pods).errors, 2);
    assert!(live.troubles().borrow().is_empty());
}

#[tokio::test]
async fn watches_that_end_at_once_do_not_spin() {
    let server = small(true).await;
    let live = live(&server, settings()).await;
    live.ready().await.expect("ready");
    let before = server.asked("/api/v1/pods?");
    // As behind a proxy that ends what takes long: each answer is whole, and empty.
    server.ends(true);
    server.cut();
    let end = tokio::time::Instant::now() + Duration::from_secs(2);
    let mut seen = live.subscribe();
    while tokio::time::timeout_at(end, seen.changed()).await.is_ok() {}
    let asked = server.asked("/api/v1/pods?") - before;
    assert!((2..=12).contains(&asked), "{asked} watches of pods in 2 s");
    server.ends(false);
    put(&server, &pod("new", None, 2), PODS);
    until(&live, |all| all.pods.get("default", "new").is_some()).await;
}

#[tokio::test]
async fn who_may_not_read_pods_is_told_at_once() {
    for streaming in [true, false] {
        let server = small(streaming).await;
        let words = "pods is forbidden: User \"me\" cannot list resource \"pods\" in API group \"\" at the cluster scope";
        server.fault(PODS, Fault::Status(403, words));
        let live = live(
            &server,
            Settings {
                streaming: Some(streaming),
                ..settings()
            },
        )
        .await;
        let trouble = live.ready().await.expect_err("forbidden");
        assert_eq!(
            (trouble.why, trouble.about),
            (Why::Forbidden, Some(Kind::Pods.into()))
        );
        assert!(
            trouble
                .to_string()
                .contains("cannot list resource \"pods\""),
            "{trouble}"
        );
        let hint = trouble.hint.expect("what to do");
        assert!(
            hint.contains("verbs: [\"list\", \"watch\"]") && hint.contains("resources: [\"pods\"]"),
            "{hint}"
        );
    }
}

#[tokio::test]
async fn what_a_cluster_lacks_is_absent_until_it_comes() {
    let server = small(true).await;
    let slices = "/apis/resource.k8s.io/v1/resourceslices";
    server.fault(slices, Fault::Status(404, "404 page not found"));
    server.fault(slices, Fault::Status(403, "resourceslices is forbidden"));
    let live = live(&server, settings()).await;
    let first = live.ready().await.expect("ready");
    assert!(matches!(first.state(Kind::Slices), Some(State::Absent(_))));
    assert!(
        first
            .findings()
            .iter()
            .any(|one| one.what.name() == "not-seen")
    );
    // It is tried again from time to time.
    until(&live, |all| {
        all.state(Kind::Slices) == Some(&State::Complete)
    })
    .await;
}

/// Whoever cannot keep up with the changes can be told to end all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_always_behind_ends_when_told() {
    let server = small(true).await;
    let file = std::env::temp_dir().join(format!("gpuwise-behind-{}", std::process::id()));
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{{name: c, cluster: {{server: '{}'}}}}]\nusers: [{{name: u, user: {{}}}}]\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n",
        server.url
    );
    std::fs::write(&file, text).expect("a file");
    let source = Source::Kubeconfig {
        file: Some(file.clone()),
        context: None,
    };
    let beside = live(&server, settings()).await;
    let mut told = 0;
    let ended = tokio::task::block_in_place(|| {
        drive::<String>(&source, settings(), true, |said| {
            let Said::Inventory(_) = said else {
                return Ok(());
            };
            told += 1;
            if told == 3 {
                let process = std::process::id().to_string();
                let mut kill = std::process::Command::new("kill");
                kill.args(["-INT", &process]).status().expect("kill");
            }
            // The next copy is there before this one is done with.
            let name = format!("more-{told}");
            put(&server, &pod(&name, None, 1), PODS);
            while beside.now().pods.get("default", &name).is_none() {
                std::thread::yield_now();
            }
            (told < 20)
                .then_some(())
                .ok_or_else(|| "it goes on".to_owned())
        })
    });
    std::fs::remove_file(&file).expect("our file");
    assert!(ended.is_ok(), "{ended:?}");
}

#[tokio::test]
async fn strangers_and_servers_that_are_not_there() {
    let server = Server::start(true).await;
    for kind in [NODES, PODS] {
        server.fault(kind, Fault::Status(401, "Unauthorized"));
    }
    let trouble = live(&server, settings())
        .await
        .ready()
        .await
        .expect_err("a stranger");
    assert_eq!(trouble.why, Why::Unauthorized);
    // A port on which nobody listens.
    let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|one| one.local_addr());
    let config = Config::new(
        format!("http://{}", free.expect("a port"))
            .parse()
            .expect("an address"),
    );
    let nobody = Client::try_from(config).expect("a client");
    let trouble = start(nobody, settings()).await.expect_err("nobody");
    assert_eq!(trouble.why, Why::Unreachable);
    assert!(trouble.to_string().contains("refused"), "{trouble}");
}

#[tokio::test]
async fn kubeconfigs_that_cannot_be_used() {
    let folder = std::env::temp_dir().join(format!("gpuwise-kubeconfig-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("config");
    let good = "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\nusers: [{name: u, user: {}}]\ncontexts: [{name: one, context: {cluster: c, user: u}}, {name: lost, context: {cluster: gone, user: u}}]\n";
    for (text, context, problem) in [
        (None, None, "cannot read"),
        (Some("a: ["), None, "is no kubeconfig"),
        (Some(good), None, "says no current context"),
        (Some(good), Some("two"), "has no context \"two\""),
        (Some(good), Some("lost"), "has no cluster \"gone\""),
        (Some(good), Some("one"), ""),
    ] {
        match text {
            Some(text) => std::fs::write(&file, text).expect("a file"),
            None => drop(std::fs::remove_file(&file)),
        }
        let source = Source::Kubeconfig {
            file: Some(file.clone()),
            context: context.map(Into::into),
        };
        match connect(&source).await {
            Ok(_) => assert_eq!(problem, ""),
            Err(error) => {
                assert!(
                    !problem.is_empty() && error.problem.contains(problem),
                    "{error}: {problem}"
                );
                assert!(error.hint.is_some());
            }
        }
    }
    std::fs::remove_dir_all(&folder).expect("our folder");
}
