-- Workers that would count as running for ever: one that runs announces itself again.
DELETE FROM __alkstore_workers WHERE typeof(expires_at) != 'integer' OR expires_at > :now + 366 * 86400;
