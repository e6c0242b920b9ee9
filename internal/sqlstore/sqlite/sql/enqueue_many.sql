-- New jobs of no schedule that have all in common but their payloads (E1-E4), in the order of :places. AUTOINCREMENT gives
-- the ids, one after the other. :payloads is the payloads end to end, and :places a JSON array that says where in it each
-- one is: 2048 times how many bytes are before it, plus its length.
--
-- Without :now it is the clock's, from which :run_at counts. In a sum of more than it, SQLite asks the clock once.
--
-- LIMIT with WHERE keeps SQLite from merging the two selects, after which it would ask json_each thrice for each place.
INSERT INTO __alkstore_live (
    queue, payload, payload_size, state, priority, run_at, created_at, expires_at, attempts, visibility_timeout_s,
    max_attempts, backoff_base_s, dead_letter_retention_s
)
SELECT
    :queue, coalesce(substr(:payloads, (place >> 11) + 1, place & 2047), x''), place & 2047, 'pending', :priority,
    :run_at + iif(:now IS NULL, unixepoch(), 0), coalesce(:now, unixepoch()) + 0, :expires_at, 0, :visibility_timeout_s,
    :max_attempts, :backoff_base_s, :dead_letter_retention_s
FROM (SELECT value AS place FROM json_each(:places) LIMIT -1)
WHERE true;
