-- What a runner was told: silent for so many milliseconds, it has stopped its steps by itself. Servers may differ in it, so
-- whoever calls an attempt lost keeps to what its own runner was told. Null: told by a version that did not write it down.
ALTER TABLE runners ADD COLUMN lost_ms BIGINT;
ALTER TABLE attempts ADD COLUMN lost_ms BIGINT;
