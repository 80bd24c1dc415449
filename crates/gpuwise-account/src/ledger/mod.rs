//! Double entry: what is posted sums to zero and stays.

mod post;

pub use post::{of_statement, receivable};

use gpuwise_units::{Currency, Money, Nanoseconds};
use std::collections::BTreeMap;

/// An amount on an account; positive is debit, negative is credit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Such as `receivable:vision`.
    pub account: String,
    pub amount: Money,
}

/// Entries that sum to zero in each currency.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transaction {
    pub id: String,
    pub at: Nanoseconds,
    /// What it is about.
    pub memo: String,
    pub entries: Vec<Entry>,
    /// The transaction that this one takes back.
    pub reverses: Option<String>,
}

/// Why something is not posted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LedgerError {
    #[error("transaction `{0}` has fewer than two entries: what one account gets another gives")]
    OneSided(String),
    #[error(
        "transaction `{id}` is {micros} µ{currency} from zero: its entries must sum to zero in each currency"
    )]
    Unbalanced {
        id: String,
        currency: Currency,
        micros: i128,
    },
    #[error(
        "transaction `{0}` was posted before: the ledger is only added to; take it back by a correction"
    )]
    Twice(String),
    #[error("transaction `{id}` takes back `{reverses}`, which was never posted")]
    Unknown { id: String, reverses: String },
    #[error("transaction `{id}` takes back `{reverses}`, which `{by}` took back before")]
    TakenBack {
        id: String,
        reverses: String,
        by: String,
    },
    #[error(
        "transaction `{id}` is not `{reverses}` with opposite signs: a correction takes back all of it, then posts what is right"
    )]
    NotOpposite { id: String, reverses: String },
    #[error(
        "the balance of `{account}` in {currency} is {kept} µ-units and its entries sum to {summed}"
    )]
    Balance {
        account: String,
        currency: Currency,
        kept: i128,
        summed: i128,
    },
}

/// Transactions in the order in which they were posted, and the balances that follow from them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ledger {
    transactions: Vec<Transaction>,
    places: BTreeMap<String, usize>,
    /// What was taken back, and by what.
    taken_back: BTreeMap<String, String>,
    balances: Balances,
}

type Balances = BTreeMap<String, BTreeMap<Currency, i128>>;

impl Ledger {
    /// # Errors
    /// When it does not balance, or was posted, or takes back what cannot be: nothing is posted then.
    pub fn post(&mut self, transaction: Transaction) -> Result<(), LedgerError> {
        self.fault(&transaction)?;
        if let Some(reversed) = &transaction.reverses {
            let by = transaction.id.clone();
            self.taken_back.insert(reversed.clone(), by);
        }
        add(&mut self.balances, &transaction);
        let place = self.transactions.len();
        self.places.insert(transaction.id.clone(), place);
        self.transactions.push(transaction);
        Ok(())
    }

    /// Takes back a transaction and posts another in its place: both, or neither.
    ///
    /// # Errors
    /// As [`Ledger::post`].
    pub fn correct(
        &mut self,
        wrong: &str,
        reversal: &str,
        right: Transaction,
    ) -> Result<(), LedgerError> {
        let Some(reversal) = self.reversal(wrong, reversal, right.at) else {
            return Err(LedgerError::Unknown {
                id: reversal.into(),
                reverses: wrong.into(),
            });
        };
        self.fault(&reversal)?;
        self.fault(&right)?;
        if reversal.id == right.id {
            return Err(LedgerError::Twice(right.id));
        }
        self.post(reversal)?;
        self.post(right)
    }

    /// What would take back a transaction; `None`: it was never posted.
    pub fn reversal(&self, of: &str, id: &str, at: Nanoseconds) -> Option<Transaction> {
        let wrong = self.transaction(of)?;
        Some(Transaction {
            id: id.into(),
            at,
            memo: format!("takes back {of}"),
            entries: wrong.entries.iter().map(opposite).collect(),
            reverses: Some(of.into()),
        })
    }

    fn fault(&self, transaction: &Transaction) -> Result<(), LedgerError> {
        let id = || transaction.id.clone();
        if self.places.contains_key(&transaction.id) {
            return Err(LedgerError::Twice(id()));
        }
        if transaction.entries.len() < 2 {
            return Err(LedgerError::OneSided(id()));
        }
        for (currency, micros) in sums(transaction) {
            if micros != 0 {
                return Err(LedgerError::Unbalanced {
                    id: id(),
                    currency,
                    micros,
                });
            }
        }
        let Some(reverses) = &transaction.reverses else {
            return Ok(());
        };
        let (id, reverses) = (id(), reverses.clone());
        if let Some(by) = self.taken_back.get(&reverses) {
            let by = by.clone();
            return Err(LedgerError::TakenBack { id, reverses, by });
        }
        let Some(wrong) = self.transaction(&reverses) else {
            return Err(LedgerError::Unknown { id, reverses });
        };
        let opposites = wrong.entries.iter().map(opposite);
        if !transaction.entries.iter().cloned().eq(opposites) {
            return Err(LedgerError::NotOpposite { id, reverses });
        }
        Ok(())
    }

    /// In the order in which they were posted.
    pub fn transactions(&self) -> &[Transaction] {
        &self.transactions
    }

    pub fn transaction(&self, id: &str) -> Option<&Transaction> {
        self.places.get(id).map(|place| &self.transactions[*place])
    }

    /// An account's µ-units of a currency.
    pub fn balance(&self, account: &str, currency: Currency) -> i128 {
        let balances = self.balances.get(account);
        let kept = balances.and_then(|balances| balances.get(&currency));
        kept.copied().unwrap_or(0)
    }

    /// All balances, by account and currency.
    pub fn balances(&self) -> impl Iterator<Item = (&str, Currency, i128)> {
        self.balances.iter().flat_map(|(account, balances)| {
            let of = balances.iter();
            of.map(move |(currency, micros)| (account.as_str(), *currency, *micros))
        })
    }

    /// Posts everything again on an empty ledger and compares.
    ///
    /// # Errors
    /// The first transaction that could not be posted, or balance that is another.
    pub fn check(&self) -> Result<(), LedgerError> {
        let mut again = Self::default();
        for transaction in &self.transactions {
            again.post(transaction.clone())?;
        }
        for (account, currency, kept) in self.balances().chain(again.balances()) {
            let summed = again.balance(account, currency);
            if self.balance(account, currency) != summed {
                return Err(LedgerError::Balance {
                    account: account.into(),
                    currency,
                    kept,
                    summed,
                });
            }
        }
        Ok(())
    }
}

fn opposite(entry: &Entry) -> Entry {
    Entry {
        account: entry.account.clone(),
        amount: Money {
            // Only the smallest number has no opposite; `NotOpposite` names it then.
            micros: entry.amount.micros.saturating_neg(),
            currency: entry.amount.currency,
        },
    }
}

fn sums(transaction: &Transaction) -> BTreeMap<Currency, i128> {
    let mut sums = BTreeMap::new();
    for entry in &transaction.entries {
        *sums.entry(entry.amount.currency).or_default() += i128::from(entry.amount.micros);
    }
    sums
}

fn add(balances: &mut Balances, transaction: &Transaction) {
    for entry in &transaction.entries {
        let of = balances.entry(entry.account.clone()).or_default();
        *of.entry(entry.amount.currency).or_default() += i128::from(entry.amount.micros);
    }
}
