//! The format of the file of webhooks: how it is recognised and made.

use dalsegno_database::Format;

pub(crate) const FORMAT: Format = Format {
    what: "the file of webhooks",
    // `Dswh`
    application_id: 0x4473_7768,
    version: 1,
    tables: TABLES,
};

const TABLES: &str = "
CREATE TABLE endpoint (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT,
    url TEXT NOT NULL,
    -- NULL for all tenants.
    tenant TEXT,
    events TEXT NOT NULL,
    agent TEXT,
    root INTEGER NOT NULL,
    content INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    rotated_at INTEGER,
    created_at INTEGER NOT NULL,
    -- The number of the change up to which all is delivered or in `delivery`.
    position INTEGER NOT NULL,
    off_at INTEGER,
    off_reason TEXT,
    -- Of the failures since the last delivery that was accepted.
    failing_since INTEGER,
    failures INTEGER NOT NULL,
    resume_at INTEGER,
    failed_at INTEGER,
    failure TEXT,
    delivered_at INTEGER,
    delivered INTEGER NOT NULL,
    given_up INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE delivery (
    id TEXT PRIMARY KEY NOT NULL,
    endpoint TEXT NOT NULL,
    run BLOB NOT NULL,
    event TEXT NOT NULL,
    records INTEGER NOT NULL,
    change INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    failed_at INTEGER,
    next_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX delivery_due ON delivery (endpoint, next_at, change);
-- Runs whose end was seen, and the change that it was seen in: a later change of such a run is no end.
CREATE TABLE ended (
    run BLOB PRIMARY KEY NOT NULL,
    change INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
-- The digest of the key that the secrets of all endpoints are derived from.
CREATE TABLE root (
    id INTEGER PRIMARY KEY NOT NULL CHECK (id = 1),
    digest BLOB NOT NULL
) STRICT;
";
