-- Which store this is and how it is encrypted.
CREATE TABLE store (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    id BLOB NOT NULL,
    -- The master key that opens `data_key`.
    key_id BLOB NOT NULL,
    key_nonce BLOB NOT NULL,
    data_key BLOB NOT NULL,
    -- Attests the list of tenants.
    nonce BLOB NOT NULL,
    seal BLOB NOT NULL
) STRICT;

-- Without row numbers and further indexes: a name stands in one place, which is also where it is looked up.
CREATE TABLE tenant (
    tenant TEXT PRIMARY KEY,
    -- The greatest version that was ever given out.
    last_version INTEGER NOT NULL,
    -- Attests the list of the tenant's secrets.
    nonce BLOB NOT NULL,
    seal BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE secret (
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    put_at INTEGER NOT NULL,
    expires_at INTEGER,
    nonce BLOB NOT NULL,
    sealed BLOB NOT NULL,
    PRIMARY KEY (tenant, name, version)
) STRICT, WITHOUT ROWID;
