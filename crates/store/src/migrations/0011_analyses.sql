-- Looks into why a step failed.
CREATE TABLE analyses (
  org_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  deployment_id TEXT NOT NULL,
  pipeline_id TEXT NOT NULL,
  stage TEXT NOT NULL,
  step_id TEXT NOT NULL,
  -- The step's id in the definition.
  step TEXT NOT NULL,
  attempt BIGINT NOT NULL,
  repository_id TEXT,
  commit_id TEXT,
  -- Who asked, as JSON.
  asked_by TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('queued', 'running', 'succeeded', 'failed')),
  -- Equal for failures that are the same.
  fingerprint TEXT,
  -- rules, or a provider and its model.
  analyser TEXT,
  -- What was found, as JSON.
  result TEXT,
  fix_summary TEXT,
  fix_diff TEXT,
  note TEXT,
  reused_from TEXT,
  input_tokens BIGINT,
  output_tokens BIGINT,
  error TEXT,
  created_at BIGINT NOT NULL,
  started_at BIGINT,
  finished_at BIGINT,
  version BIGINT NOT NULL,
  PRIMARY KEY (org_id, id),
  FOREIGN KEY (org_id, deployment_id) REFERENCES deployments (org_id, id),
  CHECK ((finished_at IS NULL) = (status IN ('queued', 'running'))),
  CHECK ((result IS NULL) = (status <> 'succeeded')),
  CHECK ((error IS NULL) = (status <> 'failed'))
);
CREATE INDEX analyses_of_deployment ON analyses (org_id, deployment_id, id);
-- One for each attempt, until it fails.
CREATE UNIQUE INDEX analyses_of_attempt ON analyses (org_id, step_id, attempt) WHERE status <> 'failed';
CREATE INDEX analyses_by_fingerprint ON analyses (org_id, fingerprint, id) WHERE fingerprint IS NOT NULL;
CREATE INDEX analyses_open ON analyses (created_at) WHERE finished_at IS NULL;

-- Exactly what was sent to a model, and what it cost.
CREATE TABLE analysis_requests (
  org_id TEXT NOT NULL,
  analysis_id TEXT NOT NULL,
  number BIGINT NOT NULL,
  analyser TEXT NOT NULL,
  url TEXT NOT NULL,
  -- The body, byte for byte, and its SHA-256.
  body TEXT NOT NULL,
  hash TEXT NOT NULL,
  -- Of the answer; null if none came.
  status BIGINT,
  error TEXT,
  input_tokens BIGINT NOT NULL,
  output_tokens BIGINT NOT NULL,
  sent_at BIGINT NOT NULL,
  PRIMARY KEY (org_id, analysis_id, number),
  FOREIGN KEY (org_id, analysis_id) REFERENCES analyses (org_id, id)
);
CREATE INDEX analysis_requests_by_time ON analysis_requests (org_id, sent_at);

-- Whether a model is asked. No row: it is not.
CREATE TABLE analysis_settings (
  org_id TEXT NOT NULL PRIMARY KEY REFERENCES organizations (id),
  -- Null: the rules alone.
  model TEXT,
  limits TEXT NOT NULL,
  permits_definition BIGINT NOT NULL,
  version BIGINT NOT NULL,
  updated_at BIGINT NOT NULL
);

-- What was proposed to a repository.
CREATE TABLE fix_pull_requests (
  org_id TEXT NOT NULL,
  analysis_id TEXT NOT NULL,
  repository_id TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('opening', 'open', 'pushed', 'failed')),
  branch TEXT NOT NULL,
  commit_id TEXT,
  number BIGINT,
  url TEXT,
  error TEXT,
  asked_by TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  version BIGINT NOT NULL,
  PRIMARY KEY (org_id, analysis_id),
  FOREIGN KEY (org_id, analysis_id) REFERENCES analyses (org_id, id)
);
-- One for each failure of a repository, until it fails.
CREATE UNIQUE INDEX fix_pull_requests_open ON fix_pull_requests (org_id, repository_id, fingerprint)
  WHERE state <> 'failed';
CREATE INDEX fix_pull_requests_opening ON fix_pull_requests (updated_at) WHERE state = 'opening';
