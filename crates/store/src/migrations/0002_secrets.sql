-- Keys are stored wrapped: without the root key, which is a file elsewhere, they are noise.
CREATE TABLE instance_keys (
  id TEXT NOT NULL PRIMARY KEY,
  root_key_id TEXT NOT NULL,
  wrapped BYTEA NOT NULL
);
CREATE TABLE data_keys (
  org_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  root_key_id TEXT NOT NULL,
  wrapped BYTEA NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (org_id, id)
);
CREATE INDEX data_keys_by_root ON data_keys (root_key_id);

CREATE TABLE secrets (
  org_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  name TEXT NOT NULL,
  scope TEXT NOT NULL,
  description TEXT,
  version BIGINT NOT NULL,
  revision BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  PRIMARY KEY (org_id, id)
);
CREATE UNIQUE INDEX secrets_by_name ON secrets (org_id, name, scope);

CREATE TABLE secret_values (
  org_id TEXT NOT NULL,
  secret_id TEXT NOT NULL,
  version BIGINT NOT NULL,
  key_id TEXT NOT NULL,
  sealed BYTEA NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (org_id, secret_id, version),
  FOREIGN KEY (org_id, secret_id) REFERENCES secrets (org_id, id) ON DELETE CASCADE,
  FOREIGN KEY (org_id, key_id) REFERENCES data_keys (org_id, id)
);

-- Which pipelines' definitions name which secrets.
CREATE TABLE secret_uses (
  org_id TEXT NOT NULL,
  name TEXT NOT NULL,
  pipeline_id TEXT NOT NULL,
  PRIMARY KEY (org_id, name, pipeline_id)
) {without_rowid};
CREATE INDEX secret_uses_by_pipeline ON secret_uses (org_id, pipeline_id);
