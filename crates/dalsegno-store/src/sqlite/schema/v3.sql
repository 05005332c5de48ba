-- Version 3: small records, parts of bodies kept once, what suspended runs wait for, runs that anybody may take.
-- Row numbers of runs are never used twice (AUTOINCREMENT), so that what is left of a deleted one meets no other.
CREATE TABLE run_3 (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    run BLOB NOT NULL UNIQUE,
    agent TEXT NOT NULL,
    tenant TEXT NOT NULL,
    session TEXT NOT NULL,
    config BLOB NOT NULL,
    start_key TEXT,
    request_digest BLOB NOT NULL,
    status INTEGER NOT NULL,
    wake_at INTEGER,
    -- The sum of the kinds of things that a suspended run waits for.
    waiting INTEGER NOT NULL DEFAULT 0,
    started_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    owner BLOB,
    epoch INTEGER NOT NULL,
    next_seq INTEGER NOT NULL,
    head BLOB NOT NULL,
    parent BLOB,
    posted INTEGER NOT NULL DEFAULT 0,
    -- The checksum of the fields that no record repeats.
    seal BLOB NOT NULL DEFAULT X''
) STRICT;
INSERT INTO run_3 (id, run, agent, tenant, session, config, start_key, request_digest, status, wake_at, started_at,
    updated_at, owner, epoch, next_seq, head, parent, posted)
SELECT id, run, agent, tenant, session, config, start_key, request_digest, status,
    -- A time beyond what this type holds had become one before the beginning.
    CASE WHEN wake_at < 0 THEN 9223372036854775807 ELSE wake_at END, started_at, updated_at,
    owner, epoch, next_seq, head, parent, posted FROM run ORDER BY id;
DROP TABLE run;
ALTER TABLE run_3 RENAME TO run;
CREATE UNIQUE INDEX run_start_key ON run (tenant, start_key) WHERE start_key IS NOT NULL;
CREATE INDEX run_wake_at ON run (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX run_session ON run (session);
CREATE INDEX run_parent ON run (parent) WHERE parent IS NOT NULL;
CREATE INDEX run_open_root ON run (tenant, session) WHERE parent IS NULL AND status < 2;
CREATE INDEX run_config ON run (config);
-- Runs that go on, by their owners; suspended ones, by what they wait for; ended ones, by their age.
CREATE INDEX run_owner ON run (owner) WHERE status = 0;
CREATE INDEX run_waits_approval ON run (id) WHERE waiting & 1;
CREATE INDEX run_waits_input ON run (id) WHERE waiting & 2;
CREATE INDEX run_waits_in_doubt ON run (id) WHERE waiting & 4;
CREATE INDEX run_waits_secret ON run (id) WHERE waiting & 8;
CREATE INDEX run_waits_timer ON run (id) WHERE waiting & 16;
CREATE INDEX run_waits_other ON run (id) WHERE waiting & 32;
CREATE INDEX run_ended ON run (updated_at) WHERE status >= 2;

ALTER TABLE record RENAME TO record_2;
CREATE TABLE record (
    -- The run's row number times 2^32, plus the record's number in the run.
    key INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    -- How the body is stored: 0 as it is, 1 and 2 compressed with a dictionary (2 without the parts that are
    -- kept by themselves), 3 erased, 4 compressed without one.
    form INTEGER NOT NULL,
    operation BLOB,
    parent BLOB,
    body BLOB,
    checksum BLOB NOT NULL,
    link BLOB NOT NULL
) STRICT;
CREATE INDEX record_forked ON record (key) WHERE kind = 9;
CREATE INDEX record_erased ON record (key) WHERE form = 3;

ALTER TABLE blob ADD COLUMN form INTEGER NOT NULL DEFAULT 0;
-- Which records use which blobs: parts of their bodies (the place is where they stand in them) and files (below zero).
CREATE TABLE reference (
    record INTEGER NOT NULL,
    place INTEGER NOT NULL,
    digest BLOB NOT NULL,
    PRIMARY KEY (record, place)
) STRICT, WITHOUT ROWID;
CREATE INDEX reference_digest ON reference (digest);
-- Runs that are gone, some of whose records are still to be deleted.
CREATE TABLE doomed (
    run INTEGER PRIMARY KEY
) STRICT;
