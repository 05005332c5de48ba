-- Version 8: runs that a person paused are found by an index, as those that wait for something else.
CREATE INDEX run_waits_paused ON run (id) WHERE waiting & 64;
