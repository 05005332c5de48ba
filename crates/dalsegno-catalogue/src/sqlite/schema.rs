//! The format of the file of documents: how it is recognised and made.

use dalsegno_database::Format;

pub(super) const FORMAT: Format = Format {
    what: "the catalogue of documents",
    // `Dsca`
    application_id: 0x4473_6361,
    version: 1,
    tables: TABLES,
};

const TABLES: &str = "
CREATE TABLE state (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    generation INTEGER NOT NULL
) STRICT;
INSERT INTO state (id, generation) VALUES (1, 0);
CREATE TABLE change (
    -- Empty for a document of the workspace.
    tenant TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    number INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    -- NULL for a deletion, as the text is.
    version TEXT,
    bytes INTEGER NOT NULL,
    at INTEGER NOT NULL,
    by_key TEXT NOT NULL,
    by_name TEXT,
    -- Whether it is the newest one of its document.
    is_last INTEGER NOT NULL,
    -- The last column: what only asks for the others reads none of it.
    text TEXT,
    PRIMARY KEY (tenant, kind, name, number)
) STRICT;
CREATE INDEX change_last ON change (tenant, kind, name, version, bytes) WHERE is_last = 1;
";
