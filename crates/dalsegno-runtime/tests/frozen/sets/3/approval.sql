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
INSERT INTO config (digest, json, checksum) VALUES (X'208293FDF614868198B7099AF87523A041F1D8719FBB4BC6ECDD842775B5942A', '{"name":"a","version":"1.0.0","semantics":3,"mind":{"plan":{"steps":[{"when":null,"action":{"operation":{"id":"first","call":{"tool":{"tool":"local.read","with":{"n":1},"approve":"as_configured"}},"on_failure":null}}},{"when":null,"action":{"operation":{"id":"second","call":{"tool":{"tool":"local.write","with":{"n":"{{steps.first.n}}"},"approve":"always"}},"on_failure":null}}},{"when":null,"action":{"respond":"wrote {{steps.second.n}}"}}]}},"tools":{"tools":{"local.read":{"description":"Adds one to what was counted.","input_schema":{"additionalProperties":false,"properties":{"n":{"type":"integer"},"note":{"type":"string"}},"type":"object"},"output_schema":null,"kind":"external","class":"read","timeout_ms":30000,"retries":2,"approve":false,"on_failure":null,"on_indeterminate":"ask"},"local.write":{"description":"Adds one to what was counted.","input_schema":{"additionalProperties":false,"properties":{"n":{"type":"integer"},"note":{"type":"string"}},"type":"object"},"output_schema":null,"kind":"external","class":"unsafe","timeout_ms":30000,"retries":2,"approve":false,"on_failure":null,"on_indeterminate":"ask"},"memory.create":{"description":"Adds one observation about an entity to the memory.","input_schema":{"additionalProperties":false,"properties":{"content":{"description":"What was observed.","minLength":1,"type":"string"},"entity":{"description":"The name of what was observed; a new name makes a new entity.","minLength":1,"type":"string"},"type":{"default":"note","description":"What kind of entity it is, such as `incident`.","minLength":1,"type":"string"}},"required":["entity","content"],"type":"object"},"output_schema":null,"kind":"memory_create","class":"keyed","timeout_ms":30000,"retries":2,"approve":false,"on_failure":null,"on_indeterminate":"ask"},"memory.search":{"description":"Searches the memory for what was observed before. Returns the best hits first, each with its entity, text, score and metadata.","input_schema":{"additionalProperties":false,"properties":{"limit":{"default":5,"description":"The most hits to return.","maximum":100,"minimum":1,"type":"integer"},"query":{"description":"What to search for, in plain words.","minLength":1,"type":"string"}},"required":["query"],"type":"object"},"output_schema":null,"kind":"memory_search","class":"read","timeout_ms":30000,"retries":2,"approve":false,"on_failure":null,"on_indeterminate":"ask"},"memory.traverse":{"description":"Follows relations in the memory from one entity. Returns the entities that were reached, nearest first, and the relations between them.","input_schema":{"additionalProperties":false,"properties":{"depth":{"default":2,"description":"The most relations in a row.","maximum":8,"minimum":1,"type":"integer"},"from":{"description":"The name of the entity to begin at.","minLength":1,"type":"string"},"limit":{"default":50,"description":"The most entities to return.","maximum":1000,"minimum":1,"type":"integer"},"relation":{"description":"Follow only relations of this type, such as `caused_by`.","minLength":1,"type":"string"}},"required":["from"],"type":"object"},"output_schema":null,"kind":"memory_traverse","class":"read","timeout_ms":30000,"retries":2,"approve":false,"on_failure":null,"on_indeterminate":"ask"}},"forbidden":[]},"memory_scope":"workspace","limits":{"max_steps":64,"max_tool_calls":64,"timeout_ms":600000,"on_exceeded":"fail"}}', X'8D796CD85E3DE9996DF86E4576B98460');
INSERT INTO run (id, run, agent, tenant, session, config, start_key, request_digest, status, wake_at, waiting, started_at, updated_at, owner, epoch, next_seq, head, parent, posted, seal, origin) VALUES (1, X'11E2521774C74A45B8A822319E2515EA', 'a', 'default', '11e2521774c74a45b8a822319e2515ea', X'208293FDF614868198B7099AF87523A041F1D8719FBB4BC6ECDD842775B5942A', NULL, X'CE9DFD820C9F897B167EE5329B2A9FF70E07CBDCB81D0C4E1B417B567E655644', 1, NULL, 1, 1795566510121, 1795566510125, NULL, 1, 6, X'3FD5D5C23FD28DEB0B0BC57B8937021E', NULL, 0, X'BD5B2C17EF22B22182981F807B8791F0', NULL);
INSERT INTO record (key, at, kind, form, operation, parent, body, checksum, link) VALUES (4294967296, 1795566510121, 1, 1, NULL, NULL, X'20A58D0300840585A161208293FDF614868198B7099AF87523A041F1D8719FBB4BC6ECDD842775B5942A03B16469736B2066756C6C206F6E2064622D31D92031316532353231373734633734613435623861383232333139653235313565610700618004A00AF80520053001E1C303D40806DBA18056', X'55050B69E0728EF0AFE7A6CE03EDCF2F', X'C74975BDB7DAB827BEFA48E2B256E3CB');
INSERT INTO record (key, at, kind, form, operation, parent, body, checksum, link) VALUES (4294967297, 1795566510123, 2, 1, X'ABDE25602FEB11A43845947204957266', NULL, X'2072CD01007402B16C6F63616C2E960100C3DB99B79ACE02B58EFB071DBB33B403C67B2FD73265A75027096E41420500A8E33F1B0B80B015C67070C70401', X'59B1241134E3AE65787D25395F414DE2', X'50B32A190BEB3FC728895490A461F12D');
INSERT INTO record (key, at, kind, form, operation, parent, body, checksum, link) VALUES (4294967298, 1795566510124, 6, 1, X'ABDE25602FEB11A43845947204957266', NULL, X'204875000020A16E0101020038EB1B38440208', X'252710B8FEE8D34BF495DEB0E03BCBC1', X'52A0ABFA5DC808A669B0262EB0D14E8D');
INSERT INTO record (key, at, kind, form, operation, parent, body, checksum, link) VALUES (4294967299, 1795566510124, 2, 1, X'8C7F34DFFABD21A654CD289D7267CD6E', NULL, X'207A0D0200D40202B26C6F63616C2E7772697465FE4A9EA354196B3B5B644D904A5945DBD774472B5935B62430387DE0160E121406007AA50068587A6DD80E030B0311710E40', X'1B82F498381168C1C35527897E3C80BB', X'121727843AAAC67D6B0D325BA25008C8');
INSERT INTO record (key, at, kind, form, operation, parent, body, checksum, link) VALUES (4294967300, 1795566510124, 4, 1, X'8C7F34DFFABD21A654CD289D7267CD6E', NULL, X'20183D0000000100BC821908', X'2C0AADD3F5FF75B213BBBB39D2DD589A', X'515D189B2BDC5D7AE2759174F44F9C43');
INSERT INTO record (key, at, kind, form, operation, parent, body, checksum, link) VALUES (4294967301, 1795566510125, 11, 1, NULL, NULL, X'20783D02004403818C7F34DFFABD21A654CD289D7267CD6ED929606C6F63616C2E7772697465602062652065642077697468207B226E223A317D3F050019572C3073C0FA896283724EC63908', X'192CB43B8056101F8E8595FACB508AB9', X'3FD5D5C23FD28DEB0B0BC57B8937021E');
