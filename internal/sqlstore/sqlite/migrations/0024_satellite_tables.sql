-- Large payloads, live and dead. A move between the two job tables leaves them where they are.
CREATE TABLE IF NOT EXISTS __alkstore_payloads (
    id      INTEGER PRIMARY KEY,
    payload BLOB NOT NULL
);

-- Failed attempts, the newest ten of a job (H10). The fence names the attempt, since attempts start anew on requeue.
CREATE TABLE IF NOT EXISTS __alkstore_failures (
    job_id    INTEGER NOT NULL,
    fence     INTEGER NOT NULL,
    attempt   INTEGER NOT NULL,
    failed_at INTEGER NOT NULL,
    error     TEXT    NOT NULL,
    stack     TEXT    NOT NULL,
    PRIMARY KEY (job_id, fence)
) WITHOUT ROWID;

-- Queues that somebody paused. A queue without a row runs.
CREATE TABLE IF NOT EXISTS __alkstore_queues (
    queue  TEXT PRIMARY KEY,
    paused INTEGER NOT NULL
) WITHOUT ROWID;

-- Which queues the running workers serve. A worker that died is forgotten when its row lapses.
CREATE TABLE IF NOT EXISTS __alkstore_workers (
    worker     TEXT    NOT NULL,
    queue      TEXT    NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (queue, worker)
) WITHOUT ROWID;

-- Leases that are not about jobs (S6).
CREATE TABLE IF NOT EXISTS __alkstore_locks (
    name       TEXT PRIMARY KEY,
    owner      TEXT    NOT NULL,
    expires_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS __alkstore_scheduler_tasks (
    name                    TEXT PRIMARY KEY,
    queue                   TEXT    NOT NULL,
    spec                    TEXT    NOT NULL,
    payload                 BLOB    NOT NULL,
    priority                INTEGER NOT NULL,
    expires_s               INTEGER,
    visibility_timeout_s    INTEGER NOT NULL,
    max_attempts            INTEGER NOT NULL,
    backoff_base_s          INTEGER NOT NULL,
    dead_letter_retention_s INTEGER,
    anchor                  INTEGER,
    catch_up                INTEGER NOT NULL,
    next_fire_at            INTEGER NOT NULL,
    paused                  INTEGER NOT NULL,
    created_at              INTEGER NOT NULL
);
