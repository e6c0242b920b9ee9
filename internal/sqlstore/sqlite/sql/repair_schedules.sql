-- A schedule without a name, which no command could name, gets one.
UPDATE OR IGNORE __alkstore_scheduler_tasks SET name = 'nameless-' || rowid WHERE typeof(name) != 'text';
