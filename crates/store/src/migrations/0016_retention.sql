-- When the logs of a deployment were removed because they were old. One that was retried since has new ones.
ALTER TABLE deployments ADD COLUMN logs_removed_at BIGINT;
CREATE INDEX deployments_with_logs ON deployments (finished_at)
  WHERE finished_at IS NOT NULL AND (logs_removed_at IS NULL OR logs_removed_at < finished_at);
