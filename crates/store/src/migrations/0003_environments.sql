-- One row. The epoch is the upper part of every fence: it rises when counters may have been lost.
CREATE TABLE instance (
  id TEXT NOT NULL PRIMARY KEY,
  epoch BIGINT NOT NULL
);
INSERT INTO instance (id, epoch) VALUES ('berth', 0);

-- The definition whose environments have rows. Null for pipelines made before there were any.
ALTER TABLE pipelines ADD COLUMN environments_hash TEXT;
-- Also deleted ones: a fence goes on where a pipeline is made anew.
CREATE INDEX pipelines_by_any_slug ON pipelines (org_id, slug);

-- A row is never removed: its fence outlives the environment. The columns after `deployed_commit` say again, for
-- those who look for something to do, what the other tables say.
CREATE TABLE environments (
  org_id TEXT NOT NULL REFERENCES organizations (id),
  pipeline_id TEXT NOT NULL,
  name TEXT NOT NULL,
  id TEXT NOT NULL,
  configuration TEXT NOT NULL,
  definition_hash TEXT NOT NULL,
  is_declared BIGINT NOT NULL,
  fence BIGINT NOT NULL,
  sessions BIGINT NOT NULL,
  tickets BIGINT NOT NULL,
  deployments BIGINT NOT NULL,
  condition TEXT NOT NULL CHECK (condition IN ('clean', 'dirty', 'unknown')),
  deployed_commit TEXT,
  holder_id TEXT,
  waiting BIGINT NOT NULL,
  unfinished BIGINT NOT NULL,
  due_at BIGINT,
  startable_id TEXT,
  version BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (org_id, pipeline_id, name),
  FOREIGN KEY (org_id, pipeline_id) REFERENCES pipelines (org_id, id)
) {without_rowid};
CREATE UNIQUE INDEX environments_by_id ON environments (org_id, id);
CREATE INDEX environments_due ON environments (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX environments_startable ON environments (startable_id) WHERE startable_id IS NOT NULL;

CREATE TABLE sessions (
  org_id TEXT NOT NULL,
  environment_id TEXT NOT NULL,
  number BIGINT NOT NULL,
  id TEXT NOT NULL,
  fence BIGINT NOT NULL,
  holder TEXT NOT NULL,
  commit_id TEXT,
  context TEXT,
  claimed_at BIGINT NOT NULL,
  extended_at BIGINT,
  extensions BIGINT NOT NULL,
  ttl_seconds BIGINT,
  expires_at BIGINT,
  idle_seconds BIGINT,
  active_at BIGINT NOT NULL,
  warned_of BIGINT,
  deployments BIGINT NOT NULL,
  drain TEXT,
  ended_at BIGINT,
  end_reason TEXT,
  ended_by TEXT,
  end_why TEXT,
  successor_id TEXT,
  PRIMARY KEY (org_id, id),
  FOREIGN KEY (org_id, environment_id) REFERENCES environments (org_id, id),
  CHECK ((ended_at IS NULL) = (end_reason IS NULL))
);
-- With these a mistake becomes an error and not a second holder.
CREATE UNIQUE INDEX sessions_open ON sessions (environment_id) WHERE ended_at IS NULL;
CREATE UNIQUE INDEX sessions_by_fence ON sessions (environment_id, fence);

CREATE TABLE tickets (
  org_id TEXT NOT NULL,
  environment_id TEXT NOT NULL,
  number BIGINT NOT NULL,
  id TEXT NOT NULL,
  holder TEXT NOT NULL,
  user_id TEXT NOT NULL,
  token_id TEXT,
  commit_id TEXT,
  context TEXT,
  ttl_seconds BIGINT,
  deploy BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  takeover_target TEXT,
  takeover_at BIGINT,
  takeover_why TEXT,
  status TEXT NOT NULL CHECK (status IN ('waiting', 'granted', 'cancelled', 'expired')),
  ended_at BIGINT,
  cause TEXT,
  session_id TEXT,
  deployment_id TEXT,
  PRIMARY KEY (org_id, environment_id, number),
  FOREIGN KEY (org_id, environment_id) REFERENCES environments (org_id, id)
);
CREATE UNIQUE INDEX tickets_by_id ON tickets (org_id, id);
CREATE INDEX tickets_waiting ON tickets (org_id, environment_id, number) WHERE status = 'waiting';
CREATE INDEX tickets_waiting_of_user ON tickets (org_id, user_id) WHERE status = 'waiting';

CREATE TABLE deployments (
  org_id TEXT NOT NULL,
  id TEXT NOT NULL,
  pipeline_id TEXT NOT NULL,
  environment_id TEXT,
  number BIGINT NOT NULL,
  stage TEXT NOT NULL,
  definition_hash TEXT NOT NULL,
  -- Null with an environment: it is a reset.
  session_id TEXT,
  fence BIGINT,
  commit_id TEXT NOT NULL,
  requested_by TEXT NOT NULL,
  overrides_drain TEXT,
  status TEXT NOT NULL CHECK (status IN
    ('queued', 'running', 'waiting', 'cancelling', 'succeeded', 'failed', 'cancelled', 'superseded')),
  runner TEXT,
  nonce TEXT,
  granted_at BIGINT,
  -- Rises with every sign of life of the attempt.
  renewal BIGINT NOT NULL DEFAULT 0,
  cancel TEXT,
  failure TEXT,
  superseded_by TEXT,
  created_at BIGINT NOT NULL,
  started_at BIGINT,
  finished_at BIGINT,
  PRIMARY KEY (org_id, id),
  FOREIGN KEY (org_id, pipeline_id) REFERENCES pipelines (org_id, id),
  FOREIGN KEY (org_id, environment_id) REFERENCES environments (org_id, id)
);
CREATE UNIQUE INDEX deployments_by_number ON deployments (org_id, environment_id, number);
CREATE INDEX deployments_unfinished ON deployments (org_id, environment_id, number) WHERE finished_at IS NULL;
CREATE INDEX deployments_of_session ON deployments (org_id, session_id, number);
CREATE INDEX deployments_running ON deployments (granted_at) WHERE granted_at IS NOT NULL AND finished_at IS NULL;
-- What the last stage of a pipeline has, for resets.
CREATE INDEX deployments_of_stages ON deployments (org_id, pipeline_id, id)
  WHERE environment_id IS NULL AND status = 'succeeded';

-- Answers kept for repeats, found by a digest of caller, operation and key: written with every request that has a
-- key, so the row is appended and what is looked up is short. Those of the table before it are read until they are
-- too old to matter.
CREATE TABLE stored_answers (
  digest BYTEA NOT NULL PRIMARY KEY,
  request_hash BYTEA NOT NULL,
  status BIGINT NOT NULL,
  headers TEXT NOT NULL,
  body TEXT NOT NULL,
  created_at BIGINT NOT NULL
);
CREATE INDEX stored_answers_by_age ON stored_answers (created_at);
