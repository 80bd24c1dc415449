//! There is little left to gain on this device.

use crate::findings::{
    lost::percent,
    rule::{Profile, Row, Rule, evidence},
};
use gpuwise_domain::profile::{
    figure::Scope,
    finding::{Finding, FindingDefinition, Gain},
};

const HFU: Row = Row {
    name: "compute_bound_hfu",
    value: 0.6,
    unit: "share of the dense peak",
    meaning: "counted work from which a profile is bound by compute",
    source: "Chowdhery et al., PaLM (2022): 46 % MFU and 58 % HFU are what good training reaches",
};

pub(super) const RULE: Rule = Rule {
    definition: FindingDefinition {
        class: "compute_bound",
        title: "compute bound",
        signal: "Counted floating-point work reaches `compute_bound_hfu` of the dense peak over the span.",
        advice: "Fewer operations or a lower precision; a tier with more FLOPS.",
        gain: "cannot be told from a trace.",
        source: "Chowdhery et al., PaLM (2022), for what utilisation well-tuned training reaches",
    },
    thresholds: &[HFU],

    find,

    ..Rule::EMPTY
};

fn find(profile: &Profile<'_>) -> Vec<Finding> {
    let ranks = profile.figures.ranks.iter();
    let known: Vec<f64> = ranks.filter_map(|rank| rank.flops.at_least).collect();
    let hfu = known.iter().sum::<f64>() / known.len().max(1) as f64;
    let least = profile.limits.of(&HFU);
    let finding = (hfu >= least).then(|| Finding {
        class: RULE.definition.class.to_owned(),
        scope: Scope::default(),
        statement: format!(
            "The counted floating-point work alone reaches {} of the dense peak: there is little left to gain on this GPU",
            percent(hfu)
        ),
        evidence: vec![evidence("hfu", hfu, "share of the peak", Some(least))],
        places: Vec::new(),
        gain: Gain::Unknown,
        advice: vec!["Fewer operations, a lower precision, or a GPU with more FLOPS.".to_owned()],
    });
    finding.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use crate::figures::of_profile;
    use crate::findings::{
        self, Thresholds,
        testing::{Made, classifier, measured},
    };
    #[test]
    fn compute_bound() {
        let with = |hfu| {
            let mut figures = of_profile(vec![measured(&Made::new().0, &classifier())]);
            figures.ranks[0].flops.at_least = hfu;
            let found = findings::of_profile(&[], &figures, &Thresholds::default());
            found.iter().any(|one| one.class == "compute_bound")
        };
        assert!(with(Some(0.7)));
        assert!(!with(Some(0.3)));
        assert!(!with(None));
    }
}
