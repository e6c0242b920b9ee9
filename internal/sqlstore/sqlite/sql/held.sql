-- The claims of :ids that hold (H1, C7), as far as the database can tell without their fences, each with its place in
-- :ids, a JSON array.
SELECT
    claim.key, job.fence, CAST(job.attempts AS INTEGER), CAST(job.max_attempts AS INTEGER), job.spilled != 0
FROM json_each(:ids) AS claim
CROSS JOIN __alkstore_live AS job
WHERE job.id = claim.value AND job.state = 'processing' AND job.claim_expires_at >= :now;
