//! How much is trained, as flags say it.

use super::choices::counted;
use crate::{error::Problem, settings};
use anyhow::Context as _;
use gpuwise_domain::{
    alignment::Alignment,
    catalogue::Catalogue,
    training_plan::{TrainingEvaluation, TrainingJob},
};
use gpuwise_read::workload as quantities;
use gpuwise_size::training::search::TrainChoices;
use gpuwise_units::{Money, Nanoseconds, Parameters};

/// Tokens of a sequence where none are stated.
const SEQUENCE: u64 = 4096;

/// Tokens of a sequence.
///
/// # Errors
/// When it is no number of tokens, or is stated of GRPO, whose sequences are made of two.
pub(super) fn sequence(stated: Option<&str>, alignment: Option<&Alignment>) -> anyhow::Result<u64> {
    match (stated, alignment) {
        (Some(text), Some(Alignment::Grpo(_))) => Err(Problem::new(format!(
            "--seq {text}: a sequence of GRPO is a prompt and its completion"
        ))
        .hint("state --prompt-tokens and --max-completion-length")
        .into()),
        (None, Some(Alignment::Grpo(grpo))) => Ok(grpo.prompt + grpo.completion),
        (Some(text), _) => Ok(quantities::tokens(text).context("--seq")?.0),
        (None, _) => Ok(SEQUENCE),
    }
}

/// Tokens that a sample of the data set is trained on: its sequences, whole.
pub(super) fn sample_tokens(choices: &TrainChoices) -> u64 {
    let sequences = choices
        .alignment
        .map_or(1, |one| one.sequences().saturating_mul(one.group()));
    choices.sequence.saturating_mul(sequences)
}

/// Tokens, evaluation, deadline and budget.
///
/// # Errors
/// When a number is wrong, or the budget is in another currency than prices.
pub(super) fn job(
    flags: &settings::Train,
    sample: u64,
    catalogue: &Catalogue,
) -> anyhow::Result<TrainingJob> {
    let amount = &flags.amount;
    let tokens = match (&amount.tokens, &amount.samples) {
        (Some(_), _) => counted_tokens("--tokens", amount.tokens.as_deref())?,
        (None, Some(_)) => {
            let samples = counted("--samples", amount.samples.as_deref())?.unwrap_or(0);
            let epochs = epochs(amount.epochs.as_deref())?;
            let tokens = samples as f64 * epochs * sample as f64;
            Some(tokens.min(1e18) as u64)
        }
        (None, None) => None,
    };
    let evaluation = counted_tokens("--eval-tokens", amount.eval_tokens.as_deref())?
        .zip(counted("--eval-every", amount.eval_every.as_deref())?)
        .map(|(tokens, every)| TrainingEvaluation { tokens, every });
    let within = amount
        .within
        .as_deref()
        .map(|text| -> anyhow::Result<f64> {
            let time: Nanoseconds = text.parse().context("--within")?;
            if time == Nanoseconds(0) {
                return Err(Problem::new("--within 0: expected a time above 0").into());
            }
            Ok(time.seconds().get())
        })
        .transpose()?;
    for (flag, given) in [
        ("--within", within.is_some()),
        ("--budget", amount.budget.is_some()),
    ] {
        if given && tokens.is_none() {
            return Err(
                Problem::new(format!("{flag}: how much is trained is not known"))
                    .hint("add --tokens 2e9, or --samples and --epochs")
                    .into(),
            );
        }
    }
    Ok(TrainingJob {
        tokens,
        within,
        budget: amount
            .budget
            .as_deref()
            .map(|text| budget(text, catalogue))
            .transpose()?,
        evaluation,
    })
}

/// Tokens of a whole run, such as `2e9`, `15T`.
fn counted_tokens(flag: &'static str, text: Option<&str>) -> anyhow::Result<Option<u64>> {
    let Some(text) = text else { return Ok(None) };
    let count: Parameters = text.parse().map_err(|_| {
        Problem::new(format!(
            "{flag} {text}: expected a number of tokens such as 2e9, 500M or 15T"
        ))
    })?;
    if count.0 == 0 || count.0 > 1_000_000_000_000_000_000 {
        return Err(Problem::new(format!("{flag} {text}: expected 1 to 10^18 tokens")).into());
    }
    Ok(Some(count.0))
}

fn epochs(text: Option<&str>) -> anyhow::Result<f64> {
    let Some(text) = text else { return Ok(1.0) };
    let epochs: f64 = text.trim().parse().unwrap_or(f64::NAN);
    if epochs > 0.0 && epochs <= 1e6 {
        Ok(epochs)
    } else {
        Err(Problem::new(format!("--epochs {text}: expected a number above 0")).into())
    }
}

/// An amount in the currency of offers.
fn budget(text: &str, catalogue: &Catalogue) -> anyhow::Result<Money> {
    let money: Money = text.parse().context("--budget")?;
    if money.micros <= 0 {
        return Err(Problem::new(format!("--budget {text}: expected an amount above 0")).into());
    }
    let priced = catalogue
        .offers
        .iter()
        .find_map(|offer| offer.on_demand.or(offer.reserved).or(offer.spot));
    match priced {
        Some(price) if price.0.currency != money.currency => Err(Problem::new(format!(
            "--budget is in {}, prices are in {}",
            money.currency, price.0.currency
        ))
        .hint(format!(
            "convert the budget to {} at a rate of your choice",
            price.0.currency
        ))
        .into()),
        _ => Ok(money),
    }
}
