//! Databases to test on, and runs to put into them.

use gpuwise_domain::profile::{
    figure::{Figure, Scope, Summary, Value},
    figures::{NamedTime, StepKind, StepTime, TimedBy},
    finding::{Finding, Gain},
};
use gpuwise_store::{NewRun, RunId, Store};
use std::collections::BTreeMap;

/// A database in a folder that goes with it.
pub(crate) struct Fresh {
    pub(crate) address: String,
    _folder: Option<tempfile::TempDir>,
}

impl Fresh {
    pub(crate) fn sqlite() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self {
            address: folder.path().join("runs of me.db").display().to_string(),
            _folder: Some(folder),
        }
    }

    #[cfg(feature = "postgres")]
    pub(crate) fn at(address: String) -> Self {
        Self {
            address,
            _folder: None,
        }
    }

    /// Changes a SQLite database behind the store's back.
    pub(crate) fn execute(&self, sql: &'static str) {
        use sqlx::Connection as _;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let url = format!("sqlite://{}", self.address.replace(' ', "%20"));
            let mut connection = sqlx::AnyConnection::connect(&url).await.expect("opens");
            let done = sqlx::query(sql).execute(&mut connection).await;
            assert!(done.expect("changes").rows_affected() > 0, "{sql}");
        });
    }

    pub(crate) fn open(&self) -> Store {
        Store::open(&self.address).expect("opens")
    }
}

/// Runs a test body on every database there is.
pub(crate) fn on_each(body: impl Fn(&Fresh)) {
    body(&Fresh::sqlite());
    #[cfg(feature = "postgres")]
    match gpuwise_needs::postgres::server() {
        Some(server) => body(&Fresh::at(server.database())),
        None => gpuwise_needs::skipped("on SQLite alone: no initdb under /usr/lib/postgresql"),
    }
    #[cfg(not(feature = "postgres"))]
    gpuwise_needs::skipped("on SQLite alone: built without the feature `postgres`");
}

pub(crate) fn figure(name: &str, part: Option<&str>, value: Value) -> Figure {
    Figure {
        name: name.into(),
        scope: Scope {
            rank: Some(0),
            device: None,
            part: part.map(Into::into),
        },
        value,
    }
}

fn time(by: TimedBy, name: Option<&str>, variance: Option<f64>) -> NamedTime {
    NamedTime {
        by,
        name: name.map(Into::into),
        calls: 3,
        sum_ns: 42,
        call_variance: variance,
        steps: variance.map(|variance| StepTime {
            kind: StepKind::Repeat,
            count: 2,
            mean_ns: 21.0,
            variance,
        }),
    }
}

/// A run at an hour, with one busy time.
pub(crate) fn run(hour: i64, busy_ns: i64, labels: &[(&str, &str)]) -> NewRun {
    const HOUR_NS: i64 = 3_600_000_000_000;
    NewRun {
        id: RunId::of(format!("{hour} {busy_ns}").as_bytes()),
        source: "profile".into(),
        name: format!("job at {hour}"),
        imported_at_ns: (hour + 1) * HOUR_NS,
        labels: labels
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect::<BTreeMap<_, _>>(),
        summary: Summary {
            files: vec!["trace.json.gz".into()],
            started_at_ns: Some(hour * HOUR_NS),
            hardware: vec!["NVIDIA H100".into()],
            software: vec![("CUDA".into(), "12.4".into())],
            figures: vec![
                figure("busy_ns", None, Value::Integer(busy_ns)),
                figure("kernel_ns", Some("gemm \"a\""), Value::Real(0.25)),
                figure("mfu", None, Value::Unknown("no shapes in the trace".into())),
            ],
            findings: vec![Finding {
                class: "data_loading".into(),
                scope: Scope::default(),
                statement: "waits 30 % of a step".into(),
                evidence: vec![],
                places: vec![],
                gain: Gain::Time {
                    low: 0.1,
                    high: 0.3,
                },
                advice: vec![],
            }],
            missing: vec![],
        },
        times: vec![
            time(TimedBy::Operator, Some("aten::mm"), Some(1.5)),
            time(TimedBy::Kernel, Some("gemm \"a\""), None),
            time(TimedBy::Kernel, None, Some(0.0)),
        ],
        finding_documents: vec!["{\"class\":\"data_loading\"}".into()],
        measured: "id,value\na,1\n".into(),
    }
}
