-- The repository that is due first is looked up for each organization, however many of one are due.
DROP INDEX repositories_due;
CREATE INDEX repositories_due ON repositories (org_id, due_at, id) WHERE due_at IS NOT NULL;
