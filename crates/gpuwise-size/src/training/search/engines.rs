//! Engines that write completions where no layout leaves them a place.

use super::{
    Cluster,
    change::QuestionChange,
    refuse::{Refusal, near, refusal},
    request::TrainChoices,
    shape::divisors,
};
use gpuwise_domain::{
    alignment::{Alignment, RolloutMode},
    clash::Clash,
};

/// All GPUs write, and none trains.
pub(super) fn no_trainers(choices: &TrainChoices, cluster: &Cluster<'_>) -> Refusal {
    let own = choices.alignment.map_or(0, |one| one.own_gpus());
    let why = Clash::NoTrainers {
        gpus: cluster.gpus,
        own,
    };
    refusal(why, alloc::vec![QuestionChange::Gpus(own + 1)])
}

/// Engines beside training that the GPUs cannot be dealt to.
pub(super) fn rollout_ranks(choices: &TrainChoices, cluster: &Cluster<'_>) -> Option<Refusal> {
    let Some(Alignment::Grpo(grpo)) = &choices.alignment else {
        return None;
    };
    let tensor = u64::from(grpo.engine.tensor.max(1));
    if grpo.engine.mode != RolloutMode::Colocate || cluster.gpus.is_multiple_of(tensor) {
        return None;
    }
    let why = Clash::RolloutRanks {
        tensor: grpo.engine.tensor,
        gpus: cluster.gpus,
    };
    let nearest = near(divisors(cluster.gpus), tensor, cluster.gpus).into_iter();
    Some(refusal(
        why,
        nearest.map(QuestionChange::RolloutRanks).collect(),
    ))
}
