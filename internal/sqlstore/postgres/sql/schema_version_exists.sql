-- Asks the catalogue itself: what a session knows about a name may be older than its transaction. The name is in two parts
-- so that it is not taken for a table of this statement.
SELECT EXISTS (
    SELECT 1 FROM pg_catalog.pg_class AS class
    JOIN pg_catalog.pg_namespace AS space ON space.oid = class.relnamespace
    WHERE space.nspname = CAST(:schema AS text) AND class.relname = '__alkstore' || '_schema'
);
