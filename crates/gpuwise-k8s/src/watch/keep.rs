//! The task that owns the inventory.

use super::Figures;
use crate::inventory::{Change, Fold, Inventory, Kind};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep_until},
};

/// Folds what comes, and publishes a copy `settle` after the first change that no copy has yet; until
/// everything was listed once nothing is published, for what is half known misleads.
pub(super) async fn keep(
    mut changes: mpsc::Receiver<Change>,
    publish: watch::Sender<Arc<Inventory>>,
    settle: Duration,
    figures: Arc<Figures>,
) {
    let mut fold = Fold::new();
    let mut due: Option<Instant> = None;
    let mut first = true;
    loop {
        let when = due.unwrap_or_else(Instant::now);
        tokio::select! {
            change = changes.recv() => {
                let Some(change) = change else { return };
                if fold.apply(change) {
                    let later = Instant::now() + settle;
                    due = due.or(Some(later));
                }
                if first && fold.inventory().complete() {
                    first = false;
                    due = Some(Instant::now());
                }
            }
            () = sleep_until(when), if due.is_some() => {
                due = None;
                if !fold.inventory().complete() {
                    continue;
                }
                let copy = Arc::new(fold.inventory().clone());
                count(&copy, &figures);
                publish.send_replace(copy);
            }
        }
    }
}

fn count(inventory: &Inventory, figures: &Figures) {
    figures.published();
    for kind in Kind::ALL {
        figures.objects(kind, inventory.count(kind));
    }
}
