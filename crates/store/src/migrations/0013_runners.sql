-- Runners on other machines.
CREATE TABLE runners (
  org_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  -- Null while it has not come, and nobody has chosen one for it.
  name TEXT,
  labels TEXT NOT NULL,
  slots BIGINT NOT NULL,
  program TEXT,
  created_at BIGINT NOT NULL,
  -- SHA-256 of the token it registers with, and until when that is good.
  token_hash BYTEA NOT NULL,
  token_expires_at BIGINT NOT NULL,
  -- SHA-256 of what it shows from then on.
  credential_hash BYTEA,
  registered_at BIGINT,
  -- The process that speaks for it: new at each of its starts.
  boot TEXT,
  is_draining BIGINT NOT NULL,
  seen_at BIGINT,
  left_at BIGINT,
  PRIMARY KEY (org_id, id),
  CHECK ((credential_hash IS NULL) = (registered_at IS NULL))
);
CREATE UNIQUE INDEX runners_by_name ON runners (org_id, name) WHERE name IS NOT NULL;
CREATE UNIQUE INDEX runners_by_token ON runners (token_hash);
CREATE UNIQUE INDEX runners_by_credential ON runners (credential_hash) WHERE credential_hash IS NOT NULL;
