//! Tenants and tokens.

use crate::{Broker, Lease, Refusal, money::Trial};
use gpuwise_account::period::Month;
use gpuwise_domain::placement::{Queue, queue_problems};
use gpuwise_units::{Currency, Money, Nanoseconds};
use gpuwise_wire::{
    Mirror as _,
    broker::{BrokerEvent, Role, TenantDocument, TokenDocument},
    live::QueueDocument,
};

/// Who leases and pays. Its quota and weight are those of the kernel's queue of its name.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Tenant {
    pub name: String,
    pub created: Nanoseconds,
    /// Whether it may ask for nothing new.
    pub suspended: bool,
}

/// A token that may be used.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Token {
    pub name: String,
    pub role: Role,
    /// The tenant that it is for; `None`: for all.
    pub tenant: Option<String>,
    pub expires: Option<Nanoseconds>,
}

impl Token {
    /// Whether it may see what is a tenant's.
    pub fn sees(&self, tenant: &str) -> bool {
        self.tenant.as_deref().is_none_or(|own| own == tenant)
    }
}

/// Characters of a name at most.
const NAME: usize = 63;

/// Whether a name can stand in addresses, labels and files: letters, digits, `-`, `_`, `.`.
pub(crate) fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let first = name.bytes().next();
    name.len() <= NAME
        && first.is_some_and(|byte| byte.is_ascii_alphanumeric())
        && name.bytes().all(allowed)
}

/// Whether a name reads as a lease: what takes either of them would take one for the other.
fn is_lease_id(name: &str) -> bool {
    let number = name.strip_prefix("L-");
    number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

impl Broker {
    /// Creates a tenant, whose queue says its quota and weight.
    ///
    /// # Errors
    /// When the name cannot be one or is taken, or the quotas contradict each other.
    pub fn create_tenant(
        &self,
        queue: Queue,
        budget: Option<Money>,
    ) -> Result<Vec<BrokerEvent>, Refusal> {
        if is_lease_id(&queue.name) {
            let problem = format!("{:?} is how leases are called: choose another", queue.name);
            return Err(Refusal::invalid("name", problem));
        }
        if !is_name(&queue.name) {
            let problem = format!(
                "{:?} cannot be a name; expected at most {NAME} letters, digits, `-`, `_` and `.`, \
                 a letter or digit first",
                queue.name
            );
            return Err(Refusal::invalid("name", problem));
        }
        if self.tenants.contains_key(&queue.name) {
            return Err(Refusal::TenantExists(queue.name));
        }
        let mut queues = self.world.queues().to_vec();
        queues.push(queue.clone());
        Self::possible(&queues, budget)?;
        Ok(vec![tenant_set(&queue, budget, false, Vec::new())])
    }

    fn possible(queues: &[Queue], budget: Option<Money>) -> Result<(), Refusal> {
        if budget.is_some_and(|budget| budget.micros < 0) {
            return Err(Refusal::invalid("budget", "it is below 0"));
        }
        if let Some(budget) = budget {
            let known = Currency::given(budget.currency.code());
            known.map_err(|error| Refusal::invalid("budget", error.to_string()))?;
        }
        match queue_problems(queues).first() {
            Some(problem) => Err(Refusal::invalid("quota", problem.words(queues))),
            None => Ok(()),
        }
    }

    /// Changes a tenant. A budget that is new, or less than before, holds what was spent this month and what its leases
    /// may still cost.
    ///
    /// # Errors
    /// When there is none, quotas contradict each other, or such a budget is too small for its leases.
    pub fn change_tenant(
        &self,
        at: Nanoseconds,
        queue: Queue,
        budget: Option<Money>,
        suspended: bool,
    ) -> Result<Vec<BrokerEvent>, Refusal> {
        if !self.tenants.contains_key(&queue.name) {
            return Err(Refusal::NoSuchTenant(queue.name));
        }
        let mut queues = self.world.queues().to_vec();
        queues.retain(|other| other.name != queue.name);
        queues.push(queue.clone());
        Self::possible(&queues, budget)?;
        let before = self.budget(&queue.name);
        if let (Some(before), Some(after)) = (before, budget)
            && before.currency != after.currency
        {
            let problem = format!(
                "it is in {}: take it away first, then give one in {}",
                before.currency, after.currency
            );
            return Err(Refusal::invalid("budget", problem));
        }
        let mut reserved = Vec::new();
        let is_less = |after: Money| before.is_none_or(|before| after.micros < before.micros);
        if budget.is_some_and(is_less) {
            let mut accounts = self.accounts_until(at);
            accounts.set_budget(Month::of(at), &queue.name, budget);
            let mut trial = Trial {
                budgets: accounts.budgets.clone(),
                prices: accounts.books.prices(),
                counted: at,
            };
            let of: Vec<&Lease> = self.open_of(&queue.name).collect();
            reserved = self.held(&mut trial, at, &of)?;
        }
        Ok(vec![tenant_set(&queue, budget, suspended, reserved)])
    }

    /// What was asked for under a key within the last day, other than a lease; `None`: the key is new.
    ///
    /// # Errors
    /// When something else was asked for under it.
    pub fn deed(
        &self,
        at: Nanoseconds,
        tenant: &str,
        key: &(String, String),
    ) -> Result<Option<&str>, Refusal> {
        Ok(self.deeds.of(at, tenant, key)?.map(String::as_str))
    }

    /// Lets a token be used, by its hash.
    ///
    /// # Errors
    /// When its name is taken, or its role needs a tenant that is not there.
    pub fn add_token(&self, token: TokenDocument) -> Result<Vec<BrokerEvent>, Refusal> {
        if !is_name(&token.name) {
            return Err(Refusal::invalid("name", "it cannot be a name"));
        }
        let needs = matches!(token.role, Role::TenantAdmin | Role::Member);
        match &token.tenant {
            None if needs => {
                let problem = format!("a token of role {} is for a tenant", token.role.name());
                return Err(Refusal::invalid("tenant", problem));
            }
            Some(_) if matches!(token.role, Role::Administrator | Role::Operator) => {
                let problem = format!("a token of role {} is for no tenant", token.role.name());
                return Err(Refusal::invalid("tenant", problem));
            }
            Some(name) if !self.tenants.contains_key(name) => {
                return Err(Refusal::NoSuchTenant(name.clone()));
            }
            _ => {}
        }
        let same = |one: &Token| one.name == token.name && one.tenant == token.tenant;
        if self.tokens.values().any(same) {
            return Err(Refusal::TokenExists(token.name));
        }
        Ok(vec![BrokerEvent::TokenAdded { token }])
    }

    /// Makes a token useless.
    ///
    /// # Errors
    /// When there is none of this name.
    pub fn revoke_token(
        &self,
        name: &str,
        tenant: Option<&str>,
    ) -> Result<Vec<BrokerEvent>, Refusal> {
        let same = |one: &&Token| one.name == name && one.tenant.as_deref() == tenant;
        match self.tokens.values().find(same) {
            None => Err(Refusal::NoSuchToken(name.into())),
            Some(_) => Ok(vec![BrokerEvent::TokenRevoked {
                name: name.into(),
                tenant: tenant.map(Into::into),
            }]),
        }
    }
}

fn tenant_set(
    queue: &Queue,
    budget: Option<Money>,
    suspended: bool,
    reserved: Vec<(u32, String)>,
) -> BrokerEvent {
    BrokerEvent::TenantSet {
        tenant: TenantDocument {
            queue: QueueDocument::of(queue),
            budget: budget.map(exact),
            suspended,
        },
        reserved,
    }
}

/// Money as a text that reads back as the same: all decimals that it has.
pub fn exact(money: Money) -> String {
    let (sign, micros) = (
        if money.micros < 0 { "-" } else { "" },
        money.micros.unsigned_abs(),
    );
    let (whole, part) = (micros / 1_000_000, micros % 1_000_000);
    let decimals = format!("{part:06}");
    match decimals.trim_end_matches('0') {
        "" => format!("{sign}{whole} {}", money.currency),
        decimals => format!("{sign}{whole}.{decimals} {}", money.currency),
    }
}
