//! Secrets of tenants: their names. Values are elsewhere, and never in an event.

use crate::{Broker, Refusal, tenants::is_name};
use gpuwise_units::Nanoseconds;
use gpuwise_wire::broker::BrokerEvent;

/// What a tenant calls a secret, and when it was set last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secret<'b> {
    pub tenant: &'b str,
    pub name: &'b str,
    pub set: Nanoseconds,
}

impl Broker {
    /// Whether a tenant may have a secret of this name.
    ///
    /// # Errors
    /// When there is no such tenant, or it is no name.
    pub fn may_keep(&self, tenant: &str, name: &str) -> Result<(), Refusal> {
        if !self.tenants.contains_key(tenant) {
            return Err(Refusal::NoSuchTenant(tenant.to_owned()));
        }
        if !is_name(name) {
            let problem = format!("{name:?} cannot be a name");
            return Err(Refusal::invalid("secret", problem));
        }
        Ok(())
    }

    /// A secret has a value, or another one.
    ///
    /// # Errors
    /// As [`Broker::may_keep`].
    pub fn set_secret(&self, tenant: &str, name: &str) -> Result<Vec<BrokerEvent>, Refusal> {
        self.may_keep(tenant, name)?;
        Ok(vec![BrokerEvent::SecretSet {
            tenant: tenant.to_owned(),
            name: name.to_owned(),
        }])
    }

    /// # Errors
    /// When there is no such secret.
    pub fn remove_secret(&self, tenant: &str, name: &str) -> Result<Vec<BrokerEvent>, Refusal> {
        self.has_secret(tenant, name)?;
        Ok(vec![BrokerEvent::SecretRemoved {
            tenant: tenant.to_owned(),
            name: name.to_owned(),
        }])
    }

    pub(crate) fn has_secret(&self, tenant: &str, name: &str) -> Result<(), Refusal> {
        let key = (tenant.to_owned(), name.to_owned());
        let there = self.secrets.contains_key(&key);
        there.then_some(()).ok_or(Refusal::NoSuchSecret {
            tenant: key.0,
            name: key.1,
        })
    }

    /// By tenant and name.
    pub fn secrets(&self) -> impl Iterator<Item = Secret<'_>> {
        self.secrets.iter().map(|((tenant, name), set)| Secret {
            tenant,
            name,
            set: *set,
        })
    }
}
