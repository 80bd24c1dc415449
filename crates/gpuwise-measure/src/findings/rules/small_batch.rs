//! Matrix products of few rows, which load weights for little work.

use crate::findings::{
    ledger::{Cause, Ledger},
    lost::Lost,
    products::products,
    rule::{Profile, Rank, Row, Rule, evidence},
};
use gpuwise_domain::profile::finding::{Finding, FindingDefinition};

const CAUSE: Cause = Cause("small_batch");

const SHARE: Row = Row {
    name: "small_batch_share",
    value: 0.2,
    unit: "share of the span",
    meaning: "time that more rows at once would spare, from which small batch is said",
    source: "-",
};

pub(super) const RULE: Rule = Rule {
    definition: FindingDefinition {
        class: "small_batch",
        title: "small batch",
        signal: "Products of activations and weights have so few rows that loading weights takes longer than the work on them (rows under peak × bytes of an element / (2 × bandwidth)), and the same rows in larger batches would spare `small_batch_share` of the span or more. Needs shapes of operators (`record_shapes=True`), which replayed graphs do not have, and a GPU of the catalogue.",
        advice: "A larger batch or more concurrent requests, as far as memory and latency allow; fewer bits for weights.",
        gain: "high: their time × (1 − rows / that many rows), for as many rows as before; low: 0, since latency or memory may forbid it.",
        source: "Williams, Waterman, Patterson, Roofline (2009)",
    },
    thresholds: &[SHARE],
    charge,
    find,
    same_kernels: true,
    ..Rule::EMPTY
};

/// Operators that multiply activations, their first matrix, by weights.
const BY_WEIGHTS: [&str; 4] = [
    "aten::mm",
    "aten::addmm",
    "aten::_addmm_activation",
    "aten::_scaled_mm",
];

fn find(profile: &Profile<'_>) -> Vec<Finding> {
    Lost::said(profile, CAUSE, &SHARE, |lost| {
        let most = |figure: &str| lost.noted(figure).iter().copied().fold(0.0, f64::max);
        let (rows, enough) = (most("rows"), most("enough_rows"));
        let statement = format!(
            "Matrix products of {rows:.0} rows load their weights for little work, {enough:.0} rows would take about as long: for the same rows up to {} could go",
            lost.of_the_time()
        );
        let advice = format!(
            "Put more into a batch, up to about {:.0} times as much: `batch_size` of the loader, or, when serving, `--max-num-seqs` and more concurrent requests; `gpuwise memory` says what fits. Where latency forbids it, weights of fewer bits (FP8, AWQ) load faster.",
            (enough / rows.max(1.0)).max(2.0)
        );
        let more = vec![
            evidence("rows", rows, "rows", Some(enough)),
            evidence("small_products", lost.count as f64, "count", None),
        ];
        lost.finding(1.0, statement, &[&advice], more)
    })
}

fn charge(rank: &Rank<'_>, ledger: &mut Ledger<'_>) {
    let Some(reach) = &rank.reach else { return };
    let mut most = (0.0, 0.0, 0.0);
    for product in products(rank, ledger) {
        let by_weights = product
            .kernel
            .operator()
            .is_some_and(|name| BY_WEIGHTS.contains(&name));
        let (Some(sizes), true) = (product.sizes, by_weights) else {
            continue;
        };
        let Some(peak) = reach.peak(sizes.precision) else {
            continue;
        };
        let enough = peak * sizes.width / (2.0 * reach.bandwidth());
        // Gradients of weights have few columns of activations as well, and large results.
        if sizes.m >= enough || sizes.m * 8.0 > sizes.k.min(sizes.n) {
            continue;
        }
        let kernel = product.kernel;
        let high = kernel.duration() * (1.0 - sizes.m / enough);
        ledger.charge_spared(
            CAUSE,
            rank.alone,
            [(kernel.at.place, 0.0, high)].into_iter(),
        );
        if high > most.0 {
            most = (high, sizes.m, enough);
        }
    }
    ledger.note(CAUSE, "rows", most.1);
    ledger.note(CAUSE, "enough_rows", most.2);
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{Made, classes_on, found_on, shaped};

    fn layers(rows: u64) -> Made {
        let mut made = Made::new();
        for round in 0..10 {
            let at = round * 100 + 10;
            let shapes: [&[u64]; 2] = [&[rows, 8192], &[8192, 8192]];
            shaped(
                &mut made,
                "aten::mm",
                &shapes,
                "sm90_xmma_gemm_bf16bf16",
                at,
                at + 100,
            );
        }
        made
    }

    #[test]
    fn small_batch() {
        let said =
            |rows| classes_on("H100 SXM5 80GB", layers(rows)).contains(&"small_batch".to_owned());
        assert!(said(8));
        assert!(!said(512));
    }

    /// 989 TFLOPS and 3.35 TB/s do 295 rows while two bytes of each weight are loaded.
    #[test]
    fn the_gain_is_bounded_by_the_ridge() {
        let (low, high) = found_on("H100 SXM5 80GB", layers(8), "small_batch");
        assert!(
            (high - (1.0 - 8.0 / 295.2)).abs() < 0.002 && low == 0.0,
            "{low} {high}"
        );
    }
}
