-- H4 with attempts left. :retries is a JSON array of [id, delay in seconds, error]. The job has answered: no suspect.
UPDATE __alkstore_live SET
    state            = 'pending',
    run_at           = :now + (retry.value ->> 1),
    last_error       = retry.value ->> 2,
    claimant         = NULL,
    claimed_at       = NULL,
    claim_expires_at = NULL,
    lapsed_fence     = 0
FROM json_each(:retries) AS retry
WHERE __alkstore_live.id = retry.value ->> 0;
