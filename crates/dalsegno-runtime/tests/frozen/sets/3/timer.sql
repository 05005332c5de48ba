PRAGMA application_id = 1397182031;
PRAGMA user_version = 5;
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
CREATE TABLE blob (
    digest BLOB PRIMARY KEY NOT NULL,
    bytes BLOB NOT NULL
, form INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE TABLE inbox (
    run INTEGER NOT NULL,
    number INTEGER NOT NULL,
    message BLOB NOT NULL,
    checksum BLOB NOT NULL,
    PRIMARY KEY (run, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE "run" (
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
, origin BLOB) STRICT;
CREATE INDEX run_session ON run (session);
CREATE INDEX run_parent ON run (parent) WHERE parent IS NOT NULL;
CREATE INDEX run_config ON run (config);
CREATE INDEX run_waits_approval ON run (id) WHERE waiting & 1;
CREATE INDEX run_waits_input ON run (id) WHERE waiting & 2;
CREATE INDEX run_waits_in_doubt ON run (id) WHERE waiting & 4;
CREATE INDEX run_waits_secret ON run (id) WHERE waiting & 8;
CREATE INDEX run_waits_timer ON run (id) WHERE waiting & 16;
CREATE INDEX run_waits_other ON run (id) WHERE waiting & 32;
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
CREATE INDEX record_erased ON record (key) WHERE form = 3;
CREATE TABLE reference (
    record INTEGER NOT NULL,
    place INTEGER NOT NULL,
    digest BLOB NOT NULL,
    PRIMARY KEY (record, place)
) STRICT, WITHOUT ROWID;
CREATE INDEX reference_digest ON reference (digest);
CREATE TABLE doomed (
    run INTEGER PRIMARY KEY
) STRICT;
CREATE INDEX run_held ON run (owner) WHERE owner IS NOT NULL AND (status = 1 OR status >= 2 AND waiting <> 0);
CREATE UNIQUE INDEX run_start_key ON run (tenant, start_key) WHERE start_key IS NOT NULL AND origin IS NULL;
CREATE INDEX run_wake_at ON run (wake_at) WHERE wake_at IS NOT NULL AND origin IS NULL;
CREATE INDEX run_open_root ON run (tenant, session) WHERE parent IS NULL AND status < 2 AND origin IS NULL;
CREATE INDEX run_owner ON run (owner) WHERE status = 0 AND origin IS NULL;
CREATE INDEX run_ended ON run (updated_at) WHERE status >= 2 OR origin IS NOT NULL;
CREATE INDEX record_sources ON record (key) WHERE kind IN (9, 20);
INSERT INTO config (digest, json, checksum) VALUES (X'586E06254314C8124DA87E1B5484DDBD5A113BB61B7447B33E80E3A201FD255E', '{"name":"a","version":"1.0.0","semantics":3,"mind":{"plan":{"steps":[{"when":null,"action":{"operation":{"id":null,"call":{"wait":{"for":{"ms":31000}}},"on_failure":null}}},{"when":null,"action":{"respond":"waited"}}]}},"tools":{"tools":{},"forbidden":["memory.create","memory.search","memory.traverse"]},"memory_scope":"workspace","limits":{"max_steps":64,"max_tool_calls":64,"timeout_ms":600000,"on_exceeded":"fail"}}', X'19B18DEEA15AE0502CF480CC6FB339E9');
INSERT INTO run (id, run, agent, tenant, session, config, start_key, request_digest, status, wake_at, waiting, started_at, updated_at, owner, epoch, next_seq, head, parent, posted, seal, origin) VALUES (1, X'EB5A736C63384383BACA17E96C3634C3', 'a', 'default', 'eb5a736c63384383baca17e96c3634c3', X'586E06254314C8124DA87E1B5484DDBD5A113BB61B7447B33E80E3A201FD255E', NULL, X'CE9DFD820C9F897B167EE5329B2A9FF70E07CBDCB81D0C4E1B417B567E655644', 1, 1795566541185, 16, 1795566510185, 1795566510188, NULL, 1, 3, X'1D57A6D515C0C0C6127BAE7DC0744B33', NULL, 0, X'386889A1DCC8EAFD6141ADAEBE1CD674', NULL);
INSERT INTO record (key, at, kind, form, operation, parent, body, checksum, link) VALUES (4294967296, 1795566510185, 1, 1, NULL, NULL, X'20A58D0300840585A161586E06254314C8124DA87E1B5484DDBD5A113BB61B7447B33E80E3A201FD255E03B16469736B2066756C6C206F6E2064622D31D92065623561373336633633333834333833626163613137653936633336333463330700618004A00AF80520053001E1C303D40806DBA18056', X'4DC563E778631736D6E0A0AAC707371C', X'9A9929CA5622C1C283C1288129AB6C41');
INSERT INTO record (key, at, kind, form, operation, parent, body, checksum, link) VALUES (4294967297, 1795566510187, 2, 1, X'D0E6809E76E5ED7F6B2CAA9E1981934A', NULL, X'206685010004027CB87821802B3ABC01D8B5B37DAD38437C11AF5EF0D9725B3895AA521EB577E8040048E33F180A489301E08E0102', X'F9EA04BF750BFFAFDF785C144A0F1E56', X'48E56A80754D3FA0E54F65D577FC95DF');
INSERT INTO record (key, at, kind, form, operation, parent, body, checksum, link) VALUES (4294967298, 1795566510188, 11, 1, NULL, NULL, X'201D85000028A2101B19810350000A0ED6B1C14923', X'9F8D96BF13EF67750F3E9D9840A1988A', X'1D57A6D515C0C0C6127BAE7DC0744B33');
