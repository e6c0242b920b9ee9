DELETE FROM __alkstore_locks WHERE name = :name AND owner = :owner;
