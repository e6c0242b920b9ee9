-- New jobs of no schedule that have all in common but their payloads (E1-E4), in the order of :places. AUTOINCREMENT gives
-- the ids, one after the other. :payloads is the payloads end to end with a byte behind them, so that even of none there
-- is an empty one, and :places a JSON array that says where in it each one is: 2048 times the place of its first byte, from
-- 1 on, plus its length.
--
-- Without :now it is the clock's, from which :run_at counts. In a sum of more than it, SQLite asks the clock once.
--
-- Each row takes a hundred steps of SQLite's machine, and each step counts. What a column has by default takes none. LIMIT
-- with WHERE keeps SQLite from merging the two selects, after which it would ask json_each thrice for each place.
INSERT INTO __alkstore_live (
    queue, payload, payload_size, priority, run_at, created_at, expires_at, visibility_timeout_s, max_attempts,
    backoff_base_s, dead_letter_retention_s
)
SELECT
    :queue, substr(:payloads, place >> 11, place & 2047), place & 2047, :priority,
    :run_at + iif(:now IS NULL, unixepoch(), 0), coalesce(:now, unixepoch()) + 0, :expires_at, :visibility_timeout_s,
    :max_attempts, :backoff_base_s, :dead_letter_retention_s
FROM (SELECT value AS place FROM json_each(:places) LIMIT -1)
WHERE true;
