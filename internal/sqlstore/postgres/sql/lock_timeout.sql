-- How long this transaction waits for each lock: milliseconds, or what a setting of the server may be.
SELECT set_config('lock_timeout', CAST(:timeout AS text), true);
