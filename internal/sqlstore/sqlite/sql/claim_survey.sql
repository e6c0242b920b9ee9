-- What a claim has to know of :queue before it looks for jobs: the time (T1); the highest and the lowest priority of what
-- waits, be it ready or delayed, NULL if nothing does; whether there may be exhausted jobs (C6), which claim_exhausted.sql
-- finds; and whether the queue is paused.
SELECT
    unixepoch(),
    (SELECT priority FROM __alkstore_live WHERE queue = :queue AND state = 'pending' ORDER BY priority DESC LIMIT 1),
    (SELECT priority FROM __alkstore_live WHERE queue = :queue AND state = 'pending' ORDER BY priority LIMIT 1),
    EXISTS (SELECT 1 FROM __alkstore_live WHERE queue = :queue AND attempts >= max_attempts),
    EXISTS (SELECT 1 FROM __alkstore_queues WHERE queue = :queue AND paused = 1);
