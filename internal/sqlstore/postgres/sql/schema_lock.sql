-- Of several processes that migrate one schema at the same moment, the first does it and the others find it done.
SELECT pg_advisory_xact_lock(hashtextextended(concat_ws(' ', '__alkstore schema', CAST(:schema AS text)), 0));
