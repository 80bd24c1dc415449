//! A profile as one self-contained page: the answer, findings that lead to their place in a
//! timeline, figures. It opens without a network; without scripts all but the timeline is there.

mod breakdown;
mod columns;
mod compare;
mod findings;
mod heat;
mod names;
mod operators;
mod overview;
mod pack;
mod script;
mod sections;
mod tables;

pub(super) use findings::gain;
pub(super) use sections::{all_figures, list};

use super::{Profile, clock::Clock};
use crate::html::{Live, Page};

/// The page of a profile, beside another where there is one; `made` says by what it was made.
pub fn report(profile: &Profile, against: Option<&Profile>, made: &str) -> String {
    report_within(profile, against, made, pack::MOST_SPANS)
}

/// The same with at most so many spans in its timeline; beyond, short ones are merged or left out.
pub fn report_within(
    profile: &Profile,
    against: Option<&Profile>,
    made: &str,
    most: usize,
) -> String {
    let mut profiles = vec![*profile];
    profiles.extend(against.copied());
    let timelines = profiles.iter().flat_map(|profile| profile.timelines);
    let clock = Clock::of(timelines, against.is_some());
    let kernels = tables::kernels_by_name(profile);
    let linked: Vec<&str> = kernels.iter().map(|kernel| kernel.name.as_str()).collect();
    let packed = pack::pack(&profiles, &clock, &linked, most);
    let sections = sections::all(&profiles, &clock, &packed, &kernels);
    let page = Page {
        title: overview::title(profile, against),
        answer: overview::answer(profile, against),
        head: overview::head(profile),
        sections,
    };
    let script = script::script();
    page.finish_live(
        made,
        &Live {
            style: &script::style(),
            script: &script,
            hash: script::HASH,
            data: (packed.spans > 0).then_some(("packed", packed.text.as_str())),
        },
    )
}
