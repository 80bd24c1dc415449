//! Collectives with their GPUs fixed, against bytes or tokens.

use super::Functions;
use crate::{
    Curve, Lane, OperatorError, Silicon,
    tables::{
        collective::{self, Collective, ENGINE, GRAPH, LIBRARY},
        exchange::{self, EXCHANGE, Exchange, Phase},
    },
};
use gpuwise_domain::engine::EngineKind;

/// The smallest message that is asked apart: 1 KiB.
const MESSAGE: f64 = 1024.0;

impl Functions {
    /// A collective of NCCL over so many GPUs that one fast link joins, against bytes of the whole
    /// buffer.
    ///
    /// # Errors
    /// When nothing is known of collectives.
    pub fn collective(
        &self,
        silicon: &Silicon,
        collective: Collective,
        gpus: f64,
    ) -> Result<Curve, OperatorError> {
        let lane = Lane::new(collective.label(), "nccl", "", "", silicon);
        let bound = self.bound(LIBRARY.name, &lane, "")?;
        Ok(Curve::new(MESSAGE, bound.spread, |bytes| {
            bound.timed(&collective::work(silicon, collective, true, [gpus, bytes]))
        }))
    }

    /// An engine's own all-reduce over so many GPUs that one fast link joins, within a CUDA graph,
    /// against bytes.
    ///
    /// # Errors
    /// When nothing is known of it.
    pub fn all_reduce(
        &self,
        silicon: &Silicon,
        engine: EngineKind,
        gpus: f64,
    ) -> Result<Curve, OperatorError> {
        let lane = Lane::new(GRAPH, engine.name(), "", "", silicon);
        let bound = self.bound(ENGINE.name, &lane, "")?;
        Ok(Curve::new(MESSAGE, bound.spread, |bytes| {
            let size = [gpus, bytes];
            bound.timed(&collective::work(
                silicon,
                Collective::AllReduce,
                false,
                size,
            ))
        }))
    }

    /// A phase of the all-to-all of expert parallelism, against tokens per rank.
    ///
    /// # Errors
    /// When nothing is known of it.
    pub fn exchange(
        &self,
        silicon: &Silicon,
        engine: EngineKind,
        phase: Phase,
        exchange: &Exchange,
    ) -> Result<Curve, OperatorError> {
        let label = exchange::label(engine, phase);
        let lane = Lane::new(label, engine.name(), "", "", silicon);
        let bound = self.bound(EXCHANGE.name, &lane, "")?;
        Ok(Curve::new(1.0, bound.spread, |tokens| {
            bound.timed(&exchange::work(silicon, exchange, tokens))
        }))
    }
}
