PRAGMA application_id = 1397182031;
PRAGMA user_version = 8;
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
, origin BLOB, changed INTEGER NOT NULL DEFAULT 0) STRICT;
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
CREATE TABLE spending (
    account TEXT NOT NULL,
    day TEXT NOT NULL,
    nano_usd INTEGER NOT NULL,
    PRIMARY KEY (account, day)
) STRICT, WITHOUT ROWID;
CREATE INDEX run_changed ON run (changed);
CREATE TABLE change (
    -- One row: the number that was given last. No number is given twice, even where the run that had it is gone.
    number INTEGER NOT NULL
) STRICT;
CREATE INDEX run_waits_paused ON run (id) WHERE waiting & 64;
INSERT INTO config (digest, json, checksum) VALUES (X'208293FDF614868198B7099AF87523A041F1D8719FBB4BC6ECDD842775B5942A', '{"name":"a","version":"1.0.0","semantics":3,"mind":{"plan":{"steps":[{"when":null,"action":{"operation":{"id":"first","call":{"tool":{"tool":"local.read","with":{"n":1},"approve":"as_configured"}},"on_failure":null}}},{"when":null,"action":{"operation":{"id":"second","call":{"tool":{"tool":"local.write","with":{"n":"{{steps.first.n}}"},"approve":"always"}},"on_failure":null}}},{"when":null,"action":{"respond":"wrote {{steps.second.n}}"}}]}},"tools":{"tools":{"local.read":{"description":"Adds one to what was counted.","input_schema":{"additionalProperties":false,"properties":{"n":{"type":"integer"},"note":{"type":"string"}},"type":"object"},"output_schema":null,"kind":"external","class":"read","timeout_ms":30000,"retries":2,"approve":false,"on_failure":null,"on_indeterminate":"ask"},"local.write":{"description":"Adds one to what was counted.","input_schema":{"additionalProperties":false,"properties":{"n":{"type":"integer"},"note":{"type":"string"}},"type":"object"},"output_schema":null,"kind":"external","class":"unsafe","timeout_ms":30000,"retries":2,"approve":false,"on_failure":null,"on_indeterminate":"ask"},"memory.create":{"description":"Adds one observation about an entity to the memory.","input_schema":{"additionalProperties":false,"properties":{"content":{"description":"What was observed.","minLength":1,"type":"string"},"entity":{"description":"The name of what was observed; a new name makes a new entity.","minLength":1,"type":"string"},"type":{"default":"note","description":"What kind of entity it is, such as `incident`.","minLength":1,"type":"string"}},"required":["entity","content"],"type":"object"},"output_schema":null,"kind":"memory_create","class":"keyed","timeout_ms":30000,"retries":2,"approve":false,"on_failure":null,"on_indeterminate":"ask"},"memory.search":{"description":"Searches the memory for what was observed before. Returns the best hits first, each with its entity, text, score and metadata.","input_schema":{"additionalProperties":false,"properties":{"limit":{"default":5,"description":"The most hits to return.","maximum":100,"minimum":1,"type":"integer"},"query":{"description":"What to search for, in plain words.","minLength":1,"type":"string"}},"required":["query"],"type":"object"},"output_schema":null,"kind":"memory_search","class":"read","timeout_ms":30000,"retries":2,"approve":false,"on_failure":null,"on_indeterminate":"ask"},"memory.traverse":{"description":"Follows relations in the memory from one entity. Returns the entities that were reached, nearest first, and the relations between them.","input_schema":{"additionalProperties":false,"properties":{"depth":{"default":2,"description":"The most relations in a row.","maximum":8,"minimum":1,"type":"integer"},"from":{"description":"The name of the entity to begin at.","minLength":1,"type":"string"},"limit":{"default":50,"description":"The most entities to return.","maximum":1000,"minimum":1,"type":"integer"},"relation":{"description":"Follow only relations of this type, such as `caused_by`.","minLength":1,"type":"string"}},"required":["from"],"type":"object"},"output_schema":null,"kind":"memory_traverse","class":"read","timeout_ms":30000,"retries":2,"approve":false,"on_failure":null,"on_indeterminate":"ask"}},"forbidden":[]},"memory_scope":"workspace","limits":{"max_steps":64,"max_tool_calls":64,"timeout_ms":600000,"on_exceeded":"fail"}}', X'8D796CD85E3DE9996DF86E4576B98460');
INSERT INTO run (id, run, agent, tenant, session, config, start_key, request_digest, status, wake_at, waiting, started_at, updated_at, owner, epoch, next_seq, head, parent, posted, seal, origin, changed) VALUES (1, X'E7233A20119A41C9B660FC5EE56F8735', 'a', 'default', 'e7233a20119a41c9b660fc5ee56f8735', X'208293FDF614868198B7099AF87523A041F1D8719FBB4BC6ECDD842775B5942A', NULL, X'CE9DFD820C9F897B167EE5329B2A9FF70E07CBDCB81D0C4E1B417B567E655644', 1, NULL, 65, 1795937882812, 1795937882843, NULL, 4, 12, X'7A2755C460BCCD6FDBFE02934BED7852', NULL, 3, X'F57B6F4E64E2D1C11F511418164F5D9B', NULL, 9);
INSERT INTO record (key, at, kind, form, operation, parent, body, checksum, link) VALUES (4294967296, 1795937882812, 1, 1, NULL, NULL, X'20A58D0300840585A161208293FDF614868198B7099AF87523A041F1D8719FBB4BC6ECDD842775B5942A03B16469736B2066756C6C206F6E2064622D31D92065373233336132303131396134316339623636306663356565353666383733350700618004A00AF80520053001E1C303D40806DBA18056', X'2C592E7ACE02F136863C95DAE912D14F', X'B8595994ED4989679ABF336C1415F2A6');
INSERT INTO record (key, at, kind, form, operation, parent, body, checksum, link) VALUES (4294967297, 1795937882815, 2, 1, X'3B4DAA7F6EAC885E2273BABC85272CBB', NULL, X'2072CD01007402B16C6F63616C2E960100C3DB99B79ACE02B58EFB071DBB33B403C67B2FD73265A75027096E41420500A8E33F1B0B80B015C67070C70401', X'59B1241134E3AE65787D25395F414DE2', X'26C30822AB47C8B1B76963051B67DB73');
INSERT INTO record (key, at, kind, form, operation, parent, body, checksum, link) VALUES (4294967298, 1795937882816, 6, 1, X'3B4DAA7F6EAC885E2273BABC85272CBB', NULL, X'204875000020A16E0101020038EB1B38440208', X'252710B8FEE8D34BF495DEB0E03BCBC1', X'8BDC5403C13D92B180DE1A54E0FF6044');
INSERT INTO record (key, at, kind, form, operation, parent, body, checksum, link) VALUES (4294967299, 1795937882816, 2, 1, X'6CCE2ED8E6890B3380E9332C2BBEE613', NULL, X'207A0D0200D40202B26C6F63616C2E7772697465FE4A9EA354196B3B5B644D904A5945DBD774472B5935B62430387DE0160E121406007AA50068587A6DD80E030B0311710E40', X'1B82F498381168C1C35527897E3C80BB', X'B933F8E1E382F84BBAF70EBE1D6C945F');
INSERT INTO record (key, at, kind, form, operation, parent, body, checksum, link) VALUES (4294967300, 1795937882816, 4, 1, X'6CCE2ED8E6890B3380E9332C2BBEE613', NULL, X'20183D0000000100BC821908', X'2C0AADD3F5FF75B213BBBB39D2DD589A', X'05FEA800126000DECC649DB3C60276C9');
INSERT INTO record (key, at, kind, form, operation, parent, body, checksum, link) VALUES (4294967301, 1795937882817, 11, 1, NULL, NULL, X'20783D02004403816CCE2ED8E6890B3380E9332C2BBEE613D929606C6F63616C2E7772697465602062652065642077697468207B226E223A317D3F050019572C3073C0FA896283724EC63908', X'D77062F5B27FE2396B733ACF2B223D5F', X'3E9C12A9D67F1C72D8B713D9AB5501CF');
INSERT INTO record (key, at, kind, form, operation, parent, body, checksum, link) VALUES (4294967302, 1795937882828, 24, 1, NULL, NULL, X'208CFD020084047573656483A26279A3616461A8616E2061756469746CCE2ED8E6890B3380E9332C2BBEE613D929606C6F63616C2E7772697465602062652065642077697468207B226E223A317D3F060041572C3A73C0228A621533977367F6F47DCD40', X'0BE59A009E6B36E2513B9479EDF7D1E3', X'A7695C579F4D0900737F01BC2129EA9D');
INSERT INTO record (key, at, kind, form, operation, parent, body, checksum, link) VALUES (4294967303, 1795937882828, 24, 1, NULL, NULL, X'208CFD020084047573656483A26279A3616461A8616E2061756469746CCE2ED8E6890B3380E9332C2BBEE613D929606C6F63616C2E7772697465602062652065642077697468207B226E223A317D3F060041572C3A73C0228A621533977367F6F47DCD40', X'0BE59A009E6B36E2513B9479EDF7D1E3', X'9CCB4EAD9551AAC7103B0C7FB1C76214');
INSERT INTO record (key, at, kind, form, operation, parent, body, checksum, link) VALUES (4294967304, 1795937882836, 25, 0, NULL, NULL, X'81A9636F6E74696E75656481A26279A3657665', X'01E8C0BD7045F435CF62046583A72472', X'F5F4128D9D1D5116F67E827F13C105DF');
INSERT INTO record (key, at, kind, form, operation, parent, body, checksum, link) VALUES (4294967305, 1795937882837, 11, 1, NULL, NULL, X'20783D02004403816CCE2ED8E6890B3380E9332C2BBEE613D929606C6F63616C2E7772697465602062652065642077697468207B226E223A317D3F050019572C3073C0FA896283724EC63908', X'D77062F5B27FE2396B733ACF2B223D5F', X'BCFA8C4C140AA7CDB20044BAD1114690');
INSERT INTO record (key, at, kind, form, operation, parent, body, checksum, link) VALUES (4294967306, 1795937882842, 24, 1, NULL, NULL, X'207C9D0200F4037573656482A26279A36164616CCE2ED8E6890B3380E9332C2BBEE613D929606C6F63616C2E7772697465602062652065642077697468207B226E223A317D3F050021572C3273C0028A62953257FABE6620', X'8EC544F4BE2F2C617BC44C882AE8DFFF', X'C6EEC76F87CAE503AF0F326821B33EE2');
INSERT INTO record (key, at, kind, form, operation, parent, body, checksum, link) VALUES (4294967307, 1795937882843, 24, 1, NULL, NULL, X'207C9D0200F4037573656482A26279A36164616CCE2ED8E6890B3380E9332C2BBEE613D929606C6F63616C2E7772697465602062652065642077697468207B226E223A317D3F050021572C3273C0028A62953257FABE6620', X'8EC544F4BE2F2C617BC44C882AE8DFFF', X'7A2755C460BCCD6FDBFE02934BED7852');
INSERT INTO change (number) VALUES (9);
