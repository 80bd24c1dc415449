//! Who asked: kept in the log with what happened because of it.

use crate::{
    message::{Answer, Command, Failure, Origin},
    writer::Writer,
};
use gpuwise_broker::lease_id;
use gpuwise_sched::decide::Policy;
use gpuwise_units::Nanoseconds;
use gpuwise_wire::broker::{AskedDocument, BrokerEvent};

impl Writer {
    /// What comes of a command, with who asked for it. What was asked for before under the same key is not
    /// done again.
    pub(crate) fn asked_by(
        &self,
        now: Nanoseconds,
        origin: Option<Origin>,
        command: Command,
        policy: &mut Policy,
    ) -> Result<(Answer, Vec<BrokerEvent>), Failure> {
        if let Some(origin) = &origin
            && let Some(key) = &origin.key
        {
            let scope = origin.tenant.as_deref().unwrap_or_default();
            if self.ahead.deed(now, scope, key)?.is_some() {
                return Ok((Answer::Known, Vec::new()));
            }
        }
        let (answer, mut events) = self.asked(now, command, policy)?;
        if let Some(origin) = origin.filter(|_| !events.is_empty()) {
            let subject = match &answer {
                Answer::Lease(number, _) => lease_id(*number),
                _ => origin.subject,
            };
            events.push(BrokerEvent::Asked(AskedDocument {
                by: origin.by,
                tenant: origin.tenant,
                what: origin.what.to_owned(),
                subject,
                about: origin.about,
                key: origin.key,
            }));
        }
        Ok((answer, events))
    }
}
