-- The same job live and dead: the live row stays, since a job may run once more but must not be lost. Two different jobs
-- of one id stay as they are: only their owner knows.
DELETE FROM __alkstore_dead AS dead USING __alkstore_live AS live
WHERE live.id = dead.id AND live.queue = dead.queue AND live.created_at = dead.created_at;
