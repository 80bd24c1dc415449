//! A model that drafts for another.

use super::{Feasible, candidates::USUAL_ACCEPTANCE, request::Request};
use crate::{
    derive::{Amount, Term, TermLabel},
    setup::Draft,
};
use alloc::{format, string::String, vec, vec::Vec};
use gpuwise_domain::derivation::Unit;
use gpuwise_units::significant;

/// Drafting as it is asked for.
pub(crate) fn draft<'a>(request: &Request<'a>) -> Draft<'a> {
    Draft {
        tokens: request.choices.draft_tokens,
        acceptance: request.choices.acceptance.unwrap_or(USUAL_ACCEPTANCE),
        model: request.draft.as_ref().map(|draft| draft.architecture),
    }
}

/// The name of the model that drafts, where one does.
pub(crate) fn name(request: &Request<'_>) -> Option<String> {
    let drafts = request.choices.draft_tokens > 0;
    let draft = request.draft.as_ref().filter(|_| drafts);
    draft.map(|draft| draft.name.clone())
}

/// What drafting rests on, where a model drafts.
pub(crate) fn notes(request: &Request<'_>) -> Vec<String> {
    let (Some(name), Some(model)) = (name(request), &request.draft) else {
        return Vec::new();
    };
    let draft = draft(request);
    let assumed = match request.choices.acceptance {
        Some(_) => "",
        None => ", assumed because --acceptance does not say it",
    };
    let mut out = vec![format!(
        "{name} drafts {} tokens a step, of which each is accepted with {} % once those before it are{assumed}: \
         {} tokens a step in the mean",
        draft.tokens,
        significant(draft.acceptance * 100.0, 3),
        significant(draft.tokens_per_step(), 3)
    )];
    let (own, other) = (
        request.architecture.vocabulary,
        model.architecture.vocabulary,
    );
    if own != other {
        out.push(format!(
            "{name} has a vocabulary of {other} tokens and the model one of {own}: engines draft only with a model \
             of the same tokenizer, and some only with the same size"
        ));
    }
    out
}

/// The seconds of a decode step that the model which drafts takes; `None` where none does.
pub(crate) fn explained(request: &Request<'_>, feasible: &Feasible<'_>) -> Option<Term> {
    let seconds = feasible.figures.drafts.filter(|seconds| *seconds > 0.0)?;
    let tokens = f64::from(draft(request).tokens);
    let drafted = Term::input(tokens, || {
        TermLabel::new("drafted tokens a step", Unit::Number).from("as asked")
    });
    let step = Term::input(seconds / tokens, || {
        TermLabel::new("decode step of the draft model", Unit::Seconds)
            .digits(4)
            .from("its own operators, as those of the model")
    });
    Some((drafted * step).called(|| TermLabel::new("drafts", Unit::Seconds).digits(4)))
}
