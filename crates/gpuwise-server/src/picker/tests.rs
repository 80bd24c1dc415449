//! What is answered to a gateway, message by message; and who is picked of a pool.

use super::{
    admission::Admission,
    exchange::{DESTINATION, Exchange, PickAsk, Step},
    messages::{
        Answered, Asked, BodyMode, HeaderMap, HeaderValue, HttpBody, HttpHeaders, HttpTrailers,
        Metadata, ProcessingRequest, ProcessingResponse, ProtocolConfiguration,
    },
    pool::Pool,
    under_way::UnderWay,
    *,
};
use gpuwise_sim::cluster::routers::{Measure, Routing, Scorer, Weighted};
use prost::{Message as _, bytes::Bytes};
use prost_types::{ListValue, Struct, Value, value::Kind};

fn message(asked: Asked) -> ProcessingRequest {
    ProcessingRequest {
        request: Some(asked),
        ..ProcessingRequest::default()
    }
}

fn headers(end_of_stream: bool) -> Asked {
    let header = HeaderValue {
        key: "X-Session-Id".into(),
        raw_value: b"s1".to_vec(),
        ..HeaderValue::default()
    };
    Asked::RequestHeaders(HttpHeaders {
        headers: Some(HeaderMap {
            headers: vec![header],
        }),
        end_of_stream,
    })
}

fn body(text: &'static str, end_of_stream: bool) -> Asked {
    Asked::RequestBody(HttpBody {
        body: Bytes::from_static(text.as_bytes()),
        end_of_stream,
    })
}

fn first(mode: BodyMode, asked: Asked) -> ProcessingRequest {
    let config = ProtocolConfiguration {
        request_body_mode: mode as i32,
        response_body_mode: mode as i32,
    };
    ProcessingRequest {
        protocol_config: Some(config),
        ..message(asked)
    }
}

/// What answers are, a word each; pieces of a body with their text, `!` after the last.
fn words(answers: &[ProcessingResponse]) -> Vec<String> {
    let word = |answer: &ProcessingResponse| match answer.response.as_ref() {
        Some(Answered::RequestHeaders(one)) => match &one.response {
            Some(response) => {
                let set = &response.header_mutation.as_ref().unwrap().set_headers[0];
                let header = set.header.as_ref().unwrap();
                format!("to {}", String::from_utf8_lossy(&header.raw_value))
            }
            None => "headers".into(),
        },
        Some(Answered::RequestBody(one)) => match &one.response {
            Some(response) => match &response.body_mutation {
                Some(mutation) => {
                    let piece = mutation.streamed_response.as_ref().unwrap();
                    let end = if piece.end_of_stream { "!" } else { "" };
                    format!("{}{end}", String::from_utf8_lossy(&piece.body))
                }
                None => "body goes".into(),
            },
            None => "body".into(),
        },
        Some(Answered::RequestTrailers(_)) => "trailers".into(),
        Some(Answered::ResponseHeaders(_)) => "response".into(),
        Some(Answered::Immediate(one)) => one.status.unwrap().code.to_string(),
        other => format!("{other:?}"),
    };
    answers.iter().map(word).collect()
}

/// Takes messages one after the other; where one asks for an endpoint, `a:1` is it.
fn run(all: Vec<ProcessingRequest>) -> (Vec<Vec<String>>, Option<PickAsk>) {
    let mut exchange = Exchange::default();
    let mut picked = None;
    let answers = all.into_iter().map(|one| match exchange.take(one) {
        Step::Answer(answers) | Step::Served(_, answers) => words(&answers),
        Step::Pick(ask) => {
            assert!(picked.is_none(), "an endpoint is picked once");
            picked = Some(ask);
            words(&exchange.picked(&["a:1".into()], &[]))
        }
    });
    let answers = answers.collect();
    (answers, picked)
}

#[test]
fn a_body_that_comes_in_pieces_goes_on_as_it_came_once_an_endpoint_is_picked() {
    let all = vec![
        first(BodyMode::FullDuplexStreamed, headers(false)),
        message(body("{\"model\":", false)),
        message(body("\"m\"}", true)),
    ];
    let (answers, picked) = run(all);
    assert_eq!(
        answers,
        [vec![], vec![], vec!["to a:1", "{\"model\":", "\"m\"}!"]]
    );
    let picked = picked.unwrap();
    assert_eq!(picked.body.as_deref(), Some(&b"{\"model\":\"m\"}"[..]));
    assert_eq!(picked.headers["x-session-id"], "s1");
}

#[test]
fn each_mode_of_bodies_has_its_answers() {
    let trailers = || message(Asked::RequestTrailers(HttpTrailers::default()));
    // A body that trailers end has no last piece.
    let all = vec![
        message(headers(false)),
        message(body("x", false)),
        trailers(),
    ];
    assert_eq!(run(all).0[2], ["to a:1", "x", "trailers"]);
    let all = vec![
        first(BodyMode::Buffered, headers(false)),
        message(body("x", true)),
    ];
    let (answers, picked) = run(all);
    assert_eq!(answers, [["headers"], ["body goes"]]);
    assert_eq!(picked.unwrap().body.as_deref(), Some(&b"x"[..]));
    for mode in [BodyMode::None, BodyMode::Streamed] {
        let all = vec![first(mode, headers(false)), message(body("x", true))];
        let (answers, picked) = run(all);
        assert_eq!(answers, [["to a:1"], ["body"]], "{mode:?}");
        assert_eq!(picked.unwrap().body, None, "{mode:?}");
    }
    // There is no body at all.
    assert_eq!(run(vec![message(headers(true))]).0, [["to a:1"]]);
    // Nobody listens.
    let mut watched = message(headers(true));
    watched.observability_mode = true;
    assert_eq!(run(vec![watched]), (vec![vec![]], None));
}

#[test]
fn header_and_metadata_say_the_same() {
    let mut exchange = Exchange::default();
    let _ = exchange.take(message(headers(true)));
    let answers = exchange.picked(&["a:1".into(), "b:2".into()], &["authorization"]);
    assert_eq!(words(&answers), ["to a:1,b:2"]);
    let Some(Answered::RequestHeaders(first)) = &answers[0].response else {
        panic!("{answers:?}");
    };
    let mutation = first.response.as_ref().unwrap().header_mutation.as_ref();
    assert_eq!(mutation.unwrap().remove_headers, ["authorization"]);
    let metadata = answers[0].dynamic_metadata.as_ref().unwrap();
    let Some(Kind::StructValue(inner)) = &metadata.fields["envoy.lb"].kind else {
        panic!("{metadata:?}");
    };
    let kind = inner.fields[DESTINATION].kind.as_ref().unwrap();
    assert_eq!(*kind, Kind::StringValue("a:1,b:2".into()));
}

fn limited_to(list: Kind) -> ProcessingRequest {
    let fields = Struct {
        fields: [(
            "x-gateway-destination-endpoint-subset".to_owned(),
            Value { kind: Some(list) },
        )]
        .into(),
    };
    ProcessingRequest {
        metadata_context: Some(Metadata {
            filter_metadata: [("envoy.lb.subset_hint".to_owned(), fields)].into(),
        }),
        ..message(headers(true))
    }
}

#[test]
fn a_subset_is_a_list_or_a_text_and_an_empty_one_is_nobody() {
    let text = |text: &str| Value {
        kind: Some(Kind::StringValue(text.into())),
    };
    let list = |values| Kind::ListValue(ListValue { values });
    for (given, expected) in [
        (list(vec![text("a:1"), text("b:2")]), vec!["a:1", "b:2"]),
        (Kind::StringValue("a:1, b:2".into()), vec!["a:1", "b:2"]),
        (list(Vec::new()), vec![]),
        (Kind::NumberValue(7.0), vec![]),
    ] {
        let (_, picked) = run(vec![limited_to(given)]);
        assert_eq!(picked.unwrap().subset.unwrap(), expected);
    }
    assert_eq!(run(vec![message(headers(true))]).1.unwrap().subset, None);
}

#[test]
fn a_body_beyond_the_limit_is_refused_and_nothing_more_is_said_of_it() {
    let mut exchange = Exchange::default();
    let _ = exchange.take(message(headers(false)));
    let large = Asked::RequestBody(HttpBody {
        body: vec![0; exchange::LARGEST + 1].into(),
        end_of_stream: false,
    });
    let Step::Answer(answers) = exchange.take(message(large)) else {
        panic!("it is refused");
    };
    assert_eq!(words(&answers), ["413"]);
    let Step::Answer(answers) = exchange.take(message(body("x", true))) else {
        panic!("nothing is picked");
    };
    assert_eq!(words(&answers), ["body"]);
}

#[test]
fn messages_are_read_and_written_by_their_numbers() {
    // request_body (4) {body (1): "hi", end_of_stream (2): true}, protocol_config (11) {1: 4, 2: 4}.
    let bytes = [
        0x22, 6, 0x0a, 2, b'h', b'i', 0x10, 1, 0x5a, 4, 0x08, 4, 0x10, 4,
    ];
    let read = ProcessingRequest::decode(&bytes[..]).unwrap();
    assert_eq!(read, first(BodyMode::FullDuplexStreamed, body("hi", true)));
    // immediate_response (7) {status (1) {code (1): 503}}.
    let answered = Exchange::default().refuse(&Refused {
        status: 503,
        code: "c".into(),
        detail: String::new(),
        dropped: None,
    });
    let written = answered[0].encode_to_vec();
    assert_eq!(
        (written[0], &written[2..7]),
        (0x3a, &[0x0a, 3, 0x08, 0xf7, 3][..])
    );
}

fn pool(routing: Routing, most: Option<u32>, endpoints: &[&str]) -> Arc<Pool> {
    let pool = Pool::new(
        PoolSettings {
            routing,
            seed: 1,
            session: "x-session-id".into(),
            most,
            fallbacks: 1,
        },
        None,
    );
    set(&pool, endpoints);
    Arc::new(pool)
}

fn set(pool: &Pool, endpoints: &[&str]) {
    let all: Vec<String> = endpoints.iter().map(|one| (*one).to_owned()).collect();
    pool.set(&all);
}

fn picked(pool: &Arc<Pool>, prompt: &str) -> Result<(Vec<String>, UnderWay), Refused> {
    let body = serde_json::json!({"model": "m", "messages": [{"role": "user", "content": prompt}]});
    pool.pick(&PickAsk {
        body: Some(body.to_string().into_bytes().into()),
        ..PickAsk::default()
    })
}

fn by_prefix() -> Routing {
    let all = [(Scorer::GuessedPrefix, 3.0), (Scorer::Queue, 2.0)];
    let weighted = all.map(|(scorer, weight)| Weighted { scorer, weight });
    Routing::Scored(weighted.into())
}

#[test]
fn a_conversation_stays_where_its_beginning_was_sent() {
    let pool = pool(by_prefix(), None, &["a:1", "b:1", "c:1", "d:1"]);
    let long = "why? ".repeat(400);
    let first = picked(&pool, &long).unwrap().0[0].clone();
    for more in ["", "and then?", "no."] {
        let next = picked(&pool, &format!("{long}{more}")).unwrap();
        assert_eq!(next.0[0], first);
        assert_eq!(next.0.len(), 2, "one more is named");
    }
    // It went away, and another has the conversation from now on.
    pool.tell(&first, None);
    let second = picked(&pool, &long).unwrap().0[0].clone();
    assert_ne!(second, first);
    pool.tell(&first, Some(EngineLoad::default()));
    assert_eq!(picked(&pool, &long).unwrap().0[0], second);
}

#[test]
fn requests_under_way_count_until_they_are_over_wherever_they_went() {
    let pool = pool(Routing::Least(Measure::Requests), Some(2), &["a:1", "b:1"]);
    let mut held: Vec<_> = (0..4).map(|_| picked(&pool, "x").unwrap()).collect();
    let requests = || -> Vec<u32> { pool.shown().iter().map(|one| one.requests).collect() };
    assert_eq!(requests(), [2, 2]);
    let full = picked(&pool, "x").unwrap_err();
    assert_eq!((full.status, &*full.code), (429, "busy"));
    // The gateway tried another than the first.
    let other = if held[0].0[0] == "a:1" { "b:1" } else { "a:1" };
    held[0].1.served(other);
    let mut now = requests();
    now.sort_unstable();
    assert_eq!(now, [1, 3]);
    // Who left and came back has none of the old ones.
    set(&pool, &["b:1"]);
    set(&pool, &["a:1", "b:1"]);
    drop(held);
    assert_eq!(requests(), [0, 0]);
}

#[test]
fn where_nobody_can_be_picked_it_is_said_why() {
    let pool = pool(Routing::RoundRobin, None, &["a:1"]);
    let refused = |pool: &Arc<Pool>, subset: Option<Vec<String>>| {
        let ask = PickAsk {
            subset,
            ..PickAsk::default()
        };
        pool.pick(&ask).unwrap_err()
    };
    for subset in [vec![], vec!["z:9".to_owned()]] {
        let why = refused(&pool, Some(subset));
        assert_eq!(why.status, 503);
        assert!(
            why.detail.contains("that the gateway allows"),
            "{}",
            why.detail
        );
    }
    pool.tell("a:1", None);
    assert_eq!(refused(&pool, None).detail, "none of 1 endpoints answers");
    set(&pool, &[]);
    assert_eq!(
        refused(&pool, None).detail,
        "there is no endpoint in the pool"
    );
}

fn full(pool: &Pool, addresses: &[&str]) {
    let load = EngineLoad {
        running: 8,
        waiting: 5,
        kv_used: Some(0.5),
    };
    for address in addresses {
        pool.tell(address, Some(load));
    }
}

fn asks(objective: &str) -> PickAsk {
    let header = (
        "x-gateway-inference-objective".to_owned(),
        objective.to_owned(),
    );
    PickAsk {
        headers: [header].into(),
        ..PickAsk::default()
    }
}

fn admission(
    pool: &Arc<Pool>,
    most: usize,
) -> (Arc<Admission>, Arc<std::sync::Mutex<Vec<String>>>) {
    let objectives = Objectives::default();
    objectives.set([("batch".to_owned(), -1), ("chat".to_owned(), 9)].into());
    let queue = QueueSettings {
        most,
        patience: Duration::from_mins(1),
    };
    let said: Arc<std::sync::Mutex<Vec<String>>> = Arc::default();
    let hears = Arc::clone(&said);
    let say = Arc::new(move |text: &str| hears.lock().unwrap().push(text.to_owned()));
    let admission = Admission::new(Arc::clone(pool), objectives, queue, say);
    (Arc::new(admission), said)
}

#[tokio::test]
async fn a_full_pool_refuses_what_is_below_nought_and_says_an_unknown_objective_once() {
    let pool = pool(Routing::RoundRobin, None, &["a:1", "b:1"]);
    let (admission, said) = admission(&pool, 0);
    assert!(admission.pick(asks("batch")).await.is_ok(), "there is room");
    full(&pool, &["a:1"]);
    assert!(admission.pick(asks("batch")).await.is_ok(), "b has room");
    full(&pool, &["b:1"]);
    let refused = admission.pick(asks("batch")).await.err().unwrap();
    assert_eq!(
        (refused.status, refused.dropped),
        (429, Some("rejected-saturated"))
    );
    for objective in ["chat", "nobody", "nobody"] {
        assert!(admission.pick(asks(objective)).await.is_ok(), "{objective}");
    }
    assert_eq!(said.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn who_waits_goes_by_priority_once_there_is_room_and_who_matters_least_makes_room() {
    let pool = pool(Routing::RoundRobin, None, &["a:1"]);
    let (admission, _) = admission(&pool, 2);
    full(&pool, &["a:1"]);
    let order: Arc<std::sync::Mutex<Vec<String>>> = Arc::default();
    let mut tasks = Vec::new();
    for objective in ["batch", "none", "chat"] {
        let (admission, order) = (Arc::clone(&admission), Arc::clone(&order));
        tasks.push(tokio::spawn(async move {
            let picked = admission.pick(asks(objective)).await;
            let word = picked.map_or_else(|why| why.status.to_string(), |_| "ok".into());
            order.lock().unwrap().push(format!("{objective} {word}"));
        }));
        // On one thread it runs until it waits.
        tokio::task::yield_now().await;
    }
    assert_eq!(admission.waiting(), [(0, 1), (9, 1)]);
    pool.tell("a:1", Some(EngineLoad::default()));
    admission.drain();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), ["batch 429", "chat ok", "none ok"]);
}
