//! The same decisions for somebody who writes replicas himself.

use super::{Defined, Source, objects::Objects};
use gpuwise_units::Nanoseconds;
use std::{collections::BTreeMap, sync::Arc};

/// Services whose replicas follow what comes.
pub struct Followed {
    objects: Objects,
}

/// How many replicas a service is to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Following {
    pub replicas: u32,
    /// Those that are to be warm beside them; `None`: none are kept warm, or it is not known.
    pub warm: Option<u32>,
    /// Why so many are warm, in words.
    pub why: String,
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
    ) -> Result<BTreeMap<String, Result<Following, String>>, String> {
        let names: Vec<String> = services.iter().map(|one| one.object().to_owned()).collect();
        self.objects
            .define(services)
            .map_err(|why| why.to_string())?;
        self.objects.tick();
        let wanted = |name: String| {
            let wanted = self.objects.with_warm(&name);
            let wanted = wanted.map(|(replicas, warm, why)| Following {
                replicas,
                warm,
                why,
            });
            (name, wanted.map_err(|why| why.to_string()))
        };
        Ok(names.into_iter().map(wanted).collect())
    }
}
