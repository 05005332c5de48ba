-- The seed files that a scope has taken in whole, by the digest of their bytes: such a file is not read once more.
CREATE TABLE seed (
    scope INTEGER NOT NULL REFERENCES scope (id),
    digest BLOB NOT NULL,
    PRIMARY KEY (scope, digest)
) STRICT, WITHOUT ROWID;
