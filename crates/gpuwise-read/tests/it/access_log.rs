//! Access logs under many names, with lines that cannot be read.

use gpuwise_read::access_log::{
    AccessLog, AccessLogError, Mapping, nanoseconds_of, read_access_log, rfc3339,
};
use gpuwise_units::Nanoseconds;
use std::fmt::Write as _;

fn read(text: &str, map: &str, model: Option<&str>) -> Result<AccessLog, AccessLogError> {
    read_access_log(text.as_bytes(), &Mapping::read(map)?, model)
}

/// (arrival in ns, ISL, OSL) of each request.
fn entries(log: &AccessLog) -> Vec<(i64, u32, u32)> {
    log.entries
        .iter()
        .map(|entry| (entry.arrival, entry.input, entry.output))
        .collect()
}

#[test]
fn fields_are_found_under_usual_names() {
    let check = |text: &str| {
        let log = read(text, "", None).unwrap_or_else(|error| panic!("{error}: {text}"));
        assert_eq!(
            entries(&log),
            [
                (1_763_740_800_000_000_000, 100, 20),
                (1_763_740_800_500_000_000, 7, 3)
            ],
            "{text}"
        );
    };
    // OpenAI's usage, milliseconds.
    check(
        "{\"ts\":1763740800000,\"usage\":{\"prompt_tokens\":100,\"completion_tokens\":20}}\n{\"ts\":1763740800500,\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":3}}\n",
    );
    // A gateway's columns, ISO 8601, out of order.
    check(
        "start_time,genai_tokens_input,genai_tokens_output\n2025-11-21T16:00:00.5Z,7,3\n2025-11-21T16:00:00Z,100,20\n",
    );
    // Attributes with dots in their names, a zone.
    check(
        "{\"timestamp\":\"2025-11-21T17:00:00+01:00\",\"attributes\":{\"gen_ai.usage.input_tokens\":100,\"gen_ai.usage.output_tokens\":20}}\n{\"timestamp\":\"2025-11-21T17:00:00.500+0100\",\"attributes\":{\"gen_ai.usage.input_tokens\":7,\"gen_ai.usage.output_tokens\":3}}\n",
    );
    // Seconds with a fraction, other case, tokens as texts.
    check("StartTime;Prompt_Tokens;Completion_Tokens\n1763740800.0;100;20\n1763740800.5;7;3\n");
    // Nanoseconds.
    check(
        "{\"time\":1763740800000000000,\"input_tokens\":100,\"output_tokens\":20}\n{\"time\":\"1763740800500000000\",\"input_tokens\":7,\"output_tokens\":3}\n",
    );
}

#[test]
fn a_mapping_wins() {
    let text = "{\"when\":5,\"ts\":9,\"a\":{\"b\":11},\"c\":2,\"who\":\"x\",\"chat\":1}\n{\"when\":6,\"ts\":9,\"a\":{\"b\":12},\"c\":3,\"who\":\"y\",\"chat\":1}\n";
    let log = read(
        text,
        "arrival=when, isl=a.b, osl=c, tenant=who, session=chat",
        None,
    )
    .expect("it is there");
    assert_eq!(
        entries(&log),
        [(5_000_000_000, 11, 2), (6_000_000_000, 12, 3)]
    );
    assert_eq!(
        (log.tenants.as_slice(), log.sessions),
        (["x".to_owned(), "y".to_owned()].as_slice(), 1)
    );
    let trace = log.trace();
    assert_eq!(trace.requests[1].due, Nanoseconds(1_000_000_000));
    assert_eq!(
        (trace.requests[1].tenant, trace.requests[1].session),
        (2, Some(0))
    );
}

#[test]
fn wrong_mappings_are_named() {
    for (map, expected) in [
        ("isl", "\"isl\" is no FIELD=COLUMN"),
        ("length=x", "names no field that is read"),
        ("isl=a,isl=b", "mapped already"),
    ] {
        let error = Mapping::read(map).expect_err(map).to_string();
        assert!(error.contains(expected), "{error}");
    }
    let text = "{\"ts\":1,\"prompt_tokens\":5,\"completion_tokens\":1}\n";
    let error = read(text, "isl=nowhere", None)
        .expect_err("it is refused")
        .to_string();
    assert!(
        error.contains("the tokens of a prompt")
            && error.contains("completion_tokens, prompt_tokens, ts"),
        "{error}"
    );
    let error = read("{\"ts\":1,\"x\":5}\n", "", None)
        .expect_err("it is refused")
        .to_string();
    assert!(
        error.contains("no column holds the tokens of a prompt; the log has ts, x"),
        "{error}"
    );
}

#[test]
fn failures_are_counted_and_left_out() {
    let text = "{\"ts\":1,\"status\":200,\"prompt_tokens\":5,\"completion_tokens\":1,\"cached_tokens\":2}\n\
                {\"ts\":2,\"status\":429,\"prompt_tokens\":null,\"completion_tokens\":null}\n\
                {\"ts\":3,\"status\":200,\"prompt_tokens\":5,\"completion_tokens\":0}\n\
                {\"ts\":4,\"status\":\"failure\",\"prompt_tokens\":5,\"completion_tokens\":4}\n\
                {\"ts\":5,\"status\":\"success\",\"prompt_tokens\":15,\"completion_tokens\":4,\"cached_tokens\":8}\n";
    let log = read(text, "", None).expect("it is there");
    assert_eq!((log.entries.len(), log.failed, log.bad), (2, 3, 0));
    assert_eq!(log.prefix_hit(), Some(0.5));
}

#[test]
fn few_bad_lines_are_survived_and_many_are_not() {
    let good = "{\"ts\":1,\"prompt_tokens\":5,\"completion_tokens\":1}\n";
    let mut bytes = b"server started\n".to_vec();
    bytes.extend(good.repeat(18).as_bytes());
    bytes.extend(b"{\"ts\":\xff}\n");
    let log = read_access_log(&bytes, &Mapping::default(), None).expect("it is there");
    assert_eq!((log.lines, log.bad), (20, 2));
    assert!(matches!(&log.first_bad, Some((1, problem)) if problem.contains("no JSON")));
    bytes.extend(b"{\"ts\":1,\"prompt_tokens\":-5,\"completion_tokens\":1}\n");
    let error = read_access_log(&bytes, &Mapping::default(), None)
        .expect_err("it is refused")
        .to_string();
    assert!(
        error.contains("3 of 21 lines cannot be read, first line 1"),
        "{error}"
    );
}

#[test]
fn other_models_are_left_out() {
    let line = |model: &str| {
        format!("{{\"ts\":1,\"model\":\"{model}\",\"prompt_tokens\":5,\"completion_tokens\":1}}\n")
    };
    let text = line("a") + &line("b") + &line("a");
    let log = read(&text, "", Some("a")).expect("it is there");
    assert_eq!((log.entries.len(), log.other_models), (2, 1));
    let all = read(&text, "", None).expect("it is there");
    assert_eq!(all.models, [("a".to_owned(), 2), ("b".to_owned(), 1)]);
    let error = read(&text, "", Some("c"))
        .expect_err("it is refused")
        .to_string();
    assert!(error.contains("3 are of a, b"), "{error}");
}

#[test]
fn other_files_are_refused() {
    for (text, expected) in [
        ("", "holds no request"),
        ("[\n1]", "one JSON list"),
        ("just words\n", "expected JSON objects, one a line, or CSV"),
        ("a,b\n1,2\n", "no column holds"),
        ("prompt_tokens,completion_tokens\n", "holds no request"),
    ] {
        let error = read(text, "", None).expect_err(text).to_string();
        assert!(error.contains(expected), "{text:?}: {error}");
    }
}

#[test]
fn a_log_without_times_has_lengths() {
    let log = read("prompt_tokens,completion_tokens\n10,5\n20,7\n", "", None).expect("it is there");
    assert!(!log.timed && !log.trace().timed);
    assert_eq!(log.counts(1.0), Vec::<f64>::new());
}

#[test]
fn windows_count_requests() {
    let mut text = String::from("ts,isl,osl\n");
    for second in [0, 1, 2, 10, 11, 25] {
        let _ = writeln!(text, "{},1,1", 1_700_000_000 + second);
    }
    assert_eq!(
        read(&text, "", None).expect("it is there").counts(10.0),
        [3.0, 2.0]
    );
}

#[test]
fn points_in_time() {
    for (text, seconds) in [
        ("0", Some(0)),
        ("21/Nov/2025:17:00:00 +0100", Some(1_763_740_800)),
        ("[21/Nov/2025:16:00:00 +0000]", Some(1_763_740_800)),
        ("2025-11-21 16:00:00", Some(1_763_740_800)),
        ("2025-11-21 16:00:00 UTC", Some(1_763_740_800)),
        ("1763740800000", Some(1_763_740_800)),
        ("yesterday", None),
        ("-5", None),
        ("NaN", None),
        ("2025-13-21T16:00:00Z", None),
    ] {
        assert_eq!(
            nanoseconds_of(text),
            seconds.map(|seconds| seconds * 1_000_000_000_i64),
            "{text}"
        );
    }
    for seconds in [0, 951_782_399, 951_782_400, 1_763_740_800, 4_107_542_399] {
        let text = rfc3339(seconds);
        assert_eq!(
            nanoseconds_of(&text),
            Some(seconds * 1_000_000_000),
            "{text}"
        );
    }
}
