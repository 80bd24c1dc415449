//! Traces of every kind, hostile ones, and the published ones where they are at hand.

use flate2::{Compression, write::GzEncoder};
use gpuwise_domain::workload::Traffic;
use gpuwise_read::traffic::{
    DecompressError, TraceKind, TrafficFile, decompress, read_trace, read_traffic,
};
use proptest::prelude::*;
use std::{fmt::Write as _, fs, io::Write as _};

const AZURE: &str = "TIMESTAMP,ContextTokens,GeneratedTokens\n\
    2023-11-16 18:17:03.9799600,4808,10\n2023-11-16 18:17:04.0319600,3180,8\n2023-11-16 18:17:05.9799600,110,27\n";
const MOONCAKE: &str = r#"{"timestamp": 27000, "input_length": 1200, "output_length": 500, "hash_ids": [0, 1, 2]}
{"timestamp": 30000, "input_length": 1100, "output_length": 490, "hash_ids": [0, 1, 3]}

{"timestamp": 30500, "input_length": 100, "output_length": 794, "hash_ids": [4]}
"#;
const BURST: &str = "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n\
    5,1,1.5,ChatGPT,472,18,490,Conversation log\n45,1,2,ChatGPT,1087,230,1317,Conversation log\n118,2,0,GPT-4,417,0,417,API log\n";
const SHARE: &str = r#"[
 {"id": "a", "conversations": [{"from": "human", "value": "12345678"}, {"from": "gpt", "value": "123456789"}, {"from": "human", "value": "x"}]},
 {"id": "b", "conversations": [{"from": "human", "value": "no answer"}]},
 {"id": "c", "conversations": []}
]"#;

/// Requests as `arrival:input/output`, then the notes.
#[track_caller]
fn check(text: &str, expect: &str) {
    let got = match read_trace(text) {
        Err(error) => format!("error: {error}"),
        Ok(trace) => {
            let mut said = trace.kind.name().to_string();
            for request in &trace.requests {
                let _ = write!(
                    said,
                    " {}:{}/{}",
                    request.due.seconds().get(),
                    request.input,
                    request.output
                );
            }
            trace
                .notes
                .iter()
                .fold(said, |said, note| format!("{said}; {note}"))
        }
    };
    assert!(
        got.starts_with(expect) && (expect.starts_with("error") || got == expect),
        "got: {got}\nexpected: {expect}"
    );
}

#[test]
fn kinds_are_told_by_their_first_line() {
    check(AZURE, "Azure 0:4808/10 0.052:3180/8 2:110/27");
    check(
        &format!("\u{feff}{}", AZURE.replace('\n', "\r\n")),
        "Azure 0:4808/10 0.052:3180/8 2:110/27",
    );
    check(MOONCAKE, "Mooncake 0:1200/500 3:1100/490 3.5:100/794");
    check(
        BURST,
        "BurstGPT 0:472/18 40:1087/230; 1 failed requests (no response tokens) are left out",
    );
    check(
        SHARE,
        "ShareGPT 0:2/3; tokens are estimated as characters / 4, and the file says nothing of arrivals; 2 conversations without an answer are left out",
    );
    check(
        "arrival_s,isl,osl\n0.5,10,20\n1.5,11,21\n",
        "plain 0:10/20 1:11/21",
    );
    check(
        "osl, isl, arrival_s\n20,10,0.5\n21,11,1.5\n",
        "plain 0:10/20 1:11/21",
    );
    check(
        "{\"arrival_s\":2,\"isl\":7,\"osl\":8}\n{\"arrival_s\":2.25,\"isl\":9,\"osl\":0}",
        "plain 0:7/8 0.25:9/0",
    );
    check(
        "{\"conversations\":[{\"value\":\"abcd\"},{\"value\":\"abcdefgh\"}]}\n",
        "ShareGPT 0:1/2; tokens are estimated as characters / 4, and the file says nothing of arrivals",
    );
    check(
        "arrival_s,isl,osl\n3,1,1\n1,2,2\n",
        "plain 0:2/2 2:1/1; requests were not in the order of their arrival: sorted",
    );
}

#[test]
fn azure_of_2024_states_zones() {
    let text = "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-02-28 23:59:59.999999+00:00,1,1\n2024-02-29T01:30:00.5+01:00,2,2\n2024-03-01 00:00:00Z,3,3\n";
    check(text, "Azure 0:1/1 1800.500001:2/2 86400.000001:3/3");
}

#[test]
fn what_cannot_be_is_named_with_its_line() {
    check("", "error: the trace holds no requests");
    check("\n \n", "error: the trace holds no requests");
    check("arrival_s,isl,osl\n", "error: the trace holds no requests");
    check("[]", "error: the trace holds no requests");
    check(
        "model,gpu\nx,y\n",
        "error: line 1: no kind of trace that is read begins like this: \"model,gpu\"",
    );
    check("\n\nhello\n", "error: line 3: no kind of trace");
    check(
        "category,model,t_s,rate_rps\nl,m,0,1\n",
        "error: this is a table of rates by window",
    );
    let plain =
        |row: &str, expect: &str| check(&format!("arrival_s,isl,osl\n0,1,1\n{row}\n"), expect);
    plain("1,2", "error: line 3: `osl` is missing");
    plain("1,,3", "error: line 3: `isl` is missing");
    plain(
        "1,x,3",
        "error: line 3: `isl` is \"x\"; expected a whole number of tokens",
    );
    plain(
        "1,-2,3",
        "error: line 3: `isl` is -2; expected a whole number of tokens",
    );
    plain(
        "1,2.5,3",
        "error: line 3: `isl` is 2.5; expected a whole number of tokens",
    );
    plain(
        "1,5e9,3",
        "error: line 3: `isl` is 5e9; expected a whole number of tokens",
    );
    plain(
        "NaN,2,3",
        "error: line 3: `arrival_s` is NaN; expected a time in seconds",
    );
    plain(
        "inf,2,3",
        "error: line 3: `arrival_s` is inf; expected a time in seconds",
    );
    plain(
        "1e300,2,3",
        "error: line 3: `arrival_s` is 1e300; expected a time in seconds",
    );
    let azure = |time: &str| {
        check(
            &AZURE.replace("2023-11-16 18:17:04.0319600", time),
            "error: line 3: `timestamp` is",
        );
    };
    for time in [
        "yesterday",
        "2023-13-16 18:17:04",
        "2023-11-16",
        "2023-11-16 18:17",
        "2023-11-16 25:17:04",
        "2023-11-16 18:17:04.x",
        "2023-11-16 18:17:04+1",
        "-023-11-16 18:17:04",
    ] {
        azure(time);
    }
    check(
        "{\"timestamp\":0}",
        "error: line 1: `input_length` is missing",
    );
    check("{\"a\":0}", "error: line 1: `arrival_s` is missing");
    check(
        &MOONCAKE.replace("30500", "\"x\""),
        "error: line 4: `timestamp` is \"x\"; expected a time in milliseconds",
    );
    check(
        &MOONCAKE.replace("[4]", "[-4]"),
        "error: line 4: column 79: invalid value",
    );
    check("{", "error: line 1: column 1: the text ends within a value");
    check("[1]", "error: line 1: invalid type");
    check(&"[".repeat(100_000), "error: line 1: ");
}

#[test]
fn figures_of_a_trace() {
    let trace = read_trace(MOONCAKE).expect("it is valid");
    assert_eq!(
        (trace.kind, trace.block_tokens),
        (TraceKind::Mooncake, Some(512))
    );
    let summary = trace.summary();
    assert_eq!(summary.prefix_hit, Some(2.0 / 7.0));
    assert_eq!(
        (summary.requests, summary.seconds, summary.rate),
        (3, 3.5, Some(2.0 / 3.5))
    );
    // Shorter than a minute: the busiest minute is all of it.
    assert_eq!(summary.busiest_rate, summary.rate);
    // Gaps of 3 and 0.5 s.
    let burstiness = summary.burstiness.expect("it has times");
    assert!((burstiness - 1.5625 / 3.0625).abs() < 1e-12, "{burstiness}");
    assert_eq!(
        (summary.input.mean, summary.input.p50, summary.input.max),
        (800.0, 1100.0, 1200)
    );
    assert!(
        (summary.input.p95 - 1190.0).abs() < 1e-9,
        "{}",
        summary.input.p95
    );
    assert_eq!(
        summary.traffic(),
        Some(Traffic::Open {
            rate: gpuwise_units::PerSecond::new(2.0 / 3.5),
            burstiness
        })
    );
    assert_eq!(summary.lengths().output.longest.0, 794);
    let untimed = read_trace(SHARE).expect("it is valid").summary();
    assert_eq!(
        (untimed.rate, untimed.burstiness, untimed.traffic()),
        (None, None, None)
    );
    let mut busy = String::from("arrival_s,isl,osl\n");
    for second in [0, 100, 101, 102, 159, 161, 300] {
        let _ = writeln!(busy, "{second},1,1");
    }
    let summary = read_trace(&busy).expect("it is valid").summary();
    assert_eq!(summary.busiest_rate, Some(4.0 / 60.0));
}

#[test]
fn tables_of_servegen() {
    let total = "category,model,t_s,rate_rps\nlanguage,a,0,10\nlanguage,a,600,30\nreason,b,0,1\nlanguage,a,1800,20\n";
    let Ok(TrafficFile::Rates(rates)) = read_traffic(total) else {
        panic!("it is a table of rates")
    };
    assert_eq!(rates.models, ["language/a", "reason/b"]);
    let summary = rates.summary(0).expect("it has windows");
    // The window from 1200 s has no requests.
    assert_eq!(
        (summary.mean, summary.busiest, summary.busiest_start_seconds),
        (15.0, 30.0, 600.0)
    );
    assert_eq!(
        (summary.window_seconds, summary.client_burstiness),
        (600.0, None)
    );
    assert_eq!(rates.summary(2), None);
    let clients = "category,model,client,t_s,rate_rps,cv,dist,p1,p2\nlanguage,a,0,0,3,2,Weibull,0.4,0.5\nlanguage,a,1,0,1,4,Gamma,0.1,9\n";
    let Ok(TrafficFile::Rates(clients)) = read_traffic(clients) else {
        panic!("it is a table of rates")
    };
    let summary = clients.summary(0).expect("it has windows");
    assert_eq!(
        (summary.mean, summary.client_burstiness),
        (4.0, Some((3.0 * 4.0 + 16.0) / 4.0))
    );
    assert_eq!(clients.windows[1].law, Some(("Gamma".into(), 0.1, 9.0)));
    let lengths = "category,model,client,t_s,field,mean,p50,p95,max\nlanguage,a,0,0,input_tokens,100,100,100,200\nlanguage,a,1,0,input_tokens,300,300,300,900\nlanguage,a,0,0,output_tokens,5,5,5,5\n";
    let Ok(TrafficFile::Lengths(lengths)) = read_traffic(lengths) else {
        panic!("it is a table of lengths")
    };
    let each = lengths
        .distribution(0, "input_tokens", None)
        .expect("it has windows");
    assert_eq!(
        (each.mean, each.variation, each.longest.0),
        (200.0, 0.25, 900)
    );
    let weighted = lengths
        .distribution(0, "input_tokens", Some(&clients))
        .expect("it has windows");
    assert_eq!(Some(weighted.mean), Some(150.0));
    assert_eq!(lengths.distribution(0, "image_count", None), None);
    let wrong = read_traffic("category,model,t_s,rate_rps\na,b,0,-1\n")
        .expect_err("a negative rate")
        .to_string();
    assert_eq!(
        wrong,
        "line 2: `rate_rps` is -1; expected a number from 0 to 10^12"
    );
    assert!(read_traffic("category,model,t_s,rate_rps\na,b,0\n").is_err());
    assert!(read_traffic("category,model,t_s,rate_rps\na,b,inf,1\n").is_err());
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).expect("memory takes it");
    encoder.finish().expect("memory takes it")
}

#[test]
fn gzip_is_bounded() {
    let packed = gzip(AZURE.as_bytes());
    assert_eq!(decompress(&packed, 1000).as_deref(), Ok(AZURE.as_bytes()));
    let twice = [packed.clone(), packed.clone()].concat();
    assert_eq!(
        decompress(&twice, 1000).map(|out| out.len()),
        Ok(2 * AZURE.len())
    );
    assert_eq!(decompress(b"plain", 5).as_deref(), Ok(&b"plain"[..]));
    assert_eq!(decompress(b"plain", 4), Err(DecompressError::TooLarge(4)));
    assert_eq!(
        decompress(&packed, AZURE.len() as u64 - 1),
        Err(DecompressError::TooLarge(AZURE.len() as u64 - 1))
    );
    let bomb = gzip(&vec![0; 50_000_000]);
    assert!(bomb.len() < 100_000);
    assert_eq!(
        decompress(&bomb, 1_000_000),
        Err(DecompressError::TooLarge(1_000_000))
    );
    for cut in 2..packed.len() {
        assert!(
            matches!(
                decompress(&packed[..cut], 1000),
                Err(DecompressError::Corrupt(_))
            ),
            "{cut}"
        );
    }
}

/// A published trace, or `None` with a loud word where there are none.
fn published(name: &str) -> Option<String> {
    let bytes = fs::read(gpuwise_needs::data("")?.join("traffic").join(name))
        .expect("GPUWISE_DATA has traffic/");
    let text = decompress(&bytes, 1 << 30)
        .expect("a sound file")
        .into_owned();
    Some(String::from_utf8(text).expect("it is text"))
}

#[test]
fn published_traces() {
    for (name, requests, input, output, burstiness, hits) in [
        (
            "azure_llm_2023_code.csv.gz",
            8_819,
            2048.0,
            28.0,
            173.0,
            None,
        ),
        (
            "azure_llm_2023_conv.csv.gz",
            19_366,
            1155.0,
            211.0,
            1.2,
            None,
        ),
        (
            "mooncake_conversation.jsonl.gz",
            12_031,
            12_035.0,
            343.0,
            9.2,
            Some(0.366),
        ),
        (
            "mooncake_synthetic.jsonl.gz",
            3_993,
            15_325.0,
            149.0,
            1.0,
            Some(0.640),
        ),
    ] {
        let Some(text) = published(name) else {
            continue;
        };
        let summary = read_trace(&text).expect("a sound trace").summary();
        assert_eq!(summary.requests, requests, "{name}");
        assert_eq!(
            (summary.input.mean.round(), summary.output.mean.round()),
            (input, output),
            "{name}"
        );
        let got = summary.burstiness.expect("it has times");
        assert!((got / burstiness - 1.0).abs() < 0.03, "{name}: {got}");
        assert_eq!(
            summary
                .prefix_hit
                .map(|share| (share * 1000.0).round() / 1000.0),
            hits,
            "{name}"
        );
    }
}

#[test]
fn published_rates() {
    let Some(total) = published("servegen_total_rates_10min.csv.gz") else {
        return;
    };
    let Some(clients) = published("servegen_client_rates_10min.csv.gz") else {
        return;
    };
    let (Ok(TrafficFile::Rates(total)), Ok(TrafficFile::Rates(clients))) =
        (read_traffic(&total), read_traffic(&clients))
    else {
        panic!("they are tables of rates")
    };
    assert_eq!(total.models, clients.models);
    for model in 0..total.models.len() {
        let (all, sum) = (
            total.summary(model).expect("windows"),
            clients.summary(model).expect("windows"),
        );
        assert!(
            (all.mean / sum.mean - 1.0).abs() < 1e-3,
            "{}: {all:?} {sum:?}",
            total.models[model]
        );
        assert_eq!(Some(all.window_seconds), Some(600.0));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn random_texts_do_not_panic(text in "[ -~\n]{0,200}", bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
        let _ = read_traffic(&text);
        let _ = decompress(&bytes, 1000);
        let mut packed = vec![0x1f, 0x8b, 8, 0];
        packed.extend(&bytes);
        let _ = decompress(&packed, 1000);
    }

    #[test]
    fn mutated_traces_do_not_panic(which in 0_usize..6, at in 0_usize..400, byte in 32_u8..127, cut in 0_usize..400) {
        let servegen = "category,model,client,t_s,field,mean,p50,p95,max\nlanguage,a,0,0,input_tokens,100,100,100,200\n";
        let rates = "category,model,client,t_s,rate_rps,cv,dist,p1,p2\nlanguage,a,0,0,3,2,Weibull,0.4,0.5\n";
        let mut bytes = [AZURE, MOONCAKE, BURST, SHARE, servegen, rates][which].as_bytes().to_vec();
        let at = at % bytes.len();
        bytes[at] = byte;
        bytes.truncate(cut.max(1));
        match read_traffic(&String::from_utf8_lossy(&bytes)) {
            Ok(TrafficFile::Trace(trace)) => {
                let summary = trace.summary();
                prop_assert!(summary.input.mean.is_finite() && summary.rate.is_none_or(f64::is_finite));
                prop_assert!(trace.requests.is_sorted_by(|a, b| a.due <= b.due));
            }
            Ok(TrafficFile::Rates(table)) => { table.summary(0); }
            Ok(TrafficFile::Lengths(table)) => { table.distribution(0, "input_tokens", None); }
            Err(_) => {}
        }
    }
}
