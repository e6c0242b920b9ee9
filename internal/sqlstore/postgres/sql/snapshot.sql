-- Changes whenever any transaction of the server commits, wherever it began: the transactions in progress are in it.
SELECT CAST(pg_current_snapshot() AS text);
