-- The failed deployment that this one retries.
ALTER TABLE deployments ADD COLUMN retry_of TEXT;

-- Tickets of one claim-any: one of them is granted, and the others leave with it.
ALTER TABLE tickets ADD COLUMN group_id TEXT;
CREATE INDEX tickets_of_group ON tickets (org_id, group_id) WHERE group_id IS NOT NULL;
