-- The history of an environment is an index again, and a fence given twice is refused.
DROP INDEX sessions_by_number;
ALTER TABLE sessions DROP COLUMN previous_id;
ALTER TABLE environments DROP COLUMN last_session_id;
CREATE UNIQUE INDEX sessions_by_number ON sessions (environment_id, number);
CREATE UNIQUE INDEX sessions_by_fence ON sessions (environment_id, fence);
