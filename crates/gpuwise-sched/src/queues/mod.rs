//! Who goes first and who may take how much: hierarchical queues, quotas, fairness, reservations, backfill.
