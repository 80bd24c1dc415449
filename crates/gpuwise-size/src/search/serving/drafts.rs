//! A model that drafts for another.

use super::{Feasible, candidates::USUAL_ACCEPTANCE, request::Request};
use crate::{
    derive::{Amount, Term, TermLabel},
    setup::Draft,
};
use alloc::{string::String, vec, vec::Vec};
use gpuwise_domain::{derivation::Unit, note::ServingNote};

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
pub(crate) fn notes(request: &Request<'_>) -> Vec<ServingNote> {
    let (Some(name), Some(model)) = (name(request), &request.draft) else {
        return Vec::new();
    };
    let draft = draft(request);
    let mut out = vec![ServingNote::Drafts {
        model: name.clone(),
        tokens: draft.tokens,
        acceptance: draft.acceptance,
        assumed: request.choices.acceptance.is_none(),
        step: draft.tokens_per_step(),
    }];
    let (own, other) = (
        request.architecture.vocabulary,
        model.architecture.vocabulary,
    );
    if own != other {
        out.push(ServingNote::OtherVocabulary {
            draft_model: name,
            draft: other,
            model: own,
        });
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
