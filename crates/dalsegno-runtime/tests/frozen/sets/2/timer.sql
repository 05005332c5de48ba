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
INSERT INTO config (digest, json, checksum) VALUES (X'BDD15ADFA9EE29B02E5A00BF942BB62969C8C60140F029603A1B0472D22E78C3', '{"name":"a","version":"1.0.0","semantics":2,"mind":{"plan":{"steps":[{"when":null,"action":{"operation":{"id":null,"call":{"wait":{"for":{"ms":31000}}},"on_failure":null}}},{"when":null,"action":{"respond":"waited"}}]}},"tools":{"tools":{},"forbidden":["memory.create","memory.search","memory.traverse"]},"memory_scope":"workspace","limits":{"max_steps":64,"max_tool_calls":64,"timeout_ms":600000,"on_exceeded":"fail"}}', X'0E76E2F0C13060A47C86E5E62D063118');
INSERT INTO run (id, run, agent, tenant, session, config, start_key, request_digest, status, wake_at, waiting, started_at, updated_at, owner, epoch, next_seq, head, parent, posted, seal, origin) VALUES (1, X'E11FD13C6751460F91E7F78DBABD8B63', 'a', 'default', 'e11fd13c6751460f91e7f78dbabd8b63', X'BDD15ADFA9EE29B02E5A00BF942BB62969C8C60140F029603A1B0472D22E78C3', NULL, X'CE9DFD820C9F897B167EE5329B2A9FF70E07CBDCB81D0C4E1B417B567E655644', 1, 1795443076328, 16, 1795443045328, 1795443045334, NULL, 1, 3, X'F869A442AEF32EFF3218D19934479EC8', NULL, 0, X'1C311048334137BACA1331E960D4FB29', NULL);
INSERT INTO record (key, at, kind, form, operation, parent, body, checksum, link) VALUES (4294967296, 1795443045328, 1, 1, NULL, NULL, X'20A58D0300840585A161BDD15ADFA9EE29B02E5A00BF942BB62969C8C60140F029603A1B0472D22E78C302B16469736B2066756C6C206F6E2064622D31D92065313166643133633637353134363066393165376637386462616264386236330700618004A00AF80520053001E1C303D40806DBA18056', X'C80CA4B7ED9E0251DE4937DA199CC6FC', X'63DBA8D40AC382561E74EAED0938F0AF');
INSERT INTO record (key, at, kind, form, operation, parent, body, checksum, link) VALUES (4294967297, 1795443045332, 2, 1, X'D5B2B168417FD03B729FCCD0D6610BD8', NULL, X'2066850100040264756816B5882C9D619B7A9860002E375519BEE57FDB475455EDDC128E325490040048E33F180A489301E08E0102', X'066AF8CEB6315926B1C701E4D2A3597C', X'7F3A551AA35338FACC874BBAB746D2CC');
INSERT INTO record (key, at, kind, form, operation, parent, body, checksum, link) VALUES (4294967298, 1795443045334, 11, 1, NULL, NULL, X'201D85000028A208BF2CE80350000A0ED6B1C14923', X'7AAD903743B93ACA0FD5881A2E9B4F2C', X'F869A442AEF32EFF3218D19934479EC8');
