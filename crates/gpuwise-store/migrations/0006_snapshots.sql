-- States as of an event, so that a start reads one and what came after it. A state is in pages under its
-- SHA-256; its row is written last, so that one that was cut off is none. It can be dropped at any time.
DROP TABLE log_snapshots;
CREATE TABLE log_snapshots (
  seq BIGINT NOT NULL,
  form TEXT NOT NULL,
  sum TEXT NOT NULL,
  pages BIGINT NOT NULL,
  bytes BIGINT NOT NULL,
  PRIMARY KEY (seq, form)
);
CREATE TABLE log_snapshot_pages (
  sum TEXT NOT NULL,
  page BIGINT NOT NULL,
  body BYTEA NOT NULL,
  PRIMARY KEY (sum, page)
);

-- Events that are no longer here: which, and the file that they were moved to.
CREATE TABLE log_archives (
  last BIGINT PRIMARY KEY,
  events BIGINT NOT NULL,
  file TEXT NOT NULL,
  sum TEXT NOT NULL
);
