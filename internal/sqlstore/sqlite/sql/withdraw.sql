-- Takes the lapsed rows of workers that died along.
DELETE FROM __alkstore_workers WHERE worker = :worker OR expires_at < :now;
