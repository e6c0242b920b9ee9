-- Locks that would never be free again: whoever holds one takes it again.
DELETE FROM __alkstore_locks WHERE typeof(expires_at) != 'integer' OR expires_at > :now + 366 * 86400;
