INSERT INTO __alkstore_schema (one, version) VALUES (1, :version)
ON CONFLICT (one) DO UPDATE SET version = excluded.version;
