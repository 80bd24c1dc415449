//! Schemas that follow from the fields of answers, held against the committed ones by a test.

use gpuwise_view::{
    audit::{ProofRow, Report},
    record,
};

/// Those that follow from the declaration of an answer's fields.
///
/// Some need features that not every build has.
pub fn schemas() -> Vec<(&'static str, String)> {
    let audit = record::document_schema::<Report<'_>>("audit", "Who holds too much of a fleet");
    let proof = record::rows_schema::<ProofRow>("audit-proof", "What became of proposals");
    #[cfg_attr(
        not(feature = "database"),
        expect(unused_mut, reason = "all that there is")
    )]
    let mut all = vec![
        ("audit", audit),
        ("audit-proof", proof),
        ("serving-plan", super::plan::schema("serving-plan")),
        ("media-plan", super::plan::media_schema("media-plan")),
        ("train", super::train::schema("train")),
        ("memory", super::memory::schema("memory")),
        ("media-memory", super::memory::media_schema("media-memory")),
        ("check", super::check::schema("check")),
        ("check-host", super::check::host_schema("check-host")),
        ("tco", super::tco::schema("tco")),
        ("tco-explain", super::tco::explained_schema("tco-explain")),
        ("forecast", super::forecast::schema("forecast")),
        ("scale-plan", super::scale::plan_schema("scale-plan")),
        ("scale-replay", super::scale::replay_schema("scale-replay")),
        ("tier", super::tier::schema("tier")),
        (
            "calibrate-cross-validation",
            super::calibrate::cross_validation_schema("calibrate-cross-validation"),
        ),
        ("gpus", super::gpus::schema("gpus")),
        ("offers", super::offers::schema("offers")),
    ];
    #[cfg(all(feature = "bench", feature = "cuda", feature = "database"))]
    all.extend(super::profile::schemas());
    #[cfg(feature = "database")]
    all.extend(super::runs::schemas());
    #[cfg(feature = "serve")]
    all.extend(gpuwise_wire::broker::answer_schemas());
    all
}
