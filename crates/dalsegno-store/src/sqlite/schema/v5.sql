-- Version 5: runs that an archive brought are foreign, and none of the indexes by which work is found has them.
-- Who signed the archive: NULL for a run of this journal's own, 32 bytes (the key) or none for a foreign one.
ALTER TABLE run ADD COLUMN origin BLOB;
DROP INDEX run_start_key;
DROP INDEX run_wake_at;
DROP INDEX run_open_root;
DROP INDEX run_owner;
DROP INDEX run_ended;
CREATE UNIQUE INDEX run_start_key ON run (tenant, start_key) WHERE start_key IS NOT NULL AND origin IS NULL;
CREATE INDEX run_wake_at ON run (wake_at) WHERE wake_at IS NOT NULL AND origin IS NULL;
CREATE INDEX run_open_root ON run (tenant, session) WHERE parent IS NULL AND status < 2 AND origin IS NULL;
CREATE INDEX run_owner ON run (owner) WHERE status = 0 AND origin IS NULL;
-- A foreign run is as good as ended: nobody performs it.
CREATE INDEX run_ended ON run (updated_at) WHERE status >= 2 OR origin IS NOT NULL;
-- What a fork and an adopted run begin with is another run's, which must stay as long as they do.
DROP INDEX record_forked;
CREATE INDEX record_sources ON record (key) WHERE kind IN (9, 20);
