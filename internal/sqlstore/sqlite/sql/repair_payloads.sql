-- Payloads that no job has.
DELETE FROM __alkstore_payloads
WHERE NOT EXISTS (SELECT 1 FROM __alkstore_live WHERE id = __alkstore_payloads.id AND spilled != 0)
    AND NOT EXISTS (SELECT 1 FROM __alkstore_dead WHERE id = __alkstore_payloads.id AND spilled != 0);
