//! A small Redfish service with one host in each of two zones: what the DMTF's emulator cannot do (changing a composed
//! system, tasks, sessions, answers that are lost) is tried on it.

use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex, MutexGuard},
    thread,
};

const BLOCKS: &str = "/redfish/v1/CompositionService/ResourceBlocks";
const ZONES: &str = "/redfish/v1/CompositionService/ResourceZones";

/// How composed systems are changed there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Changes {
    Never,
    Patch,
    Actions,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) changes: Changes,
    /// Whether composing answers with a task.
    pub(super) tasks: bool,
    /// The token that requests must have.
    pub(super) token: Option<String>,
    /// Of changing requests so many are done and their answers lost.
    pub(super) lost: u32,
    /// So many requests are answered with 503.
    pub(super) busy: u32,
    /// Blocks of GPUs: the zone, and the state where it is not that of its system.
    pub(super) gpus: BTreeMap<String, (u32, Option<&'static str>)>,
    /// Systems by name, with their blocks.
    pub(super) systems: BTreeMap<String, Vec<String>>,
    /// Requests that change something.
    pub(super) done: Vec<String>,
}

#[derive(Debug, Clone)]
pub(super) struct Service {
    pub(super) url: String,
    inner: Arc<Mutex<Inner>>,
}

impl Service {
    pub(super) fn start(changes: Changes) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listens");
        let address = listener.local_addr().expect("an address");
        let gpus = (1..=6).map(|number| (format!("G{number}"), (1 + number / 5, None)));
        let inner = Inner {
            changes,
            tasks: false,
            token: None,
            lost: 0,
            busy: 0,
            gpus: gpus.collect(),
            systems: BTreeMap::new(),
            done: Vec::new(),
        };
        let service = Self {
            url: format!("http://{address}"),
            inner: Arc::new(Mutex::new(inner)),
        };
        let own = service.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                own.answer(&stream);
            }
        });
        service
    }

    pub(super) fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("not poisoned")
    }

    /// Blocks of a system beside its host's.
    pub(super) fn gpus_of(&self, system: &str) -> Vec<String> {
        let inner = self.inner();
        let blocks = inner.systems.get(system).into_iter().flatten();
        blocks.filter(|one| one.starts_with('G')).cloned().collect()
    }

    fn answer(&self, stream: &TcpStream) {
        let mut reader = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).unwrap_or(0) == 0 {
                return;
            }
        }
        let header = |name: &str| {
            let mut lines = head.lines().filter_map(|line| line.split_once(':'));
            let found = lines.find(|(key, _)| key.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.trim().to_owned())
        };
        let length = header("content-length").and_then(|text| text.parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        reader.read_exact(&mut body).expect("a body");
        let mut words = head.split(' ');
        let (method, path) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        let body: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let mut inner = self.inner();
        if inner.busy > 0 {
            inner.busy -= 1;
            return send(stream, 503, &Value::Null, &[]);
        }
        let logs_in = path.ends_with("/Sessions") || path == "/redfish/v1/";
        if inner.token.is_some() && inner.token != header("x-auth-token") && !logs_in {
            return send(stream, 401, &Value::Null, &[]);
        }
        let (status, answer, headers) = inner.request(method, path, &body);
        if method != "GET" && !path.ends_with("/Sessions") {
            inner.done.push(format!("{method} {path} {status}"));
            if inner.lost > 0 {
                inner.lost -= 1;
                return;
            }
        }
        drop(inner);
        send(stream, status, &answer, &headers);
    }
}

type Headers = Vec<(&'static str, String)>;

fn send(mut stream: &TcpStream, status: u16, body: &Value, headers: &[(&str, String)]) {
    let headers: String = headers
        .iter()
        .flat_map(|(name, value)| [*name, ": ", value, "\r\n"])
        .collect();
    let (body, kind) = (body.to_string(), "Content-Type: application/json");
    let length = body.len();
    let text = format!(
        "HTTP/1.1 {status} X\r\nConnection: close\r\n{kind}\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
    );
    // Who asked may have gone.
    let _ = stream.write_all(text.as_bytes());
}

fn link(path: &str) -> Value {
    json!({"@odata.id": path})
}

fn name_of(link: &Value) -> String {
    let path = link["@odata.id"].as_str().unwrap_or_default();
    path.rsplit('/').next().unwrap_or_default().to_owned()
}

impl Inner {
    fn block(&self, id: &str) -> Option<Value> {
        let host = id.starts_with('C');
        let (zone, state) = match id {
            "C1" => (1, None),
            "C2" => (2, None),
            gpu => *self.gpus.get(gpu)?,
        };
        let mut systems = self.systems.iter();
        let system = systems.find(|(_, blocks)| blocks.iter().any(|one| one == id));
        let own = if system.is_some() {
            "Composed"
        } else {
            "Unused"
        };
        let systems: Vec<Value> = (system.iter())
            .map(|(name, _)| link(&format!("/redfish/v1/Systems/{name}")))
            .collect();
        Some(json!({
            "Id": id,
            "ResourceBlockType": [if host { "Compute" } else { "Processor" }],
            "CompositionStatus": {"CompositionState": state.unwrap_or(own)},
            "Processors": [],
            "Links": {"ComputerSystems": systems, "Zones": [link(&format!("{ZONES}/Z{zone}"))]},
        }))
    }

    fn system(&self, name: &str) -> Option<Value> {
        let blocks = self.systems.get(name)?;
        let links: Vec<Value> = blocks
            .iter()
            .map(|one| link(&format!("{BLOCKS}/{one}")))
            .collect();
        let path = format!("/redfish/v1/Systems/{name}");
        let action = |what: &str| json!({"target": format!("{path}/Actions/{what}")});
        let actions = if self.changes == Changes::Actions {
            json!({"#ComputerSystem.AddResourceBlock": action("Add"), "#ComputerSystem.RemoveResourceBlock": action("Remove")})
        } else {
            json!({})
        };
        Some(
            json!({"Id": name, "Name": name, "Links": {"ResourceBlocks": links}, "Actions": actions}),
        )
    }

    fn is_free(&self, id: &str) -> bool {
        self.block(id)
            .is_some_and(|block| block["CompositionStatus"]["CompositionState"] == "Unused")
    }

    fn request(&mut self, method: &str, path: &str, body: &Value) -> (u16, Value, Headers) {
        let found = |value: Option<Value>| match value {
            Some(value) => (200, value, Vec::new()),
            None => (404, Value::Null, Vec::new()),
        };
        let members = |of: &str, ids: &mut dyn Iterator<Item = String>| {
            let all: Vec<Value> = ids.map(|id| link(&format!("{of}/{id}"))).collect();
            (200, json!({"Members": all}), Vec::new())
        };
        let parts: Vec<&str> = path
            .trim_start_matches("/redfish/v1")
            .trim_matches('/')
            .split('/')
            .collect();
        match (method, parts.as_slice()) {
            ("GET", [""]) => {
                let service = link("/redfish/v1/CompositionService");
                found(Some(
                    json!({"Systems": link("/redfish/v1/Systems"), "CompositionService": service}),
                ))
            }
            ("POST", ["SessionService", "Sessions"]) => {
                let token = format!("{}-token", body["UserName"].as_str().unwrap_or_default());
                self.token = Some(token.clone());
                (201, json!({}), vec![("X-Auth-Token", token)])
            }
            ("GET", ["CompositionService"]) => found(Some(
                json!({"ResourceBlocks": link(BLOCKS), "ResourceZones": link(ZONES)}),
            )),
            ("GET", ["CompositionService", "ResourceBlocks"]) => {
                let hosts = ["C1", "C2"].map(String::from).into_iter();
                members(BLOCKS, &mut hosts.chain(self.gpus.keys().cloned()))
            }
            ("GET", ["CompositionService", "ResourceBlocks", id]) => found(self.block(id)),
            ("GET", ["CompositionService", "ResourceZones"]) => {
                members(ZONES, &mut ["Z1", "Z2"].map(String::from).into_iter())
            }
            ("GET", ["CompositionService", "ResourceZones", id]) => {
                let capability = json!({"UseCase": "ComputerSystemComposition", "CapabilitiesObject": link("/redfish/v1/Systems/Capabilities")});
                found(Some(
                    json!({"Id": id, "@Redfish.CollectionCapabilities": {"Capabilities": [capability]}}),
                ))
            }
            ("GET", ["Systems", "Capabilities"]) => {
                let updatable = self.changes == Changes::Patch;
                found(Some(
                    json!({"Links": {"ResourceBlocks@Redfish.UpdatableAfterCreate": updatable}}),
                ))
            }
            ("GET", ["Systems", name]) => found(self.system(name)),
            ("GET", ["TaskService", "Tasks", _]) => found(Some(json!({"TaskState": "Completed"}))),
            _ => self.change(method, &parts, body),
        }
    }

    fn change(&mut self, method: &str, parts: &[&str], body: &Value) -> (u16, Value, Headers) {
        let blocks = || {
            let links = body["Links"]["ResourceBlocks"].as_array().cloned();
            links
                .unwrap_or_default()
                .iter()
                .map(name_of)
                .collect::<Vec<_>>()
        };
        let said = match (method, parts) {
            ("POST", ["Systems"]) => {
                let name = body["Name"].as_str().unwrap_or_default().to_owned();
                let blocks = blocks();
                if self.systems.contains_key(&name) || !blocks.iter().all(|one| self.is_free(one)) {
                    return (409, Value::Null, Vec::new());
                }
                self.systems.insert(name, blocks);
                201
            }
            ("DELETE", ["Systems", name]) => self.systems.remove(*name).map_or(404, |_| 204),
            ("PATCH", ["Systems", name]) if self.changes == Changes::Patch => {
                self.systems.insert((*name).to_owned(), blocks());
                200
            }
            ("POST", ["Systems", name, "Actions", what]) if self.changes == Changes::Actions => {
                let block = name_of(&body["ResourceBlock"]);
                let free = self.is_free(&block);
                let has = self.systems.get_mut(*name).expect("is there");
                match *what {
                    "Add" if free => has.push(block),
                    "Add" => return (409, Value::Null, Vec::new()),
                    _ => has.retain(|one| *one != block),
                }
                204
            }
            _ => 405,
        };
        if self.tasks && said < 300 {
            let monitor = "/redfish/v1/TaskService/Tasks/1".to_owned();
            return (202, json!({}), vec![("Location", monitor)]);
        }
        (said, json!({}), Vec::new())
    }
}
