//! Hosts are brought to have the GPUs that they are to have, whatever the service can do and however it answers.

mod service;

use super::{
    errand::{Came, Errand},
    look::look,
    refusal::Refusal,
};
use crate::redfish::{Client, Credentials, Secret, Settings};
use gpuwise_broker::{GpuSeen, Observation};
use gpuwise_units::RandomStream;
use service::{Changes, Service};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

fn settings(service: &Service) -> Settings {
    let mut settings = Settings::new(&service.url);
    settings.patience = Duration::from_secs(20);
    settings
}

fn set(gpus: &[&str]) -> BTreeSet<String> {
    gpus.iter().map(|&gpu| gpu.to_owned()).collect()
}

fn composed(service: &Service, gpus: &[&str]) -> Result<Came, Refusal> {
    let errand = Errand {
        name: "one".into(),
        host: "C1".into(),
        wanted: set(gpus),
    };
    errand.run(&Client::new(settings(service)))
}

#[test]
fn a_host_that_gets_more_is_changed_where_that_is_possible_and_else_composed_anew() {
    let first = ["POST /redfish/v1/Systems 201"];
    let cases: [(Changes, &[&str]); 3] = [
        (
            Changes::Never,
            &[
                "DELETE /redfish/v1/Systems/one 204",
                "POST /redfish/v1/Systems 201",
            ],
        ),
        (Changes::Patch, &["PATCH /redfish/v1/Systems/one 200"]),
        (
            Changes::Actions,
            &[
                "POST /redfish/v1/Systems/one/Actions/Remove 204",
                "POST /redfish/v1/Systems/one/Actions/Add 204",
            ],
        ),
    ];
    for (changes, then) in cases {
        let service = Service::start(changes);
        assert_eq!(composed(&service, &["G1", "G2"]), Ok(Came::default()));
        assert_eq!(composed(&service, &["G1", "G2"]), Ok(Came::default()));
        assert_eq!(composed(&service, &["G1", "G3"]), Ok(Came::default()));
        assert_eq!(
            set(&["G1", "G3"]),
            service.gpus_of("one").into_iter().collect()
        );
        assert_eq!(service.inner().done, [&first, then].concat());
        assert_eq!(composed(&service, &[]), Ok(Came::default()));
        assert!(service.inner().systems.is_empty());
    }
}

#[test]
fn tasks_are_waited_for_and_sessions_begun_again() {
    let service = Service::start(Changes::Never);
    service.inner().tasks = true;
    service.inner().token = Some("another".into());
    let mut settings = settings(&service);
    settings.credentials = Credentials::Session("ann".into(), Secret("pass".into()));
    assert!(!format!("{settings:?}").contains("pass"));
    let client = Client::new(settings);
    let mut errand = Errand {
        name: "one".into(),
        host: "C1".into(),
        wanted: set(&["G1"]),
    };
    assert_eq!(errand.run(&client), Ok(Came::default()));
    // It has forgotten our session.
    service.inner().token = Some("third".into());
    errand.wanted = set(&["G2"]);
    assert_eq!(errand.run(&client), Ok(Came::default()));
    assert_eq!(service.gpus_of("one"), ["G2"]);
}

#[test]
fn a_gpu_that_cannot_be_had_is_named_and_the_others_come() {
    let service = Service::start(Changes::Never);
    service
        .inner()
        .systems
        .insert("theirs".into(), vec!["C2".into(), "G2".into()]);
    service
        .inner()
        .gpus
        .insert("G3".into(), (1, Some("Failed")));
    let came = composed(&service, &["G1", "G2", "G3", "G5", "G9"]).expect("is composed");
    let refused = [
        ("G2", Refusal::InUse("G2".into(), "theirs".into())),
        ("G3", Refusal::Failed("G3".into())),
        ("G5", Refusal::NoCommonZone("G5".into(), "C1".into())),
        ("G9", Refusal::Missing("G9".into())),
    ];
    let refused = refused.map(|(gpu, why)| (gpu.to_owned(), why));
    assert_eq!(came.refused, BTreeMap::from(refused));
    assert_eq!(service.gpus_of("one"), ["G1"]);
}

#[test]
fn a_host_that_somebody_else_composed_is_left_alone() {
    let service = Service::start(Changes::Never);
    service
        .inner()
        .systems
        .insert("theirs".into(), vec!["C1".into(), "G2".into()]);
    let refused = Refusal::Taken("C1".into(), "theirs".into(), "one".into());
    assert_eq!(composed(&service, &["G1"]), Err(refused));
    assert_eq!(service.gpus_of("theirs"), ["G2"]);
}

#[test]
fn every_gpu_is_told_where_it_is() {
    let service = Service::start(Changes::Never);
    service
        .inner()
        .systems
        .insert("one".into(), vec!["C1".into(), "G1".into()]);
    service
        .inner()
        .systems
        .insert("theirs".into(), vec!["C2".into(), "G2".into()]);
    service
        .inner()
        .gpus
        .insert("G3".into(), (1, Some("Failed")));
    service
        .inner()
        .gpus
        .insert("G4".into(), (1, Some("Composing")));
    let hosts = [("C1", "one"), ("C2", "two")].map(|(block, name)| (block.into(), name.into()));
    let gpus = set(&["G1", "G2", "G3", "G4", "G5", "G9"]);
    let client = Client::new(settings(&service));
    let told = |busy: &[&str]| {
        let busy = busy.iter().copied().collect();
        let looked = look(&client, &BTreeMap::from(hosts.clone()), &gpus, &busy).expect("is asked");
        let seen = looked.gpus.into_iter().map(|one| match one {
            Observation::Gpu { uid, seen } => (uid.replace("ResourceBlocks/", ""), seen),
            other => panic!("{other:?}"),
        });
        (seen.collect::<BTreeMap<String, GpuSeen>>(), looked.hosts)
    };
    let all = [
        ("G1", GpuSeen::At("one".into())),
        ("G2", GpuSeen::Taken),
        ("G3", GpuSeen::Failed),
        ("G5", GpuSeen::Free),
        ("G9", GpuSeen::Missing),
    ];
    let all = BTreeMap::from(all.map(|(gpu, seen)| (gpu.to_owned(), seen)));
    let ours = [("C1".to_owned(), true), ("C2".to_owned(), false)];
    assert_eq!(told(&[]), (all, BTreeMap::from(ours)));
    // Of what is being composed nothing is judged.
    let (rest, hosts) = told(&["C1", "G5"]);
    assert!(!hosts.contains_key("C1"));
    assert!(!rest.contains_key("G1") && !rest.contains_key("G5"));
}

/// Whatever is asked for in whatever order, and however many answers are lost, a host comes to have exactly that.
#[test]
fn hosts_come_to_what_they_are_to_have_whatever_is_lost() {
    for changes in [Changes::Never, Changes::Patch, Changes::Actions] {
        let service = Service::start(changes);
        let mut chance = RandomStream::new(7, "composing", 0);
        for _ in 0..12 {
            service.inner().lost = chance.below(3) as u32;
            service.inner().busy = chance.below(3) as u32;
            let wanted: Vec<String> = (1..=4)
                .filter(|_| chance.below(2) == 0)
                .map(|number| format!("G{number}"))
                .collect();
            let words: Vec<&str> = wanted.iter().map(String::as_str).collect();
            assert_eq!(composed(&service, &words), Ok(Came::default()));
            let mut has = service.gpus_of("one");
            has.sort();
            assert_eq!(has, wanted);
        }
    }
}
