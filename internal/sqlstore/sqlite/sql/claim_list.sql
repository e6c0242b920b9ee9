-- The ids of the jobs that claim_ready.sql gives, in its order, and the range of their fences.
SELECT json_group_array(id), min(fence), max(fence)
FROM (
    SELECT id, fence FROM __alkstore_live
    WHERE queue = :queue AND state = 'pending' AND priority = :priority AND run_at <= :now
        AND attempts < max_attempts AND lapsed_fence = 0
        AND (expires_at IS NULL OR expires_at >= :now)
    ORDER BY run_at, id
    LIMIT 0 + :limit
);
