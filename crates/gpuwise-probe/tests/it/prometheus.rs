//! A Prometheus server that fails in every way, and answers that are not what they should be.

use gpuwise_probe::prometheus::{Authentication, Client, PrometheusError, Settings, read_answer};
use proptest::prelude::*;
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    sync::mpsc::{Receiver, channel},
    thread,
    time::Duration,
};

/// What a request said.
struct ResourceRequest {
    line: String,
    headers: String,
    body: String,
}

/// A server that gives these raw answers one after the other, then closes; and what it was asked.
fn server(answers: Vec<Vec<u8>>) -> (String, Receiver<ResourceRequest>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let (tell, told) = channel();
    thread::spawn(move || {
        for answer in answers {
            let Ok((mut stream, _)) = listener.accept() else {
                return;
            };
            let mut reader = BufReader::new(stream.try_clone().expect("a stream"));
            let mut line = String::new();
            let _ = reader.read_line(&mut line);
            let mut headers = String::new();
            let mut length = 0;
            loop {
                let mut header = String::new();
                if reader.read_line(&mut header).unwrap_or(0) < 3 {
                    break;
                }
                let lower = header.to_lowercase();
                if let Some(value) = lower.strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap_or(0);
                }
                headers.push_str(&lower);
            }
            let mut body = vec![0; length];
            let _ = reader.read_exact(&mut body);
            let body = String::from_utf8_lossy(&body).into_owned();
            let _ = tell.send(ResourceRequest {
                line,
                headers,
                body,
            });
            let _ = stream.write_all(&answer);
            if answer.is_empty() {
                // Silent until the other side leaves.
                let _ = reader.read(&mut [0]);
            }
        }
    });
    (address, told)
}

fn answer(status: &str, body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

fn client(address: String) -> Client {
    let mut settings = Settings::new(address);
    settings.timeout = Duration::from_millis(400);
    settings.first_wait = Duration::ZERO;
    Client::new(settings).expect("sound settings")
}

/// The series of an instant query as `labels=values`, or the error.
fn asked(answers: Vec<Vec<u8>>) -> Result<Vec<String>, PrometheusError> {
    let (address, _told) = server(answers);
    let mut lines = Vec::new();
    client(address).instant("up", Some(1_763_000_000), |series| {
        let labels: Vec<String> = series
            .labels
            .iter()
            .map(|(k, v)| format!("{k}={v}"))
            .collect();
        let points: Vec<String> = series
            .points
            .iter()
            .map(|p| format!("{}@{}", p.value, p.at_ms))
            .collect();
        lines.push(format!("{} {}", labels.join(","), points.join(",")));
    })?;
    Ok(lines)
}

#[test]
fn values_of_every_kind_are_read() {
    let body = r#"{"status":"success","data":{"resultType":"matrix","result":[
        {"metric":{"pod":"a"},"values":[[1763000000,"1.5"],[1763000000.781,"NaN"],[1763000001,"+Inf"],[1763000002,"-Inf"]]},
        {"metric":{"pod":"a"},"values":[[1763000000,"2"]]},
        {"metric":{"pod":"b"},"histogram":[1,{"count":"3","sum":"4"}]}]},"infos":["i"],"warnings":null}"#;
    assert_eq!(
        asked(vec![answer("200 OK", body)]),
        Ok(vec![
            "pod=a 1.5@1763000000000,NaN@1763000000781,inf@1763000001000,-inf@1763000002000".into(),
            "pod=a 2@1763000000000".into(),
            "pod=b ".into(),
        ])
    );
    let scalar = r#"{"data":{"result":[1763000000,"7"],"resultType":"scalar"},"status":"success"}"#;
    assert_eq!(
        asked(vec![answer("200 OK", scalar)]),
        Ok(vec![" 7@1763000000000".into()])
    );
}

#[track_caller]
fn fails(status: &str, body: &str, with: &str, hint: Option<&str>, split: bool) {
    let error = asked(vec![answer(status, body)]).expect_err(body);
    assert!(error.to_string().contains(with), "{error} without {with:?}");
    match hint {
        Some(hint) => assert!(error.hint().is_some_and(|h| h.contains(hint)), "{error:?}"),
        None => assert_eq!(error.hint(), None),
    }
    assert_eq!(error.may_be_split(), split, "{error:?}");
}

#[test]
fn errors_say_what_the_server_said() {
    let said = |kind: &str, error: &str| {
        format!(r#"{{"status":"error","errorType":"{kind}","error":"{error}"}}"#)
    };
    fails(
        "500 Internal Server Error",
        "<h1>boom</h1>",
        "500: boom",
        None,
        false,
    );
    fails(
        "500 Internal Server Error",
        &said("internal", "tsdb is closed"),
        "tsdb is closed",
        None,
        false,
    );
    fails(
        "401 Unauthorized",
        "who are you",
        "401: who are you",
        Some("--token-file"),
        false,
    );
    fails(
        "403 Forbidden",
        "",
        "answers 403",
        Some("--token-file"),
        false,
    );
    fails(
        "404 Not Found",
        "404 page not found",
        "it has no /api/v1",
        Some("/api/v1"),
        false,
    );
    fails(
        "400 Bad Request",
        &said("bad_data", "parse error"),
        "query: parse error",
        None,
        false,
    );
    fails(
        "422 Unprocessable Entity",
        &said(
            "execution",
            "query processing would load too many samples into memory in query execution",
        ),
        "too many samples",
        Some("max-samples"),
        true,
    );
    fails(
        "503 Service Unavailable",
        &said("timeout", "query timed out in expression evaluation"),
        "query timed out",
        Some("query.timeout"),
        true,
    );
    fails(
        "302 Found\r\nlocation: https://user:key@sso.example/login?k=v",
        "",
        "redirects to https://sso.example/login",
        Some("that address"),
        false,
    );
    fails(
        "200 OK",
        "<html>hello</html>",
        "not JSON",
        Some("/api/v1"),
        false,
    );
    fails("200 OK", "[]", "as Prometheus does", Some("/api/v1"), false);
    fails("200 OK", "{}", "without a status", Some("/api/v1"), false);
    fails(
        "200 OK",
        &said("execution", "found duplicate series"),
        "found duplicate series",
        None,
        false,
    );
    fails(
        "200 OK",
        r#"{"status":"success","data":{"result":[{"metric":{},"value":[1,"2"]},{"metric":{},"value":[1,"x"]}]}}"#,
        "after 1 series",
        None,
        false,
    );
}

#[test]
fn half_an_answer_is_no_answer() {
    let whole = r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{"a":"b"},"value":[1,"2"]},{"metric":{"a":"c"},"value":[1,"2"]}]}}"#;
    for end in 1..whole.len() {
        let error = asked(vec![answer("200 OK", &whole[..end])]).expect_err("it is cut");
        let named = matches!(
            error,
            PrometheusError::Broken { .. } | PrometheusError::NotPrometheus { .. }
        );
        assert!(named, "{end}: {error:?}");
    }
    let mut promised_more = answer("200 OK", whole);
    promised_more.truncate(promised_more.len() - 40);
    let error = asked(vec![promised_more]).expect_err("the connection ends");
    assert!(
        matches!(error, PrometheusError::Broken { series: 1, .. }),
        "{error:?}"
    );
}

#[test]
fn silent_and_absent_servers() {
    let error = asked(vec![Vec::new()]).expect_err("it is silent");
    assert!(matches!(error, PrometheusError::Silent { .. }), "{error:?}");
    let mut begun = answer(
        "200 OK",
        r#"{"status":"success","data":{"result":[{"metric":{}"#,
    );
    let head = String::from_utf8_lossy(&begun).replace("content-length: ", "content-length: 9");
    begun = head.into_bytes();
    let error = asked(vec![begun]).expect_err("it breaks off");
    assert!(matches!(error, PrometheusError::Broken { .. }), "{error:?}");
    let gone = {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        format!("http://{}", listener.local_addr().expect("an address"))
    };
    let error = client(gone)
        .instant("up", None, |_| {})
        .expect_err("nobody is there");
    assert!(
        matches!(error, PrometheusError::Unreachable { .. }),
        "{error:?}"
    );
}

#[test]
fn a_series_without_end_is_stopped() {
    let mut huge = String::from(r#"{"status":"success","data":{"result":[{"metric":{"a":""#);
    huge.push_str(&"x".repeat(65 << 20));
    let error = read_answer(huge.as_bytes(), |_| {}).expect_err("it is too much");
    assert!(error.contains("64 MiB"), "{error}");
    let many = format!(
        r#"{{"status":"success","data":{{"result":[{}{{"metric":{{}},"value":[1,"2"]}}]}}}}"#,
        format!(
            r#"{{"metric":{{"a":"{}"}},"value":[1,"2"]}},"#,
            "y".repeat(1 << 20)
        )
        .repeat(70)
    );
    let read = read_answer(many.as_bytes(), |_| {});
    assert_eq!(
        read.map(|answer| answer.series),
        Ok(71),
        "each alone is small"
    );
}

#[test]
fn a_busy_server_is_asked_again_but_not_for_ever() {
    let good = answer("200 OK", r#"{"status":"success","data":{"result":[]}}"#);
    let busy = || answer("429 Too Many Requests\r\nretry-after: 0", "slow down");
    assert_eq!(asked(vec![busy(), busy(), good.clone()]), Ok(Vec::new()));
    let error = asked((0..9).map(|_| busy()).collect()).expect_err("it stays busy");
    assert!(error.to_string().contains("429: slow down"), "{error}");
    let later = answer("503 Service Unavailable\r\nretry-after: 3600", "");
    let error = asked(vec![later, good.clone()]).expect_err("an hour is too long");
    assert!(error.to_string().contains("503"), "{error}");
    for (asks, waits) in [
        ("18446744073709551615", "18446744073709551615 s"),
        ("99999999999999999999999999", "18446744073709551615 s"),
        ("Fri, 31 Dec 2100 23:59:59 GMT", "longer than --timeout"),
    ] {
        let head = format!("503 Service Unavailable\r\nretry-after: {asks}");
        let error = asked(vec![answer(&head, "full"), good.clone()]).expect_err(asks);
        let said = error.to_string();
        assert!(
            said.contains("503: full; it asks") && said.contains(waits),
            "{asks}: {said}"
        );
    }
    let past = answer("429 Busy\r\nretry-after: Thu, 01 Jan 2015 00:00:00 GMT", "");
    assert_eq!(asked(vec![past, good]), Ok(Vec::new()));
}

/// A form as it was before it was encoded.
fn decoded(form: &str) -> String {
    let mut out = Vec::new();
    let mut bytes = form.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => {
                let digits: String = bytes.by_ref().take(2).map(char::from).collect();
                out.push(u8::from_str_radix(&digits, 16).expect("two digits"));
            }
            b'+' => out.push(b' '),
            byte => out.push(byte),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[test]
fn who_asks_is_said_and_nothing_is_written() {
    let good = || answer("200 OK", r#"{"status":"success","data":["a","b"]}"#);
    let refused = answer("405 Method Not Allowed", "");
    let (address, told) = server(vec![refused, good(), good()]);
    let mut settings = Settings::new(format!("{address}/prometheus/"));
    settings.authentication = Authentication::Basic {
        user: "Aladdin".into(),
        password: "open sesame".into(),
    };
    settings.headers = vec![("X-Scope-OrgID".into(), "team".into())];
    let client = Client::new(settings).expect("sound settings");
    let query = "sum(a)+b{c=\"d&e%\"}";
    client.instant(query, Some(5), |_| {}).expect("by GET");
    assert_eq!(
        client.label_values("pod", Some("up"), 1, 2),
        Ok(vec!["a".into(), "b".into()])
    );
    let first = told.recv().expect("asked");
    assert!(
        first.line.starts_with("POST /prometheus/api/v1/query HTTP"),
        "{}",
        first.line
    );
    let sent = decoded(&first.body);
    assert!(
        sent.contains(&format!("query={query}&")) && sent.ends_with("&time=5"),
        "{sent}"
    );
    // The example of RFC 7617, section 2.
    assert!(
        first
            .headers
            .contains(&"Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==".to_lowercase())
    );
    assert!(
        first.headers.contains("x-scope-orgid: team"),
        "{}",
        first.headers
    );
    let second = told.recv().expect("asked again");
    assert!(
        second
            .line
            .starts_with("GET /prometheus/api/v1/query?query=sum"),
        "{}",
        second.line
    );
    let third = told.recv().expect("asked for names");
    assert!(
        third
            .line
            .starts_with("GET /prometheus/api/v1/label/pod/values?start=1&end=2&match"),
        "{}",
        third.line
    );
}

#[test]
fn settings_that_cannot_be_used() {
    for (address, with) in [
        ("prometheus:9090", "http://"),
        ("http://user:key@host", "--token-file"),
        ("http://", "no address"),
        ("http://host/?tenant=1", "no address"),
    ] {
        let error = Client::new(Settings::new(address)).expect_err(address);
        assert!(
            error.to_string().contains(with) && !error.to_string().contains("key@"),
            "{error}"
        );
    }
    let mut settings = Settings::new("http://host");
    settings.authentication = Authentication::Bearer("two\nlines".into());
    assert!(Client::new(settings).is_err());
    let mut settings = Settings::new("http://host");
    settings.authorities = Some(b"no certificate".to_vec());
    assert!(Client::new(settings).is_err());
}

proptest! {
    #[test]
    fn whatever_comes_is_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = read_answer(bytes.as_slice(), |_| {});
    }

    #[test]
    fn what_is_written_is_read(values in proptest::collection::vec(any::<f64>(), 1..40), at in 0_i64..4_000_000_000_000) {
        let points: Vec<String> = values
            .iter()
            .zip(at / 1000..)
            .map(|(v, second)| format!("[{second}.{:03},\"{v}\"]", at % 1000))
            .collect();
        let text = format!(
            r#"{{"status":"success","data":{{"result":[{{"metric":{{"l":"v"}},"values":[{}]}}]}}}}"#,
            points.join(",")
        );
        let mut read = Vec::new();
        read_answer(text.as_bytes(), |series| read.extend_from_slice(series.points)).expect("it is sound");
        for ((point, value), expected) in read.iter().zip(&values).zip((at..).step_by(1000)) {
            prop_assert_eq!(point.at_ms, expected);
            let same = point.value.to_bits() == value.to_bits();
            prop_assert!(same || (point.value.is_nan() && value.is_nan()));
        }
        prop_assert_eq!(read.len(), values.len());
    }
}
