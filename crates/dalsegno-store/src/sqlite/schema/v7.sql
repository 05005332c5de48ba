-- Version 7: the number of the latest change of each run's status, from one counter, so that changes are followed in order.
ALTER TABLE run ADD COLUMN changed INTEGER NOT NULL DEFAULT 0;
UPDATE run SET changed = id;
CREATE INDEX run_changed ON run (changed);
CREATE TABLE change (
    -- One row: the number that was given last. No number is given twice, even where the run that had it is gone.
    number INTEGER NOT NULL
) STRICT;
INSERT INTO change (number) SELECT coalesce(max(id), 0) FROM run;
