-- One text for SQLite and PostgreSQL. Keys are the first 63 bits of a hash, so that two writers never
-- need to ask each other, and a run that is brought twice is one run.
CREATE TABLE runs (
  run BIGINT PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  source TEXT NOT NULL,
  name TEXT NOT NULL,
  started_at_ns BIGINT,
  imported_at_ns BIGINT NOT NULL,
  files TEXT NOT NULL,
  missing TEXT NOT NULL,
  measured TEXT NOT NULL
);
CREATE INDEX runs_by_time ON runs (imported_at_ns);

CREATE TABLE run_hardware (
  run BIGINT NOT NULL REFERENCES runs (run) ON DELETE CASCADE,
  product TEXT NOT NULL,
  PRIMARY KEY (run, product)
);

CREATE TABLE run_software (
  run BIGINT NOT NULL REFERENCES runs (run) ON DELETE CASCADE,
  name TEXT NOT NULL,
  version TEXT NOT NULL,
  PRIMARY KEY (run, name, version)
);

CREATE TABLE run_labels (
  run BIGINT NOT NULL REFERENCES runs (run) ON DELETE CASCADE,
  name TEXT NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (run, name)
);
CREATE INDEX labels_by_value ON run_labels (name, value);

-- Names of figures and of their parts, once each.
CREATE TABLE names (
  name BIGINT PRIMARY KEY,
  text TEXT NOT NULL
);

CREATE TABLE figures (
  figure BIGINT NOT NULL,
  run BIGINT NOT NULL REFERENCES runs (run) ON DELETE CASCADE,
  position BIGINT NOT NULL,
  rank BIGINT,
  device BIGINT,
  part BIGINT,
  integer_value BIGINT,
  real_value DOUBLE PRECISION,
  unknown TEXT,
  PRIMARY KEY (run, position)
);
CREATE INDEX figures_by_name ON figures (figure, run);

CREATE TABLE findings (
  run BIGINT NOT NULL REFERENCES runs (run) ON DELETE CASCADE,
  position BIGINT NOT NULL,
  class TEXT NOT NULL,
  statement TEXT NOT NULL,
  document TEXT NOT NULL,
  PRIMARY KEY (run, position)
);
CREATE INDEX findings_by_class ON findings (class, run);

-- What was proposed, and what became of it.
CREATE TABLE proposals (
  id TEXT PRIMARY KEY,
  workload TEXT NOT NULL,
  tenant TEXT NOT NULL,
  made_at_ns BIGINT NOT NULL,
  state TEXT NOT NULL,
  settled_at_ns BIGINT,
  document TEXT NOT NULL
);
CREATE INDEX proposals_by_workload ON proposals (workload, made_at_ns);
