PRAGMA wal_checkpoint(NOOP);
