//! Profiles in a bucket: a server of this test's own stands for it, and checks every signature.

use crate::support::{Place, ran};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io::{BufRead as _, BufReader, Write as _},
    net::{TcpListener, TcpStream},
    thread,
};

const SECRET: &str = "a secret/of+its own";

/// Files by key.
type Files = BTreeMap<&'static str, String>;

/// Serves a bucket `traces`, two names at a time, until the test ends.
fn bucket(files: Files) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client that leaves ends its own connection only.
            let _ = serve(stream, &files);
        }
    });
    address
}

fn serve(mut stream: TcpStream, files: &Files) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let request = lines.next().transpose()?.unwrap_or_default();
    let target = request.split(' ').nth(1).unwrap_or("").to_owned();
    let mut headers = BTreeMap::new();
    for line in lines {
        let line = line?;
        let Some((name, value)) = line.split_once(':') else {
            break;
        };
        headers.insert(name.to_lowercase(), value.trim().to_owned());
    }
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let (status, body) = if headers.get("authorization") == Some(&signature(path, query, &headers))
    {
        answer(path, query, files)
    } else {
        ("403 Forbidden", String::new())
    };
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

/// The header that the request ought to have, by its other headers.
fn signature(path: &str, query: &str, headers: &BTreeMap<String, String>) -> String {
    let header = |name: &str| headers.get(name).cloned().unwrap_or_default();
    let at = header("x-amz-date");
    let scope = format!("{}/eu-central-1/s3/aws4_request", &at[..8]);
    let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let host = header("host");
    let signed = "host;x-amz-content-sha256;x-amz-date;x-amz-security-token";
    let canonical = format!(
        "GET\n{path}\n{query}\nhost:{host}\nx-amz-content-sha256:{empty}\nx-amz-date:{at}\nx-amz-security-token:token\n\n{signed}\n{empty}"
    );
    let hex = |bytes: &[u8]| {
        bytes
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    let hash = hex(&Sha256::digest(canonical.as_bytes()));
    let mac = |key: &[u8], text: &str| {
        let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("any key does");
        mac.update(text.as_bytes());
        mac.finalize().into_bytes().to_vec()
    };
    let mut key = format!("AWS4{SECRET}").into_bytes();
    for part in [&at[..8], "eu-central-1", "s3", "aws4_request"] {
        key = mac(&key, part);
    }
    let signature = hex(&mac(
        &key,
        &format!("AWS4-HMAC-SHA256\n{at}\n{scope}\n{hash}"),
    ));
    format!("AWS4-HMAC-SHA256 Credential=me/{scope}, SignedHeaders={signed}, Signature={signature}")
}

fn answer(path: &str, query: &str, files: &Files) -> (&'static str, String) {
    let Some(key) = path.strip_prefix("/traces/") else {
        return ("404 Not Found", String::new());
    };
    if !key.is_empty() {
        let found = files.get(key.replace("%20", " ").as_str());
        return found.map_or(("404 Not Found", String::new()), |file| {
            ("200 OK", file.clone())
        });
    }
    let of = |name: &str| {
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value.replace("%2F", "/"))
    };
    let prefix = of("prefix").unwrap_or_default();
    let from: usize = of("continuation-token")
        .and_then(|text| text.parse().ok())
        .unwrap_or(0);
    let all: Vec<&str> = files
        .keys()
        .copied()
        .filter(|key| key.starts_with(&prefix))
        .collect();
    let mut body = String::from("<ListBucketResult>");
    for key in all.iter().skip(from).take(2) {
        let key = key.replace('/', "%2F").replace(' ', "+");
        let _ = write!(body, "<Contents><Key>{key}</Key><Size>1</Size></Contents>");
    }
    let next = from + 2;
    if next < all.len() {
        let _ = write!(
            body,
            "<NextContinuationToken>{next}</NextContinuationToken>"
        );
    }
    ("200 OK", body + "</ListBucketResult>")
}

fn trace(length_us: u32) -> String {
    format!(
        r#"{{"traceEvents":[{{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":{length_us},"args":{{"device":0,"stream":7}}}}]}}"#
    )
}

#[test]
fn profiles_are_read_from_a_bucket_by_who_has_its_keys() {
    let files = [
        ("today/a b.json", trace(10)),
        ("today/c.json", trace(20)),
        ("today/deeper/d.json", trace(30)),
        ("today/notes.txt", "no profile".into()),
        ("yesterday/e.json", trace(40)),
    ];
    let address = bucket(files.into());
    let place = Place::new();
    let ask = |arguments: &[&str], secret: &str| {
        let mut command = place.online(arguments);
        command
            .env("AWS_ENDPOINT_URL", &address)
            .env("AWS_ACCESS_KEY_ID", "me")
            .env("AWS_SECRET_ACCESS_KEY", secret)
            .env("AWS_SESSION_TOKEN", "token")
            .env("AWS_REGION", "eu-central-1");
        ran(&mut command)
    };
    let each = [
        "profile",
        "s3://traces/today/",
        "--each",
        "--save",
        "--format",
        "csv",
    ];
    let read = ask(&each, SECRET);
    assert_eq!(read.code, 0, "{}", read.err);
    assert_eq!(read.out.lines().count(), 4, "{}", read.out);
    assert!(
        read.out.contains("s3://traces/today/a b.json"),
        "{}",
        read.out
    );
    let one = ask(
        &["profile", "s3://traces/yesterday/e.json", "--format", "csv"],
        SECRET,
    );
    assert!(
        one.out.contains("span_ns,,,,40000"),
        "{}{}",
        one.out,
        one.err
    );
    // In shards each is read by one.
    let shards: usize = (0..2)
        .map(|index| {
            let shard = format!("{index}/2");
            let read = ask(&[&each[..], &["--shard", &shard]].concat(), SECRET);
            read.out.lines().count() - 1
        })
        .sum();
    assert_eq!(shards, 3);
    let wrong = ask(&each, "another");
    assert_eq!(wrong.code, 2);
    assert!(
        wrong.err.contains("403") && wrong.err.contains("AWS_SECRET_ACCESS_KEY"),
        "{}",
        wrong.err
    );
    let none = ask(&["profile", "s3://traces/tomorrow/"], SECRET);
    assert!(none.err.contains("no profile is in it"), "{}", none.err);
    let offline = ask(&["profile", "s3://traces/today/", "--offline"], SECRET);
    assert!(
        offline.err.contains("no bucket is asked"),
        "{}",
        offline.err
    );
}
