//! `tier_rules.toml`: rules in order, and how well times carry over.

use super::TierFileError;
use gpuwise_domain::tier::{JobFigure, Preference, Scaling, TierCondition, TierRule, TierRules};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    scaling: ScalingTable,
    #[serde(default)]
    rule: Vec<RuleTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScalingTable {
    same_generation: [f64; 2],
    other_generation: [f64; 2],
    memory_headroom: f64,
    /// For people who read the file.
    #[serde(rename = "source")]
    _source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleTable {
    name: String,
    when: Vec<String>,
    prefer: String,
    reason: String,
    source: String,
}

/// Reads a file of rules.
///
/// # Errors
/// When it is no TOML of this form, or a figure, a preference or a bound is none.
pub fn read_rules(text: &str) -> Result<TierRules, TierFileError> {
    let file: File = toml::from_str(text).map_err(|error| TierFileError {
        place: error.span().map_or_else(
            || "the file".into(),
            |span| {
                let before = text.get(..span.start).unwrap_or(text);
                format!("line {}", before.matches('\n').count() + 1)
            },
        ),
        problem: error.message().into(),
    })?;
    let bounds = |key: &str, [low, high]: [f64; 2]| {
        let right = low.is_finite() && high.is_finite() && 0.0 < low && low <= high;
        right.then_some((low, high)).ok_or_else(|| TierFileError {
            place: format!("scaling.{key}"),
            problem: format!("is [{low}, {high}]; expected two numbers above 0, the lower first"),
        })
    };
    let scaling = file.scaling;
    if !(0.0..=1.0).contains(&scaling.memory_headroom) {
        return Err(TierFileError {
            place: "scaling.memory_headroom".into(),
            problem: format!(
                "is {}; expected a share from 0 to 1",
                scaling.memory_headroom
            ),
        });
    }
    Ok(TierRules {
        scaling: Scaling {
            kin: bounds("same_generation", scaling.same_generation)?,
            generations: bounds("other_generation", scaling.other_generation)?,
            memory_headroom: scaling.memory_headroom,
        },
        rules: file.rule.into_iter().map(rule).collect::<Result<_, _>>()?,
    })
}

fn rule(table: RuleTable) -> Result<TierRule, TierFileError> {
    let wrong = |problem: String| TierFileError {
        place: format!("rule {:?}", table.name),
        problem,
    };
    if table.when.is_empty() {
        return Err(wrong("has no conditions in `when`".into()));
    }
    let conditions = table
        .when
        .iter()
        .map(|text| {
            condition(text).ok_or_else(|| {
                let figures = JobFigure::ALL.map(JobFigure::name);
                wrong(format!(
                    "{text:?} is no condition; expected a figure, < or >, and a number, such as \
                     \"busy < 0.5\"; figures are {}",
                    figures.join(", ")
                ))
            })
        })
        .collect::<Result<_, _>>()?;
    let prefer = Preference::ALL
        .into_iter()
        .find(|preference| preference.name() == table.prefer)
        .ok_or_else(|| {
            let known = Preference::ALL.map(Preference::name);
            wrong(format!(
                "prefers {:?}; expected one of {}",
                table.prefer,
                known.join(", ")
            ))
        })?;
    Ok(TierRule {
        conditions,
        prefer,
        name: table.name,
        reason: table.reason,
        source: table.source,
    })
}

fn condition(text: &str) -> Option<TierCondition> {
    let (at, sign) = text.char_indices().find(|(_, c)| matches!(c, '<' | '>'))?;
    let name = text.get(..at)?.trim();
    let mut figures = JobFigure::ALL.into_iter();
    let figure = figures.find(|figure| figure.name() == name)?;
    let threshold: f64 = text.get(at + 1..)?.trim().parse().ok()?;
    threshold.is_finite().then_some(TierCondition {
        figure,
        above: sign == '>',
        threshold,
    })
}
