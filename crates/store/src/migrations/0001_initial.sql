-- The schema of both databases. A later change is a migration of its own; this text is never edited after a release.

CREATE TABLE organizations (
  id TEXT NOT NULL PRIMARY KEY,
  slug TEXT NOT NULL UNIQUE,
  name TEXT NOT NULL,
  version BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  -- The network of steps that do not name one: host or none.
  default_network TEXT NOT NULL DEFAULT 'host',
  -- Whether people who log in with a password need a second factor.
  require_second_factor BIGINT NOT NULL DEFAULT 0
);

CREATE TABLE users (
  id TEXT NOT NULL PRIMARY KEY,
  email TEXT NOT NULL,
  email_key TEXT NOT NULL UNIQUE,
  name TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('person', 'service', 'agent')),
  owner_id TEXT REFERENCES users (id),
  password_hash TEXT,
  password_is_generated BIGINT NOT NULL,
  created_at BIGINT NOT NULL
);

-- People who manage the organizations of this installation.
CREATE TABLE instance_admins (
  user_id TEXT NOT NULL PRIMARY KEY REFERENCES users (id),
  created_at BIGINT NOT NULL
);

-- Limits of agents, and their deployments in the current hour.
CREATE TABLE agents (
  org_id TEXT NOT NULL REFERENCES organizations (id),
  user_id TEXT NOT NULL REFERENCES users (id),
  sessions BIGINT NOT NULL,
  session_seconds BIGINT NOT NULL,
  deployments_per_hour BIGINT NOT NULL,
  force_claim TEXT NOT NULL CHECK (force_claim IN ('never', 'agents', 'anyone')),
  hour_started_at BIGINT NOT NULL,
  hour_deployments BIGINT NOT NULL,
  PRIMARY KEY (org_id, user_id)
);

-- Organizations in which all agents are stopped.
CREATE TABLE agent_stops (
  org_id TEXT NOT NULL PRIMARY KEY REFERENCES organizations (id),
  stopped_at BIGINT NOT NULL,
  stopped_by TEXT NOT NULL,
  reason TEXT
);

-- Earlier slugs of organizations, also of deleted ones. They keep working as aliases and are never given to another
-- organization.
CREATE TABLE organization_slugs (
  slug TEXT NOT NULL PRIMARY KEY,
  organization_id TEXT NOT NULL,
  created_at BIGINT NOT NULL
);
CREATE INDEX organization_slugs_by_organization ON organization_slugs (organization_id, slug);

CREATE TABLE memberships (
  org_id TEXT NOT NULL REFERENCES organizations (id),
  user_id TEXT NOT NULL REFERENCES users (id),
  role TEXT NOT NULL CHECK (role IN ('member', 'viewer', 'tester', 'approver', 'deployer', 'admin', 'owner')),
  version BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (org_id, user_id)
) {without_rowid};
CREATE INDEX memberships_by_user ON memberships (user_id, org_id);

CREATE TABLE teams (
  org_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  slug TEXT NOT NULL,
  name TEXT NOT NULL,
  version BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (org_id, id),
  UNIQUE (org_id, slug)
);

CREATE TABLE team_members (
  org_id TEXT NOT NULL,
  team_id TEXT NOT NULL,
  user_id TEXT NOT NULL,
  -- manual, or the name of the identity provider whose groups it comes from.
  source TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (org_id, team_id, user_id),
  FOREIGN KEY (org_id, team_id) REFERENCES teams (org_id, id),
  FOREIGN KEY (org_id, user_id) REFERENCES memberships (org_id, user_id)
) {without_rowid};
CREATE INDEX team_members_by_user ON team_members (org_id, user_id);

-- A role on a part of an organization. The role in the whole organization is in the membership.
CREATE TABLE grants (
  org_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  subject_kind TEXT NOT NULL CHECK (subject_kind IN ('user', 'team')),
  subject_id TEXT NOT NULL,
  role TEXT NOT NULL CHECK (role IN ('viewer', 'tester', 'approver', 'deployer', 'admin')),
  scope TEXT NOT NULL,
  created_by TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (org_id, id),
  UNIQUE (org_id, subject_kind, subject_id, role, scope)
);

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
  -- Address and User-Agent of the last use.
  last_used_address TEXT,
  last_used_client TEXT,
  revoked_at BIGINT,
  -- Permissions and scopes that the token is limited to, as JSON.
  restriction TEXT,
  -- For a session token: the environment of the session that it belongs to.
  environment_id TEXT,
  -- The account that created the token, and the token it came with.
  created_by TEXT,
  PRIMARY KEY (org_id, id)
);

CREATE TABLE sign_ins (
  id TEXT NOT NULL PRIMARY KEY,
  user_id TEXT NOT NULL REFERENCES users (id),
  hash BYTEA NOT NULL UNIQUE,
  created_at BIGINT NOT NULL,
  last_seen_at BIGINT NOT NULL,
  -- When the password was last checked in this browser.
  confirmed_at BIGINT NOT NULL DEFAULT 0,
  -- Address and User-Agent of the last request.
  address TEXT NOT NULL,
  user_agent TEXT NOT NULL
);
CREATE INDEX sign_ins_by_user ON sign_ins (user_id);

-- States of logins at providers that were used. A state is accepted once.
CREATE TABLE used_provider_states (
  state_hash BYTEA NOT NULL PRIMARY KEY,
  expires_at BIGINT NOT NULL
);

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
  repository_id TEXT,
  path TEXT,
  -- The head of the tracked branch that was last acted upon.
  head TEXT,
  -- The definition is gone from its repository: nothing new starts.
  retired_at BIGINT,
  -- Deployments of its stages so far.
  deployments BIGINT NOT NULL DEFAULT 0,
  PRIMARY KEY (org_id, id),
  FOREIGN KEY (org_id, definition_hash) REFERENCES definitions (org_id, hash)
);
CREATE UNIQUE INDEX pipelines_by_slug ON pipelines (org_id, slug) WHERE deleted_at IS NULL;
-- Lists walk this index; filters are decided in it, without touching the rows.
CREATE INDEX pipelines_listed ON pipelines (org_id, id, status, search_key) WHERE deleted_at IS NULL;
-- Searches for text that few pipelines contain start from its rarest trigram.
CREATE TABLE pipeline_trigrams (
  org_id TEXT NOT NULL,
  trigram TEXT NOT NULL,
  pipeline_id TEXT NOT NULL,
  PRIMARY KEY (org_id, trigram, pipeline_id),
  FOREIGN KEY (org_id, pipeline_id) REFERENCES pipelines (org_id, id)
) {without_rowid};
CREATE INDEX pipeline_trigrams_of_pipeline ON pipeline_trigrams (org_id, pipeline_id);
-- Includes deleted ones: the fences of a new pipeline with the same slug go on from theirs.
CREATE INDEX pipelines_by_any_slug ON pipelines (org_id, slug);
CREATE INDEX pipelines_of_repository ON pipelines (org_id, repository_id) WHERE repository_id IS NOT NULL;

CREATE TABLE event_heads (
  org_id TEXT NOT NULL PRIMARY KEY REFERENCES organizations (id),
  sequence BIGINT NOT NULL,
  hash TEXT NOT NULL,
  -- Where the kept part of a history begins: number and hash of the last event that was removed because it was old.
  kept_after BIGINT NOT NULL DEFAULT 0,
  kept_hash TEXT NOT NULL
  DEFAULT 'sha256:0000000000000000000000000000000000000000000000000000000000000000'
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

-- What events are found by: their kind, their actor, and the pipelines, environments and deployments they are about.
CREATE TABLE terms (
  id {identity},
  org_id TEXT NOT NULL,
  term TEXT NOT NULL,
  UNIQUE (org_id, term)
);

CREATE TABLE event_terms (
  term_id BIGINT NOT NULL,
  sequence BIGINT NOT NULL,
  PRIMARY KEY (term_id, sequence)
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

-- Keys are stored wrapped: without the root key, which is a file elsewhere, they are noise.
CREATE TABLE instance_keys (
  id TEXT NOT NULL PRIMARY KEY,
  root_key_id TEXT NOT NULL,
  wrapped BYTEA NOT NULL
);

-- Keys that sign the ID tokens of steps. The private key is encrypted.
CREATE TABLE signing_keys (
  id TEXT NOT NULL PRIMARY KEY,
  -- A JSON Web Key.
  public_key TEXT NOT NULL,
  sealed BYTEA NOT NULL,
  created_at BIGINT NOT NULL,
  -- Published from the start, used for signing from then on.
  signs_from BIGINT NOT NULL
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

-- Accounts at identity providers that people log in with.
CREATE TABLE provider_identities (
  id TEXT NOT NULL PRIMARY KEY,
  user_id TEXT NOT NULL REFERENCES users (id),
  -- The organization that the provider is configured for.
  org_id TEXT NOT NULL REFERENCES organizations (id),
  -- The name of the provider in the configuration.
  provider TEXT NOT NULL,
  issuer TEXT NOT NULL,
  subject TEXT NOT NULL,
  -- The address at the provider, for display only.
  email TEXT,
  -- dormant: a login with the password has replaced the provider's verdict.
  status TEXT NOT NULL CHECK (status IN ('active', 'refused', 'dormant')),
  -- When the provider last confirmed the account, and when it is asked again.
  verified_at BIGINT NOT NULL,
  next_check_at BIGINT NOT NULL,
  -- Whether the first login created the Berth account.
  is_provisioned BIGINT NOT NULL,
  -- The role in the organization that a group gives, and the one that applies without the group.
  group_role TEXT,
  own_role TEXT,
  -- The encrypted refresh token. Null if the provider issued none.
  key_id TEXT,
  sealed BYTEA,
  version BIGINT NOT NULL,
  last_login_at BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  UNIQUE (issuer, subject),
  FOREIGN KEY (org_id, key_id) REFERENCES data_keys (org_id, id)
);
CREATE INDEX provider_identities_by_user ON provider_identities (user_id);
CREATE INDEX provider_identities_due ON provider_identities (next_check_at) WHERE status = 'active';

-- Browser logins that came from a provider, with the encrypted ID token, which logging out at the provider needs.
CREATE TABLE provider_logins (
  sign_in_id TEXT NOT NULL PRIMARY KEY REFERENCES sign_ins (id) ON DELETE CASCADE,
  identity_id TEXT NOT NULL REFERENCES provider_identities (id) ON DELETE CASCADE,
  org_id TEXT NOT NULL REFERENCES organizations (id),
  key_id TEXT NOT NULL,
  sealed BYTEA NOT NULL,
  FOREIGN KEY (org_id, key_id) REFERENCES data_keys (org_id, id)
);
CREATE INDEX provider_logins_by_identity ON provider_logins (identity_id);

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

-- One row. The epoch is the upper part of every fence: it rises when counters may have been lost.
CREATE TABLE instance (
  id TEXT NOT NULL PRIMARY KEY,
  epoch BIGINT NOT NULL,
  -- Random and new at every start; a file in the data directory has the same. A database that was copied back differs
  -- from the file. Null: no server has started with it yet.
  incarnation TEXT,
  -- Which PostgreSQL it is, and which of its histories: a failover changes one of them, and the epoch rises.
  system_identifier TEXT,
  timeline TEXT,
  -- The lowest schema version of a server that may use the database.
  schema_min_version BIGINT NOT NULL DEFAULT 1,
  -- Which object storage has the logs and artifacts: the same id is in an object there. Null: they are in the data
  -- directory.
  storage_id TEXT
);
INSERT INTO instance (id, epoch) VALUES ('berth', 0);

-- A row is never removed: its fence outlives the environment. The columns after `deployed_commit` say again, for
-- those who look for something to do, what the other tables say.
CREATE TABLE environments (
  org_id TEXT NOT NULL REFERENCES organizations (id),
  pipeline_id TEXT NOT NULL,
  name TEXT NOT NULL,
  id TEXT NOT NULL,
  configuration TEXT NOT NULL,
  definition_hash TEXT NOT NULL,
  is_declared BIGINT NOT NULL,
  fence BIGINT NOT NULL,
  sessions BIGINT NOT NULL,
  tickets BIGINT NOT NULL,
  deployments BIGINT NOT NULL,
  condition TEXT NOT NULL CHECK (condition IN ('clean', 'dirty', 'unknown')),
  deployed_commit TEXT,
  holder_id TEXT,
  waiting BIGINT NOT NULL,
  unfinished BIGINT NOT NULL,
  due_at BIGINT,
  startable_id TEXT,
  version BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (org_id, pipeline_id, name),
  FOREIGN KEY (org_id, pipeline_id) REFERENCES pipelines (org_id, id)
) {without_rowid};
CREATE UNIQUE INDEX environments_by_id ON environments (org_id, id);
CREATE INDEX environments_due ON environments (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX environments_startable ON environments (startable_id) WHERE startable_id IS NOT NULL;

CREATE TABLE sessions (
  org_id TEXT NOT NULL,
  environment_id TEXT NOT NULL,
  number BIGINT NOT NULL,
  id TEXT NOT NULL,
  fence BIGINT NOT NULL,
  holder TEXT NOT NULL,
  user_id TEXT NOT NULL,
  commit_id TEXT,
  context TEXT,
  contact TEXT,
  claimed_at BIGINT NOT NULL,
  extended_at BIGINT,
  extensions BIGINT NOT NULL,
  ttl_seconds BIGINT,
  expires_at BIGINT,
  -- How long the session lives without a heartbeat, and until when it does.
  lease_seconds BIGINT,
  lease_expires_at BIGINT,
  idle_seconds BIGINT,
  active_at BIGINT NOT NULL,
  warned_of BIGINT,
  deployments BIGINT NOT NULL,
  drain TEXT,
  ended_at BIGINT,
  end_reason TEXT,
  ended_by TEXT,
  end_why TEXT,
  successor_id TEXT,
  PRIMARY KEY (org_id, id),
  FOREIGN KEY (org_id, environment_id) REFERENCES environments (org_id, id),
  CHECK ((ended_at IS NULL) = (end_reason IS NULL))
);
-- With these a mistake becomes an error and not a second holder.
CREATE UNIQUE INDEX sessions_open ON sessions (environment_id) WHERE ended_at IS NULL;
CREATE INDEX sessions_open_of_user ON sessions (org_id, user_id) WHERE ended_at IS NULL;
CREATE UNIQUE INDEX sessions_by_number ON sessions (environment_id, number);
CREATE UNIQUE INDEX sessions_by_fence ON sessions (environment_id, fence);

CREATE TABLE tickets (
  org_id TEXT NOT NULL,
  environment_id TEXT NOT NULL,
  number BIGINT NOT NULL,
  id TEXT NOT NULL,
  holder TEXT NOT NULL,
  user_id TEXT NOT NULL,
  token_id TEXT,
  commit_id TEXT,
  context TEXT,
  contact TEXT,
  ttl_seconds BIGINT,
  lease_seconds BIGINT,
  deploy BIGINT NOT NULL,
  -- Whether the commit comes from a fork.
  is_untrusted BIGINT NOT NULL DEFAULT 0,
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  takeover_target TEXT,
  takeover_at BIGINT,
  takeover_why TEXT,
  status TEXT NOT NULL CHECK (status IN ('waiting', 'granted', 'cancelled', 'expired')),
  ended_at BIGINT,
  cause TEXT,
  session_id TEXT,
  deployment_id TEXT,
  -- Tickets of one claim-any: one of them is granted, and the others leave with it.
  group_id TEXT,
  PRIMARY KEY (org_id, environment_id, number),
  FOREIGN KEY (org_id, environment_id) REFERENCES environments (org_id, id)
);
CREATE UNIQUE INDEX tickets_by_id ON tickets (org_id, id);
CREATE INDEX tickets_waiting ON tickets (org_id, environment_id, number) WHERE status = 'waiting';
CREATE INDEX tickets_waiting_of_user ON tickets (org_id, user_id) WHERE status = 'waiting';
CREATE INDEX tickets_of_group ON tickets (org_id, group_id) WHERE group_id IS NOT NULL;

CREATE TABLE deployments (
  org_id TEXT NOT NULL,
  id TEXT NOT NULL,
  pipeline_id TEXT NOT NULL,
  environment_id TEXT,
  number BIGINT NOT NULL,
  stage TEXT NOT NULL,
  definition_hash TEXT NOT NULL,
  -- Null with an environment: it is a reset.
  session_id TEXT,
  fence BIGINT,
  commit_id TEXT NOT NULL,
  requested_by TEXT NOT NULL,
  overrides_drain TEXT,
  status TEXT NOT NULL CHECK (status IN
    ('queued', 'running', 'waiting', 'cancelling', 'succeeded', 'failed', 'cancelled', 'superseded')),
  runner TEXT,
  nonce TEXT,
  granted_at BIGINT,
  -- Rises with every sign of life of the attempt.
  renewal BIGINT NOT NULL DEFAULT 0,
  cancel TEXT,
  failure TEXT,
  superseded_by TEXT,
  created_at BIGINT NOT NULL,
  started_at BIGINT,
  finished_at BIGINT,
  -- Why a deployment of stages began: `push`, `api`, `retry` and the like.
  cause_kind TEXT,
  reason TEXT,
  resolved_commit TEXT,
  -- Who chose to pass every gate, and why.
  bypass TEXT,
  -- Accounts that have retried a stage of it: a list.
  retried_by TEXT,
  -- When the logs of a deployment were removed because they were old. One that was retried since has new ones.
  logs_removed_at BIGINT,
  -- When the artifacts of a deployment were given up because they were old. One that was retried since has new ones.
  artifacts_removed_at BIGINT,
  -- The failed deployment that this one retries.
  retry_of TEXT,
  -- Whether the commit comes from a fork. Its steps get no secrets.
  is_untrusted BIGINT NOT NULL DEFAULT 0,
  PRIMARY KEY (org_id, id),
  FOREIGN KEY (org_id, pipeline_id) REFERENCES pipelines (org_id, id),
  FOREIGN KEY (org_id, environment_id) REFERENCES environments (org_id, id)
);
CREATE UNIQUE INDEX deployments_by_number ON deployments (org_id, environment_id, number);
CREATE INDEX deployments_unfinished ON deployments (org_id, environment_id, number) WHERE finished_at IS NULL;
CREATE INDEX deployments_of_session ON deployments (org_id, session_id, number);
CREATE INDEX deployments_running ON deployments (granted_at) WHERE granted_at IS NOT NULL AND finished_at IS NULL;
-- What the last stage of a pipeline has, for resets.
CREATE INDEX deployments_of_stages ON deployments (org_id, pipeline_id, id)
  WHERE environment_id IS NULL AND status = 'succeeded';
CREATE INDEX deployments_of_pipeline ON deployments (org_id, pipeline_id, id);
CREATE UNIQUE INDEX rollouts_by_number ON deployments (org_id, pipeline_id, number) WHERE environment_id IS NULL;
-- Deployments of stages that have not ended.
CREATE INDEX deployments_in_line ON deployments (org_id, pipeline_id, number)
  WHERE environment_id IS NULL AND finished_at IS NULL;
CREATE INDEX deployments_to_plan ON deployments (created_at)
  WHERE environment_id IS NULL AND status = 'queued';
CREATE INDEX deployments_with_logs ON deployments (finished_at)
  WHERE finished_at IS NOT NULL AND (logs_removed_at IS NULL OR logs_removed_at < finished_at);
CREATE INDEX deployments_with_artifacts ON deployments (finished_at)
  WHERE finished_at IS NOT NULL AND (artifacts_removed_at IS NULL OR artifacts_removed_at < finished_at);

-- Where pipelines come from.
CREATE TABLE repositories (
  org_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  url TEXT NOT NULL,
  -- The name of a secret of the organization.
  credential TEXT,
  poll_seconds BIGINT NOT NULL,
  -- Whether the mirror lacks the content of files until it is needed.
  is_partial BIGINT NOT NULL,
  -- Of the default branch, as last seen.
  head TEXT,
  default_branch TEXT,
  synced_at BIGINT,
  error TEXT,
  -- In a row: each doubles the wait.
  failures BIGINT NOT NULL,
  -- What could not be read at the last sync: a list of {path, message, diagnostics}.
  problems TEXT NOT NULL,
  due_at BIGINT,
  version BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  deleted_at BIGINT,
  PRIMARY KEY (org_id, id)
);
CREATE UNIQUE INDEX repositories_by_url ON repositories (org_id, url) WHERE deleted_at IS NULL;
CREATE INDEX repositories_due ON repositories (org_id, due_at, id) WHERE due_at IS NOT NULL;

CREATE TABLE plans (
  org_id TEXT NOT NULL,
  deployment_id TEXT NOT NULL,
  plan TEXT NOT NULL,
  PRIMARY KEY (org_id, deployment_id),
  FOREIGN KEY (org_id, deployment_id) REFERENCES deployments (org_id, id)
) {without_rowid};

CREATE TABLE runs (
  org_id TEXT NOT NULL,
  deployment_id TEXT NOT NULL,
  pipeline_id TEXT NOT NULL,
  stages TEXT NOT NULL,
  -- The first moment at which a step may be granted; null when none may.
  ready_at BIGINT,
  -- The stage it waits to be let into.
  queued_for TEXT,
  version BIGINT NOT NULL,
  -- When the first of its soaks ends by itself.
  wakes_at BIGINT,
  PRIMARY KEY (org_id, deployment_id),
  FOREIGN KEY (org_id, deployment_id) REFERENCES deployments (org_id, id)
) {without_rowid};
CREATE INDEX runs_ready ON runs (ready_at) WHERE ready_at IS NOT NULL;
CREATE INDEX runs_queued ON runs (deployment_id) WHERE queued_for IS NOT NULL;
CREATE INDEX runs_waking ON runs (wakes_at) WHERE wakes_at IS NOT NULL;

CREATE TABLE step_runs (
  org_id TEXT NOT NULL,
  deployment_id TEXT NOT NULL,
  stage BIGINT NOT NULL,
  position BIGINT NOT NULL,
  id TEXT NOT NULL,
  step TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN
    ('pending', 'ready', 'running', 'waiting', 'succeeded', 'failed', 'cancelled', 'skipped')),
  tries BIGINT NOT NULL,
  failures BIGINT NOT NULL,
  losses BIGINT NOT NULL,
  false_starts BIGINT NOT NULL,
  not_before BIGINT,
  outputs TEXT,
  artifacts TEXT,
  failure TEXT,
  started_at BIGINT,
  finished_at BIGINT,
  -- What it wants to remember, and what it wants people to agree to.
  memory TEXT,
  PRIMARY KEY (org_id, deployment_id, stage, position),
  FOREIGN KEY (org_id, deployment_id) REFERENCES runs (org_id, deployment_id)
) {without_rowid};
CREATE UNIQUE INDEX step_runs_by_id ON step_runs (org_id, id);

CREATE TABLE attempts (
  org_id TEXT NOT NULL,
  deployment_id TEXT NOT NULL,
  step_id TEXT NOT NULL,
  -- With this key no attempt is made twice.
  number BIGINT NOT NULL,
  runner TEXT NOT NULL,
  nonce TEXT NOT NULL,
  -- Rises with every sign of life.
  renewal BIGINT NOT NULL DEFAULT 0,
  granted_at BIGINT NOT NULL,
  ended_at BIGINT,
  outcome TEXT,
  isolation TEXT,
  log_bytes BIGINT,
  calls BIGINT NOT NULL DEFAULT 1,
  parked_at BIGINT,
  lost_ms BIGINT,
  -- What an attempt ran with. Null: it has not ended, or nothing was exposed.
  network TEXT,
  exposed TEXT,
  -- The container images it used, with their digests.
  images TEXT,
  PRIMARY KEY (org_id, deployment_id, step_id, number)
) {without_rowid};
CREATE UNIQUE INDEX attempts_live ON attempts (nonce) WHERE ended_at IS NULL AND parked_at IS NULL;

-- The digests that a deployment's images were pinned to when an attempt first used them.
CREATE TABLE image_pins (
  org_id TEXT NOT NULL,
  deployment_id TEXT NOT NULL,
  image TEXT NOT NULL,
  digest TEXT NOT NULL,
  PRIMARY KEY (org_id, deployment_id, image),
  FOREIGN KEY (org_id, deployment_id) REFERENCES deployments (org_id, id)
) {without_rowid};

-- What a build left, for every later deployment of the same commit and definition.
CREATE TABLE builds (
  org_id TEXT NOT NULL,
  pipeline_id TEXT NOT NULL,
  commit_id TEXT NOT NULL,
  definition_hash TEXT NOT NULL,
  deployment_id TEXT NOT NULL,
  -- Outputs and artifacts by step; null while it runs.
  built TEXT,
  built_at BIGINT,
  PRIMARY KEY (org_id, pipeline_id, commit_id, definition_hash)
) {without_rowid};

-- Questions to people: may this go on?
CREATE TABLE approvals (
  org_id TEXT NOT NULL,
  id TEXT NOT NULL,
  deployment_id TEXT NOT NULL,
  pipeline_id TEXT NOT NULL,
  stage TEXT NOT NULL,
  -- Null: what waits is the stage itself.
  step_id TEXT,
  rule TEXT NOT NULL,
  message TEXT,
  digest TEXT NOT NULL,
  votes TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('pending', 'approved', 'rejected', 'expired', 'lapsed')),
  lapse TEXT,
  requested_at BIGINT NOT NULL,
  expires_at BIGINT,
  ended_at BIGINT,
  version BIGINT NOT NULL,
  -- How many people have to approve, where that is not what the rule says.
  needed BIGINT,
  PRIMARY KEY (org_id, id),
  FOREIGN KEY (org_id, deployment_id) REFERENCES deployments (org_id, id)
);
CREATE INDEX approvals_by_status ON approvals (org_id, status, id);
CREATE INDEX approvals_of_deployment ON approvals (org_id, deployment_id, id);
CREATE INDEX approvals_due ON approvals (expires_at) WHERE status = 'pending' AND expires_at IS NOT NULL;
-- Nothing is asked about twice at the same time.
CREATE UNIQUE INDEX approvals_open ON approvals (org_id, deployment_id, stage, (COALESCE(step_id, '')))
  WHERE status = 'pending';
CREATE INDEX approvals_pending ON approvals (id) WHERE status = 'pending';

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

-- What changes while the webhook itself stays the same.
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
  -- Not built again until a user asks for it.
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

-- Looks into why a step failed.
CREATE TABLE analyses (
  org_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  deployment_id TEXT NOT NULL,
  pipeline_id TEXT NOT NULL,
  stage TEXT NOT NULL,
  step_id TEXT NOT NULL,
  -- The step's id in the definition.
  step TEXT NOT NULL,
  attempt BIGINT NOT NULL,
  repository_id TEXT,
  commit_id TEXT,
  -- Who asked, as JSON.
  asked_by TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('queued', 'running', 'succeeded', 'failed')),
  -- Equal for failures that are the same.
  fingerprint TEXT,
  -- rules, or a provider and its model.
  analyser TEXT,
  -- What was found, as JSON.
  result TEXT,
  fix_summary TEXT,
  fix_diff TEXT,
  note TEXT,
  reused_from TEXT,
  input_tokens BIGINT,
  output_tokens BIGINT,
  error TEXT,
  created_at BIGINT NOT NULL,
  started_at BIGINT,
  finished_at BIGINT,
  version BIGINT NOT NULL,
  PRIMARY KEY (org_id, id),
  FOREIGN KEY (org_id, deployment_id) REFERENCES deployments (org_id, id),
  CHECK ((finished_at IS NULL) = (status IN ('queued', 'running'))),
  CHECK ((result IS NULL) = (status <> 'succeeded')),
  CHECK ((error IS NULL) = (status <> 'failed'))
);
CREATE INDEX analyses_of_deployment ON analyses (org_id, deployment_id, id);
-- One for each attempt, until it fails.
CREATE UNIQUE INDEX analyses_of_attempt ON analyses (org_id, step_id, attempt) WHERE status <> 'failed';
CREATE INDEX analyses_by_fingerprint ON analyses (org_id, fingerprint, id) WHERE fingerprint IS NOT NULL;
CREATE INDEX analyses_open ON analyses (created_at) WHERE finished_at IS NULL;

-- Exactly what was sent to a model, and what it cost.
CREATE TABLE analysis_requests (
  org_id TEXT NOT NULL,
  analysis_id TEXT NOT NULL,
  number BIGINT NOT NULL,
  analyser TEXT NOT NULL,
  url TEXT NOT NULL,
  -- The body, byte for byte, and its SHA-256.
  body TEXT NOT NULL,
  hash TEXT NOT NULL,
  -- Of the answer; null if none came.
  status BIGINT,
  error TEXT,
  input_tokens BIGINT NOT NULL,
  output_tokens BIGINT NOT NULL,
  sent_at BIGINT NOT NULL,
  PRIMARY KEY (org_id, analysis_id, number),
  FOREIGN KEY (org_id, analysis_id) REFERENCES analyses (org_id, id)
);
CREATE INDEX analysis_requests_by_time ON analysis_requests (org_id, sent_at);

-- Whether a model is asked. No row: it is not.
CREATE TABLE analysis_settings (
  org_id TEXT NOT NULL PRIMARY KEY REFERENCES organizations (id),
  -- Null: the rules alone.
  model TEXT,
  limits TEXT NOT NULL,
  permits_definition BIGINT NOT NULL,
  version BIGINT NOT NULL,
  updated_at BIGINT NOT NULL
);

-- Pull requests with proposed fixes.
CREATE TABLE fix_pull_requests (
  org_id TEXT NOT NULL,
  analysis_id TEXT NOT NULL,
  repository_id TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('opening', 'open', 'pushed', 'failed', 'merged', 'closed')),
  branch TEXT NOT NULL,
  commit_id TEXT,
  number BIGINT,
  url TEXT,
  error TEXT,
  -- When it was merged or closed.
  ended_at BIGINT,
  asked_by TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  version BIGINT NOT NULL,
  PRIMARY KEY (org_id, analysis_id),
  FOREIGN KEY (org_id, analysis_id) REFERENCES analyses (org_id, id)
);
-- One for each failure of a repository, for as long as it is there.
CREATE UNIQUE INDEX fix_pull_requests_live ON fix_pull_requests (org_id, repository_id, fingerprint)
  WHERE state IN ('opening', 'open', 'pushed');
CREATE INDEX fix_pull_requests_of_failure ON fix_pull_requests (org_id, repository_id, fingerprint);
CREATE INDEX fix_pull_requests_opening ON fix_pull_requests (updated_at) WHERE state = 'opening';
-- Those that may have been merged or closed in the meantime.
CREATE INDEX fix_pull_requests_open ON fix_pull_requests (analysis_id) WHERE state IN ('open', 'pushed');

-- GitHub Apps that connect repositories. Each organization has at most one per forge.
CREATE TABLE forge_apps (
  org_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  -- Scheme, host and port of the forge, and the base URL of its API.
  origin TEXT NOT NULL,
  api TEXT NOT NULL,
  -- Part of the URL of the app's webhook.
  hook_id TEXT NOT NULL UNIQUE,
  -- As the forge identifies and names the app.
  forge_app_id TEXT NOT NULL,
  slug TEXT NOT NULL,
  name TEXT NOT NULL,
  -- When the app was first seen installed; null while it is not.
  installed_at BIGINT,
  -- When the forge last reported a change of the installation. Access tokens from before are discarded.
  installation_changed_at BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  -- The private key and the secret that signs deliveries, encrypted.
  key_id TEXT NOT NULL,
  sealed_private_key BYTEA NOT NULL,
  sealed_hook_secret BYTEA NOT NULL,
  PRIMARY KEY (org_id, id),
  UNIQUE (org_id, origin),
  FOREIGN KEY (org_id, key_id) REFERENCES data_keys (org_id, id)
);

-- GitHub Apps that an admin is creating in a browser. Each login has at most one per organization.
CREATE TABLE forge_app_setups (
  org_id TEXT NOT NULL REFERENCES organizations (id),
  sign_in_id TEXT NOT NULL REFERENCES sign_ins (id) ON DELETE CASCADE,
  state_hash BYTEA NOT NULL,
  repository_id TEXT NOT NULL,
  hook_id TEXT NOT NULL,
  -- Where the browser sends the app's manifest.
  form_url TEXT NOT NULL,
  origin TEXT NOT NULL,
  api TEXT NOT NULL,
  expires_at BIGINT NOT NULL,
  PRIMARY KEY (org_id, sign_in_id)
) {without_rowid};

-- The connection of a repository to its forge: the webhook that the forge sends events to.
CREATE TABLE forge_connections (
  org_id TEXT NOT NULL,
  repository_id TEXT NOT NULL,
  -- Part of the webhook's URL.
  hook_id TEXT NOT NULL UNIQUE,
  forge TEXT NOT NULL CHECK (forge IN ('github', 'gitlab', 'gitea', 'bitbucket')),
  -- The GitHub App through which the repository is connected. Then the webhook is that of the app.
  app_id TEXT,
  -- The service account that holds the sessions of pull requests.
  account_id TEXT NOT NULL REFERENCES users (id),
  -- The webhook's id on the forge, if Berth created it there.
  forge_hook_id TEXT,
  -- The secret that signs deliveries, encrypted.
  key_id TEXT NOT NULL,
  sealed BYTEA NOT NULL,
  verified_at BIGINT,
  error TEXT,
  version BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  -- When the forge was last asked for the open pull requests.
  listed_at BIGINT NOT NULL DEFAULT 0,
  PRIMARY KEY (org_id, repository_id),
  FOREIGN KEY (org_id, repository_id) REFERENCES repositories (org_id, id),
  FOREIGN KEY (org_id, app_id) REFERENCES forge_apps (org_id, id),
  FOREIGN KEY (org_id, key_id) REFERENCES data_keys (org_id, id)
);
CREATE INDEX forge_connections_of_app ON forge_connections (org_id, app_id) WHERE app_id IS NOT NULL;

-- Deliveries of forges, and what each did.
CREATE TABLE hook_deliveries (
  org_id TEXT NOT NULL,
  repository_id TEXT NOT NULL,
  -- The forge's id of the delivery, or a hash of the body if the forge sends none.
  delivery_id TEXT NOT NULL,
  -- As the forge names it: push, pull_request.opened.
  kind TEXT NOT NULL,
  -- What it did, in words for people.
  outcome TEXT NOT NULL,
  received_at BIGINT NOT NULL,
  PRIMARY KEY (org_id, repository_id, delivery_id)
) {without_rowid};
CREATE INDEX hook_deliveries_by_time ON hook_deliveries (org_id, repository_id, received_at, delivery_id);
CREATE INDEX hook_deliveries_old ON hook_deliveries (received_at);

CREATE TABLE pull_requests (
  org_id TEXT NOT NULL,
  repository_id TEXT NOT NULL,
  number BIGINT NOT NULL,
  -- As the forge describes it.
  title TEXT NOT NULL,
  url TEXT NOT NULL,
  author_id TEXT NOT NULL,
  author_name TEXT NOT NULL,
  head TEXT NOT NULL,
  head_branch TEXT NOT NULL,
  base_branch TEXT NOT NULL,
  is_fork BIGINT NOT NULL,
  labels TEXT NOT NULL,
  is_draft BIGINT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('open', 'closed', 'merged')),
  changed_at BIGINT NOT NULL,
  -- The commit of a fork that a member approved.
  approved_head TEXT,
  approved_by TEXT,
  -- Berth's comment on the forge, the hash of its text, and when it was written.
  comment_id TEXT,
  comment_hash TEXT,
  commented_at BIGINT,
  error TEXT,
  -- In a row.
  failures BIGINT NOT NULL,
  due_at BIGINT,
  -- When the forge was last asked about it; null after news that were not compared with the forge yet.
  read_at BIGINT,
  -- The head whose definition was checked.
  checked_head TEXT,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (org_id, repository_id, number),
  FOREIGN KEY (org_id, repository_id) REFERENCES repositories (org_id, id)
);
CREATE INDEX pull_requests_due ON pull_requests (org_id, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX pull_requests_listed ON pull_requests (org_id, created_at, repository_id, number);
CREATE INDEX pull_requests_by_status ON pull_requests (org_id, status, created_at, repository_id, number);

-- Which environment a pull request uses or waits for, one per pipeline.
CREATE TABLE pull_request_claims (
  org_id TEXT NOT NULL,
  repository_id TEXT NOT NULL,
  number BIGINT NOT NULL,
  pipeline_id TEXT NOT NULL,
  environment_id TEXT NOT NULL,
  ticket_id TEXT,
  session_id TEXT,
  deployment_id TEXT,
  commit_id TEXT,
  -- Whether a person ended it, so that it is not claimed again by itself.
  is_stopped BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (org_id, repository_id, number, pipeline_id),
  FOREIGN KEY (org_id, repository_id, number) REFERENCES pull_requests (org_id, repository_id, number)
);
CREATE INDEX pull_request_claims_by_session ON pull_request_claims (org_id, session_id) WHERE session_id IS NOT NULL;
CREATE INDEX pull_request_claims_by_environment ON pull_request_claims (org_id, environment_id);

-- Comments that start with /berth. Each is carried out once.
CREATE TABLE pull_request_commands (
  org_id TEXT NOT NULL,
  repository_id TEXT NOT NULL,
  number BIGINT NOT NULL,
  comment_id TEXT NOT NULL,
  author_id TEXT NOT NULL,
  author_name TEXT NOT NULL,
  text TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  answered_at BIGINT,
  -- What the command did, in words for people.
  answer TEXT,
  PRIMARY KEY (org_id, repository_id, comment_id),
  -- The pull request may be unknown yet, because its delivery can arrive later.
  FOREIGN KEY (org_id, repository_id) REFERENCES repositories (org_id, id)
);
CREATE INDEX pull_request_commands_open ON pull_request_commands (org_id, repository_id, number)
  WHERE answered_at IS NULL;

-- The status that a commit should have on its forge, in one context.
CREATE TABLE commit_statuses (
  org_id TEXT NOT NULL,
  repository_id TEXT NOT NULL,
  commit_id TEXT NOT NULL,
  -- Names the pipeline and the stage or environment: berth/shop/production.
  context TEXT NOT NULL,
  deployment_id TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('pending', 'success', 'failure', 'error')),
  description TEXT NOT NULL,
  -- Rises with every change. The forge has the status if this version was written.
  version BIGINT NOT NULL,
  written_version BIGINT NOT NULL,
  wanted_at BIGINT NOT NULL,
  -- In a row.
  failures BIGINT NOT NULL,
  error TEXT,
  due_at BIGINT,
  -- No status of the repository is written before this time.
  paused_until BIGINT,
  PRIMARY KEY (org_id, repository_id, commit_id, context),
  FOREIGN KEY (org_id, repository_id) REFERENCES repositories (org_id, id)
);
CREATE INDEX commit_statuses_due ON commit_statuses (org_id, repository_id, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX commit_statuses_old ON commit_statuses (wanted_at) WHERE due_at IS NULL;

-- A deployment of a stage or environment that the forge should show as one of its own deployments.
CREATE TABLE forge_deployments (
  org_id TEXT NOT NULL,
  repository_id TEXT NOT NULL,
  deployment_id TEXT NOT NULL,
  -- The environment's name on the forge: production, or shop/production if the repository has several pipelines.
  environment TEXT NOT NULL,
  commit_id TEXT NOT NULL,
  is_transient BIGINT NOT NULL,
  progress TEXT NOT NULL CHECK (progress IN ('queued', 'in_progress', 'success', 'failure', 'error', 'inactive')),
  description TEXT NOT NULL,
  -- The deployment's id on the forge, as soon as it was created there.
  forge_id TEXT,
  -- The same as in commit_statuses.
  version BIGINT NOT NULL,
  written_version BIGINT NOT NULL,
  wanted_at BIGINT NOT NULL,
  failures BIGINT NOT NULL,
  error TEXT,
  due_at BIGINT,
  paused_until BIGINT,
  PRIMARY KEY (org_id, repository_id, deployment_id, environment),
  FOREIGN KEY (org_id, repository_id) REFERENCES repositories (org_id, id)
);
CREATE INDEX forge_deployments_due ON forge_deployments (org_id, repository_id, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX forge_deployments_old ON forge_deployments (wanted_at) WHERE due_at IS NULL AND progress <> 'success';
CREATE INDEX forge_deployments_active ON forge_deployments (org_id, repository_id, environment)
  WHERE progress = 'success';

-- Up to which event the statuses and deployments are known.
CREATE TABLE commit_status_cursors (
  org_id TEXT NOT NULL PRIMARY KEY REFERENCES organizations (id),
  sequence BIGINT NOT NULL
);

-- Accounts on forges that members have linked to their own. host is where the forge's ids are unique.
CREATE TABLE forge_accounts (
  org_id TEXT NOT NULL REFERENCES organizations (id),
  host TEXT NOT NULL,
  forge_user_id TEXT NOT NULL,
  user_id TEXT NOT NULL REFERENCES users (id),
  -- For display only.
  name TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (org_id, host, forge_user_id)
) {without_rowid};
CREATE INDEX forge_accounts_by_user ON forge_accounts (org_id, user_id);

-- Codes with which a member links an account on a forge, hashed. Each member has at most one.
CREATE TABLE forge_link_codes (
  org_id TEXT NOT NULL REFERENCES organizations (id),
  user_id TEXT NOT NULL REFERENCES users (id),
  hash BYTEA NOT NULL,
  expires_at BIGINT NOT NULL,
  PRIMARY KEY (org_id, user_id)
) {without_rowid};

-- Runners on other machines.
CREATE TABLE runners (
  org_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  -- Null until it registers, unless the admin who creates it chooses one.
  name TEXT,
  labels TEXT NOT NULL,
  slots BIGINT NOT NULL,
  program TEXT,
  -- Version of the runner protocol that it speaks.
  protocol BIGINT,
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
  -- Silent for so many milliseconds, the runner has stopped its steps by itself, as the server told it. Servers may differ in
  -- it, so an attempt is called lost by what its own runner was told.
  lost_ms BIGINT,
  -- Labels a runner may have in addition to its system and architecture; the admin who creates it sets them.
  allowed_labels TEXT NOT NULL DEFAULT '[]',
  -- How the runner isolates steps, as it reports itself. Null until it registers.
  isolation TEXT,
  exposed TEXT NOT NULL DEFAULT '[]',
  PRIMARY KEY (org_id, id),
  CHECK ((credential_hash IS NULL) = (registered_at IS NULL))
);
CREATE UNIQUE INDEX runners_by_name ON runners (org_id, name) WHERE name IS NOT NULL;
CREATE UNIQUE INDEX runners_by_token ON runners (token_hash);
CREATE UNIQUE INDEX runners_by_credential ON runners (credential_hash) WHERE credential_hash IS NOT NULL;

-- Servers that share a PostgreSQL database, and the schema that each of them knows.
CREATE TABLE servers (
  -- The process: new at each start.
  id TEXT NOT NULL PRIMARY KEY,
  program TEXT NOT NULL,
  schema_version BIGINT NOT NULL,
  seen_at BIGINT NOT NULL
);

-- Work that one server at a time does, where several share the database.
CREATE TABLE leases (
  name TEXT NOT NULL PRIMARY KEY,
  -- The process that has it.
  holder TEXT NOT NULL,
  -- Rises when it goes to another one.
  term BIGINT NOT NULL,
  expires_at BIGINT NOT NULL
);

-- An invitation to an organization; the row goes when it is accepted, revoked, replaced or expired.
CREATE TABLE invitations (
  org_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  email TEXT NOT NULL,
  email_key TEXT NOT NULL,
  name TEXT,
  role TEXT NOT NULL CHECK (role IN ('member', 'viewer', 'tester', 'approver', 'deployer', 'admin', 'owner')),
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

-- The second factor (TOTP) of an account. It is in effect once it was confirmed with a code.
CREATE TABLE second_factors (
  user_id TEXT NOT NULL PRIMARY KEY REFERENCES users (id),
  -- The shared secret, encrypted.
  sealed BYTEA NOT NULL,
  created_at BIGINT NOT NULL,
  confirmed_at BIGINT,
  -- The last time step whose code was used. A code works once.
  last_step BIGINT NOT NULL
);

CREATE TABLE recovery_codes (
  user_id TEXT NOT NULL REFERENCES users (id),
  hash BYTEA NOT NULL,
  PRIMARY KEY (user_id, hash)
);

-- Logins of the CLI that wait for a person, until the CLI has fetched its token. All codes are hashed.
CREATE TABLE cli_logins (
  device_hash BYTEA NOT NULL PRIMARY KEY,
  user_code_hash BYTEA NOT NULL UNIQUE,
  machine TEXT NOT NULL,
  address TEXT NOT NULL,
  network TEXT NOT NULL,
  user_agent TEXT NOT NULL,
  -- Port of the loopback redirect with its state and PKCE challenge; null if the CLI polls.
  redirect_port BIGINT,
  state TEXT,
  code_challenge TEXT,
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  interval_s BIGINT NOT NULL,
  polled_at BIGINT,
  status TEXT NOT NULL CHECK (status IN ('pending', 'approved', 'denied')),
  approved_org TEXT,
  approved_by TEXT REFERENCES users (id),
  token_days BIGINT,
  code_hash BYTEA
);
CREATE INDEX cli_logins_by_network ON cli_logins (network);

-- Commits that were resolved for deployments, as they are described to people.
CREATE TABLE commits (
  org_id TEXT NOT NULL,
  commit_id TEXT NOT NULL,
  repository_id TEXT NOT NULL,
  -- The first line of the message.
  title TEXT NOT NULL,
  -- Without an address.
  author TEXT NOT NULL,
  authored_at BIGINT NOT NULL,
  PRIMARY KEY (org_id, commit_id, repository_id),
  FOREIGN KEY (org_id, repository_id) REFERENCES repositories (org_id, id)
) {without_rowid};

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

-- Responses kept for repeated requests, found by their key and removed by their age.
CREATE TABLE stored_responses (
  digest BYTEA NOT NULL PRIMARY KEY,
  request_hash BYTEA NOT NULL,
  status BIGINT NOT NULL,
  headers TEXT NOT NULL,
  body TEXT NOT NULL,
  created_at BIGINT NOT NULL
);
CREATE INDEX stored_responses_by_age ON stored_responses (created_at);

-- Parts of logs in object storage, in order and without gaps. A row is written after its object and deleted before it.
CREATE TABLE log_objects (
  org_id TEXT NOT NULL,
  deployment_id TEXT NOT NULL,
  step_id TEXT NOT NULL,
  attempt BIGINT NOT NULL,
  -- Output after a takeover of the environment is a log of its own.
  is_after_fence BIGINT NOT NULL,
  start_byte BIGINT NOT NULL,
  end_byte BIGINT NOT NULL,
  -- The complete, compressed log. It is then the only row of the log.
  is_sealed BIGINT NOT NULL,
  object TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  object_bytes BIGINT NOT NULL,
  stored_at BIGINT NOT NULL,
  PRIMARY KEY (org_id, deployment_id, step_id, attempt, is_after_fence, start_byte)
) {without_rowid};
CREATE UNIQUE INDEX log_objects_by_name ON log_objects (org_id, object);
CREATE INDEX log_objects_unsealed ON log_objects (org_id, deployment_id, step_id, attempt) WHERE is_sealed = 0;

-- Artifacts in object storage. A row is written after its object and deleted before it.
CREATE TABLE artifact_objects (
  org_id TEXT NOT NULL,
  -- Digest of the uncompressed archive, by which steps and registries refer to it.
  digest TEXT NOT NULL,
  object TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  object_bytes BIGINT NOT NULL,
  -- When a step last stored it.
  stored_at BIGINT NOT NULL,
  PRIMARY KEY (org_id, digest)
) {without_rowid};
CREATE UNIQUE INDEX artifact_objects_by_name ON artifact_objects (org_id, object);

-- What people are notified of. One row per person and event. A row also serves as the outbox of the email about it.
CREATE TABLE notifications (
  org_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  user_id TEXT NOT NULL REFERENCES users (id),
  event_id TEXT NOT NULL,
  sequence BIGINT NOT NULL,
  event_kind TEXT NOT NULL,
  -- Why the event concerns the person. Null for a subscription.
  cause TEXT,
  summary TEXT NOT NULL,
  subject TEXT NOT NULL,
  in_inbox BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  read_at BIGINT,
  mail_due_at BIGINT,
  mail_failures BIGINT NOT NULL,
  mailed_at BIGINT,
  PRIMARY KEY (org_id, id)
);
CREATE UNIQUE INDEX notifications_by_event ON notifications (org_id, user_id, sequence);
CREATE INDEX notifications_unread ON notifications (org_id, user_id, sequence) WHERE read_at IS NULL;
CREATE INDEX notifications_mailed ON notifications (org_id, user_id, mailed_at) WHERE mailed_at IS NOT NULL;
CREATE INDEX notifications_due ON notifications (mail_due_at) WHERE mail_due_at IS NOT NULL;
CREATE INDEX notifications_old ON notifications (created_at);

-- Up to which event notifications exist.
CREATE TABLE notification_cursors (
  org_id TEXT NOT NULL PRIMARY KEY REFERENCES organizations (id),
  sequence BIGINT NOT NULL
);

-- owner_id is the id of a person, a team or the organization.
CREATE TABLE notification_rules (
  org_id TEXT NOT NULL REFERENCES organizations (id),
  owner_id TEXT NOT NULL,
  rules TEXT NOT NULL,
  version BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  PRIMARY KEY (org_id, owner_id)
);

-- Links in messages with which their recipients can act once.
CREATE TABLE action_links (
  org_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  user_id TEXT NOT NULL REFERENCES users (id),
  action TEXT NOT NULL CHECK (action IN ('approve', 'reject', 'extend', 'release', 'yield')),
  subject TEXT NOT NULL,
  summary TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  used_at BIGINT,
  PRIMARY KEY (org_id, id)
);
CREATE UNIQUE INDEX action_links_by_id ON action_links (id);
CREATE INDEX action_links_expired ON action_links (expires_at);

-- Places in chats that notification rules can name.
CREATE TABLE chat_destinations (
  org_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  name TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('slack_webhook', 'teams_webhook', 'slack_channel')),
  channel TEXT,
  -- Consecutive failed attempts.
  failures BIGINT NOT NULL,
  error TEXT,
  delivered_at BIGINT,
  created_at BIGINT NOT NULL,
  -- The encrypted URL of a webhook.
  key_id TEXT,
  sealed BYTEA,
  PRIMARY KEY (org_id, id)
);
CREATE UNIQUE INDEX chat_destinations_by_name ON chat_destinations (org_id, name);

-- Messages to chats. target_id is the id of a destination, or of a person for a direct message.
CREATE TABLE chat_messages (
  org_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  target_id TEXT NOT NULL,
  -- Null for a test message.
  sequence BIGINT,
  cause TEXT,
  summary TEXT NOT NULL,
  subject TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  due_at BIGINT,
  failures BIGINT NOT NULL,
  sent_at BIGINT,
  PRIMARY KEY (org_id, id)
);
CREATE UNIQUE INDEX chat_messages_by_event ON chat_messages (org_id, target_id, sequence);
CREATE INDEX chat_messages_sent ON chat_messages (org_id, target_id, sent_at) WHERE sent_at IS NOT NULL;
CREATE INDEX chat_messages_due ON chat_messages (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX chat_messages_old ON chat_messages (created_at);

-- The Slack app of an organization.
CREATE TABLE slack_connections (
  org_id TEXT NOT NULL PRIMARY KEY REFERENCES organizations (id),
  api_url TEXT NOT NULL,
  workspace_id TEXT NOT NULL,
  workspace TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  key_id TEXT NOT NULL,
  sealed_signing_secret BYTEA NOT NULL,
  sealed_bot_token BYTEA NOT NULL
);

-- Requests of Slack that were carried out, so that a replay is refused.
CREATE TABLE slack_requests (
  org_id TEXT NOT NULL REFERENCES organizations (id),
  signature TEXT NOT NULL,
  received_at BIGINT NOT NULL,
  PRIMARY KEY (org_id, signature)
);
CREATE INDEX slack_requests_old ON slack_requests (received_at);
