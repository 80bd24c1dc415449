-- The broker's log: what happened, in order. A row is never changed; all else can be made from them.
CREATE TABLE log_events (
  seq BIGINT PRIMARY KEY,
  at_ns BIGINT NOT NULL,
  kind TEXT NOT NULL,
  body TEXT NOT NULL
);

-- The state as of an event, so that a start reads a snapshot and what came after it.
CREATE TABLE log_snapshots (
  seq BIGINT PRIMARY KEY,
  form TEXT NOT NULL,
  body TEXT NOT NULL
);

-- Who may write the log: one row. An epoch is taken once; whoever holds an older one is refused. The
-- holder counts `beat` up; who sees it stand still takes the next epoch.
CREATE TABLE log_leader (
  one BIGINT PRIMARY KEY,
  epoch BIGINT NOT NULL,
  holder TEXT NOT NULL,
  beat BIGINT NOT NULL
);
