//! An API server on loopback that holds what it is given and fails as it is told; lists with pages, watches
//! with bookmarks, lists as the beginning of a watch.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream, tcp::OwnedWriteHalf},
    sync::watch,
};

/// What the server does with the next request of a path, in place of the answer.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    /// A status with these words.
    Status(u16, &'static str),
    /// 410 as an event within a watch that has begun.
    Gone,
    /// The connection ends in the middle of the answer.
    Cut,
    /// It takes so long.
    Slow(Duration),
}

#[derive(Debug, Default)]
struct Shelf {
    objects: BTreeMap<(String, String), Arc<str>>,
    log: Vec<(u64, &'static str, Arc<str>)>,
}

#[derive(Debug, Default)]
struct State {
    version: u64,
    shelves: BTreeMap<String, Shelf>,
    faults: BTreeMap<String, VecDeque<Fault>>,
    /// What was asked, path and query.
    asked: Vec<String>,
    /// Whether lists can be the beginning of a watch.
    streaming: bool,
    /// Whether watches end at once.
    ends: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Server {
    pub(crate) url: String,
    state: Arc<Mutex<State>>,
    /// Grows with every change, and with every cut of all watches.
    changed: Arc<watch::Sender<(u64, u64)>>,
}

impl Server {
    pub(crate) async fn start(streaming: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
        let address = listener.local_addr().expect("an address");
        let out = Self {
            url: format!("http://{address}"),
            state: Arc::new(Mutex::new(State {
                version: 1,
                streaming,
                ..State::default()
            })),
            changed: Arc::new(watch::channel((1, 0)).0),
        };
        let server = out.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let server = server.clone();
                tokio::spawn(async move { server.serve(stream).await });
            }
        });
        out
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates or changes an object of this path; `%V` in the text becomes its version.
    pub(crate) fn put(&self, path: &str, namespace: &str, name: &str, text: &str) {
        let version = {
            let mut state = self.state();
            state.version += 1;
            let version = state.version;
            // An event is one line.
            let text = text.replace("%V", &version.to_string()).replace('\n', "");
            let text: Arc<str> = text.into();
            let things = state.shelves.entry(path.to_owned()).or_default();
            let key = (namespace.to_owned(), name.to_owned());
            let old = things.objects.insert(key, text.clone());
            let what = if old.is_some() { "MODIFIED" } else { "ADDED" };
            things.log.push((version, what, text));
            version
        };
        self.changed.send_modify(|seen| seen.0 = version);
    }

    pub(crate) fn delete(&self, path: &str, namespace: &str, name: &str) {
        let version = {
            let mut state = self.state();
            state.version += 1;
            let version = state.version;
            let Some(things) = state.shelves.get_mut(path) else {
                return;
            };
            let key = (namespace.to_owned(), name.to_owned());
            let Some(old) = things.objects.remove(&key) else {
                return;
            };
            things.log.push((version, "DELETED", old));
            version
        };
        self.changed.send_modify(|seen| seen.0 = version);
    }

    /// Changes without telling: a watch that goes on misses it.
    pub(crate) fn forget(&self, path: &str) {
        if let Some(things) = self.state().shelves.get_mut(path) {
            things.log.clear();
        }
    }

    pub(crate) fn fault(&self, path: &str, fault: Fault) {
        let mut state = self.state();
        state
            .faults
            .entry(path.to_owned())
            .or_default()
            .push_back(fault);
    }

    /// Ends all watches that go on.
    pub(crate) fn cut(&self) {
        self.changed.send_modify(|seen| seen.1 += 1);
    }

    /// From now on every watch ends at once, as if its time was over; or not any more.
    pub(crate) fn ends(&self, ends: bool) {
        self.state().ends = ends;
    }

    pub(crate) fn asked(&self, part: &str) -> usize {
        let state = self.state();
        state.asked.iter().filter(|one| one.contains(part)).count()
    }

    async fn serve(&self, stream: TcpStream) {
        let (read, mut write) = stream.into_split();
        let mut lines = BufReader::new(read).lines();
        loop {
            let Ok(Some(first)) = lines.next_line().await else {
                return;
            };
            while let Ok(Some(line)) = lines.next_line().await {
                if line.is_empty() {
                    break;
                }
            }
            let target = first.split(' ').nth(1).unwrap_or_default().to_owned();
            if self.answer(&target, &mut write).await.is_none() {
                return;
            }
        }
    }

    /// `None`: the connection ends.
    async fn answer(&self, target: &str, to: &mut OwnedWriteHalf) -> Option<()> {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let query: BTreeMap<&str, &str> = query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .collect();
        let fault = {
            let mut state = self.state();
            state.asked.push(target.to_owned());
            state.faults.get_mut(path).and_then(VecDeque::pop_front)
        };
        if path == "/version" {
            let text = r#"{"major":"1","minor":"37","gitVersion":"v1.37.2","gitCommit":"","gitTreeState":"","buildDate":"","goVersion":"","compiler":"","platform":""}"#;
            return whole(to, 200, text).await;
        }
        match fault {
            Some(Fault::Status(code, words)) => return whole(to, code, &status(code, words)).await,
            Some(Fault::Cut) => {
                let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 999\r\n\r\n{";
                to.write_all(head.as_bytes()).await.ok()?;
                return None;
            }
            Some(Fault::Slow(time)) => tokio::time::sleep(time).await,
            Some(Fault::Gone) if query.contains_key("watch") => {
                head(to).await?;
                let gone = status(410, "too old resource version");
                chunk(to, &format!("{{\"type\":\"ERROR\",\"object\":{gone}}}\n")).await?;
                return None;
            }
            _ => {}
        }
        if query.contains_key("watch") && self.state().ends {
            head(to).await?;
            return to.write_all(b"0\r\n\r\n").await.ok();
        }
        if query.contains_key("watch") {
            if query.contains_key("sendInitialEvents") && !self.state().streaming {
                let words = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
                return whole(to, 422, &status(422, words)).await;
            }
            return self.watch(path, &query, to).await;
        }
        let text = self.list(path, &query);
        whole(to, 200, &text).await
    }

    fn list(&self, path: &str, query: &BTreeMap<&str, &str>) -> String {
        let state = self.state();
        let limit: usize = query
            .get("limit")
            .and_then(|text| text.parse().ok())
            .unwrap_or(usize::MAX);
        let from: usize = query
            .get("continue")
            .and_then(|text| text.parse().ok())
            .unwrap_or(0);
        let version = state.version;
        let empty = Shelf::default();
        let things = state.shelves.get(path).unwrap_or(&empty);
        let items: Vec<&str> = things
            .objects
            .values()
            .skip(from)
            .take(limit)
            .map(AsRef::as_ref)
            .collect();
        let next = from + items.len();
        let more = if next < things.objects.len() {
            format!(",\"continue\":\"{next}\"")
        } else {
            String::new()
        };
        format!(
            "{{\"kind\":\"List\",\"apiVersion\":\"v1\",\"metadata\":{{\"resourceVersion\":\"{version}\"{more}}},\"items\":[{}]}}",
            items.join(",")
        )
    }

    async fn watch(
        &self,
        path: &str,
        query: &BTreeMap<&str, &str>,
        to: &mut OwnedWriteHalf,
    ) -> Option<()> {
        let mut changed = self.changed.subscribe();
        let cuts = changed.borrow_and_update().1;
        let from: u64 = query
            .get("resourceVersion")
            .and_then(|text| text.parse().ok())
            .unwrap_or(0);
        head(to).await?;
        let mut seen = from;
        if query.contains_key("sendInitialEvents") {
            let (all, version) = {
                let state = self.state();
                let things = state.shelves.get(path);
                let all: Vec<Arc<str>> = things
                    .map(|things| things.objects.values().cloned().collect())
                    .unwrap_or_default();
                (all, state.version)
            };
            for text in all {
                chunk(to, &format!("{{\"type\":\"ADDED\",\"object\":{text}}}\n")).await?;
            }
            chunk(
                to,
                &bookmark(
                    version,
                    ",\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}",
                ),
            )
            .await?;
            seen = version;
        }
        loop {
            let news: Vec<(u64, &'static str, Arc<str>)> = {
                let state = self.state();
                let log = state
                    .shelves
                    .get(path)
                    .map_or(&[][..], |things| &things.log);
                let at = log.partition_point(|(version, ..)| *version <= seen);
                log.iter().skip(at).cloned().collect()
            };
            for (version, what, text) in news {
                chunk(to, &format!("{{\"type\":\"{what}\",\"object\":{text}}}\n")).await?;
                seen = version;
            }
            changed.changed().await.ok()?;
            if changed.borrow_and_update().1 != cuts {
                return None;
            }
        }
    }
}

fn bookmark(version: u64, more: &str) -> String {
    format!(
        "{{\"type\":\"BOOKMARK\",\"object\":{{\"kind\":\"Any\",\"apiVersion\":\"v1\",\"metadata\":{{\"resourceVersion\":\"{version}\"{more}}}}}}}\n"
    )
}

fn status(code: u16, words: &str) -> String {
    format!(
        "{{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{{}},\"status\":\"Failure\",\"message\":\"{}\",\"reason\":\"\",\"code\":{code}}}",
        words.replace('"', "\\\"")
    )
}

async fn whole(to: &mut OwnedWriteHalf, code: u16, text: &str) -> Option<()> {
    let head = format!(
        "HTTP/1.1 {code} Status\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        text.len()
    );
    to.write_all(head.as_bytes()).await.ok()?;
    to.write_all(text.as_bytes()).await.ok()
}

async fn head(to: &mut OwnedWriteHalf) -> Option<()> {
    let head =
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    to.write_all(head.as_bytes()).await.ok()
}

async fn chunk(to: &mut OwnedWriteHalf, text: &str) -> Option<()> {
    let text = format!("{:x}\r\n{text}\r\n", text.len());
    to.write_all(text.as_bytes()).await.ok()
}
