-- What is in each stage of a pipeline. A stage in which nothing has happened has no row.
CREATE TABLE stages (
  org_id TEXT NOT NULL,
  pipeline_id TEXT NOT NULL,
  name TEXT NOT NULL,
  version BIGINT NOT NULL,
  -- The last deployment that succeeded there.
  deployment_id TEXT,
  since BIGINT,
  -- After a rollback nothing else comes in until the pipeline is resumed.
  paused_by TEXT,
  paused_at BIGINT,
  pause_reason TEXT,
  rollback_id TEXT,
  PRIMARY KEY (org_id, pipeline_id, name),
  FOREIGN KEY (org_id, pipeline_id) REFERENCES pipelines (org_id, id)
) {without_rowid};

-- Every try of a stage that succeeded or failed.
CREATE TABLE stage_ends (
  org_id TEXT NOT NULL,
  pipeline_id TEXT NOT NULL,
  stage TEXT NOT NULL,
  deployment_id TEXT NOT NULL,
  tries BIGINT NOT NULL,
  is_success BIGINT NOT NULL,
  ended_at BIGINT NOT NULL,
  -- Whose plan it was: its own, or that of the deployment a rollback went back to.
  origin_id TEXT NOT NULL,
  -- What a rollback has taken back.
  of_id TEXT,
  committed_at BIGINT,
  -- No stage came after it.
  is_last BIGINT NOT NULL,
  PRIMARY KEY (org_id, pipeline_id, stage, deployment_id, tries),
  FOREIGN KEY (org_id, deployment_id) REFERENCES deployments (org_id, id)
) {without_rowid};
CREATE INDEX stage_ends_by_time ON stage_ends (org_id, pipeline_id, stage, ended_at);
CREATE INDEX stage_ends_of_organization ON stage_ends (org_id, ended_at) WHERE is_last = 1;
CREATE INDEX stage_ends_of_pipeline ON stage_ends (org_id, pipeline_id, ended_at) WHERE is_last = 1;
CREATE INDEX stage_ends_taken_back ON stage_ends (org_id, pipeline_id, stage, of_id) WHERE of_id IS NOT NULL;

-- Deployments that ended before there were these tables are entered at the next start.
ALTER TABLE pipelines ADD COLUMN stages_noted BIGINT NOT NULL DEFAULT 0;
