-- Runs of one name, the newest first.
CREATE INDEX runs_by_name ON runs (name, imported_at_ns);
