//! What was proposed, and what became of it.

use crate::{
    Store,
    error::{StoreError, failed},
};
use sqlx::Row as _;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredProposal {
    pub id: String,
    pub workload: String,
    pub tenant: String,
    /// When it was made, in nanoseconds since 1970.
    pub made_at_ns: i64,
    /// `open`, `proven`, `disproven`, `gone`…: the caller's words.
    pub state: String,
    /// When that was found, in nanoseconds since 1970.
    pub settled_at_ns: Option<i64>,
    /// The proposal, its prediction and what was measured after, as a document.
    pub document: String,
}

impl Store {
    /// Remembers proposals. One with a known id is replaced.
    ///
    /// # Errors
    /// When the database refuses; then none is kept.
    pub fn remember(&self, proposals: &[StoredProposal]) -> Result<(), StoreError> {
        self.runtime
            .block_on(async {
                let mut transaction = self.pool.begin().await?;
                for proposal in proposals {
                    sqlx::query(
                        "INSERT INTO proposals (id, workload, tenant, made_at_ns, state, settled_at_ns, document) \
                         VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (id) DO UPDATE SET \
                         state = excluded.state, settled_at_ns = excluded.settled_at_ns, document = excluded.document",
                    )
                    .bind(&proposal.id)
                    .bind(&proposal.workload)
                    .bind(&proposal.tenant)
                    .bind(proposal.made_at_ns)
                    .bind(&proposal.state)
                    .bind(proposal.settled_at_ns)
                    .bind(&proposal.document)
                    .execute(&mut *transaction)
                    .await?;
                }
                transaction.commit().await
            })
            .map_err(failed("remembering proposals"))
    }

    /// All proposals, the oldest first.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn proposals(&self) -> Result<Vec<StoredProposal>, StoreError> {
        self.runtime
            .block_on(async {
                let rows = sqlx::query(
                    "SELECT id, workload, tenant, made_at_ns, state, settled_at_ns, document \
                     FROM proposals ORDER BY made_at_ns, id",
                )
                .fetch_all(&self.pool)
                .await?;
                rows.iter()
                    .map(|row| {
                        Ok(StoredProposal {
                            id: row.try_get(0)?,
                            workload: row.try_get(1)?,
                            tenant: row.try_get(2)?,
                            made_at_ns: row.try_get(3)?,
                            state: row.try_get(4)?,
                            settled_at_ns: row.try_get(5)?,
                            document: row.try_get(6)?,
                        })
                    })
                    .collect::<Result<Vec<_>, sqlx::Error>>()
            })
            .map_err(failed("reading proposals"))
    }
}
