-- The oldest shape of the two job tables. Files that have no version have at least these.
-- AUTOINCREMENT keeps an id from being used again after its row is gone (E1).
CREATE TABLE IF NOT EXISTS __alkstore_live (
    id               INTEGER PRIMARY KEY AUTOINCREMENT,
    queue            TEXT    NOT NULL,
    payload          BLOB    NOT NULL,
    state            TEXT    NOT NULL DEFAULT 'pending',
    priority         INTEGER NOT NULL DEFAULT 0,
    run_at           INTEGER NOT NULL,
    claimant         TEXT,
    claim_expires_at INTEGER,
    attempts         INTEGER NOT NULL DEFAULT 0,
    max_attempts     INTEGER NOT NULL,
    created_at       INTEGER NOT NULL,
    expires_at       INTEGER
);

CREATE TABLE IF NOT EXISTS __alkstore_dead (
    id           INTEGER PRIMARY KEY,
    queue        TEXT    NOT NULL,
    payload      BLOB    NOT NULL,
    state        TEXT    NOT NULL DEFAULT 'dead',
    priority     INTEGER NOT NULL DEFAULT 0,
    run_at       INTEGER NOT NULL,
    attempts     INTEGER NOT NULL DEFAULT 0,
    max_attempts INTEGER NOT NULL,
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER,
    last_error   TEXT,
    died_at      INTEGER NOT NULL
);
