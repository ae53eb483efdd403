-- Fewer pages for each commit.

-- The last events of a history are not in event_index yet: rows for many of them at once cost far less than rows for each
-- with its own commit. All up to this one are.
ALTER TABLE event_heads ADD COLUMN indexed BIGINT NOT NULL DEFAULT 0;
UPDATE event_heads SET indexed = sequence;

-- Only attempts that may be running are looked for by anything but their step, and those are few.
DROP INDEX attempts_by_nonce;
DROP INDEX attempts_live;
DROP INDEX attempts_live_of;
CREATE UNIQUE INDEX attempts_live ON attempts (nonce) WHERE ended_at IS NULL;
