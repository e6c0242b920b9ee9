DELETE FROM __alkstore_dead WHERE id IN (SELECT value FROM json_each(:ids));
