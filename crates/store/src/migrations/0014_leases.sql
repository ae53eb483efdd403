-- Work that one server at a time does, where several share the database.
CREATE TABLE leases (
  name TEXT NOT NULL PRIMARY KEY,
  -- The process that has it.
  holder TEXT NOT NULL,
  -- Rises when it goes to another one.
  term BIGINT NOT NULL,
  expires_at BIGINT NOT NULL
);
