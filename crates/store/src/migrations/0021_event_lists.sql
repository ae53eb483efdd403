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
  SELECT org_id, term, MAX(sequence), COALESCE(string_agg('' || step, ' ' ORDER BY sequence DESC), ''),
    MIN(occurred_at), MAX(occurred_at)
  FROM (
    SELECT org_id, term, part, sequence, occurred_at,
      sequence - LAG(sequence) OVER (PARTITION BY org_id, term, part ORDER BY sequence) AS step
    FROM (
      SELECT i.org_id, i.term, i.sequence, e.occurred_at,
        (ROW_NUMBER() OVER (PARTITION BY i.org_id, i.term ORDER BY i.sequence) - 1) / 200 AS part
      FROM event_index i JOIN events e ON e.org_id = i.org_id AND e.sequence = i.sequence
      -- Nobody looks for others.
      WHERE i.term LIKE 'kind:%' OR i.term LIKE 'actor:%' OR i.term LIKE 'pipeline:%' OR i.term LIKE 'environment:%'
        OR i.term LIKE 'deployment:%'
    ) AS numbered
  ) AS parted
  GROUP BY org_id, term, part ORDER BY 1, 2, 3;
DROP TABLE event_index;
