-- One row for each scope that was ever written. Names that do not matter at a level are empty. The two sums
-- are the statistics that BM25 needs, kept for each scope so that scopes cannot be seen in each other's.
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

-- Times are milliseconds since the epoch. `public_id` is derived from scope, entity and content. The source
-- is null for seeds. `word_count` stands before the long columns, so that ranking reads no overflow page.
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

-- Which operations have written, and what they stood for. Keyed within a scope: nobody can learn from
-- another's.
CREATE TABLE operation (
    scope INTEGER NOT NULL REFERENCES scope (id),
    id BLOB NOT NULL,
    digest BLOB NOT NULL,
    observation INTEGER NOT NULL REFERENCES observation (id),
    PRIMARY KEY (scope, id)
) STRICT, WITHOUT ROWID;

-- The full-text index. A token is the id of the scope, a dot and the stem of a word (`17.refund`). The
-- words arrive ready made; `ascii` only cuts them at the spaces. The text itself is not kept a second time.
CREATE VIRTUAL TABLE word USING fts5 (
    token,
    content = '',
    contentless_delete = 1,
    tokenize = "ascii tokenchars '.'"
);

-- Every occurrence of a token, by token.
CREATE VIRTUAL TABLE word_occurrence USING fts5vocab (word, instance);
