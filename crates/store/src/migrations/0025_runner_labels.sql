-- What a runner may say that it can do, besides its system and architecture: fixed by whoever created it.
ALTER TABLE runners ADD COLUMN allowed_labels TEXT NOT NULL DEFAULT '[]';
-- Those that are there keep what they have.
UPDATE runners SET allowed_labels = labels;
