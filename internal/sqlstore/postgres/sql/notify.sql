-- Tells the listeners of all processes. The server sends it at commit, and equal ones of a transaction only once.
SELECT pg_notify('__alkstore', note) FROM unnest(CAST(:notes AS text[])) AS note;
