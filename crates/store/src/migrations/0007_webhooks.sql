-- Outgoing webhooks. Events are read from the audit trail itself: a cursor per webhook says up to where.
CREATE TABLE webhooks (
  org_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  name TEXT NOT NULL,
  url TEXT NOT NULL,
  -- A list of kinds, or "*".
  kinds TEXT NOT NULL,
  format TEXT NOT NULL CHECK (format IN ('standard', 'slack')),
  inactive_since BIGINT,
  inactive_why TEXT,
  version BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  PRIMARY KEY (org_id, id)
);
CREATE UNIQUE INDEX webhooks_by_name ON webhooks (org_id, name);

-- What moves without anybody changing the webhook.
CREATE TABLE webhook_cursors (
  org_id TEXT NOT NULL,
  webhook_id TEXT NOT NULL,
  -- The last event that was looked at.
  sequence BIGINT NOT NULL,
  -- Events it was never told of, because it was too far behind.
  dropped BIGINT NOT NULL,
  -- In a row.
  failures BIGINT NOT NULL,
  PRIMARY KEY (org_id, webhook_id),
  FOREIGN KEY (org_id, webhook_id) REFERENCES webhooks (org_id, id) ON DELETE CASCADE
);

CREATE TABLE webhook_secrets (
  org_id TEXT NOT NULL,
  webhook_id TEXT NOT NULL,
  version BIGINT NOT NULL,
  key_id TEXT NOT NULL,
  sealed BYTEA NOT NULL,
  created_at BIGINT NOT NULL,
  -- Null for the present one.
  valid_until BIGINT,
  PRIMARY KEY (org_id, webhook_id, version),
  FOREIGN KEY (org_id, webhook_id) REFERENCES webhooks (org_id, id) ON DELETE CASCADE,
  FOREIGN KEY (org_id, key_id) REFERENCES data_keys (org_id, id)
);

CREATE TABLE webhook_deliveries (
  org_id TEXT NOT NULL,
  id TEXT NOT NULL,
  webhook_id TEXT NOT NULL,
  event_id TEXT NOT NULL,
  sequence BIGINT NOT NULL,
  kind TEXT NOT NULL,
  -- As it is sent, every time.
  payload TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('pending', 'delivered', 'failed')),
  tries BIGINT NOT NULL,
  attempts BIGINT NOT NULL,
  next_try_at BIGINT,
  created_at BIGINT NOT NULL,
  ended_at BIGINT,
  PRIMARY KEY (org_id, id),
  FOREIGN KEY (org_id, webhook_id) REFERENCES webhooks (org_id, id) ON DELETE CASCADE,
  CHECK ((status = 'pending') = (next_try_at IS NOT NULL))
);
-- With this key no event becomes two deliveries of one webhook.
CREATE UNIQUE INDEX webhook_deliveries_by_event ON webhook_deliveries (org_id, webhook_id, sequence);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (org_id, webhook_id, next_try_at)
  WHERE next_try_at IS NOT NULL;
CREATE INDEX webhook_deliveries_old ON webhook_deliveries (ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE webhook_attempts (
  org_id TEXT NOT NULL,
  delivery_id TEXT NOT NULL,
  number BIGINT NOT NULL,
  at BIGINT NOT NULL,
  duration_ms BIGINT NOT NULL,
  status BIGINT,
  error TEXT,
  PRIMARY KEY (org_id, delivery_id, number),
  FOREIGN KEY (org_id, delivery_id) REFERENCES webhook_deliveries (org_id, id) ON DELETE CASCADE
) {without_rowid};
