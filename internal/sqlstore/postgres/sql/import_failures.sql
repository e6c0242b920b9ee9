-- Failed attempts of jobs of another database.
INSERT INTO __alkstore_failures (job_id, fence, attempt, failed_at, error, stack)
SELECT *
FROM unnest(
    CAST(:ids AS bigint[]), CAST(:fences AS bigint[]), CAST(:attempts AS bigint[]), CAST(:failed_ats AS bigint[]),
    CAST(:errors AS text[]), CAST(:stacks AS text[])
);
