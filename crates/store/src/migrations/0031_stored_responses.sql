-- Responses kept for repeated requests, found by their key and removed by their age.
CREATE TABLE stored_responses (
  digest BYTEA NOT NULL PRIMARY KEY,
  request_hash BYTEA NOT NULL,
  status BIGINT NOT NULL,
  headers TEXT NOT NULL,
  body TEXT NOT NULL,
  created_at BIGINT NOT NULL
);
INSERT INTO stored_responses (digest, request_hash, status, headers, body, created_at)
  SELECT digest, request_hash, status, headers, body, created_at FROM answers a WHERE created_at =
    (SELECT MAX(b.created_at) FROM answers b WHERE b.digest = a.digest);
CREATE INDEX stored_responses_by_age ON stored_responses (created_at);
DROP TABLE answers;
DROP TABLE answer_keys;
ALTER TABLE instance DROP COLUMN answers_keyed_to;
