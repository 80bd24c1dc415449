//! Runs go in, come out, are found and forgotten.

use crate::support::{Fresh, figure, on_each, run};
use gpuwise_domain::profile::figure::{Scope, Value};
use gpuwise_store::{
    DailyFigure, DailyGroup, Filter, NewRun, Saved, Store, StoreError, StoredProposal,
};

#[test]
fn a_run_comes_back_as_it_went_in() {
    on_each(|fresh| {
        let store = fresh.open();
        let saved = run(1, 42, &[("team", "a"), ("branch", "main")]);
        assert_eq!(store.save(&saved).expect("saves"), Saved::New);
        let read = store.run(&saved.id.to_string()[..6]).expect("is there");
        assert_eq!(read.figures, saved.summary.figures);
        assert_eq!(read.findings, saved.finding_documents);
        assert_eq!(read.software, saved.summary.software);
        assert_eq!(read.measured, saved.measured);
        assert_eq!(read.files, saved.summary.files);
        assert_eq!(read.row.labels, saved.labels);
        assert_eq!(read.row.started_at_ns, saved.summary.started_at_ns);
        assert_eq!(read.row.first_finding.as_deref(), Some("data_loading"));
        let times = store.times(&read.row.id).expect("reads");
        assert_eq!(times, saved.times);
    });
}

#[test]
fn bringing_a_run_twice_keeps_one_and_adds_its_labels() {
    on_each(|fresh| {
        let store = fresh.open();
        store.save(&run(1, 42, &[("team", "a")])).expect("saves");
        let again = store.save(&run(1, 42, &[("branch", "x"), ("team", "b")]));
        assert_eq!(again.expect("saves"), Saved::Known);
        let runs = store.list(&Filter::default()).expect("lists");
        assert_eq!(runs.len(), 1);
        let labels: Vec<_> = runs[0].labels.iter().collect();
        assert_eq!(format!("{labels:?}"), r#"[("branch", "x"), ("team", "b")]"#);
    });
}

#[test]
fn filters() {
    on_each(|fresh| {
        let store = fresh.open();
        let saved = [
            run(1, 10, &[("team", "a")]),
            run(2, 20, &[("team", "b")]),
            run(3, 30, &[("team", "a"), ("branch", "x")]),
        ];
        store.save_all(&saved).expect("saves");
        let names = |filter: Filter| -> Vec<String> {
            let runs = store.list(&filter).expect("lists");
            runs.into_iter().map(|run| run.name).collect()
        };
        let label = |name: &str, value: &str| [(name.to_owned(), value.to_owned())];
        assert_eq!(
            names(Filter::default()),
            ["job at 3", "job at 2", "job at 1"]
        );
        let team = Filter {
            labels: label("team", "a").into(),
            ..Filter::default()
        };
        assert_eq!(names(team.clone()), ["job at 3", "job at 1"]);
        let newest = Filter {
            limit: Some(1),
            ..Filter::default()
        };
        assert_eq!(names(newest), ["job at 3"]);
        let one = Filter {
            name: Some("job at 2".into()),
            labels: label("team", "b").into(),
            ..Filter::default()
        };
        assert_eq!(names(one.clone()), ["job at 2"]);
        let one = store.series(&one, &["busy_ns"], false).expect("reads");
        assert_eq!(one[0].values.values().collect::<Vec<_>>(), [&Some(20.0)]);
        let other = Filter {
            hardware: Some("NVIDIA A100".into()),
            ..Filter::default()
        };
        assert!(names(other).is_empty());
        let scope = Scope {
            rank: Some(0),
            ..Scope::default()
        };
        let series = |filter: &Filter, names: &[&str], parts| {
            let all = store
                .series(filter, names, parts)
                .expect("reads")
                .into_iter();
            all.map(|one| (one.figure, one.scope, one.values.into_values().collect()))
                .collect::<Vec<(String, Scope, Vec<Option<f64>>)>>()
        };
        let mut busy = series(&team, &["busy_ns"], false);
        busy[0].2.sort_by(|a, b| a.partial_cmp(b).expect("numbers"));
        let both = vec![Some(10.0), Some(30.0)];
        assert_eq!(busy, [("busy_ns".into(), scope.clone(), both)]);
        let unknown = series(&Filter::default(), &["mfu", "kernel_ns"], false);
        assert_eq!(unknown, [("mfu".into(), scope, vec![None; 3])]);
        let part = &series(&team, &["kernel_ns"], true)[0];
        assert_eq!(part.1.part.as_deref(), Some("gemm \"a\""));
        assert_eq!(series(&team, &[], true).len(), 3);
    });
}

const TEN: DailyFigure = DailyFigure {
    count: 1,
    least: 10.0,
    median: 10.0,
    p90: 10.0,
    most: 10.0,
};

#[test]
fn what_is_forgotten_is_gone_whole() {
    on_each(|fresh| {
        let store = fresh.open();
        let saved = [run(1, 10, &[]), run(2, 20, &[])];
        store.save_all(&saved).expect("saves");
        let summary = DailyGroup {
            day: 20_000,
            name: "job \"at\" 1".into(),
            source: "profile".into(),
            hardware: vec!["NVIDIA H100".into()],
            labels: [("team".to_owned(), "a".to_owned())].into(),
            forgotten_at_ns: 9,
            runs: 1,
            figures: [("busy_ns".to_owned(), TEN)].into(),
        };
        let gone = store
            .forget(&[saved[0].id.to_string()], std::slice::from_ref(&summary))
            .expect("forgets");
        assert_eq!(gone, 1);
        assert_eq!(store.list(&Filter::default()).expect("lists").len(), 1);
        assert!(matches!(
            store.run(&saved[0].id.to_string()),
            Err(StoreError::Which { count: 0, .. })
        ));
        store.tidy().expect("tidies");
        let read = store.run(&saved[1].id.to_string()).expect("is there");
        assert_eq!(read.figures.len(), 3);
        let times = |run: &NewRun| store.times(&run.id.to_string()).expect("reads");
        // Names that both had are still there for the one that is left.
        assert_eq!(
            (times(&saved[0]), times(&saved[1])),
            (vec![], saved[1].times.clone())
        );
        // What is gone already is not summed up twice.
        let again = store.forget(&[saved[0].id.to_string()], std::slice::from_ref(&summary));
        assert!(matches!(again, Err(StoreError::Meanwhile)));
        let daily = |name| store.daily(name, &["busy_ns"]).expect("reads");
        assert_eq!(daily(None), std::slice::from_ref(&summary));
        assert_eq!(daily(Some(&summary.name)), std::slice::from_ref(&summary));
        assert_eq!(daily(Some("another")), []);
        assert_eq!(store.forget_daily(20_000).expect("forgets"), 0);
        assert_eq!(store.forget_daily(20_001).expect("forgets"), 1);
        assert_eq!(daily(None), []);
    });
}

#[test]
fn more_figures_than_one_statement_takes() {
    on_each(|fresh| {
        let store = fresh.open();
        let mut saved = run(1, 10, &[]);
        saved.summary.figures = (0..1_234)
            .map(|index| {
                let part = format!("kernel {}", index / 2);
                let name = if index % 2 == 0 { "time_ns" } else { "count" };
                figure(name, Some(&part), Value::Integer(i64::MAX - index))
            })
            .collect();
        store.save(&saved).expect("saves");
        let read = store.run(&saved.id.to_string()).expect("is there");
        assert_eq!(read.figures, saved.summary.figures);
    });
}

#[test]
fn many_writers_lose_nothing() {
    on_each(|fresh| {
        fresh.open();
        std::thread::scope(|scope| {
            for writer in 0..4 {
                scope.spawn(move || {
                    let store = fresh.open();
                    for hour in 0..10 {
                        // Each run is brought by two writers.
                        store.save(&run(hour, writer / 2, &[])).expect("saves");
                    }
                });
            }
        });
        assert_eq!(
            fresh.open().list(&Filter::default()).expect("lists").len(),
            20
        );
    });
}

#[test]
fn proposals_are_remembered_and_settled() {
    on_each(|fresh| {
        let store = fresh.open();
        let open = StoredProposal {
            id: "a/b 2026".into(),
            workload: "a/b".into(),
            tenant: "a".into(),
            made_at_ns: 5,
            state: "open".into(),
            settled_at_ns: None,
            document: "{}".into(),
        };
        store
            .remember(std::slice::from_ref(&open))
            .expect("remembers");
        let settled = StoredProposal {
            state: "proven".into(),
            settled_at_ns: Some(9),
            ..open
        };
        store
            .remember(std::slice::from_ref(&settled))
            .expect("remembers");
        assert_eq!(store.proposals().expect("reads"), [settled]);
    });
}

#[test]
fn what_is_no_database_is_refused() {
    let check = |address: &str, expect: &str| {
        let error = Store::open(address).expect_err(address);
        let mut text = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(inner) = source {
            text = format!("{text}: {inner}");
            source = inner.source();
        }
        assert!(text.contains(expect), "{address}: {text}");
    };
    check(
        "mysql://me:secret@host/x",
        "`mysql://me@host/x` is no database",
    );
    let fresh = Fresh::sqlite();
    std::fs::write(
        &fresh.address,
        "this is not a database, but a text of some length",
    )
    .expect("written");
    check(&fresh.address, "file is not a database");
    check("/nowhere/at/all.db", "cannot be opened");
}
