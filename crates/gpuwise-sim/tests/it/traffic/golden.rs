//! The same seed gives the same requests, on every platform and in every version.

use super::{rate, time};
use gpuwise_domain::{
    client::{Client, ClientWindow, GapLaw},
    request::Request,
};
use gpuwise_sim::traffic::{
    Arrivals, Change, ConversationStream, Conversations, Excerpt, Extent, Generator, LengthLaw,
    Lengths, Pattern, PrefixPool, Rate, Recorded, Resampled, SharedPrefix, Source as _, Stage,
    State, Superposed, SystemPrompts, Users,
};

/// FNV-1a over all that a request says.
fn hash(requests: impl Iterator<Item = Request>) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |value: u64| {
        for byte in value.to_le_bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    let mut count = 0_u64;
    for request in requests {
        count += 1;
        add(request.due.0);
        add(request.think.0);
        add(u64::from(request.input));
        add(u64::from(request.output));
        for segment in request.prefix.iter().flatten() {
            add(segment.content);
            add(u64::from(segment.tokens));
        }
        add(request.answer.unwrap_or(0));
        add(request.session.map_or(0, |session| u64::from(session) + 1));
        add(u64::from(request.tenant));
        add(request.priority as u64);
        add(u64::from(request.adapter));
        add(u64::from(request.stage));
    }
    format!("{count} {hash:016x}")
}

fn lengths() -> Lengths {
    let law = |mu: f64| LengthLaw::LogNormal {
        mu,
        sigma: 0.8,
        longest: 8192,
    };
    Lengths::Each {
        input: law(6.5),
        output: law(5.0),
    }
}

fn generated(gaps: GapLaw, rate: Rate) -> Generator {
    let arrivals = Arrivals {
        gaps,
        rate,
        exact: false,
    };
    let lengths = lengths();
    let pattern = Pattern {
        prefix: Some(PrefixPool::new(0.4, &lengths).expect("a share")),
        ..Pattern::open(arrivals, lengths)
    };
    Generator::new(&pattern, Extent::requests(5_000), 42).expect("a sound pattern")
}

fn states() -> Rate {
    let state = |per_second: f64, dwell: f64| State {
        rate: rate(per_second),
        dwell: time(dwell),
    };
    Rate::Modulated(vec![state(2.0, 30.0), state(40.0, 5.0)])
}

fn users() -> Users {
    let stage = |per_second: f64| Stage {
        rate: rate(per_second),
        duration: time(100.0),
    };
    let spec = SharedPrefix {
        system_prompts: 4,
        users_per_prompt: 3,
        system_tokens: 100,
        question_tokens: 400,
        answer_tokens: 200,
        multi_turn: true,
        repeat_question: false,
        grow: Some(4_000),
    };
    let arrivals = Arrivals {
        gaps: GapLaw::Exponential,
        rate: Rate::Stages(vec![stage(5.0), stage(10.0)]),
        exact: true,
    };
    Users::new(spec, arrivals, Extent::default(), 42).expect("a sound load")
}

fn talk() -> ConversationStream {
    let laws = Conversations {
        starts: Arrivals::poisson(rate(1.0)),
        rounds: LengthLaw::Samples([1, 2, 5].into()),
        think: time(20.0),
        thinking: GapLaw::LogNormal { sigma: 1.0 },
        system: SystemPrompts {
            count: 10,
            tokens: 100,
            skew: 1.0,
        },
        question: LengthLaw::Fixed(50),
        answer: LengthLaw::Fixed(80),
        longest: 4_096,
    };
    ConversationStream::new(laws, Extent::requests(2_000), 42).expect("sound laws")
}

fn clients() -> Superposed {
    let client = |number: u32, gaps: GapLaw| Client {
        number,
        windows: vec![ClientWindow {
            start: time(0.0),
            duration: time(600.0),
            rate: rate(2.0),
            gaps,
        }],
        lengths: Vec::new(),
    };
    let clients = [
        client(1, GapLaw::Gamma { shape: 0.1 }),
        client(2, GapLaw::Weibull { shape: 0.5 }),
    ];
    let excerpt = Excerpt {
        start: time(0.0),
        duration: time(600.0),
        scale: 2.0,
    };
    Superposed::new(&clients, excerpt, Some(&lengths()), 42).expect("sound clients")
}

#[test]
fn nothing_moves() {
    let eight = || Rate::Constant(rate(8.0));
    let recorded = Recorded::new(generated(GapLaw::Exponential, eight()).collect());
    let growth = Change::Growth {
        by: 0.1,
        every: time(60.0),
    };
    let changed = recorded
        .clone()
        .changed(Change::Thin { keep: 0.5, seed: 1 })
        .and_then(|thin| thin.changed(growth))
        .and_then(|grown| grown.changed(Change::Apart(5)))
        .expect("sound changes");
    let resampled = Resampled::new(recorded, time(30.0), 42).expect("a sound trace");
    let got = [
        ("poisson", hash(generated(GapLaw::Exponential, eight()))),
        ("constant", hash(generated(GapLaw::Constant, eight()))),
        (
            "gamma",
            hash(generated(GapLaw::Gamma { shape: 0.25 }, eight())),
        ),
        ("modulated", hash(generated(GapLaw::Exponential, states()))),
        ("users", hash(users())),
        ("talk", hash(talk())),
        ("clients", hash(clients())),
        ("changed", hash(changed)),
        ("resampled", hash(resampled)),
    ];
    let got: Vec<String> = got
        .iter()
        .map(|(name, hash)| format!("{name} {hash}"))
        .collect();
    assert_eq!(got, EXPECTED);
}

const EXPECTED: [&str; 9] = [
    "poisson 5000 177b7fa0ab1ad9e0",
    "constant 5000 fedd33edb92cbea2",
    "gamma 5000 1136a27d3448968e",
    "modulated 5000 4b7551c0de9e04a6",
    "users 1500 fa98e35d0e7e18d3",
    "talk 2000 794b00967fc610e3",
    "clients 4918 e10e94361867a92c",
    "changed 2503 b701b8124beb6059",
    "resampled 5044 8b4cc713c6a03bda",
];
