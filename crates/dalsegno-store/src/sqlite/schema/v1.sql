-- Version 1. A released version never changes: a new one gets a migration and a golden file.
CREATE TABLE run (
    id INTEGER PRIMARY KEY,
    run BLOB NOT NULL UNIQUE,
    agent TEXT NOT NULL,
    tenant TEXT NOT NULL,
    session TEXT NOT NULL,
    config BLOB NOT NULL,
    start_key TEXT,
    request_digest BLOB NOT NULL,
    status INTEGER NOT NULL,
    wake_at INTEGER,
    started_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    owner BLOB,
    epoch INTEGER NOT NULL,
    next_seq INTEGER NOT NULL,
    head BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX run_start_key ON run (tenant, start_key) WHERE start_key IS NOT NULL;
CREATE INDEX run_wake_at ON run (wake_at) WHERE wake_at IS NOT NULL;

CREATE TABLE record (
    run INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    at INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    operation BLOB,
    parent BLOB,
    body BLOB NOT NULL,
    checksum BLOB NOT NULL,
    link BLOB NOT NULL,
    PRIMARY KEY (run, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE config (
    digest BLOB PRIMARY KEY,
    json TEXT NOT NULL,
    checksum BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE snapshot (
    run INTEGER PRIMARY KEY,
    seq INTEGER NOT NULL,
    state BLOB NOT NULL,
    checksum BLOB NOT NULL
) STRICT;
