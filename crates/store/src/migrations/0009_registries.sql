-- Where custom steps come from.
CREATE TABLE registries (
  org_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  name TEXT NOT NULL,
  url TEXT NOT NULL,
  -- A branch, a tag or a commit; null for the default branch.
  ref TEXT,
  -- The name of a secret of the organization.
  credential TEXT,
  status TEXT NOT NULL CHECK (status IN ('pending', 'building', 'ready', 'failed')),
  -- What the ref pointed at when it was last seen.
  commit_id TEXT,
  -- The version that is meant where none is named.
  current_commit TEXT,
  -- Not built again until somebody asks.
  failed_commit TEXT,
  synced_at BIGINT,
  error TEXT,
  -- In a row: each doubles the wait.
  failures BIGINT NOT NULL,
  due_at BIGINT,
  -- Builds so far.
  builds BIGINT NOT NULL DEFAULT 0,
  version BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  deleted_at BIGINT,
  PRIMARY KEY (org_id, id)
);
CREATE UNIQUE INDEX registries_by_name ON registries (org_id, name) WHERE deleted_at IS NULL;
CREATE INDEX registries_due ON registries (due_at) WHERE due_at IS NOT NULL;

-- Every try to build a commit. Of each registry the newest are kept.
CREATE TABLE registry_builds (
  org_id TEXT NOT NULL,
  registry_id TEXT NOT NULL,
  number BIGINT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('building', 'succeeded', 'failed', 'interrupted')),
  commit_id TEXT NOT NULL,
  started_at BIGINT NOT NULL,
  finished_at BIGINT,
  error TEXT,
  PRIMARY KEY (org_id, registry_id, number),
  FOREIGN KEY (org_id, registry_id) REFERENCES registries (org_id, id),
  CHECK ((status = 'building') = (finished_at IS NULL))
);
CREATE INDEX registry_builds_under_way ON registry_builds (org_id, registry_id) WHERE status = 'building';

-- What was built well. Written once, never changed.
CREATE TABLE registry_versions (
  org_id TEXT NOT NULL,
  registry_id TEXT NOT NULL,
  commit_id TEXT NOT NULL,
  -- Of the build it came from.
  number BIGINT NOT NULL,
  digest TEXT NOT NULL,
  start TEXT NOT NULL,
  input TEXT NOT NULL CHECK (input IN ('argument', 'file')),
  -- As the registry described them.
  steps TEXT NOT NULL,
  built_at BIGINT NOT NULL,
  PRIMARY KEY (org_id, registry_id, commit_id),
  FOREIGN KEY (org_id, registry_id) REFERENCES registries (org_id, id)
);

-- Branches and tags that versions were built from. A tag stays with the version it was first seen at.
CREATE TABLE registry_refs (
  org_id TEXT NOT NULL,
  registry_id TEXT NOT NULL,
  name TEXT NOT NULL,
  is_tag BIGINT NOT NULL,
  commit_id TEXT NOT NULL,
  PRIMARY KEY (org_id, registry_id, name),
  FOREIGN KEY (org_id, registry_id, commit_id) REFERENCES registry_versions (org_id, registry_id, commit_id)
) {without_rowid};

-- Which pipelines name which custom steps.
CREATE TABLE step_uses (
  org_id TEXT NOT NULL,
  -- Empty for CUSTOM:<TYPE>, which means whichever registry has the step.
  registry TEXT NOT NULL,
  step TEXT NOT NULL,
  pipeline_id TEXT NOT NULL,
  PRIMARY KEY (org_id, registry, step, pipeline_id),
  FOREIGN KEY (org_id, pipeline_id) REFERENCES pipelines (org_id, id)
) {without_rowid};
CREATE INDEX step_uses_of_pipeline ON step_uses (org_id, pipeline_id);
