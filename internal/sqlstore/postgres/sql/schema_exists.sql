SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = CAST(:schema AS text));
