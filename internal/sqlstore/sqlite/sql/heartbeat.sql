-- H3. :extensions is a JSON array of [id, seconds or null].
UPDATE __alkstore_live SET claim_expires_at = :now + coalesce(extension.value ->> 1, visibility_timeout_s)
FROM json_each(:extensions) AS extension
WHERE __alkstore_live.id = extension.value ->> 0;
