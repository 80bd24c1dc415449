//! Events make the state: the only way in which it changes.

mod begin;
mod books;
mod fleet;
mod leases;

use crate::{Broken, Broker, Token, lease::Over};
use gpuwise_domain::placement::{Event, Plan, TimestampedEvent};
use gpuwise_units::{Money, Nanoseconds};
use gpuwise_wire::{
    Mirror as _,
    broker::{BrokerEvent, LoggedEvent, TokenDocument},
};

impl Broker {
    /// Applies an event.
    ///
    /// # Errors
    /// When it cannot have happened after those before it: the log does not fit together.
    pub fn apply(&mut self, logged: &LoggedEvent) -> Result<(), Broken> {
        let at = Nanoseconds(logged.at_ns);
        self.now = self.now.max(at);
        self.keys.forget(self.now);
        self.deeds.forget(self.now);
        match &logged.event {
            BrokerEvent::Began { .. } => return Err(Broken::Twice),
            BrokerEvent::PolicySet { policy } => self.policy_set(at, policy)?,
            BrokerEvent::TenantSet { tenant, reserved } => {
                self.set_tenant(at, tenant)?;
                self.reserved(at, reserved)?;
            }
            BrokerEvent::PriceSet { price, reserved } => {
                self.cut(at);
                self.price_set(at, price)?;
                self.reserved(at, reserved)?;
            }
            BrokerEvent::Held { reserved } => self.reserved(at, reserved)?,
            BrokerEvent::MonthClosed { month } => self.month_closed(month)?,
            BrokerEvent::Asked(asked) => self.asked(at, asked),
            BrokerEvent::TokenAdded { token } => self.token_added(token),
            BrokerEvent::TokenRevoked { name, tenant } => {
                let same = |one: &Token| one.name == *name && one.tenant == *tenant;
                self.tokens.retain(|_, one| !same(one));
            }
            BrokerEvent::LeaseRequested { .. } => self.requested(at, &logged.event)?,
            BrokerEvent::MonthBegan { reserved } => self.month_began(at, reserved)?,
            BrokerEvent::Planned { plan, placed } => {
                let plan: Plan = plan.clone().noun();
                self.planned(at, &plan, placed)?;
            }
            BrokerEvent::Fleet { event } => self.fleet_event(at, event.clone().noun())?,
            BrokerEvent::FleetFiled { file } => self.fleet_filed(file),
            BrokerEvent::Cordoned { node, drains } => {
                if *drains {
                    self.drained.insert(node.noun());
                }
                self.cordon_set(at, node.noun(), true)?;
            }
            BrokerEvent::Uncordoned { node } => {
                self.drained.remove(&node.noun());
                self.cordon_set(at, node.noun(), false)?;
            }
            BrokerEvent::SecretSet { tenant, name } => {
                self.secrets.insert((tenant.clone(), name.clone()), at);
            }
            BrokerEvent::SecretRemoved { tenant, name } => {
                self.secrets.remove(&(tenant.clone(), name.clone()));
            }
            BrokerEvent::WarmKept { reservation } => self.warm_kept(at, reservation)?,
            BrokerEvent::Draining { lease, reason } => self.drain(at, *lease, reason)?,
            BrokerEvent::Ended {
                lease,
                how,
                reason,
                exit_code,
                ended_ns,
            } => {
                let over = Over {
                    at: ended_ns.map_or(at, |ended| Nanoseconds(ended.min(at.0))),
                    how: *how,
                    reason: reason.clone(),
                    exit_code: *exit_code,
                };
                self.end(at, *lease, over)?;
            }
            BrokerEvent::Restarting {
                lease, after_ns, ..
            } => self.restarting(at, *lease, Nanoseconds(*after_ns))?,
            BrokerEvent::Halted { lease, reason } => self.halted(at, *lease, Some(reason))?,
            BrokerEvent::Resumed { lease } => self.halted(at, *lease, None)?,
            BrokerEvent::Restarted { lease } => self.restarted(*lease),
            BrokerEvent::Used { .. }
            | BrokerEvent::SloSet { .. }
            | BrokerEvent::SloRemoved { .. }
            | BrokerEvent::DemandSet { .. }
            | BrokerEvent::Learned { .. }
            | BrokerEvent::ScaleSet { .. }
            | BrokerEvent::Scaled { .. }
            | BrokerEvent::Pooled { .. }
            | BrokerEvent::Proposed { .. }
            | BrokerEvent::ProposalMoved { .. } => self.of_a_service(at, &logged.event)?,
        }
        self.lend(at);
        Ok(())
    }

    fn token_added(&mut self, token: &TokenDocument) {
        let known = Token {
            name: token.name.clone(),
            role: token.role,
            tenant: token.tenant.clone(),
            expires: token.expires_ns.map(Nanoseconds),
        };
        self.tokens.insert(token.hash.clone(), known);
    }

    /// What services told, are held to, and should become.
    fn of_a_service(&mut self, at: Nanoseconds, event: &BrokerEvent) -> Result<(), Broken> {
        match event {
            BrokerEvent::Used { usage } => {
                self.used(at, usage);
                self.still_at_risk(at);
            }
            BrokerEvent::SloSet { slo } => self.slo_set(slo),
            BrokerEvent::SloRemoved { slo } => {
                self.slos.remove(slo);
            }
            BrokerEvent::DemandSet {
                lease,
                priority,
                at_risk,
                reason,
            } => self.demand_set(at, (*lease, *priority, *at_risk), reason)?,
            BrokerEvent::Learned { lease, rows, .. } => {
                self.learned.insert(*lease, rows.clone());
            }
            BrokerEvent::ScaleSet { service, policy } => {
                self.scaling_set(at, *service, policy.as_ref());
            }
            BrokerEvent::Scaled { look } => self.scaled_by(at, look),
            BrokerEvent::Pooled { pool } => self.pooled_by(at, pool),
            BrokerEvent::Proposed { proposal } => self.proposed(at, proposal),
            BrokerEvent::ProposalMoved {
                proposal,
                state,
                reason,
                successor,
                saved,
            } => self.proposal_moved(
                at,
                (*proposal, *state, *successor),
                reason,
                saved.as_deref(),
            ),
            // Others are applied where they are told apart.
            _ => {}
        }
        Ok(())
    }

    pub(crate) fn happen(&mut self, at: Nanoseconds, event: Event) -> Result<(), Broken> {
        self.world.apply(&TimestampedEvent { at, event })?;
        Ok(())
    }
}

fn money(text: &str) -> Result<Money, Broken> {
    text.parse()
        .map_err(|error| Broken::Document(format!("an event of the log: {error}")))
}
