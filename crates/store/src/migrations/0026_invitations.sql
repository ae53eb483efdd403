-- An invitation to an organization; the row goes when it is accepted, revoked, replaced or expired.
CREATE TABLE invitations (
  org_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  email TEXT NOT NULL,
  email_key TEXT NOT NULL,
  name TEXT,
  role TEXT NOT NULL CHECK (role IN ('viewer', 'deployer', 'admin', 'owner')),
  invited_by TEXT NOT NULL REFERENCES users (id),
  hash BYTEA NOT NULL UNIQUE,
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  PRIMARY KEY (org_id, id),
  UNIQUE (org_id, email_key)
);

-- A link with which a person sets a new password without the old one; at most one per account.
CREATE TABLE password_resets (
  user_id TEXT NOT NULL PRIMARY KEY REFERENCES users (id),
  hash BYTEA NOT NULL UNIQUE,
  expires_at BIGINT NOT NULL
);

-- When the password was last checked in this browser.
ALTER TABLE sign_ins ADD COLUMN confirmed_at BIGINT NOT NULL DEFAULT 0;
UPDATE sign_ins SET confirmed_at = created_at;
