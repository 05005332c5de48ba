-- A memory as the release of the first format wrote it down. It is read for ever.
PRAGMA application_id = 1399287149;
PRAGMA user_version = 1;
CREATE TABLE scope (
    id INTEGER PRIMARY KEY,
    level TEXT NOT NULL,
    tenant TEXT NOT NULL,
    workspace TEXT NOT NULL,
    agent TEXT NOT NULL,
    session TEXT NOT NULL,
    observation_count INTEGER NOT NULL DEFAULT 0,
    word_count INTEGER NOT NULL DEFAULT 0,
    UNIQUE (level, tenant, workspace, agent, session)
) STRICT;
CREATE TABLE entity (
    id INTEGER PRIMARY KEY,
    scope INTEGER NOT NULL REFERENCES scope (id),
    name TEXT NOT NULL,
    type TEXT NOT NULL,
    UNIQUE (scope, name)
) STRICT;
CREATE TABLE observation (
    id INTEGER PRIMARY KEY,
    public_id BLOB NOT NULL UNIQUE,
    entity INTEGER NOT NULL REFERENCES entity (id),
    word_count INTEGER NOT NULL,
    valid_from INTEGER NOT NULL,
    recorded_at INTEGER NOT NULL,
    content_hash BLOB NOT NULL,
    source_run TEXT,
    source_step INTEGER,
    metadata TEXT NOT NULL,
    text TEXT NOT NULL
) STRICT;
CREATE TABLE operation (
    scope INTEGER NOT NULL REFERENCES scope (id),
    id BLOB NOT NULL,
    digest BLOB NOT NULL,
    observation INTEGER NOT NULL REFERENCES observation (id),
    PRIMARY KEY (scope, id)
) STRICT, WITHOUT ROWID;
CREATE VIRTUAL TABLE word USING fts5 (
    token,
    content = '',
    contentless_delete = 1,
    tokenize = "ascii tokenchars '.'"
);
CREATE VIRTUAL TABLE word_occurrence USING fts5vocab (word, instance);
INSERT INTO scope (id, level, tenant, workspace, agent, session, observation_count, word_count)
    VALUES (1, 'workspace', 'acme', 'support', '', '', 3, 22);
INSERT INTO scope (id, level, tenant, workspace, agent, session, observation_count, word_count)
    VALUES (2, 'workspace', 'rival', 'support', '', '', 1, 8);
INSERT INTO entity (id, scope, name, type)
    VALUES (1, 1, 'INC-1 double charge', 'incident');
INSERT INTO entity (id, scope, name, type)
    VALUES (2, 1, 'INC-2 stuck queue', 'incident');
INSERT INTO entity (id, scope, name, type)
    VALUES (3, 1, 'runbook', 'note');
INSERT INTO entity (id, scope, name, type)
    VALUES (4, 2, 'INC-1 double charge', 'incident');
INSERT INTO observation (id, public_id, entity, word_count, valid_from, recorded_at, content_hash, source_run, source_step, metadata, text)
    VALUES (1, x'c6b09282a1956f4d6912b1f78418709b', 1, 8, 1700000000000, 1700000000000, x'2d19c6b36fb3fe3f2eaa2b594e3c6eba2d74a9a62b165f0d7d2c714ddc445f40', 'run-1', 3, '{"severity":"high"}', 'Cards were charged twice.');
INSERT INTO observation (id, public_id, entity, word_count, valid_from, recorded_at, content_hash, source_run, source_step, metadata, text)
    VALUES (2, x'167f735b0d15940068dd8c9e4a5b2773', 2, 9, 1700000000000, 1700000000000, x'daa0796531f2e264a56ee3ae5e200632b2b76a75adea5a1583235bd5ef279ca9', 'run-1', 3, '{"severity":"high"}', 'The refund queue was stuck.');
INSERT INTO observation (id, public_id, entity, word_count, valid_from, recorded_at, content_hash, source_run, source_step, metadata, text)
    VALUES (3, x'88b8ffd647f19b9020305764423acd8b', 3, 5, 5, 5, x'c908cee6a54a08209e298807ceba805edcbb4b78267dc1bbc15b1fb77ce2c652', NULL, NULL, '{}', 'Restart the payment worker.');
INSERT INTO observation (id, public_id, entity, word_count, valid_from, recorded_at, content_hash, source_run, source_step, metadata, text)
    VALUES (4, x'c2bae02cc5f9fcc8cebe3ad1c89d0289', 4, 8, 1700000000000, 1700000000000, x'497f55dea7fad19bb6966ccaae0d25561bee60d6e4cfa9a8bdf72ee22de9cc70', 'run-1', 3, '{"severity":"high"}', 'Theirs were charged twice.');
INSERT INTO operation (scope, id, digest, observation)
    VALUES (1, x'01010101010101010101010101010101', x'ef70e8c2f13f2fe591ef5829bfff9ca4', 1);
INSERT INTO operation (scope, id, digest, observation)
    VALUES (1, x'02020202020202020202020202020202', x'67ccf8094039be89a20fe24d123c8fc2', 2);
INSERT INTO operation (scope, id, digest, observation)
    VALUES (1, x'340af196e8891d061e7c6600cf31448c', x'4d56bc0f5bc93542b931db6fe99a944b', 3);
INSERT INTO operation (scope, id, digest, observation)
    VALUES (2, x'01010101010101010101010101010101', x'cf2cd7c99c27c23d79b48c832f2e5a94', 4);
INSERT INTO word (rowid, token)
    VALUES (1, '1.inc 1.1 1.doubl 1.charg 1.card 1.were 1.charg 1.twice');
INSERT INTO word (rowid, token)
    VALUES (2, '1.inc 1.2 1.stuck 1.queue 1.the 1.refund 1.queue 1.wa 1.stuck');
INSERT INTO word (rowid, token)
    VALUES (3, '1.runbook 1.restart 1.the 1.payment 1.worker');
INSERT INTO word (rowid, token)
    VALUES (4, '2.inc 2.1 2.doubl 2.charg 2.their 2.were 2.charg 2.twice');
