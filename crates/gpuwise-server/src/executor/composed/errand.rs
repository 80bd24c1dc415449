//! One host is brought to have the GPUs that it is to have.

use super::refusal::Refusal;
use crate::redfish::{Block, Client, Places, State, System, Trouble};
use serde_json::json;
use std::{
    collections::{BTreeMap, BTreeSet},
    thread,
    time::{Duration, Instant},
};
use ureq::http::Method;

/// Between two looks at what the service is doing: the first, and the longest.
const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(5);

/// Which host, and what it is to have.
#[derive(Debug, Clone)]
pub(super) struct Errand {
    /// The name of its node, and of its system.
    pub(super) name: String,
    /// The block that it is made of.
    pub(super) host: String,
    /// Blocks of its GPUs.
    pub(super) wanted: BTreeSet<String>,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Came {
    /// GPUs that it cannot have, and why.
    pub(super) refused: BTreeMap<String, Refusal>,
}

/// What a look came to.
enum Step {
    /// It has what it is to have.
    There,
    /// The service is at work on it.
    Moving(&'static str),
    /// Something was done: what came of it is seen next.
    Did,
    /// It cannot have this one.
    Without(String, Refusal),
}

impl Errand {
    /// Composes until the host is as it is to be, or cannot be.
    pub(super) fn run(&self, client: &Client) -> Result<Came, Refusal> {
        let patience = client.settings.patience;
        let end = Instant::now() + patience;
        let mut came = Came::default();
        let mut wanted = self.wanted.clone();
        let mut wait = FIRST;
        loop {
            let last = match self.step(client, &wanted, end) {
                Ok(Step::There) => return Ok(came),
                Ok(Step::Did) => {
                    wait = FIRST;
                    continue;
                }
                Ok(Step::Without(block, why)) => {
                    wanted.remove(&block);
                    came.refused.insert(block, why);
                    continue;
                }
                Ok(Step::Moving(what)) => what.to_owned(),
                Err(Refusal::Service(trouble)) if trouble.passes() => {
                    if Instant::now() + wait >= end {
                        return Err(trouble.into());
                    }
                    trouble.to_string()
                }
                Err(refusal) => return Err(refusal),
            };
            if Instant::now() + wait >= end {
                return Err(Refusal::Late(patience.as_secs(), last));
            }
            thread::sleep(wait);
            wait = (wait * 2).min(LONGEST);
        }
    }

    fn step(
        &self,
        client: &Client,
        wanted: &BTreeSet<String>,
        end: Instant,
    ) -> Result<Step, Refusal> {
        let places = client.places()?;
        let host = block(client, &places, &self.host)?
            .ok_or_else(|| Refusal::Missing(self.host.clone()))?;
        match (host.state(), host.system()) {
            (State::Moving, _) => return Ok(Step::Moving("it is being composed")),
            (State::Failed, _) => return Err(Refusal::Failed(self.host.clone())),
            (State::Reserved, _) => return Err(Refusal::Reserved(self.host.clone())),
            (State::Unused | State::Composed, _) => {}
        }
        let Some(path) = host.system() else {
            if host.state() == State::Composed {
                return Ok(Step::Moving("it is being taken apart"));
            }
            if wanted.is_empty() {
                return Ok(Step::There);
            }
            return self.compose(client, (&places, &host), wanted, end);
        };
        let system: System = match client.get_once(path) {
            Err(Trouble::Missing(_)) => return Ok(Step::Moving("it is being taken apart")),
            other => other?,
        };
        if !self.is_ours(&system) {
            let (host, name) = (self.host.clone(), self.name.clone());
            return Err(Refusal::Taken(host, system.id, name));
        }
        self.change(client, (&places, &host, path, &system), wanted, end)
    }

    pub(super) fn is_ours(&self, system: &System) -> bool {
        is_named(system, &self.name)
    }

    fn compose(
        &self,
        client: &Client,
        (places, host): (&Places, &Block),
        wanted: &BTreeSet<String>,
        end: Instant,
    ) -> Result<Step, Refusal> {
        let paths = match self.takeable(client, places, host, &BTreeSet::new(), wanted)? {
            Ok(paths) => paths,
            Err(step) => return Ok(step),
        };
        let links: Vec<_> = std::iter::once(&host.path)
            .chain(&paths)
            .map(|path| json!({"@odata.id": path}))
            .collect();
        let body = json!({"Name": self.name, "Links": {"ResourceBlocks": links}});
        client.act(&Method::POST, &places.systems, Some(&body), end)?;
        Ok(Step::Did)
    }

    /// A composed host has other GPUs than it is to have.
    fn change(
        &self,
        client: &Client,
        (places, host, path, system): (&Places, &Block, &str, &System),
        wanted: &BTreeSet<String>,
        end: Instant,
    ) -> Result<Step, Refusal> {
        let has: BTreeSet<String> = system
            .blocks()
            .filter(|block| *block != host.path)
            .map(|block| last(block).to_owned())
            .collect();
        if has == *wanted {
            return Ok(Step::There);
        }
        let paths = match self.takeable(client, places, host, &has, wanted)? {
            Ok(paths) => paths,
            Err(step) => return Ok(step),
        };
        if wanted.is_empty() {
            client.act(&Method::DELETE, path, None, end)?;
        } else if let Some((add, remove)) = system.changes() {
            let gone = system
                .blocks()
                .filter(|block| *block != host.path && !wanted.contains(last(block)));
            let one = |path: &str| json!({"ResourceBlock": {"@odata.id": path}});
            for block in gone {
                client.act(&Method::POST, remove, Some(&one(block)), end)?;
            }
            for block in paths.iter().filter(|path| !has.contains(last(path))) {
                client.act(&Method::POST, add, Some(&one(block)), end)?;
            }
        } else if client.patches(places)? {
            let links: Vec<_> = std::iter::once(&host.path)
                .chain(&paths)
                .map(|path| json!({"@odata.id": path}))
                .collect();
            let body = json!({"Links": {"ResourceBlocks": links}});
            client.act(&Method::PATCH, path, Some(&body), end)?;
        } else {
            // It is composed anew at the next look.
            client.act(&Method::DELETE, path, None, end)?;
        }
        Ok(Step::Did)
    }

    /// Paths of the blocks that it is to have, where it can have all of them; those of `has` are in it.
    fn takeable(
        &self,
        client: &Client,
        places: &Places,
        host: &Block,
        has: &BTreeSet<String>,
        wanted: &BTreeSet<String>,
    ) -> Result<Result<Vec<String>, Step>, Refusal> {
        let mut found = Vec::new();
        for id in wanted {
            let without = |why| Ok(Err(Step::Without(id.clone(), why)));
            let Some(block) = block(client, places, id)? else {
                return without(Refusal::Missing(id.clone()));
            };
            match block.state() {
                _ if has.contains(id) => {}
                State::Unused => {}
                State::Failed => return without(Refusal::Failed(id.clone())),
                State::Reserved => return without(Refusal::Reserved(id.clone())),
                State::Moving => return Ok(Err(Step::Moving("a GPU is on its way"))),
                State::Composed => {
                    let by = block.system().map_or("another system", last).to_owned();
                    return without(Refusal::InUse(id.clone(), by));
                }
            }
            found.push(block);
        }
        if let Some(odd) = out_of_zone(host, &found, has) {
            let why = Refusal::NoCommonZone(odd.clone(), self.host.clone());
            return Ok(Err(Step::Without(odd, why)));
        }
        Ok(Ok(found.into_iter().map(|block| block.path).collect()))
    }
}

/// Whether a system is called so.
pub(super) fn is_named(system: &System, name: &str) -> bool {
    system.name == name || system.id == name
}

/// The last part of a path: the Id of what is there.
pub(super) fn last(path: &str) -> &str {
    path.trim_end_matches('/')
        .rsplit('/')
        .next()
        .unwrap_or(path)
}

fn block(client: &Client, places: &Places, id: &str) -> Result<Option<Block>, Trouble> {
    let path = format!("{}/{id}", places.blocks.trim_end_matches('/'));
    match client.get_once::<Block>(&path) {
        Ok(block) => Ok(Some(block.at(path))),
        Err(Trouble::Missing(_)) => Ok(None),
        Err(trouble) => Err(trouble),
    }
}

/// A block that is in no zone in which the host and most others are; `None`: all are in one.
fn out_of_zone(host: &Block, blocks: &[Block], has: &BTreeSet<String>) -> Option<String> {
    let outside = |zone: &str| {
        let away = blocks
            .iter()
            .filter(|block| !block.zones().any(|one| one == zone));
        let away: Vec<&Block> = away.collect();
        let held = away
            .iter()
            .filter(|block| has.contains(last(&block.path)))
            .count();
        (
            held,
            away.len(),
            away.first().map(|block| last(&block.path).to_owned()),
        )
    };
    let mut zones = host.zones().map(outside).collect::<Vec<_>>();
    if zones.is_empty() {
        // A service without zones composes all with all.
        let odd = blocks.iter().find(|block| block.zones().next().is_some());
        return odd.map(|block| last(&block.path).to_owned());
    }
    zones.sort();
    zones.into_iter().next().and_then(|(_, _, first)| first)
}
