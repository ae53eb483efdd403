-- Authors of what a deployment brings into a stage, as its commits name them.
CREATE TABLE change_authors (
  org_id TEXT NOT NULL,
  deployment_id TEXT NOT NULL,
  stage TEXT NOT NULL,
  -- The commit that the stage had; empty where it had none.
  base TEXT NOT NULL,
  authors TEXT NOT NULL,
  PRIMARY KEY (org_id, deployment_id, stage),
  FOREIGN KEY (org_id, deployment_id) REFERENCES deployments (org_id, id)
) {without_rowid};

-- How many people have to approve, where that is not what the rule says.
ALTER TABLE approvals ADD COLUMN needed BIGINT;
CREATE INDEX approvals_pending ON approvals (id) WHERE status = 'pending';

-- The account that created the token, and the token it came with.
ALTER TABLE api_tokens ADD COLUMN created_by TEXT;
