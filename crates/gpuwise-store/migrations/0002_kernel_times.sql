-- Kernel time of a run by operator and by kernel, the longest first, so that two runs can be compared by
-- name. A row without a name is of all names that have none of their own. Times are nanoseconds,
-- variances their squares; what a step spends is there where the files mark two steps at least, or
-- repeat a sequence of kernels (`step_kind`: step, repeat).
CREATE TABLE kernel_times (
  run BIGINT NOT NULL REFERENCES runs (run) ON DELETE CASCADE,
  position BIGINT NOT NULL,
  kind TEXT NOT NULL,
  name BIGINT,
  calls BIGINT NOT NULL,
  time_ns BIGINT NOT NULL,
  call_variance DOUBLE PRECISION,
  step_kind TEXT,
  step_count BIGINT,
  step_mean_ns DOUBLE PRECISION,
  step_variance DOUBLE PRECISION,
  PRIMARY KEY (run, position)
);
