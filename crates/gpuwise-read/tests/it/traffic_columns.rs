//! What traces may say beside arrivals and lengths: who sends, what is shared, in which turn.

use gpuwise_domain::{
    client::{ClientWindow, GapLaw},
    request::Request,
};
use gpuwise_read::traffic::{Trace, TraceKind, TrafficFile, read_trace, read_traffic, text};
use gpuwise_units::{Nanoseconds, PerSecond};
use proptest::prelude::*;
use std::{collections::BTreeMap, fmt::Write as _};

/// Requests as `due_s:input/output` with what else they say; contents are named by letters in the order
/// of their coming.
fn said(trace: &Trace) -> String {
    let mut names: BTreeMap<u64, char> = BTreeMap::new();
    let mut name = |content: u64| {
        let next = char::from(b'a' + names.len() as u8);
        *names.entry(content).or_insert(next)
    };
    let mut out = trace.kind.name().to_string();
    for request in &trace.requests {
        let due = request.due.seconds().get();
        let _ = write!(out, " {due}:{}/{}", request.input, request.output);
        for segment in request.prefix.iter().flatten() {
            let _ = write!(out, "+{}{}", name(segment.content), segment.tokens);
        }
        if let Some(answer) = request.answer {
            let _ = write!(out, "={}", name(answer));
        }
        for (mark, value) in [
            ("s", request.session.map(i64::from)),
            ("t", Some(i64::from(request.tenant)).filter(|n| *n != 0)),
            ("p", Some(i64::from(request.priority)).filter(|n| *n != 0)),
            ("a", Some(i64::from(request.adapter)).filter(|n| *n != 0)),
            ("g", Some(i64::from(request.stage)).filter(|n| *n != 0)),
            (
                "w",
                i64::try_from(request.think.0 / 1_000_000)
                    .ok()
                    .filter(|n| *n != 0),
            ),
        ] {
            if let Some(value) = value {
                let _ = write!(out, "{mark}{value}");
            }
        }
    }
    for list in [&trace.tenants, &trace.adapters] {
        if !list.is_empty() {
            let _ = write!(out, "; {}", list.join(","));
        }
    }
    let notes = &trace.notes;
    notes.iter().fold(out, |out, note| format!("{out}; {note}"))
}

#[track_caller]
fn check(text: &str, expect: &str) {
    let got = match read_trace(text) {
        Err(error) => format!("error: {error}"),
        Ok(trace) => said(&trace),
    };
    let met = if expect.starts_with("error") {
        got.contains(expect)
    } else {
        got == expect
    };
    assert!(met, "got: {got}\nexpected: {expect}");
}

#[test]
fn users_in_groups_with_shared_prompts() {
    check(
        "request,stage,due_s,user,round,prefix_group,prefix_tokens,input_tokens,output_tokens\n\
         0,0,0.086691,8,0,2,100,566,247\n1,0,0.317554,36,0,9,100,566,247\n2,1,0.610022,4,0,2,100,566,247\n",
        "plain 0:566/247+a100s8 0.230863:566/247+b100s36 0.523331:566/247+a100s4g1",
    );
}

#[test]
fn columns_in_any_order_under_other_names() {
    check(
        "priority,client,osl,isl,turn,conversation_id,arrived_at,lora,prefix_id,prefix_tokens\n\
         -2,acme,9,10,0,x-1,5,fr,p,4\n0,beta,9,10,0,x-2,6,,p,4\n7,acme,9,10,1,x-1,7,base,,0\n",
        "plain 0:10/9+a4s2147483648t1p-2a1 1:10/9+a4s2147483649t2 2:10/9s2147483648t1p7; acme,beta; fr",
    );
    // The earlier name of a field counts where there are two.
    check(
        "timestamp,arrival_s,isl,osl\n2023-01-01 00:00:00,3,1,1\n2023-01-01 00:00:09,4,1,1\n",
        "plain 0:1/1 1:1/1",
    );
}

#[test]
fn times_in_the_unit_that_their_name_says() {
    for (name, second) in [
        ("timestamp", "1777142985.25"),
        ("arrival_time", "1777142985.25"),
        ("arrival_ms", "1777142985250"),
        ("timestamp_us", "1777142985250000"),
        ("due_ns", "1777142985250000000"),
        ("timestamp", "2026-04-25T18:49:45.25Z"),
    ] {
        let first = match name {
            _ if second.contains('T') => "2026-04-25 18:49:44.5".to_owned(),
            "timestamp" | "arrival_time" => "1777142984.5".to_owned(),
            _ => second.replace("985250", "984500"),
        };
        let text = format!("{name},isl,osl\n{first},1,2\n{second},3,4\n");
        check(&text, "plain 0:1/2 0.75:3/4");
    }
    // Every decimal counts, though seconds since 1970 have many digits.
    let trace =
        read_trace("timestamp,isl,osl\n1777142984.578685512,1,1\n1777142984.578685513,1,1\n");
    assert_eq!(trace.expect("sound").requests[1].due, Nanoseconds(1));
    check(
        "{\"timestamp\":\"2026-04-25T18:49:44Z\",\"input_tokens\":1,\"output_tokens\":2,\"x\":{\"y\":[]}}\n\
         {\"timestamp\":\"2026-04-25T18:49:45Z\",\"input_tokens\":3,\"output_tokens\":null,\"output_length\":4}",
        "plain 0:1/2 1:3/4",
    );
    check(
        "timestamp,isl,osl\n1777142984500,1,1\n",
        "error: line 2: `timestamp` is 1777142984500; expected a time in seconds, or a date such as",
    );
}

#[test]
fn lines_may_name_what_they_share() {
    check(
        r#"{"due_s":1,"isl":50,"osl":5,"session":"u","prefix":[["sys",20],["q1",30]],"answer":"r1","priority":-1}
           {"due_s":2,"isl":90,"osl":5,"session":"u","prefix":[["sys",20],["q1",30],["r1",5]],"think_s":1.5}"#,
        "plain 0:50/5+a20+b30=cs2147483648p-1 1:90/5+a20+b30+c5s2147483648w1500",
    );
    check(
        r#"{"due_s":1,"isl":50,"osl":5,"prefix":[["sys",51]]}"#,
        "error: line 1: `prefix` holds 51 tokens; expected at most the 50 of the prompt",
    );
    check(
        r#"{"due_s":1,"isl":50,"osl":5,"prefix":[["sys",-1]]}"#,
        "error: line 1: column ",
    );
    check(
        r#"{"due_s":[1],"isl":50,"osl":5}"#,
        "error: line 1: column 10: `due_s`: invalid type: sequence, expected a number or a text",
    );
}

#[test]
fn a_group_shares_what_its_shorter_prompts_share() {
    check(
        "arrival_s,isl,osl,prefix_group,prefix_tokens\n0,500,1,a,100\n1,500,1,a,300\n2,500,1,a,100\n3,500,1,b,50\n",
        "plain 0:500/1+a100 1:500/1+a100+b200 2:500/1+a100 3:500/1+c50",
    );
    let mut many = String::from("arrival_s,isl,osl,prefix_group,prefix_tokens\n");
    for row in 1..=100 {
        let _ = writeln!(many, "{row},1000,1,g,{}", row * 10);
    }
    let trace = read_trace(&many).expect("sound");
    assert!(
        trace.notes[0].contains("share more than 16 different lengths"),
        "{:?}",
        trace.notes
    );
    let covered: Vec<u64> = trace.requests.iter().map(Request::covered).collect();
    assert!(
        covered
            .iter()
            .zip(1..)
            .all(|(tokens, row)| *tokens <= row * 10 && tokens + 70 > row * 10)
    );
    // Each is the beginning of every longer one.
    for pair in trace.requests.windows(2) {
        let [short, long] =
            [&pair[0], &pair[1]].map(|request| request.prefix.as_deref().expect("all share"));
        assert_eq!(short, &long[..short.len()]);
    }
    let hit = trace.summary().prefix_hit.expect("it says what is shared");
    assert!((0.44..0.5).contains(&hit), "{hit}");
}

#[test]
fn blocks_become_tokens() {
    let line = |at: u32, input: u32, ids: &str| {
        format!(
            "{{\"timestamp\":{at},\"input_length\":{input},\"output_length\":1,\"hash_ids\":[{ids}]}}\n"
        )
    };
    let full = line(0, 1100, "1,2,3") + &line(5, 1024, "1,2") + &line(9, 10, "7");
    check(
        &full,
        "Mooncake 0:1100/1+a512+b512+c76 0.005:1024/1+a512+b512 0.009:10/1+d10",
    );
    // Only whole blocks are told: the rest of the prompt is its own.
    let whole = line(0, 1100, "1,2") + &line(5, 10, "");
    check(&whole, "Mooncake 0:1100/1+a512+b512 0.005:10/1");
    let short = line(0, 40, "1,2,3");
    check(
        &short,
        "Mooncake 0:40/1+a16+b16+c8; blocks of 16 tokens fit the prompts and their `hash_ids`",
    );
    let wrong = line(0, 1100, "1,2,3") + &line(5, 10, "1,2,3,4,5");
    check(
        &wrong,
        "Mooncake 0:1100/1+a512+b512+c76 0.005:10/1+a10; the number of `hash_ids` fits no block length: \
         taken for blocks of 512 tokens",
    );
}

#[test]
fn sessions_keep_the_order_of_their_rounds() {
    check(
        "arrival_s,isl,osl,session,round\n0,3,1,1,2\n0,1,1,1,0\n0,2,1,1,1\n",
        "plain 0:1/1s1 0:2/1s1 0:3/1s1; requests were not in the order of their arrival: sorted",
    );
    check(
        "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n\
         5,1,1.5,ChatGPT,472,18,490,Conversation log\n45,1,2,ChatGPT,1087,0,1317,Conversation log\n\
         46,,0,GPT-4,417,9,417,API log\n",
        "BurstGPT 0:472/18s1 41:417/9; 1 failed requests (no response tokens) are left out",
    );
}

#[test]
fn what_cannot_be_is_named_with_its_column() {
    check(
        "isl,osl\n1,1\n",
        "error: line 1: no column of arrivals: name it `arrival_s` or `arrival_seconds`",
    );
    check(
        "timestamp,prompt_tokens\n1,1\n",
        "error: line 1: no column of generated tokens: name it `osl` or `output_tokens`",
    );
    let row = |row: &str, expect: &str| {
        let header = "arrival_s,isl,osl,session,round,prefix_group,prefix_tokens,tenant,priority,stage,think_s";
        check(
            &format!("{header}\n0,10,10,1,0,1,5,a,0,0,0\n{row}\n"),
            &format!("error: line 3: {expect}"),
        );
    };
    row(
        "1,10,10,1,-1,,,,,,",
        "`round` is -1; expected a whole number from 0",
    );
    row(
        "1,10,10,1,0,1,11,,,,",
        "`prefix_tokens` is 11; expected at most the 10 tokens of the prompt",
    );
    row(
        "1,10,10,1,0,1,,,,,",
        "`prefix_group` is given without `prefix_tokens`",
    );
    row(
        "1,10,10,1,0,,5,,,,",
        "`prefix_tokens` is given without `prefix_group`",
    );
    row(
        "1,10,10,1,0,,,,40000,,",
        "`priority` is 40000; expected a whole number from -32768 to 32767",
    );
    row(
        "1,10,10,1,0,,,,,70000,",
        "`stage` is 70000; expected a whole number from 0 to 65535",
    );
    row(
        "1,10,10,1,0,,,,,,-1",
        "`think_s` is -1; expected seconds from 0",
    );
    row("1,,10,1,0,,,,,,", "`isl` is missing");
    row(
        "1,10,-4,1,0,,,,,,",
        "`osl` is -4; expected a whole number of tokens",
    );
    let gigantic = "9".repeat(100_000);
    row(
        &format!("1,{gigantic},1,1,0,,,,,,"),
        "`isl` is \"9999999999",
    );
    row(
        &format!("1,1,1,{gigantic},0,,,,,,"),
        "`session` is \"9999999999",
    );
    // Cut in the message, too.
    let header = "arrival_s,isl,osl\n0,1,1\n";
    let error = read_trace(&format!("{header}1,{gigantic},1\n")).expect_err("it cannot be");
    assert!(error.to_string().len() < 300);
    let unquoted = format!("{header}1,\"2,3\n{}", "4,5,6\n".repeat(400_000));
    check(
        &unquoted,
        "error: line 3: a row of 2400004 bytes; expected at most 1048576: a quote is missing",
    );
    check(
        "arrival_s,isl,osl\n0,1,1\n20000000000,1,1\n",
        "error: line 3: `arrival_s` is 20000000000",
    );
    let mut tenants = String::from("arrival_s,isl,osl,tenant\n");
    for row in 0..=65_535 {
        let _ = writeln!(tenants, "{row},1,1,t{row}");
    }
    check(
        &tenants,
        "error: line 65537: `tenant` is \"t65535\"; expected at most 65535 different names",
    );
}

#[test]
fn bytes_that_are_no_text_are_named_with_their_place() {
    for (bytes, expect) in [
        (
            &b"arrival_s,isl,osl\n0,1,\xff\n"[..],
            "line 2, byte 5 of it: this is no text in UTF-8; save it as UTF-8",
        ),
        (
            b"\xff\xfea\0r\0",
            "line 1, byte 1 of it: this is no text in UTF-8; it begins as UTF-16 does: save it as UTF-8",
        ),
        (b"a\n\n\xc3", "line 3, byte 1 of it"),
    ] {
        let error = text(bytes).expect_err("no UTF-8").to_string();
        assert!(error.starts_with(expect), "{error}");
    }
    assert_eq!(text("grün".as_bytes()), Ok("grün"));
}

#[test]
fn tables_of_servegen_become_clients() {
    let rates = "category,model,client,t_s,rate_rps,cv,dist,p1,p2\n\
        language,a,3,600,2,2,Gamma,0.25,9\nlanguage,a,3,0,4,1,,,\nlanguage,a,3,1800,1,3,Weibull,0.4,2\n\
        language,a,5,0,0,0,,,\nlanguage,b,3,0,1,0.5,,,\n";
    let lengths = "category,model,client,t_s,field,mean,p50,p95,max\n\
        language,b,3,0,text_tokens,9,9,9,9\nlanguage,b,3,0,output_tokens,1,1,1,1\n\
        language,b,3,21600,output_tokens,1,1,1,1\nlanguage,a,4,0,input_tokens,7,7,7,7\n";
    let (Ok(TrafficFile::Rates(rates)), Ok(TrafficFile::Lengths(lengths))) =
        (read_traffic(rates), read_traffic(lengths))
    else {
        panic!("they are tables of ServeGen")
    };
    let window = |start: u64, duration: u64, rate: f64, gaps: GapLaw| ClientWindow {
        start: Nanoseconds(start * 1_000_000_000),
        duration: Nanoseconds(duration * 1_000_000_000),
        rate: PerSecond::new(rate),
        gaps,
    };
    let first = rates.clients(0, Some(&lengths));
    assert_eq!(first.len(), 1, "a client without requests is left out");
    assert_eq!((first[0].number, first[0].lengths.len()), (3, 0));
    assert_eq!(
        first[0].windows,
        [
            window(0, 600, 4.0, GapLaw::Exponential),
            window(600, 600, 2.0, GapLaw::Gamma { shape: 0.25 }),
            window(1800, 600, 1.0, GapLaw::Weibull { shape: 0.4 }),
        ]
    );
    let second = rates.clients(1, Some(&lengths));
    assert_eq!(second[0].windows[0].gaps, GapLaw::Gamma { shape: 4.0 });
    // Only where both are told.
    assert_eq!(second[0].lengths.len(), 1);
    assert_eq!(
        (
            second[0].lengths[0].input.mean,
            second[0].lengths[0].output.max
        ),
        (9.0, 1.0)
    );
    assert!(rates.clients(9, None).is_empty());
}

#[test]
fn a_request_alone_is_a_trace() {
    check("arrival_s,isl,osl\n77,5,6\n", "plain 0:5/6");
    let trace = read_trace("arrival_s,isl,osl\n77,5,6\n").expect("sound");
    let summary = trace.summary();
    assert_eq!(
        (summary.rate, summary.burstiness, summary.requests),
        (None, None, 1)
    );
    assert_eq!(trace.into_requests().len(), 1);
    let none = Trace::new(TraceKind::Plain, Vec::new(), true, Vec::new());
    assert!(none.is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Whatever stands in the cells, requests are in order and share no more than they have.
    #[test]
    fn any_cells(rows in proptest::collection::vec(proptest::collection::vec("[0-9a-z.\\-e]{0,5}", 9), 1..12)) {
        let mut csv = String::from("arrival_s,isl,osl,session,round,prefix_group,prefix_tokens,tenant,stage\n");
        for row in &rows {
            let _ = writeln!(csv, "{}", row.join(","));
        }
        if let Ok(trace) = read_trace(&csv) {
            prop_assert!(trace.requests.is_sorted_by_key(|request| request.due));
            for request in &trace.requests {
                prop_assert!(request.covered() <= u64::from(request.input));
            }
            let summary = trace.summary();
            prop_assert!(summary.prefix_hit.is_none_or(|share| (0.0..=1.0).contains(&share)));
        }
    }

    /// Numbers are sums of their digits, in any unit.
    #[test]
    fn times_are_exact(seconds in 0_u64..10_000_000_000, nanoseconds in 0_u64..1_000_000_000) {
        let csv = format!("arrival_s,isl,osl\n{seconds}.{nanoseconds:09},1,1\n0,1,1\n");
        match read_trace(&csv) {
            Ok(trace) => {
                let last = trace.requests.last().map(|request| request.due.0);
                prop_assert_eq!(last, Some(seconds * 1_000_000_000 + nanoseconds));
            }
            Err(error) => prop_assert!(seconds > 4_600_000_000, "{}", error),
        }
    }
}
