//! What pods write, read by the API as they write it, and kept in a file for each pod: it is there when the pod is
//! not any more, and a broker that starts again goes on where it was.

use super::{ask::CONTAINER, seen::PodSeen, work::say};
use futures_util::AsyncReadExt as _;
use gpuwise_broker::{Logs, OrderId, Piece, lease_id};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, api::LogParams};
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::PathBuf,
    time::Duration,
};
use tokio::{sync::mpsc::UnboundedSender, task::JoinHandle};

/// How often is tried again where it cannot be read, and after how long: twice as long each time, up to half a
/// minute.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);

/// The folder.
#[derive(Debug, Clone)]
pub(super) struct Place(pub(super) PathBuf);

impl Place {
    fn folder(&self, lease: u32, worker: u32) -> PathBuf {
        self.0
            .join("pods")
            .join(lease_id(lease))
            .join(worker.to_string())
    }

    fn file(&self, pod: &PodSeen) -> PathBuf {
        let name = format!("{}.log", pod.order.0);
        self.folder(pod.lease, pod.worker).join(name)
    }

    /// Files of a worker, one for each time that it was started, the first ones first.
    fn files(&self, lease: u32, worker: u32) -> io::Result<Vec<PathBuf>> {
        let listed = match fs::read_dir(self.folder(lease, worker)) {
            Ok(listed) => listed,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut files = BTreeMap::new();
        for entry in listed {
            let path = entry?.path();
            let order = path
                .file_stem()
                .and_then(|name| name.to_str()?.parse().ok());
            if let Some(order) = order {
                files.insert(OrderId(order), path);
            }
        }
        Ok(files.into_values().collect())
    }
}

impl Logs for Place {
    fn read(&self, lease: u32, worker: u32, after: u64, most: u64) -> io::Result<Option<Piece>> {
        let files = self.files(lease, worker)?;
        if files.is_empty() {
            return Ok(None);
        }
        let (mut size, mut bytes) = (0, Vec::new());
        for path in files {
            let mut file = File::open(path)?;
            let own = file.metadata()?.len();
            let from = after.saturating_sub(size).min(own);
            let room = most.saturating_sub(bytes.len() as u64);
            file.seek(SeekFrom::Start(from))?;
            file.take(room.min(own - from)).read_to_end(&mut bytes)?;
            size += own;
        }
        Ok(Some(Piece {
            bytes,
            from: after.min(size),
            first: 0,
            size,
        }))
    }
}

/// Who reads what pods write.
#[derive(Debug)]
pub(super) struct Followers {
    pods: Api<Pod>,
    place: Place,
    read: UnboundedSender<String>,
    running: BTreeMap<String, JoinHandle<()>>,
}

impl Followers {
    pub(super) fn new(pods: Api<Pod>, place: Place, read: UnboundedSender<String>) -> Self {
        Self {
            pods,
            place,
            read,
            running: BTreeMap::new(),
        }
    }

    /// Reads a pod from when it has begun.
    pub(super) fn follow(&mut self, name: &str, pod: &PodSeen) {
        if !pod.has_begun() || self.running.contains_key(name) {
            return;
        }
        let (api, file) = (self.pods.clone(), self.place.file(pod));
        let (read, name) = (self.read.clone(), name.to_owned());
        let own = name.clone();
        let reads = tokio::spawn(async move {
            if let Err(why) = follow(&api, &own, &file).await {
                say(&format!("What {own} writes cannot be kept: {why}"));
            }
            // The thread may have ended.
            let _ = read.send(own);
        });
        self.running.insert(name, reads);
    }

    /// Whether more may come of a pod.
    pub(super) fn reads(&self, name: &str) -> bool {
        self.running.get(name).is_some_and(|one| !one.is_finished())
    }

    /// A pod is not there any more; what is on its way is read to its end.
    pub(super) fn forget(&mut self, name: &str) {
        self.running.remove(name);
    }
}

async fn follow(api: &Api<Pod>, name: &str, path: &PathBuf) -> Result<(), String> {
    let words = |error: io::Error| format!("{}: {error}", path.display());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(words)?;
    }
    let file = File::options().create(true).append(true).open(path);
    let mut file = file.map_err(words)?;
    let params = LogParams {
        container: Some(CONTAINER.into()),
        follow: true,
        ..LogParams::default()
    };
    let mut last = String::new();
    for tried in 0..TRIES {
        if tried > 0 {
            tokio::time::sleep((PAUSE * (1 << (tried - 1).min(5))).min(LONGEST)).await;
        }
        // What is kept already is not kept twice.
        let mut skip = file.metadata().map_err(words)?.len();
        let mut stream = match api.log_stream(name, &params).await {
            Ok(stream) => Box::pin(stream),
            Err(error) => {
                // Of a pod that is not there any more, no more comes.
                if matches!(api.get_metadata_opt(name).await, Ok(None)) {
                    return Ok(());
                }
                last = error.to_string();
                continue;
            }
        };
        let mut buffer = vec![0; 16 * 1024];
        loop {
            match stream.read(&mut buffer).await {
                Ok(0) => return Ok(()),
                Ok(count) => {
                    let old = usize::try_from(skip).unwrap_or(usize::MAX).min(count);
                    skip -= old as u64;
                    file.write_all(&buffer[old..count]).map_err(words)?;
                }
                Err(error) => {
                    last = error.to_string();
                    break;
                }
            }
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A worker that was started three times is one text, and each piece of it is found by its offset.
    #[test]
    fn starts_of_a_worker_are_one_text() {
        let folder = std::env::temp_dir().join(format!("gpuwise-pods-{}", std::process::id()));
        let place = Place(folder.clone());
        assert_eq!(place.read(7, 0, 0, 10).expect("reads"), None);
        for (order, text) in [(9, "first "), (10, ""), (123, "third")] {
            let path = place.folder(7, 0).join(format!("{order}.log"));
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, text).expect("writes");
        }
        let whole = "first third";
        for after in 0..=12 {
            for most in 0..=12 {
                let piece = place.read(7, 0, after, most).expect("reads").expect("some");
                let from = (after as usize).min(whole.len());
                let to = (from + most as usize).min(whole.len());
                assert_eq!(piece.bytes, &whole.as_bytes()[from..to], "{after} {most}");
                assert_eq!(piece.size, 11);
            }
        }
        fs::remove_dir_all(folder).expect("removes");
    }
}
