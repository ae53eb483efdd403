-- Where pipelines come from.
CREATE TABLE repositories (
  org_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  url TEXT NOT NULL,
  -- The name of a secret of the organization.
  credential TEXT,
  poll_seconds BIGINT NOT NULL,
  -- Of the default branch, as last seen.
  head TEXT,
  default_branch TEXT,
  synced_at BIGINT,
  error TEXT,
  -- In a row: each doubles the wait.
  failures BIGINT NOT NULL,
  -- What could not be read at the last sync: a list of {path, message, diagnostics}.
  problems TEXT NOT NULL,
  due_at BIGINT,
  version BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  deleted_at BIGINT,
  PRIMARY KEY (org_id, id)
);
CREATE UNIQUE INDEX repositories_by_url ON repositories (org_id, url) WHERE deleted_at IS NULL;
CREATE INDEX repositories_due ON repositories (due_at) WHERE due_at IS NOT NULL;

ALTER TABLE pipelines ADD COLUMN repository_id TEXT;
ALTER TABLE pipelines ADD COLUMN path TEXT;
-- The head of the tracked branch that was last acted upon.
ALTER TABLE pipelines ADD COLUMN head TEXT;
-- The definition is gone from its repository: nothing new starts.
ALTER TABLE pipelines ADD COLUMN retired_at BIGINT;
-- Deployments of its stages so far.
ALTER TABLE pipelines ADD COLUMN deployments BIGINT NOT NULL DEFAULT 0;
CREATE INDEX pipelines_of_repository ON pipelines (org_id, repository_id) WHERE repository_id IS NOT NULL;

-- Why a deployment of stages began: `push`, `api`, `retry` and the like.
ALTER TABLE deployments ADD COLUMN cause_kind TEXT;
ALTER TABLE deployments ADD COLUMN reason TEXT;
ALTER TABLE deployments ADD COLUMN resolved_commit TEXT;
CREATE INDEX deployments_of_pipeline ON deployments (org_id, pipeline_id, id);
CREATE UNIQUE INDEX rollouts_by_number ON deployments (org_id, pipeline_id, number) WHERE environment_id IS NULL;
-- Deployments of stages that have not ended.
CREATE INDEX deployments_in_line ON deployments (org_id, pipeline_id, number)
  WHERE environment_id IS NULL AND finished_at IS NULL;
CREATE INDEX deployments_to_plan ON deployments (created_at)
  WHERE environment_id IS NULL AND status = 'queued';

CREATE TABLE plans (
  org_id TEXT NOT NULL,
  deployment_id TEXT NOT NULL,
  plan TEXT NOT NULL,
  PRIMARY KEY (org_id, deployment_id),
  FOREIGN KEY (org_id, deployment_id) REFERENCES deployments (org_id, id)
) {without_rowid};

CREATE TABLE runs (
  org_id TEXT NOT NULL,
  deployment_id TEXT NOT NULL,
  pipeline_id TEXT NOT NULL,
  stages TEXT NOT NULL,
  -- The first moment at which a step may be granted; null when none may.
  ready_at BIGINT,
  -- The stage it waits to be let into.
  queued_for TEXT,
  version BIGINT NOT NULL,
  PRIMARY KEY (org_id, deployment_id),
  FOREIGN KEY (org_id, deployment_id) REFERENCES deployments (org_id, id)
) {without_rowid};
CREATE INDEX runs_ready ON runs (ready_at) WHERE ready_at IS NOT NULL;
CREATE INDEX runs_queued ON runs (deployment_id) WHERE queued_for IS NOT NULL;

CREATE TABLE step_runs (
  org_id TEXT NOT NULL,
  deployment_id TEXT NOT NULL,
  stage BIGINT NOT NULL,
  position BIGINT NOT NULL,
  id TEXT NOT NULL,
  step TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN
    ('pending', 'ready', 'running', 'waiting', 'succeeded', 'failed', 'cancelled', 'skipped')),
  tries BIGINT NOT NULL,
  failures BIGINT NOT NULL,
  losses BIGINT NOT NULL,
  false_starts BIGINT NOT NULL,
  not_before BIGINT,
  outputs TEXT,
  artifacts TEXT,
  failure TEXT,
  started_at BIGINT,
  finished_at BIGINT,
  PRIMARY KEY (org_id, deployment_id, stage, position),
  FOREIGN KEY (org_id, deployment_id) REFERENCES runs (org_id, deployment_id)
) {without_rowid};
CREATE UNIQUE INDEX step_runs_by_id ON step_runs (org_id, id);

CREATE TABLE attempts (
  org_id TEXT NOT NULL,
  deployment_id TEXT NOT NULL,
  step_id TEXT NOT NULL,
  -- With this key no attempt is made twice.
  number BIGINT NOT NULL,
  runner TEXT NOT NULL,
  nonce TEXT NOT NULL,
  -- Rises with every sign of life.
  renewal BIGINT NOT NULL DEFAULT 0,
  granted_at BIGINT NOT NULL,
  ended_at BIGINT,
  outcome TEXT,
  isolation TEXT,
  log_bytes BIGINT,
  PRIMARY KEY (org_id, deployment_id, step_id, number)
) {without_rowid};
CREATE UNIQUE INDEX attempts_by_nonce ON attempts (nonce);
CREATE INDEX attempts_live ON attempts (granted_at) WHERE ended_at IS NULL;
CREATE INDEX attempts_live_of ON attempts (org_id, deployment_id) WHERE ended_at IS NULL;

-- What a build left, for every later deployment of the same commit and definition.
CREATE TABLE builds (
  org_id TEXT NOT NULL,
  pipeline_id TEXT NOT NULL,
  commit_id TEXT NOT NULL,
  definition_hash TEXT NOT NULL,
  deployment_id TEXT NOT NULL,
  -- Outputs and artifacts by step; null while it runs.
  built TEXT,
  built_at BIGINT,
  PRIMARY KEY (org_id, pipeline_id, commit_id, definition_hash)
) {without_rowid};
