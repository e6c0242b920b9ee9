-- SQLite ends each entry of an index with the id: to name it would store it twice.
DROP INDEX IF EXISTS __alkstore_live_ready;
DROP INDEX IF EXISTS __alkstore_live_tried;

-- claim_levels.sql, claim_ready.sql and next_ready.sql: the claim order (C2). Dead rows are in another table and processing
-- rows outside (T3).
CREATE INDEX __alkstore_live_ready ON __alkstore_live (queue, priority DESC, run_at) WHERE state = 'pending';

-- idle.sql: jobs that wait for another attempt. Of two indexes that would do, SQLite takes the younger one.
CREATE INDEX __alkstore_live_tried ON __alkstore_live (queue) WHERE state = 'pending' AND attempts > 0;
