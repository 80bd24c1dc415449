//! What sizing recommends and a user saves.
