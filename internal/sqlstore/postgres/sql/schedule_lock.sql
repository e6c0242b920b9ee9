-- Makes changes of one schedule take turns until the transaction ends, also while it does not exist yet.
SELECT pg_advisory_xact_lock(hashtextextended(concat_ws(' ', '__alkstore schedule', CAST(:schema AS text), CAST(:name AS text)), 0));
