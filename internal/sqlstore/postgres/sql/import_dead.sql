-- Dead jobs of another database, as they are.
INSERT INTO __alkstore_dead (
    id, queue, payload, priority, run_at, claimed_at, attempts, max_attempts, created_at, expires_at, visibility_timeout_s,
    backoff_base_s, dead_letter_retention_s, fence, last_error, died_at, schedule, scheduled_for
)
SELECT *
FROM unnest(
    CAST(:ids AS bigint[]), CAST(:queues AS text[]), CAST(:payloads AS bytea[]), CAST(:priorities AS bigint[]),
    CAST(:run_ats AS bigint[]), CAST(:claimed_ats AS bigint[]), CAST(:attempts AS bigint[]),
    CAST(:max_attempts AS bigint[]), CAST(:created_ats AS bigint[]), CAST(:expire_ats AS bigint[]),
    CAST(:visibility_timeouts_s AS bigint[]), CAST(:backoff_bases_s AS bigint[]),
    CAST(:dead_letter_retentions_s AS bigint[]), CAST(:fences AS bigint[]), CAST(:errors AS text[]),
    CAST(:died_ats AS bigint[]), CAST(:schedules AS text[]), CAST(:scheduled_fors AS bigint[])
);
