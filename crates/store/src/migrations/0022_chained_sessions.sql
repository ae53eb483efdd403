-- An environment's history: each session names the one before it, and every 16th is found by its number. An index of all
-- of them had a page to write for nearly every claim.
ALTER TABLE sessions ADD COLUMN previous_id TEXT;
ALTER TABLE environments ADD COLUMN last_session_id TEXT;
UPDATE sessions SET previous_id = (SELECT p.id FROM sessions p
  WHERE p.environment_id = sessions.environment_id AND p.fence < sessions.fence ORDER BY p.fence DESC LIMIT 1);
UPDATE environments SET last_session_id = (SELECT s.id FROM sessions s
  WHERE s.environment_id = environments.id ORDER BY s.fence DESC LIMIT 1);
DROP INDEX sessions_by_fence;
CREATE UNIQUE INDEX sessions_by_number ON sessions (environment_id, number) WHERE number % 16 = 0;
