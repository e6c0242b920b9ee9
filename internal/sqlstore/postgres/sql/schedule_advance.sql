UPDATE __alkstore_scheduler_tasks SET next_fire_at = :next_fire_at WHERE name = :name;
