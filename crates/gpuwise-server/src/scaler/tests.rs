//! A client of KEDA's protocol against the server, with and without TLS.

use super::{
    messages::{
        GetMetricSpecResponse, GetMetricsRequest, GetMetricsResponse, IsActiveResponse,
        ScaledObjectRef,
    },
    *,
};
use std::{
    collections::HashMap,
    sync::{Mutex, mpsc},
    thread,
};
use tokio_stream::StreamExt as _;
use tonic::{
    Code, Request,
    client::Grpc,
    codegen::http::uri::PathAndQuery,
    transport::{Channel, ClientTlsConfig},
};
use tonic_prost::ProstCodec;

type Reading = Arc<Mutex<Result<f64, String>>>;

/// What is written, for everybody to read.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Starts a server that reads what is set; its threads end with the test.
fn started(tls: Option<TlsFiles>) -> (SocketAddr, Reading, Lines) {
    let reading: Reading = Arc::new(Mutex::new(Ok(0.0)));
    let (known, lines) = (Arc::clone(&reading), Lines::default());
    let log = lines.clone();
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let settings = ScalerSettings {
            listen: "127.0.0.1:0".parse().unwrap(),
            external: None,
            tls,
            services: Box::new(|| None),
            period: Nanoseconds(20_000_000),
            source: Arc::new(move |_: &str| known.lock().unwrap().clone()),
            log: Some(Box::new(log)),
        };
        let ended = scaler(settings, |at| tell.send(at.keda).unwrap());
        panic!("{ended:?}");
    });
    (told.recv().unwrap(), reading, lines)
}

fn object(name: &str, more: &[(&str, &str)]) -> ScaledObjectRef {
    let all = [
        ("query", "q"),
        ("rate", "10"),
        ("holdSeconds", "0"),
        ("idleSeconds", "0"),
        ("startSeconds", "0.001"),
        ("controller", "rate"),
    ];
    let all = all
        .iter()
        .chain(more)
        .filter(|(_, value)| !value.is_empty());
    ScaledObjectRef {
        name: name.into(),
        namespace: "default".into(),
        scaler_metadata: all
            .map(|(key, value)| ((*key).into(), (*value).into()))
            .collect(),
    }
}

async fn ask<M, A>(channel: &Channel, method: &'static str, message: M) -> Result<A, tonic::Status>
where
    M: prost::Message + 'static,
    A: prost::Message + Default + 'static,
{
    let mut grpc = Grpc::new(channel.clone());
    grpc.ready()
        .await
        .map_err(|error| tonic::Status::unknown(error.to_string()))?;
    let path = PathAndQuery::from_static(method);
    let codec: ProstCodec<M, A> = ProstCodec::default();
    Ok(grpc
        .unary(Request::new(message), path, codec)
        .await?
        .into_inner())
}

const SPEC: &str = "/externalscaler.ExternalScaler/GetMetricSpec";
const METRICS: &str = "/externalscaler.ExternalScaler/GetMetrics";
const ACTIVE: &str = "/externalscaler.ExternalScaler/IsActive";
const STREAM: &str = "/externalscaler.ExternalScaler/StreamIsActive";

fn values(of: ScaledObjectRef, name: &str) -> GetMetricsRequest {
    GetMetricsRequest {
        scaled_object_ref: Some(of),
        metric_name: name.into(),
    }
}

fn block(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(async {
        tokio::time::timeout(Duration::from_mins(1), test)
            .await
            .unwrap();
    });
}

async fn connected(at: SocketAddr) -> Channel {
    let address = format!("http://{at}");
    Channel::from_shared(address)
        .unwrap()
        .connect()
        .await
        .unwrap()
}

#[test]
fn keda_is_told_what_is_wanted() {
    let (at, reading, lines) = started(None);
    block(async {
        let channel = connected(at).await;
        *reading.lock().unwrap() = Err("connection refused".into());
        // Nothing is known yet: KEDA keeps what there is.
        let none = ask::<_, IsActiveResponse>(&channel, ACTIVE, object("llm", &[])).await;
        assert_eq!(none.unwrap_err().code(), Code::Unavailable);
        *reading.lock().unwrap() = Ok(0.0);
        // What was started before it was first looked at has its time.
        let idle: IsActiveResponse = loop {
            match ask(&channel, ACTIVE, object("llm", &[])).await {
                Ok(idle) => break idle,
                Err(status) => assert_eq!(status.code(), Code::Unavailable),
            }
        };
        assert!(!idle.result);
        let spec: GetMetricSpecResponse = ask(&channel, SPEC, object("llm", &[])).await.unwrap();
        let spec = &spec.metric_specs[0];
        assert_eq!(
            (spec.metric_name.as_str(), spec.target_size),
            ("gpuwise-replicas", 1)
        );
        // Changes come by themselves, each once.
        let mut grpc = Grpc::new(channel.clone());
        grpc.ready().await.unwrap();
        let codec: ProstCodec<ScaledObjectRef, IsActiveResponse> = ProstCodec::default();
        let path = PathAndQuery::from_static(STREAM);
        let asked = Request::new(object("llm", &[]));
        let mut told = grpc
            .server_streaming(asked, path, codec)
            .await
            .unwrap()
            .into_inner();
        assert!(!told.next().await.unwrap().unwrap().result);
        *reading.lock().unwrap() = Ok(111.0);
        assert!(told.next().await.unwrap().unwrap().result);
        let metrics = values(object("llm", &[]), "s0-gpuwise-replicas");
        let found: GetMetricsResponse = ask(&channel, METRICS, metrics.clone()).await.unwrap();
        let found = &found.metric_values[0];
        assert_eq!((found.metric_value, found.metric_value_float), (12, 12.0));
        // A source that dies changes nothing.
        *reading.lock().unwrap() = Err("connection refused".into());
        let from = lines.0.lock().unwrap().len();
        while !String::from_utf8_lossy(&lines.0.lock().unwrap()[from..]).contains("held at 12") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let held: GetMetricsResponse = ask(&channel, METRICS, metrics).await.unwrap();
        assert_eq!(held.metric_values[0].metric_value, 12);
        *reading.lock().unwrap() = Ok(0.0);
        assert!(!told.next().await.unwrap().unwrap().result);
    });
    let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    let (count, differences) = replayed(&text).unwrap();
    assert!(
        count >= 4 && differences.is_empty(),
        "{count} {differences:?}"
    );
    let other = text.replace("\"replicas\":12", "\"replicas\":13");
    assert!(!replayed(&other).unwrap().1.is_empty());
}

#[test]
fn who_is_unknown_or_wrong_is_told_so() {
    let (at, ..) = started(None);
    block(async {
        let channel = connected(at).await;
        let unknown = ScaledObjectRef {
            scaler_metadata: HashMap::new(),
            ..object("other", &[])
        };
        let refused = ask::<_, GetMetricSpecResponse>(&channel, SPEC, unknown)
            .await
            .unwrap_err();
        assert_eq!(refused.code(), Code::NotFound);
        assert!(
            refused
                .message()
                .starts_with("default/other: nothing is known"),
            "{refused}"
        );
        let wrong = object("wrong", &[("rate", "many")]);
        let refused = ask::<_, GetMetricSpecResponse>(&channel, SPEC, wrong)
            .await
            .unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);
        let other = values(object("llm", &[]), "s0-other");
        let refused = ask::<_, GetMetricsResponse>(&channel, METRICS, other)
            .await
            .unwrap_err();
        assert_eq!(refused.code(), Code::NotFound);
        let method = "/externalscaler.ExternalScaler/StreamMetricSpec";
        let refused = ask::<_, IsActiveResponse>(&channel, method, object("llm", &[])).await;
        assert_eq!(refused.unwrap_err().code(), Code::Unimplemented);
    });
}

/// What the API server is answered, over plain HTTP.
fn answered(objects: &Arc<Objects>, path: &str) -> (u16, serde_json::Value) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let at = listener.local_addr().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let app = external::router(Arc::clone(objects));
    runtime.spawn(async move {
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        axum::serve(listener, app).await
    });
    let config = ureq::Agent::config_builder().http_status_as_error(false);
    let agent: ureq::Agent = config.build().into();
    let mut found = agent.get(format!("http://{at}{path}")).call().unwrap();
    let text = found.body_mut().read_to_string().unwrap();
    let code = found.status().as_u16();
    runtime.shutdown_background();
    (code, serde_json::from_str(&text).unwrap())
}

#[test]
fn kubernetes_is_told_by_external_metrics() {
    let source: Arc<Source> = Arc::new(|query: &str| match query {
        "q" => Ok(111.0),
        "dead" => Err("connection refused".into()),
        other => Err(format!("no such query: {other}")),
    });
    let objects = Arc::new(Objects::new(source, Nanoseconds(1_000_000_000), None));
    let defined = |name: &str, query: &str, more: &[(&str, &str)]| {
        let fields = [("query", query), ("rate", "10"), ("controller", "rate")];
        let fields = fields.iter().chain(more);
        let fields = fields.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        Defined::new("default", name, &fields.collect())
    };
    let wrong = defined("llm", "q", &[("maxReplica", "3")]).unwrap_err();
    assert!(
        wrong.starts_with("default/llm: there is no field `maxReplica`"),
        "{wrong}"
    );
    let all = vec![
        defined("llm", "q", &[]).unwrap(),
        defined("silent", "dead", &[]).unwrap(),
        defined("blind", "q", &[("readyQuery", "other")]).unwrap(),
    ];
    objects.define(all).unwrap();
    let base = "/apis/external.metrics.k8s.io/v1beta1";
    let (code, list) = answered(&objects, base);
    assert_eq!(
        (code, &list["resources"][0]["namespaced"]),
        (200, &true.into())
    );
    let of = |path: &str| answered(&objects, &format!("{base}/namespaces/{path}"));
    let (code, list) = of("default/gpuwise-replicas?labelSelector=service%3Dllm");
    assert_eq!((code, &list["items"][0]["value"]), (200, &"12".into()));
    for (path, expected) in [
        (
            "default/gpuwise-replicas?labelSelector=service%3Dsilent",
            503,
        ),
        (
            "default/gpuwise-replicas?labelSelector=service%3Dblind",
            503,
        ),
        ("other/gpuwise-replicas?labelSelector=service%3Dllm", 404),
        ("default/gpuwise-replicas", 400),
        ("default/requests?labelSelector=service%3Dllm", 404),
    ] {
        let (code, status) = of(path);
        assert_eq!(
            (code, &status["kind"]),
            (expected, &"Status".into()),
            "{status}"
        );
    }
    // What a file says KEDA cannot say otherwise.
    let asked = object("llm", &[("rate", "1")]);
    assert_eq!(objects.replicas(&asked), Ok(12));
    objects
        .define(vec![defined("silent", "q", &[]).unwrap()])
        .unwrap();
    assert_eq!(objects.replicas_of("default", "silent"), Ok(12));
    assert_eq!(objects.replicas(&asked), Ok(111));
}

#[test]
fn keda_may_ask_by_tls() {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let files = TlsFiles {
        certificate: folder.path().join("cert.pem"),
        key: folder.path().join("key.pem"),
        clients: None,
    };
    fs::write(&files.certificate, made.cert.pem()).unwrap();
    fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
    let (at, reading, _) = started(Some(files));
    *reading.lock().unwrap() = Ok(1.0);
    block(async {
        let authority = Certificate::from_pem(made.cert.pem());
        let tls = ClientTlsConfig::new()
            .ca_certificate(authority)
            .domain_name("localhost");
        let channel = Channel::from_shared(format!("https://{at}")).unwrap();
        let channel = channel.tls_config(tls).unwrap().connect().await.unwrap();
        let active: IsActiveResponse = ask(&channel, ACTIVE, object("llm", &[])).await.unwrap();
        assert!(active.result);
        let plain = Channel::from_shared(format!("http://{at}"))
            .unwrap()
            .connect()
            .await;
        let plain = match plain {
            Ok(channel) => ask::<_, IsActiveResponse>(&channel, ACTIVE, object("llm", &[])).await,
            Err(error) => Err(tonic::Status::unknown(error.to_string())),
        };
        assert!(plain.is_err());
    });
}

#[test]
fn who_shows_no_certificate_is_not_answered() {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let file = |name: &str, text: String| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let certificate = file("cert.pem", made.cert.pem());
    let key = file("key.pem", made.signing_key.serialize_pem());
    let clients = Some(certificate.clone());
    let (at, reading, _) = started(Some(TlsFiles {
        certificate,
        key,
        clients,
    }));
    *reading.lock().unwrap() = Ok(1.0);
    block(async {
        let tls = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(made.cert.pem()))
            .domain_name("localhost");
        let shown = Identity::from_pem(made.cert.pem(), made.signing_key.serialize_pem());
        let mut answers = Vec::new();
        for tls in [tls.clone(), tls.identity(shown)] {
            let channel = Channel::from_shared(format!("https://{at}")).unwrap();
            let answer = match channel.tls_config(tls).unwrap().connect().await {
                Ok(channel) => ask(&channel, ACTIVE, object("llm", &[])).await,
                Err(error) => Err(tonic::Status::unknown(error.to_string())),
            };
            answers.push(answer.map(|active: IsActiveResponse| active.result).ok());
        }
        assert_eq!(answers, [None, Some(true)]);
    });
}
