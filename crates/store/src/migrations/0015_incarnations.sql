-- Which stretch of the installation's life wrote this database last: new at every start, and also in a file beside it. A
-- database that was copied back has another one than the file. Null: it was never opened by a program that keeps one.
ALTER TABLE instance ADD COLUMN incarnation TEXT;
