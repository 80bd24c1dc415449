//! Prices that hold from a moment on.

use crate::{
    Broken, Broker, Lease, Refusal,
    money::{Trial, entry},
    tenants::exact,
};
use gpuwise_account::{
    period::Month,
    prices::{Applies, LENT_USUAL, Metered, Part, PriceBook, PriceEntry},
    usage::Granted,
};
use gpuwise_domain::{offer::Terms, placement::Preemption};
use gpuwise_sched::policy::PriceOf;
use gpuwise_units::{Money, Nanoseconds};
use gpuwise_wire::broker::{BrokerEvent, PriceDocument};

/// Millionths an hour above which a price is a mistake, and months of many GPUs leave what is counted with.
const DEAREST: i64 = 1_000_000_000_000;

impl Broker {
    /// Sets a price from a moment on; the one that was for the same ends there. Budgets hold what leases
    /// may cost by it from now on, and who finds too little left is told to end.
    ///
    /// # Errors
    /// When it is no price, or is for nothing that there is.
    pub fn set_price(
        &self,
        at: Nanoseconds,
        price: PriceDocument,
    ) -> Result<Vec<BrokerEvent>, Refusal> {
        const REASON: &str = "the budget has too little left for it at the new price";
        if let Some(tenant) = price.tenant.as_ref()
            && !self.tenants.contains_key(tenant)
        {
            return Err(Refusal::NoSuchTenant(tenant.clone()));
        }
        let invalid = |problem: String| Refusal::Invalid {
            field: "price".into(),
            problem,
        };
        self.may_be_set(&price).map_err(invalid)?;
        let book = self.book_with(&price).map_err(invalid)?;
        let mut accounts = self.accounts_until(at);
        accounts.set_prices(Month::of(at), book);
        let mut trial = Trial {
            budgets: accounts.budgets.clone(),
            prices: accounts.books.prices(),
            counted: at,
        };
        let open: Vec<&Lease> = self.open().collect();
        let (reserved, ended) = self.held_again(&mut trial, at, &open, REASON);
        let set = BrokerEvent::PriceSet { price, reserved };
        Ok([set].into_iter().chain(ended).collect())
    }

    /// Whether a price can ever be of something. What is in a log already was taken, and stays.
    fn may_be_set(&self, price: &PriceDocument) -> Result<(), String> {
        let amount = Money::given(&price.amount).map_err(|error| error.to_string())?;
        if amount.micros > DEAREST {
            let most = DEAREST / 1_000_000;
            return Err(format!("{}: expected {most} an hour at most", price.amount));
        }
        if let Some(part) = price.part.as_deref().filter(|part| *part != "whole") {
            let kinds = self.world.kinds().iter();
            let alike = kinds.filter(|one| one.name == price.gpu);
            let shapes = alike.filter_map(|one| one.mig.as_ref());
            let profiles: Vec<&str> = shapes
                .flat_map(|mig| mig.shapes.iter().map(|shape| shape.profile.as_str()))
                .collect();
            if !profiles.contains(&part) {
                let known = match profiles.as_slice() {
                    [] => String::new(),
                    some => format!(" or a MIG profile: {}", some.join(", ")),
                };
                return Err(format!(
                    "part {part:?} of {}: expected whole{known}",
                    price.gpu
                ));
            }
        }
        Ok(())
    }

    pub(crate) fn price_set(
        &mut self,
        at: Nanoseconds,
        price: &PriceDocument,
    ) -> Result<(), Broken> {
        let book = self.book_with(price).map_err(Broken::Document)?;
        self.accounts.set_prices(Month::of(at), book);
        Ok(())
    }

    /// The book with a price more.
    fn book_with(&self, price: &PriceDocument) -> Result<PriceBook, String> {
        let kind = self
            .world
            .kinds()
            .iter()
            .find(|kind| kind.name == price.gpu);
        let kind = kind.ok_or_else(|| format!("the fleet has no GPU {:?}", price.gpu))?;
        let amount: Money = price.amount.parse().map_err(|error| format!("{error}"))?;
        let from = Nanoseconds(price.from_ns);
        let applies = applies(price)?;
        let mut added = entry(price.id.clone(), &kind.name, applies, amount, from);
        added.lent_milli = price.lent_milli.unwrap_or(LENT_USUAL);
        let mut entries: Vec<PriceEntry> = Vec::new();
        for old in self.accounts.books.prices().entries() {
            let mut old = old.clone();
            let same = old.applies == added.applies && old.window.is_none();
            if same && old.metered == Metered::GpuTime {
                if old.valid.start == from {
                    continue;
                }
                if old.valid.start > from {
                    added.valid.end = added.valid.end.min(old.valid.start);
                } else {
                    old.valid.end = old.valid.end.min(from);
                }
            }
            entries.push(old);
        }
        entries.push(added);
        PriceBook::new(entries).map_err(|error| error.to_string())
    }

    /// What GPUs cost, to whom, from when to when.
    pub fn prices(&self) -> &[PriceEntry] {
        self.accounts.books.prices().entries()
    }

    /// What an hour of a whole GPU costs a tenant at a moment; `None`: it has no price.
    pub fn price_at(&self, at: Nanoseconds, tenant: &str, gpu: &str, spot: bool) -> Option<String> {
        self.hourly(at, tenant, gpu, spot).map(exact)
    }

    /// What an hour of a whole GPU costs a job now, for policies that prefer what is cheapest: of the price book, as
    /// statements are.
    pub fn price_of_jobs(&self) -> PriceOf {
        let book = self.accounts.books.prices().clone();
        let kinds = self.world.kinds().iter().map(|kind| kind.name.clone());
        let kinds: Vec<String> = kinds.collect();
        let at = self.now;
        Box::new(move |job, kind| {
            let spot = matches!(job.preemption, Preemption::Allowed { .. });
            hourly_of(&book, at, &job.tenant, kinds.get(kind.0 as usize)?, spot)
        })
    }

    /// Which prices are valid at a moment: another answer than before means that some have changed.
    pub fn priced_at(&self, now: Nanoseconds) -> (usize, Nanoseconds) {
        let entries = self.prices();
        let bounds = entries
            .iter()
            .flat_map(|one| [one.valid.start, one.valid.end]);
        let last = bounds.filter(|at| *at <= now).max();
        (entries.len(), last.unwrap_or(Nanoseconds(0)))
    }

    pub(crate) fn hourly(
        &self,
        at: Nanoseconds,
        tenant: &str,
        gpu: &str,
        spot: bool,
    ) -> Option<Money> {
        hourly_of(self.accounts.books.prices(), at, tenant, gpu, spot)
    }
}

fn hourly_of(
    book: &PriceBook,
    at: Nanoseconds,
    tenant: &str,
    gpu: &str,
    spot: bool,
) -> Option<Money> {
    let asked = gpuwise_account::prices::Asked {
        tenant,
        kind: gpu,
        granted: &Granted::Whole,
        isolation: gpuwise_account::usage::Sharing::Exclusive,
        class: if spot { Terms::Spot } else { Terms::OnDemand },
    };
    let moment = gpuwise_account::period::Interval::new(at, at + Nanoseconds(1));
    let piece = book
        .pieces(&asked, Metered::GpuTime, moment)
        .into_iter()
        .next()?;
    Some(piece.price?.amount)
}

fn applies(price: &PriceDocument) -> Result<Applies, String> {
    let class = match price.class.as_deref() {
        None => None,
        Some("on-demand") => Some(Terms::OnDemand),
        Some("spot") => Some(Terms::Spot),
        Some(other) => return Err(format!("class {other:?}: expected on-demand or spot")),
    };
    let part = match price.part.as_deref() {
        None => None,
        Some("whole") => Some(Part::Whole),
        Some(profile) => Some(Part::Profile(profile.to_owned())),
    };
    Ok(Applies {
        tenant: price.tenant.clone(),
        kind: Some(price.gpu.clone()),
        part,
        isolation: None,
        class,
    })
}
