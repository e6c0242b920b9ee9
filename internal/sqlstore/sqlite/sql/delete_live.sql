DELETE FROM __alkstore_live WHERE id IN (SELECT value FROM json_each(:ids));
