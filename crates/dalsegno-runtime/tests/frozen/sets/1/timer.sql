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
INSERT INTO config (digest, json, checksum) VALUES (X'702D4FF0CD39836AF6D47FA3DD545A8C47BABCE66AA0C7F1D67ACB8A8338EAF7', '{"name":"a","version":"1.0.0","semantics":1,"mind":{"plan":{"steps":[{"when":null,"action":{"operation":{"id":null,"call":{"wait":{"for":{"ms":31000}}},"on_failure":null}}},{"when":null,"action":{"respond":"waited"}}]}},"tools":{"tools":{},"forbidden":["memory.create","memory.search","memory.traverse"]},"memory_scope":"workspace","limits":{"max_steps":64,"max_tool_calls":64,"timeout_ms":600000,"on_exceeded":"fail"}}', X'9DDD6B2CF371DF3B06D15274B96094CF');
INSERT INTO run (id, run, agent, tenant, session, config, start_key, request_digest, status, wake_at, waiting, started_at, updated_at, owner, epoch, next_seq, head, parent, posted, seal, origin) VALUES (1, X'82782E39D08C47E59B1CB7C4CFEC581C', 'a', 'default', '82782e39d08c47e59b1cb7c4cfec581c', X'702D4FF0CD39836AF6D47FA3DD545A8C47BABCE66AA0C7F1D67ACB8A8338EAF7', NULL, X'CE9DFD820C9F897B167EE5329B2A9FF70E07CBDCB81D0C4E1B417B567E655644', 1, 1795421448164, 16, 1795421417164, 1795421417173, NULL, 1, 3, X'7FBE656EDA41D7DCC6FABFFC6D575246', NULL, 0, X'C16DBE75E8A4A1278287F61BB372C10C', NULL);
INSERT INTO record (key, at, kind, form, operation, parent, body, checksum, link) VALUES (4294967296, 1795421417164, 1, 1, NULL, NULL, X'20A57D0300740585A161702D4FF0CD39836AF6D47FA3DD545A8C47BABCE66AA0C7F1D67ACB8A8338EAF7B16469736B2066756C6C206F6E2064622D31D92038323738326533396430386334376535396231636237633463666563353831630600618004A00AF80560022E8207581A186287020201', X'D5E2925CE8D9EA1B399DF5F9F5A25B1C', X'85D5F6A455D060C77648123955AD3371');
INSERT INTO record (key, at, kind, form, operation, parent, body, checksum, link) VALUES (4294967297, 1795421417170, 2, 1, X'A0130DB853546844FB93C6049267C3B6', NULL, X'2066850100040232861BDD35A04CF2305A471B821EA227C5D1DC1B4C82E4AFE75EA4D94DFABF54040048E33F180A489301E08E0102', X'E43C6D61347863DE49A44909D94765BC', X'7F5997F635860020FE420B30A70DE8E6');
INSERT INTO record (key, at, kind, form, operation, parent, body, checksum, link) VALUES (4294967298, 1795421417173, 11, 1, NULL, NULL, X'201D85000028A2077527E40350000A0ED6B1C14923', X'0CCFC96CD31DE198A7DD938952EE85B6', X'7FBE656EDA41D7DCC6FABFFC6D575246');
