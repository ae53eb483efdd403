-- Which PostgreSQL it is, and which of its histories: a failover changes one of them, and the epoch rises.
ALTER TABLE instance ADD COLUMN system_identifier TEXT;
ALTER TABLE instance ADD COLUMN timeline TEXT;
