-- H6. :releases is a JSON array of [id, delay in seconds].
UPDATE __alkstore_live SET
    state            = 'pending',
    run_at           = :now + (release.value ->> 1),
    attempts         = attempts - 1,
    claimant         = NULL,
    claimed_at       = NULL,
    claim_expires_at = NULL
FROM json_each(:releases) AS release
WHERE __alkstore_live.id = release.value ->> 0;
