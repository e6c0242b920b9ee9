-- S6: taken when free or expired, renewed by its owner. A row comes back exactly if the lock is now the owner's.
INSERT INTO __alkstore_locks (name, owner, expires_at) VALUES (:name, :owner, :now + :ttl_s)
ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, expires_at = excluded.expires_at
WHERE owner = excluded.owner OR expires_at < :now
RETURNING owner;
