-- An event's id ends with its number, by which it is found: an index of all ids was a tenth of a history. Those of events
-- from before are kept here.
CREATE TABLE event_ids (
  org_id TEXT NOT NULL,
  id TEXT NOT NULL,
  sequence BIGINT NOT NULL,
  PRIMARY KEY (org_id, id)
) {without_rowid};
INSERT INTO event_ids (org_id, id, sequence) SELECT org_id, id, sequence FROM events ORDER BY org_id, id;
DROP INDEX events_by_id;
