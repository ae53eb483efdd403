-- Labels a runner may have in addition to its system and architecture; the admin who creates it sets them.
ALTER TABLE runners ADD COLUMN allowed_labels TEXT NOT NULL DEFAULT '[]';
-- Those that are there keep what they have.
UPDATE runners SET allowed_labels = labels;
