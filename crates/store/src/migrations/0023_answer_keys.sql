-- Answers kept for repeats lie in the order in which they were given. What they are found by has a table of its own: its
-- order is random, and with SQLite many keys are put in at once, so that they share pages.
CREATE TABLE answers (
  created_at BIGINT NOT NULL,
  digest BYTEA NOT NULL,
  request_hash BYTEA NOT NULL,
  status BIGINT NOT NULL,
  headers TEXT NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (created_at, digest)
);
CREATE TABLE answer_keys (
  digest BYTEA NOT NULL PRIMARY KEY,
  created_at BIGINT NOT NULL
) {without_rowid};
INSERT INTO answers (created_at, digest, request_hash, status, headers, body)
  SELECT created_at, digest, request_hash, status, headers, body FROM stored_answers ORDER BY created_at;
INSERT INTO answer_keys (digest, created_at) SELECT digest, created_at FROM stored_answers ORDER BY digest;
DROP TABLE stored_answers;
-- Of the first versions; nothing has been put in for long.
DROP TABLE idempotency;
-- Every answer before this time has its key.
ALTER TABLE instance ADD COLUMN answers_keyed_to BIGINT NOT NULL DEFAULT 0;
