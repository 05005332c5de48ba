-- Version 4: suspended and ended runs whose process died before it released them.
CREATE INDEX run_held ON run (owner) WHERE owner IS NOT NULL AND (status = 1 OR status >= 2 AND waiting <> 0);
