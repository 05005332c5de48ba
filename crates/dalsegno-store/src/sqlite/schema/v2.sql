-- Version 2: child runs, sessions with one root run at a time, files, messages.
ALTER TABLE run ADD COLUMN parent BLOB;
-- The number of messages that were ever posted to the run, so that none gets the number of an older one.
ALTER TABLE run ADD COLUMN posted INTEGER NOT NULL DEFAULT 0;
CREATE INDEX run_session ON run (session);
CREATE INDEX run_parent ON run (parent) WHERE parent IS NOT NULL;
-- The root runs that go on (statuses 0 and 1).
CREATE INDEX run_open_root ON run (tenant, session) WHERE parent IS NULL AND status < 2;

CREATE TABLE blob (
    digest BLOB PRIMARY KEY NOT NULL,
    bytes BLOB NOT NULL
) STRICT;

CREATE TABLE inbox (
    run INTEGER NOT NULL,
    number INTEGER NOT NULL,
    message BLOB NOT NULL,
    checksum BLOB NOT NULL,
    PRIMARY KEY (run, number)
) STRICT, WITHOUT ROWID;
