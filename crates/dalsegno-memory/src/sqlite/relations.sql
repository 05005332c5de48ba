-- What no longer stands has an end; its words are not in the index, nor in the statistics of its scope.
-- `superseded_by` is the content hash of another observation about the same entity.
ALTER TABLE observation ADD COLUMN valid_to INTEGER;
ALTER TABLE observation ADD COLUMN superseded_by BLOB;

-- The observations of an entity, the newest first.
CREATE INDEX observation_of_entity ON observation (entity, valid_from DESC, public_id, valid_to);

-- Relations between entities of one scope. What changes is ended and begun anew, so that the periods of one
-- relation follow each other; the source is null when no run wrote it, as is the other when no run ended it.
CREATE TABLE relation (
    from_entity INTEGER NOT NULL REFERENCES entity (id),
    type TEXT NOT NULL,
    to_entity INTEGER NOT NULL REFERENCES entity (id),
    valid_from INTEGER NOT NULL,
    valid_to INTEGER,
    strength REAL NOT NULL,
    recorded_at INTEGER NOT NULL,
    source_run TEXT,
    source_step INTEGER,
    ended_run TEXT,
    ended_step INTEGER,
    PRIMARY KEY (from_entity, type, to_entity, valid_from)
) STRICT, WITHOUT ROWID;

-- At most one of them stands.
CREATE UNIQUE INDEX relation_standing ON relation (from_entity, type, to_entity) WHERE valid_to IS NULL;

-- The other way round, with all that a walk reads.
CREATE INDEX relation_backwards ON relation (to_entity, type, from_entity, valid_from, valid_to, strength);

-- An operation may write something else than an observation.
CREATE TABLE operation_of_any_kind (
    scope INTEGER NOT NULL REFERENCES scope (id),
    id BLOB NOT NULL,
    digest BLOB NOT NULL,
    observation INTEGER REFERENCES observation (id),
    PRIMARY KEY (scope, id)
) STRICT, WITHOUT ROWID;
INSERT INTO operation_of_any_kind (scope, id, digest, observation)
SELECT scope, id, digest, observation FROM operation;
DROP TABLE operation;
ALTER TABLE operation_of_any_kind RENAME TO operation;
