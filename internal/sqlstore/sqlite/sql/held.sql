-- The one predicate of every operation on a claim (H1, C7). :claims is a JSON array of [id, fence].
SELECT job.id, job.fence, CAST(job.attempts AS INTEGER), CAST(job.max_attempts AS INTEGER), job.spilled != 0
FROM json_each(:claims) AS claim
CROSS JOIN __alkstore_live AS job
WHERE job.id = claim.value ->> 0
    AND job.fence = claim.value ->> 1
    AND job.state = 'processing'
    AND job.claim_expires_at >= :now;
