-- What runs said of their whole files, day by day, kept when the runs themselves are forgotten. A group is
-- the runs of one name, source, hardware and labels that ran on one day (days since 1970, UTC) and
-- were forgotten at one time.
CREATE TABLE daily_groups (
  day_group BIGINT PRIMARY KEY,
  day BIGINT NOT NULL,
  name TEXT NOT NULL,
  source TEXT NOT NULL,
  hardware TEXT NOT NULL,
  labels TEXT NOT NULL,
  forgotten_at_ns BIGINT NOT NULL,
  runs BIGINT NOT NULL
);
CREATE INDEX daily_by_name ON daily_groups (name, day);

CREATE TABLE daily_figures (
  day_group BIGINT NOT NULL REFERENCES daily_groups (day_group) ON DELETE CASCADE,
  figure BIGINT NOT NULL,
  value_count BIGINT NOT NULL,
  least DOUBLE PRECISION NOT NULL,
  median DOUBLE PRECISION NOT NULL,
  p90 DOUBLE PRECISION NOT NULL,
  most DOUBLE PRECISION NOT NULL,
  PRIMARY KEY (day_group, figure)
);
