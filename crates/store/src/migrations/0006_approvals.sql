-- Questions to people: may this go on?
CREATE TABLE approvals (
  org_id TEXT NOT NULL,
  id TEXT NOT NULL,
  deployment_id TEXT NOT NULL,
  pipeline_id TEXT NOT NULL,
  stage TEXT NOT NULL,
  -- Null: what waits is the stage itself.
  step_id TEXT,
  rule TEXT NOT NULL,
  message TEXT,
  digest TEXT NOT NULL,
  votes TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('pending', 'approved', 'rejected', 'expired', 'lapsed')),
  lapse TEXT,
  requested_at BIGINT NOT NULL,
  expires_at BIGINT,
  ended_at BIGINT,
  version BIGINT NOT NULL,
  PRIMARY KEY (org_id, id),
  FOREIGN KEY (org_id, deployment_id) REFERENCES deployments (org_id, id)
);
CREATE INDEX approvals_by_status ON approvals (org_id, status, id);
CREATE INDEX approvals_of_deployment ON approvals (org_id, deployment_id, id);
CREATE INDEX approvals_due ON approvals (expires_at) WHERE status = 'pending' AND expires_at IS NOT NULL;
-- Nothing is asked about twice at the same time.
CREATE UNIQUE INDEX approvals_open ON approvals (org_id, deployment_id, stage, (COALESCE(step_id, '')))
  WHERE status = 'pending';

-- Who chose to pass every gate, and why.
ALTER TABLE deployments ADD COLUMN bypass TEXT;
-- Accounts that have retried a stage of it: a list.
ALTER TABLE deployments ADD COLUMN retried_by TEXT;
-- When the first of its soaks ends by itself.
ALTER TABLE runs ADD COLUMN wakes_at BIGINT;
CREATE INDEX runs_waking ON runs (wakes_at) WHERE wakes_at IS NOT NULL;
