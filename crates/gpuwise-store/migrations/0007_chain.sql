-- Each event proves those before it: the SHA-256 of it and of what the event before has here; empty: it was
-- written before there was a chain, and the first one that has it covers it.
ALTER TABLE log_events ADD COLUMN chain TEXT NOT NULL DEFAULT '';

-- The last event that was written and its chain, so that a missing end is seen; and the writer's time when it
-- last said that it is alive.
ALTER TABLE log_leader ADD COLUMN head_seq BIGINT NOT NULL DEFAULT 0;
ALTER TABLE log_leader ADD COLUMN head TEXT NOT NULL DEFAULT '';
ALTER TABLE log_leader ADD COLUMN seen_ns BIGINT NOT NULL DEFAULT 0;
