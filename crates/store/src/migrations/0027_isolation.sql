-- The network of steps that do not name one: host or none.
ALTER TABLE organizations ADD COLUMN default_network TEXT NOT NULL DEFAULT 'host';
-- How a runner isolates steps, as it reports itself. Null: it has not said hello since.
ALTER TABLE runners ADD COLUMN isolation TEXT;
ALTER TABLE runners ADD COLUMN exposed TEXT NOT NULL DEFAULT '[]';
-- What an attempt ran with. Null: it has not ended, or nothing was exposed.
ALTER TABLE attempts ADD COLUMN network TEXT;
ALTER TABLE attempts ADD COLUMN exposed TEXT;
