-- When the artifacts of a deployment were given up because they were old. One that was retried since has new ones.
ALTER TABLE deployments ADD COLUMN artifacts_removed_at BIGINT;
CREATE INDEX deployments_with_artifacts ON deployments (finished_at)
  WHERE finished_at IS NOT NULL AND (artifacts_removed_at IS NULL OR artifacts_removed_at < finished_at);
