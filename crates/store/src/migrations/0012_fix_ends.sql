-- Pull requests of fixes end: a person merges them or closes them. The words of a state are part of the table, which is
-- why it is made anew.
CREATE TABLE fix_pull_requests_next (
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
INSERT INTO fix_pull_requests_next (org_id, analysis_id, repository_id, fingerprint, state, branch, commit_id, number,
    url, error, asked_by, created_at, updated_at, version)
  SELECT org_id, analysis_id, repository_id, fingerprint, state, branch, commit_id, number,
    url, error, asked_by, created_at, updated_at, version
  FROM fix_pull_requests;
DROP TABLE fix_pull_requests;
ALTER TABLE fix_pull_requests_next RENAME TO fix_pull_requests;
-- One for each failure of a repository, for as long as it is there.
CREATE UNIQUE INDEX fix_pull_requests_live ON fix_pull_requests (org_id, repository_id, fingerprint)
  WHERE state IN ('opening', 'open', 'pushed');
CREATE INDEX fix_pull_requests_of_failure ON fix_pull_requests (org_id, repository_id, fingerprint);
CREATE INDEX fix_pull_requests_opening ON fix_pull_requests (updated_at) WHERE state = 'opening';
-- Those that somebody may have merged or closed.
CREATE INDEX fix_pull_requests_open ON fix_pull_requests (analysis_id) WHERE state IN ('open', 'pushed');
