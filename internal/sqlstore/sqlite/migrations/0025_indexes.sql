-- An older file may have indexes of these names, and not necessarily these.
DROP INDEX IF EXISTS __alkstore_live_ready;
DROP INDEX IF EXISTS __alkstore_live_leases;
DROP INDEX IF EXISTS __alkstore_live_spent;
DROP INDEX IF EXISTS __alkstore_live_suspects;
DROP INDEX IF EXISTS __alkstore_live_tried;
DROP INDEX IF EXISTS __alkstore_live_expiry;
DROP INDEX IF EXISTS __alkstore_dead_queue;
DROP INDEX IF EXISTS __alkstore_dead_retention;
DROP INDEX IF EXISTS __alkstore_scheduler_tasks_due;

-- claim_levels.sql, claim_ready.sql and next_ready.sql: the claim order (C2). Dead rows are in another table and processing
-- rows outside (T3).
CREATE INDEX __alkstore_live_ready ON __alkstore_live (queue, priority DESC, run_at, id) WHERE state = 'pending';

-- claim_suspects.sql and next_ready.sql: claims whose deadline has passed.
CREATE INDEX __alkstore_live_leases ON __alkstore_live (queue, claim_expires_at) WHERE state = 'processing';

-- claim_exhausted.sql: the hunt for jobs that have spent their attempts (C6). Holds jobs on their last attempt only, and
-- with the deadline in it, those that are still being worked on cost nothing.
CREATE INDEX __alkstore_live_spent ON __alkstore_live (queue, state, claim_expires_at) WHERE attempts >= max_attempts;

-- claim_suspects.sql: jobs whose earlier claim lapsed, which workers run apart. Nearly always empty.
CREATE INDEX __alkstore_live_suspects ON __alkstore_live (queue, run_at) WHERE lapsed_fence > 0;

-- idle.sql: jobs that wait for another attempt.
CREATE INDEX __alkstore_live_tried ON __alkstore_live (queue) WHERE state = 'pending' AND attempts > 0;

-- sweep_expired.sql (D2).
CREATE INDEX __alkstore_live_expiry ON __alkstore_live (queue, expires_at) WHERE expires_at IS NOT NULL;

-- list.sql, dead_matching_queue.sql.
CREATE INDEX __alkstore_dead_queue ON __alkstore_dead (queue, id);

-- sweep_retention.sql (D2).
CREATE INDEX __alkstore_dead_retention ON __alkstore_dead (queue, died_at + dead_letter_retention_s)
    WHERE dead_letter_retention_s IS NOT NULL;

-- schedule_soonest.sql, schedule_due.sql (S5).
CREATE INDEX __alkstore_scheduler_tasks_due ON __alkstore_scheduler_tasks (next_fire_at) WHERE paused = 0;
