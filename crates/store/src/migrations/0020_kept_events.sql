-- Where the kept part of a history begins: number and hash of the last event that was removed because it was old.
ALTER TABLE event_heads ADD COLUMN kept_after BIGINT NOT NULL DEFAULT 0;
ALTER TABLE event_heads ADD COLUMN kept_hash TEXT NOT NULL
  DEFAULT 'sha256:0000000000000000000000000000000000000000000000000000000000000000';
