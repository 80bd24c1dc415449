//! Fleets, jobs, events, plans by numbers and reports: what is read back is what was written, and it is
//! as the schemas say.

mod draws;
mod events;
mod fleets;
mod jobs;
mod reports;

use crate::schemas::fits;
use draws::time;
use events::{action, event};
use fleets::fleet;
use gpuwise_domain::placement::{
    Event, GpuAsk, Job, JobId, KindId, Kinds, Need, Plan, TimestampedEvent, WorkerAsk,
};
use gpuwise_units::Nanoseconds;
use gpuwise_wire::{
    decisions_schema, event_schema, inventory_schema, job_schema,
    live::{
        event_from_json, event_to_json, fleet_from_json, fleet_to_json, job_from_json, job_to_json,
        numbered_plan_from_json, numbered_plan_to_json, report_from_json, report_to_json,
    },
    numbered_plan_schema,
};
use jobs::job;
use proptest::{collection::vec, prelude::*};
use reports::report;
use serde_json::Value;

/// A schema, and whether a text is as it says.
struct Form(Value);

impl Form {
    fn of(schema: &str) -> Self {
        Self(serde_json::from_str(schema).unwrap())
    }

    fn holds(&self, text: &str) {
        let value: Value = serde_json::from_str(text).unwrap();
        fits(&value, &self.0, &self.0, "").unwrap();
    }
}

/// Values of a kind come back as they were, on one line, as their schema says.
macro_rules! comes_back {
    ($name:ident, $values:expr, $schema:ident, $out:ident, $back:ident) => {
        #[test]
        fn $name() {
            let form = Form::of(&$schema());
            proptest!(|(value in $values)| {
                let text = $out(&value);
                prop_assert!(!text.contains('\n'));
                form.holds(&text);
                prop_assert_eq!($back(&text).unwrap(), value);
            });
        }
    };
}

comes_back!(
    fleets_come_back,
    fleet(),
    inventory_schema,
    fleet_to_json,
    fleet_from_json
);
comes_back!(
    jobs_come_back,
    job(),
    job_schema,
    job_to_json,
    job_from_json
);
comes_back!(
    events_come_back,
    (time(), event()).prop_map(|(at, event)| TimestampedEvent { at, event }),
    event_schema,
    event_to_json,
    event_from_json
);
comes_back!(
    plans_come_back,
    (any::<[u64; 2]>(), time(), vec(action(), 0..4)).prop_map(
        |([number, parent], made, actions)| Plan {
            number,
            parent,
            made,
            actions
        }
    ),
    numbered_plan_schema,
    numbered_plan_to_json,
    numbered_plan_from_json
);
comes_back!(
    reports_come_back,
    report(),
    decisions_schema,
    report_to_json,
    report_from_json
);

#[test]
fn what_cannot_be_is_told_with_its_place() {
    let event = Event::Wanted { job: JobId(3) };
    let at = Nanoseconds(5);
    let text = event_to_json(&TimestampedEvent { at, event });
    assert_eq!(
        text,
        r#"{"schema":"gpuwise.event/v1","event":{"at_ns":5,"event":{"wanted":{"job":3}}}}"#
    );
    let check = |from: &str, to: &str, said: &str| {
        assert!(text.contains(from), "{from}");
        let error = event_from_json(&text.replace(from, to)).unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
    };
    check("\"wanted\"", "\"wished\"", "event.event");
    check("\"job\":3", "\"job\":-3", "event.event");
    check("\"at_ns\":5,", "", "missing field `at_ns`");
    check("event/v1", "event/v2", "gpuwise.event/v2");
    let job = Job::new(
        JobId(0),
        "j".into(),
        WorkerAsk {
            cpu_milli: 0,
            memory_mib: 0,
            gpu: GpuAsk::Whole {
                count: 1,
                kinds: Kinds::one(KindId(4)),
                need: Need::default(),
            },
        },
    );
    let text = job_to_json(&job).replace("\"kinds\":[4]", "\"kinds\":[64]");
    let error = job_from_json(&text).unwrap_err().to_string();
    assert!(
        error.contains("numbers of kinds of GPU, 0 to 63"),
        "{error}"
    );
}
