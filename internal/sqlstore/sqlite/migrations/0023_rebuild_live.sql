-- A live table without AUTOINCREMENT would give the ids of finished jobs away again (E1). SQLite cannot add it to a
-- table, nor a default, so the rows move to a new one. Only for such files.
ALTER TABLE __alkstore_live RENAME TO __alkstore_live_oldest;

CREATE TABLE __alkstore_live (
    id                      INTEGER PRIMARY KEY AUTOINCREMENT,
    queue                   TEXT    NOT NULL,
    payload                 BLOB    NOT NULL,
    state                   TEXT    NOT NULL DEFAULT 'pending',
    priority                INTEGER NOT NULL DEFAULT 0,
    run_at                  INTEGER NOT NULL,
    claimant                TEXT,
    claim_expires_at        INTEGER,
    attempts                INTEGER NOT NULL DEFAULT 0,
    max_attempts            INTEGER NOT NULL,
    created_at              INTEGER NOT NULL,
    expires_at              INTEGER,
    visibility_timeout_s    INTEGER NOT NULL DEFAULT 30,
    backoff_base_s          INTEGER NOT NULL DEFAULT 5,
    dead_letter_retention_s INTEGER DEFAULT 7776000,
    fence                   INTEGER NOT NULL DEFAULT 0,
    claimed_at              INTEGER,
    last_error              TEXT,
    schedule                TEXT,
    scheduled_for           INTEGER,
    payload_size            INTEGER,
    spilled                 INTEGER NOT NULL DEFAULT 0,
    lapsed_fence            INTEGER NOT NULL DEFAULT 0
);

INSERT INTO __alkstore_live (
    id, queue, payload, state, priority, run_at, claimant, claim_expires_at, attempts, max_attempts, created_at,
    expires_at, visibility_timeout_s, backoff_base_s, dead_letter_retention_s, fence, claimed_at, last_error, schedule,
    scheduled_for, payload_size, spilled, lapsed_fence
)
SELECT
    id, coalesce(queue, ''), coalesce(payload, x''), coalesce(state, 'pending'), coalesce(priority, 0),
    coalesce(run_at, created_at, unixepoch()), claimant, claim_expires_at, coalesce(attempts, 0),
    coalesce(max_attempts, 20), coalesce(created_at, run_at, unixepoch()), expires_at, visibility_timeout_s,
    backoff_base_s, dead_letter_retention_s, fence, claimed_at, last_error, schedule, scheduled_for, payload_size,
    spilled, lapsed_fence
FROM __alkstore_live_oldest
ORDER BY id;

DROP TABLE __alkstore_live_oldest;
