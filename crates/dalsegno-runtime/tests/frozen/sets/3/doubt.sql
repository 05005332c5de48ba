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
INSERT INTO config (digest, json, checksum) VALUES (X'0029794E4C13E55E074E2BBD120E5E251E57860ED7C935C6B8FC8C0D687D9AD2', '{"name":"a","version":"1.0.0","semantics":3,"mind":{"plan":{"steps":[{"when":null,"action":{"operation":{"id":"it","call":{"tool":{"tool":"local.write","with":{"n":1},"approve":"as_configured"}},"on_failure":null}}},{"when":null,"action":{"respond":"{{steps.it}}"}}]}},"tools":{"tools":{"local.write":{"description":"Adds one to what was counted.","input_schema":{"additionalProperties":false,"properties":{"n":{"type":"integer"},"note":{"type":"string"}},"type":"object"},"output_schema":null,"kind":"external","class":"unsafe","timeout_ms":30000,"retries":2,"approve":false,"on_failure":null,"on_indeterminate":"ask"},"memory.create":{"description":"Adds one observation about an entity to the memory.","input_schema":{"additionalProperties":false,"properties":{"content":{"description":"What was observed.","minLength":1,"type":"string"},"entity":{"description":"The name of what was observed; a new name makes a new entity.","minLength":1,"type":"string"},"type":{"default":"note","description":"What kind of entity it is, such as `incident`.","minLength":1,"type":"string"}},"required":["entity","content"],"type":"object"},"output_schema":null,"kind":"memory_create","class":"keyed","timeout_ms":30000,"retries":2,"approve":false,"on_failure":null,"on_indeterminate":"ask"},"memory.search":{"description":"Searches the memory for what was observed before. Returns the best hits first, each with its entity, text, score and metadata.","input_schema":{"additionalProperties":false,"properties":{"limit":{"default":5,"description":"The most hits to return.","maximum":100,"minimum":1,"type":"integer"},"query":{"description":"What to search for, in plain words.","minLength":1,"type":"string"}},"required":["query"],"type":"object"},"output_schema":null,"kind":"memory_search","class":"read","timeout_ms":30000,"retries":2,"approve":false,"on_failure":null,"on_indeterminate":"ask"},"memory.traverse":{"description":"Follows relations in the memory from one entity. Returns the entities that were reached, nearest first, and the relations between them.","input_schema":{"additionalProperties":false,"properties":{"depth":{"default":2,"description":"The most relations in a row.","maximum":8,"minimum":1,"type":"integer"},"from":{"description":"The name of the entity to begin at.","minLength":1,"type":"string"},"limit":{"default":50,"description":"The most entities to return.","maximum":1000,"minimum":1,"type":"integer"},"relation":{"description":"Follow only relations of this type, such as `caused_by`.","minLength":1,"type":"string"}},"required":["from"],"type":"object"},"output_schema":null,"kind":"memory_traverse","class":"read","timeout_ms":30000,"retries":2,"approve":false,"on_failure":null,"on_indeterminate":"ask"}},"forbidden":[]},"memory_scope":"workspace","limits":{"max_steps":64,"max_tool_calls":64,"timeout_ms":600000,"on_exceeded":"fail"}}', X'D3EFEDF43CF926C0280B909D7F94DD02');
INSERT INTO run (id, run, agent, tenant, session, config, start_key, request_digest, status, wake_at, waiting, started_at, updated_at, owner, epoch, next_seq, head, parent, posted, seal, origin) VALUES (1, X'26D8762749B247958C544D4C6FEE359F', 'a', 'default', '26d8762749b247958c544d4c6fee359f', X'0029794E4C13E55E074E2BBD120E5E251E57860ED7C935C6B8FC8C0D687D9AD2', NULL, X'CE9DFD820C9F897B167EE5329B2A9FF70E07CBDCB81D0C4E1B417B567E655644', 1, NULL, 4, 1795566510166, 1795566510169, NULL, 1, 4, X'60D2F1E22F9AB123C966B4C0055C06B4', NULL, 0, X'8F87A65D9F0E5E65A6A3D47F66C24F27', NULL);
INSERT INTO record (key, at, kind, form, operation, parent, body, checksum, link) VALUES (4294967296, 1795566510166, 1, 1, NULL, NULL, X'20A58D0300840585A1610029794E4C13E55E074E2BBD120E5E251E57860ED7C935C6B8FC8C0D687D9AD203B16469736B2066756C6C206F6E2064622D31D92032366438373632373439623234373935386335343464346336666565333539660700618004A00AF80520053001E1C303D40806DBA18056', X'5961B130E16C44AD83E70A31EBB83EF5', X'3601DC14FD27B48F3227EB8132F0530A');
INSERT INTO record (key, at, kind, form, operation, parent, body, checksum, link) VALUES (4294967297, 1795566510167, 2, 1, X'D3983A891D134D5B9E4665C6887ECB58', NULL, X'2075DD0100C402B26C6F63616C2E7772697465FE4A9EA354196B3B5B644D904A5945DBD774472B5935B62430387DE0160E1214040068587D6D400F0363B863AC', X'C9594BEFDF5FF55140643EC126CD7104', X'813A1C4E833A2C73D3ED77F56D4FC02E');
INSERT INTO record (key, at, kind, form, operation, parent, body, checksum, link) VALUES (4294967298, 1795566510168, 4, 1, X'D3983A891D134D5B9E4665C6887ECB58', NULL, X'204F7D0100C8D92C203120686164206E6F202028746865202077646561642906000445E08C7328836520949561ABD90B5EBB0C04', X'660CEB99FD87932F52774706CC89BFF3', X'0E8791D7A37E93CB20234B975B221EFD');
INSERT INTO record (key, at, kind, form, operation, parent, body, checksum, link) VALUES (4294967299, 1795566510169, 11, 1, NULL, NULL, X'209C1D0300140481D3983A891D134D5B9E4665C6887ECB58D94D77617320746865206C6F63616C2E77726974656020646F6E653F20203120686164206E6F202028207764656164290B005145A0D939425601439781D66D0E1533BA7EA258C081D74C00A0E7649C83', X'9A322374DC03681A5489C029C6BE5D50', X'60D2F1E22F9AB123C966B4C0055C06B4');
