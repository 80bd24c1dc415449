//! Conversations, users in turn, clients.

use super::{near, rate, time};
use gpuwise_domain::{
    client::{Client, ClientLengths, ClientWindow, GapLaw, LengthFigures},
    request::Request,
};
use gpuwise_sim::traffic::{
    Arrivals, ConversationStream, Conversations, Excerpt, Extent, LengthLaw, Lengths, Rate,
    SharedPrefix, Stage, Summary, Superposed, SystemPrompts, Users,
};
use gpuwise_units::Nanoseconds;
use std::collections::BTreeMap;

fn laws() -> Conversations {
    Conversations {
        starts: Arrivals::poisson(rate(1.0)),
        rounds: LengthLaw::Samples([1, 2, 5].into()),
        think: time(20.0),
        thinking: GapLaw::Exponential,
        system: SystemPrompts {
            count: 3,
            tokens: 100,
            skew: 1.0,
        },
        question: LengthLaw::Samples([10, 50, 90].into()),
        answer: LengthLaw::Fixed(30),
        longest: 100_000,
    }
}

#[test]
fn prompts_repeat_what_was_said() {
    let all: Vec<Request> = ConversationStream::new(laws(), Extent::requests(3_000), 5)
        .expect("sound laws")
        .collect();
    assert_eq!(all.len(), 3_000);
    assert!(all.is_sorted_by_key(|request| request.due));
    let mut before: BTreeMap<u32, &Request> = BTreeMap::new();
    let mut rounds: BTreeMap<u32, u32> = BTreeMap::new();
    for request in &all {
        let session = request.session.expect("every request is of a conversation");
        assert_eq!(request.covered(), u64::from(request.input));
        let said = request.prefix.as_deref().expect("it has a prompt");
        if let Some(earlier) = before.get(&session) {
            assert!(!earlier.closes, "more came after it");
            let heard = earlier.prefix.as_deref().expect("it had a prompt");
            assert_eq!(&said[..heard.len()], heard);
            assert_eq!(
                (Some(said[heard.len()].content), said[heard.len()].tokens),
                (earlier.answer, earlier.output)
            );
            assert_eq!(said.len(), heard.len() + 2);
            assert_eq!(request.due, earlier.due + request.think);
        } else {
            assert_eq!((said.len(), request.think), (2, Nanoseconds(0)));
        }
        before.insert(session, request);
        *rounds.entry(session).or_default() += 1;
    }
    let mean = all.len() as f64 / rounds.len() as f64;
    assert!((2.2..3.0).contains(&mean), "{mean} rounds in the mean");
    let summary = Summary::of(all.into_iter());
    assert_eq!(summary.sessions, rounds.len() as u64);
    assert!(summary.shared_tokens.is_some_and(|share| share > 0.6));
}

#[test]
fn conversations_end_before_they_are_too_long() {
    let short = Conversations {
        rounds: LengthLaw::Fixed(1_000),
        longest: 700,
        ..laws()
    };
    let all: Vec<Request> = ConversationStream::new(short, Extent::requests(500), 5)
        .expect("sound laws")
        .collect();
    assert!(
        all.iter()
            .all(|request| request.input + request.output <= 700)
    );
    assert!(
        all.iter()
            .any(|request| request.input + request.output > 600)
    );
    let never = Conversations {
        longest: 50,
        ..laws()
    };
    let none = ConversationStream::new(never, Extent::lasting(time(100.0)), 5).expect("sound laws");
    assert_eq!(none.count(), 0);
    assert!(ConversationStream::new(laws(), Extent::default(), 1).is_err());
}

const CODE: SharedPrefix = SharedPrefix {
    system_prompts: 11,
    users_per_prompt: 4,
    system_tokens: 100,
    question_tokens: 466,
    answer_tokens: 247,
    multi_turn: true,
    repeat_question: false,
    grow: None,
};

fn users(spec: SharedPrefix) -> Vec<Request> {
    let stage = |per_second: f64| Stage {
        rate: rate(per_second),
        duration: time(600.0),
    };
    let arrivals = Arrivals {
        gaps: GapLaw::Exponential,
        rate: Rate::Stages(vec![stage(5.0), stage(10.0)]),
        exact: true,
    };
    Users::new(spec, arrivals, Extent::default(), 1)
        .expect("a sound load")
        .collect()
}

#[test]
fn users_ask_in_turn() {
    let all = users(CODE);
    let of = |stage: u16| all.iter().filter(|request| request.stage == stage).count();
    assert_eq!((all.len(), of(0), of(1)), (9_000, 3_000, 6_000));
    let order: Vec<u32> = all.iter().filter_map(|request| request.session).collect();
    let mut once: Vec<u32> = order[..44].to_vec();
    assert!(order.chunks(44).all(|round| once.starts_with(round)));
    assert!(!once.is_sorted(), "users are in an order drawn at random");
    once.sort_unstable();
    assert_eq!(once, (0..44).collect::<Vec<u32>>());
    let mut groups: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
    for request in &all[..44] {
        let [system] = request.prefix.as_deref().expect("a system prompt") else {
            panic!("only the system prompt is shared")
        };
        assert_eq!(
            (system.tokens, request.input, request.output),
            (100, 566, 247)
        );
        groups
            .entry(system.content)
            .or_default()
            .extend(request.session);
    }
    assert_eq!(groups.len(), 11);
    assert!(
        groups
            .values()
            .all(|group| { group.len() == 4 && group.iter().all(|user| user / 4 == group[0] / 4) })
    );
    let alone = users(SharedPrefix {
        multi_turn: false,
        ..CODE
    });
    assert!(alone.iter().all(|request| request.session.is_none()));
    assert!(
        alone
            .iter()
            .zip(&all)
            .all(|(a, b)| a.due == b.due && a.prefix == b.prefix)
    );
}

#[test]
fn questions_may_repeat_and_conversations_grow() {
    let same = Summary::of(
        users(SharedPrefix {
            repeat_question: true,
            ..CODE
        })
        .into_iter(),
    );
    near(
        same.shared_tokens.expect("shared"),
        1.0 - 44.0 / 9_000.0,
        0.001,
    );
    let grown = users(SharedPrefix {
        grow: Some(4_096),
        ..CODE
    });
    let longest = grown
        .iter()
        .map(|request| request.input + request.output)
        .max();
    assert_eq!(longest, Some(100 + 5 * (466 + 247)));
    let mut last: BTreeMap<u32, &Request> = BTreeMap::new();
    for request in &grown {
        let said = request.prefix.as_deref().expect("all is named");
        assert_eq!(request.covered(), u64::from(request.input));
        if let Some(earlier) = last.insert(request.session.expect("a user"), request) {
            let heard = earlier.prefix.as_deref().expect("all is named");
            if said.len() > 2 {
                assert_eq!(&said[..heard.len()], heard);
                assert_eq!(Some(said[heard.len()].content), earlier.answer);
            } else {
                assert_eq!(heard.len(), 10, "five rounds fit");
                assert_ne!(said[1], heard[1], "a new conversation has new questions");
            }
        }
    }
    let nobody = Users::new(
        SharedPrefix {
            users_per_prompt: 0,
            ..CODE
        },
        Arrivals::poisson(rate(1.0)),
        Extent::requests(1),
        1,
    );
    assert!(nobody.is_err());
}

fn client(number: u32, windows: &[(f64, f64, f64)], gaps: GapLaw, tokens: Option<f64>) -> Client {
    let figures = |mean: f64| LengthFigures {
        mean,
        p50: mean,
        p95: mean,
        max: mean,
    };
    Client {
        number,
        windows: windows
            .iter()
            .map(|(start, duration, per_second)| ClientWindow {
                start: time(*start),
                duration: time(*duration),
                rate: rate(*per_second),
                gaps,
            })
            .collect(),
        lengths: tokens
            .map(|tokens| ClientLengths {
                start: Nanoseconds(0),
                input: figures(tokens),
                output: figures(tokens / 10.0),
            })
            .into_iter()
            .collect(),
    }
}

fn superposed(clients: &[Client], start: f64, duration: f64, scale: f64) -> Vec<Request> {
    let excerpt = Excerpt {
        start: time(start),
        duration: time(duration),
        scale,
    };
    let all: Vec<Request> = Superposed::new(clients, excerpt, None, 8)
        .expect("sound clients")
        .collect();
    assert!(all.is_sorted_by_key(|request| request.due));
    all
}

#[test]
fn clients_add_up() {
    let clients = [
        client(
            7,
            &[(0.0, 600.0, 2.0), (600.0, 600.0, 0.0), (1200.0, 600.0, 6.0)],
            GapLaw::Exponential,
            Some(100.0),
        ),
        client(
            9,
            &[(0.0, 1800.0, 4.0)],
            GapLaw::Gamma { shape: 0.3 },
            Some(900.0),
        ),
        client(
            12,
            &[(0.0, 1800.0, 1.0)],
            GapLaw::Weibull { shape: 0.6 },
            None,
        ),
    ];
    let all = superposed(&clients, 0.0, 1800.0, 1.0);
    let of = |tenant: u16| all.iter().filter(move |request| request.tenant == tenant);
    for (tenant, expect) in [(1, 4_800.0), (2, 7_200.0), (3, 1_800.0)] {
        near(of(tenant).count() as f64, expect, 0.15);
    }
    assert!(of(1).all(|request| {
        let second = request.due.0 / 1_000_000_000;
        (request.input, request.output) == (100, 10) && !(600..1200).contains(&second)
    }));
    // A client's lengths are another's where its own are unknown.
    assert!(of(3).all(|request| [100, 900].contains(&request.input)));
    let part = superposed(&clients, 1200.0, 100.0, 3.0);
    near(part.len() as f64, 11.0 * 3.0 * 100.0, 0.12);
    assert!(part.iter().all(|request| request.due < time(100.0)));
    // What one client sends does not depend on the others.
    let alone = superposed(&clients[1..2], 0.0, 1800.0, 1.0);
    assert!(
        of(2)
            .map(|request| request.due)
            .eq(alone.iter().map(|request| request.due))
    );
}

#[test]
fn bursty_clients_send_no_more_than_their_rate() {
    let excerpt = Excerpt {
        start: time(0.0),
        duration: time(60.0),
        scale: 1.0,
    };
    let windows = [(0.0, 20.0, 2.0), (20.0, 20.0, 1.0), (40.0, 20.0, 3.0)];
    for gaps in [
        GapLaw::Constant,
        GapLaw::Gamma { shape: 0.1 },
        GapLaw::Weibull { shape: 0.5 },
        GapLaw::LogNormal { sigma: 1.2 },
    ] {
        let clients: Vec<Client> = (0..500)
            .map(|number| client(number, &windows, gaps, Some(10.0)))
            .collect();
        let all = Superposed::new(&clients, excerpt, None, 2).expect("sound clients");
        near(all.count() as f64, 500.0 * 120.0, 0.03);
    }
}

#[test]
fn clients_that_send_nothing_are_named() {
    let silent = [client(
        1,
        &[(0.0, 600.0, 0.0)],
        GapLaw::Exponential,
        Some(10.0),
    )];
    let unknown = [client(1, &[(0.0, 600.0, 1.0)], GapLaw::Exponential, None)];
    let wrong = [client(
        1,
        &[(0.0, 600.0, f64::NAN)],
        GapLaw::Exponential,
        Some(1.0),
    )];
    let excerpt = Excerpt {
        start: time(0.0),
        duration: time(600.0),
        scale: 1.0,
    };
    for (clients, expect) in [
        (&silent, "every rate is 0"),
        (&unknown, "there are no lengths of clients"),
        (&wrong, "a client's rate is NaN"),
    ] {
        let error = Superposed::new(clients, excerpt, None, 1).expect_err("it cannot be");
        assert!(error.to_string().contains(expect), "{error}");
    }
    let otherwise = Lengths::fixed(5, 6);
    let known = Superposed::new(&unknown, excerpt, Some(&otherwise), 1).expect("lengths are given");
    assert!(
        known
            .map(|request| (request.input, request.output))
            .all(|pair| pair == (5, 6))
    );
}
