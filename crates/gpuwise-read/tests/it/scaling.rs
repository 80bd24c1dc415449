//! Files of variants: what is read, and what wrong ones are told.

use gpuwise_domain::scale::{ScaleLossOf, ScaleLossWhen};
use gpuwise_read::scaling::read_scaling;
use gpuwise_units::Nanoseconds;

const SECOND: u64 = 1_000_000_000;

#[test]
fn variants_pools_and_services_are_read() {
    let text = include_str!("../../../../fuzz/seeds/scaling/variants.toml");
    let fleet = read_scaling("v.toml", text).expect("a file of variants");
    assert_eq!(fleet.variants.len(), 4);
    let spot = fleet.variants[1].spot.expect("spot");
    assert_eq!(
        (spot.notice, spot.outage),
        (Nanoseconds(30 * SECOND), Nanoseconds(600 * SECOND))
    );
    assert_eq!(
        (spot.together, fleet.variants[0].warm_cost),
        (1.0, Some(Some(0.1)))
    );
    assert_eq!(fleet.pools, [("H100 SXM5 80GB".to_owned(), 16)]);
    let machines = &fleet.machines[0];
    assert_eq!((machines.nodes, machines.gpus), (2, 8));
    let (first, second) = (&fleet.losses[0], &fleet.losses[1]);
    assert_eq!(
        (first.of, first.when),
        (ScaleLossOf::Node, ScaleLossWhen::ADay(0.01))
    );
    let at = Nanoseconds(3 * 86_400 * SECOND);
    assert_eq!(
        (second.of, second.when),
        (ScaleLossOf::Pool, ScaleLossWhen::At(at))
    );
    let service = &fleet.services[0];
    assert_eq!((service.objective, service.mean), (Some(0.99), Some(10.0)));
    assert_eq!(service.guaranteed, [("L4".to_owned(), 4)]);
    assert_eq!(
        service.budget.map(|money| money.micros),
        Some(5_000_000_000)
    );
}

#[test]
fn wrong_files_are_told_what_and_where() {
    let one = "[[variant]]\nname = \"a\"\n";
    for (text, says) in [
        ("", "expected 1 to 12 [[variant]]"),
        ("[[variant]]\nname = \"a\"\nrat = 1\n", "line 3"),
        (
            &format!("{one}{one}"),
            "variant a: there are two of this name",
        ),
        (
            &format!("{one}rate = 0\n"),
            "variant a: `rate`: is 0; expected a number above 0",
        ),
        (&format!("{one}rate = nan\n"), "variant a: `rate`: is NaN"),
        (&format!("{one}price = \"0.7\"\n"), "expected 0.70USD/h"),
        (&format!("{one}gpus = 0\n"), "variant a: `gpus`: is 0"),
        (&format!("{one}warm_cost = \"some\"\n"), "is no share"),
        (&format!("{one}start = \"soon\"\n"), "variant a: `start`"),
        (
            &format!("{one}spot = {{ notice = \"30s\", a_day = -1 }}\n"),
            "`a_day` is -1; expected 0 to 1000",
        ),
        (
            &format!(
                "{one}later = [{{ from = \"2h\", price = \"1USD/h\" }}, {{ from = \"1h\", price = \"1USD/h\" }}]\n"
            ),
            "times are not in order",
        ),
        (
            &format!("{one}[[machines]]\npool = \"a\"\nnodes = 0\ngpus = 8\n"),
            "machines of a: `nodes`, `gpus` and `rack` are 1 or more",
        ),
        (
            &format!("{one}[[loss]]\nof = \"row\"\na_day = 1\noutage = \"1h\"\n"),
            "loss: `of`: is \"row\"; expected node, rack or pool",
        ),
        (
            &format!("{one}[[loss]]\nof = \"node\"\noutage = \"1h\"\n"),
            "expected one of `a_day` and `at`",
        ),
        (
            &format!("{one}[[loss]]\nof = \"node\"\npool = \"a\"\nat = \"1h\"\noutage = \"1h\"\n"),
            "\"a\" has no [[machines]]",
        ),
        (
            &format!("{one}[[service]]\nname = \"s\"\nobjective = \"100%\"\n"),
            "service s: `objective`",
        ),
        (
            &(0..7)
                .map(|at| {
                    format!(
                        "[[variant]]\nname = \"{at}\"\nspot = {{ notice = \"30s\", a_day = 1 }}\n"
                    )
                })
                .collect::<String>(),
            "more than 6 are spot",
        ),
    ] {
        let error = read_scaling("v.toml", text).expect_err(text).to_string();
        assert!(
            error.starts_with("v.toml: ") && error.contains(says),
            "{text}: {error}"
        );
    }
}
