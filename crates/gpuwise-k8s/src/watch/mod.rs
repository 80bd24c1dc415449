//! Keeps the inventory up to date by watches.
//!
//! A task for each kind follows its watch; one task owns the [`Fold`](crate::inventory::Fold) and publishes
//! a copy after changes, at most once in a [`Settings::settle`]. Readers never wait for it.

pub(crate) mod connect;
mod drive;
mod figures;
mod follow;
mod keep;
mod objectives;
mod pace;
mod pool;
mod trouble;

pub use connect::{ConnectError, Source, client, connect};
pub use drive::{DriveError, Said, drive};
pub use figures::{Figures, KindFigures};
pub use pool::{PoolName, PoolSaid, follow_pool};
pub use trouble::{Subject, Trouble, Why};

use crate::inventory::{Inventory, Kind};
use kube::Client;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
};

/// Events that wait for the one that folds them, over all kinds; beyond these the watches wait.
const QUEUE: usize = 1024;

#[derive(Debug, Clone)]
pub struct Settings {
    /// After a change more are waited for so long before all are published.
    pub settle: Duration,
    /// Objects of a page, where lists come in pages.
    pub page: u32,
    /// Lists as the beginning of a watch; `None`: where the server is known to have it.
    pub streaming: Option<bool>,
    /// Seconds after which a watch is asked anew.
    pub timeout: u32,
    /// After so long a kind that could not be seen is tried again.
    pub absent: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            settle: Duration::from_millis(100),
            page: 500,
            streaming: None,
            timeout: 290,
            absent: Duration::from_mins(5),
        }
    }
}

/// What is wrong now, by kind; a kind whose watch goes again is no longer in it.
pub type Troubles = BTreeMap<Kind, Trouble>;

/// An inventory that is kept up to date. Dropping it ends its watches.
#[derive(Debug)]
pub struct Live {
    inventory: watch::Receiver<Arc<Inventory>>,
    troubles: watch::Receiver<Troubles>,
    figures: Arc<Figures>,
    _tasks: JoinSet<()>,
}

/// Begins to watch everything that an inventory holds.
///
/// # Errors
/// When the server cannot be asked which version it is: it is not there, or does not know us.
pub async fn start(client: Client, settings: Settings) -> Result<Live, Trouble> {
    let streaming = match settings.streaming {
        Some(said) => said,
        None => streams(&client).await?,
    };
    let figures = Arc::new(Figures::default());
    let (changes, taken) = mpsc::channel(QUEUE);
    let (publish, inventory) = watch::channel(Arc::new(Inventory::default()));
    let (tell, troubles) = watch::channel(Troubles::new());
    let mut tasks = JoinSet::new();
    tasks.spawn(keep::keep(taken, publish, settings.settle, figures.clone()));
    let common = follow::Common {
        client,
        settings,
        streaming,
        changes,
        troubles: tell,
        figures: figures.clone(),
    };
    follow::all(&common, &mut tasks);
    Ok(Live {
        inventory,
        troubles,
        figures,
        _tasks: tasks,
    })
}

impl Live {
    /// What is known now; complete once [`ready`](Self::ready) has said so.
    pub fn now(&self) -> Arc<Inventory> {
        self.inventory.borrow().clone()
    }

    /// Receives each copy that is published.
    pub fn subscribe(&self) -> watch::Receiver<Arc<Inventory>> {
        self.inventory.clone()
    }

    pub fn troubles(&self) -> watch::Receiver<Troubles> {
        self.troubles.clone()
    }

    pub const fn figures(&self) -> &Arc<Figures> {
        &self.figures
    }

    /// Waits until everything was listed once.
    ///
    /// # Errors
    /// When nodes or pods may not be read, or the server no longer knows us: waiting would not help.
    pub async fn ready(&self) -> Result<Arc<Inventory>, Trouble> {
        let mut inventory = self.inventory.clone();
        let mut troubles = self.troubles.clone();
        loop {
            let known = inventory.borrow_and_update().clone();
            if known.complete() {
                return Ok(known);
            }
            let hopeless = troubles
                .borrow_and_update()
                .iter()
                .find(|(kind, trouble)| kind.needed() && trouble.stays())
                .map(|(_, trouble)| trouble.clone());
            if let Some(trouble) = hopeless {
                return Err(trouble);
            }
            let ended = tokio::select! {
                changed = inventory.changed() => changed.is_err(),
                changed = troubles.changed() => changed.is_err(),
            };
            if ended {
                return Err(Trouble::ended());
            }
        }
    }
}

/// Whether lists can come as the beginning of a watch: on by default since 1.34, and where it is off, in
/// 1.33, the server refuses it and pages are asked for.
pub(crate) async fn streams(client: &Client) -> Result<bool, Trouble> {
    let version = client
        .apiserver_version()
        .await
        .map_err(|error| Trouble::of_client(None, &error))?;
    let minor: String = version
        .minor
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    let minor: u32 = minor.parse().unwrap_or(0);
    let major: u32 = version.major.parse().unwrap_or(1);
    Ok(major > 1 || minor >= 33)
}
