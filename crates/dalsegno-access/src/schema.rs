//! The format of the file of keys: how it is recognised and made.

use dalsegno_database::Format;

pub(crate) const FORMAT: Format = Format {
    what: "the file of access keys",
    // `Dsac`
    application_id: 0x4473_6163,
    version: 1,
    tables: TABLES,
};

const TABLES: &str = "
CREATE TABLE key (
    id TEXT PRIMARY KEY NOT NULL,
    digest BLOB NOT NULL,
    name TEXT,
    -- NULL for all tenants.
    tenant TEXT,
    scopes TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    used_at INTEGER,
    revoked_at INTEGER
) STRICT, WITHOUT ROWID;
";
