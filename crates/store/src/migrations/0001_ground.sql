CREATE TABLE organizations (
  id TEXT NOT NULL PRIMARY KEY,
  slug TEXT NOT NULL UNIQUE,
  name TEXT NOT NULL,
  version BIGINT NOT NULL,
  created_at BIGINT NOT NULL
);

CREATE TABLE users (
  id TEXT NOT NULL PRIMARY KEY,
  email TEXT NOT NULL,
  email_key TEXT NOT NULL UNIQUE,
  name TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('person', 'service')),
  owner_id TEXT REFERENCES users (id),
  password_hash TEXT,
  password_is_generated BIGINT NOT NULL,
  created_at BIGINT NOT NULL
);

CREATE TABLE memberships (
  org_id TEXT NOT NULL REFERENCES organizations (id),
  user_id TEXT NOT NULL REFERENCES users (id),
  role TEXT NOT NULL CHECK (role IN ('viewer', 'deployer', 'admin', 'owner')),
  version BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (org_id, user_id)
) {without_rowid};
CREATE INDEX memberships_by_user ON memberships (user_id, org_id);

CREATE TABLE api_tokens (
  org_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  user_id TEXT NOT NULL REFERENCES users (id),
  name TEXT NOT NULL,
  prefix TEXT NOT NULL,
  hash BYTEA NOT NULL UNIQUE,
  created_at BIGINT NOT NULL,
  expires_at BIGINT,
  last_used_at BIGINT,
  revoked_at BIGINT,
  PRIMARY KEY (org_id, id)
);

CREATE TABLE sign_ins (
  id TEXT NOT NULL PRIMARY KEY,
  user_id TEXT NOT NULL REFERENCES users (id),
  hash BYTEA NOT NULL UNIQUE,
  created_at BIGINT NOT NULL,
  last_seen_at BIGINT NOT NULL
);
CREATE INDEX sign_ins_by_user ON sign_ins (user_id);

-- Counted in the database, so that a restart does not give an attacker new tries.
CREATE TABLE sign_in_failures (
  subject TEXT NOT NULL PRIMARY KEY,
  window_started_at BIGINT NOT NULL,
  failures BIGINT NOT NULL
);

CREATE TABLE definitions (
  org_id TEXT NOT NULL REFERENCES organizations (id),
  hash TEXT NOT NULL,
  source TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (org_id, hash)
);

CREATE TABLE pipelines (
  org_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  slug TEXT NOT NULL,
  name TEXT NOT NULL,
  search_key TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('active', 'stopped')),
  stopped_by TEXT,
  stopped_at BIGINT,
  stop_reason TEXT,
  definition_hash TEXT NOT NULL,
  outline TEXT NOT NULL,
  version BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  deleted_at BIGINT,
  PRIMARY KEY (org_id, id),
  FOREIGN KEY (org_id, definition_hash) REFERENCES definitions (org_id, hash)
);
CREATE UNIQUE INDEX pipelines_by_slug ON pipelines (org_id, slug) WHERE deleted_at IS NULL;
-- Lists walk this index; filters are decided in it, without touching the rows.
CREATE INDEX pipelines_listed ON pipelines (org_id, id, status, search_key) WHERE deleted_at IS NULL;

-- Kept totals, and counts per block of consecutive ids, small blocks within large ones: a list knows its length,
-- and finds any offset, without walking its rows.
CREATE TABLE list_totals (
  org_id TEXT NOT NULL,
  list TEXT NOT NULL,
  members BIGINT NOT NULL,
  last_id TEXT NOT NULL,
  PRIMARY KEY (org_id, list)
) {without_rowid};
CREATE TABLE list_blocks (
  org_id TEXT NOT NULL,
  list TEXT NOT NULL,
  size TEXT NOT NULL CHECK (size IN ('large', 'small')),
  first_id TEXT NOT NULL,
  members BIGINT NOT NULL,
  PRIMARY KEY (org_id, list, size, first_id)
) {without_rowid};

CREATE TABLE event_heads (
  org_id TEXT NOT NULL PRIMARY KEY REFERENCES organizations (id),
  sequence BIGINT NOT NULL,
  hash TEXT NOT NULL
) {without_rowid};
CREATE TABLE events (
  org_id TEXT NOT NULL,
  sequence BIGINT NOT NULL,
  id TEXT NOT NULL,
  kind TEXT NOT NULL,
  occurred_at BIGINT NOT NULL,
  actor TEXT NOT NULL,
  request_id TEXT,
  subjects TEXT NOT NULL,
  data TEXT NOT NULL,
  previous_hash TEXT NOT NULL,
  hash TEXT NOT NULL,
  PRIMARY KEY (org_id, sequence)
) {without_rowid};
CREATE UNIQUE INDEX events_by_id ON events (org_id, id);
-- One row for each thing an event can be found by: its kind, its actor, its subjects.
CREATE TABLE event_index (
  org_id TEXT NOT NULL,
  term TEXT NOT NULL,
  sequence BIGINT NOT NULL,
  PRIMARY KEY (org_id, term, sequence)
) {without_rowid};

CREATE TABLE outbox (
  org_id TEXT NOT NULL,
  id TEXT NOT NULL,
  kind TEXT NOT NULL,
  payload TEXT NOT NULL,
  due_at BIGINT NOT NULL,
  attempts BIGINT NOT NULL,
  PRIMARY KEY (org_id, id)
);
CREATE INDEX outbox_due ON outbox (kind, due_at);

CREATE TABLE idempotency (
  caller TEXT NOT NULL,
  operation TEXT NOT NULL,
  idempotency_key TEXT NOT NULL,
  request_hash BYTEA NOT NULL,
  status BIGINT NOT NULL,
  headers TEXT NOT NULL,
  body TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (caller, operation, idempotency_key)
) {without_rowid};
CREATE INDEX idempotency_by_age ON idempotency (created_at);
