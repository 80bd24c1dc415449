//! Keeps runs, figures, findings and proposals, in SQLite by default or in PostgreSQL by URL.
