-- What events are found by: for each term the numbers of many events in one row, where there was a row for each of them.
-- A row has its highest number, the steps down from it to the others (decimal, with a space between two), and when the
-- events were recorded: the earliest and the latest.
CREATE TABLE event_lists (
  org_id TEXT NOT NULL,
  term TEXT NOT NULL,
  last BIGINT NOT NULL,
  steps TEXT NOT NULL,
  earliest BIGINT NOT NULL,
  latest BIGINT NOT NULL,
  PRIMARY KEY (org_id, term, last)
) {without_rowid};
INSERT INTO event_lists (org_id, term, last, steps, earliest, latest)
  SELECT i.org_id, i.term, i.sequence, '', e.occurred_at, e.occurred_at
  FROM event_index i JOIN events e ON e.org_id = i.org_id AND e.sequence = i.sequence;
DROP TABLE event_index;
