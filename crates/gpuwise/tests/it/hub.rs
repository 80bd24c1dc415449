//! Models on a hub: a server of this test's own stands for it.

use crate::support::{Place, Ran, config_text, elements, header, ran, tensors};
use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

/// What was asked of the server: path and range.
type Asked = Arc<Mutex<Vec<(String, Option<String>)>>>;

/// Serves files, in parts where a part is asked for, until the test ends.
fn hub(files: BTreeMap<String, Vec<u8>>) -> (String, Asked) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let asked = Asked::default();
    let log = Arc::clone(&asked);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client that leaves ends its own connection only.
            let _ = serve(stream, &files, &log);
        }
    });
    (address, asked)
}

fn serve(
    mut stream: TcpStream,
    files: &BTreeMap<String, Vec<u8>>,
    log: &Asked,
) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let request = lines.next().transpose()?.unwrap_or_default();
    let path = request.split(' ').nth(1).unwrap_or("").to_owned();
    let mut range = None;
    for line in lines {
        let line = line?.to_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(bytes) = line.strip_prefix("range: bytes=") {
            range = Some(bytes.to_owned());
        }
    }
    log.lock()
        .expect("not poisoned")
        .push((path.clone(), range.clone()));
    if path.starts_with("/acme/gated") {
        return stream.write_all(
            b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        );
    }
    let Some(body) = files.get(&path) else {
        return stream.write_all(
            b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        );
    };
    let part = range.and_then(|range| {
        let (first, last) = range.split_once('-')?;
        let last = last.parse::<usize>().ok()?.min(body.len() - 1);
        Some((first.parse::<usize>().ok()?, last))
    });
    let (head, bytes) = match part {
        Some((first, last)) => (
            format!(
                "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {first}-{last}/{}\r\n",
                body.len()
            ),
            &body[first..=last],
        ),
        None => ("HTTP/1.1 200 OK\r\n".to_owned(), body.as_slice()),
    };
    write!(
        stream,
        "{head}Content-Length: {}\r\nConnection: close\r\n\r\n",
        bytes.len()
    )?;
    stream.write_all(bytes)
}

fn online(place: &Place, endpoint: &str, model: &str) -> Ran {
    let mut command = place.online(&["memory", model, "--gpu", "L4", "--format", "json"]);
    for name in ["http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"] {
        command.env_remove(name);
    }
    ran(command.env("HF_ENDPOINT", endpoint))
}

#[test]
fn a_model_is_read_by_its_configuration_and_headers() {
    let place = Place::new();
    let all = tensors(0..2, true);
    let (head, data) = header(&all);
    let mut file = (head.len() as u64).to_le_bytes().to_vec();
    file.extend(&head);
    file.resize(file.len() + usize::try_from(data).expect("small"), 0);
    let at = |name: &str| format!("/acme/tiny/resolve/main/{name}");
    let files = BTreeMap::from([
        (at("config.json"), config_text(|_| {}).into_bytes()),
        (at("model.safetensors"), file),
    ]);
    let (endpoint, asked) = hub(files);
    let found = online(&place, &endpoint, "acme/tiny");
    assert_eq!(found.code, 0, "{}", found.err);
    let value: serde_json::Value = serde_json::from_str(&found.out).expect("JSON");
    assert_eq!(value["model"]["parameters"], elements(&all));
    assert_eq!(value["model"]["weight_bytes"], 2 * elements(&all));
    let origin = value["model"]["origin"].as_str().expect("text");
    assert!(origin.contains("headers of its tensors"), "{origin}");
    let asked = asked.lock().expect("not poisoned").clone();
    let parts = asked
        .iter()
        .filter(|(path, _)| path.ends_with(".safetensors"));
    assert!(parts.clone().count() > 0, "{asked:?}");
    for (path, range) in parts {
        assert!(range.is_some(), "all of {path} was asked for");
    }
}

#[test]
fn what_the_hub_does_not_give_is_said() {
    let place = Place::new();
    let (endpoint, asked) = hub(BTreeMap::new());
    let gated = online(&place, &endpoint, "acme/gated");
    assert_eq!(gated.code, 2);
    assert!(gated.err.contains("HF_TOKEN"), "{}", gated.err);
    let missing = online(&place, &endpoint, "acme/nothing");
    assert_eq!(missing.code, 2);
    assert!(
        missing.err.contains("without a config.json"),
        "{}",
        missing.err
    );
    assert!(missing.out.is_empty() && gated.out.is_empty());
    // A name of the catalogue is never looked up, nor anything offline.
    let before = asked.lock().expect("not poisoned").len();
    assert_eq!(online(&place, &endpoint, "meta-llama/Llama-3.1-8B").code, 0);
    let mut offline = place.command(&["memory", "acme/nothing", "--gpu", "L4"]);
    assert_eq!(ran(offline.env("HF_ENDPOINT", &endpoint)).code, 2);
    assert_eq!(asked.lock().expect("not poisoned").len(), before);
    let away = online(&place, "http://127.0.0.1:9", "acme/nothing");
    assert_eq!(away.code, 2);
    assert!(away.err.contains("cannot be reached"), "{}", away.err);
}
