-- The same job live and dead: the live row stays, since a job may run once more but must not be lost. Two different jobs
-- of one id stay as they are: only their owner knows.
DELETE FROM __alkstore_dead
WHERE EXISTS (
    SELECT 1 FROM __alkstore_live AS live
    WHERE live.id = __alkstore_dead.id AND live.queue = __alkstore_dead.queue AND live.created_at = __alkstore_dead.created_at
);
