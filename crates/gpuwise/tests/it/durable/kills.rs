//! Killed at any moment under load, a broker loses no lease, doubles none, and makes no money.
//!
//! `GPUWISE_KILLS` says how often (20), `GPUWISE_SEED` when; `benches/kills/run` does it a thousand times.

use super::{Daemon, Site, client::Client};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

const CLIENTS: u64 = 4;

/// What was asked under a key was answered with this lease.
type Answered = Mutex<Vec<(String, String)>>;

fn number(variable: &str, usual: u64) -> u64 {
    let given = std::env::var(variable).ok();
    given.map_or(usual, |text| text.parse().expect("a number"))
}

/// Pseudo-random numbers (xorshift, G. Marsaglia 2003).
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// How many GPUs are asked for under a key.
fn gpus(key: &str) -> i128 {
    let (_, number) = key.split_once('-').expect("a number");
    number.parse::<i128>().expect("a number") % 3 + 1
}

/// Asks for lease after lease, each again until it is answered; gives two of three back.
fn ask(client: u64, at: &Mutex<Client>, answered: &Answered, over: &AtomicBool) {
    for number in 0.. {
        let key = format!("c{client}-{number}");
        let id = loop {
            if over.load(Ordering::Relaxed) {
                return;
            }
            let broker = at.lock().expect("no panic").clone();
            let count = u32::try_from(gpus(&key)).expect("few");
            match broker.lease(&key, count) {
                Some(answer) if matches!(answer.status, 200 | 201) => {
                    break answer.json()["id"].as_str().expect("an id").to_owned();
                }
                Some(answer) => assert_eq!(answer.status, 503, "{}", answer.text),
                None => thread::park_timeout(Duration::from_millis(2)),
            }
        };
        if number % 3 > 0 {
            let broker = at.lock().expect("no panic").clone();
            // It may be over, or the broker gone: it ends by itself, too.
            let _ = broker.ask("DELETE", &format!("/v1/leases/{id}"), "", "");
        }
        answered.lock().expect("no panic").push((key, id));
        thread::park_timeout(Duration::from_millis(5));
    }
}

#[test]
fn killed_at_any_moment_it_loses_and_doubles_nothing_and_makes_no_money() {
    let kills = number("GPUWISE_KILLS", 20);
    let mut chance = Chance(number("GPUWISE_SEED", 17) | 1);
    let site = Site::sqlite();
    let (mut daemon, client) = site.serve("said-0");
    client.tenant("vision");
    let (at, answered, over) = (
        Mutex::new(client),
        Answered::default(),
        AtomicBool::new(false),
    );
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (at, answered, over) = (&at, &answered, &over);
            scope.spawn(move || ask(client, at, answered, over));
        }
        let mut early = 0;
        for kill in 1..=kills {
            // Some are killed before they answer anything.
            thread::park_timeout(Duration::from_millis(chance.below(300)));
            daemon.kill();
            daemon = site.start(&format!("said-{kill}"));
            if chance.below(4) == 0 && kill < kills {
                early += 1;
            } else {
                *at.lock().expect("no panic") = daemon.leads(&site);
            }
        }
        over.store(true, Ordering::Relaxed);
        println!("{kills} kills, {early} of them before anything was answered");
    });
    end(
        &site,
        &mut daemon,
        &answered.into_inner().expect("no panic"),
    );
}

/// Compares what was answered with what is in the log, and the money with what the log says was held.
fn end(site: &Site, daemon: &mut Daemon, answered: &[(String, String)]) {
    daemon.signal("-TERM");
    assert_eq!(daemon.end().code(), Some(0), "{}", daemon.said());
    let told = Told::of(&events(site));
    println!(
        "{} leases answered, {} in the log",
        answered.len(),
        told.keys.len()
    );
    assert!(!answered.is_empty());
    for (key, id) in answered {
        let leases = told.keys.get(key).map_or(&[][..], Vec::as_slice);
        assert_eq!(leases, std::slice::from_ref(id), "{key}");
    }
    for (key, leases) in &told.keys {
        assert_eq!(leases.len(), 1, "{key}: {leases:?}");
    }
    let checked = site.check();
    assert_eq!(checked["leases"], told.keys.len());
    let charged = &checked["money"][0]["charged"];
    let difference = micros(charged.as_str().expect("an amount")) - told.micros();
    // Each line of a statement is rounded once, half a µ-unit at most.
    let most = i128::try_from(told.keys.len()).expect("few") / 2 + 1;
    println!("charged {charged}, {difference} µUSD from what was held, of {most}");
    assert!(
        difference.abs() <= most,
        "{charged}: {difference} µUSD too much"
    );
}

fn events(site: &Site) -> Vec<(i128, Value)> {
    let database = rusqlite::Connection::open(site.place.path("log.db")).expect("opens");
    let mut rows = database
        .prepare("SELECT at_ns, body FROM log_events ORDER BY seq")
        .expect("a statement");
    let event = |row: &rusqlite::Row<'_>| {
        let (at, body): (i64, String) = (row.get(0)?, row.get(1)?);
        Ok((at.into(), serde_json::from_str(&body).expect("JSON")))
    };
    let all = rows.query_map([], event).expect("rows");
    all.map(|row| row.expect("a row")).collect()
}

/// `12.345678 USD` in millionths.
fn micros(amount: &str) -> i128 {
    let number = amount.strip_suffix(" USD").expect("dollars");
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{part:0<6}");
    digits.parse().expect("a number")
}

/// What a log tells, read without the broker.
#[derive(Default)]
struct Told {
    /// Leases by the keys under which they were asked for.
    keys: BTreeMap<String, Vec<String>>,
    /// GPUs × nanoseconds.
    held: i128,
}

impl Told {
    fn of(events: &[(i128, Value)]) -> Self {
        let mut told = Self::default();
        let mut count: BTreeMap<u64, i128> = BTreeMap::new();
        let mut since: BTreeMap<u64, i128> = BTreeMap::new();
        let mut holders: BTreeMap<u64, u64> = BTreeMap::new();
        let mut last = 0;
        for (at, event) in events {
            last = *at;
            if let Some(asked) = event.get("lease_requested") {
                let key = asked["key"][0].as_str().expect("a key").to_owned();
                let lease = asked["lease"].as_u64().expect("a number");
                count.insert(lease, gpus(&key));
                told.keys.entry(key).or_default().push(format!("L-{lease}"));
            }
            for (job, gpus) in placed(event) {
                let distinct: BTreeSet<u64> = gpus.iter().copied().collect();
                assert_eq!(distinct.len() as i128, count[&job], "L-{job}");
                for gpu in gpus {
                    let before = holders.insert(gpu, job);
                    assert_eq!(before, None, "GPU {gpu} was L-{job}'s and another's");
                }
            }
            let done = event.pointer("/fleet/event/done/action/place/job");
            if let Some(job) = done.and_then(Value::as_u64) {
                assert_eq!(since.insert(job, *at), None, "L-{job} began twice");
            }
            if let Some(job) = event.pointer("/ended/lease").and_then(Value::as_u64) {
                holders.retain(|_, holder| *holder != job);
                let began = since.remove(&job);
                told.held += began.map_or(0, |began| (at - began) * count[&job]);
                assert!(count.remove(&job).is_some(), "L-{job} ended twice");
            }
        }
        for (job, began) in since {
            told.held += (last - began) * count[&job];
        }
        told
    }

    /// At 2.50 USD an hour.
    fn micros(&self) -> i128 {
        const HOUR: i128 = 3_600_000_000_000;
        (self.held * 2_500_000 + HOUR / 2) / HOUR
    }
}

/// Jobs that an event places, and their GPUs.
fn placed(event: &Value) -> Vec<(u64, Vec<u64>)> {
    let actions = event.pointer("/planned/plan/actions");
    let actions = actions.and_then(Value::as_array).into_iter().flatten();
    let placed = actions.filter_map(|action| action.get("place"));
    placed
        .map(|place| {
            let workers = place["assignments"].as_array().expect("a list").iter();
            let shares = workers.flat_map(|one| one["gpus"].as_array().expect("a list"));
            let gpus = shares.map(|share| share["gpu"].as_u64().expect("a number"));
            (place["job"].as_u64().expect("a number"), gpus.collect())
        })
        .collect()
}
