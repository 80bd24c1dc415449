//! The same decisions for somebody who writes replicas himself.

use super::{Defined, Source, objects::Objects};
use gpuwise_units::Nanoseconds;
use std::{collections::BTreeMap, sync::Arc};

/// Services whose replicas follow what comes.
pub struct Followed {
    objects: Objects,
}

impl Followed {
    /// `period`: between two decisions; `source` gives the value of a query, or says why there is none.
    pub fn new(period: Nanoseconds, source: Arc<Source>) -> Self {
        Self {
            objects: Objects::new(source, period, None),
        }
    }

    /// Reads what comes for each of these and decides, once; how many replicas each is to have, by namespace and name,
    /// or why nothing is known yet. Those that are not named any more are forgotten. Waits for the source.
    ///
    /// # Errors
    /// When there are more than can be watched.
    pub fn decide(
        &self,
        services: Vec<Defined>,
    ) -> Result<BTreeMap<String, Result<u32, String>>, String> {
        let names: Vec<String> = services.iter().map(|one| one.object().to_owned()).collect();
        self.objects
            .define(services)
            .map_err(|why| why.to_string())?;
        self.objects.tick();
        let wanted = |name: String| {
            let wanted = self.objects.wanted(&name).map_err(|why| why.to_string());
            (name, wanted)
        };
        Ok(names.into_iter().map(wanted).collect())
    }
}
