DELETE FROM __alkstore_scheduler_tasks WHERE name = :name RETURNING name;
