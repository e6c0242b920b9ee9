DELETE FROM __alkstore_payloads WHERE id IN (SELECT value FROM json_each(:ids));
