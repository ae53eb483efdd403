-- A custom step is called until it is done, and goes on without a process between its calls.

-- What it wants to remember, and what it wants people to agree to.
ALTER TABLE step_runs ADD COLUMN memory TEXT;
ALTER TABLE attempts ADD COLUMN calls BIGINT NOT NULL DEFAULT 1;
ALTER TABLE attempts ADD COLUMN parked_at BIGINT;

-- Of what goes on without a process nothing may be running.
DROP INDEX attempts_live;
CREATE UNIQUE INDEX attempts_live ON attempts (nonce) WHERE ended_at IS NULL AND parked_at IS NULL;
