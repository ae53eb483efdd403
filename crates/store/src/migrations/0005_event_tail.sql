-- The last events of a history are not in event_index yet: rows for many of them at once cost far less than rows for each
-- with its own commit. All up to this one are.
ALTER TABLE event_heads ADD COLUMN indexed BIGINT NOT NULL DEFAULT 0;
UPDATE event_heads SET indexed = sequence;
